/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations across the lanes of a warp.
 *
 * A .sync instruction acts when every member that has not exited stands at
 * one of its kind with the same mask, wherever its copy in the code is: the
 * inputs are gathered from each lane's own instruction and frame, and the
 * results go back there.
 */
#include "server/soft/ptx_warp.h"

#include <string.h>

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };
enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };
enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR };

/* flags: what the instruction has. */
enum { HAS_REG = 1, HAS_PRED = 2, HAS_IN = 4, HAS_IN_PRED = 8 };

struct gathered {
	uint32_t members;
	uint64_t a[PTX_LANES], b[PTX_LANES], c[PTX_LANES];
	uint32_t in;              /* predicate inputs, a bit a lane */
	uint64_t out[PTX_LANES];
	uint32_t out_pred;
};

static uint64_t
lane_src(const struct ptx_frame *f, int32_t slot, unsigned l)
{
	return slot >= 0 ? f->regs[slot * PTX_LANES + (int)l]
			 : f->func->consts[~slot * PTX_LANES + (int)l];
}

static void
do_shfl(const struct ptx_insn *i, struct gathered *g)
{
	for (uint32_t m = g->members; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m), j;
		unsigned b = (unsigned)g->b[l] & 31;
		unsigned clamp = (unsigned)g->c[l] & 31;
		unsigned seg = (unsigned)(g->c[l] >> 8) & 31;
		unsigned most = (l & seg) | (clamp & ~seg & 31);
		bool is_in;

		switch (i->op) {
		case SHFL_UP:
			j = l - b;
			is_in = (int)j >= (int)most;
			break;
		case SHFL_DOWN:
			j = l + b;
			is_in = j <= most;
			break;
		case SHFL_BFLY:
			j = l ^ b;
			is_in = j <= most;
			break;
		default:
			j = (l & seg) | (b & ~seg & 31);
			is_in = j <= most;
		}
		if (!is_in)
			j = l;
		/* A lane outside the mask has no value to give. */
		if (!(g->members >> (j & 31) & 1))
			j = l;
		g->out[l] = (uint32_t)g->a[j & 31];
		g->out_pred |= (uint32_t)is_in << l;
	}
}

static void
do_vote(const struct ptx_insn *i, struct gathered *g)
{
	uint32_t yes = g->in & g->members;
	bool all = yes == g->members, any = yes != 0;

	switch (i->op) {
	case VOTE_ALL:
		g->out_pred = all ? ~0u : 0;
		break;
	case VOTE_ANY:
		g->out_pred = any ? ~0u : 0;
		break;
	case VOTE_UNI:
		g->out_pred = all || !any ? ~0u : 0;
		break;
	default:
		for (unsigned l = 0; l < PTX_LANES; l++)
			g->out[l] = yes;
	}
}

static void
do_match(const struct ptx_insn *i, struct gathered *g)
{
	bool is_all = true;

	for (uint32_t m = g->members; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint32_t same = 0;

		for (uint32_t k = g->members; k; k &= k - 1) {
			unsigned j = (unsigned)__builtin_ctz(k);

			same |= (uint32_t)(g->a[j] == g->a[l]) << j;
		}
		g->out[l] = same;
		is_all = is_all && same == g->members;
	}
	if (!i->op) /* match.any */
		return;
	g->out_pred = is_all ? ~0u : 0;
	for (unsigned l = 0; !is_all && l < PTX_LANES; l++)
		g->out[l] = 0;
}

static uint32_t
reduce(const struct ptx_insn *i, uint32_t x, uint32_t y)
{
	bool is_less = i->type == PTX_T_S32 ? (int32_t)x < (int32_t)y : x < y;

	switch (i->op) {
	case REDUX_ADD:
		return x + y;
	case REDUX_MIN:
		return is_less ? x : y;
	case REDUX_MAX:
		return is_less ? y : x;
	case REDUX_AND:
		return x & y;
	case REDUX_OR:
		return x | y;
	default:
		return x ^ y;
	}
}

