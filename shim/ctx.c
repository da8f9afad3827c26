/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: made and ended, and the stack of each thread.
 *
 * A context is a name and an owner of objects; nothing of it exists in the
 * worker but the number that groups its streams. What its end leaves behind
 * is a struct with `dead` set: other threads may have it on their stacks, and
 * natively they too find out with CUDA_ERROR_CONTEXT_IS_DESTROYED.
 */
#include "shim/ctx.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "proto/log.h"
#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/device.h"
#include "shim/event.h"
#include "shim/mem.h"
#include "shim/module.h"
#include "shim/process.h"
#include "shim/stream.h"
#include "shim/tables.h"
#include "shim_calls.h"
#include "shim_impl.h"

_Thread_local struct shim_context *shim_current
	__attribute__((tls_model("initial-exec")));

/* What lies below the top of this thread's stack. */
struct below {
	struct shim_context *ctx;
	struct below *next;
};
static _Thread_local struct below *stack
	__attribute__((tls_model("initial-exec")));

static struct {
	pthread_mutex_t lock;           /* guards contexts */
	struct shim_context *contexts;  /* every one ever made */
	_Atomic uint64_t last_id;
	pthread_once_t once;
	pthread_key_t key;              /* frees a thread's stack */
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

struct shim_context *
shim_ctx_get(CUcontext handle)
{
	struct shim_object *object =
		shim_object_get(HANDLE_CONTEXT, (uintptr_t)handle);

	return object == NULL ? NULL : object->ctx;
}

CUresult
shim_ctx_current(struct shim_context **out_ctx)
{
	struct shim_context *ctx = shim_current;

	if (ctx == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!shim_ctx_is_live(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*out_ctx = ctx;
	return CUDA_SUCCESS;
}

CUresult
shim_ctx_find(CUcontext handle, struct shim_context **out_ctx)
{
	struct shim_context *ctx;

	if (handle == NULL)
		return shim_ctx_current(out_ctx);
	ctx = shim_ctx_get(handle);
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!shim_ctx_is_live(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*out_ctx = ctx;
	return CUDA_SUCCESS;
}

CUresult
shim_ctx_check_flags(unsigned int flags)
{
	switch (flags & CU_CTX_SCHED_MASK) {
	case CU_CTX_SCHED_AUTO:
	case CU_CTX_SCHED_SPIN:
	case CU_CTX_SCHED_YIELD:
	case CU_CTX_SCHED_BLOCKING_SYNC:
		return flags & ~(unsigned)CU_CTX_FLAGS_MASK ?
		       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* ---- the stack of a thread ---- */

static void
stack_free(void *top)
{
	struct below *below = top;

	stack = NULL;
	while (below != NULL) {
		struct below *next = below->next;

		free(below);
		below = next;
	}
}

static void
stack_make_key(void)
{
	pthread_key_create(&all.key, stack_free);
}

CUresult
shim_ctx_push(struct shim_context *ctx)
{
	struct below *below;

	if (shim_current != NULL) {
		pthread_once(&all.once, stack_make_key);
		below = malloc(sizeof(*below));
		if (below == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*below = (struct below){ shim_current, stack };
		stack = below;
		pthread_setspecific(all.key, stack);
	}
	shim_current = ctx;
	return CUDA_SUCCESS;
}

struct shim_context *
shim_ctx_pop(void)
{
	struct shim_context *top = shim_current;
	struct below *below = stack;

	shim_current = NULL;
	if (below != NULL) {
		shim_current = below->ctx;
		stack = below->next;
		pthread_setspecific(all.key, stack);
		free(below);
	}
	return top;
}

CUresult
shim_ctx_set(struct shim_context *ctx)
{
	if (ctx == NULL)
		shim_ctx_pop();
	else
		shim_current = ctx;
	return CUDA_SUCCESS;
}

/* ---- birth and end ---- */

static void
reset_settings(struct shim_context *ctx)
{
	const Mps__Device *info = shim_process.devices[ctx->device].info;

	ctx->cache = CU_FUNC_CACHE_PREFER_NONE;
	ctx->shared = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	for (unsigned i = 0; i < SHIM_LIMITS; i++)
		ctx->limits[i] = 0;
	for (size_t i = 0; i < info->n_limits; i++) {
		int32_t id = info->limits[i]->id;

		if (id >= 0 && id < SHIM_LIMITS)
			ctx->limits[id] = (uint32_t)info->limits[i]->value;
	}
}

CUresult
shim_ctx_make(int device, bool primary, unsigned int flags,
	      struct shim_context **out_ctx)
{
	struct shim_context *ctx = calloc(1, sizeof(*ctx));

	if (ctx == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->device = device;
	ctx->primary = primary;
	ctx->flags = flags;
	ctx->dead = true;
	ctx->version = SHIM_CTX_VERSION;
	ctx->object.ctx = ctx;
	if (shim_object_add(HANDLE_CONTEXT, &ctx->object) != 0) {
		free(ctx);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ctx->handle = ctx->object.handle;
	reset_settings(ctx);
	pthread_mutex_lock(&all.lock);
	ctx->next = all.contexts;
	all.contexts = ctx;
	pthread_mutex_unlock(&all.lock);
	*out_ctx = ctx;
	return CUDA_SUCCESS;
}

CUresult
shim_ctx_revive(struct shim_context *ctx)
{
	CUresult r = shim_chan_get(ctx->device, &ctx->chan);

	if (r != CUDA_SUCCESS)
		return r;
	reset_settings(ctx);
	ctx->id = atomic_fetch_add_explicit(&all.last_id, 1,
					    memory_order_relaxed) + 1;
	/* Release: pairs with the acquire in shim_ctx_is_live. */
	atomic_store_explicit(&ctx->dead, false, memory_order_release);
	return CUDA_SUCCESS;
}

void
shim_ctx_end(struct shim_context *ctx)
{
	/* Natively the context still works inside these destructors. */
	shim_cls_end(ctx);
	/* And its end waits for its work. With the worker gone this fails,
	 * and there is nothing to wait for. */
	call_mpsContextSync(ctx->chan, ctx->handle);
	atomic_store_explicit(&ctx->dead, true, memory_order_release);
	shim_event_drop_context(ctx);
	shim_module_drop_context(ctx);
	call_mpsContextDestroy(ctx->chan, ctx->handle);
	shim_stream_drop_context(ctx);
	shim_mem_drop_context(ctx);
}

size_t
shim_ctx_limit_beside(const struct shim_context *ctx, CUlimit limit)
{
	struct shim_context *other;
	size_t most = 0;

	pthread_mutex_lock(&all.lock);
	for (other = all.contexts; other != NULL; other = other->next)
		if (other != ctx && other->device == ctx->device &&
		    shim_ctx_is_live(other) && other->limits[limit] > most)
			most = other->limits[limit];
	pthread_mutex_unlock(&all.lock);
	return most;
}

/* ---- entry points ---- */

static CUresult
create(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	struct shim_context *ctx;
	CUresult r;

	if (pctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	r = shim_ctx_check_flags(flags);
	if (r != CUDA_SUCCESS)
		return r;
	r = shim_ctx_make(dev, false, flags, &ctx);
	if (r != CUDA_SUCCESS)
		return r;
	r = shim_ctx_revive(ctx);
	if (r == CUDA_SUCCESS)
		r = shim_ctx_push(ctx);
	if (r != CUDA_SUCCESS) {
		/* Not much lives in it, and nobody knows its handle. */
		ctx->dead = true;
		return r;
	}
	*pctx = (CUcontext)(uintptr_t)ctx->handle;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return create(pctx, flags, dev);
}

CUresult
shim_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray,
		    int numParams, unsigned int flags, CUdevice dev)
{
	/* The driver takes a negative number as none. */
	if (numParams == 0 ? paramsArray != NULL : paramsArray == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* An SM share of one context among several of a client: its share
	 * is a matter of the broker's limits. */
	if (numParams > 0)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return create(pctx, flags, dev);
}

CUresult
shim_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
		    unsigned int flags, CUdevice dev)
{
	if (ctxCreateParams == NULL)
		return create(pctx, flags, dev);
	if (ctxCreateParams->cigParams != NULL)
		return CUDA_ERROR_NOT_SUPPORTED;
	return shim_cuCtxCreate_v3(pctx, ctxCreateParams->execAffinityParams,
				   ctxCreateParams->numExecAffinityParams,
				   flags, dev);
}

CUresult
shim_cuCtxDestroy_v2(CUcontext ctx)
{
	struct shim_context *context = shim_ctx_get(ctx);

	if (ctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* Primary ones end by cuDevicePrimaryCtxRelease or Reset. */
	if (context == NULL || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* The handle stays known: natively too it can be made current, and
	 * what needs a context then says that it is destroyed. */
	if (atomic_exchange(&context->ended, true))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	shim_ctx_end(context);
	if (shim_current == context)
		shim_ctx_pop();
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct shim_context *ctx;
	CUresult r = shim_ctx_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (pctx == NULL || flags)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_fetch_add(&ctx->attached, 1);
	*pctx = (CUcontext)(uintptr_t)ctx->handle;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxDetach(CUcontext ctx)
{
	struct shim_context *context = shim_ctx_get(ctx);
	unsigned int attached;

	if (context == NULL || context != shim_current)
		return CUDA_ERROR_INVALID_CONTEXT;
	attached = atomic_load(&context->attached);
	while (attached)
		if (atomic_compare_exchange_weak(&context->attached, &attached,
						 attached - 1))
			return CUDA_SUCCESS;
	return shim_cuCtxDestroy_v2(ctx);
}

CUresult
shim_cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct shim_context *context = shim_ctx_get(ctx);

	if (context == NULL)
		return ctx == NULL ? CUDA_ERROR_INVALID_VALUE :
				     CUDA_ERROR_INVALID_CONTEXT;
	return shim_ctx_push(context);
}

CUresult
shim_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct shim_context *context = shim_current;

	if (context == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	shim_ctx_pop();
	if (pctx != NULL)
		*pctx = (CUcontext)(uintptr_t)context->handle;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxSetCurrent(CUcontext ctx)
{
	struct shim_context *context = shim_ctx_get(ctx);

	if (context == NULL && ctx != NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	return shim_ctx_set(context);
}

CUresult
shim_cuCtxGetCurrent(CUcontext *pctx)
{
	if (pctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = shim_current == NULL ? NULL :
		(CUcontext)(uintptr_t)shim_current->handle;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxGetDevice(CUdevice *device)
{
	struct shim_context *ctx = shim_current;

	if (ctx == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = ctx->device;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct shim_context *context = ctx == NULL ? shim_current :
						     shim_ctx_get(ctx);

	if (device == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (context == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = context->device;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxGetFlags(unsigned int *flags)
{
	struct shim_context *ctx = shim_current;

	if (flags == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* A primary context always shows the flag that no longer means
	 * anything. */
	*flags = ctx->flags | (ctx->primary ? CU_CTX_MAP_HOST : 0);
	return CUDA_SUCCESS;
}

/* How the host waits is the only thing that flags say of a live context. */
CUresult
shim_cuCtxSetFlags(unsigned int flags)
{
	CUresult r = shim_ctx_check_flags(flags);

	if (r == CUDA_SUCCESS)
		shim_current->flags = flags;
	return r;
}

CUresult
shim_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct shim_context *context;
	CUresult r;

	if (ctxId == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_ctx_find(ctx, &context);
	if (r == CUDA_SUCCESS)
		*ctxId = context->id;
	return r;
}

CUresult
shim_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct shim_context *context = ctx == NULL ? shim_current :
						     shim_ctx_get(ctx);

	if (context == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (version == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_ctx_is_live(context))
		return ctx == NULL ? CUDA_ERROR_CONTEXT_IS_DESTROYED :
				     CUDA_ERROR_INVALID_CONTEXT;
	*version = context->version;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxSynchronize_v2(CUcontext ctx)
{
	struct shim_context *context;
	CUresult r = shim_ctx_find(ctx, &context);

	if (r == CUDA_SUCCESS)
		r = shim_capture_wait_context(context);
	/* Always asked: programs that have nothing under way learn by it, too,
	 * that what they had on the device is lost. */
	return r != CUDA_SUCCESS ? r :
	       call_mpsContextSync(context->chan, context->handle);
}

CUresult
shim_cuCtxSynchronize(void)
{
	return shim_cuCtxSynchronize_v2(NULL);
}
