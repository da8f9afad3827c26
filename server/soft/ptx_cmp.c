/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons and selections. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_num.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

/* What a comparison says of an ordered pair, or of one with a NaN. */
enum { IS_LESS = 1, IS_EQUAL = 2, IS_GREATER = 4, IS_UNORDERED = 8 };

static const uint8_t accepts[] = {
	[PTX_EQ] = IS_EQUAL,
	[PTX_NE] = IS_LESS | IS_GREATER,
	[PTX_LT] = IS_LESS,
	[PTX_LE] = IS_LESS | IS_EQUAL,
	[PTX_GT] = IS_GREATER,
	[PTX_GE] = IS_GREATER | IS_EQUAL,
	[PTX_LO] = IS_LESS,
	[PTX_LS] = IS_LESS | IS_EQUAL,
	[PTX_HI] = IS_GREATER,
	[PTX_HS] = IS_GREATER | IS_EQUAL,
	[PTX_EQU] = IS_EQUAL | IS_UNORDERED,
	[PTX_NEU] = IS_LESS | IS_GREATER | IS_UNORDERED,
	[PTX_LTU] = IS_LESS | IS_UNORDERED,
	[PTX_LEU] = IS_LESS | IS_EQUAL | IS_UNORDERED,
	[PTX_GTU] = IS_GREATER | IS_UNORDERED,
	[PTX_GEU] = IS_GREATER | IS_EQUAL | IS_UNORDERED,
	[PTX_NUM] = IS_LESS | IS_EQUAL | IS_GREATER,
	[PTX_NAN] = IS_UNORDERED,
};

#define RELATION(a, b) ((a) < (b) ? IS_LESS : (a) == (b) ? IS_EQUAL \
			: (a) > (b) ? IS_GREATER : IS_UNORDERED)

#define COMPARE(T) PTX_EACH(w, l, \
	T x = (T)a[l], y = (T)b[l]; \
	r |= (uint32_t)((RELATION(x, y) & yes) != 0) << l; )

#define COMPARE_FLOAT(T, conv, shift) PTX_EACH(w, l, \
	T x = conv(a[l] >> shift), y = conv(b[l] >> shift); \
	r |= (uint32_t)((RELATION(x, y) & yes) != 0) << l; )

#define F32_FTZ(v) ptx_ftz(ptx_f32(v))
#define F16(v) ptx_half_to_float(v, PTX_T_F16)
#define BF16(v) ptx_half_to_float(v, PTX_T_BF16)
#define F16_FTZ(v) F16(((v) & 0x7c00) ? (v) : (v) & 0x8000)

/* One bit a lane: the comparison of the shift-th half, or of the whole. */
static uint32_t
compare(const struct ptx_warp *w, const struct ptx_insn *i, unsigned shift)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	uint32_t r = 0;
	unsigned yes = accepts[i->op];

	switch (i->type) {
	case PTX_T_B16:
	case PTX_T_U16:
		COMPARE(uint16_t);
		break;
	case PTX_T_S16:
		COMPARE(int16_t);
		break;
	case PTX_T_B32:
	case PTX_T_U32:
		COMPARE(uint32_t);
		break;
	case PTX_T_S32:
		COMPARE(int32_t);
		break;
	case PTX_T_B64:
	case PTX_T_U64:
		COMPARE(uint64_t);
		break;
	case PTX_T_S64:
		COMPARE(int64_t);
		break;
	case PTX_T_F32:
		if (i->ftz)
			COMPARE_FLOAT(float, F32_FTZ, 0);
		else
			COMPARE_FLOAT(float, ptx_f32, 0);
		break;
	case PTX_T_F64:
		COMPARE_FLOAT(double, ptx_f64, 0);
		break;
	case PTX_T_F16:
	case PTX_T_F16X2:
		if (i->ftz)
			COMPARE_FLOAT(float, F16_FTZ, shift);
		else
			COMPARE_FLOAT(float, F16, shift);
		break;
	default:
		COMPARE_FLOAT(float, BF16, shift);
	}
	return r;
}

static void
put_pred(struct ptx_warp *w, int32_t slot, uint32_t bits)
{
	uint32_t *d = &w->preds[slot];

	*d = (*d & ~w->mask) | (bits & w->mask);
}

