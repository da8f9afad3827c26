/* SPDX-License-Identifier: Apache-2.0 */
/* From parsed operands to slots and from statements to instructions. */
#include "server/soft/ptx_parse.h"
#include "server/soft/ptx_num.h"
#include "server/soft/ptx_ops.h"

#include <stdlib.h>
#include <string.h>

void
ptx_unsupported(struct ptx_parser *p)
{
	ptx_fail(p, PTX_E_UNSUPPORTED, p->line,
		 "unsupported instruction '%s'", p->full);
}

bool
ptx_mod(struct ptx_parser *p, const char *name)
{
	for (unsigned i = 0; i < p->nmods; i++) {
		if (!p->mod_used[i] && !strcmp(p->mods[i], name)) {
			p->mod_used[i] = true;
			return true;
		}
	}
	return false;
}

const char *
ptx_mod_any(struct ptx_parser *p)
{
	for (unsigned i = 0; i < p->nmods; i++) {
		if (!p->mod_used[i]) {
			p->mod_used[i] = true;
			return p->mods[i];
		}
	}
	return NULL;
}

int
ptx_mod_type(struct ptx_parser *p)
{
	for (unsigned i = 0; i < p->nmods; i++) {
		int type;

		if (p->mod_used[i])
			continue;
		type = ptx_type_named(p->mods[i]);
		if (type) {
			p->mod_used[i] = true;
			return type;
		}
	}
	return PTX_T_NONE;
}

struct word {
	const char *text;
	int value;
};

static int
take_word(struct ptx_parser *p, const struct word *words)
{
	for (unsigned i = 0; i < p->nmods; i++) {
		if (p->mod_used[i])
			continue;
		for (const struct word *w = words; w->text; w++) {
			if (strcmp(w->text, p->mods[i]))
				continue;
			p->mod_used[i] = true;
			return w->value;
		}
	}
	return 0;
}

int
ptx_mod_rnd(struct ptx_parser *p)
{
	static const struct word words[] = {
		{ "rn", PTX_RN }, { "rz", PTX_RZ }, { "rm", PTX_RM },
		{ "rp", PTX_RP }, { "rna", PTX_RNA }, { "rni", PTX_RNI },
		{ "rzi", PTX_RZI }, { "rmi", PTX_RMI }, { "rpi", PTX_RPI },
		{ "approx", PTX_APPROX }, { "full", PTX_FULL }, { NULL, 0 },
	};

	return take_word(p, words);
}

int
ptx_mod_cmp(struct ptx_parser *p)
{
	static const struct word words[] = {
		{ "eq", PTX_EQ }, { "ne", PTX_NE }, { "lt", PTX_LT },
		{ "le", PTX_LE }, { "gt", PTX_GT }, { "ge", PTX_GE },
		{ "lo", PTX_LO }, { "ls", PTX_LS }, { "hi", PTX_HI },
		{ "hs", PTX_HS }, { "equ", PTX_EQU }, { "neu", PTX_NEU },
		{ "ltu", PTX_LTU }, { "leu", PTX_LEU }, { "gtu", PTX_GTU },
		{ "geu", PTX_GEU }, { "num", PTX_NUM }, { "nan", PTX_NAN },
		{ NULL, 0 },
	};

	return take_word(p, words);
}

int
ptx_mod_space(struct ptx_parser *p, int fallback)
{
	static const struct word words[] = {
		{ "global", PTX_SPACE_GLOBAL + 1 },
		{ "const", PTX_SPACE_CONST + 1 },
		{ "shared", PTX_SPACE_SHARED + 1 },
		{ "shared::cta", PTX_SPACE_SHARED + 1 },
		{ "shared::cluster", PTX_SPACE_SHARED + 1 },
		{ "local", PTX_SPACE_LOCAL + 1 },
		{ "param", PTX_SPACE_PARAM + 1 },
		{ "param::entry", PTX_SPACE_PARAM + 1 },
		{ "param::func", PTX_SPACE_PARAM + 1 },
		{ NULL, 0 },
	};
	int space = take_word(p, words);

	return space ? space - 1 : fallback;
}

void
ptx_mods_done(struct ptx_parser *p)
{
	for (unsigned i = 0; i < p->nmods; i++) {
		if (!p->mod_used[i])
			ptx_unsupported(p);
	}
}

void
ptx_want_opnds(struct ptx_parser *p, unsigned n)
{
	if (p->nopnds != n)
		ptx_fail(p, PTX_E_SYNTAX, p->line,
			 "'%s' has %u operands, not %u", p->full, p->nopnds,
			 n);
}

