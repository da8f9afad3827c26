/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retirement: what has the GPU done? Frees and credits go by the answer, so
 * it never comes from memory that a client can write.
 *
 * A fence is an event of the worker's own, recorded between two operations,
 * when the second comes; there is none behind the last. Whether that has
 * retired is asked of the stream itself: on an H200 cuStreamQuery of a busy
 * stream costs no more than cuEventQuery of an event that is not ready
 * (0.7 us both), and an operation alone in its stream needs no event at all.
 *
 * What is queued behind a stream's running kernel can hold up others.
 * There are 32 hardware queues; streams with a launch queued hold up their
 * neighbours from the 32nd on (200 ms beside kernels of 200), fewer do not.
 * Streams with nothing queued hold up nobody, and neither do those with an
 * event record alone (64 of them: 0.04 ms). So fences are not what the limit
 * on active streams is there for.
 *
 * Who waits for what the stream has now gets a word (word.h) behind it at
 * once, if there is one and no crowd: the wait then ends with a look at
 * memory. What stands before a word that has come has retired with it.
 *
 * The driver is asked about a stream at every turn only when somebody waits
 * for it and there is no word. Otherwise it is asked now and then: when work
 * has retired that nobody waits for, and whether the device has faulted, in
 * which case no word ever comes.
 *
 * A record takes none of a stream's places in the driver either (5,000 are
 * accepted behind a kernel, and 1,021 pairs of launch and record); counting
 * a fence as one is on the safe side. Its price is the call. The n-th
 * operation gets one when half of n, or FENCE_EVERY, have come since the
 * last. Who waits without a word gets one at the next operation whatever the
 * distance, or would wait for later work too.
 *
 * With more active streams than queues a stream gets one operation at a time
 * (stream.c), and there is no fence at all.
 */
#include <stdlib.h>

#include "server/worker/backlog.h"
#include "server/worker/call.h"
#include "server/worker/lane.h"
#include "server/worker/overlap.h"
#include "server/worker/word.h"

/* Operations between two fences, at most. */
#define FENCE_EVERY 256u
/* Between two questions about a stream for which nobody waits, and about one
 * that will write a word. */
#define ASK_EVERY_NS UINT64_C(10000)
#define ASK_WATCHED_NS UINT64_C(200000)

struct wkr_fence *
wkr_fence_take(struct wkr_lane *lane)
{
	struct wkr_fence *fence = lane->fences;

	if (fence) {
		lane->fences = fence->next;
		return fence;
	}
	fence = calloc(1, sizeof(*fence));
	if (fence && wkr_ok(wkr.drv.cuEventCreate(&fence->event,
						  CU_EVENT_DISABLE_TIMING)) !=
			     CUDA_SUCCESS) {
		free(fence);
		fence = NULL;
	}
	return fence;
}

void
wkr_fence_give(struct wkr_lane *lane, struct wkr_fence *fence)
{
	fence->next = lane->fences;
	lane->fences = fence;
}

static CUstreamBatchMemOpParams
write_op(CUdeviceptr at, uint64_t value)
{
	return (CUstreamBatchMemOpParams){
		.writeValue = {
			.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
			.address = at,
			.value64 = value,
			.flags = CU_STREAM_WRITE_VALUE_DEFAULT,
		},
	};
}

/* The client's line first: nobody waits for our word but who wants room. */
static CUresult
write_both(struct wkr_stream *stream, uint64_t value,
	   const struct wkr_tell *tell)
{
	CUstreamBatchMemOpParams ops[] = {
		write_op(tell->device, tell->value),
		write_op(stream->word->device, value),
	};

	return wkr_ok(
		wkr.drv.cuStreamBatchMemOp_v2(stream->native, 2, ops, 0));
}

static CUresult
issue_fence(struct wkr_stream *stream, struct wkr_fence *fence, bool word,
	    const struct wkr_tell *tell)
{
	fence->value = 0;
	if (!word)
		return wkr_ok(wkr.drv.cuEventRecord(fence->event,
						    stream->native));
	fence->value = ++stream->word->last;
	if (tell)
		return write_both(stream, fence->value, tell);
	return wkr_ok(wkr.drv.cuStreamWriteValue64_v2(
		stream->native, stream->word->device, fence->value,
		CU_STREAM_WRITE_VALUE_DEFAULT));
}

