/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames out.
 *
 * A frame is laid down (proto/data.h) and its arguments are packed before the
 * lock is taken: only a copy into the ring happens under it, and a bad pointer
 * of the host faults outside.
 */
#include "shim/chan_own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "api_sigs.h"
#include "proto/data.h"
#include "proto/err.h"
#include "shim/process.h"

/* Most calls are smaller; others go through malloc. */
#define SMALL_CALL 512

CUresult
shim_chan_sticky(const struct shim_chan *chan)
{
	return (CUresult)atomic_load_explicit(&chan->sticky,
					      memory_order_acquire);
}

void
shim_chan_fail(struct shim_chan *chan, CUresult code)
{
	uint32_t none = CUDA_SUCCESS;

	atomic_compare_exchange_strong(&chan->sticky, &none, (uint32_t)code);
}

/* Wake the worker from its nap. It is enough that a byte is on its way: a
 * full socket has plenty of them. */
CUresult
shim_chan_nudge(struct shim_chan *chan)
{
	static const struct frame_header nudge = { .type = FRAME_NUDGE };
	int saved = errno;

	if (!shim_fd_is_ours(&chan->data))
		return shim_chan_health(chan);
	sock_write(chan->data.fd, &nudge, sizeof(nudge), 0);
	errno = saved;
	return CUDA_SUCCESS;
}

/* The frame's bytes, with its number, at `at`. Caller holds the lock. */
static void
copy_frame_locked(struct shim_lane *lane, struct shim_frame *frame, uint8_t *at)
{
	const struct iovec *part = frame->part;

	frame->sent_seq = atomic_load_explicit(&lane->seq,
					       memory_order_relaxed) + 1;
	/* For a worker that finds the frame in the ring of another: whether
	 * its caller still waits. The frame's commit makes it visible. */
	if (frame->reply)
		atomic_store_explicit(&frame->reply->call,
				      CHANNEL_CALL(frame->sent_seq,
						   frame->lane ==
						   LANE_UNORDERED),
				      memory_order_relaxed);
	memcpy(at, part[0].iov_base, part[0].iov_len);
	if (frame->nparts > 1)
		memcpy(at + part[0].iov_len, part[1].iov_base,
		       part[1].iov_len);
	memcpy(at + DATA_SEQ_AT, &frame->sent_seq, sizeof(frame->sent_seq));
	/* Release: who reads this number (shim_chan_seq) and frees memory by
	 * it has the frame before it in the ring. */
	atomic_store_explicit(&lane->seq, frame->sent_seq,
			      memory_order_release);
}

/* The ring is full, or others wait for it: leave the lock in between, so that
 * callers of the other ring get by. Returns with the lock held. */
static CUresult
wait_room_locked(struct shim_chan *chan, struct shim_lane *lane, uint32_t size,
		 void **out_at)
{
	uint64_t ticket = lane->next_ticket++;
	struct shim_relax relax = {0};
	CUresult r;

	for (;;) {
		pthread_mutex_unlock(&chan->lock);
		r = shim_relax(chan, &relax);
		pthread_mutex_lock(&chan->lock);
		if (r != CUDA_SUCCESS)
			return r;
		if (lane->serving != ticket)
			continue;
		*out_at = ring_reserve(&lane->ring, size);
		if (*out_at) {
			lane->serving++;
			return CUDA_SUCCESS;
		}
	}
}

static CUresult
send_ring(struct shim_chan *chan, struct shim_frame *frame)
{
	struct shim_lane *lane = &chan->lanes[frame->lane];
	CUresult r = CUDA_SUCCESS;
	bool nudge = false;
	void *at = NULL;

	pthread_mutex_lock(&chan->lock);
	if (lane->serving == lane->next_ticket)
		at = ring_reserve(&lane->ring, frame->size);
	if (!at)
		r = wait_room_locked(chan, lane, frame->size, &at);
	if (r == CUDA_SUCCESS) {
		copy_frame_locked(lane, frame, at);
		nudge = ring_commit(&lane->ring, frame->size);
		frame->end = lane->ring.own;
	}
	pthread_mutex_unlock(&chan->lock);
	return nudge ? shim_chan_nudge(chan) : r;
}

static CUresult
send_frame(struct shim_chan *chan, struct shim_frame *frame)
{
	CUresult r = shim_chan_sticky(chan);

	if (r != CUDA_SUCCESS)
		return r;
	return chan->no_ring ? shim_socket_send(chan, frame)
			     : send_ring(chan, frame);
}

/*
 * A Call frame in buf, or in *out_big when it does not fit there.
 */
