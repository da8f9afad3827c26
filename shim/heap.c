/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sub-allocation of chunks. Every byte of a chunk belongs to exactly one
 * block; blocks of a chunk form a list by address, free ones also one of
 * their size's power of two.
 */
#include "shim/heap.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/err.h"

/* Candidates looked at in one bin before the next one is tried. */
#define SEARCH_LIMIT 64u

static uint64_t
round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static unsigned
bin_of(uint64_t size)
{
	unsigned bin = 63u - (unsigned)__builtin_clzll(size);

	return bin < HEAP_BINS ? bin : HEAP_BINS - 1;
}

static void
bin_insert(struct shim_heap *heap, struct shim_block *block)
{
	struct shim_block **bin = &heap->bins[bin_of(block->size)];

	block->state = BLOCK_FREE;
	block->before = NULL;
	block->after = *bin;
	if (*bin)
		(*bin)->before = block;
	*bin = block;
}

static void
bin_remove(struct shim_heap *heap, struct shim_block *block)
{
	if (block->before)
		block->before->after = block->after;
	else
		heap->bins[bin_of(block->size)] = block->after;
	if (block->after)
		block->after->before = block->before;
}

static void
pending_append(struct shim_heap *heap, struct shim_block *block, uint64_t seq)
{
	block->state = BLOCK_PENDING;
	block->seq = seq;
	block->before = heap->pending_last;
	block->after = NULL;
	if (heap->pending_last)
		heap->pending_last->after = block;
	else
		heap->pending = block;
	heap->pending_last = block;
}

static void
pending_remove(struct shim_heap *heap, struct shim_block *block)
{
	if (block->before)
		block->before->after = block->after;
	else
		heap->pending = block->after;
	if (block->after)
		block->after->before = block->before;
	else
		heap->pending_last = block->before;
}

static void
idle_append(struct shim_heap *heap, struct shim_chunk *chunk)
{
	chunk->empty_ns = heap->ops->now_ns(heap->owner);
	chunk->before = heap->idle_last;
	chunk->after = NULL;
	if (heap->idle_last)
		heap->idle_last->after = chunk;
	else
		heap->idle = chunk;
	heap->idle_last = chunk;
	heap->empty += chunk->size;
}

static void
idle_remove(struct shim_heap *heap, struct shim_chunk *chunk)
{
	if (chunk->before)
		chunk->before->after = chunk->after;
	else
		heap->idle = chunk->after;
	if (chunk->after)
		chunk->after->before = chunk->before;
	else
		heap->idle_last = chunk->before;
	heap->empty -= chunk->size;
}

/* Take `next`, the block behind, into block; neither is in a list. */
static void
swallow(struct shim_block *block)
{
	struct shim_block *next = block->next;

	block->size += next->size;
	block->next = next->next;
	if (next->next)
		next->next->prev = block;
	free(next);
}

/* The block's bytes may be used again. */
static void
make_free(struct shim_heap *heap, struct shim_block *block)
{
	if (block->next && block->next->state == BLOCK_FREE) {
		bin_remove(heap, block->next);
		swallow(block);
	}
	if (block->prev && block->prev->state == BLOCK_FREE) {
		block = block->prev;
		bin_remove(heap, block);
		swallow(block);
	}
	bin_insert(heap, block);
}

/* Give an empty chunk back, whatever its blocks still wait for. */
static void
chunk_drop(struct shim_heap *heap, struct shim_chunk *chunk)
{
	struct shim_block *block = chunk->first, *next;

	idle_remove(heap, chunk);
	for (; block; block = next) {
		next = block->next;
		if (block->state == BLOCK_PENDING)
			pending_remove(heap, block);
		else
			bin_remove(heap, block);
		free(block);
	}
	heap->held -= chunk->size;
	heap->nchunks--;
	heap->ops->shrink(heap->owner, chunk->address, chunk->size, chunk->id);
	free(chunk);
}

void
shim_heap_init(struct shim_heap *heap, const struct shim_heap_ops *ops,
	       void *owner, uint64_t granule, const uint64_t classes[4],
	       uint64_t part)
{
	*heap = (struct shim_heap){
		.ops = ops, .owner = owner, .granule = granule, .part = part,
	};
	for (unsigned i = 0; i < 4; i++)
		heap->classes[i] = classes[i];
}

