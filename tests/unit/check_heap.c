/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/heap.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/unit/suite.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

/* Stands in for the broker: chunks one after another in an address range that
 * nobody touches, up to a limit. */
struct source {
	uint64_t next, limit, held, last_size;
	unsigned grows, shrinks;
	uint64_t retired, now_ns;
	int fail;
};

static struct source source;
static struct shim_heap heap;

static int
grow(void *owner, uint64_t size, uint64_t *out_address, uint64_t *out_id)
{
	struct source *s = owner;

	if (s->fail)
		return s->fail;
	if (s->held + size > s->limit)
		return HEAP_E_FULL;
	*out_address = s->next;
	*out_id = ++s->grows;
	/* A gap, so that nothing merges across chunks unnoticed. */
	s->next += size + 2 * MIB;
	s->held += size;
	s->last_size = size;
	return 0;
}

static void
shrink(void *owner, uint64_t address, uint64_t size, uint64_t id)
{
	struct source *s = owner;

	(void)address;
	ck_assert_uint_ne(id, 0);
	s->held -= size;
	s->shrinks++;
}

static uint64_t
retired(void *owner)
{
	return ((struct source *)owner)->retired;
}

static uint64_t
now_ns(void *owner)
{
	return ((struct source *)owner)->now_ns;
}

static const struct shim_heap_ops ops = { grow, shrink, retired, now_ns };

static void
setup(void)
{
	static const uint64_t classes[4] = {
		2 * MIB, 8 * MIB, 32 * MIB, 128 * MIB,
	};

	source = (struct source){
		.next = UINT64_C(0x7e8000000000), .limit = 1024 * MIB,
	};
	shim_heap_init(&heap, &ops, &source, 2 * MIB, classes, 16);
}

static void
teardown(void)
{
	shim_heap_trim(&heap);
}

static struct shim_block *
take(uint64_t size)
{
	struct shim_block *block = NULL;

	ck_assert_int_eq(shim_heap_alloc(&heap, size, &block), 0);
	ck_assert_uint_ge(block->size, size);
	ck_assert_int_eq(block->state, BLOCK_LIVE);
	return block;
}

/* Every byte of every chunk in one block, neighbours consistent, no two free
 * blocks side by side, and the sums right. */
static void
check_chunk(const struct shim_chunk *chunk)
{
	uint64_t at = chunk->address, live = 0;
	const struct shim_block *last = NULL;

	for (const struct shim_block *b = chunk->first; b; b = b->next) {
		ck_assert_uint_eq(b->address, at);
		ck_assert_uint_gt(b->size, 0);
		ck_assert_ptr_eq(b->prev, last);
		ck_assert_ptr_eq(b->chunk, chunk);
		if (last)
			ck_assert(last->state != BLOCK_FREE ||
				  b->state != BLOCK_FREE);
		if (b->state == BLOCK_LIVE)
			live += b->size;
		at += b->size;
		last = b;
	}
	ck_assert_uint_eq(at, chunk->address + chunk->size);
	ck_assert_uint_eq(live, chunk->live);
}

START_TEST(heap_aligns_small_blocks_to_512_and_big_ones_to_2_mib)
{
	struct shim_block *a = take(1), *b = take(513), *c = take(1 * MIB + 1);
	struct shim_block *d = take(3 * MIB);

	ck_assert_uint_eq(a->address % 512, 0);
	ck_assert_uint_eq(b->address, a->address + 512);
	ck_assert_uint_eq(b->size, 1024);
	ck_assert_uint_eq(c->address % (2 * MIB), 0);
	ck_assert_uint_eq(d->address % (2 * MIB), 0);
	check_chunk(a->chunk);
	check_chunk(c->chunk);
	shim_heap_free(&heap, a, 0);
	shim_heap_free(&heap, b, 0);
	shim_heap_free(&heap, c, 0);
	shim_heap_free(&heap, d, 0);
	ck_assert_uint_eq(heap.live, 0);
}
END_TEST

