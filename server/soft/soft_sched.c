/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduler: who may start when.
 *
 * Order comes from dependencies: each operation depends on its predecessor
 * in the stream, and by CUDA's legacy rule an operation of the NULL stream
 * depends on the last operation of every blocking stream of its context and
 * the other way round. All of these point backwards in submission order, so
 * hardware queues, which are first in first out, cannot lock up.
 *
 * A hardware queue lets only its head start. A head that has to wait (for
 * its stream's running kernel, an event, a value) holds up the streams that
 * share the queue, as measured on an H200. Event records hold up nobody there
 * and are in no queue.
 */
#include "server/soft/soft_sched.h"

#include <errno.h>
#include <stdlib.h>

#include "server/soft/ptx.h"
#include "server/soft/soft_ctx.h"
#include "server/soft/soft_module.h"
#include "server/soft/soft_work.h"

struct soft_sched soft_sched = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER,
	.grids = PTHREAD_COND_INITIALIZER,
	.copies = PTHREAD_COND_INITIALIZER,
	.hosts = PTHREAD_COND_INITIALIZER,
};

/* Prefers the side that shuts, or a busy launcher would starve it. */
static pthread_rwlock_t gate =
	PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

int
soft_sched_start(void)
{
	int r = 0;

	pthread_mutex_lock(&soft_sched.lock);
	if (!soft_sched.running) {
		r = soft_pool_start();
		soft_sched.running = !r;
	}
	pthread_mutex_unlock(&soft_sched.lock);
	return r;
}

void
soft_sched_wake_all(void)
{
	pthread_mutex_lock(&soft_sched.lock);
	pthread_cond_broadcast(&soft_sched.done);
	pthread_cond_broadcast(&soft_sched.grids);
	pthread_cond_broadcast(&soft_sched.copies);
	pthread_cond_broadcast(&soft_sched.hosts);
	pthread_mutex_unlock(&soft_sched.lock);
}

void
soft_sched_fail_locked(void)
{
	int none = 0;

	atomic_compare_exchange_strong(&soft.poison, &none,
				       CUDA_ERROR_OUT_OF_MEMORY);
	pthread_cond_broadcast(&soft_sched.done);
}

void
soft_gate_enter(void)
{
	pthread_rwlock_rdlock(&gate);
}

void
soft_gate_leave(void)
{
	pthread_rwlock_unlock(&gate);
}

CUresult
soft_gate_drain(bool stall)
{
	if (stall && !soft_relaxed(SOFT_RELAX_STALL))
		pthread_rwlock_wrlock(&gate);
	return soft_ctx_wait_all();
}

void
soft_gate_open(bool stall)
{
	if (stall && !soft_relaxed(SOFT_RELAX_STALL))
		pthread_rwlock_unlock(&gate);
}

struct soft_mark *
soft_mark_new(void)
{
	struct soft_mark *mark = calloc(1, sizeof(*mark));

	if (mark)
		mark->refs = 1;
	return mark;
}

struct soft_mark *
soft_mark_ref(struct soft_mark *mark)
{
	atomic_fetch_add(&mark->refs, 1);
	return mark;
}

void
soft_mark_unref(struct soft_mark *mark)
{
	if (mark && atomic_fetch_sub(&mark->refs, 1) == 1)
		free(mark);
}

CUresult
soft_mark_wait(struct soft_mark *mark)
{
	CUresult res;

	pthread_mutex_lock(&soft_sched.lock);
	while (!mark->done && !soft_poisoned())
		pthread_cond_wait(&soft_sched.done, &soft_sched.lock);
	res = soft_poisoned();
	pthread_mutex_unlock(&soft_sched.lock);
	return res;
}

CUresult
soft_stream_wait(struct soft_stream *stream)
{
	uint64_t target;
	CUresult res;

	pthread_mutex_lock(&soft_sched.lock);
	stream->refs++;
	target = stream->submitted;
	while (stream->retired < target && !soft_poisoned())
		pthread_cond_wait(&soft_sched.done, &soft_sched.lock);
	soft_stream_unref_locked(stream);
	res = soft_poisoned();
	pthread_mutex_unlock(&soft_sched.lock);
	return res;
}

