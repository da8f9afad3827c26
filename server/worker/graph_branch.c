/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes: handles of conditions, the graphs they belong to, and
 * the bodies that nodes are added to.
 */
#include <stdlib.h>
#include <string.h>

#include "server/worker/graph.h"

/* ---- homes ---- */

static void
home_unref(struct wkr_home *home)
{
	if (atomic_fetch_sub(&home->refs, 1) != 1)
		return;
	wkr_ok(wkr.drv.cuGraphDestroy(home->graph));
	free(home);
}

void
wkr_home_drop(struct wkr_graph *g)
{
	if (g->leaving)
		atomic_fetch_sub(&g->home->ending, 1);
	home_unref(g->home);
	g->home = NULL;
	g->graph = NULL;
}

/* Its nodes are about to be others', or nobody's. */
static void
forget_nodes(struct wkr_graph *g)
{
	for (uint32_t i = 0; i < g->count; i++)
		g->nodes[i].native = NULL;
}

void
wkr_home_leave(struct wkr_graph *g)
{
	if (!g->home)
		return;
	if (g->home->user == g)
		g->home->user = NULL;
	/* Back in wkr_home_drop. */
	g->leaving = true;
	atomic_fetch_add(&g->home->ending, 1);
}

void
wkr_home_pass(struct wkr_graph *g, struct wkr_graph *from)
{
	if (!g->home || g->home != from->home)
		return;
	for (uint32_t i = 0; i < g->count && i < from->count; i++)
		g->nodes[i].native = from->nodes[i].native;
	g->home->user = g;
}

/* The graph that mpsGraphBegin has made becomes one that others build in. */
static CUresult
make_home(struct wkr_graph *g)
{
	struct wkr_home *home;

	if (g->home)
		return CUDA_SUCCESS;
	if (!g->graph)
		return g->error;
	home = calloc(1, sizeof(*home));
	if (!home)
		return CUDA_ERROR_OUT_OF_MEMORY;
	home->refs = 1;
	home->graph = g->graph;
	home->user = g;
	g->home = home;
	return CUDA_SUCCESS;
}

CUresult
wkr_mpsGraphCondition(struct wkr_call *call, uint64_t graph, uint32_t value,
		      uint32_t flags, uint64_t *condition)
{
	struct wkr_graph *g = wkr_get(call->client, HANDLE_EXEC, graph);
	CUgraphConditionalHandle handle = 0;
	CUresult r;

	if (!condition || !g || !wkr_graph_take(g, WKR_GRAPH_BUILDING))
		return CUDA_ERROR_INVALID_HANDLE;
	r = make_home(g);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuGraphConditionalHandleCreate(
			&handle, g->home->graph, wkr.context, value, flags));
	*condition = handle;
	wkr_graph_give(g, WKR_GRAPH_BUILDING);
	return r;
}

/* A node of the driver's that contains graphs takes them along. */
static CUresult
clear_graph(CUgraph graph)
{
	CUgraphNode *nodes;
	size_t n = 0;
	CUresult r;

	r = wkr_ok(wkr.drv.cuGraphGetNodes(graph, NULL, &n));
	if (r != CUDA_SUCCESS || !n)
		return r;
	nodes = calloc(n, sizeof(*nodes));
	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = wkr_ok(wkr.drv.cuGraphGetNodes(graph, nodes, &n));
	for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
		r = wkr_ok(wkr.drv.cuGraphDestroyNode(nodes[i]));
	free(nodes);
	return r;
}

static CUresult
adopt(struct wkr_graph *g, struct wkr_home *home)
{
	struct wkr_graph *user = home->user;

	if (g->home || g->count)
		return CUDA_ERROR_INVALID_VALUE;
	/* The helper is at work in it. */
	if (user && user != g &&
	    atomic_load(&user->state) == WKR_GRAPH_BUSY)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (user)
		forget_nodes(user);
	if (g->graph)
		wkr_ok(wkr.drv.cuGraphDestroy(g->graph));
	atomic_fetch_add(&home->refs, 1);
	g->home = home;
	g->graph = home->graph;
	home->user = g;
	return clear_graph(home->graph);
}

CUresult
wkr_mpsGraphAdopt(struct wkr_call *call, uint64_t graph, uint64_t home)
{
	struct wkr_graph *g = wkr_get(call->client, HANDLE_EXEC, graph);
	struct wkr_graph *owner = wkr_get(call->client, HANDLE_EXEC, home);
	CUresult r;

	if (!g || !owner || !owner->home || owner == g ||
	    !wkr_graph_take(g, WKR_GRAPH_BUILDING))
		return CUDA_ERROR_INVALID_HANDLE;
	r = adopt(g, owner->home);
	if (r != CUDA_SUCCESS && g->error == CUDA_SUCCESS)
		g->error = r;
	wkr_graph_give(g, WKR_GRAPH_BUILDING);
	return CUDA_SUCCESS;
}

/* ---- nodes and their bodies ---- */

static CUresult
add_branch(struct wkr_graph *g, struct wkr_node *node, uint64_t condition,
	   uint32_t type, uint32_t bodies)
{
	CUgraphNodeParams p = {
		.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
		.conditional.handle = condition,
		.conditional.type = (CUgraphConditionalNodeType)type,
		.conditional.size = bodies,
		.conditional.ctx = wkr.context,
	};
	CUresult r;

	if (!g->home)
		return CUDA_ERROR_INVALID_VALUE;
	r = wkr_ok(wkr.drv.cuGraphAddNode_v2(
		&node->native, wkr_graph_target(g), NULL, NULL, 0, &p));
	if (r == CUDA_SUCCESS)
		memcpy(g->bodies + g->nbodies, p.conditional.phGraph_out,
		       bodies * sizeof(*g->bodies));
	return r;
}

CUresult
wkr_mpsGraphBranch(struct wkr_call *call, uint64_t graph, uint64_t condition,
		   uint32_t type, uint32_t bodies)
{
	struct wkr_node *node;
	struct wkr_graph *g = wkr_graph_begin_node(call, graph, &node);
	CUgraph *grown = NULL;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (!g)
		return CUDA_ERROR_INVALID_HANDLE;
	if (bodies && bodies <= GRAPH_BRANCHES_MAX &&
	    g->nbodies + bodies < GRAPH_BODIES_MAX)
		grown = realloc(g->bodies, (g->nbodies + bodies) *
						   sizeof(*grown));
	if (grown) {
		g->bodies = grown;
		memset(grown + g->nbodies, 0, bodies * sizeof(*grown));
		r = add_branch(g, node, condition, type, bodies);
		g->nbodies += bodies;
	}
	return wkr_graph_end_node(g, node, r);
}

CUresult
wkr_mpsGraphInto(struct wkr_call *call, uint64_t graph, uint32_t body)
{
	struct wkr_graph *g = wkr_get(call->client, HANDLE_EXEC, graph);

	if (!g || !wkr_graph_take(g, WKR_GRAPH_BUILDING))
		return CUDA_ERROR_INVALID_HANDLE;
	if (body > g->nbodies || (body && !g->bodies[body - 1])) {
		if (g->error == CUDA_SUCCESS)
			g->error = CUDA_ERROR_INVALID_VALUE;
	} else {
		g->into = body;
	}
	wkr_graph_give(g, WKR_GRAPH_BUILDING);
	atomic_fetch_add(&g->parts, 1);
	return CUDA_SUCCESS;
}
