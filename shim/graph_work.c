/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes do: parameters taken over, and checked as at a launch or copy.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/box.h"
#include "shim/copy.h"
#include "shim/ctx.h"
#include "shim/event.h"
#include "shim/function.h"
#include "shim/graph.h"
#include "shim/graph_mem.h"
#include "shim/launch.h"
#include "shim/memop.h"
#include "shim/process.h"
#include "shim/range.h"

/* ---- kernels ---- */

CUresult
shim_work_launch(const struct shim_launch *launch, const uint8_t *params,
		 struct shim_work *out)
{
	struct shim_kernel_work *k = &out->kernel;
	size_t attrs = launch->head.nattrs * sizeof(*k->attrs);

	memset(out, 0, sizeof(*out));
	out->type = CU_GRAPH_NODE_TYPE_KERNEL;
	k->head = launch->head;
	k->head.stream = 0;
	k->param_bytes = launch->function->info->param_bytes;
	k->attrs = malloc(attrs + 1);
	k->params = malloc(k->param_bytes + 1);
	if (k->attrs == NULL || k->params == NULL) {
		free(k->attrs);
		free(k->params);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(k->attrs, launch->attrs, attrs);
	memcpy(k->params, params, k->param_bytes);
	return CUDA_SUCCESS;
}

CUresult
shim_work_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct shim_work *out)
{
	struct shim_context *ctx = shim_current;
	struct shim_launch launch;
	CUlaunchConfig config;
	uint8_t *block;
	CUresult r;

	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->ctx != NULL) {
		r = shim_ctx_find(p->ctx, &ctx);
		if (r != CUDA_SUCCESS)
			return r;
	}
	config = (CUlaunchConfig){
		.gridDimX = p->gridDimX, .gridDimY = p->gridDimY,
		.gridDimZ = p->gridDimZ, .blockDimX = p->blockDimX,
		.blockDimY = p->blockDimY, .blockDimZ = p->blockDimZ,
		.sharedMemBytes = p->sharedMemBytes,
	};
	r = shim_launch_make(p->func != NULL ? p->func : (CUfunction)p->kern,
			     ctx, &config, p->kernelParams, p->extra, &launch,
			     &block);
	if (r != CUDA_SUCCESS)
		return r;
	r = shim_work_launch(&launch, block, out);
	free(block);
	return r;
}

/* ---- copies ---- */

/* One end of a copy. */
struct end {
	CUmemorytype type;
	uint64_t base, x, y, z, pitch, height;
};

