/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of memory pools and stream-ordered allocation.
 */
#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/graph_mem.h"
#include "shim/mem.h"
#include "shim/mempool.h"
#include "shim/range.h"
#include "shim/stream.h"
#include "shim/supply.h"
#include "shim_impl.h"

static CUresult
give(CUmemoryPool *out, struct shim_mempool *pool)
{
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUmemoryPool)(uintptr_t)pool->object.handle;
	return CUDA_SUCCESS;
}

static CUresult
give_of(CUmemoryPool *out, CUdevice dev,
	struct shim_mempool *(*which)(int device))
{
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return out ? give(out, which(dev)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	return give_of(pool_out, dev, shim_mempool_default);
}

/* cuDeviceGetDefaultMemPool alone has a code for devices that are none. */
CUresult
shim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return shim_device_exists(dev) ?
	       give_of(pool, dev, shim_mempool_current) :
	       CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct shim_mempool *found = shim_mempool_get(pool);

	if (!found || found->client || found->device != dev)
		return CUDA_ERROR_INVALID_VALUE;
	shim_mempool_set(dev, found);
	return CUDA_SUCCESS;
}

/* Pools are of devices' memory. */
static CUresult
check_place(const CUmemLocation *location, CUmemAllocationType type)
{
	if (!location || type < CU_MEM_ALLOCATION_TYPE_PINNED ||
	    type > CU_MEM_ALLOCATION_TYPE_MANAGED ||
	    (location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
	     !shim_device_exists(location->id)))
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult
shim_cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
			    CUmemAllocationType type)
{
	CUresult r = check_place(location, type);

	return r ? r : give_of(pool_out, location->id, shim_mempool_default);
}

CUresult
shim_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
		     CUmemAllocationType type)
{
	CUresult r = check_place(location, type);

	return r ? r : give_of(pool, location->id, shim_mempool_current);
}

CUresult
shim_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
		     CUmemoryPool pool)
{
	CUresult r = check_place(location, type);

	return r ? r : shim_cuDeviceSetMemPool(location->id, pool);
}

#define KNOWN_HANDLES (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | \
		       CU_MEM_HANDLE_TYPE_WIN32 | \
		       CU_MEM_HANDLE_TYPE_WIN32_KMT | \
		       CU_MEM_HANDLE_TYPE_FABRIC)

static bool
is_zero(const unsigned char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i])
			return false;
	return true;
}

CUresult
shim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct shim_mempool *made;

	if (!pool || !poolProps)
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED ?
		       CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	if (poolProps->location.type == CU_MEM_LOCATION_TYPE_INVALID ||
	    (unsigned)poolProps->handleTypes & ~(unsigned)KNOWN_HANDLES ||
	    !is_zero(poolProps->reserved, sizeof(poolProps->reserved)))
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
	     poolProps->handleTypes !=
	     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!shim_device_exists(poolProps->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	made = shim_mempool_make(poolProps->location.id, poolProps->maxSize);
	if (made)
		made->shareable = poolProps->handleTypes != 0;
	return give(pool, made);
}

CUresult
shim_cuMemPoolDestroy(CUmemoryPool pool)
{
	struct shim_mempool *found = shim_mempool_get(pool);

	if (!found || found->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	shim_mempool_end(found);
	return CUDA_SUCCESS;
}

CUresult
shim_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	struct shim_mempool *found = shim_mempool_get(pool);
	struct shim_chan *chan;
	CUresult r;

	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	/* The heap keeps what is free for all of them. */
	r = shim_chan_get(found->device, &chan);
	if (r == CUDA_SUCCESS && !minBytesToKeep)
		shim_supply_release(chan);
	return r;
}

static int *
reuse_policy(struct shim_mempool *pool, CUmemPool_attribute attr)
{
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		return &pool->reuse[0];
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		return &pool->reuse[1];
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return &pool->reuse[2];
	}
	return NULL;
}

