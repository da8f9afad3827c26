/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation. Memory comes at the call and goes back when
 * the stream reaches the free; nothing is kept in between, so a pool never
 * has more reserved than used.
 */
#include "server/soft/soft_mem.h"

#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_work.h"

struct soft_mempool {
	struct soft_device *device;
	unsigned refs;             /* handle, allocations */
	bool is_default;
	uint64_t used, used_high;  /* bytes */
	uint64_t release_threshold;
	int reuse[3];              /* the three reuse policies */
};

/* Guards all pools. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct soft_mempool *defaults[SOFT_DEVICES_MAX];
static struct soft_mempool *currents[SOFT_DEVICES_MAX];

static struct soft_mempool *
pool_new(struct soft_device *dev)
{
	struct soft_mempool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = dev;
	pool->refs = 1;
	pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
	if (!soft_handle_add(pool, SOFT_HANDLE_MEMPOOL)) {
		free(pool);
		return NULL;
	}
	return pool;
}

static void
pool_unref_locked(struct soft_mempool *pool)
{
	if (!--pool->refs)
		free(pool);
}

static struct soft_mempool *
default_pool_locked(struct soft_device *dev)
{
	struct soft_mempool **slot = &defaults[dev->ordinal];

	if (!*slot) {
		*slot = pool_new(dev);
		if (*slot)
			(*slot)->is_default = true;
	}
	return *slot;
}

static struct soft_mempool *
current_pool_locked(struct soft_device *dev)
{
	struct soft_mempool *pool = currents[dev->ordinal];

	return pool ? pool : default_pool_locked(dev);
}

static CUresult
pool_from(CUmemoryPool handle, struct soft_mempool **out_pool)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out_pool = soft_handle_get(handle, SOFT_HANDLE_MEMPOOL);
	return *out_pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice dev)
{
	CUresult res = soft_enter_live();
	struct soft_device *device = soft_device_get(dev);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pool_lock);
	*out = (CUmemoryPool)default_pool_locked(device);
	pthread_mutex_unlock(&pool_lock);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuDeviceGetMemPool(CUmemoryPool *out, CUdevice dev)
{
	CUresult res = soft_enter_live();
	struct soft_device *device = soft_device_get(dev);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pool_lock);
	*out = (CUmemoryPool)current_pool_locked(device);
	pthread_mutex_unlock(&pool_lock);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
	struct soft_mempool *pool;
	CUresult res = pool_from(handle, &pool);
	struct soft_device *device = soft_device_get(dev);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (pool->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pool_lock);
	currents[dev] = pool;
	pthread_mutex_unlock(&pool_lock);
	return CUDA_SUCCESS;
}

CUresult
cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
	CUresult res = soft_enter_live();
	struct soft_device *device;

	if (res)
		return res;
	if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	device = soft_device_get(props->location.id);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUmemoryPool)pool_new(device);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuMemPoolDestroy(CUmemoryPool handle)
{
	struct soft_mempool *pool;
	CUresult res = pool_from(handle, &pool);

	if (res)
		return res;
	pthread_mutex_lock(&pool_lock);
	if (pool->is_default) {
		res = CUDA_ERROR_INVALID_VALUE;
	} else if (soft_handle_del(pool, SOFT_HANDLE_MEMPOOL)) {
		if (currents[pool->device->ordinal] == pool)
			currents[pool->device->ordinal] = NULL;
		pool_unref_locked(pool);
	}
	pthread_mutex_unlock(&pool_lock);
	return res;
}

CUresult
cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	struct soft_mempool *pool;

	(void)keep;   /* never keeps anything, whatever it may keep */
	return pool_from(handle, &pool);
}

static int *
reuse_policy(struct soft_mempool *pool, CUmemPool_attribute attr)
{
	switch (attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		return &pool->reuse[0];
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		return &pool->reuse[1];
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return &pool->reuse[2];
	default:
		return NULL;
	}
}

CUresult
cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr,
		      void *value)
{
	struct soft_mempool *pool;
	CUresult res = pool_from(handle, &pool);

	if (res)
		return res;
	soft_follow(value);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pool_lock);
	if (reuse_policy(pool, attr))
		*reuse_policy(pool, attr) = *(int *)value != 0;
	else if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pool->release_threshold = *(cuuint64_t *)value;
	else if ((attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
		  attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) &&
		 !*(cuuint64_t *)value)
		pool->used_high = pool->used;
	else
		res = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&pool_lock);
	return res;
}

