/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of a capture. Shared by capture.c and capture_api.c.
 */
#ifndef SHIM_CAPTURE_OWN_H
#define SHIM_CAPTURE_OWN_H

#include "shim/capture.h"

/* A stream that takes part, and what its next operation comes after. */
struct shim_member {
	struct shim_stream *stream;
	struct shim_edges deps;
	/* What cuStreamGetCaptureInfo has given out. */
	CUgraphNode *told;
	CUgraphEdgeData *told_edges;
};

struct shim_capture {
	uint64_t id;
	struct shim_graph *graph;
	bool callers;                /* cuStreamBeginCaptureToGraph */
	bool invalid;
	uint32_t first;              /* nodes before it are the caller's */
	CUstreamCaptureMode mode;
	const void *thread;          /* that began it */
	struct shim_member *members; /* the origin first */
	uint32_t count;
	struct shim_capture *next;
};

/* This thread's mode. */
extern _Thread_local CUstreamCaptureMode shim_capture_mode
	__attribute__((tls_model("initial-exec")));

/* Something that only this thread has. */
const void *shim_capture_thread(void);
/* NULL: over, or never was. */
struct shim_capture *shim_capture_find_locked(uint64_t id);
struct shim_member *shim_capture_member_locked(const struct shim_stream *stream,
					       struct shim_capture **out);
CUresult shim_capture_join_locked(struct shim_capture *capture,
				  struct shim_stream *stream);
CUresult shim_capture_begin_locked(struct shim_stream *stream,
				   struct shim_graph *graph,
				   CUstreamCaptureMode mode,
				   struct shim_capture **out);
/* Takes work over, on failure too. */
CUresult shim_capture_add_locked(struct shim_stream *stream,
				 struct shim_work *work,
				 struct shim_node **out_node);
/* Its graph is the caller's from now on. */
struct shim_graph *shim_capture_end_locked(struct shim_capture *capture);

#endif
