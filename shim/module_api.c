/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of modules.
 */
#include <stdlib.h>
#include <strings.h>

#include "shim/capture.h"
#include "shim/ctx.h"
#include "shim/function.h"
#include "shim/module.h"
#include "shim_impl.h"

static CUresult
load_image(CUmodule *out, const struct image *image, struct jit_options *jit)
{
	struct shim_context *ctx = shim_current;
	struct shim_code code = { 0 };
	struct shim_module *module;
	CUresult r;

	r = shim_code_upload(image, ctx->device, &code);
	if (r == CUDA_SUCCESS)
		r = shim_module_load(ctx, ctx->device, &code, jit, &module);
	if (r == CUDA_SUCCESS)
		*out = (CUmodule)(uintptr_t)module->object.handle;
	return r;
}

CUresult
shim_cuModuleLoadDataEx(CUmodule *module, const void *image,
			unsigned int numOptions, CUjit_option *options,
			void **optionValues)
{
	struct jit_options jit;
	struct image found;
	CUresult r;

	if (module == NULL || image == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = jit_parse(&jit, numOptions, options, optionValues);
	if (r == CUDA_SUCCESS)
		r = shim_code_find(&found, image);
	if (r != CUDA_SUCCESS)
		return r;
	r = load_image(module, &found, &jit);
	image_fini(&found);
	return r;
}

CUresult
shim_cuModuleLoadData(CUmodule *module, const void *image)
{
	return shim_cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult
shim_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return shim_cuModuleLoadDataEx(module, fatCubin, 0, NULL, NULL);
}

CUresult
shim_cuModuleLoad(CUmodule *module, const char *fname)
{
	struct image image;
	CUresult r;

	if (module == NULL || fname == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_code_read_file(&image, fname);
	if (r != CUDA_SUCCESS)
		return r;
	r = load_image(module, &image, NULL);
	image_fini(&image);
	return r;
}

CUresult
shim_cuModuleUnload(CUmodule hmod)
{
	struct shim_module *module = shim_module_get(hmod);
	CUresult r;

	if (module == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_capture_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	/* A library's goes with the library. */
	if (module->library != NULL)
		return CUDA_ERROR_NOT_PERMITTED;
	shim_module_end(module);
	return CUDA_SUCCESS;
}

CUresult
shim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	const char *text = getenv("CUDA_MODULE_LOADING");

	if (mode == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = text != NULL && strcasecmp(text, "EAGER") == 0 ?
		CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

CUresult
shim_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct shim_module *module = shim_module_get(hmod);
	struct shim_function *function;
	CUresult r;

	if (hfunc == NULL || name == NULL || name[0] == '\0')
		return CUDA_ERROR_INVALID_VALUE;
	if (module == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_module_function(module, name, NULL, &function);
	if (r == CUDA_SUCCESS)
		*hfunc = (CUfunction)(uintptr_t)function->object.handle;
	else if (r == CUDA_ERROR_NOT_FOUND)
		*hfunc = NULL;
	return r;
}

CUresult
shim_cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
	struct shim_module *module = shim_module_get(mod);

	if (count == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (module == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	*count = module->kernels;
	return CUDA_SUCCESS;
}

CUresult
shim_cuModuleEnumerateFunctions(CUfunction *functions,
				unsigned int numFunctions, CUmodule mod)
{
	struct shim_module *module = shim_module_get(mod);
	struct shim_function *function;
	char **names;
	CUresult r;

	if (functions == NULL && numFunctions > 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (module == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_module_names(module, &names);
	for (unsigned i = 0; r == CUDA_SUCCESS && i < numFunctions &&
	     i < module->kernels; i++) {
		r = shim_module_function(module, names[i], NULL, &function);
		if (r == CUDA_SUCCESS)
			functions[i] = (CUfunction)(uintptr_t)
				       function->object.handle;
	}
	return r;
}

CUresult
shim_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
			  const char *name)
{
	struct shim_module *module = shim_module_get(hmod);

	if (name == NULL || (dptr == NULL && bytes == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	if (module == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	return shim_module_global(module, name, dptr, bytes);
}
