/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points that ask about graphs and change edges; executable graphs.
 */
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_graph.h"

#define INSTANTIATE_FLAGS (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | \
			   CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | \
			   CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static CUresult
graph_from(CUgraph handle, struct soft_graph **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_GRAPH);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
node_from(CUgraphNode handle, struct soft_node **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_NODE);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Lists are handed out in CUDA's way: up to *room entries, the rest of the
 * room is NULL, *room becomes how many there are. Without a list only the
 * number is told. */
struct list {
	CUgraphNode *first, *second;
	size_t room, count;
};

static void
list_put(struct list *l, const struct soft_node *a, const struct soft_node *b)
{
	if (l->count < l->room) {
		if (l->first)
			l->first[l->count] = (CUgraphNode)a;
		if (l->second)
			l->second[l->count] = (CUgraphNode)b;
	}
	l->count++;
}

static void
list_end(struct list *l, size_t *out_count)
{
	for (size_t i = l->count; i < l->room; i++) {
		if (l->first)
			l->first[i] = NULL;
		if (l->second)
			l->second[i] = NULL;
	}
	*out_count = l->room && l->count > l->room ? l->room : l->count;
}

static struct list
list_begin(CUgraphNode *first, CUgraphNode *second, const size_t *room)
{
	return (struct list){ first, second, first || second ? *room : 0, 0 };
}

CUresult
cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	struct soft_graph *graph;
	struct list l;
	CUresult res = graph_from(handle, &graph);

	if (res)
		return res;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	l = list_begin(nodes, NULL, count);
	pthread_mutex_lock(&soft_graph_lock);
	for (unsigned i = 0; i < graph->count; i++)
		list_put(&l, graph->nodes[i], NULL);
	pthread_mutex_unlock(&soft_graph_lock);
	list_end(&l, count);
	return CUDA_SUCCESS;
}

CUresult
cuGraphGetRootNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	struct soft_graph *graph;
	struct list l;
	CUresult res = graph_from(handle, &graph);

	if (res)
		return res;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	l = list_begin(nodes, NULL, count);
	pthread_mutex_lock(&soft_graph_lock);
	for (unsigned i = 0; i < graph->count; i++)
		if (!graph->nodes[i]->dep_count)
			list_put(&l, graph->nodes[i], NULL);
	pthread_mutex_unlock(&soft_graph_lock);
	list_end(&l, count);
	return CUDA_SUCCESS;
}

static void
zero_edges(CUgraphEdgeData *data, size_t count)
{
	if (data)
		memset(data, 0, count * sizeof(*data));
}

CUresult
cuGraphGetEdges_v2(CUgraph handle, CUgraphNode *from, CUgraphNode *to,
		   CUgraphEdgeData *data, size_t *count)
{
	struct soft_graph *graph;
	struct list l;
	CUresult res = graph_from(handle, &graph);

	if (res)
		return res;
	if (!count || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	l = list_begin(from, to, count);
	pthread_mutex_lock(&soft_graph_lock);
	for (unsigned i = 0; i < graph->count; i++)
		for (unsigned k = 0; k < graph->nodes[i]->dep_count; k++)
			list_put(&l, graph->nodes[i]->deps[k],
				 graph->nodes[i]);
	pthread_mutex_unlock(&soft_graph_lock);
	list_end(&l, count);
	zero_edges(from ? data : NULL, *count);
	return CUDA_SUCCESS;
}

CUresult
cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
		size_t *count)
{
	return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

CUresult
cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode *deps,
			      CUgraphEdgeData *data, size_t *count)
{
	struct soft_node *node;
	struct list l;
	CUresult res = node_from(handle, &node);

	if (res)
		return res;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	l = list_begin(deps, NULL, count);
	pthread_mutex_lock(&soft_graph_lock);
	for (unsigned i = 0; i < node->dep_count; i++)
		list_put(&l, node->deps[i], NULL);
	pthread_mutex_unlock(&soft_graph_lock);
	list_end(&l, count);
	zero_edges(deps ? data : NULL, *count);
	return CUDA_SUCCESS;
}

