/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker. Inputs go the way of all code, by the broker's store; the state
 * is the worker's driver's, and what it has linked is fetched in parts.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "shim/chan.h"
#include "shim/code.h"
#include "shim/ctx.h"
#include "shim_calls.h"
#include "shim_impl.h"

/* Leaves room in a reply slot for the frame around it. */
#define READ_STEP 12288u

struct link {
	struct shim_object object;
	pthread_mutex_t lock;        /* guards what follows */
	struct jit_options jit;      /* of cuLinkCreate: its logs */
	uint8_t *linked;             /* ours until cuLinkDestroy */
	size_t size;
};

static struct link *
link_get(CUlinkState state)
{
	return shim_object_get(HANDLE_LINK, (uintptr_t)state);
}

static uint32_t
options_size(const struct jit_options *jit)
{
	return (uint32_t)(jit->count * sizeof(jit->values[0]));
}

CUresult
shim_cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options,
		     void **optionValues, CUlinkState *stateOut)
{
	struct link *link;
	CUresult r;

	if (!stateOut)
		return CUDA_ERROR_INVALID_VALUE;
	link = calloc(1, sizeof(*link));
	if (!link)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&link->lock, NULL);
	link->object.ctx = shim_current;
	r = jit_parse(&link->jit, numOptions, options, optionValues);
	if (r == CUDA_SUCCESS &&
	    shim_object_add(HANDLE_LINK, &link->object) != 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		free(link);
		return r;
	}
	r = call_mpsLinkCreate(shim_current->chan, &link->object.handle,
			       link->jit.values, options_size(&link->jit),
			       link->jit.info_cap || link->jit.error_cap);
	if (r != CUDA_SUCCESS)
		shim_object_remove(HANDLE_LINK, link->object.handle);
	else
		*stateOut = (CUlinkState)(uintptr_t)link->object.handle;
	return r;
}

static CUresult
add_image(struct link *link, CUjitInputType type, const struct image *image,
	  const char *name, const struct jit_options *jit)
{
	struct shim_context *ctx = link->object.ctx;
	char info[JIT_LOG_MAX] = "", error[JIT_LOG_MAX] = "";
	struct shim_code code = { 0 };
	CUresult r;

	if (image->kind != MODULE_BARE)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = shim_code_upload(image, ctx->device, &code);
	if (r != CUDA_SUCCESS)
		return r;
	r = call_mpsLinkAdd(ctx->chan, link->object.handle, type, code.hash,
			    sizeof(code.hash), code.size, name ? name : "",
			    jit->values, options_size(jit), info,
			    sizeof(info) - 1, error, sizeof(error) - 1);
	jit_finish(&link->jit, info, error);
	return r;
}

/* NVVM is what the driver took for link-time optimisation before CUDA 12. */
static CUresult
check_type(CUjitInputType type)
{
	switch ((int)type) {
	case CU_JIT_INPUT_PTX:
	case CU_JIT_INPUT_CUBIN:
	case CU_JIT_INPUT_FATBINARY:
	case CU_JIT_INPUT_OBJECT:
	case CU_JIT_INPUT_LIBRARY:
		return CUDA_SUCCESS;
	case CU_JIT_INPUT_NVVM:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Files of the host's compiler, which the driver picks the device's code out
 * of: taken whole. */
static bool
is_of_host(CUjitInputType type)
{
	return type == CU_JIT_INPUT_OBJECT || type == CU_JIT_INPUT_LIBRARY;
}

static CUresult
find_code(CUjitInputType type, const void *data, size_t size,
	  struct image *image)
{
	int found;

	*image = (struct image){ .kind = MODULE_BARE, .data = data,
				 .size = size };
	if (is_of_host(type))
		return CUDA_SUCCESS;
	found = image_find_sized(image, data, size);
	if (!found)
		return CUDA_SUCCESS;
	return found < 0 ? CUDA_ERROR_OUT_OF_MEMORY :
	       type == CU_JIT_INPUT_PTX ? CUDA_ERROR_INVALID_PTX :
					  CUDA_ERROR_INVALID_IMAGE;
}

static CUresult
add(CUlinkState state, CUjitInputType type, const struct image *image,
    const char *name, const struct jit_options *jit)
{
	struct link *link = link_get(state);
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&link->lock);
	if (!link->linked)
		r = add_image(link, type, image, name, jit);
	pthread_mutex_unlock(&link->lock);
	return r;
}

CUresult
shim_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data,
		      size_t size, const char *name, unsigned int numOptions,
		      CUjit_option *options, void **optionValues)
{
	struct jit_options jit;
	struct image image;
	CUresult r = check_type(type);

	if (r == CUDA_SUCCESS)
		r = jit_parse(&jit, numOptions, options, optionValues);
	if (r != CUDA_SUCCESS)
		return r;
	if (!link_get(state))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	r = find_code(type, data, size, &image);
	if (r != CUDA_SUCCESS)
		return r;
	r = add(state, type, &image, name, &jit);
	image_fini(&image);
	return r;
}

