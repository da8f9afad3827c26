/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a green context cuStreamCreate with flags 0 makes a NON_BLOCKING
 * stream, cuGreenCtxStreamCreate with flags 0 is refused, and the NULL
 * stream does not wait for the context's other streams: legacy ordering
 * does not exist there.
 */
#include "tests/contract/held.h"

int
main(void)
{
	CUdevResourceDesc desc;
	CUstream plain, refused;
	CUdevResource sms;
	CUgreenCtx green;
	CUcontext ctx;
	CUstream null = NULL;
	unsigned flags = 9;

	drv_start();
	held_start(NULL);
	held_end();
	drv_empty(NULL);
	OK(drv.cuCtxSynchronize());
	OK(drv.cuDeviceGetDevResource(drv.dev, &sms,
				      CU_DEV_RESOURCE_TYPE_SM));
	OK(drv.cuDevResourceGenerateDesc(&desc, &sms, 1));
	OK(drv.cuGreenCtxCreate(&green, desc, drv.dev,
				CU_GREEN_CTX_DEFAULT_STREAM));
	OK(drv.cuCtxFromGreenCtx(&ctx, green));
	OK(drv.cuCtxSetCurrent(ctx));
	OK(drv.cuStreamCreate(&plain, CU_STREAM_DEFAULT));
	OK(drv.cuStreamGetFlags(plain, &flags));
	CHECK(flags == CU_STREAM_NON_BLOCKING);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       drv.cuGreenCtxStreamCreate(&refused, green, 0, 0));
	held_start(plain);
	CHECK(!held_waits("NULL", held_launch, &null, false));
	held_end();
	OK(drv.cuStreamSynchronize(plain));
	test_pass();
}