CUresult
soft_ctx_wait_locked(struct soft_ctx *ctx)
{
	uint64_t target = soft_sched.last_seq;

	while (ctx->inflight.oldest && ctx->inflight.oldest->seq <= target &&
	       !soft_poisoned())
		pthread_cond_wait(&soft_sched.done, &soft_sched.lock);
	return soft_poisoned();
}

struct soft_op *
soft_op_new(struct soft_ctx *ctx, struct soft_work *work)
{
	struct soft_op *op = calloc(1, sizeof(*op));

	if (!op) {
		soft_work_free(work);
		return NULL;
	}
	op->ctx = ctx;
	op->work = work;
	op->kind = soft_work_op_kind(work);
	return op;
}

void
soft_op_free(struct soft_op *op)
{
	if (!op)
		return;
	if (op->grid)
		ptx_grid_free(op->grid);
	soft_work_free(op->work);
	free(op->waiters);
	free(op);
}

bool
soft_op_depend_locked(struct soft_op *op, struct soft_op *on)
{
	if (!on || on == op)
		return true;
	if (on->waiter_count == on->waiter_room) {
		unsigned room = on->waiter_room ? on->waiter_room * 2 : 4;
		struct soft_op **grown;

		grown = realloc(on->waiters, room * sizeof(*grown));
		if (!grown)
			return false;
		on->waiters = grown;
		on->waiter_room = room;
	}
	on->waiters[on->waiter_count++] = op;
	op->pending++;
	return true;
}

static void
ready_push_locked(struct soft_op *op)
{
	op->started = true;
	op->queue_next = NULL;
	if (soft_sched.ready_tail)
		soft_sched.ready_tail->queue_next = op;
	else
		soft_sched.ready = op;
	soft_sched.ready_tail = op;
}

/* Let heads go as long as they have nothing to wait for. */
static void
queue_advance_locked(struct soft_hw_queue *queue)
{
	while (queue->head && !queue->head->pending) {
		struct soft_op *op = queue->head;

		queue->head = op->queue_next;
		if (!queue->head)
			queue->tail = NULL;
		ready_push_locked(op);
	}
}

/* Nodes of graph launches and event records are in no hardware queue. */
static bool
is_queued(const struct soft_op *op)
{
	return op->stream && op->work->kind != SOFT_WORK_RECORD &&
	       !soft_relaxed(SOFT_RELAX_HOL);
}

static void
unblocked_locked(struct soft_op *op)
{
	if (op->started)
		return;
	if (is_queued(op))
		queue_advance_locked(&soft_sched.queues[op->stream->queue]);
	else
		ready_push_locked(op);
}

static void
list_append_locked(struct soft_op **head, struct soft_op **tail,
		   struct soft_op *op)
{
	op->queue_next = NULL;
	if (*tail)
		(*tail)->queue_next = op;
	else
		*head = op;
	*tail = op;
}

static void
ring_insert_locked(struct soft_op *op)
{
	struct soft_op *at = soft_sched.ring;

	if (!at) {
		op->ring_next = op->ring_prev = op;
	} else {
		op->ring_next = at;
		op->ring_prev = at->ring_prev;
		at->ring_prev->ring_next = op;
		at->ring_prev = op;
	}
	/* A new grid is looked at first: short ones end at once. */
	soft_sched.ring = op;
	soft_sched.ring_count++;
	pthread_cond_broadcast(&soft_sched.grids);
}

static void
start_locked(struct soft_op *op)
{
	switch (op->kind) {
	case SOFT_OP_INSTANT:
		soft_op_end_locked(op);
		break;
	case SOFT_OP_GRID:
		ring_insert_locked(op);
		break;
	case SOFT_OP_COPY:
		list_append_locked(&soft_sched.copy_head,
				   &soft_sched.copy_tail, op);
		pthread_cond_signal(&soft_sched.copies);
		break;
	case SOFT_OP_HOST:
		list_append_locked(&soft_sched.host_head,
				   &soft_sched.host_tail, op);
		pthread_cond_signal(&soft_sched.hosts);
		break;
	case SOFT_OP_POLL:
		op->queue_next = soft_sched.polls;
		soft_sched.polls = op;
		pthread_cond_broadcast(&soft_sched.copies);
		break;
	case SOFT_OP_GRAPH:
		soft_run_start_locked(op);
		break;
	case SOFT_OP_BRANCH:
		soft_branch_step_locked(op);
		break;
	}
}