static uint32_t
combine(const struct ptx_insn *i, uint32_t bits, uint32_t c)
{
	switch (i->op2) {
	case 'a':
		return bits & c;
	case 'o':
		return bits | c;
	case 'x':
		return bits ^ c;
	default:
		return bits;
	}
}

static void
exec_setp(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint32_t bits = compare(w, i, 0), c = w->preds[i->src[2]];

	put_pred(w, i->dst[0], combine(i, bits, c));
	put_pred(w, i->dst[1], combine(i, ~bits, c));
}

/* p and q are the two halves' results. */
static void
exec_setp_pair(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint32_t lo = compare(w, i, 0), hi = compare(w, i, 16);
	uint32_t c = w->preds[i->src[2]];

	put_pred(w, i->dst[0], combine(i, lo, c));
	put_pred(w, i->dst[1], combine(i, hi, c));
}

static void
exec_set(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint32_t bits = combine(i, compare(w, i, 0), w->preds[i->src[2]]);
	uint64_t *d = ptx_out(w, i->dst[0]), yes = (uint64_t)i->imm;

	PTX_EACH(w, l, d[l] = bits >> l & 1 ? yes : 0; );
}

static void
exec_set_pair(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint32_t c = w->preds[i->src[2]];
	uint32_t lo = combine(i, compare(w, i, 0), c);
	uint32_t hi = combine(i, compare(w, i, 16), c);
	uint64_t *d = ptx_out(w, i->dst[0]), yes = (uint64_t)i->imm;

	PTX_EACH(w, l,
		d[l] = (lo >> l & 1 ? yes : 0) |
		       (hi >> l & 1 ? yes : 0) << 16;
	);
}

static void
exec_selp(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	uint32_t c = w->preds[i->src[2]];

	PTX_EACH(w, l, d[l] = c >> l & 1 ? a[l] : b[l]; );
}

static void
exec_slct_s32(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = (int32_t)c[l] >= 0 ? a[l] : b[l]; );
}

static void
exec_slct_f32(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		float f = i->ftz ? ptx_ftz(ptx_f32(c[l])) : ptx_f32(c[l]);

		d[l] = f >= 0 ? a[l] : b[l];
	);
}

static void
check_comparison(struct ptx_parser *p, int cmp, int type)
{
	bool is_float = ptx_type_is_float(type);
	bool is_bits = type >= PTX_T_B8 && type <= PTX_T_B128;

	if (!cmp || ptx_type_size(type) < 2 || type > PTX_T_F64 ||
	    type == PTX_T_B128)
		ptx_unsupported(p);
	if (!is_float && cmp >= PTX_EQU)
		ptx_unsupported(p);
	if (is_bits && cmp > PTX_NE)
		ptx_unsupported(p);
	if ((is_float || ptx_type_is_signed(type)) && cmp >= PTX_LO &&
	    cmp <= PTX_HS)
		ptx_unsupported(p);
}

static void
take_comparison(struct ptx_parser *p, struct ptx_insn *i)
{
	i->op = (uint8_t)ptx_mod_cmp(p);
	if (ptx_mod(p, "and"))
		i->op2 = 'a';
	else if (ptx_mod(p, "or"))
		i->op2 = 'o';
	else if (ptx_mod(p, "xor"))
		i->op2 = 'x';
	i->ftz = ptx_mod(p, "ftz");
}

static void
check_ftz(struct ptx_parser *p, const struct ptx_insn *i)
{
	if (i->ftz && i->type != PTX_T_F32 && i->type != PTX_T_F16 &&
	    i->type != PTX_T_F16X2)
		ptx_unsupported(p);
}

