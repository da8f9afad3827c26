/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX modules, control flow and the device runtime on the executor.
 * Single instructions are in check_ptx_ops.c.
 */
#undef NDEBUG
#include "tests/ptx/ptx_kernel.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
parse(const char *ptx)
{
	harness_open(&h, ptx);
	harness_close(&h);
	return h.parse_result;
}

START_TEST(version_and_target_have_a_ceiling)
{
	ck_assert_int_eq(parse(".version 9.0\n.target sm_90\n"
			       ".address_size 64\n"), 0);
	ck_assert_int_eq(parse(".version 9.1\n.target sm_90\n"),
			 PTX_E_VERSION);
	ck_assert_int_eq(parse(".version 10.0\n.target sm_90\n"),
			 PTX_E_VERSION);
	ck_assert_int_eq(parse(".version 9.0\n.target sm_100\n"),
			 PTX_E_TARGET);
	ck_assert_int_eq(parse(".version 7.0\n.target sm_52, debug\n"), 0);
	ck_assert_int_eq(parse(".target sm_90\n"), PTX_E_SYNTAX);
	ck_assert_int_eq(parse(""), PTX_E_SYNTAX);
}
END_TEST

START_TEST(text_may_start_with_white_space_and_comments)
{
	ck_assert_int_eq(parse("\n   // a\n/* b\n */ .version 9.0\n"
			       ".target sm_90\n"), 0);
}
END_TEST

START_TEST(syntax_errors_name_line_and_token)
{
	ck_assert_int_eq(parse(HEAD ".entry k()\n{\n  add.s32 %r1 %r2;\n}"),
			 PTX_E_SYNTAX);
	ck_assert_str_eq(h.log, "line 6: syntax error near '%r2'");
	ck_assert_int_eq(parse(HEAD ".entry k() { bra nowhere; }"),
			 PTX_E_SYNTAX);
	ck_assert(strstr(h.log, "nowhere"));
	/* Which nobody else can see. */
	ck_assert_int_eq(parse(HEAD ".entry k() { .local .b32 l; .reg .b32 %r;"
			       "ld.local.b32 %r, [l]; ret; }"), 0);
	ck_assert_int_eq(parse(HEAD ".entry k() { .local .b32 l; .reg .b32 %r;"
			       "ld.volatile.local.b32 %r, [l]; ret; }"),
			 PTX_E_SYNTAX);
	ck_assert(strstr(h.log, "ld.volatile.local.b32"));
	ck_assert_int_eq(parse(HEAD ".entry k() { .local .b32 l; .reg .b32 %r;"
			       "st.relaxed.gpu.local.b32 [l], %r; ret; }"),
			 PTX_E_SYNTAX);
	ck_assert_int_eq(parse(HEAD ".entry k(.param .b32 n) { .reg .b32 %r;"
			       "ld.volatile.param.b32 %r, [n]; ret; }"),
			 PTX_E_SYNTAX);
	ck_assert_int_eq(parse(HEAD ".entry k() { ret;"), PTX_E_SYNTAX);
	ck_assert_int_eq(parse(HEAD ".global .u32 x[2] = {1, 2, 3};"),
			 PTX_E_SYNTAX);
	ck_assert_int_eq(parse(HEAD ".entry k() { .reg .b32 %r;"
			       "mov.b64 %r, 0; }"), PTX_E_SYNTAX);
}
END_TEST

START_TEST(deep_nesting_is_refused_without_a_crash)
{
	size_t n = 200000;
	char *text = malloc(n + 200);

	strcpy(text, HEAD ".global .u32 x = ");
	memset(text + strlen(text), '(', n);
	text[sizeof(HEAD) + 16 + n - 1] = 0;
	ck_assert_int_eq(parse(text), PTX_E_SYNTAX);
	strcpy(text, HEAD ".entry k() ");
	memset(text + sizeof(HEAD) + 10, '{', n);
	text[sizeof(HEAD) + 10 + n] = 0;
	ck_assert_int_eq(parse(text), PTX_E_SYNTAX);
	free(text);
}
END_TEST

