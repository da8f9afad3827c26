/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of two non-blocking streams run at the same time: one that waits
 * for a word which the other stores comes to its end.
 */
#include "tests/contract/drv.h"

#include <stdio.h>

int
main(void)
{
	uint64_t limit_ns = 20000000000, at;
	uint32_t value = 1;
	void *hold_args[] = { &at, &limit_ns }, *store_args[] = { &at, &value };
	CUfunction hold, store;
	CUstream a, b;
	CUdeviceptr p;
	double begin;

	drv_start();
	hold = drv_kernel(KERNEL_HOLD);
	store = drv_kernel(KERNEL_STORE);
	OK(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(drv.cuMemAlloc(&p, 8));
	OK(drv.cuMemsetD32(p, 1, 2));
	at = p;
	OK(drv_launch1(hold, a, hold_args));
	at = p + 4;
	OK(drv_launch1(store, b, store_args));
	OK(drv.cuCtxSynchronize());
	OK(drv.cuMemsetD32(p, 0, 2));
	OK(drv.cuCtxSynchronize());
	begin = test_ms();
	at = p;
	OK(drv_launch1(hold, a, hold_args));
	test_sleep_ms(50);
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(a));
	OK(drv_launch1(store, b, store_args));
	OK(drv.cuCtxSynchronize());
	printf("%.1f ms\n", test_ms() - begin);
	CHECK(test_ms() - begin < 15000);
	test_pass();
}
