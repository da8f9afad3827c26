/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single PTX instructions against expectations computed by hand or by the
 * CPU. Every row runs in one kernel; its result register is what counts.
 */
#undef NDEBUG
#include "tests/ptx/ptx_harness.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Registers 1 to 3 of every size hold a, b, c; the result is register 0. */
static const char frame[] =
	".version 9.0\n.target sm_90\n.address_size 64\n"
	".visible .entry k(.param .u64 o, .param .u64 a, .param .u64 b,\n"
	" .param .u64 c)\n{\n"
	".reg .pred %%p<8>; .reg .b16 %%h<8>; .reg .b32 %%r<8>;\n"
	".reg .b64 %%d<8>; .reg .b64 %%o<2>;\n"
	"ld.param.u64 %%o1, [o]; ld.param.u64 %%d1, [a];\n"
	"ld.param.u64 %%d2, [b]; ld.param.u64 %%d3, [c];\n"
	"cvt.u32.u64 %%r1, %%d1; cvt.u32.u64 %%r2, %%d2;\n"
	"cvt.u32.u64 %%r3, %%d3;\n"
	"cvt.u16.u64 %%h1, %%d1; cvt.u16.u64 %%h2, %%d2;\n"
	"cvt.u16.u64 %%h3, %%d3;\n"
	"setp.ne.u64 %%p1, %%d1, 0; setp.ne.u64 %%p2, %%d2, 0;\n"
	"setp.ne.u64 %%p3, %%d3, 0;\n"
	"mov.u64 %%d0, 0; mov.u32 %%r0, 0; mov.u16 %%h0, 0;\n"
	"mov.pred %%p0, 0;\n"
	"%s\n"
	"st.global.b64 [%%o1], %%d0; st.global.b32 [%%o1+8], %%r0;\n"
	"st.global.b16 [%%o1+16], %%h0; selp.b32 %%r7, 1, 0, %%p0;\n"
	"st.global.b32 [%%o1+24], %%r7; ret;\n}\n";

static uint64_t
eval(const char *body, char result, uint64_t a, uint64_t b, uint64_t c)
{
	static struct harness h;
	char text[8192];
	struct {
		uint64_t o, a, b, c;
	} args = { 0, a, b, c };
	const uint8_t *out;
	uint64_t v = 0;

	snprintf(text, sizeof(text), frame, body);
	harness_open(&h, text);
	ck_assert_msg(!h.parse_result, "%s: %s", body, h.log);
	out = harness_alloc(&h, 64);
	args.o = (uint64_t)(uintptr_t)out;
	ck_assert_msg(!harness_run(&h, "k", &args, sizeof(args)), "%s: %s",
		      body, h.detail);
	if (result == 'd')
		memcpy(&v, out, 8);
	else if (result == 'r')
		memcpy(&v, out + 8, 4);
	else if (result == 'h')
		memcpy(&v, out + 16, 2);
	else
		memcpy(&v, out + 24, 4);
	harness_close(&h);
	return v;
}

struct row {
	const char *body;
	char result;
	uint64_t a, b, c, want;
};

static void
check_rows(const struct row *rows, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		const struct row *r = &rows[k];
		uint64_t got = eval(r->body, r->result, r->a, r->b, r->c);

		ck_assert_msg(got == r->want, "%s: got %#llx, want %#llx",
			      r->body, (unsigned long long)got,
			      (unsigned long long)r->want);
	}
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof(*rows))

