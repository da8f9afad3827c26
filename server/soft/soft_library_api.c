/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of libraries and their kernels.
 */
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_file.h"
#include "server/soft/soft_func.h"
#include "server/soft/soft_module.h"
#include "server/soft/soft_work.h"

static CUresult
library_from(CUlibrary handle, struct soft_library **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_LIBRARY);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult
options_check(const CUlibraryOption *options, unsigned count)
{
	if (count && !options)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		switch ((int)options[i]) {
		case CU_LIBRARY_BINARY_IS_PRESERVED:
			break;   /* the image is copied all the same */
		case CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE:
			return CUDA_ERROR_NOT_SUPPORTED;
		default:
			return CUDA_ERROR_INVALID_VALUE;
		}
	return CUDA_SUCCESS;
}

static CUresult
library_load(CUlibrary *out, const void *code, size_t limit,
	     CUjit_option *options, void **values, unsigned count,
	     CUlibraryOption *library_options, unsigned library_count)
{
	struct soft_library *library;
	struct soft_jit jit;
	CUresult res;

	if (!out || !code)
		return CUDA_ERROR_INVALID_VALUE;
	res = options_check(library_options, library_count);
	if (!res)
		res = soft_jit_open(&jit, count, options, values);
	if (res)
		return res;
	res = soft_library_new(&library, code, limit, &jit);
	soft_jit_close(&jit);
	if (res)
		return res;
	if (!soft_handle_add(library, SOFT_HANDLE_LIBRARY)) {
		pthread_mutex_lock(&soft_module_lock);
		soft_library_unref_locked(library);
		pthread_mutex_unlock(&soft_module_lock);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = (CUlibrary)library;
	return CUDA_SUCCESS;
}

CUresult
cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *options,
		  void **values, unsigned int count,
		  CUlibraryOption *library_options, void **library_values,
		  unsigned int library_count)
{
	CUresult res = soft_enter_live();

	(void)library_values;
	return res ? res : library_load(out, code, SIZE_MAX, options, values,
					count, library_options, library_count);
}

CUresult
cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options,
		      void **values, unsigned int count,
		      CUlibraryOption *library_options, void **library_values,
		      unsigned int library_count)
{
	char *data;
	size_t size;
	CUresult res = soft_enter_live();

	(void)library_values;
	if (!res && !path)
		res = CUDA_ERROR_INVALID_VALUE;
	if (!res)
		res = soft_file_read(path, &data, &size);
	if (res)
		return res;
	res = library_load(out, data, size, options, values, count,
			   library_options, library_count);
	free(data);
	return res;
}

CUresult
cuLibraryUnload(CUlibrary handle)
{
	struct soft_library *library;
	CUresult res = library_from(handle, &library);
	struct soft_module *next;
	bool drain = !soft_relaxed(SOFT_RELAX_FREE);

	if (!res)
		res = soft_capture_forbids();
	if (res)
		return res;
	if (drain)
		res = soft_gate_drain(true);
	if (!res && !soft_handle_del(library, SOFT_HANDLE_LIBRARY))
		res = CUDA_ERROR_INVALID_HANDLE;
	if (!res) {
		pthread_mutex_lock(&soft_module_lock);
		for (struct soft_module *m = library->modules; m; m = next) {
			next = m->next;
			soft_module_free_locked(m);
		}
		soft_library_unref_locked(library);
		pthread_mutex_unlock(&soft_module_lock);
	}
	if (drain)
		soft_gate_open(true);
	soft_print_flush();
	return res;
}

CUresult
cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
	struct soft_library *library;
	CUresult res = library_from(handle, &library);

	if (res)
		return res;
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < library->kernel_count; i++)
		if (!strcmp(library->kernels[i].info.name, name)) {
			*out = (CUkernel)&library->kernels[i];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult
cuLibraryGetKernelCount(unsigned int *count, CUlibrary handle)
{
	struct soft_library *library;
	CUresult res = library_from(handle, &library);

	if (res)
		return res;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = library->kernel_count;
	return CUDA_SUCCESS;
}

CUresult
cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count,
			  CUlibrary handle)
{
	struct soft_library *library;
	CUresult res = library_from(handle, &library);

	if (res)
		return res;
	if (!kernels || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && i < library->kernel_count; i++)
		kernels[i] = (CUkernel)&library->kernels[i];
	return CUDA_SUCCESS;
}

