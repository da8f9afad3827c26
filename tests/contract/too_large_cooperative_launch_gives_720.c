/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cooperative launch of more blocks than fit on the device at once gives
 * 720 and is not sticky; one that just fits runs.
 */
#include "tests/contract/drv.h"

#include <stdio.h>

int
main(void)
{
	int sms = 0, per_sm = 0;
	CUfunction empty;

	drv_start();
	empty = drv_kernel(KERNEL_EMPTY);
	OK(drv.cuDeviceGetAttribute(&sms,
		CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, drv.dev));
	OK(drv.cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, empty,
							   1024, 0));
	printf("%d multiprocessors, %d blocks of 1024 threads each\n", sms,
	       per_sm);
	CHECK(per_sm >= 1);
	EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
	       drv.cuLaunchCooperativeKernel(empty,
			(unsigned)(sms * per_sm + 1), 1, 1, 1024, 1, 1, 0,
			NULL, NULL));
	EXPECT(CUDA_SUCCESS,
	       drv.cuLaunchCooperativeKernel(empty, (unsigned)(sms * per_sm),
			1, 1, 1024, 1, 1, 0, NULL, NULL));
	OK(drv.cuCtxSynchronize());
	test_pass();
}
