/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: making them out of graphs, launching them.
 *
 * A launch takes one place in its stream. When that is reached, its nodes
 * run by their own dependencies, outside the hardware queues. Launches of
 * one executable graph follow each other.
 */
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_graph.h"
#include "server/soft/soft_memcpy.h"

static struct soft_item *
item_add(struct soft_exec *exec, const struct soft_node *node,
	 struct soft_work *work)
{
	struct soft_item *item;

	if (!work)
		return NULL;
	if (exec->count == exec->room) {
		unsigned room = exec->room ? exec->room * 2 : 16;
		struct soft_item *grown;

		grown = realloc(exec->items, room * sizeof(*grown));
		if (!grown) {
			soft_work_free(work);
			return NULL;
		}
		exec->items = grown;
		exec->room = room;
	}
	item = &exec->items[exec->count++];
	memset(item, 0, sizeof(*item));
	item->node = node;
	item->work = work;
	return item;
}

static bool
item_depend(struct soft_exec *exec, unsigned item, unsigned on)
{
	struct soft_item *at = &exec->items[item];
	unsigned *grown;

	grown = realloc(at->deps, (at->dep_count + 1) * sizeof(*grown));
	if (!grown)
		return false;
	at->deps = grown;
	at->deps[at->dep_count++] = on;
	return true;
}

static bool flatten(struct soft_exec *exec, const struct soft_graph *graph,
		    int before, unsigned *out_after);

/* A child: an entry that waits as the node does, its nodes, an exit. */
static bool
flatten_child(struct soft_exec *exec, const struct soft_node *node,
	      unsigned *out_entry, unsigned *out_exit)
{
	*out_entry = exec->count;
	if (!item_add(exec, node, soft_work_new(SOFT_WORK_EMPTY)))
		return false;
	return flatten(exec, node->work->child, (int)*out_entry, out_exit);
}

/* Adds the graph's nodes, those without dependencies behind item `before`
 * (if not -1), and one last item that waits for all of them. */
static bool
flatten(struct soft_exec *exec, const struct soft_graph *graph, int before,
	unsigned *out_after)
{
	unsigned *entry = calloc(graph->count + 1, sizeof(*entry));
	unsigned *last = calloc(graph->count + 1, sizeof(*last));
	bool ok = entry && last;

	for (unsigned i = 0; ok && i < graph->count; i++) {
		const struct soft_node *node = graph->nodes[i];

		if (node->work->kind == SOFT_WORK_CHILD) {
			ok = flatten_child(exec, node, &entry[i], &last[i]);
			continue;
		}
		entry[i] = last[i] = exec->count;
		ok = item_add(exec, node,
			      node->work->kind == SOFT_WORK_BRANCH ?
			      soft_branch_item(node->work, exec->ctx) :
			      soft_work_clone(node->work));
	}
	*out_after = exec->count;
	ok = ok && item_add(exec, NULL, soft_work_new(SOFT_WORK_EMPTY));
	for (unsigned i = 0; ok && i < graph->count; i++) {
		const struct soft_node *node = graph->nodes[i];

		if (!node->dep_count && before >= 0)
			ok = item_depend(exec, entry[i], (unsigned)before);
		for (unsigned k = 0; ok && k < node->dep_count; k++)
			ok = item_depend(exec, entry[i],
					 last[node->deps[k]->index]);
		ok = ok && item_depend(exec, *out_after, last[i]);
	}
	if (ok && before >= 0)
		ok = item_depend(exec, *out_after, (unsigned)before);
	free(entry);
	free(last);
	return ok;
}

static bool
all_marked(const struct soft_item *item, const unsigned char *marked)
{
	for (unsigned i = 0; i < item->dep_count; i++)
		if (!marked[item->deps[i]])
			return false;
	return true;
}

/* Marks what all its dependencies are marked of; items on a cycle never are.
 * Most graphs are in order: one round. */
