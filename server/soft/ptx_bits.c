/* SPDX-License-Identifier: Apache-2.0 */
/* Logic, shifts and bit fields. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

#define BITS2(name, U, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *pa = ptx_in(w, i->src[0]); \
	const uint64_t *pb = ptx_in(w, i->src[1]); \
	uint64_t *pd = ptx_out(w, i->dst[0]); \
	PTX_EACH(w, l, \
		uint64_t a = pa[l], b = pb[l]; \
		pd[l] = (U)(expr); \
	); \
}

#define BITS1(name, U, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *pa = ptx_in(w, i->src[0]); \
	uint64_t *pd = ptx_out(w, i->dst[0]); \
	PTX_EACH(w, l, \
		U a = (U)pa[l]; \
		pd[l] = (U)(expr); \
	); \
}

#define BITS3(name, expr) \
static void \
name(struct ptx_warp *w, const struct ptx_insn *i) \
{ \
	const uint64_t *pa = ptx_in(w, i->src[0]); \
	const uint64_t *pb = ptx_in(w, i->src[1]); \
	const uint64_t *pc = ptx_in(w, i->src[2]); \
	uint64_t *pd = ptx_out(w, i->dst[0]); \
	PTX_EACH(w, l, \
		uint64_t a = pa[l], b = pb[l], c = pc[l]; \
		pd[l] = (expr); \
	); \
}

/* Held zero-extended, so the width matters only where ones come in. */
BITS2(exec_and, uint64_t, a & b)
BITS2(exec_or, uint64_t, a | b)
BITS2(exec_xor, uint64_t, a ^ b)
BITS1(exec_not16, uint16_t, ~a)
BITS1(exec_not32, uint32_t, ~a)
BITS1(exec_not64, uint64_t, ~a)
BITS1(exec_cnot16, uint16_t, !a)
BITS1(exec_cnot32, uint32_t, !a)
BITS1(exec_cnot64, uint64_t, !a)

/* Shift counts are 32 bits and clamped to the width. */
#define SHL(n) ((uint32_t)b >= (n) ? 0 : a << (uint32_t)b)
#define SHR(n, T) ((uint32_t)b >= (n) ? 0 : (T)a >> (uint32_t)b)
#define SAR(n, T) ((T)a >> ((uint32_t)b >= (n) ? (n) - 1 : (uint32_t)b))
BITS2(exec_shl16, uint16_t, SHL(16))
BITS2(exec_shl32, uint32_t, SHL(32))
BITS2(exec_shl64, uint64_t, SHL(64))
BITS2(exec_shr16, uint16_t, SHR(16, uint16_t))
BITS2(exec_shr32, uint32_t, SHR(32, uint32_t))
BITS2(exec_shr64, uint64_t, SHR(64, uint64_t))
BITS2(exec_sar16, uint16_t, SAR(16, int16_t))
BITS2(exec_sar32, uint32_t, SAR(32, int32_t))
BITS2(exec_sar64, uint64_t, SAR(64, int64_t))

/* Funnel shifts: b:a by c, clamped to 32 or modulo 32. */
static inline uint32_t
funnel(uint64_t a, uint64_t b, uint64_t c, bool is_left, bool is_wrap)
{
	uint64_t both = (b & 0xffffffff) << 32 | (a & 0xffffffff);
	uint32_t n = (uint32_t)c;

	n = is_wrap ? n & 31 : n > 32 ? 32 : n;
	if (is_left)
		return (uint32_t)(both << n >> 32);
	return (uint32_t)(both >> n);
}

BITS3(exec_shf_l_clamp, funnel(a, b, c, true, false))
BITS3(exec_shf_l_wrap, funnel(a, b, c, true, true))
BITS3(exec_shf_r_clamp, funnel(a, b, c, false, false))
BITS3(exec_shf_r_wrap, funnel(a, b, c, false, true))

static inline uint32_t
clz32(uint32_t a)
{
	return a ? (uint32_t)__builtin_clz(a) : 32;
}

static inline uint64_t
clz64(uint64_t a)
{
	return a ? (uint64_t)__builtin_clzll(a) : 64;
}

BITS1(exec_clz32, uint32_t, clz32(a))
BITS1(exec_clz64, uint64_t, clz64(a))
BITS1(exec_popc32, uint32_t, (uint32_t)__builtin_popcount(a))
BITS1(exec_popc64, uint64_t, (uint64_t)__builtin_popcountll(a))

static inline uint64_t
reverse(uint64_t v, unsigned bits)
{
	uint64_t r = 0;

	for (unsigned k = 0; k < bits; k++)
		r |= (v >> k & 1) << (bits - 1 - k);
	return r;
}

