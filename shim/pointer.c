/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointer attributes, all from the interval map. What the plural call says of
 * unknown pointers, and the attributes that each kind has, were recorded from
 * the real driver.
 */
#include <string.h>

#include "shim_impl.h"
#include "shim/ctx.h"
#include "shim/mempool.h"
#include "shim/range.h"
#include "shim/supply.h"

/* One answer: `size` bytes of value; size 0: nothing is written. */
struct answer {
	uint64_t value;
	size_t size;
};

/* Bytes of each attribute; 0: there is none of this number. P2P_TOKENS (5) is
 * for a kernel driver of another vendor and cannot be given. */
static size_t
attribute_size(CUpointer_attribute attribute)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return 8;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return 4;
	}
	return 0;
}

/* Chunk of a block; a module variable's mapping is not ours to know: itself. */
static void
mapping_of(const struct shim_range *range, uint64_t *out_base,
	   uint64_t *out_size, uint64_t *out_id)
{
	*out_base = range->start;
	*out_size = range->size;
	*out_id = range->buffer_id;
	if (range->block && range->kind != RANGE_MAPPED &&
	    range->kind != RANGE_OPENED && range->kind != RANGE_REGISTERED)
		shim_supply_chunk(range->block, out_base, out_size, out_id);
}

/* What is mapped without access is unknown yet. */
static bool
find(CUdeviceptr ptr, struct shim_range *out_range)
{
	return !shim_range_find(ptr, out_range) && !out_range->closed;
}

static uint64_t
known_value(const struct shim_range *range, CUpointer_attribute attribute,
	    CUdeviceptr ptr)
{
	bool host = shim_range_is_host(range);
	uint64_t other = range->other ? range->other + (ptr - range->start) : 0;
	uint64_t base, size, id;

	mapping_of(range, &base, &size, &id);
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		return range->ctx ? range->ctx->handle : 0;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return host && range->kind != RANGE_MANAGED ?
		       CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return range->kind == RANGE_REGISTERED ? other : ptr;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return range->kind == RANGE_ALIAS ? other : host ? ptr : 0;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return range->sync_memops;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		return range->buffer_id;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (uint64_t)range->device;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return range->kind == RANGE_DEVICE && !range->pool;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return range->kind == RANGE_MANAGED;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return range->start;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return range->size;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return range->kind != RANGE_REGISTERED || range->other;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return range->handle_types;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return range->pool ? range->pool->object.handle : 0;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return size;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return base;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return id;
	}
	/* Nothing that a third device could reach or a decompressor use. */
	return 0;
}

/* The plural call's answers for what is no CUDA memory. */
static struct answer
unknown_answer(CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct answer answer = { .size = attribute_size(attribute) };

	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		answer.value = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		answer.value = (uint32_t)CU_DEVICE_INVALID;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		answer.size = 0;
		break;
	}
	return answer;
}

CUresult
shim_cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
			   CUdeviceptr ptr)
{
	size_t size = attribute_size(attribute);
	struct shim_range range;
	uint64_t value;

	if (!data || !size || !find(ptr, &range))
		return CUDA_ERROR_INVALID_VALUE;
	value = known_value(&range, attribute, ptr);
	memcpy(data, &value, size);
	if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER &&
	    !shim_range_is_host(&range))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult
shim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
			   CUdeviceptr ptr)
{
	struct shim_range range;
	unsigned int on;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
	    !find(ptr, &range))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&on, value, sizeof(on));
	shim_range_set_sync_memops(ptr, on);
	/* What was begun without it is over when the call returns. */
	return on ? shim_cuCtxSynchronize() : CUDA_SUCCESS;
}

CUresult
shim_cuPointerGetAttributes(unsigned int numAttributes,
			    CUpointer_attribute *attributes, void **data,
			    CUdeviceptr ptr)
{
	struct shim_range range;
	bool known;

	if (!numAttributes || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < numAttributes; i++)
		if (!attribute_size(attributes[i]) || !data[i])
			return CUDA_ERROR_INVALID_VALUE;
	known = find(ptr, &range);
	for (unsigned int i = 0; i < numAttributes; i++) {
		struct answer answer = unknown_answer(attributes[i], ptr);

		if (known) {
			answer.value = known_value(&range, attributes[i], ptr);
			answer.size = attribute_size(attributes[i]);
		}
		memcpy(data[i], &answer.value, answer.size);
	}
	return CUDA_SUCCESS;
}
