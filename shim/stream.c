/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams. Handles and ids are minted here; creating one is a post.
 *
 * The default streams are ordinary streams of the worker: one for each
 * context, one for each pair of thread and context. Their handles never
 * reach the application, which says 0, 1 or 2.
 */
#include "shim/stream.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/enter.h"
#include "shim/pool.h"
#include "shim/process.h"
#include "shim_calls.h"
#include "shim_impl.h"

static struct shim_pool pool = SHIM_POOL(struct shim_stream, next_free);
static _Atomic uint64_t last_id;

/* This thread's default streams, one for each context that it has used. */
struct thread_stream {
	struct shim_context *ctx;
	uint64_t ctx_id;        /* a context that came back is another one */
	uint64_t handle;
	struct thread_stream *next;
};
static _Thread_local struct thread_stream *thread_streams
	__attribute__((tls_model("initial-exec")));
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;

/* Guards minting of a context's legacy stream. */
static pthread_mutex_t legacy_lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult
make(struct shim_context *ctx, enum shim_stream_kind kind, int priority,
     struct shim_stream **out_stream)
{
	struct shim_stream *stream = shim_pool_take(&pool);
	CUresult r;

	if (stream == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->object.ctx = ctx;
	stream->kind = kind;
	stream->priority = priority;
	stream->id = atomic_fetch_add_explicit(&last_id, 1,
					       memory_order_relaxed) + 1;
	if (shim_object_add(HANDLE_STREAM, &stream->object) != 0) {
		shim_pool_give(&pool, stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = call_mpsStreamCreate(ctx->chan, &stream->object.handle,
				 ctx->handle, kind, priority);
	if (r != CUDA_SUCCESS) {
		if (shim_object_remove(HANDLE_STREAM, stream->object.handle))
			shim_pool_give(&pool, stream);
		return r;
	}
	*out_stream = stream;
	return CUDA_SUCCESS;
}

static CUresult
find_legacy(struct shim_context *ctx, struct shim_stream **out_stream)
{
	/* Acquire: pairs with the release below. */
	uint64_t handle = atomic_load_explicit(&ctx->legacy,
					       memory_order_acquire);
	struct shim_stream *stream = shim_object_get(HANDLE_STREAM, handle);
	CUresult r = CUDA_SUCCESS;

	if (stream == NULL) {
		pthread_mutex_lock(&legacy_lock);
		stream = shim_object_get(HANDLE_STREAM, ctx->legacy);
		if (stream == NULL)
			r = make(ctx, STREAM_LEGACY, 0, &stream);
		if (r == CUDA_SUCCESS)
			atomic_store_explicit(&ctx->legacy,
					      stream->object.handle,
					      memory_order_release);
		pthread_mutex_unlock(&legacy_lock);
	}
	*out_stream = stream;
	return r;
}

/*
 * Destroy a stream: by one of two callers only. The worker is told before the
 * handle is forgotten, since a new object may take its place in the handle
 * table at once, and must be made there after this one has gone.
 */
static CUresult
end(struct shim_stream *stream)
{
	uint64_t handle = stream->object.handle;
	CUresult r;

	if (atomic_exchange(&stream->ended, true))
		return CUDA_ERROR_INVALID_HANDLE;
	shim_capture_stream_gone(stream);
	r = call_mpsStreamDestroy(stream->object.ctx->chan, handle);
	if (shim_object_remove(HANDLE_STREAM, handle))
		shim_pool_give(&pool, stream);
	return r;
}

static void
end_thread_streams(void *head)
{
	struct thread_stream *mine = head;

	thread_streams = NULL;
	while (mine != NULL) {
		struct thread_stream *next = mine->next;
		struct shim_stream *stream = shim_object_get(HANDLE_STREAM,
							     mine->handle);

		if (stream != NULL)
			end(stream);
		free(mine);
		mine = next;
	}
}

static void
make_thread_key(void)
{
	pthread_key_create(&thread_key, end_thread_streams);
}

static CUresult
make_thread_stream(struct shim_context *ctx, struct shim_stream **out_stream)
{
	struct thread_stream *mine = thread_streams;
	CUresult r;

	/* One entry per context struct: reuse that of an earlier life. */
	while (mine != NULL && mine->ctx != ctx)
		mine = mine->next;
	if (mine == NULL) {
		pthread_once(&thread_once, make_thread_key);
		mine = calloc(1, sizeof(*mine));
		if (mine == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		mine->ctx = ctx;
		mine->next = thread_streams;
		thread_streams = mine;
		pthread_setspecific(thread_key, thread_streams);
	}
	r = make(ctx, STREAM_PER_THREAD, 0, out_stream);
	if (r == CUDA_SUCCESS) {
		mine->ctx_id = ctx->id;
		mine->handle = (*out_stream)->object.handle;
	}
	return r;
}

static CUresult
find_per_thread(struct shim_context *ctx, struct shim_stream **out_stream)
{
	for (struct thread_stream *mine = thread_streams; mine != NULL;
	     mine = mine->next) {
		if (mine->ctx != ctx || mine->ctx_id != ctx->id)
			continue;
		*out_stream = shim_object_get(HANDLE_STREAM, mine->handle);
		if (*out_stream != NULL)
			return CUDA_SUCCESS;
	}
	return make_thread_stream(ctx, out_stream);
}

CUresult
shim_stream_find(CUstream handle, struct shim_context *ctx,
		 struct shim_stream **out_stream)
{
	struct shim_stream *stream;

	if (handle == NULL || handle == CU_STREAM_LEGACY)
		return find_legacy(ctx, out_stream);
	if (handle == CU_STREAM_PER_THREAD)
		return find_per_thread(ctx, out_stream);
	stream = shim_object_get(HANDLE_STREAM, (uintptr_t)handle);
	/* Default streams have no handle that the application could know. */
	if (stream == NULL || stream->kind > STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_HANDLE;
	*out_stream = stream;
	return CUDA_SUCCESS;
}

CUresult
shim_stream_resolve(CUstream handle, uint64_t *out_handle)
{
	struct shim_stream *stream;
	CUresult r;

	r = shim_stream_find(handle, shim_current, &stream);
	/* Whoever only wants a handle cannot make a node of a graph. */
	if (r == CUDA_SUCCESS)
		r = shim_capture_wait_stream(stream);
	if (r == CUDA_SUCCESS)
		*out_handle = stream->object.handle;
	return r;
}

void
shim_stream_drop_context(struct shim_context *ctx)
{
	struct shim_stream *stream;
	uint32_t cursor = 0;

	while ((stream = shim_object_next(HANDLE_STREAM, ctx, &cursor))) {
		shim_capture_stream_gone(stream);
		if (shim_object_remove(HANDLE_STREAM, stream->object.handle))
			shim_pool_give(&pool, stream);
	}
	ctx->legacy = 0;
}

/* ---- entry points ---- */

int
shim_stream_clamp(const struct shim_context *ctx, int priority)
{
	const Mps__Device *info = shim_process.devices[ctx->device].info;

	if (priority > info->least_priority)
		return info->least_priority;
	return priority < info->greatest_priority ? info->greatest_priority :
						    priority;
}

CUresult
shim_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags,
				int priority)
{
	struct shim_context *ctx;
	struct shim_stream *stream;
	CUresult r;

	if (phStream == NULL || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_enter_context(API_cuStreamCreateWithPriority);
	if (r != CUDA_SUCCESS)
		return r;
	ctx = shim_current;
	r = make(ctx, flags ? STREAM_NON_BLOCKING : STREAM_BLOCKING,
		 shim_stream_clamp(ctx, priority), &stream);
	if (r == CUDA_SUCCESS)
		*phStream = (CUstream)(uintptr_t)stream->object.handle;
	return r;
}

CUresult
shim_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return shim_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult
shim_cuStreamDestroy_v2(CUstream hStream)
{
	struct shim_stream *stream = shim_object_get(HANDLE_STREAM,
						     (uintptr_t)hStream);

	return stream == NULL || stream->kind > STREAM_NON_BLOCKING ?
	       CUDA_ERROR_INVALID_HANDLE : end(stream);
}

/* The stream of a call that needs no context unless it means a default
 * stream. */
static CUresult
find(CUstream handle, struct shim_stream **out_stream)
{
	struct shim_context *ctx = NULL;
	CUresult r;

	if ((uintptr_t)handle <= (uintptr_t)CU_STREAM_PER_THREAD) {
		r = shim_ctx_current(&ctx);
		if (r != CUDA_SUCCESS)
			return r;
	}
	r = shim_stream_find(handle, ctx, out_stream);
	return r != CUDA_SUCCESS ? r :
	       shim_chan_sticky((*out_stream)->object.ctx->chan);
}

CUresult
shim_cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct shim_stream *stream;
	CUresult r;

	if (priority == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = find(hStream, &stream);
	if (r == CUDA_SUCCESS)
		*priority = stream->priority;
	return r;
}

CUresult
shim_cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct shim_stream *stream;
	CUresult r;

	if (streamId == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = find(hStream, &stream);
	if (r == CUDA_SUCCESS)
		*streamId = stream->id;
	return r;
}

CUresult
shim_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct shim_stream *stream;
	CUresult r;

	if (flags == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = find(hStream, &stream);
	if (r == CUDA_SUCCESS && shim_stream_is_capturing(stream))
		r = shim_capture_wait_stream(stream);
	if (r == CUDA_SUCCESS)
		*flags = stream->kind == STREAM_NON_BLOCKING ?
			 CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
	return r;
}

CUresult
shim_cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	struct shim_stream *stream;
	CUresult r;

	if (device == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = find(hStream, &stream);
	if (r == CUDA_SUCCESS)
		*device = stream->object.ctx->device;
	return r;
}

CUresult
shim_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct shim_stream *stream;
	CUresult r;

	if (pctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = find(hStream, &stream);
	if (r == CUDA_SUCCESS)
		*pctx = (CUcontext)(uintptr_t)stream->object.ctx->handle;
	return r;
}

CUresult
shim_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx,
		       CUgreenCtx *pGreenCtx)
{
	CUcontext ctx;
	CUresult r = shim_cuStreamGetCtx(hStream, &ctx);

	if (r == CUDA_SUCCESS && pCtx != NULL)
		*pCtx = ctx;
	if (r == CUDA_SUCCESS && pGreenCtx != NULL)
		*pGreenCtx = NULL;
	return r;
}

/* Has all that this process has ever posted retired? */
static bool
is_idle(struct shim_chan *chan)
{
	return !(shim_process.perf & SHIM_NO_WORD) &&
	       shim_chan_seq(chan) <= shim_chan_retired(chan);
}

CUresult
shim_cuStreamQuery(CUstream hStream)
{
	struct shim_stream *stream;
	CUresult r = shim_stream_find(hStream, shim_current, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_wait_stream(stream);
	if (r == CUDA_SUCCESS)
		r = shim_capture_unsafe();
	if (r != CUDA_SUCCESS || is_idle(stream->object.ctx->chan))
		return r;
	return call_mpsStreamQuery(stream->object.ctx->chan,
				   stream->object.handle);
}

CUresult
shim_cuStreamSynchronize(CUstream hStream)
{
	struct shim_stream *stream;
	struct shim_chan *chan;
	CUresult r = shim_stream_find(hStream, shim_current, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_wait_stream(stream);
	if (r == CUDA_SUCCESS)
		r = shim_capture_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	chan = stream->object.ctx->chan;
	return shim_chan_is_over(chan, shim_chan_seq(chan)) ?
	       shim_chan_late(chan) :
	       call_mpsStreamSync(chan, stream->object.handle);
}
