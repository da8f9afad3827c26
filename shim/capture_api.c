/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of stream capture. All are answered here.
 */
#include "shim/capture_own.h"

#include <stdlib.h>
#include <string.h>

#include "shim/ctx.h"
#include "shim_impl.h"

/* ---- begin and end ---- */

/* The caller's nodes that the capture starts after. */
static CUresult
read_places_locked(const struct shim_graph *graph, const CUgraphNode *nodes,
		   const CUgraphEdgeData *data, size_t count,
		   struct shim_edges *out)
{
	CUresult r = CUDA_SUCCESS;

	if (count > 0 && nodes == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		struct shim_node *node = shim_node_get_locked(nodes[i]);

		if (node == NULL || node->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
		if (!shim_edges_have(out, node))
			r = shim_edges_add(out, node, data == NULL ? NULL :
					   &data[i]);
	}
	return r;
}

static CUresult
begin(CUstream handle, CUgraph into, const CUgraphNode *nodes,
      const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode,
      bool has_graph)
{
	struct shim_edges places = {0};
	struct shim_graph *graph = NULL;
	struct shim_capture *c = NULL;
	struct shim_stream *stream;
	CUresult r = shim_stream_find(handle, shim_current, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->kind == STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&shim_graph_lock);
	if (stream->capture != 0)
		r = CUDA_ERROR_ILLEGAL_STATE;
	if (has_graph) {
		graph = shim_graph_get_locked(into);
		if (r == CUDA_SUCCESS && (graph == NULL || graph->capturing))
			r = CUDA_ERROR_INVALID_VALUE;
		if (r == CUDA_SUCCESS)
			r = read_places_locked(graph, nodes, data, count,
					       &places);
	}
	if (r == CUDA_SUCCESS)
		r = shim_capture_begin_locked(stream, graph, mode, &c);
	if (r == CUDA_SUCCESS)
		c->members[0].deps = places;
	else
		shim_edges_clear(&places);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	return begin(hStream, NULL, NULL, NULL, 0, mode, false);
}

CUresult
shim_cuStreamBeginCapture(CUstream hStream)
{
	return begin(hStream, NULL, NULL, NULL, 0,
		     CU_STREAM_CAPTURE_MODE_GLOBAL, false);
}

CUresult
shim_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
				 const CUgraphNode *dependencies,
				 const CUgraphEdgeData *dependencyData,
				 size_t numDependencies,
				 CUstreamCaptureMode mode)
{
	return begin(hStream, hGraph, dependencies, dependencyData,
		     numDependencies, mode, true);
}

/* Whoever took part has been joined again: nothing of the capture is last
 * but what the origin comes after. */
static bool
is_joined(const struct shim_capture *c)
{
	const struct shim_graph *graph = c->graph;
	bool joined = true;
	uint8_t *followed = calloc(graph->count + 1, 1);

	if (followed == NULL)
		return false;
	for (uint32_t i = 0; i < graph->count; i++) {
		const struct shim_edges *deps = &graph->nodes[i]->deps;

		for (uint32_t k = 0; k < deps->count; k++)
			followed[deps->items[k].from->index] = 1;
	}
	for (uint32_t i = c->first; i < graph->count && joined; i++)
		joined = followed[i] || shim_edges_have(&c->members[0].deps,
							graph->nodes[i]);
	free(followed);
	return joined;
}

/* Everything but a wrong stream ends the capture, well or not. Without a place
 * for the graph there is none. */
static CUresult
end_locked(struct shim_stream *stream, struct shim_graph **out_graph)
{
	struct shim_graph *graph;
	struct shim_capture *c;
	CUresult r = CUDA_SUCCESS;
	bool callers;

	if (shim_capture_member_locked(stream, &c) == NULL)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->members[0].stream != stream) {
		c->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    c->thread != shim_capture_thread())
		r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	else if (c->invalid)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_joined(c))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	callers = c->callers;
	graph = shim_capture_end_locked(c);
	if (r == CUDA_SUCCESS && out_graph != NULL)
		*out_graph = graph;
	else if (!callers)
		shim_graph_free_locked(graph);
	return r;
}

