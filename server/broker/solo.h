/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who gets a worker of its own, and why.
 * Used by client.c at its hello, by worker.c when a client has faulted.
 *
 * A client is solo because it asks for it, or because the same program of the
 * same job has faulted twice within ten minutes: its neighbours would lose
 * their work with it a third time.
 */
#ifndef BROKER_SOLO_H
#define BROKER_SOLO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/broker/quota.h"

struct brk_client;
struct brk_worker;

#define BRK_EXE_SIZE 128
/* Programs that have faulted: the one whose last fault is oldest makes room. */
#define SOLO_PROGRAMS 64
#define SOLO_FAULTS 2
#define SOLO_FAULTS_NS (UINT64_C(600) * 1000000000u)

struct brk_faulty {
	uid_t uid;
	char job[BRK_JOB_SIZE], exe[BRK_EXE_SIZE];
	uint64_t ns[SOLO_FAULTS];       /* newest first; 0: none */
};

struct brk_faults {
	struct brk_faulty programs[SOLO_PROGRAMS];
};

void brk_faults_add(struct brk_faults *faults, uid_t uid, const char *job,
		    const char *exe, uint64_t now_ns);
/* Has it faulted too often just before now? */
bool brk_faults_are_many(const struct brk_faults *faults, uid_t uid,
			 const char *job, const char *exe, uint64_t now_ns);

/* A client that says hello: client->solo says why, or "". */
void brk_solo_judge(struct brk_client *client, bool asked);
/* A client's kernel has faulted, as its worker says. */
void brk_solo_faulted(struct brk_worker *worker, uint64_t client);

#endif
