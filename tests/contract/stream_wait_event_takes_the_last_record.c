/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuStreamWaitEvent waits for the record that was the last when it was
 * called; a later record of the event does not prolong the wait, and an
 * event never recorded holds nothing.
 */
#include "tests/contract/drv.h"

#include <stdio.h>

enum {
	KERNEL_MS = 300,
};

int
main(void)
{
	CUevent event, fresh;
	CUstream a, b;
	double start, ms;

	drv_start();
	OK(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(drv.cuEventCreate(&fresh, CU_EVENT_DISABLE_TIMING));
	drv_spin(a, 0);
	drv_empty(b);
	OK(drv.cuCtxSynchronize());
	start = test_ms();
	OK(drv.cuStreamWaitEvent(b, fresh, 0));
	OK(drv.cuEventRecord(event, a));
	OK(drv.cuStreamWaitEvent(b, event, 0));
	drv_spin(a, KERNEL_MS);
	OK(drv.cuEventRecord(event, a));
	drv_empty(b);
	OK(drv.cuStreamSynchronize(b));
	ms = test_ms() - start;
	printf("behind the first record: %.1f ms\n", ms);
	CHECK(ms < KERNEL_MS * 0.4);
	OK(drv.cuStreamWaitEvent(b, event, 0));
	OK(drv.cuStreamSynchronize(b));
	ms = test_ms() - start;
	printf("behind the second: %.1f ms\n", ms);
	CHECK(ms > KERNEL_MS * 0.7);
	test_pass();
}
