/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for whom in the worker's streams: hardware queues, fences, full
 * streams. Kernels spin until the test lets them go, so nothing here goes by
 * a clock: what is held up wrongly is held up for ever.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/suite.h"
#include "tests/unit/worker_user.h"

#define CLIENTS 8
#define STREAMS USER_STREAMS

static struct rig rig;
static struct user one, many[CLIENTS];
/* Pinned, at rig.host_base: what kernels wait for, and what they count. */
static _Atomic uint32_t *words;
enum { GO, GO_LATER, COUNT };

static uint64_t
address(unsigned word)
{
	return rig.host_base + 4 * word;
}

static void
begin(const char *const *environment)
{
	void *map;

	rig_start(&rig, environment);
	ck_assert_uint_eq(rig.ready->worker_ready->status, 0);
	user_start(&rig, &one, 1);
	ck_assert_uint_eq(rig_host(&one.c, 1, rig.host_base, 4096, &map), 0);
	words = map;
}

static void
setup(void)
{
	begin((const char *const[]){"MPSSHIM_LANES=2", NULL});
}

/* The driver is asked for everything. */
static void
setup_no_word(void)
{
	begin((const char *const[]){"MPSSHIM_LANES=2",
				    "MPSSHIM_PERF=no_pin,no_word", NULL});
}

static void
teardown(void)
{
	munmap((void *)words, 4096);
	rig_stop(&rig);
}

static void
spin(struct user *u, uint64_t stream, unsigned word)
{
	uint64_t at = address(word);

	rig_launch(&u->c, u->spin, stream, 1, 1, &at, sizeof(at));
}

static void
bump(struct user *u, uint64_t stream)
{
	uint64_t at = address(COUNT);

	rig_launch(&u->c, u->bump, stream, 1, 1, &at, sizeof(at));
}

static int
sync_stream(struct user *u, uint64_t stream)
{
	return rig_call(&u->c, API_mpsStreamSync, (void *[]){&stream});
}

/* The worker has taken all there is, and what comes now is of another turn. It
 * sleeps only between two. */
static void
end_turn(struct user *u)
{
	struct ring_words *words_of = &u->c.channel.page->ordered;

	while (atomic_load(&words_of->head) != atomic_load(&words_of->tail) ||
	       !(atomic_load(&words_of->naps) & 1))
		usleep(50);
}

static bool
comes_to_retire(struct user *u, uint64_t seq)
{
	for (int i = 0; i < 20000; i++) {
		if (atomic_load(&u->c.channel.page->retired) >= seq)
			return true;
		usleep(1000);
	}
	return false;
}

/* Clients whose streams run one kernel each, more streams than queues. */
static void
crowd(void)
{
	/* Loading code waits for kernels: none runs before all is loaded. */
	for (int i = 0; i < CLIENTS; i++)
		user_start(&rig, &many[i], 10 + (uint64_t)i);
	for (int i = 0; i < CLIENTS; i++)
		for (int s = 0; s < STREAMS; s++)
			spin(&many[i], many[i].stream[s], GO);
	/* They are issued when a later call is answered. */
	for (int i = 0; i < CLIENTS; i++) {
		uint64_t stream = many[i].stream[0];

		ck_assert_int_eq(rig_call(&many[i].c, API_mpsStreamQuery,
					  (void *[]){&stream}),
				 CUDA_ERROR_NOT_READY);
	}
}

static bool
waits_with(uint64_t client, const char *text)
{
	Mps__Control *hold;
	const Mps__WorkerStatsReply *m = rig_stats(&rig, &hold);
	bool yes = false;

	for (size_t i = 0; i < m->n_clients; i++)
		yes |= m->clients[i]->client == client &&
		       strstr(m->clients[i]->waiting, text);
	mps__control__free_unpacked(hold, NULL);
	return yes;
}

