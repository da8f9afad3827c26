/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grids: which blocks run next, on whatever threads come in.
 *
 * A unit (a cluster, mostly of one block) that used up its slice, or only
 * waits for others, goes to the end of a queue. A new unit is started when
 * the queue is shorter than the threads that are inside, and once for every
 * time the whole queue had its turn, up to what a device would hold at once:
 * so whatever a block waits for gets there, as on a device, and memory stays
 * bounded.
 */
#include "server/soft/ptx_exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_NS 2000000u

static bool
is_valid(const struct ptx_launch *l)
{
	uint64_t threads = 1, blocks = 1;

	for (unsigned d = 0; d < 3; d++) {
		if (!l->grid[d] || !l->block[d] || l->block[d] > 1024)
			return false;
		threads *= l->block[d];
		blocks *= l->grid[d];
		if (blocks > 1ull << 50)
			return false;
	}
	return threads <= 1024 && l->kernel->module->is_linked;
}

static bool
cluster_is_valid(const struct ptx_launch *l)
{
	uint64_t size = 1;

	for (unsigned d = 0; d < 3; d++) {
		if (!l->cluster[d] || l->cluster[d] > PTX_CLUSTER_MAX ||
		    l->grid[d] % l->cluster[d])
			return false;
		size *= l->cluster[d];
	}
	return size <= PTX_CLUSTER_MAX;
}

/* As many as the multiprocessors that the grid may use would hold. */
static uint64_t
most_live(const struct ptx_grid *g)
{
	uint64_t a_sm = 2048 / g->nthreads;
	uint64_t by_shared = g->shared_size ? (228u << 10) /
			     (g->shared_size + 1024) : 32;
	a_sm = a_sm > 32 ? 32 : a_sm;
	if (by_shared < a_sm)
		a_sm = by_shared ? by_shared : 1;
	return g->launch.sms * a_sm / g->cluster_size + 1;
}

int
ptx_grid_create(struct ptx_grid **out_grid, const struct ptx_launch *l)
{
	struct ptx_launch copy = *l;
	struct ptx_grid *g;

	*out_grid = NULL;
	if (!copy.cluster[0] || !copy.cluster[1] || !copy.cluster[2])
		copy.cluster[0] = copy.cluster[1] = copy.cluster[2] = 1;
	if (!is_valid(&copy) || !cluster_is_valid(&copy) ||
	    l->kernel->shared_static + l->dyn_shared > PTX_SHARED_MAX)
		return -EINVAL;
	g = aligned_alloc(64, (sizeof(*g) + 63) & ~63ull);
	if (!g)
		return -ENOMEM;
	memset(g, 0, sizeof(*g));
	g->launch = copy;
	g->kernel = *l->kernel;
	g->launch.kernel = &g->kernel;
	if (!g->launch.sms)
		g->launch.sms = copy.env->sms ? copy.env->sms : 1;
	g->func = l->kernel->func;
	g->shared_size = l->kernel->shared_static + l->dyn_shared;
	g->nthreads = copy.block[0] * copy.block[1] * copy.block[2];
	g->cluster_size = copy.cluster[0] * copy.cluster[1] *
			  copy.cluster[2];
	g->nunits = (uint64_t)copy.grid[0] * copy.grid[1] * copy.grid[2] /
		    g->cluster_size;
	g->max_live = copy.cooperative ? g->nunits : most_live(g);
	g->params = calloc(1, g->kernel.param_size + 16);
	if (!g->params) {
		free(g);
		return -ENOMEM;
	}
	if (g->kernel.param_size && l->params)
		memcpy(g->params, l->params, g->kernel.param_size);
	pthread_mutex_init(&g->lock, NULL);
	*out_grid = g;
	return 0;
}

struct ptx_grid *
ptx_grid_free(struct ptx_grid *g)
{
	if (!g)
		return NULL;
	while (g->ready_head) {
		struct ptx_cluster *c = g->ready_head;

		g->ready_head = c->next;
		ptx_cluster_free(c);
	}
	while (g->spare) {
		struct ptx_cluster *c = g->spare;

		g->spare = c->next;
		ptx_cluster_free(c);
	}
	pthread_mutex_destroy(&g->lock);
	free(g->params);
	free(g);
	return NULL;
}

static void
keep_fault(struct ptx_grid *g, enum ptx_fault fault, const char *detail)
{
	pthread_mutex_lock(&g->lock);
	if (!g->fault) {
		g->fault = fault;
		snprintf(g->detail, sizeof(g->detail), "%s", detail);
	}
	pthread_mutex_unlock(&g->lock);
	atomic_store(&g->is_stopping, true);
}

