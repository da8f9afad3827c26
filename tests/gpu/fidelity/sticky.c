/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is still answered, and how, when a kernel has done what poisons its
 * context.
 */
#include "tests/gpu/fidelity/rows.h"

static struct {
	CUcontext ctx;
	CUstream stream;
	CUevent event;
	CUdeviceptr mem;
	CUfunction none, store;
	CUlibrary library;
	CUkernel kernel;
	CUgraph graph;
	CUgraphExec exec;
	CUarray array;
	void *pinned;
	const char *by;		/* what poisoned it */
} s;

/* A row of every poison: the case names it. */
#define ASK(f, what, ...)						\
	ROW(f, row_text("after %s%s%s", s.by, what[0] ? ", " : "", what), \
	    __VA_ARGS__)

static void
make(void)
{
	const CUDA_ARRAY_DESCRIPTOR flat = { 16, 16, CU_AD_FORMAT_FLOAT, 1 };

	s.ctx = row_context();
	OK(cuStreamCreate, &s.stream, CU_STREAM_NON_BLOCKING);
	OK(cuEventCreate, &s.event, 0);
	OK(cuEventRecord, s.event, s.stream);
	OK(cuMemAlloc_v2, &s.mem, 4096);
	OK(cuMemAllocHost_v2, &s.pinned, 4096);
	OK(cuArrayCreate_v2, &s.array, &flat);
	OK(cuLibraryLoadData, &s.library, row_ptx, NULL, NULL, 0, NULL, NULL,
	   0);
	OK(cuLibraryGetKernel, &s.kernel, s.library, "none");
	OK(cuGraphCreate, &s.graph, 0);
	OK(cuGraphInstantiateWithFlags, &s.exec, s.graph, 0);
	s.none = row_kernel("none");
	s.store = row_kernel("store");
	OK(cuCtxSynchronize);
}

