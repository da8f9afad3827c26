/* SPDX-License-Identifier: Apache-2.0 */
/* Video instructions: parts of registers, saturation, accumulation. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

enum video_op {
	V_ADD, V_SUB, V_ABSDIFF, V_MIN, V_MAX, V_AVRG, V_SHL, V_SHR, V_MAD,
	V_SET,
};

enum { THEN_NOTHING, THEN_ADD, THEN_MIN, THEN_MAX };

static const struct {
	const char *name;
	enum video_op op;
} names[] = {
	{ "vadd", V_ADD }, { "vsub", V_SUB }, { "vabsdiff", V_ABSDIFF },
	{ "vmin", V_MIN }, { "vmax", V_MAX }, { "vavrg", V_AVRG },
	{ "vshl", V_SHL }, { "vshr", V_SHR }, { "vmad", V_MAD },
	{ "vset", V_SET },
};

/* sel: 0 the whole, 1 to 4 a byte, 5 and 6 a half. */
static int64_t
part(uint64_t v, unsigned sel, bool is_signed)
{
	unsigned bits = !sel ? 32 : sel < 5 ? 8 : 16;
	unsigned at = !sel ? 0 : sel < 5 ? 8 * (sel - 1) : 16 * (sel - 5);

	v = v >> at << (64 - bits);
	return is_signed ? (int64_t)v >> (64 - bits)
			 : (int64_t)(v >> (64 - bits));
}

static bool
compares(unsigned cmp, int64_t a, int64_t b)
{
	switch (cmp) {
	case PTX_EQ:
		return a == b;
	case PTX_NE:
		return a != b;
	case PTX_LT:
		return a < b;
	case PTX_LE:
		return a <= b;
	case PTX_GT:
		return a > b;
	default:
		return a >= b;
	}
}

