/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUkernel passed where a CUfunction is asked launches, but it is no
 * function: its attributes are read by cuKernelGetAttribute alone.
 * cuKernelGetFunction gives a function of the current context.
 */
#include "tests/contract/drv.h"

#define THREADS CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry add(.param .u64 at, .param .u32 n)\n{\n"
	"	.reg .u64 a;\n	.reg .u32 v, w;\n"
	"	ld.param.u64 a, [at];\n	ld.param.u32 w, [n];\n"
	"	ld.global.u32 v, [a];\n	add.u32 v, v, w;\n"
	"	st.global.u32 [a], v;\n	ret;\n}\n";

int
main(void)
{
	CUlibrary library;
	CUfunction function;
	CUdeviceptr p;
	uint32_t n = 5, value = 0;
	void *args[] = { &p, &n };
	CUkernel kernel;
	int threads = 0;

	drv_start();
	OK(drv.cuMemAlloc(&p, 4));
	OK(drv.cuMemsetD32(p, 1, 1));
	OK(drv.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL,
				 0));
	OK(drv.cuLibraryGetKernel(&kernel, library, "add"));
	OK(drv_launch1((CUfunction)kernel, NULL, args));
	OK(drv.cuCtxSynchronize());
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
	       drv.cuFuncGetAttribute(&threads, THREADS, (CUfunction)kernel));
	OK(drv.cuKernelGetAttribute(&threads, THREADS, kernel, drv.dev));
	CHECK(threads >= 256);
	OK(drv.cuKernelGetFunction(&function, kernel));
	threads = 0;
	OK(drv.cuFuncGetAttribute(&threads, THREADS, function));
	CHECK(threads >= 256);
	OK(drv_launch1(function, NULL, args));
	OK(drv.cuMemcpyDtoH(&value, p, 4));
	CHECK(value == 11);
	EXPECT(CUDA_ERROR_NOT_FOUND,
	       drv.cuLibraryGetKernel(&kernel, library, "none"));
	test_pass();
}
