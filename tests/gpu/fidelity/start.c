/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls before cuInit and without a context, and every exported function with
 * nothing but zeros.
 */
#include "tests/gpu/fidelity/rows.h"

#include "tests/gpu/fidelity/group.h"

void
group_before_init(void)
{
	ROW(cuDriverGetVersion, "before cuInit, no out", NULL);
	ROW(cuDriverGetVersion, "before cuInit", SOME(0));
	ROW(cuInit, "flags 1", 1);
	ROW(cuInit, "all flags", ~0u);
	ROW(cuGetErrorName, "no out", CUDA_SUCCESS, NULL);
	ROW(cuGetErrorName, "unknown code", 12345, PTR(0));
	ROW(cuGetErrorName, "negative code", (CUresult)-1, PTR(0));
	ROW(cuGetErrorString, "no out", CUDA_SUCCESS, NULL);
	ROW(cuGetErrorString, "unknown code", 12345, PTR(0));
	ROW(cuGetErrorString, "code 999", 999, PTR(0));
	ROW(cuGetProcAddress_v2, "no name", NULL, PTR(0), 13000, 0, I32(1));
	ROW(cuGetProcAddress_v2, "empty name", "", PTR(0), 13000, 0, I32(1));
	ROW(cuGetProcAddress_v2, "no out", "cuInit", NULL, 13000, 0, I32(1));
	ROW(cuGetProcAddress_v2, "unknown name", "cuNothing", PTR(0), 13000, 0,
	    I32(1));
	ROW(cuGetProcAddress_v2, "old version", "cuGraphCreate", PTR(0), 4000,
	    0, I32(1));
	ROW(cuGetProcAddress_v2, "version 0", "cuInit", PTR(0), 0, 0, I32(1));
	ROW(cuGetProcAddress_v2, "version -1", "cuInit", PTR(0), -1, 0,
	    I32(1));
	ROW(cuGetProcAddress_v2, "flags 4", "cuInit", PTR(0), 13000, 4,
	    I32(1));
	ROW(cuGetProcAddress_v2, "both streams' flags", "cuInit", PTR(0),
	    13000, 3, I32(1));
	ROW(cuGetProcAddress_v2, "no status", "cuInit", PTR(0), 13000, 0,
	    NULL);
	ROW(cuGetProcAddress, "unknown name", "cuNothing", PTR(0), 11030, 0);
	ROW(cuGetProcAddress, "known name", "cuInit", PTR(0), 11030, 0);
	ROW(cuGetExportTable, "no out", NULL, (const CUuuid *)row_zeros);
	ROW(cuGetExportTable, "no id", PTR(0), NULL);
	ROW(cuGetExportTable, "unknown id", PTR(0),
	    (const CUuuid *)row_zeros);
	ROW(cuDeviceGetCount, "before cuInit", I32(0));
	ROW(cuDeviceGet, "before cuInit", I32(0), 0);
	ROW(cuDeviceGetName, "before cuInit", BYTES(0), 64, 0);
	ROW(cuCtxGetCurrent, "before cuInit", PTR(0));
	ROW(cuCtxSetCurrent, "before cuInit", NULL);
	ROW(cuCtxSynchronize, "before cuInit");
	ROW(cuDevicePrimaryCtxRetain, "before cuInit", PTR(0), 0);
	ROW(cuMemAlloc_v2, "before cuInit", PTR(0), 64);
	ROW(cuMemFree_v2, "before cuInit, 0", 0);
	ROW(cuMemFreeHost, "before cuInit, NULL", NULL);
	ROW(cuMemHostAlloc, "before cuInit", PTR(0), 64, 0);
	ROW(cuMemcpyHtoD_v2, "before cuInit, 0 bytes", 0, row_zeros, 0);
	ROW(cuModuleLoadData, "before cuInit", PTR(0), row_ptx);
	ROW(cuModuleGetLoadingMode, "before cuInit", I32(0));
	ROW(cuLibraryLoadData, "before cuInit", PTR(0), row_ptx, NULL, NULL,
	    0, NULL, NULL, 0);
	ROW(cuStreamCreate, "before cuInit", PTR(0), 0);
	ROW(cuStreamSynchronize, "before cuInit", NULL);
	ROW(cuEventCreate, "before cuInit", PTR(0), 0);
	ROW(cuGraphCreate, "before cuInit", PTR(0), 0);
	ROW(cuPointerGetAttribute, "before cuInit", I32(0),
	    CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x1000);
	ROW(cuThreadExchangeStreamCaptureMode, "before cuInit",
	    memset(I32(0), 0, 4));
	ROW(cuLaunchKernel, "before cuInit", NULL, 1, 1, 1, 1, 1, 1, 0, NULL,
	    NULL, NULL);
}

