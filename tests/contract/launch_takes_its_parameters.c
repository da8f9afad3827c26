/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuLaunchKernel copies the parameters before it returns, both ways of
 * giving them.
 */
#include "tests/contract/drv.h"

#include <string.h>

int
main(void)
{
	struct {
		uint64_t at;
		uint32_t value;
	} packed;
	size_t size = sizeof(packed.at) + sizeof(packed.value);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &packed,
			  CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			  CU_LAUNCH_PARAM_END };
	uint32_t value = 41, got[2] = { 0 };
	void *args[] = { &packed.at, &value };
	CUfunction store;
	CUdeviceptr p;
	CUstream s;

	drv_start();
	store = drv_kernel(KERNEL_STORE);
	OK(drv.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(drv.cuMemAlloc(&p, 8));
	drv_spin(s, 100);
	packed.at = p;
	OK(drv_launch1(store, s, args));
	value = 0;
	packed.at = p + 4;
	packed.value = 42;
	OK(drv.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, s, NULL, extra));
	memset(&packed, 0, sizeof(packed));
	OK(drv.cuStreamSynchronize(s));
	OK(drv.cuMemcpyDtoH(got, p, 8));
	CHECK(got[0] == 41);
	CHECK(got[1] == 42);
	test_pass();
}