static CUresult
build_call(enum api_id id, uint32_t slot, void *const argv[], uint8_t *buf,
	   uint8_t **out_big, struct shim_frame *frame)
{
	const struct wire_sig *sig = &api_sigs[id];
	size_t room = SMALL_CALL - DATA_CALL_ROOM;
	long args = wire_pack_call(sig, argv, buf + DATA_CALL_ROOM, room);
	uint8_t *end, *begin;

	if (args < 0) {
		buf = *out_big = malloc(DATA_CALL_ROOM + WIRE_MAX_ARGS);
		if (!buf)
			return CUDA_ERROR_OUT_OF_MEMORY;
		args = wire_pack_call(sig, argv, buf + DATA_CALL_ROOM,
				      WIRE_MAX_ARGS);
		if (args < 0)
			return CUDA_ERROR_INVALID_VALUE;
	}
	frame->lane = sig->class_ == WIRE_SYNC_UNORDERED ? LANE_UNORDERED
							 : LANE_ORDERED;
	end = buf + DATA_CALL_ROOM + args;
	begin = data_put_call(buf + DATA_CALL_ROOM, (size_t)args, frame->lane,
			      (uint32_t)id, slot);
	frame->size = (uint32_t)(end - begin);
	frame->part[0] = (struct iovec){ begin, frame->size };
	frame->nparts = 1;
	return CUDA_SUCCESS;
}

static CUresult
send_call(struct shim_chan *chan, enum api_id id, uint32_t slot,
	  void *const argv[], struct shim_wait *wait)
{
	_cleanup_free_ uint8_t *big = NULL;
	struct shim_frame frame = { .wait = chan->no_ring ? wait : NULL };
	uint8_t small[SMALL_CALL];
	CUresult r = build_call(id, slot, argv, small, &big, &frame);

	if (!chan->no_ring && slot != CHANNEL_NO_SLOT)
		frame.reply = &chan->channel.slots[slot];
	if (r == CUDA_SUCCESS)
		r = send_frame(chan, &frame);
	if (wait && !chan->no_ring) {
		wait->end = frame.end;
		/* No other number stands in a line. */
		wait->seq = frame.lane == LANE_ORDERED ? frame.sent_seq :
							 UINT64_MAX;
	}
	return r;
}

static void
give_slots(struct shim_chan *chan, uint64_t slots)
{
	atomic_fetch_or_explicit(&chan->free_slots, slots,
				 memory_order_release);
}

/* Those whose replies have come can be taken again. */
static void
collect_slots(struct shim_chan *chan)
{
	uint64_t late, come = 0;

	if (!atomic_load_explicit(&chan->late_slots, memory_order_relaxed))
		return;
	/* Acquire: pairs with leave_slot; what is taken out here nobody else
	 * looks at. */
	late = atomic_exchange_explicit(&chan->late_slots, 0,
					memory_order_acquire);
	for (uint64_t left = late; left; left &= left - 1) {
		int slot = __builtin_ctzll(left);

		if (atomic_load_explicit(&chan->channel.slots[slot].state,
					 memory_order_acquire) == SLOT_DONE)
			come |= UINT64_C(1) << slot;
	}
	if (late != come)
		atomic_fetch_or_explicit(&chan->late_slots, late & ~come,
					 memory_order_release);
	if (come)
		give_slots(chan, come);
}

static CUresult
take_slot(struct shim_chan *chan, uint8_t *out_slot)
{
	struct shim_relax relax = {0};
	uint64_t free_slots;

	collect_slots(chan);
	free_slots = atomic_load_explicit(&chan->free_slots,
					  memory_order_relaxed);
	for (;;) {
		if (!free_slots) {
			CUresult r = shim_relax(chan, &relax);

			if (r != CUDA_SUCCESS)
				return r;
			collect_slots(chan);
			free_slots = atomic_load_explicit(
				&chan->free_slots, memory_order_relaxed);
			continue;
		}
		/* Acquire: pairs with give_slot; the last owner is done. */
		if (atomic_compare_exchange_weak_explicit(
				&chan->free_slots, &free_slots,
				free_slots & (free_slots - 1),
				memory_order_acquire, memory_order_relaxed))
			break;
	}
	*out_slot = (uint8_t)__builtin_ctzll(free_slots);
	return CUDA_SUCCESS;
}

static void
give_slot(struct shim_chan *chan, uint8_t slot)
{
	give_slots(chan, UINT64_C(1) << slot);
}

/* Without its reply, which the worker has not written yet. */
static void
leave_slot(struct shim_chan *chan, uint8_t slot)
{
	atomic_fetch_or_explicit(&chan->late_slots, UINT64_C(1) << slot,
				 memory_order_release);
}

/* Where the GPU may say that it is done (proto/channel.h). */
static _Atomic uint64_t *
line_of(struct shim_chan *chan, const struct shim_wait *wait)
{
	return (void *)(chan->staging + CHANNEL_STAGING +
			wait->slot * CHANNEL_LINE);
}

