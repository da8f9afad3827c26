/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that go to the driver in kept graphs: each with its own function
 * and parameters, in their order, and each with its own answer. A chain of
 * kernels, of which each does its step only where the one before has left it,
 * says so. Nothing here goes by a clock: a stream is full until its first
 * kernel is let go, so all that follows waits in the client's ring.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/launch.h"
#include "tests/unit/suite.h"
#include "tests/unit/worker_user.h"

/* More than a stream takes, less than a ring holds besides. */
#define FLOOD 1500
/* The graphs are made beside the first of them. */
#define FLOODS_MAX 200

static const char chain_ptx[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry step(.param .u64 p, .param .u32 from)\n{\n"
	" .reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %q;\n"
	" ld.param.u64 %d1, [p];\n ld.param.u32 %r1, [from];\n"
	" ld.global.u32 %r2, [%d1];\n setp.ne.u32 %q, %r1, %r2;\n"
	" @%q ret;\n add.u32 %r3, %r1, 1;\n st.global.u32 [%d1], %r3;\n"
	" ret;\n}\n"
	".visible .entry wide(.param .align 8 .b8 pad[152], "
	".param .u64 p, .param .u32 from)\n{\n"
	" .reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %q;\n"
	" ld.param.u64 %d1, [p];\n ld.param.u32 %r1, [from];\n"
	" ld.global.u32 %r2, [%d1];\n setp.ne.u32 %q, %r1, %r2;\n"
	" @%q ret;\n add.u32 %r3, %r1, 1;\n st.global.u32 [%d1], %r3;\n"
	" ret;\n}\n"
	".visible .entry wild()\n{\n .reg .b64 %d<2>;\n"
	" mov.u64 %d1, 64;\n st.global.u32 [%d1], 1;\n ret;\n}\n";

struct chain {
	uint64_t module, step, wide, wild;
};

struct step_params {
	uint64_t at;
	uint32_t from;
};
struct wide_params {
	uint8_t pad[152];
	struct step_params step;
};

static struct rig rig;
static struct user one;
static struct chain chain;
static _Atomic uint32_t *words;
enum { GO, COUNT };

static uint64_t
address(unsigned word)
{
	return rig.host_base + 4 * word;
}

static void
load(struct user *u, struct chain *out, const char *text)
{
	uint64_t size = strlen(text) + 1, hash_size = 32, none = 0;
	uint32_t kind = 0, cap = 256, kernels, *k = &kernels;
	const uint64_t *p = &out->module;
	const void *options = NULL;
	char info[256], error[256];
	void *i = info, *e = error;
	uint8_t hash[32];
	const void *h = hash;

	out->module = rig_mint(&u->c, HANDLE_MODULE);
	ck_assert_uint_eq(rig_image(&rig, text, size, hash), 0);
	ck_assert_int_eq(
		rig_call(&u->c, API_mpsModuleLoad,
			 (void *[]){&p, &h, &hash_size, &size, &kind, &options,
				    &none, &k, &i, &cap, &e, &cap}),
		0);
	out->step = user_function(u, out->module, "step");
	out->wide = user_function(u, out->module, "wide");
	out->wild = user_function(u, out->module, "wild");
}

static void
begin(const char *perf)
{
	const char *const environment[] = {"MPSSHIM_LANES=2", perf, NULL};
	void *map;

	rig_start(&rig, environment);
	ck_assert_uint_eq(rig.ready->worker_ready->status, 0);
	user_start(&rig, &one, 1);
	ck_assert_uint_eq(rig_host(&one.c, 1, rig.host_base, 4096, &map), 0);
	words = map;
	load(&one, &chain, chain_ptx);
}

static void
setup(void)
{
	begin("MPSSHIM_PERF=no_pin");
}

static void
setup_plain(void)
{
	begin("MPSSHIM_PERF=no_pin,no_backlog");
}

static void
teardown(void)
{
	munmap((void *)words, 4096);
	rig_stop(&rig);
}

static void
stop(uint64_t stream)
{
	uint64_t at = address(GO);

	words[GO] = 0;
	rig_launch(&one.c, one.spin, stream, 1, 1, &at, sizeof(at));
}

static void
step(const struct chain *c, uint64_t stream, uint32_t from)
{
	struct step_params p = {address(COUNT), from};

	rig_launch(&one.c, c->step, stream, 1, 1, &p, 12);
}

static void
wide(const struct chain *c, uint64_t stream, uint32_t from)
{
	struct wide_params p = {.step = {address(COUNT), from}};

	memset(p.pad, (int)from, sizeof(p.pad));
	rig_launch(&one.c, c->wide, stream, 1, 1, &p, 152 + 12);
}

static void
sync_stream(uint64_t stream)
{
	ck_assert_int_eq(rig_call(&one.c, API_mpsStreamSync,
				  (void *[]){&stream}),
			 0);
}

struct figures {
	uint64_t launches, graph_launches, late_errors;
};

static struct figures
figures(void)
{
	struct figures f = {0};
	Mps__Control *hold;
	Mps__WorkerStatsReply *stats = rig_stats(&rig, &hold);

	for (size_t i = 0; i < stats->n_clients; i++) {
		const Mps__ClientStat *c = stats->clients[i];

		if (c->client != one.c.id)
			continue;
		f = (struct figures){c->launches, c->graph_launches,
				     c->late_errors};
	}
	mps__control__free_unpacked(hold, NULL);
	return f;
}

/* One flood of the chain's functions in turn, let go when all has been posted
 * that finds room: what comes next waits for the GPU. */
static void
flood(const struct chain *c, uint64_t stream, bool changing, uint32_t *from)
{
	stop(stream);
	for (int i = 0; i < FLOOD; i++) {
		if (i == 1100)
			words[GO] = 1;
		if (changing && i % 3 == 2)
			wide(c, stream, (*from)++);
		else
			step(c, stream, (*from)++);
	}
	sync_stream(stream);
	ck_assert_uint_eq(words[COUNT], *from);
}

static uint32_t
flood_until_graphs(const struct chain *c, uint64_t stream, bool changing)
{
	uint64_t before = figures().graph_launches;
	uint32_t from = words[COUNT];

	for (int i = 0; i < FLOODS_MAX; i++) {
		flood(c, stream, changing, &from);
		if (figures().graph_launches > before)
			return from;
	}
	ck_abort_msg("no launch went in a graph");
	return 0;
}

START_TEST(launches_that_wait_go_in_graphs)
{
	uint32_t from = flood_until_graphs(&chain, one.stream[0], false);

	ck_assert_uint_eq(figures().graph_launches % 16, 0);
	ck_assert_uint_eq(figures().late_errors, 0);
	/* Each is counted once, those that stopped the stream as well. */
	ck_assert_uint_eq(figures().launches, from + from / FLOOD);
}
END_TEST

START_TEST(functions_and_parameters_change_in_graphs)
{
	flood_until_graphs(&chain, one.stream[0], true);
	flood_until_graphs(&chain, one.stream[0], false);
	flood_until_graphs(&chain, one.stream[0], true);
}
END_TEST

START_TEST(launches_of_the_default_stream_go_in_graphs)
{
	uint64_t legacy, blocking;
	uint32_t from;

	user_stream(&one, &legacy, LEGACY);
	user_stream(&one, &blocking, BLOCKING);
	from = flood_until_graphs(&chain, legacy, true);
	/* It orders the other: each step waits for the one before. */
	stop(legacy);
	for (int i = 0; i < FLOOD; i++) {
		if (i == 900)
			words[GO] = 1;
		step(&chain, i % 100 == 99 ? blocking : legacy, from++);
	}
	sync_stream(legacy);
	ck_assert_uint_eq(words[COUNT], from);
}
END_TEST

START_TEST(bad_launch_among_many_fails_alone)
{
	uint32_t from = flood_until_graphs(&chain, one.stream[0], false);
	const int bad = 3;

	for (int n = 0; n < 6; n++) {
		stop(one.stream[0]);
		for (int i = 0; i < FLOOD; i++) {
			struct step_params p = {address(COUNT), from};

			if (i == 1100)
				words[GO] = 1;
			if (i % (FLOOD / bad) == 400)
				rig_launch(&one.c, chain.step, one.stream[0],
					   1, 4096, &p, 12);
			else
				step(&chain, one.stream[0], from++);
		}
		sync_stream(one.stream[0]);
		ck_assert_uint_eq(words[COUNT], from);
		ck_assert_uint_eq(figures().late_errors,
				  (uint64_t)(bad * (n + 1)));
	}
}
END_TEST

START_TEST(module_is_unloaded_while_graphs_name_it)
{
	static char text[sizeof(chain_ptx) + 16];
	struct chain other;
	uint32_t from;

	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "%s// %d\n", chain_ptx, i);
		load(&one, &other, text);
		from = flood_until_graphs(&other, one.stream[0], true);
		stop(one.stream[0]);
		for (int n = 0; n < FLOOD; n++) {
			if (n == 1100)
				words[GO] = 1;
			step(&other, one.stream[0], from++);
		}
		rig_post(&one.c, API_mpsModuleUnload,
			 (void *[]){&other.module});
		for (int n = 0; n < 5; n++)
			step(&chain, one.stream[0], from++);
		sync_stream(one.stream[0]);
		ck_assert_uint_eq(words[COUNT], from);
	}
}
END_TEST

