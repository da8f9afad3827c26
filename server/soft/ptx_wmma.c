/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wmma: what mma.h is made of. Where an element of a fragment lives is the
 * device's own affair; here a matrix is cut, row by row, into as many runs
 * as there are lanes. Fragments of halves may have more registers than that
 * needs: these repeat the first.
 */
#include "server/soft/ptx_warp.h"

#include <string.h>

enum { REGS_MAX = 8 };

struct frag {
	enum ptx_elem type;
	unsigned rows, cols;
	unsigned regs, needed;         /* given, and without repetition */
	int32_t slot[REGS_MAX];
};

struct wmma {
	struct ptx_whole whole;
	struct frag a, b, c, d;        /* load and store have d alone */
	unsigned flags;
	bool is_col, is_store, has_stride;
	int32_t addr, stride;
	int64_t offset;
	uint8_t space;
};

static unsigned
reg_bits(enum ptx_elem type)
{
	return type == PTX_ELEM_F64 ? 64 : 32;
}

static unsigned
per_reg(enum ptx_elem type)
{
	return reg_bits(type) / ptx_elem_bits(type);
}

static uint64_t
element_mask(enum ptx_elem type)
{
	unsigned bits = ptx_elem_bits(type);

	return bits == 64 ? ~0ull : (1ull << bits) - 1;
}

static void
frag_get(struct ptx_warp *w, const struct frag *f, uint32_t members,
	 uint64_t *element)
{
	unsigned n = per_reg(f->type), run = f->needed * n;

	memset(element, 0, f->rows * f->cols * sizeof(*element));
	for (uint32_t left = members; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		for (unsigned e = 0; e < run; e++)
			element[l * run + e] =
				ptx_lane_get(w, l, f->slot[e / n]) >>
				e % n * ptx_elem_bits(f->type) &
				element_mask(f->type);
	}
}

static void
frag_set(struct ptx_warp *w, const struct frag *f, uint32_t members,
	 const uint64_t *element)
{
	unsigned n = per_reg(f->type), run = f->needed * n;

	for (uint32_t left = members; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		for (unsigned r = 0; r < f->regs; r++) {
			const uint64_t *e = element + l * run +
					    r % f->needed * n;
			uint64_t v = 0;

			for (unsigned k = 0; k < n; k++)
				v |= e[k] << k * ptx_elem_bits(f->type);
			ptx_lane_set(w, l, f->slot[r], v);
		}
	}
}

/* Reads or writes the element at `index` of memory that starts at base. */
static bool
move(struct ptx_warp *w, const struct ptx_insn *i, unsigned lane,
     uint64_t base, uint64_t index, uint64_t *v)
{
	const struct wmma *op = i->aux;
	unsigned bits = ptx_elem_bits(op->d.type);
	unsigned size = bits < 8 ? 1 : bits / 8;
	unsigned shift = bits < 8 ? (unsigned)(index * bits % 8) : 0;
	uint8_t *at = ptx_at(w, i, lane, op->space, base + index * bits / 8,
			     size, op->is_store);
	uint64_t mask = element_mask(op->d.type) << shift, old = 0;

	if (!at)
		return false;
	if (!op->is_store || bits < 8)
		memcpy(&old, at, size);
	if (!op->is_store) {
		*v = (old & mask) >> shift;
		return true;
	}
	old = (old & ~mask) | (*v << shift & mask);
	memcpy(at, &old, size);
	return true;
}

static void
run_memory(struct ptx_warp *w, const struct ptx_insn *i, uint32_t members)
{
	const struct wmma *op = i->aux;
	const struct frag *f = &op->d;
	uint64_t element[PTX_DOT_MAX_C];
	unsigned lane = (unsigned)__builtin_ctz(members);
	uint64_t base = ptx_lane_get(w, lane, op->addr) + (uint64_t)op->offset;
	uint64_t stride = op->is_col ? f->rows : f->cols;

	if (op->has_stride)
		stride = (uint32_t)ptx_lane_get(w, lane, op->stride);
	if (op->is_store)
		frag_get(w, f, members, element);
	for (unsigned e = 0; e < f->rows * f->cols; e++) {
		unsigned row = e / f->cols, col = e % f->cols;
		uint64_t index = op->is_col ? col * stride + row
					    : row * stride + col;

		if (!move(w, i, lane, base, index, &element[e]))
			return;
	}
	if (!op->is_store)
		frag_set(w, f, members, element);
}

