/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemRelease of a mapped allocation leaves the mapping usable; unmapping
 * frees it. Access without cuMemSetAccess is a fault, sticky.
 */
#include "tests/contract/drv.h"

enum {
	SIZE = 2 << 20,
};

int
main(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	uint32_t value = 3, got = 0;
	CUdeviceptr at;
	void *args[] = { &at, &value };

	drv_start();
	OK(drv.cuMemCreate(&handle, SIZE, &prop, 0));
	OK(drv.cuMemAddressReserve(&at, 2 * SIZE, 0, 0, 0));
	OK(drv.cuMemMap(at, SIZE, 0, handle, 0));
	OK(drv.cuMemSetAccess(at, SIZE, &access, 1));
	OK(drv.cuMemRelease(handle));
	OK(drv_launch1(drv_kernel(KERNEL_STORE), NULL, args));
	OK(drv.cuMemcpyDtoH(&got, at, 4));
	CHECK(got == 3);
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAddressFree(at, 2 * SIZE));
	OK(drv.cuMemUnmap(at, SIZE));
	OK(drv.cuMemCreate(&handle, SIZE, &prop, 0));
	OK(drv.cuMemMap(at, SIZE, 0, handle, 0));
	OK(drv_launch1(drv_kernel(KERNEL_STORE), NULL, args));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, drv.cuCtxSynchronize());
	test_pass();
}
