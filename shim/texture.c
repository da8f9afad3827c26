/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects. Their values are the driver's own, as kernels
 * see them; what they were made of is remembered here.
 */
#include <pthread.h>
#include <stdlib.h>

#include "shim/array.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/range.h"
#include "shim_calls.h"
#include "shim_impl.h"

struct texture {
	struct texture *next;
	struct shim_context *ctx;
	uint64_t object;
	bool surface, has_view;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUDA_RESOURCE_VIEW_DESC view;
};

/* Guards the list. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct texture *textures;

static struct texture **
find_locked(uint64_t object, bool surface)
{
	struct texture **link = &textures;

	while (*link && ((*link)->object != object ||
			 (*link)->surface != surface))
		link = &(*link)->next;
	return link;
}

/* Copies; false: there is none. */
static bool
find(uint64_t object, bool surface, struct texture *out)
{
	struct texture *found;

	pthread_mutex_lock(&lock);
	found = *find_locked(object, surface);
	if (found)
		*out = *found;
	pthread_mutex_unlock(&lock);
	return found != NULL;
}

static bool
is_memory(uint64_t address, uint64_t size)
{
	struct shim_range range;
	uint64_t left;

	return !shim_range_reach(address, size, &range, &left) &&
	       left >= size && !range.closed &&
	       range.kind != RANGE_REGISTERED &&
	       range.device == shim_current->device;
}

/* Handles are checked here, so that the worker finds what it is told. */
static CUresult
check(const CUDA_RESOURCE_DESC *desc, bool surface)
{
	size_t size;

	switch (desc->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		if (!desc->res.array.hArray)
			return CUDA_ERROR_INVALID_VALUE;
		return shim_array_get(desc->res.array.hArray) ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		if (surface || !desc->res.mipmap.hMipmappedArray)
			return CUDA_ERROR_INVALID_VALUE;
		return shim_mipmap_get(desc->res.mipmap.hMipmappedArray) ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	case CU_RESOURCE_TYPE_LINEAR:
		/* One of no bytes is accepted (measured). */
		size = desc->res.linear.sizeInBytes;
		return !surface && is_memory(desc->res.linear.devPtr,
					     size ? size : 1) ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_RESOURCE_TYPE_PITCH2D:
		return !surface && is_memory(desc->res.pitch2D.devPtr, 1) ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Fill in what is not 0 yet, and keep it. */
static CUresult
create(struct texture *made, unsigned long long *out)
{
	struct shim_chan *chan = shim_current->chan;
	CUresult r;

	made->ctx = shim_current;
	if (made->surface)
		r = call_mpsSurfaceCreate(chan, &made->resource,
					  sizeof(made->resource),
					  &made->object);
	else
		r = call_mpsTextureCreate(chan, &made->resource,
					  sizeof(made->resource),
					  &made->texture,
					  sizeof(made->texture),
					  made->has_view ? &made->view : NULL,
					  made->has_view ? sizeof(made->view) :
							   0, &made->object);
	if (r != CUDA_SUCCESS) {
		free(made);
		return r;
	}
	*out = made->object;
	pthread_mutex_lock(&lock);
	made->next = textures;
	textures = made;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static CUresult
destroy(uint64_t object, bool surface)
{
	struct texture **link, *found;
	struct shim_chan *chan;
	CUresult r;

	pthread_mutex_lock(&lock);
	link = find_locked(object, surface);
	found = *link;
	if (found)
		*link = found->next;
	pthread_mutex_unlock(&lock);
	/* The driver does not say that there was none. */
	if (!found)
		return CUDA_SUCCESS;
	chan = found->ctx->chan;
	r = surface ? call_mpsSurfaceDestroy(chan, object) :
		      call_mpsTextureDestroy(chan, object);
	free(found);
	return r;
}

void
shim_texture_drop_context(struct shim_context *ctx)
{
	struct texture *at;
	uint64_t object;
	bool surface;

	do {
		pthread_mutex_lock(&lock);
		for (at = textures; at && at->ctx != ctx; at = at->next)
			;
		object = at ? at->object : 0;
		surface = at && at->surface;
		pthread_mutex_unlock(&lock);
		if (at)
			destroy(object, surface);
	} while (at);
}

/* ---- entry points ------------------------------------------------------- */

CUresult
shim_cuTexObjectCreate(CUtexObject *pTexObject,
		       const CUDA_RESOURCE_DESC *pResDesc,
		       const CUDA_TEXTURE_DESC *pTexDesc,
		       const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	struct texture *made;
	CUresult r;

	if (!pTexObject || !pResDesc || !pTexDesc)
		return CUDA_ERROR_INVALID_VALUE;
	r = check(pResDesc, false);
	if (r != CUDA_SUCCESS)
		return r;
	made = calloc(1, sizeof(*made));
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->resource = *pResDesc;
	made->texture = *pTexDesc;
	if (pResViewDesc) {
		made->view = *pResViewDesc;
		made->has_view = true;
	}
	return create(made, pTexObject);
}

CUresult
shim_cuSurfObjectCreate(CUsurfObject *pSurfObject,
			const CUDA_RESOURCE_DESC *pResDesc)
{
	struct texture *made;
	CUresult r;

	if (!pSurfObject || !pResDesc)
		return CUDA_ERROR_INVALID_VALUE;
	r = check(pResDesc, true);
	if (r != CUDA_SUCCESS)
		return r;
	made = calloc(1, sizeof(*made));
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->resource = *pResDesc;
	made->surface = true;
	return create(made, pSurfObject);
}

CUresult
shim_cuTexObjectDestroy(CUtexObject texObject)
{
	return destroy(texObject, false);
}

CUresult
shim_cuSurfObjectDestroy(CUsurfObject surfObject)
{
	return destroy(surfObject, true);
}

CUresult
shim_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc,
				CUtexObject texObject)
{
	struct texture found;

	if (!pResDesc || !find(texObject, false, &found))
		return CUDA_ERROR_INVALID_VALUE;
	*pResDesc = found.resource;
	return CUDA_SUCCESS;
}

CUresult
shim_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc,
			       CUtexObject texObject)
{
	struct texture found;

	if (!pTexDesc || !find(texObject, false, &found))
		return CUDA_ERROR_INVALID_VALUE;
	*pTexDesc = found.texture;
	return CUDA_SUCCESS;
}

CUresult
shim_cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
				    CUtexObject texObject)
{
	struct texture found;

	if (!pResViewDesc || !find(texObject, false, &found))
		return CUDA_ERROR_INVALID_VALUE;
	if (found.has_view)
		*pResViewDesc = found.view;
	return CUDA_SUCCESS;
}

CUresult
shim_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc,
				 CUsurfObject surfObject)
{
	struct texture found;

	if (!pResDesc || !find(surfObject, true, &found))
		return CUDA_ERROR_INVALID_VALUE;
	*pResDesc = found.resource;
	return CUDA_SUCCESS;
}
