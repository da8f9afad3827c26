/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f32 and f64 arithmetic.
 *
 * The host's IEEE arithmetic does it; directed rounding sets the host's
 * mode around one instruction. The calls that set the mode cannot move
 * against the loads and stores of registers, so neither can the arithmetic.
 */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_num.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

static void
rounding_begin(int rnd)
{
	if (rnd == PTX_RZ)
		fesetround(FE_TOWARDZERO);
	else if (rnd == PTX_RM)
		fesetround(FE_DOWNWARD);
	else if (rnd == PTX_RP)
		fesetround(FE_UPWARD);
}

static void
rounding_end(int rnd)
{
	if (rnd == PTX_RZ || rnd == PTX_RM || rnd == PTX_RP)
		fesetround(FE_TONEAREST);
}

/* To [0, 1]; NaN becomes 0. */
static inline float
saturate(float f)
{
	return f > 0 ? (f < 1 ? f : 1) : 0;
}

static inline uint64_t
finish_f32(const struct ptx_insn *i, float f)
{
	if (i->ftz)
		f = ptx_ftz(f);
	if (i->sat)
		f = saturate(f);
	return ptx_f32_result(f);
}

#define IN_F32(k) (i->ftz ? ptx_ftz(ptx_f32(p##k[l])) : ptx_f32(p##k[l]))

#define F32_OP1(name, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *p0 = ptx_in(w, i->src[0]); \
	uint64_t *d = ptx_out(w, i->dst[0]); \
	rounding_begin(i->rnd); \
	PTX_EACH(w, l, \
		float a = IN_F32(0); \
		d[l] = finish_f32(i, (expr)); \
	); \
	rounding_end(i->rnd); \
}

#define F32_OP2(name, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *p0 = ptx_in(w, i->src[0]); \
	const uint64_t *p1 = ptx_in(w, i->src[1]); \
	uint64_t *d = ptx_out(w, i->dst[0]); \
	rounding_begin(i->rnd); \
	PTX_EACH(w, l, \
		float a = IN_F32(0); \
		float b = IN_F32(1); \
		d[l] = finish_f32(i, (expr)); \
	); \
	rounding_end(i->rnd); \
}

#define F32_OP3(name, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *p0 = ptx_in(w, i->src[0]); \
	const uint64_t *p1 = ptx_in(w, i->src[1]); \
	const uint64_t *p2 = ptx_in(w, i->src[2]); \
	uint64_t *d = ptx_out(w, i->dst[0]); \
	rounding_begin(i->rnd); \
	PTX_EACH(w, l, \
		float a = IN_F32(0); \
		float b = IN_F32(1); \
		float c = IN_F32(2); \
		d[l] = finish_f32(i, (expr)); \
	); \
	rounding_end(i->rnd); \
}

#define F64_OP1(name, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *p0 = ptx_in(w, i->src[0]); \
	uint64_t *d = ptx_out(w, i->dst[0]); \
	rounding_begin(i->rnd); \
	PTX_EACH(w, l, \
		double a = ptx_f64(p0[l]); \
		d[l] = ptx_f64_result(expr, p0[l], 0, 0); \
	); \
	rounding_end(i->rnd); \
}

#define F64_OP2(name, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *p0 = ptx_in(w, i->src[0]); \
	const uint64_t *p1 = ptx_in(w, i->src[1]); \
	uint64_t *d = ptx_out(w, i->dst[0]); \
	rounding_begin(i->rnd); \
	PTX_EACH(w, l, \
		double a = ptx_f64(p0[l]); \
		double b = ptx_f64(p1[l]); \
		d[l] = ptx_f64_result(expr, p0[l], p1[l], 0); \
	); \
	rounding_end(i->rnd); \
}

#define F64_OP3(name, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *p0 = ptx_in(w, i->src[0]); \
	const uint64_t *p1 = ptx_in(w, i->src[1]); \
	const uint64_t *p2 = ptx_in(w, i->src[2]); \
	uint64_t *d = ptx_out(w, i->dst[0]); \
	rounding_begin(i->rnd); \
	PTX_EACH(w, l, \
		double a = ptx_f64(p0[l]); \
		double b = ptx_f64(p1[l]); \
		double c = ptx_f64(p2[l]); \
		d[l] = ptx_f64_result(expr, p0[l], p1[l], p2[l]); \
	); \
	rounding_end(i->rnd); \
}

