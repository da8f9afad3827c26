/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: primary and created ones, the per-thread stack, limits.
 */
#include "server/soft/soft_ctx.h"

#include <stdlib.h>

#include "server/soft/soft_func.h"
#include "server/soft/soft_ledger.h"
#include "server/soft/soft_mem.h"
#include "server/soft/soft_module.h"
#include "server/soft/soft_tex.h"

/* Guards retain counts and the life of contexts. Taken before
 * soft_sched.lock. */
pthread_mutex_t soft_ctx_lock = PTHREAD_MUTEX_INITIALIZER;

/* All contexts ever made, guarded by soft_sched.lock. */
static struct soft_ctx **all;
static size_t all_count;

static void
limits_reset(struct soft_ctx *ctx)
{
	/* What a fresh context on an H200 answers. */
	ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
	ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752;
	ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
	ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
	ctx->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 11796480;
	ctx->limits[CU_LIMIT_SHMEM_SIZE] = SOFT_SHARED_OPTIN;
	ctx->limits[CU_LIMIT_CIG_ENABLED] = 0;
	ctx->local_bytes = 1024;
	ctx->has_text = false;
	ctx->cache_config = CU_FUNC_CACHE_PREFER_NONE;
}

static bool
all_add(struct soft_ctx *ctx)
{
	struct soft_ctx **grown;

	pthread_mutex_lock(&soft_sched.lock);
	grown = realloc(all, (all_count + 1) * sizeof(*all));
	if (grown) {
		all = grown;
		all[all_count++] = ctx;
	}
	pthread_mutex_unlock(&soft_sched.lock);
	return grown;
}

struct soft_ctx *
soft_ctx_new(struct soft_device *dev, unsigned flags, bool primary)
{
	struct soft_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->device = dev;
	ctx->home = ctx;
	ctx->primary = primary;
	ctx->flags = flags;
	limits_reset(ctx);
	if (!all_add(ctx)) {
		free(ctx);
		return NULL;
	}
	return ctx;
}

struct soft_ctx *
soft_ctx_next_locked(const struct soft_ctx *ctx, size_t *at)
{
	while (*at < all_count) {
		struct soft_ctx *other = all[(*at)++];

		if (other == ctx ||
		    (other->home == ctx && atomic_load(&other->alive)))
			return other;
	}
	return NULL;
}

CUresult
soft_ctx_wait(struct soft_ctx *ctx)
{
	struct soft_ctx *member;
	CUresult res = CUDA_SUCCESS;
	size_t at = 0;

	pthread_mutex_lock(&soft_sched.lock);
	while (!res && (member = soft_ctx_next_locked(ctx, &at)))
		res = soft_ctx_wait_locked(member);
	pthread_mutex_unlock(&soft_sched.lock);
	return res;
}

CUresult
soft_ctx_wait_all(void)
{
	CUresult res = CUDA_SUCCESS;

	pthread_mutex_lock(&soft_sched.lock);
	for (size_t i = 0; i < all_count && !res; i++)
		res = soft_ctx_wait_locked(all[i]);
	pthread_mutex_unlock(&soft_sched.lock);
	return res;
}

