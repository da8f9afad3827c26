/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/range.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "shim/ctx.h"
#include "tests/unit/suite.h"

static struct shim_context one, two;

static int
add(uint64_t start, uint64_t size, enum range_kind kind,
    struct shim_context *ctx, uint64_t owner)
{
	struct shim_range range = {
		.start = start, .size = size, .kind = kind, .ctx = ctx,
		.owner = owner,
	};

	return shim_range_add(&range);
}

START_TEST(range_holds_its_first_and_last_byte_and_no_more)
{
	struct shim_range r;

	ck_assert_int_eq(add(1000, 100, RANGE_DEVICE, &one, 0), 0);
	ck_assert_int_eq(shim_range_find(1000, &r), 0);
	ck_assert_int_eq(shim_range_find(1099, &r), 0);
	ck_assert_uint_eq(r.start, 1000);
	ck_assert_uint_eq(r.size, 100);
	ck_assert_int_eq(shim_range_find(999, &r), RANGE_E_NONE);
	ck_assert_int_eq(shim_range_find(1100, &r), RANGE_E_NONE);
	ck_assert_int_eq(shim_range_find(0, &r), RANGE_E_NONE);
	ck_assert_int_eq(shim_range_find(UINT64_MAX, &r), RANGE_E_NONE);
}
END_TEST

START_TEST(range_that_overlaps_is_refused)
{
	ck_assert_int_eq(add(1000, 100, RANGE_DEVICE, &one, 0), 0);
	ck_assert_int_eq(add(1099, 1, RANGE_PINNED, &one, 0),
			 RANGE_E_OVERLAP);
	ck_assert_int_eq(add(900, 101, RANGE_DEVICE, &one, 0),
			 RANGE_E_OVERLAP);
	ck_assert_int_eq(add(900, 1000, RANGE_DEVICE, &one, 0),
			 RANGE_E_OVERLAP);
	ck_assert_int_eq(add(1100, 1, RANGE_DEVICE, &one, 0), 0);
	ck_assert_int_eq(add(5000, 0, RANGE_DEVICE, &one, 0),
			 RANGE_E_OVERLAP);
	ck_assert_int_eq(add(UINT64_MAX - 1, 100, RANGE_DEVICE, &one, 0),
			 RANGE_E_OVERLAP);
}
END_TEST

START_TEST(range_is_removed_by_its_start_and_kind_only)
{
	struct shim_range r;

	ck_assert_int_eq(add(1000, 100, RANGE_DEVICE, &one, 0), 0);
	ck_assert_int_eq(shim_range_remove(1001, RANGE_DEVICE, &r),
			 RANGE_E_NONE);
	ck_assert_int_eq(shim_range_remove(1000, RANGE_PINNED, &r),
			 RANGE_E_NONE);
	ck_assert_int_eq(shim_range_remove(1000, RANGE_DEVICE, &r), 0);
	ck_assert_uint_eq(r.size, 100);
	ck_assert_int_eq(shim_range_remove(1000, RANGE_DEVICE, &r),
			 RANGE_E_NONE);
}
END_TEST

START_TEST(range_ids_are_never_used_twice)
{
	struct shim_range first, second;

	ck_assert_int_eq(add(1000, 100, RANGE_DEVICE, &one, 0), 0);
	ck_assert_int_eq(shim_range_remove(1000, RANGE_DEVICE, &first), 0);
	ck_assert_int_eq(add(1000, 100, RANGE_DEVICE, &one, 0), 0);
	ck_assert_int_eq(shim_range_find(1000, &second), 0);
	ck_assert_uint_ne(first.buffer_id, 0);
	ck_assert_uint_ne(first.buffer_id, second.buffer_id);
}
END_TEST

START_TEST(range_walk_takes_those_of_one_context_kind_and_owner)
{
	struct shim_range r;
	unsigned n = 0;

	for (uint64_t i = 0; i < 30; i++)
		ck_assert_int_eq(add(1000 * (i + 1), 10,
				     i % 2 ? RANGE_GLOBAL : RANGE_DEVICE,
				     i % 3 ? &one : &two, i % 5 + 1), 0);
	while (!shim_range_remove_any(&one, RANGE_GLOBAL, 2, &r)) {
		ck_assert_ptr_eq(r.ctx, &one);
		ck_assert_uint_eq(r.owner, 2);
		n++;
	}
	/* Odd, not divisible by 3, 1 modulo 5, below 30: 1, 11. */
	ck_assert_uint_eq(n, 2);
	while (!shim_range_remove_any(&one, RANGE_GLOBAL, 0, &r))
		n++;
	while (!shim_range_remove_any(&one, RANGE_DEVICE, 0, &r))
		n++;
	ck_assert_uint_eq(n, 20);
	while (!shim_range_remove_any(&two, RANGE_GLOBAL, 0, &r))
		n++;
	while (!shim_range_remove_any(&two, RANGE_DEVICE, 0, &r))
		n++;
	ck_assert_uint_eq(n, 30);
}
END_TEST

START_TEST(range_sync_memops_is_kept_for_the_whole_block)
{
	struct shim_range r;

	ck_assert_int_eq(add(1000, 100, RANGE_DEVICE, &one, 0), 0);
	ck_assert_int_eq(shim_range_set_sync_memops(1050, true), 0);
	ck_assert_int_eq(shim_range_find(1000, &r), 0);
	ck_assert(r.sync_memops);
	ck_assert_int_eq(shim_range_set_sync_memops(2000, true),
			 RANGE_E_NONE);
}
END_TEST

START_TEST(range_map_agrees_with_a_plain_array)
{
	static bool present[512];
	struct shim_range r;

	srand(3);
	for (int step = 0; step < 50000; step++) {
		unsigned i = (unsigned)rand() % 512;
		uint64_t start = 4096 + i * 64;

		if (present[i])
			ck_assert_int_eq(shim_range_remove(start, RANGE_DEVICE,
							   &r), 0);
		else
			ck_assert_int_eq(add(start, 1 + (uint64_t)rand() % 64,
					     RANGE_DEVICE, &one, 0), 0);
		present[i] = !present[i];
		i = (unsigned)rand() % 512;
		ck_assert_int_eq(shim_range_find(4096 + i * 64, &r),
				 present[i] ? 0 : RANGE_E_NONE);
	}
}
END_TEST

static void *
churn(void *arg)
{
	uint64_t base = 1000000 * (1 + (uintptr_t)arg);
	struct shim_range r;

	for (int i = 0; i < 3000; i++) {
		for (uint64_t k = 0; k < 8; k++)
			ck_assert_int_eq(add(base + k * 100, 100, RANGE_DEVICE,
					     &one, 0), 0);
		for (uint64_t k = 0; k < 8; k++)
			ck_assert_int_eq(shim_range_remove(
				base + k * 100, RANGE_DEVICE, &r), 0);
	}
	return NULL;
}

START_TEST(range_map_serves_several_threads)
{
	pthread_t threads[3];
	struct shim_range r;

	for (uintptr_t i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, churn,
						(void *)i), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(shim_range_remove_any(&one, RANGE_DEVICE, 0, &r),
			 RANGE_E_NONE);
}
END_TEST

SUITE("range",
	range_holds_its_first_and_last_byte_and_no_more,
	range_that_overlaps_is_refused,
	range_is_removed_by_its_start_and_kind_only,
	range_ids_are_never_used_twice,
	range_walk_takes_those_of_one_context_kind_and_owner,
	range_sync_memops_is_kept_for_the_whole_block,
	range_map_agrees_with_a_plain_array,
	range_map_serves_several_threads)
