/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions between all types.
 *
 * The general way goes through struct ptx_num and is exact for every pair
 * and rounding; the pairs that every program uses have a short way that
 * the host's own conversions do.
 */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_num.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

enum { CVT_RELU = 1, CVT_SATFINITE = 2 };

static uint64_t
mask_of(unsigned bits)
{
	return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

static int64_t
sign_extend(uint64_t v, unsigned bits)
{
	return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* An integer held in a destination register of i->bits bits. */
static uint64_t
to_register(const struct ptx_insn *i, uint64_t v, int type)
{
	unsigned bits = 8 * ptx_type_size(type);

	if (ptx_type_is_signed(type))
		return (uint64_t)sign_extend(v, bits) & mask_of(i->bits);
	return v & mask_of(bits);
}

static uint64_t
int_to_int(const struct ptx_insn *i, uint64_t v)
{
	unsigned from = 8 * ptx_type_size(i->type2);
	unsigned to = 8 * ptx_type_size(i->type);
	bool from_signed = ptx_type_is_signed(i->type2);
	bool to_signed = ptx_type_is_signed(i->type);

	v = from_signed ? (uint64_t)sign_extend(v, from) : v & mask_of(from);
	if (i->sat) {
		int64_t least = to_signed ? sign_extend(1ull << (to - 1), to)
					  : 0;
		uint64_t most = to_signed ? mask_of(to - 1) : mask_of(to);

		if (from_signed && (int64_t)v < least)
			v = (uint64_t)least;
		else if ((!from_signed || (int64_t)v > 0) && v > most)
			v = most;
	}
	return to_register(i, v, i->type);
}

/* f16, bf16, f32, f64: the rest is packed only. */
static struct ptx_num
unpack_source(const struct ptx_insn *i, uint64_t v)
{
	unsigned from = 8 * ptx_type_size(i->type2);
	struct ptx_num n;

	if (!ptx_type_is_float(i->type2)) {
		bool is_signed = ptx_type_is_signed(i->type2);

		v = is_signed ? (uint64_t)sign_extend(v, from)
			      : v & mask_of(from);
		return ptx_num_of_int(v, is_signed);
	}
	n = ptx_num_unpack(v & mask_of(from), i->type2);
	if (i->ftz && n.was_subnormal && i->type2 == PTX_T_F32) {
		n.class = PTX_NUM_ZERO;
		n.mant = 0;
	}
	return n;
}

/* Round to an integral value of the same kind (cvt.rni.f32.f32). */
static struct ptx_num
integral(struct ptx_num n, int rnd)
{
	struct ptx_num mag = n, r;
	uint64_t v;

	if (n.class != PTX_NUM_FINITE || n.exp >= 0)
		return n;
	/* Magnitudes: directed modes swap for negative values. */
	mag.is_neg = false;
	if (n.is_neg && rnd == PTX_RMI)
		rnd = PTX_RPI;
	else if (n.is_neg && rnd == PTX_RPI)
		rnd = PTX_RMI;
	v = ptx_num_to_int(mag, 64, false, rnd);
	r = ptx_num_of_int(v, false);
	r.is_neg = n.is_neg;
	return r;
}

static uint64_t
clamp_unit(uint64_t v, int type)
{
	uint64_t one = ptx_num_pack(ptx_num_of_int(1, false), type, PTX_RN);
	struct ptx_num n = ptx_num_unpack(v, type);

	if (n.class == PTX_NUM_NAN || n.is_neg || n.class == PTX_NUM_ZERO)
		return 0;
	return v > one ? one : v;
}

static uint64_t
flush_f32(uint64_t v)
{
	return v & 0x7f800000 ? v : v & 0x80000000;
}

/* The double-precision unit's conversions carry NaNs over. */
static bool
keeps_payload(const struct ptx_insn *i)
{
	return (i->type == PTX_T_F64 || i->type2 == PTX_T_F64) && !i->sat;
}

static uint64_t
to_float(const struct ptx_insn *i, struct ptx_num n)
{
	int type = i->type;
	uint64_t v;

	if (i->rnd >= PTX_RNI && i->rnd <= PTX_RPI)
		n = integral(n, i->rnd);
	if (i->flags & CVT_RELU && n.is_neg && n.class != PTX_NUM_NAN) {
		n.class = PTX_NUM_ZERO;
		n.is_neg = false;
	}
	if (n.class == PTX_NUM_NAN && keeps_payload(i)) {
		/* .ftz makes an f32 canonical on its way in. */
		if (i->ftz && i->type2 == PTX_T_F32) {
			n.mant = 0x7fffffull << 41;
			n.is_neg = false;
		}
		return ptx_num_pack_nan(n, type);
	}
	v = i->flags & CVT_SATFINITE
	    ? ptx_num_pack_satfinite(n, type, i->rnd)
	    : ptx_num_pack(n, type, i->rnd);
	if (i->ftz && type == PTX_T_F32)
		v = flush_f32(v);
	if (i->sat)
		v = clamp_unit(v, type);
	return v;
}

static uint64_t
to_int(const struct ptx_insn *i, struct ptx_num n)
{
	unsigned bits = 8 * ptx_type_size(i->type);
	uint64_t v;

	if (n.class == PTX_NUM_NAN && i->type2 == PTX_T_F64)
		v = 1ull << (bits - 1);
	else
		v = ptx_num_to_int(n, bits, ptx_type_is_signed(i->type),
				   i->rnd);
	return to_register(i, v, i->type);
}

static void
exec_cvt_int(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = int_to_int(i, a[l]); );
}

static void
exec_cvt_to_float(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = to_float(i, unpack_source(i, a[l])); );
}

