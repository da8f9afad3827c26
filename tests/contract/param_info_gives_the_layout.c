/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuFuncGetParamInfo and cuKernelGetParamInfo give offset and size of each
 * parameter and 1 (invalid value) behind the last.
 */
#include "tests/contract/drv.h"

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry many(.param .u8 a, .param .u64 b, .param .u16 c,\n"
	"	.param .align 16 .b8 d[40], .param .f32 e)\n{\n	ret;\n}\n"
	".visible .entry none()\n{\n	ret;\n}\n";

int
main(void)
{
	static const size_t offset[] = { 0, 8, 16, 32, 72 };
	static const size_t size[] = { 1, 8, 2, 40, 4 };
	CUfunction many, none;
	CUlibrary library;
	CUkernel kernel;
	CUmodule module;
	size_t at, n, i;

	drv_start();
	module = drv_load(image);
	OK(drv.cuModuleGetFunction(&many, module, "many"));
	OK(drv.cuModuleGetFunction(&none, module, "none"));
	OK(drv.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL,
				 0));
	OK(drv.cuLibraryGetKernel(&kernel, library, "many"));
	for (i = 0; i < 5; i++) {
		OK(drv.cuFuncGetParamInfo(many, i, &at, &n));
		CHECK(at == offset[i] && n == size[i]);
		OK(drv.cuKernelGetParamInfo(kernel, i, &at, &n));
		CHECK(at == offset[i] && n == size[i]);
	}
	EXPECT(CUDA_SUCCESS, drv.cuFuncGetParamInfo(many, 4, &at, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       drv.cuFuncGetParamInfo(many, 5, &at, &n));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       drv.cuKernelGetParamInfo(kernel, 5, &at, &n));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       drv.cuFuncGetParamInfo(none, 0, &at, &n));
	test_pass();
}
