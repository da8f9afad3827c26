/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays. The broker counts one and has it made; destroying it is told to the
 * worker in the ring, after what still uses it, and then to the broker, which
 * has it ended when that has retired. Natively cuArrayDestroy waits for that.
 */
#include "shim/array.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/process.h"
#include "shim/supply.h"
#include "shim_calls.h"
#include "shim_impl.h"

struct shim_array *
shim_array_get(CUarray handle)
{
	return shim_object_get(HANDLE_ARRAY, (uintptr_t)handle);
}

struct shim_array *
shim_mipmap_get(CUmipmappedArray handle)
{
	return shim_object_get(HANDLE_MIPMAP, (uintptr_t)handle);
}

uint32_t
shim_array_element(const struct shim_array *array)
{
	switch (array->desc.Format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return array->desc.NumChannels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2 * array->desc.NumChannels;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4 * array->desc.NumChannels;
	default:
		return 0;
	}
}

static CUresult
ask_array(const struct shim_context *ctx, struct shim_array *array)
{
	const CUDA_ARRAY3D_DESCRIPTOR *desc = &array->desc;
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__ArrayShape shape = MPS__ARRAY_SHAPE__INIT;
	Mps__Array body = MPS__ARRAY__INIT;
	CUresult r;

	shape.width = desc->Width;
	shape.height = desc->Height;
	shape.depth = desc->Depth;
	shape.format = desc->Format;
	shape.channels = desc->NumChannels;
	shape.flags = desc->Flags;
	shape.levels = array->levels;
	body.device = shim_process.devices[ctx->device].real;
	body.shape = &shape;
	message.body_case = MPS__CONTROL__BODY_ARRAY;
	message.array = &body;
	r = shim_supply_ask(&message, MPS__CONTROL__BODY_CHUNK_REPLY, &answer,
			    NULL);
	if (r != CUDA_SUCCESS)
		return r;
	r = (CUresult)answer->chunk_reply->status;
	array->id = answer->chunk_reply->chunk;
	mps__control__free_unpacked(answer, NULL);
	return r;
}

static CUresult
ask_free(const struct shim_array *array)
{
	Mps__Control message = MPS__CONTROL__INIT;
	Mps__ChunkFree body = MPS__CHUNK_FREE__INIT;

	body.chunk = array->id;
	message.body_case = MPS__CONTROL__BODY_CHUNK_FREE;
	message.chunk_free = &body;
	return shim_ask_done(&message);
}

/* Flags that mean other memory, or sharing it with graphics. */
#define NOT_SERVED (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | \
		    CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)

static CUresult
make(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels,
     struct shim_array **out_array)
{
	struct shim_context *ctx = shim_current;
	struct shim_array *array;
	CUresult r = shim_capture_unsafe(), why;

