/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points that add nodes and read or replace what they do.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "shim/ctx.h"
#include "shim/function.h"
#include "shim/graph.h"
#include "shim/graph_mem.h"
#include "shim/library.h"
#include "shim_impl.h"

/* ---- adding ---- */

CUresult
shim_deps_read_locked(const CUgraphNode *deps, const CUgraphEdgeData *data,
		      size_t count, struct shim_edges *out)
{
	CUresult r = CUDA_SUCCESS;

	if (count > 0 && deps == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		struct shim_node *node = shim_node_get_locked(deps[i]);

		r = node == NULL ? CUDA_ERROR_INVALID_VALUE :
		    shim_edges_add(out, node, data == NULL ? NULL : &data[i]);
	}
	return r;
}

CUresult
shim_graph_add_locked(CUgraph handle, const CUgraphNode *deps,
		      const CUgraphEdgeData *data, size_t count,
		      struct shim_work *work, struct shim_node **out)
{
	struct shim_graph *graph = shim_graph_get_locked(handle);
	struct shim_edges edges = {0};
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (graph != NULL)
		r = shim_deps_read_locked(deps, data, count, &edges);
	if (r == CUDA_SUCCESS)
		r = shim_branch_check_locked(graph, work);
	if (r == CUDA_SUCCESS)
		r = shim_node_add_locked(graph, work, &edges, out);
	else
		shim_work_clear_locked(work);
	shim_edges_clear(&edges);
	return r;
}

/* Takes work over when r is success. */
static CUresult
add(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps,
    const CUgraphEdgeData *data, size_t count, CUresult r,
    struct shim_work *work)
{
	struct shim_node *node;

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	if (out == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
		shim_work_clear_locked(work);
	} else {
		r = shim_graph_add_locked(handle, deps, data, count, work,
					  &node);
	}
	if (r == CUDA_SUCCESS)
		*out = shim_node_handle_locked(node);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

/* The child graph itself becomes the node's, and its nodes keep the names
 * that the program knows; it stays the program's when that fails. */
static CUresult
add_moved(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps,
	  const CUgraphEdgeData *data, size_t count, CUgraph child)
{
	struct shim_work empty = { .type = CU_GRAPH_NODE_TYPE_EMPTY };
	struct shim_graph *graph;
	struct shim_node *node;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(child);
	if (out != NULL && graph != NULL)
		r = shim_graph_add_locked(handle, deps, data, count, &empty,
					  &node);
	if (r == CUDA_SUCCESS) {
		r = shim_node_move_locked(node, graph);
		if (r == CUDA_SUCCESS)
			*out = shim_node_handle_locked(node);
		else
			shim_node_remove_locked(node);
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
			     const CUgraphNode *dependencies,
			     size_t numDependencies,
			     const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_kernel(nodeParams, &work);

	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r,
		   &work);
}

/* What version 1 lacks is the kernel handle and the context. */
static CUresult
work_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p, struct shim_work *out)
{
	CUDA_KERNEL_NODE_PARAMS v2 = {0};

	_Static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS, kern) ==
		       sizeof(*p), "cuda.h");
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&v2, p, sizeof(*p));
	return shim_work_kernel(&v2, out);
}

CUresult
shim_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			  const CUgraphNode *dependencies,
			  size_t numDependencies,
			  const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	struct shim_work work;
	CUresult r = work_kernel_v1(nodeParams, &work);

	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r,
		   &work);
}

CUresult
shim_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			  const CUgraphNode *dependencies,
			  size_t numDependencies,
			  const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct shim_work work;
	CUresult r = shim_work_copy(copyParams, &work);

	(void)ctx;      /* one address space for all of them */
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r,
		   &work);
}

CUresult
shim_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			  const CUgraphNode *dependencies,
			  size_t numDependencies,
			  const CUDA_MEMSET_NODE_PARAMS *memsetParams,
			  CUcontext ctx)
{
	struct shim_work work;
	CUresult r = shim_work_fill(memsetParams, &work);

	(void)ctx;
	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r,
		   &work);
}

CUresult
shim_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			const CUgraphNode *dependencies,
			size_t numDependencies,
			const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_host(nodeParams, &work);

	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r,
		   &work);
}

CUresult
shim_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			      const CUgraphNode *dependencies,
			      size_t numDependencies, CUgraph childGraph)
{
	CUgraphNodeParams p = {
		.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph.graph = childGraph,
	};
	struct shim_work work;
	/* The driver does not come back from a graph in itself. */
	CUresult r = childGraph == hGraph ? CUDA_ERROR_INVALID_VALUE :
					    shim_work_any(&p, &work);

	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r,
		   &work);
}

CUresult
shim_cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			 const CUgraphNode *dependencies,
			 size_t numDependencies)
{
	struct shim_work work = { .type = CU_GRAPH_NODE_TYPE_EMPTY };

	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies,
		   CUDA_SUCCESS, &work);
}

