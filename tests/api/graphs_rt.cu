// SPDX-License-Identifier: Apache-2.0
//
// Capture, graphs and host functions as programs write them: the runtime, a
// static libcudart, several streams. Prints a line for each fact.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define OK(call) must((call), #call, __LINE__)

static int failed;

static void
must(cudaError_t r, const char *call, int line)
{
	if (r == cudaSuccess)
		return;
	printf("FAIL line %d: %s: %s\n", line, call, cudaGetErrorString(r));
	exit(1);
}

static void
fact(bool good, const char *text)
{
	printf("%s %s\n", good ? "ok  " : "FAIL", text);
	failed |= !good;
}

enum { N = 100000 };

__global__ void
scale(float *p, float by, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] *= by;
}

__global__ void
add(float *to, const float *from, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		to[i] += from[i];
}

struct count {
	int calls;
	const float *seen;
	float last;
};

static void CUDART_CB
host(void *arg)
{
	count *c = (count *)arg;

	c->calls++;
	c->last = c->seen[N - 1];
}

__global__ void
down(int *left, int *rounds, cudaGraphConditionalHandle go_on)
{
	++*rounds;
	cudaGraphSetConditional(go_on, --*left > 0);
}

/* A loop, its body captured. */
static void
conditional(cudaStream_t stream)
{
	cudaGraphNodeParams p = { cudaGraphNodeTypeConditional };
	cudaGraphConditionalHandle go_on;
	int got[2] = { 5, 0 }, *n;
	cudaGraphExec_t exec;
	cudaGraphNode_t node;
	cudaGraph_t graph;

	OK(cudaMalloc(&n, sizeof(got)));
	OK(cudaMemcpy(n, got, sizeof(got), cudaMemcpyHostToDevice));
	OK(cudaGraphCreate(&graph, 0));
	OK(cudaGraphConditionalHandleCreate(&go_on, graph, 1,
					    cudaGraphCondAssignDefault));
	p.conditional.handle = go_on;
	p.conditional.type = cudaGraphCondTypeWhile;
	p.conditional.size = 1;
#if CUDART_VERSION >= 13000
	OK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &p));
#else
	OK(cudaGraphAddNode(&node, graph, NULL, 0, &p));
#endif
	OK(cudaStreamBeginCaptureToGraph(stream, p.conditional.phGraph_out[0],
		NULL, NULL, 0, cudaStreamCaptureModeGlobal));
	down<<<1, 1, 0, stream>>>(n, n + 1, go_on);
	OK(cudaGetLastError());
	OK(cudaStreamEndCapture(stream, NULL));
	OK(cudaGraphInstantiate(&exec, graph, 0));
	OK(cudaGraphDestroy(graph));
	OK(cudaGraphLaunch(exec, stream));
	OK(cudaStreamSynchronize(stream));
	OK(cudaMemcpy(got, n, sizeof(got), cudaMemcpyDeviceToHost));
	fact(got[0] == 0 && got[1] == 5, "a loop in a graph");
	OK(cudaGraphExecDestroy(exec));
	OK(cudaFree(n));
}

