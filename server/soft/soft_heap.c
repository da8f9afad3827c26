/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device heap: malloc() and free() of kernels. One heap of fixed size for
 * the process, made at the first allocation; the size cannot change after.
 *
 * What is free is written down outside of the heap: a kernel that runs over
 * the end of its block destroys its neighbours' data, not this process.
 */
#include "server/soft/soft_mem.h"

#include <stdlib.h>
#include <string.h>

#define HEAP_ALIGN ((size_t)16)

/* Blocks lie back to back and are listed in order of their offsets. */
struct block {
	size_t offset, size;       /* bytes */
	bool used;
	struct block *next;
};

/* Guards the heap. */
static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static uint64_t heap_base;
static size_t wanted_size = 8 << 20;

bool
soft_heap_resize(struct soft_ctx *ctx, size_t size)
{
	bool ok;

	(void)ctx;
	pthread_mutex_lock(&heap_lock);
	ok = !heap_base || size == wanted_size;
	if (ok)
		wanted_size = size;
	pthread_mutex_unlock(&heap_lock);
	return ok;
}

static bool
heap_make_locked(void)
{
	struct soft_range *range;

	if (heap_base || wanted_size < HEAP_ALIGN)
		return heap_base;
	blocks = calloc(1, sizeof(*blocks));
	if (!blocks)
		return false;
	blocks->size = wanted_size & ~(HEAP_ALIGN - 1);
	if (soft_mem_new(soft.devices[0].primary, SOFT_RANGE_HEAP,
			 blocks->size, &range)) {
		free(blocks);
		blocks = NULL;
		return false;
	}
	heap_base = range->base;
	return true;
}

static void
merge_locked(struct block *block)
{
	while (block->next && !block->next->used) {
		struct block *gone = block->next;

		block->size += gone->size;
		block->next = gone->next;
		free(gone);
	}
}

/* Cut the block to size; without memory for the rest it stays whole. */
static void
split_locked(struct block *block, size_t size)
{
	struct block *rest;

	if (block->size == size)
		return;
	rest = calloc(1, sizeof(*rest));
	if (!rest)
		return;
	rest->offset = block->offset + size;
	rest->size = block->size - size;
	rest->next = block->next;
	block->size = size;
	block->next = rest;
}

uint64_t
soft_heap_alloc(void *ctx, size_t size)
{
	struct block *block = NULL;
	uint64_t addr = 0;

	(void)ctx;
	if (!size || size > (size_t)1 << 36)
		return 0;
	size = (size + HEAP_ALIGN - 1) & ~(HEAP_ALIGN - 1);
	pthread_mutex_lock(&heap_lock);
	if (heap_make_locked())
		block = blocks;
	for (; block; block = block->next) {
		if (block->used)
			continue;
		merge_locked(block);
		if (block->size >= size)
			break;
	}
	if (block) {
		split_locked(block, size);
		block->used = true;
		addr = heap_base + block->offset;
	}
	pthread_mutex_unlock(&heap_lock);
	return addr;
}

void
soft_heap_free(void *ctx, uint64_t addr)
{
	(void)ctx;
	pthread_mutex_lock(&heap_lock);
	/* A pointer that is no block's is ignored. */
	for (struct block *block = blocks; block; block = block->next)
		if (block->used && heap_base + block->offset == addr)
			block->used = false;
	pthread_mutex_unlock(&heap_lock);
}
