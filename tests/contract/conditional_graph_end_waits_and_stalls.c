/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGraphExecDestroy of a graph with a conditional node drains, launched or
 * not. Making one does not wait, nor does the end of any other graph.
 */
#include "tests/contract/neighbour.h"

#include <string.h>

static CUgraph graph;
static CUgraphExec exec;

static CUresult
add_condition(void *arg)
{
	CUgraphConditionalHandle handle;
	CUgraphNodeParams p;
	CUgraphNode node;
	CUresult r;

	(void)arg;
	r = drv.cuGraphConditionalHandleCreate(&handle, graph, drv.ctx, 1,
					       CU_GRAPH_COND_ASSIGN_DEFAULT);
	memset(&p, 0, sizeof(p));
	p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	p.conditional.handle = handle;
	p.conditional.type = CU_GRAPH_COND_TYPE_IF;
	p.conditional.size = 1;
	p.conditional.ctx = drv.ctx;
	return r ? r : drv.cuGraphAddNode(&node, graph, NULL, NULL, 0, &p);
}

static CUresult
instantiate(void *arg)
{
	(void)arg;
	return drv.cuGraphInstantiate(&exec, graph, 0);
}

static CUresult
destroy(void *arg)
{
	CUresult r = drv.cuGraphExecDestroy(exec);

	(void)arg;
	return r ? r : drv.cuGraphDestroy(graph);
}

static void
add_kernel(void)
{
	CUDA_KERNEL_NODE_PARAMS k = {
		.func = drv_kernel(KERNEL_EMPTY),
		.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 1, .blockDimY = 1, .blockDimZ = 1,
	};
	CUgraphNode node;

	OK(drv.cuGraphAddKernelNode(&node, graph, NULL, 0, &k));
}

int
main(void)
{
	int version;

	neighbour_start();
	OK(drv.cuDriverGetVersion(&version));
	if (version < 12030)
		test_skip("no conditional nodes before CUDA 12.3");
	OK(drv.cuGraphCreate(&graph, 0));
	add_kernel();
	OK(instantiate(NULL));
	OK(drv.cuGraphLaunch(exec, neighbour_own_stream));
	OK(drv.cuStreamSynchronize(neighbour_own_stream));
	neighbour_expect("the end of a graph of a kernel", destroy, NULL, false,
			 false);
	OK(drv.cuGraphCreate(&graph, 0));
	neighbour_expect("adding a conditional node", add_condition, NULL,
			 false, false);
	neighbour_expect("cuGraphInstantiate of it", instantiate, NULL, false,
			 false);
	neighbour_expect("its end, never launched", destroy, NULL, true, true);
	OK(drv.cuGraphCreate(&graph, 0));
	OK(add_condition(NULL));
	OK(instantiate(NULL));
	OK(drv.cuGraphLaunch(exec, neighbour_own_stream));
	OK(drv.cuStreamSynchronize(neighbour_own_stream));
	neighbour_expect("its end, launched", destroy, NULL, true, true);
	test_pass();
}
