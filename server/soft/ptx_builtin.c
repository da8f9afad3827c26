/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the device runtime provides: printf, assert, heap, and the
 * conditions of graphs. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"

#include <string.h>

static uint64_t
argument(const struct ptx_warp *w, const struct ptx_call *c, unsigned n,
	 unsigned l)
{
	const struct ptx_arg *a = &c->args[n];
	uint64_t v = 0;

	if (a->is_reg)
		return ptx_in(w, a->slot)[l];
	memcpy(&v, ptx_param_at(w->frame, l, a->offset),
	       a->size < 8 ? a->size : 8);
	return v;
}

static void
result(struct ptx_warp *w, const struct ptx_call *c, unsigned l, uint64_t v)
{
	const struct ptx_arg *a = c->rets;

	if (!c->nrets)
		return;
	if (a->is_reg)
		ptx_out(w, a->slot)[l] = v;
	else
		memcpy(ptx_param_at(w->frame, l, a->offset), &v,
		       a->size < 8 ? a->size : 8);
}

static enum ptx_fault
do_vprintf(struct ptx_warp *w, const struct ptx_call *c)
{
	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		int n = ptx_format(w, l, argument(w, c, 0, l),
				   argument(w, c, 1, l));

		result(w, c, l, (uint32_t)n);
	}
	return PTX_FAULT_NONE;
}

static enum ptx_fault
do_assertfail(struct ptx_warp *w, const struct ptx_call *c)
{
	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);

		ptx_print_assert(w, l, argument(w, c, 0, l),
				 argument(w, c, 1, l),
				 (uint32_t)argument(w, c, 2, l),
				 argument(w, c, 3, l));
	}
	return PTX_FAULT_ASSERT;
}

static enum ptx_fault
do_malloc(struct ptx_warp *w, const struct ptx_call *c)
{
	const struct ptx_env *env = w->thread->env;

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint64_t size = argument(w, c, 0, l), p = 0;

		if (size && env->heap_alloc)
			p = env->heap_alloc(env->ctx, size);
		result(w, c, l, p);
	}
	return PTX_FAULT_NONE;
}

static enum ptx_fault
do_free(struct ptx_warp *w, const struct ptx_call *c)
{
	const struct ptx_env *env = w->thread->env;

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);
		uint64_t p = argument(w, c, 0, l);

		if (p && env->heap_free)
			env->heap_free(env->ctx, p);
	}
	return PTX_FAULT_NONE;
}

static enum ptx_fault
do_condition(struct ptx_warp *w, const struct ptx_call *c)
{
	const struct ptx_env *env = w->thread->env;

	for (uint32_t m = w->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);

		if (!env->condition ||
		    !env->condition(env->ctx, argument(w, c, 0, l),
				    (uint32_t)argument(w, c, 1, l)))
			return PTX_FAULT_ADDRESS;
	}
	return PTX_FAULT_NONE;
}

static const struct {
	const char *name;
	ptx_builtin_fn *fn;
	unsigned nargs;
} builtins[] = {
	{ "vprintf", do_vprintf, 2 },
	{ "__assertfail", do_assertfail, 5 },
	{ "malloc", do_malloc, 1 },
	{ "free", do_free, 1 },
	{ "cudaGraphSetConditional", do_condition, 2 },
};

ptx_builtin_fn *
ptx_builtin_for(const struct ptx_func *f)
{
	for (size_t k = 0; k < sizeof(builtins) / sizeof(*builtins); k++) {
		if (!strcmp(builtins[k].name, f->name) &&
		    f->nargs >= builtins[k].nargs)
			return builtins[k].fn;
	}
	return NULL;
}
