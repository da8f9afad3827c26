/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of modules and of the linker.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include "server/soft/soft_file.h"
#include "server/soft/soft_module.h"
#include "server/soft/soft_work.h"

static CUresult
module_from(CUmodule handle, struct soft_module **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_MODULE);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult
module_load(CUmodule *out, const void *image, size_t limit,
	    struct soft_jit *jit)
{
	struct soft_library *library;
	struct soft_module *module;
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_capture_forbids();
	if (res)
		return res;
	res = soft_library_new(&library, image, limit, jit);
	soft_jit_close(jit);
	if (res)
		return res;
	soft_print_flush();
	res = soft_module_in(library, ctx, false, &module);
	pthread_mutex_lock(&soft_module_lock);
	soft_library_unref_locked(library);   /* the module holds it */
	pthread_mutex_unlock(&soft_module_lock);
	if (!res)
		*out = (CUmodule)module;
	return res;
}

CUresult
cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
		   CUjit_option *options, void **values)
{
	struct soft_jit jit;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_jit_open(&jit, count, options, values);
	return res ? res : module_load(out, image, SIZE_MAX, &jit);
}

CUresult
cuModuleLoadData(CUmodule *out, const void *image)
{
	return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

CUresult
cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
	return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

CUresult
cuModuleLoad(CUmodule *out, const char *path)
{
	struct soft_jit jit;
	char *data;
	size_t size;
	CUresult res = soft_enter_live();

	if (!res && !path)
		res = CUDA_ERROR_INVALID_VALUE;
	if (!res)
		res = soft_file_read(path, &data, &size);
	if (res)
		return res;
	soft_jit_open(&jit, 0, NULL, NULL);
	res = module_load(out, data, size, &jit);
	free(data);
	return res;
}

CUresult
cuModuleUnload(CUmodule handle)
{
	struct soft_module *module;
	CUresult res = module_from(handle, &module);

	if (res)
		return res;
	if (module->of_library)
		return CUDA_ERROR_NOT_PERMITTED;
	res = soft_capture_forbids();
	/* Waits for everything, but holds nobody up (measured). */
	if (!res && !soft_relaxed(SOFT_RELAX_UNLOAD)) {
		res = soft_gate_drain(false);
		soft_gate_open(false);
	}
	if (res)
		return res;
	soft_print_flush();
	pthread_mutex_lock(&soft_module_lock);
	if (soft_handle_get(module, SOFT_HANDLE_MODULE))
		soft_module_free_locked(module);
	else
		res = CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_unlock(&soft_module_lock);
	return res;
}

CUresult
cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	const char *text = getenv("CUDA_MODULE_LOADING");
	CUresult res = soft_enter();

	if (res)
		return res;
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = text && !strcmp(text, "EAGER") ? CU_MODULE_EAGER_LOADING :
		CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

CUresult
cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
	struct soft_module *module;
	CUresult res = module_from(handle, &module);

	if (res)
		return res;
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < module->library->kernel_count; i++)
		if (!strcmp(module->library->kernels[i].info.name, name)) {
			*out = (CUfunction)&module->funcs[i];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult
cuModuleGetFunctionCount(unsigned int *count, CUmodule handle)
{
	struct soft_module *module;
	CUresult res = module_from(handle, &module);

	if (res)
		return res;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = module->library->kernel_count;
	return CUDA_SUCCESS;
}

CUresult
cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count,
			   CUmodule handle)
{
	struct soft_module *module;
	CUresult res = module_from(handle, &module);

	if (res)
		return res;
	if (!functions || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && i < module->library->kernel_count;
	     i++)
		functions[i] = (CUfunction)&module->funcs[i];
	return CUDA_SUCCESS;
}

CUresult
cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule handle,
		     const char *name)
{
	struct soft_module *module;
	struct soft_variable *variable;
	CUresult res = module_from(handle, &module);

	if (res)
		return res;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	variable = soft_module_variable(module, name);
	if (!variable)
		return CUDA_ERROR_NOT_FOUND;
	if (dptr)
		*dptr = variable->addr;
	if (bytes)
		*bytes = variable->size;
	return CUDA_SUCCESS;
}
