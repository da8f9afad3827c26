/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps: 128 bytes that say how kernels fetch boxes of a tensor. Their
 * layout is the driver's secret, so the worker's driver encodes them; as they
 * depend on nothing but the arguments, what was asked lately is remembered.
 */
#include <pthread.h>
#include <string.h>

#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/process.h"
#include "shim_calls.h"
#include "shim_impl.h"

#define RANK_MAX 5
#define REMEMBERED 64

enum kind { TILED = 1, IM2COL, IM2COL_WIDE };

/* All that a map depends on; unused members are 0. */
struct question {
	uint64_t kind, address;
	cuuint64_t dims[RANK_MAX], strides[RANK_MAX];
	cuuint32_t box[RANK_MAX], elements[RANK_MAX];
	int lower[RANK_MAX], upper[RANK_MAX];
	cuuint32_t type, rank, channels, pixels;
	cuuint32_t interleave, mode, swizzle, promotion, fill;
	cuuint32_t device;
};

static struct {
	pthread_mutex_t lock;
	struct { struct question q; CUtensorMap map; } entries[REMEMBERED];
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned
place_of(const struct question *q)
{
	const uint8_t *bytes = (const uint8_t *)q;
	uint32_t hash = 2166136261u;    /* FNV-1a */

	for (size_t i = 0; i < sizeof(*q); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return hash % REMEMBERED;
}

static bool
recall(const struct question *q, CUtensorMap *out_map)
{
	unsigned at = place_of(q);
	bool found;

	if (shim_process.perf & SHIM_NO_CACHE)
		return false;
	pthread_mutex_lock(&memory.lock);
	found = !memcmp(&memory.entries[at].q, q, sizeof(*q));
	if (found)
		memcpy(out_map, &memory.entries[at].map, sizeof(*out_map));
	pthread_mutex_unlock(&memory.lock);
	return found;
}

static void
remember(const struct question *q, const CUtensorMap *map)
{
	unsigned at = place_of(q);

	pthread_mutex_lock(&memory.lock);
	memory.entries[at].q = *q;
	memcpy(&memory.entries[at].map, map, sizeof(*map));
	pthread_mutex_unlock(&memory.lock);
}

static CUresult
send(struct shim_chan *chan, const struct question *q, CUtensorMap *map)
{
	void *address = (void *)(uintptr_t)q->address;

	switch ((enum kind)q->kind) {
	case TILED:
		return call_cuTensorMapEncodeTiled(chan, map, q->type, q->rank,
			address, q->dims, q->strides, q->box, q->elements,
			q->interleave, q->swizzle, q->promotion, q->fill);
	case IM2COL:
		return call_cuTensorMapEncodeIm2col(chan, map, q->type,
			q->rank, address, q->dims, q->strides, q->lower,
			q->upper, q->channels, q->pixels, q->elements,
			q->interleave, q->swizzle, q->promotion, q->fill);
	case IM2COL_WIDE:
		return call_cuTensorMapEncodeIm2colWide(chan, map, q->type,
			q->rank, address, q->dims, q->strides, q->lower[0],
			q->upper[0], q->channels, q->pixels, q->elements,
			q->interleave, q->mode, q->swizzle, q->promotion,
			q->fill);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult
find_chan(int *out_device, struct shim_chan **out_chan)
{
	struct shim_context *ctx = shim_current;

	*out_device = ctx ? ctx->device : 0;
	return shim_chan_get(*out_device, out_chan);
}

static CUresult
encode(CUtensorMap *out, struct question *q)
{
	struct shim_chan *chan;
	CUtensorMap map;
	int device;
	CUresult r = find_chan(&device, &chan);

	if (r != CUDA_SUCCESS)
		return r;
	q->device = (cuuint32_t)device;
	if (recall(q, out))
		return CUDA_SUCCESS;
	r = send(chan, q, &map);
	if (r != CUDA_SUCCESS)
		return r;
	remember(q, &map);
	memcpy(out, &map, sizeof(*out));
	return CUDA_SUCCESS;
}

/* What all kinds have. Pointers of the caller's are read only as far as the
 * rank says. */
static CUresult
begin(struct question *q, enum kind kind, const CUtensorMap *map,
      cuuint32_t type, cuuint32_t rank, const void *address,
      const cuuint64_t *dims, const cuuint64_t *strides,
      const cuuint32_t *elements)
{
	cuuint32_t least = kind == TILED ? 1 : 3;

	memset(q, 0, sizeof(*q));
	/* The driver wants 64 bytes of alignment of maps. */
	if (!map || (uintptr_t)map % 64 || rank < least || rank > RANK_MAX ||
	    !dims || (!strides && rank > 1) || !elements)
		return CUDA_ERROR_INVALID_VALUE;
	q->kind = kind;
	q->type = type;
	q->rank = rank;
	q->address = (uintptr_t)address;
	memcpy(q->dims, dims, rank * sizeof(*dims));
	if (rank > 1)
		memcpy(q->strides, strides, (rank - 1) * sizeof(*strides));
	memcpy(q->elements, elements, rank * sizeof(*elements));
	return CUDA_SUCCESS;
}

CUresult
shim_cuTensorMapEncodeTiled(CUtensorMap *tensorMap,
			    CUtensorMapDataType tensorDataType,
			    cuuint32_t tensorRank, void *globalAddress,
			    const cuuint64_t *globalDim,
			    const cuuint64_t *globalStrides,
			    const cuuint32_t *boxDim,
			    const cuuint32_t *elementStrides,
			    CUtensorMapInterleave interleave,
			    CUtensorMapSwizzle swizzle,
			    CUtensorMapL2promotion l2Promotion,
			    CUtensorMapFloatOOBfill oobFill)
{
	struct question q;
	CUresult r = begin(&q, TILED, tensorMap, tensorDataType, tensorRank,
			   globalAddress, globalDim, globalStrides,
			   elementStrides);

	if (r != CUDA_SUCCESS || !boxDim)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(q.box, boxDim, tensorRank * sizeof(*boxDim));
	q.interleave = interleave;
	q.swizzle = swizzle;
	q.promotion = l2Promotion;
	q.fill = oobFill;
	return encode(tensorMap, &q);
}

CUresult
shim_cuTensorMapEncodeIm2col(CUtensorMap *tensorMap,
			     CUtensorMapDataType tensorDataType,
			     cuuint32_t tensorRank, void *globalAddress,
			     const cuuint64_t *globalDim,
			     const cuuint64_t *globalStrides,
			     const int *pixelBoxLowerCorner,
			     const int *pixelBoxUpperCorner,
			     cuuint32_t channelsPerPixel,
			     cuuint32_t pixelsPerColumn,
			     const cuuint32_t *elementStrides,
			     CUtensorMapInterleave interleave,
			     CUtensorMapSwizzle swizzle,
			     CUtensorMapL2promotion l2Promotion,
			     CUtensorMapFloatOOBfill oobFill)
{
	struct question q;
	CUresult r = begin(&q, IM2COL, tensorMap, tensorDataType, tensorRank,
			   globalAddress, globalDim, globalStrides,
			   elementStrides);

	if (r != CUDA_SUCCESS || !pixelBoxLowerCorner || !pixelBoxUpperCorner)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(q.lower, pixelBoxLowerCorner, (tensorRank - 2) * sizeof(int));
	memcpy(q.upper, pixelBoxUpperCorner, (tensorRank - 2) * sizeof(int));
	q.channels = channelsPerPixel;
	q.pixels = pixelsPerColumn;
	q.interleave = interleave;
	q.swizzle = swizzle;
	q.promotion = l2Promotion;
	q.fill = oobFill;
	return encode(tensorMap, &q);
}

CUresult
shim_cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap,
				 CUtensorMapDataType tensorDataType,
				 cuuint32_t tensorRank, void *globalAddress,
				 const cuuint64_t *globalDim,
				 const cuuint64_t *globalStrides,
				 int pixelBoxLowerCornerWidth,
				 int pixelBoxUpperCornerWidth,
				 cuuint32_t channelsPerPixel,
				 cuuint32_t pixelsPerColumn,
				 const cuuint32_t *elementStrides,
				 CUtensorMapInterleave interleave,
				 CUtensorMapIm2ColWideMode mode,
				 CUtensorMapSwizzle swizzle,
				 CUtensorMapL2promotion l2Promotion,
				 CUtensorMapFloatOOBfill oobFill)
{
	struct question q;
	CUresult r = begin(&q, IM2COL_WIDE, tensorMap, tensorDataType,
			   tensorRank, globalAddress, globalDim, globalStrides,
			   elementStrides);

	if (r != CUDA_SUCCESS)
		return r;
	q.lower[0] = pixelBoxLowerCornerWidth;
	q.upper[0] = pixelBoxUpperCornerWidth;
	q.channels = channelsPerPixel;
	q.pixels = pixelsPerColumn;
	q.interleave = interleave;
	q.mode = mode;
	q.swizzle = swizzle;
	q.promotion = l2Promotion;
	q.fill = oobFill;
	return encode(tensorMap, &q);
}

CUresult
shim_cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
	struct shim_chan *chan;
	int device;
	CUresult r;

	if (!tensorMap || (uintptr_t)tensorMap % 64)
		return CUDA_ERROR_INVALID_VALUE;
	r = find_chan(&device, &chan);
	return r ? r : call_cuTensorMapReplaceAddress(chan, tensorMap,
						      globalAddress);
}
