/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions of clients. They never enter the driver: the stream is
 * held here, the client's callback thread is told when it is its turn, and
 * what comes after goes on when that asks again. A client that dies leaves
 * nothing behind in the driver.
 */
#include <stdlib.h>

#include "server/worker/backlog.h"
#include "server/worker/lane.h"

struct wkr_host {
	struct wkr_host *next;
	struct wkr_stream *stream;
	uint64_t ticket;
	bool told;
};

/* The lane's: an operation without any work, so that what the legacy stream
 * orders is in order, and its fence tells when it is due. */
CUresult
wkr_mpsHostFunc(struct wkr_call *call, uint64_t stream, uint64_t ticket)
{
	struct wkr_client *client = call->client;
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	struct wkr_host *host, **end = &client->hosts;
	CUresult r;

	if (!s || !ticket)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_stream_begin(call, s);
	if (r != CUDA_SUCCESS)
		return r;
	host = calloc(1, sizeof(*host));
	if (!host)
		return CUDA_ERROR_OUT_OF_MEMORY;
	wkr_stream_end(call, s, false);
	wkr_stream_watch(s, NULL);
	host->stream = s;
	host->ticket = ticket;
	s->host_seq = call->seq;
	while (*end)
		end = &(*end)->next;
	*end = host;
	return CUDA_SUCCESS;
}

/* A helper's: what the callback thread has done, and that it waits for more.
 * Answered by the lane. */
CUresult
wkr_mpsHostNext(struct wkr_call *call, uint64_t done, uint64_t *ticket)
{
	struct wkr_client *client = call->client;

	(void)ticket;
	pthread_mutex_lock(&client->lock);
	client->host_asked = true;
	client->host_done = done;
	client->host_call = call->seq;
	client->host_slot = call->slot;
	pthread_mutex_unlock(&client->lock);
	atomic_store(&client->host_news, true);
	wkr_lane_wake(client->lane);
	return WKR_DEFERRED;
}

CUresult
wkr_mpsHostDone(struct wkr_call *call, uint64_t ticket)
{
	struct wkr_client *client = call->client;
	bool full;

	pthread_mutex_lock(&client->lock);
	full = client->host_over != 0;
	if (!full)
		client->host_over = ticket;
	pthread_mutex_unlock(&client->lock);
	/* The lane takes one at a time. */
	if (full)
		return client->leaving ? CUDA_ERROR_INVALID_VALUE : WKR_AGAIN;
	atomic_store(&client->host_news, true);
	wkr_lane_wake(client->lane);
	return CUDA_SUCCESS;
}

static bool
finish(struct wkr_client *client, uint64_t ticket)
{
	struct wkr_host **link = &client->hosts, *host;

	while ((host = *link) && host->ticket != ticket)
		link = &host->next;
	/* One that was not told cannot be done. */
	if (!host || !host->told)
		return false;
	*link = host->next;
	host->stream->host_seq = 0;
	free(host);
	return true;
}

static struct wkr_host *
find_due(struct wkr_client *client)
{
	for (struct wkr_host *h = client->hosts; h; h = h->next)
		if (!h->told && wkr_stream_is_idle(h->stream))
			return h;
	return NULL;
}

static void
tell(struct wkr_client *client, struct wkr_host *host)
{
	uint8_t out[8];
	uint64_t seq;
	uint32_t slot;

	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t)(host->ticket >> 8 * i);
	pthread_mutex_lock(&client->lock);
	client->host_asked = false;
	seq = client->host_call;
	slot = client->host_slot;
	pthread_mutex_unlock(&client->lock);
	host->told = true;
	/* What the work before it has written is the client's to read. */
	wkr_client_publish(client);
	wkr_reply(client, seq, slot, CUDA_SUCCESS, out, sizeof(out), false);
}

bool
wkr_hosts_poll(struct wkr_client *client)
{
	struct wkr_host *due;
	bool asked, any = false;
	uint64_t done = 0, over = 0;

	if (atomic_exchange(&client->host_news, false)) {
		pthread_mutex_lock(&client->lock);
		done = client->host_done;
		over = client->host_over;
		client->host_done = client->host_over = 0;
		pthread_mutex_unlock(&client->lock);
		any = done && finish(client, done);
		any |= over && finish(client, over);
	}
	if (!client->hosts || client->closed)
		return any;
	pthread_mutex_lock(&client->lock);
	asked = client->host_asked;
	pthread_mutex_unlock(&client->lock);
	due = asked ? find_due(client) : NULL;
	if (due)
		tell(client, due);
	return any || due;
}

bool
wkr_hosts_waiting(const struct wkr_client *client)
{
	for (const struct wkr_host *h = client->hosts; h; h = h->next)
		if (!h->told)
			return true;
	return false;
}

void
wkr_hosts_drop(struct wkr_client *client)
{
	struct wkr_host *host;

	while ((host = client->hosts)) {
		client->hosts = host->next;
		host->stream->host_seq = 0;
		free(host);
	}
}
