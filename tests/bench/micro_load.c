/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading code, from the call until a kernel of it has run: drivers put off
 * part of the work until then. Cold: text that no run has had before, so that
 * no cache of anybody's knows it. Warm: the same text again, the last load of
 * it undone.
 */
#include "tests/bench/micro.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/bench/kernels.h"
#include "tests/bench/measure.h"

static char text[sizeof(bench_ptx) + 128];

static void
new_text(void)
{
	static unsigned count;

	snprintf(text, sizeof(text), "%s.visible .global .u32 new_%d_%llu_%u;\n",
		 bench_ptx, (int)getpid(), (unsigned long long)bench_now(),
		 count++);
}

static double
load(void)
{
	uint64_t start = bench_now(), end;
	CUmodule module;
	CUfunction f;

	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&f, module, "empty"));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, micro.stream, NULL, NULL));
	OK(cuStreamSynchronize(micro.stream));
	end = bench_now();
	OK(cuModuleUnload(module));
	return (double)(end - start) / 1e6;
}

void
micro_load(void)
{
	struct bench_series cold = { "load_cold", "ms", { 0 }, 0 };
	struct bench_series warm = { "load_warm", "ms", { 0 }, 0 };
	int rounds = bench_rounds(10);

	for (int i = 0; i < bench_repeats; i++) {
		double sum = 0;

		new_text();
		bench_add(&cold, load());
		for (int j = 0; j < rounds; j++)
			sum += load();
		bench_add(&warm, sum / rounds);
	}
	bench_print(&cold);
	bench_print(&warm);
}
