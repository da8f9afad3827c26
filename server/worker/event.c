/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. A record is always a real cuEventRecord. When somebody waits
 * for the last one, the next goes to a fresh driver event, so that waiting
 * never comes to mean a later record.
 */
#include <stdlib.h>

#include "server/worker/backlog.h"
#include "server/worker/call.h"

void
wkr_record_unref(struct wkr_record *record)
{
	if (!record || --record->refs)
		return;
	wkr_ok(wkr.drv.cuEventDestroy_v2(record->event));
	free(record);
}

static CUresult
record_create(unsigned flags, struct wkr_record **out)
{
	struct wkr_record *record = calloc(1, sizeof(*record));
	CUresult r;

	if (!record)
		return CUDA_ERROR_OUT_OF_MEMORY;
	record->refs = 1;
	r = wkr_ok(wkr.drv.cuEventCreate(&record->event, flags));
	if (r != CUDA_SUCCESS) {
		free(record);
		return r;
	}
	*out = record;
	return CUDA_SUCCESS;
}

static void
set_record(struct wkr_event *event, struct wkr_record *record)
{
	event->record = record;
	event->native = record->event;
}

void
wkr_event_free(struct wkr_event *event)
{
	if (event->shared)
		wkr_shared_drop(event);
	wkr_record_unref(event->record);
	free(event);
}

