/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept graphs for launches that come in numbers (batch.h). A kit is a client's
 * and has two chains of kernels, used in turn. Each node keeps what it was
 * given last, and a reference on its module: the driver may look at the old
 * function when it is given a new one.
 *
 * Launches of one executable graph wait for each other, so a kit is one
 * stream's until what it launched there has retired.
 */
#include <stdlib.h>
#include <string.h>

#include "server/worker/batch.h"
#include "server/worker/lane.h"
#include "server/worker/module.h"

#define CHAINS 2u
/* A client's, and all there are: 2 MiB of device memory each on an H200. */
#define KITS_CLIENT 2u
#define KITS_ALL 32u
/* How often a client has use for one before it is made: 16 launches each. */
#define WORTH 8u
/* A client whose launches the driver refuses in a graph so often does without. */
#define FAILURES 3u

struct chain {
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode nodes[WKR_BATCH];
	struct wkr_plain given[WKR_BATCH];
};

struct wkr_kit {
	struct wkr_job job; /* it is being made, or ended */
	struct wkr_kit *next;
	struct wkr_client *client;
	struct wkr_stream *stream; /* whose it is, or NULL */
	uint64_t operation;	   /* of that stream: its last launch */
	/* Release by the helper when it has made it, acquire by the lane. */
	_Atomic bool made;
	bool useless; /* the lane's: to be ended */
	CUresult error;
	unsigned turn;
	struct chain chains[CHAINS];
};

static _Atomic uint32_t kits;

static void
fill_params(const struct wkr_plain *item, size_t *size, void *extra[5],
	    CUDA_KERNEL_NODE_PARAMS *out)
{
	*size = item->size;
	extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	extra[1] = (void *)(uintptr_t)item->params;
	extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	extra[3] = size;
	extra[4] = CU_LAUNCH_PARAM_END;
	*out = (CUDA_KERNEL_NODE_PARAMS){
		.func = item->native,
		.gridDimX = item->grid[0],
		.gridDimY = item->grid[1],
		.gridDimZ = item->grid[2],
		.blockDimX = item->block[0],
		.blockDimY = item->block[1],
		.blockDimZ = item->block[2],
		.sharedMemBytes = item->shared,
		.extra = item->size ? extra : NULL,
	};
}

/* ---- life ---- */

static CUresult
chain_make(struct chain *c)
{
	CUresult r = wkr_ok(wkr.drv.cuGraphCreate(&c->graph, 0));

	for (unsigned i = 0; i < WKR_BATCH && r == CUDA_SUCCESS; i++) {
		CUDA_KERNEL_NODE_PARAMS params;
		void *extra[5];
		size_t size;

		fill_params(&c->given[i], &size, extra, &params);
		r = wkr_ok(wkr.drv.cuGraphAddKernelNode_v2(
			&c->nodes[i], c->graph, i ? &c->nodes[i - 1] : NULL,
			i ? 1 : 0, &params));
	}
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphInstantiateWithFlags(&c->exec,
							       c->graph, 0));
	return r;
}

static enum wkr_job_result
make_job(struct wkr_job *job)
{
	struct wkr_kit *kit = (struct wkr_kit *)job;
	struct wkr_client *client = kit->client;

	for (unsigned i = 0; i < CHAINS && kit->error == CUDA_SUCCESS; i++)
		kit->error = chain_make(&kit->chains[i]);
	atomic_store_explicit(&kit->made, true, memory_order_release);
	wkr_lane_wake(client->lane);
	wkr_client_unpin(client);
	return WKR_JOB_DONE;
}

static void
kit_make(struct wkr_client *client, const struct wkr_function *function)
{
	struct wkr_kit *kit;

	if (client->nkits >= KITS_CLIENT || client->kit_failures >= FAILURES ||
	    ++client->kit_wishes < WORTH)
		return;
	client->kit_wishes = 0;
	if (atomic_fetch_add(&kits, 1) >= KITS_ALL ||
	    !(kit = calloc(1, sizeof(*kit)))) {
		atomic_fetch_sub(&kits, 1);
		return;
	}
	for (unsigned i = 0; i < CHAINS * WKR_BATCH; i++) {
		struct wkr_plain *p =
			&kit->chains[i / WKR_BATCH].given[i % WKR_BATCH];

		*p = (struct wkr_plain){
			.native = function->native,
			.module = function->module,
			.grid = {1, 1, 1},
			.block = {1, 1, 1},
			.size = function->param_bytes,
		};
		atomic_fetch_add(&p->module->refs, 1);
	}
	kit->job.run = make_job;
	kit->client = client;
	kit->next = client->kits;
	client->kits = kit;
	client->nkits++;
	wkr_client_pin(client);
	wkr_queue_add(&wkr.helper, &kit->job);
}

