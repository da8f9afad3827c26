/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture, graphs and host functions through the driver API. Prints a
 * line for each fact; the same program on a real driver must print the same
 * lines. Exit status 1 when a fact is not so.
 *
 *     graphs        all of it
 *     graphs hold   leaves everything open, says so, and waits to be killed
 *     graphs unload destroys module, event and memory under a graph that needs
 *                   them (natively undefined; under the shim it must not harm)
 */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	/* p[0] += 1 */
	".visible .entry bump(.param .u64 p)\n{\n"
	" .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
	" ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1];\n"
	" add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1; ret;\n}\n"
	/* p[0] = p[0] * k + c */
	".visible .entry mad(.param .u64 p, .param .u32 k, .param .u32 c)\n{\n"
	" .reg .b32 %r<5>; .reg .b64 %d<2>;\n"
	" ld.param.u64 %d1, [p]; ld.param.u32 %r2, [k]; ld.param.u32 %r3, [c];\n"
	" ld.global.u32 %r1, [%d1]; mad.lo.u32 %r4, %r1, %r2, %r3;\n"
	" st.global.u32 [%d1], %r4; ret;\n}\n"
	/* q[0] = p[0] + c */
	".visible .entry copy(.param .u64 q, .param .u64 p, .param .u32 c)\n{\n"
	" .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
	" ld.param.u64 %d1, [q]; ld.param.u64 %d2, [p]; ld.param.u32 %r2, [c];\n"
	" ld.global.u32 %r1, [%d2]; add.u32 %r3, %r1, %r2;\n"
	" st.global.u32 [%d1], %r3; ret;\n}\n";

static CUdevice device;
static CUcontext context;
static CUmodule module;
static CUfunction bump, mad, copy;
static CUdeviceptr memory;         /* 4096 words */
static uint32_t *pinned;           /* 1024 words */
static CUstream a, b, blocking;
static CUevent event, other;
static int failed;

#define MODE CU_STREAM_CAPTURE_MODE_RELAXED

static void
fact(int good, const char *text)
{
	printf("%s %s\n", good ? "ok  " : "FAIL", text);
	fflush(stdout);
	failed |= !good;
}

static void
fact_is(long want, long got, const char *text)
{
	if (want == got)
		printf("ok   %s: %ld\n", text, got);
	else
		printf("FAIL %s: %ld, not %ld\n", text, got, want);
	fflush(stdout);
	failed |= want != got;
}

static void
must(CUresult r, const char *call, int line)
{
	if (r == CUDA_SUCCESS)
		return;
	printf("FAIL line %d: %s gave %d\n", line, call, (int)r);
	exit(1);
}
#define OK(call) must((call), #call, __LINE__)

/* ---- help ---- */

static void
poke(unsigned word, uint32_t value)
{
	OK(cuMemcpyHtoD(memory + 4 * word, &value, 4));
	OK(cuStreamSynchronize(NULL));
}

static uint32_t
peek(unsigned word)
{
	uint32_t value = 0;

	OK(cuMemcpyDtoH(&value, memory + 4 * word, 4));
	return value;
}

