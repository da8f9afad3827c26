/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory is pinned host memory at one address (R41): coherent, and
 * never moved, so where it should be is a hint that changes nothing.
 */
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

/* Is it part of one managed block? */
static bool
is_managed(CUdeviceptr address, size_t size)
{
	struct shim_range range;

	return !shim_range_find(address, &range) &&
	       range.kind == RANGE_MANAGED &&
	       size <= range.size - (address - range.start);
}

static CUresult
check_place(CUmemLocation place)
{
	switch ((int)place.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return shim_device_exists(place.id) ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
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

CUresult
shim_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
		    CUmemLocation location)
{
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
	    advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY || !count ||
	    !is_managed(devPtr, count))
		return CUDA_ERROR_INVALID_VALUE;
	/* These name no place. */
	if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY ||
	    advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
	    advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
		return CUDA_SUCCESS;
	return check_place(location);
}

CUresult
shim_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
		 CUdevice device)
{
	if (device != CU_DEVICE_CPU && !shim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return shim_cuMemAdvise_v2(devPtr, count, advice, place_of(device));
}

CUresult
shim_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count,
			   CUmemLocation location, unsigned int flags,
			   CUstream hStream)
{
	struct shim_stream *stream;
	CUresult r = shim_stream_find(hStream, shim_current, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r == CUDA_SUCCESS && shim_stream_is_capturing(stream))
		r = shim_capture_wait_stream(stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (!count || flags || !is_managed(devPtr, count))
		return CUDA_ERROR_INVALID_VALUE;
	return check_place(location);
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
	CUresult r = shim_stream_find(hStream, shim_current, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r == CUDA_SUCCESS && shim_stream_is_capturing(stream))
		r = shim_capture_wait_stream(stream);
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
