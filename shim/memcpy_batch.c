/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies by the list, in the order of the list: a batch promises none. All of
 * it is looked at before any of it is done. Hints of places concern memory
 * that no device here has.
 */
#include <string.h>

#include "shim/array.h"
#include "shim/copy.h"
#include "shim/ctx.h"
#include "shim_impl.h"

static bool
is_order(CUmemcpySrcAccessOrder order)
{
	return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
	       order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
	       order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static bool
is_default(CUstream stream)
{
	return !stream || stream == CU_STREAM_LEGACY;
}

/* ---- of bytes ----------------------------------------------------------- */

static CUresult
check_attributes(const CUmemcpyAttributes *attrs, const size_t *first,
		 size_t n, size_t count)
{
	for (size_t i = 0; i < n; i++) {
		if (first[i] >= count || (i ? first[i] <= first[i - 1] :
					      first[i] != 0))
			return CUDA_ERROR_INVALID_VALUE;
		if (!is_order(attrs[i].srcAccessOrder) ||
		    attrs[i].flags &
		    ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult
check_copies(const CUdeviceptr *dsts, const CUdeviceptr *srcs,
	     const size_t *sizes, size_t count, size_t *fail)
{
	enum shim_place place;
	uint64_t dst, src;
	CUresult r;

	for (size_t i = 0; i < count; i++) {
		*fail = i;
		dst = dsts[i];
		src = srcs[i];
		if (!dsts[i] || !srcs[i] || !sizes[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (shim_copy_is_foreign(shim_current, dsts[i]) ||
		    shim_copy_is_foreign(shim_current, srcs[i]))
			continue;
		r = shim_copy_place(shim_current, &dst, sizes[i], &place);
		if (r == CUDA_SUCCESS)
			r = shim_copy_place(shim_current, &src, sizes[i],
					    &place);
		if (r != CUDA_SUCCESS)
			return r;
	}
	*fail = SIZE_MAX;
	return CUDA_SUCCESS;
}

static CUresult
batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
      size_t count, const CUmemcpyAttributes *attrs, const size_t *first,
      size_t n, size_t *fail, CUstream stream)
{
	size_t k = 0;
	CUresult r;

	*fail = SIZE_MAX;
	if (!dsts || !srcs || !sizes || !count || !attrs || !first || !n ||
	    n > count || is_default(stream))
		return CUDA_ERROR_INVALID_VALUE;
	r = check_attributes(attrs, first, n, count);
	if (r == CUDA_SUCCESS)
		r = check_copies(dsts, srcs, sizes, count, fail);
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		if (k + 1 < n && i >= first[k + 1])
			k++;
		r = shim_copy_ordered(stream, dsts[i], srcs[i], sizes[i],
				      attrs[k].srcAccessOrder);
		if (r != CUDA_SUCCESS)
			*fail = i;
	}
	return r;
}

CUresult
shim_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
			   size_t count, CUmemcpyAttributes *attrs,
			   size_t *attrsIdxs, size_t numAttrs,
			   CUstream hStream)
{
	size_t fail;

	return batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs,
		     &fail, hStream);
}

CUresult
shim_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
			size_t count, CUmemcpyAttributes *attrs,
			size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
			CUstream hStream)
{
	size_t fail;
	CUresult r = batch(dsts, srcs, sizes, count, attrs, attrsIdxs,
			   numAttrs, &fail, hStream);

	if (failIdx)
		*failIdx = fail;
	return r;
}

/* ---- of boxes ----------------------------------------------------------- */

/* Bytes of an element: an array's, or 1. */
static CUresult
element_of(const CUDA_MEMCPY3D_BATCH_OP *op, size_t *out)
{
	const CUmemcpy3DOperand *sides[] = { &op->src, &op->dst };

	*out = 0;
	for (int i = 0; i < 2; i++) {
		const struct shim_array *array;
		size_t element;

		if (sides[i]->type == CU_MEMCPY_OPERAND_TYPE_POINTER)
			continue;
		if (sides[i]->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
			return CUDA_ERROR_INVALID_VALUE;
		array = shim_array_get(sides[i]->op.array.array);
		if (!array)
			return CUDA_ERROR_INVALID_HANDLE;
		element = shim_array_element(array);
		/* Compressed ones have no element to count by. */
		if (!element)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (*out && *out != element)
			return CUDA_ERROR_INVALID_VALUE;
		*out = element;
	}
	if (!*out)
		*out = 1;
	return CUDA_SUCCESS;
}

struct end {
	CUmemorytype type;
	CUdeviceptr address;
	CUarray array;
	size_t pitch, height, x, y, z;
};

static CUresult
end_of(const CUmemcpy3DOperand *side, const CUextent3D *extent, size_t element,
       struct end *out)
{
	size_t row = side->op.ptr.rowLength, height = side->op.ptr.layerHeight;

	*out = (struct end){ .type = CU_MEMORYTYPE_ARRAY };
	if (side->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		out->array = side->op.array.array;
		out->x = side->op.array.offset.x * element;
		out->y = side->op.array.offset.y;
		out->z = side->op.array.offset.z;
		return CUDA_SUCCESS;
	}
	row = row ? row : extent->width;
	height = height ? height : extent->height;
	if (!side->op.ptr.ptr || row < extent->width ||
	    height < extent->height ||
	    __builtin_mul_overflow(row, element, &out->pitch))
		return CUDA_ERROR_INVALID_VALUE;
	out->type = CU_MEMORYTYPE_UNIFIED;
	out->address = side->op.ptr.ptr;
	out->height = height;
	return CUDA_SUCCESS;
}

static CUresult
convert(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *out)
{
	const CUextent3D *extent = &op->extent;
	struct end src, dst;
	size_t element;
	CUresult r;

	if (!extent->width || !extent->height || !extent->depth ||
	    !is_order(op->srcAccessOrder) ||
	    op->flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)
		return CUDA_ERROR_INVALID_VALUE;
	r = element_of(op, &element);
	if (r == CUDA_SUCCESS)
		r = end_of(&op->src, extent, element, &src);
	if (r == CUDA_SUCCESS)
		r = end_of(&op->dst, extent, element, &dst);
	if (r != CUDA_SUCCESS)
		return r;
	*out = (CUDA_MEMCPY3D){
		.srcMemoryType = src.type, .srcDevice = src.address,
		.srcArray = src.array, .srcPitch = src.pitch,
		.srcHeight = src.height, .srcXInBytes = src.x, .srcY = src.y,
		.srcZ = src.z,
		.dstMemoryType = dst.type, .dstDevice = dst.address,
		.dstArray = dst.array, .dstPitch = dst.pitch,
		.dstHeight = dst.height, .dstXInBytes = dst.x, .dstY = dst.y,
		.dstZ = dst.z,
		.Height = extent->height, .Depth = extent->depth,
	};
	return __builtin_mul_overflow(extent->width, element,
				      &out->WidthInBytes) ?
	       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult
batch3d(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops,
	unsigned long long flags, size_t *fail, CUstream stream)
{
	bool early = false;
	CUDA_MEMCPY3D copy;
	CUresult r = CUDA_SUCCESS;

	*fail = SIZE_MAX;
	if (!count || !ops || flags || is_default(stream))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		r = convert(&ops[i], &copy);
		early |= ops[i].srcAccessOrder ==
			 CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
		*fail = r != CUDA_SUCCESS ? i : SIZE_MAX;
	}
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		convert(&ops[i], &copy);
		r = shim_cuMemcpy3DAsync_v2(&copy, stream);
		*fail = r != CUDA_SUCCESS ? i : SIZE_MAX;
	}
	/* Their sources may be gone when the call has returned. */
	return r == CUDA_SUCCESS && early ? shim_cuStreamSynchronize(stream) :
					    r;
}

CUresult
shim_cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
			     unsigned long long flags, CUstream hStream)
{
	size_t fail;

	return batch3d(numOps, opList, flags, &fail, hStream);
}

CUresult
shim_cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
			  size_t *failIdx, unsigned long long flags,
			  CUstream hStream)
{
	size_t fail;
	CUresult r = batch3d(numOps, opList, flags, &fail, hStream);

	if (failIdx)
		*failIdx = fail;
	return r;
}
