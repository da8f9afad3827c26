/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools: names and figures over the one heap of device memory.
 * Used by mempool*.c, and by mem.c when memory of a pool is freed.
 */
#ifndef SHIM_MEMPOOL_H
#define SHIM_MEMPOOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "shim/object.h"

/* Never freed: memory may outlive its pool's handle. */
struct shim_mempool {
	struct shim_object object;
	int device;
	bool is_default;
	uint64_t max;                 /* 0: none */
	pthread_mutex_t lock;         /* guards the rest */
	uint64_t used, high, threshold;
	int reuse[3];                 /* policies, in the order of cuda.h */
	/* Constant. Of another process: whose, and its number there. */
	uint64_t client, number;
	bool shareable;               /* made to be exported */
	atomic_bool exported;         /* and was */
};

/* Of a device that exists: CUDA's own, and what programs have set. NULL: no
 * memory. */
struct shim_mempool *shim_mempool_default(int device);
struct shim_mempool *shim_mempool_current(int device);
/* NULL: the default one. */
void shim_mempool_set(int device, struct shim_mempool *pool);
struct shim_mempool *shim_mempool_make(int device, uint64_t max);
struct shim_mempool *shim_mempool_get(CUmemoryPool handle);
/* It no longer is any device's current one, and has no name. */
void shim_mempool_end(struct shim_mempool *pool);

CUresult shim_mempool_alloc(struct shim_mempool *pool, uint64_t size,
			    uint64_t *out_address);
/* Is it what was exported as that client's pool of that number? */
bool shim_mempool_is_from(const struct shim_mempool *pool, uint64_t client,
			  uint64_t number);
/* Memory of that pool, whose handle may be gone, has been freed. */
void shim_mempool_freed(struct shim_mempool *pool, uint64_t size);

#endif
