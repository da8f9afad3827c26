/* SPDX-License-Identifier: Apache-2.0 */
/* Each misuse of stream capture has its own code, 900 to 908, and 401. */
#include "tests/contract/drv.h"

#include <pthread.h>

#define MODE CU_STREAM_CAPTURE_MODE_RELAXED

static CUstream a, b, blocking;
static CUevent event;

/* End a capture that a wrong call spoilt. */
static void
end_invalidated(CUstream stream)
{
	CUgraph graph = NULL;

	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	       drv.cuStreamEndCapture(stream, &graph));
	CHECK(!graph);
	OK(drv.cuStreamSynchronize(stream));
}

static void
unsupported(void)
{
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       drv.cuStreamBeginCapture(NULL, MODE));
	OK(drv.cuStreamBeginCapture(a, MODE));
	drv_empty(a);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       drv.cuStreamSynchronize(a));
	end_invalidated(a);
	OK(drv.cuStreamBeginCapture(a, MODE));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, drv.cuStreamQuery(a));
	end_invalidated(a);
}

static void
illegal_state(void)
{
	CUgraph graph;

	EXPECT(CUDA_ERROR_ILLEGAL_STATE, drv.cuStreamEndCapture(a, &graph));
	OK(drv.cuStreamBeginCapture(a, MODE));
	EXPECT(CUDA_ERROR_ILLEGAL_STATE, drv.cuStreamBeginCapture(a, MODE));
	OK(drv.cuStreamEndCapture(a, &graph));
	OK(drv.cuGraphDestroy(graph));
}

static void
merge(void)
{
	CUgraph graph = NULL;

	OK(drv.cuStreamBeginCapture(a, MODE));
	OK(drv.cuStreamBeginCapture(b, MODE));
	drv_empty(a);
	OK(drv.cuEventRecord(event, a));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_MERGE,
	       drv.cuStreamWaitEvent(b, event, 0));
	drv.cuStreamEndCapture(a, &graph);
	drv.cuStreamEndCapture(b, &graph);
}

/* Begin a capture in a that b joins. */
static void
begin_forked(void)
{
	OK(drv.cuStreamBeginCapture(a, MODE));
	drv_empty(a);
	OK(drv.cuEventRecord(event, a));
	OK(drv.cuStreamWaitEvent(b, event, 0));
	drv_empty(b);
}

/* Only the stream that began may end; the attempt spoils the capture. */
static void
unmatched(void)
{
	CUgraph graph = NULL;

	begin_forked();
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
	       drv.cuStreamEndCapture(b, &graph));
	end_invalidated(a);
	OK(drv.cuStreamSynchronize(b));
}

static void
unjoined(void)
{
	CUgraph graph = NULL;

	begin_forked();
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
	       drv.cuStreamEndCapture(a, &graph));
	OK(drv.cuStreamSynchronize(a));
	OK(drv.cuStreamSynchronize(b));
}

static void
isolation(void)
{
	CUgraph graph = NULL;

	OK(drv.cuEventRecord(event, b));
	OK(drv.cuStreamBeginCapture(a, MODE));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
	       drv.cuStreamWaitEvent(a, event, 0));
	drv.cuStreamEndCapture(a, &graph);
}

static void
implicit(void)
{
	CUfunction empty = drv_kernel(KERNEL_EMPTY);
	CUstreamCaptureStatus status;
	CUgraph graph = NULL;

	OK(drv.cuStreamBeginCapture(blocking, MODE));
	/* Asking spoils nothing. */
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
	       drv.cuStreamIsCapturing(NULL, &status));
	OK(drv.cuStreamIsCapturing(blocking, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
	       drv_launch1(empty, NULL, NULL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	       drv.cuStreamEndCapture(blocking, &graph));
}

static void
captured_event(void)
{
	CUgraph graph = NULL;

	OK(drv.cuStreamBeginCapture(a, MODE));
	OK(drv.cuEventRecord(event, a));
	EXPECT(CUDA_ERROR_CAPTURED_EVENT, drv.cuEventQuery(event));
	drv.cuStreamEndCapture(a, &graph);
	OK(drv.cuEventRecord(event, a));
	OK(drv.cuEventSynchronize(event));
}

static void *
end_elsewhere(void *arg)
{
	CUgraph graph = NULL;

	(void)arg;
	OK(drv.cuCtxSetCurrent(drv.ctx));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
	       drv.cuStreamEndCapture(a, &graph));
	return NULL;
}

/* The refused end is one all the same: nothing is left to end here. */
static void
wrong_thread(void)
{
	CUgraph graph = NULL;
	pthread_t thread;

	OK(drv.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK(!pthread_create(&thread, NULL, end_elsewhere, NULL));
	pthread_join(thread, NULL);
	EXPECT(CUDA_ERROR_ILLEGAL_STATE, drv.cuStreamEndCapture(a, &graph));
}

int
main(void)
{
	drv_start();
	OK(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	drv_empty(a);
	OK(drv.cuCtxSynchronize());
	unsupported();
	illegal_state();
	merge();
	unmatched();
	unjoined();
	isolation();
	implicit();
	captured_event();
	wrong_thread();
	test_pass();
}
