/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

typedef __int128 wide_s;
typedef unsigned __int128 wide_u;

/*
 * One executor: a, b, c are the sources as type T, the result is cut to
 * type U, the unsigned type of the destination's width.
 */
#define OP1(name, T, U, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *pa = ptx_in(w, i->src[0]); \
	uint64_t *pd = ptx_out(w, i->dst[0]); \
	PTX_EACH(w, l, \
		T a = (T)pa[l]; \
		pd[l] = (U)(expr); \
	); \
}

#define OP2(name, T, U, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *pa = ptx_in(w, i->src[0]); \
	const uint64_t *pb = ptx_in(w, i->src[1]); \
	uint64_t *pd = ptx_out(w, i->dst[0]); \
	PTX_EACH(w, l, \
		T a = (T)pa[l], b = (T)pb[l]; \
		pd[l] = (U)(expr); \
	); \
}

#define OP3(name, T, U, C, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *pa = ptx_in(w, i->src[0]); \
	const uint64_t *pb = ptx_in(w, i->src[1]); \
	const uint64_t *pc = ptx_in(w, i->src[2]); \
	uint64_t *pd = ptx_out(w, i->dst[0]); \
	PTX_EACH(w, l, \
		T a = (T)pa[l], b = (T)pb[l]; \
		C c = (C)pc[l]; \
		pd[l] = (U)(expr); \
	); \
}