	if (r != CUDA_SUCCESS)
		return r;
	if (desc->Flags & NOT_SERVED)
		return CUDA_ERROR_NOT_SUPPORTED;
	array = calloc(1, sizeof(*array));
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->object.ctx = ctx;
	array->desc = *desc;
	array->levels = levels;
	if (shim_object_add(levels ? HANDLE_MIPMAP : HANDLE_ARRAY,
			    &array->object) != 0) {
		free(array);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	do
		r = ask_array(ctx, array);
	while (r == CUDA_ERROR_OUT_OF_MEMORY &&
	       shim_supply_trim(ctx->chan, &why));
	if (r == CUDA_SUCCESS) {
		r = call_mpsArrayName(ctx->chan, array->id,
				      array->object.handle);
		if (r != CUDA_SUCCESS)
			ask_free(array);
	}
	if (r != CUDA_SUCCESS) {
		shim_object_remove(levels ? HANDLE_MIPMAP : HANDLE_ARRAY,
				   array->object.handle);
		return r;
	}
	*out_array = array;
	return CUDA_SUCCESS;
}

/* Ends it; of two racing callers one hears that there is none. */
static CUresult
end(struct shim_array *array, enum handle_kind kind)
{
	struct shim_context *ctx = array->object.ctx;
	CUresult r;

	if (atomic_exchange(&array->ended, true))
		return CUDA_ERROR_INVALID_HANDLE;
	/* The worker forgets the handle before another object can have its
	 * place in the table. */
	r = call_mpsArrayForget(ctx->chan, array->object.handle);
	shim_object_remove(kind, array->object.handle);
	if (r != CUDA_SUCCESS || !array->id)
		return r;
	shim_chan_wait_issued(ctx->chan);
	return ask_free(array);
}

static void
end_levels(struct shim_array *mipmap)
{
	struct shim_array *level;
	uint32_t cursor = 0;

	while ((level = shim_object_next(HANDLE_ARRAY, mipmap->object.ctx,
					 &cursor)))
		if (level->whole == mipmap)
			end(level, HANDLE_ARRAY);
}

void
shim_array_drop_context(struct shim_context *ctx)
{
	struct shim_array *array;
	uint32_t cursor = 0;

	while ((array = shim_object_next(HANDLE_ARRAY, ctx, &cursor)))
		end(array, HANDLE_ARRAY);
	cursor = 0;
	while ((array = shim_object_next(HANDLE_MIPMAP, ctx, &cursor)))
		end(array, HANDLE_MIPMAP);
}

/* ---- entry points ------------------------------------------------------- */

CUresult
shim_cuArray3DCreate_v2(CUarray *pHandle,
			const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	struct shim_array *array;
	CUresult r;

	if (!pHandle || !pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	r = make(pAllocateArray, 0, &array);
	if (r == CUDA_SUCCESS)
		*pHandle = (CUarray)(uintptr_t)array->object.handle;
	return r;
}

CUresult
shim_cuArrayCreate_v2(CUarray *pHandle,
		      const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR desc;

	if (!pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	desc = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = pAllocateArray->Width,
		.Height = pAllocateArray->Height,
		.Format = pAllocateArray->Format,
		.NumChannels = pAllocateArray->NumChannels,
	};
	return shim_cuArray3DCreate_v2(pHandle, &desc);
}

CUresult
shim_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor,
			       CUarray hArray)
{
	struct shim_array *array = shim_array_get(hArray);

	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	/* Without the padding behind its last member. */
	memcpy(pArrayDescriptor, &array->desc,
	       offsetof(CUDA_ARRAY3D_DESCRIPTOR, Flags) +
	       sizeof(array->desc.Flags));
	return CUDA_SUCCESS;
}

CUresult
shim_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor,
			     CUarray hArray)
{
	struct shim_array *array = shim_array_get(hArray);

	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){
		.Width = array->desc.Width, .Height = array->desc.Height,
		.Format = array->desc.Format,
		.NumChannels = array->desc.NumChannels,
	};
	return CUDA_SUCCESS;
}

CUresult
shim_cuArrayDestroy(CUarray hArray)
{
	struct shim_array *array = shim_array_get(hArray);
	CUresult r = shim_capture_unsafe();

	if (r != CUDA_SUCCESS)
		return r;
	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	/* A level goes with its mipmapped array. */
	if (array->whole)
		return CUDA_SUCCESS;
	return end(array, HANDLE_ARRAY);
}

CUresult
shim_cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
			    const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
			    unsigned int numMipmapLevels)
{
	struct shim_array *mipmap;
	CUresult r;

	if (!pHandle || !pMipmappedArrayDesc)
		return CUDA_ERROR_INVALID_VALUE;
	if (!numMipmapLevels)
		numMipmapLevels = 1;
	/* As many as there are halvings; the driver clamps likewise. */
	for (unsigned int most = 1; most < 32; most++) {
		size_t side = pMipmappedArrayDesc->Width;

		if (pMipmappedArrayDesc->Height > side)
			side = pMipmappedArrayDesc->Height;
		if (pMipmappedArrayDesc->Depth > side &&
		    !(pMipmappedArrayDesc->Flags & CUDA_ARRAY3D_LAYERED))
			side = pMipmappedArrayDesc->Depth;
		if (side >> most == 0 && numMipmapLevels > most)
			numMipmapLevels = most;
	}
	r = make(pMipmappedArrayDesc, numMipmapLevels, &mipmap);
	if (r == CUDA_SUCCESS)
		*pHandle = (CUmipmappedArray)(uintptr_t)mipmap->object.handle;
	return r;
}

