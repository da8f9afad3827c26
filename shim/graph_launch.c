/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: made, launched, destroyed.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/event.h"
#include "shim/graph_branch.h"
#include "shim/graph_exec.h"
#include "shim/graph_mem.h"
#include "shim/hostfunc.h"
#include "shim/memop.h"
#include "shim/process.h"
#include "shim/room.h"
#include "shim/stream.h"
#include "shim_calls.h"
#include "shim_impl.h"

#define KNOWN_FLAGS (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | \
		     CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | \
		     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

/* All executable graphs, under shim_graph_lock. */
static struct shim_exec *execs;

/* ---- life ---- */

struct shim_exec *
shim_exec_get(CUgraphExec handle)
{
	struct shim_exec *exec;

	pthread_mutex_lock(&shim_graph_lock);
	exec = shim_object_get(HANDLE_EXEC, (uintptr_t)handle);
	if (exec != NULL && exec->is_segment)
		exec = NULL;
	if (exec != NULL)
		atomic_fetch_add(&exec->refs, 1);
	pthread_mutex_unlock(&shim_graph_lock);
	return exec;
}

static void
unlink_locked(struct shim_exec *exec)
{
	struct shim_exec **link = &execs;

	while (*link != NULL && *link != exec)
		link = &(*link)->next;
	if (*link != NULL)
		*link = exec->next;
}

static void
leave_home(struct shim_exec *exec)
{
	if (exec->home == NULL)
		return;
	pthread_mutex_lock(&shim_graph_lock);
	exec->home->instantiated = false;
	shim_home_put_locked(exec->home);
	pthread_mutex_unlock(&shim_graph_lock);
	shim_homes_end();
}

static void
end(void *arg)
{
	struct shim_exec *exec = arg;

	pthread_mutex_lock(&shim_graph_lock);
	unlink_locked(exec);
	shim_graph_free_locked(exec->source);
	pthread_mutex_unlock(&shim_graph_lock);
	shim_segments_end(exec->chan, exec->segments, exec->flat.depths);
	leave_home(exec);
	shim_slots_end();
	shim_flat_free(&exec->flat);
	if (exec->order != NULL)
		shim_cuEventDestroy_v2(exec->order);
	pthread_mutex_destroy(&exec->lock);
	free(exec);
}

void
shim_exec_put(struct shim_exec *exec)
{
	if (atomic_fetch_sub(&exec->refs, 1) == 1)
		end(exec);
}

void
shim_exec_forget_locked(const struct shim_graph *graph)
{
	for (struct shim_exec *exec = execs; exec != NULL; exec = exec->next) {
		if (exec->graph_id == graph->id)
			exec->graph_id = 0;
	}
}

/* One whose nodes nobody can name, and whose worker does not know that yet;
 * with one more reference. */
