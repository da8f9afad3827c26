/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. Each record makes a new mark; whoever waits holds the mark that
 * was current when it asked, so recording again disturbs nobody.
 */
#include "server/soft/soft_event.h"

#include <stdlib.h>

#include "server/soft/soft_work.h"

#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | \
		     CU_EVENT_INTERPROCESS)

void
soft_event_ref(struct soft_event *event)
{
	atomic_fetch_add(&event->refs, 1);
}

void
soft_event_unref(struct soft_event *event)
{
	if (!event || atomic_fetch_sub(&event->refs, 1) != 1)
		return;
	soft_mark_unref(event->mark);
	free(event->capture_deps);
	free(event);
}

void
soft_event_set_locked(struct soft_event *event, struct soft_mark *mark)
{
	soft_mark_ref(mark);
	soft_mark_unref(event->mark);
	event->mark = mark;
}

struct soft_mark *
soft_event_mark_locked(struct soft_event *event)
{
	return event->mark;
}

CUresult
cuEventCreate(CUevent *out, unsigned int flags)
{
	struct soft_ctx *ctx;
	struct soft_event *event;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!out || flags & ~(unsigned)EVENT_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	event = calloc(1, sizeof(*event));
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->refs = 1;
	event->ctx = ctx->home;
	event->flags = flags;
	if (!soft_handle_add(event, SOFT_HANDLE_EVENT)) {
		free(event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = (CUevent)event;
	return CUDA_SUCCESS;
}

static CUresult
event_from(CUevent handle, struct soft_event **out_event)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out_event = soft_handle_get(handle, SOFT_HANDLE_EVENT);
	return *out_event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult
cuEventDestroy_v2(CUevent handle)
{
	struct soft_event *event;
	CUresult res = event_from(handle, &event);

	if (res)
		return res;
	if (!soft_handle_del(event, SOFT_HANDLE_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	soft_event_unref(event);
	return CUDA_SUCCESS;
}

CUresult
cuEventDestroy(CUevent handle)
{
	return cuEventDestroy_v2(handle);
}

CUresult
soft_event_record(struct soft_event *event, struct soft_stream *stream)
{
	struct soft_work *work = soft_work_new(SOFT_WORK_RECORD);
	struct soft_mark *mark = NULL;
	CUresult res;

	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	soft_event_ref(event);
	work->event = event;
	res = soft_issue(stream, work, &mark);
	if (res || !mark)
		return res;
	pthread_mutex_lock(&soft_sched.lock);
	soft_event_set_locked(event, mark);
	soft_mark_unref(mark);
	pthread_mutex_unlock(&soft_sched.lock);
	atomic_store(&event->capture_id, 0);
	return CUDA_SUCCESS;
}

CUresult
cuEventRecordWithFlags(CUevent handle, CUstream hstream, unsigned int flags)
{
	struct soft_event *event;
	struct soft_stream *stream;
	CUresult res = event_from(handle, &event);

	if (!res)
		res = soft_stream_from(hstream, &stream, NULL);
	if (res)
		return res;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (event->ctx != stream->ctx->home)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture && !(flags & CU_EVENT_RECORD_EXTERNAL))
		return soft_capture_record(stream, event);
	return soft_event_record(event, stream);
}

CUresult
cuEventRecord(CUevent handle, CUstream stream)
{
	return cuEventRecordWithFlags(handle, stream, CU_EVENT_RECORD_DEFAULT);
}

/* A captured event cannot be asked: it stands for a place in a graph. The
 * code for that, `captured`, is the call's own (measured). */
static CUresult
event_ask(CUevent handle, CUresult captured, struct soft_event **out_event)
{
	CUresult res = event_from(handle, out_event);

	if (res)
		return res;
	if (atomic_load(&(*out_event)->capture_id))
		return captured;
	return soft_capture_forbids();
}

CUresult
cuEventQuery(CUevent handle)
{
	struct soft_event *event;
	CUresult res = event_ask(handle, CUDA_ERROR_CAPTURED_EVENT, &event);
	bool done;

	if (res)
		return res;
	pthread_mutex_lock(&soft_sched.lock);
	done = !event->mark || event->mark->done;
	pthread_mutex_unlock(&soft_sched.lock);
	return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult
cuEventSynchronize(CUevent handle)
{
	struct soft_event *event;
	struct soft_mark *mark;
	CUresult res = event_ask(handle, CUDA_ERROR_INVALID_VALUE, &event);

	if (res)
		return res;
	pthread_mutex_lock(&soft_sched.lock);
	mark = event->mark;
	if (mark)
		soft_mark_ref(mark);
	pthread_mutex_unlock(&soft_sched.lock);
	if (mark) {
		res = soft_mark_wait(mark);
		soft_mark_unref(mark);
	}
	soft_print_flush();
	return res;
}

CUresult
cuEventElapsedTime_v2(float *out_ms, CUevent hstart, CUevent hend)
{
	struct soft_event *start, *end;
	CUresult res = event_from(hstart, &start);

	if (!res)
		res = event_from(hend, &end);
	if (res)
		return res;
	if (!out_ms)
		return CUDA_ERROR_INVALID_VALUE;
	if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&soft_sched.lock);
	if (!start->mark || !end->mark)
		res = CUDA_ERROR_INVALID_HANDLE;
	else if (!start->mark->done || !end->mark->done)
		res = CUDA_ERROR_NOT_READY;
	else
		*out_ms = (float)((double)((int64_t)(end->mark->time_ns -
				start->mark->time_ns)) / 1e6);
	pthread_mutex_unlock(&soft_sched.lock);
	return res;
}

CUresult
cuEventElapsedTime(float *out_ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(out_ms, start, end);
}

CUresult
cuStreamWaitEvent(CUstream hstream, CUevent handle, unsigned int flags)
{
	struct soft_event *event;
	struct soft_stream *stream;
	struct soft_work *work;
	CUresult res = event_from(handle, &event);

	if (!res)
		res = soft_stream_from(hstream, &stream, NULL);
	if (res)
		return res;
	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_load(&event->capture_id) &&
	    !(flags & CU_EVENT_WAIT_EXTERNAL))
		return soft_capture_join(stream, event);
	if (stream->capture && !(flags & CU_EVENT_WAIT_EXTERNAL)) {
		/* An event from outside has no place in the graph. */
		soft_capture_invalidate(stream);
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	work = soft_work_new(SOFT_WORK_WAIT);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	soft_event_ref(event);
	work->event = event;
	return soft_issue(stream, work, NULL);
}