/* Acquire: what the stream has written before is seen. */
static bool
line_says_done(struct shim_chan *chan, const struct shim_wait *wait)
{
	return atomic_load_explicit(line_of(chan, wait),
				    memory_order_acquire) == wait->seq;
}

CUresult
shim_chan_begin(struct shim_chan *chan, enum api_id id, void *const argv[],
		struct shim_wait *wait)
{
	CUresult r;

	*wait = (struct shim_wait){0};
	if (chan->no_ring)
		return send_call(chan, id, 0, argv, wait);
	r = take_slot(chan, &wait->slot);
	if (r != CUDA_SUCCESS)
		return r;
	/* Made visible to the worker by the frame that names the slot. */
	atomic_store_explicit(&chan->channel.slots[wait->slot].state,
			      SLOT_PENDING, memory_order_relaxed);
	r = send_call(chan, id, wait->slot, argv, wait);
	if (r != CUDA_SUCCESS)
		give_slot(chan, wait->slot);
	return r;
}

/*
 * A worker that came in the place of another answers what it finds in the
 * ordered ring, and of the unordered one what came after a certain place. A
 * call from before that is sent to it again: nobody has answered it, and
 * nobody else will.
 */
static CUresult
send_again(struct shim_chan *chan, enum api_id id, void *const argv[],
	   struct shim_wait *wait)
{
	/* Acquire: the worker that wrote it serves the ring. */
	uint64_t from = atomic_load_explicit(
		&chan->channel.page->unordered_from, memory_order_acquire);

	if (api_sigs[id].class_ != WIRE_SYNC_UNORDERED || wait->end > from)
		return CUDA_SUCCESS;
	return send_call(chan, id, wait->slot, argv, wait);
}

/* Until the worker has written the slot, or the GPU the line. */
static CUresult
wait_slot(struct shim_chan *chan, enum api_id id, void *const argv[],
	  struct shim_wait *wait)
{
	struct reply_slot *slot = &chan->channel.slots[wait->slot];
	uint32_t pending = SLOT_PENDING;
	CUresult r;

	if (shim_spin_either(&slot->state, SLOT_PENDING, line_of(chan, wait),
			     wait->seq))
		return CUDA_SUCCESS;
	/* Acquire on failure: the worker's DONE publishes the reply. */
	if (!atomic_compare_exchange_strong_explicit(
			&slot->state, &pending, SLOT_WAITING,
			memory_order_acq_rel, memory_order_acquire))
		return CUDA_SUCCESS;
	for (;;) {
		/* The GPU wakes nobody, but the worker does soon. */
		if (line_says_done(chan, wait))
			return CUDA_SUCCESS;
		shim_futex_wait(&slot->state, SLOT_WAITING, true);
		if (atomic_load_explicit(&slot->state, memory_order_acquire) ==
		    SLOT_DONE)
			return CUDA_SUCCESS;
		r = shim_chan_health(chan);
		if (r == CUDA_SUCCESS)
			r = send_again(chan, id, argv, wait);
		if (r != CUDA_SUCCESS)
			return r;
	}
}

static CUresult
take_reply(struct shim_chan *chan, enum api_id id, void *const argv[],
	   struct shim_wait *wait)
{
	struct reply_slot *slot;
	CUresult r;

	if (chan->no_ring) {
		r = shim_socket_wait(chan, wait);
		if (r == CUDA_SUCCESS)
			r = shim_reply_take(id, argv, wait->frame, wait->size,
					    &wait->text_left);
		free(wait->frame);
		return r;
	}
	slot = &chan->channel.slots[wait->slot];
	r = wait_slot(chan, id, argv, wait);
	/* The slot of a lost worker stays taken: it may yet write there. */
	if (r != CUDA_SUCCESS)
		return r;
	if (atomic_load_explicit(&slot->state, memory_order_acquire) !=
	    SLOT_DONE) {
		leave_slot(chan, wait->slot);
		return CUDA_SUCCESS;
	}
	r = shim_reply_take(id, argv, slot->data, slot->size,
			    &wait->text_left);
	give_slot(chan, wait->slot);
	return r;
}

/* The calls that natively report what earlier work has done wrong. */
static bool
is_synchronising(enum api_id id)
{
	return id == API_mpsStreamSync || id == API_mpsContextSync ||
	       id == API_mpsEventSync || id == API_mpsCopyOut;
}

CUresult
shim_chan_late(struct shim_chan *chan)
{
	_Atomic uint32_t *late = &chan->channel.page->late_error;

	/* The worker sets it when it is 0, we clear it: once each. */
	if (!atomic_load_explicit(late, memory_order_relaxed))
		return CUDA_SUCCESS;
	return (CUresult)atomic_exchange_explicit(late, 0,
						  memory_order_acq_rel);
}

