/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first launch of a kernel that needs much local memory makes the
 * driver grow it: it waits for the neighbours and stalls them. The second
 * launch does neither.
 */
#include "tests/contract/neighbour.h"

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry hog(.param .u64 at, .param .u32 n)\n"
	"{\n"
	"	.local .align 16 .b8 frame[8192];\n"
	"	.reg .pred p;\n"
	"	.reg .u64 a, q, f;\n"
	"	.reg .u32 i, v;\n"
	"	ld.param.u64 a, [at];\n"
	"	ld.param.u32 i, [n];\n"
	"	mov.u64 f, frame;\n"
	"	mul.wide.u32 q, i, 4;\n"
	"	add.u64 f, f, q;\n"
	"	mov.u32 v, i;\n"
	"AGAIN:\n"
	"	st.local.u32 [f], v;\n"
	"	sub.u64 f, f, 4;\n"
	"	sub.u32 v, v, 1;\n"
	"	setp.gt.u32 p, v, 0;\n"
	"	@p bra AGAIN;\n"
	"	ld.local.u32 v, [f+8];\n"
	"	st.global.u32 [a], v;\n"
	"	ret;\n"
	"}\n";

static CUfunction hog;
static CUdeviceptr word;

static CUresult
launch(void *arg)
{
	unsigned n = 2000;
	void *args[] = { &word, &n };

	(void)arg;
	return drv.cuLaunchKernel(hog, 1, 1, 1, 32, 1, 1, 0,
				  neighbour_own_stream, args, NULL);
}

int
main(void)
{
	CUmodule module;

	neighbour_start();
	module = drv_load(image);
	OK(drv.cuModuleGetFunction(&hog, module, "hog"));
	OK(drv.cuMemAlloc(&word, 4));
	neighbour_expect("first launch with 8 KiB of local memory", launch,
			 NULL, true, true);
	OK(drv.cuStreamSynchronize(neighbour_own_stream));
	neighbour_expect("second launch", launch, NULL, false, false);
	test_pass();
}
