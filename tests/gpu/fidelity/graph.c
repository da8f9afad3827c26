/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs, their nodes, and graphs made executable.
 */
#include "tests/gpu/fidelity/rows.h"

#define UNMAPPED ((CUdeviceptr)0xdead0000)

static struct {
	CUgraph graph, child;
	CUgraphNode empty, kernel, fill, last;
	CUfunction none;
	CUdeviceptr mem;
	CUstream stream;
	CUevent event;
	CUcontext ctx;
} g;

static CUDA_KERNEL_NODE_PARAMS
good_kernel(void)
{
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = g.none, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 1, .blockDimY = 1, .blockDimZ = 1,
	};
}

static CUDA_MEMSET_NODE_PARAMS
good_fill(void)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = g.mem, .value = 1, .elementSize = 4, .width = 4,
		.height = 1,
	};
}

static void
start(void)
{
	CUDA_KERNEL_NODE_PARAMS k;
	CUDA_MEMSET_NODE_PARAMS m;

	g.ctx = row_context();
	g.none = row_kernel("none");
	OK(cuMemAlloc_v2, &g.mem, 4096);
	OK(cuStreamCreate, &g.stream, 0);
	OK(cuEventCreate, &g.event, 0);
	OK(cuGraphCreate, &g.graph, 0);
	OK(cuGraphCreate, &g.child, 0);
	k = good_kernel();
	m = good_fill();
	OK(cuGraphAddEmptyNode, &g.empty, g.graph, NULL, 0);
	OK(cuGraphAddKernelNode_v2, &g.kernel, g.graph, &g.empty, 1, &k);
	OK(cuGraphAddMemsetNode, &g.fill, g.graph, &g.empty, 1, &m, g.ctx);
	OK(cuGraphAddEmptyNode, &g.last, g.graph, &g.kernel, 1);
}

static CUstreamBatchMemOpParams
good_write(void)
{
	return (CUstreamBatchMemOpParams){
		.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
		.writeValue.address = g.mem, .writeValue.value = 1,
	};
}

static void
memop_nodes(void)
{
	CUstreamBatchMemOpParams op = good_write();
	CUDA_BATCH_MEM_OP_NODE_PARAMS good = {
		.ctx = g.ctx, .count = 1, .paramArray = &op,
	}, p = good;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph own;

	OK(cuGraphCreate, &own, 0);
	OK(cuGraphAddBatchMemOpNode, &node, own, NULL, 0, &good);
	OK(cuGraphInstantiateWithFlags, &exec, own, 0);
#define MEMOPS(what)							\
	ROW(cuGraphAddBatchMemOpNode, what, PTR(0), g.graph, NULL, 0, &p); \
	ROW(cuGraphBatchMemOpNodeSetParams, what, node, &p);		\
	ROW(cuGraphExecBatchMemOpNodeSetParams, what, exec, node, &p);	\
	p = good;							\
	op = good_write()
	ROW(cuGraphAddBatchMemOpNode, "no out", NULL, g.graph, NULL, 0, &p);
	ROW(cuGraphAddBatchMemOpNode, "no graph", PTR(0), NULL, NULL, 0, &p);
	ROW(cuGraphAddBatchMemOpNode, "no parameters", PTR(0), g.graph, NULL,
	    0, NULL);
	p.ctx = NULL;
	MEMOPS("no context");
	p.count = 0;
	MEMOPS("none");
	p.count = 257;
	p.flags = 1;
	MEMOPS("257 and flags");
	p.flags = 1;
	MEMOPS("flags 1");
	p.paramArray = NULL;
	MEMOPS("no operations");
	op.operation = (CUstreamBatchMemOpType)99;
	MEMOPS("operation 99");
	op.writeValue.address = g.mem + 2;
	MEMOPS("between two words");
	op.writeValue.address = UNMAPPED;
	MEMOPS("to unmapped memory");
	op.writeValue.flags = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
	MEMOPS("without a barrier");
	op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	op.waitValue.flags = CU_STREAM_WAIT_VALUE_FLUSH;
	MEMOPS("a wait with a flush");
	op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	ROW(cuGraphExecBatchMemOpNodeSetParams, "another kind", exec, node,
	    &p);
	op = good_write();
	ROW(cuGraphBatchMemOpNodeGetParams, "no out", node, NULL);
	ROW(cuGraphBatchMemOpNodeGetParams, "an empty node", g.empty,
	    BYTES(0));
	ROW(cuGraphBatchMemOpNodeSetParams, "an empty node", g.empty, &p);
	ROW(cuGraphExecBatchMemOpNodeSetParams, "an empty node", exec,
	    g.empty, &p);
	ROW(cuGraphExecBatchMemOpNodeSetParams, "no parameters", exec, node,
	    NULL);
#undef MEMOPS
}

