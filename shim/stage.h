/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging memory of a channel: where pageable copies pass through.
 * Used by staged.c and box.c. Offsets only; never touches the memory.
 *
 * A piece is in use from take to drop, or, once a copy out of it has been
 * posted, until that copy's frame has retired. Pieces of one stream whose
 * work is known to be finished go at once, so that a stream never waits for
 * another one's kernels longer than it must.
 */
#ifndef SHIM_STAGE_H
#define SHIM_STAGE_H

#include <pthread.h>
#include <stdint.h>

#include "proto/channel.h"

#define STAGE_UNIT 4096u
#define STAGE_UNITS (CHANNEL_STAGING / STAGE_UNIT)
/* Large copies go in pieces of this size: several fit, so that filling one
 * overlaps with copying another. */
#define STAGE_PIECE (512u * 1024u)

struct shim_stage_piece {
	uint64_t seq;        /* 0: still being filled or drained */
	uint64_t stream;
	uint16_t units;      /* 0: no piece begins here */
};

struct shim_stage {
	pthread_mutex_t lock;    /* guards all below */
	uint64_t busy[STAGE_UNITS / 64];
	uint32_t nbusy;          /* pieces */
	struct shim_stage_piece pieces[STAGE_UNITS];
};

enum {
	STAGE_E_FULL = 1,
};

void shim_stage_init(struct shim_stage *stage);
/*
 * Room for `size` bytes (1..STAGE_PIECE) of a copy on stream. retired: frames
 * up to it have finished. 0 or STAGE_E_FULL.
 */
int shim_stage_take(struct shim_stage *stage, uint32_t size, uint64_t stream,
		    uint64_t retired, uint32_t *out_offset);
/* A posted frame, at most seq, reads the piece. */
void shim_stage_mark(struct shim_stage *stage, uint32_t offset, uint64_t seq);
/* Nobody uses the piece any more. */
void shim_stage_drop(struct shim_stage *stage, uint32_t offset);
/* All posted work of the stream up to frame seq has finished. */
void shim_stage_finish(struct shim_stage *stage, uint64_t stream,
		       uint64_t seq);

#endif
