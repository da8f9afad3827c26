/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clock, percentiles and output of what is measured.
 * For the programs of tests/bench only.
 */
#ifndef TESTS_BENCH_MEASURE_H
#define TESTS_BENCH_MEASURE_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
	BENCH_REPEATS_MAX = 32,
	/*
	 * Operations given to a stream before it is waited for: a stream of
	 * the driver takes 1,022 and then blocks its caller.
	 */
	BENCH_BATCH = 256,
};

/* One figure: a value from each repetition. */
struct bench_series {
	const char *figure, *unit;
	double values[BENCH_REPEATS_MAX];
	int count;
};

/* Both set by main, from its options. */
extern int bench_repeats;
extern int bench_divisor;

void bench_add(struct bench_series *series, double value);
/* One line on stdout, for report.py: figure, unit, values. */
void bench_print(const struct bench_series *series);

/* `full` rounds, or fewer for a test or a slow device; never under 2. */
int bench_rounds(int full);
/* Sorts `ns`. */
double bench_percentile(uint32_t *ns, size_t count, double percent);
/* What two readings of the clock in a row are apart, in ns. */
uint32_t bench_clock_cost(void);

void bench_fail(const char *what, int status) __attribute__((noreturn));
/* Ends the program, with the call's name, unless it succeeded. */
void bench_ok(CUresult r, const char *what);
#define OK(call) bench_ok((call), #call)

/* A context is current afterwards; returns a module of kernels.h. */
CUmodule bench_open(void);

static inline uint64_t
bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
