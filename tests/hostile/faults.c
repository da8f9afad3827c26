/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers end, by a client's fault or by SIGKILL, and their other clients
 * (tests/hostile/puppet.c) go on with their data, or hear what they lost.
 *
 *     faults BIN PUPPET [ROUNDS]
 *
 * BIN has mpsrun and mpsctl. Runs on whatever driver MPSSHIM_DRIVER names.
 * One line a row; the last one is "N passed, N failed, N skipped". See
 * puppets.h for ROWS and ROW_S.
 */
#define _GNU_SOURCE
#include "tests/hostile/puppets.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- rows ---- */

/* Memory of every kind, streams, events, code and graphs are there after the
 * fault of another client, whoever called the driver meanwhile or not. */
static void
neighbours_go_on(unsigned rounds)
{
	double begin, worst = 0, sum = 0;
	char job[32];
	long descriptors = 0;

	make(0, 2);
	for (unsigned n = 0; n < rounds && !row_failed; n++) {
		/* One that had faulted twice would have a worker of its own. */
		snprintf(job, sizeof(job), "wild %u", n);
		setenv("MPSSHIM_JOB", job, 1);
		make(2, 3);
		unsetenv("MPSSHIM_JOB");
		/* One asks at once, the other only later. */
		tell(&puppets[2], "wild");
		begin = now_ms();
		nap(n % 5);
		expect(&puppets[0], "wait", "ok");
		begin = now_ms() - begin;
		if (!says(hear(&puppets[2]), "700"))
			complain("a wild write gives %s", puppets[2].said);
		expect(&puppets[2], "wait", "700");
		expect(&puppets[0], "check", "ok");
		expect(&puppets[1], "check", "ok");
		expect_error(&puppets[2], "a kernel of this program has "
			     "faulted");
		end(&puppets[2]);
		sum += begin;
		worst = begin > worst ? begin : worst;
		if (n == 0)
			descriptors = number(status(), "", "broker_descriptors");
	}
	expect_quiet(&puppets[0]);
	expect_quiet(&puppets[1]);
	nap(200);
	if (number(status(), "", "broker_descriptors") > descriptors)
		complain("%ld descriptors, then %ld", descriptors,
			 number(status(), "", "broker_descriptors"));
	if (number(status(), "", "moved") < (long)rounds * 2)
		complain("%ld moves", number(status(), "", "moved"));
	expect_log("CUDA_ERROR_ILLEGAL_ADDRESS (700), by client");
	printf("        from the fault to a neighbour's next answer: %.0f ms, "
	       "at most %.0f\n", sum / rounds, worst);
}

static void
who_was_busy_hears_so(unsigned rounds)
{
	(void)rounds;
	make(0, 3);
	expect(&puppets[1], "hold", "ok");
	/* Two had kernels on the device: nobody knows whose it was. */
	if (!says(ask(&puppets[2], "wild"), "719"))
		complain("one of two gets %s", puppets[2].said);
	expect(&puppets[1], "wait", "719");
	expect(&puppets[1], "check", "719");
	expect(&puppets[0], "check", "ok");
	expect_error(&puppets[1], "it had work on the device");
	expect_quiet(&puppets[0]);
	expect_log("one of clients");
}

/* Whoever may have asserted has CUDA's text before the code, and once. */
static void
text_of_an_assertion_is_given(unsigned rounds)
{
	static const char said[] =
		"a.cu:9: f: block: [0,0,0], thread: [0,0,0] Assertion `n > 5` "
		"failed.\n"
		"a.cu:9: f: block: [0,0,0], thread: [1,0,0] Assertion `n > 5` "
		"failed.\n";
	const char *text;

	(void)rounds;
	make(0, 4);
	expect(&puppets[3], "arm", "ok");
	expect(&puppets[3], "assert", "710");
	expect(&puppets[2], "check", "ok");
	expect(&puppets[2], "arm", "ok");
	expect(&puppets[1], "hold", "ok");
	expect(&puppets[2], "assert", "719");
	expect(&puppets[1], "wait", "719");
	for (int i = 1; i < 4; i++) {
		expect(&puppets[i], "check", i == 3 ? "710" : "719");
		text = read_file(puppets[i].errors);
		if (!says(text, said) || strstr(text + 1, said))
			complain("puppet %d wrote: %s", i, text);
	}
	expect(&puppets[0], "check", "ok");
	expect_quiet(&puppets[0]);
}

