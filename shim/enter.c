/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prologues that are not fast, refusals, and calls without code of their own.
 */
#include "shim/enter.h"

#include <stdlib.h>
#include <string.h>

#include "api_sigs.h"
#include "proto/log.h"
#include "shim_impl.h"
#include "shim_reasons.h"
#include "shim/object.h"
#include "shim/pool.h"
#include "shim/stream.h"

CUresult
shim_enter_slow(enum api_id id, bool needs_context)
{
	_Atomic uint32_t *live = atomic_load_explicit(&shim_process.live,
						      memory_order_acquire);
	struct shim_context *ctx = shim_current;

	(void)id;
	if (!live)
		return CUDA_ERROR_NOT_INITIALIZED;
	switch ((enum shim_live)atomic_load_explicit(live,
						     memory_order_acquire)) {
	case SHIM_DOWN:
		return CUDA_ERROR_NOT_INITIALIZED;
	case SHIM_FAILED:
		return (CUresult)atomic_load(&shim_process.sticky);
	case SHIM_UP:
		break;
	}
	if (!needs_context)
		return CUDA_SUCCESS;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (atomic_load_explicit(&ctx->dead, memory_order_acquire))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return shim_chan_sticky(ctx->chan);
}

/* Of so many functions the reason is told unasked: who calls more of them
 * has been told enough. */
#define TOLD_MAX 8u

static enum log_level
level_of(const struct shim_reason *reason)
{
	static _Atomic unsigned int told;
	unsigned int before;

	if (reason->quiet || log_enabled(LOG_INFO))
		return LOG_INFO;
	before = atomic_fetch_add_explicit(&told, 1, memory_order_relaxed);
	if (before == TOLD_MAX)
		log_line(LOG_WARN, "more functions are refused: "
			 "MPSSHIM_LOG=info names them");
	return before < TOLD_MAX ? LOG_WARN : LOG_INFO;
}

/*
 * Once a function and process, on stderr without being asked: libraries put
 * codes of their own in the place of ours, and the reason is nowhere else.
 */
static void
tell_why(enum api_id id, CUresult code)
{
	static _Atomic uint8_t said[API_COUNT];
	const struct shim_reason *reason = &shim_reasons[id];
	const char *name = api_names[id], *code_name = "an error";

	if (!log_enabled(reason->quiet ? LOG_INFO : LOG_WARN) ||
	    atomic_exchange_explicit(&said[id], 1, memory_order_relaxed))
		return;
	shim_cuGetErrorName(code, &code_name);
	if (!name)
		log_line(level_of(reason), "a graphics function is refused "
			 "with %s: graphics interoperation needs the device in "
			 "the program's own process", code_name);
	else if (reason->refused)
		log_line(level_of(reason), "%s is refused with %s: %s", name,
			 code_name, reason->text);
	else
		log_line(level_of(reason), "%s is refused in this form, with "
			 "%s (served in part: %s)", name, code_name,
			 reason->text);
}

static __thread bool said_why;

void
shim_has_said_why(void)
{
	said_why = true;
}

CUresult
shim_answer_slow(enum api_id id, CUresult r)
{
	if (r == CUDA_ERROR_NOT_SUPPORTED && shim_reasons[id].text &&
	    !said_why)
		tell_why(id, r);
	said_why = false;
	/* What a program asks again and again is no failure. */
	if (r != CUDA_ERROR_NOT_READY && log_enabled(LOG_DEBUG))
		log_line(LOG_DEBUG, "%s gives %d", api_names[id], (int)r);
	return r;
}

CUresult
shim_refuse(enum api_id id, CUresult code)
{
	tell_why(id, code);
	return code;
}

/* An object that only has a handle: what the shim keeps for functions that
 * need no code of their own. */
struct plain_object {
	struct shim_object object;
	void *link;
};
static struct shim_pool plain_pool = SHIM_POOL(struct plain_object, link);

/* One call's arguments with client handles put in place. */
struct translated {
	void *argv[WIRE_MAX_PARAMS];
	uint64_t values[WIRE_MAX_PARAMS];
	void *pointers[WIRE_MAX_PARAMS];
	struct plain_object *minted[WIRE_MAX_PARAMS];
};

static CUresult
check_handle(const struct wire_param *param, void *arg, uint64_t *out_value)
{
	uint64_t value;

	memcpy(&value, arg, sizeof(value));
	if (param->handle == HANDLE_STREAM)
		return shim_stream_resolve((CUstream)(uintptr_t)value,
					   out_value);
	*out_value = value;
	if (!value && param->flags & WIRE_NULLABLE)
		return CUDA_SUCCESS;
	return shim_object_get((enum handle_kind)param->handle, value) ?
		CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult
mint(const struct wire_param *param, struct translated *t, unsigned i)
{
	struct plain_object *plain = shim_pool_take(&plain_pool);

	if (!plain)
		return CUDA_ERROR_OUT_OF_MEMORY;
	plain->object.ctx = shim_current;
	if (shim_object_add((enum handle_kind)param->handle,
			    &plain->object) < 0) {
		shim_pool_give(&plain_pool, plain);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	t->minted[i] = plain;
	t->values[i] = plain->object.handle;
	t->pointers[i] = &t->values[i];
	t->argv[i] = &t->pointers[i];
	return CUDA_SUCCESS;
}

static CUresult
translate(const struct wire_sig *sig, void *const argv[], struct translated *t)
{
	CUresult r = CUDA_SUCCESS;

	memset(t->minted, 0, sizeof(t->minted));
	for (unsigned i = 0; i < sig->nparams && r == CUDA_SUCCESS; i++) {
		const struct wire_param *param = &sig->params[i];

		t->argv[i] = argv[i];
		if (param->kind == WIRE_HANDLE) {
			r = check_handle(param, argv[i], &t->values[i]);
			t->argv[i] = &t->values[i];
		} else if (param->kind == WIRE_NEW_HANDLE) {
			r = mint(param, t, i);
		}
	}
	return r;
}

/* Give new handles to the caller, or forget them if the call failed. */
static void
settle(const struct wire_sig *sig, void *const argv[], struct translated *t,
       CUresult r)
{
	for (unsigned i = 0; i < sig->nparams; i++) {
		void *out;

		if (!t->minted[i])
			continue;
		if (r == CUDA_SUCCESS) {
			memcpy(&out, argv[i], sizeof(out));
			memcpy(out, &t->values[i], sizeof(t->values[i]));
		} else if (shim_object_remove(
				(enum handle_kind)sig->params[i].handle,
				t->values[i])) {
			shim_pool_give(&plain_pool, t->minted[i]);
		}
	}
}

static CUresult
generic(enum api_id id, void *const argv[],
	CUresult (*send)(struct shim_chan *, enum api_id, void *const *))
{
	const struct wire_sig *sig = &api_sigs[id];
	struct shim_context *ctx = shim_current;
	struct translated t;
	CUresult r;

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	r = translate(sig, argv, &t);
	if (r == CUDA_SUCCESS)
		r = send(ctx->chan, id, t.argv);
	settle(sig, argv, &t, r);
	return r;
}

CUresult
shim_call(enum api_id id, void *const argv[])
{
	return generic(id, argv, shim_chan_call);
}

CUresult
shim_post(enum api_id id, void *const argv[])
{
	return generic(id, argv, shim_chan_post);
}
