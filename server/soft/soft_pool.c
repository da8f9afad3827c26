/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the software device.
 *
 * Grid threads take slices of all running grids in turn, so that an endless
 * grid costs its neighbours time but never stops them. Copies have threads
 * of their own, as an H200 has copy engines; host functions run on one.
 *
 * Every access to device memory happens inside a slice. Who takes a mapping
 * away first removes it from the range table, which changes the generation,
 * and then waits for the slices that had begun before (soft_pool_quiesce).
 */
#include "server/soft/soft_sched.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "server/soft/ptx.h"
#include "server/soft/soft_green.h"
#include "server/soft/soft_mem.h"
#include "server/soft/soft_work.h"

#define SLICE_NS 2000000u
/* With more grids than threads a slice is shorter: who waits, waits less. */
#define SLICE_CROWDED_NS 500000u
#define POLL_NS 50000
#define COPY_THREADS 2
#define SLOTS_MAX 1024

/* Odd: inside a slice. One line each, so that they do not share one. */
struct slot {
	_Alignas(64) _Atomic uint64_t seq;
	_Atomic bool taken;
};

static struct slot slots[SLOTS_MAX];
static __thread struct slot *own_slot;
static pthread_key_t slot_key;
static pthread_once_t slot_once = PTHREAD_ONCE_INIT;

static void
slot_release(void *slot)
{
	atomic_store(&((struct slot *)slot)->taken, false);
}

static void
slot_key_make(void)
{
	pthread_key_create(&slot_key, slot_release);
}

static struct slot *
slot_get(void)
{
	pthread_once(&slot_once, slot_key_make);
	while (!own_slot) {
		for (unsigned i = 0; i < SLOTS_MAX && !own_slot; i++)
			if (!atomic_exchange(&slots[i].taken, true))
				own_slot = &slots[i];
		if (!own_slot)
			sched_yield();
	}
	pthread_setspecific(slot_key, own_slot);
	return own_slot;
}

void
soft_slice_enter(void)
{
	struct slot *slot = own_slot ? own_slot : slot_get();

	/* seq_cst, against the loads of the range table that follow: its
	 * partner is the fence in soft_pool_quiesce(). */
	atomic_fetch_add(&slot->seq, 1);
	atomic_thread_fence(memory_order_seq_cst);
}

void
soft_slice_leave(void)
{
	atomic_fetch_add(&own_slot->seq, 1);
}

void
soft_pool_quiesce(void)
{
	struct timespec pause = { 0, 20000 };

	atomic_thread_fence(memory_order_seq_cst);
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		uint64_t seq = atomic_load(&slots[i].seq);

		if (!(seq & 1) || &slots[i] == own_slot)
			continue;
		while (atomic_load(&slots[i].seq) == seq)
			nanosleep(&pause, NULL);
	}
}

static bool
has_sms_locked(const struct soft_op *op)
{
	if (!op->sms || soft_sms_free_locked(op->sms))
		return true;
	soft_sched.sms_short = true;
	return false;
}

/*
 * The next grid that may have something to do: of the highest priority
 * three times in four, simply the next in turn else, so that nobody starves.
 */
static struct soft_op *
ring_pick_locked(void)
{
	static unsigned turn;
	struct soft_op *op = soft_sched.ring, *best = NULL;
	bool in_turn = !(++turn & 3);

	if (soft_poisoned())
		return NULL;
	for (unsigned i = 0; i < soft_sched.ring_count; i++) {
		/* A smaller number is a higher priority. */
		if (!op->starved && !op->over &&
		    (!best || op->priority < best->priority) &&
		    has_sms_locked(op))
			best = op;
		if (best && in_turn)
			break;
		op = op->ring_next;
	}
	if (best)
		soft_sched.ring = best->ring_next;
	return best;
}

static void
ring_remove_locked(struct soft_op *op)
{
	if (op->ring_next == op) {
		soft_sched.ring = NULL;
	} else {
		op->ring_prev->ring_next = op->ring_next;
		op->ring_next->ring_prev = op->ring_prev;
		if (soft_sched.ring == op)
			soft_sched.ring = op->ring_next;
	}
	soft_sched.ring_count--;
}

/* Called by the last thread out of a grid that has ended; unlocks while the
 * grid is taken apart. */
static void
grid_end_locked(struct soft_op *op)
{
	const char *detail = NULL;
	CUresult res;

	ring_remove_locked(op);
	pthread_mutex_unlock(&soft_sched.lock);
	res = soft_grid_result(op->grid, &detail);
	if (res) {
		soft_log("%s: %s", soft_error_name(res),
			 detail ? detail : "no detail");
		/* What was printed is out before the code is. */
		soft_print_flush();
		soft_poison(res);
	}
	ptx_grid_free(op->grid);
	op->grid = NULL;
	pthread_mutex_lock(&soft_sched.lock);
	if (res)
		return;
	soft_op_end_locked(op);
	soft_pump_locked();
}

/* Whoever slept since the multiprocessors were taken may use them now. */
static void
sms_give_locked(struct soft_sms_taken *taken)
{
	if (!taken->of)
		return;
	soft_sms_give_locked(taken);
	if (soft_sched.sms_short)
		pthread_cond_broadcast(&soft_sched.grids);
	soft_sched.sms_short = false;
}

