/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: code and variables in one context.
 *
 * Bringing code into a context waits for everything in flight and holds up
 * everybody's launches meanwhile, in every circumstance tried on an H200.
 * So it happens here too, at a module's load and at a library's first use.
 */
#include "server/soft/soft_module.h"

#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_mem.h"
#include "server/soft/soft_work.h"

/* All modules, guarded by soft_module_lock. */
struct module_list {
	struct soft_module **items;
	size_t count, room;
};

static struct module_list modules;

static bool
list_add_locked(struct soft_module *module)
{
	if (modules.count == modules.room) {
		size_t room = modules.room ? modules.room * 2 : 16;
		struct soft_module **grown;

		grown = realloc(modules.items, room * sizeof(*grown));
		if (!grown)
			return false;
		modules.items = grown;
		modules.room = room;
	}
	modules.items[modules.count++] = module;
	return true;
}

static void
list_remove_locked(struct soft_module *module)
{
	for (size_t i = 0; i < modules.count; i++)
		if (modules.items[i] == module) {
			modules.items[i] = modules.items[--modules.count];
			return;
		}
}

static size_t
symbol_align(size_t align)
{
	/* The driver places every variable on 256 bytes at least. */
	return align > 256 ? align : 256;
}

static size_t
place(size_t at, size_t size, size_t align, size_t *out_next)
{
	align = symbol_align(align);
	at = (at + align - 1) & ~(align - 1);
	*out_next = at + size;
	return at;
}

/* With memory 0: only how much is needed. */
static size_t
place_ptx(struct soft_module *module, uint64_t memory)
{
	size_t count = ptx_module_symbol_count(module->ptx), next = 0;

	for (size_t i = 0; i < count; i++) {
		const struct ptx_symbol *s = ptx_module_symbol(module->ptx, i);
		size_t at = place(next, s->size ? s->size : 1, s->align, &next);

		if (!memory)
			continue;
		ptx_module_place(module->ptx, i, memory + at);
		module->variables[i] = (struct soft_variable){
			s->name, memory + at, s->size, s->managed,
		};
	}
	return next;
}

static size_t
place_elf(struct soft_module *module, uint64_t memory)
{
	const struct soft_elf *elf = &module->library->elf;
	size_t next = 0;

	for (unsigned i = 0; i < elf->symbol_count; i++) {
		const struct soft_elf_symbol *s = &elf->symbols[i];
		size_t at = place(next, (size_t)s->size, 1, &next);

		if (!memory)
			continue;
		if (s->initial)
			memcpy((void *)(uintptr_t)(memory + at), s->initial,
			       (size_t)s->size);
		module->variables[i] = (struct soft_variable){
			s->name, memory + at, (size_t)s->size, false,
		};
	}
	return next;
}

static CUresult
make_variables(struct soft_module *module)
{
	struct soft_range *range;
	CUresult res;
	size_t size;

	module->variable_count = module->ptx ?
		(unsigned)ptx_module_symbol_count(module->ptx) :
		module->library->elf.symbol_count;
	if (!module->variable_count)
		return CUDA_SUCCESS;
	module->variables = calloc(module->variable_count,
				   sizeof(*module->variables));
	if (!module->variables)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size = module->ptx ? place_ptx(module, 0) : place_elf(module, 0);
	res = soft_mem_new(module->ctx, SOFT_RANGE_SYMBOL, size ? size : 1,
			   &range);
	if (res)
		return res;
	module->memory = range->base;
	if (module->ptx)
		place_ptx(module, module->memory);
	else
		place_elf(module, module->memory);
	return CUDA_SUCCESS;
}

