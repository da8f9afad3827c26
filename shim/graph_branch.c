/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes: handles of conditions, and nodes that choose bodies by
 * them.
 */
#include "shim/graph_branch.h"

#include <stdlib.h>
#include <string.h>

#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/graph_exec.h"
#include "shim_calls.h"
#include "shim_impl.h"

/* Without references, but not yet ended in the worker. */
static struct shim_home *ending;

/* ---- homes ---- */

void
shim_home_put_locked(struct shim_home *home)
{
	if (home == NULL || --home->refs > 0)
		return;
	home->next = ending;
	ending = home;
}

void
shim_homes_end(void)
{
	struct shim_home *home, *next;

	pthread_mutex_lock(&shim_graph_lock);
	home = ending;
	ending = NULL;
	pthread_mutex_unlock(&shim_graph_lock);
	for (; home != NULL; home = next) {
		next = home->next;
		shim_segment_drop(home->chan, home->segment);
		free(home->conditions);
		free(home);
	}
}

bool
shim_home_idles_locked(const struct shim_home *home)
{
	for (uint32_t i = 0; i < home->count; i++) {
		if (!home->conditions[i].used)
			return true;
	}
	return false;
}

/* The graph that a graph is in, whatever is between them. */
static struct shim_graph *
outermost(const struct shim_graph *graph)
{
	while (graph->owner != NULL)
		graph = graph->owner->graph;
	return (struct shim_graph *)graph;
}