/* The call is not made again in the next worker, whatever others ask there.
 * Only the software device dies when it is told to. */
static void
deadly_call_costs_its_caller(unsigned rounds)
{
	const char *driver = getenv("MPSSHIM_DRIVER");

	if (!driver || strcmp(driver, "soft") != 0) {
		row_skipped = true;
		return;
	}
	setenv("SOFTCUDA_FAULT", "load:deadly", 1);
	make(0, 2);
	for (unsigned n = 0; n < rounds; n++) {
		make(2, 3);
		expect(&puppets[2], "deadly", "719");
		expect(&puppets[2], "wait", "719");
		expect_error(&puppets[2], "the driver died in a call of this "
			     "program");
		expect(&puppets[0], "check", "ok");
		end(&puppets[2]);
	}
	expect(&puppets[1], "check", "ok");
	expect_quiet(&puppets[0]);
	expect_quiet(&puppets[1]);
	expect_log("signal 11 in mpsModuleLoad of client");
	/* What a core is found by, and what it is about. */
	expect_log("/puppet: device 0: signal 11 in mpsModuleLoad of client");
	expect_log("), code ");
	expect_log("ended: signal 11 (process ");
	unsetenv("SOFTCUDA_FAULT");
}

/* Local memory for a kernel is found when it is loaded: at its launch the
 * driver would stop everybody, for as long as another one runs. */
static void
deep_kernel_stops_nobody(unsigned rounds)
{
	(void)rounds;
	make(0, 3);
	expect(&puppets[2], "dig", "ok");
	expect(&puppets[1], "hold", "ok");
	expect(&puppets[2], "deep", "ok");
	expect(&puppets[0], "kernels 100", "ok");
	expect(&puppets[1], "free", "ok");
	expect(&puppets[1], "wait", "ok");
}

static void
reset_is_as_natively(unsigned rounds)
{
	(void)rounds;
	make(0, 2);
	expect(&puppets[1], "wild", "700");
	/* It says yes, and the process has no context again (measured). */
	if (!says(ask(&puppets[1], "reset"), "reset 0, use 7"))
		complain("%s", puppets[1].said);
	expect(&puppets[0], "check", "ok");
}

static void
killed_worker_costs_only_the_busy(unsigned rounds)
{
	(void)rounds;
	make(0, 3);
	expect(&puppets[1], "hold", "ok");
	kill_worker();
	expect(&puppets[0], "check", "ok");
	expect(&puppets[1], "wait", "719");
	expect(&puppets[2], "check", "ok");
	expect_error(&puppets[1], "when the worker ended");
	/* Once more, and nobody is busy. */
	kill_worker();
	expect(&puppets[2], "check", "ok");
	expect(&puppets[0], "check", "ok");
	expect_quiet(&puppets[0]);
	expect_quiet(&puppets[2]);
}

/* At random moments; copies from the host and fills are done again, and
 * whatever else is lost says so. */
static void
killed_at_any_moment(unsigned rounds)
{
	unsigned lost = 0;

	for (unsigned n = 0; n < rounds && !row_failed; n++) {
		fresh();
		make(0, 3);
		/* Two each: the third in a minute would be the last. */
		for (int k = 0; k < 2; k++) {
			pid_t pid = worker();

			tell(&puppets[0], "work 400");
			tell(&puppets[1], "kernels 3000");
			nap((double)(random() % 100));
			kill(pid, SIGKILL);
			if (!says(hear(&puppets[0]), "ok"))
				complain("copies and fills: %s",
					 puppets[0].said);
			expect(&puppets[0], "check", "ok");
			expect(&puppets[2], "check", "ok");
			if (says(hear(&puppets[1]), "719")) {
				lost++;
				expect_error(&puppets[1], "when the worker "
					     "ended");
				end(&puppets[1]);
				make(1, 2);
			} else if (!says(puppets[1].said, "ok")) {
				complain("kernels: %s", puppets[1].said);
			}
			expect(&puppets[1], "check", "ok");
		}
		expect_quiet(&puppets[0]);
		expect_quiet(&puppets[2]);
		if (!row_failed)
			quit();
	}
	printf("        of %u clients busy with kernels %u lost them\n",
	       2 * rounds, lost);
}

