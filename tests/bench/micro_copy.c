/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between host and device, both ways, of pageable and of pinned
 * memory, each until its data has arrived. Small ones by their time, large
 * ones by their rate. What has been copied there and back is compared.
 */
#include "tests/bench/micro.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure.h"

static const struct {
	size_t size;
	const char *name;
	int rounds;
} sizes[] = {
	{ 4, "4B", 2000 }, { 64u << 10, "64KiB", 500 },
	{ 1u << 20, "1MiB", 100 }, { 256u << 20, "256MiB", 2 },
	{ 1u << 30, "1GiB", 1 },
};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), RATE_FROM = 1 << 20 };

struct copy {
	CUdeviceptr device;
	unsigned char *host;
	size_t size;
	int pinned;
};

static CUresult
copy_in(const struct copy *c)
{
	CUresult r = c->pinned ?
		cuMemcpyHtoDAsync(c->device, c->host, c->size, micro.stream) :
		cuMemcpyHtoD(c->device, c->host, c->size);

	/* The call returns once the source may be changed. */
	return r ? r : cuStreamSynchronize(c->pinned ? micro.stream : NULL);
}

static CUresult
copy_out(const struct copy *c)
{
	CUresult r;

	if (!c->pinned)
		return cuMemcpyDtoH(c->host, c->device, c->size);
	r = cuMemcpyDtoHAsync(c->host, c->device, c->size, micro.stream);
	return r ? r : cuStreamSynchronize(micro.stream);
}

static void
check(const struct copy *c)
{
	/* A period that divides no size, so that shifted data shows. */
	for (size_t i = 0; i < c->size; i++)
		c->host[i] = (unsigned char)(i % 251 + 1);
	OK(copy_in(c));
	memset(c->host, 0, c->size);
	OK(copy_out(c));
	for (size_t i = 0; i < c->size; i++)
		if (c->host[i] != (unsigned char)(i % 251 + 1))
			bench_fail("a copy brought wrong data", (int)i);
}

static void
measure(const struct copy *c, CUresult (*copy)(const struct copy *), int full,
	const char *figure)
{
	int rounds = bench_rounds(full);
	int rate = c->size >= RATE_FROM;
	struct bench_series series = { figure, rate ? "GB/s" : "us", { 0 }, 0 };
	uint32_t ns[2000];

	for (int i = 0; i < bench_repeats; i++) {
		double middle;

		for (int j = 0; j < rounds; j++) {
			uint64_t start = bench_now();

			OK(copy(c));
			ns[j] = (uint32_t)(bench_now() - start);
		}
		middle = bench_percentile(ns, (size_t)rounds, 50);
		bench_add(&series, rate ? (double)c->size / middle :
			  middle / 1e3);
	}
	bench_print(&series);
}

static void
both_ways(struct copy *c, int i)
{
	const char *kind = c->pinned ? "pinned" : "pageable";
	char figure[64];

	c->size = sizes[i].size;
	check(c);
	snprintf(figure, sizeof(figure), "htod_%s_%s", kind, sizes[i].name);
	measure(c, copy_in, sizes[i].rounds, figure);
	snprintf(figure, sizeof(figure), "dtoh_%s_%s", kind, sizes[i].name);
	measure(c, copy_out, sizes[i].rounds, figure);
}

void
micro_copy(void)
{
	struct copy c = { .host = malloc(micro.largest_copy) };
	void *pageable = c.host;

	if (!pageable)
		bench_fail("out of memory", 0);
	OK(cuMemAlloc(&c.device, micro.largest_copy));
	for (int i = 0; i < SIZES; i++)
		if (sizes[i].size <= micro.largest_copy)
			both_ways(&c, i);
	free(pageable);
	OK(cuMemAllocHost((void **)&c.host, micro.largest_copy));
	c.pinned = 1;
	for (int i = 0; i < SIZES; i++)
		if (sizes[i].size <= micro.largest_copy)
			both_ways(&c, i);
	OK(cuMemFreeHost(c.host));
	OK(cuMemFree(c.device));
}
