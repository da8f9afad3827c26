/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of virtual memory management: what the arguments must be.
 */
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/process.h"
#include "shim/range.h"
#include "shim/vmm.h"
#include "shim_impl.h"

/* No address space is larger. */
#define SIZE_LIMIT (UINT64_C(1) << 47)

static bool
is_granular(uint64_t value)
{
	return value % VMM_GRANULE == 0;
}

/* As the real driver judges them; memory of the host, of NUMA nodes and
 * handles of a fabric are not served. */
static CUresult
check_prop(const CUmemAllocationProp *prop)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return prop->location.type > CU_MEM_LOCATION_TYPE_DEVICE &&
		       prop->location.type <=
		       CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ?
		       CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(prop->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	if ((unsigned)prop->requestedHandleTypes &
	    ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

static struct shim_memory *
memory_of(CUmemGenericAllocationHandle handle)
{
	return shim_object_get(HANDLE_MEMORY, handle);
}

CUresult
shim_cuMemGetAllocationGranularity(size_t *granularity,
				   const CUmemAllocationProp *prop,
				   CUmemAllocationGranularity_flags option)
{
	CUresult r;

	if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
			     option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	r = check_prop(prop);
	if (r == CUDA_SUCCESS)
		*granularity = VMM_GRANULE;
	return r;
}

CUresult
shim_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
			 CUdeviceptr addr, unsigned long long flags)
{
	/* The address is a hint, and ours must be the broker's. */
	struct shim_context *ctx = shim_current;
	uint64_t address;
	CUresult r;

	if (!ptr || !size || flags || !is_granular(size) ||
	    !is_granular(addr) || alignment & (alignment - 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (size > SIZE_LIMIT || alignment > SIZE_LIMIT)
		return CUDA_ERROR_OUT_OF_MEMORY;
	shim_vmm_lock();
	r = shim_vmm_reserve(ctx ? ctx->device : 0, size, alignment, &address);
	shim_vmm_unlock();
	if (r == CUDA_SUCCESS)
		*ptr = address;
	return r;
}

CUresult
shim_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	CUresult r;

	shim_vmm_lock();
	r = shim_vmm_unreserve(ptr, size);
	shim_vmm_unlock();
	return r;
}

CUresult
shim_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		 const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct shim_memory *memory;
	CUresult r = check_prop(prop);

	if (r != CUDA_SUCCESS)
		return r;
	if (!handle || !size || flags || !is_granular(size))
		return CUDA_ERROR_INVALID_VALUE;
	/* Attributes say that there is none of either. */
	if (prop->allocFlags.gpuDirectRDMACapable || prop->allocFlags.usage)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (size > shim_process.devices[prop->location.id].info->total_memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	shim_vmm_lock();
	r = shim_vmm_create(prop->location.id, size, prop, &memory);
	if (r == CUDA_SUCCESS)
		*handle = memory->object.handle;
	shim_vmm_unlock();
	return r;
}

CUresult
shim_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct shim_memory *memory;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	shim_vmm_lock();
	memory = memory_of(handle);
	if (memory)
		r = shim_vmm_release(memory);
	shim_vmm_unlock();
	return r;
}

CUresult
shim_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
	      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct shim_memory *memory;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (!ptr || !size || flags || !is_granular(ptr))
		return r;
	shim_vmm_lock();
	memory = memory_of(handle);
	/* The offset must be 0, says cuda.h. */
	if (memory && (offset || !is_granular(size) || size > memory->size))
		r = CUDA_ERROR_NOT_SUPPORTED;
	else if (memory)
		r = shim_vmm_map(memory, ptr, size);
	shim_vmm_unlock();
	return r;
}

CUresult
shim_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (!ptr || !size || ptr + size < ptr)
		return r;
	shim_vmm_lock();
	if (shim_vmm_is_mapped(ptr, size))
		r = shim_vmm_unmap(ptr, size);
	else if (shim_vmm_is_empty(ptr, size))
		r = CUDA_SUCCESS;
	shim_vmm_unlock();
	return r;
}

static bool
is_open(uint64_t address)
{
	struct shim_range range;

	return !shim_range_find(address, &range) && !range.closed;
}

/* What a mapping was given it keeps: the worker could only take it back when
 * all that was posted has retired. */
static CUresult
set_access(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc)
{
	struct shim_range range;

	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !shim_device_exists(desc->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	if (shim_range_find(ptr, &range))
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)desc->flags) {
	case CU_MEM_ACCESS_FLAGS_PROT_NONE:
		return range.device == desc->location.id && is_open(ptr) ?
		       CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
	case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
		return range.device == desc->location.id ?
		       shim_vmm_open(ptr, size) : CUDA_ERROR_NOT_SUPPORTED;
	case CU_MEM_ACCESS_FLAGS_PROT_READ:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
		    size_t count)
{
	CUresult r = CUDA_SUCCESS;

	if (!ptr || !size || !desc || !count || ptr + size < ptr)
		return CUDA_ERROR_INVALID_VALUE;
	shim_vmm_lock();
	if (!shim_vmm_is_mapped(ptr, size))
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
		r = set_access(ptr, size, &desc[i]);
	shim_vmm_unlock();
	return r;
}

CUresult
shim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
		    CUdeviceptr ptr)
{
	struct shim_range range;

	if (!flags || !location ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	if (shim_range_find(ptr, &range) || range.kind != RANGE_MAPPED) {
		shim_vmm_lock();
		if (shim_vmm_is_empty(ptr, 1))
			*flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
		shim_vmm_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	*flags = range.closed || range.device != location->id ?
		 CU_MEM_ACCESS_FLAGS_PROT_NONE :
		 CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

CUresult
shim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
					    CUmemGenericAllocationHandle handle)
{
	struct shim_memory *memory;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (!prop)
		return r;
	shim_vmm_lock();
	memory = memory_of(handle);
	if (memory) {
		*prop = memory->prop;
		r = CUDA_SUCCESS;
	}
	shim_vmm_unlock();
	return r;
}

CUresult
shim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
				 void *addr)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct shim_mapping *mapping;
	struct shim_range range;

	if (!handle)
		return r;
	shim_vmm_lock();
	if (!shim_range_find((uintptr_t)addr, &range) &&
	    range.kind == RANGE_MAPPED) {
		mapping = range.block;
		r = shim_vmm_retain(mapping->memory);
		if (r == CUDA_SUCCESS)
			*handle = mapping->memory->object.handle;
	}
	shim_vmm_unlock();
	return r;
}
