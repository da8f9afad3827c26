/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store to an unmapped address gives 700 at the next synchronise and at
 * every later call of the context, on every stream. Calls that need no
 * context go on.
 */
#include "tests/contract/drv.h"

#define STICKY CUDA_ERROR_ILLEGAL_ADDRESS

int
main(void)
{
	uint64_t wild = 0x10;
	uint32_t value = 1, word;
	void *args[] = { &wild, &value };
	CUfunction store, empty;
	CUstream stream, other;
	CUdeviceptr p, q;
	CUevent event;
	int n = 0;

	drv_start();
	store = drv_kernel(KERNEL_STORE);
	empty = drv_kernel(KERNEL_EMPTY);
	OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(drv.cuEventCreate(&event, CU_EVENT_DEFAULT));
	OK(drv.cuMemAlloc(&p, 4096));
	OK(drv_launch1(store, stream, args));
	EXPECT(STICKY, drv.cuStreamSynchronize(stream));
	EXPECT(STICKY, drv.cuStreamSynchronize(stream));
	EXPECT(STICKY, drv.cuStreamQuery(other));
	EXPECT(STICKY, drv.cuCtxSynchronize());
	EXPECT(STICKY, drv.cuMemAlloc(&q, 4096));
	EXPECT(STICKY, drv.cuMemcpyDtoH(&word, p, 4));
	EXPECT(STICKY, drv_launch1(empty, other, NULL));
	EXPECT(STICKY, drv.cuEventRecord(event, other));
	EXPECT(STICKY, drv.cuMemFree(p));
	EXPECT(CUDA_SUCCESS, drv.cuDeviceGetCount(&n));
	EXPECT(CUDA_SUCCESS, drv.cuDriverGetVersion(&n));
	EXPECT(CUDA_SUCCESS, drv.cuCtxGetCurrent(&drv.ctx));
	test_pass();
}
