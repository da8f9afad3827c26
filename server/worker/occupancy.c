/* SPDX-License-Identifier: Apache-2.0 */
/* Occupancy: questions about a function that put nothing on the device. */
#include "server/worker/launch_attrs.h"
#include "server/worker/module.h"

CUresult
wkr_mpsOccupancyBlocks(struct wkr_call *call, uint64_t function,
		       int32_t block_size, uint64_t shared, uint32_t flags,
		       int32_t *blocks)
{
	struct wkr_function *f = wkr_function_ref(call->client, function);
	int count = 0;
	CUresult r;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_function_want(f);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		&count, f->native, block_size, shared, flags));
	if (blocks)
		*blocks = count;
	wkr_module_unref(f->module);
	return r;
}

CUresult
wkr_mpsOccupancyShared(struct wkr_call *call, uint64_t function, int32_t blocks,
		       int32_t block_size, uint64_t *shared)
{
	struct wkr_function *f = wkr_function_ref(call->client, function);
	size_t size = 0;
	CUresult r;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_function_want(f);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuOccupancyAvailableDynamicSMemPerBlock(
		&size, f->native, blocks, block_size));
	if (shared)
		*shared = size;
	wkr_module_unref(f->module);
	return r;
}

typedef CUresult (*clusters_call)(int *value, CUfunction function,
				  const CUlaunchConfig *config);

static CUresult
ask_clusters(struct wkr_call *call, clusters_call ask, uint64_t function,
	     struct wkr_launch *launch, int32_t *out)
{
	struct wkr_function *f = wkr_function_ref(call->client, function);
	int value = 0;
	CUresult r;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_function_want(f);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(ask(&value, f->native, &launch->config));
	if (out)
		*out = value;
	wkr_module_unref(f->module);
	return r;
}

CUresult
wkr_mpsOccupancyClusters(struct wkr_call *call, uint64_t function,
			 const void *head, size_t head_size, const void *attrs,
			 size_t attrs_size, int32_t *clusters)
{
	struct wkr_launch launch;
	CUresult r = wkr_launch_config(call, head, head_size, attrs, attrs_size,
				       &launch);

	return r != CUDA_SUCCESS ? r :
	       ask_clusters(call, wkr.drv.cuOccupancyMaxActiveClusters,
			    function, &launch, clusters);
}

CUresult
wkr_mpsOccupancyClusterSize(struct wkr_call *call, uint64_t function,
			    const void *head, size_t head_size,
			    const void *attrs, size_t attrs_size,
			    int32_t *blocks)
{
	struct wkr_launch launch;
	CUresult r = wkr_launch_config(call, head, head_size, attrs, attrs_size,
				       &launch);

	return r != CUDA_SUCCESS ? r :
	       ask_clusters(call, wkr.drv.cuOccupancyMaxPotentialClusterSize,
			    function, &launch, blocks);
}