/* The common case without any modifier, for the vectoriser. */
#define F32_FAST2(name, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *p0 = ptx_in(w, i->src[0]); \
	const uint64_t *p1 = ptx_in(w, i->src[1]); \
	uint64_t *d = ptx_out(w, i->dst[0]); \
	PTX_EACH(w, l, \
		float a = ptx_f32(p0[l]); \
		float b = ptx_f32(p1[l]); \
		d[l] = ptx_f32_result(expr); \
	); \
}

F32_FAST2(add_f32_fast, a + b)
F32_FAST2(sub_f32_fast, a - b)
F32_FAST2(mul_f32_fast, a * b)

F32_OP2(add_f32, a + b)
F32_OP2(sub_f32, a - b)
F32_OP2(mul_f32, a * b)
F32_OP2(div_f32, a / b)
/* Multiplies by a reciprocal that is zero beyond 2^126. */
F32_OP2(div_approx_f32, fabsf(b) > 0x1p126f && fabsf(b) < INFINITY
	? a * copysignf(0, b) : a / b)
F32_OP3(fma_f32, fmaf(a, b, c))
F32_OP1(sqrt_f32, sqrtf(a))
F32_OP1(rcp_f32, 1.0f / a)
F32_OP1(rsqrt_f32, (float)(1.0 / sqrt((double)a)))
F32_OP1(sin_f32, sinf(a))
F32_OP1(cos_f32, cosf(a))
F32_OP1(ex2_f32, exp2f(a))
F32_OP1(lg2_f32, log2f(a))
F32_OP1(tanh_f32, tanhf(a))

F64_OP2(add_f64, a + b)
F64_OP2(sub_f64, a - b)
F64_OP2(mul_f64, a * b)
F64_OP2(div_f64, a / b)
F64_OP3(fma_f64, fma(a, b, c))
F64_OP1(sqrt_f64, sqrt(a))
F64_OP1(rcp_f64, 1.0 / a)
F64_OP1(rsqrt_f64, 1.0 / sqrt(a))

/* .approx.ftz.f64: only the upper word of the operand and the result. */
static double
upper_word(double a)
{
	uint64_t bits = ptx_f64_bits(a);

	if (!(bits >> 52 & 0x7ff))
		bits = 0 | (bits & 1ull << 63);
	return ptx_f64(bits & ~0xffffffffull);
}

F64_OP1(rcp_approx_f64, upper_word(1.0 / upper_word(a)))
F64_OP1(rsqrt_approx_f64, upper_word(1.0 / sqrt(upper_word(a))))

/* Sign operations work on bits and keep NaNs. */
static void
exec_sign_f32(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *p0 = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	bool is_neg = i->op == 'n';

	PTX_EACH(w, l,
		uint64_t v = ptx_f32_bits(IN_F32(0));

		v = is_neg ? v ^ 0x80000000 : v & 0x7fffffff;
		d[l] = (v & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : v;
	);
}

static void
exec_sign_f64(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *p0 = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]), sign = 1ull << 63;
	bool is_neg = i->op == 'n';

	/* NaNs keep their sign. */
	PTX_EACH(w, l,
		d[l] = ptx_f64_is_nan(p0[l]) ? p0[l] | 1ull << 51
		     : is_neg ? p0[l] ^ sign : p0[l] & ~sign;
	);
}

static void
exec_copysign_f32(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		d[l] = (b[l] & 0x7fffffff) | (a[l] & 0x80000000);
	);
}

static void
exec_copysign_f64(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	uint64_t *d = ptx_out(w, i->dst[0]), sign = 1ull << 63;

	PTX_EACH(w, l, d[l] = (b[l] & ~sign) | (a[l] & sign); );
}

enum { MIN_IS_MAX = 1, MIN_NAN = 2, MIN_XORSIGN = 4, MIN_THREE = 8 };

static double
pick(double a, double b, unsigned flags)
{
	bool is_max = flags & MIN_IS_MAX;

	if (a != a || b != b) {
		if ((flags & MIN_NAN) || (a != a && b != b))
			return NAN;
		return a != a ? b : a;
	}
	if (a == b) /* -0 < +0 */
		return (signbit(a) != 0) == is_max ? b : a;
	return (a < b) != is_max ? a : b;
}

