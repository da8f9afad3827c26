/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies: describing, checking, executing.
 *
 * Pageable memory follows the documented rules: a copy to the device takes
 * the source over before the call returns, one from the device returns when
 * it has ended.
 */
#include "server/soft/soft_memcpy.h"

#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_mem.h"
#include "server/soft/soft_tex.h"

/* One slice of a copy: nobody who unmaps waits longer than for this. */
#define PIECE ((size_t)1 << 20)
/* Up to here a pageable source is copied aside; above, the call waits. */
#define STAGING_MAX ((size_t)4 << 20)
/* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
#define PITCH_MAX ((size_t)2147483647)

static bool
is_known(uint64_t addr)
{
	struct soft_range range;

	return soft_range_find(addr, &range);
}

static uint64_t
row_address(const struct soft_copy_side *side, size_t row, size_t slice)
{
	return side->base + (slice + side->z) * side->pitch * side->height +
	       (row + side->y) * side->pitch + side->x;
}

/* All rows of a device side are mapped. Rows of a big pitch need not touch
 * what lies between them, so each is looked at, unless they are dense. */
static bool
side_is_mapped(const struct soft_copy_side *side,
	       const struct soft_copy_work *copy, bool write)
{
	if (!side->device || side->array)
		return true;
	for (size_t z = 0; z < copy->slices; z++) {
		uint64_t first = row_address(side, 0, z);
		size_t span = (copy->rows - 1) * side->pitch + copy->width;

		if (soft_mem_check(first, span, write))
			continue;
		for (size_t y = 0; y < copy->rows; y++)
			if (!soft_mem_check(row_address(side, y, z),
					    copy->width, write))
				return false;
	}
	return true;
}

static bool
piece_run(const struct soft_copy_work *copy, uint64_t dst, uint64_t src,
	  size_t size)
{
	bool ok;

	soft_slice_enter();
	ok = (!copy->dst.device || copy->dst.array ||
	      soft_mem_check(dst, size, true)) &&
	     (!copy->src.device || copy->src.array ||
	      soft_mem_check(src, size, false));
	if (ok)
		memmove((void *)(uintptr_t)dst, (void *)(uintptr_t)src, size);
	soft_slice_leave();
	return ok;
}

CUresult
soft_copy_run(const struct soft_copy_work *copy)
{
	for (size_t z = 0; z < copy->slices; z++)
		for (size_t y = 0; y < copy->rows; y++) {
			uint64_t dst = row_address(&copy->dst, y, z);
			uint64_t src = row_address(&copy->src, y, z);

			for (size_t x = 0; x < copy->width; x += PIECE) {
				size_t left = copy->width - x;

				if (!piece_run(copy, dst + x, src + x,
					       left < PIECE ? left : PIECE))
					return CUDA_ERROR_ILLEGAL_ADDRESS;
			}
		}
	return CUDA_SUCCESS;
}

static CUresult
side_of(struct soft_copy_side *side, CUmemorytype type, const void *host,
	CUdeviceptr device, CUarray array)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		side->base = (uintptr_t)host;
		side->device = is_known(side->base);
		break;
	case CU_MEMORYTYPE_DEVICE:
		side->base = device;
		side->device = true;
		break;
	case CU_MEMORYTYPE_UNIFIED:
		side->base = device;
		side->device = is_known(device);
		break;
	case CU_MEMORYTYPE_ARRAY:
		if (!soft_array_side(array, side))
			return CUDA_ERROR_INVALID_HANDLE;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return side->base ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool
side_fits(struct soft_copy_side *side, const struct soft_copy_work *copy)
{
	uint64_t last;

	if (!side->pitch)
		side->pitch = copy->width + side->x;
	if (!side->height)
		side->height = copy->rows + side->y;
	if (side->pitch > PITCH_MAX && copy->rows * copy->slices > 1)
		return false;
	if (copy->width + side->x > side->pitch &&
	    copy->rows * copy->slices > 1)
		return false;
	if (side->array && (side->x + copy->width > side->pitch ||
			    side->y + copy->rows > side->height ||
			    side->z + copy->slices > side->slices))
		return false;
	if (copy->slices > 1 && copy->rows + side->y > side->height)
		return false;
	/* Nothing may wrap around. */
	if (__builtin_mul_overflow(side->pitch, side->height, &last) ||
	    __builtin_mul_overflow(last, side->z + copy->slices, &last) ||
	    __builtin_add_overflow(last, side->base, &last) ||
	    __builtin_add_overflow(last, side->x + copy->width, &last))
		return false;
	return true;
}

