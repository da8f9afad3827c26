/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child graphs, and how an executable graph's nodes are changed when they are
 * a child's, or a child's child's: with a child that was moved into its
 * parent (cuGraphAddNode, ownership MOVE) the program goes on naming the nodes
 * that it made. For drivers of CUDA 12.9 and later.
 */
#include <string.h>

#include "tests/api/facts.h"

static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	/* p[0] = p[0] * k + c */
	".visible .entry mad(.param .u64 p, .param .u32 k, .param .u32 c)\n{\n"
	" .reg .b32 %r<5>; .reg .b64 %d<2>;\n"
	" ld.param.u64 %d1, [p]; ld.param.u32 %r2, [k]; ld.param.u32 %r3, [c];\n"
	" ld.global.u32 %r1, [%d1]; mad.lo.u32 %r4, %r1, %r2, %r3;\n"
	" st.global.u32 [%d1], %r4; ret;\n}\n";

/* Words of the memory: what is worked on, and what is copied from where. */
enum { VALUE, RESULT, FILLED, OTHER, WORDS };

static CUfunction mad;
static CUdeviceptr memory;
static CUcontext context;

static CUdeviceptr
word(unsigned index)
{
	return memory + 4 * index;
}

static void
clear(void)
{
	OK(cuMemsetD32(memory, 0, WORDS));
	OK(cuMemsetD32(word(VALUE), 1, 1));
	OK(cuMemsetD32(word(OTHER), 77, 1));
	OK(cuCtxSynchronize());
}

static uint32_t
peek(unsigned index)
{
	uint32_t value = 0;

	OK(cuMemcpyDtoH(&value, word(index), 4));
	return value;
}

static void
run(CUgraphExec exec)
{
	OK(cuGraphLaunch(exec, NULL));
	OK(cuStreamSynchronize(NULL));
}

/* ---- parameters ---- */

struct kernel {
	CUdeviceptr p;
	uint32_t k, c;
	void *list[3];
	CUDA_KERNEL_NODE_PARAMS params;
};

static const CUDA_KERNEL_NODE_PARAMS *
kernel(struct kernel *m, uint32_t k, uint32_t c)
{
	memset(m, 0, sizeof(*m));
	m->p = word(VALUE);
	m->k = k;
	m->c = c;
	m->list[0] = &m->p;
	m->list[1] = &m->k;
	m->list[2] = &m->c;
	m->params.func = mad;
	m->params.gridDimX = m->params.gridDimY = m->params.gridDimZ = 1;
	m->params.blockDimX = m->params.blockDimY = m->params.blockDimZ = 1;
	m->params.kernelParams = m->list;
	return &m->params;
}

static CUDA_MEMCPY3D
copy(unsigned to, unsigned from)
{
	CUDA_MEMCPY3D p;

	memset(&p, 0, sizeof(p));
	p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	p.srcDevice = word(from);
	p.dstDevice = word(to);
	p.WidthInBytes = 4;
	p.Height = p.Depth = 1;
	return p;
}

static CUDA_MEMSET_NODE_PARAMS
fill(uint32_t value)
{
	CUDA_MEMSET_NODE_PARAMS p;

	memset(&p, 0, sizeof(p));
	p.dst = word(FILLED);
	p.value = value;
	p.elementSize = 4;
	p.width = p.height = 1;
	return p;
}

static CUresult
add_child(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
	  CUgraph child, int ownership)
{
	CUgraphNodeParams p;

	memset(&p, 0, sizeof(p));
	p.type = CU_GRAPH_NODE_TYPE_GRAPH;
	p.graph.graph = child;
	p.graph.ownership = (CUgraphChildGraphNodeOwnership)ownership;
	return cuGraphAddNode_v2(out, graph, after, NULL, after != NULL, &p);
}

/* ---- graphs ---- */

struct nodes {
	CUgraphNode kernel, copy, fill;
};

/* VALUE = VALUE * k + c; RESULT = VALUE; FILLED = filled. */
static CUgraph
three(struct nodes *n, uint32_t k, uint32_t c, uint32_t filled)
{
	CUDA_MEMSET_NODE_PARAMS set = fill(filled);
	CUDA_MEMCPY3D cpy = copy(RESULT, VALUE);
	struct kernel m;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&n->kernel, graph, NULL, 0, kernel(&m, k, c)));
	OK(cuGraphAddMemcpyNode(&n->copy, graph, &n->kernel, 1, &cpy,
				context));
	OK(cuGraphAddMemsetNode(&n->fill, graph, NULL, 0, &set, context));
	return graph;
}

