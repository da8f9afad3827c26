/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries. Loading one loads a module of it at once, so that a bad image is
 * known at once: in the current context, or in none (runtimes load their code
 * before they make a context). A module of no context answers questions, and
 * the first context of its device adopts it. Every other context gets its own
 * module at first use, since variables are per context.
 */
#include "shim/library.h"

#include <stdlib.h>
#include <string.h>

#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/module.h"
#include "shim/pool.h"
#include "shim/process.h"
#include "shim_impl.h"

#define BUCKETS (sizeof(((struct shim_library *)0)->buckets) / \
		 sizeof(struct shim_kernel *))

static struct shim_pool libraries = SHIM_POOL(struct shim_library, next_free);
static struct shim_pool kernels = SHIM_POOL(struct shim_kernel, next_free);

struct shim_library *
shim_library_get(CUlibrary handle)
{
	return shim_object_get(HANDLE_LIBRARY, (uintptr_t)handle);
}

/* ---- modules of a library ---- */

static bool
is_modules_context(const struct shim_module *module,
		   const struct shim_context *ctx)
{
	return module->object.ctx == ctx && module->ctx_id == ctx->id;
}

static void
adopt(struct shim_module *module, struct shim_context *ctx)
{
	pthread_mutex_lock(&module->lock);
	module->object.ctx = ctx;
	module->ctx_id = ctx->id;
	for (unsigned i = 0; i < MODULE_BUCKETS; i++) {
		for (struct shim_function *function = module->buckets[i];
		     function != NULL; function = function->next)
			function->object.ctx = ctx;
	}
	pthread_mutex_unlock(&module->lock);
}

static struct shim_module *
find_locked(struct shim_library *library, struct shim_context *ctx, int device)
{
	struct shim_module *module, *orphan = NULL;

	for (module = library->modules; module != NULL;
	     module = module->sibling) {
		if (ctx == NULL) {
			if (device < 0 || module->device == device)
				return module;
			continue;
		}
		if (is_modules_context(module, ctx))
			return module;
		if (module->object.ctx == NULL &&
		    module->device == ctx->device)
			orphan = module;
	}
	if (orphan != NULL)
		adopt(orphan, ctx);
	return orphan;
}

CUresult
shim_library_module(struct shim_library *library, struct shim_context *ctx,
		    int device, struct shim_module **out_module)
{
	struct shim_module *module;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&library->lock);
	module = find_locked(library, ctx, device);
	if (module == NULL) {
		device = ctx != NULL ? ctx->device : device < 0 ? 0 : device;
		r = shim_code_ensure(&library->code, device);
		if (r == CUDA_SUCCESS)
			r = shim_module_load(ctx, device, &library->code, NULL,
					     &module);
		if (r == CUDA_SUCCESS) {
			module->library = library;
			module->sibling = library->modules;
			library->modules = module;
		}
	}
	pthread_mutex_unlock(&library->lock);
	*out_module = module;
	return r;
}

void
shim_library_forget(struct shim_library *library, struct shim_module *module)
{
	struct shim_module **at = &library->modules;

	pthread_mutex_lock(&library->lock);
	while (*at != NULL && *at != module)
		at = &(*at)->sibling;
	if (*at == module)
		*at = module->sibling;
	pthread_mutex_unlock(&library->lock);
}

/* ---- kernels ---- */

CUresult
shim_kernel_function(struct shim_kernel *kernel, struct shim_context *ctx,
		     int device, struct shim_function **out_function)
{
	struct shim_function *last = atomic_load_explicit(
		&kernel->last, memory_order_acquire);
	struct shim_module *module;
	CUresult r;

	/* The kernel is compared too: the pool may have reused the struct. */
	if (last != NULL && last->kernel == kernel) {
		module = last->module;
		if (ctx != NULL ? is_modules_context(module, ctx) :
				  device < 0 || module->device == device) {
			*out_function = last;
			return CUDA_SUCCESS;
		}
	}
	r = shim_library_module(kernel->library, ctx, device, &module);
	if (r == CUDA_SUCCESS)
		r = shim_module_function(module, kernel->name, kernel,
					 out_function);
	if (r == CUDA_SUCCESS)
		atomic_store_explicit(&kernel->last, *out_function,
				      memory_order_release);
	return r;
}

static struct shim_kernel *
make_kernel(struct shim_library *library, const char *name)
{
	struct shim_kernel *kernel = shim_pool_take(&kernels);

	if (kernel == NULL)
		return NULL;
	kernel->library = library;
	kernel->name = strdup(name);
	kernel->settings = calloc((size_t)shim_process.ndevices,
				  sizeof(*kernel->settings));
	if (kernel->name == NULL || kernel->settings == NULL ||
	    shim_object_add(HANDLE_KERNEL, &kernel->object) != 0) {
		free(kernel->name);
		free(kernel->settings);
		shim_pool_give(&kernels, kernel);
		return NULL;
	}
	return kernel;
}

