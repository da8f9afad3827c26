/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executable graph takes over another graph, or another child. What the
 * driver can update in place it does; the rest is built anew and takes the old
 * one's place.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/graph_branch.h"
#include "shim/graph_exec.h"
#include "shim/memop.h"
#include "shim_calls.h"
#include "shim_impl.h"

/* ---- rebuilding ---- */

/* A clone of a clone goes by the names that the program knows. */
static void
pass_names(struct shim_graph *to, const struct shim_graph *from)
{
	for (uint32_t i = 0; i < to->count && i < from->count; i++) {
		uint32_t n, m;
		struct shim_graph *const *a =
			shim_work_graphs(&to->nodes[i]->work, &n);
		struct shim_graph *const *b =
			shim_work_graphs(&from->nodes[i]->work, &m);

		to->nodes[i]->origin = from->nodes[i]->origin;
		for (uint32_t k = 0; k < n && k < m; k++)
			pass_names(a[k], b[k]);
	}
}

/* A node is as many items as its copy wants; most are where they were. */
static void
keep_disabled(struct shim_flat *to, const struct shim_flat *from)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < to->count; i++) {
		uint64_t origin = to->items[i].node->origin;

		for (uint32_t n = 0; n < from->count &&
		     from->items[k].node->origin != origin; n++)
			k = (k + 1) % from->count;
		if (from->count > 0 && from->items[k].node->origin == origin)
			to->items[i].disabled = from->items[k].disabled;
	}
}

/* Where there can be only one, the old one goes first. */
static void
make_room(struct shim_exec *exec)
{
	if (exec->home == NULL)
		return;
	shim_segments_end(exec->chan, exec->segments, exec->flat.depths);
	exec->segments = NULL;
}

/* Takes source over, on failure too. It has the shape of the old one. */
static CUresult
rebuild(struct shim_exec *exec, struct shim_graph *source)
{
	struct shim_segment **segments = NULL, **old_segments;
	struct shim_graph *old = exec->source;
	struct shim_flat flat, old_flat = exec->flat;
	CUresult r;

	r = shim_flat_make(source, exec->object.ctx, &flat);
	if (r == CUDA_SUCCESS) {
		keep_disabled(&flat, &old_flat);
		make_room(exec);
		r = shim_segments_make(exec->chan, &flat, exec->home,
				       exec->flags, &segments);
		if (r != CUDA_SUCCESS) {
			shim_flat_free(&flat);
			if (exec->home != NULL)
				shim_segments_make(exec->chan, &exec->flat,
						   exec->home, exec->flags,
						   &exec->segments);
		}
	}
	if (r == CUDA_SUCCESS && flat.has_host && exec->order == NULL)
		r = shim_cuEventCreate(&exec->order, CU_EVENT_DISABLE_TIMING);
	if (r != CUDA_SUCCESS) {
		if (segments != NULL) {
			shim_segments_end(exec->chan, segments, flat.depths);
			shim_flat_free(&flat);
		}
		pthread_mutex_lock(&shim_graph_lock);
		shim_graph_free_locked(source);
		pthread_mutex_unlock(&shim_graph_lock);
		return r;
	}
	old_segments = exec->segments;
	exec->segments = segments;
	exec->flat = flat;
	exec->source = source;
	shim_segments_end(exec->chan, old_segments, old_flat.depths);
	pthread_mutex_lock(&shim_graph_lock);
	shim_graph_free_locked(old);
	pthread_mutex_unlock(&shim_graph_lock);
	/* The copies of a launch under way still use its memory. */
	if (old_flat.has_bounce && exec->launched)
		call_mpsEventSync(exec->chan, (uintptr_t)exec->order);
	shim_flat_free(&old_flat);
	return CUDA_SUCCESS;
}

/* ---- a child ---- */

static bool same_shape(const struct shim_graph *a, const struct shim_graph *b,
		       const struct shim_node **out_node,
		       CUgraphExecUpdateResult *out);

static bool
same_graphs(const struct shim_work *a, const struct shim_work *b,
	    const struct shim_node **out_node, CUgraphExecUpdateResult *out)
{
	uint32_t n, m;
	struct shim_graph *const *x = shim_work_graphs(a, &n);
	struct shim_graph *const *y = shim_work_graphs(b, &m);

	if (n != m || (a->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
		       a->branch.type != b->branch.type) ||
	    (a->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP &&
	     !shim_memops_alike(&a->memops, &b->memops))) {
		*out = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
		return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!same_shape(x[i], y[i], out_node, out))
			return false;
	}
	return true;
}

