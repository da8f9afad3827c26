/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory nodes of graphs: addresses, what a launch leaves allocated and who
 * may free it, by hand and by capture; figures; and what graphs with them are
 * not for.
 */
#include <string.h>

#include "tests/api/facts.h"

enum { SIZE = 4 << 20 };

static CUcontext context;
static CUdevice device;
static CUstream stream;

/* ---- nodes ---- */

static CUDA_MEM_ALLOC_NODE_PARAMS
params(size_t size)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p;

	memset(&p, 0, sizeof(p));
	p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.poolProps.location.id = device;
	p.bytesize = size;
	return p;
}

static CUgraphNode
add_alloc(CUgraph graph, const CUgraphNode *after, CUdeviceptr *out)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = params(SIZE);
	CUgraphNode node;

	OK(cuGraphAddMemAllocNode(&node, graph, after, after != NULL, &p));
	*out = p.dptr;
	return node;
}

static CUgraphNode
add_free(CUgraph graph, const CUgraphNode *after, CUdeviceptr address)
{
	CUgraphNode node;

	OK(cuGraphAddMemFreeNode(&node, graph, after, after != NULL, address));
	return node;
}

static CUgraphNode
add_fill(CUgraph graph, const CUgraphNode *after, CUdeviceptr to,
	 uint32_t value)
{
	CUDA_MEMSET_NODE_PARAMS p;
	CUgraphNode node;

	memset(&p, 0, sizeof(p));
	p.dst = to;
	p.value = value;
	p.elementSize = 4;
	p.width = SIZE / 4;
	p.height = 1;
	OK(cuGraphAddMemsetNode(&node, graph, after, after != NULL, &p,
				context));
	return node;
}

static CUgraphNode
add_copy(CUgraph graph, const CUgraphNode *after, CUdeviceptr to,
	 CUdeviceptr from)
{
	CUDA_MEMCPY3D p;
	CUgraphNode node;

	memset(&p, 0, sizeof(p));
	p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	p.srcDevice = from;
	p.dstDevice = to;
	p.WidthInBytes = SIZE;
	p.Height = p.Depth = 1;
	OK(cuGraphAddMemcpyNode(&node, graph, after, after != NULL, &p,
				context));
	return node;
}

static CUgraphExec
make(CUgraph graph, unsigned flags)
{
	CUgraphExec exec;

	OK(cuGraphInstantiate(&exec, graph, flags));
	return exec;
}

static void
run(CUgraphExec exec)
{
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
}

static uint32_t
last_word(CUdeviceptr address)
{
	uint32_t value = 0;

	OK(cuMemcpyDtoH(&value, address + SIZE - 4, 4));
	return value;
}

/* ---- what runs ---- */

/* Everything is freed where it was allocated. */
static void
inside(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p;
	CUdeviceptr a, b, result, freed = 0;
	CUgraphNode node, alloc, release;
	CUgraphNodeType type;
	CUgraph graph;
	CUgraphExec exec;

	printf("     allocated and freed inside\n");
	OK(cuMemAlloc(&result, SIZE));
	OK(cuGraphCreate(&graph, 0));
	alloc = add_alloc(graph, NULL, &a);
	fact("an address at once", a != 0);
	node = add_fill(graph, &alloc, a, 5);
	node = add_copy(graph, &node, result, a);
	release = add_free(graph, &node, a);
	node = add_alloc(graph, &release, &b);
	fact("used once more behind its end", a == b);
	node = add_fill(graph, &node, b, 6);
	add_free(graph, &node, b);
	node = add_alloc(graph, &alloc, &b);
	fact("and not beside it", a != b);
	add_free(graph, &node, b);
	OK(cuGraphNodeGetType(alloc, &type));
	fact_is(CU_GRAPH_NODE_TYPE_MEM_ALLOC, type, "its type");
	OK(cuGraphNodeGetType(release, &type));
	fact_is(CU_GRAPH_NODE_TYPE_MEM_FREE, type, "the other's");
	OK(cuGraphMemAllocNodeGetParams(alloc, &p));
	fact("its parameters", p.dptr == a && p.bytesize == SIZE &&
	     p.poolProps.location.id == device);
	OK(cuGraphMemFreeNodeGetParams(release, &freed));
	fact("the other's address", freed == a);
	exec = make(graph, 0);
	for (int i = 0; i < 3; i++) {
		OK(cuMemsetD32(result, 0, SIZE / 4));
		OK(cuCtxSynchronize());
		run(exec);
		fact_is(5, last_word(result), "it runs, again and again");
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuMemFree(result));
}

