/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduler of the software device: streams, hardware queues, threads.
 * Called by server/soft/soft_*.c only.
 *
 * An operation waits until everything it depends on has ended, and until it
 * is at the head of its stream's hardware queue; then it leaves the queue
 * and runs. Everything in this header is guarded by soft_sched.lock unless
 * it says otherwise. No lock is held while a grid or a copy executes.
 */
#ifndef SERVER_SOFT_SOFT_SCHED_H
#define SERVER_SOFT_SOFT_SCHED_H

#include "server/soft/soft.h"

/*
 * A stream behind a long kernel accepts 1,022 further launches (measured on
 * an H200); with the running one that makes:
 */
#define SOFT_STREAM_DEPTH 1023
#define SOFT_QUEUES_MAX 32

struct ptx_grid;
struct soft_sms;
struct soft_capture;
struct soft_node;
struct soft_work;
struct soft_run;

enum soft_op_kind {
	SOFT_OP_INSTANT,   /* ends when it is reached */
	SOFT_OP_GRID,      /* grid threads, in slices */
	SOFT_OP_COPY,      /* copy threads */
	SOFT_OP_HOST,      /* callback thread */
	SOFT_OP_POLL,      /* ends when memory holds a value */
	SOFT_OP_GRAPH,     /* ends when all its nodes have */
	SOFT_OP_BRANCH,    /* runs bodies while its condition says so */
};

/* Outlives its operation: events and synchronising callers hold it. */
struct soft_mark {
	_Atomic unsigned refs;
	bool done;
	uint64_t time_ns;
	struct soft_op *op;          /* NULL once done */
};

struct soft_op {
	enum soft_op_kind kind;
	unsigned pending;            /* dependencies that have not ended */
	bool started;
	struct soft_ctx *ctx;
	struct soft_stream *stream;  /* NULL: node of a graph launch */
	struct soft_mark *mark;      /* or NULL */
	struct soft_work *work;      /* owned */
	uint64_t seq, tag;
	int priority;
	struct soft_op **waiters;
	unsigned waiter_count, waiter_room;
	struct soft_op *queue_next;  /* in a hardware queue or a work list */
	struct soft_op *older, *newer;  /* in ctx->inflight */
	/* GRID */
	struct ptx_grid *grid;
	struct soft_op *ring_next, *ring_prev;
	unsigned inside;             /* threads in ptx_grid_work() */
	bool starved;                /* the last caller found nothing to do */
	bool over;                   /* PTX_WORK_DONE was answered */
	const struct soft_sms *sms;  /* of its green context, or NULL */
	/* GRAPH, and its nodes */
	struct soft_run *run;
	unsigned item;
};

struct soft_op_list {
	struct soft_op *oldest, *newest;
};

struct soft_hw_queue {
	struct soft_op *head, *tail;
	unsigned streams;            /* with work in it */
};

struct soft_stream {
	unsigned refs;               /* handle, operations */
	struct soft_ctx *ctx;
	struct soft_stream *next, *prev;   /* in ctx->streams */
	uint64_t id;
	unsigned flags;              /* CU_STREAM_NON_BLOCKING or 0 */
	int priority;
	uint64_t tag;
	bool legacy;                 /* the context's NULL stream */
	int queue;                   /* -1: no work in flight */
	uint64_t submitted, retired; /* operations */
	struct soft_op *tail;        /* last operation, while in flight */
	CUsynchronizationPolicy sync_policy;
	/* Capture; see soft_capture.c. NULL: not capturing. */
	struct soft_capture *_Atomic capture;
	struct soft_node **capture_deps;    /* guarded by soft_graph_lock */
	unsigned capture_dep_count;
};

struct soft_sched {
	pthread_mutex_t lock;
	pthread_cond_t done;         /* something ended, or poison */
	pthread_cond_t grids;        /* grid threads */
	pthread_cond_t copies;       /* copy threads */
	pthread_cond_t hosts;        /* callback thread */
	struct soft_hw_queue queues[SOFT_QUEUES_MAX];
	struct soft_op *ready;       /* to be started by the pump */
	struct soft_op *ready_tail;
	struct soft_op *ring;        /* running grids, NULL: none */
	unsigned ring_count;
	bool sms_short;              /* a grid was passed over: its
				      * multiprocessors had their threads */
	struct soft_op *copy_head, *copy_tail;
	struct soft_op *host_head, *host_tail;
	struct soft_op *polls;       /* by queue_next */
	uint64_t last_seq;
	bool running;                /* threads were started */
};

extern struct soft_sched soft_sched;

/* Start the threads. Returns 0 or negative errno. */
int soft_sched_start(void);
void soft_sched_wake_all(void);
/* Out of memory where order would be lost: the device is gone. */
void soft_sched_fail_locked(void);

/*
 * The door through which everything is submitted. Calls that the real
 * driver executes under its context lock shut it while they wait
 * (measured: "stalls the third thread's launches").
 */
void soft_gate_enter(void);
void soft_gate_leave(void);
/* Wait for everything in flight in every context. With `stall`, keep the
 * door shut until soft_gate_open(). Returns the poison, if any. */
CUresult soft_gate_drain(bool stall);
void soft_gate_open(bool stall);

/* An operation around work, which it owns from then on, also on failure. */
struct soft_op *soft_op_new(struct soft_ctx *ctx, struct soft_work *work);
void soft_op_free(struct soft_op *op);
bool soft_op_depend_locked(struct soft_op *op, struct soft_op *on);
/*
 * Append to a stream. Blocks while the stream is full. With out_mark, the
 * caller gets a reference to the operation's mark. `after`, an array of
 * count marks, are further dependencies.
 */
CUresult soft_submit(struct soft_stream *stream, struct soft_op *op,
		     struct soft_mark *const *after, unsigned count,
		     struct soft_mark **out_mark);
/* Give an operation that has no stream a mark, and the caller a reference
 * to it. False: out of memory. */
bool soft_op_detached_locked(struct soft_op *op, struct soft_mark **out_mark);
/* Start a node of a graph launch, or a detached operation, as soon as what
 * it depends on has ended: no queue, no stream. */
void soft_op_launch_locked(struct soft_op *op);
void soft_op_end_locked(struct soft_op *op);
void soft_pump_locked(void);

struct soft_mark *soft_mark_new(void);
struct soft_mark *soft_mark_ref(struct soft_mark *mark);
void soft_mark_unref(struct soft_mark *mark);   /* NULL is fine */
CUresult soft_mark_wait(struct soft_mark *mark);

/* Everything submitted to the stream, or to the context, so far. */
CUresult soft_stream_wait(struct soft_stream *stream);
/* A home's green contexts included. */
CUresult soft_ctx_wait(struct soft_ctx *ctx);
/* The context itself and its live green ones, in turn; *at starts at 0. */
struct soft_ctx *soft_ctx_next_locked(const struct soft_ctx *ctx, size_t *at);
CUresult soft_ctx_wait_locked(struct soft_ctx *ctx);
CUresult soft_ctx_wait_all(void);

/* soft_pool.c: the threads. */
int soft_pool_start(void);
/* Wait until no pool thread still uses a mapping that was just taken out
 * of the range table. Not under any lock; at most one slice long. */
void soft_pool_quiesce(void);
/* Bracket device memory accesses of a thread that is not in a grid. */
void soft_slice_enter(void);
void soft_slice_leave(void);

/* soft_account.c: who executed when. */
void soft_account_enter(unsigned thread, uint64_t tag);
void soft_account_leave(unsigned thread);
uint64_t soft_account_overlap_ns(void);
uint64_t soft_account_kernel_ns(uint64_t tag);

#endif
