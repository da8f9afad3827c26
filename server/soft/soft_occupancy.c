/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Occupancy, from the limits of a multiprocessor of an H200: 2,048 threads,
 * 32 blocks, 64 Ki registers, 228 KiB of shared memory.
 */
#include "server/soft/soft_func.h"
#include "server/soft/soft_green.h"

/* Registers are handed out to warps in units of 256; shared memory to
 * blocks in units of 128 bytes. */
#define REG_UNIT 256u
#define SHARED_UNIT 128u
#define WARP 32u

static unsigned
at_most(unsigned value, size_t limit)
{
	return limit < value ? (unsigned)limit : value;
}

static size_t
round_up(size_t value, size_t unit)
{
	return (value + unit - 1) / unit * unit;
}

unsigned
soft_occupancy_blocks(const struct soft_func *func, struct soft_occupancy_in in)
{
	const struct soft_kernel_info *info = soft_func_info(func);
	size_t warps = (in.threads + WARP - 1) / WARP;
	size_t regs = warps * round_up(info->regs * WARP, REG_UNIT);
	size_t shared = round_up(info->shared_static + in.dyn_shared +
				 SOFT_SHARED_RESERVED, SHARED_UNIT);
	unsigned blocks = SOFT_BLOCKS_SM;

	if (!in.threads || in.threads > info->max_threads ||
	    info->shared_static + in.dyn_shared > SOFT_SHARED_OPTIN)
		return 0;
	blocks = at_most(blocks, SOFT_THREADS_SM / (warps * WARP));
	blocks = at_most(blocks, SOFT_REGS_SM / regs);
	return at_most(blocks, SOFT_SHARED_SM / shared);
}

static CUresult
enter(CUfunction handle, struct soft_ctx **ctx, struct soft_func **func)
{
	CUresult res = soft_enter_ctx(ctx);

	return res ? res : soft_func_from(handle, *ctx, func);
}

CUresult
cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
		CUfunction handle, int block_size, size_t dyn_shared,
		unsigned int flags)
{
	struct soft_func *func;
	struct soft_ctx *ctx;
	CUresult res = enter(handle, &ctx, &func);

	if (res)
		return res;
	if (!blocks || block_size <= 0 ||
	    flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = (int)soft_occupancy_blocks(func, (struct soft_occupancy_in){
		.threads = (unsigned)block_size, .dyn_shared = dyn_shared });
	return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction func,
		int block_size, size_t dyn_shared)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks,
			func, block_size, dyn_shared, 0);
}

CUresult
cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_grid, int *block_size,
		CUfunction handle, CUoccupancyB2DSize to_shared,
		size_t dyn_shared, int limit, unsigned int flags)
{
	unsigned best_threads = 0, best_blocks = 0, most;
	struct soft_func *func;
	struct soft_ctx *ctx;
	CUresult res = enter(handle, &ctx, &func);

	if (res)
		return res;
	if (!min_grid || !block_size || limit < 0 ||
	    flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	most = soft_func_info(func)->max_threads;
	if (limit)
		most = at_most(most, (size_t)limit);
	for (unsigned n = most; n; n = (n - 1) / WARP * WARP) {
		size_t shared = to_shared ? to_shared((int)n) : dyn_shared;
		unsigned blocks = soft_occupancy_blocks(func,
			(struct soft_occupancy_in){ n, shared });

		if (blocks * n > best_blocks * best_threads) {
			best_threads = n;
			best_blocks = blocks;
		}
	}
	*block_size = (int)best_threads;
	*min_grid = (int)(best_blocks * soft_ctx_sms(ctx));
	return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block_size,
		CUfunction func, CUoccupancyB2DSize to_shared,
		size_t dyn_shared, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block_size,
			func, to_shared, dyn_shared, limit, 0);
}

CUresult
cuOccupancyAvailableDynamicSMemPerBlock(size_t *out, CUfunction handle,
					int blocks, int block_size)
{
	struct soft_func *func;
	struct soft_ctx *ctx;
	size_t each, fixed;
	CUresult res = enter(handle, &ctx, &func);

	if (res)
		return res;
	soft_follow(out);
	if (!out || blocks <= 0 || block_size <= 0 || blocks > SOFT_BLOCKS_SM)
		return CUDA_ERROR_INVALID_VALUE;
	if ((unsigned)blocks > soft_occupancy_blocks(func,
			(struct soft_occupancy_in){ (unsigned)block_size, 0 }))
		return CUDA_ERROR_INVALID_VALUE;
	each = SOFT_SHARED_SM / (size_t)blocks / SHARED_UNIT * SHARED_UNIT;
	fixed = SOFT_SHARED_RESERVED + soft_func_info(func)->shared_static;
	if (each > SOFT_SHARED_OPTIN + SOFT_SHARED_RESERVED)
		each = SOFT_SHARED_OPTIN + SOFT_SHARED_RESERVED;
	*out = each > fixed ? each - fixed : 0;
	return CUDA_SUCCESS;
}

static unsigned
cluster_blocks(const CUlaunchConfig *config)
{
	for (unsigned i = 0; i < config->numAttrs; i++) {
		const CUlaunchAttribute *a = &config->attrs[i];

		if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			return a->value.clusterDim.x * a->value.clusterDim.y *
			       a->value.clusterDim.z;
	}
	return 1;
}

CUresult
cuOccupancyMaxPotentialClusterSize(int *size, CUfunction handle,
				   const CUlaunchConfig *config)
{
	struct soft_func *func;
	struct soft_ctx *ctx;
	CUresult res = enter(handle, &ctx, &func);

	if (res)
		return res;
	if (!size || !config)
		return CUDA_ERROR_INVALID_VALUE;
	*size = soft_func_attrs(func)->non_portable_cluster ? 16 : 8;
	return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxActiveClusters(int *clusters, CUfunction handle,
			     const CUlaunchConfig *config)
{
	struct soft_func *func;
	struct soft_ctx *ctx;
	unsigned blocks, in_cluster;
	CUresult res = enter(handle, &ctx, &func);

	if (res)
		return res;
	if (!clusters || !config)
		return CUDA_ERROR_INVALID_VALUE;
	in_cluster = cluster_blocks(config);
	if (!in_cluster || in_cluster > 16)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	blocks = soft_occupancy_blocks(func, (struct soft_occupancy_in){
		config->blockDimX * config->blockDimY * config->blockDimZ,
		config->sharedMemBytes });
	*clusters = (int)(blocks * soft_ctx_sms(ctx) / in_cluster);
	return CUDA_SUCCESS;
}
