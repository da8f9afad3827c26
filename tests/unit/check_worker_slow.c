/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "server/worker/crash.h"
#include "server/worker/slow.h"
#include "tests/unit/suite.h"

/* Nobody but the test reads the clock meanwhile: a nap can only be longer. */
static void
let_pass(uint64_t ns)
{
	uint64_t until = wkr_now_ns() + ns;
	struct timespec nap = {.tv_nsec = 5000000};

	while (wkr_now_ns() < until)
		nanosleep(&nap, NULL);
}

static void
begin(struct wkr_client *client, uint64_t id, const char *what, enum api_id fn)
{
	client->id = id;
	client->pid = 100 + (int)id;
	wkr_at_call(client, what);
	wkr_driver_begin(fn);
}

/* A call of another thread, that goes on while this one's does. */
struct other {
	pthread_t thread;
	pthread_barrier_t meet;
	struct wkr_client client;
};

static void *
other_thread(void *arg)
{
	struct other *other = arg;

	wkr_slow_thread();
	wkr_slow_gate(true);
	begin(&other->client, 7, "cuModuleLoad", API_cuModuleLoadDataEx);
	pthread_barrier_wait(&other->meet);
	pthread_barrier_wait(&other->meet);
	wkr_driver_end();
	return NULL;
}

START_TEST(call_that_took_long_says_who_was_in_the_driver_as_well)
{
	static struct other other;
	static struct wkr_client own;
	Mps__WorkerStat stat = MPS__WORKER_STAT__INIT;
	struct wkr_slow_list *list;

	wkr_slow_thread();
	pthread_barrier_init(&other.meet, NULL, 2);
	ck_assert_int_eq(pthread_create(&other.thread, NULL, other_thread,
					&other), 0);
	pthread_barrier_wait(&other.meet);
	begin(&own, 3, "a launch", API_cuLaunchKernel);
	let_pass(WKR_SLOW_NS);
	wkr_slow_look();
	wkr_driver_end();

	list = wkr_slow_list(&stat);
	ck_assert_uint_eq(stat.slow_calls, 1);
	ck_assert_uint_eq(stat.n_slow, 1);
	ck_assert_str_eq(stat.slow[0]->function, "cuLaunchKernel");
	ck_assert_str_eq(stat.slow[0]->what, "a launch");
	ck_assert_uint_eq(stat.slow[0]->client, 3);
	ck_assert_int_eq(stat.slow[0]->pid, 103);
	ck_assert_uint_ge(stat.slow[0]->ms, WKR_SLOW_NS / 1000000);
	ck_assert(!stat.slow[0]->gate);
	ck_assert_ptr_eq(strstr(stat.slow[0]->beside,
				"cuModuleLoadDataEx of client 7 for "),
			 stat.slow[0]->beside);
	ck_assert_ptr_nonnull(strstr(stat.slow[0]->beside, "the load gate"));
	wkr_slow_drop(list);

	pthread_barrier_wait(&other.meet);
	pthread_join(other.thread, NULL);
	list = wkr_slow_list(&stat);
	ck_assert_uint_eq(stat.slow_calls, 2);
	ck_assert_str_eq(stat.slow[0]->function, "cuModuleLoadDataEx");
	ck_assert_str_eq(stat.slow[1]->function, "cuLaunchKernel");
	ck_assert(stat.slow[0]->gate);
	wkr_slow_drop(list);
}
END_TEST

START_TEST(call_that_nobody_has_seen_is_not_noted)
{
	Mps__WorkerStat stat = MPS__WORKER_STAT__INIT;
	struct wkr_slow_list *list;

	wkr_slow_thread();
	wkr_driver_begin(API_cuLaunchKernel);
	wkr_driver_end();
	/* It is in none, for as long as one likes. */
	let_pass(WKR_SLOW_NS);
	wkr_slow_look();
	wkr_driver_begin(API_cuLaunchKernel);
	wkr_driver_end();
	list = wkr_slow_list(&stat);
	ck_assert_uint_eq(stat.slow_calls, 0);
	ck_assert_uint_eq(stat.n_slow, 0);
	wkr_slow_drop(list);
}
END_TEST

START_TEST(newest_are_kept)
{
	static struct wkr_client own;
	Mps__WorkerStat stat = MPS__WORKER_STAT__INIT;
	struct wkr_slow_list *list;

	wkr_slow_thread();
	for (uint64_t i = 1; i <= 18; i++) {
		begin(&own, i, "a launch", API_cuLaunchKernel);
		let_pass(WKR_SLOW_NS);
		wkr_slow_look();
		wkr_driver_end();
	}
	list = wkr_slow_list(&stat);
	ck_assert_uint_eq(stat.slow_calls, 18);
	ck_assert_uint_eq(stat.n_slow, 16);
	for (size_t i = 0; i < stat.n_slow; i++)
		ck_assert_uint_eq(stat.slow[i]->client, 18 - i);
	wkr_slow_drop(list);
}
END_TEST

SUITE("worker_slow", call_that_took_long_says_who_was_in_the_driver_as_well,
      call_that_nobody_has_seen_is_not_noted, newest_are_kept)
