/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills of 1, 2 and 4 byte elements, one- and two-dimensional.
 */
#include <string.h>

#include "server/soft/soft_mem.h"
#include "server/soft/soft_memcpy.h"

#define PIECE ((size_t)1 << 20)

static void
fill(uint64_t at, unsigned element, uint32_t value, size_t size)
{
	char *to = (char *)(uintptr_t)at;

	switch (element) {
	case 1:
		memset(to, (int)(value & 0xff), size);
		break;
	case 2:
		for (size_t i = 0; i < size / 2; i++)
			((uint16_t *)to)[i] = (uint16_t)value;
		break;
	default:
		for (size_t i = 0; i < size / 4; i++)
			((uint32_t *)to)[i] = value;
		break;
	}
}

CUresult
soft_set_run(const struct soft_set_work *set)
{
	size_t size = set->width * set->element;

	for (size_t y = 0; y < set->rows; y++)
		for (size_t x = 0; x < size; x += PIECE) {
			uint64_t at = set->dst + y * set->pitch + x;
			size_t left = size - x < PIECE ? size - x : PIECE;
			bool ok;

			soft_slice_enter();
			ok = soft_mem_check(at, left, true);
			if (ok)
				fill(at, set->element, set->value, left);
			soft_slice_leave();
			if (!ok)
				return CUDA_ERROR_ILLEGAL_ADDRESS;
		}
	return CUDA_SUCCESS;
}

bool
soft_set_is_mapped(const struct soft_set_work *set)
{
	for (size_t y = 0; set->width && y < set->rows; y++)
		if (!soft_mem_check(set->dst + y * set->pitch,
				    set->width * set->element, true))
			return false;
	return true;
}

/* Wherever it goes. */
static CUresult
new_work(CUdeviceptr dst, size_t pitch, unsigned element, uint32_t value,
	 size_t width, size_t rows, struct soft_work **out_work)
{
	struct soft_work *work;
	size_t row, whole;

	if (element != 1 && element != 2 && element != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (dst % element || (rows > 1 && pitch % element))
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(width, element, &row) ||
	    (rows > 1 && pitch < row) ||
	    __builtin_mul_overflow(rows, rows > 1 ? pitch : row, &whole))
		return CUDA_ERROR_INVALID_VALUE;
	work = soft_work_new(SOFT_WORK_SET);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->set = (struct soft_set_work){
		.dst = dst, .pitch = pitch, .element = element,
		.value = value, .width = width, .rows = width ? rows : 0,
	};
	*out_work = work;
	return CUDA_SUCCESS;
}

CUresult
soft_set_work_new(CUdeviceptr dst, size_t pitch, unsigned element,
		  uint32_t value, size_t width, size_t rows,
		  struct soft_work **out_work)
{
	CUresult res = new_work(dst, pitch, element, value, width, rows,
				out_work);

	if (!res && !soft_set_is_mapped(&(*out_work)->set)) {
		soft_work_free(*out_work);
		res = CUDA_ERROR_INVALID_VALUE;
	}
	return res;
}

/* Fills of device memory do not make the host wait, also without Async. */
static CUresult
set(CUdeviceptr dst, size_t pitch, unsigned element, uint32_t value,
    size_t width, size_t rows, CUstream handle)
{
	struct soft_stream *stream;
	struct soft_work *work;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	/* What is captured is looked at when the graph is instantiated. */
	res = (atomic_load(&stream->capture) ? new_work : soft_set_work_new)(
		dst, pitch, element, value, width, rows, &work);
	return res ? res : soft_issue(stream, work, NULL);
}

CUresult
cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream s)
{
	return set(dst, 0, 1, value, n, 1, s);
}

CUresult
cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream s)
{
	return set(dst, 0, 2, value, n, 1, s);
}

CUresult
cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n, CUstream s)
{
	return set(dst, 0, 4, value, n, 1, s);
}

CUresult
cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n)
{
	return set(dst, 0, 1, value, n, 1, NULL);
}

CUresult
cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n)
{
	return set(dst, 0, 2, value, n, 1, NULL);
}

CUresult
cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t n)
{
	return set(dst, 0, 4, value, n, 1, NULL);
}

CUresult
cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value,
		  size_t width, size_t height, CUstream s)
{
	return set(dst, pitch, 1, value, width, height, s);
}

CUresult
cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short value,
		   size_t width, size_t height, CUstream s)
{
	return set(dst, pitch, 2, value, width, height, s);
}

CUresult
cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int value,
		   size_t width, size_t height, CUstream s)
{
	return set(dst, pitch, 4, value, width, height, s);
}

CUresult
cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value,
		size_t width, size_t height)
{
	return set(dst, pitch, 1, value, width, height, NULL);
}

CUresult
cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch, unsigned short value,
		 size_t width, size_t height)
{
	return set(dst, pitch, 2, value, width, height, NULL);
}

CUresult
cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch, unsigned int value,
		 size_t width, size_t height)
{
	return set(dst, pitch, 4, value, width, height, NULL);
}

static CUstream
own(void)
{
	return soft_stream_twin(NULL);
}

CUresult
cuMemsetD8_v2_ptds(CUdeviceptr dst, unsigned char value, size_t n)
{
	return set(dst, 0, 1, value, n, 1, own());
}

CUresult
cuMemsetD16_v2_ptds(CUdeviceptr dst, unsigned short value, size_t n)
{
	return set(dst, 0, 2, value, n, 1, own());
}

CUresult
cuMemsetD32_v2_ptds(CUdeviceptr dst, unsigned int value, size_t n)
{
	return set(dst, 0, 4, value, n, 1, own());
}

CUresult
cuMemsetD2D8_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned char value,
		     size_t width, size_t height)
{
	return set(dst, pitch, 1, value, width, height, own());
}

CUresult
cuMemsetD2D16_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned short value,
		      size_t width, size_t height)
{
	return set(dst, pitch, 2, value, width, height, own());
}

CUresult
cuMemsetD2D32_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned int value,
		      size_t width, size_t height)
{
	return set(dst, pitch, 4, value, width, height, own());
}
