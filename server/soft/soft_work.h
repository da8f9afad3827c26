/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operation or a graph node does, independent of where it stands.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_WORK_H
#define SERVER_SOFT_SOFT_WORK_H

#include "server/soft/soft_ctx.h"

struct soft_func;
struct soft_event;
struct soft_exec;

enum soft_work_kind {
	SOFT_WORK_EMPTY,
	SOFT_WORK_KERNEL,
	SOFT_WORK_COPY,
	SOFT_WORK_SET,
	SOFT_WORK_HOST,
	SOFT_WORK_RECORD,
	SOFT_WORK_WAIT,
	SOFT_WORK_MEMOPS,
	SOFT_WORK_FREE,
	SOFT_WORK_GRAPH,
	SOFT_WORK_CHILD,       /* graph node only */
	SOFT_WORK_BRANCH,      /* conditional node */
};

struct soft_kernel_work {
	struct soft_func *func;
	struct soft_ctx *ctx;  /* whose multiprocessors it runs on */
	unsigned grid[3], block[3], cluster[3];
	unsigned dyn_shared;   /* bytes */
	bool cooperative;
	int priority;
	bool has_priority;
	void *params;          /* owned, param_size bytes */
	size_t param_size;
};

/* One side of a copy: rows at base + z * pitch * height + y * pitch + x. */
struct soft_copy_side {
	uint64_t base;
	size_t pitch, height;  /* bytes, rows */
	size_t x, y, z;        /* bytes, rows, slices */
	bool device;           /* checked against the range table */
	bool array;            /* base is inside an array: never checked */
	uint64_t slices;       /* array: that it has */
};

struct soft_copy_work {
	struct soft_copy_side src, dst;
	size_t width, rows, slices;  /* bytes, rows, slices */
	void *staging;         /* owned: what src.base pointed at */
	CUDA_MEMCPY3D params;  /* for cuGraphMemcpyNodeGetParams */
};

struct soft_set_work {
	uint64_t dst;
	size_t pitch, width, rows;   /* bytes, elements, rows */
	unsigned element;            /* bytes: 1, 2, 4 */
	uint32_t value;
};

struct soft_host_work {
	CUhostFn fn;
	CUstreamCallback callback;   /* or this one */
	CUstream stream;             /* what the callback is told */
	void *data;
};

struct soft_branch_work {
	struct soft_cond *cond;      /* referenced */
	CUgraphConditionalNodeType type;
	unsigned count;
	struct soft_graph **graphs;  /* of a node: its bodies, owned */
	struct soft_exec **execs;    /* of an item or operation: their
				      * executable form, owned */
};

struct soft_work {
	enum soft_work_kind kind;
	union {
		struct soft_kernel_work kernel;
		struct soft_copy_work copy;
		struct soft_set_work set;
		struct soft_host_work host;
		struct soft_event *event;        /* referenced */
		struct {
			CUstreamBatchMemOpParams *ops;  /* owned */
			unsigned count, next;
			CUcontext ctx;           /* of a node: as given */
		} memops;
		uint64_t free_addr;
		struct soft_run *run;            /* owned */
		struct soft_graph *child;        /* owned */
		struct soft_branch_work branch;
	};
};

struct soft_work *soft_work_new(enum soft_work_kind kind);
struct soft_work *soft_work_clone(const struct soft_work *work);
void soft_work_free(struct soft_work *work);
enum soft_op_kind soft_work_op_kind(const struct soft_work *work);

/*
 * Submit to a stream, or, while it captures, add a node. Owns the work.
 * out_mark may be NULL; it is left NULL for a captured operation.
 */
CUresult soft_issue(struct soft_stream *stream, struct soft_work *work,
		    struct soft_mark **out_mark);
/* soft_issue(), then wait unless captured. */
CUresult soft_issue_sync(struct soft_stream *stream, struct soft_work *work);

/* soft_memcpy.c: run on a copy thread. */
CUresult soft_copy_run(const struct soft_copy_work *copy);
CUresult soft_set_run(const struct soft_set_work *set);
/* soft_memop.c: true when the batch has ended. */
bool soft_memops_poll(struct soft_work *work);
/* Checked and taken over. */
CUresult soft_memops_work(unsigned count, const CUstreamBatchMemOpParams *ops,
			  unsigned flags, struct soft_work **out);
/* soft_launch.c: the grid of a kernel operation. */
CUresult soft_grid_make(struct soft_op *op);
CUresult soft_grid_result(struct ptx_grid *grid, const char **out_detail);

/* soft_event.c */
void soft_event_ref(struct soft_event *event);
void soft_event_unref(struct soft_event *event);
/* Make mark the event's last record. Under soft_sched.lock. */
void soft_event_set_locked(struct soft_event *event, struct soft_mark *mark);
struct soft_mark *soft_event_mark_locked(struct soft_event *event);

/* soft_graph_run.c */
void soft_run_start_locked(struct soft_op *op);
void soft_run_item_end_locked(struct soft_run *run, unsigned item);
void soft_run_free(struct soft_run *run);
/* soft_branch.c */
bool soft_branch_clone(struct soft_branch_work *copy);
void soft_branch_free(struct soft_branch_work *branch);
/* The operation has been reached, or is looked at once more. */
void soft_branch_step_locked(struct soft_op *op);
/* A body of it has ended. */
void soft_branch_body_end_locked(struct soft_run *run);
/* For kernels: false when there is no such condition. */
bool soft_cond_set(void *ctx, uint64_t handle, uint32_t value);

/* soft_capture.c */
CUresult soft_capture_add(struct soft_stream *stream, struct soft_work *work);
/* A call that must not happen while a capture that concerns this thread is
 * open: answers 900 and invalidates it. */
CUresult soft_capture_forbids(void);
/* Using the legacy stream while a blocking stream captures: 906. */
CUresult soft_capture_implicit(struct soft_stream *stream);
/* Where it is only asked about: the captures go on. */
CUresult soft_capture_implicit_asked(struct soft_stream *stream);
/* Asking a capturing stream for an end: 900, and the capture is spoilt. */
CUresult soft_capture_refuse(struct soft_stream *stream);
/* The same of a context, its green ones included: every capture there. */
CUresult soft_capture_refuse_ctx(const struct soft_ctx *ctx);
void soft_capture_invalidate(struct soft_stream *stream);
void soft_capture_invalidate_id(uint64_t id);
void soft_capture_stream_gone(struct soft_stream *stream);

#endif
