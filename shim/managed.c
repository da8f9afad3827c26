/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory is pinned host memory at one address: coherent, and
 * never moved, so where it should be is a hint that is remembered and changes
 * nothing.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/advice.h"
#include "shim/capture.h"
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/mem.h"
#include "shim/range.h"
#include "shim/stream.h"
#include "shim_impl.h"

#define SIZE_LIMIT (UINT64_C(1) << 47)

CUresult
shim_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	uint64_t address;
	CUresult r;

	if (!dptr || !bytesize ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_capture_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	if (bytesize >= SIZE_LIMIT)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = shim_mem_add(shim_current, RANGE_MANAGED, bytesize, flags,
			 &address);
	if (r == CUDA_SUCCESS)
		*dptr = address;
	return r;
}

#define PAGE UINT64_C(4096)

/* Whole pages of one managed block, as far as the block goes. */
static bool
find_part(CUdeviceptr address, size_t size, uint64_t *out_start,
	  uint64_t *out_size)
{
	struct shim_range range;
	uint64_t start, end;

	if (!size || shim_range_find(address, &range) ||
	    range.kind != RANGE_MANAGED ||
	    size > range.size - (address - range.start))
		return false;
	start = address / PAGE * PAGE;
	end = (address + size + PAGE - 1) / PAGE * PAGE;
	if (start < range.start)
		start = range.start;
	if (end > range.start + range.size)
		end = range.start + range.size;
	*out_start = start;
	*out_size = end - start;
	return true;
}