static void
launch_bump(CUstream stream, unsigned word)
{
	CUdeviceptr p = memory + 4 * word;
	void *args[] = { &p };

	OK(cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static void
launch_mad(CUstream stream, unsigned word, uint32_t k, uint32_t c)
{
	CUdeviceptr p = memory + 4 * word;
	void *args[] = { &p, &k, &c };

	OK(cuLaunchKernel(mad, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

struct mad_args {
	CUdeviceptr p;
	uint32_t k, c;
	void *list[3];
	CUDA_KERNEL_NODE_PARAMS node;
};

static const CUDA_KERNEL_NODE_PARAMS *
mad_node(struct mad_args *m, unsigned word, uint32_t k, uint32_t c)
{
	memset(m, 0, sizeof(*m));
	m->p = memory + 4 * word;
	m->k = k;
	m->c = c;
	m->list[0] = &m->p;
	m->list[1] = &m->k;
	m->list[2] = &m->c;
	m->node.func = mad;
	m->node.gridDimX = m->node.gridDimY = m->node.gridDimZ = 1;
	m->node.blockDimX = m->node.blockDimY = m->node.blockDimZ = 1;
	m->node.kernelParams = m->list;
	return &m->node;
}

static CUDA_MEMCPY3D
copy_of(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	CUDA_MEMCPY3D p;

	memset(&p, 0, sizeof(p));
	p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	p.srcDevice = src;
	p.dstDevice = dst;
	p.WidthInBytes = size;
	p.Height = p.Depth = 1;
	return p;
}

static CUDA_MEMSET_NODE_PARAMS
fill_of(unsigned word, uint32_t value, size_t words)
{
	CUDA_MEMSET_NODE_PARAMS p;

	memset(&p, 0, sizeof(p));
	p.dst = memory + 4 * word;
	p.value = value;
	p.elementSize = 4;
	p.width = words;
	p.height = 1;
	return p;
}

static size_t
count_nodes(CUgraph graph)
{
	size_t n = 0;

	OK(cuGraphGetNodes(graph, NULL, &n));
	return n;
}

static size_t
count_edges(CUgraph graph)
{
	size_t n = 0;

	OK(cuGraphGetEdges(graph, NULL, NULL, NULL, &n));
	return n;
}

static void
run(CUgraphExec exec, CUstream stream, int times)
{
	for (int i = 0; i < times; i++)
		OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
}

/* Launch a graph so many times and forget it. */
static void
run_graph(CUgraph graph, CUstream stream, int times)
{
	CUgraphExec exec;

	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec, stream, times);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void CUDA_CB
add_one(void *arg)
{
	*(uint32_t *)arg += 1;
}

/* ---- capture ---- */

static void
capture_kernels(void)
{
	CUgraph graph;
	CUgraphExec exec;

	poke(0, 5);
	OK(cuStreamBeginCapture(a, MODE));
	launch_bump(a, 0);
	launch_mad(a, 0, 2, 1);
	OK(cuStreamEndCapture(a, &graph));
	fact_is(5, peek(0), "capture runs nothing");
	fact_is(2, count_nodes(graph), "two launches are two nodes");
	fact_is(1, count_edges(graph), "and one edge");
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec, a, 1);
	fact_is(13, peek(0), "one launch of the graph");
	OK(cuGraphDestroy(graph));
	run(exec, a, 2);
	fact_is(61, peek(0), "two more after its graph was destroyed");
	run(exec, b, 1);
	fact_is(125, peek(0), "and one in another stream");
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	fact_is(253, peek(0), "and one in the default stream");
	OK(cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	fact_is(509, peek(0), "and one in the thread's default stream");
	OK(cuGraphExecDestroy(exec));
}

static void
capture_copies(void)
{
	static const CUgraphNodeType want[] = {
		CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_MEMCPY,
		CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY,
	};
	CUgraphNode nodes[4];
	CUgraphNodeType type;
	size_t n = 4;
	CUgraph graph;
	CUgraphExec exec;
	int right = 1;

	pinned[0] = 40;
	pinned[1] = 0;
	OK(cuStreamBeginCapture(a, MODE));
	OK(cuMemsetD32Async(memory + 64, 7, 4, a));
	OK(cuMemcpyHtoDAsync(memory + 64, pinned, 4, a));
	launch_bump(a, 16);
	OK(cuMemcpyDtoHAsync(pinned + 1, memory + 64, 8, a));
	OK(cuStreamEndCapture(a, &graph));
	OK(cuGraphGetNodes(graph, nodes, &n));
	for (size_t i = 0; i < n; i++) {
		OK(cuGraphNodeGetType(nodes[i], &type));
		right &= type == want[i];
	}
	fact_is(4, n, "fill, copies and a kernel are nodes");
	fact(right, "of the right types, in the order of capture");
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec, a, 1);
	fact_is(41, pinned[1], "pinned memory in, kernel, pinned memory out");
	fact_is(7, pinned[2], "what the fill wrote");
	pinned[0] = 99;
	run(exec, a, 1);
	fact_is(100, pinned[1], "pinned memory is read at each launch");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
capture_pageable(void)
{
	static uint32_t in[1000], out[1000];
	CUgraph graph;
	CUgraphExec exec;

	in[0] = 1;
	in[999] = 10;
	OK(cuStreamBeginCapture(a, MODE));
	OK(cuMemcpyHtoDAsync(memory, in, sizeof(in), a));
	launch_bump(a, 0);
	launch_bump(a, 999);
	OK(cuMemcpyDtoHAsync(out, memory, sizeof(out), a));
	OK(cuStreamEndCapture(a, &graph));
	fact_is(0, out[0], "pageable memory is not written by capture");
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec, a, 1);
	fact(out[0] == 2 && out[999] == 11,
	     "pageable memory in, kernels, pageable memory out");
	in[0] = 100;
	in[999] = 200;
	run(exec, a, 1);
	fact(out[0] == 101 && out[999] == 201,
	     "pageable memory is read and written at each launch");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
capture_fork(void)
{
	CUgraphNode nodes[3], roots[3], from[3], to[3], deps[3];
	size_t n = 3;
	CUgraph graph;

	poke(0, 1);
	poke(1, 1);
	OK(cuStreamBeginCapture(a, MODE));
	launch_bump(a, 0);
	OK(cuEventRecord(event, a));
	OK(cuStreamWaitEvent(b, event, 0));
	launch_mad(b, 1, 3, 1);
	launch_mad(a, 0, 5, 0);
	OK(cuEventRecord(other, b));
	OK(cuStreamWaitEvent(a, other, 0));
	{
		CUdeviceptr q = memory + 8, p = memory + 4;
		uint32_t c = 2;
		void *args[] = { &q, &p, &c };

		OK(cuLaunchKernel(copy, 1, 1, 1, 1, 1, 1, 0, a, args, NULL));
	}
	OK(cuStreamEndCapture(a, &graph));
	fact_is(4, count_nodes(graph), "fork and join: nodes");
	fact_is(4, count_edges(graph), "fork and join: edges");
	n = 3;
	OK(cuGraphGetRootNodes(graph, roots, &n));
	fact_is(1, n, "fork and join: roots");
	n = 3;
	OK(cuGraphNodeGetDependentNodes(roots[0], nodes, NULL, &n));
	fact_is(2, n, "two come after the first");
	n = 3;
	OK(cuGraphNodeGetDependencies(nodes[0], deps, NULL, &n));
	fact(n == 1 && deps[0] == roots[0], "and depend on it");
	n = 3;
	OK(cuGraphGetEdges(graph, from, to, NULL, &n));
	fact_is(3, n, "a list takes no more than it has room for");
	run_graph(graph, a, 2);
	fact_is(55, peek(0), "fork and join: one branch");
	fact_is(13, peek(1), "fork and join: the other");
	fact_is(15, peek(2), "fork and join: what depends on both");
}

static void
capture_info(void)
{
	CUstreamCaptureStatus status = 99, status_b = 99;
	const CUgraphEdgeData *edges = NULL;
	const CUgraphNode *deps = NULL;
	cuuint64_t id = 0, id_b = 1;
	CUgraph graph = NULL, ended;
	struct mad_args m;
	CUgraphNode node;
	size_t n = 0;

	OK(cuStreamIsCapturing(a, &status));
	fact_is(CU_STREAM_CAPTURE_STATUS_NONE, status, "no capture");
	poke(0, 1);
	OK(cuStreamBeginCapture(a, MODE));
	launch_bump(a, 0);
	OK(cuStreamIsCapturing(a, &status));
	OK(cuStreamIsCapturing(b, &status_b));
	fact_is(CU_STREAM_CAPTURE_STATUS_ACTIVE, status, "a capture");
	fact_is(CU_STREAM_CAPTURE_STATUS_NONE, status_b, "not of the other");
	OK(cuEventRecord(event, a));
	OK(cuStreamWaitEvent(b, event, 0));
	OK(cuStreamGetCaptureInfo(a, &status, &id, &graph, &deps, &edges, &n));
	OK(cuStreamGetCaptureInfo(b, &status_b, &id_b, NULL, NULL, NULL,
				  NULL));
	fact(id != 0 && id == id_b, "both streams are in one capture");
	fact(graph != NULL && n == 1, "which has a graph and a last node");
	OK(cuGraphAddKernelNode(&node, graph, deps, n, mad_node(&m, 0, 10, 0)));
	OK(cuStreamUpdateCaptureDependencies(
		a, &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	launch_bump(a, 0);
	OK(cuEventRecord(event, b));
	OK(cuStreamWaitEvent(a, event, 0));
	OK(cuStreamEndCapture(a, &ended));
	fact(ended == graph, "the graph asked for is the one that comes out");
	fact_is(3, count_nodes(ended), "with the node that was added by hand");
	run_graph(ended, a, 1);
	fact_is(21, peek(0), "in its place");
}

static void
capture_to_graph(void)
{
	struct mad_args m;
	CUgraphNode node;
	CUgraph graph, ended;

	poke(0, 2);
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&node, graph, NULL, 0, mad_node(&m, 0, 7, 0)));
	OK(cuStreamBeginCaptureToGraph(a, graph, &node, NULL, 1, MODE));
	launch_bump(a, 0);
	OK(cuStreamEndCapture(a, &ended));
	fact(ended == graph, "capture into a graph");
	fact_is(2, count_nodes(graph), "adds to it");
	run_graph(graph, a, 1);
	fact_is(15, peek(0), "after the node that was named");
}

/* ---- misuse ---- */

static void
end_invalid(CUstream stream, const char *text)
{
	CUgraph graph = (CUgraph)1;
	CUstreamCaptureStatus status;

	OK(cuStreamIsCapturing(stream, &status));
	fact_is(CU_STREAM_CAPTURE_STATUS_INVALIDATED, status, text);
	fact_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
		cuStreamEndCapture(stream, &graph), "its end");
	fact(graph == NULL, "no graph");
}

static void
misuse(void)
{
	CUstreamCaptureStatus status;
	CUgraph graph;

	fact_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		cuStreamBeginCapture(NULL, MODE), "the default stream");
	fact_is(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(a, &graph),
		"end without begin");
	OK(cuStreamBeginCapture(a, MODE));
	fact_is(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(a, MODE),
		"begin twice");
	fact_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(a),
		"synchronize");
	end_invalid(a, "invalidated by it");
	OK(cuStreamBeginCapture(a, MODE));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(a),
		"query");
	end_invalid(a, "invalidated by it");
	OK(cuStreamBeginCapture(a, MODE));
	launch_bump(a, 0);
	OK(cuEventRecord(event, a));
	fact_is(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event),
		"query of a captured event");
	fact_is(CUDA_ERROR_INVALID_VALUE, cuEventSynchronize(event),
		"wait for a captured event");
	cuStreamEndCapture(a, &graph);
	OK(cuEventRecord(event, b));
	OK(cuEventSynchronize(event));
	OK(cuStreamBeginCapture(a, MODE));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
		cuStreamWaitEvent(a, event, 0), "an event from outside");
	end_invalid(a, "invalidated by it");
	OK(cuStreamBeginCapture(a, MODE));
	OK(cuStreamBeginCapture(b, MODE));
	launch_bump(a, 0);
	OK(cuEventRecord(event, a));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_MERGE,
		cuStreamWaitEvent(b, event, 0), "two captures do not merge");
	cuStreamEndCapture(a, &graph);
	cuStreamEndCapture(b, &graph);
	OK(cuStreamBeginCapture(a, MODE));
	launch_bump(a, 0);
	OK(cuEventRecord(event, a));
	OK(cuStreamWaitEvent(b, event, 0));
	launch_bump(b, 0);
	fact_is(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
		cuStreamEndCapture(a, &graph), "a fork that is not joined");
	OK(cuStreamBeginCapture(a, MODE));
	launch_bump(a, 0);
	OK(cuEventRecord(event, a));
	OK(cuStreamWaitEvent(b, event, 0));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
		cuStreamEndCapture(b, &graph), "end by another stream");
	end_invalid(a, "invalidated by it");
	OK(cuStreamBeginCapture(blocking, MODE));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
		cuStreamIsCapturing(NULL, &status),
		"asking the default stream while a blocking one captures");
	OK(cuStreamEndCapture(blocking, &graph));
	OK(cuStreamBeginCapture(blocking, MODE));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
		cuMemsetD32Async(memory, 0, 1, NULL),
		"the default stream while a blocking one captures");
	end_invalid(blocking, "invalidated by it");
	OK(cuStreamSynchronize(a));
	OK(cuStreamSynchronize(b));
}

