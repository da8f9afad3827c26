/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes, edges, copies.
 */
#include "shim/graph.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/ctx.h"
#include "shim/graph_branch.h"
#include "shim/graph_user.h"

pthread_mutex_t shim_graph_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic uint64_t last_id;

static uint64_t
new_id(void)
{
	return atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) +
	       1;
}

/* ---- edges ---- */

bool
shim_edges_have(const struct shim_edges *edges, const struct shim_node *from)
{
	for (uint32_t i = 0; i < edges->count; i++) {
		if (edges->items[i].from == from)
			return true;
	}
	return false;
}

CUresult
shim_edges_add(struct shim_edges *edges, struct shim_node *from,
	       const CUgraphEdgeData *data)
{
	struct shim_edge *grown;

	if (edges->count == edges->room) {
		uint32_t room = edges->room ? edges->room * 2 : 2;

		grown = realloc(edges->items, room * sizeof(*grown));
		if (grown == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		edges->items = grown;
		edges->room = room;
	}
	grown = &edges->items[edges->count++];
	memset(grown, 0, sizeof(*grown));
	grown->from = from;
	if (data != NULL)
		grown->data = *data;
	return CUDA_SUCCESS;
}

CUresult
shim_edges_copy(struct shim_edges *to, const struct shim_edges *from)
{
	struct shim_edge *items = NULL;

	if (from->count > 0) {
		items = malloc(from->count * sizeof(*items));
		if (items == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(items, from->items, from->count * sizeof(*items));
	}
	free(to->items);
	to->items = items;
	to->count = to->room = from->count;
	return CUDA_SUCCESS;
}

void
shim_edges_clear(struct shim_edges *edges)
{
	free(edges->items);
	*edges = (struct shim_edges){0};
}

static void
edges_remove(struct shim_edges *edges, const struct shim_node *from)
{
	for (uint32_t i = 0; i < edges->count; i++) {
		if (edges->items[i].from != from)
			continue;
		memmove(&edges->items[i], &edges->items[i + 1],
			(--edges->count - i) * sizeof(*edges->items));
		return;
	}
}

/* A circle is taken, as by the driver; instantiation refuses it. */
CUresult
shim_node_depend_locked(struct shim_node *node, struct shim_node *from,
			const CUgraphEdgeData *data)
{
	if (node == from || node->graph != from->graph ||
	    shim_edges_have(&node->deps, from))
		return CUDA_ERROR_INVALID_VALUE;
	return shim_edges_add(&node->deps, from, data);
}

/* ---- nodes ---- */

CUgraphNode
shim_node_handle_locked(struct shim_node *node)
{
	if (node->object.handle == 0) {
		node->object.ctx = node->graph->object.ctx;
		if (shim_object_add(HANDLE_NODE, &node->object) != 0)
			node->object.handle = 0;
	}
	return (CUgraphNode)(uintptr_t)node->object.handle;
}

struct shim_node *
shim_node_get_locked(CUgraphNode handle)
{
	return shim_object_get(HANDLE_NODE, (uintptr_t)handle);
}

static void
node_free_locked(struct shim_node *node)
{
	if (node->object.handle != 0)
		shim_object_remove(HANDLE_NODE, node->object.handle);
	shim_work_clear_locked(&node->work);
	shim_edges_clear(&node->deps);
	free(node);
}

static bool
grow(struct shim_graph *graph)
{
	uint32_t room = graph->room ? graph->room * 2 : 8;
	struct shim_node **grown;

	if (graph->count < graph->room)
		return true;
	if (graph->count >= GRAPH_NODES_MAX)
		return false;
	grown = realloc(graph->nodes, room * sizeof(*grown));
	if (grown == NULL)
		return false;
	graph->nodes = grown;
	graph->room = room;
	return true;
}

static CUresult
add_deps(struct shim_node *node, const struct shim_edges *deps)
{
	for (uint32_t i = 0; deps != NULL && i < deps->count; i++) {
		const struct shim_edge *edge = &deps->items[i];
		CUresult r;

		if (edge->from->graph != node->graph ||
		    shim_edges_have(&node->deps, edge->from))
			return CUDA_ERROR_INVALID_VALUE;
		r = shim_edges_add(&node->deps, edge->from, &edge->data);
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

void
shim_node_take(struct shim_node *node, const struct shim_work *work)
{
	struct shim_graph *const *graphs;
	uint32_t count;

	node->work = *work;
	graphs = shim_work_graphs(&node->work, &count);
	for (uint32_t i = 0; i < count; i++) {
		graphs[i]->child = true;
		graphs[i]->owner = node;
	}
}

CUresult
shim_node_add_locked(struct shim_graph *graph, struct shim_work *work,
		     const struct shim_edges *deps, struct shim_node **out_node)
{
	struct shim_node *node = calloc(1, sizeof(*node));
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (node == NULL || !grow(graph)) {
		free(node);
		shim_work_clear_locked(work);
		return r;
	}
	node->id = new_id();
	node->graph = graph;
	shim_node_take(node, work);
	r = add_deps(node, deps);
	if (r != CUDA_SUCCESS) {
		node_free_locked(node);
		return r;
	}
	node->index = graph->count;
	graph->nodes[graph->count++] = node;
	shim_branch_use_locked(node, true);
	if (out_node != NULL)
		*out_node = node;
	return CUDA_SUCCESS;
}

/* Is the one graph the other, or somewhere in it? */
static bool
is_within(const struct shim_graph *graph, const struct shim_graph *whole)
{
	bool found = graph == whole;

	for (uint32_t i = 0; i < whole->count && !found; i++) {
		uint32_t count;
		struct shim_graph *const *graphs =
			shim_work_graphs(&whole->nodes[i]->work, &count);

		for (uint32_t k = 0; k < count && !found; k++)
			found = is_within(graph, graphs[k]);
	}
	return found;
}

CUresult
shim_node_move_locked(struct shim_node *node, struct shim_graph *child)
{
	if (shim_graph_branches(child) || child->moved)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (child->child || child->capturing || is_within(node->graph, child))
		return CUDA_ERROR_INVALID_VALUE;
	node->work.type = CU_GRAPH_NODE_TYPE_GRAPH;
	node->work.child = child;
	child->child = child->moved = true;
	child->owner = node;
	return CUDA_SUCCESS;
}

void
shim_node_remove_locked(struct shim_node *node)
{
	struct shim_graph *graph = node->graph;

	shim_branch_use_locked(node, false);
	for (uint32_t i = 0; i < graph->count; i++)
		edges_remove(&graph->nodes[i]->deps, node);
	graph->count--;
	for (uint32_t i = node->index; i < graph->count; i++) {
		graph->nodes[i] = graph->nodes[i + 1];
		graph->nodes[i]->index = i;
	}
	node_free_locked(node);
}

/* ---- graphs ---- */

struct shim_graph *
shim_graph_new(struct shim_context *ctx, bool handle)
{
	struct shim_graph *graph = calloc(1, sizeof(*graph));

	if (graph == NULL)
		return NULL;
	graph->id = new_id();
	graph->object.ctx = ctx;
	if (handle && shim_object_add(HANDLE_GRAPH, &graph->object) != 0) {
		free(graph);
		return NULL;
	}
	return graph;
}

struct shim_graph *
shim_graph_get_locked(CUgraph handle)
{
	return shim_object_get(HANDLE_GRAPH, (uintptr_t)handle);
}

void
shim_graph_free_locked(struct shim_graph *graph)
{
	if (graph == NULL)
		return;
	if (graph->object.handle != 0)
		shim_object_remove(HANDLE_GRAPH, graph->object.handle);
	for (uint32_t i = 0; i < graph->count; i++)
		node_free_locked(graph->nodes[i]);
	shim_graph_users_drop_locked(graph);
	shim_home_put_locked(graph->home);
	free(graph->nodes);
	free(graph);
}

static CUresult
clone_nodes_locked(struct shim_graph *to, const struct shim_graph *graph)
{
	for (uint32_t i = 0; i < graph->count; i++) {
		const struct shim_node *node = graph->nodes[i];
		struct shim_node *copy;
		struct shim_work work;
		CUresult r = shim_work_clone_locked(&node->work, &work);

		if (r == CUDA_SUCCESS)
			r = shim_node_add_locked(to, &work, NULL, &copy);
		if (r != CUDA_SUCCESS)
			return r;
		copy->origin = node->id;
	}
	return CUDA_SUCCESS;
}

static CUresult
clone_edges(struct shim_graph *to, const struct shim_graph *graph)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t i = 0; i < graph->count; i++) {
		const struct shim_edges *deps = &graph->nodes[i]->deps;

		for (uint32_t k = 0; k < deps->count && r == CUDA_SUCCESS; k++)
			r = shim_edges_add(&to->nodes[i]->deps,
				to->nodes[deps->items[k].from->index],
				&deps->items[k].data);
	}
	return r;
}

struct shim_graph *
shim_graph_clone_locked(const struct shim_graph *graph,
			struct shim_context *ctx, bool handle)
{
	struct shim_graph *copy = shim_graph_new(ctx, handle);

	if (copy == NULL)
		return NULL;
	copy->origin = graph->id;
	if (clone_nodes_locked(copy, graph) != CUDA_SUCCESS ||
	    clone_edges(copy, graph) != CUDA_SUCCESS ||
	    shim_graph_users_copy_locked(copy, graph) != CUDA_SUCCESS) {
		shim_graph_free_locked(copy);
		return NULL;
	}
	return copy;
}
