/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What N processes get done together: each starts, waits for the others, and
 * launches from one moment to another. A plain CUDA program, started once:
 * the processes are its children and share nothing but the stopwatch.
 *
 *	clients [-r REPEATS] [-t MS] N KIND...
 *
 * empty: kernels that do nothing; spin: 8 blocks for 15 us; step: 50 small
 * kernels, then four bytes of their result, over and over. Prints the
 * kernels (for step: steps) a second of all together, from each repetition,
 * and for step what one took.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/kernels.h"
#include "tests/bench/measure.h"

enum {
	CLIENTS_MAX = 128,
	/* Launched between two readings of the clock. */
	BURST = 64,
	STEP_KERNELS = 50,
	SPIN_NS = 15000,
	SAMPLES_MAX = 1 << 17,
	/* All see the start before it comes. */
	AHEAD_NS = 20000000,
};

enum kind { EMPTY, SPIN, STEP, KINDS };
static const char *const kind_names[KINDS] = { "empty", "spin", "step" };

struct result {
	double rate, p50, p99;
};

/* Written by the parent before `round` grows (release; children acquire). */
struct stopwatch {
	uint64_t start, end;
	enum kind kind;
	atomic_int round;
	/* Children that are ready for the next round. Each child's release
	 * makes its result visible to the parent's acquire. */
	atomic_int ready;
	struct result results[CLIENTS_MAX];
};

static struct stopwatch *watch;
static int clients;

/* ---- one client -----------------------------------------------------------*/

struct client {
	CUfunction functions[KINDS];
	CUstream stream;
	CUdeviceptr word;
	uint32_t expected;
	uint32_t *samples;
};

static void
launch(struct client *c, enum kind kind)
{
	unsigned long long ns = SPIN_NS, at = c->word;
	unsigned one = 1;
	void *spin[] = { &ns }, *step[] = { &at, &one };
	void **argv[KINDS] = { NULL, spin, step };

	OK(cuLaunchKernel(c->functions[kind], 8, 1, 1, 128, 1, 1, 0, c->stream,
			  argv[kind], NULL));
}

static void
step(struct client *c)
{
	uint32_t word;

	for (int i = 0; i < STEP_KERNELS; i++)
		launch(c, STEP);
	OK(cuMemcpyDtoHAsync(&word, c->word, sizeof(word), c->stream));
	OK(cuStreamSynchronize(c->stream));
	c->expected += STEP_KERNELS;
	if (word != c->expected)
		bench_fail("a step has a wrong result", (int)word);
}

static void
take_steps(struct client *c, struct result *result)
{
	uint64_t now = bench_now();
	size_t n = 0;

	do {
		uint64_t begun = now;

		step(c);
		now = bench_now();
		c->samples[n++] = (uint32_t)(now - begun);
	} while (now < watch->end && n < SAMPLES_MAX);
	result->rate = (double)n * 1e9 / (double)(now - watch->start);
	result->p50 = bench_percentile(c->samples, n, 50) / 1e6;
	result->p99 = bench_percentile(c->samples, n, 99) / 1e6;
}

static void
take_kernels(struct client *c, struct result *result)
{
	uint64_t n = 0;

	do {
		for (int i = 0; i < BURST; i++)
			launch(c, watch->kind);
		n += BURST;
	} while (bench_now() < watch->end);
	OK(cuStreamSynchronize(c->stream));
	result->rate = (double)n * 1e9 / (double)(bench_now() - watch->start);
}

static void
prepare(struct client *c)
{
	static const char *const names[KINDS] = { "empty", "spin", "add" };
	CUmodule module = bench_open();

	for (int i = 0; i < KINDS; i++)
		OK(cuModuleGetFunction(&c->functions[i], module, names[i]));
	OK(cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&c->word, sizeof(uint32_t)));
	OK(cuMemsetD32(c->word, 0, 1));
	/* On the default stream, which `stream` does not wait for. */
	OK(cuStreamSynchronize(NULL));
	c->samples = calloc(SAMPLES_MAX, sizeof(*c->samples));
	if (!c->samples)
		bench_fail("out of memory", 0);
	launch(c, EMPTY);
	launch(c, SPIN);
	step(c);
}

