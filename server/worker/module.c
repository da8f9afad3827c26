/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules. Loading runs on the gate's thread; an unload has its place in the
 * ordered ring and its driver call on the reaper's.
 */
#include "server/worker/batch.h"
#include "server/worker/module.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/function.h"
#include "server/worker/compile.h"
#include "server/worker/crash.h"
#include "server/worker/jit.h"
#include "server/worker/risk.h"

/* How long a handle may still belong to an unload that has not come through
 * the ordered ring. */
#define REUSE_WAIT_NS UINT64_C(10000000000)

static void
unload(struct wkr_module *m)
{
	if (m->code)
		wkr_code_unref(m->code);
	if (m->own)
		wkr_code_unref(m->own);
	if (m->image)
		wkr_image_unref(m->image);
}

/* What of it unloads nothing. Is that all? */
static bool
let_go(struct wkr_module *m)
{
	if (m->code && wkr_code_let_go(m->code))
		m->code = NULL;
	if (m->own && wkr_code_let_go(m->own))
		m->own = NULL;
	return !m->code && !m->own;
}

void
wkr_module_free(struct wkr_module *m)
{
	struct wkr_function *f;

	while ((f = m->functions)) {
		m->functions = f->next;
		free(f->name);
		free(f);
	}
	if (m->dormant)
		wkr_image_unref(m->dormant);
	free(m->options);
	free(m);
}

struct unloading {
	struct wkr_job job;
	struct wkr_module *module;
};

static enum wkr_job_result
unload_job(struct wkr_job *job)
{
	struct unloading *j = (struct unloading *)job;
	struct wkr_client *client = j->module->client;

	wkr_at_work(client, "an unload");
	/* cuLibraryUnload stalls neighbours, cuModuleUnload waits. Of code that
	 * stays nobody has to notice. */
	if (!let_go(j->module) && !wkr_gate_enter())
		return WKR_JOB_AGAIN;
	unload(j->module);
	wkr_module_free(j->module);
	free(j);
	wkr_client_unpin(client);
	return WKR_JOB_DONE;
}

void
wkr_module_unref(struct wkr_module *m)
{
	struct unloading *j;

	if (atomic_fetch_sub(&m->refs, 1) != 1)
		return;
	j = calloc(1, sizeof(*j));
	if (!j) {
		log_line(LOG_ERROR, "out of memory: a module stays loaded");
		return;
	}
	j->job.run = unload_job;
	j->module = m;
	wkr_client_pin(m->client);
	wkr_queue_add(&wkr.reaper, &j->job);
}

void
wkr_modules_drop(struct wkr_client *client)
{
	struct wkr_module *m;

	while ((m = client->modules)) {
		struct wkr_range *range;

		client->modules = m->next;
		while ((range = wkr_ranges_take_owned(&client->ranges, m)))
			free(range);
		unload(m);
		wkr_module_free(m);
	}
}

/* ---- loading */

/* JIT options that are plain values; the others are addresses of the
 * client's or the place of an answer. */
static bool
is_plain_option(uint32_t option)
{
	switch (option) {
	case CU_JIT_MAX_REGISTERS:
	case CU_JIT_OPTIMIZATION_LEVEL:
	case CU_JIT_TARGET_FROM_CUCONTEXT:
	case CU_JIT_TARGET:
	case CU_JIT_FALLBACK_STRATEGY:
	case CU_JIT_GENERATE_DEBUG_INFO:
	case CU_JIT_LOG_VERBOSE:
	case CU_JIT_GENERATE_LINE_INFO:
	case CU_JIT_CACHE_MODE:
	case CU_JIT_LTO:
	case CU_JIT_FTZ:
	case CU_JIT_PREC_DIV:
	case CU_JIT_PREC_SQRT:
	case CU_JIT_FMA:
	case CU_JIT_POSITION_INDEPENDENT_CODE:
	case CU_JIT_MIN_CTA_PER_SM:
	case CU_JIT_MAX_THREADS_PER_BLOCK:
	case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
		return true;
	default:
		return false;
	}
}

static void
add_option(struct wkr_jit *o, CUjit_option name, const void *value)
{
	o->names[o->count] = name;
	o->values[o->count++] = (void *)value;
}

