/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capture, cuGraphInstantiate, cuGraphLaunch and both destroy calls neither
 * wait for a neighbour's kernel nor stall others' launches.
 */
#include "tests/contract/neighbour.h"

static CUgraph graph;
static CUgraphExec exec;

static CUresult
instantiate(void *arg)
{
	CUstream s = neighbour_own_stream;
	CUresult rc;
	int i;

	(void)arg;
	rc = drv.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED);
	for (i = 0; i < 10 && !rc; i++)
		drv_empty(s);
	if (!rc)
		rc = drv.cuStreamEndCapture(s, &graph);
	return rc ? rc : drv.cuGraphInstantiate(&exec, graph, 0);
}

static CUresult
launch(void *arg)
{
	CUresult rc;

	(void)arg;
	rc = drv.cuGraphLaunch(exec, neighbour_own_stream);
	return rc ? rc : drv.cuStreamSynchronize(neighbour_own_stream);
}

static CUresult
destroy(void *arg)
{
	CUresult rc;

	(void)arg;
	rc = drv.cuGraphExecDestroy(exec);
	return rc ? rc : drv.cuGraphDestroy(graph);
}

int
main(void)
{
	neighbour_start();
	neighbour_expect("capture, cuGraphInstantiate", instantiate, NULL,
			 false, false);
	neighbour_expect("cuGraphLaunch", launch, NULL, false, false);
	neighbour_expect("cuGraphExecDestroy, cuGraphDestroy", destroy, NULL,
			 false, false);
	test_pass();
}