static CUresult
check_order(const struct soft_exec *exec)
{
	unsigned char *marked = calloc(exec->count, 1);
	unsigned left = exec->count, before;

	if (!marked)
		return CUDA_ERROR_OUT_OF_MEMORY;
	do {
		before = left;
		for (unsigned i = 0; i < exec->count; i++)
			if (!marked[i] && all_marked(&exec->items[i], marked)) {
				marked[i] = 1;
				left--;
			}
	} while (left && left < before);
	free(marked);
	return left ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* A captured one may go anywhere. */
static bool
fills_are_mapped(const struct soft_exec *exec)
{
	for (unsigned i = 0; i < exec->count; i++) {
		const struct soft_work *work = exec->items[i].work;

		if (work->kind == SOFT_WORK_SET &&
		    !soft_set_is_mapped(&work->set))
			return false;
	}
	return true;
}

struct soft_exec *
soft_exec_body(struct soft_graph *graph, struct soft_ctx *ctx,
	       CUresult *out_res)
{
	struct soft_exec *exec = calloc(1, sizeof(*exec));
	unsigned after;

	*out_res = CUDA_ERROR_OUT_OF_MEMORY;
	if (!exec)
		return NULL;
	exec->refs = 1;
	exec->ctx = ctx;
	if (flatten(exec, graph, -1, &after))
		*out_res = check_order(exec);
	if (!*out_res && !fills_are_mapped(exec))
		*out_res = CUDA_ERROR_INVALID_VALUE;
	if (!*out_res)
		return exec;
	soft_exec_unref(exec);
	return NULL;
}

CUresult
soft_exec_new(struct soft_graph *graph, struct soft_ctx *ctx,
	      struct soft_exec **out)
{
	CUresult res;
	struct soft_exec *exec = soft_exec_body(graph, ctx, &res);

	if (!exec)
		return res;
	exec->source = soft_graph_clone(graph);
	if (!exec->source || !soft_handle_add(exec, SOFT_HANDLE_EXEC)) {
		soft_exec_unref(exec);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = exec;
	return CUDA_SUCCESS;
}

void
soft_exec_unref(struct soft_exec *exec)
{
	if (atomic_fetch_sub(&exec->refs, 1) != 1)
		return;
	soft_graph_free(exec->source);
	for (unsigned i = 0; i < exec->count; i++) {
		soft_work_free(exec->items[i].work);
		free(exec->items[i].deps);
	}
	free(exec->items);
	soft_mark_unref(exec->last);
	free(exec);
}

struct soft_item *
soft_exec_item(struct soft_exec *exec, const struct soft_node *node)
{
	struct soft_item *found = NULL;

	for (unsigned i = 0; i < exec->count && !found; i++) {
		const struct soft_work *work = exec->items[i].work;

		if (exec->items[i].node == node)
			found = &exec->items[i];
		for (unsigned k = 0; work->kind == SOFT_WORK_BRANCH &&
		     k < work->branch.count && !found; k++)
			found = soft_exec_item(work->branch.execs[k], node);
	}
	return found;
}

static CUresult
run_op(struct soft_run *run, unsigned i, struct soft_ctx *ctx)
{
	const struct soft_item *item = &run->exec->items[i];
	struct soft_work *work = item->disabled ?
		soft_work_new(SOFT_WORK_EMPTY) : soft_work_clone(item->work);
	struct soft_op *op;

	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op = soft_op_new(ctx, work);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	run->ops[i] = op;
	op->run = run;
	op->item = i;
	return op->kind == SOFT_OP_GRID ? soft_grid_make(op) : CUDA_SUCCESS;
}

/* A record node's event is the launch's from the launch on. */
static bool
run_record_locked(struct soft_op *op)
{
	if (op->work->kind != SOFT_WORK_RECORD)
		return true;
	op->mark = soft_mark_new();
	if (!op->mark)
		return false;
	op->mark->op = op;
	soft_event_set_locked(op->work->event, op->mark);
	/* Whatever place in a capture it stood for before. */
	atomic_store(&op->work->event->capture_id, 0);
	return true;
}

static bool
run_wire_locked(struct soft_run *run)
{
	for (unsigned i = 0; i < run->count; i++) {
		const struct soft_item *item = &run->exec->items[i];

		for (unsigned k = 0; k < item->dep_count; k++)
			if (!soft_op_depend_locked(run->ops[i],
						   run->ops[item->deps[k]]))
				return false;
		if (!run_record_locked(run->ops[i]))
			return false;
	}
	return true;
}

/* Leaves what it has made of it, on failure too. */
static CUresult
run_make(struct soft_exec *exec, struct soft_ctx *ctx, struct soft_run **out)
{
	struct soft_run *run = calloc(1, sizeof(*run));
	CUresult res = CUDA_SUCCESS;

	*out = run;
	if (!run)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_fetch_add(&exec->refs, 1);
	run->exec = exec;
	run->count = run->left = exec->count;
	run->ops = calloc(run->count + 1, sizeof(*run->ops));
	if (!run->ops)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < run->count && !res; i++)
		res = run_op(run, i, ctx);
	return res;
}

CUresult
soft_run_new(struct soft_exec *exec, struct soft_ctx *ctx,
	     struct soft_run **out)
{
	struct soft_run *run;
	CUresult res = run_make(exec, ctx, &run);

	if (!res) {
		pthread_mutex_lock(&soft_sched.lock);
		if (!run_wire_locked(run))
			res = CUDA_ERROR_OUT_OF_MEMORY;
		pthread_mutex_unlock(&soft_sched.lock);
	}
	if (res) {
		soft_run_free(run);
		return res;
	}
	*out = run;
	return CUDA_SUCCESS;
}

struct soft_mark *
soft_run_after_locked(const struct soft_run *run)
{
	return run->exec->last;
}

static void
run_wait_locked(struct soft_op *op)
{
	struct soft_mark *mark;

	if (op->work->kind != SOFT_WORK_WAIT)
		return;
	mark = soft_event_mark_locked(op->work->event);
	if (mark && !soft_op_depend_locked(op, mark->op))
		soft_sched_fail_locked();
}

static void
run_start_locked(struct soft_run *run, struct soft_op *op)
{
	run->op = op;
	run->started = true;
	for (unsigned i = 0; i < run->count; i++) {
		run_wait_locked(run->ops[i]);
		run->ops[i]->tag = op->tag;
		run->ops[i]->priority = op->priority;
		soft_op_launch_locked(run->ops[i]);
	}
}

void
soft_run_start_locked(struct soft_op *op)
{
	soft_conds_begin(op->work->run);
	run_start_locked(op->work->run, op);
}

CUresult
soft_run_body_locked(struct soft_exec *exec, struct soft_op *op)
{
	struct soft_run *run;
	CUresult res = run_make(exec, op->ctx, &run);

	if (!res && !run_wire_locked(run))
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (res) {
		soft_run_free(run);
		return res;
	}
	run->is_body = true;
	run_start_locked(run, op);
	return CUDA_SUCCESS;
}

void
soft_run_item_end_locked(struct soft_run *run, unsigned item)
{
	run->ops[item] = NULL;
	if (--run->left)
		return;
	if (run->is_body)
		soft_branch_body_end_locked(run);
	else
		soft_op_end_locked(run->op);
}

/* A run that never started owns its operations. */
void
soft_run_free(struct soft_run *run)
{
	if (!run)
		return;
	for (unsigned i = 0; run->ops && !run->started && i < run->count; i++)
		if (run->ops[i]) {
			soft_mark_unref(run->ops[i]->mark);
			soft_op_free(run->ops[i]);
		}
	free(run->ops);
	soft_exec_unref(run->exec);
	free(run);
}

CUresult
cuGraphLaunch(CUgraphExec handle, CUstream hstream)
{
	struct soft_stream *stream;
	struct soft_work *work = NULL;
	struct soft_mark *mark = NULL;
	struct soft_exec *exec;
	CUresult res = soft_stream_from(hstream, &stream, NULL);

	if (res)
		return res;
	exec = soft_handle_get(handle, SOFT_HANDLE_EXEC);
	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture)
		return soft_capture_refuse(stream);
	soft_print_flush();
	pthread_mutex_lock(&soft_graph_lock);
	work = soft_work_new(SOFT_WORK_GRAPH);
	res = work ? soft_run_new(exec, stream->ctx, &work->run) :
		     CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&soft_graph_lock);
	if (res) {
		free(work);
		return res;
	}
	res = soft_issue(stream, work, &mark);
	if (!mark)
		return res;
	pthread_mutex_lock(&soft_sched.lock);
	soft_mark_unref(exec->last);
	exec->last = mark;
	pthread_mutex_unlock(&soft_sched.lock);
	return res;
}
