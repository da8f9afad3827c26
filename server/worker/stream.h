/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's streams and events, and how it is known that work has retired.
 * Used by lane threads only.
 */
#ifndef SERVER_WORKER_STREAM_H
#define SERVER_WORKER_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wkr_driver.h"

struct wkr_bracket;
struct wkr_call;
struct wkr_client;
struct wkr_lane;

/* Entries of one stream in the driver; the rest waits in the client's ring.
 * An H200's stream takes 1,021 or 1,022 launches before the driver blocks; a
 * wait that comes with one may take a place as well. */
#define WKR_CREDIT 1020u
/* With more active streams than this (of 32 hardware queues), a stream with
 * a launch queued behind its running operation would hold up others (fence.c):
 * one operation each, and waits are over before they would be issued. */
#define WKR_STREAMS_FREE 30u

enum wkr_stream_kind {
	WKR_STREAM_BLOCKING,
	WKR_STREAM_NON_BLOCKING,
	WKR_STREAM_LEGACY,
	WKR_STREAM_PER_THREAD,
	WKR_STREAM_KINDS
};

/* Something behind some operations: they have retired when it has. */
struct wkr_fence {
	struct wkr_fence *next;
	CUevent event;
	uint64_t value;	     /* of the stream's word; 0: the event */
	uint64_t operations; /* of the stream, up to here */
	uint64_t entries;    /* likewise, this one included */
	uint64_t first_seq;  /* of the oldest frame it covers */
	uint64_t since_ns;   /* when that was issued */
	uint64_t launches;   /* kernels among them */
	const _Atomic uint64_t *line; /* says so to the client, by this */
	uint64_t line_value;	      /* value; or NULL */
};

/* What the GPU writes for a client to see. */
struct wkr_tell {
	CUdeviceptr device;
	const _Atomic uint64_t *line; /* the same; the client may write it */
	uint64_t value;
};

/* One client context's streams, which its legacy stream orders. */
struct wkr_group {
	struct wkr_group *next;
	uint64_t context;
	struct wkr_stream *legacy;
};

struct wkr_stream {
	CUstream native; /* first member (struct wkr_object); NULL
			  * until the first operation */
	struct wkr_stream *next;
	struct wkr_stream *next_busy; /* of the client's busy ones */
	struct wkr_client *client;
	struct wkr_group *group;
	struct wkr_word *word; /* or NULL */
	uint64_t handle;
	bool busy; /* has unretired work or is held, or had a turn ago */
	enum wkr_stream_kind kind;
	int priority;
	bool destroyed;			  /* by the client: ends when drained */
	uint64_t issued, fenced, retired; /* operations */
	uint64_t entries, entries_retired; /* places that all of them, fences
					    * and waits take in the driver */
	uint64_t first_seq, since_ns, launches; /* of what is not fenced */
	bool turned; /* what is not fenced is of an earlier turn */
	bool waited; /* or somebody waits for it */
	uint64_t retired_ns; /* when something retired last */
	uint64_t asked_ns;   /* when the driver was asked about it last */
	uint64_t host_seq;   /* of the host function that holds it, or 0 */
	uint64_t behind;     /* backlog.c */
	struct wkr_fence *head, *tail;
	struct wkr_bracket *brackets, *last_bracket; /* overlap.c */
	uint64_t joined; /* what its legacy stream waits for already */
	uint64_t seen;	 /* of its legacy stream, likewise */
};

/* One cuEventRecord, kept while somebody waits for it. */
struct wkr_record {
	CUevent event;
	_Atomic uint32_t refs; /* graphs end in other threads */
};

struct wkr_event {
	CUevent native; /* of record; first member */
	struct wkr_record *record;
	/* Interprocess (event_shared.c): its record instead of this one. */
	struct wkr_shared *shared;
	bool owner;	     /* made it */
	uint32_t announced;  /* records of it in the backlog */
	unsigned flags;
	bool recorded;
	uint64_t stream;    /* of the last cuEventRecord; 0: not known, or
			     * recorded otherwise since */
	uint64_t operation; /* of that stream: done when it has retired */
	bool fixed;	 /* a graph has it: always the same record */
	uint64_t behind; /* backlog.c */
};

