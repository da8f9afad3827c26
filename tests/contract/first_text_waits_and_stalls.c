/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first kernel of a context that can print or assert waits for all that
 * runs there, and what others launch after it waits for it. The next ones wait
 * for nobody and hold up nobody, though their code is another.
 */
#include "tests/contract/neighbour.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static const char prints[] = HEAD
	".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
	".global .align 1 .b8 text[3] = {104, 10, 0};\n"
	".visible .entry k(.param .u32 yes)\n{\n"
	" .reg .pred %q; .reg .b64 %d<2>; .reg .b32 %r<3>;\n"
	" ld.param.u32 %r1, [yes]; setp.eq.u32 %q, %r1, 0; @%q bra E;\n"
	" mov.u64 %d1, text; cvta.global.u64 %d1, %d1;\n"
	" { .param .b64 f; .param .b64 a; .param .b32 r;\n"
	" st.param.b64 [f], %d1; st.param.b64 [a], 0;\n"
	" call.uni (r), vprintf, (f, a); }\nE: ret;\n}\n";
static const char asserts[] = HEAD
	".extern .func __assertfail(.param .b64 m, .param .b64 f,"
	" .param .b32 l, .param .b64 n, .param .b64 s);\n"
	".global .align 1 .b8 text[6] = {110, 32, 62, 32, 53, 0};\n"
	".visible .entry k(.param .u32 yes)\n{\n"
	" .reg .pred %q; .reg .b64 %d<2>; .reg .b32 %r<2>;\n"
	" ld.param.u32 %r1, [yes]; setp.eq.u32 %q, %r1, 0; @%q bra E;\n"
	" mov.u64 %d1, text; cvta.global.u64 %d1, %d1;\n"
	" { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n;"
	" .param .b64 s;\n st.param.b64 [m], %d1; st.param.b64 [f], %d1;"
	" st.param.b32 [l], 9;\n st.param.b64 [n], %d1;"
	" st.param.b64 [s], 1;\n"
	" call.uni __assertfail, (m, f, l, n, s); }\nE: ret;\n}\n";

static CUfunction
kernel_of(const char *ptx)
{
	CUresult (*load)(CUfunction) = drv_symbol("cuFuncLoad");
	CUfunction f;

	OK(drv.cuModuleGetFunction(&f, drv_load(ptx), "k"));
	OK(load(f));
	return f;
}

static CUresult
launch(void *f)
{
	uint32_t no = 0;
	void *args[] = { &no };

	return drv_launch1((CUfunction)f, neighbour_own_stream, args);
}

static CUresult
launch_and_end(void *f)
{
	CUresult r = launch(f);

	return r ? r : drv.cuStreamSynchronize(neighbour_own_stream);
}

int
main(void)
{
	CUfunction first, second, third;

	neighbour_start();
	first = kernel_of(asserts);
	second = kernel_of(prints);
	third = kernel_of(asserts);
	neighbour_expect("the end of the first one", launch_and_end, first,
			 true, true);
	neighbour_expect("of one that prints", launch_and_end, second, false,
			 false);
	neighbour_expect("of another that asserts", launch_and_end, third,
			 false, false);
	test_pass();
}
