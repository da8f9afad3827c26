/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of every PTX type, exactly: unpack, round, pack.
 * Private to the executor (server/soft/ptx_*.c).
 */
#ifndef SERVER_SOFT_PTX_NUM_H
#define SERVER_SOFT_PTX_NUM_H

#include "server/soft/ptx_ir.h"

#include <string.h>

enum ptx_num_class { PTX_NUM_ZERO, PTX_NUM_FINITE, PTX_NUM_INF, PTX_NUM_NAN };

/* (-1)^is_neg * mant * 2^exp, with mant's top bit set when finite. */
struct ptx_num {
	enum ptx_num_class class;
	bool is_neg;
	bool is_sticky;       /* the value is a little larger than mant */
	bool was_subnormal;
	int exp;              /* of a NaN: nothing */
	uint64_t mant;        /* of a NaN: its payload, left-aligned */
};

struct ptx_num ptx_num_unpack(uint64_t bits, int type);
struct ptx_num ptx_num_of_int(uint64_t v, bool is_signed);
/* Round into a float format; NaNs are the device's canonical ones. */
uint64_t ptx_num_pack(struct ptx_num n, int type, int rnd);
/* A NaN with its sign and the upper bits of its payload, made quiet. */
uint64_t ptx_num_pack_nan(struct ptx_num n, int type);
/* Round to an integer of `bits` bits, clamped; NaN is 0 up to 32 bits. */
uint64_t ptx_num_to_int(struct ptx_num n, unsigned bits, bool is_signed,
			int rnd);
/* An f64's bits rounded into another float format. */
uint64_t ptx_num_round(uint64_t f64_bits, int type, int rnd);
/* Finite overflow becomes the largest finite value (satfinite). */
uint64_t ptx_num_pack_satfinite(struct ptx_num n, int type, int rnd);

static inline float
ptx_f32(uint64_t bits)
{
	uint32_t u = (uint32_t)bits;
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline uint64_t
ptx_f32_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline double
ptx_f64(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

static inline uint64_t
ptx_f64_bits(double d)
{
	uint64_t u;

	memcpy(&u, &d, sizeof(u));
	return u;
}

/* Subnormals to zeros of their sign. */
static inline float
ptx_ftz(float f)
{
	uint32_t u = (uint32_t)ptx_f32_bits(f);

	return (u & 0x7f800000) ? f : ptx_f32(u & 0x80000000);
}

/* f32 results have one NaN. */
static inline uint64_t
ptx_f32_result(float f)
{
	return f != f ? 0x7fffffff : ptx_f32_bits(f);
}

static inline bool
ptx_f64_is_nan(uint64_t bits)
{
	return (bits & ~(1ull << 63)) > 0x7ffull << 52;
}

/*
 * f64 results keep the payload of the first operand that is a NaN, made
 * quiet; a NaN out of numbers is the negative default one.
 */
static inline uint64_t
ptx_f64_result(double d, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t quiet = 1ull << 51;

	if (d == d)
		return ptx_f64_bits(d);
	if (ptx_f64_is_nan(a))
		return a | quiet;
	if (ptx_f64_is_nan(b))
		return b | quiet;
	return ptx_f64_is_nan(c) ? c | quiet : 0xfff8000000000000;
}

/* Exact widenings. */
double ptx_half_to_double(uint64_t bits, int type);
float ptx_half_to_float(uint64_t bits, int type);
/* Fused multiply-add with one rounding into type (f16, bf16). */
uint64_t ptx_half_fma(uint64_t a, uint64_t b, uint64_t c, int type);

#endif