static void
end_kernel(struct shim_kernel *kernel)
{
	if (!shim_object_remove(HANDLE_KERNEL, kernel->object.handle))
		return;
	free(kernel->name);
	free(kernel->settings);
	shim_pool_give(&kernels, kernel);
}

static struct shim_kernel *
lookup(struct shim_library *library, const char *name)
{
	struct shim_kernel *kernel;

	pthread_mutex_lock(&library->lock);
	kernel = library->buckets[shim_name_hash(name) % BUCKETS];
	while (kernel != NULL && strcmp(kernel->name, name) != 0)
		kernel = kernel->next;
	pthread_mutex_unlock(&library->lock);
	return kernel;
}

/* The slow half of shim_kernel_find, under library->naming. */
static CUresult
find_new(struct shim_library *library, const char *name,
	 struct shim_kernel **out_kernel)
{
	struct shim_kernel **bucket =
		&library->buckets[shim_name_hash(name) % BUCKETS];
	struct shim_kernel *kernel = lookup(library, name);
	struct shim_context *ctx = NULL;
	struct shim_function *function;
	CUresult r;

	if (kernel == NULL) {
		kernel = make_kernel(library, name);
		if (kernel == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		/* Whether the name exists, its function knows. */
		shim_ctx_current(&ctx);
		r = shim_kernel_function(kernel, ctx, -1, &function);
		if (r != CUDA_SUCCESS) {
			end_kernel(kernel);
			return r;
		}
		pthread_mutex_lock(&library->lock);
		kernel->next = *bucket;
		*bucket = kernel;
		pthread_mutex_unlock(&library->lock);
	}
	*out_kernel = kernel;
	return CUDA_SUCCESS;
}

CUresult
shim_kernel_find(struct shim_library *library, const char *name,
		 struct shim_kernel **out_kernel)
{
	CUresult r;

	*out_kernel = lookup(library, name);
	if (*out_kernel != NULL)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&library->naming);
	r = find_new(library, name, out_kernel);
	pthread_mutex_unlock(&library->naming);
	return r;
}

/* ---- entry points ---- */

/* Only `preserved` matters to us; the table of host functions refers to the
 * caller's memory and cannot travel. */
static CUresult
parse_options(const CUlibraryOption *options, void **values,
	      unsigned int count, bool from_file, bool *out_preserved)
{
	*out_preserved = false;
	if (count > 0 && options == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED &&
		    !from_file)
			/* Seen with and without values: cuBLASLt gives none. */
			*out_preserved = values == NULL || values[i] != NULL;
		else if (options[i] ==
			 CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE)
			return CUDA_ERROR_NOT_SUPPORTED;
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* Load it where the caller stands, to know now whether it can be loaded. */
static CUresult
first_module(struct shim_library *library, struct shim_context *ctx,
	     int device, struct jit_options *jit)
{
	CUresult r = shim_module_load(ctx, device, &library->code, jit,
				      &library->modules);

	if (r == CUDA_SUCCESS)
		library->modules->library = library;
	return r;
}

static CUresult
load(CUlibrary *out, const struct image *image, struct jit_options *jit,
     const void *preserved)
{
	struct shim_library *library = shim_pool_take(&libraries);
	struct shim_context *ctx = NULL;
	int device;
	CUresult r;

	if (library == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&library->lock, NULL);
	pthread_mutex_init(&library->naming, NULL);
	shim_ctx_current(&ctx);
	device = ctx != NULL ? ctx->device : 0;
	r = shim_code_upload(image, device, &library->code);
	memcpy(library->code.options, jit->values, sizeof(jit->values));
	library->code.noptions = jit->count;
	library->code.preserved = preserved;
	if (r == CUDA_SUCCESS)
		r = first_module(library, ctx, device, jit);
	if (r == CUDA_SUCCESS &&
	    shim_object_add(HANDLE_LIBRARY, &library->object) != 0) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
		if (library->modules != NULL)
			shim_module_end(library->modules);
	}
	if (r != CUDA_SUCCESS)
		shim_pool_give(&libraries, library);
	else
		*out = (CUlibrary)(uintptr_t)library->object.handle;
	return r;
}

