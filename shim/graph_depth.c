/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How deep in a graph its items are: the number of host steps before them, and
 * with it the segment.
 */
#include "shim/graph_exec.h"

#include <stdlib.h>
#include <string.h>

#include "shim/memop.h"

/* For each item, where its outgoing edges begin in `out`. */
static void
sort_edges(const struct shim_flat *flat, uint32_t *begin, uint32_t *out)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < flat->nedges; i++)
		begin[flat->edges[i].from]++;
	for (uint32_t i = 0; i < flat->count; i++) {
		uint32_t n = begin[i];

		begin[i] = at;
		at += n;
	}
	begin[flat->count] = at;
	/* Filled from the end: begin[] would move otherwise. */
	for (uint32_t i = 0; i < flat->nedges; i++)
		out[begin[flat->edges[i].from]++] = i;
	for (uint32_t i = flat->count; i > 0; i--)
		begin[i] = begin[i - 1];
	begin[0] = 0;
}

/* A way through all items, each after what it depends on. */
struct walk {
	struct shim_flat *flat;
	uint32_t *begin, *out;       /* sort_edges() */
	uint32_t *left;              /* of an item: edges not yet gone */
	uint32_t *queue, head, tail; /* whose turn it is */
	uint32_t *late, nlate;       /* waits, whose turn comes last */
	uint32_t deepest;
};

static bool
waits(const struct shim_item *item)
{
	return item->kind == ITEM_MEMOPS &&
	       shim_memops_wait(&item->node->work.memops);
}

static void
reach(struct walk *w, uint32_t i)
{
	if (waits(&w->flat->items[i]))
		w->late[w->nlate++] = i;
	else
		w->queue[w->tail++] = i;
}

static void
pass(struct walk *w, uint32_t i)
{
	const struct shim_item *item = &w->flat->items[i];
	uint32_t depth = item->depth + shim_item_is_step(item);

	if (w->deepest < item->depth)
		w->deepest = item->depth;
	for (uint32_t k = w->begin[i]; k < w->begin[i + 1]; k++) {
		uint32_t to = w->flat->edges[w->out[k]].to;

		if (w->flat->items[to].depth < depth)
			w->flat->items[to].depth = depth;
		if (--w->left[to] == 0)
			reach(w, to);
	}
}

/* Is there anything that this wait alone holds up? */
static bool
leads_on(const struct walk *w, uint32_t i)
{
	const CUDA_BATCH_MEM_OP_NODE_PARAMS *p =
		&w->flat->items[i].node->work.memops;

	for (uint32_t k = w->begin[i]; k < w->begin[i + 1]; k++) {
		uint32_t to = w->flat->edges[w->out[k]].to, mine = 0;

		for (uint32_t m = w->begin[i]; m < w->begin[i + 1]; m++)
			mine += w->flat->edges[w->out[m]].to == to;
		if (w->left[to] == mine)
			return true;
	}
	return !shim_memop_waits(&p->paramArray[p->count - 1]);
}

/*
 * What a wait waits for may come of anything in the graph that is not behind
 * it, so all of that goes first. Of several waits that leaves one order only
 * where none of them alone has something behind it.
 */
static CUresult
pass_late(struct walk *w)
{
	uint32_t n = w->nlate;

	for (uint32_t i = 0; i < n; i++) {
		if (n > 1 && leads_on(w, w->late[i]))
			return CUDA_ERROR_NOT_SUPPORTED;
		if (w->deepest < w->flat->items[w->late[i]].depth)
			w->deepest = w->flat->items[w->late[i]].depth;
	}
	for (uint32_t i = 0; i < n; i++) {
		w->flat->items[w->late[i]].depth = w->deepest;
		pass(w, w->late[i]);
	}
	w->nlate -= n;
	memmove(w->late, w->late + n, w->nlate * sizeof(*w->late));
	return CUDA_SUCCESS;
}

static CUresult
walk(struct walk *w)
{
	CUresult r = CUDA_SUCCESS;
	uint32_t passed = 0;

	for (uint32_t i = 0; i < w->flat->nedges; i++)
		w->left[w->flat->edges[i].to]++;
	for (uint32_t i = 0; i < w->flat->count; i++) {
		if (w->left[i] == 0)
			reach(w, i);
	}
	while (r == CUDA_SUCCESS && (w->head < w->tail || w->nlate > 0)) {
		if (w->head < w->tail) {
			pass(w, w->queue[w->head++]);
			passed++;
		} else {
			passed += w->nlate;
			r = pass_late(w);
		}
	}
	/* The others are in a circle. */
	return r == CUDA_SUCCESS && passed < w->flat->count ?
	       CUDA_ERROR_INVALID_VALUE : r;
}

CUresult
shim_flat_order(struct shim_flat *flat)
{
	struct walk w = {
		.flat = flat,
		.begin = calloc(flat->count + 1, sizeof(*w.begin)),
		.out = calloc(flat->nedges + 1, sizeof(*w.out)),
		.left = calloc(flat->count + 1, sizeof(*w.left)),
		.queue = calloc(flat->count + 1, sizeof(*w.queue)),
		.late = calloc(flat->count + 1, sizeof(*w.late)),
	};
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (w.begin != NULL && w.out != NULL && w.left != NULL &&
	    w.queue != NULL && w.late != NULL) {
		sort_edges(flat, w.begin, w.out);
		r = walk(&w);
	}
	free(w.begin);
	free(w.out);
	free(w.left);
	free(w.queue);
	free(w.late);
	return r;
}