START_TEST(every_prefix_of_a_module_parses_or_fails_cleanly)
{
	static const char text[] = KERNEL(
		".shared .align 4 .b8 s[16]; .local .b32 l[2];\n"
		"@%p1 bra L; { .reg .b32 %q<3>; add.s32 %q1, %t, 0x10; }\n"
		"L: st.shared.v2.u32 [s+8], {%t, 5};\n"
		"mov.f32 %r1, 0f3F800000;\n");
	char copy[sizeof(text)];

	for (size_t n = 0; n < sizeof(text); n++) {
		memcpy(copy, text, n);
		copy[n] = 0;
		harness_open(&h, copy);
		ck_assert_int_le(h.parse_result, PTX_E_UNSUPPORTED);
		harness_close(&h);
	}
}
END_TEST

START_TEST(kernel_parameters_lie_at_natural_alignment)
{
	const struct ptx_kernel *k;

	harness_open(&h, HEAD ".visible .entry k(.param .u32 a,\n"
		     ".param .u64 b, .param .u8 c,\n"
		     ".param .align 16 .b8 d[20])\n"
		     ".maxntid 128, 2, 1 .minnctapersm 2 { ret; }\n");
	ck_assert_int_eq(h.parse_result, 0);
	ck_assert_uint_eq(ptx_module_kernel_count(h.module), 1);
	k = ptx_module_kernel(h.module, 0);
	ck_assert_str_eq(k->name, "k");
	ck_assert_uint_eq(k->nparams, 4);
	ck_assert_uint_eq(k->params[1].offset, 8);
	ck_assert_uint_eq(k->params[2].offset, 16);
	ck_assert_uint_eq(k->params[3].offset, 32);
	ck_assert_uint_eq(k->params[3].size, 20);
	ck_assert_uint_eq(k->param_size, 52);
	ck_assert_uint_eq(k->max_threads, 256);
	ck_assert_uint_eq(k->ptx_version, 90);
	ck_assert_uint_eq(k->target, 90);
	harness_close(&h);
}
END_TEST

START_TEST(kernels_say_what_they_use)
{
	const struct ptx_kernel *k;

	harness_open(&h, HEAD
		".extern .func (.param .b32 r) vprintf"
		" (.param .b64 a, .param .b64 b);\n"
		".extern .func (.param .b64 r) malloc (.param .b64 a);\n"
		".func f() { .param .b64 x; .param .b64 y; .param .b32 z;\n"
		".shared .b32 s[4]; .reg .b32 %r; mov.u32 %r, s;\n"
		"call (z), vprintf, (x, y); ret; }\n"
		".entry k() { .local .b8 l[40]; call f; ret; }\n"
		".entry k2() { .reg .b32 %r; mov.u32 %r, %envreg1; ret; }\n");
	ck_assert_msg(!h.parse_result, "%s", h.log);
	k = ptx_module_kernel(h.module, 0);
	ck_assert(k->uses_printf && !k->uses_heap && !k->uses_assert);
	ck_assert_uint_eq(k->shared_static, 16);
	ck_assert_uint_ge(k->local_bytes, 40);
	k = ptx_module_kernel(h.module, 1);
	ck_assert(!k->uses_printf && k->uses_grid_sync);
	ck_assert_uint_eq(k->shared_static, 0);
	harness_close(&h);
}
END_TEST

START_TEST(unresolved_names_fail_the_link)
{
	ck_assert_int_eq(parse(HEAD ".extern .func nothere ();\n"
			       ".entry k() { call nothere; ret; }"),
			 PTX_E_SYNTAX);
	ck_assert(strstr(h.log, "nothere"));
	ck_assert_int_eq(parse(HEAD ".extern .global .u32 far;\n"
			       ".entry k() { ret; }"), PTX_E_SYNTAX);
	ck_assert(strstr(h.log, "far"));
}
END_TEST

START_TEST(threads_know_their_place)
{
	uint32_t *o = run(KERNEL("st.global.u32 [%e], %r0;\n"), 5, 70);

	for (unsigned k = 0; k < 350; k++)
		ck_assert_uint_eq(o[k], k);
	harness_close(&h);
}
END_TEST

