/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With the free parts of 0x7e0000000000 to 0x7fff00000000 filled by PROT_NONE
 * mappings before cuInit, everything works, and module globals lie outside of
 * them. Where cuMemAlloc and cuMemHostAlloc put theirs is printed: on an H200
 * it was at 0x7f98... in one of two runs.
 */
#include "tests/contract/drv.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 8 .b8 variable[1024];\n"
	".visible .entry one()\n{\n\tret;\n}\n";

static const uintptr_t low = 0x7e0000000000, high = 0x7fff00000000;

static size_t
fill(void)
{
	const size_t step = (size_t)1 << 30;
	size_t filled = 0;
	uintptr_t at;

	for (at = low; at < high; at += step) {
		void *p = mmap((void *)at, step, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			       MAP_FIXED_NOREPLACE, -1, 0);

		if (p != MAP_FAILED)
			filled++;
	}
	return filled;
}

int
main(void)
{
	CUdeviceptr variable, device;
	void *host;
	size_t size;

#ifdef TEST_TSAN
	test_skip("ThreadSanitizer lets nobody fill these addresses");
#endif
	printf("filled %zu GiB\n", fill());
	drv_start();
	OK(drv.cuModuleGetGlobal(&variable, &size, drv_load(image),
				 "variable"));
	CHECK(size == 1024);
	OK(drv.cuMemAlloc(&device, 1 << 20));
	OK(drv.cuMemHostAlloc(&host, 1 << 20, CU_MEMHOSTALLOC_DEVICEMAP));
	printf("module global 0x%llx, cuMemAlloc 0x%llx, cuMemHostAlloc %p\n",
	       variable, device, host);
	CHECK(variable < low || variable >= high);
	OK(drv.cuMemsetD8(variable, 1, size));
	OK(drv.cuMemsetD8(device, 1, 1 << 20));
	memset(host, 1, 1 << 20);
	test_pass();
}
