/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemAddressReserve gives the address asked for when it is free, for
 * 256 GiB at 0x7e8000000000 and for 16 TiB at 0x100000000000, in no time.
 */
#include "tests/contract/drv.h"

#include <stdio.h>

static void
reserve(CUdeviceptr base, size_t size)
{
	double begin = test_ms();
	CUdeviceptr at = 0;

	OK(drv.cuMemAddressReserve(&at, size, 0, base, 0));
	printf("%zu GiB at 0x%llx: got 0x%llx in %.3f ms\n", size >> 30, base,
	       at, test_ms() - begin);
	CHECK(at == base);
	/* Were its pages touched, it would take minutes. */
	CHECK(test_ms() - begin < 5000);
	OK(drv.cuMemAddressFree(at, size));
	OK(drv.cuMemAddressReserve(&at, size, 0, base, 0));
	CHECK(at == base);
	OK(drv.cuMemAddressFree(at, size));
}

int
main(void)
{
	drv_start();
	reserve(0x7e8000000000, (size_t)256 << 30);
#ifndef MPSSHIM_SANITIZED
	/* Sanitizers have their shadow there. */
	reserve(0x100000000000, (size_t)16 << 40);
#endif
	test_pass();
}
