/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memfd mapped shared at a chosen address and registered has a device
 * address equal to its host address; what a kernel stores there another
 * mapping of the memfd shows.
 */
#include "tests/contract/drv.h"

#include <sys/mman.h>
#include <unistd.h>

enum {
	SIZE = 1 << 20,
	VALUE = 0x600df00d,
};

int
main(void)
{
	void *const base = (void *)0x7ea000000000;
	volatile uint32_t *mapped, *second;
	uint64_t at = (uintptr_t)base;
	uint32_t value = VALUE;
	void *args[] = { &at, &value };
	CUdeviceptr device = 0;
	int fd;

	drv_start();
	fd = memfd_create("contract", MFD_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(!ftruncate(fd, SIZE));
	mapped = mmap(base, SIZE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	second = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped != base || second == MAP_FAILED)
		test_fail("cannot map the memfd");
	OK(drv.cuMemHostRegister(base, SIZE, CU_MEMHOSTREGISTER_PORTABLE |
				 CU_MEMHOSTREGISTER_DEVICEMAP));
	OK(drv.cuMemHostGetDevicePointer(&device, base, 0));
	CHECK(device == at);
	OK(drv_launch1(drv_kernel(KERNEL_STORE), NULL, args));
	OK(drv.cuCtxSynchronize());
	CHECK(mapped[0] == VALUE);
	CHECK(second[0] == VALUE);
	mapped[1] = 77;
	OK(drv.cuMemcpyDtoH(&value, device + 4, 4));
	CHECK(value == 77);
	OK(drv.cuMemHostUnregister(base));
	test_pass();
}
