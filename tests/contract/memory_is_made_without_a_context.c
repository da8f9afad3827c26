/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemCreate, export, import and address calls work after cuInit alone, in
 * a process without a context.
 */
#include "tests/contract/drv.h"

enum {
	SIZE = 64 << 20,
};

int
main(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle handle, again;
	CUcontext ctx = NULL;
	CUdeviceptr at;
	size_t grain = 0;
	int fd = -1;

	drv_open();
	OK(drv.cuInit(0));
	OK(drv.cuMemGetAllocationGranularity(&grain, &prop,
		CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(grain == 2 << 20);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       drv.cuMemCreate(&handle, SIZE + 4096, &prop, 0));
	OK(drv.cuMemCreate(&handle, SIZE, &prop, 0));
	OK(drv.cuMemExportToShareableHandle(&fd, handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK(fd >= 0);
	OK(drv.cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	OK(drv.cuMemAddressReserve(&at, SIZE, 0, 0, 0));
	OK(drv.cuMemMap(at, SIZE, 0, again, 0));
	OK(drv.cuMemUnmap(at, SIZE));
	OK(drv.cuMemAddressFree(at, SIZE));
	OK(drv.cuMemRelease(again));
	OK(drv.cuMemRelease(handle));
	OK(drv.cuCtxGetCurrent(&ctx));
	CHECK(!ctx);
	test_pass();
}