CUresult
soft_copy_work_new(const CUDA_MEMCPY3D *p, struct soft_work **out_work)
{
	struct soft_work *work;
	struct soft_copy_work *copy;
	CUresult res;

	if (p->srcLOD || p->dstLOD || p->WidthInBytes > (size_t)1 << 46 ||
	    p->Height > (size_t)1 << 40 || p->Depth > (size_t)1 << 40)
		return CUDA_ERROR_INVALID_VALUE;
	work = soft_work_new(SOFT_WORK_COPY);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	copy = &work->copy;
	copy->params = *p;
	copy->width = p->WidthInBytes;
	copy->rows = p->Height;
	copy->slices = p->Depth;
	copy->src = (struct soft_copy_side){ .pitch = p->srcPitch,
		.height = p->srcHeight, .x = p->srcXInBytes, .y = p->srcY,
		.z = p->srcZ };
	copy->dst = (struct soft_copy_side){ .pitch = p->dstPitch,
		.height = p->dstHeight, .x = p->dstXInBytes, .y = p->dstY,
		.z = p->dstZ };
	if (!copy->width || !copy->rows || !copy->slices)
		copy->width = copy->rows = copy->slices = 0;
	res = side_of(&copy->src, p->srcMemoryType, p->srcHost, p->srcDevice,
		      p->srcArray);
	if (!res)
		res = side_of(&copy->dst, p->dstMemoryType, p->dstHost,
			      p->dstDevice, p->dstArray);
	if (!res && copy->width &&
	    (!side_fits(&copy->src, copy) || !side_fits(&copy->dst, copy) ||
	     !side_is_mapped(&copy->src, copy, false) ||
	     !side_is_mapped(&copy->dst, copy, true)))
		res = CUDA_ERROR_INVALID_VALUE;
	if (res) {
		soft_work_free(work);
		return res;
	}
	*out_work = work;
	return CUDA_SUCCESS;
}

/* Take a pageable source aside, dense. */
static bool
stage(struct soft_copy_work *copy)
{
	size_t size = copy->width * copy->rows * copy->slices;
	char *at = malloc(size);

	if (!at)
		return false;
	copy->staging = at;
	for (size_t z = 0; z < copy->slices; z++)
		for (size_t y = 0; y < copy->rows; y++) {
			memcpy(at, (void *)(uintptr_t)
			       row_address(&copy->src, y, z), copy->width);
			at += copy->width;
		}
	copy->src = (struct soft_copy_side){
		.base = (uintptr_t)copy->staging,
		.pitch = copy->width,
		.height = copy->rows,
	};
	return true;
}

CUresult
soft_copy_issue(struct soft_stream *stream, struct soft_work *work, bool async)
{
	struct soft_copy_work *copy = &work->copy;
	bool sync = !async;

	if (stream->capture)
		return soft_issue(stream, work, NULL);
	if (work->kind == SOFT_WORK_COPY && copy->width) {
		bool from_page = !copy->src.device && !copy->src.array;
		bool to_page = !copy->dst.device && !copy->dst.array;
		size_t size = copy->width * copy->rows * copy->slices;

		if (to_page)
			sync = true;
		else if (from_page && !sync &&
			 (size > STAGING_MAX || !stage(copy)))
			sync = true;
	}
	if (!sync)
		return soft_issue(stream, work, NULL);
	CUresult res = soft_issue_sync(stream, work);

	soft_print_flush();
	return res;
}

CUresult
soft_copy_1d(uint64_t dst, uint64_t src, size_t size,
	     enum soft_copy_ends ends, CUstream handle, bool async)
{
	static const struct {
		CUmemorytype src, dst;
	} types[] = {
		[SOFT_COPY_H2D] = { CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE },
		[SOFT_COPY_D2H] = { CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST },
		[SOFT_COPY_D2D] = { CU_MEMORYTYPE_DEVICE,
				    CU_MEMORYTYPE_DEVICE },
		[SOFT_COPY_ANY] = { CU_MEMORYTYPE_UNIFIED,
				    CU_MEMORYTYPE_UNIFIED },
	};
	CUDA_MEMCPY3D p = {
		.srcMemoryType = types[ends].src,
		.srcHost = (void *)(uintptr_t)src,
		.srcDevice = src,
		.dstMemoryType = types[ends].dst,
		.dstHost = (void *)(uintptr_t)dst,
		.dstDevice = dst,
		.WidthInBytes = size, .Height = 1, .Depth = 1,
	};
	struct soft_stream *stream;
	struct soft_work *work;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!size)
		return soft_capture_implicit(stream);
	res = soft_copy_work_new(&p, &work);
	return res ? res : soft_copy_issue(stream, work, async);
}
