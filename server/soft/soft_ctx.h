/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and streams of the software device.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_CTX_H
#define SERVER_SOFT_SOFT_CTX_H

#include "server/soft/soft_sched.h"

/* What contexts may be asked to be; all of it is a matter of scheduling. */
#define SOFT_CTX_FLAGS (CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | \
			CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_SYNC_MEMOPS)

struct soft_green;
struct soft_library;
struct soft_sms;

/*
 * Never freed: a context may be current in any thread. A green context has
 * streams, an id and its multiprocessors; everything else it is asked for is
 * its home's, the primary context's.
 */
struct soft_ctx {
	struct soft_device *device;
	struct soft_ctx *home;       /* itself, unless green */
	const struct soft_sms *sms;  /* green: the ones it may use */
	struct soft_green *green;    /* NULL: destroyed, or not green */
	_Atomic(void *) user;        /* green: the thread it is current in */
	_Atomic bool alive;
	bool primary;
	bool charged;                /* … and has its memory */
	unsigned retains;            /* primary; guarded by soft_ctx_lock */
	_Atomic unsigned flags;
	_Atomic uint64_t id;
	CUfunc_cache cache_config;
	size_t limits[CU_LIMIT_MAX];
	size_t local_bytes;          /* a thread; grown by launches */
	/* Guarded by soft_sched.lock: */
	struct soft_op_list inflight;
	struct soft_stream *streams; /* by next; the legacy one included */
	struct soft_stream *legacy;
	struct soft_mark *barrier;   /* what later submissions wait for */
	bool has_text;               /* a kernel that can print has come */
};

extern pthread_mutex_t soft_ctx_lock;

struct soft_ctx *soft_ctx_new(struct soft_device *dev, unsigned flags,
			      bool primary);
CUresult soft_ctx_retain(struct soft_device *device);
CUresult soft_ctx_release(struct soft_device *device);
/* Bring to life, or end, a green context. Under soft_ctx_lock. */
CUresult soft_ctx_activate_locked(struct soft_ctx *ctx);
void soft_ctx_deactivate_locked(struct soft_ctx *ctx);
struct soft_ctx *soft_ctx_from(CUcontext handle);
/* Current context of the thread or NULL, dead ones included. */
struct soft_ctx *soft_ctx_current(void);

/*
 * The calling thread's current context becomes `to` (NULL: none). A green
 * context is current in one thread only: CONTEXT_ALREADY_IN_USE.
 */
CUresult soft_green_switch(struct soft_ctx *to);

struct soft_stream *soft_stream_new(struct soft_ctx *ctx, unsigned flags,
				    int priority);
/* The same as the API does it: a new handle in *out. */
CUresult soft_stream_make(CUstream *out, struct soft_ctx *ctx, unsigned flags,
			  int priority);
void soft_stream_unref_locked(struct soft_stream *stream);
/* Take the stream out of its context; running operations go on. */
void soft_stream_drop(struct soft_stream *stream);
/*
 * Resolve a handle for the current context: NULL and 1 the legacy stream,
 * 2 the calling thread's. *out_ctx, if asked for, is the stream's context.
 */
CUresult soft_stream_from(CUstream handle, struct soft_stream **out_stream,
			  struct soft_ctx **out_ctx);
/* The same for the per-thread twins, where NULL means the thread's. */
CUstream soft_stream_twin(CUstream handle);
void soft_streams_destroy(struct soft_ctx *ctx);

#endif