CUresult
shim_cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			       const CUgraphNode *dependencies,
			       size_t numDependencies, CUevent event)
{
	struct shim_work work;
	CUresult r = shim_work_event(event, false, &work);

	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r,
		   &work);
}

CUresult
shim_cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			     const CUgraphNode *dependencies,
			     size_t numDependencies, CUevent event)
{
	struct shim_work work;
	CUresult r = shim_work_event(event, true, &work);

	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r,
		   &work);
}

CUresult
shim_cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			      const CUgraphNode *dependencies,
			      size_t numDependencies,
			      const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_memops(nodeParams, &work);

	return add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r,
		   &work);
}

/* The two versions of the structure differ in name. */
_Static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) ==
	       sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2), "cuda.h");

CUresult
shim_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
		       const CUgraphNode *dependencies,
		       const CUgraphEdgeData *dependencyData,
		       size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	struct shim_work work;
	CUgraph *list;
	CUresult r;

	if (nodeParams != NULL && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH &&
	    nodeParams->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
		return add_moved(phGraphNode, hGraph, dependencies,
				 dependencyData, numDependencies,
				 nodeParams->graph.graph);
	if (nodeParams != NULL &&
	    nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return shim_graph_add_alloc(phGraphNode, hGraph, dependencies,
			dependencyData, numDependencies,
			(CUDA_MEM_ALLOC_NODE_PARAMS *)&nodeParams->alloc);
	if (nodeParams != NULL &&
	    nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return shim_graph_add_free(phGraphNode, hGraph, dependencies,
			dependencyData, numDependencies, nodeParams->free.dptr);
	r = shim_work_any(nodeParams, &work);
	/* The node's from the moment on in which it is added. */
	list = r == CUDA_SUCCESS &&
	       work.type == CU_GRAPH_NODE_TYPE_CONDITIONAL ?
	       work.branch.list : NULL;
	r = add(phGraphNode, hGraph, dependencies, dependencyData,
		numDependencies, r, &work);
	if (r == CUDA_SUCCESS && list != NULL)
		nodeParams->conditional.phGraph_out = list;
	return r;
}

CUresult
shim_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
		    const CUgraphNode *dependencies, size_t numDependencies,
		    CUgraphNodeParams *nodeParams)
{
	return shim_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL,
				      numDependencies, nodeParams);
}

/* ---- reading ---- */

/* The node, if it is one of that type. */
static struct shim_node *
typed_locked(CUgraphNode handle, CUgraphNodeType type)
{
	struct shim_node *node = shim_node_get_locked(handle);

	return node != NULL && node->work.type == type ? node : NULL;
}

static CUresult
read_kernel_locked(struct shim_kernel_work *k, CUDA_KERNEL_NODE_PARAMS *out)
{
	const struct shim_function *f =
		shim_object_get(HANDLE_FUNCTION, k->head.function);
	const struct function_info *info = f == NULL ? NULL : f->info;

	if (info == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	free(k->list);
	k->list = calloc(info->nparams + 1, sizeof(*k->list));
	if (k->list == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < info->nparams; i++)
		k->list[i] = k->params + info->params[i].offset;
	memset(out, 0, sizeof(*out));
	out->func = (CUfunction)(uintptr_t)k->head.function;
	/* The runtime knows its kernels by this one. */
	if (f->kernel != NULL)
		out->kern = (CUkernel)(uintptr_t)f->kernel->object.handle;
	out->gridDimX = k->head.grid[0];
	out->gridDimY = k->head.grid[1];
	out->gridDimZ = k->head.grid[2];
	out->blockDimX = k->head.block[0];
	out->blockDimY = k->head.block[1];
	out->blockDimZ = k->head.block[2];
	out->sharedMemBytes = k->head.shared;
	out->kernelParams = k->list;
	out->ctx = (CUcontext)(uintptr_t)f->object.ctx->handle;
	return CUDA_SUCCESS;
}

CUresult
shim_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
				   CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct shim_node *node;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (nodeParams == NULL)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	node = typed_locked(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
	if (node != NULL)
		r = read_kernel_locked(&node->work.kernel, nodeParams);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuGraphKernelNodeGetParams(CUgraphNode hNode,
				CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS v2;
	CUresult r = shim_cuGraphKernelNodeGetParams_v2(
		hNode, nodeParams == NULL ? NULL : &v2);

	if (r == CUDA_SUCCESS)
		memcpy(nodeParams, &v2, sizeof(*nodeParams));
	return r;
}

/* Copies the plain structure that a node of that type holds. */
static CUresult
read_plain(CUgraphNode handle, CUgraphNodeType type, size_t offset,
	   size_t size, void *out)
{
	struct shim_node *node;

	if (out == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&shim_graph_lock);
	node = typed_locked(handle, type);
	if (node != NULL)
		memcpy(out, (const uint8_t *)&node->work + offset, size);
	pthread_mutex_unlock(&shim_graph_lock);
	return node == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult
shim_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	return read_plain(hNode, CU_GRAPH_NODE_TYPE_MEMCPY,
			  offsetof(struct shim_work, copy),
			  sizeof(*nodeParams), nodeParams);
}

CUresult
shim_cuGraphMemsetNodeGetParams(CUgraphNode hNode,
				CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	return read_plain(hNode, CU_GRAPH_NODE_TYPE_MEMSET,
			  offsetof(struct shim_work, fill),
			  sizeof(*nodeParams), nodeParams);
}

CUresult
shim_cuGraphHostNodeGetParams(CUgraphNode hNode,
			      CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return read_plain(hNode, CU_GRAPH_NODE_TYPE_HOST,
			  offsetof(struct shim_work, host),
			  sizeof(*nodeParams), nodeParams);
}

CUresult
shim_cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return read_plain(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
			  offsetof(struct shim_work, event),
			  sizeof(*event_out), event_out);
}

CUresult
shim_cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return read_plain(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
			  offsetof(struct shim_work, event),
			  sizeof(*event_out), event_out);
}