static bool
same_shape(const struct shim_graph *a, const struct shim_graph *b,
	   const struct shim_node **out_node, CUgraphExecUpdateResult *out)
{
	*out_node = NULL;
	*out = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct shim_node *x = a->nodes[i], *y = b->nodes[i];

		*out_node = y;
		if (x->deps.count != y->deps.count)
			return false;
		for (uint32_t k = 0; k < x->deps.count; k++) {
			if (x->deps.items[k].from->index !=
			    y->deps.items[k].from->index)
				return false;
		}
		if (x->work.type != y->work.type) {
			*out = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
			return false;
		}
		if (!same_graphs(&x->work, &y->work, out_node, out))
			return false;
	}
	*out_node = NULL;
	*out = CU_GRAPH_EXEC_UPDATE_SUCCESS;
	return true;
}

/* Where the clone of a graph has what the graph has there. */
static struct shim_node *
twin_of(const struct shim_node *node, const struct shim_graph *graph,
	struct shim_graph *clone)
{
	struct shim_node *twin = NULL;

	if (node->graph == graph)
		return clone->nodes[node->index];
	for (uint32_t i = 0; i < graph->count && twin == NULL; i++) {
		uint32_t n, m;
		struct shim_graph *const *a =
			shim_work_graphs(&graph->nodes[i]->work, &n);
		struct shim_graph *const *b =
			shim_work_graphs(&clone->nodes[i]->work, &m);

		for (uint32_t k = 0; k < n && twin == NULL; k++)
			twin = twin_of(node, a[k], b[k]);
	}
	return twin;
}

