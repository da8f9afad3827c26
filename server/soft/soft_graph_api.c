/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points that build graphs: nodes and their parameters.
 */
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_graph.h"
#include "server/soft/soft_launch.h"
#include "server/soft/soft_memcpy.h"
#include "server/soft/soft_module.h"

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
node_from(CUgraphNode handle, CUgraphNodeType type, struct soft_node **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_NODE);
	return *out && (*out)->type == type ? CUDA_SUCCESS :
	       CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphCreate(CUgraph *out, unsigned int flags)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraph)soft_graph_new();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuGraphDestroy(CUgraph handle)
{
	struct soft_graph *graph;
	CUresult res = graph_from(handle, &graph);

	if (res)
		return res;
	if (graph->is_child)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	soft_graph_free(graph);
	pthread_mutex_unlock(&soft_graph_lock);
	return CUDA_SUCCESS;
}

/* Takes over work. A child that moves into the node, not NULL then, stays the
 * program's on failure. */
static CUresult
add_moved(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps,
	  size_t count, struct soft_work *work, struct soft_graph *child)
{
	struct soft_graph *graph;
	struct soft_node *node;
	CUresult res = graph_from(handle, &graph);

	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!res && (!out || (count && !deps)))
		res = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !res && i < count; i++)
		if (!soft_handle_get(deps[i], SOFT_HANDLE_NODE))
			res = CUDA_ERROR_INVALID_VALUE;
	if (res) {
		soft_work_free(work);
		return res;
	}
	pthread_mutex_lock(&soft_graph_lock);
	res = soft_node_add(graph, soft_node_type_of(work), work,
			    (struct soft_node *const *)deps, count, &node);
	if (!res && child) {
		res = soft_node_move(node, child);
		if (res)
			soft_node_unadd(node);
	}
	pthread_mutex_unlock(&soft_graph_lock);
	if (!res)
		*out = (CUgraphNode)node;
	return res;
}

CUresult
soft_graph_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
	       size_t count, struct soft_work *work)
{
	return add_moved(out, graph, deps, count, work, NULL);
}

void
soft_node_set(struct soft_node *node, struct soft_work *work)
{
	pthread_mutex_lock(&soft_graph_lock);
	soft_work_free(node->work);
	node->work = work;
	pthread_mutex_unlock(&soft_graph_lock);
}

CUresult
soft_graph_kernel_work(const CUDA_KERNEL_NODE_PARAMS *p, struct soft_work **out)
{
	struct soft_launch launch;
	struct soft_ctx *ctx;
	CUresult res = soft_enter_ctx(&ctx);

	if (res)
		return res;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	launch = (struct soft_launch){
		.function = p->func ? p->func : (CUfunction)p->kern,
		.grid = { p->gridDimX, p->gridDimY, p->gridDimZ },
		.block = { p->blockDimX, p->blockDimY, p->blockDimZ },
		.dyn_shared = p->sharedMemBytes,
		.params = p->kernelParams, .extra = p->extra,
	};
	return soft_kernel_work_new(p->ctx && soft_ctx_from(p->ctx) ?
				    soft_ctx_from(p->ctx) : ctx, &launch, out);
}

CUresult
cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph,
			const CUgraphNode *deps, size_t count,
			const CUDA_KERNEL_NODE_PARAMS *p)
{
	struct soft_work *work;
	CUresult res = soft_graph_kernel_work(p, &work);

	return res ? res : soft_graph_add(out, graph, deps, count, work);
}

CUresult
cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS *p)
{
	const struct soft_kernel_info *info;
	const struct soft_kernel_work *k;
	struct soft_node *node;
	CUresult res = node_from(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node);

	if (res)
		return res;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	k = &node->work->kernel;
	info = soft_func_info(k->func);
	free(node->param_list);
	node->param_list = calloc(info->nparams + 1, sizeof(void *));
	if (!node->param_list)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < info->nparams; i++)
		node->param_list[i] = (char *)k->params +
				      info->params[i].offset;
	memset(p, 0, sizeof(*p));
	p->func = (CUfunction)k->func;
	p->gridDimX = k->grid[0];
	p->gridDimY = k->grid[1];
	p->gridDimZ = k->grid[2];
	p->blockDimX = k->block[0];
	p->blockDimY = k->block[1];
	p->blockDimZ = k->block[2];
	p->sharedMemBytes = k->dyn_shared;
	p->kernelParams = node->param_list;
	p->ctx = (CUcontext)k->ctx;
	return CUDA_SUCCESS;
}

CUresult
cuGraphKernelNodeSetParams_v2(CUgraphNode handle,
			      const CUDA_KERNEL_NODE_PARAMS *p)
{
	struct soft_node *node;
	struct soft_work *work;
	CUresult res = node_from(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node);

	if (!res)
		res = soft_graph_kernel_work(p, &work);
	if (!res)
		soft_node_set(node, work);
	return res;
}

