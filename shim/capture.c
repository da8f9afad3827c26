/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: the rules, and how work becomes nodes. Entry points are in
 * capture_api.c.
 */
#include "shim/capture_own.h"

#include <stdlib.h>
#include <string.h>

#include "shim/ctx.h"
#include "shim/launch.h"

_Atomic uint32_t shim_captures;
_Thread_local CUstreamCaptureMode shim_capture_mode
	__attribute__((tls_model("initial-exec"))) =
	CU_STREAM_CAPTURE_MODE_GLOBAL;

/* All open captures, under shim_graph_lock. */
static struct shim_capture *captures;
static _Atomic uint64_t last_id;

/* ---- the list ---- */

const void *
shim_capture_thread(void)
{
	return &shim_capture_mode;
}

struct shim_capture *
shim_capture_find_locked(uint64_t id)
{
	struct shim_capture *c = captures;

	while (c != NULL && c->id != id)
		c = c->next;
	return c;
}

struct shim_member *
shim_capture_member_locked(const struct shim_stream *stream,
			   struct shim_capture **out_capture)
{
	struct shim_capture *c = shim_capture_find_locked(stream->capture);

	if (out_capture != NULL)
		*out_capture = c;
	for (uint32_t i = 0; c != NULL && i < c->count; i++) {
		if (c->members[i].stream == stream)
			return &c->members[i];
	}
	return NULL;
}

