/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain launch costs the driver 4 us, most of it on the lane's own thread.
 * When a client's ring holds many, of one stream that has more than that in
 * flight, they are collected and go out as one kept graph of a chain of
 * kernels. Nothing is delayed: there is work before them, and what is
 * collected is issued before the lane does anything else.
 *
 * All that is counted by launches (places in the stream, cursors, what may be
 * lost in a fault) is counted when the launch is collected, as if it had been
 * issued. That is sound because a launch of this client is on its way: were
 * the device to fault now, the client is lost in any case (keep.c).
 *
 * What the driver does not take as a graph is launched one by one, and each
 * has its own answer.
 *
 * MPSSHIM_PERF=no_backlog in the worker's environment: none of this.
 */
#include "server/worker/batch.h"

#include <string.h>

#include "server/worker/crash.h"
#include "server/worker/lane.h"
#include "server/worker/module.h"

void
wkr_batch_start(void)
{
	/* Times are taken of each launch. */
	wkr.batching = !wkr_is_off("no_backlog") && !wkr.measuring;
}

static bool
is_plain(const struct wkr_launch *launch, const struct wkr_function *function,
	 uint64_t params_size)
{
	return !launch->config.numAttrs && !function->printer &&
	       !function->clusters && function->ran &&
	       params_size <= WKR_BATCH_PARAMS;
}

bool
wkr_batch_fits(struct wkr_call *call, const struct wkr_launch *launch,
	       const struct wkr_function *function,
	       const struct wkr_stream *s, uint64_t params_size)
{
	const struct wkr_batch *b = &call->client->lane->batch;

	return b->count && b->stream == s && !wkr_gate_is_shut(call->client) &&
	       is_plain(launch, function, params_size) &&
	       wkr_stream_goes_on(s, 1);
}

/* Do that many frames of this size wait behind the one in hand? */
static bool
has_more(struct wkr_client *client, const struct wkr_batch *b)
{
	uint32_t need = (WKR_BATCH - 1) * ((b->frame_size + 7u) & ~7u);

	return b->left >= WKR_BATCH - 1 && ring_holds(&client->ordered, need);
}

bool
wkr_batch_begins(struct wkr_call *call, const struct wkr_launch *launch,
		 const struct wkr_function *function, struct wkr_stream *s,
		 uint64_t params_size)
{
	struct wkr_client *client = call->client;
	struct wkr_batch *b = &client->lane->batch;

	if (!wkr.batching || b->left < WKR_BATCH - 1 ||
	    s->issued - s->retired < WKR_BATCH || s->priority ||
	    client->kept_at_begin <= client->done ||
	    !is_plain(launch, function, params_size) ||
	    !wkr_stream_goes_on(s, WKR_BATCH) ||
	    !has_more(client, b))
		return false;
	b->kit = wkr_kit_take(s, function);
	b->stream = s;
	return b->kit;
}

void
wkr_batch_add(struct wkr_call *call, const struct wkr_launch *launch,
	      const struct wkr_function *function,
	      const struct data_bytes *params)
{
	struct wkr_batch *b = &call->client->lane->batch;
	struct wkr_plain *item = &b->items[b->count++];

	item->native = function->native;
	item->module = function->module;
	memcpy(item->grid, launch->head.grid, sizeof(item->grid));
	memcpy(item->block, launch->head.block, sizeof(item->block));
	item->shared = launch->head.shared;
	item->size = (uint32_t)params->size;
	if (params->size)
		memcpy(item->params, params->data, params->size);
	if (b->count == WKR_BATCH)
		wkr_batch_issue(call->client);
}

static CUresult
launch_one(const struct wkr_stream *s, const struct wkr_plain *item)
{
	size_t size = item->size;
	void *extra[] = {
		CU_LAUNCH_PARAM_BUFFER_POINTER,
		(void *)(uintptr_t)item->params,
		CU_LAUNCH_PARAM_BUFFER_SIZE,
		&size,
		CU_LAUNCH_PARAM_END,
	};
	CUlaunchConfig config = {
		.gridDimX = item->grid[0],
		.gridDimY = item->grid[1],
		.gridDimZ = item->grid[2],
		.blockDimX = item->block[0],
		.blockDimY = item->block[1],
		.blockDimZ = item->block[2],
		.sharedMemBytes = item->shared,
		.hStream = s->native,
	};

	return wkr_ok(wkr.drv.cuLaunchKernelEx(&config, item->native, NULL,
					       size ? extra : NULL));
}

void
wkr_batch_issue(struct wkr_client *client)
{
	struct wkr_batch *b = &client->lane->batch;
	unsigned count = b->count;

	if (!count)
		return;
	b->count = 0;
	wkr_at_call(client, "a launch");
	if (count == WKR_BATCH &&
	    wkr_kit_launch(b->kit, b->stream, b->items)) {
		wkr_count(&client->launches, count);
		wkr_count(&client->graph_launches, count);
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		CUresult r = launch_one(b->stream, &b->items[i]);

		if (r == CUDA_SUCCESS)
			wkr_count(&client->launches, 1);
		else
			wkr_late(client, r, "a launch");
	}
}
