/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of graphs: slots, and who may allocate and free them when.
 */
#include "shim/graph_mem.h"

#include <stdlib.h>
#include <string.h>

#include "shim/capture.h"
#include "shim/capture_own.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/graph_exec.h"
#include "shim/process.h"
#include "shim/range.h"
#include "shim/supply.h"
#include "shim_impl.h"

/* What launches in one stream use one after the other. */
struct use {
	uint64_t stream, bytes;
};

/* Figures of a device. */
struct figures {
	uint64_t loose;              /* of slots that ended untrimmed */
	uint64_t used_high, held, held_high;
	struct use *uses;
	uint32_t count;
};

/* Under shim_graph_lock. */
static struct shim_slot *slots, *ended;
static struct figures figures[SHIM_MAX_DEVICES];

/* ---- slots ---- */

void
shim_slot_put_locked(struct shim_slot *slot)
{
	struct shim_slot **link = &slots;
	struct figures *f;

	if (slot == NULL || --slot->refs > 0)
		return;
	f = &figures[slot->ctx->device];
	f->held -= slot->size;
	if (slot->touched)
		f->loose += slot->size;
	while (*link != slot)
		link = &(*link)->next;
	*link = slot->next;
	slot->next = ended;
	ended = slot;
}

void
shim_slots_end(void)
{
	struct shim_slot *slot, *next;
	struct shim_range range;

	pthread_mutex_lock(&shim_graph_lock);
	slot = ended;
	ended = NULL;
	pthread_mutex_unlock(&shim_graph_lock);
	for (; slot != NULL; slot = next) {
		next = slot->next;
		if (slot->block != NULL) {
			shim_range_remove(slot->address, RANGE_GRAPH, &range);
			shim_supply_free(slot->ctx->chan, false, slot->block);
		}
		free(slot);
	}
}

void
shim_slots_drop_context(struct shim_context *ctx)
{
	struct shim_range range;
	struct shim_slot *slot;

	while (!shim_range_remove_any(ctx, RANGE_GRAPH, 0, &range)) {
		pthread_mutex_lock(&shim_graph_lock);
		for (slot = slots; slot != NULL; slot = slot->next) {
			if (slot->address == range.start)
				slot->block = NULL;
		}
		pthread_mutex_unlock(&shim_graph_lock);
		shim_supply_free(ctx->chan, false, range.block);
	}
}

static struct shim_slot *
find_locked(uint64_t address)
{
	struct shim_slot *slot = slots;

	while (slot != NULL && slot->address != address)
		slot = slot->next;
	return slot;
}

