/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call a thread is in, for whoever asks when the driver dies in it.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_CRASH_H
#define SERVER_WORKER_CRASH_H

#include <stdbool.h>

struct wkr_client;

struct wkr_at {
	const struct wkr_client *client; /* NULL: nobody's */
	const char *what;		 /* text that stays; NULL: nothing */
	bool its_call;			 /* it has asked for this */
};

extern __thread struct wkr_at wkr_at;

/* The thread goes on with a call that the client makes. */
static inline void
wkr_at_call(const struct wkr_client *client, const char *what)
{
	wkr_at.client = client;
	wkr_at.what = what;
	wkr_at.its_call = true;
}

/* The same for what is done about it, or for nobody. */
static inline void
wkr_at_work(const struct wkr_client *client, const char *what)
{
	wkr_at.client = client;
	wkr_at.what = what;
	wkr_at.its_call = false;
}

void wkr_crash_init(void);
/* Before an end of ours: another thread may be about to end by its signal,
 * and the broker has gone away at its last words. */
void wkr_crash_first(void);
/* Each thread of ours, at its start. */
void wkr_crash_thread(void);

#endif