static void
kernel_nodes(void)
{
	CUDA_KERNEL_NODE_PARAMS k = good_kernel();

#define KERNEL(what)							\
	ROW(cuGraphAddKernelNode_v2, what, PTR(0), g.graph, NULL, 0, &k); \
	ROW(cuGraphKernelNodeSetParams_v2, what, g.kernel, &k);		\
	k = good_kernel()
	ROW(cuGraphAddKernelNode_v2, "no out", NULL, g.graph, NULL, 0, &k);
	ROW(cuGraphAddKernelNode_v2, "no graph", PTR(0), NULL, NULL, 0, &k);
	ROW(cuGraphAddKernelNode_v2, "no parameters", PTR(0), g.graph, NULL,
	    0, NULL);
	ROW(cuGraphAddKernelNode_v2, "dependencies of NULL", PTR(0), g.graph,
	    NULL, 1, &k);
	k.func = NULL;
	KERNEL("no function");
	k.gridDimX = 0;
	KERNEL("grid 0");
	k.blockDimX = 1025;
	KERNEL("block 1025");
	k.gridDimY = 65536;
	KERNEL("grid y 65536");
	k.sharedMemBytes = 1 << 20;
	KERNEL("shared memory of 1 MiB");
	ROW(cuGraphKernelNodeGetParams_v2, "no out", g.kernel, NULL);
	ROW(cuGraphKernelNodeGetParams_v2, "none", NULL, SOME(0));
	ROW(cuGraphKernelNodeGetParams_v2, "an empty node", g.empty, SOME(0));
	ROW(cuGraphKernelNodeSetParams_v2, "an empty node", g.empty, &k);
	ROW(cuGraphKernelNodeSetParams_v2, "no parameters", g.kernel, NULL);
	ROW(cuGraphKernelNodeSetParams_v2, "none", NULL, &k);
	ROW(cuGraphKernelNodeGetAttribute, "no out", g.kernel, 2, NULL);
	ROW(cuGraphKernelNodeGetAttribute, "attribute 99", g.kernel, 99,
	    SOME(0));
	ROW(cuGraphKernelNodeGetAttribute, "an empty node", g.empty, 2,
	    SOME(0));
	ROW(cuGraphKernelNodeSetAttribute, "no value", g.kernel, 2, NULL);
	ROW(cuGraphKernelNodeSetAttribute, "attribute 99", g.kernel, 99,
	    (void *)row_zeros);
	ROW(cuGraphKernelNodeCopyAttributes, "from an empty node", g.kernel,
	    g.empty);
}