/* What a node launches is told by the name that the program knows. */
static void
parameters(float *x)
{
	float by = 2;
	int n = N;
	void *args[] = { &x, &by, &n }, *sum[] = { &x, &x, &n };
	cudaKernelNodeParams p = {}, got = {};
	cudaGraph_t graph, parent, child;
	cudaGraphNode_t node, inner;
	cudaGraphExec_t exec;
	cudaKernel_t kernel;
	size_t count = 1;
	float first;

	p.func = (void *)scale;
	p.gridDim = dim3((N + 255) / 256);
	p.blockDim = dim3(256);
	p.kernelParams = args;
	OK(cudaGraphCreate(&graph, 0));
	OK(cudaGraphAddKernelNode(&node, graph, NULL, 0, &p));
	OK(cudaGraphKernelNodeGetParams(node, &got));
	OK(cudaGetKernel(&kernel, (const void *)scale));
	fact(got.func == (void *)scale || got.func == (void *)kernel,
	     "a node's kernel has its name");
	fact(*(float *)got.kernelParams[1] == 2.0f, "and its parameters");
	OK(cudaGraphKernelNodeSetParams(node, &got));
	OK(cudaGraphCreate(&parent, 0));
	OK(cudaGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
	OK(cudaGraphInstantiate(&exec, parent, 0));
	OK(cudaGraphChildGraphNodeGetGraph(node, &child));
	OK(cudaGraphGetNodes(child, &inner, &count));
	p.func = (void *)add;
	p.kernelParams = sum;
	OK(cudaGraphKernelNodeSetParams(inner, &p));
	OK(cudaGraphKernelNodeGetParams(inner, &got));
	OK(cudaGetKernel(&kernel, (const void *)add));
	fact(got.func == (void *)add || got.func == (void *)kernel,
	     "another kernel has its own");
	OK(cudaGraphExecChildGraphNodeSetParams(exec, node, child));
	OK(cudaMemset(x, 0x3f, 4));
	OK(cudaGraphLaunch(exec, 0));
	OK(cudaMemcpy(&first, x, 4, cudaMemcpyDeviceToHost));
	fact(first > 1.49f && first < 1.5f, "and runs");
	OK(cudaGraphExecDestroy(exec));
	OK(cudaGraphDestroy(parent));
	OK(cudaGraphDestroy(graph));
}

int
main()
{
	float *x, *y, *out;
	std::vector<float> in(N, 1.5f);
	cudaStream_t a, b;
	cudaEvent_t fork, join;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	int blocks = (N + 255) / 256;
	size_t nodes = 0;

	OK(cudaMalloc(&x, N * sizeof(float)));
	OK(cudaMalloc(&y, N * sizeof(float)));
	OK(cudaMallocHost(&out, N * sizeof(float)));
	OK(cudaStreamCreate(&a));
	OK(cudaStreamCreate(&b));
	OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	count c = { 0, out, 0 };

	OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
	OK(cudaMemcpyAsync(x, in.data(), N * sizeof(float),
			   cudaMemcpyHostToDevice, a));
	OK(cudaEventRecord(fork, a));
	OK(cudaStreamWaitEvent(b, fork, 0));
	OK(cudaMemsetAsync(y, 0, N * sizeof(float), b));
	add<<<blocks, 256, 0, b>>>(y, x, N);
	OK(cudaGetLastError());
	OK(cudaEventRecord(join, b));
	OK(cudaStreamWaitEvent(a, join, 0));
	scale<<<blocks, 256, 0, a>>>(x, 4.0f, N);
	OK(cudaGetLastError());
	add<<<blocks, 256, 0, a>>>(y, x, N);
	OK(cudaMemcpyAsync(out, y, N * sizeof(float), cudaMemcpyDeviceToHost,
			   a));
	OK(cudaLaunchHostFunc(a, host, &c));
	OK(cudaStreamEndCapture(a, &graph));
	OK(cudaGraphGetNodes(graph, NULL, &nodes));
	printf("     %zu nodes\n", nodes);
	OK(cudaGraphInstantiate(&exec, graph, 0));
	OK(cudaGraphDestroy(graph));
	for (int i = 0; i < 10; i++)
		OK(cudaGraphLaunch(exec, a));
	OK(cudaStreamSynchronize(a));
	fact(c.calls == 10, "the captured host function ran at each launch");
	fact(c.last == out[N - 1] && c.last == 7.5f,
	     "and saw the result");
	OK(cudaGraphExecDestroy(exec));

	c.calls = 0;
	scale<<<blocks, 256, 0, a>>>(y, 0.0f, N);
	OK(cudaMemcpyAsync(out, y, N * sizeof(float), cudaMemcpyDeviceToHost,
			   a));
	OK(cudaLaunchHostFunc(a, host, &c));
	OK(cudaStreamSynchronize(a));
	fact(c.calls == 1 && c.last == 0.0f, "a host function in a stream");

	/* The thread's capture mode forbids this, and ends the capture. */
	OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
	void *p;
	fact(cudaMalloc(&p, 16) == cudaErrorStreamCaptureUnsupported,
	     "cudaMalloc in a capture of mode global");
	fact(cudaStreamEndCapture(a, &graph) ==
	     cudaErrorStreamCaptureInvalidated, "which it invalidates");
	cudaGetLastError();
	parameters(x);
	conditional(a);
	OK(cudaDeviceSynchronize());
	printf("%s\n", failed ? "some facts are not so" : "all as it should be");
	return failed;
}
