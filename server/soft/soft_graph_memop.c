/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph nodes of memory operations.
 */
#include "server/soft/soft_graph.h"

CUresult
soft_graph_memop_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
		      struct soft_work **out)
{
	CUresult res;

	if (!p || !p->ctx)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_memops_work(p->count, p->paramArray, p->flags, out);
	if (!res)
		(*out)->memops.ctx = p->ctx;
	return res;
}

CUresult
cuGraphAddBatchMemOpNode(CUgraphNode *out, CUgraph graph,
			 const CUgraphNode *deps, size_t count,
			 const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_memop_work(p, &work);
	return res ? res : soft_graph_add(out, graph, deps, count, work);
}

static CUresult
node_from(CUgraphNode handle, struct soft_node **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_NODE);
	return *out && (*out)->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ?
	       CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphBatchMemOpNodeGetParams(CUgraphNode handle,
			       CUDA_BATCH_MEM_OP_NODE_PARAMS *out)
{
	struct soft_node *node;
	CUresult res = node_from(handle, &node);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
		.ctx = node->work->memops.ctx,
		.count = node->work->memops.count,
		.paramArray = node->work->memops.ops,
	};
	return CUDA_SUCCESS;
}

CUresult
cuGraphBatchMemOpNodeSetParams(CUgraphNode handle,
			       const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	struct soft_node *node;
	struct soft_work *work;
	CUresult res = node_from(handle, &node);

	if (!res)
		res = soft_graph_memop_work(p, &work);
	if (!res)
		soft_node_set(node, work);
	return res;
}

/* How many there are, and of which kinds, stays (documented). */
static bool
same_kinds(const struct soft_work *a, const struct soft_work *b)
{
	if (a->kind != SOFT_WORK_MEMOPS || a->memops.count != b->memops.count)
		return false;
	for (unsigned i = 0; i < a->memops.count; i++)
		if (a->memops.ops[i].operation != b->memops.ops[i].operation)
			return false;
	return true;
}

CUresult
cuGraphExecBatchMemOpNodeSetParams(CUgraphExec handle, CUgraphNode node,
				   const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	struct soft_exec *exec = soft_handle_get(handle, SOFT_HANDLE_EXEC);
	struct soft_item *item = NULL;
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_memop_work(p, &work);
	if (res)
		return res;
	pthread_mutex_lock(&soft_graph_lock);
	if (exec)
		item = soft_exec_item(exec, (struct soft_node *)node);
	if (!item || !same_kinds(item->work, work))
		res = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&soft_graph_lock);
	if (res) {
		soft_work_free(work);
		return res;
	}
	return soft_item_set(handle, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
			     work);
}
