/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions of the PTX executor against plain loops. Where an
 * element of a fragment belongs is written down here as the PTX ISA has it,
 * shape by shape.
 */
#undef NDEBUG
#include "tests/ptx/ptx_kernel.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { HALF, BFLOAT, TFLOAT, DOUBLE, S8, U4, ONE_BIT };

struct shape {
	const char *op;
	enum kind kind;
	unsigned m, k, na, nb, nc;   /* registers */
};

static const struct shape shapes[] = {
	{ "m16n8k8.row.col.f32.f16.f16.f32", HALF, 16, 8, 2, 1, 4 },
	{ "m16n8k16.row.col.f32.f16.f16.f32", HALF, 16, 16, 4, 2, 4 },
	{ "m16n8k8.row.col.f32.bf16.bf16.f32", BFLOAT, 16, 8, 2, 1, 4 },
	{ "m16n8k16.row.col.f32.bf16.bf16.f32", BFLOAT, 16, 16, 4, 2, 4 },
	{ "m16n8k4.row.col.f32.tf32.tf32.f32", TFLOAT, 16, 4, 2, 1, 4 },
	{ "m16n8k8.row.col.f32.tf32.tf32.f32", TFLOAT, 16, 8, 4, 2, 4 },
	{ "m8n8k4.row.col.f64.f64.f64.f64", DOUBLE, 8, 4, 1, 1, 2 },
	{ "m16n8k4.row.col.f64.f64.f64.f64", DOUBLE, 16, 4, 2, 1, 4 },
	{ "m16n8k8.row.col.f64.f64.f64.f64", DOUBLE, 16, 8, 4, 2, 4 },
	{ "m16n8k16.row.col.f64.f64.f64.f64.rn", DOUBLE, 16, 16, 8, 4, 4 },
	{ "m8n8k16.row.col.s32.s8.s8.s32", S8, 8, 16, 1, 1, 2 },
	{ "m16n8k16.row.col.s32.s8.s8.s32", S8, 16, 16, 2, 1, 4 },
	{ "m16n8k32.row.col.s32.s8.s8.s32", S8, 16, 32, 4, 2, 4 },
	{ "m8n8k32.row.col.s32.u4.u4.s32", U4, 8, 32, 1, 1, 2 },
	{ "m16n8k32.row.col.s32.u4.u4.s32", U4, 16, 32, 2, 1, 4 },
	{ "m16n8k64.row.col.s32.u4.u4.s32", U4, 16, 64, 4, 2, 4 },
	{ "m8n8k128.row.col.s32.b1.b1.s32.and.popc", ONE_BIT, 8, 128, 1, 1, 2 },
	{ "m16n8k128.row.col.s32.b1.b1.s32.and.popc", ONE_BIT, 16, 128, 2, 1, 4 },
	{ "m16n8k256.row.col.s32.b1.b1.s32.and.popc", ONE_BIT, 16, 256, 4, 2, 4 },
};

#define SHAPES ((int)(sizeof(shapes) / sizeof(*shapes)))

static const unsigned bits_of[] = {
	[HALF] = 16, [BFLOAT] = 16, [TFLOAT] = 32, [DOUBLE] = 64, [S8] = 8,
	[U4] = 4, [ONE_BIT] = 1,
};

struct at {
	unsigned row, col;
};

/* Of A, element i of a lane's. */
static struct at
a_at(const struct shape *s, unsigned lane, unsigned i)
{
	unsigned group = lane >> 2, t = lane % 4;
	bool upper = false;
	struct at at = { group, 0 };

	switch (s->kind) {
	case HALF:
	case BFLOAT:
		upper = s->k == 8 ? i >= 2 : !(i < 2 || (4 <= i && i < 6));
		at.col = t * 2 + (i & 1) + (i < 4 ? 0 : 8);
		break;
	case TFLOAT:
	case DOUBLE:
		upper = s->m == 16 && i % 2;
		at.col = t + (s->m == 16 ? i / 2 : i) * 4;
		break;
	case S8:
		upper = s->m == 16 && (s->k == 16 ? i >= 4 :
				       !(i < 4 || (8 <= i && i < 12)));
		at.col = t * 4 + (i & 3) + (i < 8 ? 0 : 16);
		break;
	case U4:
		upper = s->m == 16 && (s->k == 32 ? i >= 8 :
				       !(i < 8 || (16 <= i && i < 24)));
		at.col = t * 8 + (i & 7) + (i < 16 ? 0 : 32);
		break;
	case ONE_BIT:
		upper = s->m == 16 && (s->k == 128 ? i >= 32 :
				       !(i < 32 || (64 <= i && i < 96)));
		at.col = t * 32 + (i & 31) + (i < 64 ? 0 : 128);
		break;
	}
	at.row += upper ? 8 : 0;
	return at;
}

