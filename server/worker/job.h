/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work for a thread that may wait: helper, gate, reaper.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_JOB_H
#define SERVER_WORKER_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum wkr_job_result {
	WKR_JOB_DONE,  /* the job has freed itself or belongs to others */
	WKR_JOB_AGAIN, /* not possible yet: come back to it */
};

struct wkr_job {
	struct wkr_job *next;
	enum wkr_job_result (*run)(struct wkr_job *job);
	uint64_t since_ns; /* when it was queued first */
	uint64_t not_before_ns;
	bool at_gate; /* it has been turned away there */
};

struct wkr_queue {
	const char *name;
	pthread_t thread;
	/* Guards what follows. */
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct wkr_job *head, *tail;
	bool started;
};

/* gate.c: a run of a job is over; it waited at the gate before, or will run
 * again. True: it waits at the gate now. */
bool wkr_gate_leave(bool waited, bool again);
int wkr_queue_start(struct wkr_queue *queue, const char *name);
void wkr_queue_add(struct wkr_queue *queue, struct wkr_job *job);

#endif
