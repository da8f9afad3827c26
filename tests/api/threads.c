/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads of one process use one context at once: streams, events,
 * a module and a library of their own, a kernel that all share, and per-thread
 * default streams. Each thread counts in device memory of its own; the counts
 * are right at the end. Under ThreadSanitizer this looks for races in the
 * shim's tables.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 6
#define ROUNDS 8
#define LAUNCHES 12

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".global .align 4 .u32 counter;\n"
	".visible .entry add(.param .u64 to, .param .u32 by)\n"
	"{ .reg .u64 p; .reg .u32 v, w; ld.param.u64 p,[to];"
	" ld.param.u32 w,[by]; ld.global.u32 v,[p];"
	" add.u32 v,v,w; st.global.u32 [p],v; ret; }\n";

static CUcontext context;
static CUlibrary shared;
static _Atomic int wrong;
static _Atomic int images;

#define OK(call) ok(#call, __LINE__, call)
static void
ok(const char *call, int line, CUresult r)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "line %d: %s gives %d\n", line, call, (int)r);
	exit(1);
}

static void
launch(CUfunction f, CUstream s, CUdeviceptr to, uint32_t by)
{
	void *args[] = { &to, &by };

	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
}

/* Count with a stream, a module, a kernel and events of this round only. */
static uint32_t
one_round(CUdeviceptr to)
{
	CUevent start, end;
	CUfunction mine;
	CUkernel kernel;
	CUmodule module;
	CUdeviceptr global;
	char text[sizeof(ptx) + 64];
	uint32_t sum = 0;
	CUlibrary own;
	CUstream s;
	size_t size;
	float ms;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
	OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
	/* An image that nobody has seen: threads bring theirs at once. */
	snprintf(text, sizeof(text), "%s// image %d of process %d\n", ptx,
		 images++, (int)getpid());
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&mine, module, "add"));
	OK(cuModuleGetGlobal_v2(&global, &size, module, "counter"));
	OK(cuLibraryGetKernel(&kernel, shared, "add"));
	OK(cuLibraryLoadData(&own, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuEventRecord(start, s));
	for (uint32_t i = 0; i < LAUNCHES; i++) {
		launch(i % 2 ? mine : (CUfunction)kernel, s, to, i);
		sum += i;
	}
	OK(cuEventRecord(end, s));
	OK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, end, 0));
	launch((CUfunction)kernel, CU_STREAM_PER_THREAD, to, 1000);
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	OK(cuEventElapsedTime_v2(&ms, start, end));
	OK(cuLibraryUnload(own));
	OK(cuModuleUnload(module));
	OK(cuEventDestroy_v2(start));
	OK(cuEventDestroy_v2(end));
	OK(cuStreamDestroy_v2(s));
	return sum + 1000;
}

static void *
work(void *arg)
{
	uint32_t expected = 0, got;
	CUdeviceptr to;

	(void)arg;
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&to, 4));
	OK(cuMemsetD32_v2(to, 0, 1));
	for (int i = 0; i < ROUNDS; i++)
		expected += one_round(to);
	OK(cuMemcpyDtoH_v2(&got, to, 4));
	if (got != expected)
		wrong++;
	OK(cuMemFree_v2(to));
	return NULL;
}

int
main(void)
{
	pthread_t threads[THREADS];

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuLibraryLoadData(&shared, ptx, NULL, NULL, 0, NULL, NULL, 0));
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	OK(cuLibraryUnload(shared));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	printf("%d threads of %d: %d wrong sums\n", THREADS, ROUNDS, wrong);
	return wrong == 0 ? 0 : 1;
}