static void
do_redux(const struct ptx_insn *i, struct gathered *g)
{
	unsigned first = (unsigned)__builtin_ctz(g->members);
	uint32_t r = (uint32_t)g->a[first];

	for (uint32_t m = g->members & (g->members - 1); m; m &= m - 1)
		r = reduce(i, r, (uint32_t)g->a[__builtin_ctz(m)]);
	for (unsigned l = 0; l < PTX_LANES; l++)
		g->out[l] = r;
}

static void
do_elect(const struct ptx_insn *i, struct gathered *g)
{
	unsigned first = (unsigned)__builtin_ctz(g->members);

	(void)i;
	g->out_pred = 1u << first;
	for (unsigned l = 0; l < PTX_LANES; l++)
		g->out[l] = first;
}

static void
do_nothing(const struct ptx_insn *i, struct gathered *g)
{
	(void)i;
	(void)g;
}

/* imm of an instruction indexes this. */
enum {
	DO_SHFL, DO_VOTE, DO_MATCH, DO_REDUX, DO_ELECT, DO_BAR,
	DO_WHOLE,                 /* aux: struct ptx_whole */
};
static void (*const actions[])(const struct ptx_insn *, struct gathered *) = {
	[DO_SHFL] = do_shfl, [DO_VOTE] = do_vote, [DO_MATCH] = do_match,
	[DO_REDUX] = do_redux, [DO_ELECT] = do_elect, [DO_BAR] = do_nothing,
};

/* Every member has its instruction and frame noted in the warp. */
static void
act(struct ptx_warp *w, uint32_t members)
{
	struct gathered g = { .members = members };
	const struct ptx_insn *any = w->sync_insn[__builtin_ctz(members)];

	if (any->imm == DO_WHOLE) {
		((const struct ptx_whole *)any->aux)->run(w, any, members);
		return;
	}
	for (uint32_t m = members; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		const struct ptx_insn *i = w->sync_insn[l];
		const struct ptx_frame *f = w->lane_frame[l];

		if (i->flags & HAS_IN) {
			g.a[l] = lane_src(f, i->src[0], l);
			g.b[l] = lane_src(f, i->src[1], l);
			g.c[l] = lane_src(f, i->src[2], l);
		}
		if (i->flags & HAS_IN_PRED)
			g.in |= f->preds[i->src[0]] & 1u << l;
	}
	actions[any->imm](any, &g);
	for (uint32_t m = members; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		const struct ptx_insn *i = w->sync_insn[l];
		struct ptx_frame *f = w->lane_frame[l];
		uint32_t bit = 1u << l;

		if (i->flags & HAS_REG)
			f->regs[i->dst[0] * PTX_LANES + (int)l] = g.out[l];
		if (i->flags & HAS_PRED)
			f->preds[i->dst[1]] =
				(f->preds[i->dst[1]] & ~bit) |
				(g.out_pred & bit);
	}
}

static bool
is_kind(const struct ptx_insn *a, const struct ptx_insn *b)
{
	return a->imm == b->imm && a->op == b->op && a->type == b->type &&
	       (a->imm != DO_WHOLE || a->aux == b->aux);
}

/* Lets the lane's set go on when it is complete. */
static bool
try_set(struct ptx_warp *w, unsigned lane)
{
	uint32_t members = w->sync_members[lane] & w->exists & ~w->exited;

	if ((w->in_sync & members) != members)
		return false;
	for (uint32_t m = members; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);

		if (w->sync_members[l] != w->sync_members[lane] ||
		    !is_kind(w->sync_insn[l], w->sync_insn[lane]))
			return false;
	}
	act(w, members);
	w->in_sync &= ~members;
	return true;
}

void
ptx_sync_recheck(struct ptx_warp *w)
{
	uint32_t todo = w->in_sync;

	while (todo) {
		unsigned l = (unsigned)__builtin_ctz(todo);

		try_set(w, l);
		todo &= w->in_sync & ~(1u << l);
	}
}