CUresult
cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *count)
{
	return cuGraphNodeGetDependencies_v2(node, deps, NULL, count);
}

CUresult
cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode *nodes,
				CUgraphEdgeData *data, size_t *count)
{
	struct soft_node *node;
	struct list l;
	CUresult res = node_from(handle, &node);

	if (res)
		return res;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	l = list_begin(nodes, NULL, count);
	pthread_mutex_lock(&soft_graph_lock);
	for (unsigned i = 0; i < node->graph->count; i++) {
		struct soft_node *other = node->graph->nodes[i];

		for (unsigned k = 0; k < other->dep_count; k++)
			if (other->deps[k] == node)
				list_put(&l, other, NULL);
	}
	pthread_mutex_unlock(&soft_graph_lock);
	list_end(&l, count);
	zero_edges(nodes ? data : NULL, *count);
	return CUDA_SUCCESS;
}

CUresult
cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes,
			     size_t *count)
{
	return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}

CUresult
cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
	struct soft_node *node;
	CUresult res = node_from(handle, &node);

	if (res)
		return res;
	if (!type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->type;
	return CUDA_SUCCESS;
}

static CUresult
remove_dep(struct soft_node *node, const struct soft_node *on)
{
	for (unsigned i = 0; i < node->dep_count; i++)
		if (node->deps[i] == on) {
			node->deps[i] = node->deps[--node->dep_count];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult
change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
	     const CUgraphEdgeData *data, size_t count, bool add)
{
	struct soft_graph *graph;
	CUresult res = graph_from(handle, &graph);

	if (res)
		return res;
	if (count && (!from || !to))
		return CUDA_ERROR_INVALID_VALUE;
	if (data)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&soft_graph_lock);
	for (size_t i = 0; i < count && !res; i++) {
		struct soft_node *a = soft_handle_get(from[i],
						      SOFT_HANDLE_NODE);
		struct soft_node *b = soft_handle_get(to[i], SOFT_HANDLE_NODE);

		if (!a || !b || a->graph != graph || b->graph != graph)
			res = CUDA_ERROR_INVALID_VALUE;
		else
			res = add ? soft_node_depend(b, a) : remove_dep(b, a);
	}
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

CUresult
cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
			  const CUgraphNode *to, const CUgraphEdgeData *data,
			  size_t count)
{
	return change_edges(graph, from, to, data, count, true);
}

CUresult
cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
		       const CUgraphNode *to, size_t count)
{
	return change_edges(graph, from, to, NULL, count, true);
}

CUresult
cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
			     const CUgraphNode *to,
			     const CUgraphEdgeData *data, size_t count)
{
	return change_edges(graph, from, to, data, count, false);
}

CUresult
cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
			  const CUgraphNode *to, size_t count)
{
	return change_edges(graph, from, to, NULL, count, false);
}

CUresult
cuGraphDestroyNode(CUgraphNode handle)
{
	struct soft_graph *graph;
	struct soft_node *node;
	CUresult res = node_from(handle, &node);

	if (res)
		return res;
	pthread_mutex_lock(&soft_graph_lock);
	graph = node->graph;
	for (unsigned i = 0; i < graph->count; i++)
		remove_dep(graph->nodes[i], node);
	graph->count--;
	for (unsigned i = node->index; i < graph->count; i++) {
		graph->nodes[i] = graph->nodes[i + 1];
		graph->nodes[i]->index = i;
	}
	soft_conds_idle(node);
	soft_node_free(node);
	pthread_mutex_unlock(&soft_graph_lock);
	return CUDA_SUCCESS;
}

CUresult
cuGraphClone(CUgraph *out, CUgraph handle)
{
	struct soft_graph *graph;
	CUresult res = graph_from(handle, &graph);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	if (soft_graph_branches(graph))
		res = CUDA_ERROR_NOT_SUPPORTED;
	else
		*out = (CUgraph)soft_graph_clone(graph);
	pthread_mutex_unlock(&soft_graph_lock);
	return res || *out ? res : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph handle)
{
	struct soft_graph *graph;
	struct soft_node *found = NULL;
	CUresult res = graph_from(handle, &graph);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	for (unsigned i = 0; i < graph->count; i++)
		if (graph->nodes[i]->origin == (struct soft_node *)original)
			found = graph->nodes[i];
	pthread_mutex_unlock(&soft_graph_lock);
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraphNode)found;
	return CUDA_SUCCESS;
}