static void
reclaim(struct shim_heap *heap)
{
	uint64_t retired;

	if (!heap->pending)
		return;
	retired = heap->ops->retired(heap->owner);
	while (heap->pending && heap->pending->seq <= retired) {
		struct shim_block *block = heap->pending;

		pending_remove(heap, block);
		make_free(heap, block);
	}
}

/* Where an aligned block would begin, or 0 when it does not fit. */
static uint64_t
fit(const struct shim_block *block, uint64_t size, uint64_t align)
{
	uint64_t at = round_up(block->address, align);

	return at - block->address <= block->size &&
	       block->size - (at - block->address) >= size ? at : 0;
}

/* The tightest of the candidates in the lowest bin that has one. */
static struct shim_block *
search(struct shim_heap *heap, uint64_t size, uint64_t align, unsigned limit)
{
	for (unsigned bin = bin_of(size); bin < HEAP_BINS; bin++) {
		struct shim_block *best = NULL, *block = heap->bins[bin];

		for (unsigned n = 0; block && n < limit;
		     block = block->after, n++) {
			if (fit(block, size, align) &&
			    (!best || block->size < best->size))
				best = block;
		}
		if (best)
			return best;
	}
	return NULL;
}

/* Cut `head` bytes off the front of block; the rest becomes `rest`. */
static void
split(struct shim_block *block, uint64_t head, struct shim_block *rest)
{
	*rest = (struct shim_block){
		.address = block->address + head,
		.size = block->size - head,
		.chunk = block->chunk,
		.prev = block,
		.next = block->next,
	};
	if (rest->next)
		rest->next->prev = rest;
	block->next = rest;
	block->size = head;
}

/* Turn part of a free block, which has room for it, into a live one. */
static int
carve(struct shim_heap *heap, struct shim_block *block, uint64_t size,
      uint64_t align, struct shim_block **out_block)
{
	uint64_t gap = fit(block, size, align) - block->address;
	_cleanup_free_ struct shim_block *front = NULL, *back = NULL;

	if (gap)
		front = malloc(sizeof(*front));
	if (block->size - gap > size)
		back = malloc(sizeof(*back));
	if ((gap && !front) || (block->size - gap > size && !back))
		return err_origin(-ENOMEM);
	bin_remove(heap, block);
	if (back) {
		split(block, gap + size, back);
		bin_insert(heap, steal_ptr(&back));
	}
	if (front) {
		split(block, gap, front);
		bin_insert(heap, block);
		block = steal_ptr(&front);
	}
	block->state = BLOCK_LIVE;
	if (!block->chunk->live)
		idle_remove(heap, block->chunk);
	block->chunk->live += block->size;
	heap->live += block->size;
	*out_block = block;
	return 0;
}

static int
add_chunk(struct shim_heap *heap, uint64_t size, struct shim_block **out_block)
{
	_cleanup_free_ struct shim_chunk *chunk = malloc(sizeof(*chunk));
	_cleanup_free_ struct shim_block *block = malloc(sizeof(*block));
	int r;

	if (!chunk || !block)
		return err_origin(-ENOMEM);
	*chunk = (struct shim_chunk){ .size = size, .first = block };
	r = heap->ops->grow(heap->owner, size, &chunk->address, &chunk->id);
	if (r)
		return r;
	*block = (struct shim_block){
		.address = chunk->address, .size = size, .chunk = chunk,
	};
	heap->held += size;
	heap->nchunks++;
	idle_append(heap, steal_ptr(&chunk));
	bin_insert(heap, block);
	*out_block = steal_ptr(&block);
	return 0;
}

/*
 * How large a chunk to get for a block. Few chunks mean few descriptors in
 * the broker, so chunks grow with the heap; what would fill more than half of
 * one gets its own, so that little lies idle. Limits count chunks.
 */
static uint64_t
chunk_size(const struct shim_heap *heap, uint64_t size)
{
	unsigned i = 0;

	while (i < 3 && heap->classes[i + 1] * heap->part <= heap->held)
		i++;
	if (size > heap->classes[i] / 2)
		return round_up(size, heap->granule);
	return heap->classes[i];
}