struct thread {
	CUstreamCaptureMode mode;
	int end;
	CUresult r;
};

static void *
in_thread(void *arg)
{
	struct thread *t = arg;
	CUdeviceptr p = 0;
	CUgraph graph;

	OK(cuCtxSetCurrent(context));
	OK(cuThreadExchangeStreamCaptureMode(&t->mode));
	t->r = t->end ? cuStreamEndCapture(a, &graph) : cuMemAlloc(&p, 64);
	if (p)
		OK(cuMemFree(p));
	return NULL;
}

static CUresult
elsewhere(CUstreamCaptureMode mode, int end)
{
	struct thread t = { .mode = mode, .end = end };
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, &t))
		exit(1);
	pthread_join(thread, NULL);
	return t.r;
}

static void
modes(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr p;
	CUgraph graph;

	OK(cuThreadExchangeStreamCaptureMode(&mode));
	fact_is(CU_STREAM_CAPTURE_MODE_GLOBAL, mode, "a thread's mode");
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	fact_is(CU_STREAM_CAPTURE_MODE_RELAXED, mode, "exchanged");
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&p, 64),
		"cuMemAlloc while the thread captures in mode global");
	end_invalid(a, "invalidated by it");
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL, 0),
		"the same in another thread");
	end_invalid(a, "invalidated by it");
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	fact_is(0, elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED, 0),
		"the same in a thread of mode relaxed");
	fact_is(0, elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 0) ==
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		"the same in a thread of mode thread-local fails");
	OK(cuStreamEndCapture(a, &graph));
	OK(cuGraphDestroy(graph));
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	fact_is(0, elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL, 0),
		"another thread while one captures in mode thread-local");
	OK(cuStreamEndCapture(a, &graph));
	OK(cuGraphDestroy(graph));
	OK(cuStreamBeginCapture(a, MODE));
	fact_is(0, cuMemAlloc(&p, 64), "the same thread in mode relaxed");
	OK(cuMemFree(p));
	OK(cuStreamEndCapture(a, &graph));
	OK(cuGraphDestroy(graph));
	OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
		elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL, 1),
		"end in another thread");
	fact_is(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(a, &graph),
		"which is an end all the same");
}

