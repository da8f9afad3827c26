/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building: nodes and edges come as posts, and what is wrong with one of them
 * is the answer to the question that follows. Nothing of a client captures in
 * the driver, so fences and neighbours never meet a capture.
 */
#include "server/worker/graph.h"

#include <stdlib.h>
#include <string.h>

#include "server/worker/lane.h"
#include "server/worker/module.h"

/* ---- life ---- */

void
wkr_graph_free(struct wkr_graph *g)
{
	if (g->native)
		wkr_ok(wkr.drv.cuGraphExecDestroy(g->native));
	if (g->home)
		wkr_home_drop(g);
	else if (g->graph)
		wkr_ok(wkr.drv.cuGraphDestroy(g->graph));
	free(g->bodies);
	for (uint32_t i = 0; i < g->count; i++)
		wkr_needs_drop(&g->nodes[i].needs);
	free(g->nodes);
	free(g);
}

CUresult
wkr_mpsGraphBegin(struct wkr_call *call, uint64_t graph)
{
	struct wkr_graph *g = calloc(1, sizeof(*g));

	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	g->client = call->client;
	g->error = wkr_ok(wkr.drv.cuGraphCreate(&g->graph, 0));
	if (wkr_put(call->client, HANDLE_EXEC, graph, g) < 0) {
		wkr_graph_free(g);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return CUDA_SUCCESS;
}

/* Conditional nodes have memory of the driver's on the device: to destroy an
 * executable graph with one drains, launched or not (tests/contract). */
bool
wkr_graph_drains(const struct wkr_graph *g)
{
	return g->native && g->nbodies;
}

/* cuGraphExecDestroy takes 0.4 ms for a graph of 60 nodes: not a lane's. */
struct ending {
	struct wkr_job job;
	struct wkr_graph *graph;
};

static enum wkr_job_result
end_job(struct wkr_job *job)
{
	struct ending *j = (struct ending *)job;
	struct wkr_client *client = j->graph->client;

	if (wkr_graph_drains(j->graph) && !wkr_gate_enter())
		return WKR_JOB_AGAIN;
	wkr_graph_free(j->graph);
	free(j);
	wkr_client_unpin(client);
	return WKR_JOB_DONE;
}

void
wkr_graph_drop(struct wkr_graph *g)
{
	struct ending *j = calloc(1, sizeof(*j));

	if (!j) {
		wkr_graph_free(g);
		return;
	}
	j->job.run = end_job;
	j->graph = g;
	wkr_client_pin(g->client);
	wkr_queue_add(&wkr.helper, &j->job);
}

CUresult
wkr_mpsGraphEnd(struct wkr_call *call, uint64_t graph)
{
	struct wkr_client *client = call->client;
	struct wkr_graph *g = wkr_get(client, HANDLE_EXEC, graph);

	if (!g || (!wkr_graph_take(g, WKR_GRAPH_READY) &&
		   !wkr_graph_take(g, WKR_GRAPH_BUILDING)))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&client->lock);
	handle_remove(client->table, HANDLE_EXEC, graph);
	pthread_mutex_unlock(&client->lock);
	wkr_journal_drop(client, graph);
	wkr_home_leave(g);
	wkr_graph_drop(g);
	return CUDA_SUCCESS;
}

/* ---- nodes ---- */

struct wkr_graph *
wkr_graph_begin_node(struct wkr_call *call, uint64_t graph,
		     struct wkr_node **out)
{
	struct wkr_graph *g = wkr_get(call->client, HANDLE_EXEC, graph);
	uint32_t room;
	struct wkr_node *grown;

	if (!g || !wkr_graph_take(g, WKR_GRAPH_BUILDING))
		return NULL;
	if (g->count == g->room && g->count < GRAPH_NODES_MAX) {
		room = g->room ? g->room * 2 : 16;
		grown = realloc(g->nodes, room * sizeof(*grown));
		if (grown) {
			g->nodes = grown;
			g->room = room;
		}
	}
	if (g->count == g->room) {
		wkr_graph_give(g, WKR_GRAPH_BUILDING);
		return NULL;
	}
	*out = &g->nodes[g->count];
	memset(*out, 0, sizeof(**out));
	(*out)->body = g->into;
	return g;
}

