/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay lanes: threads that take clients' frames to the driver.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_LANE_H
#define SERVER_WORKER_LANE_H

#include "server/worker/batch.h"
#include "server/worker/client.h"

/* What another thread asks of a lane. */
enum wkr_note_kind { WKR_NOTE_ADD, WKR_NOTE_GONE, WKR_NOTE_FREE };

struct wkr_note {
	struct wkr_note *next;
	enum wkr_note_kind kind;
	struct wkr_client *client;
	struct wkr_range *range; /* FREE: still in the client's list */
	uint64_t control_id;	 /* of the broker's question */
};

struct wkr_lane {
	pthread_t thread;
	unsigned index;
	int epoll, wake;
	struct wkr_client *clients; /* lane_next links */
	uint8_t *frame;		    /* FRAME_MAX bytes */
	uint8_t *arena;
	CUstream flush;		  /* has never any work (print.c) */
	struct wkr_fence *fences; /* unused ones */
	uint64_t now_ns;	  /* when its turn began */
	struct wkr_batch batch;	  /* batch.c */
	uint32_t looks;		  /* turns in which nothing moved */
	_Atomic bool resting; /* it has seen wkr.paused, and begins nothing */
	_Atomic uint64_t shut_seen; /* a turn began after the gate was shut so
				     * many times, and is over */
	_Atomic unsigned nclients;
	pthread_mutex_t lock; /* guards notes */
	struct wkr_note *notes, **notes_end;
};

#define WKR_ARENA_SIZE (4u * FRAME_MAX + 64u * 1024u)

int wkr_lanes_start(unsigned count);
struct wkr_lane *wkr_lane_choose(void);
void wkr_lane_note(struct wkr_lane *lane, struct wkr_note *note);
void wkr_lane_wake(struct wkr_lane *lane);

/* glance.c. Wait a little for something to do. */
void wkr_lane_glance(struct wkr_lane *lane);

/* Memory that the broker wants back, until the client's work has retired. */
struct wkr_grave {
	struct wkr_grave *next;
	struct wkr_range *range;
	uint64_t tail; /* of the ordered ring when it was asked */
	bool passed;   /* frames up to that tail have been taken */
	uint64_t seq;  /* frames up to this must retire */
	uint64_t control_id;
};
void wkr_grave_dig(struct wkr_client *client, const struct wkr_note *note);
void wkr_graves_poll(struct wkr_client *client);

#endif
