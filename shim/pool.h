/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one object type that is only ever reused for that type.
 * Used for objects with handles: a racing look-up may hold one that has just
 * been removed, and must find an object of the same kind there.
 */
#ifndef SHIM_POOL_H
#define SHIM_POOL_H

#include <pthread.h>
#include <stddef.h>

struct shim_pool {
	size_t size;            /* of an object */
	size_t link;            /* offset of a void * that the pool owns */
	pthread_mutex_t lock;   /* guards free */
	void *free;
};

#define SHIM_POOL(type, member) \
	{ sizeof(type), offsetof(type, member), PTHREAD_MUTEX_INITIALIZER, \
	  NULL }

/* A zeroed object, or NULL without memory. */
void *shim_pool_take(struct shim_pool *pool);
void shim_pool_give(struct shim_pool *pool, void *object);

#endif