START_TEST(special_registers_agree_with_the_launch)
{
	uint32_t *o = run(KERNEL(
		"mov.u32 %r1, %laneid; st.global.u32 [%o], %r1;\n"
		"mov.u32 %r1, %warpid; st.global.u32 [%o+4], %r1;\n"
		"mov.u32 %r1, %nctaid.x; st.global.u32 [%o+8], %r1;\n"
		"mov.u32 %r1, %nsmid; st.global.u32 [%o+12], %r1;\n"
		"mov.u64 %d1, %gridid; st.global.u32 [%o+16], %d1;\n"
		"mov.u32 %r1, %lanemask_lt; st.global.u32 [%o+20], %r1;\n"
		"mov.u32 %r1, %lanemask_ge; st.global.u32 [%o+24], %r1;\n"
		"mov.u64 %d1, %clock64; mov.u64 %d2, %globaltimer;\n"
		"setp.ne.u64 %p1, %d2, 0; selp.u32 %r1, 1, 0, %p1;\n"
		"st.global.u32 [%o+28], %r1;\n"
		"add.u32 %r1, %ntid.y, %nctaid.z;\n"
		"st.global.u32 [%o+32], %r1;\n"
		"mov.u32 %r1, %cluster_nctarank;\n"
		"st.global.u32 [%o+36], %r1;\n"), 1, 1);

	ck_assert_uint_eq(o[0], 0);
	ck_assert_uint_eq(o[1], 0);
	ck_assert_uint_eq(o[2], 1);
	ck_assert_uint_eq(o[3], 132);
	ck_assert_uint_eq(o[4], 7);
	ck_assert_uint_eq(o[5], 0);
	ck_assert_uint_eq(o[6], ~0u);
	ck_assert_uint_eq(o[7], 1);
	ck_assert_uint_eq(o[8], 2);
	ck_assert_uint_eq(o[9], 1);
	harness_close(&h);
}
END_TEST

START_TEST(lanes_diverge_and_join)
{
	uint32_t *o = run(KERNEL(
		"and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0;\n"
		"mov.u32 %r2, 100; @%p1 bra EVEN;\n"
		"mul.lo.u32 %r2, %t, 3; bra.uni JOIN;\n"
		"EVEN: add.u32 %r2, %r2, %t;\n"
		"JOIN: activemask.b32 %r3; popc.b32 %r3, %r3;\n"
		"shl.b32 %r3, %r3, 16; or.b32 %r2, %r2, %r3;\n"
		"st.global.u32 [%e], %r2;\n"), 1, 32);

	for (unsigned k = 0; k < 32; k++)
		ck_assert_uint_eq(o[k], (32 << 16) |
				  (k & 1 ? 3 * k : 100 + k));
	harness_close(&h);
}
END_TEST

START_TEST(loops_end_for_each_lane_by_itself)
{
	uint32_t *o = run(KERNEL(
		"mov.u32 %r1, 0; mov.u32 %r2, 0;\n"
		"L: setp.ge.u32 %p1, %r1, %t; @%p1 bra E;\n"
		"add.u32 %r2, %r2, %r1; add.u32 %r1, %r1, 1; bra L;\n"
		"E: st.global.u32 [%e], %r2;\n"), 1, 64);

	for (unsigned k = 0; k < 64; k++)
		ck_assert_uint_eq(o[k], k * (k - 1) / 2);
	harness_close(&h);
}
END_TEST

START_TEST(indexed_branches_go_where_the_table_says)
{
	uint32_t *o = run(KERNEL(
		"T: .branchtargets A, B, C;\n"
		"rem.u32 %r1, %t, 3; brx.idx %r1, T;\n"
		"A: mov.u32 %r2, 10; bra E;\n"
		"B: mov.u32 %r2, 20; bra E;\n"
		"C: mov.u32 %r2, 30;\n"
		"E: st.global.u32 [%e], %r2;\n"), 1, 32);

	for (unsigned k = 0; k < 32; k++)
		ck_assert_uint_eq(o[k], 10 + 10 * (k % 3));
	harness_close(&h);
}
END_TEST

START_TEST(inner_labels_hide_outer_ones)
{
	uint32_t *o = run(KERNEL(
		"mov.u32 %r1, 0;\n"
		"{ bra X; add.u32 %r1, %r1, 1; X: add.u32 %r1, %r1, 2; }\n"
		"{ bra X; add.u32 %r1, %r1, 4; X: add.u32 %r1, %r1, 8; }\n"
		"bra X; add.u32 %r1, %r1, 16;\n"
		"X: st.global.u32 [%e], %r1;\n"), 1, 1);

	ck_assert_uint_eq(o[0], 10);
	harness_close(&h);
}
END_TEST