CUresult
cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph handle,
			    unsigned long long flags)
{
	struct soft_graph *graph;
	struct soft_exec *exec;
	struct soft_ctx *ctx;
	CUresult res = graph_from(handle, &graph);

	if (!res)
		res = soft_enter_ctx(&ctx);
	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (graph->is_moved)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (flags & ~(unsigned long long)INSTANTIATE_FLAGS)
		return flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH ?
		       CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	res = soft_exec_new(graph, ctx, &exec);
	if (!res) {
		res = soft_conds_take(graph, exec);
		if (res) {
			soft_handle_del(exec, SOFT_HANDLE_EXEC);
			soft_exec_unref(exec);
		}
	}
	pthread_mutex_unlock(&soft_graph_lock);
	if (res)
		return res;
	exec->flags = flags;
	*out = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

CUresult
cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
		   char *log, size_t size)
{
	if (error_node)
		*error_node = NULL;
	if (log && size)
		*log = '\0';
	return cuGraphInstantiateWithFlags(out, graph, 0);
}

CUresult
cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
		      char *log, size_t size)
{
	return cuGraphInstantiate(out, graph, error_node, log, size);
}

CUresult
cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
			     CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	CUresult res;

	if (!p)
		return soft_enter() ? soft_enter() : CUDA_ERROR_INVALID_VALUE;
	res = cuGraphInstantiateWithFlags(out, graph, p->flags);
	p->hErrNode_out = NULL;
	p->result_out = !res ? CUDA_GRAPH_INSTANTIATE_SUCCESS :
			soft_conds_unused(graph) ?
			CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED :
			CUDA_GRAPH_INSTANTIATE_ERROR;
	return res;
}

static CUresult
exec_from(CUgraphExec handle, struct soft_exec **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_EXEC);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphExecDestroy(CUgraphExec handle)
{
	struct soft_exec *exec;
	CUresult res = exec_from(handle, &exec);

	if (res)
		return res;
	/* Conditional nodes have memory of their own on a real device. */
	if (soft_conds_any(exec) && !soft_relaxed(SOFT_RELAX_FREE)) {
		res = soft_gate_drain(true);
		soft_gate_open(true);
	}
	if (res)
		return res;
	if (!soft_handle_del(exec, SOFT_HANDLE_EXEC))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	soft_conds_give(exec);
	pthread_mutex_unlock(&soft_graph_lock);
	soft_exec_unref(exec);
	return CUDA_SUCCESS;
}

CUresult
cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
	struct soft_exec *exec;
	CUresult res = exec_from(handle, &exec);

	if (res)
		return res;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	/* How it is launched, not what it is: left out (measured). */
	*flags = exec->flags &
		 ~(cuuint64_t)(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
			       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
	return CUDA_SUCCESS;
}

/* Nothing is left to bring to the device before a launch. */
CUresult
cuGraphUpload(CUgraphExec handle, CUstream hstream)
{
	struct soft_stream *stream;
	struct soft_exec *exec;
	CUresult res = exec_from(handle, &exec);

	return res ? res : soft_stream_from(hstream, &stream, NULL);
}