/* For bit patterns where signs do not matter. */
#define UNSIGNED2(name, expr) \
	OP2(name##_16, uint16_t, uint16_t, expr) \
	OP2(name##_32, uint32_t, uint32_t, expr) \
	OP2(name##_64, uint64_t, uint64_t, expr)
#define UNSIGNED_TABLE(name) { \
	[PTX_T_U16] = name##_16, [PTX_T_S16] = name##_16, \
	[PTX_T_U32] = name##_32, [PTX_T_S32] = name##_32, \
	[PTX_T_U64] = name##_64, [PTX_T_S64] = name##_64, \
}

#define SIGNED2(name, expr) \
	OP2(name##_u16, uint16_t, uint16_t, expr) \
	OP2(name##_u32, uint32_t, uint32_t, expr) \
	OP2(name##_u64, uint64_t, uint64_t, expr) \
	OP2(name##_s16, int16_t, uint16_t, expr) \
	OP2(name##_s32, int32_t, uint32_t, expr) \
	OP2(name##_s64, int64_t, uint64_t, expr)
#define SIGNED_TABLE(name) { \
	[PTX_T_U16] = name##_u16, [PTX_T_S16] = name##_s16, \
	[PTX_T_U32] = name##_u32, [PTX_T_S32] = name##_s32, \
	[PTX_T_U64] = name##_u64, [PTX_T_S64] = name##_s64, \
}

typedef ptx_exec_fn *fn_table[PTX_T_COUNT];

UNSIGNED2(add, (uint64_t)a + b)
UNSIGNED2(sub, (uint64_t)a - b)
UNSIGNED2(mul_lo, (uint64_t)a * b)
SIGNED2(min, a < b ? a : b)
SIGNED2(max, a > b ? a : b)

static const fn_table add_fns = UNSIGNED_TABLE(add);
static const fn_table sub_fns = UNSIGNED_TABLE(sub);
static const fn_table mul_lo_fns = UNSIGNED_TABLE(mul_lo);
static const fn_table min_fns = SIGNED_TABLE(min);
static const fn_table max_fns = SIGNED_TABLE(max);

/* The device divides by zero too: quotient and remainder all ones. */
#define DIV(T, U) (b == 0 ? (U)~(U)0 : b == (T)-1 ? (U)-(U)a : (U)(a / b))
#define REM(T, U) (b == 0 ? (U)~(U)0 : b == (T)-1 ? 0 : (U)(a % b))
#define UDIV(U) (b == 0 ? (U)~(U)0 : (U)(a / b))
#define UREM(U) (b == 0 ? (U)~(U)0 : (U)(a % b))

OP2(div_u16, uint16_t, uint16_t, UDIV(uint16_t))
OP2(div_u32, uint32_t, uint32_t, UDIV(uint32_t))
OP2(div_u64, uint64_t, uint64_t, UDIV(uint64_t))
OP2(div_s16, int16_t, uint16_t, DIV(int16_t, uint16_t))
OP2(div_s32, int32_t, uint32_t, DIV(int32_t, uint32_t))
OP2(div_s64, int64_t, uint64_t, DIV(int64_t, uint64_t))
OP2(rem_u16, uint16_t, uint16_t, UREM(uint16_t))
OP2(rem_u32, uint32_t, uint32_t, UREM(uint32_t))
OP2(rem_u64, uint64_t, uint64_t, UREM(uint64_t))
OP2(rem_s16, int16_t, uint16_t, REM(int16_t, uint16_t))
OP2(rem_s32, int32_t, uint32_t, REM(int32_t, uint32_t))
OP2(rem_s64, int64_t, uint64_t, REM(int64_t, uint64_t))

static const fn_table div_fns = SIGNED_TABLE(div);
static const fn_table rem_fns = SIGNED_TABLE(rem);

OP2(mul_hi_u16, uint16_t, uint16_t, ((uint32_t)a * b) >> 16)
OP2(mul_hi_s16, int16_t, uint16_t, ((int32_t)a * b) >> 16)
OP2(mul_hi_u32, uint32_t, uint32_t, ((uint64_t)a * b) >> 32)
OP2(mul_hi_s32, int32_t, uint32_t, ((int64_t)a * b) >> 32)
OP2(mul_hi_u64, uint64_t, uint64_t, ((wide_u)a * b) >> 64)
OP2(mul_hi_s64, int64_t, uint64_t, ((wide_s)a * b) >> 64)
OP2(mul_wide_u16, uint16_t, uint32_t, (uint32_t)a * b)
OP2(mul_wide_s16, int16_t, uint32_t, (int32_t)a * b)
OP2(mul_wide_u32, uint32_t, uint64_t, (uint64_t)a * b)
OP2(mul_wide_s32, int32_t, uint64_t, (int64_t)a * b)

static const fn_table mul_hi_fns = SIGNED_TABLE(mul_hi);
static const fn_table mul_wide_fns = {
	[PTX_T_U16] = mul_wide_u16, [PTX_T_S16] = mul_wide_s16,
	[PTX_T_U32] = mul_wide_u32, [PTX_T_S32] = mul_wide_s32,
};

OP3(mad_lo_16, uint16_t, uint16_t, uint16_t, (uint64_t)a * b + c)
OP3(mad_lo_32, uint32_t, uint32_t, uint32_t, a * b + c)
OP3(mad_lo_64, uint64_t, uint64_t, uint64_t, a * b + c)
OP3(mad_hi_u16, uint16_t, uint16_t, uint16_t, (((uint32_t)a * b) >> 16) + c)
OP3(mad_hi_s16, int16_t, uint16_t, uint16_t, (((int32_t)a * b) >> 16) + c)
OP3(mad_hi_u32, uint32_t, uint32_t, uint32_t, (((uint64_t)a * b) >> 32) + c)
OP3(mad_hi_s32, int32_t, uint32_t, uint32_t,
    (uint32_t)(((int64_t)a * b) >> 32) + c)
OP3(mad_hi_u64, uint64_t, uint64_t, uint64_t,
    (uint64_t)(((wide_u)a * b) >> 64) + c)
OP3(mad_hi_s64, int64_t, uint64_t, uint64_t,
    (uint64_t)(((wide_s)a * b) >> 64) + c)
OP3(mad_wide_u16, uint16_t, uint32_t, uint32_t, (uint32_t)a * b + c)
OP3(mad_wide_s16, int16_t, uint32_t, uint32_t,
    (uint32_t)((int32_t)a * b) + c)
OP3(mad_wide_u32, uint32_t, uint64_t, uint64_t, (uint64_t)a * b + c)
OP3(mad_wide_s32, int32_t, uint64_t, uint64_t,
    (uint64_t)((int64_t)a * b) + c)

static const fn_table mad_lo_fns = UNSIGNED_TABLE(mad_lo);
static const fn_table mad_hi_fns = SIGNED_TABLE(mad_hi);
static const fn_table mad_wide_fns = {
	[PTX_T_U16] = mad_wide_u16, [PTX_T_S16] = mad_wide_s16,
	[PTX_T_U32] = mad_wide_u32, [PTX_T_S32] = mad_wide_s32,
};

static inline int32_t
clamp_s32(int64_t v)
{
	return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN
							 : (int32_t)v;
}

OP2(add_sat_s32, int32_t, uint32_t, clamp_s32((int64_t)a + b))
OP2(sub_sat_s32, int32_t, uint32_t, clamp_s32((int64_t)a - b))
OP3(mad_hi_sat_s32, int32_t, uint32_t, int32_t,
    clamp_s32((((int64_t)a * b) >> 32) + c))

/* 24-bit multiplication: the operands' low 24 bits, 48 bits of product. */
static inline int64_t
low24(int64_t v, bool is_signed)
{
	v &= 0xffffff;
	return is_signed && v >= 0x800000 ? v - 0x1000000 : v;
}

#define MUL24(s) (uint64_t)(low24(a, s) * low24(b, s))
OP2(mul24_lo_u32, uint32_t, uint32_t, MUL24(false))
OP2(mul24_lo_s32, uint32_t, uint32_t, MUL24(true))
OP2(mul24_hi_u32, uint32_t, uint32_t, MUL24(false) >> 16)
OP2(mul24_hi_s32, uint32_t, uint32_t, MUL24(true) >> 16)
OP3(mad24_lo_u32, uint32_t, uint32_t, uint32_t, MUL24(false) + c)
OP3(mad24_lo_s32, uint32_t, uint32_t, uint32_t, MUL24(true) + c)
OP3(mad24_hi_u32, uint32_t, uint32_t, uint32_t, (MUL24(false) >> 16) + c)
OP3(mad24_hi_s32, uint32_t, uint32_t, uint32_t, (MUL24(true) >> 16) + c)
OP3(mad24_hi_sat_s32, uint32_t, uint32_t, int32_t,
    clamp_s32((int32_t)(MUL24(true) >> 16) + (int64_t)c))

#define SAD(U) (U)((U)c + (a > b ? (U)a - (U)b : (U)b - (U)a))
OP3(sad_u16, uint16_t, uint16_t, uint16_t, SAD(uint16_t))
OP3(sad_s16, int16_t, uint16_t, uint16_t, SAD(uint16_t))
OP3(sad_u32, uint32_t, uint32_t, uint32_t, SAD(uint32_t))
OP3(sad_s32, int32_t, uint32_t, uint32_t, SAD(uint32_t))
OP3(sad_u64, uint64_t, uint64_t, uint64_t, SAD(uint64_t))
OP3(sad_s64, int64_t, uint64_t, uint64_t, SAD(uint64_t))
static const fn_table sad_fns = SIGNED_TABLE(sad);

OP1(abs_s16, int16_t, uint16_t, a < 0 ? -(uint32_t)a : (uint32_t)a)
OP1(abs_s32, int32_t, uint32_t, a < 0 ? -(uint32_t)a : (uint32_t)a)
OP1(abs_s64, int64_t, uint64_t, a < 0 ? -(uint64_t)a : (uint64_t)a)
OP1(neg_s16, uint16_t, uint16_t, -(uint32_t)a)
OP1(neg_s32, uint32_t, uint32_t, -a)
OP1(neg_s64, uint64_t, uint64_t, -a)
static const fn_table abs_fns = {
	[PTX_T_S16] = abs_s16, [PTX_T_S32] = abs_s32, [PTX_T_S64] = abs_s64,
};
static const fn_table neg_fns = {
	[PTX_T_S16] = neg_s16, [PTX_T_S32] = neg_s32, [PTX_T_S64] = neg_s64,
};

OP2(min_relu_s32, int32_t, uint32_t, (a < b ? a : b) > 0 ? (a < b ? a : b) : 0)
OP2(max_relu_s32, int32_t, uint32_t, (a > b ? a : b) > 0 ? (a > b ? a : b) : 0)

/* Two 16-bit halves of a word. */
#define HALVES(T, expr) __extension__ ({ \
	uint32_t r_ = 0; \
	for (unsigned h = 0; h < 32; h += 16) { \
		T x = (T)(a >> h), y = (T)(b >> h); \
		r_ |= (uint32_t)(uint16_t)(expr) << h; \
	} \
	r_; })
OP2(add_u16x2, uint32_t, uint32_t, HALVES(uint16_t, (uint32_t)x + y))
OP2(min_u16x2, uint32_t, uint32_t, HALVES(uint16_t, x < y ? x : y))
OP2(max_u16x2, uint32_t, uint32_t, HALVES(uint16_t, x > y ? x : y))
OP2(min_s16x2, uint32_t, uint32_t, HALVES(int16_t, x < y ? x : y))
OP2(max_s16x2, uint32_t, uint32_t, HALVES(int16_t, x > y ? x : y))
#define RELU16(v) ((v) > 0 ? (v) : 0)
OP2(min_relu_s16x2, uint32_t, uint32_t,
    HALVES(int16_t, RELU16(x < y ? x : y)))
OP2(max_relu_s16x2, uint32_t, uint32_t,
    HALVES(int16_t, RELU16(x > y ? x : y)))

/*
 * Carry chains. The carry flag is one bit a lane. type tells signs and
 * width; imm is 1 where the carry comes in; flags says whether it goes out.
 */
enum { CARRY_OUT = 1, CARRY_IN = 2, CARRY_SUB = 4, CARRY_HI = 8 };

static void
add_with_carry(struct ptx_warp *w, const struct ptx_insn *i,
	       const uint64_t *a, const uint64_t *b)
{
	uint64_t *d = ptx_out(w, i->dst[0]);
	bool is_sub = i->flags & CARRY_SUB;
	unsigned bits = i->bits;

	PTX_EACH(w, l,
		uint64_t all = bits == 64 ? ~0ull : (1ull << bits) - 1;
		wide_u in = i->flags & CARRY_IN ? w->cc >> l & 1 : 0;
		wide_u x = a[l] & all;
		wide_u y = b[l] & all;
		wide_u r = is_sub ? x - y - in : x + y + in;

		if (i->flags & CARRY_OUT)
			w->cc = (w->cc & ~(1u << l)) |
				(uint32_t)(r >> bits & 1) << l;
		d[l] = (uint64_t)r & all;
	);
}

static void
exec_addc(struct ptx_warp *w, const struct ptx_insn *i)
{
	add_with_carry(w, i, ptx_in(w, i->src[0]), ptx_in(w, i->src[1]));
}

static void
exec_madc(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	uint64_t product[PTX_LANES];
	bool is_signed = ptx_type_is_signed(i->type), is_hi = i->flags &
							     CARRY_HI;

	PTX_EACH(w, l,
		if (i->bits == 32) {
			uint64_t x = is_signed
				? (uint64_t)((int64_t)(int32_t)a[l] *
					     (int32_t)b[l])
				: (uint64_t)(uint32_t)a[l] * (uint32_t)b[l];

			product[l] = is_hi ? x >> 32 : x;
		} else {
			wide_u x = is_signed
				? (wide_u)((wide_s)(int64_t)a[l] *
					   (int64_t)b[l])
				: (wide_u)a[l] * b[l];

			product[l] = (uint64_t)(is_hi ? x >> 64 : x);
		}
	);
	add_with_carry(w, i, product, ptx_in(w, i->src[2]));
}

static void
decode_carry(struct ptx_parser *p, int type, bool has_in, bool is_mad)
{
	struct ptx_insn i = ptx_insn_start(p, is_mad ? exec_madc : exec_addc);
	unsigned nsrc = is_mad ? 3 : 2;

	i.type = (uint8_t)type;
	i.bits = (uint8_t)(8 * ptx_type_size(type));
	if (has_in)
		i.flags |= CARRY_IN;
	if (ptx_mod(p, "cc"))
		i.flags |= CARRY_OUT;
	if (p->op[0] == 's')
		i.flags |= CARRY_SUB;
	if (is_mad && ptx_mod(p, "hi"))
		i.flags |= CARRY_HI;
	else if (is_mad && !ptx_mod(p, "lo"))
		ptx_unsupported(p);
	if (i.bits < 32 || type == PTX_T_B32 || type == PTX_T_B64 ||
	    type > PTX_T_S64)
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, nsrc + 1);
	for (unsigned k = 0; k < nsrc; k++)
		i.src[k] = ptx_src(p, &p->opnds[k + 1], type);
	i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	ptx_emit(p, &i);
}

static bool
has_cc(const struct ptx_parser *p)
{
	for (unsigned k = 0; k < p->nmods; k++) {
		if (!strcmp(p->mods[k], "cc"))
			return true;
	}
	return false;
}

static void
decode_add(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);
	bool is_add = p->op[0] == 'a';
	ptx_exec_fn *fn = (is_add ? add_fns : sub_fns)[type];

	if (ptx_type_is_float(type)) {
		ptx_decode_float_op(p, type);
		return;
	}
	if (has_cc(p)) {
		decode_carry(p, type, false, false);
		return;
	}
	if (type == PTX_T_S32 && ptx_mod(p, "sat"))
		fn = is_add ? add_sat_s32 : sub_sat_s32;
	if (is_add && (type == PTX_T_U16X2 || type == PTX_T_S16X2))
		fn = add_u16x2;
	ptx_emit_plain(p, fn, type, 2);
}

static void
decode_addc(struct ptx_parser *p)
{
	decode_carry(p, ptx_mod_type(p), true, p->op[0] == 'm');
}

/* Where the result is wider than the operands. */
static void
emit_widening(struct ptx_parser *p, ptx_exec_fn *fn, int type, unsigned nsrc)
{
	struct ptx_insn i = ptx_insn_start(p, fn);
	int wide = ptx_type_size(type) == 2 ? PTX_T_B32 : PTX_T_B64;

	ptx_mods_done(p);
	ptx_want_opnds(p, nsrc + 1);
	i.src[0] = ptx_src(p, &p->opnds[1], type);
	i.src[1] = ptx_src(p, &p->opnds[2], type);
	if (nsrc == 3)
		i.src[2] = ptx_src(p, &p->opnds[3], wide);
	i.dst[0] = ptx_dst(p, &p->opnds[0], wide);
	ptx_emit(p, &i);
}

static void
decode_mul(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);

	if (ptx_type_is_float(type))
		ptx_decode_float_op(p, type);
	else if (ptx_mod(p, "lo"))
		ptx_emit_plain(p, mul_lo_fns[type], type, 2);
	else if (ptx_mod(p, "hi"))
		ptx_emit_plain(p, mul_hi_fns[type], type, 2);
	else if (ptx_mod(p, "wide"))
		emit_widening(p, mul_wide_fns[type], type, 2);
	else
		ptx_unsupported(p);
}

static void
decode_mad(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);

	if (ptx_type_is_float(type))
		ptx_decode_float_op(p, type);
	else if (has_cc(p))
		decode_carry(p, type, false, true);
	else if (ptx_mod(p, "lo"))
		ptx_emit_plain(p, mad_lo_fns[type], type, 3);
	else if (!ptx_mod(p, "hi") && ptx_mod(p, "wide"))
		emit_widening(p, mad_wide_fns[type], type, 3);
	else if (type == PTX_T_S32 && ptx_mod(p, "sat"))
		ptx_emit_plain(p, mad_hi_sat_s32, type, 3);
	else
		ptx_emit_plain(p, mad_hi_fns[type], type, 3);
}

static void
decode_mul24(struct ptx_parser *p)
{
	static ptx_exec_fn *const fns[2][2][2] = {
		{ { mul24_lo_u32, mul24_lo_s32 },
		  { mul24_hi_u32, mul24_hi_s32 } },
		{ { mad24_lo_u32, mad24_lo_s32 },
		  { mad24_hi_u32, mad24_hi_s32 } },
	};
	bool is_mad = p->op[1] == 'a';
	int type = ptx_mod_type(p);
	bool is_hi = ptx_mod(p, "hi");
	ptx_exec_fn *fn = fns[is_mad][is_hi][type == PTX_T_S32];

	if ((type != PTX_T_S32 && type != PTX_T_U32) ||
	    (!is_hi && !ptx_mod(p, "lo")))
		ptx_unsupported(p);
	if (is_mad && is_hi && type == PTX_T_S32 && ptx_mod(p, "sat"))
		fn = mad24_hi_sat_s32;
	ptx_emit_plain(p, fn, type, is_mad ? 3 : 2);
}

static void
decode_divide(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);

	if (ptx_type_is_float(type))
		ptx_decode_float_op(p, type);
	else
		ptx_emit_plain(p, (p->op[0] == 'd' ? div_fns : rem_fns)[type],
			       type, 2);
}