static struct at
b_at(const struct shape *s, unsigned lane, unsigned i)
{
	unsigned t = lane % 4;
	struct at at = { 0, lane >> 2 };

	switch (s->kind) {
	case HALF:
	case BFLOAT:
		at.row = t * 2 + (i & 1) + (i < 2 ? 0 : 8);
		break;
	case TFLOAT:
	case DOUBLE:
		at.row = t + 4 * i;
		break;
	case S8:
		at.row = t * 4 + (i & 3) + (i < 4 ? 0 : 16);
		break;
	case U4:
		at.row = t * 8 + (i & 7) + (i < 8 ? 0 : 32);
		break;
	case ONE_BIT:
		at.row = t * 32 + (i & 31) + (i < 32 ? 0 : 128);
		break;
	}
	return at;
}

static struct at
c_at(unsigned lane, unsigned i)
{
	return (struct at){ (lane >> 2) + (i < 2 ? 0 : 8),
			    lane % 4 * 2 + (i & 1) };
}

/* A small integer in a binary format. */
static uint64_t
float_of(int v, int man, int bias, unsigned bits)
{
	uint64_t sign = (uint64_t)(v < 0) << (bits - 1);
	unsigned size = (unsigned)abs(v);
	int e = 0;

	if (!size)
		return 0;
	while (size >> (e + 1))
		e++;
	return sign | (uint64_t)(e + bias) << man |
	       ((uint64_t)size << man >> e & ((1ull << man) - 1));
}

static uint64_t
encode(enum kind kind, int v)
{
	switch (kind) {
	case HALF:
		return float_of(v, 10, 15, 16);
	case BFLOAT:
		return float_of(v, 7, 127, 16);
	case TFLOAT:
		/* The low 13 bits are not read. */
		return float_of(v, 23, 127, 32) | (v ? 0x1fff : 0);
	case DOUBLE:
		return float_of(v, 52, 1023, 64);
	case S8:
		return (uint8_t)v;
	case U4:
		return (unsigned)v & 15;
	default:
		return (unsigned)v & 1;
	}
}

static int
small(enum kind kind, unsigned k)
{
	int v = (int)(k * 2654435761u >> 20) % 9;

	return kind == U4 || kind == ONE_BIT ? v : v - 4;
}

static int
value(enum kind kind, unsigned k)
{
	int v = small(kind, k);

	return kind == U4 ? v & 15 : kind == ONE_BIT ? v & 1 : v;
}

static void
kernel_print(char *text, size_t size, const struct shape *s)
{
	unsigned n = 0, reg = s->kind == DOUBLE ? 64 : 32;
	const char *lists[] = { "x", "a", "b", "c" };
	const unsigned counts[] = { s->nc, s->na, s->nb, s->nc };
	bool is_float = s->kind <= TFLOAT;
	char *at = text, *end = text + size;

	at += snprintf(at, (size_t)(end - at), HEAD
		".visible .entry k(.param .u64 out) { .reg .b64 o;\n"
		".reg .b%u a<8>, b<8>; .reg .%s c<4>, x<4>; .reg .b32 t;\n"
		"ld.param.u64 o, [out]; mov.u32 t, %%tid.x;\n"
		"mad.wide.u32 o, t, 160, o;\n", reg,
		is_float ? "f32" : s->kind == DOUBLE ? "f64" : "b32");
	for (unsigned list = 1; list < 4; list++)
		for (unsigned k = 0; k < counts[list]; k++)
			at += snprintf(at, (size_t)(end - at),
				"ld.global.%c%u %s%u, [o+%u];\n",
				list == 3 && s->kind <= DOUBLE ? 'f' : 'b', reg,
				lists[list], k, 8 * n++);
	at += snprintf(at, (size_t)(end - at), "mma.sync.aligned.%s ", s->op);
	for (unsigned list = 0; list < 4; list++) {
		for (unsigned k = 0; k < counts[list]; k++)
			at += snprintf(at, (size_t)(end - at), "%s%s%u",
				       k ? ", " : list ? ", {" : "{",
				       lists[list], k);
		at += snprintf(at, (size_t)(end - at), "}");
	}
	at += snprintf(at, (size_t)(end - at), ";\n");
	for (unsigned k = 0; k < s->nc; k++)
		at += snprintf(at, (size_t)(end - at),
			"st.global.%c%u [o+%u], x%u;\n",
			s->kind <= DOUBLE ? 'f' : 'b', reg, 8 * k, k);
	snprintf(at, (size_t)(end - at), "ret; }\n");
}