START_TEST(who_waits_to_load_code_can_see_for_whom)
{
	struct user *two = &many[0];
	uint64_t gate, module, size = sizeof(user_ptx), hash_size = 32, no_options = 0;
	uint32_t kind = MODULE_ALONE, no_cap = 0;
	const uint64_t *m = &module;
	const void *options = NULL, *h;
	void *nothing = NULL;
	uint8_t hash[32];
	void *argv[] = {&m, &h, &hash_size, &size, &kind, &options,
			&no_options, &nothing, &nothing, &no_cap, &nothing,
			&no_cap};

	user_start(&rig, two, 10);
	ck_assert_uint_eq(rig_image(&rig, user_ptx, sizeof(user_ptx), hash), 0);
	h = hash;
	spin(&one, one.stream[0], GO);
	ck_assert_int_eq(rig_call(&one.c, API_mpsStreamQuery,
				  (void *[]){&one.stream[0]}),
			 CUDA_ERROR_NOT_READY);
	module = rig_mint(&two->c, HANDLE_MODULE);
	rig_call_begin(&two->c, API_mpsModuleLoad, argv);
	while (!waits_with(10, "to load code, since client 1 (pid "))
		usleep(1000);
	ck_assert(!waits_with(1, "to load code"));
	while (!(gate = atomic_load(&two->c.channel.page->gate)))
		usleep(1000);
	ck_assert_uint_ne(gate >> 32, 0);
	ck_assert_uint_eq(atomic_load(&one.c.channel.page->gate), 0);
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&two->c, API_mpsModuleLoad, argv), 0);
	ck_assert_uint_eq(atomic_load(&two->c.channel.page->gate), 0);
	ck_assert(!waits_with(10, "to load code"));
}
END_TEST

START_TEST(running_kernels_hold_up_nobody)
{
	crowd();
	for (int i = 0; i < 20; i++) {
		bump(&one, one.stream[i % STREAMS]);
		ck_assert_int_eq(sync_stream(&one, one.stream[i % STREAMS]),
				 0);
	}
	ck_assert_uint_eq(words[COUNT], 20);
	words[GO] = 1;
	for (int i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(rig_call(&many[i].c, API_mpsFence, NULL), 0);
}
END_TEST

START_TEST(what_comes_second_in_a_crowd_holds_up_nobody_else)
{
	crowd();
	/* Held in the worker; the clients' own rings stand still. */
	for (int i = 0; i < CLIENTS; i++)
		for (int n = 0; n < 50; n++)
			bump(&many[i], many[i].stream[7]);
	for (int i = 0; i < 20; i++) {
		bump(&one, one.stream[i % STREAMS]);
		ck_assert_int_eq(sync_stream(&one, one.stream[i % STREAMS]),
				 0);
	}
	ck_assert_uint_eq(words[COUNT], 20);
	words[GO] = 1;
	for (int i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(rig_call(&many[i].c, API_mpsFence, NULL), 0);
	ck_assert_uint_gt(words[COUNT], 20);
}
END_TEST

START_TEST(legacy_order_and_events_hold_in_a_crowd)
{
	uint64_t event = rig_mint(&one.c, HANDLE_EVENT), legacy, blocking;
	const uint64_t *p = &event;
	uint32_t flags = 0;

	crowd();
	user_stream(&one, &blocking, BLOCKING);
	user_stream(&one, &legacy, LEGACY);
	rig_post(&one.c, API_mpsEventCreate, (void *[]){&p, &flags});
	spin(&one, blocking, GO_LATER);
	bump(&one, legacy);
	rig_post(&one.c, API_mpsEventRecord,
		 (void *[]){&event, &legacy, &flags});
	rig_post(&one.c, API_mpsStreamWait,
		 (void *[]){&one.stream[0], &event, &flags});
	bump(&one, one.stream[0]);
	usleep(200000);
	ck_assert_uint_eq(words[COUNT], 0);
	words[GO_LATER] = 1;
	ck_assert_int_eq(sync_stream(&one, one.stream[0]), 0);
	ck_assert_uint_eq(words[COUNT], 2);
	words[GO] = 1;
}
END_TEST

START_TEST(wait_for_a_stream_is_not_for_later_work)
{
	uint64_t stream = one.stream[0];
	void *argv[] = {&stream};

	spin(&one, stream, GO);
	rig_call_begin(&one.c, API_mpsStreamSync, argv);
	end_turn(&one);
	spin(&one, stream, GO_LATER);
	end_turn(&one);
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&one.c, API_mpsStreamSync, argv), 0);
	ck_assert_int_eq(rig_call(&one.c, API_mpsStreamQuery, argv),
			 CUDA_ERROR_NOT_READY);
	words[GO_LATER] = 1;
	ck_assert_int_eq(sync_stream(&one, stream), 0);
}
END_TEST