/* A launch leaves memory behind. */
static void
outside(void)
{
	CUdeviceptr a;
	CUgraphNode node;
	CUgraph graph, freeing;
	CUgraphExec exec, freer;

	printf("     left allocated\n");
	OK(cuGraphCreate(&graph, 0));
	node = add_alloc(graph, NULL, &a);
	add_fill(graph, &node, a, 7);
	OK(cuGraphCreate(&freeing, 0));
	exec = make(graph, 0);
	run(exec);
	fact_is(7, last_word(a), "good after the launch");
	told("a second launch", cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	fact_is(CUDA_SUCCESS, cuMemFree(a), "freed by cuMemFree");
	run(exec);
	fact_is(CUDA_SUCCESS, cuMemFreeAsync(a, stream), "by cuMemFreeAsync");
	run(exec);
	add_free(freeing, NULL, a);
	freer = make(freeing, 0);
	run(freer);
	run(exec);
	run(freer);
	printf("     by another graph\n");
	OK(cuGraphExecDestroy(freer));
	run(exec);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(freeing));
	fact_is(7, last_word(a), "it outlives its graph");
	fact_is(CUDA_SUCCESS, cuMemFree(a), "until it is freed");
}

static void
automatic(void)
{
	CUdeviceptr a;
	CUgraphNode node;
	CUgraph graph;
	CUgraphExec exec;

	printf("     freed by the next launch\n");
	OK(cuGraphCreate(&graph, 0));
	node = add_alloc(graph, NULL, &a);
	add_fill(graph, &node, a, 9);
	exec = make(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	run(exec);
	run(exec);
	run(exec);
	fact_is(9, last_word(a), "as often as one likes");
	OK(cuMemFree(a));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
captured(void)
{
	CUdeviceptr a, b, result;
	CUgraph graph;
	CUgraphExec exec;
	size_t count = 0;

	printf("     by capture\n");
	OK(cuMemAlloc(&result, SIZE));
	OK(cuMemsetD32(result, 0, SIZE / 4));
	OK(cuCtxSynchronize());
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuMemAllocAsync(&a, SIZE, stream));
	OK(cuMemsetD32Async(a, 11, SIZE / 4, stream));
	OK(cuMemcpyDtoDAsync(result, a, SIZE, stream));
	OK(cuMemFreeAsync(a, stream));
	OK(cuMemAllocAsync(&b, SIZE, stream));
	fact("used once more behind its end", a == b);
	OK(cuMemsetD32Async(b, 12, SIZE / 4, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphGetNodes(graph, NULL, &count));
	fact_is(6, (long)count, "nodes");
	exec = make(graph, 0);
	run(exec);
	fact_is(11, last_word(result), "what was freed inside");
	fact_is(12, last_word(b), "what was not");
	OK(cuMemFree(b));
	run(exec);
	fact_is(12, last_word(b), "once more");
	OK(cuMemFree(b));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuMemFree(result));
}

/* ---- figures ---- */

static long
figure(CUgraphMem_attribute attr)
{
	cuuint64_t value = 0;

	OK(cuDeviceGetGraphMemAttribute(device, attr, &value));
	return (long)value;
}

static void
figures(void)
{
	cuuint64_t zero = 0, one = 1;
	CUdeviceptr a;
	CUgraphNode node;
	CUgraph graph;
	CUgraphExec exec;

	printf("     figures\n");
	OK(cuDeviceGraphMemTrim(device));
	fact_is(0, figure(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), "none is used");
	OK(cuGraphCreate(&graph, 0));
	node = add_alloc(graph, NULL, &a);
	add_free(graph, &node, a);
	exec = make(graph, 0);
	fact_is(0, figure(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT),
		"nor before a launch");
	run(exec);
	fact("but then", figure(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) >= SIZE);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	fact("and for good",
	     figure(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) >= SIZE);
	OK(cuDeviceGraphMemTrim(device));
	fact_is(0, figure(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), "if not trimmed");
	fact("the most there was", figure(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >=
	     SIZE);
	fact_is(CUDA_SUCCESS, cuDeviceSetGraphMemAttribute(device,
		CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero), "is reset");
	fact_is(0, figure(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), "to nothing");
	told("to something", cuDeviceSetGraphMemAttribute(device,
		CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &one));
	told("what is not to be set", cuDeviceSetGraphMemAttribute(device,
		CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero));
}

/* ---- refusals ---- */

static void
wrong_frees(void)
{
	CUdeviceptr a, b, plain;
	CUgraphNode node, alloc;
	CUgraph graph, other;
	CUgraphExec exec;

	printf("     what is not to be freed\n");
	OK(cuMemAlloc(&plain, SIZE));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphCreate(&other, 0));
	alloc = add_alloc(graph, NULL, &a);
	add_alloc(graph, NULL, &b);
	add_free(graph, &alloc, a);
	told("twice in a graph", cuGraphAddMemFreeNode(&node, graph, &alloc, 1,
						       a));
	told("in another as well", cuGraphAddMemFreeNode(&node, other, NULL, 0,
							 a));
	told("of cuMemAlloc", cuGraphAddMemFreeNode(&node, other, NULL, 0,
						    plain));
	told("the middle of it", cuGraphAddMemFreeNode(&node, other, NULL, 0,
						       b + 256));
	told("in another graph", cuGraphAddMemFreeNode(&node, other, NULL, 0,
						       b));
	told("and then its own", cuGraphAddMemFreeNode(&node, graph, NULL, 0,
						       b));
	exec = make(graph, 0);
	told("not allocated yet", cuMemFree(b));
	run(exec);
	told("freed inside", cuMemFree(a));
	fact_is(CUDA_SUCCESS, cuMemFree(b), "allocated");
	told("twice", cuMemFree(b));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(other));
	OK(cuMemFree(plain));
}

