/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products as tensor cores compute them.
 *
 * Products of floats are exact. The terms of one step, a row's products and
 * what was accumulated before, are aligned to the largest one, cut off below
 * a fixed number of bits, added, and the sum is cut off to the accumulator's
 * precision: no term is rounded, and their order does not matter. (Fasi,
 * Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores",
 * 2021, measured this, and later ones on Hopper that a step takes 16 terms
 * of 16 bits.) Doubles are fused multiply-adds, one after the other.
 */
#include "server/soft/ptx_warp.h"

#include <math.h>

#include "server/soft/ptx_num.h"

/* Fraction bits of the terms below the largest one's leading bit. */
#define KEPT_BITS 25
/* In a matrix: 32 by 16, or 16 by 32. */
#define FLOATS_MAX 512

/* m * 2^(exp - frac), m with its sign; exp is the one of the format. */
struct term {
	int64_t m;
	int exp, frac;
	bool is_inf, is_nan;
};

struct layout {
	int exp_bits, frac, drop;   /* drop: low bits that are not read */
	bool has_inf;
};

static struct layout
layout_of(enum ptx_elem type)
{
	switch (type) {
	case PTX_ELEM_F16:
		return (struct layout){ 5, 10, 0, true };
	case PTX_ELEM_BF16:
		return (struct layout){ 8, 7, 0, true };
	case PTX_ELEM_TF32:
		return (struct layout){ 8, 10, 13, true };
	case PTX_ELEM_E4M3:
		return (struct layout){ 4, 3, 0, false };
	case PTX_ELEM_E5M2:
		return (struct layout){ 5, 2, 0, true };
	default:
		return (struct layout){ 8, 23, 0, true };
	}
}

static struct term
unpack(uint64_t bits, enum ptx_elem type)
{
	struct layout f = layout_of(type);
	int most = (1 << f.exp_bits) - 1, exp;
	struct term t = { .frac = f.frac };

	bits >>= f.drop;
	t.m = (int64_t)(bits & ((1ull << f.frac) - 1));
	exp = (int)(bits >> f.frac) & most;
	if (exp == most && (f.has_inf || t.m == (1 << f.frac) - 1)) {
		t.is_nan = t.m || !f.has_inf;
		t.is_inf = !t.is_nan;
		t.m = 1;
	} else if (exp) {
		t.m |= 1ll << f.frac;
	}
	t.exp = (exp ? exp : 1) - (most >> 1);
	if (bits >> (f.exp_bits + f.frac) & 1)
		t.m = -t.m;
	return t;
}

static struct term
multiply(struct term a, struct term b)
{
	return (struct term){
		.m = a.m * b.m, .exp = a.exp + b.exp, .frac = a.frac + b.frac,
		.is_nan = a.is_nan || b.is_nan || (a.is_inf && !b.m) ||
			  (b.is_inf && !a.m),
		.is_inf = a.is_inf || b.is_inf,
	};
}

/* How many products are added in one step, with the accumulator. */
static unsigned
step_of(enum ptx_elem type)
{
	switch (ptx_elem_bits(type)) {
	case 8:
		return 32;
	case 16:
		return 16;
	default:
		return 8;
	}
}

static int64_t
aligned(struct term t, int top)
{
	int shift = t.exp - top + KEPT_BITS - t.frac;
	int64_t size = t.m < 0 ? -t.m : t.m;

	if (shift >= 0)
		size <<= shift;
	else
		size = shift > -63 ? size >> -shift : 0;
	return t.m < 0 ? -size : size;
}

static uint64_t
pack(int64_t sum, int top, enum ptx_elem type)
{
	struct ptx_num n = { .class = PTX_NUM_FINITE, .is_neg = sum < 0 };
	uint64_t size = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
	uint64_t r;
	int shift;

	if (!size)
		return 0;
	shift = __builtin_clzll(size);
	n.mant = size << shift;
	n.exp = top - KEPT_BITS - shift;
	if (type == PTX_ELEM_F16)
		return ptx_num_pack(n, PTX_T_F16, PTX_RN);
	r = ptx_num_pack(n, PTX_T_F32, PTX_RZ);
	/* Cutting off gives the largest number where there is none. */
	return n.exp + 63 > 127 ? (r & 0x80000000u) | 0x7f800000u : r;
}

static uint64_t
special(const struct term *t, unsigned count, enum ptx_elem type)
{
	bool is_f16 = type == PTX_ELEM_F16;
	bool pos = false, neg = false;

	for (unsigned k = 0; k < count; k++) {
		if (t[k].is_nan)
			return is_f16 ? 0x7fff : 0x7fffffff;
		pos |= t[k].is_inf && t[k].m >= 0;
		neg |= t[k].is_inf && t[k].m < 0;
	}
	if (pos && neg)
		return is_f16 ? 0x7fff : 0x7fffffff;
	return is_f16 ? neg ? 0xfc00 : 0x7c00 : neg ? 0xff800000 : 0x7f800000;
}

