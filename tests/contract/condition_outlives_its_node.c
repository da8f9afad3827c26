/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle of a condition is asked for of the graph that contains the node,
 * however deep, and goes to kernels by value. It stays good when the node is
 * destroyed and made again for the next instantiation.
 */
#include <string.h>

#include "tests/contract/drv.h"

static const char ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);\n"
	/* p[0] -= 1; the condition becomes p[0] */
	".visible .entry down(.param .u64 p, .param .u64 h)\n"
	"{\n .reg .b32 %r<3>; .reg .b64 %d<3>;\n"
	" ld.param.u64 %d1, [p]; ld.param.u64 %d2, [h];\n"
	" ld.global.u32 %r1, [%d1]; sub.u32 %r2, %r1, 1;\n"
	" st.global.u32 [%d1], %r2;\n"
	" { .param .b64 a; .param .b32 b;\n"
	"   st.param.b64 [a], %d2; st.param.b32 [b], %r2;\n"
	"   call.uni cudaGraphSetConditional, (a, b); }\n"
	" ret;\n}\n";

static CUgraphNode
loop(CUgraph graph, CUgraphConditionalHandle h, int type, CUgraph *body)
{
	CUgraphNodeParams p;
	CUgraphNode node;

	memset(&p, 0, sizeof(p));
	p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	p.conditional.handle = h;
	p.conditional.type = (CUgraphConditionalNodeType)type;
	p.conditional.size = 1;
	p.conditional.ctx = drv.ctx;
	OK(drv.cuGraphAddNode(&node, graph, NULL, NULL, 0, &p));
	*body = p.conditional.phGraph_out[0];
	return node;
}

/* Rounds of the loop, from 5. */
static void
build_and_run(CUgraph graph, CUgraphConditionalHandle whole,
	      CUgraphConditionalHandle deep, CUfunction down, CUdeviceptr p,
	      CUstream stream)
{
	void *args[] = { &p, &deep };
	CUDA_KERNEL_NODE_PARAMS k = {
		.func = down, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 1, .blockDimY = 1, .blockDimZ = 1,
		.kernelParams = args,
	};
	CUgraphNode node, inner;
	CUgraph body, deepest;
	CUgraphExec exec;
	uint32_t value = 9;

	node = loop(graph, whole, CU_GRAPH_COND_TYPE_IF, &body);
	loop(body, deep, CU_GRAPH_COND_TYPE_WHILE, &deepest);
	OK(drv.cuGraphAddKernelNode(&inner, deepest, NULL, 0, &k));
	OK(drv.cuGraphInstantiate(&exec, graph, 0));
	OK(drv.cuMemsetD32(p, 5, 1));
	OK(drv.cuCtxSynchronize());
	OK(drv.cuGraphLaunch(exec, stream));
	OK(drv.cuStreamSynchronize(stream));
	OK(drv.cuMemcpyDtoH(&value, p, 4));
	CHECK(value == 0);
	OK(drv.cuGraphExecDestroy(exec));
	OK(drv.cuGraphDestroyNode(node));
}

int
main(void)
{
	CUgraphConditionalHandle whole, deep;
	CUfunction down;
	CUstream stream;
	CUdeviceptr p;
	CUgraph graph;
	int version;

	drv_start();
	OK(drv.cuDriverGetVersion(&version));
	if (version < 12030)
		test_skip("no conditional nodes before CUDA 12.3");
	OK(drv.cuModuleGetFunction(&down, drv_load(ptx), "down"));
	OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuMemAlloc(&p, 4));
	OK(drv.cuGraphCreate(&graph, 0));
	OK(drv.cuGraphConditionalHandleCreate(&whole, graph, drv.ctx, 1,
		CU_GRAPH_COND_ASSIGN_DEFAULT));
	OK(drv.cuGraphConditionalHandleCreate(&deep, graph, drv.ctx, 1,
		CU_GRAPH_COND_ASSIGN_DEFAULT));
	build_and_run(graph, whole, deep, down, p, stream);
	build_and_run(graph, whole, deep, down, p, stream);
	OK(drv.cuGraphDestroy(graph));
	test_pass();
}
