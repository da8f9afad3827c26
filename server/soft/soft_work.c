/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work: making, copying, freeing, and handing it to a stream.
 */
#include "server/soft/soft_work.h"

#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_graph.h"

struct soft_work *
soft_work_new(enum soft_work_kind kind)
{
	struct soft_work *work = calloc(1, sizeof(*work));

	if (work)
		work->kind = kind;
	return work;
}

static bool
clone_buffer(void **buffer, size_t size)
{
	void *copy;

	if (!*buffer)
		return true;
	copy = malloc(size ? size : 1);
	if (copy)
		memcpy(copy, *buffer, size);
	*buffer = copy;
	return copy;
}

struct soft_work *
soft_work_clone(const struct soft_work *work)
{
	struct soft_work *copy = malloc(sizeof(*copy));
	bool ok = true;

	if (!copy)
		return NULL;
	*copy = *work;
	switch (work->kind) {
	case SOFT_WORK_KERNEL:
		ok = clone_buffer(&copy->kernel.params,
				  copy->kernel.param_size);
		break;
	case SOFT_WORK_RECORD:
	case SOFT_WORK_WAIT:
		soft_event_ref(copy->event);
		break;
	case SOFT_WORK_MEMOPS:
		ok = clone_buffer((void **)&copy->memops.ops,
				  copy->memops.count *
				  sizeof(*copy->memops.ops));
		break;
	case SOFT_WORK_CHILD:
		copy->child = soft_graph_clone(work->child);
		ok = copy->child;
		break;
	case SOFT_WORK_BRANCH:
		ok = soft_branch_clone(&copy->branch);
		break;
	case SOFT_WORK_EMPTY:
	case SOFT_WORK_COPY:     /* captured copies have no staging */
	case SOFT_WORK_SET:
	case SOFT_WORK_HOST:
	case SOFT_WORK_FREE:
		break;
	case SOFT_WORK_GRAPH:
		ok = false;      /* a launch is never a node */
		break;
	}
	if (!ok) {
		free(copy);
		return NULL;
	}
	return copy;
}

void
soft_work_free(struct soft_work *work)
{
	if (!work)
		return;
	switch (work->kind) {
	case SOFT_WORK_KERNEL:
		free(work->kernel.params);
		break;
	case SOFT_WORK_COPY:
		free(work->copy.staging);
		break;
	case SOFT_WORK_RECORD:
	case SOFT_WORK_WAIT:
		soft_event_unref(work->event);
		break;
	case SOFT_WORK_MEMOPS:
		free(work->memops.ops);
		break;
	case SOFT_WORK_GRAPH:
		soft_run_free(work->run);
		break;
	case SOFT_WORK_CHILD:
		soft_graph_free(work->child);
		break;
	case SOFT_WORK_BRANCH:
		soft_branch_free(&work->branch);
		break;
	case SOFT_WORK_EMPTY:
	case SOFT_WORK_SET:
	case SOFT_WORK_HOST:
	case SOFT_WORK_FREE:
		break;
	}
	free(work);
}

enum soft_op_kind
soft_work_op_kind(const struct soft_work *work)
{
	switch (work->kind) {
	case SOFT_WORK_KERNEL:
		return SOFT_OP_GRID;
	case SOFT_WORK_COPY:
	case SOFT_WORK_SET:
	case SOFT_WORK_FREE:
		return SOFT_OP_COPY;
	case SOFT_WORK_HOST:
		return SOFT_OP_HOST;
	case SOFT_WORK_MEMOPS:
		return SOFT_OP_POLL;
	case SOFT_WORK_GRAPH:
		return SOFT_OP_GRAPH;
	case SOFT_WORK_BRANCH:
		return SOFT_OP_BRANCH;
	case SOFT_WORK_EMPTY:
	case SOFT_WORK_RECORD:
	case SOFT_WORK_WAIT:
	case SOFT_WORK_CHILD:
		break;
	}
	return SOFT_OP_INSTANT;
}

/* The mark that work has to wait for besides its stream, referenced. */
static struct soft_mark *
work_after(const struct soft_work *work)
{
	struct soft_mark *mark = NULL;

	pthread_mutex_lock(&soft_sched.lock);
	if (work->kind == SOFT_WORK_WAIT)
		mark = soft_event_mark_locked(work->event);
	else if (work->kind == SOFT_WORK_GRAPH)
		mark = soft_run_after_locked(work->run);
	if (mark)
		soft_mark_ref(mark);
	pthread_mutex_unlock(&soft_sched.lock);
	return mark;
}

CUresult
soft_issue(struct soft_stream *stream, struct soft_work *work,
	   struct soft_mark **out_mark)
{
	struct soft_mark *after;
	struct soft_op *op;
	CUresult res;

	if (out_mark)
		*out_mark = NULL;
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = soft_capture_implicit(stream);
	if (res) {
		soft_work_free(work);
		return res;
	}
	if (stream->capture)
		return soft_capture_add(stream, work);
	after = work_after(work);
	op = soft_op_new(stream->ctx, work);
	if (op && op->kind == SOFT_OP_GRID) {
		res = soft_grid_make(op);
		if (res) {
			soft_op_free(op);
			return res;
		}
	}
	res = soft_submit(stream, op, &after, 1, out_mark);
	if (after)
		soft_mark_unref(after);
	return res;
}

CUresult
soft_issue_sync(struct soft_stream *stream, struct soft_work *work)
{
	struct soft_mark *mark;
	CUresult res = soft_issue(stream, work, &mark);

	if (res || !mark)
		return res;
	res = soft_mark_wait(mark);
	soft_mark_unref(mark);
	return res;
}
