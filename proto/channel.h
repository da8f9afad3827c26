/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory of one client and one worker: rings, cursors, reply slots.
 * Made and sealed by the broker, mapped by the shim and by the worker.
 *
 * Layout, all offsets fixed by channel_layout():
 *   page 0        client's line, worker's lines, ring words
 *   ordered ring  RING_ORDERED bytes
 *   unordered     RING_UNORDERED bytes
 *   reply slots   CHANNEL_SLOTS x CHANNEL_SLOT_SIZE
 * Each side maps a ring's bytes twice in a row, so that a frame that wraps
 * is contiguous (channel_map). Every word below has one writer. The worker
 * keeps its own copies of what it writes and never reads them back; what it
 * reads from the client's words it bounds before use.
 *
 * Memory order. Producer: bytes, then tail (seq_cst store). Consumer: tail
 * (acquire), bytes, then head (release), which gives the space back. Sleep:
 * the consumer makes `naps` odd (seq_cst), re-reads tail (seq_cst), and
 * sleeps only if the ring is still empty; the producer loads naps (seq_cst)
 * after its tail store. In the single order of these four either the
 * consumer sees the frame or the producer sees the nap, and nudges.
 * A reply: slot bytes, then slot->state (release, futex wake if WAITING).
 *
 * When the worker is replaced, the next one finds everything here. Frames of
 * the ordered ring that may have to be done again keep their place: head
 * stays before them until they are `done`. A frame that cannot be done twice
 * gives its place back before it is begun, and `kept` says so: what was on
 * the way is lost if kept > done, and nothing is if not. Of the unordered
 * ring the next worker reads only what comes from unordered_from on; whoever
 * has an unanswered call before that sends it again.
 */
#ifndef PROTO_CHANNEL_H
#define PROTO_CHANNEL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RING_ORDERED (256u * 1024u)
#define RING_UNORDERED (128u * 1024u)
#define CHANNEL_SLOTS 64u
#define CHANNEL_SLOT_SIZE (16u * 1024u)
#define CHANNEL_NO_SLOT UINT32_MAX
#define CHANNEL_WHY 192u
#define CHANNEL_TEXT 3072u
#define CHANNEL_PROGRAM 32u
/*
 * Pageable copies go through this much kept, registered memory. Behind it is
 * a line for each reply slot, where the GPU itself writes the number of an
 * ordered frame whose reply would say nothing but that its stream has come so
 * far. It is as good as the reply, which follows: until that is there, the
 * slot has no new owner. Only clients read these lines.
 */
#define CHANNEL_STAGING (4u * 1024u * 1024u)
#define CHANNEL_LINE 64u
#define CHANNEL_STAGING_SIZE (CHANNEL_STAGING + CHANNEL_SLOTS * CHANNEL_LINE)

/* One ring's words. tail: client; head, naps: worker. Free-running byte
 * counts; a record is a frame padded to 8 bytes. naps is read after every
 * frame and written only around a sleep, head is written after every frame:
 * on one line each read would fetch it from the worker's cache. */
struct ring_words {
	_Alignas(64) _Atomic uint64_t tail;
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint32_t naps; /* odd: the worker sleeps */
};

enum slot_state {
	SLOT_IDLE,      /* client */
	SLOT_PENDING,   /* client: call sent, spinning */
	SLOT_WAITING,   /* client: in futex */
	SLOT_DONE,      /* worker: reply is in place */
};

/* A reply slot: one client thread owns it for one call. */
struct reply_slot {
	_Atomic uint32_t state;     /* futex word, enum slot_state */
	uint32_t size;              /* bytes of the frame in data */
	_Atomic uint64_t call;      /* client: CHANNEL_CALL() of its frame */
	uint8_t data[CHANNEL_SLOT_SIZE - 16];
};
/* Each ring has numbers of its own. */
#define CHANNEL_CALL(seq, unordered) ((seq) << 1 | (unordered))
/* Which wait it is, not 0, and the process that it is for. */
#define CHANNEL_GATE(wait, pid) ((uint64_t)(wait) << 32 | (uint32_t)(pid))
_Static_assert(sizeof(struct reply_slot) == CHANNEL_SLOT_SIZE, "layout");

/*
 * Who reads a line that another has written waits for it, and so does who
 * writes one that another has read: 0.1 us each, twice in a launch that is
 * waited for. So what a client looks at after each wait is apart from what
 * the worker writes with each frame.
 */
struct channel_page {
	/* Written by the client. */
	_Alignas(64) uint32_t wire;         /* WIRE_NUMBER */
	/* Written by the worker: seldom; */
	_Alignas(64) _Atomic uint32_t late_error; /* CUresult not yet reported */
	_Atomic uint32_t dead;              /* CUresult: the client's work is
					     * lost, and why says how */
	_Atomic uint64_t unread;            /* not 0: what its kernels may
					     * have printed comes with the
					     * next answer; written before
					     * `issued` says that one has
					     * begun */
	_Atomic uint64_t gate;              /* CHANNEL_GATE(): a call of its
					     * waits at the load gate for
					     * another client; 0: none */
	char gate_program[CHANNEL_PROGRAM]; /* that client's, or "": written
					     * while gate is 0 */
	/* for the client, when something has finished; */
	_Alignas(64) _Atomic uint64_t retired; /* seq finished on the GPU */
	/* with each frame, for the next worker and the broker. */
	_Alignas(64) _Atomic uint64_t issued;   /* seq handed to the driver
						 * (ordered ring): advanced
						 * before the driver call */
	_Atomic uint64_t done;              /* seq retired and answered */
	_Atomic uint64_t kept;              /* frames behind this seq are
					     * still in the ring */
	_Atomic uint64_t unordered_from;    /* byte count, as the ring's */
	_Atomic uint64_t alive;             /* grows while the worker runs */
	/* Written before dead, by worker or broker; a line for the user. */
	char why[CHANNEL_WHY];
	_Alignas(64) struct ring_words ordered;
	struct ring_words unordered;
	/* Written before dead, by the broker: lines that the driver said of an
	 * assertion that failed, for stderr as they are; or "". */
	char text[CHANNEL_TEXT];
};
_Static_assert(sizeof(struct channel_page) <= 4096, "one page");
#define CHANNEL_LINE_OF(member) (offsetof(struct channel_page, member) / 64)
_Static_assert(CHANNEL_LINE_OF(gate_program[CHANNEL_PROGRAM - 1]) <
	       CHANNEL_LINE_OF(retired) &&
	       CHANNEL_LINE_OF(retired) < CHANNEL_LINE_OF(issued), "apart");

/* Where things are in the channel memory; size is the whole. */
#define CHANNEL_ORDERED_OFFSET 4096u
#define CHANNEL_UNORDERED_OFFSET (CHANNEL_ORDERED_OFFSET + RING_ORDERED)
#define CHANNEL_SLOTS_OFFSET (CHANNEL_UNORDERED_OFFSET + RING_UNORDERED)
#define CHANNEL_SIZE \
	(CHANNEL_SLOTS_OFFSET + CHANNEL_SLOTS * CHANNEL_SLOT_SIZE)

struct channel {
	struct channel_page *page;
	uint8_t *ordered;           /* mapped twice: 2 * RING_ORDERED */
	uint8_t *unordered;
	struct reply_slot *slots;
	void *map;                  /* one reservation that holds all */
	size_t map_size;
};

/* Map the channel memory behind fd (which may be closed afterwards).
 * Checks its size. 0, -EBADMSG, or a negative errno of mmap. */
int channel_map(struct channel *channel, int fd);
void channel_unmap(struct channel *channel);

#endif
