/* SPDX-License-Identifier: Apache-2.0 */
#undef NDEBUG
#include "tests/ptx/ptx_harness.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool
find_range(void *ctx, uint64_t addr, uint64_t *out_base, uint64_t *out_end,
	   bool *out_writable)
{
	struct harness *h = ctx;
	uint64_t base = (uint64_t)(uintptr_t)h->memory;

	if (addr - base >= HARNESS_MEMORY)
		return false;
	*out_base = base;
	*out_end = base + HARNESS_MEMORY;
	*out_writable = true;
	return true;
}

static void
complain(void *ctx, const char *text, size_t size)
{
	struct harness *h = ctx;

	pthread_mutex_lock(&h->lock);
	snprintf(h->complaint, sizeof(h->complaint), "%.*s", (int)size, text);
	pthread_mutex_unlock(&h->lock);
}

static void
print(void *ctx, const char *text, size_t size)
{
	struct harness *h = ctx;

	pthread_mutex_lock(&h->lock);
	if (h->text_size + size < sizeof(h->text)) {
		memcpy(h->text + h->text_size, text, size);
		h->text_size += size;
		h->text[h->text_size] = 0;
	}
	pthread_mutex_unlock(&h->lock);
}

static uint64_t
heap_alloc(void *ctx, size_t size)
{
	struct harness *h = ctx;
	void *p = NULL;

	pthread_mutex_lock(&h->lock);
	if (size < HARNESS_MEMORY / 2 &&
	    h->used + size + 256 < HARNESS_MEMORY)
		p = harness_alloc(h, size);
	pthread_mutex_unlock(&h->lock);
	return (uint64_t)(uintptr_t)p;
}

static void
heap_free(void *ctx, uint64_t addr)
{
	(void)ctx;
	(void)addr;
}

/* A texture whose texel says where it was fetched. */
static bool
texture(void *ctx, uint64_t tex, int geom, bool is_float,
	const uint32_t coord[4], float lod, uint32_t out[4])
{
	(void)ctx;
	for (int k = 0; k < 3; k++)
		out[k] = k < geom ? coord[k] : 0;
	out[3] = (uint32_t)tex * 10 + (uint32_t)is_float + (uint32_t)lod * 2;
	return tex != 0;
}

static uint8_t surface_bytes[64];

static bool
surface(void *ctx, uint64_t surf, int geom, bool is_store,
	const int32_t coord[4], int clamp, unsigned bytes, void *data)
{
	uint8_t *at = surface_bytes + coord[0];

	(void)ctx;
	(void)geom;
	(void)clamp;
	if (!surf || coord[0] < 0 ||
	    (size_t)coord[0] + bytes > sizeof(surface_bytes))
		return false;
	if (is_store)
		memcpy(at, data, bytes);
	else
		memcpy(data, at, bytes);
	return true;
}

void *
harness_alloc(struct harness *h, size_t size)
{
	void *p = h->memory + h->used;

	h->used += (size + 255) & ~(size_t)255;
	assert(h->used <= HARNESS_MEMORY);
	return p;
}

static void
place_all(struct harness *h)
{
	for (size_t k = 0; k < ptx_module_symbol_count(h->module); k++) {
		const struct ptx_symbol *s = ptx_module_symbol(h->module, k);
		void *p = harness_alloc(h, s->size + 1);

		ptx_module_place(h->module, k, (uint64_t)(uintptr_t)p);
	}
}

void
harness_open(struct harness *h, const char *ptx)
{
	memset(h, 0, sizeof(*h));
	pthread_mutex_init(&h->lock, NULL);
	h->memory = mmap(NULL, HARNESS_MEMORY, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(h->memory != MAP_FAILED);
	h->generation = 1;
	h->threads = 1;
	for (int d = 0; d < 3; d++)
		h->grid[d] = h->block[d] = h->cluster[d] = 1;
	h->env = (struct ptx_env){
		.ctx = h,
		.range = find_range,
		.generation = &h->generation,
		.print = print,
		.complain = complain,
		.heap_alloc = heap_alloc,
		.heap_free = heap_free,
		.texture = texture,
		.surface = surface,
		.sms = 132,
		.clock_hz = 1980000000,
	};
	h->parse_result = ptx_module_parse(&h->module, ptx, strlen(ptx) + 1,
					   h->log, sizeof(h->log));
	if (h->parse_result)
		return;
	place_all(h);
	h->parse_result = ptx_module_link(h->module, h->log,
					  sizeof(h->log));
}

void
harness_close(struct harness *h)
{
	h->module = ptx_module_free(h->module);
	munmap(h->memory, HARNESS_MEMORY);
	pthread_mutex_destroy(&h->lock);
}

struct worker {
	struct ptx_grid *grid;
	atomic_int *is_done;
};

static void *
work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(w->is_done)) {
		enum ptx_work r = ptx_grid_work(w->grid, 5000000);

		if (r == PTX_WORK_DONE)
			assert(!atomic_exchange(w->is_done, 1));
	}
	return NULL;
}

static const struct ptx_kernel *
find_kernel(struct harness *h, const char *name)
{
	for (size_t k = 0; k < ptx_module_kernel_count(h->module); k++) {
		const struct ptx_kernel *kernel = ptx_module_kernel(h->module,
								    k);

		if (!strcmp(kernel->name, name))
			return kernel;
	}
	return NULL;
}

enum ptx_fault
harness_run(struct harness *h, const char *name, const void *args,
	    size_t size)
{
	uint8_t block[4096] = { 0 };
	struct ptx_launch l = {
		.kernel = find_kernel(h, name),
		.env = &h->env,
		.params = block,
		.dyn_shared = h->dyn_shared,
		.cooperative = h->cooperative,
		.grid_id = 7,
	};
	pthread_t threads[8];
	struct worker w;
	atomic_int is_done = 0;
	const char *detail;

	if (h->parse_result)
		fprintf(stderr, "%s\n", h->log);
	assert(!h->parse_result && l.kernel);
	assert(size <= sizeof(block) && l.kernel->param_size <= sizeof(block));
	if (size)
		memcpy(block, args, size);
	memcpy(l.grid, h->grid, sizeof(l.grid));
	memcpy(l.block, h->block, sizeof(l.block));
	memcpy(l.cluster, h->cluster, sizeof(l.cluster));
	assert(!ptx_grid_create(&w.grid, &l));
	w.is_done = &is_done;
	for (unsigned k = 1; k < h->threads; k++)
		assert(!pthread_create(&threads[k], NULL, work, &w));
	work(&w);
	for (unsigned k = 1; k < h->threads; k++)
		pthread_join(threads[k], NULL);
	h->fault = ptx_grid_fault(w.grid, &detail);
	snprintf(h->detail, sizeof(h->detail), "%s", detail);
	ptx_grid_free(w.grid);
	return h->fault;
}

const struct ptx_symbol *
harness_symbol(struct harness *h, const char *name)
{
	for (size_t k = 0; k < ptx_module_symbol_count(h->module); k++) {
		const struct ptx_symbol *s = ptx_module_symbol(h->module, k);

		if (!strcmp(s->name, name))
			return s;
	}
	return NULL;
}
