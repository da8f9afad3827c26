/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrices of 8 by 8 halves: loading, storing and transposing them. Lane l
 * holds the elements 2 * (l % 4) and the next one of row l / 4.
 */
#include "server/soft/ptx_warp.h"

#include <string.h>

enum { ROWS = 8, ROW_BYTES = 16 };

struct matrix {
	struct ptx_whole whole;
	unsigned count;                /* matrices */
	bool is_trans, is_store;
	int32_t reg[4], addr;
	int64_t offset;
	uint8_t space;
};

/* Row r of matrix m is where lane 8 * m + r says. */
static uint16_t *
row_at(struct ptx_warp *w, const struct ptx_insn *i, const struct matrix *op,
       unsigned m, unsigned r)
{
	unsigned l = 8 * m + r;
	uint64_t at = ptx_lane_get(w, l, op->addr) + (uint64_t)op->offset;

	return ptx_at(w, i, l, op->space, at, ROW_BYTES, op->is_store);
}

/* The element e of lane l: row and column, or the other way round. */
static unsigned
place(unsigned l, unsigned e, bool is_trans)
{
	unsigned row = l / 4, col = l % 4 * 2 + e;

	return is_trans ? col * 8 + row : row * 8 + col;
}

static void
spread(struct ptx_warp *w, int32_t reg, const uint16_t *element,
       uint32_t members, bool is_trans)
{
	for (uint32_t left = members; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		ptx_lane_set(w, l, reg, element[place(l, 0, is_trans)] |
			     (uint32_t)element[place(l, 1, is_trans)] << 16);
	}
}

static void
collect(struct ptx_warp *w, int32_t reg, uint16_t *element, uint32_t members,
	bool is_trans)
{
	for (uint32_t left = members; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint32_t v = (uint32_t)ptx_lane_get(w, l, reg);

		element[place(l, 0, is_trans)] = (uint16_t)v;
		element[place(l, 1, is_trans)] = (uint16_t)(v >> 16);
	}
}

static void
run_copy(struct ptx_warp *w, const struct ptx_insn *i, uint32_t members)
{
	const struct matrix *op = i->aux;
	uint16_t element[4][ROWS * ROWS] = { 0 };

	for (unsigned m = 0; m < op->count && op->is_store; m++)
		collect(w, op->reg[m], element[m], members, op->is_trans);
	for (unsigned k = 0; k < op->count * ROWS; k++) {
		uint16_t *here = &element[k / ROWS][k % ROWS * ROWS], *row;

		if (!(members >> k & 1))
			continue;
		row = row_at(w, i, op, k / ROWS, k % ROWS);
		if (!row)
			return;
		memcpy(op->is_store ? row : here, op->is_store ? here : row,
		       ROW_BYTES);
	}
	for (unsigned m = 0; m < op->count && !op->is_store; m++)
		spread(w, op->reg[m], element[m], members, op->is_trans);
}

static void
run_transpose(struct ptx_warp *w, const struct ptx_insn *i, uint32_t members)
{
	const struct matrix *op = i->aux;
	uint16_t element[ROWS * ROWS] = { 0 };

	collect(w, op->addr, element, members, false);
	spread(w, op->reg[0], element, members, true);
}

static struct matrix *
matrix_new(struct ptx_parser *p, ptx_whole_fn *run)
{
	struct matrix *op = ptx_need(p, ptx_arena_alloc(&p->m->arena,
							sizeof(*op)));

	op->whole.run = run;
	ptx_whole_mods(p);
	if (!ptx_mod(p, "m8n8"))
		ptx_unsupported(p);
	return op;
}

static void
finish(struct ptx_parser *p, const struct matrix *op)
{
	struct ptx_insn i = ptx_whole_start(p, &op->whole);

	ptx_emit(p, &i);
}

static void
decode_copy(struct ptx_parser *p)
{
	struct matrix *op = matrix_new(p, run_copy);
	const struct ptx_opnd *list, *at;

	op->is_store = !strcmp(p->op, "stmatrix");
	op->is_trans = ptx_mod(p, "trans");
	op->count = ptx_mod(p, "x1") ? 1 : ptx_mod(p, "x2") ? 2 :
		    ptx_mod(p, "x4") ? 4 : 0;
	op->space = (uint8_t)ptx_mod_space(p, PTX_SPACE_GENERIC);
	if (!op->count || !ptx_mod(p, "b16") ||
	    (op->space != PTX_SPACE_GENERIC && op->space != PTX_SPACE_SHARED))
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 2);
	list = &p->opnds[op->is_store];
	at = &p->opnds[!op->is_store];
	op->addr = ptx_src_addr(p, at, &op->offset);
	if (ptx_whole_regs(p, list, PTX_T_B32, 4, !op->is_store, op->reg) !=
	    op->count)
		ptx_fail(p, PTX_E_SYNTAX, p->line,
			 "wrong number of registers for '%s'", p->full);
	finish(p, op);
}

static void
decode_movmatrix(struct ptx_parser *p)
{
	struct matrix *op = matrix_new(p, run_transpose);

	if (!ptx_mod(p, "trans") || !ptx_mod(p, "b16"))
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 2);
	op->addr = ptx_src(p, &p->opnds[1], PTX_T_B32);
	op->reg[0] = ptx_dst(p, &p->opnds[0], PTX_T_B32);
	finish(p, op);
}

const struct ptx_decoder ptx_decode_matrix[] = {
	{ "ldmatrix", decode_copy },
	{ "stmatrix", decode_copy },
	{ "movmatrix", decode_movmatrix },
	{ NULL, NULL },
};
