/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of single nodes of an executable graph: in place, as natively.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/graph_exec.h"
#include "shim/memop.h"
#include "shim_calls.h"
#include "shim_impl.h"

/* ---- finding ---- */

struct shim_item *
shim_exec_item(struct shim_exec *exec, CUgraphNode handle, int type)
{
	struct shim_item *found = NULL;
	const struct shim_node *node;

	pthread_mutex_lock(&shim_graph_lock);
	node = exec->segments == NULL ? NULL : shim_node_get_locked(handle);
	for (uint32_t i = 0; node != NULL && i < exec->flat.count; i++) {
		struct shim_item *item = &exec->flat.items[i];

		if (item->node->origin != node->id)
			continue;
		if (type < 0 || item->node->work.type == (CUgraphNodeType)type)
			found = item;
		break;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return found;
}

static uint64_t
segment_of(const struct shim_exec *exec, const struct shim_item *item)
{
	return exec->segments[item->depth]->object.handle;
}

static void
store(struct shim_item *item, struct shim_work *work)
{
	pthread_mutex_lock(&shim_graph_lock);
	shim_work_clear_locked(&item->node->work);
	item->node->work = *work;
	memset(work, 0, sizeof(*work));
	work->type = CU_GRAPH_NODE_TYPE_EMPTY;
	pthread_mutex_unlock(&shim_graph_lock);
}

/* ---- one node ---- */

static CUresult
set_kernel(struct shim_exec *exec, struct shim_item *item,
	   struct shim_work *work)
{
	struct shim_kernel_work *old = &item->node->work.kernel;
	struct shim_kernel_work *k = &work->kernel;
	CUresult r;

	shim_work_keep_attrs(old, k);
	r = call_mpsGraphSetKernel(exec->chan, segment_of(exec, item),
				   item->index, &k->head, sizeof(k->head),
				   k->params, k->param_bytes, k->attrs,
				   k->head.nattrs * sizeof(*k->attrs));
	if (r != CUDA_SUCCESS)
		shim_work_keep_attrs(k, old);
	return r;
}

static CUresult
set_copy(struct shim_exec *exec, struct shim_item *item,
	 struct shim_work *work)
{
	struct graph_copy copy;
	unsigned int flags;
	CUresult r;

	/* To or from arrays, or memory that this process copies, is another
	 * shape; the item is gone then. */
	if (item->box != NULL || shim_copy_has_array(&work->copy))
		return shim_exec_recopy(exec, item->node, &work->copy);
	r = shim_copy_linear(&work->copy, &copy, &flags);
	if (r == CUDA_SUCCESS && (flags != 0 || item->kind != ITEM_NODE))
		return shim_exec_recopy(exec, item->node, &work->copy);
	if (r == CUDA_SUCCESS)
		r = call_mpsGraphSetCopy(exec->chan, segment_of(exec, item),
					 item->index, &copy, sizeof(copy));
	if (r == CUDA_SUCCESS)
		item->copy = copy;
	return r;
}

static CUresult
set_item(struct shim_exec *exec, struct shim_item *item,
	 struct shim_work *work)
{
	switch (work->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return set_kernel(exec, item, work);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return set_copy(exec, item, work);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return call_mpsGraphSetFill(exec->chan, segment_of(exec, item),
			item->index, work->fill.dst, work->fill.pitch,
			work->fill.elementSize, work->fill.value,
			work->fill.width, work->fill.height);
	case CU_GRAPH_NODE_TYPE_HOST:
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return shim_memops_alike(&item->node->work.memops,
					 &work->memops) ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return call_mpsGraphSetEvent(exec->chan,
			segment_of(exec, item), item->index,
			(uintptr_t)work->event,
			work->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* Takes work over when r is success. */
static CUresult
set(CUgraphExec handle, CUgraphNode node, CUresult r, struct shim_work *work)
{
	struct shim_exec *exec;
	struct shim_item *item;

	if (r != CUDA_SUCCESS)
		return r;
	exec = shim_exec_get(handle);
	if (exec == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		pthread_mutex_lock(&exec->lock);
		item = shim_exec_item(exec, node, work->type);
		r = item == NULL ? CUDA_ERROR_INVALID_VALUE :
				   set_item(exec, item, work);
		if (r == CUDA_SUCCESS &&
		    work->type == CU_GRAPH_NODE_TYPE_MEMCPY)
			item = shim_exec_item(exec, node, work->type);
		if (r == CUDA_SUCCESS && item != NULL)
			store(item, work);
		pthread_mutex_unlock(&exec->lock);
		shim_exec_put(exec);
	}
	pthread_mutex_lock(&shim_graph_lock);
	shim_work_clear_locked(work);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec,
				       CUgraphNode hNode,
				       const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_kernel(nodeParams, &work);

	return set(hGraphExec, hNode, r, &work);
}

CUresult
shim_cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				    const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS v2 = {0};

	if (nodeParams == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&v2, nodeParams, sizeof(*nodeParams));
	return shim_cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &v2);
}

CUresult
shim_cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				    const CUDA_MEMCPY3D *copyParams,
				    CUcontext ctx)
{
	struct shim_work work;
	CUresult r = shim_work_copy(copyParams, &work);

	(void)ctx;
	return set(hGraphExec, hNode, r, &work);
}

CUresult
shim_cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				    const CUDA_MEMSET_NODE_PARAMS *memsetParams,
				    CUcontext ctx)
{
	struct shim_work work;
	CUresult r = shim_work_fill(memsetParams, &work);

	(void)ctx;
	return set(hGraphExec, hNode, r, &work);
}