/* ---- graphs by hand ---- */

static void
by_hand(void)
{
	CUgraphNode fill, kernel, join, out, list[8];
	CUDA_MEMSET_NODE_PARAMS set = fill_of(100, 6, 3);
	CUDA_MEMCPY3D move = copy_of(memory + 480, memory + 400, 12);
	struct mad_args m;
	CUgraphNode deps[2];
	CUgraph graph;
	CUgraphExec exec;
	size_t n;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &set, context));
	OK(cuGraphAddKernelNode(&kernel, graph, &fill, 1,
				mad_node(&m, 101, 10, 3)));
	OK(cuGraphAddEmptyNode(&join, graph, NULL, 0));
	deps[0] = kernel;
	deps[1] = fill;
	OK(cuGraphAddDependencies(graph, deps, (CUgraphNode[]){ join, join },
				  NULL, 2));
	OK(cuGraphAddMemcpyNode(&out, graph, &join, 1, &move, context));
	fact_is(4, count_nodes(graph), "by hand: nodes");
	fact_is(4, count_edges(graph), "by hand: edges");
	fact_is(0, cuGraphAddDependencies(graph, &out, &fill, NULL, 1),
		"an edge may close a circle");
	fact_is(5, count_edges(graph), "and is one more");
	fact_is(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, 0),
		"but it is not instantiated");
	OK(cuGraphRemoveDependencies(graph, &out, &fill, NULL, 1));
	fact_is(CUDA_ERROR_INVALID_VALUE,
		cuGraphAddDependencies(graph, &fill, &kernel, NULL, 1),
		"an edge twice is refused");
	OK(cuGraphRemoveDependencies(graph, &fill, &join, NULL, 1));
	fact_is(3, count_edges(graph), "an edge less");
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec, a, 1);
	fact(peek(120) == 6 && peek(121) == 63 && peek(122) == 6,
	     "fill, kernel and copy in their order");

	mad_node(&m, 101, 100, 4);
	OK(cuGraphExecKernelNodeSetParams(exec, kernel, &m.node));
	run(exec, a, 1);
	fact_is(604, peek(121), "a kernel node's new parameters");
	set = fill_of(100, 2, 3);
	OK(cuGraphExecMemsetNodeSetParams(exec, fill, &set, context));
	run(exec, a, 1);
	fact(peek(120) == 2 && peek(121) == 204, "a fill node's");
	move = copy_of(memory + 800, memory + 400, 12);
	OK(cuGraphExecMemcpyNodeSetParams(exec, out, &move, context));
	poke(201, 0);
	run(exec, a, 1);
	fact(peek(200) == 2 && peek(201) == 204, "a copy node's");
	OK(cuGraphNodeSetEnabled(exec, kernel, 0));
	run(exec, a, 1);
	fact_is(2, peek(201), "a kernel node switched off");
	{
		unsigned enabled = 9;

		OK(cuGraphNodeGetEnabled(exec, kernel, &enabled));
		fact_is(0, enabled, "is off");
	}
	OK(cuGraphNodeSetEnabled(exec, kernel, 1));
	run(exec, a, 1);
	fact_is(204, peek(201), "and on again");
	OK(cuGraphExecDestroy(exec));

	OK(cuGraphDestroyNode(kernel));
	n = 8;
	OK(cuGraphGetNodes(graph, list, &n));
	fact(n == 3 && list[0] == fill && list[1] == join && list[2] == out &&
	     list[3] == NULL, "a node less, and NULL in the room that is left");
	run_graph(graph, a, 1);
}

