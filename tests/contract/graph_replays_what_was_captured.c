/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capture runs nothing; the graph's launches run everything, with the
 * parameters of capture time, across streams forked and joined by events.
 */
#include "tests/contract/drv.h"

int
main(void)
{
	CUdeviceptr p;
	void *args[] = { &p };
	CUfunction bump;
	CUgraph graph;
	CUgraphExec exec;
	CUevent fork_event, join_event;
	uint32_t value = 9;
	size_t nodes = 0;
	CUstream a, b;

	drv_start();
	bump = drv_kernel(KERNEL_BUMP);
	OK(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(drv.cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
	OK(drv.cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
	OK(drv.cuMemAlloc(&p, 4));
	OK(drv.cuMemsetD32(p, 0, 1));
	OK(drv.cuCtxSynchronize());
	OK(drv.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(drv_launch1(bump, a, args));
	OK(drv.cuEventRecord(fork_event, a));
	OK(drv.cuStreamWaitEvent(b, fork_event, 0));
	OK(drv_launch1(bump, b, args));
	OK(drv.cuEventRecord(join_event, b));
	OK(drv.cuStreamWaitEvent(a, join_event, 0));
	OK(drv_launch1(bump, a, args));
	OK(drv.cuStreamEndCapture(a, &graph));
	OK(drv.cuMemcpyDtoH(&value, p, 4));
	CHECK(value == 0);
	OK(drv.cuGraphGetNodes(graph, NULL, &nodes));
	CHECK(nodes == 3);
	OK(drv.cuGraphInstantiate(&exec, graph, 0));
	OK(drv.cuGraphDestroy(graph));
	OK(drv.cuGraphLaunch(exec, a));
	OK(drv.cuGraphLaunch(exec, a));
	OK(drv.cuGraphLaunch(exec, a));
	OK(drv.cuStreamSynchronize(a));
	OK(drv.cuMemcpyDtoH(&value, p, 4));
	CHECK(value == 9);
	OK(drv.cuGraphExecDestroy(exec));
	test_pass();
}