CUresult
shim_cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				  const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_host(nodeParams, &work);

	return set(hGraphExec, hNode, r, &work);
}

CUresult
shim_cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec,
					CUgraphNode hNode, CUevent event)
{
	struct shim_work work;
	CUresult r = shim_work_event(event, false, &work);

	return set(hGraphExec, hNode, r, &work);
}

CUresult
shim_cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec,
				      CUgraphNode hNode, CUevent event)
{
	struct shim_work work;
	CUresult r = shim_work_event(event, true, &work);

	return set(hGraphExec, hNode, r, &work);
}

CUresult
shim_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec,
	CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_memops(nodeParams, &work);

	return set(hGraphExec, hNode, r, &work);
}

CUresult
shim_cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
			      CUgraphNodeParams *nodeParams)
{
	struct shim_work work;
	CUresult r;

	if (nodeParams != NULL && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return shim_cuGraphExecChildGraphNodeSetParams(hGraphExec,
			hNode, nodeParams->graph.graph);
	if (nodeParams != NULL &&
	    nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = shim_work_any(nodeParams, &work);
	return set(hGraphExec, hNode, r, &work);
}

/* ---- on and off ---- */

static CUresult
find_switch(struct shim_exec *exec, CUgraphNode node, struct shim_item **out)
{
	*out = shim_exec_item(exec, node, -1);
	if (*out == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((*out)->node->work.type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
	case CU_GRAPH_NODE_TYPE_MEMSET:
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* A copy from or to memory of the program is one of the worker's and one of
 * this process. */
static CUresult
switch_items(struct shim_exec *exec, const struct shim_node *node, bool on)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t i = 0; i < exec->flat.count && r == CUDA_SUCCESS; i++) {
		struct shim_item *item = &exec->flat.items[i];

		if (item->node != node)
			continue;
		if (item->kind != ITEM_HOST_COPY)
			r = call_mpsGraphEnable(exec->chan,
						segment_of(exec, item),
						item->index, on);
		if (r == CUDA_SUCCESS)
			item->disabled = !on;
	}
	return r;
}

CUresult
shim_cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
			   unsigned int isEnabled)
{
	struct shim_exec *exec = shim_exec_get(hGraphExec);
	struct shim_item *item;
	CUresult r;

	if (exec == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&exec->lock);
	r = find_switch(exec, hNode, &item);
	if (r == CUDA_SUCCESS)
		r = switch_items(exec, item->node, isEnabled != 0);
	pthread_mutex_unlock(&exec->lock);
	shim_exec_put(exec);
	return r;
}

CUresult
shim_cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
			   unsigned int *isEnabled)
{
	struct shim_exec *exec;
	struct shim_item *item;
	CUresult r;

	if (isEnabled == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	exec = shim_exec_get(hGraphExec);
	if (exec == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&exec->lock);
	r = find_switch(exec, hNode, &item);
	if (r == CUDA_SUCCESS)
		*isEnabled = !item->disabled;
	pthread_mutex_unlock(&exec->lock);
	shim_exec_put(exec);
	return r;
}
