/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overlap by timing events. While it is switched on, an event is recorded
 * before and behind each launch, and both are read against a base event once
 * the launch has retired. That needs nothing of the driver library but events,
 * so it is the same on the real driver and on the software device.
 *
 * What it means: the event before a launch is stamped when the stream comes
 * to it, which is when the kernel may start, not when it does. A kernel that
 * waits for multiprocessors (or, on the software device, for a thread) counts
 * as running, so two clients whose kernels took turns on a full device
 * overlap here. What is proven is that neither the driver nor the worker kept
 * one client's kernel back for another's; how many blocks ran side by side is
 * not. A graph with a kernel counts from its first node to its last. No stream
 * of the driver ever captures here, so nothing is added to anybody's graph.
 *
 * It has a price (two records a launch, one lock for all lanes), which is why
 * it is off unless asked for.
 */
#include "server/worker/overlap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/worker/client.h"

/* Pairs of events in flight. What exceeds them is launched without, and so is
 * what comes to a stream that is nearly full: each record may take a place. */
#define BRACKETS_MAX 8192u
#define RECORDS 2u
/* Intervals between two bookings. */
#define FOLD_EVERY 4096u
/* Times are differences in milliseconds as a float: from a base a second ago
 * they are good to 60 ns, an hour ago to 0.25 ms. */
#define BASE_EVERY_NS UINT64_C(1000000000)

struct base {
	CUevent event;
	uint64_t at_ns; /* on a line that begins with the first one */
	uint64_t made_ns; /* by the host's clock */
	uint32_t refs;
};

struct wkr_bracket {
	struct wkr_bracket *next, *prev; /* all in flight, or the free ones */
	struct wkr_bracket *behind;	 /* in its stream */
	struct wkr_stream *stream;
	CUevent begin, end;
	struct base *base;
	uint64_t client;
	bool closed;   /* end is recorded */
	bool launched; /* else there is nothing to book */
};

/* Guards what follows, and the brackets and their lists in streams. Driver
 * calls under it wait for nothing. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wkr_bracket flight = {.next = &flight, .prev = &flight};
static struct wkr_bracket *unused;
static unsigned made;
static struct base *base, *next_base;
static CUstream base_stream;
static struct wkr_times times;
static uint64_t booked_until; /* on the line of times */
static uint64_t timed, missed;

/* ---- bases ---- */

static struct base *
base_make(void)
{
	struct base *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->refs = 1;
	b->made_ns = wkr_now_ns();
	if (wkr_ok(wkr.drv.cuEventCreate(&b->event, CU_EVENT_DEFAULT)) !=
	    CUDA_SUCCESS) {
		free(b);
		return NULL;
	}
	if (wkr_ok(wkr.drv.cuEventRecord(b->event, base_stream)) ==
	    CUDA_SUCCESS)
		return b;
	wkr_ok(wkr.drv.cuEventDestroy_v2(b->event));
	free(b);
	return NULL;
}

static void
base_unref(struct base *b)
{
	if (--b->refs)
		return;
	wkr_ok(wkr.drv.cuEventDestroy_v2(b->event));
	free(b);
}

/* Where an event is on the line. False: the driver does not say. */
static bool
read_event(const struct base *from, CUevent event, uint64_t *out_ns)
{
	float ms;

	if (wkr_ok(wkr.drv.cuEventElapsedTime(&ms, from->event, event)) !=
	    CUDA_SUCCESS)
		return false;
	/* Before its base: of two clocks' rounding at most. */
	*out_ns = from->at_ns + (ms > 0 ? (uint64_t)((double)ms * 1e6) : 0);
	return true;
}

/* A new base when the last is that old; it serves once it has its time. */
static void
renew_base_locked(uint64_t age_ns)
{
	if (!next_base) {
		if (wkr_now_ns() - base->made_ns >= age_ns)
			next_base = base_make();
		return;
	}
	if (wkr_ok(wkr.drv.cuEventQuery(next_base->event)) != CUDA_SUCCESS ||
	    !read_event(base, next_base->event, &next_base->at_ns))
		return;
	base_unref(base);
	base = next_base;
	next_base = NULL;
}

/* ---- brackets ---- */

static struct wkr_bracket *
make_locked(void)
{
	struct wkr_bracket *b;

	if (made == BRACKETS_MAX)
		return NULL;
	b = calloc(1, sizeof(*b));
	if (b && wkr_ok(wkr.drv.cuEventCreate(&b->begin, CU_EVENT_DEFAULT)) ==
			 CUDA_SUCCESS) {
		if (wkr_ok(wkr.drv.cuEventCreate(
			    &b->end, CU_EVENT_DEFAULT)) == CUDA_SUCCESS) {
			made++;
			return b;
		}
		wkr_ok(wkr.drv.cuEventDestroy_v2(b->begin));
	}
	free(b);
	return NULL;
}

static struct wkr_bracket *
take_locked(void)
{
	struct wkr_bracket *b = unused;

	if (!b)
		return make_locked();
	unused = b->next;
	return b;
}

static void
give_locked(struct wkr_bracket *b)
{
	base_unref(b->base);
	b->next = unused;
	unused = b;
}

static void
link_locked(struct wkr_bracket *b)
{
	struct wkr_stream *s = b->stream;

	b->prev = flight.prev;
	b->next = &flight;
	flight.prev->next = b;
	flight.prev = b;
	b->behind = NULL;
	if (s->brackets)
		s->last_bracket->behind = b;
	else
		s->brackets = b;
	s->last_bracket = b;
}