/* Gives each of the three other work, and runs that. */
static void
change_three(CUgraphExec exec, const struct nodes *n)
{
	CUDA_MEMSET_NODE_PARAMS set = fill(6);
	CUDA_MEMCPY3D cpy = copy(RESULT, OTHER);
	struct kernel m;

	fact_is(CUDA_SUCCESS, cuGraphExecKernelNodeSetParams(exec, n->kernel,
		kernel(&m, 0, 9)), "new parameters of a kernel in it");
	fact_is(CUDA_SUCCESS, cuGraphExecMemcpyNodeSetParams(exec, n->copy,
		&cpy, context), "of a copy");
	fact_is(CUDA_SUCCESS, cuGraphExecMemsetNodeSetParams(exec, n->fill,
		&set, context), "of a fill");
	run(exec);
	fact_is(9, peek(VALUE), "the kernel's");
	fact_is(77, peek(RESULT), "the copy's");
	fact_is(6, peek(FILLED), "the fill's");
}

static void
moved(void)
{
	CUgraph graph, child, embedded;
	CUgraphNode node, other;
	CUgraphExec exec;
	struct nodes n;
	size_t count = 0;

	printf("     a child by MOVE\n");
	clear();
	child = three(&n, 3, 4, 5);
	OK(cuGraphCreate(&graph, 0));
	fact_is(CUDA_SUCCESS, add_child(&node, graph, NULL, child,
		CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE), "moves");
	OK(cuGraphChildGraphNodeGetGraph(node, &embedded));
	fact_is(1, embedded == child, "and is the node's graph itself");
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec);
	fact_is(7, peek(RESULT), "it runs");
	fact_is(5, peek(FILLED), "all of it");
	change_three(exec, &n);
	fact_is(CUDA_SUCCESS, cuGraphExecChildGraphNodeSetParams(exec, node,
		child), "its own parameters again");
	clear();
	run(exec);
	fact_is(7, peek(RESULT), "are those that its nodes have");
	change_three(exec, &n);
	OK(cuGraphAddEmptyNode(&other, child, &n.copy, 1));
	OK(cuGraphGetNodes(child, NULL, &count));
	fact_is(4, (long)count, "it can grow");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	printf("     and goes with its parent\n");
}

static void
nested(int ownership, const char *title)
{
	CUgraph graph, middle, child, fresh, embedded;
	CUgraphNode outer, inner, list[8];
	CUgraphExecUpdateResultInfo info;
	struct nodes n, unused;
	CUgraphExec exec;
	size_t count = 8;

	printf("     %s\n", title);
	clear();
	child = three(&n, 3, 4, 5);
	OK(cuGraphCreate(&middle, 0));
	OK(add_child(&inner, middle, NULL, child, ownership));
	OK(cuGraphCreate(&graph, 0));
	OK(add_child(&outer, graph, NULL, middle, ownership));
	OK(cuGraphChildGraphNodeGetGraph(outer, &embedded));
	count = 1;
	OK(cuGraphGetNodes(embedded, &inner, &count));
	OK(cuGraphChildGraphNodeGetGraph(inner, &embedded));
	count = 8;
	OK(cuGraphGetNodes(embedded, list, &count));
	fact_is(3, (long)count, "the innermost graph");
	n = (struct nodes){ list[0], list[1], list[2] };
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec);
	fact_is(7, peek(RESULT), "it runs");
	change_three(exec, &n);
	fresh = three(&unused, 10, 1, 8);
	fact_is(CUDA_SUCCESS, cuGraphExecChildGraphNodeSetParams(exec, inner,
		fresh), "another graph for the child of the child");
	clear();
	run(exec);
	fact_is(11, peek(RESULT), "its kernel");
	fact_is(8, peek(FILLED), "its fill");
	change_three(exec, &n);
	memset(&info, 0, sizeof(info));
	fact_is(CUDA_SUCCESS, cuGraphExecUpdate(exec, graph, &info),
		"an update by the whole");
	clear();
	run(exec);
	fact_is(7, peek(RESULT), "sets all as they were");
	change_three(exec, &n);
	OK(cuGraphAddEmptyNode(&unused.kernel, fresh, NULL, 0));
	fact_is(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
		cuGraphExecChildGraphNodeSetParams(exec, inner, fresh),
		"a graph of another shape");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(fresh));
}

