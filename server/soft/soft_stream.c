/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: creation, default streams, queries, callbacks.
 */
#include "server/soft/soft_ctx.h"

#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_work.h"

#define STREAM_LEGACY ((CUstream)0x1)
#define STREAM_PER_THREAD ((CUstream)0x2)
#define PRIORITY_GREATEST (-5)

/* One thread's default stream of one life of a context. */
struct thread_stream {
	uint64_t ctx_id;
	struct soft_stream *stream;
	struct thread_stream *next;
};

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

struct soft_stream *
soft_stream_new(struct soft_ctx *ctx, unsigned flags, int priority)
{
	struct soft_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	if (!soft_handle_add(stream, SOFT_HANDLE_STREAM)) {
		free(stream);
		return NULL;
	}
	stream->refs = 1;
	stream->ctx = ctx;
	stream->id = soft_new_id();
	stream->flags = flags;
	stream->priority = priority;
	stream->queue = -1;
	stream->sync_policy = CU_SYNC_POLICY_AUTO;
	pthread_mutex_lock(&soft_sched.lock);
	stream->next = ctx->streams;
	if (stream->next)
		stream->next->prev = stream;
	ctx->streams = stream;
	pthread_mutex_unlock(&soft_sched.lock);
	return stream;
}

void
soft_stream_unref_locked(struct soft_stream *stream)
{
	if (--stream->refs)
		return;
	free(stream->capture_deps);
	free(stream);
}

static void
unlink_locked(struct soft_stream *stream)
{
	if (stream->prev)
		stream->prev->next = stream->next;
	else
		stream->ctx->streams = stream->next;
	if (stream->next)
		stream->next->prev = stream->prev;
	stream->next = stream->prev = NULL;
}

static void
keep_order_locked(struct soft_stream *stream)
{
	struct soft_stream *legacy = stream->ctx->legacy;

	if (!stream->tail || !legacy || legacy == stream ||
	    stream->flags & CU_STREAM_NON_BLOCKING)
		return;
	/* A legacy tail, if any, precedes the stream's own tail or is
	 * waited for by it; either way this one ends last. */
	if (!legacy->tail || legacy->tail->seq < stream->tail->seq)
		legacy->tail = stream->tail;
}

void
soft_stream_drop(struct soft_stream *stream)
{
	if (!soft_handle_del(stream, SOFT_HANDLE_STREAM))
		return;
	soft_capture_stream_gone(stream);
	pthread_mutex_lock(&soft_sched.lock);
	/* The NULL stream still waits for what a destroyed blocking stream
	 * has in flight: its last operation becomes the NULL stream's. */
	keep_order_locked(stream);
	unlink_locked(stream);
	soft_stream_unref_locked(stream);
	pthread_mutex_unlock(&soft_sched.lock);
}

void
soft_streams_destroy(struct soft_ctx *ctx)
{
	for (;;) {
		struct soft_stream *stream;

		pthread_mutex_lock(&soft_sched.lock);
		stream = ctx->streams;
		pthread_mutex_unlock(&soft_sched.lock);
		if (!stream)
			break;
		soft_stream_drop(stream);
	}
	ctx->legacy = NULL;
}

static void
thread_streams_free(void *list)
{
	while (list) {
		struct thread_stream *entry = list;

		list = entry->next;
		if (soft_handle_is(entry->stream, SOFT_HANDLE_STREAM))
			soft_stream_drop(entry->stream);
		free(entry);
	}
}

static void
thread_key_make(void)
{
	pthread_key_create(&thread_key, thread_streams_free);
}

/* There is no legacy ordering in a green context (measured). */
static unsigned
default_flags(const struct soft_ctx *ctx)
{
	return ctx->sms ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
}

static struct soft_stream *
thread_stream(struct soft_ctx *ctx)
{
	struct thread_stream *list, *entry;
	uint64_t id = atomic_load(&ctx->id);

	pthread_once(&thread_once, thread_key_make);
	list = pthread_getspecific(thread_key);
	for (entry = list; entry; entry = entry->next)
		if (entry->ctx_id == id)
			return entry->stream;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->stream = soft_stream_new(ctx, default_flags(ctx), 0);
	if (!entry->stream) {
		free(entry);
		return NULL;
	}
	entry->ctx_id = id;
	entry->next = list;
	pthread_setspecific(thread_key, entry);
	return entry->stream;
}

CUstream
soft_stream_twin(CUstream handle)
{
	return handle ? handle : STREAM_PER_THREAD;
}

CUresult
soft_stream_from(CUstream handle, struct soft_stream **out_stream,
		 struct soft_ctx **out_ctx)
{
	struct soft_ctx *ctx = NULL;
	struct soft_stream *stream;
	CUresult res;