/* With one reference. */
static CUresult
make_slot(struct shim_context *ctx, uint64_t size, struct shim_slot **out)
{
	struct shim_slot *slot = calloc(1, sizeof(*slot));
	struct figures *f = &figures[ctx->device];
	struct shim_range range;
	CUresult r;

	if (slot == NULL ||
	    size > shim_process.devices[ctx->device].info->total_memory) {
		free(slot);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = shim_supply_alloc(ctx->chan, false, size, &slot->block);
	if (r != CUDA_SUCCESS) {
		free(slot);
		return r;
	}
	range = (struct shim_range){
		.start = slot->block->address, .size = size,
		.kind = RANGE_GRAPH, .device = ctx->device, .ctx = ctx,
		.block = slot->block,
	};
	if (shim_range_add(&range)) {
		shim_supply_free(ctx->chan, false, slot->block);
		free(slot);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	slot->refs = 1;
	slot->address = range.start;
	slot->size = size;
	slot->ctx = ctx;
	pthread_mutex_lock(&shim_graph_lock);
	slot->next = slots;
	slots = slot;
	f->held += size;
	if (f->held > f->held_high)
		f->held_high = f->held;
	pthread_mutex_unlock(&shim_graph_lock);
	*out = slot;
	return CUDA_SUCCESS;
}

CUresult
shim_slot_free(uint64_t address)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct shim_slot *slot;

	pthread_mutex_lock(&shim_graph_lock);
	slot = find_locked(address);
	if (slot != NULL && slot->allocated) {
		slot->allocated = false;
		shim_slot_put_locked(slot);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	shim_slots_end();
	return r;
}

/* ---- reuse ---- */

struct search {
	uint64_t size;
	uint8_t *seen;               /* nodes of the graph */
	struct shim_slot *found;
};

/* Whoever comes after the last free has the slot for itself. */
static void
look_back(struct search *s, const struct shim_node *node)
{
	struct shim_slot *slot = node->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE ?
				 node->work.memory.slot : NULL;

	if (s->found != NULL || s->seen[node->index])
		return;
	s->seen[node->index] = 1;
	if (slot != NULL && slot->last_free == node->id && !slot->open &&
	    slot->graph == node->graph->id && slot->size == s->size)
		s->found = slot;
	for (uint32_t i = 0; i < node->deps.count; i++)
		look_back(s, node->deps.items[i].from);
}

static struct shim_slot *
find_reuse_locked(const struct shim_graph *graph,
		  const struct shim_edges *after, uint64_t size)
{
	struct search s = { .size = size };

	s.seen = calloc(graph->count + 1, 1);
	if (s.seen == NULL)
		return NULL;
	for (uint32_t i = 0; i < after->count; i++) {
		if (after->items[i].from->graph == graph)
			look_back(&s, after->items[i].from);
	}
	free(s.seen);
	return s.found;
}

/* ---- nodes ---- */

bool
shim_graph_allocates(const struct shim_graph *graph)
{
	bool found = false;

	for (uint32_t i = 0; i < graph->count && !found; i++) {
		const struct shim_work *work = &graph->nodes[i]->work;

		found = work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
			work->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
			(work->type == CU_GRAPH_NODE_TYPE_GRAPH &&
			 shim_graph_allocates(work->child));
	}
	return found;
}

static CUresult
check_access(const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	if (p->accessDescCount > 0 && p->accessDescs == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < p->accessDescCount; i++) {
		const CUmemAccessDesc *d = &p->accessDescs[i];

		if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !shim_device_exists(d->location.id))
			return CUDA_ERROR_INVALID_VALUE;
		/* One worker a device: no other one reaches its memory. */
		if (d->location.id != p->poolProps.location.id)
			return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

static CUresult
check_params(const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	const CUmemLocation *at = &p->poolProps.location;

	if (p->bytesize == 0 ||
	    p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    at->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !shim_device_exists(at->id))
		return CUDA_ERROR_INVALID_VALUE;
	/* Memory of graphs is exported by no driver. */
	if (at->id != shim_current->device ||
	    p->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return check_access(p);
}

/* A reference of its own to the slot. */
static CUresult
work_of(struct shim_slot *slot, CUgraphNodeType type,
	const CUDA_MEM_ALLOC_NODE_PARAMS *p, struct shim_work *out)
{
	size_t size = p == NULL ? 0 :
		      p->accessDescCount * sizeof(*p->accessDescs);

	memset(out, 0, sizeof(*out));
	out->type = type;
	if (size > 0) {
		out->memory.access = malloc(size);
		if (out->memory.access == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(out->memory.access, p->accessDescs, size);
	}
	if (p != NULL)
		out->memory.params = *p;
	out->memory.params.accessDescs = out->memory.access;
	out->memory.params.dptr = slot->address;
	out->memory.slot = slot;
	slot->refs++;
	return CUDA_SUCCESS;
}

static void
made_locked(struct shim_node *node)
{
	struct shim_slot *slot = node->work.memory.slot;

	slot->graph = node->graph->id;
	slot->open = true;
}

/* May a node of that graph free it? */
static CUresult
may_free_locked(const struct shim_slot *slot, const struct shim_graph *graph)
{
	if (slot == NULL || !slot->open ||
	    (slot->elsewhere && slot->graph == graph->id))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static void
freed_locked(struct shim_node *node)
{
	struct shim_slot *slot = node->work.memory.slot;

	if (slot->graph != node->graph->id) {
		slot->elsewhere = true;
		return;
	}
	slot->open = false;
	slot->last_free = node->id;
}

/* fresh: what is used unless a slot can be used again; NULL: there is none,
 * and *out_slot stays NULL if one is needed. */
static CUresult
alloc_locked(struct shim_graph *graph, const struct shim_edges *after,
	     const CUDA_MEM_ALLOC_NODE_PARAMS *p, struct shim_slot *fresh,
	     struct shim_work *out, struct shim_slot **out_slot)
{
	*out_slot = find_reuse_locked(graph, after, p->bytesize);
	if (*out_slot == NULL)
		*out_slot = fresh;
	return *out_slot == NULL ? CUDA_SUCCESS :
	       work_of(*out_slot, CU_GRAPH_NODE_TYPE_MEM_ALLOC, p, out);
}

static CUresult
try_alloc_locked(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps,
		 const CUgraphEdgeData *data, size_t count,
		 const CUDA_MEM_ALLOC_NODE_PARAMS *p, struct shim_slot *fresh,
		 struct shim_slot **out_slot)
{
	struct shim_graph *graph = shim_graph_get_locked(handle);
	struct shim_edges after = {0};
	struct shim_node *node;
	struct shim_work work;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	*out_slot = NULL;
	if (graph != NULL)
		r = shim_deps_read_locked(deps, data, count, &after);
	if (r == CUDA_SUCCESS)
		r = alloc_locked(graph, &after, p, fresh, &work, out_slot);
	shim_edges_clear(&after);
	if (r != CUDA_SUCCESS || *out_slot == NULL)
		return r;
	r = shim_graph_add_locked(handle, deps, data, count, &work, &node);
	if (r == CUDA_SUCCESS) {
		made_locked(node);
		*out = shim_node_handle_locked(node);
	}
	return r;
}

CUresult
shim_graph_add_alloc(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
		     const CUgraphEdgeData *data, size_t count,
		     CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	struct shim_slot *fresh = NULL, *slot;
	CUresult r;

	if (out == NULL || p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_params(p);
	for (int i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
		pthread_mutex_lock(&shim_graph_lock);
		r = try_alloc_locked(out, graph, deps, data, count, p, fresh,
				     &slot);
		if (r == CUDA_SUCCESS && slot != NULL)
			p->dptr = slot->address;
		pthread_mutex_unlock(&shim_graph_lock);
		if (r != CUDA_SUCCESS || slot != NULL)
			break;
		r = make_slot(shim_current, p->bytesize, &fresh);
	}
	pthread_mutex_lock(&shim_graph_lock);
	shim_slot_put_locked(fresh);
	pthread_mutex_unlock(&shim_graph_lock);
	shim_slots_end();
	return r;
}

CUresult
shim_graph_add_free(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps,
		    const CUgraphEdgeData *data, size_t count,
		    CUdeviceptr address)
{
	struct shim_graph *graph;
	struct shim_slot *slot;
	struct shim_node *node;
	struct shim_work work;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (out == NULL)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(handle);
	slot = find_locked(address);
	if (graph != NULL)
		r = may_free_locked(slot, graph);
	if (r == CUDA_SUCCESS)
		r = work_of(slot, CU_GRAPH_NODE_TYPE_MEM_FREE, NULL, &work);
	if (r == CUDA_SUCCESS)
		r = shim_graph_add_locked(handle, deps, data, count, &work,
					  &node);
	if (r == CUDA_SUCCESS) {
		freed_locked(node);
		*out = shim_node_handle_locked(node);
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

/* ---- capture ---- */

static CUresult
try_capture_locked(struct shim_stream *stream,
		   const CUDA_MEM_ALLOC_NODE_PARAMS *p,
		   struct shim_slot *fresh, struct shim_slot **out_slot)
{
	struct shim_capture *c;
	struct shim_member *m = shim_capture_member_locked(stream, &c);
	struct shim_node *node;
	struct shim_work work;
	CUresult r;

	*out_slot = NULL;
	if (m == NULL || c->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	r = alloc_locked(c->graph, &m->deps, p, fresh, &work, out_slot);
	if (r != CUDA_SUCCESS || *out_slot == NULL)
		return r;
	r = shim_capture_add_locked(stream, &work, &node);
	if (r == CUDA_SUCCESS)
		made_locked(node);
	return r;
}

CUresult
shim_capture_alloc(struct shim_stream *stream, int device, uint64_t size,
		   uint64_t *out_address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = {
		.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.poolProps.location.id = device,
		.bytesize = size,
	};
	struct shim_slot *fresh = NULL, *slot;
	CUresult r = CUDA_SUCCESS;

	for (int i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
		pthread_mutex_lock(&shim_graph_lock);
		r = try_capture_locked(stream, &p, fresh, &slot);
		if (r == CUDA_SUCCESS && slot != NULL)
			*out_address = slot->address;
		pthread_mutex_unlock(&shim_graph_lock);
		if (r != CUDA_SUCCESS || slot != NULL)
			break;
		r = make_slot(shim_current, size, &fresh);
	}
	pthread_mutex_lock(&shim_graph_lock);
	shim_slot_put_locked(fresh);
	pthread_mutex_unlock(&shim_graph_lock);
	shim_slots_end();
	return r;
}

CUresult
shim_capture_free(struct shim_stream *stream, CUdeviceptr address)
{
	struct shim_capture *c;
	struct shim_member *m;
	struct shim_slot *slot;
	struct shim_node *node;
	struct shim_work work;
	CUresult r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

	pthread_mutex_lock(&shim_graph_lock);
	m = shim_capture_member_locked(stream, &c);
	slot = find_locked(address);
	if (m != NULL && !c->invalid)
		r = may_free_locked(slot, c->graph);
	if (r == CUDA_SUCCESS)
		r = work_of(slot, CU_GRAPH_NODE_TYPE_MEM_FREE, NULL, &work);
	if (r == CUDA_SUCCESS)
		r = shim_capture_add_locked(stream, &work, &node);
	if (r == CUDA_SUCCESS)
		freed_locked(node);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

/* ---- launches ---- */

static struct shim_slot *
slot_of(const struct shim_item *item)
{
	CUgraphNodeType type = item->node->work.type;

	return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	       type == CU_GRAPH_NODE_TYPE_MEM_FREE ?
	       item->node->work.memory.slot : NULL;
}

static void
sum_up_locked(const struct shim_flat *flat)
{
	for (uint32_t i = 0; i < flat->count; i++) {
		struct shim_slot *slot = slot_of(&flat->items[i]);

		if (slot != NULL) {
			slot->balance = 0;
			slot->made = false;
		}
	}
	for (uint32_t i = 0; i < flat->count; i++) {
		struct shim_slot *slot = slot_of(&flat->items[i]);

		if (slot == NULL)
			continue;
		if (flat->items[i].node->work.type ==
		    CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
			slot->made = true;
			slot->balance++;
		} else {
			slot->balance--;
		}
	}
}

static CUresult
check_locked(const struct shim_flat *flat, bool auto_free)
{
	for (uint32_t i = 0; i < flat->count; i++) {
		const struct shim_slot *slot = slot_of(&flat->items[i]);

		if (slot == NULL)
			continue;
		if (slot->block == NULL ||
		    (slot->made && slot->allocated && !auto_free) ||
		    (slot->balance < 0 && !slot->allocated))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static void
set_locked(struct shim_slot *slot)
{
	bool allocated = slot->balance > 0;

	slot->touched |= allocated;
	if (allocated && !slot->allocated)
		slot->refs++;
	else if (!allocated && slot->allocated)
		slot->refs--;        /* the node has one */
	slot->allocated = allocated;
}

static struct use *
use_of_locked(struct figures *f, uint64_t stream)
{
	struct use *grown;

	for (uint32_t i = 0; i < f->count; i++) {
		if (f->uses[i].stream == stream)
			return &f->uses[i];
	}
	grown = realloc(f->uses, (f->count + 1) * sizeof(*grown));
	if (grown == NULL)
		return NULL;
	f->uses = grown;
	grown[f->count] = (struct use){ .stream = stream };
	return &grown[f->count++];
}

static uint64_t
used_locked(int device)
{
	const struct figures *f = &figures[device];
	uint64_t used = f->loose;

	for (const struct shim_slot *s = slots; s != NULL; s = s->next)
		used += s->touched && s->ctx->device == device ? s->size : 0;
	for (uint32_t i = 0; i < f->count; i++)
		used += f->uses[i].bytes;
	return used;
}

CUresult
shim_slots_launch(struct shim_exec *exec, const struct shim_stream *stream)
{
	const struct shim_flat *flat = &exec->flat;
	struct figures *f = &figures[exec->object.ctx->device];
	uint64_t inside = 0, used;
	struct use *use;
	CUresult r;

	if (!flat->has_memory)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&shim_graph_lock);
	sum_up_locked(flat);
	r = check_locked(flat, exec->flags &
			 CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	for (uint32_t i = 0; i < flat->count && r == CUDA_SUCCESS; i++) {
		struct shim_slot *slot = slot_of(&flat->items[i]);

		if (slot == NULL)
			continue;
		if (slot->made && slot->balance == 0)
			inside += slot->size;
		slot->made = false;  /* counted once */
		set_locked(slot);
	}
	use = r == CUDA_SUCCESS ? use_of_locked(f, stream->object.handle) :
				  NULL;
	if (use != NULL && inside > use->bytes)
		use->bytes = inside;
	used = used_locked(exec->object.ctx->device);
	if (used > f->used_high)
		f->used_high = used;
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

/* ---- entry points ---- */

CUresult
shim_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			    const CUgraphNode *dependencies,
			    size_t numDependencies,
			    CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	return shim_graph_add_alloc(phGraphNode, hGraph, dependencies, NULL,
				    numDependencies, nodeParams);
}

CUresult
shim_cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			   const CUgraphNode *dependencies,
			   size_t numDependencies, CUdeviceptr dptr)
{
	return shim_graph_add_free(phGraphNode, hGraph, dependencies, NULL,
				   numDependencies, dptr);
}

static CUresult
read_node(CUgraphNode handle, CUgraphNodeType type,
	  CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
	const struct shim_node *node;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&shim_graph_lock);
	node = shim_node_get_locked(handle);
	if (node != NULL && node->work.type == type) {
		*out = node->work.memory.params;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
				  CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	return params_out == NULL ? CUDA_ERROR_INVALID_VALUE :
	       read_node(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params_out);
}

CUresult
shim_cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p;
	CUresult r = dptr_out == NULL ? CUDA_ERROR_INVALID_VALUE :
		     read_node(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, &p);

	if (r == CUDA_SUCCESS)
		*dptr_out = p.dptr;
	return r;
}

/* What is set aside for a graph stays until that ends; the figures are of what
 * launches have used. */
CUresult
shim_cuDeviceGraphMemTrim(CUdevice device)
{
	struct figures *f;

	if (!shim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	f = &figures[device];
	pthread_mutex_lock(&shim_graph_lock);
	f->loose = 0;
	f->count = 0;
	for (struct shim_slot *s = slots; s != NULL; s = s->next) {
		if (s->ctx->device == device)
			s->touched = s->allocated;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return CUDA_SUCCESS;
}

CUresult
shim_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
				  void *value)
{
	cuuint64_t *out = value;
	CUresult r = CUDA_SUCCESS;
	struct figures *f;

	if (!shim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	f = &figures[device];
	pthread_mutex_lock(&shim_graph_lock);
	switch (attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		*out = used_locked(device);
		break;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		*out = f->used_high;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		*out = f->held;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		*out = f->held_high;
		break;
	default:
		r = CUDA_ERROR_INVALID_VALUE;
		break;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
				  void *value)
{
	CUresult r = CUDA_SUCCESS;
	struct figures *f;

	if (!shim_device_exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	/* Can only be reset. */
	if (value == NULL || *(const cuuint64_t *)value != 0)
		return CUDA_ERROR_INVALID_VALUE;
	f = &figures[device];
	pthread_mutex_lock(&shim_graph_lock);
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		f->used_high = used_locked(device);
	else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		f->held_high = f->held;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}