static void
run_wmma(struct ptx_warp *w, const struct ptx_insn *i, uint32_t members)
{
	const struct wmma *op = i->aux;
	uint64_t a[PTX_DOT_MAX_C], b[PTX_DOT_MAX_C], t[PTX_DOT_MAX_C];
	uint64_t c[PTX_DOT_MAX_C], d[PTX_DOT_MAX_C];
	unsigned k = op->a.cols, n = op->b.cols;
	struct ptx_dot dot = {
		.a_type = op->a.type, .b_type = op->b.type,
		.c_type = op->c.type, .d_type = op->d.type,
		.m = op->a.rows, .n = n, .k = k, .flags = op->flags,
		.a = a, .b = t, .c = c, .d = d,
	};

	frag_get(w, &op->a, members, a);
	frag_get(w, &op->b, members, b);
	frag_get(w, &op->c, members, c);
	for (unsigned e = 0; e < k * n; e++)
		t[e % n * k + e / n] = b[e];
	ptx_dot(&dot);
	frag_set(w, &op->d, members, d);
}

static const struct shape {
	const char *name;
	unsigned m, n, k, bits;
} shapes[] = {
	{ "m16n16k16", 16, 16, 16, 16 }, { "m32n8k16", 32, 8, 16, 16 },
	{ "m8n32k16", 8, 32, 16, 16 }, { "m16n16k16", 16, 16, 16, 8 },
	{ "m32n8k16", 32, 8, 16, 8 }, { "m8n32k16", 8, 32, 16, 8 },
	{ "m16n16k8", 16, 16, 8, 32 }, { "m8n8k4", 8, 8, 4, 64 },
	{ "m8n8k32", 8, 8, 32, 4 }, { "m8n8k128", 8, 8, 128, 1 },
};

/* bits: of an element of A and B, 0 where the instruction has neither. */
static const struct shape *
shape_find(struct ptx_parser *p, const char *name, unsigned bits)
{
	for (size_t s = 0; name && s < sizeof(shapes) / sizeof(*shapes); s++)
		if (!strcmp(shapes[s].name, name) &&
		    (!bits || shapes[s].bits == bits))
			return &shapes[s];
	ptx_unsupported(p);
}

static void
frag_regs(struct ptx_parser *p, struct frag *f, const struct ptx_opnd *o,
	  bool is_dst)
{
	int type = f->type == PTX_ELEM_F64 ? PTX_T_B64 : PTX_T_B32;

	f->regs = ptx_whole_regs(p, o, type, REGS_MAX, is_dst, f->slot);
	f->needed = f->rows * f->cols / PTX_LANES / per_reg(f->type);
	if (!f->needed || !f->regs || f->regs % f->needed ||
	    (f->regs != f->needed && f->type != PTX_ELEM_F16))
		ptx_fail(p, PTX_E_SYNTAX, p->line,
			 "wrong number of registers for '%s'", p->full);
}

static enum ptx_elem
take_type(struct ptx_parser *p)
{
	const char *word = ptx_mod_any(p);
	enum ptx_elem type = word ? ptx_elem_named(word) : PTX_ELEM_NONE;

	if (!type)
		ptx_unsupported(p);
	return type;
}

static bool
is_accumulator(enum ptx_elem type)
{
	return type == PTX_ELEM_F16 || type == PTX_ELEM_F32 ||
	       type == PTX_ELEM_S32 || type == PTX_ELEM_F64;
}

static void
decode_memory(struct ptx_parser *p, struct wmma *op)
{
	struct frag *f = &op->d;
	bool is_a, is_b;
	const struct shape *s;
	const char *name;

	op->whole.run = run_memory;
	is_a = !op->is_store && ptx_mod(p, "a");
	is_b = !op->is_store && !is_a && ptx_mod(p, "b");
	if (!is_a && !is_b && !ptx_mod(p, op->is_store ? "d" : "c"))
		ptx_unsupported(p);
	ptx_whole_mods(p);
	op->is_col = ptx_mod(p, "col");
	if (!op->is_col && !ptx_mod(p, "row"))
		ptx_unsupported(p);
	op->space = (uint8_t)ptx_mod_space(p, PTX_SPACE_GENERIC);
	name = ptx_mod_any(p);
	f->type = take_type(p);
	ptx_mods_done(p);
	s = shape_find(p, name, is_a || is_b ? ptx_elem_bits(f->type) : 0);
	if (!is_a && !is_b && !is_accumulator(f->type))
		ptx_unsupported(p);
	f->rows = is_b ? s->k : s->m;
	f->cols = is_a ? s->k : s->n;
	op->has_stride = p->nopnds == 3;
	if (!op->has_stride)
		ptx_want_opnds(p, 2);
	op->addr = ptx_src_addr(p, &p->opnds[!op->is_store], &op->offset);
	frag_regs(p, f, &p->opnds[op->is_store], !op->is_store);
	if (op->has_stride)
		op->stride = ptx_src(p, &p->opnds[2], PTX_T_U32);
}

