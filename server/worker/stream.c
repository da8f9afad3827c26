/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams. The driver sees non-blocking ones only; what CUDA orders between
 * a context's legacy default stream and its blocking streams is done here by
 * events, so that one client's default stream never orders another's work.
 */
#include <errno.h>
#include <stdlib.h>

#include "server/worker/backlog.h"
#include "server/worker/batch.h"
#include "server/worker/call.h"
#include "server/worker/lane.h"
#include "server/worker/overlap.h"
#include "server/worker/word.h"

struct wkr_group *
wkr_group_find(struct wkr_client *client, uint64_t context)
{
	for (struct wkr_group *g = client->groups; g; g = g->next)
		if (g->context == context)
			return g;
	return NULL;
}

static struct wkr_group *
group_get(struct wkr_client *client, uint64_t context)
{
	struct wkr_group *g = wkr_group_find(client, context);

	if (g)
		return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->context = context;
	g->next = client->groups;
	client->groups = g;
	return g;
}

CUresult
wkr_mpsStreamCreate(struct wkr_call *call, uint64_t stream, uint64_t context,
		    uint32_t kind, int32_t priority)
{
	struct wkr_client *client = call->client;
	struct wkr_stream *s;
	int r;

	if (kind >= WKR_STREAM_KINDS)
		return CUDA_ERROR_INVALID_VALUE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->client = client;
	s->handle = stream;
	s->kind = (enum wkr_stream_kind)kind;
	s->priority = priority;
	s->group = group_get(client, context);
	if (!s->group || (s->kind == WKR_STREAM_LEGACY && s->group->legacy)) {
		free(s);
		return CUDA_ERROR_INVALID_VALUE;
	}
	r = wkr_put(client, HANDLE_STREAM, stream, s);
	if (r < 0) {
		free(s);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	if (s->kind == WKR_STREAM_LEGACY)
		s->group->legacy = s;
	s->next = client->streams;
	client->streams = s;
	return CUDA_SUCCESS;
}

/* Programs make dozens of streams that they never use (PyTorch's pools):
 * the driver's is made at the first operation. */
static CUresult
make_native(struct wkr_stream *s)
{
	CUresult r;

	if (s->native)
		return CUDA_SUCCESS;
	r = wkr_ok(wkr.drv.cuStreamCreateWithPriority(
		&s->native, CU_STREAM_NON_BLOCKING, s->priority));
	if (r != CUDA_SUCCESS)
		return r;
	if (wkr.soft)
		wkr.soft->set_stream_tag(s->native, s->client->id);
	s->word = wkr_word_take();
	return CUDA_SUCCESS;
}

static void
mark_destroyed(struct wkr_stream *s)
{
	struct wkr_client *client = s->client;

	pthread_mutex_lock(&client->lock);
	handle_remove(client->table, HANDLE_STREAM, s->handle);
	pthread_mutex_unlock(&client->lock);
	wkr_journal_drop(client, s->handle);
	s->destroyed = true;
	client->dying++;
	if (s->group->legacy == s)
		s->group->legacy = NULL;
}

CUresult
wkr_mpsStreamDestroy(struct wkr_call *call, uint64_t stream)
{
	struct wkr_stream *s = wkr_get(call->client, HANDLE_STREAM, stream);

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	wkr_stream_fence(s);
	mark_destroyed(s);
	return CUDA_SUCCESS;
}

CUresult
wkr_mpsContextDestroy(struct wkr_call *call, uint64_t context)
{
	struct wkr_group *g = wkr_group_find(call->client, context);

	for (struct wkr_stream *s = call->client->streams; g && s;
	     s = s->next) {
		if (s->group != g || s->destroyed)
			continue;
		wkr_stream_fence(s);
		mark_destroyed(s);
	}
	return CUDA_SUCCESS;
}

static void
stream_free(struct wkr_stream *s)
{
	if (s->brackets)
		wkr_brackets_drop(s);
	wkr_kits_forget(s);
	if (s->native)
		wkr_ok(wkr.drv.cuStreamDestroy_v2(s->native));
	wkr_word_give(s->word);
	free(s);
}

/* Groups without streams go with their last one. */
static void
groups_reap(struct wkr_client *client)
{
	struct wkr_group **link = &client->groups, *g;

	while ((g = *link)) {
		struct wkr_stream *s = client->streams;

		while (s && s->group != g)
			s = s->next;
		if (s) {
			link = &g->next;
			continue;
		}
		*link = g->next;
		free(g);
	}
}

/* Only between pending polls: whoever waits for a drained stream has been
 * answered by then. */
void
wkr_streams_reap(struct wkr_client *client)
{
	struct wkr_stream **link = &client->streams, *s;
	bool any = false;

	while (client->dying && (s = *link)) {
		if (!s->destroyed || s->busy) {
			link = &s->next;
			continue;
		}
		*link = s->next;
		client->dying--;
		stream_free(s);
		any = true;
	}
	if (any)
		groups_reap(client);
}

void
wkr_streams_destroy(struct wkr_client *client)
{
	struct wkr_stream *s;

	while ((s = client->streams)) {
		client->streams = s->next;
		stream_free(s);
	}
	groups_reap(client);
}

/* What is put on `to` from now on comes after what `from` has. */
static CUresult
join(struct wkr_stream *from, struct wkr_stream *to)
{
	struct wkr_lane *lane = to->client->lane;
	struct wkr_fence *fence = wkr_fence_take(lane);
	CUresult r;

	if (!fence)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = wkr_ok(wkr.drv.cuEventRecord(fence->event, from->native));
	if (r == CUDA_SUCCESS)
		r = wkr_ok(
			wkr.drv.cuStreamWaitEvent(to->native, fence->event, 0));
	from->entries++;
	to->entries++;
	/* A wait refers to the record of its time: the event is free. */
	wkr_fence_give(lane, fence);
	return r;
}

/* Put `to` behind what `from` has. In a crowd nothing may wait in the driver:
 * the operation is held until `from` is idle. */
static CUresult
come_after(struct wkr_stream *from, struct wkr_stream *to)
{
	if (wkr_stream_is_idle(from))
		return CUDA_SUCCESS;
	if (!wkr_is_crowded())
		return join(from, to);
	to->client->parked = "another of its streams";
	return WKR_AGAIN;
}

static CUresult
order_legacy(struct wkr_stream *legacy)
{
	CUresult r = CUDA_SUCCESS;

	for (struct wkr_stream *s = legacy->client->streams;
	     s && r == CUDA_SUCCESS; s = s->next) {
		if (s == legacy || s->group != legacy->group ||
		    s->kind == WKR_STREAM_NON_BLOCKING ||
		    s->joined == s->issued)
			continue;
		r = come_after(s, legacy);
		if (r == CUDA_SUCCESS)
			s->joined = s->issued;
	}
	return r;
}

static CUresult
order(struct wkr_stream *s)
{
	struct wkr_stream *legacy = s->group->legacy;
	CUresult r = CUDA_SUCCESS;

	if (s->kind == WKR_STREAM_LEGACY)
		return order_legacy(s);
	if (s->kind == WKR_STREAM_NON_BLOCKING || !legacy ||
	    s->seen == legacy->issued)
		return CUDA_SUCCESS;
	r = come_after(legacy, s);
	if (r == CUDA_SUCCESS)
		s->seen = legacy->issued;
	return r;
}

/* Would order() do nothing? */
static bool
is_ordered(const struct wkr_stream *s)
{
	const struct wkr_stream *legacy = s->group->legacy;

	if (s->kind != WKR_STREAM_LEGACY)
		return s->kind == WKR_STREAM_NON_BLOCKING || !legacy ||
		       s->seen == legacy->issued;
	for (const struct wkr_stream *i = s->client->streams; i; i = i->next)
		if (i != s && i->group == s->group &&
		    i->kind != WKR_STREAM_NON_BLOCKING &&
		    i->joined != i->issued)
			return false;
	return true;
}

bool
wkr_is_crowded(void)
{
	return atomic_load(&wkr.active_streams) > WKR_STREAMS_FREE;
}

static bool
has_credit(const struct wkr_stream *s)
{
	return wkr_is_crowded()
		       ? wkr_stream_is_idle(s)
		       : s->entries - s->entries_retired < WKR_CREDIT;
}

bool
wkr_stream_goes_on(const struct wkr_stream *s, unsigned launches)
{
	return !wkr_is_crowded() && !s->waited && is_ordered(s) &&
	       s->entries - s->entries_retired + launches <= WKR_CREDIT;
}

CUresult
wkr_stream_begin(struct wkr_call *call, struct wkr_stream *s)
{
	CUresult r;

	wkr_batch_issue(s->client);
	if (wkr_gate_is_shut(call->client)) {
		call->client->parked = "code that is being loaded";
		call->client->at_gate = true;
		return WKR_AGAIN;
	}
	if (!has_credit(s)) {
		call->client->parked = "room in its stream";
		return WKR_AGAIN;
	}
	r = make_native(s);
	if (r != CUDA_SUCCESS)
		return r;
	wkr_stream_part(s);
	r = order(s);
	if (r == CUDA_SUCCESS)
		wkr_keep_begin(call, call->again);
	return r;
}

void
wkr_stream_is_used(struct wkr_stream *s)
{
	if (s->busy)
		return;
	s->busy = true;
	s->next_busy = s->client->busy;
	s->client->busy = s;
}

void
wkr_stream_end(struct wkr_call *call, struct wkr_stream *s, bool launch)
{
	if (s->fenced == s->issued) {
		s->first_seq = call->seq;
		s->since_ns = wkr_now_ns();
	}
	if (wkr_stream_is_idle(s)) {
		atomic_fetch_add(&wkr.active_streams, 1);
		s->asked_ns = s->since_ns;
		wkr_stream_is_used(s);
	}
	s->issued++;
	/* A copy or the like may take more than its own place. */
	s->entries += launch ? 1 : 2;
	if (launch) {
		s->launches++;
		wkr_count(&call->client->unretired_launches, 1);
	}
}

CUresult
wkr_mpsStreamSync(struct wkr_call *call, uint64_t stream)
{
	struct wkr_stream *s = wkr_get(call->client, HANDLE_STREAM, stream);

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	return wkr_defer(call, WKR_OF_STREAM, s);
}

CUresult
wkr_mpsStreamReached(struct wkr_call *call, uint64_t stream, uint64_t seq,
		     uint64_t *reached)
{
	struct wkr_stream *s = wkr_get(call->client, HANDLE_STREAM, stream);

	(void)reached; /* pending.c */
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	return wkr_defer_until(call, WKR_OF_STREAM, s, seq);
}

void
wkr_knows(struct wkr_client *client)
{
	for (struct wkr_stream *s = client->streams; s; s = s->next)
		if (!wkr_stream_is_idle(s)) {
			wkr_keep_taint(client);
			return;
		}
}

CUresult
wkr_mpsStreamQuery(struct wkr_call *call, uint64_t stream)
{
	struct wkr_stream *s = wkr_get(call->client, HANDLE_STREAM, stream);
	bool legacy;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	legacy = s->kind == WKR_STREAM_LEGACY;
	for (struct wkr_stream *i = call->client->streams; i; i = i->next) {
		CUresult r;

		if (i != s && !(legacy && i->group == s->group &&
				i->kind != WKR_STREAM_NON_BLOCKING))
			continue;
		if (wkr_stream_is_behind(i))
			return CUDA_ERROR_NOT_READY;
		if (wkr_stream_is_idle(i) || wkr_stream_is_told(i))
			continue;
		r = wkr_ok(wkr.drv.cuStreamQuery(i->native));
		if (r != CUDA_SUCCESS)
			return r;
	}
	wkr_knows(call->client);
	return CUDA_SUCCESS;
}

CUresult
wkr_mpsContextSync(struct wkr_call *call, uint64_t context)
{
	struct wkr_group *g = wkr_group_find(call->client, context);

	/* A context without streams has never had work. */
	return g ? wkr_defer(call, WKR_OF_GROUP, g) : CUDA_SUCCESS;
}

CUresult
wkr_mpsFence(struct wkr_call *call)
{
	return wkr_defer(call, WKR_ALL, NULL);
}

CUresult
wkr_mpsPing(struct wkr_call *call, uint64_t value, uint64_t *echo)
{
	(void)call;
	if (echo)
		*echo = value;
	return CUDA_SUCCESS;
}
