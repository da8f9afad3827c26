/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events as the client sees them.
 * Used by streams, launches and context teardown.
 */
#ifndef SHIM_EVENT_H
#define SHIM_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "api_cuda.h"
#include "shim/graph.h"
#include "shim/object.h"

struct shim_context;

struct shim_event {
	struct shim_object object;
	unsigned int flags;
	_Atomic bool recorded;  /* ever */
	/* It has happened when frames up to this one have retired; UINT64_MAX:
	 * only the worker knows. */
	_Atomic uint64_t frame;
	_Atomic bool ended;     /* being destroyed */
	bool imported;          /* of another process */
	/* Recorded last in this capture, at these places of its graph; the
	 * latter are guarded by shim_graph_lock. */
	_Atomic uint64_t capture;
	struct shim_edges captured;
	void *next_free;        /* pool's */
};

/* The event of another process, by its key. */
CUresult shim_event_import(const void *key, CUevent *out_event);
/* The event is being recorded outside of any capture. */
void shim_event_recorded(struct shim_event *event);
/* Destroy every event of a context. */
void shim_event_drop_context(struct shim_context *ctx);

#endif
