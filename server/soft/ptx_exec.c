/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction loop of a warp and the choice of the lanes that run.
 *
 * Lanes that share frame and pc run together. Of several groups the one in
 * the deepest frame with the lowest pc runs, until it reaches the pc where
 * another one waits: code is laid out so that this joins lanes again after
 * a branch. A lane that spins on what another lane of its warp must do
 * would run for ever that way, so a group that was passed over for long
 * gets a turn of its own.
 */
#include "server/soft/ptx_exec.h"

#include <stdlib.h>
#include <string.h>

/* Instructions between looks at whether another group starves. */
#define CHUNK 512
/* What a group may run past others that are ready, when it only computes. */
#define PATIENCE (256 * CHUNK)
/* An access that may be a spin's weighs as much as so many instructions. */
#define SPIN_COST 16

static struct ptx_frame *
frame_new(const struct ptx_func *f)
{
	size_t regs = (size_t)f->nregs * PTX_LANES * sizeof(uint64_t);
	size_t preds = (f->npreds * sizeof(uint32_t) + 63) & ~(size_t)63;
	size_t params = (size_t)f->param_size * PTX_LANES;
	size_t head = (sizeof(struct ptx_frame) + 63) & ~(size_t)63;
	size_t size = (head + regs + preds + params + 63) & ~(size_t)63;
	char *m = aligned_alloc(64, size);
	struct ptx_frame *frame = (struct ptx_frame *)m;

	if (!m)
		return NULL;
	/* Registers start as zeros, so that runs repeat. */
	memset(m, 0, size);
	frame->func = f;
	frame->regs = (uint64_t *)(m + head);
	frame->preds = (uint32_t *)(m + head + regs);
	frame->params = (uint8_t *)(m + head + regs + preds);
	frame->preds[PTX_PRED_TRUE] = ~0u;
	return frame;
}

static struct ptx_frame *
frame_get(struct ptx_warp *w, const struct ptx_func *f)
{
	struct ptx_frame *made;

	for (struct ptx_frame **at = &w->spare; *at; at = &(*at)->parent) {
		struct ptx_frame *frame = *at;

		if (frame->func == f) {
			*at = frame->parent;
			return frame;
		}
	}
	made = frame_new(f);
	if (made) {
		made->next_made = w->made;
		w->made = made;
	}
	return made;
}

bool
ptx_local_reserve(struct ptx_warp *w, unsigned lane, uint32_t size)
{
	uint32_t cap = w->local_cap ? w->local_cap : 256;
	uint8_t *local;

	if (size > PTX_LOCAL_MAX)
		return false;
	w->local_sp[lane] = size;
	if (size <= w->local_cap)
		return true;
	while (cap < size)
		cap *= 2;
	local = calloc(PTX_LANES, cap);
	if (!local)
		return false;
	for (unsigned l = 0; w->local && l < PTX_LANES; l++)
		memcpy(local + (size_t)l * cap,
		       w->local + (size_t)l * w->local_cap, w->local_cap);
	free(w->local);
	w->local = local;
	w->local_cap = cap;
	return true;
}

static bool
frame_take_local(struct ptx_warp *w, struct ptx_frame *frame)
{
	uint32_t size = (uint32_t)frame->func->local_size;

	for (uint32_t m = frame->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint32_t base = (w->local_sp[l] + 15) & ~15u;

		frame->local_saved[l] = w->local_sp[l];
		frame->local_base[l] = base;
		if (size && !ptx_local_reserve(w, l, base + size))
			return false;
	}
	return true;
}

void
ptx_frame_enter(struct ptx_warp *w, struct ptx_frame *frame)
{
	w->frame = frame;
	w->regs = frame->regs;
	w->preds = frame->preds;
	w->consts = frame->func->consts;
	w->code = frame->func->code;
}

/* The lanes of mask become a group of their own at the callee's start. */
int
ptx_frame_push(struct ptx_warp *w, const struct ptx_func *f,
	       const struct ptx_call *call, uint32_t mask)
{
	struct ptx_frame *frame = frame_get(w, f), *parent = w->frame;

	if (!frame)
		return -1;
	frame->parent = parent;
	frame->call = call;
	frame->mask = mask;
	frame->ret_pc = w->pc;
	frame->depth = parent ? parent->depth + 1 : 0;
	ptx_frame_enter(w, frame);
	w->live = mask;
	w->pc = 0;
	w->stop_pc = UINT32_MAX;
	if (frame->depth > PTX_MAX_DEPTH || !frame_take_local(w, frame))
		return -1;
	return 0;
}

