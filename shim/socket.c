/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPSSHIM_PERF=no_ring: the same frames over the data socket.
 *
 * Replies come in any order, to any thread. Of the threads that wait, one
 * reads (the leader) and hands each reply to whom it belongs; when it has its
 * own it resigns, and one of the others goes on.
 */
#include "shim/chan_own.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/data.h"
#include "proto/wire.pb-c.h"
#include "shim/process.h"

/* A waiting thread's futex word: one bit, and a count of its turns to read. */
#define WAIT_DONE 1u
#define WAIT_TURN 2u

/* Fill the pipe or fail: half a frame would end the conversation. */
static CUresult
write_all(struct shim_chan *chan, const uint8_t *data, size_t size)
{
	struct shim_relax relax = {0};

	while (size) {
		ssize_t n;
		CUresult r;

		if (!shim_fd_is_ours(&chan->data))
			return shim_chan_health(chan);
		n = send(chan->data.fd, data, size,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0) {
			data += n;
			size -= (size_t)n;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			r = shim_chan_health(chan);
			shim_chan_fail(chan, CUDA_ERROR_MPS_RPC_FAILURE);
			return r ? r : shim_chan_sticky(chan);
		}
		r = shim_relax(chan, &relax);
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

static void
register_wait(struct shim_chan *chan, struct shim_wait *wait)
{
	pthread_mutex_lock(&chan->reply_lock);
	wait->next = chan->waits;
	chan->waits = wait;
	pthread_mutex_unlock(&chan->reply_lock);
}

static void
forget_wait(struct shim_chan *chan, struct shim_wait *wait)
{
	struct shim_wait **at = &chan->waits;

	while (*at && *at != wait)
		at = &(*at)->next;
	if (*at)
		*at = wait->next;
}

/* Writing may take long when the worker is slow to read; that is the price
 * of this transport, whose order is the lock's. */
CUresult
shim_socket_send(struct shim_chan *chan, struct shim_frame *frame)
{
	struct shim_lane *lane = &chan->lanes[frame->lane];
	CUresult r = CUDA_SUCCESS;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&chan->lock);
	/* One count for both lanes, as a reply is known by its number alone;
	 * ordered frames then have gaps in theirs. */
	frame->sent_seq = ++chan->socket_seq;
	memcpy((uint8_t *)frame->part[0].iov_base + DATA_SEQ_AT,
	       &frame->sent_seq, sizeof(frame->sent_seq));
	if (frame->wait) {
		frame->wait->seq = frame->sent_seq;
		register_wait(chan, frame->wait);
	}
	for (int i = 0; i < frame->nparts && r == CUDA_SUCCESS; i++)
		r = write_all(chan, frame->part[i].iov_base,
			      frame->part[i].iov_len);
	atomic_store_explicit(&lane->seq, frame->sent_seq,
			      memory_order_release);
	pthread_mutex_unlock(&chan->lock);
	if (r != CUDA_SUCCESS && frame->wait) {
		pthread_mutex_lock(&chan->reply_lock);
		forget_wait(chan, frame->wait);
		pthread_mutex_unlock(&chan->reply_lock);
	}
	pthread_setcancelstate(state, NULL);
	return r;
}

/* Hand a reply to whom it belongs. Caller holds reply_lock. */
static void
deliver_locked(struct shim_chan *chan, const struct frame_header *header,
	       const uint8_t *payload)
{
	Mps__Reply *reply = mps__reply__unpack(NULL, header->size, payload);
	uint64_t seq = reply ? reply->seq : 0;
	struct shim_wait *wait;

	if (reply)
		mps__reply__free_unpacked(reply, NULL);
	for (wait = chan->waits; wait; wait = wait->next)
		if (wait->seq == seq)
			break;
	if (!wait)
		return;
	wait->size = sizeof(*header) + header->size;
	wait->frame = malloc(wait->size);
	if (wait->frame) {
		memcpy(wait->frame, header, sizeof(*header));
		memcpy(wait->frame + sizeof(*header), payload, header->size);
	}
	forget_wait(chan, wait);
	atomic_fetch_or_explicit(&wait->done, WAIT_DONE, memory_order_release);
	shim_futex_wake(&wait->done, 1, false);
}

/* Leader: everything that is there, or 100 ms. */
static CUresult
read_some(struct shim_chan *chan)
{
	struct frame_header header;
	const uint8_t *payload;
	CUresult code = CUDA_SUCCESS;
	int r = shim_fd_wait(&chan->data, 100);

	if (r == -ETIMEDOUT)
		return shim_chan_health(chan);
	if (!r)
		r = sock_reader_fill(&chan->reader);
	pthread_mutex_lock(&chan->reply_lock);
	while (!r) {
		r = sock_reader_next(&chan->reader, &header, &payload);
		if (!r && header.type == FRAME_REPLY)
			deliver_locked(chan, &header, payload);
	}
	pthread_mutex_unlock(&chan->reply_lock);
	if (r < 0) {
		code = shim_chan_health(chan);
		shim_chan_fail(chan, CUDA_ERROR_MPS_RPC_FAILURE);
		code = code ? code : shim_chan_sticky(chan);
	}
	return code;
}

/* True: this thread is the leader now. */
static bool
lead(struct shim_chan *chan)
{
	bool mine;

	pthread_mutex_lock(&chan->reply_lock);
	mine = !chan->reading;
	chan->reading = true;
	pthread_mutex_unlock(&chan->reply_lock);
	return mine;
}

/* Resign, and wake one thread that still waits to take over. */
static void
resign(struct shim_chan *chan)
{
	pthread_mutex_lock(&chan->reply_lock);
	chan->reading = false;
	if (chan->waits) {
		/* The word changes, so that it cannot fall asleep on what it
		 * read before. */
		atomic_fetch_add_explicit(&chan->waits->done, WAIT_TURN,
					  memory_order_release);
		shim_futex_wake(&chan->waits->done, 1, false);
	}
	pthread_mutex_unlock(&chan->reply_lock);
}

CUresult
shim_socket_wait(struct shim_chan *chan, struct shim_wait *wait)
{
	CUresult r = CUDA_SUCCESS;
	uint32_t done;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while (r == CUDA_SUCCESS) {
		done = atomic_load_explicit(&wait->done, memory_order_acquire);
		if (done & WAIT_DONE)
			break;
		if (!lead(chan)) {
			/* What ends the leader in error is sticky and ends
			 * everybody. */
			shim_futex_wait(&wait->done, done, false);
			r = shim_chan_sticky(chan);
			continue;
		}
		while (r == CUDA_SUCCESS && !(atomic_load_explicit(
				&wait->done, memory_order_acquire) &
				WAIT_DONE))
			r = read_some(chan);
		resign(chan);
	}
	if (r != CUDA_SUCCESS) {
		pthread_mutex_lock(&chan->reply_lock);
		forget_wait(chan, wait);
		pthread_mutex_unlock(&chan->reply_lock);
	}
	pthread_setcancelstate(state, NULL);
	if (r == CUDA_SUCCESS && !wait->frame)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	return r;
}
