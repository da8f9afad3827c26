/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that wait in a client's ring go to the driver as one kept graph.
 * Used by server/worker only, by lane threads only unless it says otherwise.
 */
#ifndef SERVER_WORKER_BATCH_H
#define SERVER_WORKER_BATCH_H

#include "server/worker/call.h"
#include "server/worker/launch_attrs.h"

/* Kernels of one graph. On an H200 16 are as fast as 64: a graph of 4 costs
 * 0.80 us a kernel, of 16 0.56, of 64 0.52, a plain launch 3.7 to 4. */
#define WKR_BATCH 16u
/* Larger parameter blocks are launched one by one. */
#define WKR_BATCH_PARAMS 256u

struct wkr_function;

/* A launch without attributes, with a copy of its parameters. */
struct wkr_plain {
	CUfunction native;
	struct wkr_module *module; /* a reference where a node has it */
	uint32_t grid[3], block[3], shared;
	uint32_t size; /* of params, bytes */
	_Alignas(16) uint8_t params[WKR_BATCH_PARAMS];
};

/* A lane's; empty outside of its pass over one client's ring. */
struct wkr_batch {
	struct wkr_stream *stream;
	struct wkr_kit *kit;
	unsigned count;
	unsigned left;	     /* frames that this pass will still take */
	uint32_t frame_size; /* of the frame in hand */
	struct wkr_plain items[WKR_BATCH];
};

/* Set wkr.batching; before any lane. */
void wkr_batch_start(void);
/* This launch, of what is collected already, comes next in it. */
bool wkr_batch_fits(struct wkr_call *call, const struct wkr_launch *launch,
		    const struct wkr_function *function,
		    const struct wkr_stream *stream, uint64_t params_size);
/* It is the first of many; wkr_stream_begin() has been called for it. */
bool wkr_batch_begins(struct wkr_call *call, const struct wkr_launch *launch,
		      const struct wkr_function *function,
		      struct wkr_stream *stream, uint64_t params_size);
/* After either, and wkr_stream_end(). */
void wkr_batch_add(struct wkr_call *call, const struct wkr_launch *launch,
		   const struct wkr_function *function,
		   const struct data_bytes *params);
/* Give the driver what is collected. Before anything else is done for that
 * client. */
void wkr_batch_issue(struct wkr_client *client);

/* kit.c: the graphs. */
/* One for a stream, whose it is until what it last launched has retired; or
 * NULL: one is being made, perhaps. */
struct wkr_kit *wkr_kit_take(struct wkr_stream *stream,
			     const struct wkr_function *function);
/* False: nothing has been launched, and that kit never will be again. */
bool wkr_kit_launch(struct wkr_kit *kit, struct wkr_stream *stream,
		    const struct wkr_plain items[WKR_BATCH]);
/* The client unloads the module: what names it goes, as soon as it can. */
void wkr_kits_leave(struct wkr_client *client, const struct wkr_module *module);
/* At the end of a turn: what has become useless. */
void wkr_kits_reap(struct wkr_client *client);
/* The stream, which is idle, ends. Lane, or reaper at the client's end. */
void wkr_kits_forget(const struct wkr_stream *stream);
/* Reaper: all of them. */
void wkr_kits_free(struct wkr_client *client);

#endif
