/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. Creating, recording and destroying are posts; whether an event was
 * ever recorded is known here, and so is that all up to its record has
 * retired: asking about a fresh one or an old one costs nothing.
 */
#include "shim/event.h"

#include "proto/ipc.h"
#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/pool.h"
#include "shim/process.h"
#include "shim/stream.h"
#include "shim_calls.h"
#include "shim_impl.h"

#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | \
		     CU_EVENT_INTERPROCESS)

static struct shim_pool pool = SHIM_POOL(struct shim_event, next_free);

static bool
is_interprocess(const struct shim_event *event)
{
	return event->flags & CU_EVENT_INTERPROCESS;
}

static struct shim_event *
find(CUevent handle)
{
	return shim_object_get(HANDLE_EVENT, (uintptr_t)handle);
}

/*
 * What a program tells another one after a record or wait must be so by then:
 * those of interprocess events are answered once the worker has them.
 */
static CUresult
post(const struct shim_event *event, enum api_id id, void *const argv[])
{
	struct shim_chan *chan = event->object.ctx->chan;

	return is_interprocess(event) ? shim_chan_call(chan, id, argv) :
					shim_chan_post(chan, id, argv);
}

static CUresult
post_destroy(const struct shim_event *event)
{
	uint64_t e = event->object.handle;
	void *argv[] = { &e };

	return post(event, API_mpsEventDestroy, argv);
}

static CUresult
post_record(struct shim_event *event, const struct shim_stream *stream,
	    uint32_t flags)
{
	uint64_t e = event->object.handle, s = stream->object.handle;
	void *argv[] = { &e, &s, &flags };

	return post(event, API_mpsEventRecord, argv);
}

static CUresult
post_wait(const struct shim_event *event, const struct shim_stream *stream,
	  uint32_t flags)
{
	uint64_t e = event->object.handle, s = stream->object.handle;
	void *argv[] = { &s, &e, &flags };

	return post(event, API_mpsStreamWait, argv);
}

