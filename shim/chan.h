/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's data channel to the worker of one device: calls and posts.
 * Used by entry points (through shim/enter.h or build/gen/shim_calls.h) and by
 * the memory code.
 *
 * Frames are written under one short process-private lock, so the order in
 * which threads call is the order of replay. Nobody waits under that lock: a
 * full ring is left in ticket order, a reply is awaited in its own slot.
 */
#ifndef SHIM_CHAN_H
#define SHIM_CHAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api_cuda.h"
#include "api_ids.h"
#include "proto/launch.h"

struct shim_chan;
struct shim_stage;

/* The channel of a device, attached at its first use. Waits for a worker. */
CUresult shim_chan_get(int device, struct shim_chan **out_chan);

/*
 * A call with a reply: packed from argv (argv[i] points at argument i, whose
 * handles must be valid), sent by the ring that its class names, awaited;
 * results are stored through the caller's pointers. Returns the worker's
 * CUresult or the channel's sticky error.
 */
CUresult shim_chan_call(struct shim_chan *chan, enum api_id id,
			void *const argv[]);
/* A call without a reply. */
CUresult shim_chan_post(struct shim_chan *chan, enum api_id id,
			void *const argv[]);
/* A kernel launch. attrs has head->nattrs entries. The DATA_LAUNCH_ROOM bytes
 * in front of the parameters are the caller's, and get overwritten. */
CUresult shim_chan_launch(struct shim_chan *chan,
			  const struct launch_head *head, uint8_t *params,
			  size_t params_size, const struct launch_attr *attrs);

/*
 * The two halves of shim_chan_call, for a caller that has several calls under
 * way. argv and what it points at must stay until the end; every begun call is
 * ended.
 */
struct shim_wait {
	uint64_t seq;
	uint32_t text_left;         /* printed bytes that did not fit */
	uint8_t slot;               /* ring: the reply slot */
	uint64_t end;               /* ring: position behind the frame */
	_Atomic uint32_t done;      /* socket: futex word */
	uint8_t *frame;             /* socket: the reply, ours */
	size_t size;
	struct shim_wait *next;
};
CUresult shim_chan_begin(struct shim_chan *chan, enum api_id id,
			 void *const argv[], struct shim_wait *wait);
CUresult shim_chan_end(struct shim_chan *chan, enum api_id id,
		       void *const argv[], struct shim_wait *wait);

/* Number of the last frame on the ordered ring: whatever was posted before
 * now has retired once shim_chan_retired() has reached it. */
uint64_t shim_chan_seq(struct shim_chan *chan);
uint64_t shim_chan_retired(struct shim_chan *chan);
/* Is it over with everything up to that frame, so that a call which waits for
 * it would bring nothing but a late error? */
bool shim_chan_is_over(struct shim_chan *chan, uint64_t seq);
/* What earlier work has done wrong, once: the answer of a call that waits. */
CUresult shim_chan_late(struct shim_chan *chan);
/* With no_ring, wait until the worker has taken everything posted so far. */
void shim_chan_wait_issued(struct shim_chan *chan);
/* Wait until everything posted so far has retired. */
CUresult shim_chan_fence(struct shim_chan *chan);
/* Wait until seq has retired, without fencing what comes after it. */
CUresult shim_chan_wait(struct shim_chan *chan, uint64_t seq);

/* The error that every call on this device returns from now on, or 0. */
CUresult shim_chan_sticky(const struct shim_chan *chan);
void shim_chan_fail(struct shim_chan *chan, CUresult code);

int shim_chan_device(const struct shim_chan *chan);
struct shim_stage *shim_chan_stage(struct shim_chan *chan);
uint8_t *shim_chan_staging(struct shim_chan *chan);

#endif
