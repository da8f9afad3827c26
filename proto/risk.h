/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of each worker: which driver calls it has begun that could be the
 * end of it, and which of them it must not begin. Used by broker and worker.
 *
 * The worker writes `now` before such a call and clears it behind, so that
 * what was current when it ended is there to read. The broker writes the
 * records, of what was current when others ended; the worker only writes how
 * such a call has ended since. Neither believes the other: whatever is in
 * here decides about code of one user, and nothing else.
 */
#ifndef PROTO_RISK_H
#define PROTO_RISK_H

#include <stdatomic.h>
#include <stdint.h>

#define RISK_KEY 32
/* Threads of a worker that make such calls; records. */
#define RISK_THREADS 16u
#define RISK_RECORDS 64u

enum risk_call {
	RISK_NONE,
	RISK_LOAD,              /* the key is the image's hash */
	RISK_FUNCTION,          /* likewise; detail tells the kernel */
	RISK_GLOBAL,            /* likewise, the variable */
	RISK_NAMES,             /* likewise */
	RISK_LINK,              /* the hash of all that is linked so far */
	RISK_GRAPH,             /* client and handle */
	RISK_CALLS
};

enum risk_verdict {
	RISK_UNKNOWN,
	RISK_SUSPECT,           /* a worker has ended over it */
	RISK_REFUSED,           /* two have */
};

enum risk_outcome {
	RISK_OPEN,
	RISK_PASSED,            /* the call that it is suspected for went well */
	RISK_FAILED,            /* a process that was to tell has ended, too */
};

struct risk_now {
	/* enum risk_call. Stored with release behind the rest, and cleared. */
	_Atomic uint32_t call;
	uint32_t zero;
	uint64_t client, detail;
	uint8_t key[RISK_KEY];
};

struct risk_record {
	/* enum risk_verdict, the broker's; stored with release behind the rest,
	 * and 0 while that changes. */
	_Atomic uint32_t verdict;
	/* enum risk_outcome, the worker's; of the record as it read it, and so
	 * perhaps of one that was here before: then a worker more may end. */
	_Atomic uint32_t outcome;
	uint64_t detail;
	uint32_t call;
	uint32_t zero;
	uint8_t key[RISK_KEY];
};

struct risk_page {
	struct risk_now now[RISK_THREADS];
	struct risk_record records[RISK_RECORDS];
};

#endif
