/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of PTX: parsing as a whole, linking, what a kernel uses. */
#include "server/soft/ptx_exec.h"
#include "server/soft/ptx_parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void
scratch_free(struct ptx_parser *p)
{
	ptx_arena_free(&p->scratch);
	ptx_vec_free(&p->code);
	ptx_vec_free(&p->consts);
	free(p);
}

struct ptx_module *
ptx_module_free(struct ptx_module *m)
{
	if (!m)
		return NULL;
	for (size_t i = 0; i < m->funcs.count; i++) {
		struct ptx_func *f = ptx_func_at(m, i);

		ptx_vec_free(&f->relocs);
		ptx_vec_free(&f->callees);
		ptx_vec_free(&f->shareds);
	}
	for (size_t i = 0; i < m->vars.count; i++)
		ptx_vec_free(&ptx_var_at(m, i)->relocs);
	ptx_vec_free(&m->funcs);
	ptx_vec_free(&m->kernels);
	ptx_vec_free(&m->vars);
	ptx_vec_free(&m->shared);
	ptx_arena_free(&m->arena);
	free(m);
	return NULL;
}

static struct ptx_kernel_own *
kernel_at(const struct ptx_module *m, size_t i)
{
	return ((struct ptx_kernel_own **)m->kernels.data)[i];
}

/* Functions a kernel may reach, as a set of indices. */
struct reach {
	const struct ptx_module *m;
	uint8_t *seen;
	uint32_t *todo;
	size_t ntodo;
	bool has_indirect;
};

static void
reach_add(struct reach *r, uint32_t index)
{
	if (r->seen[index])
		return;
	r->seen[index] = 1;
	r->todo[r->ntodo++] = index;
}

static void
reach_all(struct reach *r, uint32_t from)
{
	reach_add(r, from);
	while (r->ntodo) {
		struct ptx_func *f = ptx_func_at(r->m, r->todo[--r->ntodo]);
		const uint32_t *callees = f->callees.data;

		for (size_t i = 0; i < f->callees.count; i++)
			reach_add(r, callees[i]);
		if (!f->calls_indirect || r->has_indirect)
			continue;
		r->has_indirect = true;
		for (size_t i = 0; i < r->m->funcs.count; i++) {
			if (ptx_func_at(r->m, i)->is_address_taken)
				reach_add(r, (uint32_t)i);
		}
	}
}

static size_t
align_up(size_t v, size_t align)
{
	return (v + align - 1) & ~(align - 1);
}

/* Static variables first; all dynamic arrays start where they end. */
static int
lay_shared_out(struct ptx_kernel_own *k, struct ptx_func *kernel_func,
	       const struct reach *r)
{
	const struct ptx_module *m = r->m;
	size_t n = m->shared.count, at = 0, align = 16;
	uint8_t *used = calloc(n + 1, 1);
	uint32_t *off;

	off = ptx_arena_alloc(&((struct ptx_module *)k->k.module)->arena,
			      (n + 1) * sizeof(*off));
	if (!used || !off) {
		free(used);
		return -ENOMEM;
	}
	for (size_t i = 0; i < m->funcs.count; i++) {
		const struct ptx_func *f = ptx_func_at(m, i);
		const uint32_t *s = f->shareds.data;

		for (size_t j = 0; r->seen[i] && j < f->shareds.count; j++)
			used[s[j]] = 1;
	}
	for (size_t i = 0; i < n; i++) {
		struct ptx_shared *s = ptx_shared_at(m, i);

		if (!used[i])
			continue;
		if (s->is_dynamic) {
			align = s->align > align ? s->align : align;
			continue;
		}
		at = align_up(at, s->align);
		off[i] = (uint32_t)at;
		at += s->size;
		if (at > PTX_SHARED_MAX)
			at = PTX_SHARED_MAX + 1; /* the launch refuses it */
	}
	for (size_t i = 0; i < n; i++) {
		if (used[i] && ptx_shared_at(m, i)->is_dynamic) {
			at = align_up(at, align);
			off[i] = (uint32_t)at;
		}
	}
	free(used);
	k->k.shared_static = at;
	kernel_func->shared_off = off;
	return 0;
}

