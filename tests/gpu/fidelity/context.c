/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, and contexts alive and dead.
 */
#include "tests/gpu/fidelity/rows.h"

#include "tests/gpu/fidelity/group.h"

static void
device_attributes(void)
{
	static const int bad[] = { -1, 0, 151, 200, 1000 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ROW(cuDeviceGetAttribute, row_text("attribute %d", bad[i]),
		    I32(0), (CUdevice_attribute)bad[i], 0);
	ROW(cuDeviceGetAttribute, "no out", NULL,
	    CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
	ROW(cuDeviceGetAttribute, "device 99", I32(0),
	    CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99);
	ROW(cuDeviceGetAttribute, "device -1", I32(0),
	    CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1);
	ROW(cuDeviceGetAttribute, "no out, device 99", NULL,
	    CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99);
	ROW(cuDeviceGetAttribute, "warp size", I32(0),
	    CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
	ROW(cuDeviceGetP2PAttribute, "same device", I32(0),
	    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0);
	ROW(cuDeviceGetP2PAttribute, "device 99", I32(0),
	    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 99);
	ROW(cuDeviceGetP2PAttribute, "attribute 0", I32(0), 0, 0, 0);
	ROW(cuDeviceGetP2PAttribute, "attribute 99", I32(0), 99, 0, 0);
	ROW(cuDeviceGetP2PAttribute, "no out", NULL,
	    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0);
	ROW(cuDeviceCanAccessPeer, "same device", I32(0), 0, 0);
	ROW(cuDeviceCanAccessPeer, "device 99", I32(0), 0, 99);
	ROW(cuDeviceCanAccessPeer, "no out", NULL, 0, 0);
}

void
group_device(void)
{
	OK(cuInit, 0);
	ROW(cuDeviceGetCount, "no out", NULL);
	ROW(cuDeviceGet, "no out", NULL, 0);
	ROW(cuDeviceGet, "ordinal -1", I32(0), -1);
	ROW(cuDeviceGet, "ordinal 99", I32(0), 99);
	ROW(cuDeviceGet, "ordinal 0", I32(0), 0);
	ROW(cuDeviceGetName, "no out", NULL, 64, 0);
	ROW(cuDeviceGetName, "length 0", BYTES(0), 0, 0);
	ROW(cuDeviceGetName, "length -1", BYTES(0), -1, 0);
	ROW(cuDeviceGetName, "length 1", BYTES(0), 1, 0);
	ROW(cuDeviceGetName, "length 4", BYTES(0), 4, 0);
	ROW(cuDeviceGetName, "device 99", BYTES(0), 64, 99);
	ROW(cuDeviceGetUuid_v2, "no out", NULL, 0);
	ROW(cuDeviceGetUuid_v2, "device 99", BYTES(0), 99);
	ROW(cuDeviceGetUuid, "device 99", BYTES(0), 99);
	ROW(cuDeviceGetLuid, "a device of Linux", BYTES(0), I32(1), 0);
	ROW(cuDeviceGetLuid, "no out", NULL, NULL, 0);
	ROW(cuDeviceTotalMem_v2, "no out", NULL, 0);
	ROW(cuDeviceTotalMem_v2, "device 99", I64(0), 99);
	ROW(cuDeviceGetProperties, "no out", NULL, 0);
	ROW(cuDeviceGetProperties, "device 99", SOME(0), 99);
	ROW(cuDeviceComputeCapability, "no major", NULL, I32(0), 0);
	ROW(cuDeviceComputeCapability, "no minor", I32(0), NULL, 0);
	ROW(cuDeviceComputeCapability, "device 99", I32(0), I32(1), 99);
	ROW(cuDeviceGetByPCIBusId, "no out", NULL, "0000:00:00.0");
	ROW(cuDeviceGetByPCIBusId, "no text", I32(0), NULL);
	ROW(cuDeviceGetByPCIBusId, "empty", I32(0), "");
	ROW(cuDeviceGetByPCIBusId, "junk", I32(0), "junk");
	ROW(cuDeviceGetByPCIBusId, "nobody's", I32(0), "ffff:ff:1f.0");
	ROW(cuDeviceGetPCIBusId, "no out", NULL, 32, 0);
	ROW(cuDeviceGetPCIBusId, "length 0", BYTES(0), 0, 0);
	ROW(cuDeviceGetPCIBusId, "length 1", BYTES(0), 1, 0);
	ROW(cuDeviceGetPCIBusId, "length 12", BYTES(0), 12, 0);
	ROW(cuDeviceGetPCIBusId, "length 13", BYTES(0), 13, 0);
	ROW(cuDeviceGetPCIBusId, "device 99", BYTES(0), 32, 99);
	ROW(cuDeviceGetTexture1DLinearMaxWidth, "no out", NULL,
	    CU_AD_FORMAT_FLOAT, 1, 0);
	ROW(cuDeviceGetTexture1DLinearMaxWidth, "3 channels", I64(0),
	    CU_AD_FORMAT_FLOAT, 3, 0);
	ROW(cuDeviceGetExecAffinitySupport, "type 9", I32(0), 9, 0);
	ROW(cuDeviceGetDefaultMemPool, "no out", NULL, 0);
	ROW(cuDeviceGetDefaultMemPool, "device 99", PTR(0), 99);
	ROW(cuDeviceGetMemPool, "no out", NULL, 0);
	ROW(cuDeviceGetMemPool, "device 99", PTR(0), 99);
	ROW(cuDeviceSetMemPool, "no pool", 0, NULL);
	ROW(cuDeviceSetMemPool, "no pool, device 99", 99, NULL);
	ROW(cuDevicePrimaryCtxSetFlags_v2, "flags 3", 0, 3);
	ROW(cuDevicePrimaryCtxSetFlags_v2, "device 99", 99, 0);
	ROW(cuDevicePrimaryCtxGetState, "device 99", 99, I32(0), I32(1));
	ROW(cuDevicePrimaryCtxGetState, "not active", 0, I32(0), I32(1));
	ROW(cuDevicePrimaryCtxRetain, "device -1", PTR(0), -1);
	ROW(cuDevicePrimaryCtxRelease_v2, "never retained", 0);
	ROW(cuDevicePrimaryCtxReset_v2, "never retained", 0);
	device_attributes();
}

static void
limits(void)
{
	static const struct {
		int limit;
		size_t value;
	} rows[] = {
		{ CU_LIMIT_STACK_SIZE, 0 },
		{ CU_LIMIT_STACK_SIZE, (size_t)1 << 40 },
		{ CU_LIMIT_STACK_SIZE, ~(size_t)0 },
		{ CU_LIMIT_PRINTF_FIFO_SIZE, 0 },
		{ CU_LIMIT_PRINTF_FIFO_SIZE, ~(size_t)0 },
		{ CU_LIMIT_MALLOC_HEAP_SIZE, ~(size_t)0 },
		{ CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 5 },
		{ CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, ~(size_t)0 },
		{ CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 129 },
		{ CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ~(size_t)0 },
		{ CU_LIMIT_SHMEM_SIZE, 4096 },
		{ CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED, 1 },
		{ 11, 1 }, { 77, 1 }, { -1, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ROW(cuCtxSetLimit, row_text("limit %d to %zd", rows[i].limit,
					    (ssize_t)rows[i].value),
		    (CUlimit)rows[i].limit, rows[i].value);
	ROW(cuCtxGetLimit, "no out", NULL, CU_LIMIT_STACK_SIZE);
	for (int i = 7; i < 13; i++)
		ROW(cuCtxGetLimit, row_text("limit %d", i), I64(0),
		    (CUlimit)i);
	ROW(cuCtxGetLimit, "limit -1", I64(0), (CUlimit)-1);
	ROW(cuCtxGetLimit, "no out, limit 77", NULL, 77);
}

void
group_context(void)
{
	CUcontext ctx = row_context();
	CUctxCreateParams no_params = { 0 };
	CUexecAffinityParam affinity = {
		.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT,
	};

	ROW(cuCtxCreate_v2, "no out", NULL, 0, 0);
	ROW(cuCtxCreate_v2, "device 99", PTR(0), 0, 99);
	ROW(cuCtxCreate_v2, "flags 3", PTR(0), 3, 0);
	ROW(cuCtxCreate_v2, "flags 0x200", PTR(0), 0x200, 0);
	ROW(cuCtxCreate_v2, "all flags", PTR(0), ~0u, 0);
	ROW(cuCtxCreate_v3, "affinities of NULL", PTR(0), NULL, 1, 0, 0);
	ROW(cuCtxCreate_v3, "affinities -1", PTR(0), &affinity, -1, 0, 0);
	ROW(cuCtxCreate_v3, "no SMs", PTR(0), &affinity, 1, 0, 0);
	ROW(cuCtxCreate_v4, "no out", NULL, NULL, 0, 0);
	ROW(cuCtxCreate_v4, "device 99", PTR(0), &no_params, 0, 99);
	ROW(cuCtxCreate_v4, "flags 3", PTR(0), NULL, 3, 0);
	ROW(cuCtxDestroy_v2, "the primary context", ctx);
	ROW(cuCtxDestroy_v2, "none", NULL);
	ROW(cuCtxPushCurrent_v2, "none", NULL);
	ROW(cuCtxGetCurrent, "no out", NULL);
	ROW(cuCtxGetDevice, "no out", NULL);
	ROW(cuCtxGetDevice_v2, "no out", NULL, ctx);
	ROW(cuCtxGetFlags, "no out", NULL);
	ROW(cuCtxSetFlags, "flags 3", 3);
	ROW(cuCtxSetFlags, "all flags", ~0u);
	ROW(cuCtxGetId, "no out", ctx, NULL);
	ROW(cuCtxGetId, "current, no out", NULL, NULL);
	ROW(cuCtxGetApiVersion, "no out", ctx, NULL);
	ROW(cuCtxGetApiVersion, "current", NULL, I32(0));
	ROW(cuCtxGetCacheConfig, "no out", NULL);
	ROW(cuCtxSetCacheConfig, "configuration 4", 4);
	ROW(cuCtxSetCacheConfig, "configuration -1", (CUfunc_cache)-1);
	ROW(cuCtxGetSharedMemConfig, "no out", NULL);
	ROW(cuCtxSetSharedMemConfig, "configuration 3", 3);
	ROW(cuCtxGetStreamPriorityRange, "no least", NULL, I32(0));
	ROW(cuCtxGetStreamPriorityRange, "no greatest", I32(0), NULL);
	ROW(cuCtxGetExecAffinity, "no out", NULL,
	    CU_EXEC_AFFINITY_TYPE_SM_COUNT);
	ROW(cuCtxGetExecAffinity, "type 9", SOME(0), 9);
	ROW(cuCtxEnablePeerAccess, "itself", ctx, 0);
	ROW(cuCtxEnablePeerAccess, "flags 1", ctx, 1);
	ROW(cuCtxEnablePeerAccess, "none", NULL, 0);
	ROW(cuCtxDisablePeerAccess, "itself", ctx);
	ROW(cuCtxDisablePeerAccess, "none", NULL);
	ROW(cuCtxRecordEvent, "no event", ctx, NULL);
	ROW(cuCtxWaitEvent, "no event", ctx, NULL);
	ROW(cuDevicePrimaryCtxSetFlags_v2, "active, flags 3", 0, 3);
	ROW(cuDevicePrimaryCtxSetFlags_v2, "active, all flags", 0, ~0u);
	limits();
}

/* A context that is gone while somebody still has it, not as current. */
void
group_dead_context(void)
{
	CUcontext primary = row_context(), dead;
	CUdeviceptr mem;
	CUstream s;
	CUevent e;

	OK(cuCtxCreate_v2, &dead, 0, 0);
	OK(cuStreamCreate, &s, 0);
	OK(cuEventCreate, &e, 0);
	OK(cuMemAlloc_v2, &mem, 64);
	OK(cuCtxDestroy_v2, dead);
	OK(cuCtxSetCurrent, primary);
	ROW(cuMemFree_v2, "memory of a dead context", mem);
	ROW(cuMemsetD8_v2, "memory of a dead context", mem, 0, 4);
	ROW(cuMemGetAddressRange_v2, "memory of a dead context", PTR(0),
	    I64(1), mem);
	ROW(cuPointerGetAttribute, "memory of a dead context", I32(0),
	    CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mem);
	ROW(cuCtxDestroy_v2, "dead", dead);
	ROW(cuCtxGetId, "dead", dead, I64(0));
	ROW(cuCtxGetApiVersion, "dead", dead, I32(0));
	ROW(cuCtxGetDevice_v2, "dead", SOME(0), dead);
	ROW(cuCtxSynchronize_v2, "dead", dead);
	ROW(cuCtxEnablePeerAccess, "dead", dead, 0);
	ROW(cuStreamQuery, "stream of a dead context", s);
	ROW(cuStreamSynchronize, "stream of a dead context", s);
	ROW(cuStreamGetFlags, "stream of a dead context", s, I32(0));
	ROW(cuStreamGetId, "stream of a dead context", s, SOME(0));
	ROW(cuStreamGetCtx, "stream of a dead context", s, PTR(0));
	ROW(cuEventRecord, "stream of a dead context", e, s);
	ROW(cuStreamDestroy_v2, "stream of a dead context", s);
	ROW(cuEventQuery, "event of a dead context", e);
	ROW(cuEventSynchronize, "event of a dead context", e);
	ROW(cuEventRecord, "event of a dead context", e, NULL);
	ROW(cuStreamWaitEvent, "event of a dead context", NULL, e, 0);
	ROW(cuEventDestroy_v2, "event of a dead context", e);
}
