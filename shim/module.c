/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules. The worker loads by hash through its gate; what a launch needs of
 * a function comes in one answer when the function is taken out, and stays.
 */
#include "shim/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/log.h"
#include "shim/chan.h"
#include "shim/claim.h"
#include "shim/ctx.h"
#include "shim/enter.h"
#include "shim/function.h"
#include "shim/library.h"
#include "shim/pool.h"
#include "shim/process.h"
#include "shim/range.h"
#include "shim/solo.h"
#include "shim_calls.h"

/* Leaves room in a reply slot for the frame around it. */
#define NAMES_STEP 12288u

static struct shim_pool pool = SHIM_POOL(struct shim_module, next_free);

uint32_t
shim_name_hash(const char *name)
{
	uint32_t hash = 2166136261u;   /* FNV-1a */

	for (; *name != '\0'; name++)
		hash = (hash ^ (uint8_t)*name) * 16777619u;
	return hash;
}

struct shim_module *
shim_module_get(CUmodule handle)
{
	return shim_object_get(HANDLE_MODULE, (uintptr_t)handle);
}

/* ---- loading ---- */

static void
log_failure(CUresult r, const char *error)
{
	/* Natively it would have loaded: whoever sees it wants to know why. */
	if (r == CUDA_ERROR_NOT_SUPPORTED && error[0] != '\0')
		shim_has_said_why();
	if (error[0] != '\0')
		log_line(r == CUDA_ERROR_NOT_SUPPORTED ? LOG_ERROR : LOG_INFO,
			 "loading code failed with %d: %s", (int)r,
			 error);
}

static CUresult
ask_load(struct shim_module *module, uint32_t kind, char *info,
	 uint32_t info_cap, char error[JIT_LOG_MAX])
{
	const struct shim_code *code = &module->code;

	return call_mpsModuleLoad(module->chan, &module->object.handle,
				  code->hash, sizeof(code->hash), code->size,
				  kind, code->options,
				  code->noptions * sizeof(code->options[0]),
				  &module->kernels, info, info_cap, error,
				  JIT_LOG_MAX - 1);
}

/*
 * The worker that is shared cannot do it: once more in one of our own; or, if
 * there is a reason against that, where it is, if that is better than nothing.
 */
static CUresult
load_solo(struct shim_module *module, uint32_t kind, char *info,
	  uint32_t info_cap, char error[JIT_LOG_MAX])
{
	char why[128], reason[256] = "";
	CUresult r;

	snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, error);
	memset(error, 0, JIT_LOG_MAX);
	if (shim_solo(module->device, why, reason, sizeof(reason)) ==
	    CUDA_SUCCESS)
		return ask_load(module, kind, info, info_cap, error);
	r = ask_load(module, kind | MODULE_STAYS, info, info_cap, error);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		shim_has_said_why();
	/* An allocation of a kernel can fail natively, too. */
	log_line(r == CUDA_SUCCESS ? LOG_INFO : LOG_ERROR, "loading code: %s, "
		 "and this program cannot get a worker of its own any more: "
		 "%s; start it with mpsrun --solo or MPSSHIM_SOLO=1", why,
		 reason);
	return r;
}

static CUresult
load(struct shim_module *module, struct jit_options *jit)
{
	char info[JIT_LOG_MAX], error[JIT_LOG_MAX];
	const struct shim_code *code = &module->code;
	uint32_t info_cap = 0, kind = code->kind;
	CUresult r;

	if (shim_process.perf & SHIM_NO_SHARE)
		kind |= MODULE_ALONE;
	/* The error text is always asked for: the log wants it. */
	info[0] = error[0] = '\0';
	if (jit != NULL && jit->info_cap > 0) {
		memset(info, 0, sizeof(info));
		info_cap = sizeof(info) - 1;
	}
	memset(error, 0, sizeof(error));
	r = ask_load(module, kind, info, info_cap, error);
	if (r == (CUresult)MODULE_WANTS_SOLO)
		r = load_solo(module, kind, info, info_cap, error);
	if (r != CUDA_SUCCESS)
		log_failure(r, error);
	if (jit != NULL)
		jit_finish(jit, info, error);
	return r;
}