static void
wrong_params(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p;
	CUgraphNode node;
	CUgraph graph;

	printf("     parameters\n");
	OK(cuGraphCreate(&graph, 0));
	p = params(0);
	told("no size", cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
	p = params(SIZE);
	p.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	told("to be exported", cuGraphAddMemAllocNode(&node, graph, NULL, 0,
						      &p));
	p = params(SIZE);
	p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
	told("of no type", cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
	p = params(SIZE);
	p.poolProps.location.id = 1000;
	told("of no device", cuGraphAddMemAllocNode(&node, graph, NULL, 0,
						    &p));
	OK(cuGraphDestroy(graph));
}

static void
restrictions(void)
{
	CUgraph graph, other, copy;
	CUgraphNode node, fill, child;
	CUgraphExec exec, second;
	CUgraphNodeParams p;
	CUdeviceptr a;
	CUresult r;

	printf("     what they are not for\n");
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphCreate(&other, 0));
	node = add_alloc(graph, NULL, &a);
	fill = add_fill(graph, &node, a, 3);
	told("a clone", cuGraphClone(&copy, graph));
	told("a child", cuGraphAddChildGraphNode(&child, other, NULL, 0,
						 graph));
	told("a node less", cuGraphDestroyNode(fill));
	told("an edge less", cuGraphRemoveDependencies(graph, &node, &fill,
						       NULL, 1));
	exec = make(graph, 0);
	r = cuGraphInstantiate(&second, graph, 0);
	told("two of a graph", r);
	if (r == CUDA_SUCCESS)
		OK(cuGraphExecDestroy(second));
	OK(cuGraphExecDestroy(exec));
	exec = make(graph, 0);
	run(exec);
	fact_is(3, last_word(a), "one after the other");
	OK(cuMemFree(a));
	OK(cuGraphExecDestroy(exec));
	memset(&p, 0, sizeof(p));
	p.type = CU_GRAPH_NODE_TYPE_GRAPH;
	p.graph.graph = graph;
	p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
	r = cuGraphAddNode_v2(&child, other, NULL, NULL, 0, &p);
	told("a child by MOVE", r);
	if (r == CUDA_SUCCESS) {
		exec = make(other, 0);
		run(exec);
		fact_is(3, last_word(a), "runs");
		OK(cuMemFree(a));
		OK(cuGraphExecDestroy(exec));
	} else {
		OK(cuGraphDestroy(graph));
	}
	OK(cuGraphDestroy(other));
}

int
main(void)
{
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	inside();
	outside();
	automatic();
	captured();
	figures();
	wrong_frees();
	wrong_params();
	restrictions();
	OK(cuCtxSynchronize());
	return facts_end();
}
