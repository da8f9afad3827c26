/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: allocation, freeing, accounting.
 */
#include "server/soft/soft_mem.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "server/soft/soft_ledger.h"
#include "server/soft/soft_work.h"

/* Natively blocks are 2 MiB aligned above 1 MiB, 512 bytes up to that. */
#define SMALL_SIZE ((size_t)1 << 20)
#define PAGE_SIZE_BYTES ((size_t)4096)
#define PITCH_ALIGN ((size_t)512)

bool
soft_mem_fails(void)
{
	return soft.alloc_fault &&
	       atomic_fetch_add(&soft.allocs, 1) + 1 == soft.alloc_fault;
}

bool
soft_mem_charge(struct soft_device *dev, size_t size)
{
	return !soft_mem_fails() && soft_ledger_charge(dev, size);
}

void
soft_mem_uncharge(struct soft_device *dev, size_t size)
{
	soft_ledger_uncharge(dev, size);
}

#ifndef __has_feature
#define __has_feature(x) 0   /* gcc says it another way */
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SOFT_TSAN 1
#else
#define SOFT_TSAN 0
#endif

/*
 * Where the device puts memory if it may choose: below the part of the
 * address space where processes have their libraries and clients their
 * slots, going up, starting again at the end.
 */
#define CHOICE_LOW ((uintptr_t)0x7c0000000000)
#define CHOICE_HIGH ((uintptr_t)0x7e0000000000)
/* So many times it may hit upon something, then the kernel chooses. */
#define CHOICE_TRIES 64

static void *
map_chosen(size_t size, size_t align)
{
	static _Atomic uintptr_t next = CHOICE_LOW;

	if (SOFT_TSAN)
		return NULL;   /* it dies of mappings there */
	for (int i = 0; i < CHOICE_TRIES && size < CHOICE_HIGH - CHOICE_LOW;
	     i++) {
		uintptr_t old = atomic_load(&next), at;
		void *map;

		do {
			at = (old + align - 1) & ~(uintptr_t)(align - 1);
			if (at + size > CHOICE_HIGH)
				at = CHOICE_LOW;
		} while (!atomic_compare_exchange_weak(&next, &old, at + size));
		map = mmap((void *)at, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			   MAP_FIXED_NOREPLACE, -1, 0);
		if (map == (void *)at)
			return map;
		if (map != MAP_FAILED)
			munmap(map, size);
	}
	return NULL;
}

/* size is a multiple of the page; aligned to align, also one. */
static void *
map_aligned(size_t size, size_t align)
{
	size_t slack = align > PAGE_SIZE_BYTES ? align : 0, head;
	char *map = map_chosen(size, align);

	if (map)
		return map;
	map = mmap(NULL, size + slack, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	if (!slack)
		return map;
	head = (align - ((uintptr_t)map & (align - 1))) & (align - 1);
	if (head)
		munmap(map, head);
	if (slack - head)
		munmap(map + head + size, slack - head);
	return map + head;
}

CUresult
soft_mem_new(struct soft_ctx *ctx, enum soft_range_kind kind, size_t size,
	     struct soft_range **out_range)
{
	size_t align = size > SMALL_SIZE ? SOFT_GRANULARITY : PAGE_SIZE_BYTES;
	struct soft_range *range;
	size_t whole;

	if (size > (size_t)1 << 46)
		return CUDA_ERROR_OUT_OF_MEMORY;
	whole = (size + PAGE_SIZE_BYTES - 1) & ~(PAGE_SIZE_BYTES - 1);
	range = calloc(1, sizeof(*range));
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->kind = kind;
	/* The heap is the device's and outlives every context. */
	range->ctx = kind == SOFT_RANGE_HEAP ? NULL : ctx->home;
	range->device = ctx->device;
	range->writable = true;
	range->id = soft_new_id();
	if (kind != SOFT_RANGE_HOST) {
		if (!soft_mem_charge(ctx->device, whole))
			goto out_free;
		range->charged = whole;
	}
	range->map = map_aligned(whole, align);
	if (!range->map)
		goto out_free;
	range->map_size = whole;
	range->base = (uintptr_t)range->map;
	range->end = range->base + size;
	if (!soft_range_add(range))
		goto out_free;
	*out_range = range;
	return CUDA_SUCCESS;
out_free:
	soft_range_free(range);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuMemAlloc_v2(CUdeviceptr *dptr, size_t size)
{
	struct soft_ctx *ctx;
	struct soft_range *range;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!dptr || !size)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_capture_forbids();
	if (!res)
		res = soft_mem_new(ctx, SOFT_RANGE_DEVICE, size, &range);
	if (!res)
		*dptr = range->base;
	return res;
}

CUresult
cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width,
		   size_t height, unsigned int element)
{
	size_t row = (width + PITCH_ALIGN - 1) & ~(PITCH_ALIGN - 1);
	CUresult res;

	if (!dptr || !pitch || !width || !height ||
	    (element != 4 && element != 8 && element != 16) ||
	    row < width || height > SIZE_MAX / row)
		return soft_enter() ? soft_enter() : CUDA_ERROR_INVALID_VALUE;
	res = cuMemAlloc_v2(dptr, row * height);
	if (!res)
		*pitch = row;
	return res;
}

CUresult
cuMemAllocManaged(CUdeviceptr *dptr, size_t size, unsigned int flags)
{
	struct soft_ctx *ctx;
	struct soft_range *range;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!dptr || !size ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_capture_forbids();
	if (!res)
		res = soft_mem_new(ctx, SOFT_RANGE_MANAGED, size, &range);
	if (!res)
		*dptr = range->base;
	return res;
}

static struct soft_range *
take_allocation(CUdeviceptr dptr)
{
	struct soft_range *range = soft_range_take(dptr, SOFT_RANGE_DEVICE);

	if (!range)
		range = soft_range_take(dptr, SOFT_RANGE_MANAGED);
	if (!range)
		range = soft_range_take(dptr, SOFT_RANGE_POOL);
	return range;
}

CUresult
cuMemFree_v2(CUdeviceptr dptr)
{
	struct soft_ctx *ctx;
	struct soft_range range, *taken;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!dptr)
		return CUDA_SUCCESS;
	res = soft_capture_forbids();
	if (res)
		return res;
	if (!soft_range_find(dptr, &range) || range.base != dptr ||
	    (range.kind != SOFT_RANGE_DEVICE && range.freeing) ||
	    (range.kind != SOFT_RANGE_DEVICE &&
	     range.kind != SOFT_RANGE_MANAGED && range.kind != SOFT_RANGE_POOL))
		return CUDA_ERROR_INVALID_VALUE;
	if (!soft_relaxed(SOFT_RELAX_FREE)) {
		res = soft_gate_drain(true);
		soft_gate_open(true);
	}
	if (res)
		return res;
	taken = take_allocation(dptr);
	if (!taken)
		return CUDA_ERROR_INVALID_VALUE;
	if (taken->pool)
		soft_mempool_range_gone(taken);
	soft_range_free(taken);
	return CUDA_SUCCESS;
}

CUresult
cuMemGetInfo_v2(size_t *free_size, size_t *total)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (free_size)
		*free_size = ctx->device->memory_total -
			     soft_ledger_used(ctx->device);
	if (total)
		*total = ctx->device->memory_total;
	return CUDA_SUCCESS;
}

CUresult
cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
	struct soft_ctx *ctx;
	struct soft_range range;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!soft_range_find(dptr, &range) || range.kind == SOFT_RANGE_HEAP)
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = range.base;
	if (size)
		*size = range.end - range.base;
	return CUDA_SUCCESS;
}