static uint64_t
make_event(struct user *u)
{
	uint64_t event = rig_mint(&u->c, HANDLE_EVENT);
	const uint64_t *p = &event;
	uint32_t flags = 0;

	rig_post(&u->c, API_mpsEventCreate, (void *[]){&p, &flags});
	return event;
}

static void
record(struct user *u, uint64_t event, uint64_t stream)
{
	uint32_t flags = 0;

	rig_post(&u->c, API_mpsEventRecord,
		 (void *[]){&event, &stream, &flags});
}

START_TEST(wait_for_an_event_is_not_for_later_work)
{
	uint64_t stream = one.stream[0], event = make_event(&one);
	void *argv[] = {&event};

	spin(&one, stream, GO);
	record(&one, event, stream);
	ck_assert_int_eq(rig_call(&one.c, API_mpsEventQuery, argv),
			 CUDA_ERROR_NOT_READY);
	rig_call_begin(&one.c, API_mpsEventSync, argv);
	end_turn(&one);
	spin(&one, stream, GO_LATER);
	end_turn(&one);
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&one.c, API_mpsEventSync, argv), 0);
	ck_assert_int_eq(rig_call(&one.c, API_mpsEventQuery, argv), 0);
	ck_assert_int_eq(rig_call(&one.c, API_mpsStreamQuery,
				  (void *[]){&stream}),
			 CUDA_ERROR_NOT_READY);
	words[GO_LATER] = 1;
	ck_assert_int_eq(sync_stream(&one, stream), 0);
}
END_TEST

/* Somebody else waits for what comes later, and a word stands behind that. */
START_TEST(wait_for_an_event_is_not_for_another_wait)
{
	uint64_t stream = one.stream[0], event = make_event(&one);
	void *argv[] = {&event};

	spin(&one, stream, GO);
	record(&one, event, stream);
	spin(&one, stream, GO_LATER);
	rig_post(&one.c, API_mpsStreamSync, (void *[]){&stream});
	rig_call_begin(&one.c, API_mpsEventSync, argv);
	end_turn(&one);
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&one.c, API_mpsEventSync, argv), 0);
	ck_assert_int_eq(rig_call(&one.c, API_mpsStreamQuery,
				  (void *[]){&stream}),
			 CUDA_ERROR_NOT_READY);
	words[GO_LATER] = 1;
	ck_assert_int_eq(sync_stream(&one, stream), 0);
}
END_TEST

START_TEST(event_of_a_destroyed_stream_is_waited_for)
{
	uint64_t stream = one.stream[0], event = make_event(&one), again;
	void *argv[] = {&event};

	spin(&one, stream, GO);
	record(&one, event, stream);
	rig_post(&one.c, API_mpsStreamDestroy, (void *[]){&stream});
	user_stream(&one, &again, NON_BLOCKING);
	bump(&one, again);
	ck_assert_int_eq(sync_stream(&one, again), 0);
	ck_assert_int_eq(rig_call(&one.c, API_mpsEventQuery, argv),
			 CUDA_ERROR_NOT_READY);
	rig_call_begin(&one.c, API_mpsEventSync, argv);
	end_turn(&one);
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&one.c, API_mpsEventSync, argv), 0);
}
END_TEST