CUresult
wkr_jit_read(const uint8_t *bytes, size_t size, struct wkr_jit *out)
{
	struct {
		uint32_t option, zero;
		uint64_t value;
	} o;

	out->count = 0;
	if (size % sizeof(o) || size / sizeof(o) > WKR_JIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t at = 0; at < size; at += sizeof(o)) {
		memcpy(&o, bytes + at, sizeof(o));
		if (!is_plain_option(o.option))
			return CUDA_ERROR_INVALID_VALUE;
		add_option(out, (CUjit_option)o.option,
			   (void *)(uintptr_t)o.value);
	}
	return CUDA_SUCCESS;
}

/* A compiler log of the driver, to be sent back. */
void
wkr_jit_add_log(struct wkr_jit *o, CUjit_option buffer, CUjit_option length,
		void *out, size_t cap)
{
	if (!out || !cap)
		return;
	add_option(o, buffer, out);
	add_option(o, length, (void *)(uintptr_t)cap);
}

static void
trim_log(const char *text, size_t *size)
{
	if (text)
		*size = strnlen(text, *size);
}

/* Several fatbins, as an array of them. NULL: the lengths are wrong. */
static const void **
read_fatbins(const struct wkr_image *image)
{
	const uint8_t *data = image->data;
	uint64_t at, sizes;
	const void **list;
	uint32_t count;

	if (image->size < 8)
		return NULL;
	memcpy(&count, data, sizeof(count));
	sizes = 8;
	at = 8 + (uint64_t)count * 8;
	if (!count || count > 65536 || at > image->size)
		return NULL;
	list = calloc(count + 1, sizeof(*list));
	for (uint32_t i = 0; list && i < count; i++) {
		uint64_t size;

		memcpy(&size, data + sizes + i * 8, sizeof(size));
		if (size > image->size - at ||
		    !wkr_image_is_sound(data + at, size)) {
			free(list);
			return NULL;
		}
		list[i] = data + at;
		at += size;
	}
	return list;
}

/* What nvcc makes of several fatbins: the main one and a list of those that
 * were linked before. */
static CUresult
load_wrapper(const struct wkr_image *image, struct wkr_jit *o,
	     CUlibrary *library, CUmodule *native)
{
	const void **list = read_fatbins(image);
	struct {
		uint32_t magic, version;
		const void *main, *others;
	} wrapper = {.magic = 0x466243b1, .version = 2};
	CUresult r;

	if (!list)
		return CUDA_ERROR_INVALID_IMAGE;
	wrapper.main = list[0];
	wrapper.others = list + 1;
	r = wkr_ok(wkr.drv.cuLibraryLoadData(library, &wrapper, o->names,
					     o->values, o->count, NULL, NULL,
					     0));
	free(list);
	if (r != CUDA_SUCCESS)
		return r;
	r = wkr_ok(wkr.drv.cuLibraryGetModule(native, *library));
	if (r != CUDA_SUCCESS)
		wkr_ok(wkr.drv.cuLibraryUnload(*library));
	return r;
}

/* What the driver is given. Logs are asked for by options of their own, not
 * by those that tell loads apart. */
static CUresult
load_native(const struct wkr_image *image, bool wrapper, struct wkr_jit *o,
	    CUlibrary *library, CUmodule *native)
{
	atomic_fetch_add(&wkr.image_loads, 1);
	*library = NULL;
	if (wrapper)
		return load_wrapper(image, o, library, native);
	return wkr_ok(wkr.drv.cuModuleLoadDataEx(native, image->data, o->count,
						 o->names, o->values));
}

static void
add_traits(struct wkr_traits *to, struct wkr_traits more)
{
	to->shares &= more.shares;
	to->variables |= more.variables;
	to->state |= more.state;
	to->prints |= more.prints;
	to->heap |= more.heap;
	to->launches |= more.launches;
	if (!to->managed)
		memcpy(to->managed_name, more.managed_name,
		       sizeof(to->managed_name));
	to->managed |= more.managed;
}

static CUresult
traits_of(const struct wkr_image *image, bool wrapper, struct wkr_traits *out)
{
	const void **list;

	if (!wrapper) {
		if (!wkr_image_is_sound(image->data, image->size))
			return CUDA_ERROR_INVALID_IMAGE;
		*out = wkr_image_traits(image->data, image->size, wkr.sm);
		return CUDA_SUCCESS;
	}
	list = read_fatbins(image);
	if (!list)
		return CUDA_ERROR_INVALID_IMAGE;
	*out = (struct wkr_traits){.shares = true};
	for (const void **fatbin = list; *fatbin; fatbin++) {
		const uint8_t *data = *fatbin;

		add_traits(out, wkr_image_traits(data, image->size -
						 (size_t)(data - image->data),
						 wkr.sm));
	}
	free(list);
	return CUDA_SUCCESS;
}