static void
be_client(int index)
{
	struct client c = { .expected = 0 };
	int round = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prepare(&c);
	for (;;) {
		atomic_fetch_add_explicit(&watch->ready, 1,
					  memory_order_release);
		while (atomic_load_explicit(&watch->round,
					    memory_order_acquire) == round)
			usleep(1000);
		round++;
		if (watch->kind == KINDS)
			exit(0);
		while (bench_now() < watch->start)
			;
		if (watch->kind == STEP)
			take_steps(&c, &watch->results[index]);
		else
			take_kernels(&c, &watch->results[index]);
	}
}

/* ---- all of them ----------------------------------------------------------*/

static void
wait_for_all(void)
{
	while (atomic_load_explicit(&watch->ready, memory_order_acquire) <
	       clients) {
		int status;

		if (waitpid(-1, &status, WNOHANG) > 0)
			bench_fail("a client has ended", status);
		usleep(500);
	}
}

static void
start_round(enum kind kind, int ms)
{
	atomic_store_explicit(&watch->ready, 0, memory_order_relaxed);
	watch->kind = kind;
	watch->start = bench_now() + AHEAD_NS;
	watch->end = watch->start + (uint64_t)ms * 1000000;
	atomic_fetch_add_explicit(&watch->round, 1, memory_order_release);
}

static struct result
together(void)
{
	struct result all = { 0, 0, 0 };

	for (int i = 0; i < clients; i++) {
		const struct result *one = &watch->results[i];

		all.rate += one->rate;
		all.p50 += one->p50 / clients;
		if (one->p99 > all.p99)
			all.p99 = one->p99;
	}
	return all;
}

static void
measure(enum kind kind, int ms)
{
	char names[3][32];
	struct bench_series rate = { names[0], "/s", { 0 }, 0 };
	struct bench_series p50 = { names[1], "ms", { 0 }, 0 };
	struct bench_series p99 = { names[2], "ms", { 0 }, 0 };

	snprintf(names[0], sizeof(names[0]), "%s_rate", kind_names[kind]);
	snprintf(names[1], sizeof(names[1]), "%s_p50", kind_names[kind]);
	snprintf(names[2], sizeof(names[2]), "%s_p99", kind_names[kind]);
	for (int i = 0; i < bench_repeats; i++) {
		struct result all;

		start_round(kind, ms);
		wait_for_all();
		all = together();
		bench_add(&rate, all.rate);
		bench_add(&p50, all.p50);
		bench_add(&p99, all.p99);
	}
	bench_print(&rate);
	if (kind != STEP)
		return;
	bench_print(&p50);
	bench_print(&p99);
}

static enum kind
parse_kind(const char *name)
{
	for (int i = 0; i < KINDS; i++)
		if (!strcmp(name, kind_names[i]))
			return (enum kind)i;
	bench_fail(name, 0);
}

int
main(int argc, char **argv)
{
	int c, ms = 300;

	while ((c = getopt(argc, argv, "r:t:")) != -1) {
		switch (c) {
		case 'r': bench_repeats = atoi(optarg); break;
		case 't': ms = atoi(optarg); break;
		default: return 2;
		}
	}
	clients = optind < argc ? atoi(argv[optind++]) : 0;
	if (clients < 1 || clients > CLIENTS_MAX || ms < 1 ||
	    bench_repeats < 1 || bench_repeats > BENCH_REPEATS_MAX)
		return 2;
	watch = mmap(NULL, sizeof(*watch), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (watch == MAP_FAILED)
		bench_fail("no shared memory", 0);
	for (int i = 0; i < clients; i++) {
		pid_t pid = fork();

		if (pid < 0)
			bench_fail("fork", pid);
		if (!pid)
			be_client(i);
	}
	wait_for_all();
	for (; optind < argc; optind++)
		measure(parse_kind(argv[optind]), ms);
	start_round(KINDS, 0);
	while (wait(NULL) > 0)
		;
	return 0;
}
