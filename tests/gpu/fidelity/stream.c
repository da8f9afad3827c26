/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, events, and what may not be done while a stream is captured.
 */
#include "tests/gpu/fidelity/rows.h"

#include "tests/gpu/fidelity/group.h"

#define UNMAPPED ((CUdeviceptr)0xdead0000)

static void
memory_operations(CUdeviceptr p)
{
	CUstreamBatchMemOpParams op = { .operation = 99 };

	ROW(cuStreamWriteValue32_v2, "to 0", NULL, 0, 1, 0);
	ROW(cuStreamWriteValue32_v2, "odd address", NULL, p + 2, 1, 0);
	ROW(cuStreamWriteValue32_v2, "flags 8", NULL, p, 1, 8);
	ROW(cuStreamWriteValue64_v2, "odd address", NULL, p + 4, 1, 0);
	ROW(cuStreamWriteValue64_v2, "to unmapped", NULL, UNMAPPED, 1, 0);
	ROW(cuStreamWaitValue32_v2, "at 0", NULL, 0, 1, 0);
	ROW(cuStreamWaitValue32_v2, "flags 99", NULL, p, 0, 99);
	ROW(cuStreamWaitValue64_v2, "odd address", NULL, p + 4, 0, 0);
	ROW(cuStreamBatchMemOp_v2, "none", NULL, 0, &op, 0);
	ROW(cuStreamBatchMemOp_v2, "no operations", NULL, 1, NULL, 0);
	ROW(cuStreamBatchMemOp_v2, "operation 99", NULL, 1, &op, 0);
	ROW(cuStreamBatchMemOp_v2, "flags 1", NULL, 1, &op, 1);
}

static void
events(CUstream s)
{
	CUevent e, f, untimed;

	OK(cuEventCreate, &e, 0);
	OK(cuEventCreate, &f, 0);
	OK(cuEventCreate, &untimed, CU_EVENT_DISABLE_TIMING);
	OK(cuEventRecord, f, s);
	OK(cuEventRecord, untimed, s);
	OK(cuStreamSynchronize, s);
	ROW(cuEventCreate, "no out", NULL, 0);
	ROW(cuEventCreate, "flags 4", PTR(0), 4);
	ROW(cuEventCreate, "flags 8", PTR(0), 8);
	ROW(cuEventCreate, "all flags", PTR(0), ~0u);
	ROW(cuEventDestroy_v2, "none", NULL);
	ROW(cuEventQuery, "none", NULL);
	ROW(cuEventQuery, "never recorded", e);
	ROW(cuEventSynchronize, "none", NULL);
	ROW(cuEventRecord, "none", NULL, s);
	ROW(cuEventRecordWithFlags, "none", NULL, s, 0);
	ROW(cuEventRecordWithFlags, "flags 2", e, s, 2);
	ROW(cuEventRecordWithFlags, "external, no capture", e, s, 1);
	ROW(cuEventElapsedTime_v2, "no out", NULL, f, f);
	ROW(cuEventElapsedTime_v2, "no start", F32(0), NULL, f);
	ROW(cuEventElapsedTime_v2, "no end", F32(0), f, NULL);
	ROW(cuEventElapsedTime_v2, "start never recorded", F32(0), e, f);
	ROW(cuEventElapsedTime_v2, "end never recorded", F32(0), f, e);
	ROW(cuEventElapsedTime_v2, "start untimed", F32(0), untimed, f);
	ROW(cuEventElapsedTime_v2, "itself", F32(0), f, f);
	ROW(cuEventElapsedTime, "start untimed", F32(0), untimed, f);
	ROW(cuStreamWaitEvent, "none", s, NULL, 0);
	ROW(cuStreamWaitEvent, "flags 2", s, f, 2);
	ROW(cuStreamWaitEvent, "external, no capture", s, f, 1);
	ROW(cuIpcGetEventHandle, "not for that", BYTES(0), f);
	ROW(cuIpcGetEventHandle, "no out", NULL, f);
}

