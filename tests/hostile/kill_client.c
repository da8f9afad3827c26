/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that kills itself after its Kth driver call: between the return
 * of one call and the next, while the worker may still be at the first. It
 * goes through everything that a program does and that the worker must clean
 * up after: connects, allocates, loads, launches, copies, captures, exits.
 *
 *     kill_client K     dies by SIGKILL after K calls; K = 0: runs to its end
 *     kill_client list  prints "NUMBER PHASE" for every call
 */
#include <cuda.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry bump(.param .u64 p, .param .u32 n)\n{\n"
	" .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
	" ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n];\n"
	" mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
	" mad.lo.u32 %r5, %r2, %r3, %r4; setp.ge.u32 %q, %r5, %r1;\n"
	" @%q bra E; mul.wide.u32 %d2, %r5, 4; add.u64 %d3, %d1, %d2;\n"
	" ld.global.u32 %r6, [%d3]; add.u32 %r6, %r6, 1;\n"
	" st.global.u32 [%d3], %r6;\nE: ret;\n}\n"
	".global .u32 counter[16];\n";

enum { N = 4096, ROUNDS = 8 };

static const char *phase = "start";
static long calls, last;
static int listing;

/* Count a call that has returned; die if it was the one. */
static void
count(CUresult r, const char *what)
{
	calls++;
	if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY) {
		fprintf(stderr, "kill_client: %s: %d\n", what, (int)r);
		exit(1);
	}
	if (listing)
		printf("%ld %s\n", calls, phase);
	if (calls == last)
		kill(getpid(), SIGKILL);
}
#define C(call) count((call), #call)

static CUdevice device;
static CUcontext context;
static CUdeviceptr memory[6];
static void *pinned[2];
static CUmodule module;
static CUfunction bump;
static CUstream streams[3];
static CUevent events[3];
static unsigned host[N];

static void
start(void)
{
	int n;
	char name[64];

	phase = "start";
	C(cuInit(0));
	C(cuDeviceGetCount(&n));
	C(cuDeviceGet(&device, 0));
	C(cuDeviceGetName(name, sizeof(name), device));
	C(cuDevicePrimaryCtxRetain(&context, device));
	C(cuCtxSetCurrent(context));
}

static void
allocate(void)
{
	static const size_t sizes[6] = {
		4 * N, 1 << 20, 3 << 20, 100, 40 << 20, 4 * N,
	};
	size_t got, total;

	phase = "allocate";
	for (int i = 0; i < 6; i++)
		C(cuMemAlloc(&memory[i], sizes[i]));
	for (int i = 0; i < 2; i++)
		C(cuMemAllocHost(&pinned[i], 4 * N));
	C(cuMemGetInfo(&got, &total));
	C(cuMemFree(memory[1]));
	C(cuMemAlloc(&memory[1], 1 << 20));
}

static void
load(void)
{
	CUdeviceptr counter;
	size_t size;

	phase = "load";
	for (int i = 0; i < 3; i++) {
		C(cuModuleLoadData(&module, ptx));
		C(cuModuleGetFunction(&bump, module, "bump"));
		C(cuModuleGetGlobal(&counter, &size, module, "counter"));
		if (i < 2)
			C(cuModuleUnload(module));
	}
	for (int i = 0; i < 3; i++)
		C(cuStreamCreate(&streams[i], i & 1));
	for (int i = 0; i < 3; i++)
		C(cuEventCreate(&events[i], 0));
}

static void
launch(CUstream stream, CUdeviceptr at)
{
	unsigned n = N;
	void *params[] = {&at, &n};

	C(cuLaunchKernel(bump, N / 128, 1, 1, 128, 1, 1, 0, stream, params,
			 NULL));
}

static void
launches(void)
{
	phase = "launch";
	C(cuMemsetD32(memory[0], 0, N));
	C(cuMemsetD32(memory[5], 0, N));
	for (int i = 0; i < ROUNDS; i++) {
		launch(streams[i % 3], memory[i & 1 ? 5 : 0]);
		C(cuEventRecord(events[i % 3], streams[i % 3]));
		C(cuStreamWaitEvent(streams[(i + 1) % 3], events[i % 3], 0));
	}
	C(cuStreamQuery(streams[0]));
	for (int i = 0; i < 3; i++)
		C(cuStreamSynchronize(streams[i]));
}

static void
copies(void)
{
	phase = "copy";
	for (int i = 0; i < ROUNDS; i++) {
		C(cuMemcpyHtoD(memory[2], host, sizeof(host)));
		C(cuMemcpyDtoD(memory[1], memory[2], sizeof(host)));
		C(cuMemcpyDtoHAsync(pinned[0], memory[1], sizeof(host),
				    streams[0]));
		C(cuMemcpyHtoDAsync(memory[5], pinned[1], sizeof(host),
				    streams[1]));
	}
	C(cuMemcpyDtoH(host, memory[0], sizeof(host)));
	C(cuStreamSynchronize(streams[0]));
	C(cuStreamSynchronize(streams[1]));
}

static void
captures(void)
{
	CUgraphExec exec;
	CUgraph graph;

	phase = "capture";
	for (int i = 0; i < 3; i++) {
		C(cuStreamBeginCapture(streams[1],
				       CU_STREAM_CAPTURE_MODE_RELAXED));
		launch(streams[1], memory[0]);
		launch(streams[1], memory[0]);
		C(cuStreamEndCapture(streams[1], &graph));
		C(cuGraphInstantiate(&exec, graph, 0));
		C(cuGraphLaunch(exec, streams[1]));
		C(cuGraphExecDestroy(exec));
		C(cuGraphDestroy(graph));
	}
	C(cuStreamSynchronize(streams[1]));
}

static void CUDA_CB
count_up(void *arg)
{
	++*(unsigned *)arg;
}

/* Work behind a host function waits aside in the worker, an event's waiter
 * in another stream too. */
static void
host_functions(void)
{
	static unsigned ran;

	phase = "hostfunc";
	for (unsigned i = 1; i <= 4; i++) {
		launch(streams[1], memory[0]);
		C(cuLaunchHostFunc(streams[1], count_up, &ran));
		launch(streams[1], memory[0]);
		C(cuEventRecord(events[1], streams[1]));
		C(cuStreamWaitEvent(streams[2], events[1], 0));
		launch(streams[2], memory[5]);
		C(cuMemsetD8Async(memory[2], (unsigned char)i, N, streams[1]));
		C(cuStreamSynchronize(streams[2]));
		C(ran == i ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
		C(cuStreamSynchronize(streams[1]));
	}
}

static void
finish(void)
{
	phase = "exit";
	for (int i = 0; i < 3; i++)
		C(cuEventDestroy(events[i]));
	for (int i = 0; i < 3; i++)
		C(cuStreamDestroy(streams[i]));
	C(cuModuleUnload(module));
	for (int i = 0; i < 6; i++)
		C(cuMemFree(memory[i]));
	for (int i = 0; i < 2; i++)
		C(cuMemFreeHost(pinned[i]));
	C(cuCtxSynchronize());
	C(cuDevicePrimaryCtxRelease(device));
}

int
main(int argc, char **argv)
{
	listing = argc > 1 && !strcmp(argv[1], "list");
	last = argc > 1 ? strtol(argv[1], NULL, 0) : 0;
	start();
	allocate();
	load();
	launches();
	copies();
	captures();
	host_functions();
	finish();
	return 0;
}
