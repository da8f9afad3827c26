/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one call costs its caller. A plain CUDA program: the same binary runs
 * natively, under NVIDIA MPS and under mpsrun.
 *
 *	micro [-r REPEATS] [-s DIVISOR] [-m MIB] [GROUP...]
 *
 * Every figure is a line: its name, its unit, a value from each repetition.
 * DIVISOR makes for fewer rounds, MIB is the largest copy.
 */
#include "tests/bench/micro.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/measure.h"

struct micro micro;

static const struct {
	const char *name;
	void (*run)(void);
} groups[] = {
	{ "launch", micro_launch }, { "local", micro_local },
	{ "wait", micro_wait }, { "event", micro_event },
	{ "alloc", micro_alloc }, { "copy", micro_copy },
	{ "load", micro_load },
};
enum { GROUPS = sizeof(groups) / sizeof(groups[0]) };

static void
prepare(void)
{
	micro.module = bench_open();
	OK(cuCtxGetDevice(&micro.device));
	OK(cuModuleGetFunction(&micro.empty, micro.module, "empty"));
	OK(cuModuleGetFunction(&micro.with4, micro.module, "with4"));
	OK(cuModuleGetFunction(&micro.with20, micro.module, "with20"));
	OK(cuStreamCreate(&micro.stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&micro.event, CU_EVENT_DISABLE_TIMING));
}

static void
run(const char *name)
{
	int found = 0;

	for (int i = 0; i < GROUPS; i++) {
		if (name && strcmp(name, groups[i].name) != 0)
			continue;
		groups[i].run();
		OK(cuCtxSynchronize());
		found = 1;
	}
	if (!found)
		bench_fail(name, 0);
}

int
main(int argc, char **argv)
{
	int c;

	micro.largest_copy = 256u << 20;
	while ((c = getopt(argc, argv, "r:s:m:")) != -1) {
		switch (c) {
		case 'r': bench_repeats = atoi(optarg); break;
		case 's': bench_divisor = atoi(optarg); break;
		case 'm':
			micro.largest_copy = strtoul(optarg, NULL, 0) << 20;
			break;
		default: return 2;
		}
	}
	if (bench_repeats < 1 || bench_repeats > BENCH_REPEATS_MAX ||
	    bench_divisor < 1)
		return 2;
	prepare();
	if (optind == argc)
		run(NULL);
	for (; optind < argc; optind++)
		run(argv[optind]);
	return 0;
}
