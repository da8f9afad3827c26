/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemAlloc gives addresses aligned to 512 bytes, those of large blocks
 * (5 MiB) to 2 MiB; 1 MiB is not large. cuPointerGetAttribute knows the range
 * an inner address belongs to.
 */
#include "tests/contract/drv.h"

#include <stdio.h>

enum {
	ALIGNMENT = 512,
	LARGE = 5 << 20,
	LARGE_ALIGNMENT = 2 << 20,
};

int
main(void)
{
	static const size_t sizes[] = { 1, 255, 4096, 65536, 1 << 20, LARGE };
	CUdeviceptr p[6], start;
	unsigned type = 0;
	size_t size, i;

	drv_start();
	for (i = 0; i < 6; i++) {
		OK(drv.cuMemAlloc(&p[i], sizes[i]));
		printf("%zu bytes at 0x%llx\n", sizes[i], p[i]);
		CHECK(p[i] % ALIGNMENT == 0);
		CHECK(sizes[i] < LARGE || p[i] % LARGE_ALIGNMENT == 0);
		OK(drv.cuPointerGetAttribute(&start,
			CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
			p[i] + sizes[i] - 1));
		CHECK(start == p[i]);
		OK(drv.cuPointerGetAttribute(&size,
			CU_POINTER_ATTRIBUTE_RANGE_SIZE, p[i]));
		CHECK(size == sizes[i]);
		OK(drv.cuPointerGetAttribute(&type,
			CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p[i]));
		CHECK(type == CU_MEMORYTYPE_DEVICE);
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       drv.cuPointerGetAttribute(&type,
			CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
			(CUdeviceptr)(uintptr_t)&type));
	for (i = 0; i < 6; i++)
		OK(drv.cuMemFree(p[i]));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFree(p[0]));
	test_pass();
}
