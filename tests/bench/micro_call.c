/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that move no bulk data. A call that costs little is timed by the
 * thousand, since reading the clock would cost more than it; one whose worst
 * cases matter is timed alone, less the clock.
 */
#include "tests/bench/micro.h"

#include <stdlib.h>

#include "tests/bench/kernels.h"
#include "tests/bench/measure.h"

static struct bench_params params;

/* ---- posted calls ---------------------------------------------------------*/

static CUresult
launch(CUfunction f)
{
	return cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, micro.stream,
			      params.argv, NULL);
}

static CUresult
launch_4(void)
{
	return launch(micro.with4);
}

static CUresult
launch_20(void)
{
	return launch(micro.with20);
}

static CUresult
record(void)
{
	return cuEventRecord(micro.event, micro.stream);
}

/* The stream is drained, untimed, before it could be full. */
static void
sample_posted(CUresult (*call)(void), uint32_t *ns, int rounds)
{
	uint32_t clock = bench_clock_cost();
	int done = 0;

	while (done < rounds) {
		int end = done + BENCH_BATCH;
		uint64_t last = bench_now();

		for (; done < rounds && done < end; done++) {
			uint64_t now;

			OK(call());
			now = bench_now();
			ns[done] = (uint32_t)(now - last);
			ns[done] -= ns[done] < clock ? ns[done] : clock;
			last = now;
		}
		OK(cuStreamSynchronize(micro.stream));
	}
}

static void
posted(CUresult (*call)(void), int full, const char *p50, const char *p99)
{
	struct bench_series middle = { p50, "us", { 0 }, 0 };
	struct bench_series worst = { p99, "us", { 0 }, 0 };
	int rounds = bench_rounds(full);
	uint32_t *ns = calloc((size_t)rounds, sizeof(*ns));

	if (!ns)
		bench_fail("out of memory", rounds);
	/* The first ones bind symbols and take pages, ours among them. */
	sample_posted(call, ns, rounds < 1000 ? rounds : 1000);
	for (int i = 0; i < bench_repeats; i++) {
		size_t n = (size_t)rounds;

		sample_posted(call, ns, rounds);
		bench_add(&middle, bench_percentile(ns, n, 50) / 1e3);
		bench_add(&worst, bench_percentile(ns, n, 99) / 1e3);
	}
	free(ns);
	bench_print(&middle);
	bench_print(&worst);
}

void
micro_launch(void)
{
	bench_params_init(&params);
	/* With the default of five repetitions a million calls. */
	posted(launch_4, 200000, "launch_4_p50", "launch_4_p99");
	posted(launch_20, 50000, "launch_20_p50", "launch_20_p99");
}

/* ---- calls by the thousand ------------------------------------------------*/

static CUresult
get_device(void)
{
	CUdevice device;

	return cuCtxGetDevice(&device);
}

static CUresult
get_current(void)
{
	CUcontext context;

	return cuCtxGetCurrent(&context);
}

static CUresult
attribute(void)
{
	int value;

	return cuDeviceGetAttribute(&value,
			CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
			micro.device);
}

static CUresult
proc_address(void)
{
	void *address;

	return cuGetProcAddress("cuLaunchKernel", &address, 12000, 0, NULL);
}

static CUresult
query(void)
{
	return cuEventQuery(micro.event);
}

static CUresult
synchronize_event(void)
{
	return cuEventSynchronize(micro.event);
}

static CUresult
synchronize_idle(void)
{
	return cuStreamSynchronize(micro.stream);
}

static void
mean(CUresult (*call)(void), int full, const char *figure)
{
	struct bench_series series = { figure, "us", { 0 }, 0 };
	int rounds = bench_rounds(full);

	OK(call());
	for (int i = 0; i < bench_repeats; i++) {
		uint64_t start = bench_now();

		for (int j = 0; j < rounds; j++)
			OK(call());
		bench_add(&series, (double)(bench_now() - start) / 1e3 /
			  rounds);
	}
	bench_print(&series);
}

void
micro_local(void)
{
	mean(get_device, 100000, "get_device");
	mean(get_current, 100000, "get_current");
	mean(attribute, 100000, "attribute");
	mean(proc_address, 100000, "proc_address");
}

/* ---- calls that wait ------------------------------------------------------*/

static CUresult
launch_and_wait(void)
{
	CUresult r = launch(micro.with4);

	return r ? r : cuStreamSynchronize(micro.stream);
}

static CUresult
launch_and_wait_for_event(void)
{
	CUresult r = launch(micro.with4);

	if (!r)
		r = cuEventRecord(micro.event, micro.stream);
	return r ? r : cuEventSynchronize(micro.event);
}

static CUresult
alloc_and_free(void)
{
	CUdeviceptr at;
	CUresult r = cuMemAlloc(&at, 1u << 20);

	return r ? r : cuMemFree(at);
}

static void
middle(CUresult (*call)(void), int full, const char *figure)
{
	struct bench_series series = { figure, "us", { 0 }, 0 };
	int rounds = bench_rounds(full);
	uint32_t *ns = calloc((size_t)rounds, sizeof(*ns));

	if (!ns)
		bench_fail("out of memory", rounds);
	for (int j = 0; j < rounds && j < 100; j++)
		OK(call());
	for (int i = 0; i < bench_repeats; i++) {
		for (int j = 0; j < rounds; j++) {
			uint64_t start = bench_now();

			OK(call());
			ns[j] = (uint32_t)(bench_now() - start);
		}
		bench_add(&series, bench_percentile(ns, (size_t)rounds, 50) /
			  1e3);
	}
	free(ns);
	bench_print(&series);
}

void
micro_wait(void)
{
	bench_params_init(&params);
	middle(launch_and_wait, 4000, "launch_sync");
	middle(launch_and_wait_for_event, 4000, "launch_event_sync");
	mean(synchronize_idle, 5000, "sync_idle");
}

void
micro_event(void)
{
	posted(record, 20000, "event_record_p50", "event_record_p99");
	OK(cuEventSynchronize(micro.event));
	mean(query, 5000, "event_query");
	mean(synchronize_event, 5000, "event_sync");
}

void
micro_alloc(void)
{
	middle(alloc_and_free, 500, "alloc_free");
}
