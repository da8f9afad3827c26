/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of a channel. Shared by the files that implement it: chan.c (frames
 * out), reply.c (frames in), relax.c (health), socket.c (no_ring), attach.c.
 */
#ifndef SHIM_CHAN_OWN_H
#define SHIM_CHAN_OWN_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "proto/channel.h"
#include "proto/ring.h"
#include "proto/sock.h"
#include "shim/chan.h"
#include "shim/control.h"
#include "shim/relax.h"
#include "shim/stage.h"

/* Also the lane field of frames on the socket. */
enum shim_lane_kind { LANE_ORDERED, LANE_UNORDERED, LANE_COUNT };

struct shim_lane {
	struct ring ring;
	_Atomic uint64_t seq;       /* of the last frame */
	uint64_t next_ticket;       /* callers that found the ring full leave */
	uint64_t serving;           /* in the order of their tickets */
};

struct shim_chan {
	int device;
	bool no_ring;
	struct channel channel;
	uint8_t *staging;
	struct shim_stage stage;
	struct shim_fd data;        /* socket: nudges, or everything */
	_Atomic uint32_t sticky;    /* CUresult */
	_Atomic bool said;          /* the page's text is on stderr */
	_Atomic uint32_t gate_wait; /* notice.c: the last that was seen, */
	_Atomic uint64_t gate_since_ns; /* since when; 0: told */
	_Atomic uint64_t free_slots; /* bit i: reply slot i has no owner */
	_Atomic uint64_t late_slots; /* nor this one, but its reply is yet to
				      * come */
	pthread_mutex_t lock;       /* guards lanes, and with no_ring the
				     * sending side of the socket and: */
	uint64_t socket_seq;
	struct shim_lane lanes[LANE_COUNT];

	/* no_ring: threads that wait for replies; one of them reads. */
	pthread_mutex_t reply_lock; /* guards the rest */
	struct shim_wait *waits;
	bool reading;               /* a thread is the reader */
	struct sock_reader reader;
};

/* A frame to be sent, as proto/data.h lays it down: its number is filled in
 * under the lock. A launch's attributes are a second part. */
struct shim_frame {
	struct iovec part[2];
	int nparts;
	uint32_t size;              /* of all parts */
	enum shim_lane_kind lane;
	uint64_t sent_seq;          /* out */
	struct reply_slot *reply;   /* ring: that it names, or NULL */
	uint64_t end;               /* ring, out: position behind it */
	struct shim_wait *wait;     /* no_ring: to register, or NULL */
};

/* attach.c. Data socket (taken), channel memory, staging memory. */
#define SHIM_CHAN_FDS 3
int shim_chan_open(int device, bool no_ring, int fds[SHIM_CHAN_FDS],
		   struct shim_chan **out_chan);
void shim_chan_close(struct shim_chan *chan);

/* chan.c */
CUresult shim_chan_nudge(struct shim_chan *chan);

/* notice.c. In a wait, between slices. */
void shim_notice(struct shim_chan *chan);

/* socket.c */
CUresult shim_socket_send(struct shim_chan *chan, struct shim_frame *frame);
CUresult shim_socket_wait(struct shim_chan *chan, struct shim_wait *wait);

/* reply.c: a whole frame, header first. */
CUresult shim_reply_take(enum api_id id, void *const argv[],
			 const uint8_t *frame, size_t size,
			 uint32_t *out_text_left);

#endif