CUresult
soft_ctx_activate_locked(struct soft_ctx *ctx)
{
	struct soft_stream *legacy;

	if (soft_sched_start())
		return CUDA_ERROR_OPERATING_SYSTEM;
	limits_reset(ctx);
	/* What the process has at its end goes with it. */
	if (ctx->primary && !ctx->charged &&
	    !soft_ledger_charge(ctx->device, ctx->device->context_bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->charged = ctx->primary;
	legacy = soft_stream_new(ctx, 0, 0);
	if (!legacy || !soft_handle_add(ctx, SOFT_HANDLE_CTX))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&soft_sched.lock);
	legacy->legacy = true;
	ctx->legacy = legacy;
	pthread_mutex_unlock(&soft_sched.lock);
	atomic_store(&ctx->id, soft_new_id());
	atomic_store(&ctx->alive, true);
	return CUDA_SUCCESS;
}

/* A green context of ctx that is alive, or NULL. */
static struct soft_ctx *
live_green(const struct soft_ctx *ctx)
{
	struct soft_ctx *found;
	size_t at = 0;

	pthread_mutex_lock(&soft_sched.lock);
	do {
		found = soft_ctx_next_locked(ctx, &at);
	} while (found == ctx);
	pthread_mutex_unlock(&soft_sched.lock);
	return found;
}

static void
barrier_drop(struct soft_ctx *ctx)
{
	pthread_mutex_lock(&soft_sched.lock);
	soft_mark_unref(ctx->barrier);
	ctx->barrier = NULL;
	pthread_mutex_unlock(&soft_sched.lock);
}

void
soft_ctx_deactivate_locked(struct soft_ctx *ctx)
{
	struct soft_ctx *green;

	if (!atomic_load(&ctx->alive))
		return;
	while ((green = live_green(ctx)))
		soft_ctx_deactivate_locked(green);
	soft_ctx_wait(ctx);
	soft_print_flush();
	atomic_store(&ctx->alive, false);
	if (ctx->sms) {
		/* Its streams stay, dead; the program's to destroy before. */
		soft_stream_drop(ctx->legacy);
		ctx->legacy = NULL;
		barrier_drop(ctx);
		return;
	}
	soft_streams_destroy(ctx);
	barrier_drop(ctx);
	soft_modules_destroy(ctx);
	soft_arrays_destroy(ctx);
	soft_mem_destroy(ctx);
	if (ctx->charged)
		soft_ledger_uncharge(ctx->device, ctx->device->context_bytes);
	ctx->charged = false;
	if (!ctx->primary)
		soft_handle_del(ctx, SOFT_HANDLE_CTX);
}

struct soft_ctx *
soft_ctx_from(CUcontext handle)
{
	return soft_handle_get(handle, SOFT_HANDLE_CTX);
}

struct soft_ctx *
soft_ctx_current(void)
{
	return soft_self.depth ? soft_self.stack[soft_self.depth - 1] : NULL;
}

CUresult
soft_ctx_retain(struct soft_device *device)
{
	CUresult res = CUDA_SUCCESS;

	pthread_mutex_lock(&soft_ctx_lock);
	if (!device->primary->alive)
		res = soft_ctx_activate_locked(device->primary);
	if (!res)
		device->primary->retains++;
	pthread_mutex_unlock(&soft_ctx_lock);
	return res;
}

CUresult
soft_ctx_release(struct soft_device *device)
{
	CUresult res = CUDA_SUCCESS;

	pthread_mutex_lock(&soft_ctx_lock);
	if (!device->primary->retains)
		res = CUDA_ERROR_INVALID_CONTEXT;
	else if (!--device->primary->retains)
		soft_ctx_deactivate_locked(device->primary);
	pthread_mutex_unlock(&soft_ctx_lock);
	return res;
}

CUresult
cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	CUresult res = soft_enter_live();
	struct soft_device *device = soft_device_get(dev);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_ctx_retain(device);
	if (!res)
		*pctx = (CUcontext)device->primary;
	return res;
}

CUresult
cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult res = soft_enter_live();
	struct soft_device *device = soft_device_get(dev);

	if (res)
		return res;
	return device ? soft_ctx_release(device) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult
cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult res = soft_enter_live();
	struct soft_device *device = soft_device_get(dev);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&soft_ctx_lock);
	soft_ctx_deactivate_locked(device->primary);
	/* Holders keep their references: the context is alive again. */
	if (device->primary->retains)
		res = soft_ctx_activate_locked(device->primary);
	pthread_mutex_unlock(&soft_ctx_lock);
	return res;
}

CUresult
cuDevicePrimaryCtxReset(CUdevice dev)
{
	return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult
cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	CUresult res = soft_enter();
	struct soft_device *device = soft_device_get(dev);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~(unsigned)SOFT_CTX_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&device->primary->flags, flags);
	return CUDA_SUCCESS;
}