START_TEST(streams_have_graphs_of_their_own)
{
	uint64_t at = address(GO);

	flood_until_graphs(&chain, one.stream[0], true);
	flood_until_graphs(&chain, one.stream[1], true);
	flood_until_graphs(&chain, one.stream[2], true);
	/* A stream that stands still holds up none of the others. */
	words[GO] = 0;
	rig_launch(&one.c, one.spin, one.stream[0], 1, 1, &at, sizeof(at));
	for (int i = 0; i < 900; i++)
		step(&chain, one.stream[0], UINT32_MAX);
	for (int i = 0; i < 900; i++)
		step(&chain, one.stream[1], UINT32_MAX);
	sync_stream(one.stream[1]);
	words[GO] = 1;
	sync_stream(one.stream[0]);
}
END_TEST

START_TEST(client_ends_in_the_middle)
{
	static struct user two;
	uint32_t from = flood_until_graphs(&chain, one.stream[0], true);

	stop(one.stream[0]);
	for (int i = 0; i < FLOOD; i++) {
		if (i == 1100)
			words[GO] = 1;
		wide(&chain, one.stream[0], from++);
	}
	ck_assert_uint_eq(rig_client_end(&one.c), 0);
	user_start(&rig, &two, 2);
	ck_assert_int_eq(rig_call(&two.c, API_mpsStreamSync,
				  (void *[]){&two.stream[0]}),
			 0);
	ck_assert_uint_eq(figures().launches, 0);
}
END_TEST

