/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holding up other threads that write into pages which are being exchanged.
 * Used by pages.c. Where the system does not allow it, nobody is held up.
 */
#ifndef SHIM_HOLD_H
#define SHIM_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/* For a while; never fails. Signals wait until the end, since their handlers
 * might be held up, too. Copies of one process are made one at a time. */
struct shim_hold {
	int fd;                 /* -1: the system does not allow it */
	bool all;               /* any writes, of system calls too, and both
				 * ways */
	bool must;              /* the caller's: not without being held */
	uint64_t signals[16];   /* that were blocked before (a sigset_t) */
};

void shim_hold_begin(struct shim_hold *hold);
/* Whole pages, of one mapping: who writes into them waits. False: nobody
 * does, or system calls fail instead. */
bool shim_hold_pages(const struct shim_hold *hold, uint64_t start,
		     uint64_t size);
/* They have been exchanged: who waits goes on. */
void shim_hold_release(const struct shim_hold *hold, uint64_t start,
		       uint64_t size);
void shim_hold_end(struct shim_hold *hold);

#endif
