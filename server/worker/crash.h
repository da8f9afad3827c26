/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call a thread is in, for whoever asks when the driver dies in it or
 * takes long over it. Used by server/worker only.
 */
#ifndef SERVER_WORKER_CRASH_H
#define SERVER_WORKER_CRASH_H

#include "server/worker/client.h"

struct wkr_at {
	const struct wkr_client *client; /* NULL: nobody's */
	bool its_call;			 /* it has asked for this */
	/* Read by other threads (slow.c). */
	_Atomic uint64_t id; /* of client; 0: nobody's */
	_Atomic int pid;
	_Atomic(const char *) what; /* text that stays; NULL: nothing */
};

extern __thread struct wkr_at wkr_at;

static inline void
wkr_at_set(const struct wkr_client *client, const char *what, bool its_call)
{
	wkr_at.client = client;
	wkr_at.its_call = its_call;
	atomic_store_explicit(&wkr_at.id, client ? client->id : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&wkr_at.pid, client ? client->pid : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&wkr_at.what, what, memory_order_relaxed);
}

/* The thread goes on with a call that the client makes. */
static inline void
wkr_at_call(const struct wkr_client *client, const char *what)
{
	wkr_at_set(client, what, true);
}

/* The same for what is done about it, or for nobody. */
static inline void
wkr_at_work(const struct wkr_client *client, const char *what)
{
	wkr_at_set(client, what, false);
}

void wkr_crash_init(void);
/* Before an end of ours: another thread may be about to end by its signal,
 * and the broker has gone away at its last words. */
void wkr_crash_first(void);
/* Each thread of ours, at its start. */
void wkr_crash_thread(void);

#endif