static void
classify(struct ptx_kernel *k, const struct reach *r)
{
	for (size_t i = 0; i < r->m->funcs.count; i++) {
		const struct ptx_func *f = ptx_func_at(r->m, i);

		if (!r->seen[i])
			continue;
		if (f->reads_envreg)
			k->uses_grid_sync = true;
		if (f->is_defined) {
			k->local_bytes += f->local_size;
			continue;
		}
		if (ptx_func_is(f, "vprintf"))
			k->uses_printf = true;
		else if (ptx_func_is(f, "__assertfail"))
			k->uses_assert = true;
		else if (!ptx_func_is(f, "cudaGraphSetConditional"))
			k->uses_heap = true;
	}
	for (size_t i = 0; i < r->m->vars.count; i++) {
		const struct ptx_symbol *s = &ptx_var_at(r->m, i)->sym;

		if (s->space == PTX_SPACE_CONST)
			k->const_bytes += s->size;
	}
}

/*
 * Virtual registers say little about real ones. A compiler keeps to what a
 * block of the largest size may use of a multiprocessor's 65,536.
 */
static unsigned
register_estimate(const struct ptx_func *f, unsigned max_threads)
{
	unsigned n = (f->nregs / 4 + 16 + 7) & ~7u;
	unsigned most = 65536 / max_threads & ~7u;

	most = most > 255 ? 255 : most;
	return n < most ? n : most;
}

static int
finish_kernel(struct ptx_kernel_own *k, struct reach *r)
{
	struct ptx_func *f = ptx_func_at(r->m, k->k.func->index);
	int res;

	memset(r->seen, 0, r->m->funcs.count);
	r->has_indirect = false;
	reach_all(r, f->index);
	res = lay_shared_out(k, f, r);
	if (res)
		return res;
	classify(&k->k, r);
	k->k.regs = register_estimate(f, k->k.max_threads);
	return 0;
}

static int
finish_module(struct ptx_module *m)
{
	struct reach r = { .m = m };
	int res = 0;

	r.seen = calloc(m->funcs.count + 1, 1);
	r.todo = calloc(m->funcs.count + 1, sizeof(*r.todo));
	if (!r.seen || !r.todo)
		res = -ENOMEM;
	for (size_t i = 0; !res && i < m->kernels.count; i++)
		res = finish_kernel(kernel_at(m, i), &r);
	free(r.seen);
	free(r.todo);
	return res;
}

int
ptx_module_parse(struct ptx_module **out_module, const char *text,
		 size_t size, char *log, size_t log_size)
{
	struct ptx_parser *p = calloc(1, sizeof(*p));
	struct ptx_module *m = calloc(1, sizeof(*m));
	int r;

	*out_module = NULL;
	if (log && log_size)
		log[0] = 0;
	if (!p || !m) {
		free(p);
		free(m);
		return -ENOMEM;
	}
	p->m = m;
	p->log = log;
	p->log_size = log_size;
	r = setjmp(p->fail);
	if (!r) {
		ptx_lex_init(&p->lex, text, size);
		ptx_parse_module(p);
		r = finish_module(m);
	}
	scratch_free(p);
	if (r) {
		ptx_module_free(m);
		return r;
	}
	*out_module = m;
	return 0;
}

size_t
ptx_module_kernel_count(const struct ptx_module *m)
{
	return m->kernels.count;
}

const struct ptx_kernel *
ptx_module_kernel(const struct ptx_module *m, size_t index)
{
	return index < m->kernels.count ? &kernel_at(m, index)->k : NULL;
}

size_t
ptx_module_symbol_count(const struct ptx_module *m)
{
	return m->vars.count;
}