void
ptx_raise(struct ptx_warp *w, enum ptx_fault fault, unsigned lane,
	  const struct ptx_insn *i, const char *fmt, ...)
{
	const struct ptx_block *b = w->block;
	const unsigned *n = b->grid->launch.block;
	unsigned t = w->index * PTX_LANES + lane;
	char what[128], detail[320];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(detail, sizeof(detail),
		 "%.80s, line %u: block [%u,%u,%u], thread [%u,%u,%u]: %s",
		 w->frame->func->name, i->line, b->id[0], b->id[1], b->id[2],
		 t % n[0], t / n[0] % n[1], t / n[0] / n[1], what);
	keep_fault(b->grid, fault, detail);
	w->stop = true;
}

void
ptx_grid_cancel(struct ptx_grid *g)
{
	atomic_store(&g->is_stopping, true);
}

static void
push_ready_locked(struct ptx_grid *g, struct ptx_cluster *c)
{
	c->next = NULL;
	if (g->ready_tail)
		g->ready_tail->next = c;
	else
		g->ready_head = c;
	g->ready_tail = c;
	g->nready++;
}

static struct ptx_cluster *
pop_ready_locked(struct ptx_grid *g)
{
	struct ptx_cluster *c = g->ready_head;

	if (!c)
		return NULL;
	g->ready_head = c->next;
	if (!c->next)
		g->ready_tail = NULL;
	g->nready--;
	return c;
}

static bool
wants_new_locked(const struct ptx_grid *g)
{
	if (g->next_unit >= g->nunits || g->nlive >= g->max_live)
		return false;
	return !g->nready || g->launch.cooperative || g->turns >= g->nready;
}

/* The next unit to run, started if it is new; NULL when there is none. */
static struct ptx_cluster *
take(struct ptx_grid *g)
{
	struct ptx_cluster *c;
	uint64_t index;
	bool is_ok;

	pthread_mutex_lock(&g->lock);
	if (atomic_load(&g->is_stopping) || !wants_new_locked(g)) {
		c = atomic_load(&g->is_stopping) ? NULL : pop_ready_locked(g);
		g->nrunning += c != NULL;
		g->turns += c != NULL;
		pthread_mutex_unlock(&g->lock);
		return c;
	}
	g->turns = 0;
	index = g->next_unit++;
	g->nlive++;
	g->nrunning++;
	c = g->spare;
	if (c)
		g->spare = c->next;
	pthread_mutex_unlock(&g->lock);
	if (!c)
		c = ptx_cluster_new(g);
	is_ok = c && !ptx_cluster_start(c, index);
	if (is_ok)
		return c;
	keep_fault(g, PTX_FAULT_STACK, "out of memory for a block");
	ptx_cluster_free(c);
	pthread_mutex_lock(&g->lock);
	g->nlive--;
	g->nrunning--;
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

static void
put(struct ptx_grid *g, struct ptx_cluster *c, bool has_ended)
{
	pthread_mutex_lock(&g->lock);
	g->nrunning--;
	if (has_ended) {
		g->ndone++;
		g->nlive--;
		c->next = g->spare;
		g->spare = c;
	} else {
		push_ready_locked(g, c);
	}
	pthread_mutex_unlock(&g->lock);
}

static enum ptx_work
standing(struct ptx_grid *g)
{
	enum ptx_work r = PTX_WORK_MORE;

	pthread_mutex_lock(&g->lock);
	bool is_over = g->ndone == g->nunits ||
		       atomic_load(&g->is_stopping);

	if (is_over && !g->nrunning && !g->is_done_told) {
		g->is_done_told = true;
		r = PTX_WORK_DONE;
	} else if (is_over || (!g->nready && !wants_new_locked(g))) {
		r = PTX_WORK_BUSY;
	}
	pthread_mutex_unlock(&g->lock);
	return r;
}

enum ptx_work
ptx_grid_work(struct ptx_grid *g, uint64_t budget_ns)
{
	uint64_t now = ptx_now_ns(), end = now + budget_ns;
	struct ptx_thread t = {
		.env = g->launch.env,
		.own = {
			.base = (uint64_t)(uintptr_t)g->workspace,
			.end = (uint64_t)(uintptr_t)g->workspace +
			       sizeof(g->workspace),
			.is_writable = true,
		},
	};

	do {
		struct ptx_cluster *c = take(g);
		uint64_t slice;

		if (!c)
			return standing(g);
		now = ptx_now_ns();
		slice = now + SLICE_NS < end ? now + SLICE_NS : end;
		put(g, c, ptx_cluster_run(c, &t, slice));
		now = ptx_now_ns();
	} while (now < end);
	return standing(g);
}

enum ptx_fault
ptx_grid_fault(const struct ptx_grid *g, const char **out_detail)
{
	if (out_detail)
		*out_detail = g->detail;
	return g->fault;
}