/* The fragments of a lane, 20 words at most. */
static void
lane_fill(const struct shape *s, unsigned lane, uint64_t *word)
{
	unsigned bits = bits_of[s->kind], per = bits < 32 ? 32 / bits : 1;

	for (unsigned i = 0; i < s->na * per; i++) {
		struct at at = a_at(s, lane, i);

		word[i / per] |= encode(s->kind, value(s->kind, at.row * s->k +
						       at.col)) <<
				 i % per * bits % 64;
	}
	word += s->na;
	for (unsigned i = 0; i < s->nb * per; i++) {
		struct at at = b_at(s, lane, i);

		word[i / per] |= encode(s->kind, value(s->kind, 7919 + at.row *
						       8 + at.col)) <<
				 i % per * bits % 64;
	}
	word += s->nb;
	for (unsigned i = 0; i < s->nc; i++) {
		int v = (int)i + 10 * (int)lane;

		word[i] = s->kind == DOUBLE ? encode(DOUBLE, v) :
			  s->kind <= TFLOAT ? float_of(v, 23, 127, 32) :
			  (uint32_t)v;
	}
}

static double
result(const struct shape *s, uint64_t word)
{
	double d;
	float f;

	memcpy(&d, &word, 8);
	memcpy(&f, &word, 4);
	return s->kind == DOUBLE ? d : s->kind < DOUBLE ? (double)f :
	       (double)(int32_t)word;
}

START_TEST(mma_multiplies_matrices)
{
	const struct shape *s = &shapes[_i];
	char text[4096];
	uint64_t *o, arg;

	kernel_print(text, sizeof(text), s);
	harness_open(&h, text);
	ck_assert_msg(!h.parse_result, "%s: %s", s->op, h.log);
	h.block[0] = 32;
	o = harness_alloc(&h, 32 * 160);
	for (unsigned lane = 0; lane < 32; lane++)
		lane_fill(s, lane, o + lane * 20);
	arg = (uint64_t)(uintptr_t)o;
	ck_assert_msg(!harness_run(&h, "k", &arg, 8), "%s", h.detail);
	for (unsigned lane = 0; lane < 32; lane++) {
		for (unsigned i = 0; i < s->nc; i++) {
			struct at at = c_at(lane, i);
			int want = (int)i + 10 * (int)lane;

			for (unsigned k = 0; k < s->k; k++)
				want += value(s->kind, at.row * s->k + k) *
					value(s->kind, 7919 + k * 8 + at.col);
			ck_assert_msg(result(s, o[lane * 20 + i]) == want,
				      "%s lane %u element %u: %g, not %d",
				      s->op, lane, i,
				      result(s, o[lane * 20 + i]), want);
		}
	}
	harness_close(&h);
}
END_TEST

/* Lanes that come from two branches meet at the instruction. */
START_TEST(a_divided_warp_meets_at_the_instruction)
{
	uint32_t *o = run(KERNEL(
		"setp.lt.u32 %p1, %t, 20; @%p1 bra L1;\n"
		"mul.lo.u32 %r1, %t, 3; bra L2;\n"
		"L1: mov.u32 %r1, 7; add.u32 %r1, %r1, %t;\n"
		"L2: movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;\n"
		"movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r2;\n"
		"st.global.u32 [%e], %r2;\n"), 1, 32);

	for (unsigned t = 0; t < 32; t++)
		ck_assert_uint_eq(o[t], t < 20 ? t + 7 : t * 3);
	harness_close(&h);
}
END_TEST

