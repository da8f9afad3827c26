/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load gate: code is loaded while nothing runs, and only whoever keeps
 * something running is held back for it. Kernels spin until the test lets them
 * go, so nothing here goes by a clock: what is let in too soon stands behind
 * them, and so does everybody else.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/suite.h"
#include "tests/unit/worker_user.h"

static struct rig rig;
/* Runs kernels for long; goes on meanwhile; loads. */
static struct user longer, third, loader;
/* Pinned, at rig.host_base: what kernels wait for, and what they count. */
static _Atomic uint32_t *words;
enum { GO, GO_LATER, COUNT, RUNNING };

static uint64_t
address(unsigned word)
{
	return rig.host_base + 4 * word;
}

static void
setup(void)
{
	void *map;

	rig_start(&rig, (const char *const[]){"MPSSHIM_LANES=2", NULL});
	ck_assert_uint_eq(rig.ready->worker_ready->status, 0);
	user_start(&rig, &longer, 1);
	user_start(&rig, &third, 2);
	user_start(&rig, &loader, 3);
	ck_assert_uint_eq(
		rig_host(&longer.c, 1, rig.host_base, 4096, &map), 0);
	words = map;
}

static void
teardown(void)
{
	munmap((void *)words, 4096);
	rig_stop(&rig);
}

static void
announce(struct user *u, uint64_t stream, unsigned go)
{
	uint64_t params[] = {address(go), address(RUNNING)};

	rig_launch(&u->c, u->announce, stream, 1, 1, params, sizeof(params));
}

static void
becomes(const _Atomic uint32_t *word, uint32_t value)
{
	for (int i = 0; i < 20000 && atomic_load(word) != value; i++)
		usleep(1000);
	ck_assert_uint_eq(atomic_load(word), value);
}

/* A kernel of the third, to its end. */
static void
goes_on(void)
{
	uint64_t at = address(COUNT);
	uint32_t before = words[COUNT];

	rig_launch(&third.c, third.bump, third.stream[0], 1, 1, &at,
		   sizeof(at));
	ck_assert_int_eq(rig_call(&third.c, API_mpsStreamSync,
				  (void *[]){&third.stream[0]}),
			 0);
	ck_assert_uint_eq(words[COUNT], before + 1);
}

/* A load of code that nobody else has. */
static char image[sizeof(user_ptx) + 16];
static uint64_t module, image_size = sizeof(image), hash_size = 32, none;
static uint32_t kind, cap = 256, kernels, *k = &kernels;
static char info[256], error[256];
static void *i = info, *e = error;
static const uint64_t *p = &module;
static const void *options;
static uint8_t hash[32];
static const void *h = hash;
static void *load[] = {&p, &h, &hash_size, &image_size, &kind, &options,
		       &none, &k, &i, &cap, &e, &cap};

/* Others do, for as long as they would have stood behind a drain. */
static void
all_go_on(void)
{
	for (int n = 0; n < 20; n++) {
		goes_on();
		usleep(10000);
	}
}

static void
begin_load(void)
{
	snprintf(image, sizeof(image), "%s// mine\n", user_ptx);
	ck_assert_uint_eq(rig_image(&rig, image, sizeof(image), hash), 0);
	module = rig_mint(&loader.c, HANDLE_MODULE);
	rig_call_begin(&loader.c, API_mpsModuleLoad, load);
}

/* The third goes on until what runs has been seen at the gate, and while the
 * other's next kernel is not begun. */
START_TEST(load_waits_for_one_kernel_and_not_for_the_next)
{
	announce(&longer, longer.stream[0], GO);
	becomes(&words[RUNNING], 1);
	begin_load();
	all_go_on();
	announce(&longer, longer.stream[1], GO_LATER);
	all_go_on();
	ck_assert_uint_eq(words[RUNNING], 1);
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&loader.c, API_mpsModuleLoad, load), 0);
	becomes(&words[RUNNING], 2);
	goes_on();
	words[GO_LATER] = 1;
	ck_assert_int_eq(rig_call(&longer.c, API_mpsFence, NULL), 0);
}
END_TEST

/* Its own kernel as well: others would wait for that one, too. */
START_TEST(load_waits_for_its_own_kernels)
{
	announce(&loader, loader.stream[0], GO);
	becomes(&words[RUNNING], 1);
	begin_load();
	all_go_on();
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&loader.c, API_mpsModuleLoad, load), 0);
}
END_TEST