/* The next record of an event says nothing about this one's stream. */
START_TEST(event_is_where_it_was_recorded_last)
{
	uint64_t event = make_event(&one);
	void *argv[] = {&event};

	bump(&one, one.stream[0]);
	record(&one, event, one.stream[0]);
	ck_assert_int_eq(rig_call(&one.c, API_mpsEventSync, argv), 0);
	spin(&one, one.stream[1], GO);
	record(&one, event, one.stream[1]);
	ck_assert_int_eq(rig_call(&one.c, API_mpsEventQuery, argv),
			 CUDA_ERROR_NOT_READY);
	words[GO] = 1;
	ck_assert_int_eq(rig_call(&one.c, API_mpsEventSync, argv), 0);
	ck_assert_int_eq(rig_call(&one.c, API_mpsEventQuery, argv), 0);
}
END_TEST

/* Waits of many threads: each takes places in the stream. */
START_TEST(waits_fill_no_stream)
{
	uint64_t stream = one.stream[0];
	const int waits = 1500;

	user_start(&rig, &many[0], 10);
	spin(&one, stream, GO);
	for (int i = 0; i < waits; i++) {
		bump(&one, stream);
		rig_post(&one.c, API_mpsStreamSync, (void *[]){&stream});
	}
	bump(&many[0], many[0].stream[0]);
	ck_assert_int_eq(sync_stream(&many[0], many[0].stream[0]), 0);
	ck_assert_uint_eq(words[COUNT], 1);
	words[GO] = 1;
	ck_assert_int_eq(sync_stream(&one, stream), 0);
	ck_assert_uint_eq(words[COUNT], 1 + waits);
}
END_TEST

START_TEST(first_of_two_operations_retires_alone)
{
	uint64_t seq;

	spin(&one, one.stream[0], GO);
	seq = one.c.seq;
	end_turn(&one);
	spin(&one, one.stream[0], GO_LATER);
	end_turn(&one);
	ck_assert_uint_lt(atomic_load(&one.c.channel.page->retired), seq);
	words[GO] = 1;
	ck_assert(comes_to_retire(&one, seq));
	ck_assert_uint_lt(atomic_load(&one.c.channel.page->retired),
			  one.c.seq);
	words[GO_LATER] = 1;
	ck_assert(comes_to_retire(&one, one.c.seq));
}
END_TEST

START_TEST(stream_tells_how_far_it_is)
{
	uint64_t stream = one.stream[0], other = one.stream[1], first, reached;
	uint64_t *p = &reached;
	void *argv[] = {&stream, &first, &p};

	spin(&one, other, GO_LATER);
	bump(&one, stream);
	spin(&one, stream, GO);
	first = one.c.seq;
	end_turn(&one);
	bump(&one, stream);
	spin(&one, stream, GO_LATER);
	rig_call_begin(&one.c, API_mpsStreamReached, argv);
	end_turn(&one);
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&one.c, API_mpsStreamReached, argv), 0);
	ck_assert_uint_ge(reached, first);
	ck_assert_uint_lt(reached, first + 2);
	words[GO_LATER] = 1;
	ck_assert_int_eq(rig_call(&one.c, API_mpsFence, NULL), 0);
	first = 1;
	ck_assert_int_eq(rig_call(&one.c, API_mpsStreamReached, argv), 0);
	ck_assert_uint_eq(reached, one.c.seq);
}
END_TEST

/* The driver would block the lane, and with it every client there. */
START_TEST(full_stream_blocks_no_lane)
{
	const int launches = 1500;

	for (int i = 0; i < 3; i++)
		user_start(&rig, &many[i], 10 + (uint64_t)i);
	spin(&one, one.stream[0], GO);
	for (int i = 0; i < launches; i++) {
		bump(&one, one.stream[0]);
		/* Turn by turn: as many fences as it ever gets. */
		if (i % 4 == 0)
			usleep(200);
	}
	usleep(100000);
	for (int i = 0; i < 3; i++) {
		bump(&many[i], many[i].stream[0]);
		ck_assert_int_eq(sync_stream(&many[i], many[i].stream[0]), 0);
	}
	ck_assert_uint_eq(words[COUNT], 3);
	words[GO] = 1;
	ck_assert_int_eq(sync_stream(&one, one.stream[0]), 0);
	ck_assert_uint_eq(words[COUNT], 3 + launches);
}
END_TEST

