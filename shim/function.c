/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions and their attributes, all answered here once the worker has said
 * what the kernel is.
 */
#include "shim/function.h"

#include <stdlib.h>
#include <string.h>

#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/library.h"
#include "shim/module.h"
#include "shim/pool.h"
#include "shim_calls.h"

static struct shim_pool pool = SHIM_POOL(struct shim_function, next_free);

/* ---- life ---- */

struct shim_function *
shim_function_make(struct shim_module *module, const char *name,
		   struct shim_kernel *kernel)
{
	struct shim_function *function = shim_pool_take(&pool);

	if (function == NULL)
		return NULL;
	function->object.ctx = module->object.ctx;
	function->module = module;
	function->kernel = kernel;
	function->settings = kernel == NULL ? &function->own :
			     &kernel->settings[module->device];
	function->name = strdup(name);
	if (function->name == NULL ||
	    shim_object_add(HANDLE_FUNCTION, &function->object) != 0) {
		free(function->name);
		shim_pool_give(&pool, function);
		return NULL;
	}
	return function;
}

static int
initial(const struct function_info *info, CUfunction_attribute attribute)
{
	return info->attribute_mask >> attribute & 1 ?
	       info->attributes[attribute] : 0;
}

/* Called under the module's lock; a kernel's settings may be filled by two
 * of its functions at once, with equal values. */
static void
settings_begin(struct shim_settings *settings,
	       const struct function_info *info)
{
	if (settings->ready)
		return;
	settings->max_dynamic = -1;
	settings->carveout = -1;
	settings->policy = initial(info,
		CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
	settings->ready = true;
}

/* Fewer parameters than the struct has room for; checked, since layouts
 * decide what we read of the caller's memory. */
static struct function_info *
copy_info(const struct function_info *info)
{
	struct function_info *copy;
	size_t size;

	if (info->nparams > FUNCTION_PARAMS_MAX ||
	    info->param_bytes > LAUNCH_PARAMS_MAX)
		return NULL;
	for (uint32_t i = 0; i < info->nparams; i++) {
		const struct function_param *param = &info->params[i];

		if (param->size > info->param_bytes ||
		    param->offset > info->param_bytes - param->size)
			return NULL;
	}
	size = FUNCTION_INFO_SIZE(info->nparams);
	copy = malloc(size);
	if (copy != NULL)
		memcpy(copy, info, size);
	return copy;
}

CUresult
shim_function_load(struct shim_function *function)
{
	struct shim_module *module = function->module;
	struct function_info info, *copy;
	CUresult r;

	if (atomic_load_explicit(&function->info, memory_order_acquire))
		return CUDA_SUCCESS;
	memset(&info, 0, sizeof(info));
	r = call_mpsModuleFunction(module->chan, module->object.handle,
				   function->name, &function->object.handle,
				   &info, sizeof(info));
	if (r != CUDA_SUCCESS)
		return r;
	copy = copy_info(&info);
	if (copy == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	settings_begin(function->settings, copy);
	/* Release: who sees the layout sees all of it. */
	atomic_store_explicit(&function->info, copy, memory_order_release);
	return CUDA_SUCCESS;
}

void
shim_function_end(struct shim_function *function)
{
	struct shim_function *expected = function;

	if (!shim_object_remove(HANDLE_FUNCTION, function->object.handle))
		return;
	if (function->kernel != NULL)
		atomic_compare_exchange_strong(&function->kernel->last,
					       &expected, NULL);
	free(function->name);
	free(function->info);
	free(function->setup);
	shim_pool_give(&pool, function);
}

CUresult
shim_function_in(CUfunction handle, struct shim_context *ctx,
		 struct shim_function **out_function)
{
	uint64_t value = (uintptr_t)handle;
	struct shim_function *function;
	struct shim_kernel *kernel;

	function = shim_object_get(HANDLE_FUNCTION, value);
	if (__builtin_expect(function != NULL, 1)) {
		*out_function = function;
		return atomic_load_explicit(&function->info,
					    memory_order_acquire) != NULL ?
		       CUDA_SUCCESS : shim_function_load(function);
	}
	kernel = shim_object_get(HANDLE_KERNEL, value);
	if (kernel == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	return shim_kernel_function(kernel, ctx, -1, out_function);
}

CUresult
shim_function_find(CUfunction handle, struct shim_function **out_function)
{
	return shim_function_in(handle, shim_current, out_function);
}

/* ---- attributes ---- */

static int
static_shared(const struct shim_function *function)
{
	return initial(function->info, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
}

int
shim_function_max_dynamic(const struct shim_function *function)
{
	int set = function->settings->max_dynamic;
	int plain;

	if (set >= 0)
		return set;
	plain = shim_device_limits(function->module->device)->shared -
		static_shared(function);
	return plain > 0 ? plain : 0;
}

/* Of the three cluster dimensions: fixed at compile time, or set. */
static int
cluster_size(const struct shim_function *function,
	     CUfunction_attribute attribute)
{
	int fixed = initial(function->info, attribute);

	return fixed > 0 ? fixed : function->settings->cluster[
		attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
}

CUresult
shim_function_attribute(struct shim_function *function,
			CUfunction_attribute attribute, int *out)
{
	const struct shim_settings *settings = function->settings;

	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*out = shim_function_max_dynamic(function);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*out = settings->carveout;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		*out = cluster_size(function, attribute);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		*out = settings->non_portable;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*out = settings->policy;
		return CUDA_SUCCESS;
	default:
		if ((int)attribute < 0 || attribute >= FUNCTION_ATTRIBUTES ||
		    !(function->info->attribute_mask >> attribute & 1))
			return CUDA_ERROR_INVALID_VALUE;
		*out = function->info->attributes[attribute];
		return CUDA_SUCCESS;
	}
}

static CUresult
set_max_dynamic(struct shim_function *function, int value)
{
	int most = shim_device_attribute(function->module->device,
		CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
		static_shared(function);

	if (value < 0 || value > most)
		return CUDA_ERROR_INVALID_VALUE;
	function->settings->max_dynamic = value;
	return CUDA_SUCCESS;
}

static CUresult
set_cluster(struct shim_function *function, CUfunction_attribute attribute,
	    int value)
{
	if (initial(function->info, attribute) > 0)
		return CUDA_ERROR_NOT_PERMITTED;
	if (value < 0)
		return CUDA_ERROR_INVALID_VALUE;
	function->settings->cluster[attribute -
		CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
	return CUDA_SUCCESS;
}

CUresult
shim_function_set(struct shim_function *function,
		  CUfunction_attribute attribute, int value)
{
	struct shim_settings *settings = function->settings;

	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		return set_max_dynamic(function, value);
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < CU_SHAREDMEM_CARVEOUT_DEFAULT ||
		    value > CU_SHAREDMEM_CARVEOUT_MAX_SHARED)
			return CUDA_ERROR_INVALID_VALUE;
		settings->carveout = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		return set_cluster(function, attribute, value);
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		settings->non_portable = value != 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		if (value < 0 ||
		    value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
			return CUDA_ERROR_INVALID_VALUE;
		settings->policy = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
shim_function_param(struct shim_function *function, size_t index,
		    size_t *offset, size_t *size)
{
	const struct function_info *info = function->info;

	if (offset == NULL || index >= info->nparams)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = info->params[index].offset;
	if (size != NULL)
		*size = info->params[index].size;
	return CUDA_SUCCESS;
}
