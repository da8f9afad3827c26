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

#include "api_cuda.h"
#include "proto/function.h"
#include "proto/handle.h"
#include "tests/unit/suite.h"
#include "tests/unit/worker_rig.h"

#define CLIENTS 8
#define STREAMS 8 /* of each client */

enum kind { BLOCKING, NON_BLOCKING, LEGACY };

static const char ptx[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry bump(.param .u64 p)\n{\n"
	" .reg .b32 %r<3>; .reg .b64 %d<2>;\n"
	" ld.param.u64 %d1, [p];\n ld.global.u32 %r1, [%d1];\n"
	" add.u32 %r2, %r1, 1;\n st.global.u32 [%d1], %r2;\n ret;\n}\n"
	".visible .entry spin(.param .u64 p)\n{\n"
	" .reg .b32 %r<2>; .reg .b64 %d<2>; .reg .pred %p;\n"
	" ld.param.u64 %d1, [p];\n"
	"L:\n ld.volatile.global.u32 %r1, [%d1];\n"
	" setp.eq.u32 %p, %r1, 0;\n @%p bra L;\n ret;\n}\n";

struct user {
	struct rig_client c;
	uint64_t bump, spin;
	uint64_t stream[STREAMS];
};

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
make_stream(struct user *u, uint64_t *out, enum kind kind_of)
{
	uint64_t id = rig_mint(&u->c, HANDLE_STREAM), context = 7;
	const uint64_t *p = &id;
	uint32_t kind = kind_of;
	int32_t priority = 0;

	rig_post(&u->c, API_mpsStreamCreate,
		 (void *[]){&p, &context, &kind, &priority});
	*out = id;
}

static uint64_t
get_function(struct user *u, uint64_t module, const char *name)
{
	static struct function_info info;
	uint64_t id = rig_mint(&u->c, HANDLE_FUNCTION);
	uint32_t cap = sizeof(info);
	const uint64_t *p = &id;
	void *out = &info;

	ck_assert_int_eq(rig_call(&u->c, API_mpsModuleFunction,
				  (void *[]){&module, &name, &p, &out, &cap}),
			 0);
	return id;
}

static void
start(struct user *u, uint64_t id)
{
	uint64_t module, image_size = sizeof(ptx), hash_size = 32;
	uint64_t options_size = 0;
	uint32_t kind = 0, cap = 256, kernels, *k = &kernels;
	const uint64_t *p = &module;
	const void *options = NULL;
	char info[256], error[256];
	void *i = info, *e = error;
	uint8_t hash[32];
	const void *h = hash;

	rig_client_start(&rig, &u->c, id, false);
	module = rig_mint(&u->c, HANDLE_MODULE);
	ck_assert_uint_eq(rig_image(&rig, ptx, sizeof(ptx), hash), 0);
	ck_assert_int_eq(
		rig_call(&u->c, API_mpsModuleLoad,
			 (void *[]){&p, &h, &hash_size, &image_size, &kind,
				    &options, &options_size, &k, &i, &cap,
				    &e, &cap}),
		0);
	u->bump = get_function(u, module, "bump");
	u->spin = get_function(u, module, "spin");
	for (int s = 0; s < STREAMS; s++)
		make_stream(u, &u->stream[s], NON_BLOCKING);
}

static void
setup(void)
{
	static const char *const lanes[] = {"MPSSHIM_LANES=2", NULL};
	void *map;

	rig_start(&rig, lanes);
	ck_assert_uint_eq(rig.ready->worker_ready->status, 0);
	start(&one, 1);
	ck_assert_uint_eq(rig_host(&one.c, 1, rig.host_base, 4096, &map), 0);
	words = map;
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

static bool
comes_to_retire(struct user *u, uint64_t seq)
{
	for (int i = 0; i < 5000; i++) {
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
		start(&many[i], 10 + (uint64_t)i);
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
	make_stream(&one, &blocking, BLOCKING);
	make_stream(&one, &legacy, LEGACY);
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
	usleep(20000);
	spin(&one, stream, GO_LATER);
	usleep(20000);
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&one.c, API_mpsStreamSync, argv), 0);
	ck_assert_int_eq(rig_call(&one.c, API_mpsStreamQuery, argv),
			 CUDA_ERROR_NOT_READY);
	words[GO_LATER] = 1;
	ck_assert_int_eq(sync_stream(&one, stream), 0);
}
END_TEST

START_TEST(first_of_two_operations_retires_alone)
{
	uint64_t seq;

	spin(&one, one.stream[0], GO);
	seq = one.c.seq;
	usleep(20000);
	spin(&one, one.stream[0], GO_LATER);
	usleep(20000);
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
	usleep(20000);
	bump(&one, stream);
	spin(&one, stream, GO_LATER);
	rig_call_begin(&one.c, API_mpsStreamReached, argv);
	usleep(20000);
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
		start(&many[i], 10 + (uint64_t)i);
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

	start(&many[0], 10);
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

/* Loads wait for a kernel that runs, in another thread's queue. That has as
 * many as a client has reply slots; the rest stays on the socket. */
START_TEST(calls_beyond_the_bound_wait_their_turn)
{
	const int loads = CHANNEL_SLOTS + 6;
	uint64_t size = sizeof(ptx), hash_size = 32, none = 0;
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
	ck_assert_uint_eq(rig_image(&rig, ptx, sizeof(ptx), hash), 0);
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
		running_kernels_hold_up_nobody,
		what_comes_second_in_a_crowd_holds_up_nobody_else,
		legacy_order_and_events_hold_in_a_crowd,
		wait_for_a_stream_is_not_for_later_work,
		first_of_two_operations_retires_alone,
		stream_tells_how_far_it_is,
		full_stream_blocks_no_lane,
		flood_behind_a_host_function_waits_and_runs,
		calls_beyond_the_bound_wait_their_turn,
	};

	if (!rig_is_possible()) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	return suite_run("worker_queue", tests,
			 sizeof(tests) / sizeof(tests[0]), setup, teardown);
}