static bool
waits_for_a_host_function(uint64_t client)
{
	Mps__Control *hold;
	Mps__WorkerStatsReply *stats = rig_stats(&rig, &hold);
	bool yes = false;

	for (size_t i = 0; i < stats->n_clients; i++)
		yes |= stats->clients[i]->client == client &&
		       !strcmp(stats->clients[i]->waiting, "a host function");
	mps__control__free_unpacked(hold, NULL);
	return yes;
}

/* More than the worker keeps aside for a client: the rest stays in its ring,
 * and all of it runs once the host function has. */
START_TEST(flood_behind_a_host_function_waits_and_runs)
{
	const int launches = 4500;
	uint64_t stream = one.stream[0], ticket = 7, none = 0, *p = &ticket;
	void *ask[] = {&none, &p}, *done[] = {&ticket, &p};

	user_start(&rig, &many[0], 10);
	rig_post(&one.c, API_mpsHostFunc, (void *[]){&stream, &ticket});
	for (int i = 0; i < launches; i++)
		bump(&one, stream);
	bump(&many[0], many[0].stream[0]);
	ck_assert_int_eq(sync_stream(&many[0], many[0].stream[0]), 0);
	ck_assert_uint_eq(words[COUNT], 1);
	while (!waits_for_a_host_function(1))
		usleep(1000);
	ck_assert_int_eq(rig_call(&one.c, API_mpsHostNext, ask), 0);
	ck_assert_uint_eq(ticket, 7);
	ck_assert_uint_eq(words[COUNT], 1);
	rig_call_begin(&one.c, API_mpsHostNext, done);
	ck_assert(comes_to_retire(&one, one.c.seq));
	ck_assert_uint_eq(words[COUNT], 1 + launches);
}
END_TEST

static uint64_t
line(void)
{
	return atomic_load((_Atomic uint64_t *)(void *)(one.c.staging +
							CHANNEL_STAGING));
}

static bool
line_comes(uint64_t value)
{
	for (int i = 0; i < 20000; i++) {
		if (line() == value)
			return true;
		usleep(1000);
	}
	return false;
}

START_TEST(the_gpu_tells_the_client_that_waits)
{
	uint64_t stream = one.stream[0];
	void *argv[] = {&stream};

	for (uint32_t i = 1; i <= 50; i++) {
		words[GO] = 0;
		spin(&one, stream, GO);
		bump(&one, stream);
		rig_call_begin(&one.c, API_mpsStreamSync, argv);
		end_turn(&one);
		ck_assert_uint_ne(line(), one.c.seq);
		words[GO] = 1;
		ck_assert(line_comes(one.c.seq));
		ck_assert_uint_eq(words[COUNT], i);
		ck_assert_int_eq(rig_call_end(&one.c, API_mpsStreamSync, argv),
				 0);
	}
}
END_TEST

/* What the client has been told is so for whatever it asks then. */
START_TEST(who_was_told_finds_the_stream_idle)
{
	uint64_t stream = one.stream[0];
	void *argv[] = {&stream};

	for (int i = 0; i < 50; i++) {
		/* Held, or it may be over before the worker comes to the
		 * call, which is then answered and tells nobody. */
		words[GO] = 0;
		spin(&one, stream, GO);
		rig_call_begin(&one.c, API_mpsStreamSync, argv);
		end_turn(&one);
		words[GO] = 1;
		ck_assert(line_comes(one.c.seq));
		ck_assert_int_eq(rig_call_end(&one.c, API_mpsStreamSync, argv),
				 0);
		ck_assert_int_eq(
			rig_call(&one.c, API_mpsStreamQuery, argv), 0);
	}
}
END_TEST

/* A client all of whose frames could be done again must not know more than
 * the worker: the next one would do again what it has built on. */
