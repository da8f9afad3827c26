/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that may wait. A job that cannot run yet is put back and does not
 * hold up those behind it.
 */
#include "server/worker/job.h"

#include <errno.h>
#include <time.h>

#include "server/worker/crash.h"
#include "server/worker/worker.h"

/* How soon a job that had to wait is looked at again. */
#define RETRY_NS UINT64_C(500000)

static void
append_locked(struct wkr_queue *queue, struct wkr_job *job)
{
	job->next = NULL;
	if (queue->tail)
		queue->tail->next = job;
	else
		queue->head = job;
	queue->tail = job;
}

void
wkr_queue_add(struct wkr_queue *queue, struct wkr_job *job)
{
	job->since_ns = wkr_now_ns();
	job->not_before_ns = 0;
	job->at_gate = false;
	pthread_mutex_lock(&queue->lock);
	append_locked(queue, job);
	pthread_cond_signal(&queue->more);
	pthread_mutex_unlock(&queue->lock);
}

/* The first job whose time has come; else the time at which one comes. */
static struct wkr_job *
take_locked(struct wkr_queue *queue, uint64_t *out_wait_until)
{
	struct wkr_job *before = NULL;
	uint64_t now = wkr_now_ns(), soonest = 0;

	for (struct wkr_job *job = queue->head; job;
	     before = job, job = job->next) {
		if (job->not_before_ns > now) {
			if (!soonest || job->not_before_ns < soonest)
				soonest = job->not_before_ns;
			continue;
		}
		if (before)
			before->next = job->next;
		else
			queue->head = job->next;
		if (queue->tail == job)
			queue->tail = before;
		return job;
	}
	*out_wait_until = soonest;
	return NULL;
}

static struct wkr_job *
take(struct wkr_queue *queue)
{
	struct wkr_job *job;
	uint64_t until = 0;

	pthread_mutex_lock(&queue->lock);
	while (!(job = take_locked(queue, &until))) {
		struct timespec t = {
			.tv_sec = (time_t)(until / 1000000000u),
			.tv_nsec = (long)(until % 1000000000u),
		};

		if (until)
			pthread_cond_timedwait(&queue->more, &queue->lock, &t);
		else
			pthread_cond_wait(&queue->more, &queue->lock);
	}
	pthread_mutex_unlock(&queue->lock);
	return job;
}

static void *
queue_thread(void *arg)
{
	struct wkr_queue *queue = arg;

	pthread_setname_np(pthread_self(), queue->name);
	wkr_thread_begin();
	for (;;) {
		struct wkr_job *job = take(queue);
		bool waited = job->at_gate, again, waits;

		wkr_at_work(NULL, queue->name);
		again = job->run(job) == WKR_JOB_AGAIN;
		waits = wkr_gate_leave(waited, again);
		if (!again)
			continue;
		job->at_gate = waits;
		job->not_before_ns = wkr_now_ns() + RETRY_NS;
		pthread_mutex_lock(&queue->lock);
		append_locked(queue, job);
		pthread_mutex_unlock(&queue->lock);
	}
	return NULL;
}

int
wkr_queue_start(struct wkr_queue *queue, const char *name)
{
	pthread_condattr_t attr;
	int r;

	queue->name = name;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->more, &attr);
	pthread_condattr_destroy(&attr);
	r = pthread_create(&queue->thread, NULL, queue_thread, queue);
	if (r)
		return err_origin(-r);
	queue->started = true;
	return 0;
}
