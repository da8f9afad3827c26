/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the broker has asked back. Its question comes by another way
 * than the client's frames, so it is freed only after what was in the ring
 * at that moment has been issued and all of that has retired.
 */
#include <stdlib.h>

#include "server/worker/call.h"
#include "server/worker/lane.h"
#include "server/worker/memory.h"

void
wkr_grave_dig(struct wkr_client *client, const struct wkr_note *note)
{
	struct wkr_grave *grave = calloc(1, sizeof(*grave));

	if (!grave) {
		wkr_control_done(note->control_id, CUDA_ERROR_OUT_OF_MEMORY,
				 "the worker is out of memory", -1);
		return;
	}
	grave->range = note->range;
	grave->control_id = note->control_id;
	grave->passed = client->no_ring || client->closed;
	grave->seq = client->seq;
	if (!grave->passed)
		grave->tail = atomic_load(&client->ordered.words->tail);
	grave->next = client->graves;
	client->graves = grave;
}

/* A tail that is no tail only delays its own client's memory. */
static void
pass(struct wkr_client *client, struct wkr_grave *grave)
{
	if (grave->passed)
		return;
	if (!client->closed &&
	    (client->held || (int64_t)(client->ordered.own - grave->tail) < 0))
		return;
	grave->passed = true;
	grave->seq = client->seq;
}

void
wkr_graves_poll(struct wkr_client *client)
{
	struct wkr_grave **link = &client->graves, *grave;

	while ((grave = *link)) {
		pass(client, grave);
		if (!grave->passed ||
		    atomic_load(&client->retired) < grave->seq) {
			link = &grave->next;
			continue;
		}
		*link = grave->next;
		wkr_range_reap(client, grave->range, grave->control_id);
		free(grave);
	}
}
