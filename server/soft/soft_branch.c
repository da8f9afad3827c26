/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes: conditions, that kernels set by their handles, and the
 * bodies that run for their values.
 *
 * A launch has executable forms of all bodies of its own: what is changed
 * later is the next launch's. Bodies are started by the scheduler, as often
 * as the condition says.
 */
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_graph.h"

/* A handle is a number: a place of the table and a generation. */
#define CONDS_MAX 65536u
#define GENERATION_SHIFT 32
#define BODIES_MAX 4096u

struct soft_cond {
	_Atomic unsigned refs;       /* the graph, nodes and items */
	CUgraphConditionalHandle handle;
	_Atomic uint32_t value;
	uint32_t initial;
	bool assigns;                /* initial, at each launch */
	bool used;                   /* by a node */
	bool taken;                  /* by an executable graph */
	struct soft_cond *next;      /* of its graph */
};

/* Guards the table; taken last. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct soft_cond *table[CONDS_MAX];
static uint32_t generation;

/* ---- conditions ---- */

static bool
table_add(struct soft_cond *cond)
{
	bool found = false;

	pthread_mutex_lock(&table_lock);
	for (uint32_t i = 0; i < CONDS_MAX && !found; i++) {
		if (table[i])
			continue;
		table[i] = cond;
		cond->handle = (uint64_t)++generation << GENERATION_SHIFT | i;
		found = true;
	}
	pthread_mutex_unlock(&table_lock);
	return found;
}

static struct soft_cond *
find_locked(uint64_t handle)
{
	uint32_t i = (uint32_t)handle;

	return i < CONDS_MAX && table[i] && table[i]->handle == handle ?
	       table[i] : NULL;
}

static void
cond_unref(struct soft_cond *cond)
{
	if (atomic_fetch_sub(&cond->refs, 1) != 1)
		return;
	pthread_mutex_lock(&table_lock);
	table[(uint32_t)cond->handle] = NULL;
	pthread_mutex_unlock(&table_lock);
	free(cond);
}

bool
soft_cond_set(void *ctx, uint64_t handle, uint32_t value)
{
	struct soft_cond *cond;

	(void)ctx;
	pthread_mutex_lock(&table_lock);
	cond = find_locked(handle);
	if (cond)
		atomic_store(&cond->value, value);
	pthread_mutex_unlock(&table_lock);
	return cond;
}

static struct soft_graph *
outermost(struct soft_graph *graph)
{
	while (graph->outer)
		graph = graph->outer;
	return graph;
}

