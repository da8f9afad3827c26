/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemFreeHost and cuMemHostUnregister wait for a neighbour's kernel and
 * stall others' launches; cuMemHostAlloc and cuMemHostRegister do not.
 */
#include "tests/contract/neighbour.h"

#include <sys/mman.h>

enum {
	SIZE = 1 << 20,
};

static CUresult
host_alloc(void *arg)
{
	return drv.cuMemHostAlloc(arg, SIZE, 0);
}

static CUresult
host_free(void *arg)
{
	return drv.cuMemFreeHost(*(void **)arg);
}

static CUresult
host_register(void *arg)
{
	return drv.cuMemHostRegister(arg, SIZE,
				     CU_MEMHOSTREGISTER_PORTABLE |
				     CU_MEMHOSTREGISTER_DEVICEMAP);
}

static CUresult
host_unregister(void *arg)
{
	return drv.cuMemHostUnregister(arg);
}

int
main(void)
{
	void *host, *pages;

	neighbour_start();
	neighbour_expect("cuMemHostAlloc", host_alloc, &host, false, false);
	neighbour_expect("cuMemFreeHost", host_free, &host, true, true);
	pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK(pages != MAP_FAILED);
	neighbour_expect("cuMemHostRegister", host_register, pages, false,
			 false);
	neighbour_expect("cuMemHostUnregister", host_unregister, pages, true,
			 true);
	test_pass();
}
