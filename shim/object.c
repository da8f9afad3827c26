/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's handle table.
 */
#include "shim/object.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "proto/err.h"

/* Guards every change of the table, and its creation. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct handle_table *_Atomic shim_objects;

int
shim_object_add(enum handle_kind kind, struct shim_object *object)
{
	struct handle_table *made;
	uint64_t handle;
	int r = 0;

	pthread_mutex_lock(&lock);
	made = atomic_load_explicit(&shim_objects, memory_order_relaxed);
	if (!made) {
		r = handle_table_create(&made);
		/* Release: pairs with the acquire of look-ups. */
		if (!r)
			atomic_store_explicit(&shim_objects, made,
					      memory_order_release);
	}
	/* The application learns the handle only when we return, so nobody
	 * looks it up before the member is set. */
	if (!r)
		r = handle_add(made, kind, object, &handle);
	if (!r)
		object->handle = handle;
	pthread_mutex_unlock(&lock);
	return err_trace(r);
}

void *
shim_object_remove(enum handle_kind kind, uint64_t handle)
{
	struct handle_table *t = shim_object_table();
	void *object;

	if (!t)
		return NULL;
	pthread_mutex_lock(&lock);
	object = handle_remove(t, kind, handle);
	pthread_mutex_unlock(&lock);
	return object;
}

void *
shim_object_next(enum handle_kind kind, struct shim_context *ctx,
		 uint32_t *cursor)
{
	struct handle_table *t = shim_object_table();
	struct shim_object *object;
	uint64_t handle;

	if (!t)
		return NULL;
	pthread_mutex_lock(&lock);
	do
		object = handle_next(t, cursor, &handle);
	while (object && (handle_kind(handle) != kind || object->ctx != ctx));
	pthread_mutex_unlock(&lock);
	return object;
}
