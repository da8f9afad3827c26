/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries: an image, parsed, with its kernels. No context is needed.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_module.h"

/* What a fresh kernel may have without asking for more. */
#define SHARED_DEFAULT (48 << 10)

pthread_mutex_t soft_module_lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult
code_of(int r)
{
	switch (r) {
	case 0:
		return CUDA_SUCCESS;
	case PTX_E_VERSION:
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	case PTX_E_SYNTAX:
	case PTX_E_TARGET:
	case PTX_E_UNSUPPORTED:
		return CUDA_ERROR_INVALID_PTX;
	default:
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
}

static CUresult
image_code_of(int r)
{
	switch (r) {
	case 0:
		return CUDA_SUCCESS;
	case SOFT_IMAGE_E_INVALID:
		return CUDA_ERROR_INVALID_IMAGE;
	case SOFT_IMAGE_E_NO_CODE:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	default:
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
}

static CUresult
parse(struct soft_library *library, struct soft_jit *jit)
{
	int r;

	if (library->image.kind == SOFT_IMAGE_ELF)
		return image_code_of(soft_elf_open(&library->elf,
						   library->image.data,
						   library->image.size));
	r = ptx_module_parse(&library->first, library->image.data,
			     library->image.size, jit->log, sizeof(jit->log));
	/* An instruction that is not executed here is named where somebody
	 * will look, also when the program keeps no log. */
	if (r == PTX_E_UNSUPPORTED)
		soft_log("PTX: %s", jit->log);
	return code_of(r);
}

static void
info_from_ptx(struct soft_kernel_info *info, const struct ptx_kernel *k)
{
	info->name = k->name;
	info->nparams = k->nparams;
	info->param_size = k->param_size;
	info->shared_static = k->shared_static;
	info->local_bytes = k->local_bytes;
	info->const_bytes = k->const_bytes;
	info->regs = k->regs ? k->regs : 8;
	info->max_threads = k->max_threads ? k->max_threads : 1024;
	memcpy(info->req_cluster, k->req_cluster, sizeof(info->req_cluster));
	info->ptx_version = k->ptx_version;
	info->target = k->target;
	info->cooperative = k->uses_grid_sync;
}

static void
info_from_elf(struct soft_kernel_info *info, const struct soft_elf_kernel *k,
	      unsigned sm)
{
	info->name = k->name;
	info->nparams = k->nparams;
	info->param_size = k->param_size;
	info->shared_static = k->shared_static;
	info->local_bytes = k->local_bytes;
	info->regs = k->regs;
	info->max_threads = k->max_threads;
	info->ptx_version = sm;
	info->target = sm;
}

static unsigned
param_count(const struct soft_library *library, unsigned kernel)
{
	if (library->first)
		return ptx_module_kernel(library->first, kernel)->nparams;
	return library->elf.kernels[kernel].nparams;
}

static void
fill_params(const struct soft_library *library, unsigned kernel,
	    struct soft_param *to)
{
	unsigned count = param_count(library, kernel);

	for (unsigned i = 0; i < count; i++) {
		if (library->first) {
			const struct ptx_param *p = &ptx_module_kernel(
				library->first, kernel)->params[i];

			to[i] = (struct soft_param){ p->offset, p->size };
		} else {
			const struct soft_elf_param *p =
				&library->elf.kernels[kernel].params[i];

			to[i] = (struct soft_param){ p->offset, p->size };
		}
	}
}

static void
kernel_fill(struct soft_library *library, unsigned i, struct soft_param *params)
{
	struct soft_kernel *kernel = &library->kernels[i];

	kernel->library = library;
	kernel->index = i;
	if (library->first)
		info_from_ptx(&kernel->info,
			      ptx_module_kernel(library->first, i));
	else
		info_from_elf(&kernel->info, &library->elf.kernels[i],
			      library->elf.sm);
	kernel->info.params = params;
	fill_params(library, i, params);
	kernel->attrs.carveout = -1;
	kernel->attrs.max_dynamic_shared = SHARED_DEFAULT -
					   (int)kernel->info.shared_static;
	if (kernel->attrs.max_dynamic_shared < 0)
		kernel->attrs.max_dynamic_shared = 0;
	for (int d = 0; d < 3; d++)
		kernel->attrs.required_cluster[d] =
			(int)kernel->info.req_cluster[d];
	kernel->attrs.cluster_must_be_set = kernel->info.req_cluster[0] > 0;
}

static CUresult
make_kernels(struct soft_library *library)
{
	size_t params = 0, at = 0;

	library->kernel_count = library->first ?
		(unsigned)ptx_module_kernel_count(library->first) :
		library->elf.kernel_count;
	for (unsigned i = 0; i < library->kernel_count; i++)
		params += param_count(library, i);
	library->kernels = calloc(library->kernel_count + 1,
				  sizeof(*library->kernels));
	library->params = calloc(params + 1, sizeof(*library->params));
	if (!library->kernels || !library->params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < library->kernel_count; i++) {
		kernel_fill(library, i, library->params + at);
		at += param_count(library, i);
		if (!soft_handle_add(&library->kernels[i], SOFT_HANDLE_KERNEL))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

/* SOFTCUDA_FAULT load: as when a compiler dies of what it is given. */
void
soft_image_fault(const struct soft_image *image)
{
	const char *text = soft.load_fault;

	if (*text && memmem(image->data, image->size, text, strlen(text)))
		raise(SIGSEGV);
}

CUresult
soft_library_new(struct soft_library **out, const void *data, size_t limit,
		 struct soft_jit *jit)
{
	struct soft_library *library;
	CUresult res;

	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	library = calloc(1, sizeof(*library));
	if (!library)
		return CUDA_ERROR_OUT_OF_MEMORY;
	library->refs = 1;
	res = image_code_of(soft_image_open(&library->image, data, limit));
	if (!res)
		soft_image_fault(&library->image);
	if (!res)
		res = parse(library, jit);
	if (!res)
		res = make_kernels(library);
	if (res) {
		pthread_mutex_lock(&soft_module_lock);
		soft_library_unref_locked(library);
		pthread_mutex_unlock(&soft_module_lock);
		return res;
	}
	*out = library;
	return CUDA_SUCCESS;
}

void
soft_library_unref_locked(struct soft_library *library)
{
	if (--library->refs)
		return;
	if (library->kernels)
		for (unsigned i = 0; i < library->kernel_count; i++)
			soft_handle_del(&library->kernels[i],
					SOFT_HANDLE_KERNEL);
	if (library->first)
		ptx_module_free(library->first);
	soft_elf_close(&library->elf);
	soft_image_close(&library->image);
	free(library->kernels);
	free(library->params);
	free(library);
}