/* A record that was held back at the gate is one like any other. */
START_TEST(held_record_is_behind_nothing_once_it_is_made)
{
	uint64_t event = rig_mint(&longer.c, HANDLE_EVENT);
	const uint64_t *made = &event;
	uint32_t flags = 0;

	rig_post(&longer.c, API_mpsEventCreate, (void *[]){&made, &flags});
	announce(&longer, longer.stream[0], GO);
	becomes(&words[RUNNING], 1);
	begin_load();
	usleep(200000);
	rig_post(&longer.c, API_mpsEventRecord,
		 (void *[]){&event, &longer.stream[1], &flags});
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&loader.c, API_mpsModuleLoad, load), 0);
	ck_assert_int_eq(rig_call(&longer.c, API_mpsFence, NULL), 0);
	ck_assert_int_eq(rig_call(&longer.c, API_mpsEventQuery,
				  (void *[]){&event}),
			 0);
}
END_TEST

/* What stood behind a host function and is held back at the gate then. */
START_TEST(work_behind_a_host_function_is_held_back_and_done)
{
	uint64_t ticket = 7, nothing = 0, *next = &ticket, at = address(COUNT);
	void *ask[] = {&nothing, &next}, *done[] = {&ticket, &next};
	uint64_t stream = longer.stream[1];

	announce(&longer, longer.stream[0], GO);
	becomes(&words[RUNNING], 1);
	rig_post(&longer.c, API_mpsHostFunc, (void *[]){&stream, &ticket});
	rig_launch(&longer.c, longer.bump, stream, 1, 1, &at, sizeof(at));
	ck_assert_int_eq(rig_call(&longer.c, API_mpsHostNext, ask), 0);
	ck_assert_uint_eq(ticket, 7);
	begin_load();
	usleep(200000);
	rig_call_begin(&longer.c, API_mpsHostNext, done);
	usleep(200000);
	ck_assert_uint_eq(words[COUNT], 0);
	words[GO] = 1;
	ck_assert_int_eq(rig_call_end(&loader.c, API_mpsModuleLoad, load), 0);
	becomes(&words[COUNT], 1);
}
END_TEST

/* A graph with a conditional node: its end waits for all kernels. */
static uint64_t
make_conditional(struct user *user)
{
	uint64_t graph = rig_mint(&user->c, HANDLE_EXEC), condition;
	uint64_t *given = &condition, edges = 0, flags = 0;
	uint32_t value = 0, one = 1, type = CU_GRAPH_COND_TYPE_IF;
	const uint64_t *made = &graph;

	rig_post(&user->c, API_mpsGraphBegin, (void *[]){&made});
	ck_assert_int_eq(rig_call(&user->c, API_mpsGraphCondition,
				  (void *[]){&graph, &value, &value, &given}),
			 0);
	rig_post(&user->c, API_mpsGraphBranch,
		 (void *[]){&graph, &condition, &type, &one});
	ck_assert_int_eq(rig_call(&user->c, API_mpsGraphInstantiate,
				  (void *[]){&graph, &one, &edges, &flags}),
			 0);
	return graph;
}

START_TEST(end_of_a_graph_with_conditions_stalls_nobody)
{
	uint64_t graph = make_conditional(&loader);

	announce(&longer, longer.stream[0], GO);
	becomes(&words[RUNNING], 1);
	rig_post(&loader.c, API_mpsGraphEnd, (void *[]){&graph});
	all_go_on();
	words[GO] = 1;
	ck_assert_int_eq(rig_call(&longer.c, API_mpsFence, NULL), 0);
	goes_on();
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		load_waits_for_one_kernel_and_not_for_the_next,
		load_waits_for_its_own_kernels,
		held_record_is_behind_nothing_once_it_is_made,
		work_behind_a_host_function_is_held_back_and_done,
		end_of_a_graph_with_conditions_stalls_nobody,
	};

	if (!rig_is_possible()) {
		printf("skipped: no mpsd-worker or libsoftcuda.so built\n");
		return 77;
	}
	return suite_run("worker_gate", tests,
			 sizeof(tests) / sizeof(tests[0]), setup, teardown);
}
