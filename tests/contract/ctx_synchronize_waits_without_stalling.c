/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuCtxSynchronize waits for every stream of the context; others' launches
 * go on meanwhile.
 */
#include "tests/contract/neighbour.h"

static CUresult
synchronize(void *arg)
{
	(void)arg;
	return drv.cuCtxSynchronize();
}

int
main(void)
{
	neighbour_start();
	neighbour_expect("cuCtxSynchronize", synchronize, NULL, true, false);
	test_pass();
}
