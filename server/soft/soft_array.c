/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays: one to three dimensions.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "server/soft/soft_mem.h"
#include "server/soft/soft_tex.h"

#define EXTENT_MAX ((size_t)131072)
#define ROW_ALIGN ((size_t)64)
#define FLAGS_SERVED (CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_LAYERED | \
		      CUDA_ARRAY3D_TEXTURE_GATHER)

/* Guards the list of arrays. */
static pthread_mutex_t array_lock = PTHREAD_MUTEX_INITIALIZER;
static struct soft_array *arrays;

unsigned
soft_format_bytes(CUarray_format format)
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

struct soft_array *
soft_array_from(CUarray handle)
{
	return soft_handle_get(handle, SOFT_HANDLE_ARRAY);
}

bool
soft_array_side(CUarray handle, struct soft_copy_side *side)
{
	const struct soft_array *array = soft_array_from(handle);

	if (!array || side->z >= array->slices)
		return false;
	side->base = (uintptr_t)array->data;
	side->pitch = array->pitch;
	side->height = array->rows;
	side->slices = array->slices;
	side->device = true;
	side->array = true;
	return true;
}

static void
array_free(struct soft_array *array)
{
	soft_pool_quiesce();
	if (array->data)
		munmap(array->data, array->charged);
	soft_mem_uncharge(array->ctx->device, array->charged);
	free(array);
}

static CUresult
array_memory(struct soft_array *array)
{
	size_t size = array->pitch * array->rows * array->slices;
	void *map;

	size = (size + 4095) & ~(size_t)4095;
	if (!soft_mem_charge(array->ctx->device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		   MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED) {
		soft_mem_uncharge(array->ctx->device, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	array->data = map;
	array->charged = size;
	return CUDA_SUCCESS;
}

static CUresult
array_new(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct soft_array *array;
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (!res)
		res = soft_capture_forbids();
	if (res)
		return res;
	if (!out || !soft_format_bytes(desc->Format) || !desc->Width ||
	    (desc->NumChannels != 1 && desc->NumChannels != 2 &&
	     desc->NumChannels != 4) || desc->Width > EXTENT_MAX ||
	    desc->Height > EXTENT_MAX || desc->Depth > EXTENT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->Flags & ~(unsigned)FLAGS_SERVED)
		return CUDA_ERROR_NOT_SUPPORTED;
	array = calloc(1, sizeof(*array));
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->ctx = ctx->home;
	array->desc = *desc;
	array->element = soft_format_bytes(desc->Format) * desc->NumChannels;
	array->pitch = (desc->Width * array->element + ROW_ALIGN - 1) &
		       ~(ROW_ALIGN - 1);
	array->rows = desc->Height ? desc->Height : 1;
	array->slices = desc->Depth ? desc->Depth : 1;
	res = array_memory(array);
	if (res) {
		free(array);
		return res;
	}
	if (!soft_handle_add(array, SOFT_HANDLE_ARRAY)) {
		array_free(array);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&array_lock);
	array->next = arrays;
	arrays = array;
	pthread_mutex_unlock(&array_lock);
	*out = (CUarray)array;
	return CUDA_SUCCESS;
}

static void
unlink_array(struct soft_array *array)
{
	struct soft_array **at;

	pthread_mutex_lock(&array_lock);
	for (at = &arrays; *at && *at != array; at = &(*at)->next)
		;
	if (*at)
		*at = array->next;
	pthread_mutex_unlock(&array_lock);
}

void
soft_arrays_destroy(struct soft_ctx *ctx)
{
	for (;;) {
		struct soft_array *array;

		pthread_mutex_lock(&array_lock);
		for (array = arrays; array && array->ctx != ctx;
		     array = array->next)
			;
		pthread_mutex_unlock(&array_lock);
		if (!array)
			return;
		soft_handle_del(array, SOFT_HANDLE_ARRAY);
		unlink_array(array);
		array_free(array);
	}
}

CUresult
cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR desc3;

	if (!desc)
		return soft_enter() ? soft_enter() : CUDA_ERROR_INVALID_VALUE;
	memset(&desc3, 0, sizeof(desc3));
	desc3.Width = desc->Width;
	desc3.Height = desc->Height;
	desc3.Format = desc->Format;
	desc3.NumChannels = desc->NumChannels;
	return array_new(out, &desc3);
}

CUresult
cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	if (!desc)
		return soft_enter() ? soft_enter() : CUDA_ERROR_INVALID_VALUE;
	return array_new(out, desc);
}

static CUresult
array_enter(CUarray handle, struct soft_array **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_array_from(handle);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult
cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray handle)
{
	struct soft_array *array;
	CUresult res = array_enter(handle, &array);

	if (res)
		return res;
	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	desc->Width = array->desc.Width;
	desc->Height = array->desc.Height;
	desc->Format = array->desc.Format;
	desc->NumChannels = array->desc.NumChannels;
	return CUDA_SUCCESS;
}

CUresult
cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray handle)
{
	struct soft_array *array;
	CUresult res = array_enter(handle, &array);

	if (res)
		return res;
	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	*desc = array->desc;
	return CUDA_SUCCESS;
}

CUresult
cuArrayDestroy(CUarray handle)
{
	struct soft_array *array;
	CUresult res = array_enter(handle, &array);

	if (!res)
		res = soft_capture_forbids();
	if (!res && !soft_relaxed(SOFT_RELAX_FREE)) {
		res = soft_gate_drain(true);
		soft_gate_open(true);
	}
	if (res)
		return res;
	if (!soft_handle_del(array, SOFT_HANDLE_ARRAY))
		return CUDA_ERROR_INVALID_HANDLE;
	unlink_array(array);
	array_free(array);
	return CUDA_SUCCESS;
}