CUresult
shim_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct shim_graph *graph = NULL;
	struct shim_stream *stream;
	CUresult r = shim_stream_find(hStream, shim_current, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	r = end_locked(stream, phGraph == NULL ? NULL : &graph);
	if (phGraph != NULL)
		*phGraph = graph == NULL ? NULL :
			   (CUgraph)(uintptr_t)graph->object.handle;
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

/* ---- questions ---- */

/* Handles of the places, kept until the next question about this stream. */
static CUresult
tell_locked(struct shim_member *m, const CUgraphNode **nodes,
	    const CUgraphEdgeData **edges, size_t *count)
{
	uint32_t n = m->deps.count;
	CUgraphNode *list = calloc(n + 1, sizeof(*list));
	CUgraphEdgeData *data = calloc(n + 1, sizeof(*data));
	bool plain = true;

	if (list == NULL || data == NULL) {
		free(list);
		free(data);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct shim_edge *edge = &m->deps.items[i];

		list[i] = shim_node_handle_locked(edge->from);
		data[i] = edge->data;
		plain &= data[i].type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT;
	}
	free(m->told);
	free(m->told_edges);
	m->told = list;
	m->told_edges = data;
	if (nodes != NULL)
		*nodes = list;
	if (edges != NULL)
		*edges = plain ? NULL : data;
	if (count != NULL)
		*count = n;
	/* Asked without a place for edge data, an edge that has some cannot
	 * be told. */
	return nodes != NULL && edges == NULL && !plain ?
	       CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

static CUresult
info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
     CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **edges,
     size_t *count)
{
	struct shim_stream *stream;
	struct shim_capture *c;
	struct shim_member *m;
	CUresult r = shim_stream_find(handle, shim_current, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy_asked(stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (status == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (!shim_stream_is_capturing(stream))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&shim_graph_lock);
	m = shim_capture_member_locked(stream, &c);
	if (m != NULL)
		*status = c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED :
				       CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (m != NULL && !c->invalid) {
		if (id != NULL)
			*id = c->id;
		if (graph != NULL)
			*graph = (CUgraph)(uintptr_t)c->graph->object.handle;
		if (nodes != NULL || edges != NULL || count != NULL)
			r = tell_locked(m, nodes, edges, count);
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuStreamIsCapturing(CUstream hStream,
			 CUstreamCaptureStatus *captureStatus)
{
	return info(hStream, captureStatus, NULL, NULL, NULL, NULL, NULL);
}

CUresult
shim_cuStreamGetCaptureInfo(CUstream hStream,
			    CUstreamCaptureStatus *captureStatus_out,
			    cuuint64_t *id_out)
{
	return info(hStream, captureStatus_out, id_out, NULL, NULL, NULL,
		    NULL);
}

CUresult
shim_cuStreamGetCaptureInfo_v2(CUstream hStream,
			       CUstreamCaptureStatus *captureStatus_out,
			       cuuint64_t *id_out, CUgraph *graph_out,
			       const CUgraphNode **dependencies_out,
			       size_t *numDependencies_out)
{
	return info(hStream, captureStatus_out, id_out, graph_out,
		    dependencies_out, NULL, numDependencies_out);
}

CUresult
shim_cuStreamGetCaptureInfo_v3(CUstream hStream,
			       CUstreamCaptureStatus *captureStatus_out,
			       cuuint64_t *id_out, CUgraph *graph_out,
			       const CUgraphNode **dependencies_out,
			       const CUgraphEdgeData **edgeData_out,
			       size_t *numDependencies_out)
{
	return info(hStream, captureStatus_out, id_out, graph_out,
		    dependencies_out, edgeData_out, numDependencies_out);
}

/* ---- changes ---- */

static CUresult
update_locked(struct shim_stream *stream, const CUgraphNode *nodes,
	      const CUgraphEdgeData *data, size_t count, unsigned int flags)
{
	struct shim_edges places = {0};
	struct shim_capture *c;
	struct shim_member *m = shim_capture_member_locked(stream, &c);
	CUresult r;

	if (m == NULL)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return CUDA_ERROR_INVALID_VALUE;
	r = flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES ?
	    shim_edges_copy(&places, &m->deps) : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		r = read_places_locked(c->graph, nodes, data, count, &places);
	if (r == CUDA_SUCCESS)
		r = shim_edges_copy(&m->deps, &places);
	shim_edges_clear(&places);
	return r;
}

CUresult
shim_cuStreamUpdateCaptureDependencies_v2(CUstream hStream,
					  CUgraphNode *dependencies,
					  const CUgraphEdgeData *dependencyData,
					  size_t numDependencies,
					  unsigned int flags)
{
	struct shim_stream *stream;
	CUresult r = shim_stream_find(hStream, shim_current, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	r = update_locked(stream, dependencies, dependencyData,
			  numDependencies, flags);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuStreamUpdateCaptureDependencies(CUstream hStream,
				       CUgraphNode *dependencies,
				       size_t numDependencies,
				       unsigned int flags)
{
	return shim_cuStreamUpdateCaptureDependencies_v2(
		hStream, dependencies, NULL, numDependencies, flags);
}

CUresult
shim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode asked;

	if (mode == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* Any number is kept; one without a name binds as the global mode. */
	asked = *mode;
	*mode = shim_capture_mode;
	shim_capture_mode = asked;
	return CUDA_SUCCESS;
}
