/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that workers have ended over, and what comes of it (proto/risk.h).
 * Used by worker.c, which asks when one has ended, and status.c.
 */
#ifndef BROKER_RISK_H
#define BROKER_RISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/risk.h"

struct brk_broker;
struct brk_worker;

struct brk_risk {
	uint8_t key[RISK_KEY];
	enum risk_call call;
	uint64_t detail;
	enum risk_verdict verdict;      /* UNKNOWN: free */
	uint64_t client;                /* whose call it was last */
	pid_t pid;
	char exe[128];
	uint64_t at_ns;
};

/* As in every worker's page, place by place. */
struct brk_risks {
	struct brk_risk records[RISK_RECORDS];
};

/* The page of a worker that is about to start; *out_fd is the caller's. */
int brk_risk_open(struct brk_worker *worker, int *out_fd);
void brk_risk_close(struct brk_worker *worker);
/* It has ended badly. True if that has decided about all that it did then, so
 * that it will not happen again. */
bool brk_risk_judge(struct brk_worker *worker);
/* Read what workers say of the records. */
void brk_risk_settle(struct brk_broker *broker);
/* "loading code", for people. */
const char *brk_risk_text(enum risk_call call);

#endif
