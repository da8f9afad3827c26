/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From nodes to what is sent: children and host steps taken apart.
 */
#include "shim/graph_exec.h"

#include <stdlib.h>
#include <string.h>

#include "proto/box.h"
#include "shim/copy.h"
#include "shim/ctx.h"
#include "shim/mem.h"

#define NONE UINT32_MAX

struct flattening {
	struct shim_flat *flat;
	struct shim_context *ctx;
	uint32_t body;
};

/* ---- items and edges ---- */

static CUresult
add_item(struct flattening *f, enum shim_item_kind kind,
	 struct shim_node *node, uint32_t *out)
{
	struct shim_flat *flat = f->flat;
	struct shim_item *grown;

	if (flat->count == flat->room) {
		uint32_t room = flat->room ? flat->room * 2 : 16;

		if (flat->count >= GRAPH_NODES_MAX)
			return CUDA_ERROR_OUT_OF_MEMORY;
		grown = realloc(flat->items, room * sizeof(*grown));
		if (grown == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		flat->items = grown;
		flat->room = room;
	}
	grown = &flat->items[flat->count];
	memset(grown, 0, sizeof(*grown));
	grown->kind = kind;
	grown->node = node;
	grown->body = f->body;
	*out = flat->count++;
	return CUDA_SUCCESS;
}

static CUresult
add_edge(struct shim_flat *flat, uint32_t from, uint32_t to,
	 const CUgraphEdgeData *data)
{
	struct shim_item_edge *grown;

	if (flat->nedges == flat->edges_room) {
		uint32_t room = flat->edges_room ? flat->edges_room * 2 : 16;

		grown = realloc(flat->edges, room * sizeof(*grown));
		if (grown == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		flat->edges = grown;
		flat->edges_room = room;
	}
	grown = &flat->edges[flat->nedges++];
	memset(grown, 0, sizeof(*grown));
	grown->from = from;
	grown->to = to;
	if (data != NULL)
		grown->data = *data;
	return CUDA_SUCCESS;
}

/* ---- copies with an end that the worker does not reach ---- */

static void
pack_src(struct graph_copy *c, uint64_t base)
{
	c->src = base;
	c->src_pitch = c->width;
	c->src_height = c->height;
}

static void
pack_dst(struct graph_copy *c, uint64_t base)
{
	c->dst = base;
	c->dst_pitch = c->width;
	c->dst_height = c->height;
}

/* Into bounce memory here, and on from there, or the other way round. */
static CUresult
split_copy(struct flattening *f, struct shim_node *node,
	   const struct graph_copy *whole, bool from_here, uint32_t *out_first,
	   uint32_t *out_last)
{
	struct shim_item *items;
	uint32_t first, last;
	void *bounce;
	CUresult r;

	/* Nothing of the program's can run in the middle of a body. */
	if (f->body != 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = shim_host_alloc(f->ctx, whole->width * whole->height *
			    whole->depth, 0, &bounce);
	if (r != CUDA_SUCCESS)
		return r;
	r = add_item(f, from_here ? ITEM_HOST_COPY : ITEM_COPY, node, &first);
	if (r == CUDA_SUCCESS)
		r = add_item(f, from_here ? ITEM_COPY : ITEM_HOST_COPY, node,
			     &last);
	if (r == CUDA_SUCCESS)
		r = add_edge(f->flat, first, last, NULL);
	if (r != CUDA_SUCCESS) {
		shim_host_free(bounce);
		return r;
	}
	items = f->flat->items;
	items[first].copy = items[last].copy = *whole;
	pack_dst(&items[first].copy, (uintptr_t)bounce);
	pack_src(&items[last].copy, (uintptr_t)bounce);
	items[from_here ? first : last].bounce = bounce;
	f->flat->has_bounce = true;
	*out_first = first;
	*out_last = last;
	return CUDA_SUCCESS;
}

/* The memory of a box in one piece. */
static void
pack_end(const struct box *box, struct box_end *end, uint64_t base)
{
	end->where = base;
	end->pitch = box->width;
	end->rows = box->height;
	end->x = end->y = end->z = 0;
}

static uint64_t
first_byte(const struct box_end *end)
{
	return end->where + (end->z * end->rows + end->y) * end->pitch +
	       end->x;
}

/* A box whose array the worker reaches and whose memory it does not. */
static CUresult
split_box(struct flattening *f, struct shim_node *node, struct box *box,
	  bool from_here, uint32_t *first, uint32_t *last)
{
	struct box_end *end = from_here ? &box->src : &box->dst;
	struct graph_copy whole = {
		.dst = first_byte(end), .dst_pitch = end->pitch,
		.dst_height = end->rows, .src = first_byte(end),
		.src_pitch = end->pitch, .src_height = end->rows,
		.width = box->width, .height = box->height,
		.depth = box->depth,
	};
	CUresult r = split_copy(f, node, &whole, from_here, first, last);
	uint32_t far = from_here ? *last : *first;

	if (r != CUDA_SUCCESS) {
		free(box);
		return r;
	}
	pack_end(box, end, (uintptr_t)f->flat->items[from_here ? *first :
						     *last].bounce);
	f->flat->items[far].box = box;
	return CUDA_SUCCESS;
}

static CUresult
flatten_box(struct flattening *f, struct shim_node *node, uint32_t *first,
	    uint32_t *last)
{
	enum shim_place to, from;
	struct box *box = malloc(sizeof(*box));
	CUresult r;

	if (box == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = shim_copy_box(&node->work.copy, box, &to, &from);
	if (r == CUDA_SUCCESS && (shim_is_staged(to) || shim_is_staged(from)))
		return split_box(f, node, box, shim_is_staged(from), first,
				 last);
	if (r == CUDA_SUCCESS)
		r = add_item(f, ITEM_NODE, node, first);
	if (r != CUDA_SUCCESS) {
		free(box);
		return r;
	}
	f->flat->items[*first].box = box;
	*last = *first;
	return CUDA_SUCCESS;
}

static CUresult
flatten_copy(struct flattening *f, struct shim_node *node, uint32_t *first,
	     uint32_t *last)
{
	struct graph_copy whole;
	unsigned int flags;
	CUresult r;

	if (shim_copy_has_array(&node->work.copy))
		return flatten_box(f, node, first, last);
	r = shim_copy_linear(&node->work.copy, &whole, &flags);
	if (r != CUDA_SUCCESS)
		return r;
	if (flags == GRAPH_SRC_PAGEABLE || flags == GRAPH_DST_PAGEABLE)
		return split_copy(f, node, &whole, flags == GRAPH_SRC_PAGEABLE,
				  first, last);
	if (flags != 0 && f->body != 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = add_item(f, flags == 0 ? ITEM_NODE : ITEM_HOST_COPY, node, first);
	*last = *first;
	if (r == CUDA_SUCCESS)
		f->flat->items[*first].copy = whole;
	return r;
}

/* ---- graphs ---- */

static CUresult flatten(struct flattening *f, const struct shim_graph *graph,
			uint32_t entry, uint32_t exit);

static CUresult
flatten_child(struct flattening *f, struct shim_node *node, uint32_t *first,
	      uint32_t *last)
{
	CUresult r = add_item(f, ITEM_EMPTY, node, first);

	if (r == CUDA_SUCCESS)
		r = add_item(f, ITEM_EMPTY, node, last);
	if (r == CUDA_SUCCESS)
		r = add_edge(f->flat, *first, *last, NULL);
	return r != CUDA_SUCCESS ? r :
	       flatten(f, node->work.child, *first, *last);
}

/* The worker numbers bodies in the order in which it sees their nodes. */
static CUresult
add_owners(struct shim_flat *flat, uint32_t owner, uint32_t count)
{
	uint32_t *grown;

	if (flat->nowners + count >= GRAPH_BODIES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	grown = realloc(flat->owners, (flat->nowners + count) *
			sizeof(*grown));
	if (grown == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	flat->owners = grown;
	for (uint32_t i = 0; i < count; i++)
		grown[flat->nowners++] = owner;
	return CUDA_SUCCESS;
}

static CUresult
flatten_branch(struct flattening *f, struct shim_node *node, uint32_t *first)
{
	const struct shim_branch_work *branch = &node->work.branch;
	uint32_t outside = f->body, body;
	CUresult r = add_item(f, ITEM_NODE, node, first);

	body = f->flat->nowners + 1;
	if (r == CUDA_SUCCESS)
		r = add_owners(f->flat, *first, branch->count);
	for (uint32_t i = 0; i < branch->count && r == CUDA_SUCCESS; i++) {
		f->body = body + i;
		r = flatten(f, branch->bodies[i], NONE, NONE);
	}
	f->body = outside;
	return r;
}

static CUresult
flatten_node(struct flattening *f, struct shim_node *node, uint32_t *first,
	     uint32_t *last)
{
	CUresult r;

	switch (node->work.type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return flatten_copy(f, node, first, last);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return flatten_child(f, node, first, last);
	case CU_GRAPH_NODE_TYPE_HOST:
		r = f->body != 0 ? CUDA_ERROR_NOT_SUPPORTED :
		    add_item(f, ITEM_HOST, node, first);
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		r = f->body != 0 ? CUDA_ERROR_NOT_SUPPORTED :
		    add_item(f, ITEM_MEMOPS, node, first);
		break;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		r = flatten_branch(f, node, first);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		f->flat->has_memory = true;
		r = f->body != 0 ? CUDA_ERROR_NOT_SUPPORTED :
		    add_item(f, ITEM_EMPTY, node, first);
		break;
	default:
		r = add_item(f, ITEM_NODE, node, first);
		break;
	}
	*last = *first;
	return r;
}

/* Edge data mean something between two nodes only, not where one of them has
 * become several items. */
static CUresult
flatten_edges(struct flattening *f, const struct shim_node *node,
	      const uint32_t *first, const uint32_t *last, uint8_t *followed)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t k = 0; k < node->deps.count && r == CUDA_SUCCESS; k++) {
		const struct shim_edge *edge = &node->deps.items[k];
		uint32_t from = last[edge->from->index];
		uint32_t to = first[node->index];
		bool plain = f->flat->items[from].kind != ITEM_NODE ||
			     f->flat->items[to].kind != ITEM_NODE;

		followed[edge->from->index] = 1;
		r = add_edge(f->flat, from, to, plain ? NULL : &edge->data);
	}
	return r;
}

static CUresult
flatten_with(struct flattening *f, const struct shim_graph *graph,
	     uint32_t entry, uint32_t exit, uint32_t *first, uint32_t *last,
	     uint8_t *followed)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t i = 0; i < graph->count && r == CUDA_SUCCESS; i++)
		r = flatten_node(f, graph->nodes[i], &first[i], &last[i]);
	for (uint32_t i = 0; i < graph->count && r == CUDA_SUCCESS; i++) {
		r = flatten_edges(f, graph->nodes[i], first, last, followed);
		if (r == CUDA_SUCCESS && entry != NONE &&
		    graph->nodes[i]->deps.count == 0)
			r = add_edge(f->flat, entry, first[i], NULL);
	}
	for (uint32_t i = 0; i < graph->count && r == CUDA_SUCCESS; i++) {
		if (exit != NONE && !followed[i])
			r = add_edge(f->flat, last[i], exit, NULL);
	}
	return r;
}

static CUresult
flatten(struct flattening *f, const struct shim_graph *graph, uint32_t entry,
	uint32_t exit)
{
	uint32_t *first = calloc(graph->count + 1, sizeof(*first));
	uint32_t *last = calloc(graph->count + 1, sizeof(*last));
	uint8_t *followed = calloc(graph->count + 1, 1);
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (first != NULL && last != NULL && followed != NULL)
		r = flatten_with(f, graph, entry, exit, first, last, followed);
	free(first);
	free(last);
	free(followed);
	return r;
}

/* ---- bodies ---- */

/* What is in a body is in the segment of the node whose body it is. An owner
 * has a lower number than what it owns. */
static CUresult
place_bodies(struct shim_flat *flat)
{
	bool found = false;

	for (uint32_t i = 0; i < flat->count; i++) {
		struct shim_item *item = &flat->items[i];

		if (item->body != 0)
			item->depth =
				flat->items[flat->owners[item->body - 1]].depth;
		if (item->node->work.type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
			continue;
		if (found && item->depth != flat->branch_depth)
			return CUDA_ERROR_NOT_SUPPORTED;
		flat->branch_depth = item->depth;
		found = true;
	}
	return CUDA_SUCCESS;
}

static bool
is_condition(const struct shim_flat *flat, uint64_t value)
{
	bool found = false;

	for (uint32_t i = 0; i < flat->nowners && !found; i++)
		found = flat->items[flat->owners[i]].node->work.branch
				.condition == value;
	return found;
}

/* The driver gives conditions their defaults when it begins the segment with
 * the conditional nodes: a kernel that sets one must not be in an earlier
 * one. */
static CUresult
check_setters(const struct shim_flat *flat)
{
	for (uint32_t i = 0; i < flat->count && flat->nowners > 0; i++) {
		const struct shim_item *item = &flat->items[i];
		const struct shim_kernel_work *k = &item->node->work.kernel;
		uint64_t value;

		if (item->depth >= flat->branch_depth ||
		    item->node->work.type != CU_GRAPH_NODE_TYPE_KERNEL)
			continue;
		for (uint32_t at = 0; at + 8 <= k->param_bytes; at += 8) {
			memcpy(&value, k->params + at, sizeof(value));
			if (is_condition(flat, value))
				return CUDA_ERROR_NOT_SUPPORTED;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult
number(struct shim_flat *flat)
{
	uint32_t *next;

	for (uint32_t i = 0; i < flat->count; i++) {
		if (flat->items[i].depth >= flat->depths)
			flat->depths = flat->items[i].depth + 1;
		flat->has_host |= shim_item_is_step(&flat->items[i]);
		flat->has_events |= flat->items[i].node->work.type ==
				    CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	}
	if (flat->depths == 0)
		flat->depths = 1;
	next = calloc(flat->depths, sizeof(*next));
	if (next == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < flat->count; i++) {
		struct shim_item *item = &flat->items[i];

		if (!shim_item_is_step(item))
			item->index = next[item->depth]++;
	}
	free(next);
	return CUDA_SUCCESS;
}

/* ---- the whole ---- */

void
shim_flat_free(struct shim_flat *flat)
{
	for (uint32_t i = 0; i < flat->count; i++) {
		if (flat->items[i].bounce != NULL)
			shim_host_free(flat->items[i].bounce);
		free(flat->items[i].box);
	}
	free(flat->items);
	free(flat->edges);
	free(flat->owners);
	*flat = (struct shim_flat){0};
}

CUresult
shim_flat_make(const struct shim_graph *graph, struct shim_context *ctx,
	       struct shim_flat *out)
{
	struct flattening f = { .flat = out, .ctx = ctx };
	CUresult r;

	*out = (struct shim_flat){0};
	r = flatten(&f, graph, NONE, NONE);
	if (r == CUDA_SUCCESS)
		r = shim_flat_order(out);
	if (r == CUDA_SUCCESS)
		r = place_bodies(out);
	if (r == CUDA_SUCCESS)
		r = check_setters(out);
	if (r == CUDA_SUCCESS)
		r = number(out);
	if (r != CUDA_SUCCESS)
		shim_flat_free(out);
	return r;
}

void
shim_copy_rows(const struct graph_copy *c)
{
	for (uint64_t z = 0; z < c->depth; z++) {
		for (uint64_t y = 0; y < c->height; y++) {
			uint64_t to = (z * c->dst_height + y) * c->dst_pitch;
			uint64_t from = (z * c->src_height + y) * c->src_pitch;

			memmove((void *)(uintptr_t)(c->dst + to),
				(const void *)(uintptr_t)(c->src + from),
				c->width);
		}
	}
}