START_TEST(stmatrix_puts_what_ldmatrix_takes)
{
	uint32_t *o = run(KERNEL(
		".shared .align 16 .b8 s[512]; .reg .b32 %a, %x<4>, %y<4>;\n"
		"mov.u32 %a, s; mad.lo.u32 %a, %t, 16, %a;\n"
		"add.u32 %x0, %t, 1000; add.u32 %x1, %t, 2000;\n"
		"add.u32 %x2, %t, 3000; add.u32 %x3, %t, 4000;\n"
		"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%a],\n"
		"  {%x0, %x1, %x2, %x3};\n"
		"bar.sync 0;\n"
		"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16\n"
		"  {%y0, %y1, %y2, %y3}, [%a];\n"
		"mad.lo.u32 %r1, %t, 16, 0; cvt.u64.u32 %d1, %r1;\n"
		"add.u64 %d1, %d1, %o;\n"
		"st.global.v4.u32 [%d1], {%y0, %y1, %y2, %y3};\n"), 1, 32);

	for (unsigned t = 0; t < 32; t++)
		for (unsigned k = 0; k < 4; k++)
			ck_assert_uint_eq(o[4 * t + k], t + 1000 * (k + 1));
	harness_close(&h);
}
END_TEST

START_TEST(ldmatrix_gives_rows_or_columns)
{
	uint32_t *o = run(KERNEL(
		".shared .align 16 .b8 s[512]; .reg .b32 %a, %b; .reg .b16 %v;\n"
		/* The half at row r, column c of the one matrix is 8 r + c. */
		"shl.b32 %r1, %t, 1; mov.u32 %a, s; shl.b32 %r2, %t, 2;\n"
		"add.u32 %b, %a, %r2; cvt.u16.u32 %v, %r1;\n"
		"st.shared.u16 [%b], %v; add.u16 %v, %v, 1;\n"
		"st.shared.u16 [%b+2], %v; bar.sync 0;\n"
		"and.b32 %r3, %t, 7; mad.lo.u32 %a, %r3, 16, %a;\n"
		"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%a];\n"
		"ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r5}, [%a];\n"
		"st.global.u32 [%e], %r4; st.global.u32 [%e+128], %r5;\n"),
		1, 32);

	for (unsigned t = 0; t < 32; t++) {
		unsigned row = t / 4, col = t % 4 * 2;

		ck_assert_uint_eq(o[t], (8 * row + col) |
				  (8 * row + col + 1) << 16);
		ck_assert_uint_eq(o[32 + t], (8 * col + row) |
				  (8 * (col + 1) + row) << 16);
	}
	harness_close(&h);
}
END_TEST

/* m16n16k16 of halves; A by rows or columns in 20 halves, B in 24. */
static void
check_wmma(const char *a, const char *b, const char *d)
{
	char text[4096];
	uint16_t *in;
	float *out;
	void *args[1];
	bool ac = *a == 'c', bc = *b == 'c', dc = *d == 'c';

	snprintf(text, sizeof(text), HEAD
		".visible .entry k(.param .u64 out) { .reg .b64 o;\n"
		".reg .b32 a<8>, b<8>; .reg .f32 c<8>;\n"
		"ld.param.u64 o, [out];\n"
		"wmma.load.a.sync.aligned.%s.m16n16k16.global.f16\n"
		"  {a0, a1, a2, a3, a4, a5, a6, a7}, [o], 24;\n"
		"wmma.load.b.sync.aligned.%s.m16n16k16.global.f16\n"
		"  {b0, b1, b2, b3, b4, b5, b6, b7}, [o+1024], 24;\n"
		"wmma.load.c.sync.aligned.%s.m16n16k16.f32\n"
		"  {c0, c1, c2, c3, c4, c5, c6, c7}, [o+2048], 20;\n"
		"wmma.mma.sync.aligned.%s.%s.m16n16k16.f32.f32\n"
		"  {c0, c1, c2, c3, c4, c5, c6, c7},\n"
		"  {a0, a1, a2, a3, a4, a5, a6, a7},\n"
		"  {b0, b1, b2, b3, b4, b5, b6, b7},\n"
		"  {c0, c1, c2, c3, c4, c5, c6, c7};\n"
		"wmma.store.d.sync.aligned.%s.m16n16k16.global.f32 [o+2048],\n"
		"  {c0, c1, c2, c3, c4, c5, c6, c7}, 20;\nret; }\n",
		a, b, d, a, b, d);
	harness_open(&h, text);
	ck_assert_msg(!h.parse_result, "%s", h.log);
	h.block[0] = 32;
	in = harness_alloc(&h, 4096);
	out = (float *)(void *)((char *)in + 2048);
	for (unsigned k = 0; k < 16 * 24; k++) {
		in[k] = (uint16_t)encode(HALF, small(HALF, k));
		in[512 + k] = (uint16_t)encode(HALF, small(HALF, k + 99));
	}
	for (unsigned k = 0; k < 16 * 20; k++)
		out[k] = (float)k;
	args[0] = in;
	ck_assert_msg(!harness_run(&h, "k", args, 8), "%s", h.detail);
	for (unsigned row = 0; row < 16; row++) {
		for (unsigned col = 0; col < 16; col++) {
			unsigned at = dc ? col * 20 + row : row * 20 + col;
			int want = (int)at;

			for (unsigned k = 0; k < 16; k++)
				want += small(HALF, ac ? k * 24 + row
						       : row * 24 + k) *
					small(HALF, 99 + (bc ? col * 24 + k
							     : k * 24 + col));
			ck_assert_float_eq(out[at], (float)want);
		}
		/* What lies between the rows is left alone. */
		ck_assert_float_eq(out[row * 20 + 17], (float)(row * 20 + 17));
	}
	harness_close(&h);
}

