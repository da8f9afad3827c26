/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of this worker: its channel, its objects, its memory.
 * Used by server/worker only.
 *
 * A client belongs to one lane, and what is not marked otherwise is touched
 * by that lane's thread alone.
 */
#ifndef SERVER_WORKER_CLIENT_H
#define SERVER_WORKER_CLIENT_H

#include "proto/channel.h"
#include "proto/handle.h"
#include "proto/ring.h"
#include "proto/sock.h"
#include "server/worker/journal.h"
#include "server/worker/range.h"
#include "server/worker/stream.h"
#include "server/worker/worker.h"

/* Unordered calls of one client in other threads at a time: one for each
 * reply slot is all that an honest one can have. */
#define WKR_JOBS_MAX CHANNEL_SLOTS
/* Data socket, channel, staging and, perhaps, journal. */
#define WKR_CLIENT_FDS 4
/* A table slot is made for the highest index used: bounds what handles of a
 * liar can make us allocate. */
#define WKR_HANDLE_INDEX_MAX (1u << 20)

/* Frames that keep their place in the ring (keep.c), at most. */
#define WKR_KEPT_MAX 256u

struct wkr_module;
struct wkr_restore;
struct wkr_pending;
struct wkr_grave;
struct wkr_host;
struct wkr_kit;
struct wkr_behind;
struct wkr_note;

struct wkr_kept {
	uint64_t seq, end; /* end: position in the ring behind it */
};

struct wkr_client {
	struct wkr_client *next; /* under wkr.clients_lock */
	struct wkr_client *lane_next;
	struct wkr_lane *lane;
	uint64_t id;
	int pid;
	uint32_t uid;

	struct channel channel;
	struct ring ordered, unordered;
	bool no_ring;
	int data; /* socket, -1 once closed */
	struct sock_reader reader;
	bool closed;	  /* nothing more is read from it */
	bool gone;	  /* the broker says that it ended */
	bool leaving;	  /* the same, for the helper thread */
	uint64_t gone_id; /* control id to answer then */
	bool polled;	  /* data is in the lane's epoll set */
	/* pause.c: nothing more is begun; and all of it is done: what it
	 * shares with others is not touched any more */
	_Atomic bool parting, parted;
	uint8_t *staging;
	CUdeviceptr lines; /* CHANNEL_LINE each; 0: the GPU writes none */

	/* The frame that must wait, and where it came from. */
	uint8_t *held;
	uint32_t held_size;
	bool held_ordered;
	const char *parked; /* what it waits for, or NULL */

	struct wkr_stream *streams;
	struct wkr_stream *busy;     /* fence.c: next_busy links */
	unsigned dying;		     /* destroyed streams in the list */
	struct wkr_group *groups;
	struct wkr_pending *pending; /* oldest first */
	struct wkr_grave *graves;
	struct wkr_kit *kits;	     /* kit.c */
	uint32_t nkits, kit_wishes, kit_failures;
	struct wkr_host *hosts;	     /* hostfunc.c, oldest first */
	struct wkr_behind *backlog, **backlog_end; /* backlog.c, likewise */
	uint32_t backlog_frames;
	size_t backlog_bytes;
	uint64_t behind_pass;	     /* marks of this pass count */
	bool at_gate;		     /* one of them was turned away, or `held` */
	bool draining;		     /* the frame comes from the backlog */
	bool answered;		     /* and its caller has been answered */
	bool ahead, others_ahead;    /* frames wait before this one; such as
				      * are no operations of a stream */
	_Atomic bool host_news;	     /* mpsHostNext has come */
	uint64_t seq;		    /* of the last frame done with */
	/* keep.c: what page->issued, done and kept say, and the frames behind
	 * the last; read: what those among them read of the device. */
	uint64_t issued, done, kept;
	uint64_t kept_at_begin; /* kept, before the frame in hand */
	uint32_t nkept;
	struct wkr_kept kept_frames[WKR_KEPT_MAX];
	uint64_t read, read_size;
	_Atomic uint32_t ordered_jobs; /* frames in other threads */
	struct wkr_restore *restore;   /* not NULL: it comes from another
					* worker and is being made again */
	uint64_t again_until;	       /* frames that worker has begun */
	uint64_t again_retired;	       /* those that had retired, that */
	uint64_t again_done;	       /* were done */
	struct wkr_journal journal;    /* has a lock of its own */
	_Atomic uint64_t print_seq; /* of its last launch that could print */
	_Atomic uint64_t print_read; /* up to there its text has been read */
	uint64_t print_ended;	     /* print.c's */
	bool unread;		     /* what page->unread says */