/* The upper 19 bits; ties away from zero, NaNs cut, or made canonical. */
static uint64_t
to_tf32(const struct ptx_insn *i, uint64_t v)
{
	struct ptx_num n = unpack_source(i, v);

	if (n.class != PTX_NUM_NAN)
		return to_float(i, n);
	return i->rnd == PTX_RNA ? v & 0xffffe000 : 0x7fffe000;
}

static void
exec_cvt_tf32(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = to_tf32(i, a[l]); );
}

static void
exec_cvt_to_int(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = to_int(i, unpack_source(i, a[l])); );
}

/* d = {a, b}: two values into one register, a in the upper part. */
static void
exec_cvt_pack(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	unsigned half = 4 * ptx_type_size(i->type);

	PTX_EACH(w, l,
		uint64_t hi = to_float(i, unpack_source(i, a[l]));
		uint64_t lo = to_float(i, unpack_source(i, b[l]));

		d[l] = hi << half | lo;
	);
}

/* One register of two values into one of two others. */
static void
exec_cvt_pair(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	unsigned to = 4 * ptx_type_size(i->type);
	unsigned from = 4 * ptx_type_size(i->type2);

	PTX_EACH(w, l,
		uint64_t lo = a[l] & mask_of(from);
		uint64_t hi = a[l] >> from & mask_of(from);

		lo = to_float(i, ptx_num_unpack(lo, i->type2));
		hi = to_float(i, ptx_num_unpack(hi, i->type2));
		d[l] = hi << to | lo;
	);
}

static inline uint64_t
f32_to_f64(uint64_t v)
{
	float f = ptx_f32(v);

	if (f != f)
		return ptx_num_pack_nan(ptx_num_unpack(v, PTX_T_F32),
					PTX_T_F64);
	return ptx_f64_bits(f);
}

static inline uint64_t
f64_to_f32(uint64_t v)
{
	double d = ptx_f64(v);

	if (d != d)
		return ptx_num_pack_nan(ptx_num_unpack(v, PTX_T_F64),
					PTX_T_F32);
	return ptx_f32_bits((float)d);
}

#define SHORT_CVT(name, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *a = ptx_in(w, i->src[0]); \
	uint64_t *d = ptx_out(w, i->dst[0]); \
	PTX_EACH(w, l, d[l] = (expr); ); \
}

SHORT_CVT(cvt_u64_u32, (uint32_t)a[l])
SHORT_CVT(cvt_s64_s32, (uint64_t)(int64_t)(int32_t)a[l])
SHORT_CVT(cvt_f32_s32, ptx_f32_bits((float)(int32_t)a[l]))
SHORT_CVT(cvt_f32_u32, ptx_f32_bits((float)(uint32_t)a[l]))
SHORT_CVT(cvt_f64_s32, ptx_f64_bits((double)(int32_t)a[l]))
SHORT_CVT(cvt_f64_u32, ptx_f64_bits((double)(uint32_t)a[l]))
SHORT_CVT(cvt_f64_s64, ptx_f64_bits((double)(int64_t)a[l]))
SHORT_CVT(cvt_f64_f32, f32_to_f64(a[l]))
SHORT_CVT(cvt_f32_f64, f64_to_f32(a[l]))
SHORT_CVT(cvt_f32_bf16, (a[l] & 0xffff) << 16)
SHORT_CVT(cvt_f32_f16, ptx_f32_result(ptx_half_to_float(a[l], PTX_T_F16)))