static void
parameters(void)
{
	CUDA_KERNEL_NODE_PARAMS got;
	CUDA_MEMSET_NODE_PARAMS set = fill_of(0, 3, 1), got_set;
	CUDA_HOST_NODE_PARAMS host = { add_one, &got }, got_host;
	CUgraphNode kernel, fill, node;
	CUkernelNodeAttrValue value;
	struct mad_args m;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&kernel, graph, NULL, 0,
				mad_node(&m, 0, 21, 34)));
	OK(cuGraphKernelNodeGetParams(kernel, &got));
	fact(got.func == mad && got.gridDimX == 1 && got.blockDimZ == 1 &&
	     got.sharedMemBytes == 0, "a kernel node's shape");
	fact(*(uint32_t *)got.kernelParams[1] == 21 &&
	     *(uint32_t *)got.kernelParams[2] == 34 &&
	     *(CUdeviceptr *)got.kernelParams[0] == memory,
	     "and parameters");
	mad_node(&m, 0, 0, 55);
	OK(cuGraphKernelNodeSetParams(kernel, &m.node));
	OK(cuGraphAddMemsetNode(&fill, graph, &kernel, 1, &set, context));
	OK(cuGraphMemsetNodeGetParams(fill, &got_set));
	fact(got_set.dst == memory && got_set.value == 3 &&
	     got_set.width == 1, "a fill node's parameters");
	set = fill_of(1, 8, 1);
	OK(cuGraphMemsetNodeSetParams(fill, &set));
	run_graph(graph, a, 1);
	fact(peek(0) == 55 && peek(1) == 8, "new ones before instantiation");

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddHostNode(&node, graph, NULL, 0, &host));
	OK(cuGraphHostNodeGetParams(node, &got_host));
	fact(got_host.fn == host.fn && got_host.userData == &got,
	     "a host node's parameters");
	OK(cuGraphAddKernelNode(&kernel, graph, NULL, 0,
				mad_node(&m, 0, 1, 1)));
	memset(&value, 0, sizeof(value));
	value.priority = -1;
	OK(cuGraphKernelNodeSetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_PRIORITY,
					 &value));
	value.priority = 9;
	OK(cuGraphKernelNodeGetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_PRIORITY,
					 &value));
	fact_is(-1, value.priority, "a kernel node's priority");
	fact_is(CUDA_ERROR_INVALID_VALUE,
		cuGraphMemsetNodeGetParams(kernel, &got_set),
		"parameters of another type");
	OK(cuGraphDestroy(graph));
}