CUresult
wkr_mpsEventCreate(struct wkr_call *call, uint64_t event, uint32_t flags)
{
	/* How a client waits is its shim's business, and other processes
	 * are not the driver's. */
	unsigned native = flags & CU_EVENT_DISABLE_TIMING;
	struct wkr_record *record;
	struct wkr_event *e;
	CUresult r;

	if (flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
		      CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_VALUE;
	r = record_create(native, &record);
	if (r != CUDA_SUCCESS)
		return r;
	e = calloc(1, sizeof(*e));
	if (!e) {
		wkr_record_unref(record);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->flags = native;
	if (!(flags & CU_EVENT_INTERPROCESS)) {
		set_record(e, record);
	} else if (wkr_shared_new(e, record) != CUDA_SUCCESS) {
		wkr_record_unref(record);
		free(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (wkr_put(call->client, HANDLE_EVENT, event, e) < 0) {
		wkr_event_free(e);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return CUDA_SUCCESS;
}

CUresult
wkr_mpsEventDestroy(struct wkr_call *call, uint64_t event)
{
	struct wkr_client *client = call->client;
	struct wkr_event *e;

	pthread_mutex_lock(&client->lock);
	e = handle_remove(client->table, HANDLE_EVENT, event);
	pthread_mutex_unlock(&client->lock);
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	wkr_journal_drop(client, event);
	wkr_event_free(e);
	return CUDA_SUCCESS;
}

CUresult
wkr_record_fresh(struct wkr_record **record, unsigned flags)
{
	struct wkr_record *fresh;
	CUresult r;

	if ((*record)->refs == 1)
		return CUDA_SUCCESS;
	r = record_create(flags, &fresh);
	if (r != CUDA_SUCCESS)
		return r;
	wkr_record_unref(*record);
	*record = fresh;
	return CUDA_SUCCESS;
}

static CUresult
record(struct wkr_event *e, CUstream stream)
{
	CUresult r = CUDA_SUCCESS;

	if (!e->fixed)
		r = wkr_record_fresh(&e->record, e->flags);
	if (r != CUDA_SUCCESS)
		return r;
	set_record(e, e->record);
	return wkr_ok(wkr.drv.cuEventRecord(e->native, stream));
}

CUresult
wkr_mpsEventRecord(struct wkr_call *call, uint64_t event, uint64_t stream,
		   uint32_t flags)
{
	struct wkr_client *client = call->client;
	struct wkr_event *e = wkr_get(client, HANDLE_EVENT, event);
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	CUresult r;

	if (!e || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	call->again = true;
	r = wkr_stream_begin(call, s);
	if (r == CUDA_SUCCESS)
		r = e->shared ? wkr_shared_record(e, s->native) :
				record(e, s->native);
	if (r != WKR_AGAIN)
		wkr_event_issued(client, e);
	if (r != CUDA_SUCCESS)
		return r;
	e->recorded = true;
	wkr_stream_end(call, s, false);
	/* The record of one that a graph has may be the graph's. */
	e->stream = e->fixed || e->shared ? 0 : stream;
	e->operation = s->issued;
	return CUDA_SUCCESS;
}

/* Referenced; NULL when the code says it all: there is none, or another client
 * has promised one (CUDA_ERROR_NOT_READY). */
static CUresult
last_record(struct wkr_event *e, struct wkr_record **out)
{
	CUresult r = CUDA_SUCCESS;

	if (e->shared) {
		*out = wkr_shared_take(e, &r);
	} else {
		*out = e->record;
		e->record->refs++;
	}
	return r;
}

/* Of another client, whose host function holds it up. */
static CUresult
wait_for_issue(struct wkr_client *client)
{
	client->parked = "an event of another process";
	return WKR_AGAIN;
}

/* The stream of its last record, if that says all about it. */
static struct wkr_stream *
stream_of(struct wkr_client *client, const struct wkr_event *e)
{
	return e->stream ? wkr_get(client, HANDLE_STREAM, e->stream) : NULL;
}

static bool
is_retired(const struct wkr_event *e, const struct wkr_stream *s)
{
	return s && s->retired >= e->operation;
}

CUresult
wkr_mpsEventQuery(struct wkr_call *call, uint64_t event)
{
	struct wkr_event *e = wkr_get(call->client, HANDLE_EVENT, event);
	struct wkr_record *record;
	CUresult r;

	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (wkr_event_is_behind(call->client, e))
		return CUDA_ERROR_NOT_READY;
	if (is_retired(e, stream_of(call->client, e))) {
		wkr_knows(call->client);
		return CUDA_SUCCESS;
	}
	r = last_record(e, &record);
	if (record)
		r = wkr_ok(wkr.drv.cuEventQuery(record->event));
	wkr_record_unref(record);
	if (r == CUDA_SUCCESS)
		wkr_knows(call->client);
	return r;
}

CUresult
wkr_mpsEventSync(struct wkr_call *call, uint64_t event)
{
	struct wkr_event *e = wkr_get(call->client, HANDLE_EVENT, event);
	struct wkr_record *record;
	CUresult r;

	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	r = last_record(e, &record);
	if (r == CUDA_ERROR_NOT_READY)
		return wait_for_issue(call->client);
	if (record)
		r = wkr_defer_event(call, record, stream_of(call->client, e),
				    e->operation);
	wkr_record_unref(record);
	return r;
}

CUresult
wkr_mpsEventElapsed(struct wkr_call *call, uint64_t start, uint64_t end,
		    float *ms)
{
	struct wkr_event *a = wkr_get(call->client, HANDLE_EVENT, start);
	struct wkr_event *b = wkr_get(call->client, HANDLE_EVENT, end);
	float value = 0;
	CUresult r;

	if (!a || !b || a->shared || b->shared)
		return CUDA_ERROR_INVALID_HANDLE;
	if (wkr_event_is_behind(call->client, a) ||
	    wkr_event_is_behind(call->client, b))
		return CUDA_ERROR_NOT_READY;
	r = wkr_ok(wkr.drv.cuEventElapsedTime(&value, a->native, b->native));
	if (ms)
		*ms = value;
	return r;
}

/* A stream that waits must not hold a hardware queue that others need: when
 * those are short, the wait is held here until it is over, and the driver
 * never sees it. */
static CUresult
wait_here(struct wkr_client *client, const struct wkr_record *record)
{
	CUresult r = wkr_ok(wkr.drv.cuEventQuery(record->event));

	if (r != CUDA_ERROR_NOT_READY)
		return r;
	client->parked = "an event";
	return WKR_AGAIN;
}

static CUresult
wait_for(struct wkr_call *call, struct wkr_stream *s,
	 const struct wkr_record *record)
{
	CUresult r;

	if (wkr_is_crowded())
		return wait_here(call->client, record);
	call->again = true;
	r = wkr_stream_begin(call, s);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuStreamWaitEvent(s->native, record->event,
						     0));
	if (r == CUDA_SUCCESS)
		wkr_stream_end(call, s, false);
	return r;
}

CUresult
wkr_mpsStreamWait(struct wkr_call *call, uint64_t stream, uint64_t event,
		  uint32_t flags)
{
	struct wkr_client *client = call->client;
	struct wkr_event *e = wkr_get(client, HANDLE_EVENT, event);
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	struct wkr_record *record;
	CUresult r;

	if (!e || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!e->recorded && !e->shared)
		return CUDA_SUCCESS;
	r = last_record(e, &record);
	if (r == CUDA_ERROR_NOT_READY)
		return wait_for_issue(client);
	if (record)
		r = wait_for(call, s, record);
	wkr_record_unref(record);
	return r;
}
