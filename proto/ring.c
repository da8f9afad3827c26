/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The byte ring. proto/channel.h states the memory order; the comments here
 * name each access's partner.
 */
#include "proto/ring.h"

#include <errno.h>
#include <string.h>

/* Of a frame: a launch with few parameters. */
#define PREFETCH 192u

static inline uint32_t
padded(uint32_t size)
{
	return (size + 7u) & ~7u;
}

void
ring_init(struct ring *ring, struct ring_words *words, uint8_t *bytes,
	  uint32_t size)
{
	*ring = (struct ring){.words = words, .bytes = bytes, .size = size};
}

void *
ring_reserve(struct ring *ring, uint32_t size)
{
	uint32_t need = padded(size);

	if (need > ring->size)
		return NULL;
	if (ring->own + need - ring->seen > ring->size) {
		/* Acquire: pairs with the consumer's head release; the space
		 * is ours only after its copy out of it. */
		ring->seen = atomic_load_explicit(&ring->words->head,
						  memory_order_acquire);
		/* A head beyond tail is a broken worker: never full, so the
		 * frame would be written anyway; treat it as no space. */
		if (ring->own - ring->seen > ring->size ||
		    ring->own + need - ring->seen > ring->size)
			return NULL;
	}
	return ring->bytes + (ring->own & (ring->size - 1));
}

bool
ring_commit(struct ring *ring, uint32_t size)
{
	const uint8_t *next;
	uint32_t naps;

	ring->own += padded(size);
	/* seq_cst store then seq_cst load: the producer's half of the sleep
	 * protocol (partner: ring_nap). */
	atomic_store_explicit(&ring->words->tail, ring->own,
			      memory_order_seq_cst);
	/* The consumer has read these lines a round ago; the store above
	 * waits until the bytes are in our cache, so have them come early. */
	next = ring->bytes + (ring->own & (ring->size - 1));
	for (unsigned i = 0; i < PREFETCH; i += 64)
		__builtin_prefetch(next + i, 1);
	naps = atomic_load_explicit(&ring->words->naps, memory_order_seq_cst);
	if (!(naps & 1) || naps == ring->nudged)
		return false;
	ring->nudged = naps;
	return true;
}

bool
ring_is_empty_for_producer(struct ring *ring)
{
	return atomic_load_explicit(&ring->words->head,
				    memory_order_acquire) == ring->own;
}

int
ring_take(struct ring *ring, uint8_t *buf, uint32_t cap, uint32_t *out_size)
{
	struct frame_header header;
	uint64_t filled;
	uint32_t size;
	int r;

	filled = ring->seen - ring->own;
	if (filled == 0) {
		/* Acquire: pairs with the tail store in ring_commit; the
		 * frame's bytes are visible after it. */
		ring->seen = atomic_load_explicit(&ring->words->tail,
						  memory_order_acquire);
		filled = ring->seen - ring->own;
		if (filled == 0)
			return RING_E_EMPTY;
	}
	if (filled > ring->size || filled < sizeof(header))
		return -EBADMSG;
	/* Copy first, then look: the producer may scribble at any time. */
	memcpy(&header, ring->bytes + (ring->own & (ring->size - 1)),
	       sizeof(header));
	r = frame_header_check(&header);
	if (r < 0)
		return r;
	size = header.size + (uint32_t)sizeof(header);
	if (size > cap || padded(size) > filled)
		return -EBADMSG;
	memcpy(buf, &header, sizeof(header));
	memcpy(buf + sizeof(header),
	       ring->bytes + ((ring->own + sizeof(header)) & (ring->size - 1)),
	       header.size);
	ring->own += padded(size);
	*out_size = size;
	return 0;
}

bool
ring_holds(struct ring *ring, uint32_t size)
{
	/* Acquire: as in ring_take. */
	if (ring->seen - ring->own < size)
		ring->seen = atomic_load_explicit(&ring->words->tail,
						  memory_order_acquire);
	return ring->seen - ring->own >= size;
}

void
ring_give(struct ring *ring, uint64_t position)
{
	/* Release: our reads of the bytes come before the space is given
	 * back (partner: the acquire in ring_reserve). */
	atomic_store_explicit(&ring->words->head, position,
			      memory_order_release);
}

int
ring_pop(struct ring *ring, uint8_t *buf, uint32_t cap, uint32_t *out_size)
{
	int r = ring_take(ring, buf, cap, out_size);

	if (r == 0)
		ring_give(ring, ring->own);
	return r;
}

void
ring_take_over(struct ring *ring, bool skip)
{
	ring->own = atomic_load_explicit(skip ? &ring->words->tail :
						&ring->words->head,
					 memory_order_acquire);
	ring->seen = ring->own;
	ring_give(ring, ring->own);
	ring_wake(ring);
}

bool
ring_is_empty(struct ring *ring)
{
	return ring->seen == ring->own &&
	       atomic_load_explicit(&ring->words->tail,
				    memory_order_acquire) == ring->own;
}

/* No line behind them: the producer is about to write there. */
void
ring_prefetch(const struct ring *ring)
{
	const uint8_t *at = ring->bytes + (ring->own & (ring->size - 1));
	uint64_t filled = atomic_load_explicit(&ring->words->tail,
					       memory_order_relaxed) -
			  ring->own;

	for (uint64_t i = 0; i < filled && i < PREFETCH; i += 64)
		__builtin_prefetch(at + i);
}

bool
ring_nap(struct ring *ring)
{
	uint32_t naps = atomic_load_explicit(&ring->words->naps,
					     memory_order_relaxed);

	if (!(naps & 1))
		naps++;
	/* seq_cst store then seq_cst load: the consumer's half of the sleep
	 * protocol (partner: ring_commit). */
	atomic_store_explicit(&ring->words->naps, naps, memory_order_seq_cst);
	if (atomic_load_explicit(&ring->words->tail, memory_order_seq_cst) ==
	    ring->own)
		return true;
	ring_wake(ring);
	return false;
}

void
ring_wake(struct ring *ring)
{
	uint32_t naps = atomic_load_explicit(&ring->words->naps,
					     memory_order_relaxed);

	/* Only a hint to the producer, ordered by the next ring_nap. */
	if (naps & 1)
		atomic_store_explicit(&ring->words->naps, naps + 1,
				      memory_order_relaxed);
}
