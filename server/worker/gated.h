/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits at the load gate, and for whom: told to the client and to status.
 */
#ifndef WORKER_GATED_H
#define WORKER_GATED_H

#include "server/worker/call.h"

#define WKR_GATED_TEXT 192

/* Gate's thread: the call has to wait, or has not any more. */
void wkr_gated_wait(const struct wkr_call *call);
void wkr_gated_end(struct wkr_client *client);

/* In words, if it waits there. Caller holds clients_lock. */
bool wkr_gated_why_locked(struct wkr_client *client, char text[WKR_GATED_TEXT]);

#endif