CUresult
soft_graph_copy_work(const CUDA_MEMCPY3D *p, struct soft_work **out)
{
	return p ? soft_copy_work_new(p, out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
		     size_t count, const CUDA_MEMCPY3D *p, CUcontext ctx)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	(void)ctx;   /* one address space for all */
	if (!res)
		res = soft_graph_copy_work(p, &work);
	return res ? res : soft_graph_add(out, graph, deps, count, work);
}

CUresult
cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D *p)
{
	struct soft_node *node;
	CUresult res = node_from(handle, CU_GRAPH_NODE_TYPE_MEMCPY, &node);

	if (res)
		return res;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	*p = node->work->copy.params;
	return CUDA_SUCCESS;
}

CUresult
cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D *p)
{
	struct soft_node *node;
	struct soft_work *work;
	CUresult res = node_from(handle, CU_GRAPH_NODE_TYPE_MEMCPY, &node);

	if (!res)
		res = soft_graph_copy_work(p, &work);
	if (!res)
		soft_node_set(node, work);
	return res;
}

CUresult
soft_graph_set_work(const CUDA_MEMSET_NODE_PARAMS *p, struct soft_work **out)
{
	return p ? soft_set_work_new(p->dst, p->pitch, p->elementSize, p->value,
				     p->width, p->height, out) :
	       CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
		     size_t count, const CUDA_MEMSET_NODE_PARAMS *p,
		     CUcontext ctx)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	(void)ctx;
	if (!res)
		res = soft_graph_set_work(p, &work);
	return res ? res : soft_graph_add(out, graph, deps, count, work);
}

CUresult
cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS *p)
{
	const struct soft_set_work *set;
	struct soft_node *node;
	CUresult res = node_from(handle, CU_GRAPH_NODE_TYPE_MEMSET, &node);

	if (res)
		return res;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	set = &node->work->set;
	*p = (CUDA_MEMSET_NODE_PARAMS){
		.dst = set->dst, .pitch = set->pitch, .value = set->value,
		.elementSize = set->element, .width = set->width,
		.height = set->rows,
	};
	return CUDA_SUCCESS;
}

CUresult
cuGraphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS *p)
{
	struct soft_node *node;
	struct soft_work *work;
	CUresult res = node_from(handle, CU_GRAPH_NODE_TYPE_MEMSET, &node);

	if (!res)
		res = soft_graph_set_work(p, &work);
	if (!res)
		soft_node_set(node, work);
	return res;
}

CUresult
soft_graph_host_work(const CUDA_HOST_NODE_PARAMS *p, struct soft_work **out)
{
	if (!p || !p->fn)
		return CUDA_ERROR_INVALID_VALUE;
	*out = soft_work_new(SOFT_WORK_HOST);
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*out)->host.fn = p->fn;
	(*out)->host.data = p->userData;
	return CUDA_SUCCESS;
}

CUresult
cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
		   size_t count, const CUDA_HOST_NODE_PARAMS *p)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_host_work(p, &work);
	return res ? res : soft_graph_add(out, graph, deps, count, work);
}

CUresult
cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS *p)
{
	struct soft_node *node;
	CUresult res = node_from(handle, CU_GRAPH_NODE_TYPE_HOST, &node);

	if (res)
		return res;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	p->fn = node->work->host.fn;
	p->userData = node->work->host.data;
	return CUDA_SUCCESS;
}

CUresult
cuGraphHostNodeSetParams(CUgraphNode handle, const CUDA_HOST_NODE_PARAMS *p)
{
	struct soft_node *node;
	struct soft_work *work;
	CUresult res = node_from(handle, CU_GRAPH_NODE_TYPE_HOST, &node);

	if (!res)
		res = soft_graph_host_work(p, &work);
	if (!res)
		soft_node_set(node, work);
	return res;
}

CUresult
cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
		    size_t count)
{
	CUresult res = soft_enter_live();

	return res ? res : soft_graph_add(out, graph, deps, count,
			       soft_work_new(SOFT_WORK_EMPTY));
}

CUresult
cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph,
			 const CUgraphNode *deps, size_t count, CUgraph hchild)
{
	struct soft_graph *child;
	struct soft_work *work;
	CUresult res = graph_from(hchild, &child);

	if (res)
		return res;
	soft_follow(graph != hchild);
	if (child->is_moved)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (soft_graph_branches(child))
		return CUDA_ERROR_NOT_SUPPORTED;
	work = soft_work_new(SOFT_WORK_CHILD);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&soft_graph_lock);
	work->child = soft_graph_clone(child);
	pthread_mutex_unlock(&soft_graph_lock);
	if (!work->child) {
		free(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return soft_graph_add(out, graph, deps, count, work);
}

CUresult
cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph *out)
{
	struct soft_node *node;
	CUresult res = node_from(handle, CU_GRAPH_NODE_TYPE_GRAPH, &node);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraph)node->work->child;
	return CUDA_SUCCESS;
}

