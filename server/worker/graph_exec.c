/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that can run: instantiated off the lane, launched and changed on it.
 */
#include <string.h>

#include "server/worker/graph.h"
#include "server/worker/module.h"
#include "server/worker/overlap.h"
#include "server/worker/texture.h"
#include "server/worker/risk.h"

#define INSTANTIATE_FLAGS \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | \
	 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
/* How long the posts that build a graph may still be on their way: they wait
 * in the client's ring for room in its streams, or for its host functions. */
#define BUILD_WAIT_NS (60 * UINT64_C(1000000000))

/* ---- instantiate: a helper's ---- */

/* What a graph holds nobody can name, since it names objects; but nobody else
 * has it, and in the next worker its handle is the same. */
static CUresult
instantiate(struct wkr_graph *g, uint64_t handle, uint64_t flags)
{
	uint64_t key[RISK_KEY / 8] = {g->client->id, handle};
	CUresult r;

	if (!wkr_risk_begin(g->client, RISK_GRAPH, (const uint8_t *)key, 0))
		return CUDA_ERROR_INVALID_VALUE;
	r = wkr_ok(wkr.drv.cuGraphInstantiateWithFlags(
		&g->native, g->graph, flags & INSTANTIATE_FLAGS));
	wkr_risk_end();
	return r;
}

CUresult
wkr_mpsGraphInstantiate(struct wkr_call *call, uint64_t graph, uint32_t nodes,
			uint64_t edges, uint64_t flags)
{
	bool late = wkr_now_ns() - call->since_ns > BUILD_WAIT_NS ||
		    call->client->leaving;
	struct wkr_graph *g;
	bool made;
	CUresult r;

	/* Under the lock: the lane takes it to end a graph. Not before all of
	 * it has come: the lane must find it free for the rest. */
	pthread_mutex_lock(&call->client->lock);
	g = handle_get(call->client->table, HANDLE_EXEC, graph);
	/* Made, and only the answer lost with another worker. */
	made = g && call->client->again_until &&
	       atomic_load(&g->state) == WKR_GRAPH_READY;
	if (g && (atomic_load(&g->parts) < nodes + edges ||
		  !wkr_graph_take(g, WKR_GRAPH_BUILDING)))
		g = NULL;
	pthread_mutex_unlock(&call->client->lock);
	if (made)
		return CUDA_SUCCESS;
	if (!g)
		return late ? CUDA_ERROR_INVALID_VALUE : WKR_AGAIN;
	/* The driver knows one of these at a time, and this helper ends the
	 * last one. */
	if (g->home && atomic_load(&g->home->ending) && !late) {
		wkr_graph_give(g, WKR_GRAPH_BUILDING);
		return WKR_AGAIN;
	}
	r = g->error;
	if (r == CUDA_SUCCESS)
		r = instantiate(g, graph, flags);
	wkr_graph_give(g, r == CUDA_SUCCESS ? WKR_GRAPH_READY
					    : WKR_GRAPH_BUILDING);
	return r;
}

/* ---- the lane's ---- */

static struct wkr_graph *
ready(struct wkr_call *call, uint64_t graph)
{
	struct wkr_graph *g = wkr_get(call->client, HANDLE_EXEC, graph);

	return g && atomic_load_explicit(&g->state, memory_order_acquire) ==
				    WKR_GRAPH_READY
		       ? g
		       : NULL;
}

/* Memory that its copies and fills name may have gone since they were
 * checked, and be another client's. */
static bool
owns_all(struct wkr_graph *g)
{
	struct wkr_client *client = g->client;
	bool yes = true;

	if (!g->names_memory)
		return true;
	pthread_mutex_lock(&client->lock);
	if (g->checked != client->ranges.changes) {
		for (uint32_t i = 0; i < g->count && yes; i++) {
			const struct wkr_needs *n = &g->nodes[i].needs;

			for (int k = 0; k < 2 && yes; k++)
				yes = !n->size[k] ||
				      wkr_ranges_cover(&client->ranges,
						       n->base[k],
						       n->size[k]);
		}
		if (yes)
			g->checked = client->ranges.changes;
	}
	pthread_mutex_unlock(&client->lock);
	return yes;
}

/* The same of arrays, which the reaper ends under that lock. */
static bool
has_arrays_locked(struct wkr_graph *g)
{
	bool yes = true;

	for (uint32_t i = 0; i < g->count && yes; i++) {
		const struct wkr_needs *n = &g->nodes[i].needs;

		for (int k = 0; k < 2 && yes; k++) {
			const struct wkr_array *array;

			if (!n->array[k])
				continue;
			array = handle_get(g->client->table, HANDLE_ARRAY,
					   n->array[k]);
			yes = array && array->native == n->native[k];
		}
	}
	return yes;
}

