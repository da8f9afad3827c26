/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory. Codes for bad arguments were recorded from the real driver.
 */
#include "shim/mem.h"

#include "api_ids.h"
#include "shim_impl.h"
#include "shim/advice.h"
#include "shim/capture.h"
#include "shim/array.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/ipc.h"
#include "shim/graph_mem.h"
#include "shim/mempool.h"
#include "shim/process.h"
#include "shim/range.h"
#include "shim/register.h"
#include "shim/supply.h"

/* Native rows of pitched memory begin at multiples of this (attribute
 * TEXTURE_PITCH_ALIGNMENT is smaller; measured on an H200). */
#define PITCH_ALIGN 512u

CUresult
shim_mem_add(struct shim_context *ctx, enum range_kind kind, uint64_t size,
	     unsigned int flags, uint64_t *out_address)
{
	bool host = kind != RANGE_DEVICE;
	struct shim_block *block;
	struct shim_range range;
	CUresult r;

	r = shim_supply_alloc(ctx->chan, host, size, &block);
	if (r != CUDA_SUCCESS)
		return r;
	range = (struct shim_range){
		.start = block->address, .size = size, .kind = kind,
		.device = ctx->device, .flags = flags, .ctx = ctx,
		.block = block,
	};
	if (shim_range_add(&range)) {
		shim_supply_free(ctx->chan, host, block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out_address = range.start;
	return CUDA_SUCCESS;
}

static CUresult
give_back(const struct shim_range *range)
{
	struct shim_chan *chan;
	CUresult r = shim_chan_get(range->device, &chan);

	if (range->pool)
		shim_mempool_freed(range->pool, range->size);
	if (range->kind == RANGE_MANAGED)
		shim_advice_forget(range->start, range->size);
	if (r != CUDA_SUCCESS)
		return r;
	/* Somebody has it open. */
	if (range->kind == RANGE_DEVICE && shim_ipc_keep(range))
		return shim_chan_sticky(chan);
	r = shim_supply_free(chan, range->kind != RANGE_DEVICE, range->block);
	return r ? r : shim_chan_sticky(chan);
}

CUresult
shim_mem_remove(uint64_t address, enum range_kind kind)
{
	struct shim_range range;

	if (shim_range_remove(address, kind, &range))
		return CUDA_ERROR_INVALID_VALUE;
	return give_back(&range);
}

CUresult
shim_mem_alloc(struct shim_context *ctx, uint64_t size, uint64_t *out_address)
{
	const Mps__Device *info = shim_process.devices[ctx->device].info;

	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > info->total_memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return shim_mem_add(ctx, RANGE_DEVICE, size, 0, out_address);
}

CUresult
shim_mem_free(uint64_t address)
{
	CUresult r = shim_mem_remove(address, RANGE_DEVICE);

	if (r == CUDA_ERROR_INVALID_VALUE)
		r = shim_mem_remove(address, RANGE_MANAGED);
	if (r == CUDA_ERROR_INVALID_VALUE)
		r = shim_slot_free(address);
	return r == CUDA_ERROR_INVALID_VALUE ? shim_ipc_close(address, true) :
					       r;
}

void
shim_mem_drop_context(struct shim_context *ctx)
{
	struct shim_range range;

	shim_texture_drop_context(ctx);
	shim_array_drop_context(ctx);
	shim_ipc_drop_context(ctx);
	shim_slots_drop_context(ctx);
	while (!shim_range_remove_any(ctx, RANGE_DEVICE, 0, &range))
		give_back(&range);
	while (!shim_range_remove_any(ctx, RANGE_PINNED, 0, &range))
		give_back(&range);
	while (!shim_range_remove_any(ctx, RANGE_MANAGED, 0, &range))
		give_back(&range);
	while (!shim_range_remove_any(ctx, RANGE_REGISTERED, 0, &range))
		shim_register_drop(&range);
	while (!shim_range_remove_any(ctx, RANGE_GLOBAL, 0, &range))
		;
}

CUresult
shim_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	uint64_t address = 0;
	CUresult r;

	r = shim_capture_unsafe();
	if (!dptr)
		return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = shim_mem_alloc(shim_current, bytesize, &address);
	/* 0 on failure, as the real driver leaves it. */
	*dptr = address;
	return r;
}

CUresult
shim_cuMemFree_v2(CUdeviceptr dptr)
{
	CUresult r = shim_capture_unsafe();

	if (r != CUDA_SUCCESS || dptr)
		return r != CUDA_SUCCESS ? r : shim_mem_free(dptr);
	/* Nothing is freed without a context, but not in one that is lost. */
	return shim_current && shim_current->chan ?
	       shim_chan_sticky(shim_current->chan) : CUDA_SUCCESS;
}

CUresult
shim_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
			size_t Height, unsigned int ElementSizeBytes)
{
	size_t pitch, size;
	uint64_t address;
	CUresult r;

	if (!dptr || !pPitch || !WidthInBytes || !Height)
		return CUDA_ERROR_INVALID_VALUE;
	if (ElementSizeBytes != 4 && ElementSizeBytes != 8 &&
	    ElementSizeBytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_add_overflow(WidthInBytes, PITCH_ALIGN - 1, &pitch))
		return CUDA_ERROR_INVALID_VALUE;
	pitch -= pitch % PITCH_ALIGN;
	/* Given out even where the memory is not. */
	*pPitch = pitch;
	if (__builtin_mul_overflow(pitch, Height, &size))
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_capture_unsafe();
	if (r == CUDA_SUCCESS)
		r = shim_mem_alloc(shim_current, size, &address);
	if (r == CUDA_SUCCESS)
		*dptr = address;
	return r;
}

CUresult
shim_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct shim_context *ctx = shim_current;
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__MemoryInfo body = MPS__MEMORY_INFO__INIT;
	uint64_t idle;
	CUresult r;

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	idle = shim_supply_idle(ctx->chan, false);
	body.device = shim_process.devices[ctx->device].real;
	message.body_case = MPS__CONTROL__BODY_MEMORY_INFO;
	message.memory_info = &body;
	r = shim_ask(&message, MPS__CONTROL__BODY_MEMORY_INFO_REPLY, &answer,
		     NULL, NULL);
	if (r != CUDA_SUCCESS)
		return r;
	if (answer->body_case == MPS__CONTROL__BODY_DONE) {
		r = (CUresult)answer->done->status;
		r = r ? r : CUDA_ERROR_MPS_RPC_FAILURE;
	} else {
		const Mps__MemoryInfoReply *info = answer->memory_info_reply;

		r = (CUresult)info->status;
		/* What we hold and do not use is free to this program. */
		if (r == CUDA_SUCCESS && free)
			*free = info->free + idle < info->total ?
				info->free + idle : info->total;
		if (r == CUDA_SUCCESS && total)
			*total = info->total;
	}
	mps__control__free_unpacked(answer, NULL);
	return r;
}

CUresult
shim_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize,
			     CUdeviceptr dptr)
{
	struct shim_range range = {0};
	int r = shim_range_find(dptr, &range);

	if (pbase)
		*pbase = range.start;
	if (psize)
		*psize = range.size;
	return r ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
