/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays. They lie where the driver likes, so they are made at the broker's
 * word, which counts them, and ended on the reaper: cuArrayDestroy waits for
 * all that is in flight and stalls it (measured).
 */
#include <stdlib.h>

#include "server/worker/call.h"
#include "server/worker/memory.h"
#include "server/worker/texture.h"

static enum handle_kind
kind_of(const struct wkr_range *range)
{
	return range->mipmap ? HANDLE_MIPMAP : HANDLE_ARRAY;
}

static CUresult
make_native(const Mps__ArrayShape *shape, void **out_native)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = shape->width,
		.Height = shape->height,
		.Depth = shape->depth,
		.Format = (CUarray_format)shape->format,
		.NumChannels = shape->channels,
		.Flags = shape->flags,
	};

	if (shape->levels)
		return wkr_ok(wkr.drv.cuMipmappedArrayCreate(
			(CUmipmappedArray *)out_native, &desc, shape->levels));
	return wkr_ok(wkr.drv.cuArray3DCreate_v2((CUarray *)out_native, &desc));
}

CUresult
wkr_array_add(struct wkr_client *client, const Mps__WorkerArray *m,
	      const char **out_why)
{
	bool mipmap = m->shape->levels;
	_cleanup_free_ struct wkr_range *range = calloc(1, sizeof(*range));
	_cleanup_free_ struct wkr_array *array = calloc(1, sizeof(*array));
	CUresult r;

	*out_why = "the driver does not make the array";
	if (!range || !array || !wkr_memory_fits(m->size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->kind = WKR_ARRAY;
	range->id = m->id;
	range->mipmap = mipmap;
	r = make_native(m->shape, (void **)&array->native);
	if (r != CUDA_SUCCESS)
		return r;
	range->object = steal_ptr(&array);
	pthread_mutex_lock(&client->lock);
	range->next = client->unplaced;
	client->unplaced = steal_ptr(&range);
	pthread_mutex_unlock(&client->lock);
	return CUDA_SUCCESS;
}

void
wkr_array_end(void *object)
{
	struct wkr_array *array = object;

	if (!array->borrowed)
		wkr_ok(wkr.drv.cuArrayDestroy(array->native));
	free(array);
}

void
wkr_array_free(struct wkr_range *range)
{
	if (range->object)
		wkr_object_end(kind_of(range), range->object);
}

CUresult
wkr_mpsArrayName(struct wkr_call *call, uint64_t block, uint64_t handle)
{
	struct wkr_client *client = call->client;
	struct wkr_range *range;
	CUresult r = CUDA_SUCCESS;

	if (handle_index(handle) > WKR_HANDLE_INDEX_MAX)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&client->lock);
	range = wkr_unplaced_find(client, block);
	if (!range || range->kind != WKR_ARRAY || range->leaving ||
	    range->handle || handle_put(client->table, kind_of(range), handle,
					range->object) < 0) {
		r = CUDA_ERROR_INVALID_HANDLE;
	} else {
		range->handle = handle;
		range->object = NULL;
	}
	pthread_mutex_unlock(&client->lock);
	return r;
}

CUresult
wkr_mpsMipmapLevel(struct wkr_call *call, uint64_t mipmap, uint32_t level,
		   uint64_t array)
{
	struct wkr_object *whole = wkr_get(call->client, HANDLE_MIPMAP, mipmap);
	_cleanup_free_ struct wkr_array *made = calloc(1, sizeof(*made));
	CUresult r;

	if (!whole)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->borrowed = true;
	r = wkr_ok(wkr.drv.cuMipmappedArrayGetLevel(&made->native,
						    whole->native, level));
	if (r == CUDA_SUCCESS &&
	    wkr_put(call->client, HANDLE_ARRAY, array, made) < 0)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS)
		steal_ptr(&made);
	return r;
}

CUresult
wkr_mpsArrayForget(struct wkr_call *call, uint64_t handle)
{
	struct wkr_client *client = call->client;
	struct wkr_range *range;
	struct wkr_array *array;

	if (handle_kind(handle) != HANDLE_ARRAY &&
	    handle_kind(handle) != HANDLE_MIPMAP)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&client->lock);
	array = handle_remove(client->table, handle_kind(handle), handle);
	for (range = client->unplaced; array && range; range = range->next) {
		if (range->kind == WKR_ARRAY && range->handle == handle)
			break;
	}
	if (range) {
		range->object = array;
		range->handle = 0;
	}
	pthread_mutex_unlock(&client->lock);
	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	/* Else a level: nothing of the driver's goes with it. */
	if (!range)
		free(array);
	return CUDA_SUCCESS;
}