static struct shim_exec *
next_forgotten(void)
{
	struct shim_exec *exec;

	pthread_mutex_lock(&shim_graph_lock);
	for (exec = execs; exec != NULL; exec = exec->next) {
		if (exec->graph_id == 0 && !exec->forgotten)
			break;
	}
	if (exec != NULL) {
		exec->forgotten = true;
		atomic_fetch_add(&exec->refs, 1);
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return exec;
}

void
shim_exec_forget(void)
{
	struct shim_exec *exec;

	while ((exec = next_forgotten()) != NULL) {
		pthread_mutex_lock(&exec->lock);
		for (uint32_t i = 0; i < exec->flat.depths; i++) {
			if (exec->segments != NULL &&
			    exec->segments[i] != NULL)
				call_mpsGraphForget(exec->chan,
					exec->segments[i]->object.handle);
		}
		pthread_mutex_unlock(&exec->lock);
		shim_exec_put(exec);
	}
}

/* ---- instantiate ---- */

/* A launch of several segments must not mix with the next one. */
static CUresult
add_order(struct shim_exec *exec)
{
	return exec->flat.has_host && exec->order == NULL ?
	       shim_cuEventCreate(&exec->order, CU_EVENT_DISABLE_TIMING) :
	       CUDA_SUCCESS;
}

/* Of a graph with conditional nodes there is one executable graph at a time:
 * they share its conditions. */
static CUresult
take_home_locked(struct shim_exec *exec, const struct shim_graph *graph)
{
	if (graph->home == NULL)
		return CUDA_SUCCESS;
	if (graph->home->instantiated || graph->home->chan != exec->chan)
		return CUDA_ERROR_NOT_SUPPORTED;
	exec->home = graph->home;
	exec->home->instantiated = true;
	exec->home->refs++;
	return CUDA_SUCCESS;
}

/* Is there an executable graph of it? */
static bool
is_made_locked(const struct shim_graph *graph)
{
	const struct shim_exec *exec = execs;

	while (exec != NULL && exec->graph_id != graph->id)
		exec = exec->next;
	return exec != NULL;
}

static CUresult
take_source(struct shim_exec *exec, CUgraph handle)
{
	struct shim_graph *graph;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(handle);
	if (graph == NULL || graph->capturing) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (graph->moved) {
		r = CUDA_ERROR_NOT_SUPPORTED;
	} else if (shim_graph_allocates(graph) && is_made_locked(graph)) {
		r = CUDA_ERROR_NOT_SUPPORTED;
	} else if ((r = take_home_locked(exec, graph)) == CUDA_SUCCESS) {
		exec->graph_id = graph->id;
		exec->source = shim_graph_clone_locked(graph, shim_current,
						       false);
		if (exec->source == NULL)
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

static CUresult
publish(struct shim_exec *exec, CUgraphExec *out)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&shim_graph_lock);
	if (shim_object_add(HANDLE_EXEC, &exec->object) != 0) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		exec->next = execs;
		execs = exec;
		*out = (CUgraphExec)(uintptr_t)exec->object.handle;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

static CUresult
instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	struct shim_context *ctx = shim_current;
	struct shim_exec *exec;
	CUresult r;

	if (out == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & ~(unsigned long long)(KNOWN_FLAGS |
			CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH))
		return CUDA_ERROR_INVALID_VALUE;
	/* A graph that the device launches would escape every count. */
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return CUDA_ERROR_NOT_SUPPORTED;
	exec = calloc(1, sizeof(*exec));
	if (exec == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->chan = ctx->chan;
	exec->object.ctx = ctx;
	exec->flags = flags;
	atomic_store(&exec->refs, 1);
	pthread_mutex_init(&exec->lock, NULL);
	r = take_source(exec, graph);
	if (r == CUDA_SUCCESS)
		r = shim_flat_make(exec->source, ctx, &exec->flat);
	if (r == CUDA_SUCCESS)
		r = add_order(exec);
	if (r == CUDA_SUCCESS)
		r = shim_segments_make(exec->chan, &exec->flat, exec->home,
				       flags, &exec->segments);
	if (r == CUDA_SUCCESS)
		r = publish(exec, out);
	if (r != CUDA_SUCCESS)
		shim_exec_put(exec);
	return r;
}

CUresult
shim_cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
				 unsigned long long flags)
{
	return instantiate(phGraphExec, hGraph, flags);
}

CUresult
shim_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
			   CUgraphNode *phErrorNode, char *logBuffer,
			   size_t bufferSize)
{
	if (phErrorNode != NULL)
		*phErrorNode = NULL;
	if (logBuffer != NULL && bufferSize > 0)
		*logBuffer = '\0';
	return instantiate(phGraphExec, hGraph, 0);
}

static bool
has_idle_condition(CUgraph handle)
{
	const struct shim_graph *graph;
	bool idle;

	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(handle);
	idle = graph != NULL && graph->home != NULL &&
	       shim_home_idles_locked(graph->home);
	pthread_mutex_unlock(&shim_graph_lock);
	return idle;
}

CUresult
shim_cuGraphInstantiateWithParams(CUstream stream, CUgraphExec *phGraphExec,
				  CUgraph hGraph,
				  CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult r;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = instantiate(phGraphExec, hGraph, params->flags);
	params->hErrNode_out = NULL;
	params->result_out = r == CUDA_SUCCESS ?
			     CUDA_GRAPH_INSTANTIATE_SUCCESS :
			     has_idle_condition(hGraph) ?
			     CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED :
			     CUDA_GRAPH_INSTANTIATE_ERROR;
	if (r == CUDA_SUCCESS &&
	    params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		r = shim_cuGraphUpload(*phGraphExec, params->hUploadStream ?
				       params->hUploadStream : stream);
	return r;
}

CUresult
shim_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct shim_exec *exec = shim_exec_get(hGraphExec);
	bool mine;

	if (exec == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&shim_graph_lock);
	mine = shim_object_remove(HANDLE_EXEC, exec->object.handle) != NULL;
	pthread_mutex_unlock(&shim_graph_lock);
	shim_exec_put(exec);
	if (!mine)
		return CUDA_ERROR_INVALID_VALUE;
	shim_exec_put(exec);
	return CUDA_SUCCESS;
}