static void
fill_nodes(void)
{
	CUDA_MEMSET_NODE_PARAMS m = good_fill();

#define FILL(what)							\
	ROW(cuGraphAddMemsetNode, what, PTR(0), g.graph, NULL, 0, &m, g.ctx); \
	ROW(cuGraphMemsetNodeSetParams, what, g.fill, &m);		\
	m = good_fill()
	ROW(cuGraphAddMemsetNode, "no out", NULL, g.graph, NULL, 0, &m,
	    g.ctx);
	ROW(cuGraphAddMemsetNode, "no parameters", PTR(0), g.graph, NULL, 0,
	    NULL, g.ctx);
	ROW(cuGraphAddMemsetNode, "no context", PTR(0), g.graph, NULL, 0, &m,
	    NULL);
	m.elementSize = 3;
	FILL("element 3");
	m.dst = 0;
	FILL("at 0");
	m.dst = UNMAPPED;
	FILL("unmapped");
	m.dst = g.mem + 2;
	FILL("odd address");
	m.width = 0;
	FILL("width 0");
	m.height = 0;
	FILL("height 0");
	m.height = 2;
	m.pitch = 4;
	FILL("pitch less than width");
	ROW(cuGraphMemsetNodeGetParams, "no out", g.fill, NULL);
	ROW(cuGraphMemsetNodeGetParams, "a kernel node", g.kernel, SOME(0));
}

static void
copy_nodes(void)
{
	static char host[256];
	const CUDA_MEMCPY3D good = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host,
		.srcPitch = 64, .srcHeight = 1,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = g.mem,
		.dstPitch = 64, .dstHeight = 1, .WidthInBytes = 32,
		.Height = 1, .Depth = 1,
	};
	CUDA_MEMCPY3D c = good;

#define COPY(what)							\
	ROW(cuGraphAddMemcpyNode, what, PTR(0), g.graph, NULL, 0, &c, g.ctx); \
	c = good
	ROW(cuGraphAddMemcpyNode, "no out", NULL, g.graph, NULL, 0, &c,
	    g.ctx);
	ROW(cuGraphAddMemcpyNode, "no parameters", PTR(0), g.graph, NULL, 0,
	    NULL, g.ctx);
	ROW(cuGraphAddMemcpyNode, "no context", PTR(0), g.graph, NULL, 0, &c,
	    NULL);
	COPY("good");
	c.WidthInBytes = 0;
	COPY("width 0");
	c.Depth = 0;
	COPY("depth 0");
	c.srcMemoryType = 9;
	COPY("source of kind 9");
	c.dstDevice = 0;
	COPY("to 0");
	c.dstDevice = UNMAPPED;
	COPY("to unmapped");
	c.srcHost = NULL;
	COPY("from NULL");
	ROW(cuGraphMemcpyNodeGetParams, "no out", g.fill, NULL);
	ROW(cuGraphMemcpyNodeGetParams, "a fill node", g.fill, SOME(0));
	ROW(cuGraphMemcpyNodeSetParams, "a fill node", g.fill, &good);
}

