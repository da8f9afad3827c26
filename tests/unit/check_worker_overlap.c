/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long kernels of two clients ran at once, as the worker measures it by
 * events, beside what the software device saw from inside. Kernels say that
 * they run and go on until they are let go, so every bound here is one that
 * the test has measured itself.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/suite.h"
#include "tests/unit/worker_user.h"

/* Times are read as floats of milliseconds from a base of about a second ago:
 * both ends of an interval are good to less than this. */
#define ROUNDING_NS 2000
#define HELD_NS 50000000

static struct rig rig;
static struct user one, two;
/* Pinned, at rig.host_base. */
static _Atomic uint32_t *words;
enum { GO, RUNNING, GO_TOO };

struct sums {
	uint64_t device, both, any, timed, missed, busy[3];
	bool known;
};

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void
begin(const char *threads, const char *measure)
{
	const char *const environment[] = {threads, measure, NULL};
	void *map;

	rig_start(&rig, environment);
	ck_assert_uint_eq(rig.ready->worker_ready->status, 0);
	user_start(&rig, &one, 1);
	user_start(&rig, &two, 2);
	ck_assert_uint_eq(rig_host(&one.c, 1, rig.host_base, 4096, &map), 0);
	words = map;
}

static void
end(void)
{
	munmap((void *)words, 4096);
	rig_stop(&rig);
}

static void
run(struct user *u, unsigned stream, unsigned go)
{
	uint64_t at[] = {rig.host_base + 4 * go, rig.host_base + 4 * RUNNING};

	rig_launch(&u->c, u->announce, u->stream[stream], 1, 1, at,
		   sizeof(at));
}

static void
wait_running(uint32_t kernels)
{
	while (words[RUNNING] < kernels)
		usleep(100);
}

static void
finish(struct user *u)
{
	ck_assert_int_eq(rig_call(&u->c, API_mpsFence, NULL), 0);
}

/* They are between their beginning and their end for HELD_NS at least: the
 * time is returned. */
static uint64_t
hold(uint32_t kernels)
{
	uint64_t start;

	wait_running(kernels);
	start = now_ns();
	while (now_ns() - start < HELD_NS)
		usleep(1000);
	return now_ns() - start;
}

static struct sums
sums(void)
{
	Mps__Control *held;
	Mps__WorkerStatsReply *stats = rig_stats(&rig, &held);
	struct sums s = {
		.device = stats->worker->overlap_ns,
		.known = stats->worker->events_known,
		.both = stats->worker->events_overlap_ns,
		.any = stats->worker->events_busy_ns,
		.timed = stats->worker->events_timed,
		.missed = stats->worker->events_missed,
	};

	for (size_t i = 0; i < stats->n_clients; i++)
		if (stats->clients[i]->client < 3)
			s.busy[stats->clients[i]->client] =
				stats->clients[i]->busy_ns;
	mps__control__free_unpacked(held, NULL);
	return s;
}

START_TEST(events_see_what_the_device_saw)
{
	uint64_t start, held, all;
	struct sums s;

	begin("SOFTCUDA_THREADS=4", "MPSSHIM_OVERLAP=1");
	start = now_ns();
	run(&one, 0, GO);
	run(&two, 0, GO);
	held = hold(2);
	words[GO] = 1;
	finish(&one);
	finish(&two);
	all = now_ns() - start;
	s = sums();
	ck_assert(s.known);
	ck_assert_uint_eq(s.timed, 2);
	ck_assert_uint_eq(s.missed, 0);
	/* What runs in the library lies between the events. */
	ck_assert_uint_gt(s.device, 0);
	ck_assert_uint_ge(s.both + ROUNDING_NS, s.device);
	ck_assert_uint_ge(s.both + ROUNDING_NS, held);
	ck_assert_uint_ge(s.any, s.both);
	ck_assert_uint_le(s.any, all + ROUNDING_NS);
	for (int i = 1; i < 3; i++) {
		ck_assert_uint_ge(s.busy[i] + ROUNDING_NS, held);
		ck_assert_uint_le(s.busy[i], all + ROUNDING_NS);
	}
	end();
}
END_TEST

