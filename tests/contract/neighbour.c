/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/contract/neighbour.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
	SETTLE_MS = 10,   /* the neighbour's kernel is running by then */
	LAUNCH_EVERY_US = 200,
	/* Launches that show that they go on: the first few may have been on
	 * their way in when the call began. */
	FLOW = 20,
	PART_MS = 400,
};

/* A launch held for this share of PART_MS was held: others take under 0.01.
 * An H200 held them for 0.29 in cuGreenCtxCreate. */
static const double held_share = 0.05;

enum stall { FLOWS, STALLS, PART };

struct watch {
	bool waits;             /* expected */
	enum stall stall;       /* likewise */
	_Atomic bool called, returned;
	bool waited, as_expected;
};

CUstream neighbour_own_stream;
static CUstream kernel_stream, third_stream;
static _Atomic unsigned launches;
/* Longest launch since it was put to 0. */
static _Atomic double longest_ms;

static void *
third_thread(void *arg)
{
	(void)arg;
	OK(drv.cuCtxSetCurrent(drv.ctx));
	for (;;) {
		double took = test_ms();

		drv_empty(third_stream);
		took = test_ms() - took;
		if (took > atomic_load(&longest_ms))
			atomic_store(&longest_ms, took);
		atomic_fetch_add(&launches, 1);
		test_sleep_ms(LAUNCH_EVERY_US / 1e3);
	}
	return NULL;
}

void
neighbour_start(void)
{
	pthread_t thread;

	drv_start();
	OK(drv.cuStreamCreate(&neighbour_own_stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&kernel_stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&third_stream, CU_STREAM_NON_BLOCKING));
	/* First uses load code, which must not happen inside a measurement. */
	held_start(kernel_stream);
	held_end();
	drv_empty(third_stream);
	drv_empty(neighbour_own_stream);
	OK(drv.cuCtxSynchronize());
	if (pthread_create(&thread, NULL, third_thread, NULL))
		test_fail("no thread");
	while (atomic_load(&launches) < FLOW)
		test_sleep_ms(1);
}

static bool
returns_within(struct watch *w, double ms)
{
	double begin = test_ms();

	while (!atomic_load(&w->returned) && test_ms() - begin < ms)
		test_sleep_ms(1);
	return atomic_load(&w->returned);
}

/* No launch for a while. */
static bool
come_to_stall(void)
{
	double begin = test_ms(), moved = begin;
	unsigned seen = atomic_load(&launches);

	while (test_ms() - begin < HELD_PATIENCE_MS) {
		if (test_ms() - moved > HELD_WHILE_MS)
			return true;
		test_sleep_ms(5);
		if (atomic_load(&launches) == seen)
			continue;
		seen = atomic_load(&launches);
		moved = test_ms();
	}
	return false;
}

static bool
go_on(void)
{
	unsigned wanted = atomic_load(&launches) + FLOW;
	double begin = test_ms();

	while (atomic_load(&launches) < wanted &&
	       test_ms() - begin < HELD_PATIENCE_MS)
		test_sleep_ms(1);
	return atomic_load(&launches) >= wanted;
}

/* The launch that is held when the kernel is let go returns just then. */
static bool
are_held_for_a_part(void)
{
	test_sleep_ms(PART_MS);
	held_end();
	go_on();
	return atomic_load(&longest_ms) >= held_share * PART_MS;
}

/* Looks on, then lets the kernel go. */
static void *
watcher(void *arg)
{
	struct watch *w = arg;

	while (!atomic_load(&w->called))
		test_sleep_ms(1);
	w->waited = !returns_within(w, w->waits ? HELD_WHILE_MS :
						  HELD_PATIENCE_MS);
	switch (w->stall) {
	case FLOWS:
		w->as_expected = go_on();
		break;
	case STALLS:
		w->as_expected = come_to_stall();
		break;
	case PART:
		w->as_expected = are_held_for_a_part();
		break;
	}
	held_end();
	return NULL;
}

static void
measure(const char *what, held_call call, void *arg, struct watch *w)
{
	pthread_t thread;
	double begin;
	CUresult rc;

	held_start(kernel_stream);
	test_sleep_ms(SETTLE_MS);
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(kernel_stream));
	if (pthread_create(&thread, NULL, watcher, w))
		test_fail("no thread");
	atomic_store(&longest_ms, 0);
	begin = test_ms();
	atomic_store(&w->called, true);
	rc = call(arg);
	begin = test_ms() - begin;
	atomic_store(&w->returned, true);
	pthread_join(thread, NULL);
	OK(drv.cuStreamSynchronize(kernel_stream));
	printf("%s: took %.2f ms, others' longest launch %.2f ms\n", what,
	       begin, atomic_load(&longest_ms));
	if (rc)
		test_note("%s gave %d", what, (int)rc);
	if (w->waited != w->waits)
		test_note("%s %s", what, w->waited ?
			  "waited for the neighbour's kernel" :
			  "did not wait for the neighbour's kernel");
	if (!w->as_expected)
		test_note("%s: others' launches %s", what,
			  w->stall == FLOWS ? "were held" : "went on");
}

void
neighbour_expect(const char *what, held_call call, void *arg, bool waits,
		 bool stalls)
{
	struct watch w = { .waits = waits, .stall = stalls ? STALLS : FLOWS };

	measure(what, call, arg, &w);
}

void
neighbour_expect_part(const char *what, held_call call, void *arg)
{
	struct watch w = { .waits = true, .stall = PART };

	measure(what, call, arg, &w);
}
