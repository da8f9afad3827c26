/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier objects in shared memory (mbarrier).
 *
 * The object is 64 bits whose layout is ours: pending and expected arrivals
 * (20 bits each), bytes that are still to come (22 bits, two's complement)
 * and the phase. One thread at a time executes a cluster, so plain reads
 * and writes do.
 */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

#define COUNT_MASK 0xfffffull
#define TX_MASK 0x3fffffull

struct mbar {
	uint32_t pending, expected;
	int32_t tx;
	unsigned phase;
};

static struct mbar
unpack(uint64_t v)
{
	struct mbar b = {
		.pending = v & COUNT_MASK,
		.expected = v >> 20 & COUNT_MASK,
		.tx = (int32_t)(v >> 40 & TX_MASK),
		.phase = v >> 63,
	};

	if (b.tx > (int32_t)(TX_MASK >> 1))
		b.tx -= (int32_t)TX_MASK + 1;
	return b;
}

static uint64_t
pack(struct mbar b)
{
	/* Nothing is missing: the next phase begins. */
	if (!b.pending && !b.tx) {
		b.phase ^= 1;
		b.pending = b.expected;
	}
	return (b.pending & COUNT_MASK) |
	       ((uint64_t)b.expected & COUNT_MASK) << 20 |
	       ((uint64_t)(uint32_t)b.tx & TX_MASK) << 40 |
	       (uint64_t)b.phase << 63;
}

enum mbar_op {
	M_INIT, M_INVAL, M_ARRIVE, M_DROP, M_EXPECT, M_COMPLETE, M_WAIT,
	M_WAIT_PARITY,
};

enum { MBAR_EXPECT = 1 };

static uint64_t *
object(struct ptx_warp *w, const struct ptx_insn *i, unsigned l)
{
	return ptx_at(w, i, l, i->space,
		      ptx_in(w, i->src[0])[l] + (uint64_t)i->imm, 8, true);
}

static void
change(const struct ptx_insn *i, uint64_t *at, uint32_t count, uint32_t tx)
{
	struct mbar b = unpack(*at);

	switch ((enum mbar_op)i->op) {
	case M_INIT:
		*at = (count & COUNT_MASK) | (count & COUNT_MASK) << 20;
		return;
	case M_INVAL:
		*at = 0;
		return;
	case M_DROP:
		b.expected -= count;
		b.pending -= count;
		break;
	case M_ARRIVE:
		if (i->flags & MBAR_EXPECT)
			b.tx += (int32_t)tx;
		b.pending -= count;
		break;
	case M_EXPECT:
		b.tx += (int32_t)tx;
		break;
	case M_COMPLETE:
		b.tx -= (int32_t)tx;
		break;
	case M_WAIT:
	case M_WAIT_PARITY:
		return;
	}
	*at = pack(b);
}

static void
exec_mbar(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *count = ptx_in(w, i->src[1]);
	const uint64_t *tx = ptx_in(w, i->src[2]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint64_t *at = object(w, i, l), before;

		if (!at)
			return;
		before = *at;
		change(i, at, (uint32_t)count[l], (uint32_t)tx[l]);
		if (i->op == M_ARRIVE || i->op == M_DROP)
			d[l] = before;
	}
}

static void
exec_mbar_wait(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *state = ptx_in(w, i->src[1]);
	uint32_t *p = &w->preds[i->dst[0]], bits = 0;

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint64_t *at = object(w, i, l);
		unsigned waited;

		if (!at)
			return;
		waited = i->op == M_WAIT ? (unsigned)(state[l] >> 63)
					 : (unsigned)state[l] & 1;
		bits |= (uint32_t)(unpack(*at).phase != waited) << l;
	}
	*p = (*p & ~w->mask) | bits;
	w->spins++;
	if (bits == w->mask)
		return;
	/* Others have to arrive first. */
	w->spins += 64;
	w->is_turn_over = true;
	w->stop = true;
}

static void
exec_pending_count(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *a = ptx_in(w, i->src[0]);
	uint64_t *d = ptx_out(w, i->dst[0]);

	PTX_EACH(w, l, d[l] = a[l] & COUNT_MASK; );
}

static void
take_mbar_mods(struct ptx_parser *p, struct ptx_insn *i)
{
	(void)(ptx_mod(p, "release") || ptx_mod(p, "acquire") ||
	       ptx_mod(p, "relaxed"));
	(void)(ptx_mod(p, "cta") || ptx_mod(p, "cluster"));
	i->space = (uint8_t)ptx_mod_space(p, PTX_SPACE_GENERIC);
	if (i->space != PTX_SPACE_GENERIC && i->space != PTX_SPACE_SHARED)
		ptx_unsupported(p);
}