/* False: there is none; tried again at the next operation. */
static bool
put_fence(struct wkr_stream *stream, bool word, const struct wkr_tell *tell)
{
	struct wkr_lane *lane = stream->client->lane;
	struct wkr_fence *fence = wkr_fence_take(lane);

	if (!fence)
		return false;
	if (issue_fence(stream, fence, word, tell) != CUDA_SUCCESS) {
		wkr_fence_give(lane, fence);
		return false;
	}
	stream->entries += tell ? 3 : word ? 2 : 1;
	fence->next = NULL;
	fence->operations = stream->fenced = stream->issued;
	fence->entries = stream->entries;
	fence->first_seq = stream->first_seq;
	fence->since_ns = stream->since_ns;
	fence->launches = stream->launches;
	stream->launches = 0;
	fence->line = tell ? tell->line : NULL;
	fence->line_value = tell ? tell->value : 0;
	stream->turned = stream->waited = false;
	if (stream->tail)
		stream->tail->next = fence;
	else
		stream->head = fence;
	stream->tail = fence;
	return true;
}

void
wkr_stream_part(struct wkr_stream *stream)
{
	uint64_t bare = stream->issued - stream->fenced;
	uint64_t all = stream->issued - stream->retired;

	if (bare && (stream->waited || bare >= FENCE_EVERY ||
		     (stream->turned && bare >= all / 2)))
		put_fence(stream, false, NULL);
}

void
wkr_stream_fence(struct wkr_stream *stream)
{
	stream->waited = stream->fenced != stream->issued;
}

/* Our own word comes a little later than its line. */
bool
wkr_stream_is_told(const struct wkr_stream *stream)
{
	const struct wkr_fence *last = stream->tail;

	return last && last->line && last->operations == stream->issued &&
	       atomic_load_explicit(last->line, memory_order_acquire) ==
		       last->line_value;
}

/* A word takes a place: the driver must not be made to wait for one. */
static bool
can_write(const struct wkr_stream *stream)
{
	/* Three places: one that tells is an event and two words. */
	return stream->word && !wkr_is_crowded() &&
	       stream->entries - stream->entries_retired + 3 <= WKR_CREDIT;
}

void
wkr_stream_watch(struct wkr_stream *stream, const struct wkr_tell *tell)
{
	if (stream->fenced == stream->issued)
		return;
	if (can_write(stream) && put_fence(stream, true, tell))
		stream->asked_ns = wkr_now_ns();
	else
		wkr_stream_fence(stream);
}

void
wkr_client_fence(struct wkr_client *client)
{
	for (struct wkr_stream *s = client->busy; s; s = s->next_busy)
		s->turned = s->fenced != s->issued;
}

uint64_t
wkr_stream_oldest(const struct wkr_stream *stream)
{
	if (stream->head)
		return stream->head->first_seq;
	return stream->fenced == stream->issued ? stream->host_seq
						: stream->first_seq;
}

/* Since when the operation at the stream's head can have been running: from
 * its issue, or from the end of what was before it. */
static uint64_t
running_since_ns(const struct wkr_stream *stream)
{
	uint64_t issued;

	if (!stream->head && stream->fenced == stream->issued)
		return 0;
	issued = stream->head ? stream->head->since_ns : stream->since_ns;
	return issued > stream->retired_ns ? issued : stream->retired_ns;
}

static void
fence_retired(struct wkr_stream *stream, struct wkr_fence *fence)
{
	struct wkr_client *client = stream->client;

	stream->head = fence->next;
	if (!stream->head)
		stream->tail = NULL;
	stream->retired = fence->operations;
	stream->entries_retired = fence->entries;
	wkr_count(&client->unretired_launches, -fence->launches);
	wkr_fence_give(client->lane, fence);
}

/* Everything but that it is no longer one of the active. */
static void
all_retired(struct wkr_stream *stream)
{
	while (stream->head)
		fence_retired(stream, stream->head);
	stream->retired = stream->fenced = stream->issued;
	stream->entries_retired = stream->entries;
	wkr_count(&stream->client->unretired_launches, -stream->launches);
	stream->launches = 0;
}

static void
went_idle(struct wkr_stream *stream)
{
	stream->entries_retired = stream->entries;
	stream->turned = stream->waited = false;
	atomic_fetch_sub(&wkr.active_streams, 1);
}