CUresult
shim_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct shim_array *mipmap = shim_mipmap_get(hMipmappedArray);
	CUresult r = shim_capture_unsafe();

	if (r != CUDA_SUCCESS)
		return r;
	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	end_levels(mipmap);
	return end(mipmap, HANDLE_MIPMAP);
}

static size_t
halved(size_t side, unsigned int times)
{
	return side && !(side >> times) ? 1 : side >> times;
}

static void
shape_level(const struct shim_array *whole, unsigned int level,
	    CUDA_ARRAY3D_DESCRIPTOR *out)
{
	*out = whole->desc;
	out->Width = halved(out->Width, level);
	out->Height = halved(out->Height, level);
	if (!(out->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
		out->Depth = halved(out->Depth, level);
}

/* Guards that each level gets one handle. */
static pthread_mutex_t levels_lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult
get_level_locked(struct shim_array *whole, unsigned int number,
		 struct shim_array **out_level)
{
	struct shim_array *level;
	uint32_t cursor = 0;
	CUresult r;

	while ((level = shim_object_next(HANDLE_ARRAY, whole->object.ctx,
					 &cursor)))
		if (level->whole == whole && level->level == number)
			break;
	if (level) {
		*out_level = level;
		return CUDA_SUCCESS;
	}
	level = calloc(1, sizeof(*level));
	if (!level)
		return CUDA_ERROR_OUT_OF_MEMORY;
	level->object.ctx = whole->object.ctx;
	level->whole = whole;
	level->level = number;
	shape_level(whole, number, &level->desc);
	if (shim_object_add(HANDLE_ARRAY, &level->object) != 0) {
		free(level);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = call_mpsMipmapLevel(whole->object.ctx->chan, whole->object.handle,
				number, &level->object.handle);
	if (r != CUDA_SUCCESS)
		shim_object_remove(HANDLE_ARRAY, level->object.handle);
	else
		*out_level = level;
	return r;
}

CUresult
shim_cuMipmappedArrayGetLevel(CUarray *pLevelArray,
			      CUmipmappedArray hMipmappedArray,
			      unsigned int level)
{
	struct shim_array *whole = shim_mipmap_get(hMipmappedArray), *found;
	CUresult r;

	if (!pLevelArray)
		return CUDA_ERROR_INVALID_VALUE;
	if (!whole)
		return CUDA_ERROR_INVALID_HANDLE;
	if (level >= whole->levels)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&levels_lock);
	r = get_level_locked(whole, level, &found);
	pthread_mutex_unlock(&levels_lock);
	if (r == CUDA_SUCCESS)
		*pLevelArray = (CUarray)(uintptr_t)found->object.handle;
	return r;
}

/* ---- what only special arrays have, and none here is one ---- */

/* CUDA_ERROR_INVALID_VALUE is what the driver says of a plain array. */
static CUresult
nothing_of(const void *out, const struct shim_array *array)
{
	return array || !out ? CUDA_ERROR_INVALID_VALUE :
			       CUDA_ERROR_INVALID_HANDLE;
}

CUresult
shim_cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
				CUarray array)
{
	return nothing_of(sparseProperties, shim_array_get(array));
}

CUresult
shim_cuMipmappedArrayGetSparseProperties(
		CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
		CUmipmappedArray mipmap)
{
	return nothing_of(sparseProperties, shim_mipmap_get(mipmap));
}

/* Of arrays whose memory is mapped later. */
CUresult
shim_cuArrayGetMemoryRequirements(
		CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
		CUarray array, CUdevice device)
{
	(void)device;
	return nothing_of(memoryRequirements, shim_array_get(array));
}

CUresult
shim_cuMipmappedArrayGetMemoryRequirements(
		CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
		CUmipmappedArray mipmap, CUdevice device)
{
	(void)device;
	return nothing_of(memoryRequirements, shim_mipmap_get(mipmap));
}

/* Of video formats. */
CUresult
shim_cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray,
		     unsigned int planeIdx)
{
	(void)planeIdx;
	return nothing_of(pPlaneArray, shim_array_get(hArray));
}
