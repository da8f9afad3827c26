/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's handle table: what the opaque handles of the API refer to.
 * Used by everything in shim/ that mints or takes a handle.
 *
 * Look-ups take no lock. Objects begin with struct shim_object and are kept
 * for the life of the process once removed (a racing look-up may still hold
 * one; natively that is undefined, here it must not crash the host), unless
 * their owner knows better.
 */
#ifndef SHIM_OBJECT_H
#define SHIM_OBJECT_H

#include <stdatomic.h>
#include <stdint.h>

#include "proto/handle.h"

struct shim_context;

/* First member of every object that has a handle. */
struct shim_object {
	uint64_t handle;
	struct shim_context *ctx;   /* NULL: belongs to no context */
};

/* Mint object->handle. 0, -ENOMEM, -ENFILE. */
int shim_object_add(enum handle_kind kind, struct shim_object *object);

/* The table; NULL before the first object. */
extern struct handle_table *_Atomic shim_objects;

static inline struct handle_table *
shim_object_table(void)
{
	/* Acquire: pairs with the release in shim_object_add. */
	return atomic_load_explicit(&shim_objects, memory_order_acquire);
}

/* NULL unless handle is live and of this kind. */
static inline void *
shim_object_get(enum handle_kind kind, uint64_t handle)
{
	struct handle_table *table = shim_object_table();

	return table ? handle_get(table, kind, handle) : NULL;
}

/* Forget the handle: its object, now the caller's alone to end, or NULL. Of
 * two racing callers one gets NULL. */
void *shim_object_remove(enum handle_kind kind, uint64_t handle);
/*
 * Walk the objects of one context and kind; start with *cursor 0.
 * NULL at the end. Safe against concurrent adds and removes.
 */
void *shim_object_next(enum handle_kind kind, struct shim_context *ctx,
		       uint32_t *cursor);

#endif