void
ptx_lanes_park(struct ptx_warp *w, uint32_t lanes, uint32_t pc)
{
	for (; lanes; lanes &= lanes - 1) {
		unsigned l = (unsigned)__builtin_ctz(lanes);

		w->lane_pc[l] = pc;
		w->lane_frame[l] = w->frame;
	}
}

static uint32_t
ready_lanes(const struct ptx_warp *w)
{
	return w->exists & ~w->exited & ~w->in_sync & ~w->in_bar;
}

bool
ptx_warp_can_run(const struct ptx_warp *w)
{
	return ready_lanes(w) != 0;
}

static unsigned
most_urgent(const struct ptx_warp *w, uint32_t ready)
{
	unsigned best = (unsigned)__builtin_ctz(ready);

	for (uint32_t m = ready & (ready - 1); m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		unsigned depth = w->lane_frame[l]->depth;
		unsigned best_depth = w->lane_frame[best]->depth;

		if (depth > best_depth ||
		    (depth == best_depth &&
		     w->lane_pc[l] < w->lane_pc[best]))
			best = l;
	}
	return best;
}

static unsigned
most_patient(const struct ptx_warp *w, uint32_t ready)
{
	unsigned best = (unsigned)__builtin_ctz(ready);

	for (uint32_t m = ready & (ready - 1); m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);

		if ((int32_t)(w->stamp[l] - w->stamp[best]) < 0)
			best = l;
	}
	return best;
}

/* Make a group of ready lanes the running one. */
static void
choose_group(struct ptx_warp *w, uint32_t ready)
{
	unsigned lead = w->is_turn_over ? most_patient(w, ready)
					: most_urgent(w, ready);
	struct ptx_frame *frame = w->lane_frame[lead];
	uint32_t pc = w->lane_pc[lead], stop = UINT32_MAX, live = 0;

	w->now++;
	for (uint32_t m = ready; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);

		if (w->lane_frame[l] != frame)
			continue;
		if (w->lane_pc[l] == pc) {
			live |= 1u << l;
			w->stamp[l] = w->now;
		} else if (w->lane_pc[l] > pc && w->lane_pc[l] < stop) {
			stop = w->lane_pc[l];
		}
	}
	ptx_frame_enter(w, frame);
	w->live = live;
	w->pc = pc;
	w->stop_pc = w->is_turn_over ? UINT32_MAX : stop;
	w->stop = false;
	w->is_turn_over = false;
}

static unsigned
run_group(struct ptx_warp *w, unsigned n)
{
	unsigned left = n;
	uint32_t spins = w->spins;

	do {
		const struct ptx_insn *i = &w->code[w->pc++];
		uint32_t mask = w->live;

		if (i->guard >= 0)
			mask &= w->preds[i->guard] ^ i->guard_xor;
		w->mask = mask;
		if (mask)
			i->exec(w, i);
		if (w->spins - spins >= CHUNK / SPIN_COST)
			break;
	} while (!w->stop && w->pc < w->stop_pc && --left);
	return n - left;
}

/*
 * A turn never ends between a spin and the turn of the group that it may
 * wait for: that one would hold a lock while the whole block pauses.
 */
void
ptx_warp_run(struct ptx_warp *w, unsigned budget)
{
	unsigned used = 0;

	w->spins = 0;
	while (used < budget || (w->is_turn_over && used < 2 * budget)) {
		uint32_t ready = ready_lanes(w), spins = w->spins;
		bool has_others;
		unsigned n;

		if (!ready || atomic_load_explicit(
				&w->block->grid->is_stopping,
				memory_order_relaxed))
			return;
		choose_group(w, ready);
		has_others = w->live != ready;
		n = run_group(w, CHUNK) + 1;
		n += (w->spins - spins) * SPIN_COST;
		used += n;
		ptx_lanes_park(w, w->live, w->pc);
		w->live = 0;
		w->waited = has_others ? w->waited + n : 0;
		if (w->waited >= PATIENCE ||
		    (w->waited >= CHUNK && w->spins)) {
			w->is_turn_over = true;
			w->waited = 0;
		}
	}
}

void
ptx_lanes_exit(struct ptx_warp *w, uint32_t lanes)
{
	for (uint32_t m = lanes; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		struct ptx_frame *frame = w->live >> l & 1 ? w->frame
						: w->lane_frame[l];

		while (frame) {
			struct ptx_frame *parent = frame->parent;

			frame->mask &= ~(1u << l);
			if (!frame->mask) {
				frame->parent = w->spare;
				w->spare = frame;
			}
			frame = parent;
		}
	}
	w->exited |= lanes;
	w->live &= ~lanes;
	w->stop = true;
	w->block->nexited += (unsigned)__builtin_popcount(lanes);
	if (w->in_sync)
		ptx_sync_recheck(w);
	ptx_bar_recheck(w->block);
}
