/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a call wait for a neighbour's kernel, and does it stall others?
 * For the programs of tests/contract only.
 *
 * A neighbour's kernel is held on a stream of its own while a third thread
 * launches empty kernels on another stream. A call that returns only when
 * the kernel is let go waited for it; a third thread that got no launch
 * through for a while was stalled.
 */
#ifndef TESTS_CONTRACT_NEIGHBOUR_H
#define TESTS_CONTRACT_NEIGHBOUR_H

#include <stdbool.h>

#include "tests/contract/held.h"

/* Start the driver, streams, and the third thread. */
void neighbour_start(void);

/* Fail the test unless the call succeeds and behaves so. `what` names it. */
void neighbour_expect(const char *what, held_call call, void *arg, bool waits,
		      bool stalls);
/* The same for a call that waits, and stalls others for a part of that time
 * that the driver chooses. */
void neighbour_expect_part(const char *what, held_call call, void *arg);

/* Where the caller's own work goes. */
extern CUstream neighbour_own_stream;

#endif