const struct ptx_symbol *
ptx_module_symbol(const struct ptx_module *m, size_t index)
{
	return index < m->vars.count ? &ptx_var_at(m, index)->sym : NULL;
}

void
ptx_module_place(struct ptx_module *m, size_t index, uint64_t addr)
{
	if (index < m->vars.count)
		ptx_var_at(m, index)->sym.addr = addr;
}

static int
unresolved(char *log, size_t log_size, const char *name)
{
	if (log && log_size)
		snprintf(log, log_size, "unresolved symbol '%s'", name);
	return PTX_E_SYNTAX;
}

static int
bind_functions(struct ptx_module *m, char *log, size_t log_size)
{
	for (size_t i = 0; i < m->funcs.count; i++) {
		struct ptx_func *f = ptx_func_at(m, i);

		if (f->is_defined)
			continue;
		f->builtin = ptx_builtin_for(f);
		if (!f->builtin && f->is_address_taken)
			return unresolved(log, log_size, f->name);
	}
	for (size_t i = 0; i < m->funcs.count; i++) {
		struct ptx_func *f = ptx_func_at(m, i);
		const uint32_t *callees = f->callees.data;

		for (size_t j = 0; j < f->callees.count; j++) {
			struct ptx_func *c = ptx_func_at(m, callees[j]);

			if (!c->is_defined && !c->builtin)
				return unresolved(log, log_size, c->name);
		}
	}
	return 0;
}

static uint64_t
reloc_value(const struct ptx_module *m, const struct ptx_func *f,
	    const struct ptx_reloc *r)
{
	uint64_t v = (uint64_t)r->addend;

	switch (r->kind) {
	case PTX_RELOC_SYMBOL:
		return v + ptx_var_at(m, r->index)->sym.addr;
	case PTX_RELOC_FUNC:
		return v + PTX_WIN_FUNC + 16ull * (r->index + 1);
	case PTX_RELOC_SHARED:
		return v + f->shared_off[r->index];
	}
	return v;
}

static void
link_function(struct ptx_module *m, struct ptx_func *f)
{
	const struct ptx_reloc *r = f->relocs.data;

	for (size_t i = 0; i < f->relocs.count; i++) {
		uint64_t v = reloc_value(m, f, &r[i]);
		uint64_t *c = f->consts + (size_t)r[i].place * PTX_LANES;

		if (r[i].size < 8)
			v &= (1ull << 8 * r[i].size) - 1;
		for (unsigned l = 0; l < PTX_LANES; l++)
			c[l] = v;
	}
}

static void
link_variable(struct ptx_module *m, struct ptx_var *v)
{
	const struct ptx_reloc *r = v->relocs.data;
	uint8_t *at = (uint8_t *)(uintptr_t)v->sym.addr;

	if (!v->sym.size || !at)
		return;
	memset(at, 0, v->sym.size);
	if (v->init_size)
		memcpy(at, v->init, v->init_size < v->sym.size
				    ? v->init_size : v->sym.size);
	for (size_t i = 0; i < v->relocs.count; i++) {
		uint64_t value = reloc_value(m, NULL, &r[i]) >> r[i].shift;

		if (r[i].place + r[i].size <= v->sym.size && r[i].size <= 8)
			memcpy(at + r[i].place, &value, r[i].size);
	}
}

int
ptx_module_link(struct ptx_module *m, char *log, size_t log_size)
{
	int r = bind_functions(m, log, log_size);

	if (r)
		return r;
	for (size_t i = 0; i < m->vars.count; i++) {
		struct ptx_var *v = ptx_var_at(m, i);

		if (v->is_extern)
			return unresolved(log, log_size, v->sym.name);
	}
	for (size_t i = 0; i < m->vars.count; i++)
		link_variable(m, ptx_var_at(m, i));
	for (size_t i = 0; i < m->funcs.count; i++)
		link_function(m, ptx_func_at(m, i));
	m->is_linked = true;
	return 0;
}
