/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points that make graphs, ask about them and change their edges.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/ctx.h"
#include "shim/graph.h"
#include "shim/graph_branch.h"
#include "shim/graph_exec.h"
#include "shim/graph_mem.h"
#include "shim_impl.h"

/* ---- graphs ---- */

CUresult
shim_cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	struct shim_graph *graph;

	if (phGraph == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	graph = shim_graph_new(shim_current, true);
	if (graph == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraph = (CUgraph)(uintptr_t)graph->object.handle;
	return CUDA_SUCCESS;
}

CUresult
shim_cuGraphDestroy(CUgraph hGraph)
{
	struct shim_graph *graph;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(hGraph);
	if (graph != NULL && !graph->child && !graph->capturing) {
		shim_exec_forget_locked(graph);
		shim_graph_free_locked(graph);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	shim_exec_forget();
	shim_homes_end();
	shim_slots_end();
	return r;
}

CUresult
shim_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	struct shim_graph *graph, *copy = NULL;

	if (phGraphClone == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(originalGraph);
	if (graph != NULL && (shim_graph_branches(graph) ||
			      shim_graph_allocates(graph))) {
		pthread_mutex_unlock(&shim_graph_lock);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (graph != NULL)
		copy = shim_graph_clone_locked(graph, graph->object.ctx, true);
	if (copy != NULL)
		*phGraphClone = (CUgraph)(uintptr_t)copy->object.handle;
	pthread_mutex_unlock(&shim_graph_lock);
	if (graph == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return copy == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult
shim_cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
			    CUgraph hClonedGraph)
{
	struct shim_node *original;
	struct shim_graph *graph;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (phNode == NULL)
		return r;
	*phNode = NULL;
	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(hClonedGraph);
	original = shim_node_get_locked(hOriginalNode);
	for (uint32_t i = 0; graph != NULL && original != NULL &&
	     i < graph->count; i++) {
		if (graph->nodes[i]->origin != original->id)
			continue;
		*phNode = shim_node_handle_locked(graph->nodes[i]);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

/* ---- questions ---- */

/* Lists are given out in CUDA's way: up to *room entries, NULL in what is
 * left, *room becomes how many. Without a list only the number is told. */
struct list {
	CUgraphNode *first, *second;
	CUgraphEdgeData *data;
	size_t room, count;
	bool lossy;     /* an edge had data and there was no place for it */
};

static void
put(struct list *l, struct shim_node *a, struct shim_node *b,
    const CUgraphEdgeData *data)
{
	if (l->count < l->room) {
		if (l->first != NULL)
			l->first[l->count] = shim_node_handle_locked(a);
		if (l->second != NULL)
			l->second[l->count] = shim_node_handle_locked(b);
		if (l->data != NULL)
			l->data[l->count] = *data;
		else if (data != NULL &&
			 data->type != CU_GRAPH_DEPENDENCY_TYPE_DEFAULT)
			l->lossy = true;
	}
	l->count++;
}

static CUresult
finish(struct list *l, size_t *out_count)
{
	for (size_t i = l->count; i < l->room; i++) {
		if (l->first != NULL)
			l->first[i] = NULL;
		if (l->second != NULL)
			l->second[i] = NULL;
	}
	*out_count = l->room && l->count > l->room ? l->room : l->count;
	return l->lossy ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

static CUresult
nodes_of(CUgraph handle, CUgraphNode *nodes, size_t *count, bool roots)
{
	struct list l = { .first = nodes };
	struct shim_graph *graph;

	if (count == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	l.room = nodes != NULL ? *count : 0;
	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(handle);
	for (uint32_t i = 0; graph != NULL && i < graph->count; i++) {
		if (!roots || graph->nodes[i]->deps.count == 0)
			put(&l, graph->nodes[i], NULL, NULL);
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return graph == NULL ? CUDA_ERROR_INVALID_VALUE : finish(&l, count);
}

CUresult
shim_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	return nodes_of(hGraph, nodes, numNodes, false);
}

CUresult
shim_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes,
			 size_t *numRootNodes)
{
	return nodes_of(hGraph, rootNodes, numRootNodes, true);
}

CUresult
shim_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
			CUgraphEdgeData *edgeData, size_t *numEdges)
{
	struct list l = { .first = from, .second = to, .data = edgeData };
	struct shim_graph *graph;

	if (numEdges == NULL || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	l.room = from != NULL ? *numEdges : 0;
	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(hGraph);
	for (uint32_t i = 0; graph != NULL && i < graph->count; i++) {
		struct shim_edges *deps = &graph->nodes[i]->deps;

		for (uint32_t k = 0; k < deps->count; k++)
			put(&l, deps->items[k].from, graph->nodes[i],
			    &deps->items[k].data);
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return graph == NULL ? CUDA_ERROR_INVALID_VALUE : finish(&l, numEdges);
}

CUresult
shim_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
		     size_t *numEdges)
{
	return shim_cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

CUresult
shim_cuGraphNodeGetDependencies_v2(CUgraphNode hNode,
				   CUgraphNode *dependencies,
				   CUgraphEdgeData *edgeData,
				   size_t *numDependencies)
{
	struct list l = { .first = dependencies, .data = edgeData };
	struct shim_node *node;

	if (numDependencies == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	l.room = dependencies != NULL ? *numDependencies : 0;
	pthread_mutex_lock(&shim_graph_lock);
	node = shim_node_get_locked(hNode);
	for (uint32_t i = 0; node != NULL && i < node->deps.count; i++)
		put(&l, node->deps.items[i].from, NULL,
		    &node->deps.items[i].data);
	pthread_mutex_unlock(&shim_graph_lock);
	return node == NULL ? CUDA_ERROR_INVALID_VALUE :
			      finish(&l, numDependencies);
}

CUresult
shim_cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
				size_t *numDependencies)
{
	return shim_cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL,
						  numDependencies);
}

static void
put_dependents(struct list *l, const struct shim_node *node)
{
	const struct shim_graph *graph = node->graph;

	for (uint32_t i = 0; i < graph->count; i++) {
		struct shim_edges *deps = &graph->nodes[i]->deps;

		for (uint32_t k = 0; k < deps->count; k++) {
			if (deps->items[k].from == node)
				put(l, graph->nodes[i], NULL,
				    &deps->items[k].data);
		}
	}
}

CUresult
shim_cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode,
				     CUgraphNode *dependentNodes,
				     CUgraphEdgeData *edgeData,
				     size_t *numDependentNodes)
{
	struct list l = { .first = dependentNodes, .data = edgeData };
	struct shim_node *node;

	if (numDependentNodes == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	l.room = dependentNodes != NULL ? *numDependentNodes : 0;
	pthread_mutex_lock(&shim_graph_lock);
	node = shim_node_get_locked(hNode);
	if (node != NULL)
		put_dependents(&l, node);
	pthread_mutex_unlock(&shim_graph_lock);
	return node == NULL ? CUDA_ERROR_INVALID_VALUE :
			      finish(&l, numDependentNodes);
}

CUresult
shim_cuGraphNodeGetDependentNodes(CUgraphNode hNode,
				  CUgraphNode *dependentNodes,
				  size_t *numDependentNodes)
{
	return shim_cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes,
						    NULL, numDependentNodes);
}

CUresult
shim_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	struct shim_node *node;

	if (type == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&shim_graph_lock);
	node = shim_node_get_locked(hNode);
	if (node != NULL)
		*type = node->work.type;
	pthread_mutex_unlock(&shim_graph_lock);
	return node == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- edges ---- */

static CUresult
undepend_locked(struct shim_node *node, const struct shim_node *from,
		const CUgraphEdgeData *data)
{
	struct shim_edges *deps = &node->deps;

	for (uint32_t i = 0; i < deps->count; i++) {
		const struct shim_edge *edge = &deps->items[i];

		if (edge->from != from ||
		    (data != NULL && memcmp(data, &edge->data, sizeof(*data))))
			continue;
		memmove(&deps->items[i], &deps->items[i + 1],
			(--deps->count - i) * sizeof(*edge));
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult
change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
	     const CUgraphEdgeData *data, size_t count, bool add)
{
	struct shim_graph *graph;
	CUresult r = CUDA_SUCCESS;

	if (count > 0 && (from == NULL || to == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(handle);
	if (graph == NULL || (!add && graph->capturing))
		r = CUDA_ERROR_INVALID_VALUE;
	else if (!add && shim_graph_allocates(graph))
		r = CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		struct shim_node *a = shim_node_get_locked(from[i]);
		struct shim_node *b = shim_node_get_locked(to[i]);
		const CUgraphEdgeData *d = data == NULL ? NULL : &data[i];

		if (a == NULL || b == NULL || a->graph != graph ||
		    b->graph != graph ||
		    (d != NULL &&
		     d->type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC))
			r = CUDA_ERROR_INVALID_VALUE;
		else
			r = add ? shim_node_depend_locked(b, a, d) :
				  undepend_locked(b, a, d);
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
			       const CUgraphNode *to,
			       const CUgraphEdgeData *edgeData,
			       size_t numDependencies)
{
	return change_edges(hGraph, from, to, edgeData, numDependencies, true);
}

CUresult
shim_cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from,
			    const CUgraphNode *to, size_t numDependencies)
{
	return change_edges(hGraph, from, to, NULL, numDependencies, true);
}

CUresult
shim_cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
				  const CUgraphNode *to,
				  const CUgraphEdgeData *edgeData,
				  size_t numDependencies)
{
	return change_edges(hGraph, from, to, edgeData, numDependencies,
			    false);
}

CUresult
shim_cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
			       const CUgraphNode *to, size_t numDependencies)
{
	return change_edges(hGraph, from, to, NULL, numDependencies, false);
}

CUresult
shim_cuGraphDestroyNode(CUgraphNode hNode)
{
	struct shim_node *node;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&shim_graph_lock);
	node = shim_node_get_locked(hNode);
	if (node != NULL && shim_graph_allocates(node->graph)) {
		r = CUDA_ERROR_NOT_SUPPORTED;
	} else if (node != NULL && !node->graph->capturing) {
		shim_node_remove_locked(node);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}
