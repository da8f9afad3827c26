/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load gate. Loading code, first use of code and some frees drain what
 * is in flight while the context is locked (measured), so everybody waits as
 * long as the longest running operation. They are done when no neighbour has
 * one that is older than a few milliseconds. A busy neighbour may never leave
 * such a gap, so after a while its ordinary operations no longer count; one
 * that has been running for long does: it may never end, and then only who
 * loads waits for it, not everybody.
 */
#include "server/worker/module.h"

/* R1: what a drain may cost everybody. */
#define OLD_NS UINT64_C(5000000)
/* How long a client that loads is kept waiting by a busy neighbour. */
#define WAIT_MAX_NS UINT64_C(2000000000)
/* An operation of this age is not ordinary. */
#define LONG_NS UINT64_C(1000000000)

bool
wkr_is_quiet(const struct wkr_client *but, uint64_t since_ns)
{
	uint64_t now = wkr_now_ns(), limit = OLD_NS;
	bool quiet = true;

	if (since_ns < now && now - since_ns > WAIT_MAX_NS)
		limit = LONG_NS;
	pthread_mutex_lock(&wkr.clients_lock);
	for (struct wkr_client *c = wkr.clients; c && quiet; c = c->next) {
		uint64_t oldest = atomic_load(&c->oldest_ns);

		quiet = c == but || !oldest || now < oldest ||
			now - oldest < limit;
	}
	pthread_mutex_unlock(&wkr.clients_lock);
	return quiet;
}
