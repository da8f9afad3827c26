/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.sync: the fragments' places in the matrices are those of the PTX ISA.
 * All of its types have one rule: with E elements in a register, lane l
 * holds in register r of A the row l / 4 (plus 8 in odd registers of the
 * 16-row shapes) and E columns from 4 * E * (the register's block) +
 * l % 4 * E on; B alike with row and column exchanged; of C the columns
 * l % 4 * 2 and the next.
 */
#include "server/soft/ptx_warp.h"

#include <string.h>

struct mma {
	struct ptx_whole whole;
	enum ptx_elem a_type, b_type, c_type, d_type;
	unsigned m, k, flags;
	unsigned na, nb, nc, nd;       /* registers */
	int32_t a[8], b[4], c[4], d[4];
};

/* Elements of a register. */
static unsigned
per_reg(enum ptx_elem type)
{
	unsigned bits = ptx_elem_bits(type);

	return bits < 32 ? 32 / bits : 1;
}

static uint64_t
element(uint64_t reg, enum ptx_elem type, unsigned e)
{
	unsigned bits = ptx_elem_bits(type);

	return bits < 32 ? reg >> e * bits & ((1u << bits) - 1) : reg;
}

static void
gather_a(struct ptx_warp *w, const struct mma *op, unsigned l, uint64_t *a)
{
	unsigned n = per_reg(op->a_type);

	for (unsigned r = 0; r < op->na; r++) {
		uint64_t reg = ptx_lane_get(w, l, op->a[r]);
		unsigned half = op->m == 16 ? r & 1 : 0;
		unsigned block = op->m == 16 ? r / 2 : r;
		uint64_t *row = a + (l / 4 + 8 * half) * op->k;

		for (unsigned e = 0; e < n; e++)
			row[block * 4 * n + l % 4 * n + e] =
				element(reg, op->a_type, e);
	}
}

static void
gather_b(struct ptx_warp *w, const struct mma *op, unsigned l, uint64_t *b)
{
	unsigned n = per_reg(op->b_type);

	for (unsigned r = 0; r < op->nb; r++) {
		uint64_t reg = ptx_lane_get(w, l, op->b[r]);

		for (unsigned e = 0; e < n; e++)
			b[l / 4 * op->k + r * 4 * n + l % 4 * n + e] =
				element(reg, op->b_type, e);
	}
}

/* Where element e of a lane's C or D is. */
static unsigned
place_c(unsigned l, unsigned e)
{
	return (l / 4 + 8 * (e / 2)) * 8 + l % 4 * 2 + e % 2;
}

static void
gather_c(struct ptx_warp *w, const struct mma *op, unsigned l, uint64_t *c)
{
	unsigned n = per_reg(op->c_type);

	for (unsigned r = 0; r < op->nc; r++) {
		uint64_t reg = ptx_lane_get(w, l, op->c[r]);

		for (unsigned e = 0; e < n; e++)
			c[place_c(l, r * n + e)] =
				element(reg, op->c_type, e);
	}
}

static void
scatter_d(struct ptx_warp *w, const struct mma *op, unsigned l,
	  const uint64_t *d)
{
	unsigned n = per_reg(op->d_type);

	for (unsigned r = 0; r < op->nd; r++) {
		uint64_t reg = 0;

		for (unsigned e = 0; e < n; e++)
			reg |= d[place_c(l, r * n + e)] <<
			       e * (n > 1 ? 32 / n : 0);
		ptx_lane_set(w, l, op->d[r], reg);
	}
}

static void
run_mma(struct ptx_warp *w, const struct ptx_insn *i, uint32_t members)
{
	const struct mma *op = i->aux;
	uint64_t a[PTX_DOT_MAX_A], b[PTX_DOT_MAX_B], c[128] = { 0 }, d[128];
	struct ptx_dot dot = {
		.a_type = op->a_type, .b_type = op->b_type,
		.c_type = op->c_type, .d_type = op->d_type,
		.m = op->m, .n = 8, .k = op->k, .flags = op->flags,
		.a = a, .b = b, .c = c, .d = d,
	};

	/* What exited lanes would hold. */
	memset(a, 0, op->m * op->k * sizeof(*a));
	memset(b, 0, 8 * op->k * sizeof(*b));
	for (uint32_t left = members; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		gather_a(w, op, l, a);
		gather_b(w, op, l, b);
		gather_c(w, op, l, c);
	}
	ptx_dot(&dot);
	for (uint32_t left = members; left; left &= left - 1)
		scatter_d(w, op, (unsigned)__builtin_ctz(left), d);
}

/* Shapes of sm_90 and below; those of 4 bits and less count k in bits. */
static const struct {
	const char *name;
	unsigned m, k, bits;
} shapes[] = {
	{ "m16n8k8", 16, 8, 16 }, { "m16n8k16", 16, 16, 16 },
	{ "m16n8k4", 16, 4, 32 }, { "m16n8k8", 16, 8, 32 },
	{ "m8n8k4", 8, 4, 64 }, { "m16n8k4", 16, 4, 64 },
	{ "m16n8k8", 16, 8, 64 }, { "m16n8k16", 16, 16, 64 },
	{ "m8n8k16", 8, 16, 8 }, { "m16n8k16", 16, 16, 8 },
	{ "m16n8k32", 16, 32, 8 },
	{ "m8n8k32", 8, 32, 4 }, { "m16n8k32", 16, 32, 4 },
	{ "m16n8k64", 16, 64, 4 },
	{ "m8n8k128", 8, 128, 1 }, { "m16n8k128", 16, 128, 1 },
	{ "m16n8k256", 16, 256, 1 },
};

static bool
is_int(enum ptx_elem t)
{
	return t == PTX_ELEM_S8 || t == PTX_ELEM_U8 || t == PTX_ELEM_S4 ||
	       t == PTX_ELEM_U4 || t == PTX_ELEM_B1;
}

static bool
types_fit(const struct mma *op)
{
	bool is_f8 = op->a_type == PTX_ELEM_E4M3 ||
		     op->a_type == PTX_ELEM_E5M2;

	if (ptx_elem_bits(op->a_type) != ptx_elem_bits(op->b_type) ||
	    op->c_type != op->d_type)
		return false;
	if (is_int(op->a_type))
		return is_int(op->b_type) && op->d_type == PTX_ELEM_S32;
	if (is_f8)
		return !is_int(op->b_type) && op->d_type == PTX_ELEM_F32 &&
		       op->k == 32;
	if (op->a_type != op->b_type)
		return false;
	switch (op->a_type) {
	case PTX_ELEM_F16:
		return op->d_type == PTX_ELEM_F16 ||
		       op->d_type == PTX_ELEM_F32;
	case PTX_ELEM_F64:
		return op->d_type == PTX_ELEM_F64;
	case PTX_ELEM_BF16:
	case PTX_ELEM_TF32:
		return op->d_type == PTX_ELEM_F32;
	default:
		return false;
	}
}

static void
take_shape(struct ptx_parser *p, struct mma *op, const char *shape)
{
	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
		if (strcmp(shapes[s].name, shape) ||
		    shapes[s].bits != ptx_elem_bits(op->a_type))
			continue;
		op->m = shapes[s].m;
		op->k = shapes[s].k;
	}
	if (!op->m || !types_fit(op))
		ptx_unsupported(p);
}