static void
decode_mbar_wait(struct ptx_parser *p, struct ptx_insn *i)
{
	bool is_try = ptx_mod(p, "try_wait");

	if (!is_try && !ptx_mod(p, "test_wait"))
		ptx_unsupported(p);
	i->exec = exec_mbar_wait;
	i->op = ptx_mod(p, "parity") ? M_WAIT_PARITY : M_WAIT;
	take_mbar_mods(p, i);
	if (ptx_mod_type(p) != PTX_T_B64)
		ptx_unsupported(p);
	ptx_mods_done(p);
	/* try_wait may name how long; it may be shorter. */
	ptx_want_opnds(p, is_try && p->nopnds == 4 ? 4 : 3);
	i->src[0] = ptx_src_addr(p, &p->opnds[1], &i->imm);
	i->src[1] = ptx_src(p, &p->opnds[2], i->op == M_WAIT ? PTX_T_B64
							     : PTX_T_B32);
	i->dst[0] = ptx_dst_pred(p, &p->opnds[0]);
	ptx_emit(p, i);
}

static void
decode_mbar_arrive(struct ptx_parser *p, struct ptx_insn *i)
{
	unsigned n = p->nopnds, at = 1;

	i->op = M_ARRIVE;
	if (ptx_mod(p, "arrive_drop"))
		i->op = M_DROP;
	else if (!ptx_mod(p, "arrive"))
		ptx_unsupported(p);
	if (ptx_mod(p, "expect_tx"))
		i->flags |= MBAR_EXPECT;
	ptx_mod(p, "noComplete");
	take_mbar_mods(p, i);
	if (ptx_mod_type(p) != PTX_T_B64 ||
	    (i->op == M_DROP && i->flags & MBAR_EXPECT))
		ptx_unsupported(p);
	ptx_mods_done(p);
	/* In another block of the cluster there is no state to get. */
	if (p->opnds[0].kind == PTX_O_ADDR)
		at = 0;
	if (n <= at || n > at + 2 || (i->flags & MBAR_EXPECT && n != at + 2))
		ptx_fail(p, PTX_E_SYNTAX, p->line, "bad operands of '%s'",
			 p->full);
	i->dst[0] = at ? ptx_dst(p, &p->opnds[0], PTX_T_B64) : PTX_REG_SINK;
	i->src[0] = ptx_src_addr(p, &p->opnds[at], &i->imm);
	i->src[1] = ptx_const(p, 1);
	if (n == at + 2)
		i->src[i->flags & MBAR_EXPECT ? 2 : 1] =
			ptx_src(p, &p->opnds[at + 1], PTX_T_B32);
	ptx_emit(p, i);
}

/* init, inval, expect_tx, complete_tx: an object and perhaps a number. */
static bool
decode_mbar_plain(struct ptx_parser *p, struct ptx_insn *i)
{
	if (ptx_mod(p, "init"))
		i->op = M_INIT;
	else if (ptx_mod(p, "inval"))
		i->op = M_INVAL;
	else if (p->nmods && !strcmp(p->mods[0], "expect_tx") &&
		 ptx_mod(p, "expect_tx"))
		i->op = M_EXPECT;
	else if (ptx_mod(p, "complete_tx"))
		i->op = M_COMPLETE;
	else
		return false;
	take_mbar_mods(p, i);
	if (ptx_mod_type(p) != PTX_T_B64)
		ptx_unsupported(p);
	ptx_mods_done(p);
	ptx_want_opnds(p, i->op == M_INVAL ? 1 : 2);
	i->src[0] = ptx_src_addr(p, &p->opnds[0], &i->imm);
	if (i->op != M_INVAL)
		i->src[i->op == M_INIT ? 1 : 2] =
			ptx_src(p, &p->opnds[1], PTX_T_B32);
	ptx_emit(p, i);
	return true;
}

static void
decode_mbar(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_mbar);

	if (ptx_mod(p, "pending_count")) {
		if (ptx_mod_type(p) != PTX_T_B64)
			ptx_unsupported(p);
		ptx_mods_done(p);
		ptx_want_opnds(p, 2);
		i.exec = exec_pending_count;
		i.src[0] = ptx_src(p, &p->opnds[1], PTX_T_B64);
		i.dst[0] = ptx_dst(p, &p->opnds[0], PTX_T_B32);
		ptx_emit(p, &i);
		return;
	}
	if (decode_mbar_plain(p, &i))
		return;
	if (p->nmods && (!strcmp(p->mods[0], "test_wait") ||
			 !strcmp(p->mods[0], "try_wait")))
		decode_mbar_wait(p, &i);
	else
		decode_mbar_arrive(p, &i);
}

const struct ptx_decoder ptx_decode_mbar[] = {
	{ "mbarrier", decode_mbar },
	{ NULL, NULL },
};
