/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that run until they are let go, and the question whether a call
 * waits for one. For the programs of tests/contract only.
 *
 * Nothing here goes by how long a call takes, which on a busy machine says
 * little. A call that is to wait is let go after a while, and has waited if
 * it returns only then; one that is not to wait is given as long as it needs.
 */
#ifndef TESTS_CONTRACT_HELD_H
#define TESTS_CONTRACT_HELD_H

#include <stdbool.h>

#include "tests/contract/drv.h"

enum {
	HELD_WORDS = 128,
	/* What must not happen is given this long. */
	HELD_WHILE_MS = 300,
	/* What must happen, that long; then it has failed. */
	HELD_PATIENCE_MS = 20000,
	/* The kernel ends by itself: a device must not be left with it. */
	HELD_LIMIT_MS = 25000,
};

/* A kernel on that stream. The first one loads code and waits for it. */
void held_start(CUstream stream);
/* Let all that run now go on; the next ones are held anew. */
void held_end(void);

typedef CUresult (*held_call)(void *arg);

/* Does the call wait for kernels that are held, as is `expected` or not?
 * They run on after it when it does not. Its code is noted unless 0. */
bool held_waits(const char *what, held_call call, void *arg, bool expected);
/* A launch on that stream and the stream's end. arg: a CUstream *. */
CUresult held_launch(void *stream);

#endif