static int64_t
combine(const struct ptx_insn *i, int64_t a, int64_t b)
{
	int64_t sum = a + b;

	switch ((enum video_op)i->op) {
	case V_ADD:
		return sum;
	case V_SUB:
		return a - b;
	case V_ABSDIFF:
		return a > b ? a - b : b - a;
	case V_MIN:
		return a < b ? a : b;
	case V_MAX:
		return a > b ? a : b;
	case V_AVRG:
		return (sum + (sum >= 0)) >> 1;
	case V_SET:
		return compares(i->vec, a, b);
	case V_SHL:
	case V_SHR:
		b = (uint32_t)b;
		b = i->rnd ? b & 31 : b > 32 ? 32 : b;
		return i->op == V_SHL ? (int64_t)((uint64_t)a << b) : a >> b;
	case V_MAD:
		break;
	}
	return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t
clamp(int64_t v, unsigned bits, bool is_signed)
{
	int64_t most = (int64_t)((1ull << (is_signed ? bits - 1 : bits)) - 1);
	int64_t least = is_signed ? -most - 1 : 0;

	return v < least ? least : v > most ? most : v;
}

static uint32_t
then(unsigned what, int64_t v, uint64_t c, bool is_signed)
{
	int64_t x = is_signed ? (int32_t)v : (int64_t)(uint32_t)v;
	int64_t y = is_signed ? (int32_t)c : (int64_t)(uint32_t)c;

	switch (what) {
	case THEN_ADD:
		return (uint32_t)(x + y);
	case THEN_MIN:
		return (uint32_t)(x < y ? x : y);
	case THEN_MAX:
		return (uint32_t)(x > y ? x : y);
	default:
		return (uint32_t)v;
	}
}

/* type of the result, type2 of a, bits of b; target packs the selectors. */
static void
exec_video(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	bool is_signed = ptx_type_is_signed(i->type);
	bool sa = ptx_type_is_signed(i->type2);
	bool sb = ptx_type_is_signed(i->bits);

	PTX_EACH(w, l,
		int64_t x = part(a[l], i->target & 15, sa);
		int64_t y = part(b[l], i->target >> 4 & 15, sb);
		int64_t v = combine(i, x, y);

		if (i->op == V_MAD)
			v = (v + (sa || sb ? (int64_t)(int32_t)c[l]
					   : (int64_t)(uint32_t)c[l])) >>
			    i->imm;
		if (i->sat)
			v = clamp(v, 32, is_signed);
		d[l] = then(i->op2, v, c[l], is_signed);
	);
}

/* imm: bits of an element. */
static void
exec_video_simd(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	unsigned bits = (unsigned)i->imm, first = bits == 8 ? 1 : 5;
	bool is_signed = ptx_type_is_signed(i->type);
	bool sa = ptx_type_is_signed(i->type2);
	bool sb = ptx_type_is_signed(i->bits);

	PTX_EACH(w, l,
		uint32_t all = 0;
		uint32_t sum = (uint32_t)c[l];

		for (unsigned k = 0; k < 32 / bits; k++) {
			int64_t v = combine(i, part(a[l], first + k, sa),
					    part(b[l], first + k, sb));

			if (i->sat)
				v = clamp(v, bits, is_signed);
			sum += (uint32_t)v;
			all |= ((uint32_t)v & ((1u << bits) - 1)) << bits * k;
		}
		d[l] = i->op2 == THEN_ADD ? sum : all;
	);
}

static void
take_video_mods(struct ptx_parser *p, struct ptx_insn *i)
{
	i->sat = ptx_mod(p, "sat");
	if (i->op == V_SET) {
		i->vec = (uint8_t)ptx_mod_cmp(p);
		if (i->vec < PTX_EQ || i->vec > PTX_GE)
			ptx_unsupported(p);
		i->type = PTX_T_U32;
	} else {
		i->type = (uint8_t)ptx_mod_type(p);
	}
	i->type2 = (uint8_t)ptx_mod_type(p);
	i->bits = (uint8_t)ptx_mod_type(p);
	if (i->op == V_SHL || i->op == V_SHR) {
		i->rnd = ptx_mod(p, "wrap");
		if (!i->rnd && !ptx_mod(p, "clamp"))
			ptx_unsupported(p);
	}
	if (i->op == V_MAD)
		i->imm = ptx_mod(p, "shr7") ? 7 : ptx_mod(p, "shr15") ? 15
								      : 0;
	i->op2 = ptx_mod(p, "add") ? THEN_ADD : ptx_mod(p, "min") ? THEN_MIN
		 : ptx_mod(p, "max") ? THEN_MAX : THEN_NOTHING;
	for (unsigned k = 0; k < 3; k++) {
		unsigned t = k == 0 ? i->type : k == 1 ? i->type2 : i->bits;

		if (t != PTX_T_U32 && t != PTX_T_S32)
			ptx_unsupported(p);
	}
}

static void
decode_video(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, NULL);
	size_t n = strlen(p->op), at = 0;
	char last = p->op[n - 1];
	bool is_simd = last == '2' || last == '4', has_c;

	for (at = 0; at < sizeof(names) / sizeof(*names); at++) {
		if (strlen(names[at].name) == n - is_simd &&
		    !strncmp(names[at].name, p->op, n - is_simd))
			break;
	}
	if (at == sizeof(names) / sizeof(*names))
		ptx_unsupported(p);
	i.op = (uint8_t)names[at].op;
	if ((i.op == V_AVRG) != (i.op == V_AVRG && is_simd))
		ptx_unsupported(p);
	if (is_simd && (i.op == V_SHL || i.op == V_SHR || i.op == V_MAD))
		ptx_unsupported(p);
	take_video_mods(p, &i);
	ptx_mods_done(p);
	if (is_simd && i.op2 > THEN_ADD)
		ptx_unsupported(p);
	i.exec = is_simd ? exec_video_simd : exec_video;
	if (is_simd)
		i.imm = last == '2' ? 16 : 8;
	has_c = is_simd || i.op2 || i.op == V_MAD;
	ptx_want_opnds(p, 3 + has_c);
	for (unsigned k = 0; k < 2u + has_c; k++) {
		struct ptx_opnd *o = &p->opnds[1 + k];

		if (k < 2 && !is_simd) {
			i.target |= (uint32_t)o->sel << 4 * k;
			o->sel = 0;
		}
		i.src[k] = ptx_src(p, o, PTX_T_B32);
	}
	i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_B32);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_video[] = {
	{ "vadd", decode_video },
	{ "vsub", decode_video },
	{ "vabsdiff", decode_video },
	{ "vmin", decode_video },
	{ "vmax", decode_video },
	{ "vshl", decode_video },
	{ "vshr", decode_video },
	{ "vmad", decode_video },
	{ "vset", decode_video },
	{ "vadd2", decode_video },
	{ "vsub2", decode_video },
	{ "vavrg2", decode_video },
	{ "vabsdiff2", decode_video },
	{ "vmin2", decode_video },
	{ "vmax2", decode_video },
	{ "vset2", decode_video },
	{ "vadd4", decode_video },
	{ "vsub4", decode_video },
	{ "vavrg4", decode_video },
	{ "vabsdiff4", decode_video },
	{ "vmin4", decode_video },
	{ "vmax4", decode_video },
	{ "vset4", decode_video },
	{ NULL, NULL },
};