static void
children(void)
{
	CUgraphNode first, child, last, inner, found;
	CUgraph graph, small, embedded, twin;
	struct mad_args m;
	CUgraphExec exec;
	size_t n = 1;

	poke(0, 1);
	OK(cuGraphCreate(&small, 0));
	OK(cuGraphAddKernelNode(&inner, small, NULL, 0,
				mad_node(&m, 0, 3, 1)));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&first, graph, NULL, 0,
				mad_node(&m, 0, 2, 0)));
	OK(cuGraphAddChildGraphNode(&child, graph, &first, 1, small));
	OK(cuGraphAddKernelNode(&last, graph, &child, 1,
				mad_node(&m, 0, 10, 0)));
	OK(cuGraphDestroy(small));
	OK(cuGraphChildGraphNodeGetGraph(child, &embedded));
	fact_is(1, count_nodes(embedded), "a child graph's nodes");
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec, a, 1);
	fact_is(70, peek(0), "a child graph in its place");
	OK(cuGraphGetNodes(embedded, &inner, &n));
	mad_node(&m, 0, 0, 4);
	OK(cuGraphExecKernelNodeSetParams(exec, inner, &m.node));
	run(exec, a, 1);
	fact_is(40, peek(0), "its node's new parameters");
	OK(cuGraphClone(&twin, graph));
	OK(cuGraphNodeFindInClone(&found, last, twin));
	fact(found != last && count_nodes(twin) == 3, "a clone");
	OK(cuGraphDestroy(graph));
	OK(cuGraphExecDestroy(exec));
	poke(0, 1);
	run_graph(twin, a, 1);
	fact_is(70, peek(0), "which outlives what it is a clone of");
}

static void
updates(void)
{
	CUgraphExecUpdateResultInfo info;
	struct mad_args m;
	CUgraphNode node, second;
	CUgraph graph, fresh;
	CUgraphExec exec;

	poke(0, 1);
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&node, graph, NULL, 0, mad_node(&m, 0, 2, 0)));
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec, a, 1);
	OK(cuGraphCreate(&fresh, 0));
	OK(cuGraphAddKernelNode(&node, fresh, NULL, 0,
				mad_node(&m, 0, 5, 1)));
	memset(&info, 0xff, sizeof(info));
	OK(cuGraphExecUpdate(exec, fresh, &info));
	fact_is(CU_GRAPH_EXEC_UPDATE_SUCCESS, info.result, "an update");
	run(exec, a, 1);
	fact_is(11, peek(0), "has the new parameters");
	OK(cuGraphAddKernelNode(&second, fresh, &node, 1,
				mad_node(&m, 0, 1, 1)));
	fact_is(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
		cuGraphExecUpdate(exec, fresh, &info), "another shape");
	fact_is(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result,
		"is a changed topology");
	run(exec, a, 1);
	fact_is(56, peek(0), "and changes nothing");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(fresh));
}

static void
instantiation(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS p;
	struct mad_args m;
	CUgraphNode node;
	CUgraphExec exec;
	cuuint64_t flags = 99;
	CUgraph graph;

	poke(0, 1);
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&node, graph, NULL, 0, mad_node(&m, 0, 2, 1)));
	memset(&p, 0, sizeof(p));
	p.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	p.hUploadStream = a;
	p.result_out = 99;
	OK(cuGraphInstantiateWithParams(&exec, graph, &p));
	fact_is(CUDA_GRAPH_INSTANTIATE_SUCCESS, p.result_out,
		"instantiated with parameters");
	OK(cuGraphUpload(exec, a));
	run(exec, a, 3);
	fact_is(15, peek(0), "and run");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphInstantiate(&exec, graph,
			      CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
	OK(cuGraphExecGetFlags(exec, &flags));
	fact_is(0, flags, "flags of an executable graph");
	OK(cuStreamBeginCapture(a, MODE));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphLaunch(exec, a),
		"a launch into a capture");
	OK(cuGraphDestroy(graph));
	fact_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
		cuStreamEndCapture(a, &graph), "which it ends");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphCreate(&graph, 0));
	run_graph(graph, a, 2);
	fact(1, "an empty graph runs");
}

static void
event_nodes(void)
{
	CUgraphNode record, wait;
	CUevent got = NULL;
	CUgraph graph;

	poke(0, 0);
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, event));
	OK(cuGraphAddEventRecordNode(&record, graph, &wait, 1, other));
	OK(cuGraphEventRecordNodeGetEvent(record, &got));
	fact(got == other, "a record node's event");
	launch_bump(b, 0);
	OK(cuEventRecord(event, b));
	run_graph(graph, a, 1);
	fact_is(0, cuEventQuery(other), "recorded by the graph");
	fact_is(1, peek(0), "after what it waited for");
	OK(cuStreamBeginCapture(a, MODE));
	launch_bump(a, 0);
	OK(cuEventRecordWithFlags(other, a, CU_EVENT_RECORD_EXTERNAL));
	OK(cuStreamEndCapture(a, &graph));
	fact_is(2, count_nodes(graph), "an external record is a node");
	run_graph(graph, a, 1);
	OK(cuEventSynchronize(other));
	fact_is(2, peek(0), "of the graph");
}

