/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory hints, peer access, profiler switches: what there is to do
 * for them when all memory is the host's.
 */
#include <string.h>

#include "server/soft/soft_mem.h"
#include "server/soft/soft_work.h"

static bool
is_managed(uint64_t addr, size_t size)
{
	struct soft_range range;

	return size && soft_range_find(addr, &range) &&
	       range.kind == SOFT_RANGE_MANAGED && size <= range.end - addr;
}

static CUresult
location_check(CUmemLocation location)
{
	switch (location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return soft_device_get(location.id) ? CUDA_SUCCESS :
		       CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUmemLocation
location_of(CUdevice dev)
{
	CUmemLocation location;

	memset(&location, 0, sizeof(location));
	location.type = dev == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST :
			CU_MEM_LOCATION_TYPE_DEVICE;
	location.id = dev == CU_DEVICE_CPU ? 0 : dev;
	return location;
}

/* The pages are where they are; what is left of a prefetch is its place in
 * the stream. */
CUresult
cuMemPrefetchAsync_v2(CUdeviceptr ptr, size_t count, CUmemLocation location,
		      unsigned int flags, CUstream handle)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (!res)
		res = location_check(location);
	if (res)
		return res;
	if (flags || !is_managed(ptr, count))
		return CUDA_ERROR_INVALID_VALUE;
	return soft_issue(stream, soft_work_new(SOFT_WORK_EMPTY), NULL);
}

CUresult
cuMemPrefetchAsync(CUdeviceptr ptr, size_t count, CUdevice dev,
		   CUstream stream)
{
	return cuMemPrefetchAsync_v2(ptr, count, location_of(dev), 0, stream);
}

CUresult
cuMemAdvise_v2(CUdeviceptr ptr, size_t count, CUmem_advise advice,
	       CUmemLocation location)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
	    advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY || !is_managed(ptr, count))
		return CUDA_ERROR_INVALID_VALUE;
	res = location_check(location);
	/* Read-mostly is about no place, but one must be named. */
	return advice <= CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
	       res == CUDA_ERROR_INVALID_DEVICE ? CUDA_SUCCESS : res;
}

CUresult
cuMemAdvise(CUdeviceptr ptr, size_t count, CUmem_advise advice, CUdevice dev)
{
	return cuMemAdvise_v2(ptr, count, advice, location_of(dev));
}

CUresult
cuStreamAttachMemAsync(CUstream handle, CUdeviceptr ptr, size_t length,
		       unsigned int flags)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!is_managed(ptr, length ? length : 1) ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	     flags != CU_MEM_ATTACH_SINGLE))
		return CUDA_ERROR_INVALID_VALUE;
	return soft_issue(stream, soft_work_new(SOFT_WORK_EMPTY), NULL);
}

static CUresult
peer_enter(CUcontext handle)
{
	struct soft_ctx *ctx, *peer;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	peer = soft_ctx_from(handle);
	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	return peer->device == ctx->device ?
	       CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_SUCCESS;
}

/* Guards who enabled whom: a bit for each pair of ordinals. */
static pthread_mutex_t peer_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t peers[SOFT_DEVICES_MAX];

static CUresult
peer_switch(CUcontext handle, bool on)
{
	CUresult res = peer_enter(handle);
	uint32_t bit, *row;

	if (res)
		return res;
	row = &peers[soft_ctx_current()->device->ordinal];
	bit = 1u << soft_ctx_from(handle)->device->ordinal;
	pthread_mutex_lock(&peer_lock);
	if (on && *row & bit)
		res = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	else if (!on && !(*row & bit))
		res = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	else
		*row ^= bit;
	pthread_mutex_unlock(&peer_lock);
	return res;
}

CUresult
cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	return flags ? CUDA_ERROR_INVALID_VALUE : peer_switch(peer, true);
}

CUresult
cuCtxDisablePeerAccess(CUcontext peer)
{
	return peer_switch(peer, false);
}

CUresult
cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attr, CUdevice src,
			CUdevice dst)
{
	CUresult res = soft_enter();

	if (res)
		return res;
	if (!soft_device_get(src) || !soft_device_get(dst))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || src == dst)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)attr) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		*value = 1;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