static CUresult
set_locked(struct shim_mempool *pool, CUmemPool_attribute attr,
	   const void *value)
{
	int *policy = reuse_policy(pool, attr);

	if (policy) {
		*policy = *(const int *)value != 0;
		return CUDA_SUCCESS;
	}
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = *(const cuuint64_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		/* Can only be reset. */
		if (*(const cuuint64_t *)value)
			return CUDA_ERROR_INVALID_VALUE;
		pool->high = pool->used;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult
get_locked(struct shim_mempool *pool, CUmemPool_attribute attr, void *value)
{
	const int *policy = reuse_policy(pool, attr);

	if (policy) {
		*(int *)value = *policy;
		return CUDA_SUCCESS;
	}
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(cuuint64_t *)value = pool->threshold;
		return CUDA_SUCCESS;
	/* What a pool holds is in use: what is freed leaves it. */
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->used;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = pool->high;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
			   void *value)
{
	struct shim_mempool *found = shim_mempool_get(pool);
	CUresult r;

	if (!found || !value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&found->lock);
	r = set_locked(found, attr, value);
	pthread_mutex_unlock(&found->lock);
	return r;
}

CUresult
shim_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
			   void *value)
{
	struct shim_mempool *found = shim_mempool_get(pool);
	CUresult r;

	if (!found || !value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&found->lock);
	r = get_locked(found, attr, value);
	pthread_mutex_unlock(&found->lock);
	return r;
}

CUresult
shim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map,
			size_t count)
{
	struct shim_mempool *found = shim_mempool_get(pool);

	if (!found || !map)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		if (!shim_device_exists(map[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
		/* One worker a device: no other one reaches its memory. */
		if (map[i].location.id != found->device &&
		    map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (map[i].location.id == found->device &&
		    map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ?
			       CUDA_ERROR_INVALID_DEVICE :
			       CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult
shim_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
			CUmemLocation *location)
{
	struct shim_mempool *found = shim_mempool_get(memPool);

	if (!found || !flags || !location ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !shim_device_exists(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = location->id == found->device ?
		 CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
		 CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

static CUresult
find_stream(CUstream handle, struct shim_stream **out_stream)
{
	CUresult r = shim_stream_find(handle, shim_current, out_stream);

	return r == CUDA_SUCCESS ? shim_capture_legacy(*out_stream) : r;
}

static CUresult
alloc(CUdeviceptr *dptr, size_t size, struct shim_mempool *pool,
      CUstream handle)
{
	struct shim_stream *stream;
	uint64_t address;
	CUresult r;

	/* An imported one has none to give. */
	if (!dptr || !pool || pool->client)
		return CUDA_ERROR_INVALID_VALUE;
	r = find_stream(handle, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (pool->device != shim_current->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* No error (measured), and no memory: cuMemFreeAsync takes a 0. */
	if (!size) {
		*dptr = 0;
		return CUDA_SUCCESS;
	}
	r = shim_stream_is_capturing(stream) ?
	    shim_capture_alloc(stream, pool->device, size, &address) :
	    shim_mempool_alloc(pool, size, &address);
	if (r == CUDA_SUCCESS)
		*dptr = address;
	return r;
}

CUresult
shim_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return alloc(dptr, bytesize,
		     shim_mempool_current(shim_current->device), hStream);
}

CUresult
shim_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize,
			     CUmemoryPool pool, CUstream hStream)
{
	return alloc(dptr, bytesize, shim_mempool_get(pool), hStream);
}

CUresult
shim_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct shim_stream *stream;
	CUresult r = find_stream(hStream, &stream);

	if (r == CUDA_SUCCESS && dptr && shim_stream_is_capturing(stream))
		return shim_capture_free(stream, dptr);
	/* Where the stream is then is behind us: all that was posted before
	 * retires before the block is used again. */
	return r || !dptr ? r : shim_mem_free(dptr);
}