/* The rows of every poison; destroying comes last. */
static void
poisoned(void)
{
	row_stay();
	ASK(cuCtxSynchronize, "first");
	TRY(cuCtxSynchronize);
	ASK(cuCtxSynchronize, "again");
	ASK(cuStreamQuery, "", s.stream);
	ASK(cuStreamQuery, "legacy", NULL);
	ASK(cuStreamSynchronize, "", s.stream);
	ASK(cuEventQuery, "recorded before", s.event);
	ASK(cuEventSynchronize, "recorded before", s.event);
	ASK(cuEventRecord, "", s.event, s.stream);
	ASK(cuEventElapsedTime_v2, "", F32(0), s.event, s.event);
	ASK(cuEventCreate, "", PTR(0), 0);
	ASK(cuEventCreate, "no out", NULL, 0);
	ASK(cuStreamWaitEvent, "", s.stream, s.event, 0);
	ASK(cuStreamCreate, "", PTR(0), 0);
	ASK(cuStreamCreate, "flags 2", PTR(0), 2);
	ASK(cuStreamGetFlags, "", s.stream, I32(0));
	ASK(cuStreamGetPriority, "", s.stream, I32(0));
	ASK(cuStreamGetId, "", s.stream, SOME(0));
	ASK(cuStreamGetCtx, "", s.stream, PTR(0));
	ASK(cuStreamIsCapturing, "", s.stream, I32(0));
	ASK(cuStreamBeginCapture_v2, "", s.stream, 2);
	ASK(cuStreamEndCapture, "", s.stream, PTR(0));
	ASK(cuLaunchKernel, "", s.none, 1, 1, 1, 1, 1, 1, 0, s.stream,
	    NULL, NULL);
	ASK(cuLaunchKernel, "grid 0", s.none, 0, 1, 1, 1, 1, 1, 0,
	    s.stream, NULL, NULL);
	ASK(cuLaunchHostFunc, "no function", s.stream, NULL, NULL);
	ASK(cuMemAlloc_v2, "", PTR(0), 64);
	ASK(cuMemAlloc_v2, "no out", NULL, 64);
	ASK(cuMemAlloc_v2, "0 bytes", PTR(0), 0);
	ASK(cuMemAllocAsync, "", PTR(0), 64, s.stream);
	ASK(cuMemAllocManaged, "", PTR(0), 64, 1);
	ASK(cuMemAllocHost_v2, "", PTR(0), 64);
	ASK(cuMemGetInfo_v2, "", SOME(0), SOME(1));
	ASK(cuMemGetAddressRange_v2, "", PTR(0), I64(1), s.mem);
	ASK(cuMemHostGetFlags, "", I32(0), s.pinned);
	ASK(cuMemHostGetDevicePointer_v2, "", PTR(0), s.pinned, 0);
	ASK(cuMemcpyHtoD_v2, "", s.mem, row_zeros, 4);
	ASK(cuMemcpyHtoD_v2, "0 bytes", s.mem, row_zeros, 0);
	ASK(cuMemcpyDtoH_v2, "", row_zeros, s.mem, 4);
	ASK(cuMemcpyDtoDAsync_v2, "", s.mem, s.mem + 64, 4, s.stream);
	ASK(cuMemcpyHtoDAsync_v2, "", s.mem, s.pinned, 4, s.stream);
	ASK(cuMemsetD8_v2, "", s.mem, 0, 4);
	ASK(cuMemsetD8Async, "", s.mem, 0, 4, s.stream);
	ASK(cuPointerGetAttribute, "", I32(0),
	    CU_POINTER_ATTRIBUTE_MEMORY_TYPE, s.mem);
	ASK(cuModuleLoadData, "", PTR(0), row_ptx);
	ASK(cuModuleLoadData, "junk", PTR(0), "junk");
	ASK(cuModuleGetFunction, "", PTR(0), row_module(), "two");
	ASK(cuModuleGetGlobal_v2, "", PTR(0), I64(1), row_module(),
	    "counter");
	ASK(cuModuleGetLoadingMode, "", I32(0));
	ASK(cuLibraryLoadData, "", PTR(0), row_ptx, NULL, NULL, 0,
	    NULL, NULL, 0);
	ASK(cuLibraryGetKernel, "", PTR(0), s.library, "two");
	ASK(cuKernelGetFunction, "", PTR(0), s.kernel);
	ASK(cuFuncGetAttribute, "", I32(0), 0, s.none);
	ASK(cuFuncSetAttribute, "", s.none, 8, 1024);
	ASK(cuOccupancyMaxActiveBlocksPerMultiprocessor, "", SOME(0),
	    s.none, 32, 0);
	ASK(cuGraphCreate, "", PTR(0), 0);
	ASK(cuGraphAddEmptyNode, "", PTR(0), s.graph, NULL, 0);
	ASK(cuGraphInstantiateWithFlags, "", PTR(0), s.graph, 0);
	ASK(cuGraphLaunch, "", s.exec, s.stream);
	ASK(cuGraphUpload, "", s.exec, s.stream);
	ASK(cuCtxGetCurrent, "", PTR(0));
	ASK(cuCtxGetDevice, "", I32(0));
	ASK(cuCtxGetFlags, "", I32(0));
	ASK(cuCtxGetId, "", s.ctx, SOME(0));
	ASK(cuCtxGetApiVersion, "", s.ctx, I32(0));
	ASK(cuCtxGetLimit, "", SOME(0), CU_LIMIT_STACK_SIZE);
	ASK(cuCtxSetLimit, "", CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20);
	ASK(cuCtxGetCacheConfig, "", I32(0));
	ASK(cuCtxGetStreamPriorityRange, "", SOME(0), SOME(1));
	ASK(cuCtxSetCurrent, "", s.ctx);
	ASK(cuCtxCreate_v2, "flags 3", PTR(0), 3, 0);
	ASK(cuDeviceGet, "", I32(0), 0);
	ASK(cuDeviceGetAttribute, "", I32(0),
	    CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
	ASK(cuDeviceTotalMem_v2, "", SOME(0), 0);
	ASK(cuDevicePrimaryCtxGetState, "", 0, I32(0), I32(1));
	ASK(cuDeviceGetDefaultMemPool, "", PTR(0), 0);
	ASK(cuDriverGetVersion, "", SOME(0));
	ASK(cuInit, "", 0);
	ASK(cuThreadExchangeStreamCaptureMode, "",
	    memset(I32(0), 0, 4));
	ASK(cuMemFree_v2, "0", 0);
	ASK(cuMemFree_v2, "", s.mem);
	ASK(cuMemFreeHost, "", s.pinned);
	ASK(cuArrayDestroy, "", s.array);
	ASK(cuGraphExecDestroy, "", s.exec);
	ASK(cuGraphDestroy, "", s.graph);
	ASK(cuEventDestroy_v2, "", s.event);
	ASK(cuStreamDestroy_v2, "", s.stream);
	ASK(cuLibraryUnload, "", s.library);
	ASK(cuModuleUnload, "", row_module());
	ASK(cuDevicePrimaryCtxRelease_v2, "", 0);
	ASK(cuDevicePrimaryCtxRetain, "after a release", PTR(0), 0);
	ASK(cuDevicePrimaryCtxReset_v2, "", 0);
	ASK(cuMemAlloc_v2, "after a reset", PTR(0), 64);
}

static void
store_at(CUdeviceptr where)
{
	uint32_t value = 1;
	void *args[] = { &where, &value };

	OK(cuLaunchKernel, s.store, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
}

void
group_after_illegal_address(void)
{
	make();
	s.by = "an illegal address";
	store_at(0xdead0000);
	poisoned();
}

void
group_after_misaligned(void)
{
	make();
	s.by = "a misaligned one";
	store_at(s.mem + 1);
	poisoned();
}

void
group_after_trap(void)
{
	make();
	s.by = "a trap";
	OK(cuLaunchKernel, row_kernel("trap"), 1, 1, 1, 1, 1, 1, 0, NULL,
	   NULL, NULL);
	poisoned();
}