	if (!handle || handle == STREAM_LEGACY || handle == STREAM_PER_THREAD) {
		res = soft_enter_ctx(&ctx);
		if (res)
			return res;
		stream = handle == STREAM_PER_THREAD ? thread_stream(ctx) :
			 ctx->legacy;
		if (!stream)
			return CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		res = soft_enter_live();
		if (res)
			return res;
		stream = soft_handle_get(handle, SOFT_HANDLE_STREAM);
		if (!stream)
			return CUDA_ERROR_INVALID_HANDLE;
		if (!atomic_load(&stream->ctx->alive))
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	*out_stream = stream;
	if (out_ctx)
		*out_ctx = stream->ctx;
	return CUDA_SUCCESS;
}

static int
clamp_priority(int priority)
{
	if (priority > 0)
		return 0;
	return priority < PRIORITY_GREATEST ? PRIORITY_GREATEST : priority;
}

CUresult
soft_stream_make(CUstream *out, struct soft_ctx *ctx, unsigned flags,
		 int priority)
{
	struct soft_stream *stream;

	/* Out of range is clamped, not refused. */
	stream = soft_stream_new(ctx, flags, clamp_priority(priority));
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUstream)stream;
	return CUDA_SUCCESS;
}

CUresult
cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	return soft_stream_make(out, ctx, flags | default_flags(ctx),
				priority);
}

CUresult
cuStreamCreate(CUstream *out, unsigned int flags)
{
	return cuStreamCreateWithPriority(out, flags, 0);
}

CUresult
cuStreamDestroy_v2(CUstream handle)
{
	struct soft_stream *stream;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	stream = soft_handle_get(handle, SOFT_HANDLE_STREAM);
	if (!stream || stream->legacy)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!atomic_load(&stream->ctx->alive))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	soft_stream_drop(stream);
	return CUDA_SUCCESS;
}

CUresult
cuStreamDestroy(CUstream handle)
{
	return cuStreamDestroy_v2(handle);
}

CUresult
cuStreamGetPriority(CUstream handle, int *priority)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult
cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

CUresult
cuStreamGetId(CUstream handle, unsigned long long *id)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = stream->id;
	return CUDA_SUCCESS;
}

CUresult
cuStreamGetDevice(CUstream handle, CUdevice *device)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = stream->ctx->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult
cuStreamGetCtx(CUstream handle, CUcontext *pctx)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)stream->ctx;
	return CUDA_SUCCESS;
}

CUresult
cuStreamGetCtx_v2(CUstream handle, CUcontext *pctx, CUgreenCtx *green)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle == STREAM_PER_THREAD && stream->ctx->sms)
		return CUDA_ERROR_INVALID_HANDLE;
	*pctx = (CUcontext)stream->ctx->home;
	if (green)
		*green = (CUgreenCtx)stream->ctx->green;
	return CUDA_SUCCESS;
}

CUresult
cuStreamSynchronize(CUstream handle)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (!res)
		res = soft_capture_implicit(stream);
	if (!res)
		res = soft_capture_refuse(stream);
	if (res)
		return res;
	/* The NULL stream has not ended before the blocking streams have:
	 * an empty operation is what depends on them all. */
	if (stream->legacy)
		res = soft_issue_sync(stream, soft_work_new(SOFT_WORK_EMPTY));
	else
		res = soft_stream_wait(stream);
	soft_print_flush();
	return res;
}

static bool
blocking_busy_locked(struct soft_ctx *ctx)
{
	for (struct soft_stream *s = ctx->streams; s; s = s->next)
		if (!(s->flags & CU_STREAM_NON_BLOCKING) &&
		    s->retired < s->submitted)
			return true;
	return false;
}

CUresult
cuStreamQuery(CUstream handle)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);
	bool busy;

	if (!res)
		res = soft_capture_implicit(stream);
	if (!res)
		res = soft_capture_refuse(stream);
	if (res)
		return res;
	pthread_mutex_lock(&soft_sched.lock);
	busy = stream->legacy ? blocking_busy_locked(stream->ctx) :
	       stream->retired < stream->submitted;
	pthread_mutex_unlock(&soft_sched.lock);
	return busy ? CUDA_ERROR_NOT_READY : soft_poisoned();
}

CUresult
cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *data,
		    unsigned int flags)
{
	struct soft_stream *stream;
	struct soft_work *work;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!callback || flags)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_capture_refuse(stream);
	if (res)
		return res;
	work = soft_work_new(SOFT_WORK_HOST);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->host.callback = callback;
	work->host.stream = handle;
	work->host.data = data;
	return soft_issue(stream, work, NULL);
}

CUresult
cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *data)
{
	struct soft_stream *stream;
	struct soft_work *work;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	work = soft_work_new(SOFT_WORK_HOST);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->host.fn = fn;
	work->host.data = data;
	return soft_issue(stream, work, NULL);
}

CUresult
cuStreamGetAttribute(CUstream handle, CUstreamAttrID attr,
		     CUstreamAttrValue *value)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	soft_follow(value);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((unsigned)attr) {
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		value->priority = stream->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		value->syncPolicy = stream->sync_policy;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
cuStreamSetAttribute(CUstream handle, CUstreamAttrID attr,
		     const CUstreamAttrValue *value)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	soft_follow(value);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((unsigned)attr) {
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		pthread_mutex_lock(&soft_sched.lock);
		stream->priority = clamp_priority(value->priority);
		pthread_mutex_unlock(&soft_sched.lock);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		if (value->syncPolicy < CU_SYNC_POLICY_AUTO ||
		    value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
			return CUDA_ERROR_INVALID_VALUE;
		stream->sync_policy = value->syncPolicy;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	struct soft_stream *to, *from;
	CUresult res = soft_stream_from(dst, &to, NULL);

	if (!res)
		res = soft_stream_from(src, &from, NULL);
	if (!res)
		to->sync_policy = from->sync_policy;
	return res;
}