/* The whole source again, with another graph in the child's place. */
static CUresult
replace_child(struct shim_exec *exec, const struct shim_node *node,
	      CUgraph handle, struct shim_graph **out)
{
	struct shim_graph *copy = NULL, *child = NULL;
	const struct shim_graph *fresh;
	const struct shim_node *bad;
	CUgraphExecUpdateResult result;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&shim_graph_lock);
	fresh = shim_graph_get_locked(handle);
	if (fresh != NULL &&
	    !same_shape(node->work.child, fresh, &bad, &result)) {
		r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	} else if (fresh != NULL) {
		copy = shim_graph_clone_locked(exec->source, exec->object.ctx,
					       false);
		child = shim_graph_clone_locked(fresh, exec->object.ctx,
						false);
		r = copy == NULL || child == NULL ?
		    CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	}
	if (r == CUDA_SUCCESS) {
		struct shim_work *work =
			&twin_of(node, exec->source, copy)->work;

		pass_names(copy, exec->source);
		pass_names(child, node->work.child);
		shim_graph_free_locked(work->child);
		work->child = child;
		child->child = true;
		*out = copy;
	} else {
		shim_graph_free_locked(copy);
		shim_graph_free_locked(child);
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_exec_recopy(struct shim_exec *exec, const struct shim_node *node,
		 const CUDA_MEMCPY3D *copy)
{
	struct shim_graph *source;

	pthread_mutex_lock(&shim_graph_lock);
	source = shim_graph_clone_locked(exec->source, exec->object.ctx,
					 false);
	if (source != NULL) {
		pass_names(source, exec->source);
		twin_of(node, exec->source, source)->work.copy = *copy;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return source == NULL ? CUDA_ERROR_OUT_OF_MEMORY :
				rebuild(exec, source);
}

CUresult
shim_cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec,
					CUgraphNode hNode, CUgraph childGraph)
{
	struct shim_exec *exec = shim_exec_get(hGraphExec);
	struct shim_graph *source;
	struct shim_item *item;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (exec == NULL)
		return r;
	pthread_mutex_lock(&exec->lock);
	item = shim_exec_item(exec, hNode, CU_GRAPH_NODE_TYPE_GRAPH);
	if (item != NULL)
		r = replace_child(exec, item->node, childGraph, &source);
	if (item != NULL && r == CUDA_SUCCESS)
		r = rebuild(exec, source);
	pthread_mutex_unlock(&exec->lock);
	shim_exec_put(exec);
	return r;
}

/* ---- the whole ---- */

struct update {
	struct shim_graph *source;     /* clone of the new graph */
	struct shim_home *home;        /* its, a reference, or NULL */
	CUgraphExecUpdateResult result;
	uint64_t bad;                  /* id of the node at fault */
};

static CUresult
compare(struct shim_exec *exec, CUgraph handle, struct update *u)
{
	const struct shim_node *bad;
	const struct shim_graph *graph;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(handle);
	if (graph == NULL || graph->capturing || graph->moved) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (!same_shape(exec->source, graph, &bad, &u->result)) {
		u->bad = bad == NULL ? 0 : bad->id;
		r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	} else {
		u->source = shim_graph_clone_locked(graph, exec->object.ctx,
						    false);
		if (u->source == NULL)
			r = CUDA_ERROR_OUT_OF_MEMORY;
		u->home = graph->home;
		if (u->home != NULL)
			u->home->refs++;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

/* One segment each: the driver knows best what it can update in place. */
static CUresult
update_driver(struct shim_exec *exec, struct shim_flat *flat,
	      struct update *u)
{
	struct shim_segment *fresh = NULL;
	uint32_t result = CU_GRAPH_EXEC_UPDATE_SUCCESS, node = UINT32_MAX;
	CUresult r = shim_segment_send(exec->chan, flat, 0, u->home, &fresh);

	if (r != CUDA_SUCCESS)
		return r;
	r = call_mpsGraphUpdate(exec->chan, exec->segments[0]->object.handle,
				fresh->object.handle, &result, &node);
	u->result = (CUgraphExecUpdateResult)result;
	if (r != CUDA_SUCCESS && node < flat->count)
		u->bad = flat->items[node].node->origin;
	/* Updated or not, it has served. */
	shim_segment_drop(exec->chan, fresh);
	return r;
}

static void
adopt(struct shim_exec *exec, struct shim_flat *flat, struct update *u)
{
	struct shim_graph *old = exec->source;

	for (uint32_t i = 0; i < flat->count; i++)
		flat->items[i].disabled = exec->flat.items[i].disabled;
	pthread_mutex_lock(&shim_graph_lock);
	pass_names(u->source, old);
	shim_flat_free(&exec->flat);
	exec->flat = *flat;
	exec->source = u->source;
	shim_graph_free_locked(old);
	pthread_mutex_unlock(&shim_graph_lock);
}

static CUresult
update(struct shim_exec *exec, CUgraph graph, struct update *u)
{
	struct shim_flat flat;
	CUresult r = compare(exec, graph, u);

	if (r != CUDA_SUCCESS)
		return r;
	r = shim_flat_make(u->source, exec->object.ctx, &flat);
	/* Segments are made anew, and kernels would set the conditions of the
	 * graph, which the executable one has not. */
	if (r == CUDA_SUCCESS && exec->home != NULL &&
	    (flat.has_host || exec->flat.has_host)) {
		shim_flat_free(&flat);
		u->result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
		r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	if (r == CUDA_SUCCESS && (flat.has_host || exec->flat.has_host ||
				  flat.count == 0)) {
		shim_flat_free(&flat);
		pthread_mutex_lock(&shim_graph_lock);
		pass_names(u->source, exec->source);
		pthread_mutex_unlock(&shim_graph_lock);
		return rebuild(exec, u->source);
	}
	if (r == CUDA_SUCCESS) {
		r = update_driver(exec, &flat, u);
		if (r == CUDA_SUCCESS) {
			adopt(exec, &flat, u);
			return r;
		}
		shim_flat_free(&flat);
	}
	pthread_mutex_lock(&shim_graph_lock);
	shim_graph_free_locked(u->source);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

static CUgraphNode
name_node_locked(const struct shim_graph *graph, uint64_t id)
{
	CUgraphNode name = NULL;

	for (uint32_t i = 0; i < graph->count && name == NULL; i++) {
		struct shim_node *node = graph->nodes[i];

		uint32_t n;
		struct shim_graph *const *graphs =
			shim_work_graphs(&node->work, &n);

		if (node->id == id)
			name = shim_node_handle_locked(node);
		for (uint32_t k = 0; k < n && name == NULL; k++)
			name = name_node_locked(graphs[k], id);
	}
	return name;
}

/* The node of the new graph that an id means. */
static CUgraphNode
name_node(CUgraph handle, uint64_t id)
{
	const struct shim_graph *graph;
	CUgraphNode name = NULL;

	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(handle);
	if (graph != NULL && id != 0)
		name = name_node_locked(graph, id);
	pthread_mutex_unlock(&shim_graph_lock);
	return name;
}

CUresult
shim_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
			  CUgraphExecUpdateResultInfo *resultInfo)
{
	struct update u = { .result = CU_GRAPH_EXEC_UPDATE_SUCCESS };
	struct shim_exec *exec;
	CUresult r;

	exec = shim_exec_get(hGraphExec);
	if (exec == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&exec->lock);
	r = update(exec, hGraph, &u);
	pthread_mutex_unlock(&exec->lock);
	shim_exec_put(exec);
	pthread_mutex_lock(&shim_graph_lock);
	shim_home_put_locked(u.home);
	pthread_mutex_unlock(&shim_graph_lock);
	shim_homes_end();
	if (resultInfo == NULL)
		return r;
	memset(resultInfo, 0, sizeof(*resultInfo));
	if (r != CUDA_SUCCESS && u.result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
		u.result = CU_GRAPH_EXEC_UPDATE_ERROR;
	resultInfo->result = u.result;
	resultInfo->errorNode = name_node(hGraph, u.bad);
	return r;
}

CUresult
shim_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
		       CUgraphNode *hErrorNode_out,
		       CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info;
	CUresult r;

	if (updateResult_out == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
	*updateResult_out = info.result;
	if (hErrorNode_out != NULL)
		*hErrorNode_out = info.errorNode;
	return r;
}