static _Noreturn void
bad_operand(struct ptx_parser *p, const struct ptx_opnd *o)
{
	ptx_fail(p, PTX_E_SYNTAX, p->line, "bad operand%s%.*s of '%s'",
		 o->word ? " " : "",
		 o->word_size > 80 ? 80 : (int)o->word_size,
		 o->word ? o->word : "", p->full);
}

struct ptx_insn
ptx_insn_start(struct ptx_parser *p, ptx_exec_fn *exec)
{
	return (struct ptx_insn){
		.exec = exec,
		.guard = p->guard,
		.guard_xor = p->guard_neg ? ~0u : 0,
		.line = p->line,
	};
}

struct ptx_insn *
ptx_emit(struct ptx_parser *p, const struct ptx_insn *i)
{
	struct ptx_insn *at;

	if (!i->exec)
		ptx_unsupported(p);
	at = ptx_need(p, ptx_vec_push(&p->code, sizeof(*at)));
	*at = *i;
	return at;
}

/* A hidden instruction before the statement's own. */
static void
emit_hidden(struct ptx_parser *p, struct ptx_insn *i)
{
	i->line = p->line;
	i->guard = -1;
	ptx_emit(p, i);
}

int32_t
ptx_temp(struct ptx_parser *p)
{
	if (p->ntemps >= PTX_REG_TEMPS)
		ptx_unsupported(p);
	return PTX_REG_TEMP + p->ntemps++;
}

static int32_t
pred_temp(struct ptx_parser *p)
{
	if (p->npred_temps >= PTX_PRED_TEMPS)
		ptx_unsupported(p);
	return PTX_PRED_TEMP + p->npred_temps++;
}

int32_t
ptx_const(struct ptx_parser *p, uint64_t value)
{
	uint64_t *c = p->consts.data;
	uint32_t at = (uint32_t)((value ^ value >> 29) * 0x9e3779b1u) % 1024;
	uint32_t hint = p->const_hash[at];

	/* The hint is one more than an index; a miss costs a duplicate. */
	if (hint && c[hint - 1] == value)
		return ~(int32_t)(hint - 1);
	c = ptx_need(p, ptx_vec_push(&p->consts, sizeof(*c)));
	*c = value;
	p->const_hash[at] = (uint32_t)p->consts.count;
	return ~(int32_t)(p->consts.count - 1);
}

/* A constant that the link step fills in: never shared by value. */
static int32_t
reloc_const(struct ptx_parser *p, enum ptx_reloc_kind kind, uint32_t index,
	    int64_t addend, unsigned size)
{
	struct ptx_reloc *r;
	uint64_t *c;

	c = ptx_need(p, ptx_vec_push(&p->consts, sizeof(*c)));
	*c = 0;
	r = ptx_need(p, ptx_vec_push(&p->f->relocs, sizeof(*r)));
	*r = (struct ptx_reloc){
		.kind = kind,
		.index = index,
		.place = (uint32_t)(p->consts.count - 1),
		.addend = addend,
		.size = (uint8_t)size,
	};
	return ~(int32_t)r->place;
}

static void
note_index(struct ptx_parser *p, struct ptx_vec *v, uint32_t index)
{
	uint32_t *item;

	for (size_t i = 0; i < v->count; i++) {
		if (((uint32_t *)v->data)[i] == index)
			return;
	}
	item = ptx_need(p, ptx_vec_push(v, sizeof(*item)));
	*item = index;
}

static int32_t
src_shared(struct ptx_parser *p, uint32_t index, int64_t addend)
{
	struct ptx_insn i = { .exec = ptx_exec_shared_address };

	note_index(p, &p->f->shareds, index);
	if (p->f->is_kernel)
		return reloc_const(p, PTX_RELOC_SHARED, index, addend, 8);
	/* A device function serves kernels with layouts of their own. */
	i.dst[0] = ptx_temp(p);
	i.target = index;
	i.imm = addend;
	emit_hidden(p, &i);
	return i.dst[0];
}

static int32_t
src_local(struct ptx_parser *p, uint32_t offset, int64_t addend)
{
	struct ptx_insn i = { .exec = ptx_exec_local_address };

	i.dst[0] = ptx_temp(p);
	i.imm = (int64_t)offset + addend;
	emit_hidden(p, &i);
	return i.dst[0];
}