/* A loop, not recursion: a thousand instant operations may be in line. */
void
soft_pump_locked(void)
{
	while (soft_sched.ready) {
		struct soft_op *op = soft_sched.ready;

		soft_sched.ready = op->queue_next;
		if (!soft_sched.ready)
			soft_sched.ready_tail = NULL;
		start_locked(op);
	}
}

void
soft_op_launch_locked(struct soft_op *op)
{
	if (!op->pending)
		ready_push_locked(op);
}

static void
inflight_remove_locked(struct soft_op *op)
{
	struct soft_op_list *list = &op->ctx->inflight;

	if (op->older)
		op->older->newer = op->newer;
	else
		list->oldest = op->newer;
	if (op->newer)
		op->newer->older = op->older;
	else
		list->newest = op->older;
}

static void
inflight_append_locked(struct soft_op *op)
{
	struct soft_op_list *list = &op->ctx->inflight;

	op->seq = ++soft_sched.last_seq;
	op->older = list->newest;
	if (list->newest)
		list->newest->newer = op;
	else
		list->oldest = op;
	list->newest = op;
}

/* Ends the operation and frees it. The caller pumps. */
void
soft_op_end_locked(struct soft_op *op)
{
	struct soft_stream *stream = op->stream;

	if (op->mark) {
		op->mark->time_ns = soft_now_ns();
		op->mark->done = true;
		op->mark->op = NULL;
		soft_mark_unref(op->mark);
	}
	for (unsigned i = 0; i < op->waiter_count; i++)
		if (!--op->waiters[i]->pending)
			unblocked_locked(op->waiters[i]);
	if (stream) {
		inflight_remove_locked(op);
		if (++stream->retired == stream->submitted) {
			soft_sched.queues[stream->queue].streams--;
			stream->queue = -1;
		}
		if (stream->tail == op)
			stream->tail = NULL;
		if (op->ctx->legacy && op->ctx->legacy->tail == op)
			op->ctx->legacy->tail = NULL;
		soft_stream_unref_locked(stream);
	} else if (op->run) {
		soft_run_item_end_locked(op->run, op->item);
	}
	soft_op_free(op);
	pthread_cond_broadcast(&soft_sched.done);
}

/*
 * A stream has a queue while it has work: the one with the fewest streams,
 * ties go to the lowest. Idle streams take no queue from busy ones (with 24
 * of 65 streams busy nobody waits, measured).
 */
static void
queue_take_locked(struct soft_stream *stream)
{
	unsigned best = 0;

	if (stream->queue >= 0)
		return;
	for (unsigned i = 1; i < soft.queues; i++)
		if (soft_sched.queues[i].streams <
		    soft_sched.queues[best].streams)
			best = i;
	soft_sched.queues[best].streams++;
	stream->queue = (int)best;
}

static bool
depend_legacy_locked(struct soft_op *op, struct soft_stream *stream)
{
	if (stream->flags & CU_STREAM_NON_BLOCKING)
		return true;
	if (!stream->legacy)
		return soft_op_depend_locked(op, stream->ctx->legacy->tail);
	for (struct soft_stream *s = stream->ctx->streams; s; s = s->next)
		if (s != stream && !(s->flags & CU_STREAM_NON_BLOCKING) &&
		    !soft_op_depend_locked(op, s->tail))
			return false;
	return true;
}

static bool
has_room_locked(const struct soft_stream *stream)
{
	return soft_relaxed(SOFT_RELAX_QUEUE) ||
	       stream->submitted - stream->retired < SOFT_STREAM_DEPTH;
}

