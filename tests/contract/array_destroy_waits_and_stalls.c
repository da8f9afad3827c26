/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuArrayDestroy waits for a neighbour's kernel and stalls others'
 * launches; cuArrayCreate does not.
 */
#include "tests/contract/neighbour.h"

static CUresult
create(void *arg)
{
	CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 256,
		.Height = 256,
		.Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1,
	};

	return drv.cuArrayCreate(arg, &desc);
}

static CUresult
destroy(void *arg)
{
	return drv.cuArrayDestroy(*(CUarray *)arg);
}

int
main(void)
{
	CUarray array;

	neighbour_start();
	neighbour_expect("cuArrayCreate", create, &array, false, false);
	neighbour_expect("cuArrayDestroy", destroy, &array, true, true);
	test_pass();
}