CUresult
shim_chan_end(struct shim_chan *chan, enum api_id id, void *const argv[],
	      struct shim_wait *wait)
{
	CUresult r = take_reply(chan, id, argv, wait);
	struct shim_wait more = *wait;

	while (more.text_left && shim_chan_begin(chan, API_mpsFence, NULL,
						 &more) == CUDA_SUCCESS)
		take_reply(chan, API_mpsFence, NULL, &more);
	return r == CUDA_SUCCESS && is_synchronising(id) ?
	       shim_chan_late(chan) : r;
}

CUresult
shim_chan_call(struct shim_chan *chan, enum api_id id, void *const argv[])
{
	struct shim_wait wait;
	CUresult r = shim_chan_begin(chan, id, argv, &wait);

	return r == CUDA_SUCCESS ? shim_chan_end(chan, id, argv, &wait) : r;
}

CUresult
shim_chan_post(struct shim_chan *chan, enum api_id id, void *const argv[])
{
	if (shim_process.perf & SHIM_NO_POST)
		return shim_chan_call(chan, id, argv);
	return send_call(chan, id, CHANNEL_NO_SLOT, argv, NULL);
}

/* A launch has no reply; a query behind it has. */
static CUresult
wait_launch(struct shim_chan *chan, const struct launch_head *head)
{
	void *argv[] = { (void *)(uintptr_t)&head->stream };
	CUresult r = shim_chan_call(chan, API_mpsStreamQuery, argv);

	return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
}

CUresult
shim_chan_launch(struct shim_chan *chan, const struct launch_head *head,
		 uint8_t *params, size_t params_size,
		 const struct launch_attr *attrs)
{
	uint8_t last[DATA_ATTRS_ROOM + LAUNCH_ATTRS_MAX * sizeof(*attrs)];
	size_t attrs_size = head->nattrs * sizeof(*attrs);
	struct shim_frame frame;
	uint8_t *begin;
	CUresult r;

	if (params_size > LAUNCH_PARAMS_MAX || head->nattrs > LAUNCH_ATTRS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	begin = data_put_launch(params, params_size, attrs_size, head);
	frame.lane = LANE_ORDERED;
	frame.wait = NULL;
	frame.reply = NULL;
	frame.nparts = 1;
	frame.size = (uint32_t)(params + params_size - begin);
	frame.part[0] = (struct iovec){ begin, frame.size };
	if (attrs_size) {
		uint8_t *end = data_put_attrs(last, attrs, attrs_size);

		frame.part[frame.nparts++] =
			(struct iovec){ last, (size_t)(end - last) };
		frame.size += (uint32_t)(end - last);
	}
	r = send_frame(chan, &frame);
	if (r == CUDA_SUCCESS && shim_process.perf & SHIM_NO_POST)
		r = wait_launch(chan, head);
	return r;
}

uint64_t
shim_chan_seq(struct shim_chan *chan)
{
	return atomic_load_explicit(&chan->lanes[LANE_ORDERED].seq,
				    memory_order_acquire);
}

uint64_t
shim_chan_retired(struct shim_chan *chan)
{
	return atomic_load_explicit(&chan->channel.page->retired,
				    memory_order_acquire);
}

bool
shim_chan_is_over(struct shim_chan *chan, uint64_t seq)
{
	/* Acquire (retired): whatever the frames did is seen, and that they
	 * have text. */
	const struct channel_page *page = chan->channel.page;

	return !(shim_process.perf & SHIM_NO_WORD) &&
	       seq <= shim_chan_retired(chan) &&
	       !atomic_load_explicit(&page->unread, memory_order_relaxed) &&
	       !atomic_load_explicit(&page->dead, memory_order_relaxed) &&
	       shim_chan_sticky(chan) == CUDA_SUCCESS;
}

void
shim_chan_wait_issued(struct shim_chan *chan)
{
	uint64_t seq = shim_chan_seq(chan);
	struct shim_relax relax = {0};

	while (chan->no_ring && atomic_load_explicit(
			&chan->channel.page->issued, memory_order_acquire) <
	       seq && shim_relax(chan, &relax) == CUDA_SUCCESS)
		;
}

CUresult
shim_chan_fence(struct shim_chan *chan)
{
	return shim_chan_call(chan, API_mpsFence, NULL);
}

CUresult
shim_chan_wait(struct shim_chan *chan, uint64_t seq)
{
	struct shim_relax relax = {0};
	CUresult r = shim_chan_sticky(chan);

	while (r == CUDA_SUCCESS && shim_chan_retired(chan) < seq)
		r = shim_relax(chan, &relax);
	return r;
}

int
shim_chan_device(const struct shim_chan *chan)
{
	return chan->device;
}

struct shim_stage *
shim_chan_stage(struct shim_chan *chan)
{
	return &chan->stage;
}

uint8_t *
shim_chan_staging(struct shim_chan *chan)
{
	return chan->staging;
}
