/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When cuMemcpyHtoDAsync from pageable memory returns, its source may be
 * overwritten: the data of the call arrive.
 */
#include "tests/contract/drv.h"

#include <stdio.h>
#include <string.h>

enum {
	KERNEL_MS = 200,
	SMALL = 4 << 10,
	BIG = 4 << 20,
};

static unsigned char pageable[BIG], back[BIG];

static void
copy(CUdeviceptr device, CUstream stream, size_t size)
{
	double begin;
	size_t i, wrong = 0;

	memset(pageable, 5, size);
	drv_spin(stream, KERNEL_MS);
	begin = test_ms();
	OK(drv.cuMemcpyHtoDAsync(device, pageable, size, stream));
	printf("%zu bytes behind a %d ms kernel: the call took %.1f ms\n",
	       size, KERNEL_MS, test_ms() - begin);
	memset(pageable, 6, size);
	OK(drv.cuStreamSynchronize(stream));
	OK(drv.cuMemcpyDtoH(back, device, size));
	for (i = 0; i < size; i++)
		wrong += back[i] != 5;
	CHECK(!wrong);
}

int
main(void)
{
	CUdeviceptr device;
	CUstream stream;

	drv_start();
	OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuMemAlloc(&device, BIG));
	drv_spin(stream, 0);
	OK(drv.cuCtxSynchronize());
	copy(device, stream, SMALL);
	copy(device, stream, BIG);
	test_pass();
}
