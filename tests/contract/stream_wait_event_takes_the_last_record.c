/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuStreamWaitEvent waits for the record that was the last when it was
 * called; a later record of the event does not prolong the wait, and an
 * event never recorded holds nothing.
 */
#include "tests/contract/held.h"

int
main(void)
{
	CUevent event, fresh;
	CUstream a, b;

	drv_start();
	OK(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(drv.cuEventCreate(&fresh, CU_EVENT_DISABLE_TIMING));
	drv_empty(a);
	drv_empty(b);
	OK(drv.cuCtxSynchronize());
	OK(drv.cuStreamWaitEvent(b, fresh, 0));
	OK(drv.cuEventRecord(event, a));
	OK(drv.cuStreamWaitEvent(b, event, 0));
	held_start(a);
	OK(drv.cuEventRecord(event, a));
	CHECK(!held_waits("the first record", held_launch, &b, false));
	OK(drv.cuStreamWaitEvent(b, event, 0));
	CHECK(held_waits("the second", held_launch, &b, true));
	test_pass();
}
