/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context-local storage: values by context and key, for runtime libraries.
 *
 * A runtime asks for its value on nearly every call, each launch included,
 * so a look-up takes no lock: entries live in blocks that stay with their
 * context for ever, a handful in all (one for each copy of the runtime in the
 * process). An entry is free while its key is NULL. Changes are serialised.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "shim/ctx.h"
#include "shim/tables.h"

#define ENTRIES 16u

typedef void cls_destructor(CUcontext ctx, const void *key, void *value);

struct cls_entry {
	_Atomic(const void *) key;
	_Atomic(void *) value;      /* stored before key, read after it */
	cls_destructor *destructor;     /* under the lock */
};

struct shim_cls {
	struct cls_entry entries[ENTRIES];
	_Atomic(struct shim_cls *) next;
};

/* Guards putting and deleting, everywhere. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct cls_entry *
find_from(struct shim_cls *cls, const void *key)
{
	for (; cls != NULL; cls = atomic_load_explicit(&cls->next,
						       memory_order_acquire)) {
		for (unsigned i = 0; i < ENTRIES; i++) {
			/* Acquire: pairs with the release in put. */
			if (atomic_load_explicit(&cls->entries[i].key,
						 memory_order_acquire) == key)
				return &cls->entries[i];
		}
	}
	return NULL;
}

static struct cls_entry *
find(struct shim_context *ctx, const void *key)
{
	return find_from(atomic_load_explicit(&ctx->cls, memory_order_acquire),
			 key);
}

/* The context of a call. A primary context that is not alive has an empty
 * storage, where natively nothing is found. */
static CUresult
context_of(CUcontext handle, struct shim_context **out_ctx)
{
	struct shim_context *ctx = handle == NULL ? shim_current :
						    shim_ctx_get(handle);

	if (ctx == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*out_ctx = ctx;
	return CUDA_SUCCESS;
}

static struct cls_entry *
free_entry_locked(struct shim_context *ctx)
{
	struct cls_entry *entry = find(ctx, NULL);
	struct shim_cls *cls;

	if (entry != NULL)
		return entry;
	cls = calloc(1, sizeof(*cls));
	if (cls == NULL)
		return NULL;
	atomic_store_explicit(&cls->next, ctx->cls, memory_order_relaxed);
	atomic_store_explicit(&ctx->cls, cls, memory_order_release);
	return &cls->entries[0];
}

static CUresult
put_locked(struct shim_context *ctx, const void *key, void *value,
	   cls_destructor *destructor)
{
	struct cls_entry *entry;

	/* The old value stays. */
	if (find(ctx, key) != NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	entry = free_entry_locked(ctx);
	if (entry == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	entry->destructor = destructor;
	atomic_store_explicit(&entry->value, value, memory_order_relaxed);
	/* Release: pairs with the acquire in find_from. */
	atomic_store_explicit(&entry->key, key, memory_order_release);
	return CUDA_SUCCESS;
}

static CUresult
cls_put(CUcontext handle, const void *key, void *value,
	cls_destructor *destructor)
{
	struct shim_context *ctx;
	CUresult r = context_of(handle, &ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (key == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* Nobody would run its destructor. */
	if (!shim_ctx_is_live(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	pthread_mutex_lock(&lock);
	r = put_locked(ctx, key, value, destructor);
	pthread_mutex_unlock(&lock);
	return r;
}

static CUresult
cls_delete(CUcontext handle, const void *key)
{
	struct cls_entry *entry = NULL;
	struct shim_context *ctx;
	CUresult r = context_of(handle, &ctx);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	if (key != NULL)
		entry = find(ctx, key);
	if (entry != NULL)
		atomic_store_explicit(&entry->key, NULL, memory_order_release);
	pthread_mutex_unlock(&lock);
	return entry == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult
cls_get(void **value, CUcontext handle, const void *key)
{
	struct cls_entry *entry;
	struct shim_context *ctx;
	CUresult r = context_of(handle, &ctx);

	if (r != CUDA_SUCCESS)
		return r;
	entry = key == NULL ? NULL : find(ctx, key);
	if (entry == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	*value = atomic_load_explicit(&entry->value, memory_order_relaxed);
	return CUDA_SUCCESS;
}

static bool
take_one(struct shim_context *ctx, const void **key, void **value,
	 cls_destructor **destructor)
{
	struct shim_cls *cls;

	for (cls = ctx->cls; cls != NULL; cls = cls->next) {
		for (unsigned i = 0; i < ENTRIES; i++) {
			struct cls_entry *entry = &cls->entries[i];

			if (entry->key == NULL)
				continue;
			*key = entry->key;
			*value = entry->value;
			*destructor = entry->destructor;
			atomic_store_explicit(&entry->key, NULL,
					      memory_order_release);
			return true;
		}
	}
	return false;
}

void
shim_cls_end(struct shim_context *ctx)
{
	cls_destructor *destructor = NULL;
	const void *key;
	void *value;
	bool more;

	for (;;) {
		pthread_mutex_lock(&lock);
		more = take_one(ctx, &key, &value, &destructor);
		pthread_mutex_unlock(&lock);
		if (!more)
			return;
		/* It calls back into us, this storage included. */
		if (destructor != NULL)
			destructor((CUcontext)(uintptr_t)ctx->handle, key,
				   value);
	}
}

shim_slot *const shim_table_cls[4] = {
	(shim_slot *)cls_put,
	(shim_slot *)cls_delete,
	(shim_slot *)cls_get,
	NULL,
};