/* It counts in any case: the numbers of what follows depend on it. */
CUresult
wkr_graph_end_node(struct wkr_graph *g, struct wkr_node *node, CUresult r)
{
	g->count++;
	g->names_memory |= node->needs.size[0] || node->needs.size[1];
	g->names_arrays |= node->needs.array[0] || node->needs.array[1];
	if (r != CUDA_SUCCESS && g->error == CUDA_SUCCESS)
		g->error = r;
	wkr_graph_give(g, WKR_GRAPH_BUILDING);
	atomic_fetch_add(&g->parts, 1);
	return CUDA_SUCCESS;
}

/* Only how fast or in which order something runs: may be left out by a driver
 * that does not know it. */
static bool
is_hint(CUlaunchAttributeID id)
{
	return id != CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
	       id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
}

static CUresult
set_attributes(CUgraphNode node, const struct wkr_launch *launch)
{
	CUresult r = CUDA_SUCCESS;

	for (unsigned i = 0; i < launch->config.numAttrs; i++) {
		const CUlaunchAttribute *a = &launch->attrs[i];

		if (a->id == CU_LAUNCH_ATTRIBUTE_IGNORE)
			continue;
		r = wkr_ok(wkr.drv.cuGraphKernelNodeSetAttribute(node, a->id,
								 &a->value));
		if (r == CUDA_ERROR_NOT_SUPPORTED && is_hint(a->id))
			r = CUDA_SUCCESS;
		if (r != CUDA_SUCCESS)
			break;
	}
	return r;
}

CUresult
wkr_mpsGraphKernel(struct wkr_call *call, uint64_t graph, const void *head,
		   size_t head_size, const void *params, size_t params_size,
		   const void *attrs, size_t attrs_size)
{
	void *extra[] = {
		CU_LAUNCH_PARAM_BUFFER_POINTER,
		(void *)(uintptr_t)params,
		CU_LAUNCH_PARAM_BUFFER_SIZE,
		&params_size,
		CU_LAUNCH_PARAM_END,
	};
	CUDA_KERNEL_NODE_PARAMS p;
	struct wkr_launch launch;
	struct wkr_node *node;
	struct wkr_graph *g;
	bool printing = false;
	CUresult r = wkr_head_want(call->client, head, head_size);

	if (r == WKR_AGAIN)
		return r;
	g = wkr_graph_begin_node(call, graph, &node);
	if (!g)
		return CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS)
		r = wkr_node_kernel(call, head, head_size, params, params_size,
				    attrs, attrs_size, &launch, &p, extra,
				    &node->needs, &printing);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphAddKernelNode_v2(
			&node->native, wkr_graph_target(g), NULL, 0, &p));
	if (r == CUDA_SUCCESS)
		r = set_attributes(node->native, &launch);
	wkr_graph_prints(g, printing);
	return wkr_graph_end_node(g, node, r);
}

CUresult
wkr_mpsGraphCopy(struct wkr_call *call, uint64_t graph, const void *copy,
		 size_t copy_size)
{
	struct wkr_node *node;
	struct wkr_graph *g = wkr_graph_begin_node(call, graph, &node);
	CUDA_MEMCPY3D p;
	CUresult r;

	if (!g)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_node_copy(call, copy, copy_size, &p, &node->needs);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphAddMemcpyNode(
			&node->native, wkr_graph_target(g), NULL, 0, &p, wkr.context));
	return wkr_graph_end_node(g, node, r);
}

CUresult
wkr_mpsGraphBox(struct wkr_call *call, uint64_t graph, const void *box,
		size_t box_size)
{
	struct wkr_node *node;
	struct wkr_graph *g = wkr_graph_begin_node(call, graph, &node);
	CUDA_MEMCPY3D p;
	CUresult r;

	if (!g)
		return CUDA_ERROR_INVALID_HANDLE;
	/* Under the lock the reaper cannot end an array. */
	pthread_mutex_lock(&call->client->lock);
	r = wkr_node_box(call, box, box_size, &p, &node->needs);
	if (r == CUDA_SUCCESS)
		r = wkr.drv.cuGraphAddMemcpyNode(&node->native,
						 wkr_graph_target(g), NULL, 0,
						 &p, wkr.context);
	pthread_mutex_unlock(&call->client->lock);
	return wkr_graph_end_node(g, node, wkr_ok(r));
}

CUresult
wkr_mpsGraphFill(struct wkr_call *call, uint64_t graph, uint64_t dst,
		 uint64_t pitch, uint32_t element, uint32_t value,
		 uint64_t width, uint64_t height)
{
	struct wkr_node *node;
	struct wkr_graph *g = wkr_graph_begin_node(call, graph, &node);
	CUDA_MEMSET_NODE_PARAMS p;
	CUresult r;

	if (!g)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_node_fill(call, dst, pitch, element, value, width, height, &p,
			  &node->needs);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphAddMemsetNode(
			&node->native, wkr_graph_target(g), NULL, 0, &p, wkr.context));
	return wkr_graph_end_node(g, node, r);
}