/* gate.c: until then some clients begin no operation, or none does. */
extern _Atomic uint64_t wkr_gate_until_ns;
bool wkr_gate_holds(struct wkr_client *client);
static inline bool
wkr_gate_is_shut(struct wkr_client *client)
{
	return atomic_load_explicit(&wkr_gate_until_ns, memory_order_acquire) &&
	       wkr_gate_holds(client);
}
/* Lane: an operation of the client's has ended that had run so long, ns. */
void wkr_gate_ended(struct wkr_client *client, uint64_t age);
/* How often the gate was shut so far. */
uint64_t wkr_gate_shuts(void);

/* Are there more active streams than hardware queues? */
bool wkr_is_crowded(void);
/* A question of the client has been answered with yes: if other work is on its
 * way, that counts as wkr_keep_taint() says. */
void wkr_knows(struct wkr_client *client);
/* Around every driver call that puts work on a stream. begin: 0, WKR_AGAIN
 * when the stream has no credit, or an error; nothing has happened unless it
 * is 0. */
CUresult wkr_stream_begin(struct wkr_call *call, struct wkr_stream *stream);
/* Has the driver room for so many launches in a row, and nothing to do between
 * them? A fence that falls due there can come a little later. */
bool wkr_stream_goes_on(const struct wkr_stream *stream, unsigned launches);
void wkr_stream_end(struct wkr_call *call, struct wkr_stream *stream,
		    bool launch);
/* It has work, or a host function. */
void wkr_stream_is_used(struct wkr_stream *stream);
/* Sequence number of the oldest unretired frame; 0 when there is none. */
uint64_t wkr_stream_oldest(const struct wkr_stream *stream);
static inline bool
wkr_stream_is_idle(const struct wkr_stream *stream)
{
	return stream->issued == stream->retired;
}

/* Does the client know already that all of it has retired? */
bool wkr_stream_is_told(const struct wkr_stream *stream);

/* fence.c. Before the stream's next operation: a fence if one is due. */
void wkr_stream_part(struct wkr_stream *stream);
/* What the stream has is to be known apart from what comes next. */
void wkr_stream_fence(struct wkr_stream *stream);
/* The same, and somebody waits for it: tell it, too, if not NULL. */
void wkr_stream_watch(struct wkr_stream *stream, const struct wkr_tell *tell);
/* See what has retired; true when something has. */
bool wkr_client_poll(struct wkr_client *client);
/* At the end of a turn: what comes next is of another one. */
void wkr_client_fence(struct wkr_client *client);
/* Tell the client, and those who look for old work, how far it is. */
void wkr_client_publish(struct wkr_client *client);
struct wkr_fence *wkr_fence_take(struct wkr_lane *lane);
void wkr_fence_give(struct wkr_lane *lane, struct wkr_fence *fence);

/* Destroy what is drained, or all of it at the client's end. */
void wkr_streams_reap(struct wkr_client *client);
void wkr_streams_destroy(struct wkr_client *client);
void wkr_record_unref(struct wkr_record *record);
void wkr_event_free(struct wkr_event *event);
/* A driver event that nobody waits for, in place of one that somebody does. */
CUresult wkr_record_fresh(struct wkr_record **record, unsigned flags);

/* event_shared.c. Takes the record over. */
CUresult wkr_shared_new(struct wkr_event *event, struct wkr_record *record);
void wkr_shared_drop(struct wkr_event *event);
CUresult wkr_shared_record(struct wkr_event *event, CUstream stream);
/* The last record, referenced; NULL: none, or with CUDA_ERROR_NOT_READY one
 * that is not issued yet. */
struct wkr_record *wkr_shared_take(struct wkr_event *event,
				   CUresult *out_code);
/* A record of this event waits in the backlog, and its caller goes on. */
void wkr_event_announce(struct wkr_client *client, uint64_t event);
/* A record has been issued, or never will be. */
void wkr_event_issued(struct wkr_client *client, struct wkr_event *event);
struct wkr_group *wkr_group_find(struct wkr_client *client, uint64_t context);

#endif