/* The library's module in the current context. */
static CUresult
module_here(CUlibrary handle, struct soft_module **out)
{
	struct soft_library *library;
	struct soft_ctx *ctx;
	CUresult res = library_from(handle, &library);

	if (!res)
		res = soft_enter_ctx(&ctx);
	return res ? res : soft_module_in(library, ctx, true, out);
}

CUresult
cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
	struct soft_module *module;
	CUresult res = module_here(handle, &module);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUmodule)module;
	return CUDA_SUCCESS;
}

static CUresult
variable_of(CUlibrary handle, const char *name, bool managed,
	    CUdeviceptr *dptr, size_t *bytes)
{
	struct soft_module *module;
	struct soft_variable *variable;
	CUresult res = module_here(handle, &module);

	if (res)
		return res;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	variable = soft_module_variable(module, name);
	if (!variable || (managed && !variable->managed))
		return CUDA_ERROR_NOT_FOUND;
	if (dptr)
		*dptr = variable->addr;
	if (bytes)
		*bytes = variable->size;
	return CUDA_SUCCESS;
}

CUresult
cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary handle,
		   const char *name)
{
	return variable_of(handle, name, false, dptr, bytes);
}

CUresult
cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary handle,
		    const char *name)
{
	return variable_of(handle, name, true, dptr, bytes);
}

static CUresult
kernel_from(CUkernel handle, struct soft_kernel **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_KERNEL);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult
cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
	struct soft_kernel *kernel;
	struct soft_module *module;
	struct soft_ctx *ctx;
	CUresult res = kernel_from(handle, &kernel);

	if (!res)
		res = soft_enter_ctx(&ctx);
	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_module_in(kernel->library, ctx, true, &module);
	if (!res)
		*out = (CUfunction)&module->funcs[kernel->index];
	return res;
}

CUresult
cuKernelGetLibrary(CUlibrary *out, CUkernel handle)
{
	struct soft_kernel *kernel;
	CUresult res = kernel_from(handle, &kernel);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUlibrary)kernel->library;
	return CUDA_SUCCESS;
}

CUresult
cuKernelGetName(const char **name, CUkernel handle)
{
	struct soft_kernel *kernel;
	CUresult res = kernel_from(handle, &kernel);

	if (res)
		return res;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = kernel->info.name;
	return CUDA_SUCCESS;
}

CUresult
cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset,
		     size_t *size)
{
	struct soft_kernel *kernel;
	CUresult res = kernel_from(handle, &kernel);

	return res ? res : soft_param_info(&kernel->info, index, offset, size);
}

CUresult
cuKernelGetAttribute(int *value, CUfunction_attribute attr, CUkernel handle,
		     CUdevice dev)
{
	struct soft_kernel *kernel;
	CUresult res = kernel_from(handle, &kernel);

	if (res)
		return res;
	if (!soft_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return soft_attr_get(&kernel->info, &kernel->attrs, attr, value);
}

CUresult
cuKernelSetAttribute(CUfunction_attribute attr, int value, CUkernel handle,
		     CUdevice dev)
{
	struct soft_kernel *kernel;
	CUresult res = kernel_from(handle, &kernel);

	if (res)
		return res;
	if (!soft_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return soft_attr_set(&kernel->info, &kernel->attrs, attr, value);
}

CUresult
cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice dev)
{
	struct soft_kernel *kernel;
	CUresult res = kernel_from(handle, &kernel);

	if (res)
		return res;
	if (!soft_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	/* A preference, and there is no cache to prefer. */
	return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ?
	       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