/* A graph that would be in itself. */
static void
circles(CUgraph graph, CUgraph child)
{
	CUgraphNode node;

	fact_is(CUDA_ERROR_INVALID_VALUE, add_child(&node, child, NULL, graph,
		CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE), "its parent");
	fact_is(CUDA_ERROR_INVALID_VALUE, add_child(&node, graph, NULL, graph,
		CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE), "a graph into itself");
}

/* What cuda.h says that a moved graph is not for. */
static void
restrictions(void)
{
	CUgraph graph, child, second, again;
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node, other;
	CUgraphExec exec, none;
	struct nodes n;
	size_t count;

	printf("     what a moved child is not for\n");
	child = three(&n, 3, 4, 5);
	OK(cuGraphInstantiate(&exec, child, 0));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphCreate(&second, 0));
	OK(add_child(&node, graph, NULL, child, 42));
	OK(cuGraphDestroyNode(node));
	fact("an ownership that there is not is a clone", true);
	OK(add_child(&node, graph, NULL, child,
		     CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE));
	fact_is(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(child), "destroyed");
	fact_is(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiate(&none, child, 0),
		"instantiated");
	fact_is(CUDA_ERROR_NOT_SUPPORTED, add_child(&other, second, NULL,
		child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE), "moved again");
	fact_is(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddChildGraphNode(&other,
		second, NULL, 0, child), "cloned into another");
	fact_is(CUDA_ERROR_INVALID_VALUE, cuGraphExecUpdate(exec, child,
		&info), "an update of what was made of it");
	if (!facts_comparable())
		circles(graph, child);
	OK(cuGraphGetNodes(graph, NULL, &count));
	fact_is(1, (long)count, "a node is not left behind");
	OK(cuGraphClone(&again, graph));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroyNode(node));
	if (!facts_comparable())
		fact_is(CUDA_ERROR_INVALID_VALUE,
			cuGraphGetNodes(child, NULL, &count),
			"it goes with its node");
	clear();
	OK(cuGraphInstantiate(&exec, again, 0));
	run(exec);
	fact_is(7, peek(RESULT), "a clone of its parent lives on");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(second));
	OK(cuGraphDestroy(again));
}

/* Copies from and to memory that is the program's own. */
static void
pageable(void)
{
	static uint32_t in[2] = { 21, 22 }, out[2];
	CUDA_MEMCPY3D p = copy(VALUE, OTHER), q = copy(OTHER, VALUE);
	CUgraphNode first, middle, last;
	unsigned enabled = 0;
	struct kernel m;
	CUgraph graph;
	CUgraphExec exec;

	printf("     copies from and to the program's memory\n");
	clear();
	p.srcMemoryType = q.dstMemoryType = CU_MEMORYTYPE_HOST;
	p.srcHost = &in[0];
	q.dstHost = &out[0];
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&first, graph, NULL, 0, &p, context));
	OK(cuGraphAddKernelNode(&middle, graph, &first, 1,
				kernel(&m, 2, 0)));
	OK(cuGraphAddMemcpyNode(&last, graph, &middle, 1, &q, context));
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec);
	fact_is(42, out[0], "as made");
	p.srcHost = &in[1];
	fact_is(CUDA_SUCCESS, cuGraphExecMemcpyNodeSetParams(exec, first, &p,
		context), "from elsewhere");
	run(exec);
	fact_is(44, out[0], "it comes from there");
	q.dstHost = &out[1];
	fact_is(CUDA_SUCCESS, cuGraphExecMemcpyNodeSetParams(exec, last, &q,
		context), "to elsewhere");
	in[1] = 5;
	run(exec);
	fact_is(44, out[0], "not to the old place");
	fact_is(10, out[1], "but to the new one");
	fact_is(CUDA_SUCCESS, cuGraphNodeSetEnabled(exec, first, 0),
		"switched off");
	fact_is(CUDA_SUCCESS, cuGraphNodeGetEnabled(exec, first, &enabled),
		"it is told");
	fact_is(0, enabled, "so");
	run(exec);
	fact_is(20, out[1], "nothing comes in");
	fact_is(CUDA_SUCCESS, cuGraphNodeSetEnabled(exec, last, 0),
		"the other as well");
	fact_is(CUDA_SUCCESS, cuGraphNodeSetEnabled(exec, first, 1),
		"and the first one on");
	run(exec);
	fact_is(20, out[1], "nothing goes out");
	fact_is(CUDA_SUCCESS, cuGraphNodeSetEnabled(exec, last, 1),
		"all are on");
	run(exec);
	fact_is(10, out[1], "as before");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* From the program's memory into an array, on into the device's memory, and
 * from there into the array by capture. */