void
group_no_context(void)
{
	CUDA_ARRAY_DESCRIPTOR array = { 16, 16, CU_AD_FORMAT_FLOAT, 1 };
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
	static char host[4096] __attribute__((aligned(4096)));

	OK(cuInit, 0);
	ROW(cuInit, "again with flags 1", 1);
	row_set_after(row_after_current);
	ROW(cuCtxGetDevice, "no context", I32(0));
	ROW(cuCtxGetDevice_v2, "no context", I32(0), NULL);
	ROW(cuCtxGetFlags, "no context", I32(0));
	ROW(cuCtxSetFlags, "no context", 0);
	ROW(cuCtxGetId, "no context", NULL, I64(0));
	ROW(cuCtxGetApiVersion, "no context", NULL, I32(0));
	ROW(cuCtxGetLimit, "no context", I64(0), CU_LIMIT_STACK_SIZE);
	ROW(cuCtxSetLimit, "no context", CU_LIMIT_STACK_SIZE, 1024);
	ROW(cuCtxGetCacheConfig, "no context", I32(0));
	ROW(cuCtxSetCacheConfig, "no context", CU_FUNC_CACHE_PREFER_L1);
	ROW(cuCtxGetSharedMemConfig, "no context", I32(0));
	ROW(cuCtxGetStreamPriorityRange, "no context", I32(0), I32(1));
	ROW(cuCtxResetPersistingL2Cache, "no context");
	ROW(cuCtxPopCurrent_v2, "no context", PTR(0));
	ROW(cuCtxSynchronize, "no context");
	ROW(cuCtxGetCurrent, "no context", PTR(0));
	ROW(cuMemGetInfo_v2, "no context", SOME(0), SOME(1));
	ROW(cuMemAlloc_v2, "no context", PTR(0), 64);
	ROW(cuMemAllocPitch_v2, "no context", PTR(0), I64(1), 64, 4, 4);
	ROW(cuMemAllocHost_v2, "no context", PTR(0), 64);
	ROW(cuMemHostAlloc, "no context", PTR(0), 64, 0);
	ROW(cuMemAllocManaged, "no context", PTR(0), 64, 1);
	ROW(cuMemHostRegister_v2, "no context", host, sizeof(host), 0);
	ROW(cuMemFree_v2, "no context, 0", 0);
	ROW(cuMemFreeHost, "no context, NULL", NULL);
	ROW(cuMemHostUnregister, "no context", host);
	ROW(cuMemHostGetFlags, "no context", I32(0), host);
	ROW(cuMemGetAddressRange_v2, "no context", PTR(0), I64(1), 0x1000);
	ROW(cuMemcpyHtoD_v2, "no context, 0 bytes", 0, host, 0);
	ROW(cuMemcpyDtoH_v2, "no context", host, 0x1000, 4);
	ROW(cuMemcpy, "no context", 0x1000, 0x2000, 4);
	ROW(cuMemsetD8_v2, "no context, 0 bytes", 0, 0, 0);
	ROW(cuMemsetD32Async, "no context", 0x1000, 0, 1, NULL);
	ROW(cuMemAllocAsync, "no context", PTR(0), 64, NULL);
	ROW(cuMemFreeAsync, "no context", 0x1000, NULL);
	ROW(cuMemAddressReserve, "no context, 1 byte", PTR(0), 1, 0, 0, 0);
	ROW(cuMemGetAllocationGranularity, "no context", I64(0), &prop,
	    CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	ROW(cuModuleLoadData, "no context", PTR(0), row_ptx);
	ROW(cuModuleLoad, "no context, no file", PTR(0), "/nonexistent");
	ROW(cuModuleGetLoadingMode, "no context", I32(0));
	ROW(cuLibraryLoadFromFile, "no context, no file", PTR(0),
	    "/nonexistent", NULL, NULL, 0, NULL, NULL, 0);
	ROW(cuStreamCreate, "no context", PTR(0), 0);
	ROW(cuStreamQuery, "no context, legacy", NULL);
	ROW(cuStreamQuery, "no context, per thread", CU_STREAM_PER_THREAD);
	ROW(cuStreamSynchronize, "no context", NULL);
	ROW(cuStreamWaitEvent, "no context, no event", NULL, NULL, 0);
	ROW(cuStreamGetId, "no context", NULL, I64(0));
	ROW(cuStreamGetFlags, "no context", NULL, I32(0));
	ROW(cuStreamGetPriority, "no context", NULL, I32(0));
	ROW(cuStreamGetCtx, "no context", NULL, PTR(0));
	ROW(cuStreamGetDevice, "no context", NULL, I32(0));
	ROW(cuStreamIsCapturing, "no context", NULL, I32(0));
	ROW(cuStreamBeginCapture_v2, "no context", NULL,
	    CU_STREAM_CAPTURE_MODE_GLOBAL);
	ROW(cuStreamEndCapture, "no context", NULL, PTR(0));
	ROW(cuEventCreate, "no context", PTR(0), 0);
	ROW(cuGraphCreate, "no context", PTR(0), 0);
	ROW(cuGraphCreate, "no context, flags 1", PTR(0), 1);
	ROW(cuArrayCreate_v2, "no context", PTR(0), &array);
	ROW(cuLinkCreate_v2, "no context", 0, NULL, NULL, PTR(0));
	ROW(cuPointerGetAttribute, "no context", I32(0),
	    CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host);
	ROW(cuThreadExchangeStreamCaptureMode, "no context, mode 7",
	    memset(I32(0), 7, 1));
	ROW(cuLaunchKernel, "no context", NULL, 1, 1, 1, 1, 1, 1, 0, NULL,
	    NULL, NULL);
	ROW(cuLaunchHostFunc, "no context, no function", NULL, NULL, NULL);
}

/* ---- zeros ---- */

static const char *const names[] = {
#include "fidelity_names.h"
};
#define NAMES (sizeof(names) / sizeof(names[0]))

/* Calls that would do something with zeros, or call NULL later on. */
static const char *const effective[] = {
	"cuCtxDetach", "cuCtxPopCurrent", "cuCtxPopCurrent_v2",
	"cuCtxSetCurrent", "cuDevicePrimaryCtxRelease",
	"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset",
	"cuDevicePrimaryCtxReset_v2", "cuInit", "cuLaunchHostFunc",
	"cuProfilerStart", "cuProfilerStop", "cuStreamAddCallback",
	"cuStreamBeginCapture", "cuStreamBeginCapture_v2",
};

static bool
takes_effect(const char *name)
{
	for (size_t i = 0; i < sizeof(effective) / sizeof(effective[0]); i++)
		if (strcmp(effective[i], name) == 0)
			return true;
	return false;
}

/* Enough of them for every argument that is passed on the stack, too. */
#define ZERO8 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L
typedef CUresult zeros_fn(long, long, long, long, long, long, long, long,
			  long, long, long, long, long, long, long, long,
			  long, long, long, long, long, long, long, long);

static void
zeros(const char *what, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		zeros_fn *f;

		if (takes_effect(names[i]))
			continue;
		f = (zeros_fn *)row_begin(names[i], what);
		if (f != NULL)
			row_end(f(ZERO8, ZERO8, ZERO8));
	}
}

void
group_zeros_before_init(void)
{
	zeros("zeros before cuInit", 0, NAMES);
}

void
group_zeros_no_context(void)
{
	OK(cuInit, 0);
	row_set_after(row_after_current);
	zeros("zeros, no context", 0, NAMES);
}

/* In four, since a driver that dies has to make its context anew. */
static void
zeros_quarter(size_t i)
{
	row_context();
	zeros("zeros", i * NAMES / 4, (i + 1) * NAMES / 4);
}

void
group_zeros_1(void)
{
	zeros_quarter(0);
}

void
group_zeros_2(void)
{
	zeros_quarter(1);
}

void
group_zeros_3(void)
{
	zeros_quarter(2);
}

void
group_zeros_4(void)
{
	zeros_quarter(3);
}