BITS1(exec_brev32, uint32_t, reverse(a, 32))
BITS1(exec_brev64, uint64_t, reverse(a, 64))

/* Highest bit that is not the sign; -1 when there is none. */
static inline uint32_t
find_bit(uint64_t a, unsigned bits, bool is_signed, bool is_shift)
{
	uint32_t at;

	if (is_signed && a >> (bits - 1) & 1)
		a = ~a;
	if (bits == 32)
		a &= 0xffffffff;
	if (!a)
		return ~0u;
	at = 63 - (uint32_t)__builtin_clzll(a);
	return is_shift ? bits - 1 - at : at;
}

static void
exec_bfind(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	bool is_signed = ptx_type_is_signed(i->type);

	PTX_EACH(w, l, d[l] = find_bit(a[l], i->bits, is_signed, i->flags); );
}

/* Position of the imm-th set bit from a base. */
static uint32_t
find_nth(uint32_t mask, uint32_t base, int32_t offset)
{
	if (offset == 0)
		return mask >> (base & 31) & 1 ? base & 31 : ~0u;
	if (offset > 0) {
		for (uint32_t k = base; k < 32; k++) {
			if (mask >> k & 1 && --offset == 0)
				return k;
		}
	} else {
		for (int32_t k = (int32_t)base; k >= 0; k--) {
			if (k < 32 && mask >> k & 1 && ++offset == 0)
				return (uint32_t)k;
		}
	}
	return ~0u;
}

static void
exec_fns(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		d[l] = find_nth((uint32_t)a[l], (uint32_t)b[l],
				(int32_t)c[l]);
	);
}

static uint64_t
extract(uint64_t a, uint32_t pos, uint32_t len, unsigned bits, bool is_signed)
{
	unsigned last, have;
	uint64_t r, sign = 0;

	/* The 64-bit form looks at all of its counts' bits, unlike the other. */
	if (bits == 32) {
		pos &= 0xff;
		len &= 0xff;
	}
	if (!len)
		return 0;
	if (len > 256)
		len = 256;
	last = pos < bits && pos + len < bits ? pos + len - 1 : bits - 1;
	if (is_signed)
		sign = a >> last & 1;
	r = pos < 64 ? a >> pos : 0;
	if (pos >= bits)
		r = 0;
	/* Bits beyond the field or the word are copies of the sign. */
	have = pos >= bits ? 0 : bits - pos < len ? bits - pos : len;

	if (have < 64) {
		r &= (1ull << have) - 1;
		if (sign)
			r |= ~0ull << have;
	}
	return bits == 32 ? (uint32_t)r : r;
}

static void
exec_bfe(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	bool is_signed = ptx_type_is_signed(i->type);

	PTX_EACH(w, l,
		d[l] = extract(a[l], (uint32_t)b[l], (uint32_t)c[l], i->bits,
			       is_signed);
	);
}

static uint64_t
insert(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, unsigned bits)
{
	uint64_t mask;

	if (bits == 32) {
		pos &= 0xff;
		len &= 0xff;
	}
	if (pos >= bits || !len)
		return b;
	mask = len >= 64 ? ~0ull : (1ull << len) - 1;
	mask <<= pos;
	b = (b & ~mask) | (a << pos & mask);
	return bits == 32 ? (uint32_t)b : b;
}

static void
exec_bfi(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]), *e = ptx_in(w, i->src[3]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		d[l] = insert(a[l], b[l], (uint32_t)c[l], (uint32_t)e[l],
			      i->bits);
	);
}

/* a ones from bit b on. */
static uint32_t
bit_mask(uint32_t pos, uint32_t len, bool is_wrap)
{
	uint64_t m;

	if (is_wrap) {
		pos &= 31;
		len &= 31;
	}
	if (pos >= 32 || !len)
		return 0;
	m = len >= 32 ? 0xffffffff : (1ull << len) - 1;
	return (uint32_t)(m << pos);
}

BITS2(exec_bmsk_clamp, uint32_t, bit_mask((uint32_t)a, (uint32_t)b, false))
BITS2(exec_bmsk_wrap, uint32_t, bit_mask((uint32_t)a, (uint32_t)b, true))

static uint32_t
extend(uint32_t a, uint32_t n, bool is_signed, bool is_wrap)
{
	if (is_wrap)
		n &= 31;
	if (n >= 32)
		return a;
	if (!n)
		return 0;
	if (is_signed)
		return (uint32_t)((int32_t)(a << (32 - n)) >> (32 - n));
	return a & ((1u << n) - 1);
}