START_TEST(inner_register_ranges_hide_outer_ones)
{
	uint32_t *o = run(KERNEL(
		"mov.u32 %r1, 5;\n"
		"{ .reg .b32 %r<4>; mov.u32 %r1, 9; mov.u32 %r2, %r1; }\n"
		"st.global.u32 [%e], %r1;\n"), 1, 1);

	ck_assert_uint_eq(o[0], 5);
	harness_close(&h);
}
END_TEST

#define FIB \
	".func (.param .b32 r) fib (.param .b32 n)\n{\n" \
	".reg .pred %p; .reg .b32 %a, %b, %c;\n" \
	"ld.param.b32 %a, [n]; setp.lt.u32 %p, %a, 2; mov.u32 %c, %a;\n" \
	"@%p bra E;\n" \
	"{ .param .b32 x; .param .b32 y; sub.u32 %b, %a, 1;\n" \
	"st.param.b32 [x], %b; call (y), fib, (x);\n" \
	"ld.param.b32 %c, [y]; }\n" \
	"{ .param .b32 x; .param .b32 y; sub.u32 %b, %a, 2;\n" \
	"st.param.b32 [x], %b; call (y), fib, (x);\n" \
	"ld.param.b32 %b, [y]; add.u32 %c, %c, %b; }\n" \
	"E: st.param.b32 [r], %c; ret;\n}\n"
#define FIB_KERNEL ".visible .entry k(.param .u64 out)\n{\n" REGS \
	"rem.u32 %r1, %t, 11;\n" \
	"{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1;\n" \
	"call (y), fib, (x); ld.param.b32 %r2, [y]; }\n" \
	"st.global.u32 [%e], %r2; ret;\n}\n"

START_TEST(functions_recurse_with_divergent_depth)
{
	static const uint32_t fib[] = { 0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55 };
	uint32_t *o = run(HEAD FIB FIB_KERNEL, 1, 32);

	for (unsigned k = 0; k < 32; k++)
		ck_assert_uint_eq(o[k], fib[k % 11]);
	harness_close(&h);
}
END_TEST

START_TEST(endless_recursion_is_a_stack_fault)
{
	ck_assert_int_eq(fault_of(HEAD ".func f() { call f; ret; }\n"
		".entry k(.param .u64 out) { call f; ret; }"),
		PTX_FAULT_STACK);
}
END_TEST

START_TEST(functions_take_registers_and_structures)
{
	uint32_t *o = run(HEAD
		".func (.reg .b32 r) f (.reg .b32 a, .reg .b32 b)\n"
		"{ mad.lo.u32 r, a, b, 1; ret; }\n"
		".func (.param .align 8 .b8 r[16]) g"
		" (.param .align 8 .b8 a[16])\n"
		"{ .reg .b64 %x; .reg .b32 %y; .reg .b16 %z;\n"
		"ld.param.u64 %x, [a+8]; add.u64 %x, %x, 1;\n"
		"st.param.u64 [r], %x; ld.param.u8 %z, [a+1];\n"
		"st.param.b16 [r+8], %z; ld.param.u32 %y, [a+4];\n"
		"st.param.b32 [r+12], %y; ret; }\n"
		".visible .entry k(.param .u64 out)\n{\n" REGS
		"call (%r1), f, (%t, 5); st.global.u32 [%o], %r1;\n"
		"{ .param .align 8 .b8 x[16]; .param .align 8 .b8 y[16];\n"
		"st.param.b32 [x], 0x04030201; st.param.b32 [x+4], 77;\n"
		"st.param.b64 [x+8], 41; call (y), g, (x);\n"
		"ld.param.u64 %d1, [y]; ld.param.b16 %r2, [y+8];\n"
		"ld.param.b32 %r3, [y+12]; }\n"
		"st.global.u64 [%o+8], %d1; st.global.u32 [%o+16], %r2;\n"
		"st.global.u32 [%o+20], %r3; ret;\n}\n", 1, 1);

	ck_assert_uint_eq(o[0], 1);
	ck_assert_uint_eq(o[2], 42);
	ck_assert_uint_eq(o[4], 2);
	ck_assert_uint_eq(o[5], 77);
	harness_close(&h);
}
END_TEST