static bool
types_fit(const struct wmma *op)
{
	enum ptx_elem a = op->a.type, c = op->c.type, d = op->d.type;

	if (ptx_elem_bits(a) != ptx_elem_bits(op->b.type))
		return false;
	switch (a) {
	case PTX_ELEM_F16:
		return (c == PTX_ELEM_F16 || c == PTX_ELEM_F32) &&
		       (d == PTX_ELEM_F16 || d == PTX_ELEM_F32);
	case PTX_ELEM_BF16:
	case PTX_ELEM_TF32:
		return op->b.type == a && c == PTX_ELEM_F32 && d == c;
	case PTX_ELEM_F64:
		return c == PTX_ELEM_F64 && d == c;
	case PTX_ELEM_S8:
	case PTX_ELEM_U8:
	case PTX_ELEM_S4:
	case PTX_ELEM_U4:
	case PTX_ELEM_B1:
		return op->b.type == a && c == PTX_ELEM_S32 && d == c;
	default:
		return false;
	}
}

/* .dtype.ctype for halves, .dtype.atype.btype.ctype for the rest. */
static void
take_types(struct ptx_parser *p, struct wmma *op)
{
	const char *word;

	op->d.type = take_type(p);
	op->a.type = take_type(p);
	word = ptx_mod_any(p);
	if (word) {
		op->b.type = ptx_elem_named(word);
		op->c.type = take_type(p);
	} else {
		op->c.type = op->a.type;
		op->a.type = op->b.type = PTX_ELEM_F16;
	}
	if (!op->b.type || !types_fit(op))
		ptx_unsupported(p);
}

static void
decode_product(struct ptx_parser *p, struct wmma *op)
{
	bool is_xor = ptx_mod(p, "xor"), is_and = ptx_mod(p, "and");
	bool is_popc = ptx_mod(p, "popc"), is_sat = ptx_mod(p, "satfinite");
	const struct shape *s;
	const char *name;

	op->whole.run = run_wmma;
	ptx_whole_mods(p);
	for (unsigned k = 0; k < 2; k++)
		if (!ptx_mod(p, "row") && !ptx_mod(p, "col"))
			ptx_unsupported(p);
	(void)ptx_mod(p, "rn");        /* doubles round so in any case */
	name = ptx_mod_any(p);
	take_types(p, op);
	ptx_mods_done(p);
	s = shape_find(p, name, ptx_elem_bits(op->a.type));
	if ((op->a.type == PTX_ELEM_B1) != ((is_xor || is_and) && is_popc) ||
	    (is_sat && op->d.type != PTX_ELEM_S32))
		ptx_unsupported(p);
	op->flags = (is_sat ? PTX_DOT_SATFINITE : 0) |
		    (is_and ? PTX_DOT_AND : 0);
	op->a.rows = op->c.rows = op->d.rows = s->m;
	op->b.cols = op->c.cols = op->d.cols = s->n;
	op->a.cols = op->b.rows = s->k;
	ptx_want_opnds(p, 4);
	frag_regs(p, &op->d, &p->opnds[0], true);
	frag_regs(p, &op->a, &p->opnds[1], false);
	frag_regs(p, &op->b, &p->opnds[2], false);
	frag_regs(p, &op->c, &p->opnds[3], false);
}

static void
decode_wmma(struct ptx_parser *p)
{
	struct wmma *op = ptx_need(p, ptx_arena_alloc(&p->m->arena,
						      sizeof(*op)));
	struct ptx_insn i;

	if (ptx_mod(p, "mma")) {
		decode_product(p, op);
	} else {
		op->is_store = ptx_mod(p, "store");
		if (!op->is_store && !ptx_mod(p, "load"))
			ptx_unsupported(p);
		decode_memory(p, op);
	}
	i = ptx_whole_start(p, &op->whole);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_wmma[] = {
	{ "wmma", decode_wmma },
	{ NULL, NULL },
};
