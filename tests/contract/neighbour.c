/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/contract/neighbour.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
	SETTLE_MS = 10,   /* the neighbour's kernel is running by then */
	LAUNCH_EVERY_US = 200,
};

/* Shares of the kernel's remaining time. A call between them shows
 * nothing and is measured again, from the start, by hand. */
static const double waited = 0.7, not_waited = 0.4;
/* A launch held for this share was held: others take under 0.01. An H200
 * held them for 0.29 in cuGreenCtxCreate. */
static const double held = 0.05;

CUstream neighbour_own_stream;
static CUstream kernel_stream, third_stream;
/* Start of the launch the third thread is in, 0 between launches. */
static _Atomic double launch_started;
/* Longest launch since measure() put it to 0. */
static _Atomic double longest_ms;

static void
longest_update(double started)
{
	double took = test_ms() - started;

	if (took > atomic_load(&longest_ms))
		atomic_store(&longest_ms, took);
}

static void *
third_thread(void *arg)
{
	(void)arg;
	OK(drv.cuCtxSetCurrent(drv.ctx));
	for (;;) {
		double now = test_ms();

		atomic_store(&launch_started, now);
		drv_empty(third_stream);
		longest_update(now);
		atomic_store(&launch_started, 0);
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
	drv_spin(kernel_stream, 1);
	drv_empty(third_stream);
	drv_empty(neighbour_own_stream);
	OK(drv.cuCtxSynchronize());
	if (pthread_create(&thread, NULL, third_thread, NULL))
		test_fail("no thread");
	test_sleep_ms(20);
}

struct neighbour_result
neighbour_measure(neighbour_call call, void *arg)
{
	struct neighbour_result r;
	double start, begin, blocked;

	start = test_ms();
	drv_spin(kernel_stream, NEIGHBOUR_MS);
	test_sleep_ms(SETTLE_MS);
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(kernel_stream));
	atomic_store(&longest_ms, 0);
	begin = test_ms();
	r.rc = call(arg);
	r.call_ms = test_ms() - begin;
	/* A launch that was blocked for all of the call returns just now;
	 * one that is still blocked counts as well. */
	test_sleep_ms(5);
	blocked = atomic_load(&launch_started);
	if (blocked > 0)
		longest_update(blocked > begin ? blocked : begin);
	r.gap_ms = atomic_load(&longest_ms);
	r.left_ms = NEIGHBOUR_MS - (begin - start);
	OK(drv.cuStreamSynchronize(kernel_stream));
	return r;
}

static void
share_check(const char *what, const char *verb, double ms, double left_ms,
	    bool want)
{
	if (want ? ms < waited * left_ms : ms > not_waited * left_ms)
		test_note("%s: %s %.1f ms of the %.1f ms that the "
			  "neighbour's kernel had left; expected %s", what,
			  verb, ms, left_ms, want ? "most" : "little");
}

static struct neighbour_result
measure_printed(const char *what, neighbour_call call, void *arg)
{
	struct neighbour_result r = neighbour_measure(call, arg);

	printf("%s: took %.2f ms, others' longest launch %.2f ms, "
	       "kernel had %.0f ms left\n", what, r.call_ms, r.gap_ms,
	       r.left_ms);
	if (r.rc)
		test_note("%s gave %d", what, (int)r.rc);
	return r;
}

void
neighbour_expect(const char *what, neighbour_call call, void *arg, bool waits,
		 bool stalls)
{
	struct neighbour_result r = measure_printed(what, call, arg);

	share_check(what, "the call took", r.call_ms, r.left_ms, waits);
	share_check(what, "others' launches were held for", r.gap_ms,
		    r.left_ms, stalls);
}

void
neighbour_expect_part(const char *what, neighbour_call call, void *arg)
{
	struct neighbour_result r = measure_printed(what, call, arg);

	share_check(what, "the call took", r.call_ms, r.left_ms, true);
	if (r.gap_ms < held * r.left_ms)
		test_note("%s: others' launches were held for %.1f ms of the "
			  "%.1f ms that the neighbour's kernel had left; "
			  "expected some", what, r.gap_ms, r.left_ms);
}
