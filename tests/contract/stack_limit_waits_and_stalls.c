/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuCtxSetLimit(CU_LIMIT_STACK_SIZE) to a larger size waits for a
 * neighbour's kernel and stalls others' launches.
 */
#include "tests/contract/neighbour.h"

static CUresult
set_limit(void *arg)
{
	return drv.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, *(size_t *)arg);
}

int
main(void)
{
	size_t size;

	neighbour_start();
	OK(drv.cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE));
	size = 16384;
	neighbour_expect("cuCtxSetLimit", set_limit, &size, true, true);
	OK(drv.cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE));
	CHECK(size >= 16384);
	test_pass();
}
