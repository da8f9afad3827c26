/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While one thread captures in GLOBAL mode an unsafe call of another thread
 * fails with 900 and invalidates the capture. A thread that exchanged its
 * mode to RELAXED is exempt; a THREAD_LOCAL or RELAXED capture binds no
 * other thread.
 */
#include "tests/contract/drv.h"

#include <pthread.h>
#include <stdio.h>

struct other {
	CUstreamCaptureMode mode;
	CUresult rc;
};

static void *
unsafe_call(void *arg)
{
	struct other *other = arg;
	CUstreamCaptureMode mode = other->mode;
	CUdeviceptr p;

	OK(drv.cuCtxSetCurrent(drv.ctx));
	OK(drv.cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	other->rc = drv.cuMemAlloc(&p, 4096);
	return NULL;
}

static void
try(CUstream stream, CUstreamCaptureMode capture, CUstreamCaptureMode mode,
    CUresult want, CUresult want_end)
{
	struct other other = { .mode = mode };
	CUgraph graph = NULL;
	pthread_t thread;
	CUresult end;

	OK(drv.cuStreamBeginCapture(stream, capture));
	drv_empty(stream);
	CHECK(!pthread_create(&thread, NULL, unsafe_call, &other));
	pthread_join(thread, NULL);
	end = drv.cuStreamEndCapture(stream, &graph);
	printf("capture mode %d, other thread's mode %d: cuMemAlloc there %d, "
	       "cuStreamEndCapture %d\n", capture, mode, other.rc, end);
	CHECK(other.rc == want);
	CHECK(end == want_end);
	CHECK(!graph == (want_end != CUDA_SUCCESS));
	if (graph)
		OK(drv.cuGraphDestroy(graph));
}

int
main(void)
{
	CUstream stream;

	drv_start();
	OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	drv_empty(stream);
	try(stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	    CU_STREAM_CAPTURE_MODE_GLOBAL,
	    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	try(stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
	    CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS, CUDA_SUCCESS);
	try(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
	    CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS, CUDA_SUCCESS);
	try(stream, CU_STREAM_CAPTURE_MODE_RELAXED,
	    CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS, CUDA_SUCCESS);
	test_pass();
}