static void
what_cannot_be_kept_is_said(unsigned rounds)
{
	static const struct {
		const char *command, *reason;
	} cases[] = {
		{ "state", "its code has variables on the device" },
		{ "address", "it has the address of a variable" },
		{ "array", "it has arrays" },
	};

	(void)rounds;
	make(0, 5);
	for (int i = 0; i < 3; i++)
		expect(&puppets[i], cases[i].command, "ok");
	expect(&puppets[4], "wild", "700");
	expect(&puppets[3], "check", "ok");
	for (int i = 0; i < 3; i++) {
		expect(&puppets[i], "wait", "719");
		expect_error(&puppets[i], cases[i].reason);
	}
	expect_quiet(&puppets[3]);
}

static void
three_ends_in_a_minute_are_enough(unsigned rounds)
{
	(void)rounds;
	make(0, 1);
	for (int i = 0; i < 3; i++) {
		kill_worker();
		if (i < 2)
			expect(&puppets[0], "check", "ok");
	}
	if (says(ask(&puppets[0], "wait"), "ok"))
		complain("the device is still there");
	expect_log("device 0 is lost: 3 workers ended within a minute");
	expect_error(&puppets[0], "the worker of device 0 ended");
}

/* Clients have all memory that they can get; the next worker finds some. */
static void
memory_is_left_for_the_next_worker(unsigned rounds)
{
	(void)rounds;
	if (!is_software()) {
		row_skipped = true;
		return;
	}
	setenv("SOFTCUDA_MEMORY", "192M", 1);
	setenv("SOFTCUDA_ACCOUNT", unique_name(), 1);
	make(0, 4);
	expect(&puppets[0], "fill", "ok");
	expect(&puppets[1], "fill", "-1");
	/* Variables of code take of the device's, too. */
	expect(&puppets[2], "state", "ok");
	expect(&puppets[3], "wild", "700");
	expect(&puppets[1], "check", "ok");
	expect(&puppets[0], "check", "ok");
	expect(&puppets[1], "state", "ok");
	/* Nor has any been lost, and what is freed can be had again. */
	for (int i = 0; i < 3; i++) {
		expect(&puppets[0], "empty", "ok");
		expect(&puppets[0], "fill", "ok");
	}
	expect(&puppets[1], "fill", "-1");
	expect_quiet(&puppets[0]);
	expect_quiet(&puppets[1]);
	unsetenv("SOFTCUDA_MEMORY");
	unsetenv("SOFTCUDA_ACCOUNT");
}

static long
workers_started(void)
{
	return number(status(), "", "workers_started");
}

/* Code that ends so many workers, with whoever brings it, and then is
 * refused. Only the software device's loader dies when it is told to. */
static bool
ends_workers(const char *fault, const char *command, int count)
{
	if (!is_software()) {
		row_skipped = true;
		return false;
	}
	setenv("SOFTCUDA_FAULT", fault, 1);
	make(0, 4);
	for (int i = 1; i <= count; i++) {
		expect(&puppets[i], command, "719");
		expect_error(&puppets[i], "the driver died in a call of this "
			     "program");
		/* All of them, so that nothing else goes on meanwhile. */
		for (int k = 0; k < 4; k++)
			if (k < 1 || k > i)
				expect(&puppets[k], "check", "ok");
	}
	for (int i = 0; i < 2; i++) {
		expect(&puppets[3], command, "200");
		expect(&puppets[0], command, "200");
	}
	if (workers_started() != count + 1)
		complain("%ld workers, not %d", workers_started(), count + 1);
	for (int i = 0; i < 4; i += 3) {
		expect(&puppets[i], "check", "ok");
		expect_quiet(&puppets[i]);
	}
	if (!strstr(status(), "\"refused\": true"))
		complain("status: %s", status());
	expect_log("once more, and it is refused");
	unsetenv("SOFTCUDA_FAULT");
	return true;
}