static CUresult
item_enter(CUgraphExec handle, CUgraphNode node, struct soft_exec **exec)
{
	CUresult res = exec_from(handle, exec);

	return res || node ? res : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node,
		      unsigned int enabled)
{
	struct soft_item *item;
	struct soft_exec *exec;
	CUresult res = item_enter(handle, node, &exec);

	if (res)
		return res;
	pthread_mutex_lock(&soft_graph_lock);
	item = soft_exec_item(exec, (struct soft_node *)node);
	if (!item || (item->work->kind != SOFT_WORK_KERNEL &&
		      item->work->kind != SOFT_WORK_COPY &&
		      item->work->kind != SOFT_WORK_SET))
		res = CUDA_ERROR_INVALID_VALUE;
	else
		item->disabled = !enabled;
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

CUresult
cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node,
		      unsigned int *enabled)
{
	struct soft_item *item;
	struct soft_exec *exec;
	CUresult res = item_enter(handle, node, &exec);

	if (res)
		return res;
	if (!enabled)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	item = soft_exec_item(exec, (struct soft_node *)node);
	if (item)
		*enabled = !item->disabled;
	else
		res = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

static bool same_shape(const struct soft_exec *a, const struct soft_exec *b,
		       CUgraphExecUpdateResultInfo *info);

static bool
same_bodies(const struct soft_branch_work *a, const struct soft_branch_work *b,
	    CUgraphExecUpdateResultInfo *info)
{
	info->result = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
	if (a->type != b->type || a->count != b->count)
		return false;
	for (unsigned i = 0; i < a->count; i++)
		if (!same_shape(a->execs[i], b->execs[i], info))
			return false;
	info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	return true;
}

/* The names of nodes stay, those in bodies too. */
static void
swap_work(struct soft_exec *exec, struct soft_exec *fresh)
{
	for (unsigned i = 0; i < exec->count; i++) {
		struct soft_work *a = exec->items[i].work;
		struct soft_work *b = fresh->items[i].work;

		exec->items[i].work = b;
		fresh->items[i].work = a;
		if (a->kind != SOFT_WORK_BRANCH)
			continue;
		for (unsigned k = 0; k < a->branch.count; k++) {
			struct soft_exec *old = a->branch.execs[k];

			swap_work(old, b->branch.execs[k]);
			a->branch.execs[k] = b->branch.execs[k];
			b->branch.execs[k] = old;
		}
	}
}

static bool
same_shape(const struct soft_exec *a, const struct soft_exec *b,
	   CUgraphExecUpdateResultInfo *info)
{
	info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	if (a->count != b->count)
		return false;
	for (unsigned i = 0; i < a->count; i++) {
		const struct soft_item *x = &a->items[i], *y = &b->items[i];

		info->errorNode = (CUgraphNode)y->node;
		if (x->dep_count != y->dep_count ||
		    (x->dep_count && memcmp(x->deps, y->deps, x->dep_count *
					    sizeof(*x->deps))))
			return false;
		if (x->work->kind == y->work->kind &&
		    x->work->kind != SOFT_WORK_BRANCH)
			continue;
		if (x->work->kind == y->work->kind &&
		    same_bodies(&x->work->branch, &y->work->branch, info))
			continue;
		if (x->work->kind == y->work->kind)
			return false;
		info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		return false;
	}
	info->errorNode = NULL;
	info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
	return true;
}

/* The new graph's parameters, in the order in which nodes were added. */
static CUresult
update_locked(struct soft_exec *exec, struct soft_graph *graph,
	      CUgraphExecUpdateResultInfo *info)
{
	struct soft_exec *fresh;
	CUresult res = soft_exec_new(graph, exec->ctx, &fresh);

	if (res)
		return res;
	if (same_shape(exec, fresh, info)) {
		soft_conds_give(exec);
		swap_work(exec, fresh);
		soft_conds_take(graph, exec);
	} else {
		res = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	soft_handle_del(fresh, SOFT_HANDLE_EXEC);
	soft_exec_unref(fresh);
	return res;
}

CUresult
cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph hgraph,
		     CUgraphExecUpdateResultInfo *info)
{
	struct soft_graph *graph;
	struct soft_exec *exec;
	CUresult res = exec_from(handle, &exec);

	if (!res)
		res = graph_from(hgraph, &graph);
	if (res)
		return res;
	if (!info || graph->is_moved)
		return CUDA_ERROR_INVALID_VALUE;
	memset(info, 0, sizeof(*info));
	pthread_mutex_lock(&soft_graph_lock);
	res = update_locked(exec, graph, info);
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}