CUresult
shim_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	struct shim_exec *exec;

	if (flags == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	exec = shim_exec_get(hGraphExec);
	if (exec == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* How it is launched, not what it is: left out (measured). */
	*flags = exec->flags &
		 ~(cuuint64_t)(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
			       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
	shim_exec_put(exec);
	return CUDA_SUCCESS;
}

/* ---- host steps ---- */

/* The host steps between two segments of one launch, with the parameters of
 * the time of the launch. */
struct step {
	CUhostFn fn;                /* NULL: the copy */
	void *data;
	struct graph_copy copy;
};

struct run {
	struct shim_exec *exec;
	uint32_t count;
	struct step steps[];
};

static void
run_steps(void *arg)
{
	struct run *run = arg;

	for (uint32_t i = 0; i < run->count; i++) {
		if (run->steps[i].fn != NULL)
			run->steps[i].fn(run->steps[i].data);
		else
			shim_copy_rows(&run->steps[i].copy);
	}
	/* Its end posts, and a full ring may wait for this very thread. */
	if (atomic_fetch_sub(&run->exec->refs, 1) == 1)
		shim_host_soon(end, run->exec);
	free(run);
}

static bool
is_step(const struct shim_item *item, uint32_t depth)
{
	return item->depth == depth && !item->disabled &&
	       (item->kind == ITEM_HOST || item->kind == ITEM_HOST_COPY);
}

static void
take_step(const struct shim_item *item, struct step *step)
{
	memset(step, 0, sizeof(*step));
	if (item->kind == ITEM_HOST_COPY) {
		step->copy = item->copy;
		return;
	}
	step->fn = item->node->work.host.fn;
	step->data = item->node->work.host.userData;
}

static CUresult
post_steps(struct shim_exec *exec, struct shim_stream *stream, uint32_t depth)
{
	const struct shim_flat *flat = &exec->flat;
	uint32_t n = 0;
	struct run *run;
	CUresult r;

	for (uint32_t i = 0; i < flat->count; i++)
		n += is_step(&flat->items[i], depth);
	if (n == 0)
		return CUDA_SUCCESS;
	run = malloc(sizeof(*run) + n * sizeof(run->steps[0]));
	if (run == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	run->exec = exec;
	run->count = 0;
	for (uint32_t i = 0; i < flat->count; i++) {
		if (is_step(&flat->items[i], depth))
			take_step(&flat->items[i], &run->steps[run->count++]);
	}
	atomic_fetch_add(&exec->refs, 1);
	r = shim_host_post(stream, run_steps, run);
	if (r != CUDA_SUCCESS) {
		free(run);
		shim_exec_put(exec);
	}
	return r;
}

/* ---- memory operations between segments ---- */

static bool
is_memops(const struct shim_item *item, uint32_t depth, bool waiting)
{
	return item->kind == ITEM_MEMOPS && item->depth == depth &&
	       shim_memops_wait(&item->node->work.memops) == waiting;
}

static CUresult
post_memops(struct shim_exec *exec, struct shim_stream *stream, uint32_t depth,
	    bool waiting)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t i = 0; i < exec->flat.count && r == CUDA_SUCCESS; i++) {
		const struct shim_item *item = &exec->flat.items[i];

		if (is_memops(item, depth, waiting))
			r = shim_memops_issue(stream,
				item->node->work.memops.count,
				item->node->work.memops.paramArray);
	}
	return r;
}

/* Their memory may have gone since. */
static CUresult
check_memops(const struct shim_flat *flat)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t i = 0; i < flat->count && r == CUDA_SUCCESS; i++) {
		const CUDA_BATCH_MEM_OP_NODE_PARAMS *p =
			&flat->items[i].node->work.memops;

		if (flat->items[i].kind == ITEM_MEMOPS)
			r = shim_memops_check(p->count, p->paramArray, 0);
	}
	return r;
}

/* What holds nothing up first, and waits last: see graph_depth.c. */
static CUresult
post_between(struct shim_exec *exec, struct shim_stream *stream,
	     uint32_t depth)
{
	CUresult r;

	if (!exec->flat.has_host)
		return CUDA_SUCCESS;
	r = post_memops(exec, stream, depth, false);
	if (r == CUDA_SUCCESS)
		r = post_steps(exec, stream, depth);
	if (r == CUDA_SUCCESS)
		r = post_memops(exec, stream, depth, true);
	return r;
}

/* ---- launch ---- */