CUresult
cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult
cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	CUresult res = soft_enter();
	struct soft_device *device = soft_device_get(dev);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = atomic_load(&device->primary->flags);
	*active = atomic_load(&device->primary->alive);
	return CUDA_SUCCESS;
}

static CUresult
stack_push(struct soft_ctx *ctx)
{
	CUresult res;

	if (soft_self.depth ==
	    sizeof(soft_self.stack) / sizeof(*soft_self.stack))
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = soft_green_switch(ctx);
	if (!res)
		soft_self.stack[soft_self.depth++] = ctx;
	return res;
}

static CUresult
stack_pop(void)
{
	CUresult res = soft_green_switch(soft_self.depth > 1 ?
		soft_self.stack[soft_self.depth - 2] : NULL);

	if (!res)
		soft_self.depth--;
	return res;
}

CUresult
cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags,
	       CUdevice dev)
{
	CUresult res = soft_enter_live();
	struct soft_device *device = soft_device_get(dev);
	struct soft_ctx *ctx;

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pctx || flags & ~(unsigned)SOFT_CTX_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (params && params->numExecAffinityParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	if (params && params->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	ctx = soft_ctx_new(device, flags, false);
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&soft_ctx_lock);
	res = soft_ctx_activate_locked(ctx);
	pthread_mutex_unlock(&soft_ctx_lock);
	if (!res)
		res = stack_push(ctx);
	if (!res)
		*pctx = (CUcontext)ctx;
	return res;
}

CUresult
cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return cuCtxCreate_v4(pctx, NULL, flags, dev);
}

CUresult
cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params, int count,
	       unsigned int flags, CUdevice dev)
{
	CUctxCreateParams whole = {
		.execAffinityParams = params, .numExecAffinityParams = count,
	};

	return cuCtxCreate_v4(pctx, &whole, flags, dev);
}

CUresult
cuCtxDestroy_v2(CUcontext handle)
{
	CUresult res = soft_enter_live();
	struct soft_ctx *ctx;

	if (res)
		return res;
	ctx = soft_ctx_from(handle);
	if (!ctx || ctx->home != ctx || ctx->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&soft_ctx_lock);
	soft_ctx_deactivate_locked(ctx);
	pthread_mutex_unlock(&soft_ctx_lock);
	return soft_ctx_current() == ctx ? stack_pop() : CUDA_SUCCESS;
}

CUresult
cuCtxDestroy(CUcontext handle)
{
	return cuCtxDestroy_v2(handle);
}

CUresult
cuCtxPushCurrent_v2(CUcontext handle)
{
	CUresult res = soft_enter();
	struct soft_ctx *ctx;

	if (res)
		return res;
	ctx = soft_ctx_from(handle);
	return ctx ? stack_push(ctx) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult
cuCtxPushCurrent(CUcontext handle)
{
	return cuCtxPushCurrent_v2(handle);
}

CUresult
cuCtxPopCurrent_v2(CUcontext *pctx)
{
	CUresult res = soft_enter();
	struct soft_ctx *ctx;

	if (res)
		return res;
	if (!soft_self.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	ctx = soft_ctx_current();
	res = stack_pop();
	if (!res && pctx)
		*pctx = (CUcontext)ctx;
	return res;
}

CUresult
cuCtxPopCurrent(CUcontext *pctx)
{
	return cuCtxPopCurrent_v2(pctx);
}

CUresult
cuCtxSetCurrent(CUcontext handle)
{
	CUresult res = soft_enter();
	struct soft_ctx *ctx;

	if (res)
		return res;
	if (!handle)
		return soft_self.depth ? stack_pop() : CUDA_SUCCESS;
	ctx = soft_ctx_from(handle);
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!soft_self.depth)
		return stack_push(ctx);
	res = soft_green_switch(ctx);
	if (!res)
		soft_self.stack[soft_self.depth - 1] = ctx;
	return res;
}

CUresult
cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult res = soft_enter();

	if (res)
		return res;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)soft_ctx_current();
	return CUDA_SUCCESS;
}