void
group_streams(void)
{
	CUstreamAttrValue value;
	CUdeviceptr p;
	CUstream s;

	row_context();
	memset(&value, 0xff, sizeof(value));
	OK(cuStreamCreate, &s, 0);
	OK(cuMemAlloc_v2, &p, 4096);
	ROW(cuStreamCreate, "no out", NULL, 0);
	ROW(cuStreamCreate, "flags 2", PTR(0), 2);
	ROW(cuStreamCreate, "all flags", PTR(0), ~0u);
	ROW(cuStreamCreateWithPriority, "no out", NULL, 0, 0);
	ROW(cuStreamCreateWithPriority, "flags 2", PTR(0), 2, 0);
	ROW(cuStreamDestroy_v2, "none", NULL);
	ROW(cuStreamDestroy_v2, "legacy", CU_STREAM_LEGACY);
	ROW(cuStreamDestroy_v2, "per thread", CU_STREAM_PER_THREAD);
	ROW(cuStreamGetPriority, "no out", s, NULL);
	ROW(cuStreamGetPriority, "legacy", CU_STREAM_LEGACY, I32(0));
	ROW(cuStreamGetFlags, "no out", s, NULL);
	ROW(cuStreamGetId, "no out", s, NULL);
	ROW(cuStreamGetCtx, "no out", s, NULL);
	ROW(cuStreamGetCtx_v2, "no context", s, NULL, PTR(0));
	ROW(cuStreamGetCtx_v2, "no green context", s, PTR(0), NULL);
	ROW(cuStreamGetDevice, "no out", s, NULL);
	ROW(cuStreamGetDevice, "legacy", CU_STREAM_LEGACY, I32(0));
	ROW(cuStreamGetGreenCtx, "none of them", s, PTR(0));
	ROW(cuStreamGetGreenCtx, "no out", s, NULL);
	ROW(cuStreamGetAttribute, "no out", s, 1, NULL);
	ROW(cuStreamGetAttribute, "attribute 99", s, 99, SOME(0));
	ROW(cuStreamGetAttribute, "policy", s, 3, I32(0));
	ROW(cuStreamSetAttribute, "no value", s, 1, NULL);
	ROW(cuStreamSetAttribute, "attribute 99", s, 99, &value);
	ROW(cuStreamSetAttribute, "policy of ones", s, 3, &value);
	ROW(cuStreamCopyAttributes, "to itself", s, s);
	ROW(cuStreamIsCapturing, "no out", s, NULL);
	ROW(cuStreamIsCapturing, "legacy", CU_STREAM_LEGACY, I32(0));
	ROW(cuStreamBeginCapture_v2, "mode 3", s, 3);
	ROW(cuStreamBeginCapture_v2, "legacy", NULL, 0);
	ROW(cuStreamBeginCapture_v2, "legacy by name", CU_STREAM_LEGACY, 2);
	ROW(cuStreamEndCapture, "no out", s, NULL);
	ROW(cuStreamEndCapture, "not begun", s, PTR(0));
	ROW(cuStreamEndCapture, "legacy", NULL, PTR(0));
	ROW(cuStreamBeginCaptureToGraph, "no graph", s, NULL, NULL, NULL, 0,
	    0);
	ROW(cuStreamGetCaptureInfo_v3, "no status", s, NULL, I64(0), NULL,
	    NULL, NULL, NULL);
	ROW(cuStreamGetCaptureInfo_v2, "not captured", s, I32(0), I64(1),
	    PTR(2), NULL, NULL);
	ROW(cuStreamGetCaptureInfo_v3, "not captured", s, I32(0), I64(1),
	    PTR(2), NULL, NULL, NULL);
	ROW(cuStreamGetCaptureInfo, "no status", s, NULL, I64(0));
	ROW(cuStreamUpdateCaptureDependencies, "not captured", s, NULL, 0, 0);
	ROW(cuStreamUpdateCaptureDependencies, "flags 7", s, NULL, 0, 7);
	ROW(cuThreadExchangeStreamCaptureMode, "mode 3",
	    memset(I32(0), 3, 1));
	ROW(cuThreadExchangeStreamCaptureMode, "no mode", NULL);
	events(s);
	memory_operations(p);
}

