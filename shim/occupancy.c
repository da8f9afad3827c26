/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The occupancy calculator. The driver library in the worker knows the
 * device; its answers are pure functions of their arguments and are kept
 * (MPSSHIM_PERF=no_cache asks every time). The search for the best block
 * size is documented and runs here, since it calls the application back.
 */
#include "shim/occupancy.h"

#include <pthread.h>

#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/function.h"
#include "shim/launch.h"
#include "shim/module.h"
#include "shim/process.h"
#include "shim_calls.h"
#include "shim_impl.h"

enum occupancy_kind {
	OCCUPANCY_NONE,
	OCCUPANCY_BLOCKS,      /* a block size, b flags, c shared */
	OCCUPANCY_SHARED,      /* a blocks, b block size */
};

/* Guards occupancy and next_occupancy of every function; never held while
 * the worker is asked. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool
known(struct shim_function *function, struct shim_occupancy *question)
{
	bool found = false;

	if (shim_process.perf & SHIM_NO_CACHE)
		return false;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < FUNCTION_OCCUPANCIES && !found; i++) {
		const struct shim_occupancy *kept = &function->occupancy[i];

		found = kept->kind == question->kind &&
			kept->a == question->a && kept->b == question->b &&
			kept->c == question->c;
		if (found)
			question->answer = kept->answer;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void
keep(struct shim_function *function, const struct shim_occupancy *answered)
{
	pthread_mutex_lock(&lock);
	function->occupancy[function->next_occupancy++ %
			    FUNCTION_OCCUPANCIES] = *answered;
	pthread_mutex_unlock(&lock);
}

CUresult
shim_occupancy_blocks(struct shim_function *function, int block_size,
		      uint64_t shared, unsigned int flags, int *out_blocks)
{
	struct shim_occupancy question = {
		.kind = OCCUPANCY_BLOCKS, .a = block_size, .b = (int)flags,
		.c = shared,
	};
	int32_t blocks;
	CUresult r;

	if (!known(function, &question)) {
		r = call_mpsOccupancyBlocks(function->module->chan,
					    function->object.handle,
					    block_size, shared, flags,
					    &blocks);
		if (r != CUDA_SUCCESS)
			return r;
		question.answer = (uint64_t)blocks;
		keep(function, &question);
	}
	*out_blocks = (int)question.answer;
	return CUDA_SUCCESS;
}

CUresult
shim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks,
		CUfunction func, int blockSize, size_t dynamicSMemSize,
		unsigned int flags)
{
	struct shim_function *function;
	CUresult r;

	if (numBlocks == NULL || blockSize <= 0 ||
	    flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_function_find(func, &function);
	return r != CUDA_SUCCESS ? r :
	       shim_occupancy_blocks(function, blockSize, dynamicSMemSize,
				     flags, numBlocks);
}

CUresult
shim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks,
		CUfunction func, int blockSize, size_t dynamicSMemSize)
{
	return shim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		numBlocks, func, blockSize, dynamicSMemSize,
		CU_OCCUPANCY_DEFAULT);
}

/* One search for the block size with the most threads on a multiprocessor. */
struct search {
	struct shim_function *function;
	CUoccupancyB2DSize callback;
	size_t shared;
	unsigned int flags;
	int limit;             /* the largest block that may run */
	int warp, most_threads;     /* of the device and a multiprocessor */
	int best_size, best_blocks;
};

