/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From exec to the first result: how long a CUDA program takes to start. The
 * parent makes no CUDA call; the child is this program again, behind PREFIX.
 *
 *	start REPEATS [PREFIX...]
 *
 * start_first is of a child that finds the machine as it is; it stays while
 * REPEATS more come and go one by one, which are start_next.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/measure.h"

extern char **environ;

enum { ARGUMENTS_MAX = 64 };
#define CHILD "--child"

/* Says when it had its result, and stays until its stdin ends. */
static int
be_child(void)
{
	CUmodule module = bench_open();
	uint32_t word = 40, two = 2;
	CUfunction add;
	CUdeviceptr at;
	void *argv[] = { &at, &two };

	OK(cuModuleGetFunction(&add, module, "add"));
	OK(cuMemAlloc(&at, sizeof(word)));
	OK(cuMemcpyHtoD(at, &word, sizeof(word)));
	OK(cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, NULL, argv, NULL));
	OK(cuMemcpyDtoH(&word, at, sizeof(word)));
	if (word != 42)
		bench_fail("a wrong result", (int)word);
	printf("%llu\n", (unsigned long long)bench_now());
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}

struct child {
	pid_t pid;
	int input;
	double ms;
};

static struct child
start(char **argv)
{
	posix_spawn_file_actions_t actions;
	int input[2], output[2], r;
	struct child child;
	unsigned long long end;
	uint64_t begun;
	FILE *from;

	if (pipe2(input, O_CLOEXEC) < 0 || pipe2(output, O_CLOEXEC) < 0)
		bench_fail("pipe", -1);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, input[0], 0);
	posix_spawn_file_actions_adddup2(&actions, output[1], 1);
	begun = bench_now();
	r = posix_spawnp(&child.pid, argv[0], &actions, NULL, argv, environ);
	if (r)
		bench_fail(argv[0], r);
	close(input[0]);
	close(output[1]);
	from = fdopen(output[0], "r");
	if (!from || fscanf(from, "%llu", &end) != 1)
		bench_fail("a child gave no result", 0);
	fclose(from);
	posix_spawn_file_actions_destroy(&actions);
	child.input = input[1];
	child.ms = (double)(end - begun) / 1e6;
	return child;
}

static void
end(const struct child *child)
{
	int status;

	close(child->input);
	if (waitpid(child->pid, &status, 0) < 0 || status)
		bench_fail("a child failed", status);
}

int
main(int argc, char **argv)
{
	struct bench_series first = { "start_first", "ms", { 0 }, 0 };
	struct bench_series next = { "start_next", "ms", { 0 }, 0 };
	char self[4096], *args[ARGUMENTS_MAX + 3];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	struct child held;
	int count = 0;

	if (argc == 2 && !strcmp(argv[1], CHILD))
		return be_child();
	bench_repeats = argc > 1 ? atoi(argv[1]) : 0;
	if (n < 0 || argc > ARGUMENTS_MAX || bench_repeats < 0 ||
	    bench_repeats > BENCH_REPEATS_MAX)
		return 2;
	self[n] = 0;
	for (int i = 2; i < argc; i++)
		args[count++] = argv[i];
	args[count++] = self;
	args[count++] = (char *)CHILD;
	args[count] = NULL;
	held = start(args);
	bench_add(&first, held.ms);
	bench_print(&first);
	for (int i = 0; i < bench_repeats; i++) {
		struct child one = start(args);

		bench_add(&next, one.ms);
		end(&one);
	}
	if (bench_repeats)
		bench_print(&next);
	end(&held);
	return 0;
}