/* Also where advice is about no place. */
static bool
is_place(const CUmemLocation *place)
{
	return place->type >= CU_MEM_LOCATION_TYPE_DEVICE &&
	       place->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* What advice remembers of a place: ids that mean something, and those only. */
static CUresult
check_place(CUmemLocation *place)
{
	unsigned int node = 0;

	switch ((int)place->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return shim_device_exists(place->id) ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
		place->id = 0;
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		syscall(SYS_getcpu, NULL, &node, NULL);
		place->type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		place->id = (int)node;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUmemLocation
place_of(CUdevice device)
{
	CUmemLocation place = {
		.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST :
						  CU_MEM_LOCATION_TYPE_DEVICE,
		.id = device,
	};

	return place;
}

static CUresult
say(uint64_t start, uint64_t size, enum shim_advice_word word,
    CUmemLocation place)
{
	return shim_advice_say(start, size, word, place) ?
	       CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult
shim_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
		    CUmemLocation location)
{
	static const enum shim_advice_word words[] = {
		[CU_MEM_ADVISE_SET_READ_MOSTLY] = ADVICE_READ_MOSTLY,
		[CU_MEM_ADVISE_UNSET_READ_MOSTLY] = ADVICE_NOT_READ_MOSTLY,
		[CU_MEM_ADVISE_SET_PREFERRED_LOCATION] = ADVICE_PREFERRED,
		[CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION] =
			ADVICE_NOT_PREFERRED,
		[CU_MEM_ADVISE_SET_ACCESSED_BY] = ADVICE_ACCESSED,
		[CU_MEM_ADVISE_UNSET_ACCESSED_BY] = ADVICE_NOT_ACCESSED,
	};
	uint64_t start, size;
	CUresult r = CUDA_SUCCESS;

	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
	    advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY || !is_place(&location) ||
	    !find_part(devPtr, count, &start, &size))
		return CUDA_ERROR_INVALID_VALUE;
	/* These name no place. */
	if (advice != CU_MEM_ADVISE_SET_READ_MOSTLY &&
	    advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
	    advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
		r = check_place(&location);
	return r ? r : say(start, size, words[advice], location);
}

CUresult
shim_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
		 CUdevice device)
{
	if (device != CU_DEVICE_CPU && !shim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return shim_cuMemAdvise_v2(devPtr, count, advice, place_of(device));
}

/* A stream that hints can be given on: none that is captured. */
static CUresult
find_stream(CUstream handle, struct shim_stream **out_stream)
{
	CUresult r = shim_stream_find(handle, shim_current, out_stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(*out_stream);
	if (r == CUDA_SUCCESS && shim_stream_is_capturing(*out_stream))
		r = shim_capture_wait_stream(*out_stream);
	return r;
}

CUresult
shim_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count,
			   CUmemLocation location, unsigned int flags,
			   CUstream hStream)
{
	struct shim_stream *stream;
	uint64_t start, size;
	CUresult r = find_stream(hStream, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags || !find_part(devPtr, count, &start, &size))
		return CUDA_ERROR_INVALID_VALUE;
	r = check_place(&location);
	return r ? r : say(start, size, ADVICE_PREFETCHED, location);
}

CUresult
shim_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
			CUstream hStream)
{
	if (dstDevice != CU_DEVICE_CPU && !shim_device_exists(dstDevice))
		return CUDA_ERROR_INVALID_DEVICE;
	return shim_cuMemPrefetchAsync_v2(devPtr, count, place_of(dstDevice),
					  0, hStream);
}

/* Host and kernels both reach it at any time, whatever it is attached to. */
CUresult
shim_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
			    unsigned int flags)
{
	struct shim_stream *stream;
	struct shim_range range;
	CUresult r = find_stream(hStream, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if ((flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	     flags != CU_MEM_ATTACH_SINGLE) || shim_range_find(dptr, &range) ||
	    range.kind != RANGE_MANAGED || range.start != dptr ||
	    (length && length != range.size))
		return CUDA_ERROR_INVALID_VALUE;
	return flags == CU_MEM_ATTACH_SINGLE && stream->kind == STREAM_LEGACY ?
	       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- batches ---- */

struct batch {
	CUdeviceptr *dptrs;
	size_t *sizes, count;
	CUmemLocation *places;      /* NULL: discarded, not prefetched */
	size_t *first, nplaces;     /* places[k] is for those from first[k] on */
};

static bool
is_well_formed(const struct batch *b)
{
	if (!b->dptrs || !b->sizes || !b->count)
		return false;
	if (!b->places)
		return true;
	if (!b->first || !b->nplaces || b->nplaces > b->count || b->first[0])
		return false;
	for (size_t k = 1; k < b->nplaces; k++)
		if (b->first[k] <= b->first[k - 1] || b->first[k] >= b->count)
			return false;
	return true;
}

/* All of it, or nothing. What is discarded keeps its contents, which are as
 * good as any. */
static CUresult
run_batch(const struct batch *b, unsigned long long flags, CUstream hStream)
{
	struct shim_stream *stream;
	uint64_t start, size;
	CUresult r = find_stream(hStream, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags || stream->kind == STREAM_LEGACY || !is_well_formed(b))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < b->count; i++)
		if (!find_part(b->dptrs[i], b->sizes[i], &start, &size))
			return CUDA_ERROR_INVALID_VALUE;
	for (size_t k = 0; b->places && k < b->nplaces; k++) {
		CUmemLocation place = b->places[k];

		r = check_place(&place);
		if (r != CUDA_SUCCESS)
			return r;
	}
	for (size_t i = 0, k = 0; b->places && i < b->count; i++) {
		CUmemLocation place;

		if (k + 1 < b->nplaces && b->first[k + 1] == i)
			k++;
		place = b->places[k];
		check_place(&place);
		find_part(b->dptrs[i], b->sizes[i], &start, &size);
		r = say(start, size, ADVICE_PREFETCHED, place);
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

CUresult
shim_cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
			     CUmemLocation *prefetchLocs,
			     size_t *prefetchLocIdxs, size_t numPrefetchLocs,
			     unsigned long long flags, CUstream hStream)
{
	struct batch b = { dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
			   numPrefetchLocs };

	return prefetchLocs ? run_batch(&b, flags, hStream) :
			      CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
			    unsigned long long flags, CUstream hStream)
{
	struct batch b = { .dptrs = dptrs, .sizes = sizes, .count = count };

	return run_batch(&b, flags, hStream);
}

CUresult
shim_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes,
				       size_t count,
				       CUmemLocation *prefetchLocs,
				       size_t *prefetchLocIdxs,
				       size_t numPrefetchLocs,
				       unsigned long long flags,
				       CUstream hStream)
{
	return shim_cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs,
					    prefetchLocIdxs, numPrefetchLocs,
					    flags, hStream);
}

/* ---- what has been said ---- */

/* As the attributes from before CUmemLocation name it. */
static int32_t
old_name(CUmemLocation place)
{
	switch ((int)place.type) {
	case CU_MEM_LOCATION_TYPE_INVALID:
		return CU_DEVICE_INVALID;
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return place.id;
	}
	return CU_DEVICE_CPU;
}

static void
name_accessors(uint64_t accessed, int32_t *out, size_t count)
{
	size_t n = 0;

	for (int bit = 0; bit < 64 && n < count; bit++)
		if (accessed >> bit & 1)
			out[n++] = bit == ADVICE_HOST ? CU_DEVICE_CPU : bit;
	while (n < count)
		out[n++] = CU_DEVICE_INVALID;
}

static bool
is_question(CUmem_range_attribute attribute, const void *data, size_t size)
{
	if (!data || attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
	    attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
		return false;
	return attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ?
	       size && size % 4 == 0 : size == 4;
}

static void
answer(const struct shim_advice *advice, CUmem_range_attribute attribute,
       void *data, size_t size)
{
	int32_t value = 0;

	switch ((int)attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		value = advice->read_mostly;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		value = old_name(advice->preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		name_accessors(advice->accessed, data, size / 4);
		return;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		value = old_name(advice->prefetched);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		value = (int32_t)advice->preferred.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		value = advice->preferred.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		value = (int32_t)advice->prefetched.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		value = advice->prefetched.id;
		break;
	}
	memcpy(data, &value, sizeof(value));
}

CUresult
shim_cuMemRangeGetAttributes(void **data, size_t *dataSizes,
			     CUmem_range_attribute *attributes,
			     size_t numAttributes, CUdeviceptr devPtr,
			     size_t count)
{
	struct shim_advice advice;
	uint64_t start, size;

	if (!data || !dataSizes || !attributes || !numAttributes ||
	    !find_part(devPtr, count, &start, &size))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numAttributes; i++)
		if (!is_question(attributes[i], data[i], dataSizes[i]))
			return CUDA_ERROR_INVALID_VALUE;
	advice = shim_advice_of(start, size);
	for (size_t i = 0; i < numAttributes; i++)
		answer(&advice, attributes[i], data[i], dataSizes[i]);
	return CUDA_SUCCESS;
}

CUresult
shim_cuMemRangeGetAttribute(void *data, size_t dataSize,
			    CUmem_range_attribute attribute,
			    CUdeviceptr devPtr, size_t count)
{
	return shim_cuMemRangeGetAttributes(&data, &dataSize, &attribute, 1,
					    devPtr, count);
}