static CUresult
search_begin(struct search *search, int limit)
{
	int device = search->function->module->device, most;
	CUresult r;

	r = shim_function_attribute(search->function,
		CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &search->limit);
	if (r != CUDA_SUCCESS)
		return r;
	most = shim_device_attribute(device,
		CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	if (search->limit > most)
		search->limit = most;
	if (limit > 0 && search->limit > limit)
		search->limit = limit;
	search->warp = shim_device_attribute(device,
		CU_DEVICE_ATTRIBUTE_WARP_SIZE);
	search->most_threads = shim_device_attribute(device,
		CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
	return search->warp > 0 && search->limit > 0 ? CUDA_SUCCESS :
						       CUDA_ERROR_INVALID_VALUE;
}

/* From the largest block down, by warps; the first of equals wins, and full
 * occupancy ends the search. */
static CUresult
search_run(struct search *search)
{
	int aligned = (search->limit + search->warp - 1) / search->warp *
		      search->warp;
	int most = 0;

	for (; aligned > 0; aligned -= search->warp) {
		int size = aligned < search->limit ? aligned : search->limit;
		size_t shared = search->callback == NULL ? search->shared :
				search->callback(size);
		int blocks;
		CUresult r;

		r = shim_occupancy_blocks(search->function, size, shared,
					  search->flags, &blocks);
		if (r != CUDA_SUCCESS)
			return r;
		if (size * blocks > most) {
			most = size * blocks;
			search->best_size = size;
			search->best_blocks = blocks;
		}
		if (most >= search->most_threads)
			break;
	}
	return CUDA_SUCCESS;
}

CUresult
shim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize,
		int *blockSize, CUfunction func,
		CUoccupancyB2DSize blockSizeToDynamicSMemSize,
		size_t dynamicSMemSize, int blockSizeLimit,
		unsigned int flags)
{
	struct search search = {
		.callback = blockSizeToDynamicSMemSize,
		.shared = dynamicSMemSize, .flags = flags,
	};
	CUresult r;

	if (minGridSize == NULL || blockSize == NULL || blockSizeLimit < 0 ||
	    flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_function_find(func, &search.function);
	if (r == CUDA_SUCCESS)
		r = search_begin(&search, blockSizeLimit);
	if (r == CUDA_SUCCESS)
		r = search_run(&search);
	if (r != CUDA_SUCCESS)
		return r;
	*blockSize = search.best_size;
	*minGridSize = search.best_blocks * shim_device_attribute(
		search.function->module->device,
		CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	return CUDA_SUCCESS;
}

CUresult
shim_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize,
		CUfunction func,
		CUoccupancyB2DSize blockSizeToDynamicSMemSize,
		size_t dynamicSMemSize, int blockSizeLimit)
{
	return shim_cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize,
		blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
		blockSizeLimit, CU_OCCUPANCY_DEFAULT);
}

CUresult
shim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize,
		CUfunction func, int numBlocks, int blockSize)
{
	struct shim_occupancy question = {
		.kind = OCCUPANCY_SHARED, .a = numBlocks, .b = blockSize,
	};
	struct shim_function *function;
	uint64_t shared;
	CUresult r;

	if (dynamicSmemSize == NULL || numBlocks <= 0 || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_function_find(func, &function);
	if (r != CUDA_SUCCESS)
		return r;
	if (!known(function, &question)) {
		r = call_mpsOccupancyShared(function->module->chan,
					    function->object.handle,
					    numBlocks, blockSize, &shared);
		if (r != CUDA_SUCCESS)
			return r;
		question.answer = shared;
		keep(function, &question);
	}
	*dynamicSmemSize = question.answer;
	return CUDA_SUCCESS;
}

typedef CUresult clusters_call(struct shim_chan *chan, uint64_t function,
			       const void *head, size_t head_size,
			       const void *attrs, size_t attrs_size,
			       int32_t *value);

static CUresult
ask_clusters(clusters_call *call, int *out, CUfunction func,
	     const CUlaunchConfig *config)
{
	struct shim_launch launch;
	int32_t value;
	CUresult r;

	if (out == NULL || config == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_function_find(func, &launch.function);
	if (r == CUDA_SUCCESS)
		r = shim_launch_config(&launch, config);
	if (r != CUDA_SUCCESS)
		return r;
	r = call(launch.function->module->chan, launch.function->object.handle,
		 &launch.head, sizeof(launch.head), launch.attrs,
		 launch.head.nattrs * sizeof(launch.attrs[0]), &value);
	if (r == CUDA_SUCCESS)
		*out = value;
	return r;
}

CUresult
shim_cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
				  const CUlaunchConfig *config)
{
	return ask_clusters(call_mpsOccupancyClusters, numClusters, func,
			    config);
}

CUresult
shim_cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
					const CUlaunchConfig *config)
{
	struct shim_function *function;
	CUresult r = ask_clusters(call_mpsOccupancyClusterSize, clusterSize,
				  func, config);

	/* The worker's function allows more, whatever this client's does. */
	if (r == CUDA_SUCCESS && *clusterSize > PORTABLE_CLUSTER &&
	    shim_function_find(func, &function) == CUDA_SUCCESS &&
	    !function->settings->non_portable)
		*clusterSize = PORTABLE_CLUSTER;
	return r;
}
