/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemFree waits for a neighbour's kernel and stalls others' launches. */
#include "tests/contract/neighbour.h"

static CUresult
mem_free(void *arg)
{
	return drv.cuMemFree(*(CUdeviceptr *)arg);
}

int
main(void)
{
	CUdeviceptr p;

	neighbour_start();
	OK(drv.cuMemAlloc(&p, 1 << 20));
	neighbour_expect("cuMemFree of 1 MiB", mem_free, &p, true, true);
	OK(drv.cuMemAlloc(&p, 64 << 20));
	neighbour_expect("cuMemFree of 64 MiB", mem_free, &p, true, true);
	test_pass();
}
