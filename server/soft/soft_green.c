/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: a home's memory and modules, streams and multiprocessors
 * of their own. Legacy ordering does not exist in them (measured): every
 * stream that is created there is a NON_BLOCKING one.
 */
#include "server/soft/soft_green.h"

#include <stdlib.h>

#include "server/soft/soft_event.h"
#include "server/soft/soft_graph.h"
#include "server/soft/soft_work.h"

static pthread_key_t held_key;
static pthread_once_t held_once = PTHREAD_ONCE_INIT;

static void
held_release(void *ctx)
{
	atomic_store(&((struct soft_ctx *)ctx)->user, NULL);
}

static void
held_key_make(void)
{
	pthread_key_create(&held_key, held_release);
}

CUresult
soft_green_switch(struct soft_ctx *to)
{
	struct soft_ctx *held = soft_self.held;
	void *nobody = NULL;

	if (to && (!to->sms || soft_relaxed(SOFT_RELAX_GREEN)))
		to = NULL;
	if (to == held)
		return CUDA_SUCCESS;
	if (to && !atomic_compare_exchange_strong(&to->user, &nobody,
						  &soft_self))
		return CUDA_ERROR_CONTEXT_ALREADY_IN_USE;
	if (held)
		atomic_store(&held->user, NULL);
	soft_self.held = to;
	pthread_once(&held_once, held_key_make);
	/* A thread that ends leaves its context to others. */
	pthread_setspecific(held_key, to);
	return CUDA_SUCCESS;
}

unsigned
soft_ctx_sms(const struct soft_ctx *ctx)
{
	return ctx->sms ? ctx->sms->count : (unsigned)ctx->device->sms;
}

static CUresult
green_from(CUgreenCtx handle, struct soft_green **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_GREEN);
	if (!*out)
		return CUDA_ERROR_INVALID_CONTEXT;
	return atomic_load(&(*out)->ctx->alive) ? CUDA_SUCCESS :
	       CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static struct soft_green *
green_new(const struct soft_desc *desc)
{
	struct soft_green *green = calloc(1, sizeof(*green));
	struct soft_ctx *home = desc->sms.device->primary;

	if (!green)
		return NULL;
	green->desc = desc;
	green->device = desc->sms.device;
	green->ctx = soft_ctx_new(green->device, 0, false);
	if (green->ctx) {
		green->ctx->home = home;
		green->ctx->sms = &desc->sms;
		green->ctx->green = green;
		if (soft_handle_add(green, SOFT_HANDLE_GREEN))
			return green;
	}
	free(green);
	return NULL;
}

CUresult
cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc handle, CUdevice dev,
		 unsigned int flags)
{
	CUresult res = soft_enter_live();
	struct soft_device *device = soft_device_get(dev);
	const struct soft_desc *desc;
	struct soft_green *green;

	if (res)
		return res;
	desc = soft_handle_get(handle, SOFT_HANDLE_DESC);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out || !desc || desc->sms.device != device ||
	    flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_capture_forbids();
	if (!res)
		res = soft_ctx_retain(device);
	if (res)
		return res;
	/* It waits for every kernel in flight, and holds launches up for a
	 * part of that time (0.29 of it measured); all of it here. */
	if (!soft_relaxed(SOFT_RELAX_GREEN)) {
		res = soft_gate_drain(true);
		soft_gate_open(true);
	}
	green = res ? NULL : green_new(desc);
	if (green) {
		pthread_mutex_lock(&soft_ctx_lock);
		res = soft_ctx_activate_locked(green->ctx);
		pthread_mutex_unlock(&soft_ctx_lock);
	} else if (!res) {
		res = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (res)
		soft_ctx_release(device);
	else
		*out = (CUgreenCtx)green;
	return res;
}

/* Waits for the context's own work, for nobody else's. */
CUresult
cuGreenCtxDestroy(CUgreenCtx handle)
{
	struct soft_green *green = (struct soft_green *)handle;
	struct soft_device *device;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!soft_handle_del(green, SOFT_HANDLE_GREEN))
		return CUDA_ERROR_INVALID_CONTEXT;
	device = green->device;
	pthread_mutex_lock(&soft_ctx_lock);
	soft_ctx_deactivate_locked(green->ctx);
	green->ctx->green = NULL;
	pthread_mutex_unlock(&soft_ctx_lock);
	free(green);
	return soft_ctx_release(device);
}

CUresult
cuCtxFromGreenCtx(CUcontext *pctx, CUgreenCtx handle)
{
	struct soft_green *green;
	CUresult res = green_from(handle, &green);

	if (res)
		return res;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)green->ctx;
	return CUDA_SUCCESS;
}

CUresult
cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *out,
			 CUdevResourceType type)
{
	struct soft_green *green;
	CUresult res = green_from(handle, &green);

	if (!res && !out)
		res = CUDA_ERROR_INVALID_VALUE;
	if (!res)
		res = soft_resource_type_check(type);
	if (!res)
		soft_resource_fill(out, green->device, green->desc);
	return res;
}

CUresult
cuCtxGetDevResource(CUcontext handle, CUdevResource *out,
		    CUdevResourceType type)
{
	CUresult res = soft_enter();
	struct soft_ctx *ctx;

	if (res)
		return res;
	ctx = soft_ctx_from(handle);
	if (!ctx || !atomic_load(&ctx->alive))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_resource_type_check(type);
	if (!res)
		soft_resource_fill(out, ctx->device,
				   ctx->green ? ctx->green->desc : NULL);
	return res;
}