BITS2(exec_szext_u_clamp, uint32_t, extend((uint32_t)a, (uint32_t)b, 0, 0))
BITS2(exec_szext_u_wrap, uint32_t, extend((uint32_t)a, (uint32_t)b, 0, 1))
BITS2(exec_szext_s_clamp, uint32_t, extend((uint32_t)a, (uint32_t)b, 1, 0))
BITS2(exec_szext_s_wrap, uint32_t, extend((uint32_t)a, (uint32_t)b, 1, 1))

static inline uint32_t
lut(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
	uint32_t r = 0;

	for (unsigned k = 0; k < 8; k++) {
		if (table >> k & 1)
			r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) &
			     (k & 1 ? c : ~c);
	}
	return r;
}

static void
exec_lop3(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);
	unsigned table = (unsigned)i->imm;

	PTX_EACH(w, l,
		d[l] = lut((uint32_t)a[l], (uint32_t)b[l], (uint32_t)c[l],
			   table);
	);
}

/* lop3.and/or d|p: p = (d != 0) combined with q */
static void
exec_lop3_pred(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]);
	uint32_t q = w->preds[i->src[3]], r = 0, *p = &w->preds[i->dst[1]];

	exec_lop3(w, i);
	PTX_EACH(w, l, r |= (uint32_t)(d[l] != 0) << l; );
	r = i->flags ? r & q : r | q;
	*p = (*p & ~w->mask) | (r & w->mask);
}

enum { PRMT_NONE, PRMT_F4E, PRMT_B4E, PRMT_RC8, PRMT_ECL, PRMT_ECR,
       PRMT_RC16 };

static uint32_t
prmt_byte(uint64_t both, unsigned sel)
{
	uint32_t b = (uint32_t)(both >> 8 * (sel & 7)) & 0xff;

	return sel & 8 ? (b & 0x80 ? 0xff : 0) : b;
}

static unsigned
prmt_select(unsigned mode, uint32_t c, unsigned k)
{
	c &= 3;
	switch (mode) {
	case PRMT_F4E:
		return (c + k) & 7;
	case PRMT_B4E:
		return (c - k) & 7;
	case PRMT_RC8:
		return c;
	case PRMT_ECL:
		return k > c ? k : c;
	case PRMT_ECR:
		return k < c ? k : c;
	default:
		return (c & 1) * 2 + (k & 1);
	}
}

static void
exec_prmt(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]), *b = ptx_in(w, i->src[1]);
	const uint64_t *c = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l,
		uint64_t both = (b[l] & 0xffffffff) << 32 |
				(a[l] & 0xffffffff);
		uint32_t r = 0;

		for (unsigned k = 0; k < 4; k++) {
			unsigned sel = i->op
				? prmt_select(i->op, (uint32_t)c[l], k)
				: (unsigned)(c[l] >> 4 * k) & 15;

			r |= prmt_byte(both, sel) << 8 * k;
		}
		d[l] = r;
	);
}

static void
exec_logic_pred(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint32_t a = w->preds[i->src[0]], b = w->preds[i->src[1]];
	uint32_t r = i->op == 'a' ? a & b : i->op == 'o' ? a | b : a ^ b;
	uint32_t *d = &w->preds[i->dst[0]];

	*d = (*d & ~w->mask) | (r & w->mask);
}

static bool
is_bits(int type)
{
	return type == PTX_T_B16 || type == PTX_T_B32 || type == PTX_T_B64;
}

static void
decode_logic(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);
	struct ptx_insn i = ptx_insn_start(p, exec_logic_pred);

	if (type != PTX_T_PRED) {
		if (!is_bits(type))
			ptx_unsupported(p);
		ptx_emit_plain(p, p->op[0] == 'a' ? exec_and
			       : p->op[0] == 'o' ? exec_or : exec_xor,
			       type, 2);
		return;
	}
	ptx_mods_done(p);
	ptx_want_opnds(p, 3);
	i.op = (uint8_t)p->op[0];
	i.src[0] = ptx_src_pred(p, &p->opnds[1]);
	i.src[1] = ptx_src_pred(p, &p->opnds[2]);
	i.dst[0] = ptx_dst_pred(p, &p->opnds[0]);
	ptx_emit(p, &i);
}

