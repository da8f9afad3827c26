/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own pages, registered. They cannot be shared with the worker,
 * so kernels never see them (attribute CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
 * is 0, mapping them is refused) and copies pass through staging memory (R40).
 */
#include <errno.h>
#include <sys/mman.h>

#include "shim/ctx.h"
#include "shim/range.h"
#include "shim_impl.h"

#define KNOWN_FLAGS (CU_MEMHOSTREGISTER_PORTABLE | \
		     CU_MEMHOSTREGISTER_DEVICEMAP | \
		     CU_MEMHOSTREGISTER_IOMEMORY | \
		     CU_MEMHOSTREGISTER_READ_ONLY)
#define PAGE UINT64_C(4096)
/* Pages asked about at a time. */
#define PAGES 1024

/* Is something mapped at every page of it? */
static bool
is_there(uint64_t address, uint64_t size)
{
	uint64_t at = address / PAGE * PAGE, end = address + size;
	unsigned char residency[PAGES];

	while (at < end) {
		uint64_t step = end - at < PAGES * PAGE ? end - at :
							  PAGES * PAGE;

		if (mincore((void *)(uintptr_t)at, step, residency) < 0 &&
		    errno != EAGAIN)
			return false;
		at += PAGES * PAGE;
	}
	return true;
}

CUresult
shim_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	struct shim_context *ctx = shim_current;
	struct shim_range range = {
		.start = (uintptr_t)p, .size = bytesize,
		.kind = RANGE_REGISTERED, .device = ctx->device,
		.flags = Flags, .ctx = ctx,
	};

	if (!p || !bytesize || Flags & ~(unsigned int)KNOWN_FLAGS ||
	    (uintptr_t)p + bytesize < bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & ~(unsigned int)CU_MEMHOSTREGISTER_PORTABLE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_there((uintptr_t)p, bytesize))
		return CUDA_ERROR_INVALID_VALUE;
	switch (shim_range_add(&range)) {
	case 0:
		return CUDA_SUCCESS;
	case RANGE_E_OVERLAP:
		return shim_range_find((uintptr_t)p, &range) ||
		       range.kind == RANGE_REGISTERED ?
		       CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED :
		       CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
}

CUresult
shim_cuMemHostUnregister(void *p)
{
	struct shim_range range;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	/* What is posted has taken its bytes, what waits has its turn. */
	if (!shim_range_remove((uintptr_t)p, RANGE_REGISTERED, &range))
		return CUDA_SUCCESS;
	/* Not its start, or memory that was not registered but made. */
	return shim_range_find((uintptr_t)p, &range) ?
	       CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED :
	       CUDA_ERROR_INVALID_VALUE;
}
