/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker writes down of a client, and what the next one reads.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/shmem.h"
#include "server/worker/journal_own.h"
#include "tests/unit/suite.h"

static struct wkr_journal journal;
static int file;

static void
setup(void)
{
	memset(&journal, 0, sizeof(journal));
	file = shmem_file("journal");
	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(wkr_journal_open(&journal, dup(file), false), 0);
}

static void
teardown(void)
{
	wkr_journal_close(&journal);
	close(file);
}

static void
add(uint64_t handle, const char *text)
{
	struct wkr_line line = {.kind = WKR_LINE_FRAME, .handle = handle};

	wkr_journal_add_locked(&journal, &line, text, strlen(text));
}

static struct wkr_entry *
find(uint64_t handle)
{
	struct wkr_entry *e;

	TAILQ_FOREACH(e, &journal.entries, link)
		if (e->handle == handle)
			return e;
	return NULL;
}

/* As the next worker would. */
static int
reopen(void)
{
	wkr_journal_close(&journal);
	memset(&journal, 0, sizeof(journal));
	return wkr_journal_open(&journal, dup(file), true);
}

static bool
has(uint64_t handle, const char *text)
{
	struct wkr_entry *e = find(handle);
	const uint8_t *bytes;
	size_t size;

	if (!e)
		return false;
	bytes = wkr_journal_bytes(&journal, e, &size);
	return size == strlen(text) && !memcmp(bytes, text, size);
}

START_TEST(what_was_written_is_read_in_its_order)
{
	struct wkr_entry *e;

	add(7, "seven");
	add(3, "three");
	add(5, "");
	add(7, "again");
	ck_assert_int_eq(reopen(), 0);
	e = TAILQ_FIRST(&journal.entries);
	ck_assert_uint_eq(e->handle, 7);
	e = TAILQ_NEXT(e, link);
	ck_assert_uint_eq(e->handle, 3);
	ck_assert(has(7, "seven") && has(3, "three") && has(5, ""));
	/* And goes on. */
	add(9, "nine");
	ck_assert_int_eq(reopen(), 0);
	ck_assert(has(9, "nine") && has(7, "seven"));
}
END_TEST

START_TEST(what_was_dropped_is_not_there)
{
	add(1, "one");
	add(2, "two");
	wkr_journal_drop_locked(&journal, find(1));
	ck_assert_int_eq(reopen(), 0);
	ck_assert_ptr_null(find(1));
	ck_assert(has(2, "two"));
}
END_TEST

START_TEST(a_long_life_needs_little_room)
{
	char text[256];

	memset(text, 'x', sizeof(text));
	text[255] = 0;
	add(1, "the first");
	for (unsigned i = 0; i < 100000; i++) {
		add(2, text);
		wkr_journal_drop_locked(&journal, find(2));
	}
	add(3, "the last");
	ck_assert_uint_lt(journal.mapped, 4u << 20);
	ck_assert(!wkr_journal_is_full(&journal));
	ck_assert_int_eq(reopen(), 0);
	ck_assert(has(1, "the first") && has(3, "the last"));
	ck_assert_ptr_null(find(2));
}
END_TEST

START_TEST(many_objects_survive_being_gathered)
{
	char text[32];

	for (unsigned i = 1; i <= 5000; i++) {
		snprintf(text, sizeof(text), "object %u", i);
		add(i, text);
		add(1000000 + i, "for a moment, and long enough to be moved");
	}
	for (unsigned i = 1; i <= 5000; i++)
		wkr_journal_drop_locked(&journal, find(1000000 + i));
	ck_assert_int_eq(reopen(), 0);
	for (unsigned i = 1; i <= 5000; i += 499) {
		snprintf(text, sizeof(text), "object %u", i);
		ck_assert(has(i, text));
	}
}
END_TEST

START_TEST(too_much_is_marked_and_no_harm)
{
	static char big[1 << 20];
	unsigned n = 0;

	memset(big, 'b', sizeof(big) - 1);
	while (!wkr_journal_is_full(&journal) && n++ < 1000)
		add(n, big);
	ck_assert(wkr_journal_is_full(&journal));
	ck_assert_uint_gt(n, 200);
	ck_assert_int_eq(reopen(), 0);
	ck_assert(wkr_journal_is_full(&journal));
}
END_TEST

START_TEST(one_that_ended_before_it_began_is_empty)
{
	wkr_journal_close(&journal);
	memset(&journal, 0, sizeof(journal));
	ck_assert_int_eq(wkr_journal_open(&journal, shmem_file("none"), true),
			 0);
	ck_assert(TAILQ_EMPTY(&journal.entries));
	add(1, "one");
	ck_assert(has(1, "one"));
}
END_TEST

/* Any byte may be another one; nothing is read outside of the file. */
START_TEST(nonsense_is_refused_or_harmless)
{
	uint8_t *map;

	for (unsigned at = 0; at < 256; at++) {
		wkr_journal_close(&journal);
		close(file);
		setup();
		for (unsigned i = 1; i < 8; i++)
			add(i, "some bytes of an object");
		map = shmem_map(file, 4096);
		ck_assert_ptr_nonnull(map);
		map[at] ^= 0xff;
		munmap(map, 4096);
		if (reopen() == 0)
			for (unsigned i = 1; i < 8; i++)
				has(i, "some bytes of an object");
	}
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		what_was_written_is_read_in_its_order,
		what_was_dropped_is_not_there,
		a_long_life_needs_little_room,
		many_objects_survive_being_gathered,
		too_much_is_marked_and_no_harm,
		one_that_ended_before_it_began_is_empty,
		nonsense_is_refused_or_harmless,
	};

	return suite_run("worker_journal", tests,
			 sizeof(tests) / sizeof(tests[0]), setup, teardown);
}
