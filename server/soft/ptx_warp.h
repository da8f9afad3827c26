/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions that a whole warp executes as one: matrices.
 * Private to the executor (server/soft/ptx_*.c).
 *
 * All lanes stand at the same instruction, though maybe in frames of their
 * own; whoever comes last makes it run for all.
 */
#ifndef SERVER_SOFT_PTX_WARP_H
#define SERVER_SOFT_PTX_WARP_H

#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_parse.h"

/* `members` are the lanes that have not exited. */
typedef void ptx_whole_fn(struct ptx_warp *w, const struct ptx_insn *i,
			  uint32_t members);

/* First in what i->aux points at. */
struct ptx_whole {
	ptx_whole_fn *run;
};

/* The statement's instruction, for all lanes. */
struct ptx_insn ptx_whole_start(struct ptx_parser *p,
				const struct ptx_whole *whole);
/* Takes ".sync" and ".aligned", which these instructions must have. */
void ptx_whole_mods(struct ptx_parser *p);
/* Registers of a vector operand, all of one type: how many, at most `most`. */
unsigned ptx_whole_regs(struct ptx_parser *p, const struct ptx_opnd *o,
			int type, unsigned most, bool is_dst, int32_t *slots);

/* A lane's register or constant. */
static inline uint64_t
ptx_lane_get(const struct ptx_warp *w, unsigned l, int32_t slot)
{
	const struct ptx_frame *f = w->lane_frame[l];

	return slot >= 0 ? f->regs[(size_t)slot * PTX_LANES + l]
			 : f->func->consts[(size_t)~slot * PTX_LANES + l];
}

static inline void
ptx_lane_set(struct ptx_warp *w, unsigned l, int32_t slot, uint64_t v)
{
	w->lane_frame[l]->regs[(size_t)slot * PTX_LANES + l] = v;
}

/* ptx_dot.c: what tensor cores compute. */
enum ptx_elem {
	PTX_ELEM_NONE,
	PTX_ELEM_F16, PTX_ELEM_BF16, PTX_ELEM_TF32, PTX_ELEM_E4M3,
	PTX_ELEM_E5M2, PTX_ELEM_F32, PTX_ELEM_F64,
	PTX_ELEM_S8, PTX_ELEM_U8, PTX_ELEM_S4, PTX_ELEM_U4, PTX_ELEM_B1,
	PTX_ELEM_S32,
};

enum { PTX_DOT_SATFINITE = 1, PTX_DOT_AND = 2 };

/* Matrices as raw elements: a is m by k, b is n by k (its columns), c and d
 * are m by n, row by row. */
struct ptx_dot {
	enum ptx_elem a_type, b_type, c_type, d_type;
	unsigned m, n, k, flags;
	const uint64_t *a, *b, *c;
	uint64_t *d;
};

#define PTX_DOT_MAX_A 4096
#define PTX_DOT_MAX_B 2048
#define PTX_DOT_MAX_C 1024

void ptx_dot(const struct ptx_dot *dot);
unsigned ptx_elem_bits(enum ptx_elem type);
enum ptx_elem ptx_elem_named(const char *name);

#endif