/* The gate's: looks into an image once. */
static CUresult
look(struct wkr_image *image, bool wrapper)
{
	CUresult r;

	if (image->looked)
		return CUDA_SUCCESS;
	r = traits_of(image, wrapper, &image->traits);
	if (r != CUDA_SUCCESS)
		return r;
	/* What they refer to in one another is not followed. */
	if (wrapper)
		image->traits.shares = false;
	image->looked = true;
	return CUDA_SUCCESS;
}

/* What cannot be looked into is taken to have some. */
const char *
wkr_module_state(const struct wkr_image *image, uint32_t kind)
{
	bool wrapper = (kind & ~MODULE_FLAGS) == MODULE_FATBINS;
	struct wkr_traits traits;

	if (traits_of(image, wrapper, &traits) != CUDA_SUCCESS || traits.state)
		return "its code has variables on the device, whose content "
		       "is lost";
	return traits.heap ? "its kernels have used the device heap, whose "
			     "content is lost" : NULL;
}

CUresult
wkr_put_new(struct wkr_call *call, enum handle_kind kind, uint64_t handle,
	    void *object)
{
	int r = wkr_put_if_free(call->client, kind, handle, object);

	if (r == 0)
		return CUDA_SUCCESS;
	if (r == -EEXIST && wkr_now_ns() - call->since_ns < REUSE_WAIT_NS)
		return WKR_AGAIN;
	return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
			    : CUDA_ERROR_INVALID_HANDLE;
}

void
wkr_module_list(struct wkr_module *m)
{
	pthread_mutex_lock(&m->client->lock);
	m->next = m->client->modules;
	m->client->modules = m;
	m->loaded = true;
	pthread_mutex_unlock(&m->client->lock);
}

static uint32_t
count_kernels(const struct wkr_module *m)
{
	unsigned count = 0;

	return wkr_ok(wkr.drv.cuModuleGetFunctionCount(&count, m->native)) ==
			       CUDA_SUCCESS ?
		       count :
		       0;
}

/* Its load was done, and only the answer lost with the other worker. */
static CUresult
load_again(struct wkr_call *call, uint64_t handle, uint32_t *kernels)
{
	struct wkr_module *m = wkr_module_ref(call->client, handle);
	CUresult r;

	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_module_wake(m);
	if (r == CUDA_SUCCESS && kernels)
		*kernels = count_kernels(m);
	wkr_module_unref(m);
	return r;
}

static bool
was_loaded(struct wkr_client *client, uint64_t handle)
{
	struct wkr_module *m;
	bool yes;

	pthread_mutex_lock(&client->lock);
	m = handle_get(client->table, HANDLE_MODULE, handle);
	yes = m && m->loaded && m->restored;
	pthread_mutex_unlock(&client->lock);
	return yes;
}

/* What a call of wkr_mpsModuleLoad asks for. */
struct load {
	struct wkr_image *image;
	bool wrapper, alone;
	bool told;	      /* the caller wants the compiler's report */
	bool refused;	      /* it has ended workers */
	char *info, *error;   /* for the compiler's words, or NULL */
	size_t info_cap, error_cap;
	const char *why;      /* it wants a worker of its client's own */
	struct wkr_jit plain; /* options that tell loads apart */
	struct wkr_jit all;   /* with the logs */
};

static void
say(char *out, size_t cap, const char *text)
{
	if (out && cap)
		snprintf(out, cap, "%s", text);
}

/* A worker has ended over it: another process compiles it. */
static CUresult
load_with_care(struct load *l, CUlibrary *library, CUmodule *native)
{
	struct wkr_compiled compiled;
	CUresult r = CUDA_SUCCESS;
	int e = wkr_compile(l->image, &l->plain, &compiled, &r);

	*library = NULL;
	if (e == WKR_COMPILE_E_NOT_TRIED) {
		r = load_native(l->image, l->wrapper, &l->all, library, native);
	} else if (e == WKR_COMPILE_E_CRASHED) {
		l->refused = true;
		r = CUDA_ERROR_INVALID_IMAGE;
	} else {
		say(l->info, l->info_cap, compiled.info);
		say(l->error, l->error_cap, compiled.error);
		atomic_fetch_add(&wkr.image_loads, 1);
		if (r == CUDA_SUCCESS)
			r = wkr_ok(wkr.drv.cuModuleLoadData(native,
							    compiled.code));
	}
	wkr_compiled_drop(&compiled);
	return r;
}

