/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When kernels of two clients were running at once, by timing events around
 * launches. Used by server/worker only; off unless MPSSHIM_OVERLAP=1.
 */
#ifndef SERVER_WORKER_OVERLAP_H
#define SERVER_WORKER_OVERLAP_H

#include "server/worker/stream.h"
#include "server/worker/worker.h"

struct wkr_bracket;

/* Sums since the start. */
struct wkr_overlap {
	uint64_t both_ns; /* two or more clients had a kernel running */
	uint64_t any_ns;  /* one or more */
	uint64_t timed, missed; /* launches */
};

/* After the context is there, before any thread. Sets wkr.measuring. */
CUresult wkr_overlap_start(void);

/* Around a driver call that launches kernels on this stream. NULL: this one is
 * not timed. */
struct wkr_bracket *wkr_bracket_open(struct wkr_stream *stream);
/* launched: false when the driver refused. */
void wkr_bracket_close(struct wkr_bracket *bracket, bool launched);
static inline struct wkr_bracket *
wkr_overlap_before(struct wkr_stream *stream)
{
	return wkr.measuring ? wkr_bracket_open(stream) : NULL;
}
static inline void
wkr_overlap_after(struct wkr_bracket *bracket, bool launched)
{
	if (bracket)
		wkr_bracket_close(bracket, launched);
}

/* Something of the stream has retired. */
void wkr_brackets_collect(struct wkr_stream *stream);
/* The stream ends; so does the client of that id. */
void wkr_brackets_drop(struct wkr_stream *stream);
void wkr_overlap_forget(uint64_t client);

/* Any thread that may wait for milliseconds. */
void wkr_overlap_get(struct wkr_overlap *out);
uint64_t wkr_overlap_busy_ns(uint64_t client);

/* times.c: intervals to sums; knows nothing of the driver. */
struct wkr_interval {
	uint64_t client, begin, end;
};
struct wkr_busy {
	uint64_t client, ns;
};
struct wkr_times {
	struct wkr_interval *items;
	size_t count, room;
	struct wkr_busy *busy; /* clients seen, in no order */
	size_t nbusy, busy_room;
	uint64_t both_ns, any_ns;
};
/* 0 or -ENOMEM; an empty interval is no interval. */
int wkr_times_add(struct wkr_times *times, uint64_t client, uint64_t begin,
		  uint64_t end);
/* Where the latest interval ends; 0: there is none. */
uint64_t wkr_times_end(const struct wkr_times *times);
/* Book what has been added. No interval that is added afterwards may begin
 * before wkr_times_end(), or is clipped by the caller. 0 or -ENOMEM. */
int wkr_times_fold(struct wkr_times *times);
void wkr_times_forget(struct wkr_times *times, uint64_t client);

#endif
