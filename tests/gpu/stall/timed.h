/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each driver call of a process began and ended. For timed.c and the
 * generated timed_entry.c, which are one library, and for whoever reads the
 * file that it leaves (stall.py).
 */
#ifndef TESTS_GPU_STALL_TIMED_H
#define TESTS_GPU_STALL_TIMED_H

#include <stdint.h>

#include "timed_names.h"

#define TIMED_ID(name, kind) TIMED_##name,
enum timed_id {
	TIMED_NAMES(TIMED_ID)
	TIMED_COUNT,
};

/* Nanoseconds of CLOCK_MONOTONIC; end is 0 while the call has not returned. */
struct timed_call {
	uint64_t start, end;
	uint32_t id;
	uint32_t thread;
};

/* What each function is forwarded to: set before the first is called. */
extern void (*timed_real[TIMED_COUNT])(void);

struct timed_call *timed_begin(enum timed_id id);
void timed_end(struct timed_call *call);
/* The function of this library that forwards to that one; itself if none. */
void *timed_own(void *real);

#endif
