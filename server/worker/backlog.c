/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that wait for a host function. In each pass over them, from the
 * oldest on, streams, events and graphs that a waiting frame will use carry
 * the number of the pass; a frame that names one of those waits too.
 */
#include "server/worker/backlog.h"

#include <stdlib.h>
#include <string.h>

#include "proto/launch.h"
#include "server/worker/graph.h"

/* More than these, and the client's ring itself waits. */
#define FRAMES_MAX 4096u
#define BYTES_MAX (4u * 1024u * 1024u)

struct wkr_behind {
	struct wkr_behind *next;
	uint64_t seq;
	uint32_t size;
	bool other;    /* it is no operation of a stream */
	bool answered; /* whoever called need not wait for it */
	_Alignas(8) uint8_t frame[];
};

/* ---- marks ---- */

static bool
waits_itself(const struct wkr_stream *s)
{
	return s->host_seq || s->behind == s->client->behind_pass;
}

bool
wkr_stream_is_behind(const struct wkr_stream *s)
{
	const struct wkr_stream *legacy = s->group->legacy;

	if (waits_itself(s))
		return true;
	if (s->kind == WKR_STREAM_NON_BLOCKING)
		return false;
	if (s->kind != WKR_STREAM_LEGACY)
		return legacy && waits_itself(legacy);
	for (const struct wkr_stream *i = s->client->streams; i; i = i->next)
		if (i->group == s->group &&
		    i->kind != WKR_STREAM_NON_BLOCKING && waits_itself(i))
			return true;
	return false;
}

bool
wkr_event_is_behind(const struct wkr_client *client,
		    const struct wkr_event *event)
{
	return event->behind == client->behind_pass;
}

/* ---- calls ---- */

/* These wait for more than they name. */
static bool
is_barrier(uint32_t fn)
{
	return fn == API_mpsFence || fn == API_mpsContextSync ||
	       fn == API_mpsContextDestroy;
}

/* These touch what they name and nothing else. */
static bool
is_local(uint32_t fn)
{
	return fn == API_mpsEventSync ||
	       (fn >= API_mpsGraphBegin && fn <= API_mpsGraphEdges) ||
	       fn == API_mpsGraphCondition || fn == API_mpsGraphAdopt ||
	       fn == API_mpsGraphBranch || fn == API_mpsGraphInto ||
	       fn == API_mpsGraphBox;
}

/* Questions about what has not happened yet have an answer. */
static bool
is_question(uint32_t fn)
{
	return fn == API_mpsStreamQuery || fn == API_mpsEventQuery ||
	       fn == API_mpsEventElapsed;
}

static bool
handle_is_behind(struct wkr_client *client, enum handle_kind kind,
		 uint64_t handle)
{
	void *object = wkr_get(client, kind, handle);

	/* Not made yet, if it is anything: its maker waits. */
	if (!object)
		return client->others_ahead;
	switch (kind) {
	case HANDLE_STREAM:
		return wkr_stream_is_behind(object);
	case HANDLE_EVENT:
		return wkr_event_is_behind(client, object);
	case HANDLE_EXEC:
		return ((struct wkr_graph *)object)->behind ==
		       client->behind_pass;
	default:
		return false;
	}
}

static void
mark_handle(struct wkr_client *client, uint32_t fn, enum handle_kind kind,
	    uint64_t handle)
{
	void *object = wkr_get(client, kind, handle);

	if (!object)
		return;
	if (kind == HANDLE_STREAM)
		((struct wkr_stream *)object)->behind = client->behind_pass;
	/* Who waits for an event does not change it. */
	else if (kind == HANDLE_EVENT && fn != API_mpsStreamWait &&
		 fn != API_mpsEventSync)
		((struct wkr_event *)object)->behind = client->behind_pass;
	else if (kind == HANDLE_EXEC)
		((struct wkr_graph *)object)->behind = client->behind_pass;
}

void
wkr_call_mark(struct wkr_call *call)
{
	const struct wire_sig *sig = &api_sigs[call->fn];

	/* Waiting for a stream holds up nothing that comes after in it. */
	if (call->fn == API_mpsStreamSync)
		return;
	for (unsigned i = 0; i < sig->nparams; i++)
		if (sig->params[i].kind == WIRE_HANDLE)
			mark_handle(call->client, call->fn,
				    (enum handle_kind)sig->params[i].handle,
				    call->args[i].value);
}

bool
wkr_call_has_stream(uint32_t fn)
{
	const struct wire_sig *sig = &api_sigs[fn];

	for (unsigned i = 0; i < sig->nparams; i++)
		if (sig->params[i].kind == WIRE_HANDLE &&
		    sig->params[i].handle == HANDLE_STREAM)
			return fn != API_mpsStreamDestroy;
	return false;
}