/* Whatever stands before a word that has come. */
static bool
read_word(struct wkr_stream *stream)
{
	struct wkr_word *word = stream->word;
	struct wkr_fence *last = NULL;
	uint64_t seen;

	if (!word || word->seen == word->last)
		return false;
	/* Acquire: what the stream did before is seen after it (partner: the
	 * memory barrier of the stream's write). */
	seen = atomic_load_explicit(word->at, memory_order_acquire);
	if (seen == word->seen)
		return false;
	word->seen = seen;
	for (struct wkr_fence *f = stream->head; f; f = f->next)
		if (f->value && f->value <= seen)
			last = f;
	if (!last)
		return false;
	while (stream->head != last)
		fence_retired(stream, stream->head);
	fence_retired(stream, last);
	return true;
}

/* The driver's own word for it. */
static bool
ask(struct wkr_stream *stream)
{
	bool any = false;

	stream->asked_ns = stream->client->lane->now_ns;
	while (stream->head && !stream->head->value &&
	       wkr_ok(wkr.drv.cuEventQuery(stream->head->event)) ==
		       CUDA_SUCCESS) {
		fence_retired(stream, stream->head);
		any = true;
	}
	/* With an event in front it is known to be busy. */
	if ((!stream->head || stream->head->value) &&
	    !wkr_stream_is_idle(stream) &&
	    wkr_ok(wkr.drv.cuStreamQuery(stream->native)) == CUDA_SUCCESS) {
		all_retired(stream);
		any = true;
	}
	return any;
}

static bool
is_due(const struct wkr_stream *stream, bool waited)
{
	bool watched = stream->tail && stream->tail->value;
	uint64_t now = stream->client->lane->now_ns;

	/* A clock that was read before the stream's own time. */
	if (now < stream->asked_ns)
		return waited && !watched;
	return now - stream->asked_ns >= (watched  ? ASK_WATCHED_NS :
					  waited ? 0 :
						   ASK_EVERY_NS);
}

static bool
stream_poll(struct wkr_stream *stream, bool waited)
{
	bool any = read_word(stream);

	if (!any && is_due(stream, waited))
		any = ask(stream);
	if (!any)
		return false;
	stream->retired_ns = wkr_now_ns();
	if (stream->brackets)
		wkr_brackets_collect(stream);
	if (wkr_stream_is_idle(stream))
		went_idle(stream);
	return true;
}

/* Does anything of the client go on only when something has retired? */
static bool
is_waiting(const struct wkr_client *client)
{
	return client->pending || client->held || client->gone ||
	       client->graves || wkr_is_behind(client) ||
	       atomic_load(&client->parting);
}

bool
wkr_client_poll(struct wkr_client *client)
{
	struct wkr_stream **link = &client->busy, *s;
	bool waited = is_waiting(client), any = false;

	while ((s = *link)) {
		if (!wkr_stream_is_idle(s))
			any |= stream_poll(s, waited);
		if (!wkr_stream_is_idle(s) || s->host_seq) {
			link = &s->next_busy;
			continue;
		}
		*link = s->next_busy;
		s->busy = false;
	}
	return any;
}

/* For who looks for old work; relaxed: he may see it a little later. */
static void
set_oldest(struct wkr_client *client, uint64_t since)
{
	uint64_t was = atomic_load_explicit(&client->oldest_ns,
					    memory_order_relaxed);
	uint64_t now = client->lane->now_ns;

	if (was == since)
		return;
	if (was && was < now)
		wkr_gate_ended(client, now - was);
	atomic_store_explicit(&client->oldest_ns, since, memory_order_relaxed);
}

void
wkr_client_publish(struct wkr_client *client)
{
	struct channel_page *page = client->channel.page;
	uint64_t retired = client->seq, since = 0;
	uint64_t behind = wkr_backlog_oldest(client);

	if (behind)
		retired = behind - 1;
	for (struct wkr_stream *s = client->busy; s; s = s->next_busy) {
		uint64_t oldest = wkr_stream_oldest(s),
			 ns = running_since_ns(s);

		if (!oldest)
			continue;
		if (oldest - 1 < retired)
			retired = oldest - 1;
		if (ns && (!since || ns < since))
			since = ns;
	}
	set_oldest(client, since);
	/* A client of another worker has had a higher one already. */
	if (retired <= atomic_load_explicit(&client->retired,
					    memory_order_relaxed))
		return;
	atomic_store_explicit(&client->retired, retired, memory_order_release);
	/* Release: results in staging and pinned memory are the client's
	 * once it sees this (partner: its acquire). */
	atomic_store_explicit(&page->retired, retired, memory_order_release);
}