static void
arrays(void)
{
	enum { COLUMNS = 8, ROWS = 4, BYTES = 4 * COLUMNS * ROWS };
	static uint32_t in[COLUMNS * ROWS], out[COLUMNS * ROWS];
	CUDA_ARRAY_DESCRIPTOR d;
	CUDA_MEMCPY3D p, q;
	CUDA_MEMCPY2D c;
	CUgraphNode first, second;
	CUdeviceptr flat;
	CUstream stream;
	CUgraphExec exec;
	CUgraph graph;
	CUarray array;

	printf("     arrays\n");
	memset(&d, 0, sizeof(d));
	d.Width = COLUMNS;
	d.Height = ROWS;
	d.Format = CU_AD_FORMAT_UNSIGNED_INT32;
	d.NumChannels = 1;
	OK(cuArrayCreate(&array, &d));
	OK(cuMemAlloc(&flat, BYTES));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (uint32_t i = 0; i < COLUMNS * ROWS; i++)
		in[i] = 100 + i;
	memset(&p, 0, sizeof(p));
	p.srcMemoryType = CU_MEMORYTYPE_HOST;
	p.srcHost = in;
	p.srcPitch = 4 * COLUMNS;
	p.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	p.dstArray = array;
	p.WidthInBytes = 4 * COLUMNS;
	p.Height = ROWS;
	p.Depth = 1;
	memset(&q, 0, sizeof(q));
	q.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	q.srcArray = array;
	q.srcXInBytes = 4;
	q.srcY = 1;
	q.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	q.dstDevice = flat;
	q.dstPitch = 4 * COLUMNS;
	q.WidthInBytes = 4 * (COLUMNS - 1);
	q.Height = ROWS - 1;
	q.Depth = 1;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&first, graph, NULL, 0, &p, context));
	OK(cuGraphAddMemcpyNode(&second, graph, &first, 1, &q, context));
	OK(cuGraphInstantiate(&exec, graph, 0));
	for (uint32_t i = 0; i < 2; i++) {
		in[COLUMNS + 1] = 7 + i;
		run(exec);
		OK(cuMemcpyDtoH(out, flat, BYTES));
		fact_is(7 + i, out[0], "through an array");
		fact_is(100 + 3 * COLUMNS + 7, out[2 * COLUMNS + 6],
			"to its end");
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuMemsetD32(flat, 55, COLUMNS * ROWS));
	OK(cuCtxSynchronize());
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = flat;
	c.srcPitch = 4 * COLUMNS;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = array;
	c.WidthInBytes = 4 * COLUMNS;
	c.Height = ROWS;
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuMemcpy2DAsync(&c, stream));
	OK(cuMemcpyAtoHAsync(out, array, 0, 4 * COLUMNS, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiate(&exec, graph, 0));
	run(exec);
	fact_is(55, out[COLUMNS - 1], "by capture");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy(stream));
	OK(cuArrayDestroy(array));
	OK(cuMemFree(flat));
}

int
main(void)
{
	CUmodule module;
	CUdevice device;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&mad, module, "mad"));
	OK(cuMemAlloc(&memory, 4 * WORDS));
	moved();
	nested(CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, "a child's child, cloned");
	nested(CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, "a child's child, moved");
	restrictions();
	pageable();
	arrays();
	OK(cuCtxSynchronize());
	return facts_end();
}
