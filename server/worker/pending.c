/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies that wait for the GPU. The lane looks at them between batches, so
 * that no thread blocks in the driver on a client's behalf.
 */
#include <stdlib.h>

#include "server/worker/backlog.h"
#include "server/worker/call.h"

/* Has work of these frames on that stream retired? */
static bool
stream_reached(const struct wkr_stream *stream, uint64_t seq)
{
	uint64_t oldest = wkr_stream_oldest(stream);

	return !oldest || oldest > seq;
}

/* Does waiting for `what` include this stream? The legacy stream is also a
 * barrier of its context's blocking streams. */
static bool
covers(enum wkr_scope scope, const void *object,
       const struct wkr_stream *stream)
{
	const struct wkr_stream *asked = object;

	switch (scope) {
	case WKR_ALL:
		return true;
	case WKR_OF_GROUP:
		return stream->group == object;
	case WKR_OF_STREAM:
		return stream == asked ||
		       (asked->kind == WKR_STREAM_LEGACY &&
			stream->group == asked->group &&
			stream->kind != WKR_STREAM_NON_BLOCKING);
	case WKR_OF_RECORD:
		return false;
	}
	return false;
}

/* Where the stream writes a word right behind the record there is nothing to
 * ask: a fault is found by those who look after the stream. */
static bool
record_reached(const struct wkr_pending *p)
{
	const struct wkr_record *record = p->object;
	const struct wkr_stream *s = p->stream;

	if (s && s->retired >= p->operation)
		return true;
	return !p->by_word &&
	       wkr_ok(wkr.drv.cuEventQuery(record->event)) !=
		       CUDA_ERROR_NOT_READY;
}

static bool
is_reached(struct wkr_client *client, enum wkr_scope scope, const void *object,
	   uint64_t seq)
{
	for (struct wkr_stream *s = client->busy; s; s = s->next_busy)
		if (covers(scope, object, s) && !stream_reached(s, seq))
			return false;
	return true;
}

/* The last frame, up to the call's own, whose work on the stream has retired:
 * later ones may not have been issued. */
static uint64_t
reached(const struct wkr_pending *p)
{
	uint64_t oldest = wkr_stream_oldest(p->object);

	return oldest && oldest <= p->seq ? oldest - 1 : p->seq;
}

static void
answer(struct wkr_client *client, const struct wkr_pending *p)
{
	uint8_t out[8];
	size_t size = 0;

	if (p->fn == API_mpsStreamReached) {
		uint64_t seq = reached(p);

		for (; size < sizeof(out); size++)
			out[size] = (uint8_t)(seq >> 8 * size);
	}
	wkr_client_publish(client);
	if (atomic_load(&client->retired) < p->seq)
		wkr_keep_taint(client);
	wkr_print_collect(client);
	wkr_reply(client, p->seq, p->slot, CUDA_SUCCESS, out, size, true);
	wkr_print_told(client);
}

/*
 * Where the GPU itself may tell the caller that its stream has come so far;
 * NULL: only our answer will do, because it has more to say, or because a
 * client that knows more than we do could not be given to the next worker
 * (keep.c). With what cannot be done again under way it could not be anyway.
 */
static const struct wkr_tell *
tell(const struct wkr_call *call, struct wkr_tell *room)
{
	const struct wkr_client *client = call->client;

	if (!client->lines || client->no_ring || client->unread ||
	    client->draining || client->restore || wkr_is_behind(client) ||
	    client->kept <= client->done || call->slot == CHANNEL_NO_SLOT ||
	    call->fn == API_mpsStreamReached)
		return NULL;
	room->device = client->lines + call->slot * CHANNEL_LINE;
	room->line = (const void *)(client->staging + CHANNEL_STAGING +
				    call->slot * CHANNEL_LINE);
	room->value = call->seq;
	return room;
}

/* Does all that is waited for come with the end of one stream? */
static bool
is_alone(const struct wkr_client *client, enum wkr_scope scope,
	 const void *object)
{
	unsigned n = 0;

	for (struct wkr_stream *s = client->busy; s; s = s->next_busy)
		n += covers(scope, object, s) && !wkr_stream_is_idle(s);
	return n == 1;
}

CUresult
wkr_defer(struct wkr_call *call, enum wkr_scope scope, const void *object)
{
	return wkr_defer_until(call, scope, object, call->seq);
}

static CUresult
add_pending(struct wkr_call *call, const struct wkr_pending *what)
{
	struct wkr_pending *p = malloc(sizeof(*p)),
			   **end = &call->client->pending;

	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*p = *what;
	p->seq = call->seq;
	p->slot = call->slot;
	p->fn = call->fn;
	while (*end)
		end = &(*end)->next;
	*end = p;
	return WKR_DEFERRED;
}

CUresult
wkr_defer_until(struct wkr_call *call, enum wkr_scope scope,
		const void *object, uint64_t until)
{
	struct wkr_pending p = {
		.scope = scope,
		.object = object,
		.until = until,
	};
	const struct wkr_tell *told = NULL;
	struct wkr_tell room;

	if (is_alone(call->client, scope, object))
		told = tell(call, &room);
	for (struct wkr_stream *s = call->client->busy; s; s = s->next_busy)
		if (covers(scope, object, s))
			wkr_stream_watch(s, told);
	return add_pending(call, &p);
}

CUresult
wkr_defer_event(struct wkr_call *call, struct wkr_record *record,
		struct wkr_stream *stream, uint64_t operation)
{
	struct wkr_pending p = {
		.scope = WKR_OF_RECORD,
		.object = record,
		.stream = stream,
		.operation = operation,
	};
	struct wkr_tell room;
	CUresult r;

	/* What has come since must not be waited for. */
	if (stream && stream->issued == operation)
		wkr_stream_watch(stream, tell(call, &room));
	p.by_word = stream && stream->tail && stream->tail->value &&
		    stream->tail->operations == operation;
	r = add_pending(call, &p);

	if (r == WKR_DEFERRED)
		record->refs++;
	return r;
}

static void
pending_free(struct wkr_pending *p)
{
	if (p->scope == WKR_OF_RECORD)
		wkr_record_unref((struct wkr_record *)p->object);
	free(p);
}

void
wkr_pending_poll(struct wkr_client *client)
{
	struct wkr_pending **link = &client->pending, *p;

	while ((p = *link)) {
		if (p->scope == WKR_OF_RECORD
			    ? !record_reached(p)
			    : !is_reached(client, p->scope, p->object,
					  p->until)) {
			link = &p->next;
			continue;
		}
		*link = p->next;
		answer(client, p);
		pending_free(p);
	}
}

bool
wkr_pending_by_word(const struct wkr_client *client)
{
	for (const struct wkr_pending *p = client->pending; p; p = p->next)
		if (p->scope == WKR_OF_RECORD && !p->by_word)
			return false;
	for (const struct wkr_stream *s = client->busy; s; s = s->next_busy)
		if (!wkr_stream_is_idle(s) && !(s->tail && s->tail->value))
			return false;
	return true;
}

void
wkr_pending_drop(struct wkr_client *client)
{
	struct wkr_pending *p;

	while ((p = client->pending)) {
		client->pending = p->next;
		pending_free(p);
	}
}
