/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retirement: what has the GPU done? Frees and credits go by the answer, so
 * it never comes from memory that a client can write (R77).
 *
 * A fence is an event of the worker's own, recorded between two operations,
 * when the second comes; there is none behind the last. Whether that has
 * retired is asked of the stream itself: on an H200 cuStreamQuery of a busy
 * stream costs no more than cuEventQuery of an event that is not ready
 * (0.7 us both), and an operation alone in its stream needs no event at all.
 *
 * What is queued behind a stream's running kernel can hold up others (R3).
 * There are 32 hardware queues; streams with a launch queued hold up their
 * neighbours from the 32nd on (200 ms beside kernels of 200), fewer do not.
 * Streams with nothing queued hold up nobody, and neither do those with an
 * event record alone (64 of them: 0.04 ms). So fences are not what the limit
 * on active streams is there for.
 *
 * A record takes none of a stream's places in the driver either (5,000 are
 * accepted behind a kernel, and 1,021 pairs of launch and record); counting
 * a fence as one is on the safe side. Its price is the call. The n-th
 * operation gets one when half of n, or FENCE_EVERY, have come since the
 * last. Who waits for what the stream has now gets one at the next operation
 * whatever the distance, or would wait for later work too.
 *
 * With more active streams than queues a stream gets one operation at a time
 * (stream.c), and there is no fence at all.
 */
#include <stdlib.h>

#include "server/worker/backlog.h"
#include "server/worker/call.h"
#include "server/worker/lane.h"
#include "server/worker/overlap.h"

/* Operations between two fences, at most. */
#define FENCE_EVERY 256u

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

static void
put_fence(struct wkr_stream *stream)
{
	struct wkr_lane *lane = stream->client->lane;
	struct wkr_fence *fence = wkr_fence_take(lane);

	if (!fence)
		return; /* tried again at the next operation */
	if (wkr_ok(wkr.drv.cuEventRecord(fence->event, stream->native)) !=
	    CUDA_SUCCESS) {
		wkr_fence_give(lane, fence);
		return;
	}
	fence->next = NULL;
	fence->operations = stream->fenced = stream->issued;
	fence->entries = ++stream->entries;
	fence->first_seq = stream->first_seq;
	fence->since_ns = stream->since_ns;
	fence->launches = stream->launches;
	stream->launches = 0;
	stream->turned = stream->waited = false;
	if (stream->tail)
		stream->tail->next = fence;
	else
		stream->head = fence;
	stream->tail = fence;
}

void
wkr_stream_part(struct wkr_stream *stream)
{
	uint64_t bare = stream->issued - stream->fenced;
	uint64_t all = stream->issued - stream->retired;

	if (bare && (stream->waited || bare >= FENCE_EVERY ||
		     (stream->turned && bare >= all / 2)))
		put_fence(stream);
}

void
wkr_stream_fence(struct wkr_stream *stream)
{
	stream->waited = stream->fenced != stream->issued;
}

void
wkr_client_fence(struct wkr_client *client)
{
	for (struct wkr_stream *s = client->streams; s; s = s->next)
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
	atomic_fetch_sub(&client->unretired_launches, fence->launches);
	wkr_fence_give(client->lane, fence);
}

static void
all_retired(struct wkr_stream *stream)
{
	stream->retired = stream->fenced = stream->issued;
	stream->entries_retired = stream->entries;
	atomic_fetch_sub(&stream->client->unretired_launches,
			 stream->launches);
	stream->launches = 0;
	stream->turned = stream->waited = false;
	atomic_fetch_sub(&wkr.active_streams, 1);
}

static bool
stream_poll(struct wkr_stream *stream)
{
	bool any = false;

	while (stream->head &&
	       wkr_ok(wkr.drv.cuEventQuery(stream->head->event)) ==
		       CUDA_SUCCESS) {
		fence_retired(stream, stream->head);
		any = true;
	}
	/* Idle behind a fence: the operation that it came before has failed. */
	if (!stream->head &&
	    (wkr_stream_is_idle(stream) ||
	     wkr_ok(wkr.drv.cuStreamQuery(stream->native)) == CUDA_SUCCESS)) {
		all_retired(stream);
		any = true;
	}
	if (any)
		stream->retired_ns = wkr_now_ns();
	if (any && stream->brackets)
		wkr_brackets_collect(stream);
	return any;
}

bool
wkr_client_poll(struct wkr_client *client)
{
	bool any = false;

	for (struct wkr_stream *s = client->streams; s; s = s->next)
		if (!wkr_stream_is_idle(s))
			any |= stream_poll(s);
	return any;
}

void
wkr_client_publish(struct wkr_client *client)
{
	struct channel_page *page = client->channel.page;
	uint64_t retired = client->seq, since = 0;
	uint64_t behind = wkr_backlog_oldest(client);

	if (behind)
		retired = behind - 1;
	for (struct wkr_stream *s = client->streams; s; s = s->next) {
		uint64_t oldest = wkr_stream_oldest(s),
			 ns = running_since_ns(s);

		if (!oldest)
			continue;
		if (oldest - 1 < retired)
			retired = oldest - 1;
		if (ns && (!since || ns < since))
			since = ns;
	}
	atomic_store(&client->oldest_ns, since);
	if (retired == atomic_load(&client->retired))
		return;
	atomic_store(&client->retired, retired);
	/* Release: results in staging and pinned memory are the client's
	 * once it sees this (partner: its acquire). */
	atomic_store_explicit(&page->retired, retired, memory_order_release);
}
