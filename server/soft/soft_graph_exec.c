/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points that change the parameters of executable graphs.
 */
#include "server/soft/soft_graph.h"

CUresult
soft_item_set(CUgraphExec handle, CUgraphNode hnode, CUgraphNodeType type,
	      struct soft_work *work)
{
	struct soft_item *item = NULL;
	struct soft_exec *exec = soft_handle_get(handle, SOFT_HANDLE_EXEC);

	pthread_mutex_lock(&soft_graph_lock);
	if (exec)
		item = soft_exec_item(exec, (struct soft_node *)hnode);
	if (item && soft_node_type_of(item->work) == type) {
		soft_work_free(item->work);
		item->work = work;
		work = NULL;
	}
	pthread_mutex_unlock(&soft_graph_lock);
	soft_work_free(work);
	return work ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult
cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
				  const CUDA_KERNEL_NODE_PARAMS *p)
{
	struct soft_work *work;
	CUresult res = soft_graph_kernel_work(p, &work);

	return res ? res :
	       soft_item_set(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, work);
}

CUresult
cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
			       const CUDA_MEMCPY3D *p, CUcontext ctx)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	(void)ctx;
	if (!res)
		res = soft_graph_copy_work(p, &work);
	return res ? res :
	       soft_item_set(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, work);
}

CUresult
cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
			       const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	(void)ctx;
	if (!res)
		res = soft_graph_set_work(p, &work);
	return res ? res :
	       soft_item_set(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, work);
}

CUresult
cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
			     const CUDA_HOST_NODE_PARAMS *p)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_host_work(p, &work);
	return res ? res :
	       soft_item_set(exec, node, CU_GRAPH_NODE_TYPE_HOST, work);
}

CUresult
cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
				   CUevent event)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_event_work(event, SOFT_WORK_RECORD, &work);
	return res ? res :
	       soft_item_set(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
			     work);
}

CUresult
cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node,
				 CUevent event)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_event_work(event, SOFT_WORK_WAIT, &work);
	return res ? res :
	       soft_item_set(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, work);
}

/* Does what follows the child's entry do the same things in the same order?
 * An item without dependencies in the new graph waits for the entry. */
static bool
child_fits(const struct soft_item *at, unsigned entry,
	   const struct soft_exec *fresh)
{
	for (unsigned i = 0; i < fresh->count; i++) {
		const struct soft_item *x = &at[i], *y = &fresh->items[i];
		unsigned n = 0;

		if (x->work->kind != y->work->kind ||
		    (x->node == NULL) != (y->node == NULL))
			return false;
		for (unsigned k = 0; k < x->dep_count; k++) {
			if (x->deps[k] == entry)
				continue;
			if (n == y->dep_count ||
			    x->deps[k] - entry - 1 != y->deps[n++])
				return false;
		}
		if (n != y->dep_count)
			return false;
	}
	return true;
}

/* The items of a child follow its entry, up to an exit without a node. */
static CUresult
child_set_locked(struct soft_exec *exec, const struct soft_node *node,
		 struct soft_graph *graph)
{
	struct soft_item *item = soft_exec_item(exec, node);
	struct soft_exec *fresh;
	unsigned entry;
	CUresult res;

	if (!item)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_exec_new(graph, exec->ctx, &fresh);
	if (res)
		return res;
	entry = (unsigned)(item - exec->items);
	if (fresh->count > exec->count - entry - 1 ||
	    !child_fits(item + 1, entry, fresh))
		res = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	for (unsigned i = 0; i < fresh->count && !res; i++) {
		struct soft_work *old = item[i + 1].work;

		item[i + 1].work = fresh->items[i].work;
		fresh->items[i].work = old;
	}
	soft_handle_del(fresh, SOFT_HANDLE_EXEC);
	soft_exec_unref(fresh);
	return res;
}

CUresult
cuGraphExecChildGraphNodeSetParams(CUgraphExec handle, CUgraphNode hnode,
				   CUgraph hgraph)
{
	struct soft_exec *exec = soft_handle_get(handle, SOFT_HANDLE_EXEC);
	struct soft_graph *graph = soft_handle_get(hgraph, SOFT_HANDLE_GRAPH);
	struct soft_node *node = soft_handle_get(hnode, SOFT_HANDLE_NODE);
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!exec || !graph || !node || node->type != CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	res = child_set_locked(exec, node, graph);
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}