static int
grow(struct shim_heap *heap, uint64_t size, struct shim_block **out_block)
{
	uint64_t chunk = chunk_size(heap, size);
	uint64_t least = round_up(size, heap->granule);
	int r = add_chunk(heap, chunk, out_block);

	if (r == HEAP_E_FULL && chunk > least)
		r = add_chunk(heap, least, out_block);
	return r;
}

/* At the limit: every block that there is, then those that are not aligned as
 * they should be. */
static struct shim_block *
search_all(struct shim_heap *heap, uint64_t size, uint64_t *align)
{
	struct shim_block *block = search(heap, size, *align, UINT32_MAX);

	if (block || *align <= HEAP_LEAST_BIG_ALIGN)
		return block;
	*align = HEAP_LEAST_BIG_ALIGN;
	return search(heap, size, *align, UINT32_MAX);
}

int
shim_heap_alloc(struct shim_heap *heap, uint64_t size,
		struct shim_block **out_block)
{
	uint64_t align = size > HEAP_SMALL ? HEAP_BIG_ALIGN : HEAP_ALIGN;
	struct shim_block *block;
	int r;

	if (!size || size > INT64_MAX)
		return HEAP_E_FULL;
	size = round_up(size, HEAP_ALIGN);
	/* Pinned chunks lie on pages only. */
	if (align > heap->granule)
		align = heap->granule;
	reclaim(heap);
	block = search(heap, size, align, SEARCH_LIMIT);
	if (!block) {
		r = grow(heap, size, &block);
		if (r == HEAP_E_FULL)
			block = search_all(heap, size, &align);
		if (r && !block)
			return r;
	}
	return carve(heap, block, size, align, out_block);
}

void
shim_heap_free(struct shim_heap *heap, struct shim_block *block, uint64_t seq)
{
	struct shim_chunk *chunk = block->chunk;

	chunk->live -= block->size;
	heap->live -= block->size;
	if (!chunk->live)
		idle_append(heap, chunk);
	if (seq <= heap->ops->retired(heap->owner))
		make_free(heap, block);
	else
		pending_append(heap, block, seq);
	while (heap->empty > HEAP_KEEP)
		chunk_drop(heap, heap->idle);
	shim_heap_tick(heap);
}

void
shim_heap_tick(struct shim_heap *heap)
{
	uint64_t now;

	reclaim(heap);
	if (!heap->idle)
		return;
	now = heap->ops->now_ns(heap->owner);
	while (heap->idle && now - heap->idle->empty_ns >= HEAP_KEEP_NS)
		chunk_drop(heap, heap->idle);
}

bool
shim_heap_trim(struct shim_heap *heap)
{
	bool any = heap->idle != NULL;

	while (heap->idle)
		chunk_drop(heap, heap->idle);
	return any;
}

bool
shim_heap_oldest(const struct shim_heap *heap, uint64_t *out_seq)
{
	if (!heap->pending)
		return false;
	*out_seq = heap->pending->seq;
	return true;
}

/* The whole granules of a run of blocks that are not live, when block is the
 * first of it. Empty chunks are counted as such. */
static uint64_t
spare_run(const struct shim_heap *heap, const struct shim_block *block)
{
	uint64_t start = round_up(block->address, heap->granule);
	uint64_t end = block->address;

	if (!block->chunk->live ||
	    (block->prev && block->prev->state != BLOCK_LIVE))
		return 0;
	for (; block && block->state != BLOCK_LIVE; block = block->next)
		end += block->size;
	return end > start ? (end - start) / heap->granule * heap->granule : 0;
}

uint64_t
shim_heap_spare(const struct shim_heap *heap)
{
	const struct shim_block *block;
	uint64_t spare = heap->empty;

	for (unsigned bin = 0; bin < HEAP_BINS; bin++)
		for (block = heap->bins[bin]; block; block = block->after)
			spare += spare_run(heap, block);
	for (block = heap->pending; block; block = block->after)
		spare += spare_run(heap, block);
	return spare;
}
