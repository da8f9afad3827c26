/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuEventQuery gives 600 until the work before the record is done; an event
 * never recorded counts as done; elapsed time is that of the work between,
 * 600 while it runs, 400 for events without timing.
 */
#include "tests/contract/held.h"

#include <stdio.h>

enum {
	KERNEL_MS = 200,
};

int
main(void)
{
	CUevent begin, end, untimed;
	CUstream stream;
	double started, all;
	float ms = -1;

	drv_start();
	OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuEventCreate(&begin, CU_EVENT_DEFAULT));
	OK(drv.cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
	OK(drv.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	held_start(stream);
	held_end();
	OK(drv.cuStreamSynchronize(stream));
	EXPECT(CUDA_SUCCESS, drv.cuEventQuery(begin));
	EXPECT(CUDA_SUCCESS, drv.cuEventSynchronize(begin));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
	       drv.cuEventElapsedTime(&ms, begin, end));
	started = test_ms();
	OK(drv.cuEventRecord(begin, stream));
	held_start(stream);
	/* That long at least, and no longer than all that is done here. */
	drv_spin(stream, KERNEL_MS);
	OK(drv.cuEventRecord(end, stream));
	OK(drv.cuEventRecord(untimed, stream));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuEventQuery(end));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuEventElapsedTime(&ms, begin, end));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(stream));
	held_end();
	OK(drv.cuEventSynchronize(end));
	all = test_ms() - started;
	EXPECT(CUDA_SUCCESS, drv.cuEventQuery(end));
	OK(drv.cuEventElapsedTime(&ms, begin, end));
	printf("%.2f ms measured of %.2f\n", (double)ms, all);
	CHECK(ms > KERNEL_MS * 0.9 && ms < all * 1.1);
	OK(drv.cuStreamSynchronize(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
	       drv.cuEventElapsedTime(&ms, begin, untimed));
	test_pass();
}
