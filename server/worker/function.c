/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a module: functions, globals, names. All of it on the gate's
 * thread, because the first use of any of it may load the code.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/function.h"
#include "server/worker/jit.h"
#include "server/worker/module.h"
#include "server/worker/risk.h"
#include "server/worker/taken.h"

struct wkr_module *
wkr_module_ref(struct wkr_client *client, uint64_t handle)
{
	struct wkr_module *m;

	pthread_mutex_lock(&client->lock);
	m = handle_get(client->table, HANDLE_MODULE, handle);
	if (m && !m->loaded)
		m = NULL;
	if (m)
		atomic_fetch_add(&m->refs, 1);
	pthread_mutex_unlock(&client->lock);
	return m;
}

struct wkr_function *
wkr_function_ref(struct wkr_client *client, uint64_t handle)
{
	struct wkr_function *f;

	pthread_mutex_lock(&client->lock);
	f = handle_get(client->table, HANDLE_FUNCTION, handle);
	if (f)
		atomic_fetch_add(&f->module->refs, 1);
	pthread_mutex_unlock(&client->lock);
	return f;
}

static bool
has_clusters(const struct function_info *info)
{
	return info->attributes[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] ||
	       info->attributes[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
}

static void
read_attributes(CUfunction f, struct function_info *info)
{
	for (int i = 0; i < FUNCTION_ATTRIBUTES; i++) {
		int value = 0;

		if (wkr_ok(wkr.drv.cuFuncGetAttribute(&value,
						      (CUfunction_attribute)i,
						      f)) != CUDA_SUCCESS)
			continue;
		info->attributes[i] = value;
		info->attribute_mask |= 1u << i;
	}
}

/* Layout of the parameter block. False: more than a reply can say. */
static bool
read_params(CUfunction f, struct function_info *info)
{
	uint32_t n = 0;
	size_t offset, size;

	while (wkr_ok(wkr.drv.cuFuncGetParamInfo(f, n, &offset, &size)) ==
	       CUDA_SUCCESS) {
		if (n == FUNCTION_PARAMS_MAX)
			return false;
		info->params[n].offset = (uint32_t)offset;
		info->params[n].size = (uint32_t)size;
		if (offset + size > info->param_bytes)
			info->param_bytes = (uint32_t)(offset + size);
		n++;
	}
	info->nparams = n;
	return true;
}

/* Attributes are virtual per client: the driver's copy allows all that
 * any client may ask for, and the shim keeps what it did ask for. */
static void
allow_all(CUfunction f, const struct function_info *info)
{
	int fixed = info->attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
	int most = wkr.shared_optin - fixed;

	if (most >
	    info->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])
		wkr_ok(wkr.drv.cuFuncSetAttribute(
			f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			most));
	/* Refused, and not missed, where there are no clusters. */
	wkr_ok(wkr.drv.cuFuncSetAttribute(
		f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
}

/* A library may hold kernels that the device cannot run, and never launch
 * one: they have attributes, and only a launch fails. */
static void
note_missing_code(struct wkr_module *m, const char *name,
		  struct function_info *info)
{
	info->launch_error = CUDA_ERROR_NO_BINARY_FOR_GPU;
	if (m->warned)
		return;
	m->warned = true;
	log_line(LOG_WARN,
		 "client %llu: kernel %.200s is machine code only, "
		 "which this device cannot run: its launches, and those of "
		 "others in its module, answer 209",
		 (unsigned long long)m->client->id, name);
}

static CUresult
ask_driver(struct wkr_module *m, const char *name, CUfunction *out,
	   struct function_info *info)
{
	CUresult r;

	r = wkr_ok(wkr.drv.cuModuleGetFunction(out, m->native, name));
	if (r != CUDA_SUCCESS)
		return r;
	/* First use loads the code: here, not at a launch. A driver
	 * without cuFuncLoad has no lazy loading. */
	r = wkr_ok(wkr.drv.cuFuncLoad(*out));
	if (r == CUDA_ERROR_NO_BINARY_FOR_GPU)
		note_missing_code(m, name, info);
	else if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_SUPPORTED)
		return r;
	m->code->used = true;
	read_attributes(*out, info);
	if (!read_params(*out, info))
		return CUDA_ERROR_NOT_SUPPORTED;
	allow_all(*out, info);
	return CUDA_SUCCESS;
}

static CUresult
get_function(struct wkr_module *m, const char *name, CUfunction *out,
	     struct function_info *info)
{
	CUresult r;

	if (!wkr_risk_begin(m->client, RISK_FUNCTION, m->code->hash,
			    wkr_risk_name(name)))
		return CUDA_ERROR_INVALID_IMAGE;
	r = ask_driver(m, name, out, info);
	wkr_risk_end();
	return r;
}

static struct wkr_kernel *
known_kernel(const struct wkr_code *code, const char *name)
{
	struct wkr_kernel *k = code->kernels;

	while (k && strcmp(k->name, name) != 0)
		k = k->next;
	return k;
}

/* So that the next client to ask need not wait for the driver. */
static struct wkr_kernel *
keep_kernel(struct wkr_code *code, const char *name, CUfunction native,
	    const struct function_info *info)
{
	size_t size = FUNCTION_INFO_SIZE(info->nparams);
	struct wkr_kernel *k = malloc(sizeof(*k) + strlen(name) + 1);

	if (!k)
		return NULL;
	k->info = malloc(size);
	if (!k->info) {
		free(k);
		return NULL;
	}
	memcpy(k->info, info, size);
	strcpy(k->name, name);
	k->native = native;
	k->printer = (struct wkr_printer){0};
	k->next = code->kernels;
	code->kernels = k;
	return k;
}

static uint32_t
local_bytes(const struct function_info *info)
{
	int bytes = info->attributes[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES];

	return bytes > 0 ? (uint32_t)bytes : 0;
}

static CUresult
find_kernel(struct wkr_module *m, const char *name, struct wkr_kernel **out)
{
	_cleanup_free_ struct function_info *full = NULL;
	CUfunction native;
	CUresult r;

	*out = known_kernel(m->code, name);
	if (*out)
		return wkr_taken_local(m->client, local_bytes((*out)->info)) ?
		       CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	full = calloc(1, sizeof(*full));
	if (!full)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = get_function(m, name, &native, full);
	if (r == CUDA_SUCCESS && !wkr_taken_local(m->client, local_bytes(full)))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS)
		r = wkr_local_want(local_bytes(full));
	if (r != CUDA_SUCCESS)
		return r;
	*out = keep_kernel(m->code, name, native, full);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult
put_function(struct wkr_call *call, struct wkr_module *m, uint64_t handle,
	     struct wkr_kernel *k)
{
	struct wkr_client *client = call->client;
	struct wkr_function *f = calloc(1, sizeof(*f));
	CUresult r;

	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	f->native = k->native;
	f->module = m;
	f->handle = handle;
	f->param_bytes = k->info->param_bytes;
	f->clusters = has_clusters(k->info);
	f->printer = m->printing ? &k->printer : NULL;
	atomic_store(&f->ready, true);
	r = wkr_put_new(call, HANDLE_FUNCTION, handle, f);
	if (r != CUDA_SUCCESS) {
		free(f);
		return r;
	}
	pthread_mutex_lock(&client->lock);
	f->next = m->functions;
	m->functions = f;
	client->nfunctions++;
	pthread_mutex_unlock(&client->lock);
	return CUDA_SUCCESS;
}

/* Copy what fits; the size says how much that is. */
static void
give_info(const struct function_info *info, void *out, size_t *size)
{
	size_t whole = FUNCTION_INFO_SIZE(info->nparams);

	if (!out)
		return;
	if (*size > whole)
		*size = whole;
	memcpy(out, info, *size);
}

CUresult
wkr_function_read(struct wkr_function *f)
{
	struct wkr_kernel *k;
	CUresult r = find_kernel(f->module, f->name, &k);

	if (r != CUDA_SUCCESS)
		return r;
	f->native = k->native;
	f->param_bytes = k->info->param_bytes;
	f->clusters = has_clusters(k->info);
	f->printer = f->module->printing ? &k->printer : NULL;
	return CUDA_SUCCESS;
}

/* Its answer was lost with another worker. */
static bool
was_made(struct wkr_client *client, const struct wkr_module *m,
	 uint64_t function)
{
	struct wkr_function *f;
	bool yes;

	pthread_mutex_lock(&client->lock);
	f = handle_get(client->table, HANDLE_FUNCTION, function);
	yes = f && f->name && f->module == m;
	pthread_mutex_unlock(&client->lock);
	return yes;
}

static CUresult
make_function(struct wkr_call *call, struct wkr_module *m, const char *name,
	      uint64_t function, void *info, size_t *info_size)
{
	struct wkr_kernel *k;
	CUresult r = find_kernel(m, name, &k);

	if (r == CUDA_SUCCESS && !was_made(call->client, m, function)) {
		r = put_function(call, m, function, k);
		if (r == CUDA_SUCCESS)
			wkr_journal_function(m, function, name);
	}
	if (r == CUDA_SUCCESS)
		give_info(k->info, info, info_size);
	return r;
}

CUresult
wkr_mpsModuleFunction(struct wkr_call *call, uint64_t module, const char *name,
		      uint64_t function, void *info, size_t *info_size,
		      uint32_t info_cap)
{
	struct wkr_module *m;
	CUresult r = WKR_AGAIN;

	(void)info_cap;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	m = wkr_module_ref(call->client, module);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_module_wake(m);
	if (r == CUDA_SUCCESS && !m->code->used && !wkr_gate_enter())
		r = WKR_AGAIN;
	if (r == CUDA_SUCCESS)
		r = make_function(call, m, name, function, info, info_size);
	wkr_module_unref(m);
	return r;
}

/* The client may have the driver copy from and to it. */
static CUresult
own_global(struct wkr_client *client, struct wkr_module *m, uint64_t address,
	   uint64_t size)
{
	struct wkr_range *range;
	bool owned;
	int r;

	pthread_mutex_lock(&client->lock);
	owned = wkr_ranges_cover(&client->ranges, address, size);
	pthread_mutex_unlock(&client->lock);
	if (owned || !size)
		return CUDA_SUCCESS;
	range = calloc(1, sizeof(*range));
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*range = (struct wkr_range){
		.base = address,
		.size = size,
		.kind = WKR_GLOBAL,
		.owner = m,
	};
	pthread_mutex_lock(&client->lock);
	/* Unloaded meanwhile: then the address means nothing any more. */
	r = handle_get(client->table, HANDLE_MODULE, m->handle) == m
		    ? wkr_ranges_add(&client->ranges, range)
		    : -ENOENT;
	pthread_mutex_unlock(&client->lock);
	if (r < 0)
		free(range);
	return r == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult
ask_address(struct wkr_module *m, const struct wkr_code *code,
	    const char *name, CUdeviceptr *at, size_t *bytes)
{
	CUresult r;

	if (!wkr_risk_begin(m->client, RISK_GLOBAL, code->hash,
			    wkr_risk_name(name)))
		return CUDA_ERROR_INVALID_IMAGE;
	r = wkr_ok(wkr.drv.cuModuleGetGlobal_v2(at, bytes, code->native, name));
	wkr_risk_end();
	return r;
}

static CUresult
load_own(struct wkr_module *m, const struct wkr_code *code)
{
	CUmodule native;
	CUresult r = wkr_image_load(m->client, m->image, code->jit, &native);

	if (r != CUDA_SUCCESS)
		return r;
	m->own = wkr_code_create(m->image, code->jit, native, NULL, false);
	return m->own ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * A variable's address gives its client the right to write it. Of code that
 * is shared no kernel writes one (traits.c), but the other clients could read
 * what this one writes: so it gets a load of its own for its variables.
 */
static CUresult
get_global(struct wkr_module *m, const char *name, CUdeviceptr *at,
	   size_t *bytes)
{
	struct wkr_code *code = m->own ? m->own : m->code;
	CUresult r;

	if (!code->used && !wkr_gate_enter())
		return WKR_AGAIN;
	r = ask_address(m, code, name, at, bytes);
	if (r != CUDA_SUCCESS || !code->shared)
		return r;
	if (!wkr_gate_enter())
		return WKR_AGAIN;
	r = load_own(m, code);
	return r == CUDA_SUCCESS ? ask_address(m, m->own, name, at, bytes) : r;
}

CUresult
wkr_mpsModuleGlobal(struct wkr_call *call, uint64_t module, const char *name,
		    uint64_t *address, uint64_t *size)
{
	CUdeviceptr at = 0;
	size_t bytes = 0;
	struct wkr_module *m;
	CUresult r;

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	m = wkr_module_ref(call->client, module);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_module_wake(m);
	if (r == CUDA_SUCCESS)
		r = get_global(m, name, &at, &bytes);
	if (r == CUDA_SUCCESS)
		r = own_global(call->client, m, at, bytes);
	wkr_module_unref(m);
	if (r == CUDA_SUCCESS && address)
		*address = at;
	if (r == CUDA_SUCCESS && size)
		*size = bytes;
	return r;
}

/* NUL-terminated names of functions [first, total), as many as fit. */
static CUresult
give_names(const CUfunction *list, unsigned first, unsigned total, char *out,
	   size_t *size)
{
	size_t used = 0;

	for (unsigned i = first; out && i < total; i++) {
		const char *name = NULL;
		CUresult r = wkr_ok(wkr.drv.cuFuncGetName(&name, list[i]));
		size_t n;

		if (r != CUDA_SUCCESS)
			return r;
		n = strlen(name) + 1;
		if (n > *size - used)
			break;
		memcpy(out + used, name, n);
		used += n;
	}
	*size = used;
	return CUDA_SUCCESS;
}

static CUresult
list_kernels(struct wkr_module *m, uint32_t first, uint32_t *total, void *names,
	     size_t *names_size)
{
	_cleanup_free_ CUfunction *list = NULL;
	unsigned count = 0;
	CUresult r;

	r = wkr_ok(wkr.drv.cuModuleGetFunctionCount(&count, m->native));
	if (r != CUDA_SUCCESS)
		return r;
	list = calloc(count ? count : 1, sizeof(*list));
	if (!list)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (count)
		r = wkr_ok(wkr.drv.cuModuleEnumerateFunctions(list, count,
							      m->native));
	if (total)
		*total = count;
	return r == CUDA_SUCCESS
		       ? give_names(list, first, count, names, names_size)
		       : r;
}

CUresult
wkr_mpsModuleKernels(struct wkr_call *call, uint64_t module, uint32_t first,
		     uint32_t *total, void *names, size_t *names_size,
		     uint32_t names_cap)
{
	struct wkr_module *m = wkr_module_ref(call->client, module);
	CUresult r;

	(void)names_cap;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_module_wake(m);
	if (r == CUDA_SUCCESS &&
	    !wkr_risk_begin(call->client, RISK_NAMES, m->code->hash, 0)) {
		r = CUDA_ERROR_INVALID_IMAGE;
	} else if (r == CUDA_SUCCESS) {
		r = list_kernels(m, first, total, names, names_size);
		wkr_risk_end();
	}
	wkr_module_unref(m);
	return r;
}
