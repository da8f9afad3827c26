/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frames of a client could be done again by another worker.
 *
 * A frame is done when its work has retired and its caller is answered. Until
 * then one that may be done twice keeps its place in the client's ring: a
 * copy from staging memory, a fill, an event, a question. Done again in their
 * order, they come to the same. Before one that may not (a kernel, a copy
 * whose source may have changed) is begun, `kept` says that the client is
 * lost if the worker ends now, and no place is kept until all is done.
 *
 * The same holds when the client learns that something has finished while
 * other work has not: what it then changes must not be read a second time.
 */
#include <string.h>

#include "server/worker/call.h"
#include "server/worker/lane.h"

/* Whose frame this thread has begun, and what `kept` was before. */
static __thread struct wkr_client *begun;
static __thread uint64_t kept_before;

static bool
is_clean(const struct wkr_client *client)
{
	return client->kept <= client->done;
}

static void
set_kept(struct wkr_client *client, uint64_t seq)
{
	client->kept = seq;
	client->nkept = 0;
	client->read_size = 0;
	/* Release: what is begun after this is lost, and nobody who sees that
	 * it was begun takes it for kept. */
	atomic_store_explicit(&client->channel.page->kept, seq,
			      memory_order_release);
}

void
wkr_keep_taint(struct wkr_client *client)
{
	set_kept(client, client->seq);
}

/* Room in the list and in the ring? */
static bool
has_room(const struct wkr_client *client)
{
	uint64_t from = atomic_load_explicit(&client->ordered.words->head,
					     memory_order_relaxed);

	return client->nkept < WKR_KEPT_MAX &&
	       client->ordered.own - from < RING_ORDERED / 2;
}

void
wkr_keep_begin(struct wkr_call *call, bool again)
{
	struct wkr_client *client = call->client;

	call->begun = true;
	if (client->draining || client->restore)
		return;
	if (again && client->nkept &&
	    client->kept_frames[client->nkept - 1].seq == call->seq) {
		return; /* it was held, and comes again */
	} else if (again && is_clean(client) && has_room(client)) {
		client->kept_frames[client->nkept++] = (struct wkr_kept){
			.seq = call->seq,
			.end = client->ordered.own,
		};
	} else {
		begun = client;
		kept_before = client->kept_at_begin = client->kept;
		set_kept(client, call->seq);
	}
	if (call->seq > client->issued)
		client->issued = call->seq;
	/* The write-ahead cursor: what the driver may have seen. */
	atomic_store_explicit(&client->channel.page->issued, client->issued,
			      memory_order_release);
}

void
wkr_keep_end(struct wkr_client *client)
{
	begun = NULL;
	if (!client->no_ring && client->nkept == 0 && !client->restore &&
	    !client->draining)
		ring_give(&client->ordered, client->ordered.own);
}

void
wkr_keep_undo(void)
{
	/* The driver has refused it: the ring still has it. */
	if (begun)
		atomic_store_explicit(&begun->channel.page->kept, kept_before,
				      memory_order_release);
}

/* Is anything of the host's memory, or read by what is kept, written? */
bool
wkr_keep_write(struct wkr_client *client, uint64_t dst, uint64_t size)
{
	bool host;

	pthread_mutex_lock(&client->lock);
	host = wkr_ranges_touch_host(&client->ranges, dst, size);
	pthread_mutex_unlock(&client->lock);
	if (host)
		return false;
	return !client->read_size || dst >= client->read + client->read_size ||
	       client->read >= dst + size;
}

bool
wkr_keep_read(struct wkr_client *client, uint64_t src, uint64_t size)
{
	uint64_t end = src + size;

	if (!client->nkept)
		client->read_size = 0;
	if (client->read_size) {
		if (client->read + client->read_size > end)
			end = client->read + client->read_size;
		if (client->read < src)
			src = client->read;
	}
	client->read = src;
	client->read_size = end - src;
	return true;
}

/* The oldest frame whose caller waits, or UINT64_MAX. */
static uint64_t
oldest_pending(const struct wkr_client *client)
{
	uint64_t oldest = UINT64_MAX;

	for (struct wkr_pending *p = client->pending; p; p = p->next)
		if (p->seq < oldest)
			oldest = p->seq;
	return oldest;
}

void
wkr_keep_settle(struct wkr_client *client)
{
	uint64_t done = atomic_load(&client->retired);
	uint64_t pending = oldest_pending(client);
	uint32_t n = 0;

	if (client->restore || atomic_load(&client->ordered_jobs))
		return;
	if (pending <= done)
		done = pending - 1;
	if (done <= client->done)
		return;
	client->done = done;
	/* Release: its answers and results are there (partner: who takes the
	 * session over). */
	atomic_store_explicit(&client->channel.page->done, done,
			      memory_order_release);
	while (n < client->nkept && client->kept_frames[n].seq <= done)
		n++;
	if (!n)
		return;
	if (!client->no_ring)
		ring_give(&client->ordered, client->kept_frames[n - 1].end);
	client->nkept -= n;
	memmove(client->kept_frames, client->kept_frames + n,
		client->nkept * sizeof(client->kept_frames[0]));
	if (!client->nkept)
		client->read_size = 0;
}
