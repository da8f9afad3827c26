/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that another worker has had: its objects out of the journal, then
 * its ring from where that one stopped.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_RESTORE_H
#define SERVER_WORKER_RESTORE_H

#include "server/worker/call.h"

struct wkr_note;

/* WorkerClient with `resume`: the client is there and no lane serves it; note
 * is kept for the lane. */
CUresult wkr_restore_begin(struct wkr_client *client, struct wkr_note *note,
			   const char **out_why);
/* WorkerResume: its memory and images are there. Answered when it is served,
 * or lost. */
void wkr_restore_go(struct wkr_client *client, uint64_t control_id);
/* What no worker can make again of it; NULL: nothing. Helper thread. */
const char *wkr_restore_why_lost(struct wkr_client *client);
/* It has ended instead. */
void wkr_restore_cancel(struct wkr_client *client);
void wkr_restore_free(struct wkr_client *client);

/* Lane: one turn. True when anything moved. */
bool wkr_restore_step(struct wkr_client *client);
/* It cannot be made again. */
void wkr_restore_fail(struct wkr_client *client, const char *why);
/* Has the other worker done this frame of the ring, or answered its call? */
bool wkr_restore_skips(const struct wkr_client *client, uint64_t seq,
		       uint32_t slot);

#endif