	_Atomic uint64_t retired; /* private copy of page->retired */
	_Atomic uint64_t unretired_launches;
	_Atomic uint64_t oldest_ns; /* since when its oldest operation
				     * can have been running; 0: none */
	/* At the load gate, since an operation of its ran for so long. */
	_Atomic uint64_t held_until_ns, held_for_ns;
	_Atomic uint32_t jobs;	    /* of its in other threads */
	_Atomic uint64_t launches, graph_launches, late_errors, ring_frames, socket_frames;
	_Atomic uint64_t device_bytes, host_bytes;
	uint64_t device_limit; /* bytes that it may have, constant */
	_Atomic uint32_t deepest; /* local memory of its kernels, bytes a
				   * thread: taken.c */
	_Atomic(const char *) waiting; /* what for, for status; constants */
	_Atomic uint32_t gated; /* of its calls, those of the gate's thread */
	uint32_t gate_wait;	/* gate's thread: which wait it is, or 0 */
	uint64_t gate;		/* private copy of page->gate */

	/* Guards the rest, and every change of `table`. */
	pthread_mutex_t lock;
	struct handle_table *table;
	struct wkr_module *modules;
	struct wkr_ranges ranges;
	struct wkr_range *unplaced; /* WKR_MEMORY, WKR_ARRAY */
	struct wkr_texture *textures;
	char *text; /* printed, not yet sent */
	size_t text_size;
	uint32_t nfunctions;
	bool host_asked; /* the callback thread waits, with this call */
	uint32_t host_slot;
	uint64_t host_call, host_done, host_over;

	pthread_mutex_t out_lock; /* guards what follows */
	uint8_t *out;		  /* replies the socket did not take */
	size_t out_size;
};

/* Every object of a table begins with what the driver calls it. */
struct wkr_object {
	void *native;
};

/* client.c. Takes the descriptors, closes them on failure. */
CUresult wkr_client_create(const Mps__WorkerClient *m,
			   int fds[WKR_CLIENT_FDS], const char **out_why);
/* Give it to a lane, with a note of kind ADD. */
void wkr_client_serve(struct wkr_client *client, struct wkr_note *note);
/* The client, with the caller's promise to be on the helper thread, which
 * alone adds and removes clients. */
struct wkr_client *wkr_client_find(uint64_t id);
void wkr_client_gone(struct wkr_client *client, uint64_t control_id);
/* Keep it from being buried while another thread works for it. */
void wkr_client_pin(struct wkr_client *client);
void wkr_client_unpin(struct wkr_client *client);
/* fault.c: it is lost: its dead word, and everybody in it woken. */
void wkr_client_tell(struct wkr_client *client, CUresult code,
		     const char *why);
/* Lane: it lied or broke a rule. Its connection ends; the broker is told by
 * the socket's end and says when it is gone. */
void wkr_client_drop(struct wkr_client *client, const char *why);
/* Lane: what it had cannot be had again. The same, and the client hears why. */
void wkr_client_lose(struct wkr_client *client, const char *why);
/* Lane: read nothing more from it. */
void wkr_client_close(struct wkr_client *client);
/* Lane: gone, drained, nothing in other threads: hand it to the reaper. */
void wkr_client_bury(struct wkr_client *client);

/* generic.c: end an object of a kind that has no room of its own. */
void wkr_object_end(enum handle_kind kind, struct wkr_object *object);

/* A handle's object, whose handle may be any number. */
void *wkr_get(struct wkr_client *client, enum handle_kind kind,
	      uint64_t handle);
/* 0, -EEXIST, -EINVAL, -ENOMEM. Takes the lock. For who does not try again:
 * the log says what is there. */
int wkr_put(struct wkr_client *client, enum handle_kind kind, uint64_t handle,
	    void *object);
int wkr_put_if_free(struct wkr_client *client, enum handle_kind kind,
		    uint64_t handle, void *object);

#endif
