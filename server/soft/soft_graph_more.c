/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of graphs for older programs, kernel node attributes, and
 * objects that live as long as a graph.
 */
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_graph.h"

/* Version 1 of the parameters has no kernel handle and no context. */
static CUDA_KERNEL_NODE_PARAMS
from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS q;

	memset(&q, 0, sizeof(q));
	memcpy(&q, p, sizeof(*p));
	return q;
}

CUresult
cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
		     size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS q;

	if (!p)
		return cuGraphAddKernelNode_v2(out, graph, deps, count, NULL);
	q = from_v1(p);
	return cuGraphAddKernelNode_v2(out, graph, deps, count, &q);
}

CUresult
cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS q;
	CUresult res = cuGraphKernelNodeGetParams_v2(node, p ? &q : NULL);

	if (!res)
		memcpy(p, &q, sizeof(*p));
	return res;
}

CUresult
cuGraphKernelNodeSetParams(CUgraphNode node,
			   const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS q;

	if (!p)
		return cuGraphKernelNodeSetParams_v2(node, NULL);
	q = from_v1(p);
	return cuGraphKernelNodeSetParams_v2(node, &q);
}

CUresult
cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
			       const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS q;

	if (!p)
		return cuGraphExecKernelNodeSetParams_v2(exec, node, NULL);
	q = from_v1(p);
	return cuGraphExecKernelNodeSetParams_v2(exec, node, &q);
}

static CUresult
kernel_node(CUgraphNode handle, struct soft_kernel_work **out)
{
	struct soft_node *node;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	node = soft_handle_get(handle, SOFT_HANDLE_NODE);
	if (!node || node->type != CU_GRAPH_NODE_TYPE_KERNEL)
		return CUDA_ERROR_INVALID_VALUE;
	*out = &node->work->kernel;
	return CUDA_SUCCESS;
}

CUresult
cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID attr,
			      CUkernelNodeAttrValue *value)
{
	struct soft_kernel_work *k;
	CUresult res = kernel_node(handle, &k);

	if (res)
		return res;
	soft_follow(value);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	memset(value, 0, sizeof(*value));
	switch ((unsigned)attr) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		value->cooperative = k->cooperative;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		value->priority = k->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		value->clusterDim.x = k->cluster[0];
		value->clusterDim.y = k->cluster[1];
		value->clusterDim.z = k->cluster[2];
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID attr,
			      const CUkernelNodeAttrValue *value)
{
	struct soft_kernel_work *k;
	CUresult res = kernel_node(handle, &k);

	if (res)
		return res;
	soft_follow(value);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if ((unsigned)attr != CU_LAUNCH_ATTRIBUTE_PRIORITY)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&soft_graph_lock);
	k->priority = value->priority;
	k->has_priority = true;
	pthread_mutex_unlock(&soft_graph_lock);
	return CUDA_SUCCESS;
}

/* The program's object, destroyed with its last reference. */
struct user_object {
	_Atomic unsigned refs;
	void *data;
	CUhostFn destroy;
};

static void
object_unref(struct user_object *object, unsigned count)
{
	if (atomic_fetch_sub(&object->refs, count) != count)
		return;
	soft_handle_del(object, SOFT_HANDLE_USER);
	object->destroy(object->data);
	free(object);
}

static CUresult
object_from(CUuserObject handle, unsigned count, struct user_object **out)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	*out = soft_handle_get(handle, SOFT_HANDLE_USER);
	return *out && count && count <= INT32_MAX ? CUDA_SUCCESS :
	       CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy,
		   unsigned int refs, unsigned int flags)
{
	struct user_object *object;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!out || !destroy || !refs || refs > INT32_MAX ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	object = calloc(1, sizeof(*object));
	if (!object || !soft_handle_add(object, SOFT_HANDLE_USER)) {
		free(object);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	object->refs = refs;
	object->data = data;
	object->destroy = destroy;
	*out = (CUuserObject)object;
	return CUDA_SUCCESS;
}

CUresult
cuUserObjectRetain(CUuserObject handle, unsigned int count)
{
	struct user_object *object;
	CUresult res = object_from(handle, count, &object);

	if (!res)
		atomic_fetch_add(&object->refs, count);
	return res;
}

CUresult
cuUserObjectRelease(CUuserObject handle, unsigned int count)
{
	struct user_object *object;
	CUresult res = object_from(handle, count, &object);

	if (!res && count > atomic_load(&object->refs))
		res = CUDA_ERROR_INVALID_VALUE;
	if (!res)
		object_unref(object, count);
	return res;
}

/* What a graph holds of user objects. */
struct soft_held {
	struct user_object *object;
	unsigned count;
	struct soft_held *next;
};

CUresult
cuGraphRetainUserObject(CUgraph hgraph, CUuserObject handle,
			unsigned int count, unsigned int flags)
{
	struct user_object *object;
	struct soft_graph *graph;
	struct soft_held *held;
	CUresult res = object_from(handle, count, &object);

	if (res)
		return res;
	graph = soft_handle_get(hgraph, SOFT_HANDLE_GRAPH);
	if (!graph || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	held = calloc(1, sizeof(*held));
	if (!held)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* With MOVE the caller's references become the graph's. */
	if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
		atomic_fetch_add(&object->refs, count);
	held->object = object;
	held->count = count;
	pthread_mutex_lock(&soft_graph_lock);
	held->next = graph->held;
	graph->held = held;
	pthread_mutex_unlock(&soft_graph_lock);
	return CUDA_SUCCESS;
}

CUresult
cuGraphReleaseUserObject(CUgraph hgraph, CUuserObject handle,
			 unsigned int count)
{
	struct user_object *object;
	struct soft_graph *graph;
	struct soft_held *held;
	CUresult res = object_from(handle, count, &object);

	if (res)
		return res;
	graph = soft_handle_get(hgraph, SOFT_HANDLE_GRAPH);
	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	for (held = graph->held; held; held = held->next)
		if (held->object == object && held->count >= count)
			break;
	if (held)
		held->count -= count;
	pthread_mutex_unlock(&soft_graph_lock);
	if (!held)
		return CUDA_ERROR_INVALID_VALUE;
	object_unref(object, count);
	return CUDA_SUCCESS;
}

bool
soft_held_clone(struct soft_graph *to, const struct soft_graph *from)
{
	for (struct soft_held *h = from->held; h; h = h->next) {
		struct soft_held *copy = calloc(1, sizeof(*copy));

		if (!copy)
			return false;
		if (h->count)
			atomic_fetch_add(&h->object->refs, h->count);
		*copy = (struct soft_held){ h->object, h->count, to->held };
		to->held = copy;
	}
	return true;
}

void
soft_held_free(struct soft_graph *graph)
{
	while (graph->held) {
		struct soft_held *held = graph->held;

		graph->held = held->next;
		if (held->count)
			object_unref(held->object, held->count);
		free(held);
	}
}