START_TEST(fault_in_the_middle_is_its_client_s)
{
	uint32_t from = flood_until_graphs(&chain, one.stream[0], true);
	static struct user two;
	Mps__Control *m;

	user_start(&rig, &two, 2);
	ck_assert_int_eq(rig_call(&two.c, API_mpsFence, NULL), 0);
	stop(one.stream[0]);
	for (int i = 0; i < FLOOD; i++) {
		if (i == 900)
			words[GO] = 1;
		if (i == 800)
			rig_launch(&one.c, chain.wild, one.stream[0], 1, 1,
				   NULL, 0);
		step(&chain, one.stream[0], from++);
	}
	ck_assert(rig_is_dropped(&one.c));
	ck_assert_uint_eq(atomic_load(&one.c.channel.page->dead),
			  CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_uint_eq(atomic_load(&two.c.channel.page->dead), 0);
	ck_assert_uint_le(atomic_load(&two.c.channel.page->kept),
			  atomic_load(&two.c.channel.page->done));
	ck_assert_uint_gt(atomic_load(&one.c.channel.page->kept),
			  atomic_load(&one.c.channel.page->done));
	ck_assert_int_eq(sock_recv_control(rig.control, &m, NULL, NULL, 5000),
			 0);
	ck_assert_int_eq(m->body_case, MPS__CONTROL__BODY_WORKER_FAULT);
	ck_assert_uint_eq(m->worker_fault->client, one.c.id);
	mps__control__free_unpacked(m, NULL);
}
END_TEST

START_TEST(without_the_shortcut_each_goes_alone)
{
	uint32_t from = 0;

	for (int i = 0; i < 20; i++)
		flood(&chain, one.stream[0], true, &from);
	ck_assert_uint_eq(figures().launches, from + from / FLOOD);
	ck_assert_uint_eq(figures().graph_launches, 0);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		launches_that_wait_go_in_graphs,
		functions_and_parameters_change_in_graphs,
		launches_of_the_default_stream_go_in_graphs,
		bad_launch_among_many_fails_alone,
		module_is_unloaded_while_graphs_name_it,
		streams_have_graphs_of_their_own,
		client_ends_in_the_middle,
		fault_in_the_middle_is_its_client_s,
	};
	const TTest *const plain[] = {
		without_the_shortcut_each_goes_alone,
	};

	if (!rig_is_possible()) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	return suite_run("worker_batch", tests,
			 sizeof(tests) / sizeof(tests[0]), setup, teardown) |
	       suite_run("worker_batch switched off", plain,
			 sizeof(plain) / sizeof(plain[0]), setup_plain,
			 teardown);
}
