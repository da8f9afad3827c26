/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver calls that took long, for whoever asks who waited for whom.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_SLOW_H
#define SERVER_WORKER_SLOW_H

#include "server/worker/worker.h"

/* What takes as long is noted. */
#define WKR_SLOW_NS UINT64_C(100000000)

/* Each thread that calls the driver, before it does. */
void wkr_slow_thread(void);
/* One thread, at least once in WKR_SLOW_NS: which threads are in a call? */
void wkr_slow_look(void);
/* The thread is inside the load gate, or has left it. */
void wkr_slow_gate(bool inside);

/* For WorkerStat: the last ones, newest first; owned by the caller, and ended
 * with wkr_slow_drop(). */
struct wkr_slow_list;
struct wkr_slow_list *wkr_slow_list(Mps__WorkerStat *out);
void wkr_slow_drop(struct wkr_slow_list *list);

#endif
