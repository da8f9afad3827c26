/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f16, bf16 and their pairs.
 *
 * Sums, products and quotients of halves rounded to f32 and then to the
 * half are rounded once in effect (24 >= 2 * 11 + 2 bits), so f32 does
 * them; fused operations take the exact way of ptx_half_fma().
 */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_num.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <math.h>
#include <string.h>

enum half_op {
	H_ADD, H_SUB, H_MUL, H_FMA, H_MIN, H_MAX, H_ABS, H_NEG, H_EX2,
	H_TANH,
};

enum { H_RELU = 1, H_NAN = 2, H_XORSIGN = 4 };

static uint64_t
flush(uint64_t v, int type)
{
	bool is_bf = type == PTX_T_BF16 || type == PTX_T_BF16X2;

	return v & (is_bf ? 0x7f80 : 0x7c00) ? v : v & 0x8000;
}

static bool
is_nan(uint64_t v, int type)
{
	bool is_bf = type == PTX_T_BF16 || type == PTX_T_BF16X2;

	return (v & 0x7fff) > (is_bf ? 0x7f80u : 0x7c00u);
}

static uint64_t
round_half(float f, int type)
{
	return ptx_num_pack(ptx_num_unpack(ptx_f32_bits(f), PTX_T_F32), type,
			    PTX_RN);
}

/* -0 < +0; a NaN loses against a number unless .NaN. */
static uint64_t
pick(uint64_t a, uint64_t b, int type, bool is_max, unsigned flags)
{
	uint64_t sign = (a ^ b) & 0x8000, r;
	float x, y;

	if (is_nan(a, type) || is_nan(b, type)) {
		bool both = is_nan(a, type) && is_nan(b, type);

		if (both || flags & H_NAN)
			return 0x7fff;
		r = is_nan(a, type) ? b : a;
		return flags & H_XORSIGN ? (r & 0x7fff) | sign : r;
	}
	if (flags & H_XORSIGN) {
		a &= 0x7fff;
		b &= 0x7fff;
	}
	x = ptx_half_to_float(a, type);
	y = ptx_half_to_float(b, type);
	if (x == y)
		r = ((a & 0x8000) != 0) == is_max ? b : a;
	else
		r = (x < y) != is_max ? a : b;
	return flags & H_XORSIGN ? r | sign : r;
}

static uint64_t
half_one(const struct ptx_insn *i, uint64_t a, uint64_t b, uint64_t c)
{
	int type = i->type;
	float x, y;
	uint64_t r;

	if (i->ftz) {
		a = flush(a, type);
		b = flush(b, type);
		c = flush(c, type);
	}
	x = ptx_half_to_float(a, type);
	y = ptx_half_to_float(b, type);
	switch ((enum half_op)i->op) {
	case H_ADD:
		r = round_half(x + y, type);
		break;
	case H_SUB:
		r = round_half(x - y, type);
		break;
	case H_MUL:
		r = round_half(x * y, type);
		break;
	case H_FMA:
		r = ptx_half_fma(a, b, c, type);
		break;
	case H_MIN:
	case H_MAX:
		r = pick(a, b, type, i->op == H_MAX, i->flags);
		break;
	case H_ABS:
		return is_nan(a, type) ? 0x7fff : a & 0x7fff;
	case H_NEG:
		return is_nan(a, type) ? 0x7fff : a ^ 0x8000;
	case H_EX2:
		r = round_half(exp2f(x), type);
		break;
	default:
		r = round_half(tanhf(x), type);
	}
	if (i->ftz)
		r = flush(r, type);
	if (i->flags & H_RELU && r & 0x8000 && !is_nan(r, type))
		r = 0;
	if (i->sat) {
		uint64_t one = type == PTX_T_BF16 || type == PTX_T_BF16X2
			       ? 0x3f80 : 0x3c00;

		if (is_nan(r, type) || r & 0x8000)
			r = 0;
		else if (r > one)
			r = one;
	}
	return r;
}

static void
exec_half(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		d[l] = half_one(i, a[l] & 0xffff, b[l] & 0xffff,
				c[l] & 0xffff);
	);
}

static void
exec_half2(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		uint64_t lo = half_one(i, a[l] & 0xffff, b[l] & 0xffff,
				       c[l] & 0xffff);
		uint64_t hi = half_one(i, a[l] >> 16 & 0xffff,
				       b[l] >> 16 & 0xffff,
				       c[l] >> 16 & 0xffff);

		d[l] = lo | hi << 16;
	);
}

static const struct {
	const char *name;
	enum half_op op;
	unsigned nsrc;
} ops[] = {
	{ "add", H_ADD, 2 }, { "sub", H_SUB, 2 }, { "mul", H_MUL, 2 },
	{ "fma", H_FMA, 3 }, { "min", H_MIN, 2 }, { "max", H_MAX, 2 },
	{ "abs", H_ABS, 1 }, { "neg", H_NEG, 1 }, { "ex2", H_EX2, 1 },
	{ "tanh", H_TANH, 1 },
};

static void
take_half_mods(struct ptx_parser *p, struct ptx_insn *i, bool is_bf)
{
	int rnd = ptx_mod_rnd(p);
	bool is_approx = i->op == H_EX2 || i->op == H_TANH;
	bool is_pick = i->op == H_MIN || i->op == H_MAX;

	if (rnd != (is_approx ? PTX_APPROX : PTX_RND_NONE) &&
	    (rnd != PTX_RN || is_pick || is_approx))
		ptx_unsupported(p);
	i->ftz = ptx_mod(p, "ftz");
	/* ex2.bf16 exists with .ftz only, the rest of bf16 without. */
	if (i->ftz && is_bf && i->op != H_EX2)
		ptx_unsupported(p);
	if (i->op == H_FMA && ptx_mod(p, "relu"))
		i->flags |= H_RELU;
	if (!is_bf && i->op <= H_FMA)
		i->sat = ptx_mod(p, "sat");
	if (!is_pick)
		return;
	if (ptx_mod(p, "NaN"))
		i->flags |= H_NAN;
	if (ptx_mod(p, "xorsign")) {
		if (!ptx_mod(p, "abs"))
			ptx_unsupported(p);
		i->flags |= H_XORSIGN;
	}
}

void
ptx_decode_half_op(struct ptx_parser *p, int type)
{
	bool is_pair = type == PTX_T_F16X2 || type == PTX_T_BF16X2;
	bool is_bf = type == PTX_T_BF16 || type == PTX_T_BF16X2;
	struct ptx_insn i = ptx_insn_start(p, is_pair ? exec_half2
						      : exec_half);
	unsigned at = 0, n = sizeof(ops) / sizeof(*ops);

	if (!is_pair && type != PTX_T_F16 && type != PTX_T_BF16)
		ptx_unsupported(p);
	while (at < n && strcmp(ops[at].name, p->op))
		at++;
	if (at == n)
		ptx_unsupported(p);
	i.op = (uint8_t)ops[at].op;
	i.type = (uint8_t)type;
	take_half_mods(p, &i, is_bf);
	ptx_mods_done(p);
	ptx_want_opnds(p, ops[at].nsrc + 1);
	for (unsigned k = 0; k < ops[at].nsrc; k++)
		i.src[k] = ptx_src(p, &p->opnds[k + 1], type);
	i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_half[] = { { NULL, NULL } };
