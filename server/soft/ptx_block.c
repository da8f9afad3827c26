/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks and clusters: their memory, start and turns. */
#include "server/soft/ptx_exec.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Instructions a warp runs before the next one has its turn. */
#define QUANTUM 2048
/* One access in so many instructions that waits for others is a spin. */
#define SPIN_SHARE 64

uint64_t
ptx_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void
warp_free(struct ptx_warp *w)
{
	while (w->made) {
		struct ptx_frame *frame = w->made;

		w->made = frame->next_made;
		free(frame);
	}
	free(w->local);
}

static void
block_free(struct ptx_block *b)
{
	if (!b)
		return;
	for (unsigned k = 0; b->warps && k < b->nwarps; k++)
		warp_free(&b->warps[k]);
	free(b->warps);
	free(b->shared);
	free(b);
}

static struct ptx_block *
block_new(struct ptx_grid *g)
{
	struct ptx_block *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->grid = g;
	b->nthreads = g->nthreads;
	b->nwarps = (g->nthreads + PTX_LANES - 1) / PTX_LANES;
	b->warps = calloc(b->nwarps, sizeof(*b->warps));
	b->shared_size = g->shared_size;
	b->shared = aligned_alloc(128, ((g->shared_size + 127) & ~127ull) +
				       128);
	if (!b->warps || !b->shared) {
		block_free(b);
		return NULL;
	}
	return b;
}

void
ptx_cluster_free(struct ptx_cluster *c)
{
	if (!c)
		return;
	for (unsigned k = 0; c->blocks && k < c->nblocks; k++)
		block_free(c->blocks[k]);
	free(c->blocks);
	free(c);
}

struct ptx_cluster *
ptx_cluster_new(struct ptx_grid *g)
{
	struct ptx_cluster *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->grid = g;
	c->nblocks = g->cluster_size;
	c->blocks = calloc(c->nblocks, sizeof(*c->blocks));
	for (unsigned k = 0; c->blocks && k < c->nblocks; k++) {
		c->blocks[k] = block_new(g);
		if (!c->blocks[k]) {
			ptx_cluster_free(c);
			return NULL;
		}
		c->blocks[k]->cluster = c;
		c->blocks[k]->rank = k;
	}
	if (!c->blocks) {
		ptx_cluster_free(c);
		return NULL;
	}
	return c;
}

const struct ptx_block *
ptx_cluster_block(const struct ptx_block *b, unsigned rank)
{
	return rank < b->cluster->nblocks ? b->cluster->blocks[rank] : NULL;
}

/* What is kept for the next block: frames, local and shared memory. */
static int
warp_start(struct ptx_warp *w, struct ptx_block *b, unsigned index)
{
	struct ptx_warp kept = *w;
	unsigned left = b->nthreads - index * PTX_LANES;

	memset(w, 0, sizeof(*w));
	w->made = kept.made;
	w->spare = kept.made;
	for (struct ptx_frame *f = w->made; f; f = f->next_made)
		f->parent = f->next_made;
	w->local = kept.local;
	w->local_cap = kept.local_cap;
	w->block = b;
	w->index = index;
	w->exists = left >= PTX_LANES ? ~0u : (1u << left) - 1;
	if (ptx_frame_push(w, b->grid->func, NULL, w->exists))
		return -1;
	ptx_lanes_park(w, w->live, 0);
	w->live = 0;
	return 0;
}

static int
block_start(struct ptx_block *b)
{
	b->nexited = 0;
	memset(b->bars, 0, sizeof(b->bars));
	memset(b->shared, 0, b->shared_size);
	for (unsigned k = 0; k < b->nwarps; k++) {
		if (warp_start(&b->warps[k], b, k))
			return -1;
	}
	return 0;
}

int
ptx_cluster_start(struct ptx_cluster *c, uint64_t index)
{
	const struct ptx_launch *l = &c->grid->launch;
	uint64_t nx = l->grid[0] / l->cluster[0];
	uint64_t ny = l->grid[1] / l->cluster[1];
	uint64_t at[3] = { index % nx, index / nx % ny, index / nx / ny };

	c->arrived = 0;
	for (unsigned k = 0; k < c->nblocks; k++) {
		struct ptx_block *b = c->blocks[k];
		unsigned in[3] = {
			k % l->cluster[0],
			k / l->cluster[0] % l->cluster[1],
			k / l->cluster[0] / l->cluster[1],
		};

		for (unsigned d = 0; d < 3; d++)
			b->id[d] = (uint32_t)at[d] * l->cluster[d] + in[d];
		b->linear = b->id[0] + (uint64_t)l->grid[0] *
			    (b->id[1] + (uint64_t)l->grid[1] * b->id[2]);
		if (block_start(b))
			return -1;
	}
	return 0;
}

struct turn {
	bool has_run, has_worked, has_ended;
};

static void
block_turn(struct ptx_block *b, struct ptx_thread *t, struct turn *turn)
{
	for (unsigned k = 0; k < b->nwarps; k++) {
		struct ptx_warp *w = &b->warps[k];

		if (!ptx_warp_can_run(w))
			continue;
		w->thread = t;
		ptx_warp_run(w, QUANTUM);
		turn->has_run = true;
		/* Ended, or at a barrier, or computing: not a spin. */
		if (!ptx_warp_can_run(w) || w->spins < QUANTUM / SPIN_SHARE)
			turn->has_worked = true;
	}
	if (b->nexited < b->nthreads)
		turn->has_ended = false;
}

bool
ptx_cluster_run(struct ptx_cluster *c, struct ptx_thread *t,
		uint64_t deadline_ns)
{
	for (;;) {
		struct turn turn = { .has_ended = true };

		for (unsigned k = 0; k < c->nblocks; k++)
			block_turn(c->blocks[k], t, &turn);
		if (turn.has_ended || atomic_load_explicit(
				&c->grid->is_stopping, memory_order_relaxed))
			return true;
		if (!turn.has_worked || ptx_now_ns() >= deadline_ns)
			return false;
	}
}