static void
decode_min(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);
	bool is_min = p->op[1] == 'i', is_relu;
	ptx_exec_fn *fn = (is_min ? min_fns : max_fns)[type];

	if (ptx_type_is_float(type)) {
		ptx_decode_float_op(p, type);
		return;
	}
	is_relu = ptx_mod(p, "relu");
	if (type == PTX_T_U16X2 && !is_relu)
		fn = is_min ? min_u16x2 : max_u16x2;
	else if (type == PTX_T_S16X2 && !is_relu)
		fn = is_min ? min_s16x2 : max_s16x2;
	else if (type == PTX_T_S16X2)
		fn = is_min ? min_relu_s16x2 : max_relu_s16x2;
	else if (type == PTX_T_S32 && is_relu)
		fn = is_min ? min_relu_s32 : max_relu_s32;
	else if (is_relu)
		fn = NULL;
	ptx_emit_plain(p, fn, type, 2);
}

static void
decode_sign(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);

	if (ptx_type_is_float(type))
		ptx_decode_float_op(p, type);
	else
		ptx_emit_plain(p, (p->op[0] == 'a' ? abs_fns : neg_fns)[type],
			       type, 1);
}

static void
decode_sad(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);

	ptx_emit_plain(p, sad_fns[type], type, 3);
}

