/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No call of virtual memory management waits for a neighbour's kernel or
 * stalls others' launches.
 */
#include "tests/contract/neighbour.h"

#include <unistd.h>

enum {
	SIZE = 32 << 20,
};

static CUmemGenericAllocationHandle handle;
static CUdeviceptr address;
static int descriptor = -1;

static CUresult
create(void *arg)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};

	(void)arg;
	return drv.cuMemCreate(&handle, SIZE, &prop, 0);
}

static CUresult
export(void *arg)
{
	(void)arg;
	return drv.cuMemExportToShareableHandle(&descriptor, handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static CUresult
reserve(void *arg)
{
	(void)arg;
	return drv.cuMemAddressReserve(&address, SIZE, 0, 0, 0);
}

static CUresult
map(void *arg)
{
	(void)arg;
	return drv.cuMemMap(address, SIZE, 0, handle, 0);
}

static CUresult
set_access(void *arg)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	(void)arg;
	return drv.cuMemSetAccess(address, SIZE, &access, 1);
}

static CUresult
unmap(void *arg)
{
	(void)arg;
	return drv.cuMemUnmap(address, SIZE);
}

static CUresult
release(void *arg)
{
	(void)arg;
	return drv.cuMemRelease(handle);
}

static CUresult
address_free(void *arg)
{
	(void)arg;
	return drv.cuMemAddressFree(address, SIZE);
}

int
main(void)
{
	neighbour_start();
	neighbour_expect("cuMemCreate", create, NULL, false, false);
	neighbour_expect("cuMemExportToShareableHandle", export, NULL, false,
			 false);
	neighbour_expect("cuMemAddressReserve", reserve, NULL, false, false);
	neighbour_expect("cuMemMap", map, NULL, false, false);
	neighbour_expect("cuMemSetAccess", set_access, NULL, false, false);
	neighbour_expect("cuMemUnmap", unmap, NULL, false, false);
	neighbour_expect("cuMemRelease", release, NULL, false, false);
	neighbour_expect("cuMemAddressFree", address_free, NULL, false,
			 false);
	close(descriptor);
	test_pass();
}
