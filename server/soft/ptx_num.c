/* SPDX-License-Identifier: Apache-2.0 */
#include "server/soft/ptx_num.h"

struct format {
	int exp_bits, mant_bits;
	bool has_inf;
};

static struct format
format_of(int type)
{
	switch (type) {
	case PTX_T_F64:
		return (struct format){ 11, 52, true };
	case PTX_T_F16:
	case PTX_T_F16X2:
		return (struct format){ 5, 10, true };
	case PTX_T_BF16:
	case PTX_T_BF16X2:
		return (struct format){ 8, 7, true };
	case PTX_T_TF32:
		return (struct format){ 8, 10, true };
	case PTX_T_E5M2X2:
		return (struct format){ 5, 2, true };
	case PTX_T_E4M3X2:
		return (struct format){ 4, 3, false };
	default:
		return (struct format){ 8, 23, true };
	}
}

static uint64_t
nan_of(int type)
{
	switch (type) {
	case PTX_T_F64:
		return 0x7ff8000000000000;
	case PTX_T_F16:
	case PTX_T_F16X2:
	case PTX_T_BF16:
	case PTX_T_BF16X2:
		return 0x7fff;
	case PTX_T_E5M2X2:
	case PTX_T_E4M3X2:
		return 0x7f;
	default:
		return 0x7fffffff;
	}
}

struct ptx_num
ptx_num_unpack(uint64_t bits, int type)
{
	struct format f = format_of(type);
	int emax = (1 << f.exp_bits) - 1, bias = emax >> 1;
	uint64_t mant = bits & ((1ull << f.mant_bits) - 1);
	int exp = (int)(bits >> f.mant_bits) & emax;
	struct ptx_num n = { .class = PTX_NUM_FINITE };
	int shift;

	n.is_neg = bits >> (f.exp_bits + f.mant_bits) & 1;
	if (f.has_inf && exp == emax) {
		n.class = mant ? PTX_NUM_NAN : PTX_NUM_INF;
		n.mant = mant << (64 - f.mant_bits);
		return n;
	}
	if (!f.has_inf && exp == emax && mant == 7) {
		n.class = PTX_NUM_NAN;
		return n;
	}
	if (!exp && !mant) {
		n.class = PTX_NUM_ZERO;
		return n;
	}
	n.was_subnormal = !exp;
	if (exp)
		mant |= 1ull << f.mant_bits;
	else
		exp = 1;
	shift = __builtin_clzll(mant);
	n.mant = mant << shift;
	n.exp = exp - bias - f.mant_bits - shift;
	return n;
}

struct ptx_num
ptx_num_of_int(uint64_t v, bool is_signed)
{
	struct ptx_num n = { .class = PTX_NUM_FINITE };
	int shift;

	if (!v)
		return (struct ptx_num){ .class = PTX_NUM_ZERO };
	if (is_signed && (int64_t)v < 0) {
		n.is_neg = true;
		v = -v;
	}
	shift = __builtin_clzll(v);
	n.mant = v << shift;
	n.exp = -shift;
	return n;
}

/* Whether dropping `rest` (below one unit, half = 1 << 63) rounds up. */
static bool
rounds_up(uint64_t kept, uint64_t rest, bool is_sticky, bool is_neg, int rnd)
{
	bool is_inexact = rest || is_sticky;

	switch (rnd) {
	case PTX_RZ:
	case PTX_RZI:
		return false;
	case PTX_RM:
	case PTX_RMI:
		return is_neg && is_inexact;
	case PTX_RP:
	case PTX_RPI:
		return !is_neg && is_inexact;
	case PTX_RNA:
		return rest >> 63;
	default:
		if (rest > 1ull << 63 || (rest == 1ull << 63 && is_sticky))
			return true;
		return rest == 1ull << 63 && (kept & 1);
	}
}

/* mant >> shift with the dropped bits in *rest; shift may be any size. */
static uint64_t
shift_right(uint64_t mant, int shift, uint64_t *rest, bool *is_sticky)
{
	if (shift <= 0) {
		*rest = 0;
		return mant;
	}
	if (shift < 64) {
		*rest = mant << (64 - shift);
		return mant >> shift;
	}
	if (shift == 64) {
		*rest = mant;
		return 0;
	}
	*rest = 0;
	if (mant)
		*is_sticky = true;
	return 0;
}

static uint64_t
overflow(struct format f, bool is_neg, int rnd, uint64_t largest)
{
	bool to_inf = rnd == PTX_RN || rnd == PTX_RNA || rnd == PTX_RND_NONE ||
		      (rnd == PTX_RP && !is_neg) ||
		      (rnd == PTX_RM && is_neg);

	if (!to_inf || !f.has_inf)
		return largest;
	return ((1ull << f.exp_bits) - 1) << f.mant_bits;
}

static uint64_t
largest_of(struct format f)
{
	uint64_t all = (1ull << (f.exp_bits + f.mant_bits)) - 1;

	return f.has_inf ? all - (1ull << f.mant_bits) : all - 1;
}