/* dp4a and dp2a: type of a in `type`, of b in `type2`. */
static int64_t
part(uint64_t v, unsigned at, unsigned bits, bool is_signed)
{
	uint64_t x = v >> at & ((1ull << bits) - 1);

	return is_signed && x >> (bits - 1) ? (int64_t)x - (1ll << bits)
					    : (int64_t)x;
}

static void
exec_dp(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	bool sa = ptx_type_is_signed(i->type);
	bool sb = ptx_type_is_signed(i->type2);
	unsigned n = i->op, bits = 32 / n;

	PTX_EACH(w, l,
		int64_t sum = 0;

		for (unsigned k = 0; k < n; k++)
			sum += part(a[l], bits * k, bits, sa) *
			       part(b[l], (unsigned)i->imm + 8 * k, 8, sb);
		d[l] = (uint32_t)((uint64_t)sum + c[l]);
	);
}

static void
decode_dp(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_dp);

	i.op = p->op[2] == '4' ? 4 : 2;
	i.type = (uint8_t)ptx_mod_type(p);
	i.type2 = (uint8_t)ptx_mod_type(p);
	if ((i.type != PTX_T_U32 && i.type != PTX_T_S32) ||
	    (i.type2 != PTX_T_U32 && i.type2 != PTX_T_S32))
		ptx_unsupported(p);
	if (i.op == 2 && ptx_mod(p, "hi"))
		i.imm = 16;
	else if (i.op == 2 && !ptx_mod(p, "lo"))
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 4);
	for (unsigned k = 0; k < 3; k++)
		i.src[k] = ptx_src(p, &p->opnds[k + 1], PTX_T_B32);
	i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_B32);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_int[] = {
	{ "add", decode_add },
	{ "sub", decode_add },
	{ "addc", decode_addc },
	{ "subc", decode_addc },
	{ "madc", decode_addc },
	{ "mul", decode_mul },
	{ "mad", decode_mad },
	{ "mul24", decode_mul24 },
	{ "mad24", decode_mul24 },
	{ "div", decode_divide },
	{ "rem", decode_divide },
	{ "min", decode_min },
	{ "max", decode_min },
	{ "abs", decode_sign },
	{ "neg", decode_sign },
	{ "sad", decode_sad },
	{ "dp4a", decode_dp },
	{ "dp2a", decode_dp },
	{ NULL, NULL },
};