CUresult
shim_module_load(struct shim_context *ctx, int device,
		 const struct shim_code *code, struct jit_options *jit,
		 struct shim_module **out_module)
{
	struct shim_module *module = shim_pool_take(&pool);
	CUresult r;

	if (module == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&module->lock, NULL);
	module->object.ctx = ctx;
	module->ctx_id = ctx == NULL ? 0 : ctx->id;
	module->device = device;
	module->code = *code;
	if (jit != NULL) {
		memcpy(module->code.options, jit->values,
		       jit->count * sizeof(jit->values[0]));
		module->code.noptions = jit->count;
	}
	r = shim_chan_get(device, &module->chan);
	if (r == CUDA_SUCCESS &&
	    shim_object_add(HANDLE_MODULE, &module->object) != 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		shim_pool_give(&pool, module);
		return r;
	}
	r = load(module, jit);
	if (r != CUDA_SUCCESS) {
		if (shim_object_remove(HANDLE_MODULE, module->object.handle))
			shim_pool_give(&pool, module);
		return r;
	}
	*out_module = module;
	return CUDA_SUCCESS;
}

/* ---- ending ---- */

static void
forget_globals(struct shim_module *module)
{
	struct shim_range range;

	while (shim_range_remove_any(module->object.ctx, RANGE_GLOBAL,
				     module->object.handle, &range) == 0)
		continue;
}

void
shim_module_end(struct shim_module *module)
{
	if (atomic_exchange(&module->ended, true))
		return;
	/* First there, then here, functions included: see stream.c. */
	call_mpsModuleUnload(module->chan, module->object.handle);
	forget_globals(module);
	pthread_mutex_lock(&module->lock);
	for (unsigned i = 0; i < MODULE_BUCKETS; i++) {
		struct shim_function *function = module->buckets[i];

		while (function != NULL) {
			struct shim_function *next = function->next;

			shim_function_end(function);
			function = next;
		}
		module->buckets[i] = NULL;
	}
	free(module->names);
	free(module->name_text);
	module->names = NULL;
	module->name_text = NULL;
	pthread_mutex_unlock(&module->lock);
	shim_object_remove(HANDLE_MODULE, module->object.handle);
	pthread_mutex_destroy(&module->lock);
	shim_pool_give(&pool, module);
}

void
shim_module_drop_context(struct shim_context *ctx)
{
	struct shim_module *module;
	uint32_t cursor = 0;

	while ((module = shim_object_next(HANDLE_MODULE, ctx, &cursor))) {
		if (module->library != NULL)
			shim_library_forget(module->library, module);
		shim_module_end(module);
	}
}

/* ---- what is inside ---- */

/* The name's function, minted if it is not there yet. */
static struct shim_function *
function_locked(struct shim_module *module, const char *name,
		struct shim_kernel *kernel)
{
	struct shim_function **bucket =
		&module->buckets[shim_name_hash(name) % MODULE_BUCKETS];
	struct shim_function *function = *bucket;

	while (function != NULL && strcmp(function->name, name) != 0)
		function = function->next;
	if (function == NULL) {
		function = shim_function_make(module, name, kernel);
		if (function == NULL)
			return NULL;
		function->next = *bucket;
		*bucket = function;
	}
	return function;
}

static void
unlink_locked(struct shim_module *module, struct shim_function *function)
{
	struct shim_function **at = &module->buckets[
		shim_name_hash(function->name) % MODULE_BUCKETS];

	while (*at != function)
		at = &(*at)->next;
	*at = function->next;
}

CUresult
shim_module_function(struct shim_module *module, const char *name,
		     struct shim_kernel *kernel,
		     struct shim_function **out_function)
{
	struct shim_function *function;
	CUresult r;

