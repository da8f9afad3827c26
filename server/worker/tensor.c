/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps: the driver computes them from their arguments and keeps
 * nothing. It wants them aligned to 64 bytes, which the results of a call are
 * not, and trusts its caller's arrays.
 */
#include <string.h>

#include "server/worker/call.h"

#define RANK_MAX 5u

static CUresult
give(CUresult r, const CUtensorMap *map, void *out, const size_t *size)
{
	if (wkr_ok(r) != CUDA_SUCCESS)
		return r;
	if (!out || *size != sizeof(*map))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(out, map, sizeof(*map));
	return CUDA_SUCCESS;
}

static bool
is_rank(cuuint32_t rank, cuuint32_t least)
{
	return rank >= least && rank <= RANK_MAX;
}

CUresult
wkr_cuTensorMapEncodeTiled(struct wkr_call *call, void *tensorMap,
			   size_t *tensorMap_size,
			   CUtensorMapDataType tensorDataType,
			   cuuint32_t tensorRank, uint64_t globalAddress,
			   const void *globalDim, size_t globalDim_size,
			   const void *globalStrides,
			   size_t globalStrides_size, const void *boxDim,
			   size_t boxDim_size, const void *elementStrides,
			   size_t elementStrides_size,
			   CUtensorMapInterleave interleave,
			   CUtensorMapSwizzle swizzle,
			   CUtensorMapL2promotion l2Promotion,
			   CUtensorMapFloatOOBfill oobFill)
{
	CUtensorMap map;

	(void)call;
	(void)globalDim_size; /* the rank's, as unpacked */
	(void)globalStrides_size;
	(void)boxDim_size;
	(void)elementStrides_size;
	if (!is_rank(tensorRank, 1) || !globalDim || !globalStrides ||
	    !boxDim || !elementStrides)
		return CUDA_ERROR_INVALID_VALUE;
	return give(wkr.drv.cuTensorMapEncodeTiled(
			    &map, tensorDataType, tensorRank,
			    (void *)(uintptr_t)globalAddress, globalDim,
			    globalStrides, boxDim, elementStrides, interleave,
			    swizzle, l2Promotion, oobFill),
		    &map, tensorMap, tensorMap_size);
}

CUresult
wkr_cuTensorMapEncodeIm2col(
	struct wkr_call *call, void *tensorMap, size_t *tensorMap_size,
	CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
	uint64_t globalAddress, const void *globalDim, size_t globalDim_size,
	const void *globalStrides, size_t globalStrides_size,
	const void *pixelBoxLowerCorner, size_t pixelBoxLowerCorner_size,
	const void *pixelBoxUpperCorner, size_t pixelBoxUpperCorner_size,
	cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
	const void *elementStrides, size_t elementStrides_size,
	CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	CUtensorMap map;

	(void)call;
	(void)globalDim_size;
	(void)globalStrides_size;
	(void)pixelBoxLowerCorner_size;
	(void)pixelBoxUpperCorner_size;
	(void)elementStrides_size;
	if (!is_rank(tensorRank, 3) || !globalDim || !globalStrides ||
	    !pixelBoxLowerCorner || !pixelBoxUpperCorner || !elementStrides)
		return CUDA_ERROR_INVALID_VALUE;
	return give(wkr.drv.cuTensorMapEncodeIm2col(
			    &map, tensorDataType, tensorRank,
			    (void *)(uintptr_t)globalAddress, globalDim,
			    globalStrides, pixelBoxLowerCorner,
			    pixelBoxUpperCorner, channelsPerPixel,
			    pixelsPerColumn, elementStrides, interleave,
			    swizzle, l2Promotion, oobFill),
		    &map, tensorMap, tensorMap_size);
}

CUresult
wkr_cuTensorMapEncodeIm2colWide(
	struct wkr_call *call, void *tensorMap, size_t *tensorMap_size,
	CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
	uint64_t globalAddress, const void *globalDim, size_t globalDim_size,
	const void *globalStrides, size_t globalStrides_size,
	int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth,
	cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
	const void *elementStrides, size_t elementStrides_size,
	CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
	CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
	CUtensorMapFloatOOBfill oobFill)
{
	CUtensorMap map;

	(void)call;
	(void)globalDim_size;
	(void)globalStrides_size;
	(void)elementStrides_size;
	if (!is_rank(tensorRank, 3) || !globalDim || !globalStrides ||
	    !elementStrides)
		return CUDA_ERROR_INVALID_VALUE;
	return give(wkr.drv.cuTensorMapEncodeIm2colWide(
			    &map, tensorDataType, tensorRank,
			    (void *)(uintptr_t)globalAddress, globalDim,
			    globalStrides, pixelBoxLowerCornerWidth,
			    pixelBoxUpperCornerWidth, channelsPerPixel,
			    pixelsPerColumn, elementStrides, interleave, mode,
			    swizzle, l2Promotion, oobFill),
		    &map, tensorMap, tensorMap_size);
}

CUresult
wkr_cuTensorMapReplaceAddress(struct wkr_call *call, void *tensorMap,
			      size_t *tensorMap_size, uint64_t globalAddress)
{
	CUtensorMap map;

	(void)call;
	if (!tensorMap || *tensorMap_size != sizeof(map))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&map, tensorMap, sizeof(map));
	return give(wkr.drv.cuTensorMapReplaceAddress(
			    &map, (void *)(uintptr_t)globalAddress),
		    &map, tensorMap, tensorMap_size);
}
