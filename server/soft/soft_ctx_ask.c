/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: questions, synchronisation, limits.
 */
#include "server/soft/soft_ctx.h"

#include "server/soft/soft_func.h"
#include "server/soft/soft_mem.h"
#include "server/soft/soft_work.h"

/* Calls that only ask about the current context work on a poisoned one. */
static CUresult
enter_current(struct soft_ctx **out_ctx)
{
	CUresult res = soft_enter();

	if (res)
		return res;
	*out_ctx = soft_ctx_current();
	if (!*out_ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!atomic_load(&(*out_ctx)->alive))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return CUDA_SUCCESS;
}

static CUresult
enter_given(CUcontext handle, struct soft_ctx **out_ctx)
{
	CUresult res;

	if (!handle)
		return enter_current(out_ctx);
	res = soft_enter();
	if (res)
		return res;
	*out_ctx = soft_ctx_from(handle);
	if (!*out_ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!atomic_load(&(*out_ctx)->alive))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return CUDA_SUCCESS;
}

CUresult
cuCtxGetDevice(CUdevice *device)
{
	struct soft_ctx *ctx;
	CUresult res = enter_current(&ctx);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = ctx->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult
cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
	struct soft_ctx *ctx;
	CUresult res = enter_given(handle, &ctx);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = ctx->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult
cuCtxGetFlags(unsigned int *flags)
{
	struct soft_ctx *ctx;
	CUresult res = enter_current(&ctx);

	if (res)
		return res;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = atomic_load(&ctx->home->flags);
	return CUDA_SUCCESS;
}

CUresult
cuCtxSetFlags(unsigned int flags)
{
	struct soft_ctx *ctx;
	CUresult res = enter_current(&ctx);

	if (res)
		return res;
	if (flags & ~(unsigned)SOFT_CTX_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&ctx->home->flags, flags);
	return CUDA_SUCCESS;
}

CUresult
cuCtxGetId(CUcontext handle, unsigned long long *id)
{
	struct soft_ctx *ctx;
	CUresult res = enter_given(handle, &ctx);

	if (res)
		return res;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = atomic_load(&ctx->id);
	return CUDA_SUCCESS;
}

CUresult
cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	struct soft_ctx *ctx;
	CUresult res = enter_given(handle, &ctx);

	if (res)
		return res;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 3020;
	return CUDA_SUCCESS;
}

static CUresult
ctx_synchronize(struct soft_ctx *ctx)
{
	CUresult res = soft_capture_forbids();

	if (!res)
		res = soft_ctx_wait(ctx);
	soft_print_flush();
	return res;
}

CUresult
cuCtxSynchronize(void)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	return res ? res : ctx_synchronize(ctx);
}

CUresult
cuCtxSynchronize_v2(CUcontext handle)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_live();

	if (!res)
		res = enter_given(handle, &ctx);
	return res ? res : ctx_synchronize(ctx);
}

CUresult
cuCtxGetLimit(size_t *value, CUlimit limit)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!value || (unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	/* Two that compute capability 9.0 does not have. */
	if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH ||
	    limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	pthread_mutex_lock(&soft_ctx_lock);
	*value = ctx->home->limits[limit];
	pthread_mutex_unlock(&soft_ctx_lock);
	return CUDA_SUCCESS;
}

static CUresult
limit_check(CUlimit limit, size_t value)
{
	int most;

	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
		/* 512 KiB a thread is what compute capability 9.0 has. */
		return value > 512 << 10 ? CUDA_ERROR_INVALID_VALUE : 0;
	case CU_LIMIT_PRINTF_FIFO_SIZE:
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		/* Even what nobody has: the first use then finds nothing. */
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
		return CUDA_SUCCESS;
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
		return value > 128 ? CUDA_ERROR_INVALID_VALUE : 0;
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
		if (cuDeviceGetAttribute(&most,
					 CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 0))
			return CUDA_ERROR_INVALID_VALUE;
		return value > (size_t)most ? CUDA_ERROR_INVALID_VALUE : 0;
	case CU_LIMIT_SHMEM_SIZE:
	case CU_LIMIT_CIG_ENABLED:
		return CUDA_ERROR_NOT_PERMITTED;
	case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
	case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED:
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (!res)
		res = limit_check(limit, value);
	if (!res)
		res = soft_capture_forbids();
	if (res)
		return res;
	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && !soft_heap_resize(ctx, value))
		return CUDA_ERROR_INVALID_VALUE;
	/* "the device will block until all preceding tasks are complete" */
	if (!soft_relaxed(SOFT_RELAX_LIMIT)) {
		res = soft_gate_drain(true);
		soft_gate_open(true);
	}
	if (res)
		return res;
	pthread_mutex_lock(&soft_ctx_lock);
	ctx->home->limits[limit] = value;
	pthread_mutex_unlock(&soft_ctx_lock);
	if (limit == CU_LIMIT_PRINTF_FIFO_SIZE)
		soft_print_resize(value);
	return CUDA_SUCCESS;
}

CUresult
cuCtxGetCacheConfig(CUfunc_cache *config)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = ctx->home->cache_config;
	return CUDA_SUCCESS;
}

CUresult
cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	ctx->home->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult
cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;   /* an H200 has six levels */
	return CUDA_SUCCESS;
}

/* There is no cache in which lines could persist. */
CUresult
cuCtxResetPersistingL2Cache(void)
{
	struct soft_ctx *ctx;

	return soft_enter_ctx(&ctx);
}