static void
exec_min_f32(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *p0 = ptx_in(w, i->src[0]);
	const uint64_t *p1 = ptx_in(w, i->src[1]);
	const uint64_t *p2 = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		float a = IN_F32(0), b = IN_F32(1);
		uint32_t sign = (uint32_t)(ptx_f32_bits(a) ^
					   ptx_f32_bits(b)) & 0x80000000;
		float r;

		if (i->flags & MIN_XORSIGN) {
			a = fabsf(a);
			b = fabsf(b);
		}
		r = (float)pick(a, b, i->flags);
		if (i->flags & MIN_THREE)
			r = (float)pick(r, IN_F32(2), i->flags);
		d[l] = ptx_f32_result(r);
		if ((i->flags & MIN_XORSIGN) && r == r)
			d[l] |= sign;
	);
}

static void
exec_min_f64(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *p0 = ptx_in(w, i->src[0]);
	const uint64_t *p1 = ptx_in(w, i->src[1]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		d[l] = ptx_f64_result(pick(ptx_f64(p0[l]), ptx_f64(p1[l]),
					   i->flags), p0[l], p1[l], 0);
	);
}

enum { TEST_FINITE, TEST_INFINITE, TEST_NUMBER, TEST_NAN, TEST_NORMAL,
       TEST_SUBNORMAL };

static void
exec_testp(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint32_t *d = &w->preds[i->dst[0]], r = 0;

	PTX_EACH(w, l,
		int c = i->type == PTX_T_F64 ? fpclassify(ptx_f64(a[l]))
					     : fpclassify(ptx_f32(a[l]));
		bool is = i->op == TEST_FINITE ? c != FP_INFINITE &&
						 c != FP_NAN
			: i->op == TEST_INFINITE ? c == FP_INFINITE
			: i->op == TEST_NUMBER ? c != FP_NAN
			: i->op == TEST_NAN ? c == FP_NAN
			/* The device counts zero as normal. */
			: i->op == TEST_NORMAL ? c == FP_NORMAL ||
						 c == FP_ZERO
			: c == FP_SUBNORMAL;

		r |= (uint32_t)is << l;
	);
	*d = (*d & ~w->mask) | (r & w->mask);
}

struct float_op {
	const char *name;
	unsigned nsrc;
	ptx_exec_fn *f32, *f32_fast, *f64;
	bool is_approx_only;  /* no rounding modifier exists */
};

static const struct float_op ops[] = {
	{ "add", 2, add_f32, add_f32_fast, add_f64, false },
	{ "sub", 2, sub_f32, sub_f32_fast, sub_f64, false },
	{ "mul", 2, mul_f32, mul_f32_fast, mul_f64, false },
	{ "div", 2, div_f32, NULL, div_f64, false },
	{ "fma", 3, fma_f32, NULL, fma_f64, false },
	{ "mad", 3, fma_f32, NULL, fma_f64, false },
	{ "sqrt", 1, sqrt_f32, NULL, sqrt_f64, false },
	{ "rcp", 1, rcp_f32, NULL, rcp_f64, false },
	{ "rsqrt", 1, rsqrt_f32, NULL, rsqrt_f64, true },
	{ "sin", 1, sin_f32, NULL, NULL, true },
	{ "cos", 1, cos_f32, NULL, NULL, true },
	{ "ex2", 1, ex2_f32, NULL, NULL, true },
	{ "lg2", 1, lg2_f32, NULL, NULL, true },
	{ "tanh", 1, tanh_f32, NULL, NULL, true },
	{ NULL, 0, NULL, NULL, NULL, false },
};

static void
emit_float(struct ptx_parser *p, struct ptx_insn *i, int type, unsigned nsrc)
{
	ptx_mods_done(p);
	if (!i->exec)
		ptx_unsupported(p);
	ptx_want_opnds(p, nsrc + 1);
	for (unsigned k = 0; k < nsrc; k++)
		i->src[k] = ptx_src(p, &p->opnds[k + 1], type);
	i->dst[0] = ptx_dst(p, &p->opnds[0], type);
	ptx_emit(p, i);
}

static void
decode_min_float(struct ptx_parser *p, int type)
{
	struct ptx_insn i = ptx_insn_start(p, exec_min_f64);
	unsigned nsrc = 2;

	if (p->op[1] == 'a')
		i.flags |= MIN_IS_MAX;
	if (type == PTX_T_F32) {
		i.exec = exec_min_f32;
		i.ftz = ptx_mod(p, "ftz");
		if (ptx_mod(p, "NaN"))
			i.flags |= MIN_NAN;
		if (ptx_mod(p, "xorsign")) {
			if (!ptx_mod(p, "abs"))
				ptx_unsupported(p);
			i.flags |= MIN_XORSIGN;
		}
	}
	emit_float(p, &i, type, nsrc);
}