/* With one more reference. */
static CUresult
find_home(CUgraph handle, struct shim_home **out)
{
	const struct shim_graph *graph;
	CUresult r = CUDA_SUCCESS;

	*out = NULL;
	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(handle);
	if (graph == NULL)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		*out = outermost(graph)->home;
	if (*out != NULL)
		(*out)->refs++;
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

static void
put_home(struct shim_home *home)
{
	pthread_mutex_lock(&shim_graph_lock);
	shim_home_put_locked(home);
	pthread_mutex_unlock(&shim_graph_lock);
	shim_homes_end();
}

static CUresult
new_home(struct shim_chan *chan, struct shim_home **out)
{
	const struct shim_flat nothing = {0};
	struct shim_home *home = calloc(1, sizeof(*home));
	CUresult r;

	if (home == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	home->refs = 1;
	home->chan = chan;
	r = shim_segment_send(chan, &nothing, 0, NULL, &home->segment);
	if (r != CUDA_SUCCESS) {
		free(home);
		return r;
	}
	*out = home;
	return CUDA_SUCCESS;
}

/* Of two threads that make one, the first one's counts. The reference of the
 * caller goes on to be one of what is found. */
static CUresult
settle_home(CUgraph handle, struct shim_home **home)
{
	struct shim_graph *graph;
	struct shim_home *made = *home;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&shim_graph_lock);
	graph = shim_graph_get_locked(handle);
	if (graph == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
		shim_home_put_locked(made);
	} else if ((graph = outermost(graph))->home != NULL) {
		*home = graph->home;
		(*home)->refs++;
		shim_home_put_locked(made);
	} else {
		graph->home = made;
		made->refs++;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	shim_homes_end();
	return r;
}

static CUresult
note_condition(struct shim_home *home, CUgraphConditionalHandle handle)
{
	struct shim_condition *grown;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	pthread_mutex_lock(&shim_graph_lock);
	grown = realloc(home->conditions, (home->count + 1) * sizeof(*grown));
	if (grown != NULL) {
		home->conditions = grown;
		grown[home->count++] = (struct shim_condition){
			.handle = handle,
		};
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out,
				    CUgraph hGraph, CUcontext ctx,
				    unsigned int defaultLaunchValue,
				    unsigned int flags)
{
	struct shim_context *context;
	struct shim_home *home;
	uint64_t handle = 0;
	CUresult r;

	if (pHandle_out == NULL || flags & ~(unsigned)
	    CU_GRAPH_COND_ASSIGN_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	r = ctx == NULL ? CUDA_ERROR_INVALID_CONTEXT :
			  shim_ctx_find(ctx, &context);
	if (r == CUDA_SUCCESS)
		r = find_home(hGraph, &home);
	if (r != CUDA_SUCCESS)
		return r;
	if (home == NULL) {
		r = new_home(context->chan, &home);
		if (r == CUDA_SUCCESS)
			r = settle_home(hGraph, &home);
		if (r != CUDA_SUCCESS)
			return r;
	}
	r = home->chan == context->chan ?
	    call_mpsGraphCondition(home->chan, home->segment->object.handle,
				   defaultLaunchValue, flags, &handle) :
	    CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = note_condition(home, handle);
	if (r == CUDA_SUCCESS)
		*pHandle_out = handle;
	put_home(home);
	return r;
}

/* ---- nodes ---- */

static struct shim_condition *
find_condition(const struct shim_graph *graph, CUgraphConditionalHandle handle)
{
	const struct shim_home *home = outermost(graph)->home;

	for (uint32_t i = 0; home != NULL && i < home->count; i++) {
		if (home->conditions[i].handle == handle)
			return &home->conditions[i];
	}
	return NULL;
}

CUresult
shim_branch_check_locked(const struct shim_graph *graph,
			 const struct shim_work *work)
{
	const struct shim_condition *condition;

	if (work->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return CUDA_SUCCESS;
	condition = find_condition(graph, work->branch.condition);
	return condition == NULL || condition->used ?
	       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* What is in an executable graph has no home, and marks nothing. */
void
shim_branch_use_locked(const struct shim_node *node, bool used)
{
	struct shim_condition *condition;

	if (node->work.type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return;
	condition = find_condition(node->graph, node->work.branch.condition);
	if (condition != NULL)
		condition->used = used;
	for (uint32_t i = 0; i < node->work.branch.count && !used; i++) {
		const struct shim_graph *body = node->work.branch.bodies[i];

		for (uint32_t k = 0; k < body->count; k++)
			shim_branch_use_locked(body->nodes[k], false);
	}
}

bool
shim_graph_branches(const struct shim_graph *graph)
{
	bool found = false;

	for (uint32_t i = 0; i < graph->count && !found; i++) {
		const struct shim_work *work = &graph->nodes[i]->work;

		found = work->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
			(work->type == CU_GRAPH_NODE_TYPE_GRAPH &&
			 shim_graph_branches(work->child));
	}
	return found;
}

void
shim_branch_clear_locked(struct shim_branch_work *branch)
{
	for (uint32_t i = 0; branch->bodies != NULL && i < branch->count; i++)
		shim_graph_free_locked(branch->bodies[i]);
	free(branch->bodies);
	free(branch->list);
	branch->bodies = NULL;
	branch->list = NULL;
	branch->count = 0;
}

static bool
make_lists(struct shim_branch_work *branch)
{
	branch->bodies = calloc(branch->count, sizeof(*branch->bodies));
	branch->list = calloc(branch->count, sizeof(*branch->list));
	return branch->bodies != NULL && branch->list != NULL;
}

static bool
put_body(struct shim_branch_work *branch, uint32_t i, struct shim_graph *body)
{
	if (body == NULL)
		return false;
	body->moved = true;
	branch->bodies[i] = body;
	branch->list[i] = (CUgraph)(uintptr_t)body->object.handle;
	return true;
}

CUresult
shim_branch_clone_locked(const struct shim_branch_work *branch,
			 struct shim_branch_work *out)
{
	bool good;

	*out = *branch;
	good = make_lists(out);
	for (uint32_t i = 0; i < out->count && good; i++) {
		const struct shim_graph *body = branch->bodies[i];

		good = put_body(out, i, shim_graph_clone_locked(
			body, body->object.ctx, body->object.handle != 0));
	}
	if (!good)
		shim_branch_clear_locked(out);
	return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool
is_shape(CUgraphConditionalNodeType type, uint32_t count)
{
	switch (type) {
	case CU_GRAPH_COND_TYPE_IF:
		return count == 1 || count == 2;
	case CU_GRAPH_COND_TYPE_WHILE:
		return count == 1;
	case CU_GRAPH_COND_TYPE_SWITCH:
		return count >= 1 && count <= GRAPH_BRANCHES_MAX;
	default:
		return false;
	}
}

CUresult
shim_work_branch(const CUDA_CONDITIONAL_NODE_PARAMS *p, struct shim_work *out)
{
	struct shim_branch_work *branch = &out->branch;
	struct shim_context *ctx = shim_current;
	CUresult r = CUDA_SUCCESS;
	bool good;

	if (!is_shape(p->type, p->size))
		return CUDA_ERROR_INVALID_VALUE;
	if (p->ctx != NULL)
		r = shim_ctx_find(p->ctx, &ctx);
	if (r != CUDA_SUCCESS)
		return r;
	memset(out, 0, sizeof(*out));
	out->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	branch->condition = p->handle;
	branch->type = p->type;
	branch->count = p->size;
	pthread_mutex_lock(&shim_graph_lock);
	good = make_lists(branch);
	for (uint32_t i = 0; i < branch->count && good; i++)
		good = put_body(branch, i, shim_graph_new(ctx, true));
	if (!good)
		shim_work_clear_locked(out);
	pthread_mutex_unlock(&shim_graph_lock);
	return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
