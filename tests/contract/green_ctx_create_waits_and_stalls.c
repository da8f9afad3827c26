/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGreenCtxCreate waits for a neighbour's kernel and stalls others'
 * launches for a part of that time; cuGreenCtxDestroy does neither.
 */
#include "tests/contract/neighbour.h"

static CUdevResource sms;

static CUresult
create(void *arg)
{
	CUdevResourceDesc desc;
	CUresult rc = drv.cuDevResourceGenerateDesc(&desc, &sms, 1);

	return rc ? rc : drv.cuGreenCtxCreate(arg, desc, drv.dev,
					      CU_GREEN_CTX_DEFAULT_STREAM);
}

static CUresult
destroy(void *arg)
{
	return drv.cuGreenCtxDestroy(*(CUgreenCtx *)arg);
}

int
main(void)
{
	CUgreenCtx green;

	neighbour_start();
	OK(drv.cuDeviceGetDevResource(drv.dev, &sms,
				      CU_DEV_RESOURCE_TYPE_SM));
	neighbour_expect_part("cuGreenCtxCreate", create, &green);
	neighbour_expect("cuGreenCtxDestroy", destroy, &green, false, false);
	test_pass();
}