static uint64_t
f32(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

static uint64_t
f64(double d)
{
	uint64_t u;

	memcpy(&u, &d, 8);
	return u;
}

#define M32 0xffffffffull
#define M64 0xffffffffffffffffull

START_TEST(integers_add_and_subtract_in_every_width)
{
	static const struct row rows[] = {
		{ "add.u16 %h0, %h1, %h2;", 'h', 0xffff, 3, 0, 2 },
		{ "add.s32 %r0, %r1, %r2;", 'r', M32, 5, 0, 4 },
		{ "add.s64 %d0, %d1, %d2;", 'd', M64, 5, 0, 4 },
		{ "sub.s16 %h0, %h1, %h2;", 'h', 3, 5, 0, 0xfffe },
		{ "sub.u32 %r0, %r1, %r2;", 'r', 3, 5, 0, 0xfffffffe },
		{ "sub.u64 %d0, %d1, 5;", 'd', 3, 0, 0, M64 - 1 },
		{ "add.sat.s32 %r0, %r1, %r2;", 'r', 0x7fffffff, 1, 0,
		  0x7fffffff },
		{ "sub.sat.s32 %r0, %r1, %r2;", 'r', 0x80000000, 1, 0,
		  0x80000000 },
		{ "add.u16x2 %r0, %r1, %r2;", 'r', 0xffff0001, 0x00010002, 0,
		  0x00000003 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(carry_chains_pass_the_flag)
{
	static const struct row rows[] = {
		{ "add.cc.u32 %r4, %r1, %r2; addc.u32 %r0, 0, 0;", 'r', M32,
		  1, 0, 1 },
		{ "add.cc.u32 %r4, %r1, %r2; addc.u32 %r0, 7, 0;", 'r', 1, 1,
		  0, 7 },
		{ "sub.cc.u32 %r4, %r1, %r2; subc.u32 %r0, 9, 0;", 'r', 1, 2,
		  0, 8 },
		{ "add.cc.u64 %d4, %d1, %d2; addc.cc.u64 %d5, %d1, %d2;"
		  "addc.u64 %d0, 0, 0;", 'd', M64, 1, 0, 1 },
		{ "mad.lo.cc.u32 %r4, %r1, %r2, %r3;"
		  "madc.hi.u32 %r0, %r1, %r2, 0;", 'r', M32, M32, M32,
		  M32 },
		{ "mad.hi.cc.s32 %r4, %r1, %r2, %r3; addc.u32 %r0, 0, 0;",
		  'r', M32, 1, 1, 1 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(products_keep_the_half_that_was_asked_for)
{
	static const struct row rows[] = {
		{ "mul.lo.s16 %h0, %h1, %h2;", 'h', 0xffff, 0xffff, 0, 1 },
		{ "mul.hi.u16 %h0, %h1, %h2;", 'h', 0xffff, 0xffff, 0,
		  0xfffe },
		{ "mul.hi.s32 %r0, %r1, %r2;", 'r', 0x80000000, 2, 0, M32 },
		{ "mul.hi.u32 %r0, %r1, %r2;", 'r', 0x80000000, 2, 0, 1 },
		{ "mul.hi.u64 %d0, %d1, %d2;", 'd', M64, M64, 0, M64 - 1 },
		{ "mul.hi.s64 %d0, %d1, %d2;", 'd', M64, M64, 0, 0 },
		{ "mul.wide.s16 %r0, %h1, %h2;", 'r', 0xffff, 2, 0,
		  0xfffffffe },
		{ "mul.wide.u32 %d0, %r1, %r2;", 'd', M32, M32, 0,
		  0xfffffffe00000001 },
		{ "mul.wide.s32 %d0, %r1, 4;", 'd', M32, 0, 0, M64 - 3 },
		{ "mad.lo.s32 %r0, %r1, %r2, %r3;", 'r', 3, 5, 7, 22 },
		{ "mad.hi.s32 %r0, %r1, %r2, %r3;", 'r', M32, 1, 1, 0 },
		{ "mad.wide.u16 %r0, %h1, %h2, %r3;", 'r', 0xffff, 0xffff, 1,
		  0xfffe0002 },
		{ "mad.wide.s32 %d0, %r1, %r2, %d3;", 'd', M32, 3, 10, 7 },
		{ "mad.hi.sat.s32 %r0, %r1, %r2, %r3;", 'r', 0x40000000, 4,
		  0x7fffffff, 0x7fffffff },
		{ "mul24.lo.s32 %r0, %r1, %r2;", 'r', 0xffffff, 2, 0,
		  0xfffffffe },
		{ "mul24.hi.u32 %r0, %r1, %r2;", 'r', 0xffffff, 0xffffff, 0,
		  0xfffffe00 },
		{ "mad24.lo.u32 %r0, %r1, %r2, %r3;", 'r', 3, 4, 5, 17 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(divisions_follow_signs_and_survive_zero)
{
	static const struct row rows[] = {
		{ "div.s32 %r0, %r1, %r2;", 'r', (uint32_t)-7, 2, 0,
		  (uint32_t)-3 },
		{ "rem.s32 %r0, %r1, %r2;", 'r', (uint32_t)-7, 2, 0,
		  (uint32_t)-1 },
		{ "div.u32 %r0, %r1, %r2;", 'r', 7, 0, 0, M32 },
		{ "rem.u32 %r0, %r1, %r2;", 'r', 7, 0, 0, M32 },
		{ "div.s32 %r0, %r1, %r2;", 'r', 0x80000000, M32, 0,
		  0x80000000 },
		{ "div.s64 %d0, %d1, %d2;", 'd', (uint64_t)-100, 7, 0,
		  (uint64_t)-14 },
		{ "rem.u64 %d0, %d1, %d2;", 'd', 100, 7, 0, 2 },
		{ "div.u16 %h0, %h1, %h2;", 'h', 0xffff, 16, 0, 0xfff },
		{ "rem.s16 %h0, %h1, %h2;", 'h', 0xfff9, 4, 0, 0xfffd },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(minimum_maximum_and_signs_of_integers)
{
	static const struct row rows[] = {
		{ "min.s32 %r0, %r1, %r2;", 'r', M32, 1, 0, M32 },
		{ "min.u32 %r0, %r1, %r2;", 'r', M32, 1, 0, 1 },
		{ "max.s64 %d0, %d1, %d2;", 'd', M64, 1, 0, 1 },
		{ "max.u16 %h0, %h1, %h2;", 'h', 0xffff, 1, 0, 0xffff },
		{ "min.relu.s32 %r0, %r1, %r2;", 'r', M32, 1, 0, 0 },
		{ "max.s16x2 %r0, %r1, %r2;", 'r', 0xffff0001, 0x00010002, 0,
		  0x00010002 },
		{ "abs.s32 %r0, %r1;", 'r', (uint32_t)-5, 0, 0, 5 },
		{ "neg.s64 %d0, %d1;", 'd', 5, 0, 0, (uint64_t)-5 },
		{ "sad.s32 %r0, %r1, %r2, %r3;", 'r', (uint32_t)-5, 5, 1, 11 },
		{ "sad.u32 %r0, %r1, %r2, %r3;", 'r', 5, 9, 1, 5 },
		{ "dp4a.s32.s32 %r0, %r1, %r2, %r3;", 'r', 0xff020304,
		  0x01010101, 10, 18 },
		{ "dp4a.u32.u32 %r0, %r1, %r2, %r3;", 'r', 0xff020304,
		  0x01010101, 10, 274 },
		{ "dp2a.lo.s32.u32 %r0, %r1, %r2, %r3;", 'r', 0xffff0003,
		  0x00000205, 1, 14 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(shifts_clamp_and_funnels_wrap)
{
	static const struct row rows[] = {
		{ "shl.b32 %r0, %r1, %r2;", 'r', 1, 31, 0, 0x80000000 },
		{ "shl.b32 %r0, %r1, %r2;", 'r', 1, 32, 0, 0 },
		{ "shr.s32 %r0, %r1, %r2;", 'r', 0x80000000, 99, 0, M32 },
		{ "shr.u32 %r0, %r1, %r2;", 'r', 0x80000000, 31, 0, 1 },
		{ "shr.s64 %d0, %d1, %r2;", 'd', 1ull << 63, 63, 0, M64 },
		{ "shl.b64 %d0, %d1, 64;", 'd', 1, 0, 0, 0 },
		{ "shr.s16 %h0, %h1, 4;", 'h', 0x8000, 0, 0, 0xf800 },
		{ "shf.l.wrap.b32 %r0, %r1, %r2, %r3;", 'r', 0x80000000, 1,
		  33, 3 },
		{ "shf.r.clamp.b32 %r0, %r1, %r2, %r3;", 'r', 1, 0xabcd, 40,
		  0xabcd },
		{ "shf.l.clamp.b32 %r0, %r1, %r2, %r3;", 'r', 0xabcd, 1, 32,
		  0xabcd },
		{ "shf.r.wrap.b32 %r0, %r1, %r2, 4;", 'r', 0x10, 0xf, 0,
		  0xf0000001 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(bit_operations_find_count_and_move_bits)
{
	static const struct row rows[] = {
		{ "clz.b32 %r0, %r1;", 'r', 1, 0, 0, 31 },
		{ "clz.b64 %r0, %d1;", 'r', 0, 0, 0, 64 },
		{ "popc.b64 %r0, %d1;", 'r', M64, 0, 0, 64 },
		{ "brev.b32 %r0, %r1;", 'r', 1, 0, 0, 0x80000000 },
		{ "brev.b64 %d0, %d1;", 'd', 2, 0, 0, 1ull << 62 },
		{ "bfind.u32 %r0, %r1;", 'r', 0x100, 0, 0, 8 },
		{ "bfind.s32 %r0, %r1;", 'r', M32, 0, 0, M32 },
		{ "bfind.shiftamt.u32 %r0, %r1;", 'r', 0x100, 0, 0, 23 },
		{ "bfind.s64 %r0, %d1;", 'r', 0xfffffffffffffffe, 0, 0, 0 },
		{ "bfe.u32 %r0, %r1, %r2, %r3;", 'r', 0xabcd1234, 8, 12,
		  0xd12 },
		{ "bfe.s32 %r0, %r1, %r2, %r3;", 'r', 0x800, 8, 4,
		  0xfffffff8 },
		{ "bfe.u32 %r0, %r1, 28, 8;", 'r', 0xabcd1234, 0, 0, 0xa },
		{ "bfi.b32 %r0, %r1, %r2, 8, 4;", 'r', 0xff, 0, 0, 0xf00 },
		{ "bfi.b64 %d0, %d1, %d2, 60, 8;", 'd', 0xff, 1, 0,
		  0xf000000000000001 },
		{ "bmsk.clamp.b32 %r0, %r1, %r2;", 'r', 4, 3, 0, 0x70 },
		{ "bmsk.wrap.b32 %r0, %r1, %r2;", 'r', 36, 35, 0, 0x70 },
		{ "szext.clamp.s32 %r0, %r1, %r2;", 'r', 0x80, 8, 0,
		  0xffffff80 },
		{ "szext.wrap.u32 %r0, %r1, %r2;", 'r', 0x1ff, 40, 0, 0xff },
		{ "lop3.b32 %r0, %r1, %r2, %r3, 0xe8;", 'r', 0xf0, 0xcc,
		  0xaa, 0xe8 },
		{ "lop3.b32 %r0, %r1, %r2, %r3, 0x96;", 'r', 1, 2, 4, 7 },
		{ "lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 0x80, %p4;", 'p', 3, 1,
		  1, 1 },
		{ "prmt.b32 %r0, %r1, %r2, 0x7531;", 'r', 0x33221100,
		  0x77665544, 0, 0x77553311 },
		{ "prmt.b32 %r0, %r1, %r2, 0xba98;", 'r', 0x80ff7f00, 0, 0,
		  0xffff0000 },
		{ "prmt.b32.f4e %r0, %r1, %r2, 1;", 'r', 0x33221100,
		  0x77665544, 0, 0x44332211 },
		{ "fns.b32 %r0, %r1, 0, 2;", 'r', 0x12, 0, 0, 4 },
		{ "not.b32 %r0, %r1;", 'r', 0, 0, 0, M32 },
		{ "cnot.b32 %r0, %r1;", 'r', 0, 0, 0, 1 },
		{ "and.b32 %r0, %r1, 0xf;", 'r', 0x3c, 0, 0, 0xc },
		{ "xor.b64 %d0, %d1, -1;", 'd', 1, 0, 0, M64 - 1 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(moves_pack_and_unpack_vectors)
{
	static const struct row rows[] = {
		{ "mov.b64 %d0, {%r1, %r2};", 'd', 1, 2, 0, 0x200000001 },
		{ "mov.b32 {%h4, %h0}, %r1;", 'h', 0x12345678, 0, 0, 0x1234 },
		{ "mov.b32 %r0, {%h1, %h2};", 'r', 0xaaaa, 0xbbbb, 0,
		  0xbbbbaaaa },
		{ "mov.b64 {%h4, %h5, %h6, %h0}, %d1;", 'h',
		  0x1122334455667788, 0, 0, 0x1122 },
		{ "{ .reg .b128 %q; mov.b128 %q, {%d1, %d2};"
		  "mov.b128 {%d4, %d0}, %q; }", 'd', 5, 6, 0, 6 },
		{ "mov.b32 %r0, 0f3F800000;", 'r', 0, 0, 0, 0x3f800000 },
		{ "mov.f64 %d0, 0d4000000000000000;", 'd', 0, 0, 0,
		  0x4000000000000000 },
		{ "mov.f32 %r0, 1.5;", 'r', 0, 0, 0, 0x3fc00000 },
		{ "mov.u32 %r0, (1 << 4) | 3;", 'r', 0, 0, 0, 19 },
		{ "mov.u32 %r0, WARP_SZ;", 'r', 0, 0, 0, 32 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(comparisons_know_unordered_values)
{
	const uint64_t nan = 0x7fc00000, one = f32(1), two = f32(2);
	const struct row rows[] = {
		{ "setp.lt.s32 %p0, %r1, %r2;", 'p', M32, 0, 0, 1 },
		{ "setp.lo.u32 %p0, %r1, %r2;", 'p', M32, 0, 0, 0 },
		{ "setp.hs.u64 %p0, %d1, %d2;", 'p', 5, 5, 0, 1 },
		{ "setp.eq.b16 %p0, %h1, %h2;", 'p', 0x10005, 5, 0, 1 },
		{ "setp.lt.f32 %p0, %r1, %r2;", 'p', one, two, 0, 1 },
		{ "setp.lt.f32 %p0, %r1, %r2;", 'p', nan, two, 0, 0 },
		{ "setp.ltu.f32 %p0, %r1, %r2;", 'p', nan, two, 0, 1 },
		{ "setp.neu.f32 %p0, %r1, %r2;", 'p', nan, nan, 0, 1 },
		{ "setp.ne.f32 %p0, %r1, %r2;", 'p', nan, nan, 0, 0 },
		{ "setp.num.f32 %p0, %r1, %r2;", 'p', one, two, 0, 1 },
		{ "setp.nan.f64 %p0, %d1, %d2;", 'p', f64(NAN), 0, 0, 1 },
		{ "setp.eq.ftz.f32 %p0, %r1, %r2;", 'p', 1, 0, 0, 1 },
		{ "setp.eq.f32 %p0, %r1, %r2;", 'p', 1, 0, 0, 0 },
		{ "setp.gt.and.s32 %p0|%p4, %r1, 0, %p2;", 'p', 5, 1, 0, 1 },
		{ "setp.gt.and.s32 %p4|%p0, %r1, 0, %p2;", 'p', 5, 1, 0, 0 },
		{ "setp.gt.xor.s32 %p0, %r1, 0, !%p2;", 'p', 5, 1, 0, 1 },
		{ "setp.lt.f16 %p0, %h1, %h2;", 'p', 0x3c00, 0x4000, 0, 1 },
		{ "setp.gt.bf16x2 %p4|%p0, %r1, %r2;", 'p', 0x40003f80,
		  0x3f804000, 0, 1 },
		{ "set.lt.u32.s32 %r0, %r1, %r2;", 'r', 1, 2, 0, M32 },
		{ "set.gt.f32.f32 %r0, %r1, %r2;", 'r', two, one, 0, one },
		{ "set.eq.f16x2.f16x2 %r0, %r1, %r2;", 'r', 0x3c004000,
		  0x3c003c00, 0, 0x3c000000 },
		{ "selp.b32 %r0, %r1, %r2, %p3;", 'r', 5, 6, 0, 6 },
		{ "selp.f64 %d0, %d1, %d2, %p3;", 'd', 5, 6, 1, 5 },
		{ "slct.b32.s32 %r0, %r1, %r2, %r3;", 'r', 5, 6, M32, 6 },
		{ "slct.u64.f32 %d0, %d1, %d2, %r3;", 'd', 5, 6, 0x80000000,
		  5 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(predicates_combine)
{
	static const struct row rows[] = {
		{ "and.pred %p0, %p1, %p2;", 'p', 1, 0, 0, 0 },
		{ "or.pred %p0, %p1, %p2;", 'p', 1, 0, 0, 1 },
		{ "xor.pred %p0, %p1, !%p2;", 'p', 1, 0, 0, 0 },
		{ "not.pred %p0, %p1;", 'p', 0, 0, 0, 1 },
		{ "mov.pred %p0, %p1; @!%p0 mov.u32 %r0, 3;", 'r', 0, 0, 0,
		  3 },
		{ "@%p1 mov.u32 %r0, 3;", 'r', 0, 0, 0, 0 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(single_precision_rounds_in_all_directions)
{
	/* 1 + 2^-24 lies between 1 and its successor. */
	const uint64_t one = f32(1), tiny = f32(0x1p-24f), up = one + 1;
	const struct row rows[] = {
		{ "add.f32 %r0, %r1, %r2;", 'r', one, tiny, 0, one },
		{ "add.rz.f32 %r0, %r1, %r2;", 'r', one, tiny, 0, one },
		{ "add.rp.f32 %r0, %r1, %r2;", 'r', one, tiny, 0, up },
		{ "add.rm.f32 %r0, %r1, %r2;", 'r', one, tiny, 0, one },
		{ "sub.rm.f32 %r0, %r1, %r2;", 'r', one, tiny, 0,
		  f32(0x1.fffffep-1f) },
		{ "mul.rn.f32 %r0, %r1, %r2;", 'r', f32(1.1f), f32(1.3f), 0,
		  f32(1.1f * 1.3f) },
		{ "fma.rn.f32 %r0, %r1, %r2, %r3;", 'r', f32(1.1f),
		  f32(1.3f), f32(-1.43f), f32(fmaf(1.1f, 1.3f, -1.43f)) },
		{ "div.rn.f32 %r0, %r1, %r2;", 'r', one, f32(3), 0,
		  f32(1.0f / 3) },
		{ "div.rp.f32 %r0, %r1, %r2;", 'r', one, f32(3), 0,
		  0x3eaaaaab },
		{ "div.rz.f32 %r0, %r1, %r2;", 'r', one, f32(3), 0,
		  0x3eaaaaaa },
		{ "sqrt.rn.f32 %r0, %r1;", 'r', f32(2), 0, 0, 0x3fb504f3 },
		{ "sqrt.rp.f32 %r0, %r1;", 'r', f32(2), 0, 0, 0x3fb504f4 },
		{ "rcp.rn.f32 %r0, %r1;", 'r', f32(3), 0, 0, 0x3eaaaaab },
		{ "add.ftz.f32 %r0, %r1, %r2;", 'r', 0x80000001, 0, 0, 0 },
		{ "mul.ftz.f32 %r0, %r1, %r2;", 'r', f32(0x1p-100f),
		  f32(-0x1p-30f), 0, 0x80000000 },
		{ "mul.f32 %r0, %r1, %r2;", 'r', f32(0x1p-100f),
		  f32(0x1p-30f), 0, f32(0x1p-130f) },
		{ "add.sat.f32 %r0, %r1, %r2;", 'r', one, one, 0, one },
		{ "add.sat.f32 %r0, %r1, %r2;", 'r', 0x7fc00000, one, 0, 0 },
		{ "add.f32 %r0, %r1, %r2;", 'r', 0xffc12345, one, 0,
		  0x7fffffff },
		{ "mad.rn.f32 %r0, %r1, %r2, %r3;", 'r', f32(2), f32(3),
		  f32(4), f32(10) },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(double_precision_rounds_in_all_directions)
{
	const uint64_t one = f64(1), tiny = f64(0x1p-54);
	const struct row rows[] = {
		{ "add.f64 %d0, %d1, %d2;", 'd', one, tiny, 0, one },
		{ "add.rp.f64 %d0, %d1, %d2;", 'd', one, tiny, 0, one + 1 },
		{ "sub.rz.f64 %d0, %d1, %d2;", 'd', one, tiny, 0, one - 1 },
		{ "mul.rn.f64 %d0, %d1, %d2;", 'd', f64(1.1), f64(1.3), 0,
		  f64(1.1 * 1.3) },
		{ "fma.rm.f64 %d0, %d1, %d2, %d3;", 'd', one, one, f64(-1e-30),
		  one - 1 },
		{ "div.rn.f64 %d0, %d1, %d2;", 'd', one, f64(3), 0,
		  f64(1.0 / 3) },
		{ "sqrt.rn.f64 %d0, %d1;", 'd', f64(2), 0, 0, f64(sqrt(2)) },
		{ "rcp.rn.f64 %d0, %d1;", 'd', f64(10), 0, 0, f64(0.1) },
		{ "min.f64 %d0, %d1, %d2;", 'd', f64(NAN), one, 0, one },
		{ "neg.f64 %d0, %d1;", 'd', one, 0, 0, f64(-1) },
		{ "abs.f64 %d0, %d1;", 'd', f64(-1), 0, 0, one },
		{ "copysign.f64 %d0, %d1, %d2;", 'd', f64(-2), one, 0,
		  f64(-1) },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(float_minimum_handles_nan_and_zero_signs)
{
	const uint64_t nan = 0x7fc00000, one = f32(1), two = f32(2);
	const uint64_t m0 = 0x80000000;
	const struct row rows[] = {
		{ "min.f32 %r0, %r1, %r2;", 'r', nan, one, 0, one },
		{ "min.NaN.f32 %r0, %r1, %r2;", 'r', nan, one, 0,
		  0x7fffffff },
		{ "min.f32 %r0, %r1, %r2;", 'r', 0, m0, 0, m0 },
		{ "max.f32 %r0, %r1, %r2;", 'r', m0, 0, 0, 0 },
		{ "max.f32 %r0, %r1, %r2;", 'r', one, two, 0, two },
		{ "max.xorsign.abs.f32 %r0, %r1, %r2;", 'r', f32(-3), two, 0,
		  f32(-3) },
		{ "min.ftz.f32 %r0, %r1, %r2;", 'r', 1, one, 0, 0 },
		{ "neg.f32 %r0, %r1;", 'r', one, 0, 0, f32(-1) },
		{ "abs.ftz.f32 %r0, %r1;", 'r', 0x80000001, 0, 0, 0 },
		{ "copysign.f32 %r0, %r1, %r2;", 'r', m0, one, 0, f32(-1) },
		{ "testp.subnormal.f32 %p0, %r1;", 'p', 1, 0, 0, 1 },
		{ "testp.normal.f32 %p0, %r1;", 'p', one, 0, 0, 1 },
		{ "testp.finite.f64 %p0, %d1;", 'p', f64(INFINITY), 0, 0, 0 },
		{ "testp.infinite.f32 %p0, %r1;", 'p', f32(-INFINITY), 0, 0,
		  1 },
		{ "testp.notanumber.f32 %p0, %r1;", 'p', nan, 0, 0, 1 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(halves_round_once)
{
	static const struct row rows[] = {
		/* 1 + 2^-11 is a tie, to even */
		{ "add.f16 %h0, %h1, %h2;", 'h', 0x3c00, 0x1000, 0, 0x3c00 },
		{ "add.f16 %h0, %h1, %h2;", 'h', 0x3c01, 0x1000, 0, 0x3c02 },
		{ "mul.f16 %h0, %h1, %h2;", 'h', 0x7bff, 0x4000, 0, 0x7c00 },
		{ "sub.f16 %h0, %h1, %h2;", 'h', 0x0001, 0x0001, 0, 0 },
		/* 1.0 * 1.0 + 2^-24 with a tie that only fma sees */
		{ "fma.rn.f16 %h0, %h1, %h2, %h3;", 'h', 0x3c01, 0x3c01,
		  0x0001, 0x3c02 },
		{ "fma.rn.relu.f16 %h0, %h1, %h2, %h3;", 'h', 0xbc00, 0x3c00,
		  0, 0 },
		{ "fma.rn.sat.f16 %h0, %h1, %h2, %h3;", 'h', 0x4000, 0x4000,
		  0, 0x3c00 },
		{ "add.f16x2 %r0, %r1, %r2;", 'r', 0x3c004000, 0x3c003c00, 0,
		  0x40004200 },
		{ "mul.ftz.f16 %h0, %h1, %h2;", 'h', 0x0001, 0x4000, 0, 0 },
		{ "add.bf16 %h0, %h1, %h2;", 'h', 0x3f80, 0x3f80, 0, 0x4000 },
		{ "mul.bf16x2 %r0, %r1, %r2;", 'r', 0x40003f80, 0x40004000, 0,
		  0x40804000 },
		{ "fma.rn.bf16 %h0, %h1, %h2, %h3;", 'h', 0x4040, 0x4040,
		  0x3f80, 0x4120 },
		{ "min.f16 %h0, %h1, %h2;", 'h', 0x7e00, 0x3c00, 0, 0x3c00 },
		{ "max.NaN.bf16 %h0, %h1, %h2;", 'h', 0x7fc0, 0x3c00, 0,
		  0x7fff },
		{ "neg.f16x2 %r0, %r1;", 'r', 0x3c00bc00, 0, 0, 0xbc003c00 },
		{ "abs.bf16 %h0, %h1;", 'h', 0xbf80, 0, 0, 0x3f80 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(conversions_between_integers_extend_and_clamp)
{
	static const struct row rows[] = {
		{ "cvt.s32.s8 %r0, %r1;", 'r', 0x80, 0, 0, 0xffffff80 },
		{ "cvt.u32.u8 %r0, %r1;", 'r', 0x180, 0, 0, 0x80 },
		{ "cvt.s64.s32 %d0, %r1;", 'd', 0x80000000, 0, 0,
		  0xffffffff80000000 },
		{ "cvt.u64.u16 %d0, %h1;", 'd', 0xffff, 0, 0, 0xffff },
		{ "cvt.u16.u32 %h0, %r1;", 'h', 0x12345, 0, 0, 0x2345 },
		{ "cvt.sat.u8.s32 %r0, %r1;", 'r', 300, 0, 0, 255 },
		{ "cvt.sat.u8.s32 %r0, %r1;", 'r', (uint32_t)-3, 0, 0, 0 },
		{ "cvt.sat.s8.s32 %r0, %r1;", 'r', (uint32_t)-300, 0, 0,
		  0xffffff80 },
		{ "cvt.sat.s32.u64 %r0, %d1;", 'r', M64, 0, 0, 0x7fffffff },
		{ "cvt.s16.s8 %h0, %h1;", 'h', 0xff, 0, 0, 0xffff },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(conversions_to_integers_round_and_clamp)
{
	const struct row rows[] = {
		{ "cvt.rni.s32.f32 %r0, %r1;", 'r', f32(2.5f), 0, 0, 2 },
		{ "cvt.rzi.s32.f32 %r0, %r1;", 'r', f32(-2.7f), 0, 0,
		  (uint32_t)-2 },
		{ "cvt.rmi.s32.f32 %r0, %r1;", 'r', f32(-2.2f), 0, 0,
		  (uint32_t)-3 },
		{ "cvt.rpi.u32.f32 %r0, %r1;", 'r', f32(2.1f), 0, 0, 3 },
		{ "cvt.rzi.u32.f32 %r0, %r1;", 'r', f32(-1), 0, 0, 0 },
		{ "cvt.rzi.s32.f32 %r0, %r1;", 'r', f32(3e9f), 0, 0,
		  0x7fffffff },
		{ "cvt.rzi.s32.f32 %r0, %r1;", 'r', 0x7fc00000, 0, 0, 0 },
		{ "cvt.rni.s64.f64 %d0, %d1;", 'd', f64(-2.5), 0, 0,
		  (uint64_t)-2 },
		{ "cvt.rzi.u64.f64 %d0, %d1;", 'd', f64(1e30), 0, 0, M64 },
		{ "cvt.rzi.s8.f32 %r0, %r1;", 'r', f32(-200), 0, 0,
		  0xffffff80 },
		{ "cvt.rni.s32.f16 %r0, %h1;", 'r', 0x4100, 0, 0, 2 },
		{ "cvt.rzi.s32.bf16 %r0, %h1;", 'r', 0x4040, 0, 0, 3 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(conversions_to_floats_round_in_all_directions)
{
	const struct row rows[] = {
		{ "cvt.rn.f32.s32 %r0, %r1;", 'r', 16777217, 0, 0,
		  f32(16777216) },
		{ "cvt.rp.f32.s32 %r0, %r1;", 'r', 16777217, 0, 0,
		  f32(16777218) },
		{ "cvt.rz.f32.u64 %r0, %d1;", 'r', M64, 0, 0, 0x5f7fffff },
		{ "cvt.rn.f64.u64 %d0, %d1;", 'd', M64, 0, 0,
		  f64(18446744073709551616.0) },
		{ "cvt.rn.f32.f64 %r0, %d1;", 'r', f64(0.1), 0, 0,
		  f32(0.1f) },
		{ "cvt.rm.f32.f64 %r0, %d1;", 'r', f64(0.1), 0, 0,
		  f32(0.1f) - 1 },
		{ "cvt.f64.f32 %d0, %r1;", 'd', f32(1.5f), 0, 0, f64(1.5) },
		{ "cvt.rn.f16.f32 %h0, %r1;", 'h', f32(65520), 0, 0,
		  0x7c00 },
		{ "cvt.rz.f16.f32 %h0, %r1;", 'h', f32(65520), 0, 0,
		  0x7bff },
		{ "cvt.rn.bf16.f32 %h0, %r1;", 'h', 0x3f808000, 0, 0,
		  0x3f80 },
		{ "cvt.f32.f16 %r0, %h1;", 'r', 0x0001, 0, 0,
		  f32(0x1p-24f) },
		{ "cvt.f32.bf16 %r0, %h1;", 'r', 0x3fc0, 0, 0, f32(1.5f) },
		{ "cvt.rn.f16x2.f32 %r0, %r1, %r2;", 'r', f32(1), f32(2), 0,
		  0x3c004000 },
		{ "cvt.rn.relu.bf16x2.f32 %r0, %r1, %r2;", 'r', f32(-1),
		  f32(2), 0, 0x00004000 },
		{ "cvt.rna.tf32.f32 %r0, %r1;", 'r', 0x3f801000, 0, 0,
		  0x3f802000 },
		{ "cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;", 'h', f32(1),
		  f32(1000), 0, 0x387e },
		{ "cvt.rn.satfinite.e5m2x2.f32 %h0, %r1, %r2;", 'h', f32(1),
		  f32(1e6f), 0, 0x3c7b },
		{ "cvt.rn.f16x2.e4m3x2 %r0, %h1;", 'r', 0x3840, 0, 0,
		  0x3c004000 },
		{ "cvt.rn.f16.s32 %h0, %r1;", 'h', 2049, 0, 0, 0x6800 },
		{ "cvt.rni.f32.f32 %r0, %r1;", 'r', f32(-2.5f), 0, 0,
		  f32(-2) },
		{ "cvt.rmi.f64.f64 %d0, %d1;", 'd', f64(-2.1), 0, 0,
		  f64(-3) },
		{ "cvt.sat.f32.f32 %r0, %r1;", 'r', f32(7), 0, 0, f32(1) },
		{ "cvt.ftz.f64.f32 %d0, %r1;", 'd', 1, 0, 0, 0 },
	};

	CHECK_ROWS(rows);
}
END_TEST

static double
as_float(uint64_t bits)
{
	uint32_t u = (uint32_t)bits;
	float f;

	memcpy(&f, &u, 4);
	return f;
}

START_TEST(conversions_pack_clamped_integers)
{
	static const struct row rows[] = {
		{ "cvt.pack.sat.u16.s32 %r0, %r1, %r2;", 'r', 70000, 5, 0,
		  0xffff0005 },
		{ "cvt.pack.sat.s8.s32.b32 %r0, %r1, %r2, %r3;", 'r',
		  (uint32_t)-200, 3, 0xabcd, 0xabcd8003 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(video_instructions_select_parts)
{
	static const struct row rows[] = {
		{ "vadd.s32.s32.s32.sat %r0, %r1.b1, %r2.h1;", 'r', 0x8000,
		  0x00050000, 0, 0xffffff85 },
		{ "vabsdiff.u32.u32.u32.add %r0, %r1, %r2, %r3;", 'r', 5, 9,
		  100, 104 },
		{ "vset.u32.u32.lt %r0, %r1.b0, %r2.b1;", 'r', 1, 0x200, 0,
		  1 },
		{ "vmad.s32.s32.s32 %r0, %r1.h0, %r2.h1, %r3;", 'r', 0xffff,
		  0x30000, 10, 7 },
		{ "vshr.s32.u32.u32.wrap %r0, %r1, %r2;", 'r', 0x80, 35, 0,
		  0x10 },
		{ "vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;", 'r',
		  0x01020304, 0x04030201, 100, 108 },
		{ "vadd4.s32.s32.s32.sat %r0, %r1, %r2, %r3;", 'r', 0x7f018010,
		  0x0101ff10, 0, 0x7f028020 },
		{ "vavrg2.u32.u32.u32 %r0, %r1, %r2, %r3;", 'r', 0x00010004,
		  0x00020007, 0, 0x00020006 },
		{ "vmax2.u32.u32.u32 %r0, %r1, %r2, %r3;", 'r', 0x00010004,
		  0x00020003, 0, 0x00020004 },
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(approximations_are_close)
{
	static const struct {
		const char *body;
		double (*fn)(double);
		float x;
	} rows[] = {
		{ "sin.approx.f32 %r0, %r1;", sin, 1.25f },
		{ "cos.approx.ftz.f32 %r0, %r1;", cos, -0.5f },
		{ "ex2.approx.f32 %r0, %r1;", exp2, 3.3f },
		{ "lg2.approx.f32 %r0, %r1;", log2, 10.1f },
		{ "tanh.approx.f32 %r0, %r1;", tanh, 0.7f },
		{ "sqrt.approx.f32 %r0, %r1;", sqrt, 5.5f },
	};

	for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
		double got = as_float(eval(rows[k].body, 'r', f32(rows[k].x),
					   0, 0));

		ck_assert_msg(fabs(got - rows[k].fn(rows[k].x)) < 1e-5 *
			      (1 + fabs(got)), "%s", rows[k].body);
	}
	ck_assert(fabs(as_float(eval("rsqrt.approx.f32 %r0, %r1;", 'r',
				     f32(4), 0, 0)) - 0.5) < 1e-6);
	ck_assert(fabs(as_float(eval("rcp.approx.ftz.f32 %r0, %r1;", 'r',
				     f32(4), 0, 0)) - 0.25) < 1e-6);
	ck_assert(fabs(as_float(eval("div.full.f32 %r0, %r1, %r2;", 'r',
				     f32(1), f32(8), 0)) - 0.125) < 1e-6);
}
END_TEST

START_TEST(forms_that_are_not_executed_are_named)
{
	static const char *const bodies[] = {
		"add.rn.s32 %r0, %r1, %r2;",
		"wgmma.fence.sync.aligned;",
		"mul.s32 %r0, %r1, %r2;",
		"cvt.s32.f32 %r0, %r1;",
		"setp.lo.f32 %p0, %r1, %r2;",
		"shfl.up.b32 %r0, %r1, 1, 0;",
		"min.relu.u32 %r0, %r1, %r2;",
		"vavrg.u32.u32.u32 %r0, %r1, %r2;",
		"ld.global.f16x2 %r0, [%o1];",
	};
	static struct harness h;
	char text[8192], want[128];

	for (size_t k = 0; k < sizeof(bodies) / sizeof(*bodies); k++) {
		snprintf(text, sizeof(text), frame, bodies[k]);
		harness_open(&h, text);
		ck_assert_msg(h.parse_result == PTX_E_UNSUPPORTED, "%s: %s",
			      bodies[k], h.log);
		snprintf(want, sizeof(want), "unsupported instruction '%.*s'",
			 (int)strcspn(bodies[k], " ;"), bodies[k]);
		ck_assert_msg(strstr(h.log, want), "%s: %s", want, h.log);
		ck_assert(!strncmp(h.log, "line ", 5));
		harness_close(&h);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ptx_ops");
	TCase *t = tcase_create("ops");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, integers_add_and_subtract_in_every_width);
	tcase_add_test(t, carry_chains_pass_the_flag);
	tcase_add_test(t, products_keep_the_half_that_was_asked_for);
	tcase_add_test(t, divisions_follow_signs_and_survive_zero);
	tcase_add_test(t, minimum_maximum_and_signs_of_integers);
	tcase_add_test(t, shifts_clamp_and_funnels_wrap);
	tcase_add_test(t, bit_operations_find_count_and_move_bits);
	tcase_add_test(t, moves_pack_and_unpack_vectors);
	tcase_add_test(t, comparisons_know_unordered_values);
	tcase_add_test(t, predicates_combine);
	tcase_add_test(t, single_precision_rounds_in_all_directions);
	tcase_add_test(t, double_precision_rounds_in_all_directions);
	tcase_add_test(t, float_minimum_handles_nan_and_zero_signs);
	tcase_add_test(t, halves_round_once);
	tcase_add_test(t, conversions_between_integers_extend_and_clamp);
	tcase_add_test(t, conversions_to_integers_round_and_clamp);
	tcase_add_test(t, conversions_to_floats_round_in_all_directions);
	tcase_add_test(t, conversions_pack_clamped_integers);
	tcase_add_test(t, video_instructions_select_parts);
	tcase_add_test(t, approximations_are_close);
	tcase_add_test(t, forms_that_are_not_executed_are_named);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