CUresult
cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph handle,
			       CUcontext ctx, unsigned int value,
			       unsigned int flags)
{
	struct soft_graph *graph;
	struct soft_cond *cond;
	CUresult res = soft_enter_live();

	if (res)
		return res;
	graph = soft_handle_get(handle, SOFT_HANDLE_GRAPH);
	if (!out || !graph || flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	if (!soft_ctx_from(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	cond = calloc(1, sizeof(*cond));
	if (!cond || !table_add(cond)) {
		free(cond);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	cond->refs = 1;
	cond->initial = value;
	cond->assigns = flags & CU_GRAPH_COND_ASSIGN_DEFAULT;
	*out = cond->handle;
	pthread_mutex_lock(&soft_graph_lock);
	graph = outermost(graph);
	cond->next = graph->conds;
	graph->conds = cond;
	pthread_mutex_unlock(&soft_graph_lock);
	return CUDA_SUCCESS;
}

void
soft_conds_free(struct soft_graph *graph)
{
	while (graph->conds) {
		struct soft_cond *cond = graph->conds;

		graph->conds = cond->next;
		cond_unref(cond);
	}
}

/* ---- nodes ---- */

bool
soft_graph_branches(const struct soft_graph *graph)
{
	bool found = false;

	for (unsigned i = 0; i < graph->count && !found; i++) {
		const struct soft_work *work = graph->nodes[i]->work;

		found = work->kind == SOFT_WORK_BRANCH ||
			(work->kind == SOFT_WORK_CHILD &&
			 soft_graph_branches(work->child));
	}
	return found;
}

static struct soft_cond *
idle_cond_locked(struct soft_graph *graph, uint64_t handle)
{
	struct soft_cond *cond = outermost(graph)->conds;

	while (cond && cond->handle != handle)
		cond = cond->next;
	return cond && !cond->used ? cond : NULL;
}

void
soft_conds_idle(const struct soft_node *node)
{
	const struct soft_branch_work *b = &node->work->branch;

	if (node->work->kind != SOFT_WORK_BRANCH)
		return;
	b->cond->used = false;
	for (unsigned i = 0; i < b->count; i++)
		for (unsigned k = 0; k < b->graphs[i]->count; k++)
			soft_conds_idle(b->graphs[i]->nodes[k]);
}

static bool
is_shape(const CUDA_CONDITIONAL_NODE_PARAMS *p)
{
	switch (p->type) {
	case CU_GRAPH_COND_TYPE_IF:
		return p->size == 1 || p->size == 2;
	case CU_GRAPH_COND_TYPE_WHILE:
		return p->size == 1;
	case CU_GRAPH_COND_TYPE_SWITCH:
		return p->size >= 1 && p->size <= BODIES_MAX;
	}
	return false;
}

static struct soft_work *
node_work(const CUDA_CONDITIONAL_NODE_PARAMS *p, struct soft_cond *cond)
{
	struct soft_work *work = soft_work_new(SOFT_WORK_BRANCH);
	bool ok = work;

	if (!work)
		return NULL;
	atomic_fetch_add(&cond->refs, 1);
	work->branch.cond = cond;
	work->branch.type = p->type;
	work->branch.count = p->size;
	work->branch.graphs = calloc(p->size, sizeof(*work->branch.graphs));
	ok = work->branch.graphs;
	for (unsigned i = 0; i < p->size && ok; i++) {
		struct soft_graph *body = soft_graph_new();

		work->branch.graphs[i] = body;
		ok = body;
		if (ok)
			body->is_child = body->is_moved = true;
	}
	if (!ok) {
		soft_work_free(work);
		return NULL;
	}
	return work;
}

CUresult
soft_branch_add(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps,
		size_t count, CUDA_CONDITIONAL_NODE_PARAMS *p)
{
	struct soft_graph *graph = soft_handle_get(handle, SOFT_HANDLE_GRAPH);
	struct soft_work *work = NULL;
	struct soft_cond *cond;
	CUresult res;

	if (!out || !graph || !is_shape(p))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_graph_lock);
	cond = idle_cond_locked(graph, p->handle);
	if (cond)
		work = node_work(p, cond);
	pthread_mutex_unlock(&soft_graph_lock);
	if (!cond)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_graph_add(out, handle, deps, count, work);
	if (res)
		return res;
	cond->used = true;
	p->phGraph_out = (CUgraph *)work->branch.graphs;
	return CUDA_SUCCESS;
}

/* A copy of what an item does: everything in it is the copy's. */
static struct soft_exec *
exec_copy(const struct soft_exec *exec)
{
	struct soft_exec *copy = calloc(1, sizeof(*copy));
	bool ok = copy;

	if (!copy)
		return NULL;
	copy->refs = 1;
	copy->ctx = exec->ctx;
	copy->room = exec->count;
	copy->items = calloc(exec->count + 1, sizeof(*copy->items));
	ok = copy->items;
	for (unsigned i = 0; i < exec->count && ok; i++) {
		const struct soft_item *from = &exec->items[i];
		struct soft_item *to = &copy->items[copy->count++];
		size_t size = from->dep_count * sizeof(*to->deps);

		*to = *from;
		to->work = soft_work_clone(from->work);
		to->deps = malloc(size + 1);
		ok = to->work && to->deps;
		if (to->deps && size)
			memcpy(to->deps, from->deps, size);
	}
	if (!ok) {
		soft_exec_unref(copy);
		return NULL;
	}
	return copy;
}

bool
soft_branch_clone(struct soft_branch_work *copy)
{
	const struct soft_branch_work from = *copy;
	bool ok = true;

	copy->graphs = NULL;
	copy->execs = NULL;
	atomic_fetch_add(&copy->cond->refs, 1);
	if (from.graphs) {
		copy->graphs = calloc(from.count, sizeof(*copy->graphs));
		ok = copy->graphs;
	}
	for (unsigned i = 0; i < from.count && from.graphs && ok; i++) {
		copy->graphs[i] = soft_graph_clone(from.graphs[i]);
		ok = copy->graphs[i];
		if (ok)
			copy->graphs[i]->is_child =
				copy->graphs[i]->is_moved = true;
	}
	if (from.execs && ok) {
		copy->execs = calloc(from.count, sizeof(*copy->execs));
		ok = copy->execs;
	}
	for (unsigned i = 0; i < from.count && from.execs && ok; i++) {
		copy->execs[i] = exec_copy(from.execs[i]);
		ok = copy->execs[i];
	}
	if (!ok)
		soft_branch_free(copy);
	return ok;
}

void
soft_branch_free(struct soft_branch_work *branch)
{
	for (unsigned i = 0; i < branch->count; i++) {
		if (branch->graphs)
			soft_graph_free(branch->graphs[i]);
		if (branch->execs && branch->execs[i])
			soft_exec_unref(branch->execs[i]);
	}
	free(branch->graphs);
	free(branch->execs);
	cond_unref(branch->cond);
}

/* ---- executable graphs ---- */

struct soft_work *
soft_branch_item(const struct soft_work *node, struct soft_ctx *ctx)
{
	const struct soft_branch_work *b = &node->branch;
	struct soft_work *work = soft_work_new(SOFT_WORK_BRANCH);
	CUresult res = CUDA_SUCCESS;

	if (!work)
		return NULL;
	atomic_fetch_add(&b->cond->refs, 1);
	work->branch.cond = b->cond;
	work->branch.type = b->type;
	work->branch.count = b->count;
	work->branch.execs = calloc(b->count, sizeof(*work->branch.execs));
	if (!work->branch.execs)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < b->count && !res; i++)
		work->branch.execs[i] = soft_exec_body(b->graphs[i], ctx, &res);
	if (res) {
		soft_work_free(work);
		return NULL;
	}
	return work;
}

static void
each_cond_of(const struct soft_work *work,
	     void (*visit)(struct soft_cond *cond))
{
	const struct soft_exec *exec;

	if (work->kind != SOFT_WORK_BRANCH)
		return;
	visit(work->branch.cond);
	for (unsigned k = 0; k < work->branch.count; k++) {
		exec = work->branch.execs[k];
		for (unsigned i = 0; i < exec->count; i++)
			each_cond_of(exec->items[i].work, visit);
	}
}

static void
each_cond(const struct soft_exec *exec, void (*visit)(struct soft_cond *cond))
{
	for (unsigned i = 0; i < exec->count; i++)
		each_cond_of(exec->items[i].work, visit);
}

static void
assign(struct soft_cond *cond)
{
	if (cond->assigns)
		atomic_store(&cond->value, cond->initial);
}

static void
take(struct soft_cond *cond)
{
	cond->taken = true;
}

static void
give(struct soft_cond *cond)
{
	cond->taken = false;
}

void
soft_conds_begin(const struct soft_run *run)
{
	for (unsigned i = 0; i < run->count; i++)
		each_cond_of(run->ops[i]->work, assign);
}

bool
soft_conds_any(const struct soft_exec *exec)
{
	for (unsigned i = 0; i < exec->count; i++)
		if (exec->items[i].work->kind == SOFT_WORK_BRANCH)
			return true;
	return false;
}

static bool
has_unused(const struct soft_graph *graph)
{
	const struct soft_cond *cond = graph->conds;

	while (cond && cond->used)
		cond = cond->next;
	return cond;
}

bool
soft_conds_unused(CUgraph handle)
{
	const struct soft_graph *graph =
		soft_handle_get(handle, SOFT_HANDLE_GRAPH);
	bool unused;

	pthread_mutex_lock(&soft_graph_lock);
	unused = graph && has_unused(graph);
	pthread_mutex_unlock(&soft_graph_lock);
	return unused;
}

CUresult
soft_conds_take(const struct soft_graph *graph, const struct soft_exec *exec)
{
	if (has_unused(graph))
		return CUDA_ERROR_INVALID_VALUE;
	for (const struct soft_cond *c = graph->conds; c; c = c->next)
		if (c->taken)
			return CUDA_ERROR_NOT_SUPPORTED;
	each_cond(exec, take);
	return CUDA_SUCCESS;
}

void
soft_conds_give(const struct soft_exec *exec)
{
	each_cond(exec, give);
}

/* ---- running ---- */

static struct soft_exec *
chosen(const struct soft_branch_work *b)
{
	uint32_t value = atomic_load(&b->cond->value);

	switch (b->type) {
	case CU_GRAPH_COND_TYPE_IF:
		value = !value;
		break;
	case CU_GRAPH_COND_TYPE_WHILE:
		value = value ? 0 : b->count;
		break;
	case CU_GRAPH_COND_TYPE_SWITCH:
		break;
	}
	return value < b->count ? b->execs[value] : NULL;
}

void
soft_branch_step_locked(struct soft_op *op)
{
	struct soft_exec *exec = chosen(&op->work->branch);

	if (!exec)
		soft_op_end_locked(op);
	else if (soft_run_body_locked(exec, op))
		soft_sched_fail_locked();
}

/* Its end is a matter of threads, so that the pump does not go round in it. */
static bool
takes_time(const struct soft_exec *exec)
{
	for (unsigned i = 0; i < exec->count; i++) {
		enum soft_op_kind kind =
			soft_work_op_kind(exec->items[i].work);

		if (!exec->items[i].disabled && kind != SOFT_OP_INSTANT &&
		    kind != SOFT_OP_BRANCH)
			return true;
	}
	return false;
}

void
soft_branch_body_end_locked(struct soft_run *run)
{
	bool fast = !takes_time(run->exec);
	struct soft_op *op = run->op;

	soft_run_free(run);
	if (op->work->branch.type != CU_GRAPH_COND_TYPE_WHILE) {
		soft_op_end_locked(op);
	} else if (fast) {
		op->queue_next = soft_sched.polls;
		soft_sched.polls = op;
		pthread_cond_broadcast(&soft_sched.copies);
	} else {
		soft_branch_step_locked(op);
	}
}