static void
exec_sync(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *members = ptx_in(w, i->src[3]);
	uint32_t lanes = w->mask, live = w->exists & ~w->exited;
	bool is_whole = true;

	for (uint32_t m = lanes; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);

		w->sync_members[l] = (uint32_t)members[l] | 1u << l;
		w->sync_insn[l] = i;
		w->lane_frame[l] = w->frame;
		w->lane_pc[l] = w->pc;
		is_whole = is_whole &&
			   (w->sync_members[l] & live) == lanes;
	}
	if (is_whole) {
		act(w, lanes);
		return;
	}
	w->in_sync |= lanes;
	w->live &= ~lanes;
	ptx_sync_recheck(w);
	ptx_lanes_park(w, w->live, w->pc);
	w->live = 0;
	w->stop = true;
}

static void
exec_activemask(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = w->mask; );
}

static void
need_sync(struct ptx_parser *p)
{
	/* Without .sync they went away with sm_70. */
	if (!ptx_mod(p, "sync"))
		ptx_unsupported(p);
}

/* Destination d, d|p or p alone. */
static void
put_pair(struct ptx_parser *p, struct ptx_insn *i)
{
	const struct ptx_opnd *d = &p->opnds[0];

	if (d->kind == PTX_O_PAIR) {
		i->dst[1] = ptx_dst_pred(p, &p->elems[d->first + 1]);
		i->flags |= HAS_PRED;
		d = &p->elems[d->first];
	}
	i->dst[0] = ptx_dst(p, d, PTX_T_B32);
	i->flags |= HAS_REG;
}

static void
decode_shfl(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_sync);

	need_sync(p);
	i.imm = DO_SHFL;
	i.flags = HAS_IN;
	if (ptx_mod(p, "up"))
		i.op = SHFL_UP;
	else if (ptx_mod(p, "down"))
		i.op = SHFL_DOWN;
	else if (ptx_mod(p, "bfly"))
		i.op = SHFL_BFLY;
	else if (ptx_mod(p, "idx"))
		i.op = SHFL_IDX;
	else
		ptx_unsupported(p);
	if (ptx_mod_type(p) != PTX_T_B32)
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 5);
	for (unsigned k = 0; k < 4; k++)
		i.src[k] = ptx_src(p, &p->opnds[1 + k], PTX_T_B32);
	put_pair(p, &i);
	ptx_emit(p, &i);
}

static void
decode_vote(struct ptx_parser *p)
{
	static const char *const words[] = { "all", "any", "uni", "ballot" };
	struct ptx_insn i = ptx_insn_start(p, NULL);
	int type;

	need_sync(p);
	i.imm = DO_VOTE;
	for (unsigned k = 0; k < 4; k++) {
		if (ptx_mod(p, words[k])) {
			i.op = (uint8_t)k;
			i.exec = exec_sync;
		}
	}
	type = ptx_mod_type(p);
	ptx_mods_done(p);
	if (type != (i.op == VOTE_BALLOT ? PTX_T_B32 : PTX_T_PRED))
		ptx_unsupported(p);
	ptx_want_opnds(p, 3);
	i.flags = HAS_IN_PRED;
	i.src[0] = ptx_src_pred(p, &p->opnds[1]);
	i.src[3] = ptx_src(p, &p->opnds[2], PTX_T_B32);
	if (i.op == VOTE_BALLOT) {
		i.flags |= HAS_REG;
		i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_B32);
	} else {
		i.flags |= HAS_PRED;
		i.dst[1] = ptx_dst_pred(p, &p->opnds[0]);
	}
	ptx_emit(p, &i);
}