static void
grid_slice_locked(struct soft_op *op, unsigned thread)
{
	uint64_t budget = soft_sched.ring_count > soft.threads ?
			  SLICE_CROWDED_NS : SLICE_NS;
	struct soft_sms_taken taken;
	enum ptx_work got;

	taken.of = NULL;
	if (op->sms)
		soft_sms_take_locked(op->sms, &taken);
	op->inside++;
	pthread_mutex_unlock(&soft_sched.lock);
	soft_slice_enter();
	soft_account_enter(thread, op->tag);
	got = ptx_grid_work(op->grid, budget);
	soft_account_leave(thread);
	soft_slice_leave();
	pthread_mutex_lock(&soft_sched.lock);
	sms_give_locked(&taken);
	op->inside--;
	switch (got) {
	case PTX_WORK_MORE:
		/* Whoever found nothing may find something now. */
		if (op->starved && !op->inside)
			pthread_cond_signal(&soft_sched.grids);
		op->starved = false;
		break;
	case PTX_WORK_BUSY:
		op->starved = op->inside > 0;
		break;
	case PTX_WORK_DONE:
		op->over = true;
		break;
	}
	if (op->over && !op->inside)
		grid_end_locked(op);
}

static void *
grid_main(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg;

	pthread_mutex_lock(&soft_sched.lock);
	for (;;) {
		struct soft_op *op = ring_pick_locked();

		if (op)
			grid_slice_locked(op, thread);
		else
			pthread_cond_wait(&soft_sched.grids, &soft_sched.lock);
	}
	return NULL;
}

/* Values are looked at outside the lock: one page fault there must not
 * hold up every stream. */
static void
polls_scan_locked(void)
{
	struct soft_op *list = soft_sched.polls, *keep = NULL, *met = NULL;

	soft_sched.polls = NULL;
	pthread_mutex_unlock(&soft_sched.lock);
	soft_slice_enter();
	while (list) {
		struct soft_op *op = list, **to;

		list = op->queue_next;
		to = op->kind == SOFT_OP_BRANCH ||
		     soft_memops_poll(op->work) ? &met : &keep;
		op->queue_next = *to;
		*to = op;
	}
	soft_slice_leave();
	pthread_mutex_lock(&soft_sched.lock);
	while (keep) {
		struct soft_op *op = keep;

		keep = op->queue_next;
		op->queue_next = soft_sched.polls;
		soft_sched.polls = op;
	}
	while (met) {
		struct soft_op *op = met;

		met = op->queue_next;
		if (op->kind == SOFT_OP_BRANCH)
			soft_branch_step_locked(op);
		else
			soft_op_end_locked(op);
	}
	soft_pump_locked();
}

static struct soft_op *
list_pop_locked(struct soft_op **head, struct soft_op **tail)
{
	struct soft_op *op = *head;

	if (op && !(*head = op->queue_next))
		*tail = NULL;
	return op;
}

static void
copy_run_locked(struct soft_op *op)
{
	CUresult res;

	pthread_mutex_unlock(&soft_sched.lock);
	switch (op->work->kind) {
	case SOFT_WORK_COPY:
		res = soft_copy_run(&op->work->copy);
		break;
	case SOFT_WORK_SET:
		res = soft_set_run(&op->work->set);
		break;
	case SOFT_WORK_FREE:
		res = soft_mempool_free_run(op->work->free_addr);
		break;
	default:
		res = CUDA_ERROR_UNKNOWN;
		break;
	}
	if (res) {
		soft_log("%s: a copy touched memory that is not mapped",
			 soft_error_name(res));
		soft_poison(res);
	}
	pthread_mutex_lock(&soft_sched.lock);
	if (res)
		return;
	soft_op_end_locked(op);
	soft_pump_locked();
}

static void
wait_for_poll_locked(void)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_nsec += POLL_NS;
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	pthread_cond_timedwait(&soft_sched.copies, &soft_sched.lock, &at);
}

static void *
copy_main(void *arg)
{
	bool polls = !arg;   /* the first of them also looks at values */

	pthread_mutex_lock(&soft_sched.lock);
	for (;;) {
		struct soft_op *op = NULL;

		if (!soft_poisoned())
			op = list_pop_locked(&soft_sched.copy_head,
					     &soft_sched.copy_tail);
		if (op) {
			copy_run_locked(op);
		} else if (polls && soft_sched.polls && !soft_poisoned()) {
			polls_scan_locked();
			if (soft_sched.polls && !soft_sched.copy_head)
				wait_for_poll_locked();
		} else {
			pthread_cond_wait(&soft_sched.copies,
					  &soft_sched.lock);
		}
	}
	return NULL;
}

static void
host_run_locked(struct soft_op *op)
{
	const struct soft_host_work *host = &op->work->host;
	CUresult code = soft_poisoned();

	pthread_mutex_unlock(&soft_sched.lock);
	soft_self.in_callback = true;
	/* After a fault callbacks are told, host functions are skipped. */
	if (host->callback)
		host->callback(host->stream, code, host->data);
	else if (!code)
		host->fn(host->data);
	soft_self.in_callback = false;
	pthread_mutex_lock(&soft_sched.lock);
	soft_op_end_locked(op);
	soft_pump_locked();
}

static void *
host_main(void *arg)
{
	pthread_mutex_lock(&soft_sched.lock);
	for (;;) {
		struct soft_op *op = list_pop_locked(&soft_sched.host_head,
						     &soft_sched.host_tail);

		if (op)
			host_run_locked(op);
		else
			pthread_cond_wait(&soft_sched.hosts, &soft_sched.lock);
	}
	return arg;
}

static int
thread_start(void *(*run)(void *), uintptr_t arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int r;

	/* Signals are the program's, not ours. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, run, (void *)arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

int
soft_pool_start(void)
{
	int r = thread_start(host_main, 0);

	for (unsigned i = 0; i < COPY_THREADS && !r; i++)
		r = thread_start(copy_main, i);
	for (unsigned i = 0; i < soft.threads && !r; i++)
		r = thread_start(grid_main, i);
	return r;
}