/* ---- host functions ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int gate, entered;
static uint32_t order[256], norder;

static void CUDA_CB
take_turn(void *arg)
{
	order[norder++ % 256] = (uint32_t)(uintptr_t)arg;
}

static void CUDA_CB
wait_gate(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	entered = 1;
	pthread_cond_broadcast(&changed);
	while (!gate)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void
wait_entered(void)
{
	pthread_mutex_lock(&lock);
	while (!entered)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void
open_gate(int open)
{
	pthread_mutex_lock(&lock);
	gate = open;
	entered = 0;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static CUresult callback_status;
static CUstream callback_stream;

static void CUDA_CB
callback(CUstream stream, CUresult status, void *arg)
{
	callback_stream = stream;
	callback_status = status;
	add_one(arg);
}

static void
host_order(void)
{
	int right = 1;

	pinned[0] = 0;
	poke(0, 3);
	OK(cuMemcpyDtoHAsync(pinned, memory, 4, a));
	OK(cuLaunchHostFunc(a, add_one, pinned));
	OK(cuMemcpyHtoDAsync(memory, pinned, 4, a));
	launch_mad(a, 0, 10, 0);
	OK(cuMemcpyDtoHAsync(pinned + 1, memory, 4, a));
	OK(cuStreamSynchronize(a));
	fact_is(40, pinned[1], "copy, host function, copy, kernel, copy");
	norder = 0;
	for (uintptr_t i = 0; i < 200; i++) {
		launch_bump(i % 3 ? a : b, 1);
		OK(cuLaunchHostFunc(a, take_turn, (void *)i));
	}
	OK(cuStreamSynchronize(a));
	for (uint32_t i = 0; i < 200; i++)
		right &= order[i] == i;
	fact(right && norder == 200, "200 host functions in their order");
	pinned[0] = 0;
	callback_status = CUDA_ERROR_UNKNOWN;
	OK(cuStreamAddCallback(a, callback, pinned, 0));
	OK(cuStreamSynchronize(a));
	fact(pinned[0] == 1 && callback_status == CUDA_SUCCESS &&
	     callback_stream == a, "a stream callback");
	OK(cuLaunchHostFunc(NULL, add_one, pinned));
	OK(cuCtxSynchronize());
	fact_is(2, pinned[0], "a host function in the default stream");
	fact_is(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(a, NULL, NULL),
		"no function");
}

static void
host_holds(void)
{
	poke(0, 0);
	poke(1, 0);
	OK(cuStreamSynchronize(b));
	open_gate(0);
	OK(cuLaunchHostFunc(a, wait_gate, NULL));
	launch_bump(a, 0);
	OK(cuEventRecord(event, a));
	wait_entered();
	fact_is(CUDA_ERROR_NOT_READY, cuStreamQuery(a),
		"a stream that a host function holds");
	fact_is(CUDA_ERROR_NOT_READY, cuEventQuery(event),
		"an event behind it");
	for (int i = 0; i < 100; i++)
		launch_bump(b, 1);
	OK(cuStreamSynchronize(b));
	fact_is(0, cuStreamQuery(b), "another stream goes on");
	OK(cuStreamWaitEvent(b, event, 0));
	launch_mad(b, 0, 100, 0);
	fact_is(CUDA_ERROR_NOT_READY, cuStreamQuery(b),
		"until it waits for that event");
	open_gate(1);
	OK(cuStreamSynchronize(b));
	fact_is(100, peek(0), "then it comes after");
	OK(cuEventSynchronize(event));
	OK(cuStreamSynchronize(a));
	fact_is(100, peek(1), "and the other's work is done");
}

static void
host_nodes(void)
{
	CUDA_HOST_NODE_PARAMS host = { add_one, pinned };
	CUDA_MEMCPY3D out = copy_of(0, memory, 4), in;
	CUgraphNode node, last;
	struct mad_args m;
	CUgraph graph;
	CUgraphExec exec;

	pinned[0] = pinned[1] = 0;
	poke(0, 1);
	out.dstMemoryType = CU_MEMORYTYPE_HOST;
	out.dstHost = pinned;
	in = copy_of(memory, 0, 4);
	in.srcMemoryType = CU_MEMORYTYPE_HOST;
	in.srcHost = pinned;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&last, graph, NULL, 0, mad_node(&m, 0, 2, 0)));
	OK(cuGraphAddMemcpyNode(&node, graph, &last, 1, &out, context));
	OK(cuGraphAddHostNode(&last, graph, &node, 1, &host));
	OK(cuGraphAddMemcpyNode(&node, graph, &last, 1, &in, context));
	OK(cuGraphAddKernelNode(&last, graph, &node, 1,
				mad_node(&m, 0, 10, 0)));
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec, a, 1);
	fact_is(30, peek(0), "a host node between copies");
	run(exec, a, 2);
	fact_is(12210, peek(0), "at each of two launches");
	OK(cuGraphLaunch(exec, a));
	OK(cuGraphLaunch(exec, b));
	OK(cuStreamSynchronize(a));
	OK(cuStreamSynchronize(b));
	fact_is(4884210, peek(0), "launches in two streams do not mix");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));

	pinned[0] = 0;
	OK(cuStreamBeginCapture(a, MODE));
	OK(cuLaunchHostFunc(a, add_one, pinned));
	OK(cuLaunchHostFunc(a, add_one, pinned));
	OK(cuStreamEndCapture(a, &graph));
	fact_is(0, pinned[0], "a captured host function does not run");
	run_graph(graph, a, 5);
	fact_is(10, pinned[0], "but at each launch of the graph");
}

/* ---- user objects ---- */