CUresult
wkr_mpsGraphEmpty(struct wkr_call *call, uint64_t graph)
{
	struct wkr_node *node;
	struct wkr_graph *g = wkr_graph_begin_node(call, graph, &node);

	if (!g)
		return CUDA_ERROR_INVALID_HANDLE;
	return wkr_graph_end_node(g, node,
			wkr_ok(wkr.drv.cuGraphAddEmptyNode(
				&node->native, wkr_graph_target(g), NULL, 0)));
}

CUresult
wkr_mpsGraphEvent(struct wkr_call *call, uint64_t graph, uint64_t event,
		  uint32_t wait)
{
	struct wkr_node *node;
	struct wkr_graph *g = wkr_graph_begin_node(call, graph, &node);
	CUresult r;

	if (!g)
		return CUDA_ERROR_INVALID_HANDLE;
	r = wkr_node_event(call, event, &node->needs);
	if (r == CUDA_SUCCESS)
		r = wkr_ok((wait ? wkr.drv.cuGraphAddEventWaitNode
				 : wkr.drv.cuGraphAddEventRecordNode)(
			&node->native, wkr_graph_target(g), NULL, 0,
			node->needs.record->event));
	return wkr_graph_end_node(g, node, r);
}

/* ---- edges ---- */

struct edges {
	CUgraphNode from[GRAPH_EDGES_MAX], to[GRAPH_EDGES_MAX];
	CUgraphEdgeData data[GRAPH_EDGES_MAX];
	bool plain;
};

static CUresult
read_edges(const struct wkr_graph *g, const uint8_t *bytes, size_t n,
	   struct edges *out)
{
	out->plain = true;
	for (size_t i = 0; i < n; i++) {
		struct graph_edge e;

		memcpy(&e, bytes + i * sizeof(e), sizeof(e));
		if (e.from >= g->count || e.to >= g->count ||
		    !g->nodes[e.from].native || !g->nodes[e.to].native ||
		    g->nodes[e.from].body != g->into ||
		    g->nodes[e.to].body != g->into)
			return CUDA_ERROR_INVALID_VALUE;
		out->from[i] = g->nodes[e.from].native;
		out->to[i] = g->nodes[e.to].native;
		out->data[i] = (CUgraphEdgeData){
			.from_port = e.from_port,
			.to_port = e.to_port,
			.type = e.type,
		};
		out->plain &= !e.from_port && !e.to_port && !e.type;
	}
	return CUDA_SUCCESS;
}

static CUresult
add_edges(struct wkr_graph *g, const struct edges *e, size_t n)
{
	CUresult r;

	if (!e->plain) {
		r = wkr_ok(wkr.drv.cuGraphAddDependencies_v2(
			wkr_graph_target(g), e->from, e->to, e->data, n));
		/* A full dependency instead is slower and never wrong. */
		if (r != CUDA_ERROR_NOT_SUPPORTED)
			return r;
	}
	return wkr_ok(wkr.drv.cuGraphAddDependencies(wkr_graph_target(g),
						     e->from, e->to, n));
}

CUresult
wkr_mpsGraphEdges(struct wkr_call *call, uint64_t graph, const void *edges,
		  size_t edges_size)
{
	struct wkr_graph *g = wkr_get(call->client, HANDLE_EXEC, graph);
	size_t n = edges_size / sizeof(struct graph_edge);
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct edges *e;

	if (!g || !wkr_graph_take(g, WKR_GRAPH_BUILDING))
		return CUDA_ERROR_INVALID_HANDLE;
	e = malloc(sizeof(*e));
	if (!e)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	else if (edges && n <= GRAPH_EDGES_MAX &&
		 edges_size % sizeof(struct graph_edge) == 0)
		r = read_edges(g, edges, n, e);
	if (r == CUDA_SUCCESS)
		r = add_edges(g, e, n);
	free(e);
	if (r != CUDA_SUCCESS && g->error == CUDA_SUCCESS)
		g->error = r;
	wkr_graph_give(g, WKR_GRAPH_BUILDING);
	atomic_fetch_add(&g->parts, n);
	return CUDA_SUCCESS;
}
