/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pointer is: attributes of the range that holds it.
 */
#include <string.h>

#include "server/soft/soft_mem.h"

static bool
is_host(const struct soft_range *range)
{
	return range->kind == SOFT_RANGE_HOST ||
	       range->kind == SOFT_RANGE_REGISTERED;
}

static bool
host_can_use(const struct soft_range *range)
{
	return is_host(range) || range->kind == SOFT_RANGE_MANAGED;
}

static void
put(void *data, uint64_t value, size_t size)
{
	memcpy(data, &value, size);   /* little-endian */
}

static CUresult
attribute_of(const struct soft_range *range, CUdeviceptr ptr,
	     CUpointer_attribute attr, void *data)
{
	unsigned types = 0;

	switch (attr) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		put(data, (uintptr_t)range->ctx, sizeof(CUcontext));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		put(data, is_host(range) ? CU_MEMORYTYPE_HOST :
		    CU_MEMORYTYPE_DEVICE, sizeof(unsigned));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		put(data, ptr, sizeof(CUdeviceptr));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		put(data, host_can_use(range) ? ptr : 0, sizeof(void *));
		return host_can_use(range) ? CUDA_SUCCESS :
		       CUDA_ERROR_INVALID_VALUE;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		put(data, range->sync_memops, sizeof(int));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		put(data, range->id, sizeof(uint64_t));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		put(data, range->kind == SOFT_RANGE_MANAGED, sizeof(unsigned));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		put(data, (uint64_t)range->device->ordinal, sizeof(int));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		put(data, 0, sizeof(unsigned));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		put(data, range->base, sizeof(void *));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		put(data, range->end - range->base, sizeof(size_t));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		put(data, 1, sizeof(unsigned));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		soft_vmm_handle_types(ptr, &types);
		put(data, types, sizeof(uint64_t));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		put(data, range->writable ?
		    CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE :
		    CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ, sizeof(unsigned));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		put(data, (uintptr_t)range->pool, sizeof(void *));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		put(data, range->end - range->base, sizeof(size_t));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		put(data, range->base, sizeof(void *));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		put(data, range->id, sizeof(uint64_t));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		put(data, 0, sizeof(bool));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
cuPointerGetAttribute(void *data, CUpointer_attribute attr, CUdeviceptr ptr)
{
	struct soft_range range;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!data || !soft_range_find(ptr, &range) ||
	    range.kind == SOFT_RANGE_HEAP)
		return CUDA_ERROR_INVALID_VALUE;
	return attribute_of(&range, ptr, attr, data);
}

/* For memory that nobody knows every value is the type's zero, except for
 * the device, which is -2, and that is no error. */
static void
attribute_unknown(CUpointer_attribute attr, void *data)
{
	switch (attr) {
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		put(data, (uint64_t)-2, sizeof(int));
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		put(data, 0, sizeof(unsigned));
		break;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		put(data, 0, sizeof(bool));
		break;
	default:
		put(data, 0, sizeof(uint64_t));
		break;
	}
}

CUresult
cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attrs,
		       void **data, CUdeviceptr ptr)
{
	struct soft_range range;
	bool known;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!count || !attrs || !data)
		return CUDA_ERROR_INVALID_VALUE;
	known = soft_range_find(ptr, &range) && range.kind != SOFT_RANGE_HEAP;
	for (unsigned i = 0; i < count; i++) {
		if (!data[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (!known) {
			attribute_unknown(attrs[i], data[i]);
			continue;
		}
		res = attribute_of(&range, ptr, attrs[i], data[i]);
		if (res && attrs[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER)
			return res;
	}
	return CUDA_SUCCESS;
}

struct sync_request {
	uint64_t addr;
	bool value, found;
};

static bool
set_sync(struct soft_range *range, void *arg)
{
	struct sync_request *request = arg;

	if (request->addr < range->base || request->addr >= range->end)
		return true;
	range->sync_memops = request->value;
	request->found = true;
	return false;
}

CUresult
cuPointerSetAttribute(const void *value, CUpointer_attribute attr,
		      CUdeviceptr ptr)
{
	struct sync_request request = { .addr = ptr };
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!value || attr != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	request.value = *(const unsigned *)value != 0;
	soft_range_each(set_sync, &request);
	return request.found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