START_TEST(heap_refuses_nothing_and_everything)
{
	struct shim_block *block;

	ck_assert_int_eq(shim_heap_alloc(&heap, 0, &block), HEAP_E_FULL);
	ck_assert_int_eq(shim_heap_alloc(&heap, UINT64_MAX, &block),
			 HEAP_E_FULL);
	ck_assert_int_eq(shim_heap_alloc(&heap, 2048 * MIB, &block),
			 HEAP_E_FULL);
	ck_assert_uint_eq(heap.held, 0);
}
END_TEST

START_TEST(heap_does_not_reuse_a_block_before_it_has_retired)
{
	struct shim_block *keep = take(512), *a = take(64 * KIB), *b;
	uint64_t address = a->address, seq;

	source.retired = 9;
	shim_heap_free(&heap, a, 10);
	ck_assert(shim_heap_oldest(&heap, &seq));
	ck_assert_uint_eq(seq, 10);
	b = take(64 * KIB);
	ck_assert_uint_ne(b->address, address);
	source.retired = 10;
	shim_heap_tick(&heap);
	ck_assert(!shim_heap_oldest(&heap, &seq));
	a = take(64 * KIB);
	ck_assert_uint_eq(a->address, address);
	check_chunk(keep->chunk);
	shim_heap_free(&heap, a, 0);
	shim_heap_free(&heap, b, 0);
	shim_heap_free(&heap, keep, 0);
}
END_TEST

START_TEST(heap_joins_free_neighbours)
{
	struct shim_block *b[4], *whole;
	uint64_t first;

	for (int i = 0; i < 4; i++)
		b[i] = take(256 * KIB);
	first = b[0]->address;
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(b[i + 1]->address,
				  b[i]->address + 256 * KIB);
	shim_heap_free(&heap, b[1], 0);
	shim_heap_free(&heap, b[0], 0);
	shim_heap_free(&heap, b[2], 0);
	check_chunk(b[3]->chunk);
	whole = take(768 * KIB);
	ck_assert_uint_eq(whole->address, first);
	shim_heap_free(&heap, whole, 0);
	shim_heap_free(&heap, b[3], 0);
}
END_TEST

START_TEST(heap_gives_large_blocks_their_own_chunk)
{
	struct shim_block *a = take(20 * MIB), *b = take(21 * MIB + 1);

	ck_assert_uint_eq(a->chunk->size, 20 * MIB);
	ck_assert_uint_eq(b->chunk->size, 22 * MIB);
	shim_heap_free(&heap, a, 0);
	shim_heap_free(&heap, b, 0);
}
END_TEST

START_TEST(heap_takes_larger_chunks_as_it_grows)
{
	struct shim_block *b[900];
	unsigned n = 0;

	while (n < 900)
		b[n++] = take(768 * KIB);
	ck_assert_uint_lt(source.grows, 130);
	ck_assert_uint_eq(source.last_size, 32 * MIB);
	while (n)
		shim_heap_free(&heap, b[--n], 0);
}
END_TEST

/* In the sizes that PyTorch asks for a ResNet-18 with cuBLAS's own 64 MiB, the
 * small ones in between. */
START_TEST(heap_holds_little_more_than_is_asked_for)
{
	static const uint64_t mib[] = {
		2, 20, 2, 20, 20, 64, 2, 32, 2, 20, 2, 2, 2, 20, 2, 2, 20, 2,
	};
	enum { N = sizeof(mib) / sizeof(*mib) };
	struct shim_block *large[N], *small[N];
	uint64_t asked = 0;

	for (unsigned i = 0; i < N; i++) {
		large[i] = take(mib[i] * MIB);
		small[i] = take(128 * KIB);
		asked += mib[i] * MIB + 128 * KIB;
		ck_assert_uint_le(source.held, asked + asked / 16 + 2 * MIB);
	}
	for (unsigned i = 0; i < N; i++) {
		shim_heap_free(&heap, large[i], 0);
		shim_heap_free(&heap, small[i], 0);
	}
}
END_TEST