static CUresult
end_extent(const struct end *end, const struct graph_copy *c, uint64_t *out)
{
	uint64_t rows, bytes;

	if (__builtin_mul_overflow(c->depth - 1, end->height, &rows) ||
	    __builtin_add_overflow(rows, c->height - 1, &rows) ||
	    __builtin_mul_overflow(rows, end->pitch, &bytes) ||
	    __builtin_add_overflow(bytes, c->width, out))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Offsets into the address, defaults in, and whether the worker reaches
 * it. */
static CUresult
end_place(struct end *end, const struct graph_copy *c, bool *out_pageable)
{
	struct shim_range range;
	uint64_t extent, offset, left;
	CUresult r;

	*out_pageable = false;
	if (end->type == CU_MEMORYTYPE_ARRAY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (end->type < CU_MEMORYTYPE_HOST ||
	    end->type > CU_MEMORYTYPE_UNIFIED || end->base == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (end->pitch == 0)
		end->pitch = c->width + end->x;
	if (end->height == 0)
		end->height = c->height + end->y;
	if ((c->height > 1 || c->depth > 1) && end->pitch < c->width)
		return CUDA_ERROR_INVALID_VALUE;
	if (c->depth > 1 && end->height < c->height)
		return CUDA_ERROR_INVALID_VALUE;
	offset = (end->z * end->height + end->y) * end->pitch + end->x;
	end->base += offset;
	r = end_extent(end, c, &extent);
	if (r != CUDA_SUCCESS)
		return r;
	if (shim_range_reach(end->base, extent, &range, &left) != 0) {
		*out_pageable = true;
		return end->type == CU_MEMORYTYPE_DEVICE ?
		       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	if (extent > left || range.closed)
		return CUDA_ERROR_INVALID_VALUE;
	if (range.kind == RANGE_REGISTERED)
		*out_pageable = true;
	else if (shim_range_is_host(&range))
		*out_pageable = range.device != shim_current->device ||
				shim_process.perf & SHIM_NO_PIN;
	else if (range.device != shim_current->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult
shim_copy_linear(const CUDA_MEMCPY3D *p, struct graph_copy *out,
		 unsigned int *out_flags)
{
	struct end src = {
		.type = p->srcMemoryType,
		.base = p->srcMemoryType == CU_MEMORYTYPE_HOST ?
			(uintptr_t)p->srcHost : p->srcDevice,
		.x = p->srcXInBytes, .y = p->srcY, .z = p->srcZ,
		.pitch = p->srcPitch, .height = p->srcHeight,
	};
	struct end dst = {
		.type = p->dstMemoryType,
		.base = p->dstMemoryType == CU_MEMORYTYPE_HOST ?
			(uintptr_t)p->dstHost : p->dstDevice,
		.x = p->dstXInBytes, .y = p->dstY, .z = p->dstZ,
		.pitch = p->dstPitch, .height = p->dstHeight,
	};
	bool from_pageable, to_pageable;
	CUresult r;

	memset(out, 0, sizeof(*out));
	out->width = p->WidthInBytes;
	out->height = p->Height;
	out->depth = p->Depth;
	if (out->width == 0 || out->height == 0 || out->depth == 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = end_place(&src, out, &from_pageable);
	if (r == CUDA_SUCCESS)
		r = end_place(&dst, out, &to_pageable);
	if (r != CUDA_SUCCESS)
		return r;
	out->src = src.base;
	out->src_pitch = src.pitch;
	out->src_height = src.height;
	out->dst = dst.base;
	out->dst_pitch = dst.pitch;
	out->dst_height = dst.height;
	*out_flags = (from_pageable ? GRAPH_SRC_PAGEABLE : 0) |
		     (to_pageable ? GRAPH_DST_PAGEABLE : 0);
	return CUDA_SUCCESS;
}

CUresult
shim_work_copy(const CUDA_MEMCPY3D *p, struct shim_work *out)
{
	enum shim_place to, from;
	struct graph_copy linear;
	unsigned int flags;
	struct box box;
	CUresult r;

	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_copy_has_array(p) ? shim_copy_box(p, &box, &to, &from) :
				     shim_copy_linear(p, &linear, &flags);
	if (r != CUDA_SUCCESS)
		return r;
	memset(out, 0, sizeof(*out));
	out->type = CU_GRAPH_NODE_TYPE_MEMCPY;
	out->copy = *p;
	return CUDA_SUCCESS;
}

/* ---- fills ---- */

/* Apart from where it goes; *out_size: bytes from the first to the last. */
static CUresult
fill_shape(const CUDA_MEMSET_NODE_PARAMS *p, uint64_t *out_size)
{
	uint64_t row, size;

	if (p == NULL || p->width == 0 || p->height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->dst % p->elementSize != 0 ||
	    __builtin_mul_overflow(p->width, (uint64_t)p->elementSize, &row) ||
	    (p->height > 1 && (p->pitch < row ||
			       p->pitch % p->elementSize != 0)) ||
	    __builtin_mul_overflow(p->height - 1, p->pitch, &size) ||
	    __builtin_add_overflow(size, row, out_size))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static void
make_fill(const CUDA_MEMSET_NODE_PARAMS *p, struct shim_work *out)
{
	memset(out, 0, sizeof(*out));
	out->type = CU_GRAPH_NODE_TYPE_MEMSET;
	out->fill = *p;
}

CUresult
shim_work_fill(const CUDA_MEMSET_NODE_PARAMS *p, struct shim_work *out)
{
	struct shim_range range;
	uint64_t size, left;
	CUresult r = fill_shape(p, &size);

	if (r != CUDA_SUCCESS)
		return r;
	if (shim_range_reach(p->dst, size, &range, &left) != 0 ||
	    size > left || range.closed || range.kind == RANGE_REGISTERED)
		return CUDA_ERROR_INVALID_VALUE;
	if (range.device != shim_current->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	make_fill(p, out);
	return CUDA_SUCCESS;
}

CUresult
shim_work_captured_fill(const CUDA_MEMSET_NODE_PARAMS *p, struct shim_work *out)
{
	struct shim_range range;
	uint64_t size;
	CUresult r = fill_shape(p, &size);

	if (r != CUDA_SUCCESS)
		return r;
	if (shim_range_find(p->dst, &range) == 0 &&
	    range.device != shim_current->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	make_fill(p, out);
	return CUDA_SUCCESS;
}

/* ---- the rest ---- */

CUresult
shim_work_host(const CUDA_HOST_NODE_PARAMS *p, struct shim_work *out)
{
	if (p == NULL || p->fn == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memset(out, 0, sizeof(*out));
	out->type = CU_GRAPH_NODE_TYPE_HOST;
	out->host = *p;
	return CUDA_SUCCESS;
}

CUresult
shim_work_event(CUevent event, bool wait, struct shim_work *out)
{
	struct shim_event *e = shim_object_get(HANDLE_EVENT, (uintptr_t)event);

	if (e == NULL)
		return event == NULL ? CUDA_ERROR_INVALID_VALUE :
				       CUDA_ERROR_INVALID_HANDLE;
	/* Other processes would not know of its records in time. */
	if (e->flags & CU_EVENT_INTERPROCESS)
		return CUDA_ERROR_NOT_SUPPORTED;
	memset(out, 0, sizeof(*out));
	out->type = wait ? CU_GRAPH_NODE_TYPE_WAIT_EVENT :
			   CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	out->event = event;
	return CUDA_SUCCESS;
}

static CUresult
clone_memops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
	     CUDA_BATCH_MEM_OP_NODE_PARAMS *out)
{
	size_t size = p->count * sizeof(*p->paramArray);

	*out = *p;
	out->paramArray = malloc(size + 1);
	if (out->paramArray == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (size > 0)
		memcpy(out->paramArray, p->paramArray, size);
	return CUDA_SUCCESS;
}

CUresult
shim_work_memops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
		 struct shim_work *out)
{
	struct shim_context *ctx;
	CUresult r = p == NULL || p->ctx == NULL ? CUDA_ERROR_INVALID_VALUE :
						   CUDA_SUCCESS;

	if (r == CUDA_SUCCESS)
		r = shim_ctx_find(p->ctx, &ctx);
	if (r == CUDA_SUCCESS)
		r = shim_memops_check(p->count, p->paramArray, p->flags);
	if (r != CUDA_SUCCESS)
		return r;
	memset(out, 0, sizeof(*out));
	out->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	return clone_memops(p, &out->memops);
}

static CUresult
any_memops(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *p, struct shim_work *out)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS v1 = {
		.ctx = p->ctx, .count = p->count,
		.paramArray = p->paramArray, .flags = p->flags,
	};

	return shim_work_memops(&v1, out);
}

static CUresult
any_kernel(const CUDA_KERNEL_NODE_PARAMS_v3 *p, struct shim_work *out)
{
	CUDA_KERNEL_NODE_PARAMS v2 = {
		.func = p->func, .kern = p->kern, .ctx = p->ctx,
		.gridDimX = p->gridDimX, .gridDimY = p->gridDimY,
		.gridDimZ = p->gridDimZ, .blockDimX = p->blockDimX,
		.blockDimY = p->blockDimY, .blockDimZ = p->blockDimZ,
		.sharedMemBytes = p->sharedMemBytes,
		.kernelParams = p->kernelParams, .extra = p->extra,
	};

	return shim_work_kernel(&v2, out);
}

static CUresult
any_fill(const CUDA_MEMSET_NODE_PARAMS_v2 *p, struct shim_work *out)
{
	CUDA_MEMSET_NODE_PARAMS v1 = {
		.dst = p->dst, .pitch = p->pitch, .value = p->value,
		.elementSize = p->elementSize, .width = p->width,
		.height = p->height,
	};

	return shim_work_fill(&v1, out);
}

static CUresult
any_host(const CUDA_HOST_NODE_PARAMS_v2 *p, struct shim_work *out)
{
	CUDA_HOST_NODE_PARAMS v1 = { .fn = p->fn, .userData = p->userData };

	return shim_work_host(&v1, out);
}

/* A graph that moves is for cuGraphAddNode, which knows its new owner. */
static CUresult
any_child(const CUDA_CHILD_GRAPH_NODE_PARAMS *p, struct shim_work *out)
{
	struct shim_graph *graph, *copy = NULL;

	if (p->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* Whatever else it says is a clone (measured). */
	memset(out, 0, sizeof(*out));
	out->type = CU_GRAPH_NODE_TYPE_GRAPH;
	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(p->graph);
	if (graph != NULL && (graph->moved || shim_graph_branches(graph) ||
			      shim_graph_allocates(graph))) {
		pthread_mutex_unlock(&shim_graph_lock);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (graph != NULL)
		copy = shim_graph_clone_locked(graph, graph->object.ctx, true);
	pthread_mutex_unlock(&shim_graph_lock);
	out->child = copy;
	if (graph == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return copy == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult
shim_work_any(const CUgraphNodeParams *p, struct shim_work *out)
{
	if (p == NULL || p->reserved2 != 0)
		return CUDA_ERROR_INVALID_VALUE;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return any_kernel(&p->kernel, out);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return shim_work_copy(&p->memcpy.copyParams, out);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return any_fill(&p->memset, out);
	case CU_GRAPH_NODE_TYPE_HOST:
		return any_host(&p->host, out);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return any_child(&p->graph, out);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		memset(out, 0, sizeof(*out));
		out->type = CU_GRAPH_NODE_TYPE_EMPTY;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return shim_work_event(p->eventWait.event, true, out);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return shim_work_event(p->eventRecord.event, false, out);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return any_memops(&p->memOp, out);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return shim_work_branch(&p->conditional, out);
	default:
		return (int)p->type < 0 ||
		       p->type > CU_GRAPH_NODE_TYPE_CONDITIONAL ?
		       CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
	}
}

void
shim_work_clear_locked(struct shim_work *work)
{
	if (work->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		free(work->kernel.attrs);
		free(work->kernel.params);
		free(work->kernel.list);
	} else if (work->type == CU_GRAPH_NODE_TYPE_GRAPH) {
		shim_graph_free_locked(work->child);
	} else if (work->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
		shim_branch_clear_locked(&work->branch);
	} else if (work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
		   work->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
		free(work->memory.access);
		shim_slot_put_locked(work->memory.slot);
	} else if (work->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
		free(work->memops.paramArray);
	}
	memset(work, 0, sizeof(*work));
	work->type = CU_GRAPH_NODE_TYPE_EMPTY;
}

static CUresult
clone_kernel(const struct shim_kernel_work *k, struct shim_kernel_work *out)
{
	size_t attrs = k->head.nattrs * sizeof(*k->attrs);

	*out = *k;
	out->list = NULL;
	out->attrs = malloc(attrs + 1);
	out->params = malloc(k->param_bytes + 1);
	if (out->attrs == NULL || out->params == NULL) {
		free(out->attrs);
		free(out->params);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(out->attrs, k->attrs, attrs);
	memcpy(out->params, k->params, k->param_bytes);
	return CUDA_SUCCESS;
}

static CUresult
clone_memory(const struct shim_memory_work *memory,
	     struct shim_memory_work *out)
{
	size_t size = memory->params.accessDescCount * sizeof(*out->access);

	if (size > 0) {
		out->access = malloc(size);
		if (out->access == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(out->access, memory->access, size);
		out->params.accessDescs = out->access;
	}
	out->slot->refs++;
	return CUDA_SUCCESS;
}

CUresult
shim_work_clone_locked(const struct shim_work *work, struct shim_work *out)
{
	struct shim_graph *child;

	*out = *work;
	if (work->type == CU_GRAPH_NODE_TYPE_KERNEL)
		return clone_kernel(&work->kernel, &out->kernel);
	if (work->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return shim_branch_clone_locked(&work->branch, &out->branch);
	if (work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	    work->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return clone_memory(&work->memory, &out->memory);
	if (work->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
		return clone_memops(&work->memops, &out->memops);
	if (work->type != CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_SUCCESS;
	child = work->child;
	out->child = shim_graph_clone_locked(child, child->object.ctx,
					     child->object.handle != 0);
	return out->child == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