/* ---- captures ---- */

static struct {
	CUstream stream, other;
	CUevent event, fresh, spare;
	CUdeviceptr mem;
	CUfunction none;
	CUmodule module;
	CUgraph graph;
	int mode;
	void *pinned;
} cap;

/* The state that the row left the capture in, and its end. */
static void
after_capture(void)
{
	CUstreamCaptureStatus status = -1;
	CUgraph graph = NULL;
	CUresult end;

	TRY(cuStreamIsCapturing, cap.stream, &status);
	end = ((__typeof__(&cuStreamEndCapture))
	       row_find("cuStreamEndCapture"))(cap.stream, &graph);
	row_put_after("capture %d, end %d %s", (int)status, (int)end,
		      graph == NULL ? "null" : "nonnull");
	if (graph != NULL)
		TRY(cuGraphDestroy, graph);
	TRY(cuStreamSynchronize, cap.other);
	TRY(cuStreamSynchronize, NULL);
}

static const char *const modes[] = { "global", "thread", "relaxed" };

/* row_begin() has found the row and printed its name; only then capture. */
static void *
captured(void *f)
{
	if (f != NULL)
		OK(cuStreamBeginCapture_v2, cap.stream,
		   (CUstreamCaptureMode)cap.mode);
	return f;
}

#define CAPTURED(f, what, ...)						\
	do {								\
		__typeof__(&f) captured_ = captured(row_begin(#f,	\
			row_text("captured %s, %s", modes[cap.mode],	\
				 what)));				\
									\
		if (captured_ != NULL)					\
			row_end(captured_(__VA_ARGS__));		\
	} while (0)

static void
captured_memory(void)
{
	static char host[4096];

	CAPTURED(cuMemAlloc_v2, "plain", PTR(0), 64);
	CAPTURED(cuMemAlloc_v2, "no out", NULL, 64);
	CAPTURED(cuMemFree_v2, "0", 0);
	CAPTURED(cuMemGetInfo_v2, "plain", SOME(0), SOME(1));
	CAPTURED(cuMemAllocHost_v2, "plain", PTR(0), 64);
	CAPTURED(cuMemFreeHost, "NULL", NULL);
	CAPTURED(cuMemcpyHtoD_v2, "plain", cap.mem, host, 4);
	CAPTURED(cuMemcpyHtoD_v2, "0 bytes", cap.mem, host, 0);
	CAPTURED(cuMemcpyDtoH_v2, "plain", host, cap.mem, 4);
	CAPTURED(cuMemcpyDtoD_v2, "plain", cap.mem, cap.mem + 64, 4);
	CAPTURED(cuMemcpyHtoDAsync_v2, "pageable, legacy", cap.mem, host, 4,
		 NULL);
	CAPTURED(cuMemcpyHtoDAsync_v2, "pageable", cap.mem, host, 4,
		 cap.stream);
	CAPTURED(cuMemcpyHtoDAsync_v2, "0 bytes", cap.mem, host, 0,
		 cap.stream);
	CAPTURED(cuMemcpyHtoDAsync_v2, "to unmapped", UNMAPPED, host, 4,
		 cap.stream);
	CAPTURED(cuMemcpyDtoHAsync_v2, "pinned", cap.pinned, cap.mem, 4,
		 cap.stream);
	CAPTURED(cuMemcpyDtoDAsync_v2, "0 bytes", cap.mem, cap.mem + 64, 0,
		 cap.stream);
	CAPTURED(cuMemsetD8_v2, "plain", cap.mem, 0, 4);
	CAPTURED(cuMemsetD8Async, "0 bytes", cap.mem, 0, 0, cap.stream);
	CAPTURED(cuMemsetD8Async, "plain", cap.mem, 0, 4, cap.stream);
	CAPTURED(cuMemsetD8Async, "unmapped", 0x80, 0, 4096, cap.stream);
	CAPTURED(cuMemsetD8Async, "too far", cap.mem, 0, 1ull << 40,
		 cap.stream);
	CAPTURED(cuMemsetD32Async, "between two words", cap.mem + 2,
		 0, 4, cap.stream);
	CAPTURED(cuMemcpyDtoDAsync_v2, "unmapped", 0x80, 0x100, 4096,
		 cap.stream);
	CAPTURED(cuMemcpyHtoDAsync_v2, "unmapped", 0x80, host, 64,
		 cap.stream);
	CAPTURED(cuMemcpyAsync, "unmapped", 0x80, 0x100, 4096, cap.stream);
	CAPTURED(cuMemsetD32Async, "odd address", cap.mem + 1, 0, 1,
		 cap.stream);
	CAPTURED(cuMemsetD32Async, "legacy", cap.mem, 0, 1, NULL);
	CAPTURED(cuMemAllocAsync, "plain", PTR(0), 64, cap.stream);
	CAPTURED(cuMemAllocAsync, "0 bytes", PTR(0), 0, cap.stream);
	CAPTURED(cuMemFreeAsync, "0", 0, cap.stream);
	CAPTURED(cuMemAllocManaged, "plain", PTR(0), 64, 1);
	CAPTURED(cuPointerGetAttribute, "plain", I32(0),
		 CU_POINTER_ATTRIBUTE_MEMORY_TYPE, cap.mem);
}

