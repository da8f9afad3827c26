/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/handle.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/suite.h"

static struct handle_table *table;

static void
setup(void)
{
	ck_assert_int_eq(handle_table_create(&table), 0);
}

static void
teardown(void)
{
	table = handle_table_destroy(table);
}

START_TEST(handle_is_never_a_special_value_or_a_pointer)
{
	int object;
	uint64_t h;

	ck_assert_int_eq(handle_add(table, HANDLE_STREAM, &object, &h), 0);
	ck_assert_uint_gt(h, UINT64_C(1) << 54);
	ck_assert_ptr_null(handle_get(table, HANDLE_STREAM, 0));
	ck_assert_ptr_null(handle_get(table, HANDLE_STREAM, 1));
	ck_assert_ptr_null(handle_get(table, HANDLE_STREAM, 2));
	ck_assert_ptr_null(handle_get(table, HANDLE_STREAM,
				      (uintptr_t)&object));
	ck_assert_ptr_null(handle_get(table, HANDLE_STREAM, UINT64_MAX));
}
END_TEST

START_TEST(handle_of_another_kind_is_refused)
{
	int object;
	uint64_t h;

	ck_assert_int_eq(handle_add(table, HANDLE_STREAM, &object, &h), 0);
	ck_assert_ptr_eq(handle_get(table, HANDLE_STREAM, h), &object);
	ck_assert_ptr_null(handle_get(table, HANDLE_EVENT, h));
	ck_assert_ptr_null(handle_remove(table, HANDLE_EVENT, h));
	ck_assert_uint_eq(handle_count(table, HANDLE_STREAM), 1);
}
END_TEST

START_TEST(handle_freed_is_told_from_its_successor)
{
	int a, b;
	uint64_t ha, hb;

	ck_assert_int_eq(handle_add(table, HANDLE_EVENT, &a, &ha), 0);
	ck_assert_ptr_eq(handle_remove(table, HANDLE_EVENT, ha), &a);
	ck_assert_ptr_null(handle_remove(table, HANDLE_EVENT, ha));
	ck_assert_int_eq(handle_add(table, HANDLE_EVENT, &b, &hb), 0);
	ck_assert_uint_eq(handle_index(ha), handle_index(hb));
	ck_assert_ptr_null(handle_get(table, HANDLE_EVENT, ha));
	ck_assert_ptr_eq(handle_get(table, HANDLE_EVENT, hb), &b);
}
END_TEST

START_TEST(handle_minted_elsewhere_takes_its_own_slot)
{
	int object;
	uint64_t h = handle_make(HANDLE_MODULE, 70000, 9), found;
	uint32_t cursor = 0;

	ck_assert_int_eq(handle_put(table, HANDLE_EVENT, h, &object), -EINVAL);
	ck_assert_int_eq(handle_put(table, HANDLE_MODULE, h, &object), 0);
	ck_assert_int_eq(handle_put(table, HANDLE_MODULE, h, &object),
			 -EEXIST);
	ck_assert_int_eq(handle_put(table, HANDLE_MODULE,
				    handle_make(HANDLE_MODULE, 70000, 10),
				    &object), -EEXIST);
	ck_assert_ptr_eq(handle_next(table, &cursor, &found), &object);
	ck_assert_uint_eq(found, h);
	ck_assert_ptr_null(handle_next(table, &cursor, &found));
}
END_TEST

START_TEST(handle_walk_meets_every_object_once)
{
	static int objects[3000];
	uint64_t h[3000], found;
	uint32_t cursor = 0;
	int *p, sum = 0;

	for (int i = 0; i < 3000; i++)
		ck_assert_int_eq(handle_add(table, HANDLE_NODE, &objects[i],
					    &h[i]), 0);
	for (int i = 0; i < 3000; i += 3)
		ck_assert_ptr_nonnull(handle_remove(table, HANDLE_NODE, h[i]));
	while ((p = handle_next(table, &cursor, &found))) {
		ck_assert_int_eq(*p, 0);
		*p = 1;
		sum++;
	}
	ck_assert_int_eq(sum, 2000);
	ck_assert_uint_eq(handle_count(table, HANDLE_NODE), 2000);
}
END_TEST

static _Atomic int stop;
static _Atomic uint64_t current;

static void *
reader(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		uint64_t h = atomic_load(&current);
		uint64_t *object = handle_get(table, HANDLE_STREAM, h);

		/* Each object holds its own handle: a mix-up shows. */
		if (object && __atomic_load_n(object, __ATOMIC_RELAXED) != h)
			return (void *)1;
	}
	return NULL;
}

START_TEST(handle_look_up_races_with_reuse_and_never_mixes_objects)
{
	enum { ROUNDS = 20000 };
	/* One object a round: the slots are reused, the objects never, so
	 * that a late reader finds what its handle meant. */
	static uint64_t objects[ROUNDS];
	pthread_t thread;
	void *bad;

	atomic_store(&stop, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, reader, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t h;

		ck_assert_int_eq(handle_add(table, HANDLE_STREAM,
					    &objects[i], &h), 0);
		__atomic_store_n(&objects[i], h, __ATOMIC_RELAXED);
		atomic_store(&current, h);
		ck_assert_ptr_eq(handle_remove(table, HANDLE_STREAM, h),
				 &objects[i]);
	}
	atomic_store(&stop, 1);
	pthread_join(thread, &bad);
	ck_assert_ptr_null(bad);
}
END_TEST

SUITE_FIXTURE("handle", setup, teardown,
	handle_is_never_a_special_value_or_a_pointer,
	handle_of_another_kind_is_refused,
	handle_freed_is_told_from_its_successor,
	handle_minted_elsewhere_takes_its_own_slot,
	handle_walk_meets_every_object_once,
	handle_look_up_races_with_reuse_and_never_mixes_objects)