/* The list is the node's, which keeps it. */
CUresult
shim_cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
				    CUDA_BATCH_MEM_OP_NODE_PARAMS *out)
{
	return read_plain(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
			  offsetof(struct shim_work, memops), sizeof(*out),
			  out);
}

CUresult
shim_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	struct shim_node *node;

	if (phGraph == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&shim_graph_lock);
	node = typed_locked(hNode, CU_GRAPH_NODE_TYPE_GRAPH);
	if (node != NULL)
		*phGraph = (CUgraph)(uintptr_t)node->work.child->object.handle;
	pthread_mutex_unlock(&shim_graph_lock);
	return node == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- replacing ---- */

/* Takes work over when r is success. A kernel node keeps its attributes. */
static CUresult
replace(CUgraphNode handle, CUresult r, struct shim_work *work)
{
	struct shim_node *node;

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	node = typed_locked(handle, work->type);
	if (node == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
		shim_work_clear_locked(work);
	} else {
		if (work->type == CU_GRAPH_NODE_TYPE_KERNEL)
			shim_work_keep_attrs(&node->work.kernel,
					     &work->kernel);
		shim_work_clear_locked(&node->work);
		shim_node_take(node, work);
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
				   const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_kernel(nodeParams, &work);

	return replace(hNode, r, &work);
}

CUresult
shim_cuGraphKernelNodeSetParams(CUgraphNode hNode,
				const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	struct shim_work work;
	CUresult r = work_kernel_v1(nodeParams, &work);

	return replace(hNode, r, &work);
}

CUresult
shim_cuGraphMemcpyNodeSetParams(CUgraphNode hNode,
				const CUDA_MEMCPY3D *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_copy(nodeParams, &work);

	return replace(hNode, r, &work);
}

CUresult
shim_cuGraphMemsetNodeSetParams(CUgraphNode hNode,
				const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_fill(nodeParams, &work);

	return replace(hNode, r, &work);
}

CUresult
shim_cuGraphHostNodeSetParams(CUgraphNode hNode,
			      const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_host(nodeParams, &work);

	return replace(hNode, r, &work);
}

CUresult
shim_cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	struct shim_work work;
	CUresult r = shim_work_event(event, false, &work);

	return replace(hNode, r, &work);
}

CUresult
shim_cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	struct shim_work work;
	CUresult r = shim_work_event(event, true, &work);

	return replace(hNode, r, &work);
}

CUresult
shim_cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
	const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	struct shim_work work;
	CUresult r = shim_work_memops(nodeParams, &work);

	return replace(hNode, r, &work);
}

CUresult
shim_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	struct shim_work work;
	CUresult r;

	if (nodeParams != NULL &&
	    nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = shim_work_any(nodeParams, &work);
	return replace(hNode, r, &work);
}

/* ---- attributes of kernel nodes ---- */

CUresult
shim_cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
				   CUkernelNodeAttrValue *value_out)
{
	struct shim_node *node;

	if (value_out == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&shim_graph_lock);
	node = typed_locked(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
	if (node != NULL && !shim_work_get_attr(&node->work.kernel, attr,
						value_out))
		node = NULL;
	pthread_mutex_unlock(&shim_graph_lock);
	return node == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult
shim_cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
				   const CUkernelNodeAttrValue *value)
{
	struct shim_node *node;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (value == NULL)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	node = typed_locked(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
	if (node != NULL)
		r = shim_work_set_attr(&node->work.kernel, attr, value);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	struct shim_node *to, *from;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&shim_graph_lock);
	to = typed_locked(dst, CU_GRAPH_NODE_TYPE_KERNEL);
	from = typed_locked(src, CU_GRAPH_NODE_TYPE_KERNEL);
	if (to != NULL && from != NULL)
		r = shim_work_copy_attrs(&to->work.kernel, &from->work.kernel);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}
