/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: what is submitted to a capturing stream becomes nodes.
 *
 * The rule about unsafe calls spans the process: a capture in GLOBAL mode
 * forbids them to every thread that has not exchanged its mode.
 */
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_graph.h"

struct soft_capture {
	uint64_t id;
	struct soft_graph *graph;
	bool graph_is_callers;         /* cuStreamBeginCaptureToGraph */
	unsigned first_node;           /* nodes before it are the caller's */
	CUstreamCaptureMode mode;
	struct soft_stream *origin;
	const void *thread;            /* that began it */
	bool invalid;
	struct soft_stream **streams;  /* the origin first */
	unsigned stream_count;
	struct soft_capture *next;
};

/* All open captures, guarded by soft_graph_lock. */
static struct soft_capture *captures;
static _Atomic unsigned capture_count;

static bool
concerns(const struct soft_capture *c)
{
	bool mine = c->thread == &soft_self;

	if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (soft_self.capture_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
		return mine;
	return mine || c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult
soft_capture_forbids(void)
{
	CUresult res = CUDA_SUCCESS;

	if (!atomic_load(&capture_count) ||
	    soft_self.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&soft_graph_lock);
	for (struct soft_capture *c = captures; c; c = c->next)
		if (concerns(c)) {
			c->invalid = true;
			res = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

static bool
has_blocking_locked(const struct soft_capture *c, const struct soft_ctx *ctx)
{
	for (unsigned i = 0; i < c->stream_count; i++)
		if (c->streams[i]->ctx == ctx &&
		    !(c->streams[i]->flags & CU_STREAM_NON_BLOCKING))
			return true;
	return false;
}

static CUresult
implicit(struct soft_stream *stream, bool spoils)
{
	CUresult res = CUDA_SUCCESS;

	if (!stream->legacy || !atomic_load(&capture_count))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&soft_graph_lock);
	for (struct soft_capture *c = captures; c; c = c->next)
		if (has_blocking_locked(c, stream->ctx)) {
			c->invalid |= spoils;
			res = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

CUresult
soft_capture_implicit(struct soft_stream *stream)
{
	return implicit(stream, true);
}

CUresult
soft_capture_implicit_asked(struct soft_stream *stream)
{
	return implicit(stream, false);
}

void
soft_capture_invalidate(struct soft_stream *stream)
{
	pthread_mutex_lock(&soft_graph_lock);
	if (stream->capture)
		stream->capture->invalid = true;
	pthread_mutex_unlock(&soft_graph_lock);
}

CUresult
soft_capture_refuse(struct soft_stream *stream)
{
	if (!stream->capture)
		return CUDA_SUCCESS;
	soft_capture_invalidate(stream);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static bool
join_locked(struct soft_capture *c, struct soft_stream *stream)
{
	struct soft_stream **grown;

	grown = realloc(c->streams, (c->stream_count + 1) * sizeof(*grown));
	if (!grown)
		return false;
	c->streams = grown;
	c->streams[c->stream_count++] = stream;
	atomic_store(&stream->capture, c);
	return true;
}

void
soft_capture_invalidate_id(uint64_t id)
{
	pthread_mutex_lock(&soft_graph_lock);
	for (struct soft_capture *c = captures; c; c = c->next)
		if (c->id == id)
			c->invalid = true;
	pthread_mutex_unlock(&soft_graph_lock);
}

static bool
has_stream_locked(const struct soft_capture *c, const struct soft_ctx *ctx)
{
	for (unsigned i = 0; i < c->stream_count; i++)
		if (c->streams[i]->ctx == ctx ||
		    c->streams[i]->ctx->home == ctx)
			return true;
	return false;
}

CUresult
soft_capture_refuse_ctx(const struct soft_ctx *ctx)
{
	CUresult res = CUDA_SUCCESS;

	pthread_mutex_lock(&soft_graph_lock);
	for (struct soft_capture *c = captures; c; c = c->next)
		if (has_stream_locked(c, ctx)) {
			c->invalid = true;
			res = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

static struct soft_node **
copy_list(struct soft_node *const *list, unsigned count)
{
	struct soft_node **copy = malloc((count + 1) * sizeof(*copy));

	if (copy && count)
		memcpy(copy, list, count * sizeof(*copy));
	return copy;
}

static bool
set_deps_locked(struct soft_stream *stream, struct soft_node *const *deps,
		unsigned count)
{
	struct soft_node **copy = copy_list(deps, count);

	if (!copy)
		return false;
	free(stream->capture_deps);
	stream->capture_deps = copy;
	stream->capture_dep_count = count;
	return true;
}

static CUresult
begin(CUstream handle, struct soft_graph *graph,
      struct soft_node *const *deps, size_t count, CUstreamCaptureMode mode)
{
	struct soft_stream *stream;
	struct soft_capture *c;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->id = soft_new_id();
	c->graph_is_callers = graph;
	c->graph = graph ? graph : soft_graph_new();
	c->mode = mode;
	c->origin = stream;
	c->thread = &soft_self;
	pthread_mutex_lock(&soft_graph_lock);
	if (!c->graph || !set_deps_locked(stream, deps, (unsigned)count) ||
	    !join_locked(c, stream)) {
		pthread_mutex_unlock(&soft_graph_lock);
		if (!graph)
			soft_graph_free(c->graph);
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->first_node = c->graph->count;
	c->next = captures;
	captures = c;
	atomic_fetch_add(&capture_count, 1);
	pthread_mutex_unlock(&soft_graph_lock);
	return CUDA_SUCCESS;
}

CUresult
cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
	return begin(handle, NULL, NULL, 0, mode);
}

CUresult
cuStreamBeginCapture(CUstream handle)
{
	return begin(handle, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult
cuStreamBeginCaptureToGraph(CUstream handle, CUgraph hgraph,
			    const CUgraphNode *deps,
			    const CUgraphEdgeData *data, size_t count,
			    CUstreamCaptureMode mode)
{
	struct soft_graph *graph;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	graph = soft_handle_get(hgraph, SOFT_HANDLE_GRAPH);
	if (!graph || (count && !deps) || data)
		return data ? CUDA_ERROR_NOT_SUPPORTED :
		       CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (!soft_handle_get(deps[i], SOFT_HANDLE_NODE))
			return CUDA_ERROR_INVALID_VALUE;
	return begin(handle, graph, (struct soft_node *const *)deps, count,
		     mode);
}

/* Every stream that joined must have been joined again: all last nodes of
 * the capture are the origin's. */
static bool
is_joined_locked(const struct soft_capture *c)
{
	const struct soft_graph *g = c->graph;
	bool ok = true;

	for (unsigned i = c->first_node; i < g->count && ok; i++) {
		bool last = true;

		for (unsigned j = i + 1; j < g->count && last; j++)
			for (unsigned k = 0; k < g->nodes[j]->dep_count; k++)
				if (g->nodes[j]->deps[k] == g->nodes[i])
					last = false;
		if (!last)
			continue;
		ok = false;
		for (unsigned k = 0; k < c->origin->capture_dep_count; k++)
			if (c->origin->capture_deps[k] == g->nodes[i])
				ok = true;
	}
	return ok;
}

static void
leave_locked(struct soft_stream *stream)
{
	free(stream->capture_deps);
	stream->capture_deps = NULL;
	stream->capture_dep_count = 0;
	atomic_store(&stream->capture, NULL);
}

/* Ends the capture; the graph, if it was made for it, is the caller's. */
static struct soft_graph *
end_locked(struct soft_capture *c)
{
	struct soft_graph *graph = c->graph;
	struct soft_capture **at;

	for (unsigned i = 0; i < c->stream_count; i++)
		leave_locked(c->streams[i]);
	for (at = &captures; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	atomic_fetch_sub(&capture_count, 1);
	free(c->streams);
	free(c);
	return graph;
}

static CUresult
end_code_locked(const struct soft_capture *c, const struct soft_stream *stream)
{
	if (c->origin != stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    c->thread != &soft_self)
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (c->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return is_joined_locked(c) ? CUDA_SUCCESS :
	       CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

CUresult
cuStreamEndCapture(CUstream handle, CUgraph *out)
{
	struct soft_graph *graph = NULL;
	struct soft_stream *stream;
	bool callers = false;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	pthread_mutex_lock(&soft_graph_lock);
	if (!stream->capture) {
		res = CUDA_ERROR_ILLEGAL_STATE;
	} else {
		struct soft_capture *c = stream->capture;

		res = end_code_locked(c, stream);
		/* The wrong stream spoils the capture; any other end, also
		 * a refused one, is its end (measured). */
		if (res == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) {
			c->invalid = true;
		} else {
			callers = c->graph_is_callers;
			graph = end_locked(c);
		}
	}
	pthread_mutex_unlock(&soft_graph_lock);
	if (res) {
		if (!callers)
			soft_graph_free(graph);
		return res;
	}
	*out = (CUgraph)graph;
	return CUDA_SUCCESS;
}

void
soft_capture_stream_gone(struct soft_stream *stream)
{
	struct soft_graph *graph = NULL;
	struct soft_capture *c;

	if (!stream->capture)
		return;
	pthread_mutex_lock(&soft_graph_lock);
	c = stream->capture;
	if (c && c->origin == stream) {
		bool callers = c->graph_is_callers;

		graph = end_locked(c);
		if (callers)
			graph = NULL;
	} else if (c) {
		c->invalid = true;
		for (unsigned i = 0; i < c->stream_count; i++)
			if (c->streams[i] == stream)
				c->streams[i] = c->streams[--c->stream_count];
		leave_locked(stream);
	}
	pthread_mutex_unlock(&soft_graph_lock);
	soft_graph_free(graph);
}

CUresult
soft_capture_add(struct soft_stream *stream, struct soft_work *work)
{
	CUgraphNodeType type = soft_node_type_of(work);
	struct soft_capture *c;
	struct soft_node *node;
	CUresult res;

	pthread_mutex_lock(&soft_graph_lock);
	c = stream->capture;
	if (!c || c->invalid) {
		soft_work_free(work);
		pthread_mutex_unlock(&soft_graph_lock);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	res = soft_node_add(c->graph, type, work, stream->capture_deps,
			    stream->capture_dep_count, &node);
	if (!res && !set_deps_locked(stream, &node, 1))
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (res)
		c->invalid = true;
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

CUresult
soft_capture_record(struct soft_stream *stream, struct soft_event *event)
{
	CUresult res = CUDA_SUCCESS;
	struct soft_capture *c;
	struct soft_node **deps;

	pthread_mutex_lock(&soft_graph_lock);
	c = stream->capture;
	deps = copy_list(stream->capture_deps, stream->capture_dep_count);
	if (!c || c->invalid) {
		res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		free(deps);
	} else if (!deps) {
		res = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		free(event->capture_deps);
		event->capture_deps = deps;
		event->capture_dep_count = stream->capture_dep_count;
		atomic_store(&event->capture_id, c->id);
	}
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

static struct soft_capture *
capture_of_locked(uint64_t id)
{
	for (struct soft_capture *c = captures; c; c = c->next)
		if (c->id == id)
			return c;
	return NULL;
}

static bool
add_deps_locked(struct soft_stream *stream, const struct soft_event *event)
{
	unsigned count = stream->capture_dep_count, more = 0;
	struct soft_node **all;

	all = malloc((count + event->capture_dep_count + 1) * sizeof(*all));
	if (!all)
		return false;
	if (count)
		memcpy(all, stream->capture_deps, count * sizeof(*all));
	for (unsigned i = 0; i < event->capture_dep_count; i++) {
		unsigned j = 0;

		while (j < count && all[j] != event->capture_deps[i])
			j++;
		if (j == count)
			all[count + more++] = event->capture_deps[i];
	}
	free(stream->capture_deps);
	stream->capture_deps = all;
	stream->capture_dep_count = count + more;
	return true;
}

CUresult
soft_capture_join(struct soft_stream *stream, struct soft_event *event)
{
	CUresult res = CUDA_SUCCESS;
	struct soft_capture *c;

	pthread_mutex_lock(&soft_graph_lock);
	c = capture_of_locked(atomic_load(&event->capture_id));
	if (!c) {
		/* The capture is over; the place means nothing any more. */
		res = CUDA_ERROR_INVALID_VALUE;
	} else if (c->invalid) {
		res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else if (stream->legacy) {
		c->invalid = true;
		res = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	} else if (stream->capture && stream->capture != c) {
		c->invalid = true;
		stream->capture->invalid = true;
		res = CUDA_ERROR_STREAM_CAPTURE_MERGE;
	} else if ((!stream->capture && !join_locked(c, stream)) ||
		   !add_deps_locked(stream, event)) {
		res = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

CUresult
cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old = soft_self.capture_mode;
	CUresult res = soft_enter();

	if (res)
		return res;
	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	soft_self.capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

CUresult
cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status,
			  cuuint64_t *id, CUgraph *graph,
			  const CUgraphNode **deps,
			  const CUgraphEdgeData **edges, size_t *count)
{
	struct soft_stream *stream;
	struct soft_capture *c;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (!res)
		res = soft_capture_implicit_asked(stream);
	if (res)
		return res;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	c = stream->capture;
	*status = !c ? CU_STREAM_CAPTURE_STATUS_NONE :
		  c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED :
		  CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (c && !c->invalid) {
		if (id)
			*id = c->id;
		if (graph)
			*graph = (CUgraph)c->graph;
		if (deps)
			*deps = (const CUgraphNode *)stream->capture_deps;
		if (count)
			*count = stream->capture_dep_count;
		if (edges)
			*edges = NULL;
	}
	pthread_mutex_unlock(&soft_graph_lock);
	return CUDA_SUCCESS;
}

CUresult
cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status,
			  cuuint64_t *id, CUgraph *graph,
			  const CUgraphNode **deps, size_t *count)
{
	return cuStreamGetCaptureInfo_v3(handle, status, id, graph, deps, NULL,
					 count);
}

CUresult
cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status,
		       cuuint64_t *id)
{
	return cuStreamGetCaptureInfo_v3(handle, status, id, NULL, NULL, NULL,
					 NULL);
}

CUresult
cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	return cuStreamGetCaptureInfo_v3(handle, status, NULL, NULL, NULL,
					 NULL, NULL);
}

CUresult
cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *deps,
				     const CUgraphEdgeData *data, size_t count,
				     unsigned int flags)
{
	struct soft_stream *stream;
	struct soft_capture *c;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if ((count && !deps) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return CUDA_ERROR_INVALID_VALUE;
	if (data)
		return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < count; i++)
		if (!soft_handle_get(deps[i], SOFT_HANDLE_NODE))
			return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	c = stream->capture;
	if (!c) {
		res = CUDA_ERROR_ILLEGAL_STATE;
	} else if (c->invalid) {
		res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
		if (!set_deps_locked(stream, (struct soft_node *const *)deps,
				     (unsigned)count))
			res = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		struct soft_event more = {
			.capture_deps = (struct soft_node **)deps,
			.capture_dep_count = (unsigned)count,
		};

		if (!add_deps_locked(stream, &more))
			res = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&soft_graph_lock);
	return res;
}

CUresult
cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *deps,
				  size_t count, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(handle, deps, NULL, count,
						    flags);
}
