/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/measure.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/kernels.h"

int bench_repeats = 5;
int bench_divisor = 1;

void
bench_add(struct bench_series *series, double value)
{
	if (series->count == BENCH_REPEATS_MAX)
		bench_fail("more values than a series holds", 0);
	series->values[series->count++] = value;
}

void
bench_print(const struct bench_series *series)
{
	printf("%s\t%s\t", series->figure, series->unit);
	for (int i = 0; i < series->count; i++)
		printf("%s%.6g", i ? " " : "", series->values[i]);
	printf("\n");
	fflush(stdout);
}

int
bench_rounds(int full)
{
	int n = full / bench_divisor;

	return n > 2 ? n : 2;
}

static int
compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double
bench_percentile(uint32_t *ns, size_t count, double percent)
{
	size_t at = (size_t)((double)count * percent / 100);

	qsort(ns, count, sizeof(*ns), compare);
	return ns[at < count ? at : count - 1];
}

uint32_t
bench_clock_cost(void)
{
	uint32_t ns[1000];
	uint64_t last = bench_now();

	for (size_t i = 0; i < 1000; i++) {
		uint64_t now = bench_now();

		ns[i] = (uint32_t)(now - last);
		last = now;
	}
	return (uint32_t)bench_percentile(ns, 1000, 50);
}

void
bench_fail(const char *what, int status)
{
	fprintf(stderr, "%s: %d\n", what, status);
	exit(1);
}

void
bench_ok(CUresult r, const char *what)
{
	if (r != CUDA_SUCCESS)
		bench_fail(what, (int)r);
}

CUmodule
bench_open(void)
{
	CUmodule module;
	CUcontext context;
	CUdevice device;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, bench_ptx));
	return module;
}
