/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemcpyDtoHAsync into pageable memory returns when the data are there,
 * also behind a kernel that runs; into pinned memory it returns at once.
 */
#include "tests/contract/drv.h"

#include <stdio.h>

enum {
	KERNEL_MS = 300,
	SIZE = 64 << 10,
};

static unsigned char pageable[SIZE];

static double
copy(void *to, CUdeviceptr from, CUstream stream)
{
	double begin = test_ms();

	drv_spin(stream, KERNEL_MS);
	OK(drv.cuMemcpyDtoHAsync(to, from, SIZE, stream));
	return test_ms() - begin;
}

int
main(void)
{
	unsigned char *pinned;
	CUdeviceptr device;
	CUstream stream;
	void *host;
	double ms;

	drv_start();
	OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuMemAlloc(&device, SIZE));
	OK(drv.cuMemHostAlloc(&host, SIZE, 0));
	pinned = host;
	pinned[SIZE - 1] = 0;
	OK(drv.cuMemsetD8(device, 9, SIZE));
	drv_spin(stream, 0);
	OK(drv.cuCtxSynchronize());
	ms = copy(pageable, device, stream);
	printf("pageable: %.1f ms\n", ms);
	CHECK(ms > KERNEL_MS * 0.7);
	CHECK(pageable[SIZE - 1] == 9);
	OK(drv.cuStreamSynchronize(stream));
	ms = copy(pinned, device, stream);
	printf("pinned: %.1f ms\n", ms);
	CHECK(ms < KERNEL_MS * 0.4);
	CHECK(pinned[SIZE - 1] == 0);
	OK(drv.cuStreamSynchronize(stream));
	CHECK(pinned[SIZE - 1] == 9);
	test_pass();
}
