/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single-producer, single-consumer byte ring of frames.
 * The shim pushes under its channel lock; one worker thread pops.
 */
#ifndef PROTO_RING_H
#define PROTO_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/channel.h"
#include "proto/frame.h"

/* One side's view. */
struct ring {
	struct ring_words *words;
	uint8_t *bytes;         /* mapped twice */
	uint32_t size;          /* power of two */
	uint64_t own;           /* producer: tail; consumer: head */
	uint64_t seen;          /* last value read of the other's cursor */
	uint32_t nudged;        /* producer: naps value last nudged for */
};

void ring_init(struct ring *ring, struct ring_words *words, uint8_t *bytes,
	       uint32_t size);

/* Producer: room for a frame of `size` bytes (header included), contiguous,
 * 8-aligned; NULL when the ring is full. Nothing is visible before
 * ring_commit(), which takes the same size (or a smaller one). */
void *ring_reserve(struct ring *ring, uint32_t size);
/* Publish. True: the consumer naps and has not been nudged for this nap. */
bool ring_commit(struct ring *ring, uint32_t size);
bool ring_is_empty_for_producer(struct ring *ring);

enum {
	RING_E_EMPTY = 1,
};
/*
 * Consumer: copy the next frame into buf (cap >= FRAME_MAX) and give its
 * space back. 0; RING_E_EMPTY; -EBADMSG when the producer lies about tail,
 * sizes or types: the ring is then unusable.
 */
int ring_pop(struct ring *ring, uint8_t *buf, uint32_t cap,
	     uint32_t *out_size);
/* The two halves of it: copy the frame, and give back the space of all frames
 * up to a position, which is what ring->own was behind the last of them. */
int ring_take(struct ring *ring, uint8_t *buf, uint32_t cap,
	      uint32_t *out_size);
void ring_give(struct ring *ring, uint64_t position);
/* Are that many bytes there, behind what has been taken? */
bool ring_holds(struct ring *ring, uint32_t size);
/* Go on where another consumer has ended: at the first frame whose space it
 * has not given back, or (skip) behind all that there is. */
void ring_take_over(struct ring *ring, bool skip);
bool ring_is_empty(struct ring *ring);
/* Consumer: have the first bytes that are there come into its cache. */
void ring_prefetch(const struct ring *ring);
/* Consumer: announce sleep; true: really empty, sleep now. False: frames
 * came meanwhile and the nap is over. ring_wake() ends a nap. */
bool ring_nap(struct ring *ring);
void ring_wake(struct ring *ring);

#endif