static void
decode_not(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);
	bool is_cnot = p->op[0] == 'c';
	struct ptx_insn i = ptx_insn_start(p, ptx_exec_not_pred);

	if (type == PTX_T_PRED && !is_cnot) {
		ptx_mods_done(p);
		ptx_want_opnds(p, 2);
		i.src[0] = ptx_src_pred(p, &p->opnds[1]);
		i.dst[0] = ptx_dst_pred(p, &p->opnds[0]);
		ptx_emit(p, &i);
		return;
	}
	ptx_emit_plain(p, type == PTX_T_B16
		       ? (is_cnot ? exec_cnot16 : exec_not16)
		       : type == PTX_T_B32
		       ? (is_cnot ? exec_cnot32 : exec_not32)
		       : type == PTX_T_B64
		       ? (is_cnot ? exec_cnot64 : exec_not64) : NULL,
		       type, 1);
}

static ptx_exec_fn *
shift_fn(const struct ptx_parser *p, int type)
{
	bool is_left = p->op[2] == 'l';
	static ptx_exec_fn *const fns[3][3] = {
		{ exec_shl16, exec_shr16, exec_sar16 },
		{ exec_shl32, exec_shr32, exec_sar32 },
		{ exec_shl64, exec_shr64, exec_sar64 },
	};
	int size = (int)ptx_type_size(type);
	int at = size == 2 ? 0 : size == 4 ? 1 : size == 8 ? 2 : -1;

	if (at < 0 || type > PTX_T_S64 || (is_left && !is_bits(type)))
		return NULL;
	return fns[at][is_left ? 0 : 1 + ptx_type_is_signed(type)];
}

static void
decode_shift(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);
	struct ptx_insn i = ptx_insn_start(p, shift_fn(p, type));

	ptx_mods_done(p);
	if (!i.exec)
		ptx_unsupported(p);
	ptx_want_opnds(p, 3);
	i.src[0] = ptx_src(p, &p->opnds[1], type);
	i.src[1] = ptx_src(p, &p->opnds[2], PTX_T_U32);
	i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	ptx_emit(p, &i);
}

static void
decode_shf(struct ptx_parser *p)
{
	bool is_left = ptx_mod(p, "l");
	bool is_wrap;

	if (!is_left && !ptx_mod(p, "r"))
		ptx_unsupported(p);
	is_wrap = ptx_mod(p, "wrap");
	if ((!is_wrap && !ptx_mod(p, "clamp")) ||
	    ptx_mod_type(p) != PTX_T_B32)
		ptx_unsupported(p);
	ptx_emit_plain(p, is_left
		       ? (is_wrap ? exec_shf_l_wrap : exec_shf_l_clamp)
		       : (is_wrap ? exec_shf_r_wrap : exec_shf_r_clamp),
		       PTX_T_B32, 3);
}

/* clz, popc: the result is always 32 bits. */
static void
decode_count(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);
	bool is_clz = p->op[0] == 'c', is_64 = type == PTX_T_B64;
	struct ptx_insn i = ptx_insn_start(p, is_clz
		? (is_64 ? exec_clz64 : exec_clz32)
		: (is_64 ? exec_popc64 : exec_popc32));

	ptx_mods_done(p);
	if (!is_64 && type != PTX_T_B32)
		ptx_unsupported(p);
	ptx_want_opnds(p, 2);
	i.src[0] = ptx_src(p, &p->opnds[1], type);
	i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_U32);
	ptx_emit(p, &i);
}

static void
decode_brev(struct ptx_parser *p)
{
	int type = ptx_mod_type(p);

	ptx_emit_plain(p, type == PTX_T_B32 ? exec_brev32
		       : type == PTX_T_B64 ? exec_brev64 : NULL, type, 1);
}

static bool
is_word_int(int type)
{
	return type == PTX_T_U32 || type == PTX_T_S32 || type == PTX_T_U64 ||
	       type == PTX_T_S64;
}

static void
decode_bfind(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_bfind);
	int type;

	i.flags = ptx_mod(p, "shiftamt");
	type = ptx_mod_type(p);
	ptx_mods_done(p);
	if (!is_word_int(type))
		ptx_unsupported(p);
	ptx_want_opnds(p, 2);
	i.type = (uint8_t)type;
	i.bits = (uint8_t)(8 * ptx_type_size(type));
	i.src[0] = ptx_src(p, &p->opnds[1], type);
	i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_U32);
	ptx_emit(p, &i);
}

static void
decode_fns(struct ptx_parser *p)
{
	if (ptx_mod_type(p) != PTX_T_B32)
		ptx_unsupported(p);
	ptx_emit_plain(p, exec_fns, PTX_T_B32, 3);
}