CUresult
cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr,
		      void *value)
{
	struct soft_mempool *pool;
	CUresult res = pool_from(handle, &pool);

	if (res)
		return res;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pool_lock);
	if (reuse_policy(pool, attr))
		*(int *)value = *reuse_policy(pool, attr);
	else if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		*(cuuint64_t *)value = pool->release_threshold;
	else if (attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ||
		 attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
		*(cuuint64_t *)value = pool->used;
	else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
		 attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		*(cuuint64_t *)value = pool->used_high;
	else
		res = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&pool_lock);
	return res;
}

CUresult
cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
		   CUmemLocation *location)
{
	struct soft_mempool *pool;
	CUresult res = pool_from(handle, &pool);

	if (res)
		return res;
	if (!flags || !location ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !soft_device_get(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	/* One address space: every device reads and writes everything. */
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

static CUresult
alloc_async(CUdeviceptr *dptr, size_t size, struct soft_mempool *pool,
	    struct soft_stream *stream)
{
	struct soft_range *range;
	CUresult res;

	if (!dptr || !pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture) {
		/* Memory nodes are not served. */
		soft_capture_invalidate(stream);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	res = soft_capture_implicit(stream);
	/* No error (measured), and no memory: cuMemFreeAsync takes a 0. */
	if (!res && !size)
		*dptr = 0;
	if (res || !size)
		return res;
	res = soft_mem_new(stream->ctx, SOFT_RANGE_POOL, size, &range);
	if (res)
		return res;
	pthread_mutex_lock(&pool_lock);
	range->pool = pool;
	pool->refs++;
	pool->used += range->charged;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	pthread_mutex_unlock(&pool_lock);
	*dptr = range->base;
	return CUDA_SUCCESS;
}

CUresult
cuMemAllocAsync(CUdeviceptr *dptr, size_t size, CUstream handle)
{
	struct soft_stream *stream;
	struct soft_mempool *pool;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	pthread_mutex_lock(&pool_lock);
	pool = current_pool_locked(stream->ctx->device);
	pthread_mutex_unlock(&pool_lock);
	return alloc_async(dptr, size, pool, stream);
}

CUresult
cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t size, CUmemoryPool handle,
			CUstream hstream)
{
	struct soft_stream *stream;
	struct soft_mempool *pool;
	CUresult res = pool_from(handle, &pool);

	if (!res)
		res = soft_stream_from(hstream, &stream, NULL);
	return res ? res : alloc_async(dptr, size, pool, stream);
}

static bool
mark_freeing(struct soft_range *range, void *arg)
{
	uint64_t *base = arg;

	if (range->base != *base)
		return true;
	if (!range->freeing)
		*base = 0;       /* ours to free */
	range->freeing = true;
	return false;
}

CUresult
cuMemFreeAsync(CUdeviceptr dptr, CUstream handle)
{
	struct soft_stream *stream;
	struct soft_range range;
	struct soft_work *work;
	uint64_t mine = dptr;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!dptr)
		return CUDA_SUCCESS;
	if (!soft_range_find(dptr, &range) || range.base != dptr ||
	    (range.kind != SOFT_RANGE_POOL && range.kind != SOFT_RANGE_DEVICE))
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture) {
		soft_capture_invalidate(stream);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	work = soft_work_new(SOFT_WORK_FREE);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	soft_range_each(mark_freeing, &mine);
	if (mine) {
		soft_work_free(work);
		return CUDA_ERROR_INVALID_VALUE;
	}
	work->free_addr = dptr;
	return soft_issue(stream, work, NULL);
}

/* The stream has reached the free; on a copy thread. */
CUresult
soft_mempool_free_run(uint64_t addr)
{
	struct soft_range *range = soft_range_take(addr, SOFT_RANGE_POOL);

	if (!range)
		range = soft_range_take(addr, SOFT_RANGE_DEVICE);
	if (!range)
		return CUDA_SUCCESS;   /* its context went first */
	if (range->pool)
		soft_mempool_range_gone(range);
	soft_range_free(range);
	return CUDA_SUCCESS;
}

void
soft_mempool_range_gone(struct soft_range *range)
{
	pthread_mutex_lock(&pool_lock);
	range->pool->used -= range->charged;
	pool_unref_locked(range->pool);
	range->pool = NULL;
	pthread_mutex_unlock(&pool_lock);
}