static CUresult
launch(struct wkr_graph *g, CUstream stream)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (!g->names_arrays)
		return wkr.drv.cuGraphLaunch(g->native, stream);
	pthread_mutex_lock(&g->client->lock);
	if (has_arrays_locked(g))
		r = wkr.drv.cuGraphLaunch(g->native, stream);
	pthread_mutex_unlock(&g->client->lock);
	return r;
}

static bool
has_kernels(const struct wkr_graph *g)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (g->nodes[i].needs.module)
			return true;
	return false;
}

CUresult
wkr_mpsGraphLaunch(struct wkr_call *call, uint64_t graph, uint64_t stream)
{
	struct wkr_client *client = call->client;
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	struct wkr_graph *g = ready(call, graph);
	struct wkr_bracket *bracket = NULL;
	CUresult r;

	if (!g || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!owns_all(g))
		return CUDA_ERROR_INVALID_VALUE;
	if (g->printing &&
	    !wkr_print_acquire(client, call->seq, &g->printer)) {
		client->parked = "the right to print";
		return WKR_AGAIN;
	}
	r = wkr_stream_begin(call, s);
	if (r != CUDA_SUCCESS)
		return r;
	if (wkr.measuring && has_kernels(g))
		bracket = wkr_bracket_open(s);
	r = wkr_ok(launch(g, s->native));
	wkr_overlap_after(bracket, r == CUDA_SUCCESS);
	if (r != CUDA_SUCCESS)
		return r;
	wkr_stream_end(call, s, true);
	wkr_count(&client->launches, 1);
	return CUDA_SUCCESS;
}

CUresult
wkr_mpsGraphUpload(struct wkr_call *call, uint64_t graph, uint64_t stream)
{
	struct wkr_stream *s = wkr_get(call->client, HANDLE_STREAM, stream);
	struct wkr_graph *g = ready(call, graph);
	CUresult r;

	if (!g || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_stream_begin(call, s);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphUpload(g->native, s->native));
	if (r == CUDA_SUCCESS)
		wkr_stream_end(call, s, false);
	return r;
}

CUresult
wkr_mpsGraphForget(struct wkr_call *call, uint64_t graph)
{
	struct wkr_graph *g = ready(call, graph);

	if (!g)
		return CUDA_ERROR_INVALID_HANDLE;
	/* That of a home may be built in once more. */
	if (g->graph && !g->home)
		wkr_ok(wkr.drv.cuGraphDestroy(g->graph));
	g->graph = NULL;
	for (uint32_t i = 0; i < g->count; i++)
		g->nodes[i].native = NULL;
	return CUDA_SUCCESS;
}

/* ---- changes ---- */

static struct wkr_node *
find_node(struct wkr_call *call, uint64_t graph, uint32_t node,
	  struct wkr_graph **out)
{
	struct wkr_graph *g = ready(call, graph);

	*out = g;
	return g && node < g->count && g->nodes[node].native
		       ? &g->nodes[node]
		       : NULL;
}

/* The new needs instead of the old ones, or no change. */
static CUresult
settle(struct wkr_graph *g, struct wkr_node *node, struct wkr_needs *needs,
       CUresult r)
{
	if (r == CUDA_SUCCESS) {
		struct wkr_needs old = node->needs;

		node->needs = *needs;
		*needs = old;
		g->names_memory |= node->needs.size[0] || node->needs.size[1];
	}
	wkr_needs_drop(needs);
	return r;
}

CUresult
wkr_mpsGraphSetKernel(struct wkr_call *call, uint64_t graph, uint32_t node,
		      const void *head, size_t head_size, const void *params,
		      size_t params_size, const void *attrs, size_t attrs_size)
{
	void *extra[] = {
		CU_LAUNCH_PARAM_BUFFER_POINTER,
		(void *)(uintptr_t)params,
		CU_LAUNCH_PARAM_BUFFER_SIZE,
		&params_size,
		CU_LAUNCH_PARAM_END,
	};
	struct wkr_needs needs = {0};
	CUDA_KERNEL_NODE_PARAMS p;
	struct wkr_launch launch;
	struct wkr_graph *g;
	struct wkr_node *n = find_node(call, graph, node, &g);
	bool printing = false;
	CUresult r = wkr_head_want(call->client, head, head_size);

	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = wkr_node_kernel(call, head, head_size, params, params_size,
				    attrs, attrs_size, &launch, &p, extra,
				    &needs, &printing);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphExecKernelNodeSetParams_v2(
			g->native, n->native, &p));
	wkr_graph_prints(g, printing);
	return settle(g, n, &needs, r);
}