/* Natively 1 MiB may lie anywhere in a page of 2 MiB. */
START_TEST(heap_puts_two_blocks_of_1_mib_into_2_mib)
{
	struct shim_block *blocks[480];

	source.limit = 480 * MIB;
	for (unsigned n = 0; n < 480; n++)
		blocks[n] = take(1 * MIB);
	ck_assert_uint_eq(source.held, 480 * MIB);
	for (unsigned n = 0; n < 480; n++)
		shim_heap_free(&heap, blocks[n], 0);
}
END_TEST

START_TEST(heap_at_its_limit_gives_up_the_large_alignment)
{
	struct shim_block *a, *b;

	source.limit = 8 * MIB;
	shim_heap_free(&heap, take(8 * MIB), 0);
	a = take(512 * KIB);
	ck_assert_uint_eq(source.held, 8 * MIB);
	b = take(6 * MIB + 512 * KIB);
	ck_assert_uint_eq(b->address % 4096, 0);
	ck_assert_uint_ne(b->address % (2 * MIB), 0);
	check_chunk(b->chunk);
	shim_heap_free(&heap, a, 0);
	shim_heap_free(&heap, b, 0);
}
END_TEST

START_TEST(heap_counts_as_spare_what_whole_granules_are_unused)
{
	struct shim_block *a, *b, *c;

	ck_assert_uint_eq(shim_heap_spare(&heap), 0);
	shim_heap_free(&heap, take(8 * MIB), 0);
	ck_assert_uint_eq(shim_heap_spare(&heap), 8 * MIB);
	a = take(512);
	ck_assert_uint_eq(shim_heap_spare(&heap), 6 * MIB);
	b = take(3 * MIB);
	ck_assert_uint_eq(shim_heap_spare(&heap), 2 * MIB);
	c = take(512);
	ck_assert_uint_eq(source.held, 8 * MIB);
	ck_assert_uint_eq(shim_heap_spare(&heap), 2 * MIB);
	/* What still waits for the device is as good as free: it is waited
	 * for before an allocation fails. */
	source.retired = 1;
	shim_heap_free(&heap, b, 2);
	ck_assert_uint_eq(shim_heap_spare(&heap), 6 * MIB);
	shim_heap_free(&heap, a, 2);
	shim_heap_free(&heap, c, 2);
	ck_assert_uint_eq(shim_heap_spare(&heap), 8 * MIB);
}
END_TEST

START_TEST(heap_falls_back_to_the_smallest_chunk_at_its_limit)
{
	struct shim_block *a, *b;

	source.limit = 66 * MIB;
	a = take(64 * MIB);
	/* 8 MiB would be due; 2 MiB is what is left. */
	b = take(512);
	ck_assert_uint_eq(b->chunk->size, 2 * MIB);
	shim_heap_free(&heap, a, 0);
	shim_heap_free(&heap, b, 0);
}
END_TEST

static bool
has_larger_than_1_mib(void)
{
	for (unsigned bin = 20; bin < HEAP_BINS; bin++)
		if (heap.bins[bin])
			return true;
	return false;
}

START_TEST(heap_at_its_limit_searches_every_fit_it_has)
{
	struct shim_block *hole = take(1020 * KIB), *blocks[202];
	uint64_t address = hole->address;

	for (unsigned n = 0; n < 202; n++)
		blocks[n] = take(600 * KIB);
	/* The hole that fits lies behind 100 of its bin that do not: more
	 * than are looked at while there is something else. */
	shim_heap_free(&heap, hole, 0);
	for (unsigned n = 1; n < 202; n += 2)
		shim_heap_free(&heap, blocks[n], 0);
	source.limit = source.held;
	while (has_larger_than_1_mib())
		ck_assert_uint_ne(take(1020 * KIB)->address, address);
	ck_assert_uint_eq(take(1020 * KIB)->address, address);
}
END_TEST

