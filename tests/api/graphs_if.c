/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes: IF with and without an else, WHILE, SWITCH, one in
 * another, made by hand and by capture; changes of what is in their bodies;
 * and what graphs with them are not for. For drivers of CUDA 12.8 and later.
 */
#include <string.h>

#include "tests/api/facts.h"

static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);\n"
	/* p[0] = p[0] * k + c */
	".visible .entry mad(.param .u64 p, .param .u32 k, .param .u32 c)\n{\n"
	" .reg .b32 %r<5>; .reg .b64 %d<2>;\n"
	" ld.param.u64 %d1, [p]; ld.param.u32 %r2, [k]; ld.param.u32 %r3, [c];\n"
	" ld.global.u32 %r1, [%d1]; mad.lo.u32 %r4, %r1, %r2, %r3;\n"
	" st.global.u32 [%d1], %r4; ret;\n}\n"
	/* p[0] += add; the condition becomes p[0] */
	".visible .entry step(.param .u64 p, .param .u32 add, .param .u64 h)\n"
	"{\n .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
	" ld.param.u64 %d1, [p]; ld.param.u32 %r2, [add];\n"
	" ld.param.u64 %d2, [h];\n"
	" ld.global.u32 %r1, [%d1]; add.u32 %r3, %r1, %r2;\n"
	" st.global.u32 [%d1], %r3;\n"
	" { .param .b64 a; .param .b32 b;\n"
	"   st.param.b64 [a], %d2; st.param.b32 [b], %r3;\n"
	"   call.uni cudaGraphSetConditional, (a, b); }\n"
	" ret;\n}\n";

/* Words of the memory. */
enum { VALUE, COUNT, INNER, OTHER, WORDS };

static CUfunction mad, step;
static CUdeviceptr memory;
static CUcontext context;
static CUstream stream;

static CUdeviceptr
word(unsigned index)
{
	return memory + 4 * index;
}

static void
put(unsigned index, uint32_t value)
{
	OK(cuMemsetD32(word(index), value, 1));
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
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
}

/* ---- nodes ---- */

struct kernel {
	CUdeviceptr p;
	uint32_t a, b;
	uint64_t condition;
	void *list[3];
	CUDA_KERNEL_NODE_PARAMS params;
};

static const CUDA_KERNEL_NODE_PARAMS *
kernel(struct kernel *k, CUfunction f, unsigned index, uint32_t a, uint32_t b)
{
	memset(k, 0, sizeof(*k));
	k->p = word(index);
	k->a = a;
	k->b = b;
	k->list[0] = &k->p;
	k->list[1] = &k->a;
	k->list[2] = &k->b;
	k->params.func = f;
	k->params.gridDimX = k->params.gridDimY = k->params.gridDimZ = 1;
	k->params.blockDimX = k->params.blockDimY = k->params.blockDimZ = 1;
	k->params.kernelParams = k->list;
	return &k->params;
}

static CUgraphNode
add_mad(CUgraph graph, const CUgraphNode *after, unsigned index, uint32_t k,
	uint32_t c)
{
	CUgraphNode node;
	struct kernel m;

	OK(cuGraphAddKernelNode(&node, graph, after, after != NULL,
				kernel(&m, mad, index, k, c)));
	return node;
}

static CUgraphNode
add_step(CUgraph graph, const CUgraphNode *after, unsigned index, uint32_t add,
	 CUgraphConditionalHandle condition)
{
	CUgraphNode node;
	struct kernel m;

	kernel(&m, step, index, add, 0);
	m.condition = condition;
	m.list[2] = &m.condition;
	OK(cuGraphAddKernelNode(&node, graph, after, after != NULL, &m.params));
	return node;
}

static CUgraphConditionalHandle
condition(CUgraph graph, unsigned value, unsigned flags)
{
	CUgraphConditionalHandle handle = 0;

	OK(cuGraphConditionalHandleCreate(&handle, graph, context, value,
					  flags));
	return handle;
}

