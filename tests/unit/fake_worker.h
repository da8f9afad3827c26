/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that calls no driver: it answers the broker's questions, and
 * misbehaves on request. For the broker's tests, whose program is its own
 * worker: the broker starts it with --driver.
 */
#ifndef TESTS_UNIT_FAKE_WORKER_H
#define TESTS_UNIT_FAKE_WORKER_H

#include <stdint.h>

#define FAKE_TOTAL (UINT64_C(1) << 30)
#define FAKE_LEFT (FAKE_TOTAL - 64 * FAKE_MIB)
#define FAKE_WINDOW UINT64_C(0x100000000000)
#define FAKE_WINDOW_SIZE (UINT64_C(64) << 30)
#define FAKE_HOST_WINDOW (FAKE_WINDOW + FAKE_WINDOW_SIZE)

/* Chunks of these sizes make it do other things than asked. */
#define FAKE_MIB (UINT64_C(1) << 20)
#define FAKE_CHUNK_NO_MEMORY (32 * FAKE_MIB)
#define FAKE_CHUNK_FAULT (34 * FAKE_MIB)       /* WorkerFault 700, exit */
#define FAKE_CHUNK_CRASH (36 * FAKE_MIB)       /* SIGKILL itself */
/* WorkerFault 710 after FAKE_ASSERTIONS lines of text; of no client in
 * particular for the second. */
#define FAKE_CHUNK_ASSERT (48 * FAKE_MIB)
#define FAKE_CHUNK_ASSERTS (50 * FAKE_MIB)
#define FAKE_ASSERTIONS 100u
#define FAKE_ASSERTION "a.cu:9: f: block: [0,0,0], thread: [%u,0,0] Assertion `n > 5` failed."
#define FAKE_CHUNK_JUNK (38 * FAKE_MIB)        /* bytes that are no frame */
#define FAKE_CHUNK_NO_FD (40 * FAKE_MIB)       /* Done without descriptor */
#define FAKE_CHUNK_OTHER_ID (42 * FAKE_MIB)    /* Done for no question */
#define FAKE_CHUNK_SILENT (44 * FAKE_MIB)      /* no answer at all */
/* The frees that wait are answered, then that there is no memory; none: there
 * is some. */
#define FAKE_CHUNK_FREES (46 * FAKE_MIB)

/* Says that it loads code of FAKE_KEY bytes for the client, or for nobody, and
 * a call that there is none of beside it. FAKE_CHUNK_LOADS: ends over it,
 * unless that is refused (200); FAKE_CHUNK_PASSES: says that all went well. */
#define FAKE_CHUNK_LOADS (52 * FAKE_MIB)
#define FAKE_CHUNK_BEGINS (54 * FAKE_MIB)
#define FAKE_CHUNK_BEGINS_FOR_NOBODY (56 * FAKE_MIB)
#define FAKE_CHUNK_PASSES (58 * FAKE_MIB)
#define FAKE_KEY 0x5a
/* Says that the driver has FAKE_TAKEN for the client, and does as asked. */
#define FAKE_CHUNK_TAKES (60 * FAKE_MIB)
#define FAKE_TAKEN (3 * FAKE_MIB)

/*
 * Its handles in the status are clients that it has not been told to forget.
 * MPSSHIM_FAKE: "nodevice" reports status 100 at start, "dies" ends at once;
 * "slowfree" answers frees only when asked for figures. "noresume"
 * takes nobody over.
 */
int fake_worker_main(void);

#endif
