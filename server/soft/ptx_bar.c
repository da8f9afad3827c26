/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers of the block and of the cluster.
 *
 * Threads arrive one by one; those that wait are parked with a flag. A
 * barrier without a count is complete when every thread that has not
 * exited has arrived, so exits are looked at too.
 */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"
#include "server/soft/ptx_parse.h"

#include <string.h>

static void
give_result(struct ptx_warp *w, unsigned l, const struct ptx_barrier *bar)
{
	const struct ptx_insn *i = w->bar_insn[l];
	struct ptx_frame *f = w->lane_frame[l];
	uint32_t bit = 1u << l;
	bool yes;

	switch (i->op) {
	case PTX_BAR_POPC:
		f->regs[i->dst[0] * PTX_LANES + (int)l] = bar->yes;
		return;
	case PTX_BAR_AND:
		yes = bar->yes == bar->votes;
		break;
	case PTX_BAR_OR:
		yes = bar->yes != 0;
		break;
	default:
		return;
	}
	f->preds[i->dst[0]] = yes ? f->preds[i->dst[0]] | bit
				  : f->preds[i->dst[0]] & ~bit;
}

static void
release(struct ptx_block *b, unsigned id)
{
	struct ptx_barrier bar = b->bars[id];

	memset(&b->bars[id], 0, sizeof(bar));
	for (unsigned k = 0; k < b->nwarps; k++) {
		struct ptx_warp *w = &b->warps[k];

		for (uint32_t m = w->in_bar; m; m &= m - 1) {
			unsigned l = (unsigned)__builtin_ctz(m);

			if (w->bar_id[l] != id)
				continue;
			give_result(w, l, &bar);
			w->in_bar &= ~(1u << l);
		}
	}
}

static void
check(struct ptx_block *b, unsigned id)
{
	struct ptx_barrier *bar = &b->bars[id];
	uint32_t want = bar->expected ? bar->expected
				      : b->nthreads - b->nexited;

	if (bar->arrived && bar->arrived >= want)
		release(b, id);
}

static void
check_cluster(struct ptx_cluster *c)
{
	unsigned live = 0;

	for (unsigned k = 0; k < c->nblocks; k++)
		live += c->blocks[k]->nthreads - c->blocks[k]->nexited;
	if (!c->arrived || c->arrived < live)
		return;
	c->arrived = 0;
	for (unsigned k = 0; k < c->nblocks; k++) {
		struct ptx_block *b = c->blocks[k];

		for (unsigned n = 0; n < b->nwarps; n++) {
			struct ptx_warp *w = &b->warps[n];

			w->in_phase = 0;
			for (uint32_t m = w->in_bar; m; m &= m - 1) {
				unsigned l = (unsigned)__builtin_ctz(m);

				if (w->bar_id[l] == PTX_BAR_CLUSTER)
					w->in_bar &= ~(1u << l);
			}
		}
	}
}

void
ptx_bar_recheck(struct ptx_block *b)
{
	for (unsigned id = 0; id < PTX_NBARRIERS; id++) {
		if (b->bars[id].arrived)
			check(b, id);
	}
	check_cluster(b->cluster);
}

static void
wait_at(struct ptx_warp *w, const struct ptx_insn *i, unsigned l, unsigned id)
{
	w->in_bar |= 1u << l;
	w->bar_id[l] = (uint8_t)id;
	w->bar_insn[l] = i;
}

static void
exec_bar(struct ptx_warp *w, const struct ptx_insn *i)
{
	const uint64_t *ids = ptx_in(w, i->src[0]);
	const uint64_t *counts = ptx_in(w, i->src[1]);
	uint32_t votes = w->preds[i->src[2]], seen = 0, lanes = w->mask;
	uint32_t all = w->exists & ~w->exited;
	struct ptx_block *b = w->block;

	ptx_lanes_park(w, w->live, w->pc);
	for (uint32_t m = lanes; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		struct ptx_barrier *bar;
		uint32_t id = (uint32_t)ids[l];

		if (id >= PTX_NBARRIERS) {
			ptx_raise(w, PTX_FAULT_ILLEGAL_INSTR, l, i,
				  "barrier %u of %u", id, PTX_NBARRIERS);
			return;
		}
		bar = &b->bars[id];
		bar->arrived++;
		bar->votes++;
		bar->yes += votes >> l & 1;
		if (i->flags)
			bar->expected = (uint32_t)counts[l];
		if (i->op != PTX_BAR_ARRIVE)
			wait_at(w, i, l, id);
		seen |= 1u << id;
	}
	/* Counts are in whole warps: a short last warp counts as one. */
	if (i->flags && lanes == all && !(seen & (seen - 1)))
		b->bars[__builtin_ctz(seen)].arrived +=
			PTX_LANES - (unsigned)__builtin_popcount(lanes);
	for (; seen; seen &= seen - 1)
		check(b, (unsigned)__builtin_ctz(seen));
	if (i->op == PTX_BAR_ARRIVE && lanes == w->live)
		return;
	w->live = 0;
	w->stop = true;
}