static CUresult
branch(CUgraph graph, const CUgraphNode *after, CUgraphConditionalHandle h,
       int type, unsigned size, CUgraphNode *out, CUgraph *bodies)
{
	CUgraphNodeParams p;
	CUresult r;

	memset(&p, 0, sizeof(p));
	p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	p.conditional.handle = h;
	p.conditional.type = (CUgraphConditionalNodeType)type;
	p.conditional.size = size;
	p.conditional.ctx = context;
	r = cuGraphAddNode_v2(out, graph, after, NULL, after != NULL, &p);
	if (r == CUDA_SUCCESS)
		memcpy(bodies, p.conditional.phGraph_out,
		       size * sizeof(*bodies));
	return r;
}

/* ---- kinds ---- */

/* VALUE decides: IF adds 10 to COUNT, else 100. */
static void
if_else(unsigned size)
{
	CUgraphConditionalHandle h;
	CUgraphNode node, first;
	CUgraphNodeType type;
	CUgraph graph, body[2];
	CUgraphExec exec;

	printf("     if, %u bodies\n", size);
	OK(cuGraphCreate(&graph, 0));
	h = condition(graph, 0, 0);
	first = add_step(graph, NULL, VALUE, 0, h);
	OK(branch(graph, &first, h, CU_GRAPH_COND_TYPE_IF, size, &node, body));
	OK(cuGraphNodeGetType(node, &type));
	fact_is(CU_GRAPH_NODE_TYPE_CONDITIONAL, type, "its type");
	add_mad(body[0], NULL, COUNT, 1, 10);
	if (size == 2)
		add_mad(body[1], NULL, COUNT, 1, 100);
	add_mad(graph, &node, COUNT, 2, 1);
	OK(cuGraphInstantiate(&exec, graph, 0));
	put(COUNT, 0);
	put(VALUE, 1);
	run(exec);
	fact_is(21, peek(COUNT), "true, and then what comes after");
	put(COUNT, 0);
	put(VALUE, 0);
	run(exec);
	fact_is(size == 2 ? 201 : 1, peek(COUNT), "false");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* Each as soon as it is made: whoever makes it must have all of it. */
static void
many(void)
{
	CUgraphConditionalHandle h;
	CUgraph graph, body[2];
	CUgraphNode node, first;
	CUgraphExec exec;

	printf("     many\n");
	put(VALUE, 1);
	put(COUNT, 0);
	for (int i = 0; i < 500; i++) {
		OK(cuGraphCreate(&graph, 0));
		h = condition(graph, 0, 0);
		first = add_step(graph, NULL, VALUE, 0, h);
		OK(branch(graph, &first, h, CU_GRAPH_COND_TYPE_IF, 2, &node,
			  body));
		add_mad(body[0], NULL, COUNT, 1, 1);
		add_mad(body[1], NULL, COUNT, 1, 1000);
		OK(cuGraphInstantiate(&exec, graph, 0));
		OK(cuGraphLaunch(exec, stream));
		OK(cuStreamSynchronize(stream));
		OK(cuGraphExecDestroy(exec));
		OK(cuGraphDestroy(graph));
	}
	fact_is(500, peek(COUNT), "each has run once");
}

static void
loops(void)
{
	CUgraphConditionalHandle h;
	CUgraph graph, body;
	CUgraphNode node, inside;
	CUgraphExec exec;

	printf("     while\n");
	OK(cuGraphCreate(&graph, 0));
	h = condition(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	OK(branch(graph, NULL, h, CU_GRAPH_COND_TYPE_WHILE, 1, &node, &body));
	inside = add_mad(body, NULL, COUNT, 1, 1);
	add_step(body, &inside, VALUE, (uint32_t)-1, h);
	OK(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		put(COUNT, 0);
		put(VALUE, 5 + (uint32_t)i);
		run(exec);
		fact_is(5 + i, peek(COUNT), "as often as it is said");
	}
	put(COUNT, 0);
	put(VALUE, 1000);
	OK(cuGraphLaunch(exec, stream));
	OK(cuMemsetD32Async(word(VALUE), 500, 1, stream));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	fact_is(1500, peek(COUNT), "and launches follow each other");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
switches(void)
{
	CUgraphConditionalHandle h;
	CUgraphNode node, first;
	CUgraph graph, body[3];
	CUgraphExec exec;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_MEMCPY3D copy;

	printf("     switch\n");
	OK(cuGraphCreate(&graph, 0));
	h = condition(graph, 0, CU_GRAPH_COND_ASSIGN_DEFAULT);
	first = add_step(graph, NULL, VALUE, 0, h);
	OK(branch(graph, &first, h, CU_GRAPH_COND_TYPE_SWITCH, 3, &node, body));
	add_mad(body[0], NULL, COUNT, 1, 10);
	memset(&set, 0, sizeof(set));
	set.dst = word(COUNT);
	set.value = 20;
	set.elementSize = 4;
	set.width = set.height = 1;
	OK(cuGraphAddMemsetNode(&node, body[1], NULL, 0, &set, context));
	memset(&copy, 0, sizeof(copy));
	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = word(OTHER);
	copy.dstDevice = word(COUNT);
	copy.WidthInBytes = 4;
	copy.Height = copy.Depth = 1;
	OK(cuGraphAddMemcpyNode(&node, body[2], NULL, 0, &copy, context));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	put(OTHER, 30);
	for (uint32_t i = 0; i < 4; i++) {
		put(COUNT, 0);
		put(VALUE, i);
		run(exec);
		fact_is(i < 3 ? 10 * ((long)i + 1) : 0, peek(COUNT),
			"a kernel, a fill, a copy, none");
	}
	OK(cuGraphExecDestroy(exec));
}

/* A loop of VALUE rounds whose body has a loop of INNER rounds, with the
 * inner condition asked for of the whole or of the body. */
static void
nested(bool of_body)
{
	CUgraphConditionalHandle outer, inner;
	CUgraph graph, body, deep, child;
	CUgraphNode node, at, last;
	CUgraphExec exec;

	printf("     a loop in a loop, its condition %s\n",
	       of_body ? "the body's" : "the whole's");
	OK(cuGraphCreate(&graph, 0));
	outer = condition(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	OK(branch(graph, NULL, outer, CU_GRAPH_COND_TYPE_WHILE, 1, &node,
		  &body));
	inner = condition(of_body ? body : graph, 0, 0);
	at = add_mad(body, NULL, INNER, 0, 3);
	at = add_step(body, &at, INNER, 0, inner);
	OK(branch(body, &at, inner, CU_GRAPH_COND_TYPE_WHILE, 1, &last,
		  &deep));
	OK(cuGraphCreate(&child, 0));
	add_mad(child, NULL, COUNT, 1, 1);
	OK(cuGraphAddChildGraphNode(&at, deep, NULL, 0, child));
	OK(cuGraphDestroy(child));
	add_step(deep, &at, INNER, (uint32_t)-1, inner);
	add_step(body, &last, VALUE, (uint32_t)-1, outer);
	OK(cuGraphInstantiate(&exec, graph, 0));
	put(COUNT, 0);
	put(VALUE, 4);
	run(exec);
	fact_is(12, peek(COUNT), "rounds of rounds");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
captured(void)
{
	CUstreamCaptureStatus status;
	CUgraphConditionalHandle h;
	const CUgraphNode *deps;
	CUgraph graph, whole, body;
	CUgraphNode node;
	CUgraphExec exec;
	CUstream second;
	struct kernel m;
	size_t count;

	printf("     by capture\n");
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	kernel(&m, mad, COUNT, 0, 7);
	OK(cuLaunchKernel(mad, 1, 1, 1, 1, 1, 1, 0, stream, m.list, NULL));
	OK(cuStreamGetCaptureInfo(stream, &status, NULL, &graph, &deps, NULL,
				     &count));
	fact_is(1, (long)count, "one node so far");
	h = condition(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	OK(branch(graph, deps, h, CU_GRAPH_COND_TYPE_WHILE, 1, &node, &body));
	OK(cuStreamUpdateCaptureDependencies(stream, &node, NULL, 1,
		CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	OK(cuStreamBeginCaptureToGraph(second, body, NULL, NULL, 0,
				       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	kernel(&m, mad, COUNT, 1, 1);
	OK(cuLaunchKernel(mad, 1, 1, 1, 1, 1, 1, 0, second, m.list, NULL));
	kernel(&m, step, VALUE, (uint32_t)-1, 0);
	m.condition = h;
	m.list[2] = &m.condition;
	OK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, second, m.list, NULL));
	OK(cuStreamEndCapture(second, &whole));
	fact_is(1, whole == body, "the body that was captured to");
	kernel(&m, mad, COUNT, 10, 0);
	OK(cuLaunchKernel(mad, 1, 1, 1, 1, 1, 1, 0, stream, m.list, NULL));
	OK(cuStreamEndCapture(stream, &whole));
	OK(cuGraphInstantiate(&exec, whole, 0));
	put(VALUE, 3);
	run(exec);
	fact_is(100, peek(COUNT), "before, three rounds, and after");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(whole));
	OK(cuStreamDestroy(second));
}

/* ---- changes ---- */

/* A loop of VALUE rounds that adds `by` to COUNT. */
static CUgraph
adder(uint32_t by, CUgraphNode *out_node)
{
	CUgraphConditionalHandle h;
	CUgraph graph, body;
	CUgraphNode node;

	OK(cuGraphCreate(&graph, 0));
	h = condition(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	OK(branch(graph, NULL, h, CU_GRAPH_COND_TYPE_WHILE, 1, &node, &body));
	*out_node = add_mad(body, NULL, COUNT, 1, by);
	add_step(body, out_node, VALUE, (uint32_t)-1, h);
	return graph;
}

static long
rounds(CUgraphExec exec, uint32_t n)
{
	put(COUNT, 0);
	put(VALUE, n);
	run(exec);
	return peek(COUNT);
}

static void
changes(void)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph graph, other;
	CUgraphNode node, unused;
	CUgraphExec exec;
	struct kernel m;

	printf("     changes\n");
	graph = adder(2, &node);
	OK(cuGraphInstantiate(&exec, graph, 0));
	fact_is(8, rounds(exec, 4), "as made");
	fact_is(CUDA_SUCCESS, cuGraphExecKernelNodeSetParams(exec, node,
		kernel(&m, mad, COUNT, 1, 5)), "a kernel in a body");
	fact_is(20, rounds(exec, 4), "does other work");
	memset(&info, 0, sizeof(info));
	told("an update by the graph itself",
	     cuGraphExecUpdate(exec, graph, &info));
	printf("     result %d\n", (int)info.result);
	printf("     rounds %ld\n", rounds(exec, 4));
	other = adder(7, &unused);
	told("an update by another", cuGraphExecUpdate(exec, other, &info));
	printf("     result %d\n", (int)info.result);
	printf("     rounds %ld\n", rounds(exec, 4));
	OK(cuGraphDestroy(other));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphInstantiate(&exec, graph, 0));
	fact_is(8, rounds(exec, 4), "made once more of the same graph");
	OK(cuGraphExecDestroy(exec));
	add_mad(graph, NULL, OTHER, 0, 1);
	OK(cuGraphInstantiate(&exec, graph, 0));
	put(OTHER, 0);
	fact_is(8, rounds(exec, 4), "and of a larger one");
	fact_is(1, peek(OTHER), "with what was added");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* ---- refusals ---- */

static void
handles(void)
{
	CUgraphConditionalHandle h;
	CUgraph graph, body;
	CUgraphNode node;

	printf("     handles\n");
	OK(cuGraphCreate(&graph, 0));
	told("flags that there are not", cuGraphConditionalHandleCreate(&h,
		graph, context, 0, 2));
	told("no place for it", cuGraphConditionalHandleCreate(NULL, graph,
		context, 0, 0));
	told("without a context", cuGraphConditionalHandleCreate(&h, graph,
		NULL, 0, 0));
	OK(cuGraphDestroy(graph));
	OK(cuGraphCreate(&graph, 0));
	h = condition(graph, 0, 0);
	told("a loop of two", branch(graph, NULL, h, CU_GRAPH_COND_TYPE_WHILE,
		2, &node, &body));
	told("an if of none", branch(graph, NULL, h, CU_GRAPH_COND_TYPE_IF,
		0, &node, &body));
	told("a type that there is not", branch(graph, NULL, h, 3, 1, &node,
		&body));
	told("the right one", branch(graph, NULL, h, CU_GRAPH_COND_TYPE_IF,
		1, &node, &body));
	told("in two nodes", branch(graph, NULL, h, CU_GRAPH_COND_TYPE_IF, 1,
		&node, &body));
	OK(cuGraphDestroy(graph));
}

static void
unused(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params;
	CUgraphExec exec = NULL;
	CUgraph graph;
	CUresult r;

	OK(cuGraphCreate(&graph, 0));
	condition(graph, 0, 0);
	add_mad(graph, NULL, COUNT, 1, 1);
	memset(&params, 0, sizeof(params));
	r = cuGraphInstantiateWithParams(&exec, graph, &params);
	told("a handle without a node", r);
	printf("     result %d\n", (int)params.result_out);
	if (r == CUDA_SUCCESS)
		OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void
restrictions(void)
{
	CUgraphNodeParams p;
	CUgraph graph, other, copy, body;
	CUgraphNode node, moved;
	CUgraphExec exec, second;
	CUgraphConditionalHandle h;
	CUresult r;

	printf("     what they are not for\n");
	graph = adder(1, &node);
	OK(cuGraphCreate(&other, 0));
	told("a clone", cuGraphClone(&copy, graph));
	told("a child", cuGraphAddChildGraphNode(&node, other, NULL, 0,
						 graph));
	memset(&p, 0, sizeof(p));
	p.type = CU_GRAPH_NODE_TYPE_GRAPH;
	p.graph.graph = graph;
	p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
	told("a child by MOVE", cuGraphAddNode_v2(&moved, other, NULL, NULL,
						  0, &p));
	OK(cuGraphInstantiate(&exec, graph, 0));
	r = cuGraphInstantiate(&second, graph, 0);
	told("two of a graph", r);
	if (r == CUDA_SUCCESS)
		OK(cuGraphExecDestroy(second));
	fact_is(3, rounds(exec, 3), "the first one runs");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(other));

	OK(cuGraphCreate(&graph, 0));
	h = condition(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	OK(branch(graph, NULL, h, CU_GRAPH_COND_TYPE_IF, 1, &node, &body));
	told("a body instantiated", cuGraphInstantiate(&second, body, 0));
	told("a body destroyed", cuGraphDestroy(body));
	OK(cuGraphDestroyNode(node));
	r = branch(graph, NULL, h, CU_GRAPH_COND_TYPE_IF, 1, &node, &body);
	told("a node's condition in the next one", r);
	if (r == CUDA_SUCCESS) {
		add_mad(body, NULL, COUNT, 1, 4);
		OK(cuGraphInstantiate(&exec, graph, 0));
		put(COUNT, 1);
		run(exec);
		fact_is(5, peek(COUNT), "works");
		OK(cuGraphExecDestroy(exec));
	}
	OK(cuGraphDestroy(graph));
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
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&mad, module, "mad"));
	OK(cuModuleGetFunction(&step, module, "step"));
	OK(cuMemAlloc(&memory, 4 * WORDS));
	if_else(1);
	if_else(2);
	many();
	loops();
	switches();
	nested(false);
	nested(true);
	captured();
	changes();
	handles();
	unused();
	restrictions();
	OK(cuCtxSynchronize());
	return facts_end();
}
