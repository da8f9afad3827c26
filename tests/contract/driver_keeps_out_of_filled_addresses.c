/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With the free parts of 0x7e0000000000 to 0x7fff00000000 filled by PROT_NONE
 * mappings before cuInit, everything works, and the driver's addresses lie in
 * none of the filled parts: below all of them, or beside the libraries, in the
 * few GiB that could not be filled (both seen on an H200).
 */
#include "tests/contract/drv.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 8 .b8 variable[1024];\n"
	".visible .entry one()\n{\n\tret;\n}\n";

static const uintptr_t low = 0x7e0000000000, high = 0x7fff00000000;

#define STEP ((uintptr_t)1 << 30)
static bool is_filled[2048];

static size_t
fill(void)
{
	size_t filled = 0;
	uintptr_t at;

	for (at = low; at < high; at += STEP) {
		void *p = mmap((void *)at, STEP, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			       MAP_FIXED_NOREPLACE, -1, 0);

		if (p == MAP_FAILED)
			continue;
		is_filled[(at - low) / STEP] = true;
		filled++;
	}
	return filled;
}

static bool
is_free(uintptr_t at)
{
	return at < low || at >= high || !is_filled[(at - low) / STEP];
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
	CHECK(is_free(variable) && is_free(device) && is_free((uintptr_t)host));
	OK(drv.cuMemsetD8(variable, 1, size));
	OK(drv.cuMemsetD8(device, 1, 1 << 20));
	memset(host, 1, 1 << 20);
	test_pass();
}
