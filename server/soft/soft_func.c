/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions: attributes, parameters, names.
 */
#include "server/soft/soft_func.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Guards attributes that are set and read by different threads. */
static pthread_mutex_t attr_lock = PTHREAD_MUTEX_INITIALIZER;

const struct soft_func_attrs *
soft_func_attrs(const struct soft_func *func)
{
	return func->own_attrs ? &func->attrs : &func->kernel->attrs;
}

const struct soft_kernel_info *
soft_func_info(const struct soft_func *func)
{
	return &func->kernel->info;
}

CUresult
soft_attr_get(const struct soft_kernel_info *info,
	      const struct soft_func_attrs *attrs, CUfunction_attribute attr,
	      int *out)
{
	struct soft_func_attrs now;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&attr_lock);
	now = *attrs;
	pthread_mutex_unlock(&attr_lock);
	switch (attr) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*out = (int)info->max_threads;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*out = (int)info->shared_static;
		break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*out = (int)info->const_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*out = (int)info->local_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*out = (int)info->regs;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*out = (int)info->target;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*out = 90;
		break;
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
		*out = 0;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*out = now.max_dynamic_shared;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*out = now.carveout;
		break;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		*out = now.cluster_must_be_set;
		break;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		*out = now.required_cluster[attr -
			CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
		break;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		*out = now.non_portable_cluster;
		break;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*out = now.cluster_scheduling;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult
set_locked(const struct soft_kernel_info *info, struct soft_func_attrs *attrs,
	   CUfunction_attribute attr, int value)
{
	switch (attr) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || (size_t)value + info->shared_static >
				 SOFT_SHARED_OPTIN)
			return CUDA_ERROR_INVALID_VALUE;
		attrs->max_dynamic_shared = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		attrs->carveout = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		/* A size that was fixed at compile time stays. */
		if (value < 0 || info->req_cluster[0])
			return CUDA_ERROR_INVALID_VALUE;
		attrs->required_cluster[attr -
			CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		attrs->non_portable_cluster = value != 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		if (value < 0 ||
		    value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
			return CUDA_ERROR_INVALID_VALUE;
		attrs->cluster_scheduling = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
soft_attr_set(const struct soft_kernel_info *info,
	      struct soft_func_attrs *attrs, CUfunction_attribute attr,
	      int value)
{
	CUresult res;

	pthread_mutex_lock(&attr_lock);
	res = set_locked(info, attrs, attr, value);
	pthread_mutex_unlock(&attr_lock);
	return res;
}

CUresult
soft_param_info(const struct soft_kernel_info *info, size_t index,
		size_t *offset, size_t *size)
{
	if (!offset || index >= info->nparams)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = info->params[index].offset;
	if (size)
		*size = info->params[index].size;
	return CUDA_SUCCESS;
}

CUresult
soft_func_from(CUfunction handle, struct soft_ctx *ctx, struct soft_func **out)
{
	struct soft_kernel *kernel;
	struct soft_module *module;
	CUresult res;

	switch (soft_handle_type(handle)) {
	case SOFT_HANDLE_FUNC:
		*out = (struct soft_func *)handle;
		return CUDA_SUCCESS;
	case SOFT_HANDLE_KERNEL:
		kernel = (struct soft_kernel *)handle;
		if (!ctx)
			return CUDA_ERROR_INVALID_CONTEXT;
		res = soft_module_in(kernel->library, ctx, true, &module);
		if (!res)
			*out = &module->funcs[kernel->index];
		return res;
	default:
		soft_follow(!handle);
		return CUDA_ERROR_INVALID_HANDLE;
	}
}

/* Unlike a launch these take functions only, no kernels (measured). */
static CUresult
func_from(CUfunction handle, struct soft_func **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_FUNC);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult
cuFuncGetAttribute(int *value, CUfunction_attribute attr, CUfunction handle)
{
	struct soft_func *func;
	CUresult res = func_from(handle, &func);

	return res ? res : soft_attr_get(soft_func_info(func),
					 soft_func_attrs(func), attr, value);
}

CUresult
cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attr, int value)
{
	struct soft_func *func;
	CUresult res = func_from(handle, &func);

	if (res)
		return res;
	soft_follow((int)attr >= 0);
	/* From the first set on, the function's attributes are its own. */
	pthread_mutex_lock(&attr_lock);
	if (!func->own_attrs) {
		func->attrs = func->kernel->attrs;
		func->own_attrs = true;
	}
	res = set_locked(soft_func_info(func), &func->attrs, attr, value);
	pthread_mutex_unlock(&attr_lock);
	return res;
}

CUresult
cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
	struct soft_func *func;
	CUresult res = func_from(handle, &func);

	if (res)
		return res;
	return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ?
	       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult
cuFuncGetModule(CUmodule *out, CUfunction handle)
{
	struct soft_func *func;
	CUresult res = func_from(handle, &func);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUmodule)func->module;
	return CUDA_SUCCESS;
}

CUresult
cuFuncGetName(const char **name, CUfunction handle)
{
	struct soft_func *func;
	CUresult res = func_from(handle, &func);

	if (res)
		return res;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = soft_func_info(func)->name;
	return CUDA_SUCCESS;
}

CUresult
cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset,
		   size_t *size)
{
	struct soft_func *func;
	CUresult res = func_from(handle, &func);

	return res ? res : soft_param_info(soft_func_info(func), index, offset,
					   size);
}

/* A module's code is in its context from the load on. */
CUresult
cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
	struct soft_func *func;
	CUresult res = func_from(handle, &func);

	if (res)
		return res;
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult
cuFuncLoad(CUfunction handle)
{
	struct soft_func *func;
	CUresult res = func_from(handle, &func);

	if (res)
		return res;
	if (!strcmp(soft.use_fault, soft_func_info(func)->name))
		raise(SIGSEGV);
	return func->ptx ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}