static void
other_nodes(void)
{
	CUDA_HOST_NODE_PARAMS h = { NULL, NULL };
	CUDA_MEM_ALLOC_NODE_PARAMS a = { .bytesize = 0 };
	CUgraphNodeParams n = { .type = 99 };

	ROW(cuGraphAddHostNode, "no function", PTR(0), g.graph, NULL, 0, &h);
	ROW(cuGraphAddHostNode, "no parameters", PTR(0), g.graph, NULL, 0,
	    NULL);
	ROW(cuGraphHostNodeGetParams, "a kernel node", g.kernel, SOME(0));
	ROW(cuGraphHostNodeSetParams, "a kernel node", g.kernel, &h);
	ROW(cuGraphAddChildGraphNode, "no child", PTR(0), g.graph, NULL, 0,
	    NULL);
	ROW(cuGraphAddChildGraphNode, "itself", PTR(0), g.graph, NULL, 0,
	    g.graph);
	ROW(cuGraphAddChildGraphNode, "no out", NULL, g.graph, NULL, 0,
	    g.child);
	ROW(cuGraphChildGraphNodeGetGraph, "a kernel node", g.kernel, PTR(0));
	ROW(cuGraphAddEmptyNode, "no out", NULL, g.graph, NULL, 0);
	ROW(cuGraphAddEmptyNode, "no graph", PTR(0), NULL, NULL, 0);
	ROW(cuGraphAddEmptyNode, "the same dependency twice", PTR(0), g.graph,
	    ((CUgraphNode[]){ g.empty, g.empty }), 2);
	ROW(cuGraphAddEmptyNode, "a node of no graph", PTR(0), g.child,
	    &g.empty, 1);
	ROW(cuGraphAddEventRecordNode, "no event", PTR(0), g.graph, NULL, 0,
	    NULL);
	ROW(cuGraphAddEventWaitNode, "no event", PTR(0), g.graph, NULL, 0,
	    NULL);
	ROW(cuGraphEventRecordNodeGetEvent, "a kernel node", g.kernel,
	    PTR(0));
	ROW(cuGraphEventRecordNodeSetEvent, "a kernel node", g.kernel,
	    g.event);
	ROW(cuGraphEventWaitNodeGetEvent, "a kernel node", g.kernel, PTR(0));
	ROW(cuGraphEventWaitNodeSetEvent, "a kernel node", g.kernel, g.event);
	ROW(cuGraphAddMemAllocNode, "0 bytes", PTR(0), g.graph, NULL, 0, &a);
	ROW(cuGraphAddMemFreeNode, "0", PTR(0), g.graph, NULL, 0, 0);
	ROW(cuGraphAddNode_v2, "kind 99", PTR(0), g.graph, NULL, NULL, 0, &n);
	ROW(cuGraphAddNode_v2, "no parameters", PTR(0), g.graph, NULL, NULL,
	    0, NULL);
	n.type = CU_GRAPH_NODE_TYPE_EMPTY;
	n.reserved2 = 1;
	ROW(cuGraphAddNode_v2, "reserved word", PTR(0), g.graph, NULL, NULL,
	    0, &n);
	ROW(cuGraphNodeSetParams, "no parameters", g.kernel, NULL);
	n.reserved2 = 0;
	ROW(cuGraphNodeSetParams, "another kind", g.kernel, &n);
	ROW(cuGraphConditionalHandleCreate, "no out", NULL, g.graph, g.ctx, 0,
	    0);
	ROW(cuGraphDebugDotPrint, "no path", g.graph, NULL, 0);
	ROW(cuGraphDebugDotPrint, "no such folder", g.graph,
	    "/nonexistent/x.dot", 0);
}

static void
edges(void)
{
	CUgraphEdgeData odd = { .type = 9 };

#define ADD(what, from, to, n)						\
	ROW(cuGraphAddDependencies_v2, what, g.graph, from, to, NULL, n)
#define REMOVE(what, from, to, n)					\
	ROW(cuGraphRemoveDependencies_v2, what, g.graph, from, to, NULL, n)
	ADD("there already", &g.empty, &g.kernel, 1);
	ADD("to itself", &g.empty, &g.empty, 1);
	ADD("a circle", &g.last, &g.empty, 1);
	ADD("from NULL", NULL, &g.kernel, 1);
	ADD("none", NULL, NULL, 0);
	ROW(cuGraphAddDependencies_v2, "kind of edge 9", g.graph, &g.fill,
	    &g.last, &odd, 1);
	REMOVE("not there", &g.fill, &g.last, 1);
	REMOVE("from NULL", NULL, &g.kernel, 1);
	ROW(cuGraphAddDependencies, "there already", g.graph, &g.empty,
	    &g.kernel, 1);
	ROW(cuGraphRemoveDependencies, "not there", g.graph, &g.fill, &g.last,
	    1);
	ROW(cuGraphGetNodes, "no count", g.graph, NULL, NULL);
	ROW(cuGraphGetNodes, "no graph", NULL, NULL, I64(0));
	ROW(cuGraphGetRootNodes, "no count", g.graph, NULL, NULL);
	ROW(cuGraphGetEdges_v2, "no count", g.graph, NULL, NULL, NULL, NULL);
	ROW(cuGraphGetEdges_v2, "the count", g.graph, NULL, NULL, NULL,
	    I64(0));
	ROW(cuGraphGetEdges_v2, "only one end", g.graph, PTR(0), NULL, NULL,
	    memset(I64(1), 0, 8));
	ROW(cuGraphNodeGetDependencies_v2, "no count", g.kernel, NULL, NULL,
	    NULL);
	ROW(cuGraphNodeGetDependencies_v2, "none", NULL, NULL, NULL, I64(0));
	ROW(cuGraphNodeGetDependentNodes_v2, "no count", g.kernel, NULL, NULL,
	    NULL);
	ROW(cuGraphNodeGetType, "no out", g.kernel, NULL);
	ROW(cuGraphNodeGetType, "none", NULL, I32(0));
	ROW(cuGraphNodeFindInClone, "no clone", PTR(0), g.kernel, g.graph);
	ROW(cuGraphNodeFindInClone, "no out", NULL, g.kernel, g.graph);
	ROW(cuGraphDestroyNode, "none", NULL);
}