START_TEST(heap_keeps_little_that_is_empty_and_not_for_long)
{
	struct shim_block *a = take(40 * MIB), *b = take(50 * MIB);

	shim_heap_free(&heap, a, 0);
	ck_assert_uint_eq(source.shrinks, 0);
	shim_heap_free(&heap, b, 0);
	/* Together more than is kept: the older one goes. */
	ck_assert_uint_eq(source.shrinks, 1);
	ck_assert_uint_eq(heap.held, 50 * MIB);
	source.now_ns += HEAP_KEEP_NS;
	shim_heap_tick(&heap);
	ck_assert_uint_eq(source.shrinks, 2);
	ck_assert_uint_eq(source.held, 0);
}
END_TEST

START_TEST(heap_reuses_an_empty_chunk_before_it_asks_for_another)
{
	for (int i = 0; i < 10; i++)
		shim_heap_free(&heap, take(40 * MIB), 0);
	ck_assert_uint_eq(source.grows, 1);
}
END_TEST

START_TEST(heap_gives_back_a_chunk_whose_blocks_still_wait)
{
	struct shim_block *a = take(200 * MIB);
	uint64_t seq;

	shim_heap_free(&heap, a, 5);
	ck_assert_uint_eq(source.shrinks, 1);
	ck_assert(!shim_heap_oldest(&heap, &seq));
	ck_assert_uint_eq(source.held, 0);
}
END_TEST

START_TEST(heap_passes_a_failure_of_its_source_on)
{
	struct shim_block *block;

	source.fail = -EIO;
	ck_assert_int_eq(shim_heap_alloc(&heap, 512, &block), -EIO);
	ck_assert_uint_eq(heap.nchunks, 0);
}
END_TEST

START_TEST(heap_survives_a_long_random_life)
{
	struct shim_block *live[128] = {0};
	uint64_t seq = 0;

	srand(7);
	for (int step = 0; step < 20000; step++) {
		unsigned i = (unsigned)rand() % 128;
		uint64_t size = UINT64_C(1) << rand() % 23;

		size += (uint64_t)rand() % size;
		source.now_ns += 1000000;
		if (live[i]) {
			shim_heap_free(&heap, live[i], ++seq);
			live[i] = NULL;
		} else if (shim_heap_alloc(&heap, size, &live[i])) {
			live[i] = NULL;
		}
		if (rand() % 4 == 0)
			source.retired = seq;
		ck_assert_uint_eq(heap.held, source.held);
	}
	for (unsigned i = 0; i < 128; i++) {
		if (!live[i])
			continue;
		check_chunk(live[i]->chunk);
		for (unsigned k = 0; k < i; k++)
			if (live[k])
				ck_assert(live[k]->address + live[k]->size <=
					  live[i]->address ||
					  live[i]->address + live[i]->size <=
					  live[k]->address);
	}
	for (unsigned i = 0; i < 128; i++)
		if (live[i])
			shim_heap_free(&heap, live[i], seq);
	shim_heap_trim(&heap);
	ck_assert_uint_eq(heap.live, 0);
	ck_assert_uint_eq(source.held, 0);
	ck_assert_uint_eq(heap.nchunks, 0);
}
END_TEST

SUITE_FIXTURE("heap", setup, teardown,
	heap_aligns_small_blocks_to_512_and_big_ones_to_2_mib,
	heap_refuses_nothing_and_everything,
	heap_does_not_reuse_a_block_before_it_has_retired,
	heap_joins_free_neighbours,
	heap_gives_large_blocks_their_own_chunk,
	heap_takes_larger_chunks_as_it_grows,
	heap_holds_little_more_than_is_asked_for,
	heap_puts_two_blocks_of_1_mib_into_2_mib,
	heap_at_its_limit_gives_up_the_large_alignment,
	heap_counts_as_spare_what_whole_granules_are_unused,
	heap_falls_back_to_the_smallest_chunk_at_its_limit,
	heap_at_its_limit_searches_every_fit_it_has,
	heap_keeps_little_that_is_empty_and_not_for_long,
	heap_reuses_an_empty_chunk_before_it_asks_for_another,
	heap_gives_back_a_chunk_whose_blocks_still_wait,
	heap_passes_a_failure_of_its_source_on,
	heap_survives_a_long_random_life)