CUresult
soft_graph_event_work(CUevent handle, enum soft_work_kind kind,
		      struct soft_work **out)
{
	struct soft_event *event = soft_handle_get(handle, SOFT_HANDLE_EVENT);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	*out = soft_work_new(kind);
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	soft_event_ref(event);
	(*out)->event = event;
	return CUDA_SUCCESS;
}

static CUresult
add_event(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
	  size_t count, CUevent event, enum soft_work_kind kind)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (!res)
		res = soft_graph_event_work(event, kind, &work);
	return res ? res : soft_graph_add(out, graph, deps, count, work);
}

CUresult
cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph,
			  const CUgraphNode *deps, size_t count, CUevent event)
{
	return add_event(out, graph, deps, count, event, SOFT_WORK_RECORD);
}

CUresult
cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph,
			const CUgraphNode *deps, size_t count, CUevent event)
{
	return add_event(out, graph, deps, count, event, SOFT_WORK_WAIT);
}

static CUresult
get_event(CUgraphNode handle, CUgraphNodeType type, CUevent *out)
{
	struct soft_node *node;
	CUresult res = node_from(handle, type, &node);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUevent)node->work->event;
	return CUDA_SUCCESS;
}

CUresult
cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *out)
{
	return get_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out);
}

CUresult
cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *out)
{
	return get_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out);
}

/* One entry for all kinds of nodes. */
static CUresult
any_work(CUgraphNodeParams *p, struct soft_work **out)
{
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL: {
		/* v3 differs from v2 only in what follows. */
		CUDA_KERNEL_NODE_PARAMS k = {
			.func = p->kernel.func,
			.gridDimX = p->kernel.gridDimX,
			.gridDimY = p->kernel.gridDimY,
			.gridDimZ = p->kernel.gridDimZ,
			.blockDimX = p->kernel.blockDimX,
			.blockDimY = p->kernel.blockDimY,
			.blockDimZ = p->kernel.blockDimZ,
			.sharedMemBytes = p->kernel.sharedMemBytes,
			.kernelParams = p->kernel.kernelParams,
			.extra = p->kernel.extra,
			.kern = p->kernel.kern, .ctx = p->kernel.ctx,
		};

		return soft_graph_kernel_work(&k, out);
	}
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return soft_graph_copy_work(&p->memcpy.copyParams, out);
	case CU_GRAPH_NODE_TYPE_MEMSET: {
		CUDA_MEMSET_NODE_PARAMS s = {
			.dst = p->memset.dst, .pitch = p->memset.pitch,
			.value = p->memset.value,
			.elementSize = p->memset.elementSize,
			.width = p->memset.width, .height = p->memset.height,
		};

		return soft_graph_set_work(&s, out);
	}
	case CU_GRAPH_NODE_TYPE_HOST: {
		CUDA_HOST_NODE_PARAMS h = {
			.fn = p->host.fn, .userData = p->host.userData,
		};

		return soft_graph_host_work(&h, out);
	}
	case CU_GRAPH_NODE_TYPE_EMPTY:
		*out = soft_work_new(SOFT_WORK_EMPTY);
		return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return soft_graph_event_work(p->eventRecord.event,
					     SOFT_WORK_RECORD, out);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return soft_graph_event_work(p->eventWait.event,
					     SOFT_WORK_WAIT, out);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
		CUDA_BATCH_MEM_OP_NODE_PARAMS m = {
			.ctx = p->memOp.ctx, .count = p->memOp.count,
			.paramArray = p->memOp.paramArray,
			.flags = p->memOp.flags,
		};

		return soft_graph_memop_work(&m, out);
	}
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static CUresult
add_any_child(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
	      size_t count, const CUDA_CHILD_GRAPH_NODE_PARAMS *p)
{
	struct soft_graph *child;
	CUresult res = graph_from(p->graph, &child);

	if (res)
		return res;
	if (p->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
		return add_moved(out, graph, deps, count,
				 soft_work_new(SOFT_WORK_EMPTY), child);
	/* Whatever else it says (measured). */
	return cuGraphAddChildGraphNode(out, graph, deps, count, p->graph);
}

CUresult
cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
		  const CUgraphEdgeData *data, size_t count,
		  CUgraphNodeParams *p)
{
	struct soft_work *work;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (data)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (p->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return add_any_child(out, graph, deps, count, &p->graph);
	if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return soft_branch_add(out, graph, deps, count,
				       &p->conditional);
	res = any_work(p, &work);
	return res ? res : soft_graph_add(out, graph, deps, count, work);
}

CUresult
cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
	       size_t count, CUgraphNodeParams *p)
{
	return cuGraphAddNode_v2(out, graph, deps, NULL, count, p);
}
