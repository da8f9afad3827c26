/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects. Kernels see their values, so the driver's own
 * are the client's too; what a client may end is in its list.
 */
#include "server/worker/texture.h"

#include <stdlib.h>
#include <string.h>

#include "server/worker/call.h"

struct wkr_texture {
	struct wkr_texture *next;
	uint64_t object;
	bool surface;
};

/* Bytes of one channel; no format without a plain one is bound linearly. */
static uint64_t
channel_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

static CUresult
check_pitched_locked(struct wkr_client *client, const CUDA_RESOURCE_DESC *desc)
{
	uint64_t row, size;

	if (desc->res.pitch2D.numChannels > 4 ||
	    desc->res.pitch2D.height == 0 ||
	    __builtin_mul_overflow(desc->res.pitch2D.width,
				   channel_bytes(desc->res.pitch2D.format) *
					   desc->res.pitch2D.numChannels,
				   &row) ||
	    __builtin_mul_overflow(desc->res.pitch2D.height - 1,
				   desc->res.pitch2D.pitchInBytes, &size) ||
	    __builtin_add_overflow(size, row, &size) || !row)
		return CUDA_ERROR_INVALID_VALUE;
	return wkr_ranges_cover(&client->ranges, desc->res.pitch2D.devPtr, size)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

/* Put the driver's handles in the place of the client's. */
static CUresult
translate_locked(struct wkr_client *client, CUDA_RESOURCE_DESC *desc)
{
	struct wkr_object *object;
	uint64_t size;

	switch (desc->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		object = wkr_get(client, HANDLE_ARRAY,
				 (uintptr_t)desc->res.array.hArray);
		if (!object)
			return CUDA_ERROR_INVALID_HANDLE;
		desc->res.array.hArray = object->native;
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		object = wkr_get(client, HANDLE_MIPMAP,
				 (uintptr_t)desc->res.mipmap.hMipmappedArray);
		if (!object)
			return CUDA_ERROR_INVALID_HANDLE;
		desc->res.mipmap.hMipmappedArray = object->native;
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_LINEAR:
		size = desc->res.linear.sizeInBytes;
		return wkr_ranges_cover(&client->ranges,
					desc->res.linear.devPtr,
					size ? size : 1)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	case CU_RESOURCE_TYPE_PITCH2D:
		return check_pitched_locked(client, desc);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* texture NULL: a surface. */
static CUresult
create(struct wkr_client *client, const CUDA_RESOURCE_DESC *resource,
       const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view,
       uint64_t *out_object)
{
	struct wkr_texture *t = calloc(1, sizeof(*t));
	CUDA_RESOURCE_DESC desc = *resource;
	unsigned long long object = 0;
	CUresult r;

	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Under the lock the reaper cannot end an array. */
	pthread_mutex_lock(&client->lock);
	r = translate_locked(client, &desc);
	if (r == CUDA_SUCCESS && texture)
		r = wkr.drv.cuTexObjectCreate(&object, &desc, texture, view);
	else if (r == CUDA_SUCCESS)
		r = wkr.drv.cuSurfObjectCreate(&object, &desc);
	if (r == CUDA_SUCCESS) {
		t->object = object;
		t->surface = !texture;
		t->next = client->textures;
		client->textures = t;
	}
	pthread_mutex_unlock(&client->lock);
	r = wkr_ok(r);
	if (r == CUDA_SUCCESS)
		wkr_journal_fragile(client, object, "it has texture or surface "
				    "objects");
	else
		free(t);
	*out_object = object;
	return r;
}

CUresult
wkr_mpsTextureCreate(struct wkr_call *call, const void *resource,
		     size_t resource_size, const void *texture,
		     size_t texture_size, const void *view,
		     size_t view_size, uint64_t *object)
{
	if (!resource || resource_size != sizeof(CUDA_RESOURCE_DESC) ||
	    !texture || texture_size != sizeof(CUDA_TEXTURE_DESC) ||
	    (view && view_size != sizeof(CUDA_RESOURCE_VIEW_DESC)) || !object)
		return CUDA_ERROR_INVALID_VALUE;
	return create(call->client, resource, texture, view, object);
}

CUresult
wkr_mpsSurfaceCreate(struct wkr_call *call, const void *resource,
		     size_t resource_size, uint64_t *object)
{
	if (!resource || resource_size != sizeof(CUDA_RESOURCE_DESC) || !object)
		return CUDA_ERROR_INVALID_VALUE;
	return create(call->client, resource, NULL, NULL, object);
}

static CUresult
end(struct wkr_texture *t)
{
	CUresult r = wkr_ok(t->surface ?
			    wkr.drv.cuSurfObjectDestroy(t->object) :
			    wkr.drv.cuTexObjectDestroy(t->object));

	free(t);
	return r;
}

static CUresult
destroy(struct wkr_client *client, uint64_t object, bool surface)
{
	struct wkr_texture **link = &client->textures, *t;

	pthread_mutex_lock(&client->lock);
	while ((t = *link) && (t->object != object || t->surface != surface))
		link = &t->next;
	if (t)
		*link = t->next;
	pthread_mutex_unlock(&client->lock);
	if (!t)
		return CUDA_ERROR_INVALID_VALUE;
	wkr_journal_drop(client, object);
	return end(t);
}

CUresult
wkr_mpsTextureDestroy(struct wkr_call *call, uint64_t object)
{
	return destroy(call->client, object, false);
}

CUresult
wkr_mpsSurfaceDestroy(struct wkr_call *call, uint64_t object)
{
	return destroy(call->client, object, true);
}

void
wkr_textures_drop(struct wkr_client *client)
{
	struct wkr_texture *t;

	while ((t = client->textures)) {
		client->textures = t->next;
		end(t);
	}
}
