/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How full a stream is: a call that finds it full waits, and nobody else.
 * Used by what posts work on streams.
 */
#ifndef SHIM_ROOM_H
#define SHIM_ROOM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"

struct shim_stream;

/* Places that work takes in a driver's stream, at most. */
enum { SHIM_ROOM_LAUNCH = 1, SHIM_ROOM_OTHER = 2 };
#define SHIM_ROOM_MARKS 16u

/* What was posted before the frame `seq` is `posted` places. */
struct shim_room_mark {
	uint64_t posted, seq;
};

/* Part of a stream; all zero at first. */
struct shim_room {
	_Atomic uint64_t posted;    /* places, since the stream was made */
	_Atomic uint64_t look;      /* from this many on, look closer */
	pthread_mutex_t lock;       /* guards the rest */
	uint64_t retired;           /* places, as far as known */
	struct shim_room_mark marks[SHIM_ROOM_MARKS]; /* oldest first */
	unsigned nmarks;
	bool in_vain;               /* the channel is held up by others */
};

/*
 * Take places for work that is about to be posted; wait while the stream is
 * full. Not CUDA_SUCCESS: there will be none, post nothing.
 */
CUresult shim_room_take(struct shim_stream *stream, unsigned places);

#endif
