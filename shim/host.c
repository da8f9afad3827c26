/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory: mapped at one address here and in the worker, whose
 * driver knows it. All of it is portable and mapped for the device, as natively
 * on every device with unified addressing.
 */
#include "api_ids.h"
#include "shim_impl.h"
#include "shim/capture.h"
#include "shim/ctx.h"
#include "shim/mem.h"
#include "shim/range.h"
#include "shim/register.h"

#define KNOWN_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | \
		     CU_MEMHOSTALLOC_WRITECOMBINED)
/* No address space is larger; keeps rounding from overflowing. */
#define SIZE_LIMIT (UINT64_C(1) << 47)

CUresult
shim_host_alloc(struct shim_context *ctx, uint64_t size, unsigned int flags,
		void **out_address)
{
	uint64_t address;
	CUresult r;

	if (size >= SIZE_LIMIT)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = shim_mem_add(ctx, RANGE_PINNED, size, flags, &address);
	if (r == CUDA_SUCCESS)
		*out_address = (void *)(uintptr_t)address;
	return r;
}

CUresult
shim_host_free(void *address)
{
	return shim_mem_remove((uintptr_t)address, RANGE_PINNED);
}

/* The pinned block or registered memory that holds p. */
static CUresult
find_host(void *p, struct shim_range *out_range)
{
	if (shim_range_find((uintptr_t)p, out_range) ||
	    (out_range->kind != RANGE_PINNED &&
	     out_range->kind != RANGE_REGISTERED))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult
shim_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	CUresult r;

	if (!pp || Flags & ~(unsigned int)KNOWN_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_capture_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	/* Nothing, successfully: what the real driver does. */
	if (!bytesize) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	return shim_host_alloc(shim_current, bytesize, Flags, pp);
}

CUresult
shim_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return shim_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult
shim_cuMemFreeHost(void *p)
{
	CUresult r = shim_capture_unsafe();

	return r != CUDA_SUCCESS || !p ? r : shim_host_free(p);
}

CUresult
shim_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p,
				  unsigned int Flags)
{
	struct shim_range range;
	uint64_t address = (uintptr_t)p;
	CUresult r;

	if (!pdptr || Flags)
		return CUDA_ERROR_INVALID_VALUE;
	r = find_host(p, &range);
	if (r == CUDA_SUCCESS && range.kind == RANGE_REGISTERED)
		r = shim_register_alias(address, &address);
	*pdptr = r == CUDA_SUCCESS ? address : 0;
	return r;
}

CUresult
shim_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct shim_range range;
	CUresult r;

	if (!pFlags)
		return CUDA_ERROR_INVALID_VALUE;
	r = find_host(p, &range);
	/* The real driver reports these two and never PORTABLE. */
	if (r == CUDA_SUCCESS)
		*pFlags = CU_MEMHOSTALLOC_DEVICEMAP |
			  (range.flags & CU_MEMHOSTALLOC_WRITECOMBINED);
	return r;
}