CUresult
cuGreenCtxGetId(CUgreenCtx handle, unsigned long long *id)
{
	struct soft_ctx *ctx = soft_ctx_current();
	struct soft_green *green;
	CUresult res = soft_enter();

	if (res)
		return res;
	if (handle) {
		res = green_from(handle, &green);
		if (res)
			return res;
		ctx = green->ctx;
	}
	if (!ctx || !ctx->green)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = atomic_load(&ctx->id);
	return CUDA_SUCCESS;
}

CUresult
cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx handle, unsigned int flags,
		       int priority)
{
	struct soft_green *green;
	CUresult res = green_from(handle, &green);

	if (res)
		return res;
	if (!out || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	return soft_stream_make(out, green->ctx, flags, priority);
}

CUresult
cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *out)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgreenCtx)stream->ctx->green;
	return CUDA_SUCCESS;
}

static struct soft_op *
empty_op(struct soft_ctx *ctx)
{
	struct soft_work *work = soft_work_new(SOFT_WORK_EMPTY);

	return work ? soft_op_new(ctx, work) : NULL;
}

/* An operation that waits for all that is in flight in ctx. */
static CUresult
record(struct soft_ctx *ctx, struct soft_event *event)
{
	struct soft_op *op = empty_op(ctx);
	struct soft_mark *mark = NULL;
	struct soft_ctx *member;
	size_t at = 0;
	bool ok;

	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	soft_gate_enter();
	pthread_mutex_lock(&soft_sched.lock);
	ok = soft_op_detached_locked(op, &mark);
	while (ok && (member = soft_ctx_next_locked(ctx, &at)))
		for (struct soft_stream *s = member->streams; s && ok;
		     s = s->next)
			ok = soft_op_depend_locked(op, s->tail);
	if (!ok)
		soft_sched_fail_locked();
	if (mark) {
		soft_event_set_locked(event, mark);
		soft_mark_unref(mark);
	}
	soft_op_launch_locked(op);
	soft_pump_locked();
	pthread_mutex_unlock(&soft_sched.lock);
	soft_gate_leave();
	atomic_store(&event->capture_id, 0);
	return soft_poisoned();
}

/* What is submitted to ctx from here on waits for the event's last record,
 * and for what was waited for before. */
static CUresult
wait(struct soft_ctx *ctx, struct soft_event *event)
{
	struct soft_op *op = empty_op(ctx);
	struct soft_mark *mark = NULL, *of;
	bool ok;

	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	soft_gate_enter();
	pthread_mutex_lock(&soft_sched.lock);
	of = soft_event_mark_locked(event);
	ok = soft_op_detached_locked(op, &mark) &&
	     (!of || soft_op_depend_locked(op, of->op)) &&
	     (!ctx->barrier || soft_op_depend_locked(op, ctx->barrier->op));
	if (!ok)
		soft_sched_fail_locked();
	if (mark) {
		soft_mark_unref(ctx->barrier);
		ctx->barrier = mark;
	}
	soft_op_launch_locked(op);
	soft_pump_locked();
	pthread_mutex_unlock(&soft_sched.lock);
	soft_gate_leave();
	return soft_poisoned();
}

static CUresult
event_from(CUevent handle, struct soft_event **out)
{
	*out = soft_handle_get(handle, SOFT_HANDLE_EVENT);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult
ctx_record(struct soft_ctx *ctx, CUevent handle)
{
	struct soft_event *event;
	CUresult res = event_from(handle, &event);

	if (!res && event->ctx != ctx->home)
		res = CUDA_ERROR_INVALID_HANDLE;
	if (!res)
		res = soft_capture_refuse_ctx(ctx);
	return res ? res : record(ctx, event);
}

static CUresult
ctx_wait(struct soft_ctx *ctx, CUevent handle)
{
	struct soft_event *event;
	CUresult res = event_from(handle, &event);

	if (!res && atomic_load(&event->capture_id)) {
		soft_capture_invalidate_id(event->capture_id);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (!res)
		res = soft_capture_refuse_ctx(ctx);
	return res ? res : wait(ctx, event);
}

CUresult
cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event)
{
	struct soft_green *green;
	CUresult res = green_from(handle, &green);

	return res ? res : ctx_record(green->ctx, event);
}

CUresult
cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event)
{
	struct soft_green *green;
	CUresult res = green_from(handle, &green);

	return res ? res : ctx_wait(green->ctx, event);
}

static CUresult
ctx_from(CUcontext handle, struct soft_ctx **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_ctx_from(handle);
	return *out && atomic_load(&(*out)->alive) ? CUDA_SUCCESS :
	       CUDA_ERROR_INVALID_CONTEXT;
}

CUresult
cuCtxRecordEvent(CUcontext handle, CUevent event)
{
	struct soft_ctx *ctx;
	CUresult res = ctx_from(handle, &ctx);

	return res ? res : ctx_record(ctx, event);
}

CUresult
cuCtxWaitEvent(CUcontext handle, CUevent event)
{
	struct soft_ctx *ctx;
	CUresult res = ctx_from(handle, &ctx);

	return res ? res : ctx_wait(ctx, event);
}