CUresult
shim_capture_join_locked(struct shim_capture *c, struct shim_stream *stream)
{
	struct shim_member *grown;

	grown = realloc(c->members, (c->count + 1) * sizeof(*grown));
	if (grown == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->members = grown;
	c->members[c->count++] = (struct shim_member){ .stream = stream };
	atomic_store(&stream->capture, c->id);
	return CUDA_SUCCESS;
}

CUresult
shim_capture_begin_locked(struct shim_stream *stream, struct shim_graph *graph,
			  CUstreamCaptureMode mode, struct shim_capture **out)
{
	struct shim_capture *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->id = atomic_fetch_add(&last_id, 1) + 1;
	c->callers = graph != NULL;
	c->graph = graph != NULL ? graph :
		   shim_graph_new(stream->object.ctx, true);
	c->mode = mode;
	c->thread = shim_capture_thread();
	if (c->graph == NULL ||
	    shim_capture_join_locked(c, stream) != CUDA_SUCCESS) {
		if (!c->callers)
			shim_graph_free_locked(c->graph);
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->first = c->graph->count;
	c->graph->capturing = true;
	c->next = captures;
	captures = c;
	atomic_fetch_add(&shim_captures, 1);
	*out = c;
	return CUDA_SUCCESS;
}

static void
member_fini(struct shim_member *m)
{
	shim_edges_clear(&m->deps);
	free(m->told);
	free(m->told_edges);
}

struct shim_graph *
shim_capture_end_locked(struct shim_capture *c)
{
	struct shim_graph *graph = c->graph;
	struct shim_capture **link = &captures;

	for (uint32_t i = 0; i < c->count; i++) {
		member_fini(&c->members[i]);
		if (c->members[i].stream->capture == c->id)
			atomic_store(&c->members[i].stream->capture, 0);
	}
	while (*link != c)
		link = &(*link)->next;
	*link = c->next;
	atomic_fetch_sub(&shim_captures, 1);
	graph->capturing = false;
	free(c->members);
	free(c);
	return graph;
}

/* ---- rules ---- */

static bool
binds(const struct shim_capture *c)
{
	bool mine = c->thread == shim_capture_thread();

	if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (shim_capture_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
		return mine;
	return mine || c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult
shim_capture_unsafe_slow(void)
{
	CUresult r = CUDA_SUCCESS;

	if (shim_capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&shim_graph_lock);
	for (struct shim_capture *c = captures; c != NULL; c = c->next) {
		if (!binds(c))
			continue;
		c->invalid = true;
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

static bool
has_blocking(const struct shim_capture *c, const struct shim_context *ctx)
{
	for (uint32_t i = 0; i < c->count; i++) {
		const struct shim_stream *s = c->members[i].stream;

		if (s->object.ctx == ctx && s->kind != STREAM_NON_BLOCKING)
			return true;
	}
	return false;
}

CUresult
shim_capture_legacy_slow(const struct shim_stream *stream, bool spoils)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&shim_graph_lock);
	for (struct shim_capture *c = captures; c != NULL; c = c->next) {
		if (!has_blocking(c, stream->object.ctx))
			continue;
		c->invalid |= spoils;
		r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

void
shim_capture_spoil_slow(const struct shim_stream *stream)
{
	struct shim_capture *c;

	pthread_mutex_lock(&shim_graph_lock);
	c = shim_capture_find_locked(stream->capture);
	if (c != NULL)
		c->invalid = true;
	pthread_mutex_unlock(&shim_graph_lock);
}

CUresult
shim_capture_wait_stream(const struct shim_stream *stream)
{
	CUresult r = shim_capture_legacy(stream);

	if (r != CUDA_SUCCESS || !shim_stream_is_capturing(stream))
		return r;
	shim_capture_spoil(stream);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult
shim_capture_wait_context(struct shim_context *ctx)
{
	CUresult r = shim_capture_unsafe();

	if (r != CUDA_SUCCESS || !shim_capture_any())
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	for (struct shim_capture *c = captures; c != NULL; c = c->next) {
		if (c->members[0].stream->object.ctx != ctx)
			continue;
		c->invalid = true;
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

/* A captured event stands for a place in a graph, not in time. The code is
 * the call's own: the driver has one for a query, another for a wait. */
CUresult
shim_capture_ask_event(struct shim_event *event, CUresult captured)
{
	return atomic_load(&event->capture) != 0 ? captured :
	       shim_capture_unsafe();
}

/* ---- nodes ---- */

/* The next thing in the stream comes after `node` alone. */
static CUresult
advance(struct shim_member *member, struct shim_node *node)
{
	member->deps.count = 0;
	return shim_edges_add(&member->deps, node, NULL);
}

static CUresult
add_node_locked(struct shim_stream *stream, struct shim_work *work,
		const CUgraphEdgeData *edge, struct shim_node **out_node)
{
	struct shim_capture *c;
	struct shim_member *m = shim_capture_member_locked(stream, &c);
	struct shim_edges deps = {0};
	CUresult r;

	if (m == NULL || c->invalid) {
		shim_work_clear_locked(work);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	r = shim_edges_copy(&deps, &m->deps);
	for (uint32_t i = 0; edge != NULL && i < deps.count; i++)
		deps.items[i].data = *edge;
	if (r == CUDA_SUCCESS)
		r = shim_node_add_locked(c->graph, work, &deps, out_node);
	else
		shim_work_clear_locked(work);
	if (r == CUDA_SUCCESS)
		r = advance(m, *out_node);
	if (r != CUDA_SUCCESS)
		c->invalid = true;
	shim_edges_clear(&deps);
	return r;
}

CUresult
shim_capture_add_locked(struct shim_stream *stream, struct shim_work *work,
			struct shim_node **out_node)
{
	return add_node_locked(stream, work, NULL, out_node);
}

CUresult
shim_capture_work(struct shim_stream *stream, struct shim_work *work)
{
	struct shim_node *node;
	CUresult r;

	pthread_mutex_lock(&shim_graph_lock);
	r = add_node_locked(stream, work, NULL, &node);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

/* ---- launches: attributes that are edges in a graph ---- */

struct captured_launch {
	bool programmatic;           /* after its predecessors' triggers */
	struct shim_event *events[2];
	uint8_t ports[2];            /* of this kernel, that they stand for */
};

static bool
take_attr(const struct launch_attr *attr, struct captured_launch *out)
{
	CUlaunchAttributeValue v;

	memcpy(&v, attr->value, sizeof(v));
	switch (attr->id) {
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		out->programmatic = v.programmaticStreamSerializationAllowed;
		return true;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		out->events[0] = shim_object_get(HANDLE_EVENT,
			(uintptr_t)v.programmaticEvent.event);
		out->ports[0] = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
		return true;
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		out->events[1] = shim_object_get(HANDLE_EVENT,
			(uintptr_t)v.launchCompletionEvent.event);
		out->ports[1] = CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
		return true;
	default:
		return false;
	}
}

static void
take_attrs(struct shim_kernel_work *k, struct captured_launch *out)
{
	uint32_t kept = 0;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < k->head.nattrs; i++) {
		if (!take_attr(&k->attrs[i], out))
			k->attrs[kept++] = k->attrs[i];
	}
	k->head.nattrs = kept;
}

/* Only a kernel has a trigger. */
static bool
all_kernels(const struct shim_edges *deps)
{
	for (uint32_t i = 0; i < deps->count; i++) {
		if (deps->items[i].from->work.type !=
		    CU_GRAPH_NODE_TYPE_KERNEL)
			return false;
	}
	return true;
}

static CUresult
set_event(struct shim_event *event, uint64_t capture,
	  const struct shim_edges *deps)
{
	CUresult r = shim_edges_copy(&event->captured, deps);

	if (r == CUDA_SUCCESS)
		atomic_store(&event->capture, capture);
	return r;
}

static CUresult
set_port_event(struct shim_event *event, uint64_t capture,
	       struct shim_node *node, uint8_t port)
{
	struct shim_edges deps = {0};
	CUgraphEdgeData data = {
		.from_port = port,
		.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC,
	};
	CUresult r = shim_edges_add(&deps, node, &data);

	if (r == CUDA_SUCCESS)
		r = set_event(event, capture, &deps);
	shim_edges_clear(&deps);
	return r;
}

static CUresult
add_priority(const struct shim_stream *stream, struct shim_kernel_work *k)
{
	struct launch_attr *grown;
	uint32_t n = k->head.nattrs;

	for (uint32_t i = 0; i < n; i++) {
		if (k->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
			return CUDA_SUCCESS;
	}
	if (stream->priority == 0 || n == LAUNCH_ATTRS_MAX)
		return CUDA_SUCCESS;
	grown = realloc(k->attrs, (n + 1) * sizeof(*grown));
	if (grown == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	k->attrs = grown;
	memset(&grown[n], 0, sizeof(*grown));
	grown[n].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
	memcpy(grown[n].value, &stream->priority, sizeof(stream->priority));
	k->head.nattrs = n + 1;
	return CUDA_SUCCESS;
}

static CUresult
launch_locked(struct shim_stream *stream, struct shim_work *work)
{
	static const CUgraphEdgeData programmatic = {
		.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
		.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC,
	};
	struct captured_launch captured;
	struct shim_member *m = shim_capture_member_locked(stream, NULL);
	struct shim_node *node;
	CUresult r;

	take_attrs(&work->kernel, &captured);
	captured.programmatic &= m != NULL && all_kernels(&m->deps);
	r = add_node_locked(stream, work,
			    captured.programmatic ? &programmatic : NULL,
			    &node);
	for (unsigned i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
		if (captured.events[i] != NULL)
			r = set_port_event(captured.events[i], stream->capture,
					   node, captured.ports[i]);
	}
	return r;
}

CUresult
shim_capture_launch(struct shim_stream *stream,
		    const struct shim_launch *launch, const uint8_t *params)
{
	struct shim_work work;
	CUresult r = shim_work_launch(launch, params, &work);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	r = add_priority(stream, &work.kernel);
	if (r == CUDA_SUCCESS)
		r = launch_locked(stream, &work);
	else
		shim_work_clear_locked(&work);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_capture_copy(struct shim_stream *stream, uint64_t dst, uint64_t src,
		  uint64_t size)
{
	CUDA_MEMCPY3D p = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = src,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = dst,
		.WidthInBytes = size, .Height = 1, .Depth = 1,
	};
	struct shim_work work;
	CUresult r = shim_work_copy(&p, &work);

	return r != CUDA_SUCCESS ? r : shim_capture_work(stream, &work);
}

/* ---- events ---- */

CUresult
shim_capture_record(struct shim_stream *stream, struct shim_event *event)
{
	struct shim_capture *c;
	struct shim_member *m;
	CUresult r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

	pthread_mutex_lock(&shim_graph_lock);
	m = shim_capture_member_locked(stream, &c);
	if (m != NULL && !c->invalid)
		r = set_event(event, c->id, &m->deps);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

static CUresult
add_places(struct shim_member *member, const struct shim_edges *more)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t i = 0; i < more->count && r == CUDA_SUCCESS; i++) {
		if (!shim_edges_have(&member->deps, more->items[i].from))
			r = shim_edges_add(&member->deps, more->items[i].from,
					   &more->items[i].data);
	}
	return r;
}

static CUresult
join_locked(struct shim_capture *c, struct shim_stream *stream,
	    const struct shim_event *event)
{
	struct shim_capture *own;
	struct shim_member *m;
	CUresult r = CUDA_SUCCESS;

	/* The capture is over: the place means nothing any more. */
	if (c == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (c->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->kind == STREAM_LEGACY) {
		c->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	m = shim_capture_member_locked(stream, &own);
	if (own != NULL && own != c) {
		c->invalid = own->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (m == NULL) {
		r = shim_capture_join_locked(c, stream);
		m = &c->members[c->count - 1];
	}
	return r != CUDA_SUCCESS ? r : add_places(m, &event->captured);
}

CUresult
shim_capture_join(struct shim_stream *stream, struct shim_event *event)
{
	CUresult r;

	pthread_mutex_lock(&shim_graph_lock);
	r = join_locked(shim_capture_find_locked(event->capture), stream,
			event);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_capture_isolated(struct shim_stream *stream)
{
	shim_capture_spoil(stream);
	return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

/* ---- ends ---- */

static void
leave_locked(struct shim_capture *c, struct shim_member *m)
{
	atomic_store(&m->stream->capture, 0);
	member_fini(m);
	*m = c->members[--c->count];
	c->invalid = true;
}

void
shim_capture_stream_gone(struct shim_stream *stream)
{
	struct shim_capture *c;
	struct shim_member *m;

	if (!shim_stream_is_capturing(stream))
		return;
	pthread_mutex_lock(&shim_graph_lock);
	m = shim_capture_member_locked(stream, &c);
	if (m != NULL && m == c->members) {
		bool callers = c->callers;
		struct shim_graph *graph = shim_capture_end_locked(c);

		if (!callers)
			shim_graph_free_locked(graph);
	} else if (m != NULL) {
		leave_locked(c, m);
	}
	pthread_mutex_unlock(&shim_graph_lock);
}

void
shim_capture_event_gone(struct shim_event *event)
{
	pthread_mutex_lock(&shim_graph_lock);
	atomic_store(&event->capture, 0);
	shim_edges_clear(&event->captured);
	pthread_mutex_unlock(&shim_graph_lock);
}
