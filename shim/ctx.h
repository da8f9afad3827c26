/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts as the client sees them. All of them share the worker's one real
 * context; here they are owners of objects and a per-thread stack.
 * Used by everything in shim/ that runs "in the current context".
 */
#ifndef SHIM_CTX_H
#define SHIM_CTX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "shim/object.h"

struct shim_chan;
struct shim_cls;

/* CU_LIMIT_MAX of CUDA 13.0. */
#define SHIM_LIMITS 10
/* What cuCtxGetApiVersion says of every context since CUDA 3.2. */
#define SHIM_CTX_VERSION 3020

/*
 * What every part of the shim may read. Never freed, so that a stale pointer
 * in another thread's stack stays readable; `dead` tells. A primary context
 * is made once per device, dead, and lives from retain to release or reset,
 * as often as the application likes.
 */
struct shim_context {
	uint64_t handle;            /* what the application holds */
	_Atomic uint64_t id;        /* cuCtxGetId: unique for the process, new
				     * each time that a primary one revives */
	int device;                 /* ordinal in shim_process.devices */
	struct shim_chan *chan;     /* of the device; set before `dead` is
				     * cleared */
	_Atomic bool dead;          /* destroyed, reset, not yet retained */
	bool primary;
	unsigned int flags;

	struct shim_object object;  /* in the handle table; its ctx is us */
	_Atomic bool ended;         /* not primary: cuCtxDestroy was called */
	_Atomic unsigned int attached; /* cuCtxAttach without cuCtxDetach */
	unsigned int retained;      /* primary: guarded by primary.c's lock */
	unsigned int version;       /* cuCtxGetApiVersion */
	_Atomic(CUfunc_cache) cache;
	_Atomic(CUsharedconfig) shared;
	_Atomic size_t limits[SHIM_LIMITS];
	_Atomic uint64_t legacy;    /* stream.c: handle of the default stream */
	_Atomic(struct shim_cls *) cls;    /* tables_cls.c */
	struct shim_context *next;  /* of all that were ever made */
};

/* Top of this thread's stack; NULL: none. */
extern _Thread_local struct shim_context *shim_current
	__attribute__((tls_model("initial-exec")));

static inline bool
shim_ctx_is_live(const struct shim_context *ctx)
{
	/* Acquire: pairs with the release in ctx_revive, so that who sees a
	 * live context sees its channel and id. */
	return !atomic_load_explicit(&((struct shim_context *)ctx)->dead,
				     memory_order_acquire);
}

/* The context behind a handle, dead primaries included, or NULL. */
struct shim_context *shim_ctx_get(CUcontext handle);
/*
 * The same for calls that take a context or NULL for the current one, and
 * need it alive: CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED.
 */
CUresult shim_ctx_find(CUcontext handle, struct shim_context **out_ctx);
/* The highest such limit of the device's other contexts that are alive. */
size_t shim_ctx_limit_beside(const struct shim_context *ctx, CUlimit limit);
/* The current context, alive. For entry points that need no context in
 * general, but do with these arguments. */
CUresult shim_ctx_current(struct shim_context **out_ctx);

/* This thread's stack: replace the top (NULL: remove it), add, remove. */
CUresult shim_ctx_set(struct shim_context *ctx);
CUresult shim_ctx_push(struct shim_context *ctx);
struct shim_context *shim_ctx_pop(void);

/* Make a context that is not current anywhere. Primary ones are born dead. */
CUresult shim_ctx_make(int device, bool primary, unsigned int flags,
		       struct shim_context **out_ctx);
/* Attach the device's channel, give a new id, clear `dead`. */
CUresult shim_ctx_revive(struct shim_context *ctx);
/* Run context-local destructors, then drop every object it owns. The caller
 * makes sure that two threads do not end one context. */
void shim_ctx_end(struct shim_context *ctx);

/* CUDA_ERROR_INVALID_VALUE unless these are CU_CTX_* flags that we know. */
CUresult shim_ctx_check_flags(unsigned int flags);

/* The primary context of a device, made at first sight; NULL: no memory. */
struct shim_context *shim_primary(int device);

#endif
