/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From PTX addresses to host memory, with every check.
 *
 * Global addresses are host addresses; the driver side says which ranges
 * are mapped. The rest is memory of the block or the thread, seen through
 * windows when the address is generic.
 */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_ops.h"

#include <string.h>

static bool
range_holds(const struct ptx_range *r, uint64_t addr, unsigned size,
	    bool is_store)
{
	return addr >= r->base && addr < r->end && r->end - addr >= size &&
	       (!is_store || r->is_writable);
}

static const struct ptx_range *
range_find(struct ptx_thread *t, uint64_t addr, unsigned size, bool is_store)
{
	uint64_t now = atomic_load_explicit(t->env->generation,
					    memory_order_acquire);
	struct ptx_range r;

	if (now != t->generation) {
		memset(t->ranges, 0, sizeof(t->ranges));
		t->generation = now;
	}
	for (unsigned k = 0; k < PTX_RANGES; k++) {
		if (range_holds(&t->ranges[k], addr, size, is_store))
			return &t->ranges[k];
	}
	if (range_holds(&t->own, addr, size, is_store))
		return &t->own;
	if (!t->env->range(t->env->ctx, addr, &r.base, &r.end,
			   &r.is_writable) ||
	    !range_holds(&r, addr, size, is_store))
		return NULL;
	unsigned at = t->next_range++ % PTX_RANGES;

	t->ranges[at] = r;
	return &t->ranges[at];
}

static uint8_t *
shared_at(struct ptx_warp *w, uint64_t addr, unsigned size)
{
	const struct ptx_block *b = w->block;
	uint64_t rank = addr >> PTX_RANK_SHIFT;

	if (rank) {
		b = ptx_cluster_block(b, (unsigned)rank - 1);
		addr &= (1u << PTX_RANK_SHIFT) - 1;
		if (!b)
			return NULL;
	}
	if (addr > b->shared_size || b->shared_size - addr < size)
		return NULL;
	return b->shared + addr;
}

static uint8_t *
local_at(struct ptx_warp *w, unsigned lane, uint64_t addr, unsigned size)
{
	uint32_t top = w->local_sp[lane];

	if (addr > top || top - addr < size)
		return NULL;
	return w->local + (size_t)lane * w->local_cap + addr;
}

uint8_t *
ptx_param_at(const struct ptx_frame *frame, unsigned lane, uint32_t offset)
{
	return frame->params + (size_t)lane * frame->func->param_size +
	       offset;
}

static uint8_t *
param_at(struct ptx_warp *w, unsigned lane, uint64_t addr, unsigned size)
{
	const struct ptx_grid *g = w->block->grid;
	uint64_t top = g->kernel.param_size;

	if (addr >= PTX_PARAM_FRAME) {
		addr -= PTX_PARAM_FRAME;
		top = w->frame->func->param_size;
		if (addr > top || top - addr < size)
			return NULL;
		return ptx_param_at(w->frame, lane, (uint32_t)addr);
	}
	if (addr > top || top - addr < size)
		return NULL;
	return g->params + addr;
}

static void *
generic_at(struct ptx_warp *w, unsigned lane, uint64_t addr, unsigned size,
	   bool is_store)
{
	if (addr - PTX_WIN_SHARED < PTX_WIN_SIZE)
		return shared_at(w, addr - PTX_WIN_SHARED, size);
	if (addr - PTX_WIN_LOCAL < PTX_WIN_SIZE)
		return local_at(w, lane, addr - PTX_WIN_LOCAL, size);
	if (addr - PTX_WIN_PARAM < PTX_WIN_SIZE && !is_store)
		return param_at(w, lane, addr - PTX_WIN_PARAM, size);
	if (range_find(w->thread, addr, size, is_store))
		return (void *)(uintptr_t)addr;
	return NULL;
}

/*
 * A constant's address is its host address, or the lower half of that where
 * the program keeps it in 32 bits: no mapping lies below 4 GiB, so the two
 * cannot be confused.
 */
static void *
const_at(struct ptx_warp *w, uint64_t addr, unsigned size)
{
	const struct ptx_module *m = w->frame->func->module;

	if (addr > UINT32_MAX)
		return range_find(w->thread, addr, size, false)
		       ? (void *)(uintptr_t)addr : NULL;
	for (size_t k = 0; k < m->vars.count; k++) {
		const struct ptx_symbol *s = &ptx_var_at(m, k)->sym;
		uint32_t at = (uint32_t)addr - (uint32_t)s->addr;

		if (s->space == PTX_SPACE_CONST && at < s->size &&
		    s->size - at >= size)
			return (void *)(uintptr_t)(s->addr + at);
	}
	return NULL;
}

static const char *
space_name(int space)
{
	static const char *const names[] = {
		[PTX_SPACE_GLOBAL] = "global", [PTX_SPACE_CONST] = "const",
		[PTX_SPACE_SHARED] = "shared", [PTX_SPACE_LOCAL] = "local",
		[PTX_SPACE_PARAM] = "param", [PTX_SPACE_GENERIC] = "generic",
	};

	return names[space];
}

void *
ptx_at(struct ptx_warp *w, const struct ptx_insn *i, unsigned lane,
       int space, uint64_t addr, unsigned size, bool is_store)
{
	void *p = NULL;

	if (addr & (size - 1)) {
		ptx_raise(w, PTX_FAULT_MISALIGNED, lane, i,
			  "misaligned %s address %#llx of %u bytes",
			  space_name(space), (unsigned long long)addr, size);
		return NULL;
	}
	switch (space) {
	case PTX_SPACE_CONST:
		p = const_at(w, addr, size);
		break;
	case PTX_SPACE_GLOBAL:
		if (range_find(w->thread, addr, size, is_store))
			p = (void *)(uintptr_t)addr;
		break;
	case PTX_SPACE_SHARED:
		p = shared_at(w, addr, size);
		break;
	case PTX_SPACE_LOCAL:
		p = local_at(w, lane, addr, size);
		break;
	case PTX_SPACE_PARAM:
		p = param_at(w, lane, addr, size);
		break;
	default:
		p = generic_at(w, lane, addr, size, is_store);
	}
	if (!p)
		ptx_raise(w, PTX_FAULT_ADDRESS, lane, i,
			  "invalid %s %s address %#llx of %u bytes",
			  space_name(space), is_store ? "store" : "load",
			  (unsigned long long)addr, size);
	return p;
}

const void *
ptx_peek(struct ptx_warp *w, unsigned lane, uint64_t addr, size_t *out_size)
{
	const struct ptx_range *r;

	if (addr - PTX_WIN_SHARED < PTX_WIN_SIZE) {
		uint64_t at = addr - PTX_WIN_SHARED;

		if (at >= w->block->shared_size)
			return NULL;
		*out_size = w->block->shared_size - at;
		return w->block->shared + at;
	}
	if (addr - PTX_WIN_LOCAL < PTX_WIN_SIZE) {
		uint64_t at = addr - PTX_WIN_LOCAL;

		if (at >= w->local_sp[lane])
			return NULL;
		*out_size = w->local_sp[lane] - at;
		return local_at(w, lane, at, 1);
	}
	r = range_find(w->thread, addr, 1, false);
	if (!r)
		return NULL;
	*out_size = r->end - addr;
	return (const void *)(uintptr_t)addr;
}
