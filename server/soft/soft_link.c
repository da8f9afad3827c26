/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker: PTX only. Inputs are checked when they are added, joined into
 * one text, and "linked" is that text: an image that modules load.
 */
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_file.h"
#include "server/soft/soft_module.h"

struct soft_link {
	struct soft_image all;
	struct soft_jit jit;        /* options of cuLinkCreate */
	bool completed;
};

CUresult
cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values,
		CUlinkState *out)
{
	struct soft_link *link;
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	link = calloc(1, sizeof(*link));
	if (!link)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = soft_jit_open(&link->jit, count, options, values);
	if (!res && !soft_handle_add(link, SOFT_HANDLE_LINK))
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (res)
		free(link);
	else
		*out = (CUlinkState)link;
	return res;
}

static CUresult
add_text(struct soft_link *link, struct soft_image *image)
{
	struct ptx_module *module = NULL;
	int r;

	if (image->kind != SOFT_IMAGE_PTX)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	r = ptx_module_parse(&module, image->data, image->size, link->jit.log,
			     sizeof(link->jit.log));
	if (r == PTX_E_VERSION)
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	if (r)
		return r < 0 ? CUDA_ERROR_OUT_OF_MEMORY :
		       CUDA_ERROR_INVALID_PTX;
	ptx_module_free(module);
	if (!link->all.data) {
		link->all = *image;
		memset(image, 0, sizeof(*image));
		return CUDA_SUCCESS;
	}
	return soft_image_join(&link->all, image->data, image->size) ?
	       CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult
add_data(struct soft_link *link, CUjitInputType type, const void *data,
	 size_t size)
{
	struct soft_image image;
	CUresult res;
	int r;

	if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY)
		return type >= 0 && type < CU_JIT_NUM_INPUT_TYPES ?
		       CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	r = soft_image_open(&image, data, size);
	if (r == SOFT_IMAGE_E_NO_CODE)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	if (r)
		return r < 0 ? CUDA_ERROR_OUT_OF_MEMORY :
		       type == CU_JIT_INPUT_PTX ? CUDA_ERROR_INVALID_PTX :
		       CUDA_ERROR_INVALID_IMAGE;
	soft_image_fault(&image);
	res = add_text(link, &image);
	soft_image_close(&image);
	soft_jit_close(&link->jit);
	return res;
}

CUresult
cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void *data,
		 size_t size, const char *name, unsigned int count,
		 CUjit_option *options, void **values)
{
	struct soft_link *link;
	struct soft_jit jit;
	CUresult res = soft_enter_live();

	(void)name;
	if (!res)
		res = soft_jit_open(&jit, count, options, values);
	if (res)
		return res;
	link = soft_handle_get(handle, SOFT_HANDLE_LINK);
	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!data || !size || link->completed)
		return CUDA_ERROR_INVALID_VALUE;
	return add_data(link, type, data, size);
}

CUresult
cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char *path,
		 unsigned int count, CUjit_option *options, void **values)
{
	char *data;
	size_t size;
	CUresult res = soft_enter_live();

	if (!res && !path)
		res = CUDA_ERROR_INVALID_VALUE;
	if (!res)
		res = soft_file_read(path, &data, &size);
	if (res)
		return res;
	res = cuLinkAddData_v2(handle, type, data, size, path, count, options,
			       values);
	free(data);
	return res;
}

/* As the real linker: nothing makes an image without kernels. */
static CUresult
add_nothing(struct soft_link *link)
{
	static const char text[] =
		".version 7.0\n.target sm_50\n.address_size 64\n";

	return soft_image_open(&link->all, text, sizeof(text)) ?
	       CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult
cuLinkComplete(CUlinkState handle, void **out, size_t *out_size)
{
	struct soft_link *link;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	link = soft_handle_get(handle, SOFT_HANDLE_LINK);
	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!link->all.data)
		res = add_nothing(link);
	if (res)
		return res;
	link->completed = true;
	soft_jit_close(&link->jit);
	*out = link->all.data;
	if (out_size)
		*out_size = link->all.size + 1;
	return CUDA_SUCCESS;
}

CUresult
cuLinkDestroy(CUlinkState handle)
{
	struct soft_link *link;
	CUresult res = soft_enter();

	if (res)
		return res;
	link = soft_handle_get(handle, SOFT_HANDLE_LINK);
	if (!link || !soft_handle_del(link, SOFT_HANDLE_LINK))
		return CUDA_ERROR_INVALID_HANDLE;
	soft_image_close(&link->all);
	free(link);
	return CUDA_SUCCESS;
}