/* The address of what a name stands for, in the name's own space. */
static int32_t
src_name(struct ptx_parser *p, const struct ptx_opnd *o, int type)
{
	const struct ptx_name *n = o->name;
	int64_t addend = (int64_t)o->imm;

	switch (n->kind) {
	case PTX_NAME_VAR:
		/* 32 bits are enough for .const; see const_at(). */
		return reloc_const(p, PTX_RELOC_SYMBOL, (uint32_t)n->index,
				   addend, ptx_type_size(type));
	case PTX_NAME_FUNC:
		ptx_func_at(p->m, (size_t)n->index)->is_address_taken = true;
		return reloc_const(p, PTX_RELOC_FUNC, (uint32_t)n->index,
				   addend, ptx_type_size(type));
	case PTX_NAME_SHARED:
		return src_shared(p, (uint32_t)n->index, addend);
	case PTX_NAME_LOCAL:
		return src_local(p, n->offset, addend);
	case PTX_NAME_KPARAM:
		return ptx_const(p, n->offset + (uint64_t)addend);
	case PTX_NAME_PARAM:
		return ptx_const(p, PTX_PARAM_FRAME + n->offset +
				 (uint64_t)addend);
	default:
		bad_operand(p, o);
	}
}

static int32_t
src_sreg(struct ptx_parser *p, const struct ptx_opnd *o, bool is_pred)
{
	struct ptx_insn i = { 0 };

	if (!ptx_sreg_find(o->word, o->word_size, &i) ||
	    i.flags != is_pred)
		ptx_fail(p, PTX_E_UNSUPPORTED, p->line,
			 "unsupported special register '%.*s' in '%s'",
			 o->word_size > 80 ? 80 : (int)o->word_size, o->word,
			 p->full);
	if (o->word_size > 7 && !memcmp(o->word, "%envreg", 7))
		p->f->reads_envreg = true;
	i.dst[0] = is_pred ? pred_temp(p) : ptx_temp(p);
	emit_hidden(p, &i);
	return i.dst[0];
}

static uint64_t
cut(uint64_t v, unsigned size)
{
	return size < 8 ? v & ((1ull << 8 * size) - 1) : v;
}

static void
check_reg(struct ptx_parser *p, const struct ptx_opnd *o, int type,
	  bool may_be_wider)
{
	unsigned have = ptx_type_size(o->type), want = ptx_type_size(type);

	if (o->type == PTX_T_PRED || type == PTX_T_PRED || o->is_neg ||
	    o->sel)
		bad_operand(p, o);
	/* Bytes live in 16-bit registers. */
	if (want == 1)
		may_be_wider = true;
	if (have < want || (have > want && !may_be_wider) ||
	    (have == 16 && want != 16))
		ptx_fail(p, PTX_E_SYNTAX, p->line,
			 "operand %.*s of '%s' has the wrong size",
			 o->word_size > 80 ? 80 : (int)o->word_size, o->word,
			 p->full);
}

static int32_t
src_any(struct ptx_parser *p, const struct ptx_opnd *o, int type,
	bool may_be_wider)
{
	switch (o->kind) {
	case PTX_O_REG:
		check_reg(p, o, type, may_be_wider);
		return o->slot;
	case PTX_O_IMM:
		if (o->is_neg || type == PTX_T_B128)
			bad_operand(p, o);
		return ptx_const(p, cut(o->imm, ptx_type_size(type)));
	case PTX_O_FIMM:
		if (o->is_neg || type == PTX_T_B128)
			bad_operand(p, o);
		return ptx_const(p, cut(ptx_float_bits(o->imm, o->fbits,
						       type),
					ptx_type_size(type)));
	case PTX_O_NAME:
		return src_name(p, o, type);
	case PTX_O_SREG:
		return src_sreg(p, o, false);
	default:
		bad_operand(p, o);
	}
}

int32_t
ptx_src(struct ptx_parser *p, const struct ptx_opnd *o, int type)
{
	return src_any(p, o, type, false);
}

int32_t
ptx_src_wide(struct ptx_parser *p, const struct ptx_opnd *o, int type)
{
	return src_any(p, o, type, true);
}

int32_t
ptx_dst_wide(struct ptx_parser *p, const struct ptx_opnd *o, int type,
	     uint8_t *out_bits)
{
	if (o->kind == PTX_O_SINK) {
		*out_bits = (uint8_t)(8 * ptx_type_size(type));
		return PTX_REG_SINK;
	}
	if (o->kind != PTX_O_REG)
		bad_operand(p, o);
	check_reg(p, o, type, true);
	*out_bits = (uint8_t)(8 * ptx_type_size(o->type));
	return o->slot;
}

int32_t
ptx_dst(struct ptx_parser *p, const struct ptx_opnd *o, int type)
{
	if (o->kind == PTX_O_SINK)
		return PTX_REG_SINK;
	if (o->kind != PTX_O_REG)
		bad_operand(p, o);
	check_reg(p, o, type, false);
	return o->slot;
}