static void
take_mods(struct ptx_parser *p, struct mma *op)
{
	enum ptx_elem *types[] = { &op->d_type, &op->a_type, &op->b_type,
				   &op->c_type };
	bool is_and = ptx_mod(p, "and");
	const char *shape, *word;

	ptx_whole_mods(p);
	if (ptx_mod(p, "satfinite"))
		op->flags |= PTX_DOT_SATFINITE;
	if (is_and)
		op->flags |= PTX_DOT_AND;
	if (!ptx_mod(p, "row") || !ptx_mod(p, "col"))
		ptx_unsupported(p);
	shape = ptx_mod_any(p);
	for (unsigned k = 0; k < 4; k++) {
		word = ptx_mod_any(p);
		*types[k] = word ? ptx_elem_named(word) : PTX_ELEM_NONE;
		if (!*types[k])
			ptx_unsupported(p);
	}
	take_shape(p, op, shape);
	/* Doubles round so in any case. */
	if (op->d_type == PTX_ELEM_F64)
		(void)ptx_mod(p, "rn");
	if (op->a_type == PTX_ELEM_B1 &&
	    ((!is_and && !ptx_mod(p, "xor")) || !ptx_mod(p, "popc")))
		ptx_unsupported(p);
	/* Integers saturate, floats do not. */
	if ((op->flags & PTX_DOT_SATFINITE && op->d_type != PTX_ELEM_S32) ||
	    (is_and && op->a_type != PTX_ELEM_B1))
		ptx_unsupported(p);
}

static int
reg_type(enum ptx_elem type)
{
	return type == PTX_ELEM_F64 ? PTX_T_B64 : PTX_T_B32;
}

static void
decode_mma(struct ptx_parser *p)
{
	struct mma *op = ptx_need(p, ptx_arena_alloc(&p->m->arena,
						     sizeof(*op)));
	struct ptx_insn i;
	unsigned bits;

	op->whole.run = run_mma;
	take_mods(p, op);
	ptx_mods_done(p);
	ptx_want_opnds(p, 4);
	op->nd = ptx_whole_regs(p, &p->opnds[0], reg_type(op->d_type), 4, true,
				op->d);
	op->na = ptx_whole_regs(p, &p->opnds[1], reg_type(op->a_type), 8,
				false, op->a);
	op->nb = ptx_whole_regs(p, &p->opnds[2], reg_type(op->b_type), 4,
				false, op->b);
	op->nc = ptx_whole_regs(p, &p->opnds[3], reg_type(op->c_type), 4,
				false, op->c);
	bits = 32 * (ptx_elem_bits(op->a_type) == 64 ? 2 : 1);
	if (op->na * bits * 32 != op->m * op->k * ptx_elem_bits(op->a_type) ||
	    op->nb * bits * 32 != 8 * op->k * ptx_elem_bits(op->b_type) ||
	    op->nd * per_reg(op->d_type) * 32 != op->m * 8 ||
	    op->nc * per_reg(op->c_type) * 32 != op->m * 8)
		ptx_fail(p, PTX_E_SYNTAX, p->line,
			 "wrong number of registers for '%s'", p->full);
	i = ptx_whole_start(p, &op->whole);
	ptx_emit(p, &i);
}

const struct ptx_decoder ptx_decode_mma[] = {
	{ "mma", decode_mma },
	{ NULL, NULL },
};