static CUresult
load_new(const struct wkr_client *client, struct load *l, CUlibrary *library,
	 CUmodule *native)
{
	const uint8_t *hash = l->image->hash;
	CUresult r;

	l->refused = !wkr_risk_begin(client, RISK_LOAD, hash, 0);
	if (l->refused)
		return CUDA_ERROR_INVALID_IMAGE;
	if (wkr_risk_is_suspect(hash) &&
	    wkr_compile_is_for(l->image, l->wrapper))
		r = load_with_care(l, library, native);
	else
		r = load_native(l->image, l->wrapper, &l->all, library, native);
	if (l->refused)
		wkr_risk_fail();
	else
		wkr_risk_end();
	return r;
}

CUresult
wkr_image_load(const struct wkr_client *client, struct wkr_image *image,
	       const struct wkr_jit *jit, CUmodule *native)
{
	struct load l = {.image = image, .plain = *jit, .all = *jit};
	CUlibrary library;

	return load_new(client, &l, &library, native);
}

/* The load of everybody's, or a new one. */
static CUresult
find_code(const struct wkr_client *client, struct load *l,
	  struct wkr_code **out)
{
	bool shares = !l->alone && !l->told && l->image->traits.shares;
	CUlibrary library;
	CUmodule native;
	CUresult r;

	*out = shares ? wkr_code_ref(l->image, &l->plain) : NULL;
	if (*out)
		return CUDA_SUCCESS;
	if (!wkr_gate_enter())
		return WKR_AGAIN;
	r = load_new(client, l, &library, &native);
	if (r != CUDA_SUCCESS)
		return r;
	*out = wkr_code_create(l->image, &l->plain, native, library, shares);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult
load_code(struct wkr_module *m, struct load *l)
{
	CUresult r = find_code(m->client, l, &m->code);

	if (r != CUDA_SUCCESS)
		return r;
	m->native = m->code->native;
	if (m->code->shared && l->image->traits.variables)
		m->image = wkr_image_ref(l->image->hash, WKR_HASH_SIZE);
	return CUDA_SUCCESS;
}

static CUresult
load_and_put(struct wkr_call *call, struct wkr_module *m, struct load *l,
	     uint32_t *kernels)
{
	CUresult r = wkr_put_new(call, HANDLE_MODULE, m->handle, m);

	if (r != CUDA_SUCCESS)
		return r;
	r = load_code(m, l);
	if (r == CUDA_SUCCESS) {
		wkr_module_list(m);
		if (kernels)
			*kernels = count_kernels(m);
		return r;
	}
	pthread_mutex_lock(&m->client->lock);
	handle_remove(m->client->table, HANDLE_MODULE, m->handle);
	pthread_mutex_unlock(&m->client->lock);
	return r;
}

/*
 * The context has one heap, of a size that is fixed at its first use, where
 * what one client leaves is lost to all; and kernels that launch others take
 * multiprocessors from everybody for good. With the first a client may
 * stay where it is, if it must: an allocation can fail natively, too.
 */
static CUresult
check_sharing(const struct wkr_client *client, uint32_t kind,
	      struct load *l)
{
	const struct wkr_traits *traits = &l->image->traits;