static CUresult
make_ptx(struct soft_module *module)
{
	struct soft_library *library = module->library;
	char log[1024] = "";

	if (library->image.kind == SOFT_IMAGE_ELF)
		return CUDA_SUCCESS;
	return ptx_module_parse(&module->ptx, library->image.data,
				library->image.size, log, sizeof(log)) ?
	       CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult
make_funcs(struct soft_module *module)
{
	unsigned count = module->library->kernel_count;

	module->funcs = calloc(count + 1, sizeof(*module->funcs));
	if (!module->funcs)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < count; i++) {
		struct soft_func *func = &module->funcs[i];

		func->module = module;
		func->kernel = &module->library->kernels[i];
		if (module->ptx)
			func->ptx = ptx_module_kernel(module->ptx, i);
		if (!soft_handle_add(func, SOFT_HANDLE_FUNC))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static CUresult
module_make_locked(struct soft_library *library, struct soft_ctx *ctx,
		   bool of_library, struct soft_module **out)
{
	struct soft_module *module = calloc(1, sizeof(*module));
	char log[1024] = "";
	CUresult res;

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->library = library;
	library->refs++;
	module->ctx = ctx;
	module->of_library = of_library;
	module->next = library->modules;
	library->modules = module;
	res = make_ptx(module);
	if (!res)
		res = make_variables(module);
	if (!res && module->ptx && ptx_module_link(module->ptx, log,
						   sizeof(log))) {
		soft_log("PTX: %s", log);
		res = CUDA_ERROR_INVALID_PTX;
	}
	if (!res)
		res = make_funcs(module);
	if (!res && (!soft_handle_add(module, SOFT_HANDLE_MODULE) ||
		     !list_add_locked(module)))
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (res)
		soft_module_free_locked(module);
	else
		*out = module;
	return res;
}

static struct soft_module *
module_in_locked(struct soft_library *library, struct soft_ctx *ctx)
{
	for (struct soft_module *m = library->modules; m; m = m->next)
		if (m->ctx == ctx)
			return m;
	return NULL;
}

CUresult
soft_module_in(struct soft_library *library, struct soft_ctx *ctx,
	       bool of_library, struct soft_module **out)
{
	bool drain = !soft_relaxed(SOFT_RELAX_LOAD);
	CUresult res = CUDA_SUCCESS;

	ctx = ctx->home;
	pthread_mutex_lock(&soft_module_lock);
	*out = module_in_locked(library, ctx);
	pthread_mutex_unlock(&soft_module_lock);
	if (*out)
		return CUDA_SUCCESS;
	if (drain)
		res = soft_gate_drain(true);
	if (!res) {
		pthread_mutex_lock(&soft_module_lock);
		*out = module_in_locked(library, ctx);
		if (!*out)
			res = module_make_locked(library, ctx, of_library, out);
		pthread_mutex_unlock(&soft_module_lock);
	}
	if (drain)
		soft_gate_open(true);
	return res;
}

static void
unlink_locked(struct soft_module *module)
{
	struct soft_module **at = &module->library->modules;

	while (*at && *at != module)
		at = &(*at)->next;
	if (*at)
		*at = module->next;
}

void
soft_module_free_locked(struct soft_module *module)
{
	unlink_locked(module);
	list_remove_locked(module);
	soft_handle_del(module, SOFT_HANDLE_MODULE);
	if (module->funcs)
		for (unsigned i = 0; i < module->library->kernel_count; i++)
			soft_handle_del(&module->funcs[i], SOFT_HANDLE_FUNC);
	if (module->memory)
		soft_range_free(soft_range_take(module->memory,
						SOFT_RANGE_SYMBOL));
	if (module->ptx)
		ptx_module_free(module->ptx);
	free(module->funcs);
	free(module->variables);
	soft_library_unref_locked(module->library);
	free(module);
}

void
soft_modules_destroy(struct soft_ctx *ctx)
{
	pthread_mutex_lock(&soft_module_lock);
	for (size_t i = modules.count; i-- > 0;)
		if (modules.items[i]->ctx == ctx)
			soft_module_free_locked(modules.items[i]);
	pthread_mutex_unlock(&soft_module_lock);
}

struct soft_variable *
soft_module_variable(struct soft_module *module, const char *name)
{
	for (unsigned i = 0; i < module->variable_count; i++)
		if (!strcmp(module->variables[i].name, name))
			return &module->variables[i];
	return NULL;
}
