/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools. Stream-ordered memory comes from the same heap as all other:
 * a freed block is used again when everything posted before the free has
 * retired, which no order of streams can forbid. A pool therefore never keeps
 * anything of its own: it has a name, a limit and figures.
 */
#include "shim/mempool.h"

#include <stdlib.h>

#include "shim/ctx.h"
#include "shim/mem.h"
#include "shim/process.h"
#include "shim/range.h"
#include "shim/supply.h"

/* Guards both tables; a pool's own lock comes after it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shim_mempool *defaults[SHIM_MAX_DEVICES];
static struct shim_mempool *currents[SHIM_MAX_DEVICES];

struct shim_mempool *
shim_mempool_make(int device, uint64_t max)
{
	struct shim_mempool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	pool->max = max;
	/* As natively, all on. */
	for (unsigned i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	pthread_mutex_init(&pool->lock, NULL);
	if (shim_object_add(HANDLE_POOL, &pool->object) != 0) {
		free(pool);
		return NULL;
	}
	return pool;
}

static struct shim_mempool *
default_locked(int device)
{
	if (!defaults[device]) {
		defaults[device] = shim_mempool_make(device, 0);
		if (defaults[device])
			defaults[device]->is_default = true;
	}
	return defaults[device];
}

struct shim_mempool *
shim_mempool_default(int device)
{
	struct shim_mempool *pool;

	pthread_mutex_lock(&lock);
	pool = default_locked(device);
	pthread_mutex_unlock(&lock);
	return pool;
}

struct shim_mempool *
shim_mempool_current(int device)
{
	struct shim_mempool *pool;

	pthread_mutex_lock(&lock);
	pool = currents[device] ? currents[device] : default_locked(device);
	pthread_mutex_unlock(&lock);
	return pool;
}

void
shim_mempool_set(int device, struct shim_mempool *pool)
{
	pthread_mutex_lock(&lock);
	currents[device] = pool;
	pthread_mutex_unlock(&lock);
}

struct shim_mempool *
shim_mempool_get(CUmemoryPool handle)
{
	return shim_object_get(HANDLE_POOL, (uintptr_t)handle);
}

void
shim_mempool_end(struct shim_mempool *pool)
{
	pthread_mutex_lock(&lock);
	if (currents[pool->device] == pool)
		currents[pool->device] = NULL;
	pthread_mutex_unlock(&lock);
	shim_object_remove(HANDLE_POOL, pool->object.handle);
}

static bool
charge(struct shim_mempool *pool, uint64_t size)
{
	bool fits;

	pthread_mutex_lock(&pool->lock);
	fits = !pool->max || (size <= pool->max &&
			      pool->used <= pool->max - size);
	if (fits) {
		pool->used += size;
		if (pool->used > pool->high)
			pool->high = pool->used;
	}
	pthread_mutex_unlock(&pool->lock);
	return fits;
}

bool
shim_mempool_is_from(const struct shim_mempool *pool, uint64_t client,
		     uint64_t number)
{
	return pool->client == client && pool->number == number;
}

void
shim_mempool_freed(struct shim_mempool *pool, uint64_t size)
{
	pthread_mutex_lock(&pool->lock);
	pool->used -= size;
	pthread_mutex_unlock(&pool->lock);
}

CUresult
shim_mempool_alloc(struct shim_mempool *pool, uint64_t size,
		   uint64_t *out_address)
{
	struct shim_context *ctx = shim_current;
	struct shim_block *block;
	struct shim_range range;
	CUresult r;

	if (size > shim_process.devices[ctx->device].info->total_memory ||
	    !charge(pool, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = shim_supply_alloc(ctx->chan, false, size, &block);
	if (r != CUDA_SUCCESS) {
		shim_mempool_freed(pool, size);
		return r;
	}
	range = (struct shim_range){
		.start = block->address, .size = size, .kind = RANGE_DEVICE,
		.device = ctx->device, .ctx = ctx, .block = block,
		.pool = pool,
		.handle_types = pool->shareable ?
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0,
	};
	if (shim_range_add(&range)) {
		shim_supply_free(ctx->chan, false, block);
		shim_mempool_freed(pool, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out_address = range.start;
	return CUDA_SUCCESS;
}
