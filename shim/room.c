/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Natively a stream behind a long kernel takes 1,022 launches and the next
 * call waits for room, while other threads go on (measured). Were it the ring
 * that filled up, every thread of the process would wait: so what is posted
 * for a stream is counted here, and never more than the worker passes on.
 *
 * What has retired is known for the channel as a whole, at once, or for one
 * stream by asking. Marks remember which frames a number of places belongs
 * to.
 */
#include "shim/room.h"

#include <string.h>

#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/relax.h"
#include "shim/stream.h"
#include "shim_calls.h"

/* Below the worker's limit by the fences that it adds. */
#define PLACES 1006u
/* Places between marks: PLACES of them need no more than there are. */
#define STEP 64u
_Static_assert(PLACES / STEP < SHIM_ROOM_MARKS, "marks for a full stream");
/* How long to watch the channel before asking about the stream, unless that
 * was in vain the last time: an answer comes only when the worker has passed
 * on all that was posted before. */
#define WATCH_NS UINT64_C(1000000)

static void
drop_oldest_locked(struct shim_room *room)
{
	room->retired = room->marks[0].posted;
	room->nmarks--;
	memmove(room->marks, room->marks + 1,
		room->nmarks * sizeof(room->marks[0]));
}

/* What frames up to seq have put here has retired. True: any of it counts. */
static bool
drop_locked(struct shim_room *room, uint64_t seq)
{
	bool any = false;

	while (room->nmarks > 0 && room->marks[0].seq <= seq) {
		drop_oldest_locked(room);
		any = true;
	}
	return any;
}

static void
mark_locked(struct shim_room *room, struct shim_chan *chan, uint64_t posted)
{
	uint64_t last = room->nmarks > 0 ?
			room->marks[room->nmarks - 1].posted : room->retired;

	if (posted < last + STEP || room->nmarks == SHIM_ROOM_MARKS)
		return;
	room->marks[room->nmarks++] = (struct shim_room_mark){
		.posted = posted, .seq = shim_chan_seq(chan),
	};
}

/* Until what the oldest mark stands for has retired. */
static CUresult
wait_locked(struct shim_room *room, struct shim_chan *chan, uint64_t stream)
{
	uint64_t seq = room->marks[0].seq, end = shim_now_ns() + WATCH_NS;
	struct shim_relax relax = {0};
	CUresult r = shim_chan_sticky(chan);

	while (r == CUDA_SUCCESS && !room->in_vain) {
		if (drop_locked(room, shim_chan_retired(chan)))
			return r;
		room->in_vain = shim_now_ns() >= end;
		r = shim_relax(chan, &relax);
	}
	if (r == CUDA_SUCCESS)
		r = call_mpsStreamReached(chan, stream, seq, &seq);
	if (r == CUDA_SUCCESS)
		drop_locked(room, seq);
	return r;
}

/* `before`: places of what was posted before. */
static CUresult
look(struct shim_stream *stream, uint64_t before)
{
	struct shim_chan *chan = stream->object.ctx->chan;
	struct shim_room *room = &stream->room;
	CUresult r = CUDA_SUCCESS;
	uint64_t last;

	pthread_mutex_lock(&room->lock);
	if (drop_locked(room, shim_chan_retired(chan)))
		room->in_vain = false;
	mark_locked(room, chan, before);
	while (before >= room->retired + PLACES && r == CUDA_SUCCESS &&
	       room->nmarks > 0)
		r = wait_locked(room, chan, stream->object.handle);
	last = room->nmarks > 0 ? room->marks[room->nmarks - 1].posted :
				  room->retired;
	/* Relaxed, as every access: whoever sees an old value looks again. */
	atomic_store_explicit(&room->look,
			      last + STEP < room->retired + PLACES ?
			      last + STEP : room->retired + PLACES,
			      memory_order_relaxed);
	pthread_mutex_unlock(&room->lock);
	return r;
}

CUresult
shim_room_take(struct shim_stream *stream, unsigned places)
{
	struct shim_room *room = &stream->room;
	uint64_t before = atomic_fetch_add_explicit(&room->posted, places,
						    memory_order_relaxed);

	if (__builtin_expect(before < atomic_load_explicit(&room->look,
				memory_order_relaxed), 1))
		return CUDA_SUCCESS;
	return look(stream, before);
}
