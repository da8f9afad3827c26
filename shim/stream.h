/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as the client sees them.
 * Used by everything in shim/ that takes a CUstream.
 */
#ifndef SHIM_STREAM_H
#define SHIM_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "shim/object.h"
#include "shim/room.h"

struct shim_context;

/* mpsStreamCreate's `kind`. */
enum shim_stream_kind {
	STREAM_BLOCKING,     /* ordered with the legacy default stream */
	STREAM_NON_BLOCKING,
	STREAM_LEGACY,       /* a context's default stream */
	STREAM_PER_THREAD,   /* a thread's default stream in a context */
};

/* Attributes that a program has given a stream: launches in it have them, the
 * synchronisation policy apart. */
struct shim_stream_attrs {
	_Atomic uint32_t set;       /* of these: 1 << id */
	CUlaunchAttributeValue window, map;   /* under stream_attr.c's lock */
	_Atomic int policy, domain;
};

/* Constant once it has a handle, but for what is atomic. */
struct shim_stream {
	struct shim_object object;
	uint64_t id;            /* cuStreamGetId: unique for the process */
	enum shim_stream_kind kind;
	_Atomic int priority;
	struct shim_stream_attrs attrs;
	_Atomic bool ended;     /* being destroyed */
	_Atomic uint64_t capture;   /* that it takes part in; 0: none */
	struct shim_room room;      /* room.h */
	void *next_free;        /* pool's */
};

/*
 * The wire handle behind a CUstream of the current context: 0 and
 * CU_STREAM_LEGACY become its legacy default stream, CU_STREAM_PER_THREAD
 * this thread's, both minted at first use. CUDA_ERROR_INVALID_HANDLE for
 * what is no live stream, 900 for one that captures.
 */
CUresult shim_stream_resolve(CUstream stream, uint64_t *out_handle);
/* The same for any live context, and the stream itself. */
CUresult shim_stream_find(CUstream stream, struct shim_context *ctx,
			  struct shim_stream **out_stream);

/* What a stream's priority becomes: the nearest that there is. */
int shim_stream_clamp(const struct shim_context *ctx, int priority);

/* stream_attr.c. What the stream adds to a launch that does not say itself. */
struct shim_launch;
CUresult shim_stream_attrs_add(struct shim_stream *stream,
			       struct shim_launch *launch);

/* Forget every stream of a context, once the worker has been told to end the
 * context and them with it. */
void shim_stream_drop_context(struct shim_context *ctx);

#endif
