/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a context. The worker has one context for everybody, so they
 * are kept here and nothing of a neighbour changes: a limit that the shared
 * context already keeps is accepted. For a higher one we get a worker of our
 * own, whose context has the limits that its driver takes.
 */
#include <stdio.h>

#include "proto/log.h"
#include "shim/capture.h"
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/process.h"
#include "shim/solo.h"
#include "shim/supply.h"
#include "shim_calls.h"
#include "shim_impl.h"

/* Of CU_LIMIT_MAX_L2_FETCH_GRANULARITY, in bytes (cuda.h). */
#define L2_FETCH_MAX 128u

/* The limit that the worker's context has. */
static bool
shared_limit(int device, CUlimit limit, size_t *out_value)
{
	const Mps__Device *info = shim_process.devices[device].info;

	for (size_t i = 0; i < info->n_limits; i++) {
		if (info->limits[i]->id == (int32_t)limit) {
			*out_value = (uint32_t)info->limits[i]->value;
			return true;
		}
	}
	return false;
}

CUresult
shim_cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct shim_context *ctx;
	CUresult r = shim_ctx_current(&ctx);
	size_t value;

	if (r != CUDA_SUCCESS)
		return r;
	if (pvalue == NULL || limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shared_limit(ctx->device, limit, &value))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*pvalue = ctx->limits[limit];
	return CUDA_SUCCESS;
}

/* Our contexts have one of the driver's: the most that any of them wants. */
static CUresult
set_own(struct shim_context *ctx, CUlimit limit, size_t value)
{
	size_t beside = shim_ctx_limit_beside(ctx, limit);
	uint64_t kept;
	CUresult r, why;
	int tries = 0;

	do
		r = call_mpsLimitSet(ctx->chan, limit,
				     value > beside ? value : beside, &kept);
	while (r == CUDA_ERROR_OUT_OF_MEMORY &&
	       shim_supply_wait(ctx->chan, &tries, &why));
	if (r == CUDA_SUCCESS)
		ctx->limits[limit] = value >= beside ? kept : value;
	return r;
}

static CUresult
set_more(struct shim_context *ctx, CUlimit limit, size_t value, size_t most)
{
	char why[128], reason[256] = "";

	snprintf(why, sizeof(why), "it wants more of a limit (%d) than the "
		 "shared context has", (int)limit);
	if (shim_solo(ctx->device, why, reason, sizeof(reason)) ==
	    CUDA_SUCCESS)
		return set_own(ctx, limit, value);
	log_line(LOG_ERROR, "cuCtxSetLimit(%d, %zu): the shared context has "
		 "%zu, and this program cannot get a worker of its own any "
		 "more: %s; start it with mpsrun --solo or MPSSHIM_SOLO=1",
		 (int)limit, value, most, reason);
	return CUDA_ERROR_UNSUPPORTED_LIMIT;
}

CUresult
shim_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct shim_context *ctx;
	CUresult r = shim_ctx_current(&ctx);
	size_t most;

	if (r != CUDA_SUCCESS)
		return r;
	if (limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_capture_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	if (limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!shared_limit(ctx->device, limit, &most))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	if (shim_is_solo(ctx->device))
		return set_own(ctx, limit, value);
	/* A hint, which may be ignored. */
	if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY) {
		if (value > L2_FETCH_MAX)
			return CUDA_ERROR_INVALID_VALUE;
	} else if (value > most) {
		return set_more(ctx, limit, value, most);
	}
	ctx->limits[limit] = value;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	struct shim_context *ctx;
	CUresult r = shim_ctx_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (pconfig == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*pconfig = ctx->cache;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct shim_context *ctx;
	CUresult r = shim_ctx_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	ctx->cache = config;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	struct shim_context *ctx;
	CUresult r = shim_ctx_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (pConfig == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*pConfig = ctx->shared;
	return CUDA_SUCCESS;
}

/* Bank sizes can be chosen on compute capability 3.x only: the driver takes
 * the call and nothing changes. */
CUresult
shim_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	struct shim_context *ctx;
	CUresult r = shim_ctx_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	return config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ?
	       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult
shim_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	struct shim_context *ctx;
	CUresult r = shim_ctx_current(&ctx);
	const Mps__Device *info;

	if (r != CUDA_SUCCESS)
		return r;
	info = shim_process.devices[ctx->device].info;
	if (leastPriority != NULL)
		*leastPriority = info->least_priority;
	if (greatestPriority != NULL)
		*greatestPriority = info->greatest_priority;
	return CUDA_SUCCESS;
}