static const struct {
	int to, from, rnd;
	ptx_exec_fn *exec;
} shorts[] = {
	{ PTX_T_U64, PTX_T_U32, 0, cvt_u64_u32 },
	{ PTX_T_S64, PTX_T_U32, 0, cvt_u64_u32 },
	{ PTX_T_S64, PTX_T_S32, 0, cvt_s64_s32 },
	{ PTX_T_U64, PTX_T_S32, 0, cvt_s64_s32 },
	{ PTX_T_F32, PTX_T_S32, PTX_RN, cvt_f32_s32 },
	{ PTX_T_F32, PTX_T_U32, PTX_RN, cvt_f32_u32 },
	{ PTX_T_F64, PTX_T_S32, PTX_RN, cvt_f64_s32 },
	{ PTX_T_F64, PTX_T_U32, PTX_RN, cvt_f64_u32 },
	{ PTX_T_F64, PTX_T_S64, PTX_RN, cvt_f64_s64 },
	{ PTX_T_F64, PTX_T_F32, 0, cvt_f64_f32 },
	{ PTX_T_F32, PTX_T_F64, PTX_RN, cvt_f32_f64 },
	{ PTX_T_F32, PTX_T_F16, 0, cvt_f32_f16 },
	{ PTX_T_F32, PTX_T_BF16, 0, cvt_f32_bf16 },
};

static ptx_exec_fn *
short_way(const struct ptx_insn *i)
{
	if (i->ftz || i->sat || i->flags)
		return NULL;
	for (size_t k = 0; k < sizeof(shorts) / sizeof(*shorts); k++) {
		if (shorts[k].to == i->type && shorts[k].from == i->type2 &&
		    shorts[k].rnd == i->rnd)
			return shorts[k].exec;
	}
	return NULL;
}

static bool
is_pair_type(int t)
{
	return t == PTX_T_F16X2 || t == PTX_T_BF16X2 || t == PTX_T_E4M3X2 ||
	       t == PTX_T_E5M2X2;
}

static bool
is_int_type(int t)
{
	return t >= PTX_T_U8 && t <= PTX_T_S64;
}

static bool
is_plain_float(int t)
{
	return t == PTX_T_F16 || t == PTX_T_BF16 || t == PTX_T_F32 ||
	       t == PTX_T_F64;
}

static void
decode_pack(struct ptx_parser *p, struct ptx_insn *i)
{
	bool is_fp8 = i->type == PTX_T_E4M3X2 || i->type == PTX_T_E5M2X2;

	if (i->type2 != PTX_T_F32 || (i->rnd != PTX_RN && i->rnd != PTX_RZ) ||
	    i->sat || i->ftz)
		ptx_unsupported(p);
	if (is_fp8 && (i->rnd != PTX_RN || !(i->flags & CVT_SATFINITE)))
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 3);
	i->exec = exec_cvt_pack;
	i->src[0] = ptx_src(p, &p->opnds[1], PTX_T_F32);
	i->src[1] = ptx_src(p, &p->opnds[2], PTX_T_F32);
	i->dst[0] = ptx_dst(p, &p->opnds[0], i->type);
	ptx_emit(p, i);
}

static void
decode_pair(struct ptx_parser *p, struct ptx_insn *i)
{
	bool to_fp8 = i->type == PTX_T_E4M3X2 || i->type == PTX_T_E5M2X2;
	bool from_fp8 = i->type2 == PTX_T_E4M3X2 || i->type2 == PTX_T_E5M2X2;

	/* Only between f16x2 and the 8-bit pairs. */
	if (to_fp8 == from_fp8 || i->rnd != PTX_RN || i->sat || i->ftz ||
	    (to_fp8 ? i->type2 : i->type) != PTX_T_F16X2 ||
	    (to_fp8 && !(i->flags & CVT_SATFINITE)))
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 2);
	i->exec = exec_cvt_pair;
	i->src[0] = ptx_src(p, &p->opnds[1], i->type2);
	i->dst[0] = ptx_dst(p, &p->opnds[0], i->type);
	ptx_emit(p, i);
}

static bool
needs_float_rounding(int to, int from)
{
	if (!is_plain_float(from))
		return true;
	if (to == PTX_T_TF32)
		return true;
	return ptx_type_size(to) < ptx_type_size(from) ||
	       (ptx_type_size(to) == ptx_type_size(from) && to != from);
}