static void
captured_rest(void)
{
	CAPTURED(cuCtxSynchronize, "plain");
	CAPTURED(cuCtxSetLimit, "plain", CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20);
	CAPTURED(cuCtxGetLimit, "plain", SOME(0), CU_LIMIT_STACK_SIZE);
	CAPTURED(cuDeviceGetAttribute, "plain", I32(0),
		 CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
	CAPTURED(cuDevicePrimaryCtxReset_v2, "device 99", 99);
	CAPTURED(cuStreamCreate, "plain", PTR(0), 0);
	CAPTURED(cuStreamQuery, "the stream", cap.stream);
	CAPTURED(cuStreamQuery, "another", cap.other);
	CAPTURED(cuStreamQuery, "legacy", NULL);
	CAPTURED(cuStreamSynchronize, "the stream", cap.stream);
	CAPTURED(cuStreamSynchronize, "another", cap.other);
	CAPTURED(cuStreamSynchronize, "legacy", NULL);
	CAPTURED(cuStreamGetFlags, "the stream", cap.stream, I32(0));
	CAPTURED(cuStreamBeginCapture_v2, "again", cap.stream, 0);
	CAPTURED(cuStreamEndCapture, "no out", cap.stream, NULL);
	CAPTURED(cuStreamEndCapture, "another", cap.other, PTR(0));
	CAPTURED(cuStreamAddCallback, "no function", cap.stream, NULL, NULL,
		 0);
	CAPTURED(cuLaunchHostFunc, "no function", cap.stream, NULL, NULL);
	CAPTURED(cuStreamAttachMemAsync, "plain", cap.stream, 0, 0, 4);
	CAPTURED(cuStreamIsCapturing, "legacy", NULL, I32(0));
	CAPTURED(cuStreamIsCapturing, "another", cap.other, I32(0));
	CAPTURED(cuStreamGetCaptureInfo_v2, "no status", cap.stream, NULL,
		 I64(0), NULL, NULL, NULL);
	CAPTURED(cuStreamGetCaptureInfo_v2, "the stream", cap.stream, I32(0),
		 SOME(1), PTR(2), NULL, NULL);
	CAPTURED(cuStreamGetCaptureInfo_v2, "legacy", NULL, I32(0), I64(1),
		 PTR(2), NULL, NULL);
	CAPTURED(cuStreamUpdateCaptureDependencies, "flags 7", cap.stream,
		 NULL, 0, 7);
	CAPTURED(cuStreamUpdateCaptureDependencies, "nodes of NULL",
		 cap.stream, NULL, 1, 0);
	CAPTURED(cuStreamUpdateCaptureDependencies, "to nothing", cap.stream,
		 NULL, 0, 1);
	CAPTURED(cuStreamWaitEvent, "never recorded", cap.stream, cap.fresh,
		 0);
	CAPTURED(cuStreamWaitEvent, "recorded before", cap.stream, cap.event,
		 0);
	CAPTURED(cuStreamWaitEvent, "none", cap.stream, NULL, 0);
	CAPTURED(cuEventRecord, "none", NULL, cap.stream);
	CAPTURED(cuEventRecord, "legacy", cap.spare, NULL);
	CAPTURED(cuEventCreate, "plain", PTR(0), 0);
	CAPTURED(cuEventQuery, "recorded before", cap.event);
	CAPTURED(cuEventSynchronize, "recorded before", cap.event);
	CAPTURED(cuEventElapsedTime_v2, "itself", F32(0), cap.event,
		 cap.event);
	CAPTURED(cuModuleLoadData, "PTX", PTR(0), row_ptx);
	CAPTURED(cuModuleLoadData, "junk", PTR(0), "junk");
	CAPTURED(cuModuleGetFunction, "plain", PTR(0), cap.module, "two");
	CAPTURED(cuModuleGetGlobal_v2, "plain", PTR(0), I64(1), cap.module,
		 "counter");
	CAPTURED(cuFuncGetAttribute, "plain", I32(0), 0, cap.none);
	CAPTURED(cuFuncSetAttribute, "plain", cap.none, 8, 1024);
	CAPTURED(cuLaunchKernel, "grid 0", cap.none, 0, 1, 1, 1, 1, 1, 0,
		 cap.stream, NULL, NULL);
	CAPTURED(cuLaunchKernel, "block 1025", cap.none, 1, 1, 1, 1025, 1, 1,
		 0, cap.stream, NULL, NULL);
	CAPTURED(cuLaunchKernel, "no function", NULL, 1, 1, 1, 1, 1, 1, 0,
		 cap.stream, NULL, NULL);
	CAPTURED(cuLaunchKernel, "legacy", cap.none, 1, 1, 1, 1, 1, 1, 0,
		 NULL, NULL, NULL);
	CAPTURED(cuLaunchKernel, "per thread", cap.none, 1, 1, 1, 1, 1, 1, 0,
		 CU_STREAM_PER_THREAD, NULL, NULL);
	CAPTURED(cuLaunchKernel, "the stream", cap.none, 1, 1, 1, 1, 1, 1, 0,
		 cap.stream, NULL, NULL);
	CAPTURED(cuLaunchCooperativeKernel, "too large", cap.none, 1 << 20, 1,
		 1, 1024, 1, 1, 0, cap.stream, NULL);
	CAPTURED(cuGraphCreate, "plain", PTR(0), 0);
	CAPTURED(cuGraphInstantiateWithFlags, "flags 64", PTR(0), cap.graph,
		 64);
	CAPTURED(cuOccupancyMaxActiveBlocksPerMultiprocessor, "plain",
		 SOME(0), cap.none, 32, 0);
	CAPTURED(cuArrayDestroy, "none", NULL);
	CAPTURED(cuThreadExchangeStreamCaptureMode, "mode 7",
		 memset(I32(0), 7, 1));
}

void
group_captures(void)
{
	row_context();
	OK(cuStreamCreate, &cap.stream, CU_STREAM_NON_BLOCKING);
	OK(cuStreamCreate, &cap.other, CU_STREAM_NON_BLOCKING);
	OK(cuEventCreate, &cap.event, 0);
	OK(cuEventCreate, &cap.fresh, 0);
	OK(cuEventCreate, &cap.spare, 0);
	OK(cuEventRecord, cap.event, cap.other);
	OK(cuStreamSynchronize, cap.other);
	OK(cuMemAlloc_v2, &cap.mem, 4096);
	OK(cuMemAllocHost_v2, &cap.pinned, 4096);
	OK(cuGraphCreate, &cap.graph, 0);
	cap.module = row_module();
	cap.none = row_kernel("none");
	row_set_after(after_capture);
	for (cap.mode = 0; cap.mode < 3; cap.mode++) {
		captured_memory();
		captured_rest();
	}
}
