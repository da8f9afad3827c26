/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch refused for its arguments gives its code at once and spoils
 * nothing: the context works afterwards.
 */
#include "tests/contract/drv.h"

static CUfunction bump;
static CUdeviceptr word;

static CUresult
launch(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned block_x,
       unsigned block_y, unsigned block_z, unsigned shared)
{
	void *args[] = { &word };

	return drv.cuLaunchKernel(f, grid_x, grid_y, 1, block_x, block_y,
				  block_z, shared, NULL, args, NULL);
}

int
main(void)
{
	uint32_t value = 0;

	drv_start();
	bump = drv_kernel(KERNEL_BUMP);
	OK(drv.cuMemAlloc(&word, 4));
	OK(drv.cuMemsetD32(word, 0, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(bump, 1, 1, 0, 1, 1, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(bump, 0, 1, 1, 1, 1, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(bump, 1, 1, 2048, 1, 1, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(bump, 1, 1, 1025, 1, 1, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(bump, 1, 1, 64, 32, 1, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(bump, 1, 1, 1, 1, 65, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(bump, 1, 65536, 1, 1, 1, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       launch(bump, 1, 1, 1, 1, 1, 64 << 10));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       launch(bump, 1, 1, 1, 1, 1, 1 << 20));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, launch(NULL, 1, 1, 1, 1, 1, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       drv.cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
				  NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       drv.cuFuncSetAttribute(bump,
			CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			1 << 20));
	OK(drv.cuFuncSetAttribute(bump,
			CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			64 << 10));
	EXPECT(CUDA_SUCCESS, launch(bump, 1, 1, 1, 1, 1, 64 << 10));
	EXPECT(CUDA_SUCCESS, launch(bump, 1, 1, 1, 1, 1, 0));
	OK(drv.cuMemcpyDtoH(&value, word, 4));
	CHECK(value == 2);
	test_pass();
}