/* The oldest of its stream leaves. */
static void
unlink_locked(struct wkr_bracket *b)
{
	b->prev->next = b->next;
	b->next->prev = b->prev;
	b->stream->brackets = b->behind;
	give_locked(b);
}

struct wkr_bracket *
wkr_bracket_open(struct wkr_stream *stream)
{
	struct wkr_bracket *b;

	pthread_mutex_lock(&lock);
	renew_base_locked(BASE_EVERY_NS);
	b = stream->entries - stream->entries_retired + RECORDS < WKR_CREDIT ?
		    take_locked() :
		    NULL;
	if (b) {
		stream->entries += RECORDS;
		b->stream = stream;
		b->client = stream->client->id;
		b->base = base;
		b->closed = false;
		base->refs++;
		if (wkr_ok(wkr.drv.cuEventRecord(
			    b->begin, stream->native)) == CUDA_SUCCESS) {
			link_locked(b);
		} else {
			give_locked(b);
			b = NULL;
		}
	}
	missed += !b;
	pthread_mutex_unlock(&lock);
	return b;
}

void
wkr_bracket_close(struct wkr_bracket *b, bool launched)
{
	pthread_mutex_lock(&lock);
	b->launched = launched &&
		      wkr_ok(wkr.drv.cuEventRecord(
			      b->end, b->stream->native)) == CUDA_SUCCESS;
	b->closed = true;
	missed += launched && !b->launched;
	pthread_mutex_unlock(&lock);
}

/* ---- intervals ---- */

static void
book_locked(struct wkr_bracket *b)
{
	uint64_t begin, end;

	if (!read_event(b->base, b->begin, &begin) ||
	    !read_event(b->base, b->end, &end) ||
	    wkr_times_add(&times, b->client,
			  begin > booked_until ? begin : booked_until,
			  end) < 0)
		missed++;
	else
		timed++;
}

static void
collect_locked(struct wkr_stream *stream)
{
	struct wkr_bracket *b;

	while ((b = stream->brackets) && b->closed) {
		if (b->launched &&
		    wkr_ok(wkr.drv.cuEventQuery(b->end)) != CUDA_SUCCESS)
			return;
		if (b->launched)
			book_locked(b);
		unlink_locked(b);
	}
}

/* Only the oldest of each stream can have been running at that time. */
static void
book_running_locked(uint64_t until)
{
	uint64_t begin;

	for (struct wkr_bracket *b = flight.next; b != &flight; b = b->next) {
		if (b != b->stream->brackets ||
		    wkr_ok(wkr.drv.cuEventQuery(b->begin)) != CUDA_SUCCESS ||
		    !read_event(b->base, b->begin, &begin))
			continue;
		wkr_times_add(&times, b->client,
			      begin > booked_until ? begin : booked_until,
			      until);
	}
}

/*
 * Book all up to the latest time that is known, and nothing of that time ever
 * again: what is still running is booked up to there now and from there on
 * later. What has not begun when it is asked here begins later than that.
 */
static void
fold_locked(void)
{
	struct wkr_bracket *b = flight.next;
	uint64_t until;

	while (b != &flight) {
		struct wkr_stream *stream = b->stream;

		/* Others of its stream may leave together with it. */
		while (b != &flight && b->stream == stream)
			b = b->next;
		collect_locked(stream);
	}
	until = wkr_times_end(&times);
	if (until < base->at_ns)
		until = base->at_ns;
	if (until <= booked_until)
		return;
	book_running_locked(until);
	wkr_times_fold(&times);
	booked_until = until;
}

void
wkr_brackets_collect(struct wkr_stream *stream)
{
	pthread_mutex_lock(&lock);
	collect_locked(stream);
	if (times.count >= FOLD_EVERY)
		fold_locked();
	pthread_mutex_unlock(&lock);
}

void
wkr_brackets_drop(struct wkr_stream *stream)
{
	pthread_mutex_lock(&lock);
	collect_locked(stream);
	while (stream->brackets)
		unlink_locked(stream->brackets);
	pthread_mutex_unlock(&lock);
}

void
wkr_overlap_forget(uint64_t client)
{
	pthread_mutex_lock(&lock);
	fold_locked();
	wkr_times_forget(&times, client);
	pthread_mutex_unlock(&lock);
}

void
wkr_overlap_get(struct wkr_overlap *out)
{
	pthread_mutex_lock(&lock);
	renew_base_locked(0);
	/* A base's stream has nothing else to do; if all of the device's
	 * queues are held up, kernels that run are booked up to the last. */
	for (int i = 0; i < 20 && next_base; i++) {
		pthread_mutex_unlock(&lock);
		usleep(100);
		pthread_mutex_lock(&lock);
		renew_base_locked(BASE_EVERY_NS);
	}
	fold_locked();
	*out = (struct wkr_overlap){times.both_ns, times.any_ns, timed, missed};
	pthread_mutex_unlock(&lock);
}

uint64_t
wkr_overlap_busy_ns(uint64_t client)
{
	uint64_t ns = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < times.nbusy; i++)
		if (times.busy[i].client == client)
			ns = times.busy[i].ns;
	pthread_mutex_unlock(&lock);
	return ns;
}

CUresult
wkr_overlap_start(void)
{
	const char *set = getenv("MPSSHIM_OVERLAP");
	CUresult r;

	if (!set || strcmp(set, "1") != 0)
		return CUDA_SUCCESS;
	r = wkr.drv.cuStreamCreate(&base_stream, CU_STREAM_NON_BLOCKING);
	if (r != CUDA_SUCCESS)
		return r;
	base = base_make();
	if (!base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	wkr.measuring = true;
	return wkr.drv.cuEventSynchronize(base->event);
}