int32_t
ptx_dst_pred(struct ptx_parser *p, const struct ptx_opnd *o)
{
	if (o->kind == PTX_O_SINK)
		return PTX_PRED_SINK;
	if (o->kind != PTX_O_REG || o->type != PTX_T_PRED || o->is_neg ||
	    o->sel)
		bad_operand(p, o);
	return o->slot;
}

int32_t
ptx_src_pred(struct ptx_parser *p, const struct ptx_opnd *o)
{
	struct ptx_insn i = { .exec = ptx_exec_not_pred };

	if (o->kind == PTX_O_IMM)
		return !o->imm == o->is_neg ? PTX_PRED_TRUE : PTX_PRED_FALSE;
	if (o->kind == PTX_O_SREG && !o->is_neg)
		return src_sreg(p, o, true);
	if (o->kind != PTX_O_REG || o->type != PTX_T_PRED)
		bad_operand(p, o);
	if (!o->is_neg)
		return o->slot;
	i.src[0] = o->slot;
	i.dst[0] = pred_temp(p);
	emit_hidden(p, &i);
	return i.dst[0];
}

int32_t
ptx_src_addr(struct ptx_parser *p, const struct ptx_opnd *o,
	     int64_t *out_offset)
{
	struct ptx_opnd base = *o;

	if (o->sel)
		bad_operand(p, o);
	if (o->kind != PTX_O_ADDR)
		bad_operand(p, o);
	*out_offset = 0;
	base.kind = o->base;
	if (base.kind == PTX_O_REG) {
		if (o->type == PTX_T_PRED || ptx_type_size(o->type) < 4 ||
		    ptx_type_size(o->type) > 8)
			bad_operand(p, o);
		*out_offset = (int64_t)o->imm;
		return o->slot;
	}
	return src_any(p, &base, PTX_T_B64, true);
}

uint64_t
ptx_float_bits(uint64_t bits, unsigned fbits, int type)
{
	double d;
	float f;
	uint32_t u;

	if (fbits == 32 && type != PTX_T_F64)
		return bits;
	if (fbits == 64 && ptx_type_size(type) == 8)
		return bits;
	if (fbits == 32) { /* 0f… in an f64 context */
		u = (uint32_t)bits;
		memcpy(&f, &u, 4);
		d = f;
		memcpy(&bits, &d, 8);
		return bits;
	}
	return ptx_num_round(bits, type == PTX_T_F16 || type == PTX_T_BF16
			     ? type : PTX_T_F32, PTX_RN);
}

void
ptx_emit_plain(struct ptx_parser *p, ptx_exec_fn *exec, int type,
	       unsigned nsrc)
{
	struct ptx_insn i = ptx_insn_start(p, exec);

	ptx_mods_done(p);
	if (!exec)
		ptx_unsupported(p);
	ptx_want_opnds(p, nsrc + 1);
	for (unsigned k = 0; k < nsrc; k++)
		i.src[k] = ptx_src(p, &p->opnds[k + 1], type);
	i.dst[0] = ptx_dst(p, &p->opnds[0], type);
	ptx_emit(p, &i);
}

void
ptx_finish_func(struct ptx_parser *p)
{
	struct ptx_func *f = p->f;
	uint64_t *values = p->consts.data;

	f->ncode = p->code.count;
	f->code = ptx_need(p, ptx_arena_alloc(&p->m->arena, f->ncode *
					      sizeof(*f->code)));
	memcpy(f->code, p->code.data, f->ncode * sizeof(*f->code));
	f->nconsts = p->consts.count;
	f->consts = ptx_need(p, ptx_arena_alloc(&p->m->arena,
		(f->nconsts + 1) * PTX_LANES * sizeof(*f->consts)));
	for (size_t i = 0; i < f->nconsts; i++) {
		for (unsigned l = 0; l < PTX_LANES; l++)
			f->consts[i * PTX_LANES + l] = values[i];
	}
}

static const struct ptx_decoder *const tables[] = {
	ptx_decode_mov, ptx_decode_int, ptx_decode_bits,
	ptx_decode_float, ptx_decode_half,
	ptx_decode_cvt, ptx_decode_cmp, ptx_decode_mem, ptx_decode_atom,
	ptx_decode_ctl, ptx_decode_warp, ptx_decode_tex, ptx_decode_async,
	ptx_decode_video, ptx_decode_mbar, ptx_decode_mma, ptx_decode_wmma,
	ptx_decode_matrix,
};

void
ptx_decode(struct ptx_parser *p)
{
	p->ntemps = 0;
	p->npred_temps = 0;
	for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++) {
		for (const struct ptx_decoder *d = tables[t]; d->name; d++) {
			if (!strcmp(d->name, p->op)) {
				d->decode(p);
				return;
			}
		}
	}
	ptx_unsupported(p);
}
