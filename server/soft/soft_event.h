/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events and what capture wants of them.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_EVENT_H
#define SERVER_SOFT_SOFT_EVENT_H

#include "server/soft/soft_ctx.h"

struct soft_event {
	_Atomic unsigned refs;       /* handle, operations, graph nodes */
	struct soft_ctx *ctx;        /* a home */
	unsigned flags;
	struct soft_mark *mark;      /* of the last record; soft_sched.lock */
	_Atomic uint64_t capture_id; /* recorded in this capture; 0: none */
	/* Guarded by soft_graph_lock: */
	struct soft_node **capture_deps;
	unsigned capture_dep_count;
};

CUresult soft_event_record(struct soft_event *event,
			   struct soft_stream *stream);

/* soft_capture.c */
/* The event marks the stream's place in the graph. */
CUresult soft_capture_record(struct soft_stream *stream,
			     struct soft_event *event);
CUresult soft_capture_join(struct soft_stream *stream,
			   struct soft_event *event);

#endif
