/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before cuInit calls give 3; without a context they give 201; NULL where a
 * result goes gives 1. cuDriverGetVersion needs none of it.
 */
#include "tests/contract/drv.h"

int
main(void)
{
	CUdeviceptr p;
	CUcontext ctx = NULL;
	CUdevice dev;
	CUstream s;
	int n = 0;

	drv_open();
	EXPECT(CUDA_SUCCESS, drv.cuDriverGetVersion(&n));
	CHECK(n >= 12040);
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuDeviceGetCount(&n));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuDeviceGet(&dev, 0));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuMemAlloc(&p, 4096));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuCtxGetCurrent(&ctx));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuInit(1));
	OK(drv.cuInit(0));
	OK(drv.cuInit(0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuMemAlloc(&p, 4096));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuStreamCreate(&s, 0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuCtxSynchronize());
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuCtxGetDevice(&dev));
	EXPECT(CUDA_SUCCESS, drv.cuCtxGetCurrent(&ctx));
	CHECK(!ctx);
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuDeviceGet(NULL, 0));
	OK(drv.cuDeviceGetCount(&n));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, drv.cuDeviceGet(&dev, n));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, drv.cuDeviceGet(&dev, -1));
	OK(drv.cuDeviceGet(&dev, 0));
	OK(drv.cuDevicePrimaryCtxRetain(&ctx, dev));
	OK(drv.cuCtxSetCurrent(ctx));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAlloc(NULL, 4096));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAlloc(&p, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuStreamCreate(NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFree(0x1234));
	EXPECT(CUDA_SUCCESS, drv.cuMemFree(0));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY,
	       drv.cuMemAlloc(&p, (size_t)1 << 45));
	test_pass();
}