static uint64_t
add_step(const struct term *t, unsigned count, enum ptx_elem type)
{
	bool is_special = false;
	int top = INT32_MIN;
	int64_t sum = 0;

	for (unsigned k = 0; k < count; k++) {
		is_special |= t[k].is_inf || t[k].is_nan;
		if (t[k].m && t[k].exp > top)
			top = t[k].exp;
	}
	if (is_special)
		return special(t, count, type);
	if (top == INT32_MIN)
		return 0;
	for (unsigned k = 0; k < count; k++)
		sum += aligned(t[k], top);
	return pack(sum, top, type);
}

static uint64_t
dot_float(const struct ptx_dot *dot, const struct term *a,
	  const struct term *b, uint64_t c)
{
	unsigned step = step_of(dot->a_type);
	struct term t[33];

	for (unsigned at = 0; at < dot->k; at += step) {
		unsigned n = dot->k - at < step ? dot->k - at : step;
		bool is_last = at + n == dot->k;

		for (unsigned k = 0; k < n; k++)
			t[k] = multiply(a[at + k], b[at + k]);
		t[n] = unpack(c, at ? PTX_ELEM_F32 : dot->c_type);
		c = add_step(t, n + 1, is_last ? dot->d_type : PTX_ELEM_F32);
	}
	return c;
}

static uint64_t
dot_double(const struct ptx_dot *dot, const uint64_t *a, const uint64_t *b,
	   uint64_t c)
{
	for (unsigned k = 0; k < dot->k; k++)
		c = ptx_f64_result(fma(ptx_f64(a[k]), ptx_f64(b[k]),
				       ptx_f64(c)), a[k], b[k], c);
	return c;
}

static int64_t
integer(uint64_t v, enum ptx_elem type)
{
	switch (type) {
	case PTX_ELEM_S8:
		return (int8_t)v;
	case PTX_ELEM_S4:
		return (int8_t)(v << 4) >> 4;
	default:
		return (int64_t)v;
	}
}

static uint64_t
dot_integer(const struct ptx_dot *dot, const uint64_t *a, const uint64_t *b,
	    uint64_t c)
{
	int64_t sum = (int32_t)c;

	for (unsigned k = 0; k < dot->k; k++) {
		if (dot->a_type == PTX_ELEM_B1)
			sum += dot->flags & PTX_DOT_AND ? a[k] & b[k]
							: a[k] ^ b[k];
		else
			sum += integer(a[k], dot->a_type) *
			       integer(b[k], dot->b_type);
	}
	if (dot->flags & PTX_DOT_SATFINITE)
		sum = sum > INT32_MAX ? INT32_MAX :
		      sum < INT32_MIN ? INT32_MIN : sum;
	return (uint32_t)sum;
}

static void
dot_floats(const struct ptx_dot *dot)
{
	struct term a[FLOATS_MAX], b[FLOATS_MAX];

	for (unsigned k = 0; k < dot->m * dot->k; k++)
		a[k] = unpack(dot->a[k], dot->a_type);
	for (unsigned k = 0; k < dot->n * dot->k; k++)
		b[k] = unpack(dot->b[k], dot->b_type);
	for (unsigned i = 0; i < dot->m * dot->n; i++)
		dot->d[i] = dot_float(dot, &a[i / dot->n * dot->k],
				      &b[i % dot->n * dot->k], dot->c[i]);
}

void
ptx_dot(const struct ptx_dot *dot)
{
	bool is_double = dot->d_type == PTX_ELEM_F64;

	if (!is_double && dot->d_type != PTX_ELEM_S32) {
		dot_floats(dot);
		return;
	}
	for (unsigned i = 0; i < dot->m * dot->n; i++)
		dot->d[i] = (is_double ? dot_double : dot_integer)(dot,
			&dot->a[i / dot->n * dot->k],
			&dot->b[i % dot->n * dot->k], dot->c[i]);
}

static const struct {
	const char *name;
	unsigned bits;
} elems[] = {
	[PTX_ELEM_F16] = { "f16", 16 }, [PTX_ELEM_BF16] = { "bf16", 16 },
	[PTX_ELEM_TF32] = { "tf32", 32 }, [PTX_ELEM_E4M3] = { "e4m3", 8 },
	[PTX_ELEM_E5M2] = { "e5m2", 8 }, [PTX_ELEM_F32] = { "f32", 32 },
	[PTX_ELEM_F64] = { "f64", 64 }, [PTX_ELEM_S8] = { "s8", 8 },
	[PTX_ELEM_U8] = { "u8", 8 }, [PTX_ELEM_S4] = { "s4", 4 },
	[PTX_ELEM_U4] = { "u4", 4 }, [PTX_ELEM_B1] = { "b1", 1 },
	[PTX_ELEM_S32] = { "s32", 32 },
};

unsigned
ptx_elem_bits(enum ptx_elem type)
{
	return elems[type].bits;
}

enum ptx_elem
ptx_elem_named(const char *name)
{
	for (unsigned k = 1; k < sizeof(elems) / sizeof(*elems); k++)
		if (!strcmp(elems[k].name, name))
			return (enum ptx_elem)k;
	return PTX_ELEM_NONE;
}
