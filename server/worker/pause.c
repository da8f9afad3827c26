/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a worker is replaced that nobody has harmed: lanes begin no
 * further frame, and what they have begun comes to its end. Then each client
 * is in the state in which the next worker can take it over. A client that
 * has ended is not waited for: its kernel may be why all this is done.
 *
 * And before one client leaves for a worker of its own: the same of it alone.
 * Until the broker says whether it has gone or stays, nothing of what it
 * shares with its worker is read or written here.
 */
#include <stdio.h>
#include <stdlib.h>

#include "server/worker/lane.h"
#include "server/worker/restore.h"

struct pausing {
	struct wkr_job job;
	uint64_t control_id, until_ns;
};

static bool
is_done(struct wkr_client *client)
{
	const struct channel_page *page = client->channel.page;

	return client->leaving ||
	       (!client->restore && client->lane &&
		atomic_load(&page->kept) <= atomic_load(&page->done));
}

static const char *
why_not(struct wkr_client *client)
{
	if (client->leaving)
		return NULL;
	if (client->no_ring)
		return "it uses no ring";
	return client->journal.fd < 0 ? "it has no journal" :
					wkr_restore_why_lost(client);
}

/* Of the clients, once no lane begins anything: 0, WKR_AGAIN, or why not. */
static CUresult
look_locked(char *why, size_t size)
{
	const char *lost;

	for (struct wkr_client *c = wkr.clients; c; c = c->next) {
		if (is_done(c))
			continue;
		snprintf(why, size, "client %llu (pid %d) has work on the "
			 "device", (unsigned long long)c->id, c->pid);
		return WKR_AGAIN;
	}
	for (struct wkr_client *c = wkr.clients; c; c = c->next) {
		lost = why_not(c);
		if (!lost)
			continue;
		snprintf(why, size, "client %llu (pid %d) cannot be moved: %s",
			 (unsigned long long)c->id, c->pid, lost);
		return CUDA_ERROR_NOT_PERMITTED;
	}
	return CUDA_SUCCESS;
}

static bool
lanes_rest(void)
{
	bool rest = true;

	for (unsigned i = 0; i < wkr.nlanes; i++) {
		wkr_lane_wake(wkr.lanes[i]);
		rest &= atomic_load(&wkr.lanes[i]->resting);
	}
	return rest;
}

static enum wkr_job_result
wait_for_rest(struct wkr_job *job)
{
	struct pausing *p = (struct pausing *)job;
	char why[240] = "its lanes are busy";
	CUresult r = WKR_AGAIN;

	if (lanes_rest()) {
		pthread_mutex_lock(&wkr.clients_lock);
		r = look_locked(why, sizeof(why));
		pthread_mutex_unlock(&wkr.clients_lock);
	}
	if (r == WKR_AGAIN && wkr_now_ns() < p->until_ns)
		return WKR_JOB_AGAIN;
	if (r != CUDA_SUCCESS) {
		if (r == WKR_AGAIN)
			r = CUDA_ERROR_NOT_READY;
		atomic_store(&wkr.paused, false);
		lanes_rest();
	}
	wkr_control_done(p->control_id, r, r == CUDA_SUCCESS ? "" : why, -1);
	free(p);
	return WKR_JOB_DONE;
}

void
wkr_pause(uint32_t patience_ms, uint64_t control_id)
{
	struct pausing *p = calloc(1, sizeof(*p));

	if (!p) {
		wkr_control_done(control_id, CUDA_ERROR_OUT_OF_MEMORY,
				 "the worker is out of memory", -1);
		return;
	}
	p->job.run = wait_for_rest;
	p->control_id = control_id;
	p->until_ns = wkr_now_ns() + patience_ms * UINT64_C(1000000);
	atomic_store(&wkr.paused, true);
	wkr_queue_add(&wkr.helper, &p->job);
}

/* ---- one client ---- */

struct leaving {
	struct wkr_job job;
	struct wkr_client *client;
	uint64_t control_id, until_ns;
};

static CUresult
look_at(struct wkr_client *client, bool late, const char **out_why)
{
	*out_why = "it has ended";
	if (client->leaving)
		return CUDA_ERROR_INVALID_VALUE;
	*out_why = "it has work on the device that does not end";
	if (!atomic_load(&client->parted))
		return late ? CUDA_ERROR_NOT_READY : WKR_AGAIN;
	*out_why = why_not(client);
	return *out_why ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

static enum wkr_job_result
wait_for_one(struct wkr_job *job)
{
	struct leaving *l = (struct leaving *)job;
	struct wkr_client *client = l->client;
	const char *why;
	CUresult r = look_at(client, wkr_now_ns() >= l->until_ns, &why);

	wkr_lane_wake(client->lane);
	if (r == WKR_AGAIN)
		return WKR_JOB_AGAIN;
	if (r != CUDA_SUCCESS)
		wkr_stay(client);
	wkr_control_done(l->control_id, r, r == CUDA_SUCCESS ? "" : why, -1);
	wkr_client_unpin(client);
	free(l);
	return WKR_JOB_DONE;
}

void
wkr_part(struct wkr_client *client, uint32_t patience_ms, uint64_t control_id)
{
	struct leaving *l = calloc(1, sizeof(*l));
	const char *why = why_not(client);

	if (!l || !client->lane || client->restore)
		why = "the worker is not ready for that";
	if (why) {
		wkr_control_done(control_id, CUDA_ERROR_NOT_PERMITTED, why, -1);
		free(l);
		return;
	}
	l->job.run = wait_for_one;
	l->client = client;
	l->control_id = control_id;
	l->until_ns = wkr_now_ns() + patience_ms * UINT64_C(1000000);
	wkr_client_pin(client);
	atomic_store(&client->parting, true);
	wkr_queue_add(&wkr.helper, &l->job);
}

void
wkr_stay(struct wkr_client *client)
{
	atomic_store(&client->parting, false);
	wkr_lane_wake(client->lane);
}
