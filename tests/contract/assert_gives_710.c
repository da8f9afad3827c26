/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failing device assert gives 710, sticky, and its text on stderr or
 * stdout of the process.
 */
#include "tests/contract/drv.h"

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".extern .func __assertfail(.param .b64 m, .param .b64 f,\n"
	"	.param .b32 l, .param .b64 n, .param .b64 s);\n"
	".global .align 1 .b8 text[8] = {110, 32, 62, 32, 48, 0, 0, 0};\n"
	".global .align 1 .b8 file[8] = {97, 46, 99, 117, 0, 0, 0, 0};\n"
	".visible .entry wrong()\n{\n"
	"	.reg .u64 t, f;\n"
	"	mov.u64 t, text;\n	cvta.global.u64 t, t;\n"
	"	mov.u64 f, file;\n	cvta.global.u64 f, f;\n"
	"	{\n"
	"	.param .b64 m;\n	.param .b64 n;\n"
	"	.param .b64 o;\n	.param .b64 s;\n	.param .b32 l;\n"
	"	st.param.b64 [m], t;\n	st.param.b64 [n], f;\n"
	"	st.param.b32 [l], 42;\n	st.param.b64 [o], f;\n"
	"	st.param.b64 [s], 1;\n"
	"	call.uni __assertfail, (m, n, l, o, s);\n"
	"	}\n	ret;\n}\n";

int
main(void)
{
	CUfunction wrong;
	CUdeviceptr q;

	drv_start();
	OK(drv.cuModuleGetFunction(&wrong, drv_load(image), "wrong"));
	OK(drv_launch1(wrong, NULL, NULL));
	EXPECT(CUDA_ERROR_ASSERT, drv.cuCtxSynchronize());
	EXPECT(CUDA_ERROR_ASSERT, drv.cuMemAlloc(&q, 4096));
	test_pass();
}