void
group_graphs(void)
{
	start();
	/* Before a row can have added one. */
	ROW(cuGraphGetNodes, "the count", g.graph, NULL, I64(0));
	ROW(cuGraphCreate, "no out", NULL, 0);
	ROW(cuGraphCreate, "flags 1", PTR(0), 1);
	ROW(cuGraphClone, "no out", NULL, g.graph);
	ROW(cuGraphClone, "none", PTR(0), NULL);
	ROW(cuGraphDestroy, "none", NULL);
	kernel_nodes();
	fill_nodes();
	copy_nodes();
	other_nodes();
	edges();
	ROW(cuUserObjectCreate, "no out", NULL, NULL, (CUhostFn)ODD, 1, 1);
	ROW(cuUserObjectCreate, "no destroyer", PTR(0), NULL, NULL, 1, 1);
	ROW(cuUserObjectCreate, "0 references", PTR(0), NULL, (CUhostFn)ODD,
	    0, 1);
	ROW(cuUserObjectCreate, "flags 0", PTR(0), NULL, (CUhostFn)ODD, 1, 0);
	ROW(cuUserObjectCreate, "flags 2", PTR(0), NULL, (CUhostFn)ODD, 1, 2);
	ROW(cuUserObjectRetain, "none", NULL, 1);
	ROW(cuUserObjectRelease, "none", NULL, 1);
	ROW(cuGraphRetainUserObject, "none", g.graph, NULL, 1, 0);
	ROW(cuGraphReleaseUserObject, "none", g.graph, NULL, 1);
	ROW(cuDeviceGraphMemTrim, "device 99", 99);
	ROW(cuDeviceGetGraphMemAttribute, "attribute 99", 0, 99, I64(0));
	ROW(cuDeviceGetGraphMemAttribute, "no out", 0, 0, NULL);
	ROW(cuDeviceSetGraphMemAttribute, "attribute 99", 0, 99,
	    (void *)row_zeros);
	memop_nodes();
}

