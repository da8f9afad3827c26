/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the device may use: allocated or registered.
 */
#include "server/soft/soft_mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/soft/soft_work.h"

#define ALLOC_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | \
		     CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS (CU_MEMHOSTREGISTER_PORTABLE | \
			CU_MEMHOSTREGISTER_DEVICEMAP | \
			CU_MEMHOSTREGISTER_READ_ONLY)

CUresult
cuMemHostAlloc(void **pp, size_t size, unsigned int flags)
{
	struct soft_ctx *ctx;
	struct soft_range *range;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!pp || !size || flags & ~(unsigned)ALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_capture_forbids();
	if (!res)
		res = soft_mem_new(ctx, SOFT_RANGE_HOST, size, &range);
	if (res)
		return res;
	range->flags = flags;
	*pp = (void *)(uintptr_t)range->base;
	return CUDA_SUCCESS;
}

CUresult
cuMemAllocHost_v2(void **pp, size_t size)
{
	return cuMemHostAlloc(pp, size, 0);
}

static CUresult
drain_for_host(void)
{
	CUresult res = soft_capture_forbids();

	if (res || soft_relaxed(SOFT_RELAX_FREE))
		return res;
	res = soft_gate_drain(true);
	soft_gate_open(true);
	return res;
}

CUresult
cuMemFreeHost(void *p)
{
	struct soft_ctx *ctx;
	struct soft_range range;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!p)
		return CUDA_SUCCESS;
	if (!soft_range_find((uintptr_t)p, &range) ||
	    range.base != (uintptr_t)p || range.kind != SOFT_RANGE_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	res = drain_for_host();
	if (!res)
		soft_range_free(soft_range_take((uintptr_t)p, SOFT_RANGE_HOST));
	return res;
}

/*
 * Does this process map every page of [base, end), writable if asked? The
 * real driver pins the pages and refuses those it cannot; here a kernel
 * would take this process down with it.
 */
static bool
pages_are_mapped(uint64_t base, uint64_t end, bool write)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	if (!maps)
		return false;
	while (base < end && fgets(line, sizeof(line), maps)) {
		uint64_t low, high;
		char mode[5];

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &low, &high,
			   mode) != 3 || base < low || base >= high)
			continue;
		if (mode[0] != 'r' || (write && mode[1] != 'w'))
			break;
		base = high;
	}
	fclose(maps);
	return base >= end;
}

CUresult
cuMemHostRegister_v2(void *p, size_t size, unsigned int flags)
{
	uint64_t base = (uintptr_t)p, end = base + size;
	bool write = !(flags & CU_MEMHOSTREGISTER_READ_ONLY);
	struct soft_ctx *ctx;
	struct soft_range *range;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!p || !size || end < base || flags & ~(unsigned)REGISTER_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_capture_forbids();
	if (res)
		return res;
	if (soft_range_overlaps(base, end))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (!pages_are_mapped(base, end, write))
		return CUDA_ERROR_INVALID_VALUE;
	range = calloc(1, sizeof(*range));
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->base = base;
	range->end = end;
	range->kind = SOFT_RANGE_REGISTERED;
	range->writable = write;
	range->ctx = ctx->home;
	range->device = ctx->device;
	range->flags = flags;
	range->id = soft_new_id();
	if (!soft_range_add(range)) {
		free(range);
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	}
	return CUDA_SUCCESS;
}

CUresult
cuMemHostUnregister(void *p)
{
	struct soft_ctx *ctx;
	struct soft_range range;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (!soft_range_find((uintptr_t)p, &range) ||
	    range.base != (uintptr_t)p || range.kind != SOFT_RANGE_REGISTERED)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	res = drain_for_host();
	if (!res)
		soft_range_free(soft_range_take((uintptr_t)p,
						SOFT_RANGE_REGISTERED));
	return res;
}

static bool
find_host(void *p, struct soft_range *out_range)
{
	return soft_range_find((uintptr_t)p, out_range) &&
	       (out_range->kind == SOFT_RANGE_HOST ||
		out_range->kind == SOFT_RANGE_REGISTERED);
}

CUresult
cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p, unsigned int flags)
{
	struct soft_ctx *ctx;
	struct soft_range range;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!dptr || flags || !find_host(p, &range))
		return CUDA_ERROR_INVALID_VALUE;
	*dptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult
cuMemHostGetFlags(unsigned int *flags, void *p)
{
	struct soft_ctx *ctx;
	struct soft_range range;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!flags || !find_host(p, &range))
		return CUDA_ERROR_INVALID_VALUE;
	/* With unified addressing every host allocation is mapped. */
	*flags = range.flags | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}