START_TEST(indirect_calls_split_the_warp_by_target)
{
	uint32_t *o = run(HEAD
		".func (.param .b32 r) f (.param .b32 a);\n"
		".func (.param .b32 r) g (.param .b32 a);\n"
		".global .u64 tab[2] = {f, g};\n"
		".func (.param .b32 r) f (.param .b32 a) { .reg .b32 %a;\n"
		"ld.param.b32 %a, [a]; add.u32 %a, %a, 100;\n"
		"st.param.b32 [r], %a; ret; }\n"
		".func (.param .b32 r) g (.param .b32 a) { .reg .b32 %a;\n"
		"ld.param.b32 %a, [a]; mul.lo.u32 %a, %a, 7;\n"
		"st.param.b32 [r], %a; ret; }\n"
		".visible .entry k(.param .u64 out)\n{\n" REGS
		"and.b32 %r1, %t, 1; mul.wide.u32 %d1, %r1, 8;\n"
		"mov.u64 %d2, tab; add.u64 %d2, %d2, %d1;\n"
		"ld.global.u64 %d3, [%d2];\n"
		"{ .param .b32 x; .param .b32 y; st.param.b32 [x], %t;\n"
		"P: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
		"call (y), %d3, (x), P; ld.param.b32 %r2, [y]; }\n"
		"st.global.u32 [%e], %r2; ret;\n}\n", 1, 32);

	for (unsigned k = 0; k < 32; k++)
		ck_assert_uint_eq(o[k], k & 1 ? k * 7 : k + 100);
	harness_close(&h);
}
END_TEST

START_TEST(a_call_of_no_function_is_a_pc_fault)
{
	ck_assert_int_eq(fault_of(KERNEL(
		"mov.u64 %d1, 12345;\n"
		"P: .callprototype _ ();\n"
		"call %d1, (), P;\n")), PTX_FAULT_PC);
}
END_TEST

#define PRINT_HEAD HEAD \
	".extern .func (.param .b32 r) vprintf" \
	" (.param .b64 a, .param .b64 b);\n" \
	".global .align 1 .b8 f[64] = {37, 100, 32, 37, 53, 46, 50, 102, 32," \
	" 37, 108, 108, 120, 32, 37, 115, 32, 37, 99, 37, 37, 32, 37, 45, 52," \
	" 117, 124, 32, 37, 42, 100, 10, 0};\n" \
	".global .align 1 .b8 s[4] = {97, 98, 99, 0};\n"

START_TEST(printf_formats_packed_arguments)
{
	static const char ptx[] = PRINT_HEAD
		".visible .entry k(.param .u64 out)\n{\n" REGS
		".local .align 8 .b8 l[64]; .reg .b64 %x<4>;\n"
		"mov.u64 %x1, l; cvta.local.u64 %x2, %x1;\n"
		"st.local.u32 [%x1], -5; st.local.f64 [%x1+8], 2.5;\n"
		"st.local.u64 [%x1+16], 0xabcdef0123; mov.u64 %x3, s;\n"
		"st.local.u64 [%x1+24], %x3; st.local.u32 [%x1+32], 88;\n"
		"st.local.u32 [%x1+36], 7; st.local.u32 [%x1+40], 6;\n"
		"st.local.u32 [%x1+44], 42; mov.u64 %x3, f;\n"
		"{ .param .b64 a; .param .b64 b; .param .b32 r;\n"
		"st.param.b64 [a], %x3; st.param.b64 [b], %x2;\n"
		"call (r), vprintf, (a, b); ld.param.b32 %r1, [r]; }\n"
		"st.global.u32 [%o], %r1; ret; }\n";
	uint32_t *o = run(ptx, 1, 1);

	ck_assert_str_eq(h.text,
			 "-5  2.50 abcdef0123 abc X% 7   |     42\n");
	ck_assert_uint_eq(o[0], 8);
	harness_close(&h);
}
END_TEST