CUresult
shim_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
		      unsigned int numOptions, CUjit_option *options,
		      void **optionValues)
{
	struct jit_options jit;
	struct image image;
	CUresult r = check_type(type);

	if (r == CUDA_SUCCESS)
		r = jit_parse(&jit, numOptions, options, optionValues);
	if (r != CUDA_SUCCESS)
		return r;
	if (!link_get(state))
		return CUDA_ERROR_INVALID_HANDLE;
	r = is_of_host(type) ? shim_code_read_bytes(&image, path) :
			       shim_code_read_file(&image, path);
	if (r != CUDA_SUCCESS)
		return r;
	r = add(state, type, &image, path, &jit);
	image_fini(&image);
	return r;
}

static CUresult
fetch(struct link *link, uint64_t size)
{
	_cleanup_free_ uint8_t *data = malloc(size ? size : 1);
	struct shim_chan *chan = link->object.ctx->chan;
	CUresult r = data ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	for (uint64_t at = 0; at < size && r == CUDA_SUCCESS; at += READ_STEP) {
		uint32_t step = size - at < READ_STEP ? (uint32_t)(size - at) :
							READ_STEP;

		r = call_mpsLinkRead(chan, link->object.handle, at, data + at,
				     step);
	}
	if (r == CUDA_SUCCESS) {
		link->linked = steal_ptr(&data);
		link->size = size;
	}
	return r;
}

static CUresult
complete(struct link *link)
{
	char info[JIT_LOG_MAX] = "", error[JIT_LOG_MAX] = "";
	uint64_t size = 0;
	CUresult r;

	if (link->linked)
		return CUDA_SUCCESS;
	r = call_mpsLinkComplete(link->object.ctx->chan, link->object.handle,
				 &size, info, sizeof(info) - 1, error,
				 sizeof(error) - 1);
	jit_finish(&link->jit, info, error);
	return r ? r : fetch(link, size);
}

CUresult
shim_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	struct link *link = link_get(state);
	CUresult r;

	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!cubinOut)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&link->lock);
	r = complete(link);
	if (r == CUDA_SUCCESS) {
		*cubinOut = link->linked;
		if (sizeOut)
			*sizeOut = link->size;
	}
	pthread_mutex_unlock(&link->lock);
	return r;
}

CUresult
shim_cuLinkDestroy(CUlinkState state)
{
	struct link *link = link_get(state);
	CUresult r;

	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	/* The worker forgets the handle before its place is another's. */
	r = call_mpsLinkDestroy(link->object.ctx->chan, link->object.handle);
	if (!shim_object_remove(HANDLE_LINK, (uintptr_t)state))
		return CUDA_ERROR_INVALID_HANDLE;
	free(link->linked);
	link->linked = NULL;
	return r;
}