static void
decode_sign_float(struct ptx_parser *p, int type)
{
	struct ptx_insn i = ptx_insn_start(p, exec_sign_f64);

	i.op = (uint8_t)p->op[0];
	if (type == PTX_T_F32) {
		i.exec = exec_sign_f32;
		i.ftz = ptx_mod(p, "ftz");
	}
	emit_float(p, &i, type, 1);
}

static const struct float_op *
find_op(const char *name)
{
	const struct float_op *o = ops;

	while (o->name && strcmp(o->name, name))
		o++;
	return o;
}

void
ptx_decode_float_op(struct ptx_parser *p, int type)
{
	struct ptx_insn i = ptx_insn_start(p, NULL);
	const struct float_op *o = find_op(p->op);
	bool is_rounded;

	if (type != PTX_T_F32 && type != PTX_T_F64) {
		ptx_decode_half_op(p, type);
		return;
	}
	if (!strcmp(p->op, "min") || !strcmp(p->op, "max")) {
		decode_min_float(p, type);
		return;
	}
	if (!strcmp(p->op, "abs") || !strcmp(p->op, "neg")) {
		decode_sign_float(p, type);
		return;
	}
	if (!o->name)
		ptx_unsupported(p);
	i.rnd = (uint8_t)ptx_mod_rnd(p);
	i.ftz = ptx_mod(p, "ftz");
	i.sat = ptx_mod(p, "sat");
	is_rounded = i.rnd >= PTX_RN && i.rnd <= PTX_RP;
	if (i.rnd && !is_rounded && i.rnd != PTX_APPROX && i.rnd != PTX_FULL)
		ptx_unsupported(p);
	if (o->is_approx_only && i.rnd != PTX_APPROX)
		ptx_unsupported(p);
	i.exec = type == PTX_T_F64 ? o->f64 : o->f32;
	if (type == PTX_T_F64) {
		if (i.sat || (i.ftz && i.rnd != PTX_APPROX))
			ptx_unsupported(p);
		if (i.rnd == PTX_APPROX && i.ftz)
			i.exec = !strcmp(p->op, "rcp") ? rcp_approx_f64
			       : !strcmp(p->op, "rsqrt") ? rsqrt_approx_f64
			       : NULL;
		else if (i.rnd == PTX_APPROX && !o->is_approx_only)
			i.exec = NULL;
	} else if (i.rnd == PTX_APPROX && !strcmp(p->op, "div")) {
		i.exec = div_approx_f32;
	} else if (o->f32_fast && i.rnd <= PTX_RN && !i.ftz && !i.sat) {
		i.exec = o->f32_fast;
	}
	emit_float(p, &i, type, o->nsrc);
}

static void
decode_float(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);

	if (!ptx_type_is_float(type))
		ptx_unsupported(p);
	ptx_decode_float_op(p, type);
}

static void
decode_copysign(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);

	ptx_emit_plain(p, type == PTX_T_F32 ? exec_copysign_f32
		       : type == PTX_T_F64 ? exec_copysign_f64 : NULL,
		       type, 2);
}

static void
decode_testp(struct ptx_parser *p)
{
	static const char *const words[] = {
		"finite", "infinite", "number", "notanumber", "normal",
		"subnormal",
	};
	struct ptx_insn i = ptx_insn_start(p, NULL);

	for (unsigned k = 0; k < 6; k++) {
		if (ptx_mod(p, words[k])) {
			i.op = (uint8_t)k;
			i.exec = exec_testp;
		}
	}
	i.type = (uint8_t)ptx_mod_type(p);
	ptx_mods_done(p);
	if (i.type != PTX_T_F32 && i.type != PTX_T_F64)
		ptx_unsupported(p);
	ptx_want_opnds(p, 2);
	i.src[0] = ptx_src(p, &p->opnds[1], i.type);
	i.dst[0] = ptx_dst_pred(p, &p->opnds[0]);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_float[] = {
	{ "fma", decode_float },
	{ "sqrt", decode_float },
	{ "rcp", decode_float },
	{ "rsqrt", decode_float },
	{ "sin", decode_float },
	{ "cos", decode_float },
	{ "ex2", decode_float },
	{ "lg2", decode_float },
	{ "tanh", decode_float },
	{ "copysign", decode_copysign },
	{ "testp", decode_testp },
	{ NULL, NULL },
};