static CUresult
after_last(struct shim_exec *exec, struct shim_stream *stream)
{
	CUresult r;

	if (exec->order == NULL || !exec->launched)
		return CUDA_SUCCESS;
	r = shim_room_take(stream, SHIM_ROOM_OTHER);
	return r != CUDA_SUCCESS ? r :
	       call_mpsStreamWait(exec->chan, stream->object.handle,
				  (uintptr_t)exec->order, 0);
}

static CUresult
mark_last(struct shim_exec *exec, struct shim_stream *stream)
{
	CUresult r;

	if (exec->order == NULL)
		return CUDA_SUCCESS;
	r = shim_room_take(stream, SHIM_ROOM_OTHER);
	if (r == CUDA_SUCCESS)
		r = call_mpsEventRecord(exec->chan, (uintptr_t)exec->order,
					stream->object.handle, 0);
	exec->launched |= r == CUDA_SUCCESS;
	return r;
}

/* The events of its record nodes are about to be recorded. */
static void
mark_events(const struct shim_flat *flat)
{
	for (uint32_t i = 0; i < flat->count; i++) {
		const struct shim_item *item = &flat->items[i];
		struct shim_event *event;

		if (item->kind != ITEM_NODE || item->node->work.type !=
		    CU_GRAPH_NODE_TYPE_EVENT_RECORD)
			continue;
		event = shim_object_get(HANDLE_EVENT,
					(uintptr_t)item->node->work.event);
		if (event != NULL)
			shim_event_recorded(event);
	}
}

static CUresult
launch_segment(struct shim_exec *exec, struct shim_stream *stream, uint32_t i)
{
	CUresult r;

	if (exec->segments[i] == NULL)
		return CUDA_SUCCESS;
	r = shim_room_take(stream, SHIM_ROOM_LAUNCH);
	return r != CUDA_SUCCESS ? r :
	       call_mpsGraphLaunch(exec->chan,
				   exec->segments[i]->object.handle,
				   stream->object.handle);
}

static CUresult
launch_locked(struct shim_exec *exec, struct shim_stream *stream)
{
	CUresult r = exec->flat.has_host ? check_memops(&exec->flat) :
					   CUDA_SUCCESS;

	if (r == CUDA_SUCCESS)
		r = shim_slots_launch(exec, stream);
	if (r == CUDA_SUCCESS)
		r = after_last(exec, stream);
	for (uint32_t i = 0; i < exec->flat.depths && r == CUDA_SUCCESS; i++) {
		r = launch_segment(exec, stream, i);
		if (r == CUDA_SUCCESS)
			r = post_between(exec, stream, i);
	}
	if (r != CUDA_SUCCESS)
		return r;
	if (exec->flat.has_events)
		mark_events(&exec->flat);
	return mark_last(exec, stream);
}

static CUresult
launch(struct shim_exec *exec, CUstream handle)
{
	struct shim_stream *stream;
	CUresult r = shim_stream_find(handle, shim_current, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (stream->object.ctx->chan != exec->chan)
		return CUDA_ERROR_INVALID_VALUE;
	/* It does not become a child graph, as one might think (measured). */
	if (shim_stream_is_capturing(stream)) {
		shim_capture_spoil(stream);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_lock(&exec->lock);
	r = exec->segments == NULL ? CUDA_ERROR_ILLEGAL_STATE :
				     launch_locked(exec, stream);
	pthread_mutex_unlock(&exec->lock);
	return r;
}

CUresult
shim_cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
	struct shim_exec *exec = shim_exec_get(hGraph);
	CUresult r;

	if (exec == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = launch(exec, hStream);
	shim_exec_put(exec);
	return r;
}

static CUresult
upload(struct shim_exec *exec, CUstream handle)
{
	struct shim_stream *stream;
	CUresult r = shim_stream_find(handle, shim_current, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (stream->object.ctx->chan != exec->chan)
		return CUDA_ERROR_INVALID_VALUE;
	if (shim_stream_is_capturing(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&exec->lock);
	if (exec->segments == NULL)
		r = CUDA_ERROR_ILLEGAL_STATE;
	for (uint32_t i = 0; i < exec->flat.depths && r == CUDA_SUCCESS; i++) {
		if (exec->segments[i] != NULL)
			r = call_mpsGraphUpload(exec->chan,
				exec->segments[i]->object.handle,
				stream->object.handle);
	}
	pthread_mutex_unlock(&exec->lock);
	return r;
}

CUresult
shim_cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
	struct shim_exec *exec = shim_exec_get(hGraph);
	CUresult r;

	if (exec == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = upload(exec, hStream);
	shim_exec_put(exec);
	return r;
}