void
group_graph_execs(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS p = { .flags = 64 };
	CUDA_KERNEL_NODE_PARAMS k;
	CUDA_MEMSET_NODE_PARAMS m;
	CUgraphExecUpdateResultInfo info;
	CUgraphNode foreign;
	CUgraphExec exec;

	start();
	k = good_kernel();
	m = good_fill();
	OK(cuGraphAddEmptyNode, &foreign, g.child, NULL, 0);
	OK(cuGraphInstantiateWithFlags, &exec, g.graph, 0);
	ROW(cuGraphInstantiateWithFlags, "no out", NULL, g.graph, 0);
	ROW(cuGraphInstantiateWithFlags, "no graph", PTR(0), NULL, 0);
	ROW(cuGraphInstantiateWithFlags, "flags 64", PTR(0), g.graph, 64);
	ROW(cuGraphInstantiateWithFlags, "all flags", PTR(0), g.graph,
	    ~0ull);
	ROW(cuGraphInstantiateWithParams, "no parameters", PTR(0), g.graph,
	    NULL);
	ROW(cuGraphInstantiateWithParams, "flags 64", PTR(0), g.graph, &p);
	ROW(cuGraphInstantiateWithParams, "no out", NULL, g.graph, &p);
	ROW(cuGraphInstantiate_v2, "no out", NULL, g.graph, NULL, NULL, 0);
	ROW(cuGraphExecGetFlags, "no out", exec, NULL);
	ROW(cuGraphExecGetFlags, "none", NULL, I64(0));
	ROW(cuGraphLaunch, "none", NULL, g.stream);
	ROW(cuGraphUpload, "none", NULL, g.stream);
	ROW(cuGraphExecDestroy, "none", NULL);
	ROW(cuGraphExecUpdate_v2, "no graph", exec, NULL, &info);
	ROW(cuGraphExecUpdate_v2, "no result", exec, g.graph, NULL);
	ROW(cuGraphExecUpdate_v2, "none", NULL, g.graph, &info);
	ROW(cuGraphExecUpdate_v2, "another shape", exec, g.child, BYTES(0));
	ROW(cuGraphExecUpdate, "another shape", exec, g.child, PTR(0),
	    I32(1));
	ROW(cuGraphExecKernelNodeSetParams_v2, "none", NULL, g.kernel, &k);
	ROW(cuGraphExecKernelNodeSetParams_v2, "no node", exec, NULL, &k);
	ROW(cuGraphExecKernelNodeSetParams_v2, "an empty node", exec, g.empty,
	    &k);
	ROW(cuGraphExecKernelNodeSetParams_v2, "a node of another graph",
	    exec, foreign, &k);
	ROW(cuGraphExecKernelNodeSetParams_v2, "no parameters", exec,
	    g.kernel, NULL);
	k.gridDimX = 0;
	ROW(cuGraphExecKernelNodeSetParams_v2, "grid 0", exec, g.kernel, &k);
	k = good_kernel();
	k.blockDimX = 1025;
	ROW(cuGraphExecKernelNodeSetParams_v2, "block 1025", exec, g.kernel,
	    &k);
	ROW(cuGraphExecMemsetNodeSetParams, "a kernel node", exec, g.kernel,
	    &m, g.ctx);
	ROW(cuGraphExecMemsetNodeSetParams, "no parameters", exec, g.fill,
	    NULL, g.ctx);
	m.height = 2;
	m.pitch = 64;
	ROW(cuGraphExecMemsetNodeSetParams, "two lines", exec, g.fill, &m,
	    g.ctx);
	m = good_fill();
	m.dst = 0;
	ROW(cuGraphExecMemsetNodeSetParams, "at 0", exec, g.fill, &m, g.ctx);
	ROW(cuGraphExecMemcpyNodeSetParams, "a kernel node, no parameters",
	    exec, g.kernel, NULL, g.ctx);
	ROW(cuGraphExecHostNodeSetParams, "no parameters", exec, g.kernel,
	    NULL);
	ROW(cuGraphExecChildGraphNodeSetParams, "a kernel node", exec,
	    g.kernel, g.child);
	ROW(cuGraphExecEventRecordNodeSetEvent, "a kernel node", exec,
	    g.kernel, g.event);
	ROW(cuGraphExecEventWaitNodeSetEvent, "a kernel node", exec, g.kernel,
	    g.event);
	ROW(cuGraphExecNodeSetParams, "no parameters", exec, g.kernel, NULL);
	ROW(cuGraphNodeSetEnabled, "an empty node", exec, g.empty, 0);
	ROW(cuGraphNodeSetEnabled, "none", NULL, g.kernel, 0);
	ROW(cuGraphNodeSetEnabled, "a node of another graph", exec, foreign,
	    0);
	ROW(cuGraphNodeSetEnabled, "value 7", exec, g.kernel, 7);
	ROW(cuGraphNodeGetEnabled, "no out", exec, g.kernel, NULL);
	ROW(cuGraphNodeGetEnabled, "an empty node", exec, g.empty, I32(0));
	ROW(cuGraphNodeGetEnabled, "none", NULL, g.kernel, I32(0));
}