static void
decode_field(struct ptx_parser *p)
{
	bool is_insert = p->op[2] == 'i';
	struct ptx_insn i = ptx_insn_start(p, is_insert ? exec_bfi
							: exec_bfe);
	int type = ptx_mod_type(p);
	unsigned nvalues = is_insert ? 2 : 1;

	ptx_mods_done(p);
	if (is_insert ? type != PTX_T_B32 && type != PTX_T_B64
		      : !is_word_int(type))
		ptx_unsupported(p);
	ptx_want_opnds(p, nvalues + 3);
	i.type = (uint8_t)type;
	i.bits = (uint8_t)(8 * ptx_type_size(type));
	for (unsigned k = 0; k < nvalues; k++)
		i.src[k] = ptx_src(p, &p->opnds[1 + k], type);
	for (unsigned k = nvalues; k < nvalues + 2; k++)
		i.src[k] = ptx_src(p, &p->opnds[1 + k], PTX_T_U32);
	i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	ptx_emit(p, &i);
}

static void
decode_bmsk(struct ptx_parser *p)
{
	bool is_wrap = ptx_mod(p, "wrap");

	if ((!is_wrap && !ptx_mod(p, "clamp")) ||
	    ptx_mod_type(p) != PTX_T_B32)
		ptx_unsupported(p);
	ptx_emit_plain(p, is_wrap ? exec_bmsk_wrap : exec_bmsk_clamp,
		       PTX_T_B32, 2);
}

static void
decode_szext(struct ptx_parser *p)
{
	bool is_wrap = ptx_mod(p, "wrap");
	int type;

	if (!is_wrap && !ptx_mod(p, "clamp"))
		ptx_unsupported(p);
	type = ptx_mod_type(p);
	ptx_emit_plain(p, type == PTX_T_U32
		       ? (is_wrap ? exec_szext_u_wrap : exec_szext_u_clamp)
		       : type == PTX_T_S32
		       ? (is_wrap ? exec_szext_s_wrap : exec_szext_s_clamp)
		       : NULL, type, 2);
}

static void
decode_lop3(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_lop3);
	const struct ptx_opnd *d = &p->opnds[0];
	bool is_and = ptx_mod(p, "and"), is_or = !is_and && ptx_mod(p, "or");

	if (ptx_mod_type(p) != PTX_T_B32)
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 5 + (is_and || is_or));
	for (unsigned k = 0; k < 3; k++)
		i.src[k] = ptx_src(p, &p->opnds[1 + k], PTX_T_B32);
	if (p->opnds[4].kind != PTX_O_IMM || p->opnds[4].imm > 255)
		ptx_fail(p, PTX_E_SYNTAX, p->line, "bad table of lop3");
	i.imm = (int64_t)p->opnds[4].imm;
	if (is_and || is_or) {
		if (d->kind != PTX_O_PAIR)
			ptx_fail(p, PTX_E_SYNTAX, p->line,
				 "lop3 needs a predicate");
		i.exec = exec_lop3_pred;
		i.flags = is_and;
		i.src[3] = ptx_src_pred(p, &p->opnds[5]);
		i.dst[1] = ptx_dst_pred(p, &p->elems[d->first + 1]);
		d = &p->elems[d->first];
	}
	i.dst[0] = ptx_dst(p, d, PTX_T_B32);
	ptx_emit(p, &i);
}

static void
decode_prmt(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_prmt);
	static const char *const modes[] = {
		"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16",
	};

	if (ptx_mod_type(p) != PTX_T_B32)
		ptx_unsupported(p);
	for (unsigned k = 1; k < 7; k++) {
		if (ptx_mod(p, modes[k]))
			i.op = (uint8_t)k;
	}
	ptx_mods_done(p);
	ptx_want_opnds(p, 4);
	for (unsigned k = 0; k < 3; k++)
		i.src[k] = ptx_src(p, &p->opnds[1 + k], PTX_T_B32);
	i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_B32);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_bits[] = {
	{ "and", decode_logic },
	{ "or", decode_logic },
	{ "xor", decode_logic },
	{ "not", decode_not },
	{ "cnot", decode_not },
	{ "shl", decode_shift },
	{ "shr", decode_shift },
	{ "shf", decode_shf },
	{ "clz", decode_count },
	{ "popc", decode_count },
	{ "brev", decode_brev },
	{ "bfind", decode_bfind },
	{ "fns", decode_fns },
	{ "bfe", decode_field },
	{ "bfi", decode_field },
	{ "bmsk", decode_bmsk },
	{ "szext", decode_szext },
	{ "lop3", decode_lop3 },
	{ "prmt", decode_prmt },
	{ NULL, NULL },
};
