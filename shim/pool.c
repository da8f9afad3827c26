/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one object type: a free list. The process never gives objects
 * back to malloc; their number is the largest that lived at once.
 */
#include "shim/pool.h"

#include <stdlib.h>
#include <string.h>

static void **
link_of(const struct shim_pool *pool, void *object)
{
	return (void **)((char *)object + pool->link);
}

void *
shim_pool_take(struct shim_pool *pool)
{
	void *object;

	pthread_mutex_lock(&pool->lock);
	object = pool->free;
	if (object != NULL)
		pool->free = *link_of(pool, object);
	pthread_mutex_unlock(&pool->lock);
	if (object == NULL)
		return calloc(1, pool->size);
	memset(object, 0, pool->size);
	return object;
}

void
shim_pool_give(struct shim_pool *pool, void *object)
{
	pthread_mutex_lock(&pool->lock);
	*link_of(pool, object) = pool->free;
	pool->free = object;
	pthread_mutex_unlock(&pool->lock);
}
