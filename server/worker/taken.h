/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that the driver has for a client and no chunk shows.
 * Used by those in server/worker that make the driver take it.
 */
#ifndef SERVER_WORKER_TAKEN_H
#define SERVER_WORKER_TAKEN_H

#include <stdint.h>

#include "server/worker/worker.h"

/* Before and after the context is made: what it takes. */
void wkr_taken_begin(void);
void wkr_taken_context(void);
/* A limit of a context that is one client's has become this. */
void wkr_taken_limit(CUlimit limit, uint64_t was, uint64_t is);
/* A kernel of the client's has so much local memory, bytes a thread. False:
 * all threads together would have more than the client may. */
bool wkr_taken_local(struct wkr_client *client, uint32_t bytes);
/* Tell the broker. */
void wkr_taken_say(const struct wkr_client *client);
/* Bytes of device memory for each one of the limit's unit; 0: none. */
uint64_t wkr_limit_bytes(CUlimit limit);

#endif