static void CUDA_CB
destroyed(void *arg)
{
	pthread_mutex_lock(&lock);
	*(int *)arg = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void
user_objects(void)
{
	CUuserObject object;
	CUgraphExec exec;
	struct mad_args m;
	CUgraphNode node;
	CUgraph graph;
	int gone = 0;

	OK(cuUserObjectCreate(&object, &gone, destroyed, 1,
			      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&node, graph, NULL, 0, mad_node(&m, 0, 1, 0)));
	OK(cuGraphRetainUserObject(graph, object, 1,
				   CU_GRAPH_USER_OBJECT_MOVE));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	run(exec, a, 1);
	usleep(20000);
	fact_is(0, gone, "an object lives as long as the executable graph");
	OK(cuGraphExecDestroy(exec));
	OK(cuCtxSynchronize());
	pthread_mutex_lock(&lock);
	while (!gone)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	fact_is(1, gone, "and ends with it");
}

/* ---- what is left open ---- */

static void
loose_ends(void)
{
	CUgraph graph;
	CUgraphExec exec;
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture(stream, MODE));
	launch_bump(stream, 0);
	OK(cuStreamDestroy(stream));
	fact(1, "a stream destroyed in the middle of its capture");
	poke(0, 0);
	OK(cuStreamBeginCapture(a, MODE));
	for (int i = 0; i < 1000; i++)
		launch_bump(a, 0);
	OK(cuStreamEndCapture(a, &graph));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	for (int i = 0; i < 20; i++)
		OK(cuGraphLaunch(exec, a));
	OK(cuGraphExecDestroy(exec));
	OK(cuStreamSynchronize(a));
	fact_is(20000, peek(0), "20 launches of 1000 kernels, destroyed while "
		"they run");
}

/* A host function that never ends, work behind it, a graph with a host step
 * in flight, and an open capture. */
static void
hold(void)
{
	CUDA_HOST_NODE_PARAMS host = { add_one, pinned };
	struct mad_args m;
	CUgraphNode node;
	CUgraph graph;
	CUgraphExec exec;

	open_gate(0);
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddHostNode(&node, graph, NULL, 0, &host));
	OK(cuGraphAddKernelNode(&node, graph, &node, 1,
				mad_node(&m, 0, 1, 1)));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuLaunchHostFunc(a, wait_gate, NULL));
	for (int i = 0; i < 100; i++) {
		launch_bump(a, 0);
		OK(cuGraphLaunch(exec, a));
		OK(cuEventRecord(event, a));
		OK(cuStreamWaitEvent(blocking, event, 0));
	}
	OK(cuStreamBeginCapture(b, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch_bump(b, 1);
	wait_entered();
	printf("held\n");
	fflush(stdout);
	for (;;)
		pause();
}

static void
unload(void)
{
	CUDA_MEMSET_NODE_PARAMS set = fill_of(0, 3, 1);
	struct mad_args m;
	CUgraphNode node;
	CUgraph graph;
	CUgraphExec exec;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&node, graph, NULL, 0, mad_node(&m, 0, 1, 1)));
	OK(cuGraphAddEventRecordNode(&node, graph, &node, 1, event));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphLaunch(exec, a));
	OK(cuModuleUnload(module));
	OK(cuEventDestroy(event));
	run(exec, a, 3);
	fact_is(4, peek(0), "a graph runs without its module and event");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec, a, 1);
	OK(cuMemFree(memory));
	printf("     launch without memory: %d\n", cuGraphLaunch(exec, a));
	printf("     wait: %d\n", cuStreamSynchronize(a));
}

int
main(int argc, char **argv)
{
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&bump, module, "bump"));
	OK(cuModuleGetFunction(&mad, module, "mad"));
	OK(cuModuleGetFunction(&copy, module, "copy"));
	OK(cuMemAlloc(&memory, 16384));
	OK(cuMemAllocHost((void **)&pinned, 4096));
	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
	if (argc > 1 && !strcmp(argv[1], "hold"))
		hold();
	if (argc > 1) {
		poke(0, 0);
		unload();
		return failed;
	}
	capture_kernels();
	capture_copies();
	capture_pageable();
	capture_fork();
	capture_info();
	capture_to_graph();
	misuse();
	modes();
	by_hand();
	parameters();
	children();
	updates();
	instantiation();
	event_nodes();
	host_order();
	host_holds();
	host_nodes();
	user_objects();
	loose_ends();
	OK(cuCtxSynchronize());
	printf("%s\n", failed ? "some facts are not so" : "all as it should be");
	return failed;
}