/* Does anything that it names wait? */
static bool
names_behind(struct wkr_call *call, bool *out_new)
{
	const struct wire_sig *sig = &api_sigs[call->fn];

	for (unsigned i = 0; i < sig->nparams; i++) {
		const struct wire_param *param = &sig->params[i];

		*out_new |= param->kind == WIRE_NEW_HANDLE;
		if (param->kind == WIRE_HANDLE &&
		    handle_is_behind(call->client,
				     (enum handle_kind)param->handle,
				     call->args[i].value))
			return true;
	}
	return false;
}

bool
wkr_call_is_behind(struct wkr_call *call)
{
	struct wkr_client *client = call->client;
	bool makes = false, behind;

	if (is_question(call->fn))
		return false;
	behind = names_behind(call, &makes);
	if (!behind && is_barrier(call->fn))
		behind = client->hosts || client->ahead;
	/* Its place may be that of one whose end waits. */
	else if (!behind && makes)
		behind = client->others_ahead;
	/* What it ends or changes may be needed by what waits. */
	else if (!behind && !is_local(call->fn) &&
		 !wkr_call_has_stream(call->fn))
		behind = client->ahead;
	if (behind)
		wkr_call_mark(call);
	return behind;
}

/* ---- launches ---- */

static void
mark_launch_events(struct wkr_client *client,
		   const struct data_launch *m)
{
	for (size_t at = 0; at + sizeof(struct launch_attr) <= m->attrs.size;
	     at += sizeof(struct launch_attr)) {
		CUlaunchAttributeValue value;
		struct launch_attr attr;

		memcpy(&attr, m->attrs.data + at, sizeof(attr));
		memcpy(&value, attr.value, sizeof(value));
		if (attr.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
			mark_handle(client, 0, HANDLE_EVENT,
				    (uintptr_t)value.programmaticEvent.event);
		else if (attr.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
			mark_handle(
				client, 0, HANDLE_EVENT,
				(uintptr_t)value.launchCompletionEvent.event);
	}
}

void
wkr_launch_mark(struct wkr_client *client, const struct data_launch *m)
{
	struct launch_head head;

	if (m->head.size != sizeof(head))
		return;
	memcpy(&head, m->head.data, sizeof(head));
	mark_handle(client, 0, HANDLE_STREAM, head.stream);
	mark_launch_events(client, m);
}

bool
wkr_launch_is_behind(struct wkr_client *client,
		     const struct data_launch *m)
{
	struct launch_head head;

	if (m->head.size != sizeof(head))
		return false;
	memcpy(&head, m->head.data, sizeof(head));
	if (!handle_is_behind(client, HANDLE_STREAM, head.stream))
		return false;
	wkr_launch_mark(client, m);
	return true;
}

/* ---- the list ---- */

bool
wkr_backlog_add(struct wkr_client *client, const uint8_t *frame, uint32_t size,
		uint64_t seq, bool other, bool answered)
{
	struct wkr_behind *b;

	if (client->backlog_frames >= FRAMES_MAX ||
	    client->backlog_bytes + size > BYTES_MAX)
		return false;
	b = malloc(sizeof(*b) + size);
	if (!b)
		return false;
	b->next = NULL;
	b->seq = seq;
	b->size = size;
	b->other = other;
	b->answered = answered;
	client->ahead = true;
	client->others_ahead |= other;
	memcpy(b->frame, frame, size);
	if (!client->backlog)
		client->backlog_end = &client->backlog;
	*client->backlog_end = b;
	client->backlog_end = &b->next;
	client->backlog_frames++;
	client->backlog_bytes += size;
	return true;
}

static void
take_out(struct wkr_client *client, struct wkr_behind **link)
{
	struct wkr_behind *b = *link;

	*link = b->next;
	if (client->backlog_end == &b->next)
		client->backlog_end = link;
	client->backlog_frames--;
	client->backlog_bytes -= b->size;
	free(b);
}

bool
wkr_backlog_run(struct wkr_client *client)
{
	struct wkr_behind **link = &client->backlog;
	bool any = false;

	client->at_gate = false;
	if (!client->backlog)
		return false;
	client->behind_pass++;
	client->draining = true;
	client->ahead = client->others_ahead = false;
	while (*link && !client->closed) {
		struct wkr_behind *b = *link;
		int r;

		client->answered = b->answered;
		r = wkr_frame(client, b->frame, b->size, true);
		if (r == WKR_CALL_E_BEHIND || r == WKR_CALL_E_AGAIN) {
			client->ahead = true;
			client->others_ahead |= b->other;
			link = &b->next;
			continue;
		}
		if (r < 0) {
			wkr_client_drop(client, "a frame breaks the rules");
			break;
		}
		take_out(client, link);
		any = true;
	}
	client->draining = false;
	return any;
}

uint64_t
wkr_backlog_oldest(const struct wkr_client *client)
{
	return client->backlog ? client->backlog->seq : 0;
}

void
wkr_backlog_drop(struct wkr_client *client)
{
	while (client->backlog)
		take_out(client, &client->backlog);
	client->ahead = client->others_ahead = false;
}
