/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments on their way to the worker.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/box.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/graph_branch.h"
#include "shim/graph_exec.h"
#include "shim/pool.h"
#include "shim_calls.h"

static CUresult
send_node(struct shim_chan *chan, uint64_t graph, const struct shim_item *item)
{
	const struct shim_work *work = &item->node->work;
	const struct shim_kernel_work *k = &work->kernel;

	if (item->kind == ITEM_EMPTY)
		return call_mpsGraphEmpty(chan, graph);
	if (item->box != NULL)
		return call_mpsGraphBox(chan, graph, item->box,
					sizeof(*item->box));
	if (item->kind == ITEM_COPY)
		return call_mpsGraphCopy(chan, graph, &item->copy,
					 sizeof(item->copy));
	switch (work->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return call_mpsGraphKernel(chan, graph, &k->head,
					   sizeof(k->head), k->params,
					   k->param_bytes, k->attrs,
					   k->head.nattrs * sizeof(*k->attrs));
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return call_mpsGraphCopy(chan, graph, &item->copy,
					 sizeof(item->copy));
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return call_mpsGraphFill(chan, graph, work->fill.dst,
					 work->fill.pitch,
					 work->fill.elementSize,
					 work->fill.value, work->fill.width,
					 work->fill.height);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return call_mpsGraphEmpty(chan, graph);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return call_mpsGraphEvent(chan, graph,
			(uintptr_t)work->event,
			work->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return call_mpsGraphBranch(chan, graph,
					   work->branch.condition,
					   work->branch.type,
					   work->branch.count);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* Is it of that segment, and sent at all? */
static bool
is_in(const struct shim_item *item, uint32_t depth)
{
	return item->depth == depth && !shim_item_is_step(item);
}

/* Those between items of one body. */
static CUresult
send_edges(struct shim_chan *chan, struct shim_segment *segment,
	   const struct shim_flat *flat, uint32_t depth, uint32_t body)
{
	struct graph_edge *edges = malloc(GRAPH_EDGES_MAX * sizeof(*edges));
	CUresult r = CUDA_SUCCESS;
	uint32_t n = 0;

	if (edges == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < flat->nedges && r == CUDA_SUCCESS; i++) {
		const struct shim_item_edge *e = &flat->edges[i];

		if (flat->items[e->from].body != body ||
		    !is_in(&flat->items[e->from], depth) ||
		    !is_in(&flat->items[e->to], depth))
			continue;
		edges[n++] = (struct graph_edge){
			.from = flat->items[e->from].index,
			.to = flat->items[e->to].index,
			.from_port = e->data.from_port,
			.to_port = e->data.to_port, .type = e->data.type,
		};
		segment->edges++;
		if (n == GRAPH_EDGES_MAX) {
			r = call_mpsGraphEdges(chan, segment->object.handle,
					       edges, n * sizeof(*edges));
			n = 0;
		}
	}
	if (r == CUDA_SUCCESS && n > 0)
		r = call_mpsGraphEdges(chan, segment->object.handle, edges,
				       n * sizeof(*edges));
	free(edges);
	return r;
}

void
shim_segment_drop(struct shim_chan *chan, struct shim_segment *segment)
{
	if (segment == NULL)
		return;
	/* First there, then here: see stream.c. */
	call_mpsGraphEnd(chan, segment->object.handle);
	shim_object_remove(HANDLE_EXEC, segment->object.handle);
	free(segment);
}

/* The nodes and edges that follow are of this body. Counted with the nodes, as
 * whoever instantiates has to wait for it, too. */
static CUresult
send_into(struct shim_chan *chan, struct shim_segment *segment, uint32_t body)
{
	segment->nodes++;
	return call_mpsGraphInto(chan, segment->object.handle, body);
}

static CUresult
send_items(struct shim_chan *chan, struct shim_segment *segment,
	   const struct shim_flat *flat, uint32_t depth, uint32_t *body)
{
	uint64_t handle = segment->object.handle;
	CUresult r = CUDA_SUCCESS;

	for (uint32_t i = 0; i < flat->count && r == CUDA_SUCCESS; i++) {
		if (!is_in(&flat->items[i], depth))
			continue;
		if (flat->items[i].body != *body) {
			*body = flat->items[i].body;
			r = send_into(chan, segment, *body);
		}
		if (r == CUDA_SUCCESS)
			r = send_node(chan, handle, &flat->items[i]);
		segment->nodes++;
	}
	return r;
}

static CUresult
send_parts(struct shim_chan *chan, struct shim_segment *segment,
	   const struct shim_flat *flat, uint32_t depth)
{
	uint32_t body = 0;
	CUresult r = send_items(chan, segment, flat, depth, &body);

	for (uint32_t i = 0; i <= flat->nowners && r == CUDA_SUCCESS; i++) {
		if (i != body)
			r = send_into(chan, segment, i);
		body = i;
		if (r == CUDA_SUCCESS)
			r = send_edges(chan, segment, flat, depth, i);
		if (flat->branch_depth != depth)
			break;
	}
	return r;
}

CUresult
shim_segment_send(struct shim_chan *chan, const struct shim_flat *flat,
		  uint32_t depth, const struct shim_home *home,
		  struct shim_segment **out_segment)
{
	struct shim_segment *segment = calloc(1, sizeof(*segment));
	uint64_t handle;
	CUresult r;

	if (segment == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	segment->is_segment = true;
	if (shim_object_add(HANDLE_EXEC, &segment->object) != 0) {
		free(segment);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	handle = segment->object.handle;
	r = call_mpsGraphBegin(chan, &handle);
	if (r != CUDA_SUCCESS) {
		shim_object_remove(HANDLE_EXEC, handle);
		free(segment);
		return r;
	}
	if (home != NULL && depth == flat->branch_depth)
		r = call_mpsGraphAdopt(chan, handle,
				       home->segment->object.handle);
	if (r == CUDA_SUCCESS)
		r = send_parts(chan, segment, flat, depth);
	if (r != CUDA_SUCCESS) {
		shim_segment_drop(chan, segment);
		return r;
	}
	*out_segment = segment;
	return CUDA_SUCCESS;
}

static bool
is_empty(const struct shim_flat *flat, uint32_t depth)
{
	for (uint32_t i = 0; i < flat->count; i++) {
		if (is_in(&flat->items[i], depth))
			return false;
	}
	return true;
}

/* Those that the program has switched off. */
static CUresult
disable(struct shim_chan *chan, const struct shim_flat *flat, uint32_t depth,
	const struct shim_segment *segment)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t i = 0; i < flat->count && r == CUDA_SUCCESS; i++) {
		if (is_in(&flat->items[i], depth) && flat->items[i].disabled)
			r = call_mpsGraphEnable(chan, segment->object.handle,
						flat->items[i].index, 0);
	}
	return r;
}

static CUresult
make_one(struct shim_chan *chan, const struct shim_flat *flat, uint32_t depth,
	 const struct shim_home *home, unsigned long long flags,
	 struct shim_segment **out)
{
	CUresult r;

	if (is_empty(flat, depth))
		return CUDA_SUCCESS;
	r = shim_segment_send(chan, flat, depth, home, out);
	if (r == CUDA_SUCCESS)
		r = call_mpsGraphInstantiate(chan, (*out)->object.handle,
					     (*out)->nodes, (*out)->edges,
					     flags);
	return r == CUDA_SUCCESS ? disable(chan, flat, depth, *out) : r;
}

CUresult
shim_segments_make(struct shim_chan *chan, const struct shim_flat *flat,
		   const struct shim_home *home, unsigned long long flags,
		   struct shim_segment ***out_segments)
{
	struct shim_segment **segments = calloc(flat->depths,
						sizeof(*segments));
	CUresult r = CUDA_SUCCESS;

	if (segments == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < flat->depths && r == CUDA_SUCCESS; i++)
		r = make_one(chan, flat, i, home, flags, &segments[i]);
	if (r != CUDA_SUCCESS) {
		shim_segments_end(chan, segments, flat->depths);
		return r;
	}
	*out_segments = segments;
	return CUDA_SUCCESS;
}

void
shim_segments_end(struct shim_chan *chan, struct shim_segment **segments,
		  uint32_t count)
{
	for (uint32_t i = 0; segments != NULL && i < count; i++)
		shim_segment_drop(chan, segments[i]);
	free(segments);
}