CUresult
wkr_mpsGraphSetCopy(struct wkr_call *call, uint64_t graph, uint32_t node,
		    const void *copy, size_t copy_size)
{
	struct wkr_needs needs = {0};
	struct wkr_graph *g;
	struct wkr_node *n = find_node(call, graph, node, &g);
	CUDA_MEMCPY3D p;
	CUresult r;

	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	r = wkr_node_copy(call, copy, copy_size, &p, &needs);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphExecMemcpyNodeSetParams(
			g->native, n->native, &p, wkr.context));
	return settle(g, n, &needs, r);
}

CUresult
wkr_mpsGraphSetFill(struct wkr_call *call, uint64_t graph, uint32_t node,
		    uint64_t dst, uint64_t pitch, uint32_t element,
		    uint32_t value, uint64_t width, uint64_t height)
{
	struct wkr_needs needs = {0};
	CUDA_MEMSET_NODE_PARAMS p;
	struct wkr_graph *g;
	struct wkr_node *n = find_node(call, graph, node, &g);
	CUresult r;

	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	r = wkr_node_fill(call, dst, pitch, element, value, width, height, &p,
			  &needs);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphExecMemsetNodeSetParams(
			g->native, n->native, &p, wkr.context));
	return settle(g, n, &needs, r);
}

CUresult
wkr_mpsGraphSetEvent(struct wkr_call *call, uint64_t graph, uint32_t node,
		     uint64_t event, uint32_t wait)
{
	struct wkr_needs needs = {0};
	struct wkr_graph *g;
	struct wkr_node *n = find_node(call, graph, node, &g);
	CUresult r;

	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	r = wkr_node_event(call, event, &needs);
	if (r == CUDA_SUCCESS)
		r = wkr_ok((wait ? wkr.drv.cuGraphExecEventWaitNodeSetEvent
				 : wkr.drv.cuGraphExecEventRecordNodeSetEvent)(
			g->native, n->native, needs.record->event));
	return settle(g, n, &needs, r);
}

CUresult
wkr_mpsGraphEnable(struct wkr_call *call, uint64_t graph, uint32_t node,
		   uint32_t enabled)
{
	struct wkr_graph *g;
	struct wkr_node *n = find_node(call, graph, node, &g);

	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	return wkr_ok(wkr.drv.cuGraphNodeSetEnabled(g->native, n->native,
						    enabled != 0));
}

static uint32_t
index_of(const struct wkr_graph *g, CUgraphNode native)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (g->nodes[i].native == native)
			return i;
	return UINT32_MAX;
}

/* Memory, code and events that the new parameters need go over. */
static void
swap_needs(struct wkr_graph *g, struct wkr_graph *o)
{
	for (uint32_t i = 0; i < g->count && i < o->count; i++) {
		struct wkr_needs needs = g->nodes[i].needs;

		g->nodes[i].needs = o->nodes[i].needs;
		o->nodes[i].needs = needs;
	}
	wkr_graph_prints(g, o->printing);
	g->names_memory |= o->names_memory;
	g->names_arrays |= o->names_arrays;
	g->checked = 0;
}

CUresult
wkr_mpsGraphUpdate(struct wkr_call *call, uint64_t graph, uint64_t other,
		   uint32_t *result, uint32_t *node)
{
	CUgraphExecUpdateResultInfo info = {0};
	struct wkr_graph *g = ready(call, graph);
	struct wkr_graph *o = wkr_get(call->client, HANDLE_EXEC, other);
	CUresult r;

	if (!g || !o || o == g || !wkr_graph_take(o, WKR_GRAPH_BUILDING))
		return CUDA_ERROR_INVALID_HANDLE;
	r = o->error;
	if (r == CUDA_SUCCESS && o->count != g->count)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphExecUpdate_v2(g->native, o->graph,
							&info));
	if (r == CUDA_SUCCESS) {
		swap_needs(g, o);
		wkr_home_pass(g, o);
	}
	if (result)
		*result = info.result;
	if (node)
		*node = info.errorNode ? index_of(o, info.errorNode)
				       : UINT32_MAX;
	wkr_graph_give(o, WKR_GRAPH_BUILDING);
	return r;
}
