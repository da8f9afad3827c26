/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies: into the caller's slot, or on the data socket. No thread waits
 * for a client that does not read: what its socket does not take is kept, up
 * to a bound.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/worker/call.h"

/* Unsent replies of one client; it has 64 threads' worth of calls at most. */
#define OUT_MAX (2u * 1024u * 1024u)
/* Text in one reply: leaves room for any reply's results. */
#define TEXT_MAX 8192u

static void
wake(_Atomic uint32_t *word)
{
	/* Shared memory: not FUTEX_PRIVATE. */
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void
reply_in_slot(struct wkr_client *client, uint32_t slot,
	      const struct data_reply *m, size_t size)
{
	struct reply_slot *s = &client->channel.slots[slot];

	/* Acquire: the caller took the last reply before it set this state
	 * (partner: its store of PENDING), whichever thread wrote that. */
	(void)atomic_load_explicit(&s->state, memory_order_acquire);
	data_put_reply(s->data, m);
	s->size = (uint32_t)size;
	/* Release: the frame is in place before the state says so (partner:
	 * the shim's acquire). */
	if (atomic_exchange_explicit(&s->state, SLOT_DONE,
				     memory_order_acq_rel) == SLOT_WAITING)
		wake(&s->state);
}

/* What the socket takes now. -errno when it takes nothing ever again. */
static ssize_t
send_some(int fd, const uint8_t *data, size_t size)
{
	ssize_t n = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static bool
keep_locked(struct wkr_client *client, const uint8_t *data, size_t size)
{
	uint8_t *grown;

	if (!size)
		return true;
	if (client->out_size + size > OUT_MAX)
		return false;
	grown = realloc(client->out, client->out_size + size);
	if (!grown)
		return false;
	memcpy(grown + client->out_size, data, size);
	client->out = grown;
	client->out_size += size;
	return true;
}

bool
wkr_reply_flush(struct wkr_client *client)
{
	ssize_t n = 0;

	pthread_mutex_lock(&client->out_lock);
	if (client->out_size && client->data >= 0)
		n = send_some(client->data, client->out, client->out_size);
	if (n > 0) {
		client->out_size -= (size_t)n;
		memmove(client->out, client->out + n, client->out_size);
	}
	pthread_mutex_unlock(&client->out_lock);
	return n >= 0;
}

static void
reply_on_socket(struct wkr_client *client, const struct data_reply *m,
		size_t size)
{
	_cleanup_free_ uint8_t *frame = malloc(size);
	ssize_t n = 0;

	if (!frame)
		return;
	data_put_reply(frame, m);
	pthread_mutex_lock(&client->out_lock);
	if (client->data >= 0) {
		if (!client->out_size)
			n = send_some(client->data, frame, size);
		/* A client that reads nothing at all loses its socket, which
		 * its lane then finds at end-of-file. */
		if (n < 0 || !keep_locked(client, frame + n, size - (size_t)n))
			shutdown(client->data, SHUT_RDWR);
	}
	pthread_mutex_unlock(&client->out_lock);
}

/* The next piece of what its kernels printed, to be freed. */
static char *
take_text(struct wkr_client *client, size_t *out_size, size_t *out_left)
{
	char *piece = NULL;
	size_t n;

	*out_size = *out_left = 0;
	pthread_mutex_lock(&client->lock);
	n = client->text_size < TEXT_MAX ? client->text_size : TEXT_MAX;
	if (n)
		piece = malloc(n);
	if (piece) {
		memcpy(piece, client->text, n);
		client->text_size -= n;
		memmove(client->text, client->text + n, client->text_size);
		*out_size = n;
		*out_left = client->text_size;
	}
	pthread_mutex_unlock(&client->lock);
	return piece;
}

void
wkr_reply(struct wkr_client *client, uint64_t seq, uint32_t slot,
	  CUresult result, const uint8_t *outs, size_t size, bool with_text)
{
	size_t room = client->no_ring ? FRAME_MAX
				      : sizeof(client->channel.slots->data);
	struct data_reply m = {
		.seq = seq,
		.result = (uint32_t)result,
		.outs = {outs, size},
	};
	_cleanup_free_ char *text = NULL;
	size_t text_size, left;

	if (slot == CHANNEL_NO_SLOT)
		return;
	if (with_text) {
		text = take_text(client, &text_size, &left);
		m.text = (struct data_bytes){(uint8_t *)text, text_size};
		m.text_left = (uint32_t)left;
	}
	if (data_reply_size(&m) > room) {
		/* It asked for more than a reply can hold. */
		m.result = CUDA_ERROR_INVALID_VALUE;
		m.outs.size = 0;
	}
	size = data_reply_size(&m);
	if (client->no_ring)
		reply_on_socket(client, &m, size);
	else
		reply_in_slot(client, slot, &m, size);
}

void
wkr_reply_call(struct wkr_call *call, CUresult result)
{
	const struct wire_sig *sig = &api_sigs[call->fn];
	static __thread uint8_t outs[FRAME_MAX];
	long size;

	if (call->slot == CHANNEL_NO_SLOT) {
		if (result != CUDA_SUCCESS)
			wkr_late(call->client, result, sig->name);
		return;
	}
	size = wire_pack_reply(sig, call->args, outs, sizeof(outs));
	if (size < 0) {
		result = CUDA_ERROR_INVALID_VALUE;
		size = 0;
	}
	wkr_reply(call->client, call->seq, call->slot, result, outs,
		  (size_t)size, false);
}

void
wkr_late(struct wkr_client *client, CUresult result, const char *what)
{
	uint64_t before = atomic_fetch_add(&client->late_errors, 1);
	uint32_t none = 0;

	/* The first one stays until the client has taken it. */
	atomic_compare_exchange_strong(&client->channel.page->late_error, &none,
				       (uint32_t)result);
	/* One line for each failure would let a client fill the log. */
	if (before < 16)
		log_line(LOG_WARN,
			 "client %llu (pid %d): %s failed late with "
			 "%d",
			 (unsigned long long)client->id, client->pid, what,
			 (int)result);
}
