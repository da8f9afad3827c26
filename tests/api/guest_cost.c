/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a preloaded library costs a program that makes no use of it: medians
 * of many runs of /bin/true with and without, taken by turns, in processor
 * time, which is the same on a busy machine.
 *
 *     guest_cost LIBRARY [RUNS]
 *
 * Fails only beyond a bound far above what we promise (0.2 ms), since a busy
 * machine's caches are cold.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
	MAX_RUNS = 2000,
	BOUND_US = 1000,
};

static double
in_us(struct timeval t)
{
	return (double)t.tv_sec * 1e6 + (double)t.tv_usec;
}

/* Microseconds that /bin/true takes; exits on failure. */
static double
run_true(char **env)
{
	char *argv[] = {"/bin/true", NULL};
	struct rusage used;
	int status;
	pid_t pid;

	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, env) != 0 ||
	    wait4(pid, &status, 0, &used) != pid || status != 0) {
		printf("/bin/true did not run\n");
		exit(1);
	}
	return in_us(used.ru_utime) + in_us(used.ru_stime);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *times, int n)
{
	qsort(times, (size_t)n, sizeof(*times), compare);
	return times[n / 2];
}

int
main(int argc, char **argv)
{
	static double plain[MAX_RUNS], preloaded[MAX_RUNS];
	int runs = argc > 2 ? atoi(argv[2]) : 200;
	char preload[4096], *none[] = {NULL}, *with[] = {preload, NULL};
	double a, b;

	if (argc < 2 || runs < 1 || runs > MAX_RUNS)
		return 2;
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[1]);
	for (int i = 0; i < runs; i++) {
		plain[i] = run_true(none);
		preloaded[i] = run_true(with);
	}
	a = median(plain, runs);
	b = median(preloaded, runs);
	printf("processor time, median of %d runs: %.0f us, preloaded %.0f us: %+.0f us\n",
	       runs, a, b, b - a);
	return b - a > BOUND_US;
}