START_TEST(the_gpu_tells_nobody_who_can_go_on_elsewhere)
{
	uint64_t stream = one.stream[0], dst = rig.device_base, pitch = 0,
		 width = 64, height = 1;
	uint32_t element = 4, value = 7;
	void *fill[] = {&dst,	&pitch,	 &element, &value,
			&width, &height, &stream};

	ck_assert_uint_eq(rig_chunk(&one.c, 9, dst, 2 << 20), 0);
	ck_assert_int_eq(sync_stream(&one, stream), 0);
	for (int i = 0; i < 20; i++) {
		rig_post(&one.c, API_mpsFill, fill);
		ck_assert_int_eq(sync_stream(&one, stream), 0);
		ck_assert_uint_ne(line(), one.c.seq);
	}
}
END_TEST

/* Loads wait for a kernel that runs, in another thread's queue. That has as
 * many as a client has reply slots; the rest stays on the socket. */
START_TEST(calls_beyond_the_bound_wait_their_turn)
{
	const int loads = CHANNEL_SLOTS + 6;
	uint64_t size = sizeof(user_ptx), hash_size = 32, none = 0;
	uint32_t kind = 0, cap = 256, kernels, *k = &kernels;
	char info[256], error[256];
	void *i = info, *e = error;
	static struct rig_client c;
	const void *options = NULL;
	uint8_t hash[32];
	const void *h = hash;
	uint64_t id;
	const uint64_t *p = &id;
	void *argv[] = {&p, &h, &hash_size, &size, &kind, &options,
			&none, &k, &i, &cap, &e, &cap};

	rig_client_start(&rig, &c, 20, true);
	ck_assert_uint_eq(rig_image(&rig, user_ptx, sizeof(user_ptx), hash), 0);
	spin(&one, one.stream[0], GO);
	ck_assert_int_eq(rig_call(&one.c, API_mpsStreamQuery,
				  (void *[]){&one.stream[0]}),
			 CUDA_ERROR_NOT_READY);
	for (int n = 0; n < loads; n++) {
		id = rig_mint(&c, HANDLE_MODULE);
		rig_call_begin(&c, API_mpsModuleLoad, argv);
		/* The first answer: no load has one yet. */
		if (n == CHANNEL_SLOTS - 1)
			ck_assert_int_eq(rig_call(&c, API_mpsFence, NULL), 0);
	}
	words[GO] = 1;
	for (int n = 0; n < loads; n++)
		ck_assert_int_eq(rig_call_end(&c, API_mpsModuleLoad, argv), 0);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		who_waits_to_load_code_can_see_for_whom,
		running_kernels_hold_up_nobody,
		what_comes_second_in_a_crowd_holds_up_nobody_else,
		legacy_order_and_events_hold_in_a_crowd,
		wait_for_a_stream_is_not_for_later_work,
		wait_for_an_event_is_not_for_later_work,
		wait_for_an_event_is_not_for_another_wait,
		event_of_a_destroyed_stream_is_waited_for,
		event_is_where_it_was_recorded_last,
		waits_fill_no_stream,
		first_of_two_operations_retires_alone,
		stream_tells_how_far_it_is,
		full_stream_blocks_no_lane,
		flood_behind_a_host_function_waits_and_runs,
		calls_beyond_the_bound_wait_their_turn,
	};

	const TTest *const told[] = {
		the_gpu_tells_the_client_that_waits,
		who_was_told_finds_the_stream_idle,
		the_gpu_tells_nobody_who_can_go_on_elsewhere,
	};

	if (!rig_is_possible()) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	return suite_run("worker_queue", tests,
			 sizeof(tests) / sizeof(tests[0]), setup, teardown) |
	       suite_run("worker_queue told by the GPU", told,
			 sizeof(told) / sizeof(told[0]), setup, teardown) |
	       suite_run("worker_queue without words", tests,
			 sizeof(tests) / sizeof(tests[0]), setup_no_word,
			 teardown);
}