	if (wkr.solo || !(traits->heap || traits->launches))
		return CUDA_SUCCESS;
	l->why = traits->launches ? "its kernels launch kernels" :
				    "its kernels use the device heap";
	if (!(kind & MODULE_STAYS))
		return (CUresult)MODULE_WANTS_SOLO;
	log_line(LOG_WARN, "client %llu (pid %d): %s, in the worker that it "
		 "shares: %s", (unsigned long long)client->id, client->pid,
		 l->why, traits->launches ? "refused" : "allowed");
	return traits->launches ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult
read_load(const struct wkr_client *client, uint32_t kind, const void *options,
	  size_t options_size, struct load *l)
{
	CUresult r = wkr_jit_read(options, options_size, &l->plain);

	l->all = l->plain;
	l->alone = kind & MODULE_ALONE;
	l->wrapper = (kind & ~MODULE_FLAGS) == MODULE_FATBINS;
	if (r == CUDA_SUCCESS)
		r = look(l->image, l->wrapper);
	/* As the driver answers, most times: at a third such load driver
	 * 580.159 ended the process. */
	if (r == CUDA_SUCCESS && l->image->traits.untargeted)
		return CUDA_ERROR_INVALID_PTX;
	if (r == CUDA_SUCCESS && l->image->traits.managed) {
		log_line(LOG_WARN, "client %llu (pid %d): an image with the "
			 "managed variable %s is refused",
			 (unsigned long long)client->id, client->pid,
			 l->image->traits.managed_name);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return r == CUDA_SUCCESS ? check_sharing(client, kind, l) : r;
}

CUresult
wkr_module_read(struct wkr_module *m, struct wkr_image *image, uint32_t kind,
		const void *options, size_t options_size)
{
	struct load l = {.image = image};
	CUresult r = read_load(m->client, kind, options, options_size, &l);

	return r == CUDA_SUCCESS ? load_code(m, &l) : r;
}

CUresult
wkr_mpsModuleLoad(struct wkr_call *call, uint64_t module, const void *hash,
		  size_t hash_size, uint64_t image_size, uint32_t kind,
		  const void *options, size_t options_size, uint32_t *kernels,
		  void *info, size_t *info_size, uint32_t info_cap, void *error,
		  size_t *error_size, uint32_t error_cap)
{
	_cleanup_image_ struct wkr_image *image =
		wkr_image_ref(hash, hash_size);
	struct load l = {.image = image};
	struct wkr_module *m;
	CUresult r;

	if (was_loaded(call->client, module))
		return load_again(call, module, kernels);
	if (!image || image->size != image_size ||
	    (kind & ~MODULE_FLAGS) > MODULE_FATBINS)
		return CUDA_ERROR_INVALID_VALUE;
	r = read_load(call->client, kind, options, options_size, &l);
	if (r == (CUresult)MODULE_WANTS_SOLO && error && error_cap)
		snprintf(error, error_cap, "%s", l.why);
	if (r == CUDA_ERROR_NOT_SUPPORTED && image->traits.managed && error &&
	    error_cap)
		snprintf(error, error_cap, "the code has the managed variable %s, "
			 "which the driver would put where this program cannot "
			 "reach it (no worker of its own helps)",
			 image->traits.managed_name);
	if (r != CUDA_SUCCESS) {
		trim_log(error, error_size);
		return r;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->client = call->client;
	m->printing = image->traits.prints;
	m->handle = module;
	atomic_store(&m->refs, 1);
	l.told = info && info_cap;
	l.info = info;
	l.info_cap = info_cap;
	l.error = error;
	l.error_cap = error_cap;
	wkr_jit_add_log(&l.all, CU_JIT_INFO_LOG_BUFFER,
			CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info, info_cap);
	wkr_jit_add_log(&l.all, CU_JIT_ERROR_LOG_BUFFER,
			CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, error, error_cap);
	r = load_and_put(call, m, &l, kernels);
	if (r == CUDA_SUCCESS)
		wkr_journal_module(m, hash, image_size, kind, options,
				   options_size);
	else
		free(m);
	if (l.refused)
		say(error, error_cap, WKR_RISK_TEXT);
	trim_log(info, info_size);
	trim_log(error, error_size);
	return r;
}

/* ---- the lane's part */

static void
forget_functions_locked(struct wkr_module *m)
{
	for (struct wkr_function *f = m->functions; f; f = f->next) {
		if (handle_remove(m->client->table, HANDLE_FUNCTION, f->handle))
			m->client->nfunctions--;
		wkr_journal_drop(m->client, f->handle);
	}
}

static void
unlink_module_locked(struct wkr_module *m)
{
	struct wkr_module **link = &m->client->modules;

	while (*link && *link != m)
		link = &(*link)->next;
	if (*link)
		*link = m->next;
}

CUresult
wkr_mpsModuleUnload(struct wkr_call *call, uint64_t module)
{
	struct wkr_client *client = call->client;
	struct wkr_range *range;
	struct wkr_module *m;

	pthread_mutex_lock(&client->lock);
	m = handle_get(client->table, HANDLE_MODULE, module);
	if (m && !m->loaded)
		m = NULL; /* the gate still has it */
	if (m) {
		handle_remove(client->table, HANDLE_MODULE, module);
		wkr_kits_leave(client, m);
		forget_functions_locked(m);
		unlink_module_locked(m);
		while ((range = wkr_ranges_take_owned(&client->ranges, m)))
			free(range);
	}
	pthread_mutex_unlock(&client->lock);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	wkr_journal_drop(client, module);
	wkr_module_unref(m);
	return CUDA_SUCCESS;
}