START_TEST(wmma_takes_rows_and_columns)
{
	check_wmma("row", "col", "row");
	check_wmma("col", "row", "row");
	check_wmma("row", "row", "col");
	check_wmma("col", "col", "col");
}
END_TEST

START_TEST(bad_matrix_statements_are_refused)
{
	static const struct {
		const char *text;
		int result;
	} rows[] = {
		{ "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
		  " {f0,f1,f2,f3}, {r0}, {r0}, {f0,f1,f2,f3};", PTX_E_SYNTAX },
		{ "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32"
		  " {f0,f1,f2,f3}, {r0,r0,r0,r0}, {r0,r0}, {f0,f1,f2,f3};",
		  PTX_E_UNSUPPORTED },
		{ "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
		  " {f0,f1,f2,f3}, {r0,r0,r0,r0}, {r0,r0}, {f0,f1,f2,f3};",
		  PTX_E_UNSUPPORTED },
		{ "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
		  " {f0,f1,f2,f3}, {r0,r0}, {r0,r0}, {f0,f1,f2,f3}, r0, 0;",
		  PTX_E_UNSUPPORTED },
		{ "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r0}, [r1];",
		  PTX_E_SYNTAX },
		{ "ldmatrix.sync.aligned.m8n8.x1.global.b16 {r0}, [r1];",
		  PTX_E_UNSUPPORTED },
		{ "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
		  " {r0,r1,r0}, [d0];", PTX_E_SYNTAX },
		{ "wmma.load.a.sync.aligned.row.m16n16k16.global.f64"
		  " {r0,r1}, [d0];", PTX_E_UNSUPPORTED },
	};
	char text[1024];

	for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
		snprintf(text, sizeof(text), HEAD ".visible .entry k() {\n"
			 ".reg .b32 r<2>; .reg .f32 f<4>; .reg .b64 d<2>;\n"
			 "%s\nret; }\n", rows[k].text);
		harness_open(&h, text);
		ck_assert_msg(h.parse_result == rows[k].result, "%s: %d, %s",
			      rows[k].text, h.parse_result, h.log);
	}
}
END_TEST

START_TEST(an_address_off_shared_memory_is_a_fault)
{
	ck_assert_int_eq(fault_of(KERNEL(
		".shared .align 16 .b8 s[128]; mov.u32 %r1, s;\n"
		"mad.lo.u32 %r1, %t, 16, %r1;\n"
		"ldmatrix.sync.aligned.m8n8.x4.shared.b16\n"
		"  {%r2, %r3, %r4, %r5}, [%r1];\n")), PTX_FAULT_ADDRESS);
	ck_assert_int_eq(fault_of(KERNEL(
		".shared .align 16 .b8 s[1024]; mov.u32 %r1, s;\n"
		"mad.lo.u32 %r1, %t, 8, %r1;\n"
		"ldmatrix.sync.aligned.m8n8.x4.shared.b16\n"
		"  {%r2, %r3, %r4, %r5}, [%r1];\n")), PTX_FAULT_MISALIGNED);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("ptx_matrix");
	TCase *tc = tcase_create("all");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, mma_multiplies_matrices, 0, SHAPES);
	tcase_add_test(tc, a_divided_warp_meets_at_the_instruction);
	tcase_add_test(tc, stmatrix_puts_what_ldmatrix_takes);
	tcase_add_test(tc, ldmatrix_gives_rows_or_columns);
	tcase_add_test(tc, wmma_takes_rows_and_columns);
	tcase_add_test(tc, bad_matrix_statements_are_refused);
	tcase_add_test(tc, an_address_off_shared_memory_is_a_fault);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