	/* A library's functions share the attributes of its kernels. */
	if (module->library != NULL && kernel == NULL) {
		r = shim_kernel_find(module->library, name, &kernel);
		if (r != CUDA_SUCCESS)
			return r;
	}
	/* Asking is inside the lock: of two threads that want one name, the
	 * second finds the answer. */
	pthread_mutex_lock(&module->lock);
	function = function_locked(module, name, kernel);
	if (function == NULL) {
		pthread_mutex_unlock(&module->lock);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = shim_function_load(function);
	if (r != CUDA_SUCCESS) {
		unlink_locked(module, function);
		shim_function_end(function);
	}
	pthread_mutex_unlock(&module->lock);
	if (r == CUDA_SUCCESS)
		*out_function = function;
	return r;
}

/* Append the NUL-separated names of one answer. */
static CUresult
take_names(const char *step, char **text, size_t *size, uint32_t *count)
{
	size_t length = 0;
	char *grown;

	while (length < NAMES_STEP && step[length] != '\0') {
		length += strnlen(step + length, NAMES_STEP - length) + 1;
		(*count)++;
	}
	/* A name that no answer can hold: its kernels cannot be listed. */
	if (length == 0 || length > NAMES_STEP)
		return CUDA_ERROR_NOT_SUPPORTED;
	grown = realloc(*text, *size + length);
	if (grown == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(grown + *size, step, length);
	*text = grown;
	*size += length;
	return CUDA_SUCCESS;
}

static CUresult
fetch_names(struct shim_module *module, char **out_text)
{
	uint32_t count = 0, total = module->kernels;
	CUresult r = CUDA_SUCCESS;
	char step[NAMES_STEP];
	size_t size = 0;

	*out_text = NULL;
	while (r == CUDA_SUCCESS && count < module->kernels) {
		memset(step, 0, sizeof(step));
		r = call_mpsModuleKernels(module->chan, module->object.handle,
					  count, &total, step, sizeof(step));
		if (r == CUDA_SUCCESS)
			r = take_names(step, out_text, &size, &count);
		if (r == CUDA_SUCCESS && count > module->kernels)
			r = CUDA_ERROR_MPS_RPC_FAILURE;
	}
	if (r != CUDA_SUCCESS) {
		free(*out_text);
		*out_text = NULL;
	}
	return r;
}

static CUresult
names_locked(struct shim_module *module)
{
	CUresult r;
	char *text;

	if (module->names != NULL || module->kernels == 0)
		return CUDA_SUCCESS;
	r = fetch_names(module, &text);
	if (r != CUDA_SUCCESS)
		return r;
	module->names = calloc(module->kernels, sizeof(*module->names));
	if (module->names == NULL) {
		free(text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	module->name_text = text;
	for (uint32_t i = 0; i < module->kernels; i++) {
		module->names[i] = text;
		text += strlen(text) + 1;
	}
	return CUDA_SUCCESS;
}

CUresult
shim_module_names(struct shim_module *module, char ***out_names)
{
	CUresult r;

	pthread_mutex_lock(&module->lock);
	r = names_locked(module);
	*out_names = module->names;
	pthread_mutex_unlock(&module->lock);
	return r;
}

/* What a call with this address means must never be a guess. */
static CUresult
claim(const char *name, uint64_t address, uint64_t size)
{
	int r = shim_claim(address, size);

	if (r != CLAIM_E_TAKEN)
		return r ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	log_line(LOG_WARN, "variable %s lies at %#llx on the device, where "
		 "this program has memory of its own: refused", name,
		 (unsigned long long)address);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult
shim_module_global(struct shim_module *module, const char *name,
		   CUdeviceptr *dptr, size_t *bytes)
{
	uint64_t address = 0, size = 0;
	CUresult r;

	r = call_mpsModuleGlobal(module->chan, module->object.handle, name,
				 &address, &size);
	if (r == CUDA_SUCCESS && size > 0)
		r = claim(name, address, size);
	if (r != CUDA_SUCCESS)
		return r;
	if (size > 0) {
		struct shim_range range = {
			.start = address, .size = size, .kind = RANGE_GLOBAL,
			.device = module->device, .ctx = module->object.ctx,
			.owner = module->object.handle,
		};

		/* Asked before: it is there already. */
		if (shim_range_add(&range) < 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (dptr != NULL)
		*dptr = address;
	if (bytes != NULL)
		*bytes = size;
	return CUDA_SUCCESS;
}
