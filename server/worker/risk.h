/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver calls that could be the end of the process.
 * Used by server/worker only.
 */
#ifndef SERVER_WORKER_RISK_H
#define SERVER_WORKER_RISK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/risk.h"

#define WKR_RISK_TEXT "it has ended two processes of the driver"

struct wkr_client;

/* fd of the page that the broker reads. 0 or -errno. */
int wkr_risk_open(int fd);
/* Before such a call of this thread. False: it is refused, and why is in the
 * log. Else wkr_risk_end() follows. */
bool wkr_risk_begin(const struct wkr_client *client, enum risk_call call,
		    const uint8_t key[RISK_KEY], uint64_t detail);
void wkr_risk_end(void);
/* The same, when a process that was to try it has ended over it. */
void wkr_risk_fail(void);
/* The process dies in this thread, and what the others do has no part in it,
 * unless they die, too. For a signal handler. */
void wkr_risk_crash(void);
/* What this thread has begun is about, as the broker's log has it: ", code
 * 1a2b3c4d", or "". For a signal handler. */
#define WKR_RISK_CODE 16
void wkr_risk_code(char out[WKR_RISK_CODE]);
/* Has a worker ended over it? */
bool wkr_risk_is_suspect(const uint8_t key[RISK_KEY]);
/* What tells a name of an image from the others. */
uint64_t wkr_risk_name(const char *name);

#endif
