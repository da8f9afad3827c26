/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of functions and of kernels: the same questions, asked in a
 * context or of a device.
 */
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/function.h"
#include "shim/library.h"
#include "shim/module.h"
#include "shim_impl.h"

/* ---- functions ---- */

/* A launch takes a CUkernel for its function; these calls refuse one, as the
 * driver does (measured of all but cuFuncIsLoaded and
 * cuFuncSetSharedMemConfig, which are taken to be no different). */
static CUresult
find_function(CUfunction handle, struct shim_function **out_function)
{
	if (shim_object_get(HANDLE_KERNEL, (uintptr_t)handle) != NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	return shim_function_find(handle, out_function);
}

CUresult
shim_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib,
			CUfunction hfunc)
{
	struct shim_function *function;
	CUresult r;

	if (pi == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = find_function(hfunc, &function);
	return r != CUDA_SUCCESS ? r :
	       shim_function_attribute(function, attrib, pi);
}

CUresult
shim_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib,
			int value)
{
	struct shim_function *function;
	CUresult r = find_function(hfunc, &function);

	return r != CUDA_SUCCESS ? r :
	       shim_function_set(function, attrib, value);
}

/* A preference that the hardware of the last ten years has no use for. */
CUresult
shim_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	struct shim_function *function;
	CUresult r = find_function(hfunc, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	function->settings->cache = (int)config;
	return CUDA_SUCCESS;
}

CUresult
shim_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	struct shim_function *function;
	CUresult r = find_function(hfunc, &function);

	if (r != CUDA_SUCCESS)
		return r;
	/* Without effect since compute capability 3.x. */
	return config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ?
	       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult
shim_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct shim_function *function;
	CUresult r;

	if (hmod == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = find_function(hfunc, &function);
	if (r == CUDA_SUCCESS)
		*hmod = (CUmodule)(uintptr_t)function->module->object.handle;
	return r;
}

CUresult
shim_cuFuncGetName(const char **name, CUfunction hfunc)
{
	struct shim_function *function;
	CUresult r;

	if (name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = find_function(hfunc, &function);
	if (r == CUDA_SUCCESS)
		*name = function->name;
	return r;
}

CUresult
shim_cuFuncGetParamInfo(CUfunction func, size_t paramIndex,
			size_t *paramOffset, size_t *paramSize)
{
	struct shim_function *function;
	CUresult r = find_function(func, &function);

	return r != CUDA_SUCCESS ? r :
	       shim_function_param(function, paramIndex, paramOffset,
				   paramSize);
}

/* The worker loads a function when it is taken out: there is no other
 * state. */
CUresult
shim_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	struct shim_function *found;
	CUresult r;

	if (state == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = find_function(function, &found);
	if (r == CUDA_SUCCESS)
		*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return r;
}

CUresult
shim_cuFuncLoad(CUfunction function)
{
	struct shim_function *found;

	return find_function(function, &found);
}

/* ---- kernels ---- */

static struct shim_kernel *
get(CUkernel handle)
{
	return shim_object_get(HANDLE_KERNEL, (uintptr_t)handle);
}

CUresult
shim_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct shim_kernel *found = get(kernel);
	struct shim_function *function;
	CUresult r;

	if (pFunc == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (found == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_kernel_function(found, shim_current, -1, &function);
	if (r == CUDA_SUCCESS)
		*pFunc = (CUfunction)(uintptr_t)function->object.handle;
	return r;
}

CUresult
shim_cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	struct shim_kernel *found = get(kernel);

	if (pLib == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (found == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	*pLib = (CUlibrary)(uintptr_t)found->library->object.handle;
	return CUDA_SUCCESS;
}

CUresult
shim_cuKernelGetName(const char **name, CUkernel hfunc)
{
	struct shim_kernel *found = get(hfunc);

	if (name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (found == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = found->name;
	return CUDA_SUCCESS;
}

/* The function that answers for a kernel on a device: the current context's
 * where that is the device's, else any. */
static CUresult
on_device(CUkernel handle, CUdevice dev, struct shim_function **out_function)
{
	struct shim_kernel *kernel = get(handle);
	struct shim_context *ctx = shim_current;

	if (kernel == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (ctx == NULL || ctx->device != dev || !shim_ctx_is_live(ctx))
		ctx = NULL;
	return shim_kernel_function(kernel, ctx, dev, out_function);
}

CUresult
shim_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib,
			  CUkernel kernel, CUdevice dev)
{
	struct shim_function *function;
	CUresult r;

	if (pi == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = on_device(kernel, dev, &function);
	return r != CUDA_SUCCESS ? r :
	       shim_function_attribute(function, attrib, pi);
}

CUresult
shim_cuKernelSetAttribute(CUfunction_attribute attrib, int val,
			  CUkernel kernel, CUdevice dev)
{
	struct shim_function *function;
	CUresult r = on_device(kernel, dev, &function);

	return r != CUDA_SUCCESS ? r :
	       shim_function_set(function, attrib, val);
}

CUresult
shim_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config,
			    CUdevice dev)
{
	struct shim_function *function;
	CUresult r = on_device(kernel, dev, &function);

	if (r != CUDA_SUCCESS)
		return r;
	if (config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	function->settings->cache = (int)config;
	return CUDA_SUCCESS;
}

CUresult
shim_cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex,
			  size_t *paramOffset, size_t *paramSize)
{
	struct shim_kernel *found = get(kernel);
	struct shim_context *ctx = NULL;
	struct shim_function *function;
	CUresult r;

	if (found == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	shim_ctx_current(&ctx);
	r = shim_kernel_function(found, ctx, -1, &function);
	return r != CUDA_SUCCESS ? r :
	       shim_function_param(function, paramIndex, paramOffset,
				   paramSize);
}