/* The second time it is compiled by a process of its own. */
static void
text_that_ends_workers(unsigned rounds)
{
	(void)rounds;
	if (!ends_workers("load:crasher", "crash", 1))
		return;
	expect_log("ended while loading code");
	expect_log("it has ended a compiler, too");
}

/* Which can be compiled, and not used. */
static void
kernel_that_ends_workers(unsigned rounds)
{
	(void)rounds;
	if (!ends_workers("use:crasher", "crashuse", 2))
		return;
	expect_log("was compiled by process");
	expect_log("ended while taking a kernel out of code");
	expect_log("the second one, it is refused from now on");
}

static void
link_that_ends_workers(unsigned rounds)
{
	(void)rounds;
	if (!ends_workers("load:crasher", "crashlink", 1))
		return;
	expect_log("ended while linking code");
	expect_log("it has ended a compiler, too");
}

/* Its kernel never ends, and loading code would wait for it. */
static void
endless_kernel_of_a_dead_client(unsigned rounds)
{
	pid_t before;
	double begin;

	(void)rounds;
	setenv("MPSSHIM_HANDOVER_S", "1", 1);
	make(0, 3);
	before = worker();
	expect(&puppets[2], "hang", "ok");
	end(&puppets[2]);
	/* Busy all the time, and none of it is lost. */
	tell(&puppets[0], "kernels 12000");
	begin = now_ms();
	while (worker() == before && now_ms() - begin < 20000)
		nap(50);
	if (worker() == before)
		complain("it still has that worker");
	if (!says(hear(&puppets[0]), "ok"))
		complain("kernels: %s", puppets[0].said);
	expect(&puppets[1], "check", "ok");
	expect(&puppets[0], "check", "ok");
	expect_quiet(&puppets[0]);
	expect_quiet(&puppets[1]);
	expect_log("ended 1 s ago and its work goes on");
	unsetenv("MPSSHIM_HANDOVER_S");
}

int
main(int argc, char **argv)
{
	unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 10;

	if (argc < 3)
		return 2;
	srandom((unsigned)time(NULL));
	if (!begin_rows(argv[1], argv[2]))
		return 2;
	row("neighbours of a fault go on with their data", neighbours_go_on,
	    rounds);
	row("who was busy at a fault hears so", who_was_busy_hears_so, 1);
	row("the text of an assertion is given",
	    text_of_an_assertion_is_given, 1);
	row("a reset after a fault is as natively", reset_is_as_natively, 1);
	row("a killed worker costs only the busy",
	    killed_worker_costs_only_the_busy, 1);
	row("a worker may be killed at any moment", killed_at_any_moment,
	    (rounds + 3) / 4);
	row("what cannot be kept is said", what_cannot_be_kept_is_said, 1);
	row("an endless kernel of a dead client is got rid of",
	    endless_kernel_of_a_dead_client, 1);
	row("three ends in a minute are enough",
	    three_ends_in_a_minute_are_enough, 1);
	row("a kernel with much local memory stops nobody",
	    deep_kernel_stops_nobody, 1);
	row("a call that the driver dies in costs its caller alone",
	    deadly_call_costs_its_caller, 1);
	row("memory is left for the next worker",
	    memory_is_left_for_the_next_worker, 1);
	row("text that ends a worker and a compiler is refused",
	    text_that_ends_workers, 1);
	row("a kernel that ends two workers is refused",
	    kernel_that_ends_workers, 1);
	row("a link that ends a worker and a compiler is refused",
	    link_that_ends_workers, 1);
	return end_rows();
}