static void
decode_setp(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_setp);
	const struct ptx_opnd *d = &p->opnds[0], *q = NULL;
	bool is_pair;

	take_comparison(p, &i);
	i.type = (uint8_t)ptx_mod_type(p);
	ptx_mods_done(p);
	check_comparison(p, i.op, i.type);
	check_ftz(p, &i);
	ptx_want_opnds(p, 3 + (i.op2 != 0));
	i.src[0] = ptx_src(p, &p->opnds[1], i.type);
	i.src[1] = ptx_src(p, &p->opnds[2], i.type);
	if (i.op2)
		i.src[2] = ptx_src_pred(p, &p->opnds[3]);
	if (d->kind == PTX_O_PAIR) {
		q = &p->elems[d->first + 1];
		d = &p->elems[d->first];
	}
	is_pair = i.type == PTX_T_F16X2 || i.type == PTX_T_BF16X2;
	if (is_pair) {
		if (!q)
			ptx_unsupported(p);
		i.exec = exec_setp_pair;
	}
	i.dst[0] = ptx_dst_pred(p, d);
	i.dst[1] = q ? ptx_dst_pred(p, q) : PTX_PRED_SINK;
	ptx_emit(p, &i);
}

/* What true is in a destination of this type. */
static int64_t
true_of(struct ptx_parser *p, int dtype, int stype)
{
	bool is_pair = stype == PTX_T_F16X2 || stype == PTX_T_BF16X2;

	switch (dtype) {
	case PTX_T_F32:
		return 0x3f800000;
	case PTX_T_F16:
	case PTX_T_F16X2:
		return 0x3c00;
	case PTX_T_BF16:
	case PTX_T_BF16X2:
		return 0x3f80;
	case PTX_T_U16:
	case PTX_T_S16:
		return 0xffff;
	case PTX_T_U32:
	case PTX_T_S32:
		return is_pair ? 0xffff : 0xffffffff;
	default:
		ptx_unsupported(p);
	}
}

static void
decode_set(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_set);
	int dtype;

	take_comparison(p, &i);
	dtype = ptx_mod_type(p);
	i.type = (uint8_t)ptx_mod_type(p);
	ptx_mods_done(p);
	check_comparison(p, i.op, i.type);
	check_ftz(p, &i);
	i.imm = true_of(p, dtype, i.type);
	if (i.type == PTX_T_F16X2 || i.type == PTX_T_BF16X2)
		i.exec = exec_set_pair;
	else if (dtype == PTX_T_F16X2 || dtype == PTX_T_BF16X2)
		ptx_unsupported(p);
	ptx_want_opnds(p, 3 + (i.op2 != 0));
	i.src[0] = ptx_src(p, &p->opnds[1], i.type);
	i.src[1] = ptx_src(p, &p->opnds[2], i.type);
	if (i.op2)
		i.src[2] = ptx_src_pred(p, &p->opnds[3]);
	i.dst[0] = ptx_dst(p, &p->opnds[0], dtype);
	ptx_emit(p, &i);
}

static void
decode_selp(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_selp);
	int type = ptx_mod_type(p);

	ptx_mods_done(p);
	if (ptx_type_size(type) < 2 || ptx_type_size(type) > 8 ||
	    type > PTX_T_F64)
		ptx_unsupported(p);
	ptx_want_opnds(p, 4);
	i.src[0] = ptx_src(p, &p->opnds[1], type);
	i.src[1] = ptx_src(p, &p->opnds[2], type);
	i.src[2] = ptx_src_pred(p, &p->opnds[3]);
	i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	ptx_emit(p, &i);
}

static void
decode_slct(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_slct_s32);
	int type, ctype;

	i.ftz = ptx_mod(p, "ftz");
	type = ptx_mod_type(p);
	ctype = ptx_mod_type(p);
	ptx_mods_done(p);
	if ((ctype != PTX_T_S32 && ctype != PTX_T_F32) ||
	    (i.ftz && ctype != PTX_T_F32) || ptx_type_size(type) < 2 ||
	    ptx_type_size(type) > 8 || type > PTX_T_F64)
		ptx_unsupported(p);
	if (ctype == PTX_T_F32)
		i.exec = exec_slct_f32;
	ptx_want_opnds(p, 4);
	i.src[0] = ptx_src(p, &p->opnds[1], type);
	i.src[1] = ptx_src(p, &p->opnds[2], type);
	i.src[2] = ptx_src(p, &p->opnds[3], ctype);
	i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_cmp[] = {
	{ "setp", decode_setp },
	{ "set", decode_set },
	{ "selp", decode_selp },
	{ "slct", decode_slct },
	{ NULL, NULL },
};
