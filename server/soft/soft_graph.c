/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes, edges, copies.
 */
#include "server/soft/soft_graph.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t soft_graph_lock = PTHREAD_MUTEX_INITIALIZER;

struct soft_graph *
soft_graph_new(void)
{
	struct soft_graph *graph = calloc(1, sizeof(*graph));

	if (graph && !soft_handle_add(graph, SOFT_HANDLE_GRAPH)) {
		free(graph);
		return NULL;
	}
	return graph;
}

void
soft_node_free(struct soft_node *node)
{
	soft_handle_del(node, SOFT_HANDLE_NODE);
	soft_work_free(node->work);
	free(node->deps);
	free(node->param_list);
	free(node);
}

void
soft_graph_free(struct soft_graph *graph)
{
	if (!graph)
		return;
	soft_handle_del(graph, SOFT_HANDLE_GRAPH);
	for (unsigned i = 0; i < graph->count; i++)
		soft_node_free(graph->nodes[i]);
	soft_held_free(graph);
	soft_conds_free(graph);
	free(graph->nodes);
	free(graph);
}

CUgraphNodeType
soft_node_type_of(const struct soft_work *work)
{
	switch (work->kind) {
	case SOFT_WORK_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case SOFT_WORK_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case SOFT_WORK_SET:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	case SOFT_WORK_HOST:
		return CU_GRAPH_NODE_TYPE_HOST;
	case SOFT_WORK_RECORD:
		return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	case SOFT_WORK_WAIT:
		return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
	case SOFT_WORK_MEMOPS:
		return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	case SOFT_WORK_FREE:
		return CU_GRAPH_NODE_TYPE_MEM_FREE;
	case SOFT_WORK_CHILD:
		return CU_GRAPH_NODE_TYPE_GRAPH;
	case SOFT_WORK_BRANCH:
		return CU_GRAPH_NODE_TYPE_CONDITIONAL;
	case SOFT_WORK_EMPTY:
	case SOFT_WORK_GRAPH:
		break;
	}
	return CU_GRAPH_NODE_TYPE_EMPTY;
}

static bool
has_dep(const struct soft_node *node, const struct soft_node *on)
{
	for (unsigned i = 0; i < node->dep_count; i++)
		if (node->deps[i] == on)
			return true;
	return false;
}

static CUresult
dep_append(struct soft_node *node, struct soft_node *on)
{
	if (node->dep_count == node->dep_room) {
		unsigned room = node->dep_room ? node->dep_room * 2 : 4;
		struct soft_node **grown;

		grown = realloc(node->deps, room * sizeof(*grown));
		if (!grown)
			return CUDA_ERROR_OUT_OF_MEMORY;
		node->deps = grown;
		node->dep_room = room;
	}
	node->deps[node->dep_count++] = on;
	return CUDA_SUCCESS;
}

/* Cycles are taken here and refused by instantiation (measured). */
CUresult
soft_node_depend(struct soft_node *node, struct soft_node *on)
{
	if (node == on || node->graph != on->graph || has_dep(node, on))
		return CUDA_ERROR_INVALID_VALUE;
	return dep_append(node, on);
}

static bool
graph_grow(struct soft_graph *graph)
{
	unsigned room = graph->room ? graph->room * 2 : 8;
	struct soft_node **grown;

	if (graph->count < graph->room)
		return true;
	grown = realloc(graph->nodes, room * sizeof(*grown));
	if (!grown)
		return false;
	graph->nodes = grown;
	graph->room = room;
	return true;
}

CUresult
soft_node_add(struct soft_graph *graph, CUgraphNodeType type,
	      struct soft_work *work, struct soft_node *const *deps,
	      size_t count, struct soft_node **out)
{
	struct soft_node *node;
	CUresult res = CUDA_SUCCESS;

	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node = calloc(1, sizeof(*node));
	if (!node || !graph_grow(graph) ||
	    !soft_handle_add(node, SOFT_HANDLE_NODE)) {
		free(node);
		soft_work_free(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->graph = graph;
	node->type = type;
	node->work = work;
	for (size_t i = 0; i < count && !res; i++)
		res = deps[i]->graph != graph || has_dep(node, deps[i]) ?
		      CUDA_ERROR_INVALID_VALUE : dep_append(node, deps[i]);
	if (res) {
		soft_node_free(node);
		return res;
	}
	node->index = graph->count;
	graph->nodes[graph->count++] = node;
	if (work->kind == SOFT_WORK_CHILD) {
		work->child->is_child = true;
		work->child->outer = graph;
	}
	for (unsigned i = 0; work->kind == SOFT_WORK_BRANCH &&
	     i < work->branch.count; i++)
		work->branch.graphs[i]->outer = graph;
	*out = node;
	return CUDA_SUCCESS;
}

void
soft_node_unadd(struct soft_node *node)
{
	node->graph->count--;
	soft_node_free(node);
}

/* Is the one graph the other, or somewhere in it? */
static bool
is_within(const struct soft_graph *graph, const struct soft_graph *whole)
{
	bool found = graph == whole;

	for (unsigned i = 0; i < whole->count && !found; i++) {
		const struct soft_work *work = whole->nodes[i]->work;

		found = work->kind == SOFT_WORK_CHILD &&
			is_within(graph, work->child);
		for (unsigned k = 0; work->kind == SOFT_WORK_BRANCH &&
		     k < work->branch.count && !found; k++)
			found = is_within(graph, work->branch.graphs[k]);
	}
	return found;
}

CUresult
soft_node_move(struct soft_node *node, struct soft_graph *child)
{
	if (soft_graph_branches(child) || child->is_moved)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (child->is_child || is_within(node->graph, child))
		return CUDA_ERROR_INVALID_VALUE;
	node->type = CU_GRAPH_NODE_TYPE_GRAPH;
	node->work->kind = SOFT_WORK_CHILD;
	node->work->child = child;
	child->is_child = child->is_moved = true;
	child->outer = node->graph;
	return CUDA_SUCCESS;
}

static struct soft_node *
clone_node(struct soft_graph *to, const struct soft_node *node)
{
	struct soft_work *work = soft_work_clone(node->work);
	struct soft_node *copy;

	if (soft_node_add(to, node->type, work, NULL, 0, &copy))
		return NULL;
	copy->origin = node;
	return copy;
}

struct soft_graph *
soft_graph_clone(const struct soft_graph *graph)
{
	struct soft_graph *copy = soft_graph_new();
	bool ok = copy && soft_held_clone(copy, graph);

	/* Nodes first: edges may go either way in the list. */
	for (unsigned i = 0; ok && i < graph->count; i++)
		ok = clone_node(copy, graph->nodes[i]);
	for (unsigned i = 0; ok && i < graph->count; i++) {
		const struct soft_node *node = graph->nodes[i];

		for (unsigned k = 0; ok && k < node->dep_count; k++)
			ok = !dep_append(copy->nodes[i],
					 copy->nodes[node->deps[k]->index]);
	}
	if (!ok) {
		soft_graph_free(copy);
		return NULL;
	}
	return copy;
}