static uint64_t
pack_finite(struct ptx_num n, struct format f, int rnd)
{
	int emax = (1 << f.exp_bits) - 1, bias = emax >> 1;
	int exp = n.exp + 63 + bias; /* biased, of mant's top bit */
	int shift = 63 - f.mant_bits;
	bool sticky = n.is_sticky;
	uint64_t rest, kept, out;

	if (exp <= 0) {
		shift += 1 - exp;
		exp = 1;
	}
	kept = shift_right(n.mant, shift, &rest, &sticky);
	if (rounds_up(kept, rest, sticky, n.is_neg, rnd))
		kept++;
	/* A carry out of the fraction steps the exponent by itself. */
	out = ((uint64_t)(exp - 1) << f.mant_bits) + kept;
	if (exp > emax || out > largest_of(f))
		out = overflow(f, n.is_neg, rnd, largest_of(f));
	return out;
}

uint64_t
ptx_num_pack(struct ptx_num n, int type, int rnd)
{
	struct format f = format_of(type);
	uint64_t sign = (uint64_t)n.is_neg << (f.exp_bits + f.mant_bits);
	uint64_t out = 0;

	switch (n.class) {
	case PTX_NUM_NAN:
		return nan_of(type);
	case PTX_NUM_ZERO:
		break;
	case PTX_NUM_INF:
		out = f.has_inf ? ((1ull << f.exp_bits) - 1) << f.mant_bits
				: largest_of(f);
		break;
	case PTX_NUM_FINITE:
		out = pack_finite(n, f, rnd);
		break;
	}
	out |= sign;
	/* tf32 is held in f32's layout. */
	return type == PTX_T_TF32 ? out << 13 : out;
}

uint64_t
ptx_num_pack_nan(struct ptx_num n, int type)
{
	struct format f = format_of(type);
	uint64_t mant = n.mant >> (64 - f.mant_bits);

	return (uint64_t)n.is_neg << (f.exp_bits + f.mant_bits) |
	       ((1ull << f.exp_bits) - 1) << f.mant_bits | mant |
	       1ull << (f.mant_bits - 1);
}

uint64_t
ptx_num_pack_satfinite(struct ptx_num n, int type, int rnd)
{
	struct format f = format_of(type);
	uint64_t inf = ((1ull << f.exp_bits) - 1) << f.mant_bits;
	uint64_t sign = 1ull << (f.exp_bits + f.mant_bits);
	uint64_t out = ptx_num_pack(n, type, rnd);

	if (n.class == PTX_NUM_NAN || type == PTX_T_TF32)
		return out;
	if (f.has_inf && (out & ~sign) == inf)
		out = (out & sign) | largest_of(f);
	return out;
}

uint64_t
ptx_num_to_int(struct ptx_num n, unsigned bits, bool is_signed, int rnd)
{
	uint64_t all = bits == 64 ? ~0ull : (1ull << bits) - 1;
	uint64_t most = is_signed ? all >> 1 : all, rest = 0, v;
	bool sticky = n.is_sticky;

	switch (n.class) {
	case PTX_NUM_ZERO:
		return 0;
	case PTX_NUM_NAN:
		return bits == 64 ? 1ull << 63 : 0;
	case PTX_NUM_INF:
		v = ~0ull;
		break;
	default:
		if (n.exp > 0) {
			v = ~0ull; /* at least 2^64 */
			break;
		}
		v = shift_right(n.mant, -n.exp, &rest, &sticky);
		if (rounds_up(v, rest, sticky, n.is_neg, rnd) && v != ~0ull)
			v++;
	}
	if (n.is_neg) {
		if (!is_signed)
			return 0;
		return (v > most ? ~most : -v) & all;
	}
	return v > most ? most : v;
}

uint64_t
ptx_num_round(uint64_t f64_bits, int type, int rnd)
{
	return ptx_num_pack(ptx_num_unpack(f64_bits, PTX_T_F64), type, rnd);
}

float
ptx_half_to_float(uint64_t bits, int type)
{
	uint32_t b = (uint32_t)bits & 0xffff, exp, mant;

	if (type == PTX_T_BF16 || type == PTX_T_BF16X2)
		return ptx_f32(b << 16);
	exp = b >> 10 & 31;
	mant = b & 0x3ff;
	if (!exp) {
		float f = (float)mant * 0x1p-24f;

		return b & 0x8000 ? -f : f;
	}
	exp = exp == 31 ? 255 : exp + 112;
	return ptx_f32((b & 0x8000) << 16 | exp << 23 | mant << 13);
}

double
ptx_half_to_double(uint64_t bits, int type)
{
	return ptx_half_to_float(bits, type);
}

/*
 * The product of two halves is exact in double. The sum may not be: its
 * lost part is found by the two-sum and only its existence matters, so it
 * becomes the sticky bit of the one rounding.
 */
uint64_t
ptx_half_fma(uint64_t a, uint64_t b, uint64_t c, int type)
{
	volatile double p = ptx_half_to_double(a, type) *
			    ptx_half_to_double(b, type);
	volatile double q = ptx_half_to_double(c, type);
	volatile double s = p + q;
	volatile double bb = s - p;
	volatile double err = (p - (s - bb)) + (q - bb);
	struct ptx_num n = ptx_num_unpack(ptx_f64_bits(s), PTX_T_F64);

	if (n.class == PTX_NUM_FINITE && err != 0) {
		/* An f64 leaves 11 zero bits below: room for the sticky. */
		if ((err < 0) != n.is_neg) {
			n.mant -= 1;
			if (!(n.mant >> 63)) {
				n.mant = n.mant << 1 | 1;
				n.exp--;
			}
		}
		n.is_sticky = true;
	}
	return ptx_num_pack(n, type, PTX_RN);
}