/* The library lets them take turns; both are between beginning and end. */
START_TEST(one_thread_overlaps_by_events_alone)
{
	uint64_t held;
	struct sums s;

	begin("SOFTCUDA_THREADS=1", "MPSSHIM_OVERLAP=1");
	run(&one, 0, GO);
	run(&two, 0, GO);
	held = hold(2);
	words[GO] = 1;
	finish(&one);
	finish(&two);
	s = sums();
	ck_assert_uint_eq(s.device, 0);
	ck_assert_uint_ge(s.both + ROUNDING_NS, held);
	end();
}
END_TEST

START_TEST(a_client_does_not_overlap_with_itself)
{
	uint64_t held;
	struct sums s;

	begin("SOFTCUDA_THREADS=4", "MPSSHIM_OVERLAP=1");
	run(&one, 0, GO);
	run(&one, 1, GO);
	held = hold(2);
	words[GO] = 1;
	finish(&one);
	s = sums();
	ck_assert_uint_eq(s.timed, 2);
	ck_assert_uint_eq(s.both, 0);
	ck_assert_uint_eq(s.any, s.busy[1]);
	ck_assert_uint_ge(s.any + ROUNDING_NS, held);
	end();
}
END_TEST

START_TEST(kernels_one_after_the_other_do_not_overlap)
{
	struct sums s;

	begin("SOFTCUDA_THREADS=4", "MPSSHIM_OVERLAP=1");
	words[GO] = 1;
	for (int i = 0; i < 20; i++) {
		struct user *u = i & 1 ? &two : &one;

		run(u, 0, GO);
		finish(u);
	}
	s = sums();
	ck_assert_uint_eq(s.timed, 20);
	ck_assert_uint_le(s.both, 20 * ROUNDING_NS);
	ck_assert_uint_gt(s.busy[1], 0);
	ck_assert_uint_gt(s.busy[2], 0);
	end();
}
END_TEST

/* A status beside kernels that run books them so far, and no time twice. */
START_TEST(running_kernels_are_booked_so_far)
{
	uint64_t start, held, all;
	struct sums s;

	begin("SOFTCUDA_THREADS=4", "MPSSHIM_OVERLAP=1");
	start = now_ns();
	run(&one, 0, GO);
	run(&two, 0, GO_TOO);
	held = hold(2);
	do
		s = sums();
	while (s.both + ROUNDING_NS < held);
	ck_assert_uint_eq(s.timed, 0);
	words[GO] = 1;
	finish(&one);
	held = hold(2);
	words[GO_TOO] = 1;
	finish(&two);
	all = now_ns() - start;
	s = sums();
	ck_assert_uint_eq(s.timed, 2);
	ck_assert_uint_ge(s.busy[2] + ROUNDING_NS, 2 * HELD_NS);
	ck_assert_uint_le(s.both + held, s.any + 2 * ROUNDING_NS);
	ck_assert_uint_le(s.any, all + 2 * ROUNDING_NS);
	end();
}
END_TEST

/* A stream that is full of records is not made fuller. */
START_TEST(flood_is_counted_timed_or_not)
{
	const unsigned launches = 3000;
	struct sums s;

	begin("SOFTCUDA_THREADS=4", "MPSSHIM_OVERLAP=1");
	run(&one, 0, GO);
	for (unsigned i = 1; i < launches; i++)
		run(&one, 0, GO);
	run(&two, 0, GO);
	wait_running(2);
	words[GO] = 1;
	finish(&one);
	finish(&two);
	s = sums();
	ck_assert_uint_eq(s.timed + s.missed, launches + 1);
	ck_assert_uint_gt(s.timed, 0);
	ck_assert_uint_gt(s.both, 0);
	end();
}
END_TEST

START_TEST(nothing_is_measured_unless_asked_for)
{
	struct sums s;

	begin("SOFTCUDA_THREADS=4", "MPSSHIM_OVERLAP=0");
	words[GO] = 1;
	run(&one, 0, GO);
	finish(&one);
	s = sums();
	ck_assert(!s.known);
	ck_assert_uint_eq(s.timed + s.missed, 0);
	end();
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		events_see_what_the_device_saw,
		one_thread_overlaps_by_events_alone,
		a_client_does_not_overlap_with_itself,
		kernels_one_after_the_other_do_not_overlap,
		running_kernels_are_booked_so_far,
		flood_is_counted_timed_or_not,
		nothing_is_measured_unless_asked_for,
	};

	if (!rig_is_possible()) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	return suite_run("worker_overlap", tests,
			 sizeof(tests) / sizeof(tests[0]), NULL, NULL);
}