/* Enters the gate with the stream's queue having room and the lock held. */
static CUresult
enter_with_room(struct soft_stream *stream)
{
	for (;;) {
		soft_gate_enter();
		pthread_mutex_lock(&soft_sched.lock);
		if (soft_poisoned() || has_room_locked(stream))
			return soft_poisoned();
		/* Others' launches do not stall behind a full queue
		 * (measured), so the gate is left before waiting. */
		soft_gate_leave();
		while (!has_room_locked(stream) && !soft_poisoned())
			pthread_cond_wait(&soft_sched.done, &soft_sched.lock);
		pthread_mutex_unlock(&soft_sched.lock);
	}
}

static void
append_locked(struct soft_stream *stream, struct soft_op *op)
{
	struct soft_hw_queue *queue = &soft_sched.queues[stream->queue];

	op->stream = stream;
	op->tag = stream->tag;
	op->priority = op->work->kind == SOFT_WORK_KERNEL &&
		       op->work->kernel.has_priority ?
		       op->work->kernel.priority : stream->priority;
	stream->refs++;
	stream->submitted++;
	stream->tail = op;
	inflight_append_locked(op);
	if (!is_queued(op)) {
		soft_op_launch_locked(op);
		return;
	}
	list_append_locked(&queue->head, &queue->tail, op);
	queue_advance_locked(queue);
}

/* cuCtxWaitEvent, cuGreenCtxWaitEvent */
static bool
depend_barrier_locked(struct soft_op *op, const struct soft_ctx *ctx)
{
	return !ctx->barrier || soft_op_depend_locked(op, ctx->barrier->op);
}

/*
 * The first kernel that can print or assert makes the driver find room for
 * the text: the launch returns, the kernel waits for all that runs in the
 * context, and what comes later waits for it (measured).
 */
static bool
depend_first_text_locked(struct soft_op *op, struct soft_ctx *ctx)
{
	const struct soft_work *work = op->work;
	const struct ptx_kernel *ptx;

	if (ctx->home->has_text || work->kind != SOFT_WORK_KERNEL)
		return true;
	ptx = work->kernel.func->ptx;
	if (!ptx->uses_printf && !ptx->uses_assert)
		return true;
	ctx->home->has_text = true;
	for (struct soft_op *o = ctx->inflight.oldest; o; o = o->newer)
		if (!soft_op_depend_locked(op, o))
			return false;
	/* A graph's node comes without one: it waits, and holds up nobody. */
	if (op->mark) {
		soft_mark_unref(ctx->home->barrier);
		ctx->home->barrier = soft_mark_ref(op->mark);
	}
	return true;
}

static bool
depend_all_locked(struct soft_stream *stream, struct soft_op *op,
		  struct soft_mark *const *after, unsigned count)
{
	bool ok = soft_op_depend_locked(op, stream->tail) &&
		  depend_legacy_locked(op, stream) &&
		  depend_barrier_locked(op, stream->ctx) &&
		  depend_barrier_locked(op, stream->ctx->home) &&
		  depend_first_text_locked(op, stream->ctx);

	for (unsigned i = 0; i < count && ok; i++)
		if (after[i])
			ok = soft_op_depend_locked(op, after[i]->op);
	return ok;
}

bool
soft_op_detached_locked(struct soft_op *op, struct soft_mark **out_mark)
{
	op->mark = soft_mark_new();
	if (!op->mark)
		return false;
	op->mark->op = op;
	*out_mark = soft_mark_ref(op->mark);
	return true;
}

CUresult
soft_submit(struct soft_stream *stream, struct soft_op *op,
	    struct soft_mark *const *after, unsigned count,
	    struct soft_mark **out_mark)
{
	CUresult res;

	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->mark = soft_mark_new();
	if (!op->mark) {
		soft_op_free(op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	op->mark->op = op;
	res = enter_with_room(stream);
	if (!res) {
		queue_take_locked(stream);
		if (!depend_all_locked(stream, op, after, count))
			soft_sched_fail_locked();
		if (out_mark)
			*out_mark = soft_mark_ref(op->mark);
		append_locked(stream, op);
		op = NULL;
		soft_pump_locked();
	}
	pthread_mutex_unlock(&soft_sched.lock);
	soft_gate_leave();
	if (op) {
		free(op->mark);
		soft_op_free(op);
	}
	return res;
}