/* key: of another process's event, or NULL. */
static CUresult
make(unsigned int flags, const void *key, CUevent *out_event)
{
	struct shim_event *event = shim_pool_take(&pool);
	struct shim_chan *chan = shim_current->chan;
	CUresult r;

	if (event == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->object.ctx = shim_current;
	event->flags = flags;
	event->imported = key != NULL;
	/* Or not: others may record it, and the worker knows. */
	event->recorded = is_interprocess(event);
	if (shim_object_add(HANDLE_EVENT, &event->object) != 0) {
		shim_pool_give(&pool, event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = key ? call_mpsEventImport(chan, &event->object.handle, key,
				      IPC_KEY) :
		  call_mpsEventCreate(chan, &event->object.handle, flags);
	if (r == CUDA_SUCCESS)
		*out_event = (CUevent)(uintptr_t)event->object.handle;
	else if (shim_object_remove(HANDLE_EVENT, event->object.handle))
		shim_pool_give(&pool, event);
	return r;
}

CUresult
shim_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	if (phEvent == NULL || Flags & ~(unsigned)EVENT_FLAGS ||
	    (Flags & CU_EVENT_INTERPROCESS &&
	     !(Flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	return make(Flags, NULL, phEvent);
}

CUresult
shim_event_import(const void *key, CUevent *out_event)
{
	return make(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, key,
		    out_event);
}

CUresult
shim_cuEventDestroy_v2(CUevent hEvent)
{
	uint64_t handle = (uintptr_t)hEvent;
	struct shim_event *event = find(hEvent);
	CUresult r;

	if (event == NULL || atomic_exchange(&event->ended, true))
		return CUDA_ERROR_INVALID_HANDLE;
	shim_capture_event_gone(event);
	/* First there, then here: see stream.c. */
	r = post_destroy(event);
	if (shim_object_remove(HANDLE_EVENT, handle))
		shim_pool_give(&pool, event);
	return r;
}

void
shim_event_drop_context(struct shim_context *ctx)
{
	struct shim_event *event;
	uint32_t cursor = 0;

	while ((event = shim_object_next(HANDLE_EVENT, ctx, &cursor)))
		shim_cuEventDestroy_v2(
			(CUevent)(uintptr_t)event->object.handle);
}

void
shim_event_recorded(struct shim_event *event)
{
	/* Relaxed: an answer that misses another thread's record of just now
	 * is one that came before it. */
	atomic_store_explicit(&event->frame, UINT64_MAX, memory_order_relaxed);
	atomic_store_explicit(&event->recorded, true, memory_order_relaxed);
	if (atomic_load_explicit(&event->capture, memory_order_relaxed) != 0)
		shim_capture_event_gone(event);
}

/* An external record or wait is a node of the captured graph. */
static CUresult
capture_external(struct shim_stream *stream, CUevent event, bool wait)
{
	struct shim_work work;
	CUresult r = shim_work_event(event, wait, &work);

	return r != CUDA_SUCCESS ? r : shim_capture_work(stream, &work);
}

CUresult
shim_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream,
			    unsigned int flags)
{
	struct shim_event *event = find(hEvent);
	struct shim_stream *stream;
	CUresult r;

	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (event == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_stream_find(hStream, shim_current, &stream);
	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (event->object.ctx != stream->object.ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (shim_stream_is_capturing(stream))
		return flags ? capture_external(stream, hEvent, false) :
			       shim_capture_record(stream, event);
	/* An external record is an error outside of capture. */
	if (flags != CU_EVENT_RECORD_DEFAULT)
		return CUDA_ERROR_ILLEGAL_STATE;
	r = shim_room_take(stream, SHIM_ROOM_OTHER);
	if (r == CUDA_SUCCESS)
		r = post_record(event, stream, flags);
	if (r != CUDA_SUCCESS)
		return r;
	shim_event_recorded(event);
	/* At least the number of the record's frame. */
	atomic_store_explicit(&event->frame,
			      shim_chan_seq(event->object.ctx->chan),
			      memory_order_relaxed);
	return CUDA_SUCCESS;
}

CUresult
shim_cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return shim_cuEventRecordWithFlags(hEvent, hStream,
					   CU_EVENT_RECORD_DEFAULT);
}

/* Does the worker's cursor say that it has happened? Others may have recorded
 * an interprocess one since. */
static bool
has_retired(const struct shim_event *event)
{
	struct shim_chan *chan = event->object.ctx->chan;

	return !(shim_process.perf & SHIM_NO_WORD) &&
	       !is_interprocess(event) &&
	       event->frame <= shim_chan_retired(chan) &&
	       shim_chan_sticky(chan) == CUDA_SUCCESS;
}

CUresult
shim_cuEventQuery(CUevent hEvent)
{
	struct shim_event *event = find(hEvent);
	CUresult r;

	if (event == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_capture_ask_event(event, CUDA_ERROR_CAPTURED_EVENT);
	if (r != CUDA_SUCCESS)
		return r;
	/* Never recorded counts as complete. */
	return event->recorded && !has_retired(event) ?
	       call_mpsEventQuery(event->object.ctx->chan,
				  event->object.handle) : CUDA_SUCCESS;
}

CUresult
shim_cuEventSynchronize(CUevent hEvent)
{
	struct shim_event *event = find(hEvent);
	struct shim_chan *chan;
	CUresult r;

	if (event == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	r = shim_capture_ask_event(event, CUDA_ERROR_INVALID_VALUE);
	if (r != CUDA_SUCCESS)
		return r;
	if (!event->recorded)
		return CUDA_SUCCESS;
	chan = event->object.ctx->chan;
	return !is_interprocess(event) &&
	       shim_chan_is_over(chan, event->frame) ?
	       shim_chan_late(chan) :
	       call_mpsEventSync(chan, event->object.handle);
}

CUresult
shim_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct shim_event *start = find(hStart), *end = find(hEnd);

	if (start == NULL || end == NULL || !start->recorded ||
	    !end->recorded ||
	    (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING ||
	    start->object.ctx->chan != end->object.ctx->chan ||
	    pMilliseconds == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	return call_mpsEventElapsed(start->object.ctx->chan,
				    start->object.handle, end->object.handle,
				    pMilliseconds);
}

CUresult
shim_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct shim_event *event = find(hEvent);
	struct shim_stream *stream;
	CUresult r;

	if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_stream_find(hStream, shim_current, &stream);
	if (event == NULL && r == CUDA_SUCCESS)
		shim_capture_spoil(stream);
	if (event == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (event->capture != 0 && !(Flags & CU_EVENT_WAIT_EXTERNAL))
		return shim_capture_join(stream, event);
	if (Flags & CU_EVENT_WAIT_EXTERNAL)
		return shim_stream_is_capturing(stream) ?
		       capture_external(stream, hEvent, true) :
		       CUDA_ERROR_ILLEGAL_STATE;
	if (!event->recorded)
		return CUDA_SUCCESS;
	if (shim_stream_is_capturing(stream))
		return shim_capture_isolated(stream);
	if (event->object.ctx->chan == stream->object.ctx->chan) {
		r = shim_room_take(stream, SHIM_ROOM_OTHER);
		return r != CUDA_SUCCESS ? r :
		       post_wait(event, stream, Flags);
	}
	/* Two workers have no stream in common: wait here. */
	return call_mpsEventSync(event->object.ctx->chan,
				 event->object.handle);
}