static void
kit_free(struct wkr_kit *kit)
{
	for (unsigned i = 0; i < CHAINS; i++) {
		struct chain *c = &kit->chains[i];

		if (c->exec)
			wkr_ok(wkr.drv.cuGraphExecDestroy(c->exec));
		if (c->graph)
			wkr_ok(wkr.drv.cuGraphDestroy(c->graph));
		for (unsigned n = 0; n < WKR_BATCH; n++)
			wkr_module_unref(c->given[n].module);
	}
	atomic_fetch_sub(&kits, 1);
	free(kit);
}

static enum wkr_job_result
end_job(struct wkr_job *job)
{
	struct wkr_kit *kit = (struct wkr_kit *)job;
	struct wkr_client *client = kit->client;

	kit_free(kit);
	wkr_client_unpin(client);
	return WKR_JOB_DONE;
}

static bool
is_free(const struct wkr_kit *kit)
{
	return !kit->stream || kit->stream->retired >= kit->operation;
}

static bool
is_made(const struct wkr_kit *kit)
{
	return atomic_load_explicit(&kit->made, memory_order_acquire);
}

void
wkr_kits_reap(struct wkr_client *client)
{
	struct wkr_kit **link = &client->kits, *kit;

	while ((kit = *link)) {
		if (is_made(kit) && kit->error != CUDA_SUCCESS &&
		    !kit->useless) {
			kit->useless = true;
			client->kit_failures++;
		}
		if (!kit->useless || !is_made(kit) || !is_free(kit)) {
			link = &kit->next;
			continue;
		}
		*link = kit->next;
		client->nkits--;
		kit->job = (struct wkr_job){.run = end_job};
		wkr_client_pin(client);
		wkr_queue_add(&wkr.helper, &kit->job);
	}
}

void
wkr_kits_free(struct wkr_client *client)
{
	struct wkr_kit *kit;

	while ((kit = client->kits)) {
		client->kits = kit->next;
		kit_free(kit);
	}
	client->nkits = 0;
}

static bool
names(const struct wkr_kit *kit, const struct wkr_module *module)
{
	for (unsigned i = 0; i < CHAINS * WKR_BATCH; i++)
		if (kit->chains[i / WKR_BATCH].given[i % WKR_BATCH].module ==
		    module)
			return true;
	return false;
}

void
wkr_kits_leave(struct wkr_client *client, const struct wkr_module *module)
{
	for (struct wkr_kit *k = client->kits; k; k = k->next)
		if (names(k, module))
			k->useless = true;
}

void
wkr_kits_forget(const struct wkr_stream *stream)
{
	for (struct wkr_kit *k = stream->client->kits; k; k = k->next)
		if (k->stream == stream)
			k->stream = NULL;
}

/* ---- use ---- */

struct wkr_kit *
wkr_kit_take(struct wkr_stream *stream, const struct wkr_function *function)
{
	struct wkr_client *client = stream->client;
	struct wkr_kit *found = NULL;

	for (struct wkr_kit *k = client->kits; k; k = k->next) {
		if (k->useless || !is_made(k) || k->error != CUDA_SUCCESS)
			continue;
		if (k->stream == stream)
			return k;
		if (is_free(k))
			found = k;
	}
	if (!found)
		kit_make(client, function);
	return found;
}

static bool
is_same(const struct wkr_plain *a, const struct wkr_plain *b)
{
	return a->native == b->native && a->shared == b->shared &&
	       a->size == b->size &&
	       !memcmp(a->grid, b->grid, sizeof(a->grid)) &&
	       !memcmp(a->block, b->block, sizeof(a->block)) &&
	       !memcmp(a->params, b->params, a->size);
}

/* What the node has given last is only replaced when the driver has taken the
 * new. */
static bool
give(struct chain *c, unsigned i, const struct wkr_plain *item)
{
	struct wkr_plain *given = &c->given[i];
	struct wkr_module *old = given->module;
	CUDA_KERNEL_NODE_PARAMS params;
	void *extra[5];
	size_t size;

	if (is_same(given, item))
		return true;
	fill_params(item, &size, extra, &params);
	if (wkr_ok(wkr.drv.cuGraphExecKernelNodeSetParams_v2(
		    c->exec, c->nodes[i], &params)) != CUDA_SUCCESS)
		return false;
	if (item->module != old) {
		atomic_fetch_add(&item->module->refs, 1);
		wkr_module_unref(old);
	}
	memcpy(given, item, offsetof(struct wkr_plain, params) + item->size);
	return true;
}

bool
wkr_kit_launch(struct wkr_kit *kit, struct wkr_stream *stream,
	       const struct wkr_plain items[WKR_BATCH])
{
	struct chain *c = &kit->chains[kit->turn++ % CHAINS];
	bool done = true;

	for (unsigned i = 0; i < WKR_BATCH && done; i++)
		done = give(c, i, &items[i]);
	done = done && wkr_ok(wkr.drv.cuGraphLaunch(
			       c->exec, stream->native)) == CUDA_SUCCESS;
	if (!done) {
		kit->useless = true;
		stream->client->kit_failures++;
		return false;
	}
	kit->stream = stream;
	kit->operation = stream->issued;
	return true;
}