static void
decode_match(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_sync);

	need_sync(p);
	i.imm = DO_MATCH;
	i.flags = HAS_IN;
	i.op = ptx_mod(p, "all");
	if (!i.op && !ptx_mod(p, "any"))
		ptx_unsupported(p);
	i.type = (uint8_t)ptx_mod_type(p);
	ptx_mods_done(p);
	if (i.type != PTX_T_B32 && i.type != PTX_T_B64)
		ptx_unsupported(p);
	ptx_want_opnds(p, 3);
	i.src[0] = ptx_src(p, &p->opnds[1], i.type);
	i.src[3] = ptx_src(p, &p->opnds[2], PTX_T_B32);
	put_pair(p, &i);
	ptx_emit(p, &i);
}

static void
decode_redux(struct ptx_parser *p)
{
	static const char *const words[] = {
		"add", "min", "max", "and", "or", "xor",
	};
	struct ptx_insn i = ptx_insn_start(p, NULL);
	bool is_bits;

	need_sync(p);
	i.imm = DO_REDUX;
	for (unsigned k = 0; k < 6; k++) {
		if (ptx_mod(p, words[k])) {
			i.op = (uint8_t)k;
			i.exec = exec_sync;
		}
	}
	i.type = (uint8_t)ptx_mod_type(p);
	ptx_mods_done(p);
	is_bits = i.op >= REDUX_AND;
	if (is_bits ? i.type != PTX_T_B32
		    : i.type != PTX_T_U32 && i.type != PTX_T_S32)
		ptx_unsupported(p);
	ptx_want_opnds(p, 3);
	i.flags = HAS_IN | HAS_REG;
	i.src[0] = ptx_src(p, &p->opnds[1], PTX_T_B32);
	i.src[3] = ptx_src(p, &p->opnds[2], PTX_T_B32);
	i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_B32);
	ptx_emit(p, &i);
}

static void
decode_elect(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_sync);

	need_sync(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 2);
	i.imm = DO_ELECT;
	i.src[3] = ptx_src(p, &p->opnds[1], PTX_T_B32);
	put_pair(p, &i);
	ptx_emit(p, &i);
}

void
ptx_decode_warp_bar(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_sync);

	need_sync(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, 1);
	i.imm = DO_BAR;
	i.src[3] = ptx_src(p, &p->opnds[0], PTX_T_B32);
	ptx_emit(p, &i);
}

struct ptx_insn
ptx_whole_start(struct ptx_parser *p, const struct ptx_whole *whole)
{
	struct ptx_insn i = ptx_insn_start(p, exec_sync);

	i.imm = DO_WHOLE;
	i.aux = whole;
	i.src[3] = ptx_const(p, UINT32_MAX);
	return i;
}

void
ptx_whole_mods(struct ptx_parser *p)
{
	need_sync(p);
	if (!ptx_mod(p, "aligned"))
		ptx_unsupported(p);
}

unsigned
ptx_whole_regs(struct ptx_parser *p, const struct ptx_opnd *o, int type,
	       unsigned most, bool is_dst, int32_t *slots)
{
	const struct ptx_opnd *e = &p->elems[o->first];
	unsigned count = o->kind == PTX_O_VEC ? o->count : 1;

	if (o->kind != PTX_O_VEC)
		e = o;
	if (count > most)
		ptx_fail(p, PTX_E_SYNTAX, p->line,
			 "wrong number of registers for '%s'", p->full);
	for (unsigned k = 0; k < count; k++)
		slots[k] = is_dst ? ptx_dst(p, &e[k], type)
				  : ptx_src(p, &e[k], type);
	return count;
}

static void
decode_activemask(struct ptx_parser *p)
{
	if (ptx_mod_type(p) != PTX_T_B32)
		ptx_unsupported(p);
	ptx_emit_plain(p, exec_activemask, PTX_T_B32, 0);
}

const struct ptx_decoder ptx_decode_warp[] = {
	{ "shfl", decode_shfl },
	{ "vote", decode_vote },
	{ "match", decode_match },
	{ "redux", decode_redux },
	{ "elect", decode_elect },
	{ "activemask", decode_activemask },
	{ "bar", ptx_decode_bar },
	{ "barrier", ptx_decode_bar },
	{ NULL, NULL },
};
