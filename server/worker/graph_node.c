/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes from what a client sends to what the driver takes. Nothing of it is
 * believed: handles are the client's, addresses its own.
 */
#include <string.h>

#include "server/worker/graph.h"
#include "server/worker/module.h"

void
wkr_needs_drop(struct wkr_needs *needs)
{
	if (needs->module)
		wkr_module_unref(needs->module);
	wkr_record_unref(needs->record);
	*needs = (struct wkr_needs){0};
}

CUresult
wkr_node_kernel(struct wkr_call *call, const void *head, size_t head_size,
		const void *params, size_t params_size, const void *attrs,
		size_t attrs_size, struct wkr_launch *launch,
		CUDA_KERNEL_NODE_PARAMS *out, void **extra,
		struct wkr_needs *needs, bool *out_printing)
{
	struct wkr_function *function;
	CUresult r;

	r = wkr_launch_config(call, head, head_size, attrs, attrs_size,
			      launch);
	if (r != CUDA_SUCCESS)
		return r;
	function = wkr_function_ref(call->client, launch->head.function);
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	needs->module = function->module;
	if (params_size != function->param_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function->module->launched)
		wkr_journal_used(function->module);
	*out_printing = function->printer;
	*out = (CUDA_KERNEL_NODE_PARAMS){
		.func = function->native,
		.gridDimX = launch->head.grid[0],
		.gridDimY = launch->head.grid[1],
		.gridDimZ = launch->head.grid[2],
		.blockDimX = launch->head.block[0],
		.blockDimY = launch->head.block[1],
		.blockDimZ = launch->head.block[2],
		.sharedMemBytes = launch->head.shared,
		.extra = params_size ? extra : NULL,
	};
	(void)params; /* in extra, which is the caller's */
	return CUDA_SUCCESS;
}

static bool
owns(struct wkr_client *client, uint64_t address, uint64_t size)
{
	bool yes;

	pthread_mutex_lock(&client->lock);
	yes = wkr_ranges_cover(&client->ranges, address, size);
	pthread_mutex_unlock(&client->lock);
	return yes;
}

/* Bytes from the first to behind the last; false: no sensible shape. */
static bool
extent(uint64_t pitch, uint64_t rows, const struct graph_copy *c,
       uint64_t *out)
{
	uint64_t all;

	if ((c->height > 1 || c->depth > 1) && pitch < c->width)
		return false;
	if (c->depth > 1 && rows < c->height)
		return false;
	return !__builtin_mul_overflow(c->depth - 1, rows, &all) &&
	       !__builtin_add_overflow(all, c->height - 1, &all) &&
	       !__builtin_mul_overflow(all, pitch, &all) &&
	       !__builtin_add_overflow(all, c->width, out);
}

CUresult
wkr_node_copy(struct wkr_call *call, const void *bytes, size_t size,
	      CUDA_MEMCPY3D *out, struct wkr_needs *needs)
{
	struct graph_copy c;
	uint64_t from, to;

	if (!bytes || size != sizeof(c))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&c, bytes, sizeof(c));
	if (!c.width || !c.height || !c.depth ||
	    !extent(c.src_pitch, c.src_height, &c, &from) ||
	    !extent(c.dst_pitch, c.dst_height, &c, &to) ||
	    !owns(call->client, c.src, from) || !owns(call->client, c.dst, to))
		return CUDA_ERROR_INVALID_VALUE;
	needs->base[0] = c.src;
	needs->size[0] = from;
	needs->base[1] = c.dst;
	needs->size[1] = to;
	*out = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = c.src,
		.srcPitch = c.src_pitch,
		.srcHeight = c.src_height,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = c.dst,
		.dstPitch = c.dst_pitch,
		.dstHeight = c.dst_height,
		.WidthInBytes = c.width,
		.Height = c.height,
		.Depth = c.depth,
	};
	return CUDA_SUCCESS;
}

CUresult
wkr_node_fill(struct wkr_call *call, uint64_t dst, uint64_t pitch,
	      uint32_t element, uint32_t value, uint64_t width,
	      uint64_t height, CUDA_MEMSET_NODE_PARAMS *out,
	      struct wkr_needs *needs)
{
	uint64_t row, size;

	if (element != 1 && element != 2 && element != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (!width || !height || dst % element ||
	    __builtin_mul_overflow(width, element, &row) ||
	    (height > 1 && (pitch < row || pitch % element)) ||
	    __builtin_mul_overflow(height - 1, pitch, &size) ||
	    __builtin_add_overflow(size, row, &size) ||
	    !owns(call->client, dst, size))
		return CUDA_ERROR_INVALID_VALUE;
	needs->base[0] = dst;
	needs->size[0] = size;
	*out = (CUDA_MEMSET_NODE_PARAMS){
		.dst = dst,
		.pitch = height > 1 ? pitch : 0,
		.value = value,
		.elementSize = element,
		.width = width,
		.height = height,
	};
	return CUDA_SUCCESS;
}

CUresult
wkr_node_event(struct wkr_call *call, uint64_t event, struct wkr_needs *needs)
{
	struct wkr_event *e = wkr_get(call->client, HANDLE_EVENT, event);

	if (!e || e->shared)
		return CUDA_ERROR_INVALID_HANDLE;
	/* The graph has this driver event for good: from now on a record of
	 * the client's event never goes to another one. */
	e->fixed = true;
	e->recorded = true;
	e->stream = 0;
	e->record->refs++;
	needs->record = e->record;
	return CUDA_SUCCESS;
}
