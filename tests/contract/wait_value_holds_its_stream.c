/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuStreamWaitValue64 holds its stream until the host writes the value, and
 * no other stream; cuLaunchHostFunc holds it until the function returns.
 */
#include "tests/contract/drv.h"

#include <stdatomic.h>

static _Atomic int host_may, host_ran;

static void
host_function(void *arg)
{
	while (!atomic_load(&host_may))
		test_sleep_ms(1);
	atomic_store(&host_ran, *(int *)arg);
}

int
main(void)
{
	CUdeviceptr word_device;
	_Atomic uint64_t *word;
	CUstream held, other;
	int seven = 7;
	void *host;

	drv_start();
	OK(drv.cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(drv.cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(drv.cuMemHostGetDevicePointer(&word_device, host, 0));
	word = host;
	atomic_store(word, 0);
	drv_empty(held);
	OK(drv.cuCtxSynchronize());
	OK(drv.cuStreamWaitValue64(held, word_device, 5,
				   CU_STREAM_WAIT_VALUE_GEQ));
	drv_empty(held);
	drv_empty(other);
	OK(drv.cuStreamSynchronize(other));
	test_sleep_ms(50);
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(held));
	atomic_store(word, 4);
	test_sleep_ms(50);
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(held));
	atomic_store(word, 6);
	OK(drv.cuStreamSynchronize(held));
	OK(drv.cuLaunchHostFunc(held, host_function, &seven));
	drv_empty(held);
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(held));
	atomic_store(&host_may, 1);
	OK(drv.cuStreamSynchronize(held));
	CHECK(atomic_load(&host_ran) == 7);
	test_pass();
}
