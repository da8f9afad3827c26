/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points that change the parameters of executable graphs.
 */
#include "server/soft/soft_graph.h"

/* Takes over work; the item must do the same kind of thing already. */
static CUresult
item_set(CUgraphExec handle, CUgraphNode hnode, CUgraphNodeType type,
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

	return res ? res : item_set(exec, node, CU_GRAPH_NODE_TYPE_KERNEL,
				    work);
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
	return res ? res : item_set(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY,
				    work);
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
	return res ? res : item_set(exec, node, CU_GRAPH_NODE_TYPE_MEMSET,
				    work);
}

CUresult
cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
			     const CUDA_HOST_NODE_PARAMS *p)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_host_work(p, &work);
	return res ? res : item_set(exec, node, CU_GRAPH_NODE_TYPE_HOST, work);
}

CUresult
cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
				   CUevent event)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_event_work(event, SOFT_WORK_RECORD, &work);
	return res ? res : item_set(exec, node,
				    CU_GRAPH_NODE_TYPE_EVENT_RECORD, work);
}

CUresult
cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node,
				 CUevent event)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_event_work(event, SOFT_WORK_WAIT, &work);
	return res ? res : item_set(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
				    work);
}