CUresult
shim_cuLibraryLoadData(CUlibrary *library, const void *code,
		       CUjit_option *jitOptions, void **jitOptionsValues,
		       unsigned int numJitOptions,
		       CUlibraryOption *libraryOptions,
		       void **libraryOptionValues,
		       unsigned int numLibraryOptions)
{
	struct jit_options jit;
	struct image image;
	bool preserved;
	CUresult r;

	if (library == NULL || code == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = jit_parse(&jit, numJitOptions, jitOptions, jitOptionsValues);
	if (r == CUDA_SUCCESS)
		r = parse_options(libraryOptions, libraryOptionValues,
				  numLibraryOptions, false, &preserved);
	if (r == CUDA_SUCCESS)
		r = shim_code_find(&image, code);
	if (r != CUDA_SUCCESS)
		return r;
	/* Gathered fatbins are our copy, not the caller's. */
	r = load(library, &image, &jit, preserved && image.owned == NULL ?
					image.data : NULL);
	image_fini(&image);
	return r;
}

CUresult
shim_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
			   CUjit_option *jitOptions, void **jitOptionsValues,
			   unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions,
			   void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	struct jit_options jit;
	struct image image;
	bool preserved;
	CUresult r;

	if (library == NULL || fileName == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = jit_parse(&jit, numJitOptions, jitOptions, jitOptionsValues);
	if (r == CUDA_SUCCESS)
		r = parse_options(libraryOptions, libraryOptionValues,
				  numLibraryOptions, true, &preserved);
	if (r == CUDA_SUCCESS)
		r = shim_code_read_file(&image, fileName);
	if (r != CUDA_SUCCESS)
		return r;
	r = load(library, &image, &jit, NULL);
	image_fini(&image);
	return r;
}

CUresult
shim_cuLibraryUnload(CUlibrary library)
{
	struct shim_library *found =
		shim_object_remove(HANDLE_LIBRARY, (uintptr_t)library);

	if (found == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	while (found->modules != NULL) {
		struct shim_module *module = found->modules;

		shim_library_forget(found, module);
		shim_module_end(module);
	}
	for (unsigned i = 0; i < BUCKETS; i++) {
		struct shim_kernel *kernel = found->buckets[i];

		while (kernel != NULL) {
			struct shim_kernel *next = kernel->next;

			end_kernel(kernel);
			kernel = next;
		}
	}
	pthread_mutex_destroy(&found->lock);
	pthread_mutex_destroy(&found->naming);
	shim_pool_give(&libraries, found);
	return CUDA_SUCCESS;
}

CUresult
shim_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library,
			const char *name)
{
	struct shim_library *found = shim_library_get(library);
	struct shim_kernel *kernel;
	CUresult r;

	if (pKernel == NULL || name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (found == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_kernel_find(found, name, &kernel);
	if (r == CUDA_SUCCESS)
		*pKernel = (CUkernel)(uintptr_t)kernel->object.handle;
	return r;
}

static CUresult
any_module(CUlibrary handle, struct shim_module **out_module)
{
	struct shim_library *library = shim_library_get(handle);
	struct shim_context *ctx = NULL;

	if (library == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	shim_ctx_current(&ctx);
	return shim_library_module(library, ctx, -1, out_module);
}

CUresult
shim_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
	struct shim_module *module;
	CUresult r;

	if (count == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = any_module(lib, &module);
	if (r == CUDA_SUCCESS)
		*count = module->kernels;
	return r;
}

CUresult
shim_cuLibraryEnumerateKernels(CUkernel *pKernels, unsigned int numKernels,
			       CUlibrary lib)
{
	struct shim_module *module;
	struct shim_kernel *kernel;
	char **names;
	CUresult r;

	if (pKernels == NULL && numKernels > 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = any_module(lib, &module);
	if (r == CUDA_SUCCESS)
		r = shim_module_names(module, &names);
	for (unsigned i = 0; r == CUDA_SUCCESS && i < numKernels &&
	     i < module->kernels; i++) {
		r = shim_kernel_find(module->library, names[i], &kernel);
		if (r == CUDA_SUCCESS)
			pKernels[i] = (CUkernel)(uintptr_t)
				      kernel->object.handle;
	}
	return r;
}

CUresult
shim_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	struct shim_library *found = shim_library_get(library);
	struct shim_module *module;
	CUresult r;

	if (pMod == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (found == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_library_module(found, shim_current, -1, &module);
	if (r == CUDA_SUCCESS)
		*pMod = (CUmodule)(uintptr_t)module->object.handle;
	return r;
}

CUresult
shim_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
			const char *name)
{
	struct shim_library *found = shim_library_get(library);
	struct shim_module *module;
	CUresult r;

	if (name == NULL || (dptr == NULL && bytes == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	if (found == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_library_module(found, shim_current, -1, &module);
	return r != CUDA_SUCCESS ? r :
	       shim_module_global(module, name, dptr, bytes);
}

/* An image with managed variables does not load (shim/image.c). */
CUresult
shim_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
			 const char *name)
{
	if (name == NULL || (dptr == NULL && bytes == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	return shim_library_get(library) == NULL ? CUDA_ERROR_INVALID_HANDLE :
						   CUDA_ERROR_NOT_FOUND;
}