static void
check_rounding(struct ptx_parser *p, const struct ptx_insn *i)
{
	bool is_float_rnd = i->rnd >= PTX_RN && i->rnd <= PTX_RNA;
	bool is_int_rnd = i->rnd >= PTX_RNI && i->rnd <= PTX_RPI;

	if (is_int_type(i->type)) {
		if (is_int_type(i->type2) ? i->rnd != 0 : !is_int_rnd)
			ptx_unsupported(p);
		return;
	}
	if (needs_float_rounding(i->type, i->type2)) {
		if (!is_float_rnd)
			ptx_unsupported(p);
	} else if (i->rnd && !(is_int_rnd && i->type == i->type2)) {
		ptx_unsupported(p);
	}
	if (i->rnd == PTX_RNA && i->type != PTX_T_TF32)
		ptx_unsupported(p);
}

/* d = c:a:b with a and b clamped to bits; all of c that is left. */
static void
exec_cvt_pack_int(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	unsigned bits = i->bits;
	int64_t most = (int64_t)mask_of(i->flags ? bits - 1 : bits);
	int64_t least = i->flags ? -most - 1 : 0;

	PTX_EACH(w, l,
		int64_t x = (int32_t)a[l];
		int64_t y = (int32_t)b[l];

		x = x < least ? least : x > most ? most : x;
		y = y < least ? least : y > most ? most : y;
		d[l] = (uint32_t)((bits < 16 ? c[l] << 2 * bits : 0) |
				  ((uint64_t)x & mask_of(bits)) << bits |
				  ((uint64_t)y & mask_of(bits)));
	);
}

static void
decode_cvt_pack(struct ptx_parser *p)
{
	static const char *const words[] = {
		"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2",
	};
	struct ptx_insn i = ptx_insn_start(p, exec_cvt_pack_int);

	if (!ptx_mod(p, "sat"))
		ptx_unsupported(p);
	for (unsigned k = 0; k < 8 && !i.bits; k++) {
		if (ptx_mod(p, words[k])) {
			i.bits = (uint8_t)(16 >> k / 2);
			i.flags = k % 2;
		}
	}
	if (!i.bits || !ptx_mod(p, "s32") ||
	    (i.bits < 16 && !ptx_mod(p, "b32")))
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, i.bits < 16 ? 4 : 3);
	for (unsigned k = 0; k + 1 < p->nopnds; k++)
		i.src[k] = ptx_src(p, &p->opnds[k + 1], PTX_T_B32);
	i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_B32);
	ptx_emit(p, &i);
}

static void
decode_cvt(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, NULL);
	ptx_exec_fn *fast;

	if (ptx_mod(p, "pack")) {
		decode_cvt_pack(p);
		return;
	}
	i.rnd = (uint8_t)ptx_mod_rnd(p);
	i.ftz = ptx_mod(p, "ftz");
	if (ptx_mod(p, "satfinite"))
		i.flags |= CVT_SATFINITE;
	if (ptx_mod(p, "relu"))
		i.flags |= CVT_RELU;
	i.sat = ptx_mod(p, "sat");
	i.type = (uint8_t)ptx_mod_type(p);
	i.type2 = (uint8_t)ptx_mod_type(p);
	if (is_pair_type(i.type2)) {
		decode_pair(p, &i);
		return;
	}
	if (is_pair_type(i.type) && p->nopnds == 2) {
		decode_pair(p, &i);
		return;
	}
	if (is_pair_type(i.type)) {
		decode_pack(p, &i);
		return;
	}
	ptx_mods_done(p);
	if ((!is_int_type(i.type) && !is_plain_float(i.type) &&
	     i.type != PTX_T_TF32) ||
	    (!is_int_type(i.type2) && !is_plain_float(i.type2)))
		ptx_unsupported(p);
	if (i.type == PTX_T_TF32 && i.type2 != PTX_T_F32)
		ptx_unsupported(p);
	check_rounding(p, &i);
	if ((i.ftz && i.type != PTX_T_F32 && i.type2 != PTX_T_F32) ||
	    (i.flags && (is_int_type(i.type) || i.type == PTX_T_F64)))
		ptx_unsupported(p);
	ptx_want_opnds(p, 2);
	i.src[0] = ptx_src_wide(p, &p->opnds[1], i.type2);
	i.dst[0] = ptx_dst_wide(p, &p->opnds[0], i.type, &i.bits);
	fast = short_way(&i);
	i.exec = fast ? fast
	       : i.type == PTX_T_TF32 ? exec_cvt_tf32
	       : ptx_type_is_float(i.type) ? exec_cvt_to_float
	       : ptx_type_is_float(i.type2) ? exec_cvt_to_int : exec_cvt_int;
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_cvt[] = {
	{ "cvt", decode_cvt },
	{ NULL, NULL },
};