START_TEST(a_failed_assertion_complains_and_faults)
{
	uint64_t arg = 0;

	harness_open(&h, HEAD
		".extern .func __assertfail (.param .b64 a, .param .b64 b,"
		" .param .b32 c, .param .b64 d, .param .b64 e);\n"
		".global .b8 m[4] = {120, 60, 53, 0};\n"
		".global .b8 f[5] = {97, 46, 99, 117, 0};\n"
		".global .b8 n[4] = {107, 40, 41, 0};\n"
		".visible .entry k(.param .u64 out)\n{ .reg .b64 %x<4>;\n"
		"mov.u64 %x1, m; mov.u64 %x2, f; mov.u64 %x3, n;\n"
		"{ .param .b64 a; .param .b64 b; .param .b32 c;"
		" .param .b64 d; .param .b64 e;\n"
		"st.param.b64 [a], %x1; st.param.b64 [b], %x2;"
		" st.param.b32 [c], 11; st.param.b64 [d], %x3;\n"
		"st.param.b64 [e], 1; call __assertfail, (a, b, c, d, e); }\n"
		"ret; }\n");
	ck_assert_msg(!h.parse_result, "%s", h.log);
	ck_assert(ptx_module_kernel(h.module, 0)->uses_assert);
	ck_assert_int_eq(harness_run(&h, "k", &arg, 8), PTX_FAULT_ASSERT);
	ck_assert_str_eq(h.complaint, "a.cu:11: k(): block: [0,0,0], "
			 "thread: [0,0,0] Assertion `x<5` failed.\n");
	ck_assert_str_eq(h.text, "");
	harness_close(&h);
}
END_TEST

START_TEST(the_device_heap_gives_memory)
{
	uint32_t *o = run(HEAD
		".extern .func (.param .b64 r) malloc (.param .b64 a);\n"
		".extern .func free (.param .b64 a);\n"
		".visible .entry k(.param .u64 out)\n{\n" REGS
		"{ .param .b64 a; .param .b64 r; st.param.b64 [a], 16;\n"
		"call (r), malloc, (a); ld.param.b64 %d1, [r]; }\n"
		"st.u32 [%d1], %t; ld.u32 %r1, [%d1];\n"
		"{ .param .b64 a; st.param.b64 [a], %d1; call free, (a); }\n"
		"st.global.u32 [%e], %r1; ret; }\n", 1, 32);

	for (unsigned k = 0; k < 32; k++)
		ck_assert_uint_eq(o[k], k);
	harness_close(&h);
}
END_TEST

static void
add_front_end(Suite *s)
{
	TCase *t = tcase_create("front end");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, version_and_target_have_a_ceiling);
	tcase_add_test(t, text_may_start_with_white_space_and_comments);
	tcase_add_test(t, syntax_errors_name_line_and_token);
	tcase_add_test(t, deep_nesting_is_refused_without_a_crash);
	tcase_add_test(t, every_prefix_of_a_module_parses_or_fails_cleanly);
	tcase_add_test(t, kernel_parameters_lie_at_natural_alignment);
	tcase_add_test(t, kernels_say_what_they_use);
	tcase_add_test(t, unresolved_names_fail_the_link);
	suite_add_tcase(s, t);
}

static void
add_flow(Suite *s)
{
	TCase *t = tcase_create("flow");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, threads_know_their_place);
	tcase_add_test(t, special_registers_agree_with_the_launch);
	tcase_add_test(t, lanes_diverge_and_join);
	tcase_add_test(t, loops_end_for_each_lane_by_itself);
	tcase_add_test(t, indexed_branches_go_where_the_table_says);
	tcase_add_test(t, inner_labels_hide_outer_ones);
	tcase_add_test(t, inner_register_ranges_hide_outer_ones);
	tcase_add_test(t, functions_recurse_with_divergent_depth);
	tcase_add_test(t, endless_recursion_is_a_stack_fault);
	tcase_add_test(t, functions_take_registers_and_structures);
	tcase_add_test(t, indirect_calls_split_the_warp_by_target);
	tcase_add_test(t, a_call_of_no_function_is_a_pc_fault);
	suite_add_tcase(s, t);
}

static void
add_runtime(Suite *s)
{
	TCase *t = tcase_create("runtime");

	tcase_add_test(t, printf_formats_packed_arguments);
	tcase_add_test(t, a_failed_assertion_complains_and_faults);
	tcase_add_test(t, the_device_heap_gives_memory);
	suite_add_tcase(s, t);
}

int
main(void)
{
	Suite *s = suite_create("ptx");
	SRunner *r;
	int failed;

	add_front_end(s);
	add_flow(s);
	add_runtime(s);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