static void
exec_cluster_arrive(struct ptx_warp *w, const struct ptx_insn *i)
{
	(void)i;
	w->in_phase |= w->mask;
	w->block->cluster->arrived += (unsigned)__builtin_popcount(w->mask);
	check_cluster(w->block->cluster);
}

static void
exec_cluster_wait(struct ptx_warp *w, const struct ptx_insn *i)
{
	uint32_t wait = w->mask & w->in_phase;

	if (!wait)
		return;
	ptx_lanes_park(w, w->live, w->pc);
	for (uint32_t m = wait; m; m &= m - 1)
		wait_at(w, i, (unsigned)__builtin_ctz(m), PTX_BAR_CLUSTER);
	w->live = 0;
	w->stop = true;
}

static void
decode_cluster(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_cluster_arrive);

	if (ptx_mod(p, "wait"))
		i.exec = exec_cluster_wait;
	else if (!ptx_mod(p, "arrive"))
		ptx_unsupported(p);
	(void)(ptx_mod(p, "release") || ptx_mod(p, "relaxed") ||
	       ptx_mod(p, "acquire"));
	ptx_mod(p, "aligned");
	ptx_mods_done(p);
	ptx_want_opnds(p, 0);
	ptx_emit(p, &i);
}

static void
decode_red(struct ptx_parser *p, struct ptx_insn *i)
{
	unsigned n = p->nopnds;

	if (ptx_mod(p, "popc")) {
		i->op = PTX_BAR_POPC;
		if (ptx_mod_type(p) != PTX_T_U32)
			ptx_unsupported(p);
	} else {
		i->op = ptx_mod(p, "and") ? PTX_BAR_AND : PTX_BAR_OR;
		if (i->op == PTX_BAR_OR && !ptx_mod(p, "or"))
			ptx_unsupported(p);
		if (ptx_mod_type(p) != PTX_T_PRED)
			ptx_unsupported(p);
	}
	ptx_mods_done(p);
	if (n != 3 && n != 4)
		ptx_want_opnds(p, 3);
	i->src[0] = ptx_src(p, &p->opnds[1], PTX_T_U32);
	i->flags = n == 4;
	if (n == 4)
		i->src[1] = ptx_src(p, &p->opnds[2], PTX_T_U32);
	i->src[2] = ptx_src_pred(p, &p->opnds[n - 1]);
	i->dst[0] = i->op == PTX_BAR_POPC
		    ? ptx_dst(p, &p->opnds[0], PTX_T_U32)
		    : ptx_dst_pred(p, &p->opnds[0]);
	ptx_emit(p, i);
}

void
ptx_decode_bar(struct ptx_parser *p)
{
	struct ptx_insn i = ptx_insn_start(p, exec_bar);

	if (ptx_mod(p, "cluster")) {
		decode_cluster(p);
		return;
	}
	if (ptx_mod(p, "warp")) {
		ptx_decode_warp_bar(p);
		return;
	}
	ptx_mod(p, "cta");
	ptx_mod(p, "aligned");
	if (ptx_mod(p, "red")) {
		decode_red(p, &i);
		return;
	}
	i.op = PTX_BAR_SYNC;
	if (ptx_mod(p, "arrive"))
		i.op = PTX_BAR_ARRIVE;
	else if (!ptx_mod(p, "sync"))
		ptx_unsupported(p);
	ptx_mods_done(p);
	if (p->nopnds != 2)
		ptx_want_opnds(p, i.op == PTX_BAR_ARRIVE ? 2 : 1);
	i.src[0] = ptx_src(p, &p->opnds[0], PTX_T_U32);
	i.flags = p->nopnds == 2;
	if (i.flags)
		i.src[1] = ptx_src(p, &p->opnds[1], PTX_T_U32);
	ptx_emit(p, &i);
}
