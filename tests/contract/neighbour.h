/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a call wait for a neighbour's kernel, and does it stall others?
 * For the programs of tests/contract only.
 *
 * A neighbour's kernel runs on a stream of its own while a third thread
 * launches empty kernels on another stream. A call that takes most of the
 * kernel's remaining time waited for it; a third thread that got no launch
 * through for most of that time was stalled.
 */
#ifndef TESTS_CONTRACT_NEIGHBOUR_H
#define TESTS_CONTRACT_NEIGHBOUR_H

#include <stdbool.h>

#include "tests/contract/drv.h"

enum {
	NEIGHBOUR_MS = 400,
};

struct neighbour_result {
	CUresult rc;
	double call_ms;  /* how long the call took */
	double gap_ms;   /* the third thread's longest launch meanwhile */
	double left_ms;  /* how long the kernel had yet to run at the start */
};

typedef CUresult (*neighbour_call)(void *arg);

/* Start the driver, streams, and the third thread. */
void neighbour_start(void);
struct neighbour_result neighbour_measure(neighbour_call call, void *arg);

/* Fail the test unless the call succeeds and behaves so. `what` names it. */
void neighbour_expect(const char *what, neighbour_call call, void *arg,
		      bool waits, bool stalls);
/* The same for a call that waits, and stalls others for a part of that time
 * that the driver chooses. */
void neighbour_expect_part(const char *what, neighbour_call call, void *arg);

/* Where the caller's own work goes. */
extern CUstream neighbour_own_stream;

#endif
