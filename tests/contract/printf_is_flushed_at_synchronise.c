/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of a device printf appears on the process's stdout when the context
 * is synchronised, not before the kernel ends, in order.
 */
#include "tests/contract/drv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf(.param .b64 f,\n"
	"	.param .b64 a);\n"
	".global .align 1 .b8 text[12] = {118, 61, 37, 100, 32, 37, 115,\n"
	"	10, 0, 0, 0, 0};\n" /* "v=%d %s\n" */
	".global .align 1 .b8 word[4] = {111, 107, 0, 0};\n" /* "ok" */
	".visible .entry say(.param .u32 n)\n{\n"
	"	.local .align 8 .b8 args[16];\n"
	"	.reg .u64 t, a, w;\n	.reg .u32 v;\n"
	"	ld.param.u32 v, [n];\n"
	"	mov.u64 a, args;\n	cvta.local.u64 a, a;\n"
	"	st.u32 [a], v;\n"
	"	mov.u64 w, word;\n	cvta.global.u64 w, w;\n"
	"	st.u64 [a+8], w;\n"
	"	mov.u64 t, text;\n	cvta.global.u64 t, t;\n"
	"	{\n	.param .b64 p;\n	.param .b64 q;\n"
	"	.param .b32 r;\n"
	"	st.param.b64 [p], t;\n	st.param.b64 [q], a;\n"
	"	call.uni (r), vprintf, (p, q);\n	}\n"
	"	ret;\n}\n";

int
main(void)
{
	char got[256] = "";
	int pipes[2], saved, n;
	CUfunction say;
	CUstream s;

	drv_start();
	OK(drv.cuModuleGetFunction(&say, drv_load(image), "say"));
	OK(drv.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CHECK(!pipe(pipes));
	fflush(stdout);
	saved = dup(1);
	dup2(pipes[1], 1);
	for (n = 1; n <= 3; n++) {
		void *args[] = { &n };

		OK(drv_launch1(say, s, args));
	}
	OK(drv.cuCtxSynchronize());
	fflush(stdout);
	dup2(saved, 1);
	close(pipes[1]);
	CHECK(read(pipes[0], got, sizeof(got) - 1) > 0);
	printf("text: %s", got);
	CHECK(!strcmp(got, "v=1 ok\nv=2 ok\nv=3 ok\n"));
	test_pass();
}
