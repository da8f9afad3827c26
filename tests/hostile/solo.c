/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients with a worker of their own (tests/hostile/puppet.c) beside others
 * that share one.
 *
 *     solo BIN PUPPET [ROUNDS]
 *
 * BIN has mpsrun and mpsctl. Runs on whatever driver MPSSHIM_DRIVER names.
 * One line a row; the last one is "N passed, N failed, N skipped".
 */
#define _GNU_SOURCE
#include "tests/hostile/puppets.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the puppet's line in the status, what it says behind that key. */
static const char *
entry(const struct puppet *p, const char *key)
{
	const char *text = strstr(status(), "\"clients\""), *at;
	char line[64];

	snprintf(line, sizeof(line), "\"pid\": %d,", (int)p->pid);
	at = text ? strstr(text, line) : NULL;
	snprintf(line, sizeof(line), "\"%s\": ", key);
	at = at ? strstr(at, line) : NULL;
	return at ? at + strlen(line) : "";
}

static long
worker_of(const struct puppet *p)
{
	return strtol(entry(p, "worker_pid"), NULL, 10);
}

static void
expect_solo(const struct puppet *p, const char *why)
{
	const char *said = entry(p, "solo");
	char quoted[128];

	snprintf(quoted, sizeof(quoted), "\"%s", why);
	if (*why ? !says(said, quoted) : !says(said, "\"\""))
		complain("puppet %d is solo as %.60s, not %s",
			 (int)(p - puppets), said, quoted);
}

static long
count_workers(void)
{
	const char *at = status();
	long n = 0;

	while ((at = strstr(at, "\"image_loads\""))) {
		at++;
		n++;
	}
	return n;
}

static void
await_workers(long count)
{
	double begin = now_ms();

	while (count_workers() != count && now_ms() - begin < 20000)
		nap(20);
	if (count_workers() != count)
		complain("%ld workers, not %ld", count_workers(), count);
}

static void
await_gone(long pid)
{
	double begin = now_ms();

	while (kill((pid_t)pid, 0) == 0 && now_ms() - begin < 20000)
		nap(20);
	if (kill((pid_t)pid, 0) == 0 || errno != ESRCH)
		complain("process %ld is still there", pid);
}

static void
make_solo(int from, int to)
{
	setenv("MPSSHIM_SOLO", "1", 1);
	make(from, to);
	unsetenv("MPSSHIM_SOLO");
}

/* ---- rows ---- */

static void
solo_and_shared_are_right_at_once(unsigned rounds)
{
	long shared;

	(void)rounds;
	make(0, 2);
	make_solo(2, 4);
	shared = worker_of(&puppets[0]);
	for (int i = 0; i < 4; i++)
		tell(&puppets[i], "kernels 200");
	for (int i = 0; i < 4; i++)
		if (!says(hear(&puppets[i]), "ok"))
			complain("puppet %d: %s", i, puppets[i].said);
	for (int i = 0; i < 4; i++) {
		expect(&puppets[i], "check", "ok");
		expect_solo(&puppets[i], i < 2 ? "" : "it asks for it");
		expect_quiet(&puppets[i]);
	}
	if (worker_of(&puppets[1]) != shared)
		complain("those who share have two workers");
	if (worker_of(&puppets[2]) == shared ||
	    worker_of(&puppets[2]) == worker_of(&puppets[3]))
		complain("a solo client shares its worker");
	await_workers(3);
}

/* Its own worker is all that a first client starts. */
static void
alone_it_starts_no_other_worker(unsigned rounds)
{
	(void)rounds;
	make_solo(0, 1);
	expect(&puppets[0], "check", "ok");
	if (count_workers() != 1)
		complain("%ld workers", count_workers());
	make(1, 2);
	expect(&puppets[1], "check", "ok");
	expect_solo(&puppets[1], "");
	await_workers(2);
}

/* Whatever it was doing. */
static void
a_killed_one_leaves_nothing(unsigned rounds)
{
	long descriptors, chunks, own;

	make(0, 1);
	expect(&puppets[0], "check", "ok");
	descriptors = number(status(), "", "broker_descriptors");
	chunks = number(status(), "", "vault_chunks");
	for (unsigned n = 0; n < rounds && !row_failed; n++) {
		make_solo(1, 2);
		own = worker_of(&puppets[1]);
		if (n % 3 == 1)
			expect(&puppets[1], "hang", "ok");
		else if (n % 3 == 2)
			tell(&puppets[1], "work 400");
		end(&puppets[1]);
		await_gone(own);
		await_workers(1);
	}
	if (number(status(), "", "broker_descriptors") > descriptors ||
	    number(status(), "", "vault_chunks") > chunks)
		complain("%ld descriptors and %ld chunks, then %ld and %ld",
			 descriptors, chunks,
			 number(status(), "", "broker_descriptors"),
			 number(status(), "", "vault_chunks"));
	expect(&puppets[0], "check", "ok");
}

static void
its_fault_is_its_own(unsigned rounds)
{
	(void)rounds;
	make(0, 1);
	expect(&puppets[0], "hold", "ok");
	make_solo(1, 2);
	expect(&puppets[1], "wild", "700");
	expect(&puppets[1], "wait", "700");
	expect_error(&puppets[1], "a kernel of this program has faulted");
	/* Its neighbour was busy all the time, and is not asked to move. */
	expect(&puppets[0], "free", "ok");
	expect(&puppets[0], "wait", "ok");
	expect(&puppets[0], "check", "ok");
	expect_quiet(&puppets[0]);
	/* And the other way round. */
	make_solo(2, 3);
	expect(&puppets[2], "hold", "ok");
	expect(&puppets[0], "wild", "700");
	expect(&puppets[2], "free", "ok");
	expect(&puppets[2], "wait", "ok");
	expect(&puppets[2], "check", "ok");
	expect_quiet(&puppets[2]);
}

static void
a_killed_worker_of_its_own_is_replaced(unsigned rounds)
{
	long own;

	(void)rounds;
	make_solo(0, 1);
	make(1, 2);
	own = worker_of(&puppets[0]);
	kill((pid_t)own, SIGKILL);
	expect(&puppets[0], "check", "ok");
	expect(&puppets[1], "check", "ok");
	expect_quiet(&puppets[0]);
	if (worker_of(&puppets[0]) == own)
		complain("it has the same worker");
	await_workers(2);
}

static void
memory_is_shared_across_workers(unsigned rounds)
{
	char command[256];

	(void)rounds;
	make(0, 1);
	make_solo(1, 2);
	for (int i = 0; i < 2; i++) {
		expect(&puppets[i], "export", "ok ");
		snprintf(command, sizeof(command), "import %.200s",
			 puppets[i].said + 3);
		expect(&puppets[!i], command, "ok");
		expect(&puppets[i], "exported", "ok");
	}
	/* Events live in one context. */
	expect(&puppets[0], "export event", "ok ");
	snprintf(command, sizeof(command), "import event %.200s",
		 puppets[0].said + 3);
	expect(&puppets[1], command, "801");
}

static void
two_faults_are_enough(unsigned rounds)
{
	(void)rounds;
	setenv("MPSSHIM_JOB", "bad", 1);
	for (int i = 0; i < 3; i++) {
		make(0, 1);
		expect_solo(&puppets[0], i < 2 ? "" : "quarantine");
		expect(&puppets[0], "wild", "700");
		end(&puppets[0]);
	}
	setenv("MPSSHIM_JOB", "good", 1);
	make(1, 2);
	expect_solo(&puppets[1], "");
	setenv("MPSSHIM_JOB", "bad", 1);
	make(0, 1);
	unsetenv("MPSSHIM_JOB");
	expect_solo(&puppets[0], "quarantine");
	expect(&puppets[0], "wild", "700");
	expect(&puppets[1], "check", "ok");
	expect_quiet(&puppets[1]);
	expect_log("quarantine: this program has faulted twice");
}

static void
the_device_heap_is_a_reason_to_move(unsigned rounds)
{
	long shared, own;

	(void)rounds;
	make(0, 3);
	shared = worker_of(&puppets[0]);
	/* One neighbour's kernel goes on all the while. */
	expect(&puppets[1], "hold", "ok");
	expect(&puppets[0], "heap 1000", "ok");
	expect_solo(&puppets[0], "its kernels use the device heap");
	own = worker_of(&puppets[0]);
	if (own == shared)
		complain("it has the worker of the others");
	expect(&puppets[0], "check", "ok");
	expect(&puppets[0], "heap 1000", "ok");
	if (worker_of(&puppets[0]) != own || count_workers() != 2)
		complain("it has moved again");
	expect(&puppets[1], "free", "ok");
	expect(&puppets[1], "wait", "ok");
	for (int i = 1; i < 3; i++) {
		expect(&puppets[i], "check", "ok");
		expect_solo(&puppets[i], "");
		if (worker_of(&puppets[i]) != shared)
			complain("a neighbour has another worker");
	}
	/* Neither has anything of the other's any more. */
	expect(&puppets[1], "wild", "700");
	expect(&puppets[0], "check", "ok");
	if (worker_of(&puppets[0]) != own)
		complain("it has moved with the others");
	expect(&puppets[2], "check", "ok");
	for (int i = 0; i < 3; i += 2)
		expect_quiet(&puppets[i]);
	end(&puppets[0]);
	await_gone(own);
	await_workers(1);
}

/* Eight MiB are everybody's; a worker that takes over has what was set. */
static void
a_larger_limit_is_a_reason_to_move(unsigned rounds)
{
	long shared, own;

	(void)rounds;
	make(0, 2);
	make_solo(2, 3);
	shared = worker_of(&puppets[0]);
	expect(&puppets[0], "limit 8", "ok");
	expect_solo(&puppets[0], "");
	expect(&puppets[1], "hold", "ok");
	expect(&puppets[0], "limit 64", "ok");
	expect_solo(&puppets[0], "it wants more of a limit (2)");
	own = worker_of(&puppets[0]);
	if (own == shared)
		complain("it has the worker of the others");
	expect(&puppets[0], "check", "ok");
	kill((pid_t)own, SIGKILL);
	expect(&puppets[0], "heap 1000000", "ok");
	expect(&puppets[0], "check", "ok");
	/* Its size is fixed by now. */
	expect(&puppets[0], "limit 65", "1");
	expect(&puppets[2], "heap 1000000", "-1");
	expect(&puppets[1], "free", "ok");
	expect(&puppets[1], "wait", "ok");
	expect(&puppets[1], "check", "ok");
	expect_solo(&puppets[1], "");
	for (int i = 0; i < 2; i++)
		expect_quiet(&puppets[i]);
}

/* What does not fit beside what is left for all; and what cannot move. */
static void
a_limit_that_cannot_be_had_is_refused(unsigned rounds)
{
	(void)rounds;
	/* A real one's memory takes long to fill. */
	if (!is_software()) {
		row_skipped = true;
		return;
	}
	setenv("SOFTCUDA_MEMORY", "512M", 1);
	setenv("SOFTCUDA_ACCOUNT", unique_name(), 1);
	make(0, 1);
	make_solo(1, 2);
	expect(&puppets[0], "array", "ok");
	expect(&puppets[0], "limit 64", "215");
	expect_error(&puppets[0], "has arrays");
	expect_solo(&puppets[0], "");
	expect(&puppets[1], "fill", "ok");
	expect(&puppets[1], "limit 64", "2");
	expect(&puppets[1], "empty", "ok");
	expect(&puppets[1], "limit 64", "ok");
	expect(&puppets[1], "heap 1000000", "ok");
	expect(&puppets[1], "check", "ok");
	expect(&puppets[0], "check", "ok");
	unsetenv("SOFTCUDA_MEMORY");
	unsetenv("SOFTCUDA_ACCOUNT");
}

static unsigned long long
driver_bytes(const struct puppet *p)
{
	return strtoull(entry(p, "driver_bytes"), NULL, 10);
}

static void
expect_driver(const struct puppet *p, unsigned long long bytes)
{
	unsigned long long said = driver_bytes(p);

	if (said != bytes)
		complain("the driver has %llu bytes for puppet %d, not %llu",
			 said, (int)(p - puppets), bytes);
}

/* Of 8 processors with 2048 threads each, beyond what all have; a context, and
 * 56 MiB of heap beyond its 8. */
#define DEEP ((8192ull - 1024) * 8 * 2048)
#define CONTEXT (64ull << 20)
#define HEAP (56ull << 20)

/* What a real one takes is for it to say: a context's hundreds of MiB, and
 * nothing for who shares one. */
static void
a_real_context_counts(void)
{
	unsigned long long mib;

	make(0, 1);
	make_solo(1, 2);
	expect_driver(&puppets[0], 0);
	mib = driver_bytes(&puppets[1]) >> 20;
	printf("        a context of its own: %llu MiB\n", mib);
	if (mib < 64 || mib > 4096)
		complain("that is no context's");
	expect(&puppets[0], "dig", "ok");
	if (!driver_bytes(&puppets[0]))
		complain("local memory is nobody's");
}

static void
what_the_driver_has_for_a_client_counts(unsigned rounds)
{
	(void)rounds;
	if (!is_software()) {
		a_real_context_counts();
		return;
	}
	setenv("SOFTCUDA_CONTEXT", "64M", 1);
	setenv("SOFTCUDA_ACCOUNT", unique_name(), 1);
	make(0, 2);
	make_solo(2, 3);
	expect_driver(&puppets[0], 0);
	expect_driver(&puppets[2], CONTEXT);
	/* What it has made the driver find is there for its neighbour, too,
	 * who does not use it yet. */
	expect(&puppets[0], "dig", "ok");
	expect_driver(&puppets[0], DEEP);
	expect_driver(&puppets[1], 0);
	expect(&puppets[1], "dig", "ok");
	expect_driver(&puppets[1], DEEP);
	expect(&puppets[2], "dig", "ok");
	expect_driver(&puppets[2], CONTEXT + DEEP);
	expect(&puppets[2], "limit 64", "ok");
	expect_driver(&puppets[2], CONTEXT + DEEP + HEAP);
	/* In a worker of its own it has that one's; its code comes with its
	 * next use. */
	expect(&puppets[0], "limit 64", "ok");
	expect_driver(&puppets[0], CONTEXT + HEAP);
	expect(&puppets[0], "deep", "ok");
	expect_driver(&puppets[0], CONTEXT + DEEP + HEAP);
	for (int i = 0; i < 3; i++)
		expect(&puppets[i], "check", "ok");
	unsetenv("SOFTCUDA_CONTEXT");
	unsetenv("SOFTCUDA_ACCOUNT");
}

/* Two may; then one of these ends. */
static void
not_all_can_be_solo(unsigned rounds)
{
	long own;

	(void)rounds;
	setenv("MPSSHIM_SOLO_MAX", "2", 1);
	make_solo(0, 2);
	make(2, 3);
	own = worker_of(&puppets[1]);
	setenv("MPSSHIM_SOLO", "1", 1);
	start(&puppets[3]);
	unsetenv("MPSSHIM_SOLO");
	expect(&puppets[3], "make", "808");
	expect_error(&puppets[3], "MPSSHIM_SOLO_MAX");
	end(&puppets[3]);
	expect(&puppets[2], "limit 64", "215");
	expect_error(&puppets[2], "MPSSHIM_SOLO_MAX");
	expect_solo(&puppets[2], "");
	end(&puppets[1]);
	await_gone(own);
	await_workers(2);
	expect(&puppets[2], "limit 64", "ok");
	expect_solo(&puppets[2], "it wants more of a limit (2)");
	expect(&puppets[0], "check", "ok");
	expect(&puppets[2], "check", "ok");
	unsetenv("MPSSHIM_SOLO_MAX");
}

/* Of the broker, but for code that it keeps. */
static long
count_descriptors(void)
{
	const char *text = status();

	return number(text, "", "broker_descriptors") -
	       number(text, "", "store_images");
}

/* An old worker lets go at a quiet moment. */
static void
await_descriptors(long most)
{
	double begin = now_ms();

	while (count_descriptors() > most && now_ms() - begin < 20000)
		nap(20);
	if (count_descriptors() > most)
		complain("%ld descriptors, then %ld", most,
			 count_descriptors());
}

/* Many at once, and one after the other. */
static void
moves_leave_nothing(unsigned rounds)
{
	long descriptors, mappings = 0, now;

	make(0, 1);
	descriptors = count_descriptors();
	for (unsigned n = 0; n < rounds && !row_failed; n++) {
		make(1, 5);
		for (int i = 1; i < 5; i++)
			tell(&puppets[i], "heap 64");
		for (int i = 1; i < 5; i++)
			if (!says(hear(&puppets[i]), "ok"))
				complain("puppet %d: %s", i, puppets[i].said);
		for (int i = 1; i < 5; i++) {
			expect(&puppets[i], "check", "ok");
			expect_solo(&puppets[i], "its kernels use");
			expect_quiet(&puppets[i]);
			end(&puppets[i]);
		}
		await_workers(1);
		await_descriptors(descriptors);
		if (!n)
			mappings = number(status(), "\"workers\"", "mappings");
	}
	expect(&puppets[0], "check", "ok");
	await_descriptors(descriptors);
	/* The first may have shown the driver what it keeps. */
	now = number(status(), "\"workers\"", "mappings");
	if (now > mappings + 20)
		complain("%ld mappings, then %ld", mappings, now);
}

/* Old worker, new worker or client, at any moment of the move. */
static void
killed_while_it_moves(unsigned rounds)
{
	unsigned lost = 0;

	for (unsigned n = 0; n < rounds && !row_failed; n++) {
		long pid;

		/* Three workers that end in a minute are too many for one. */
		fresh();
		make(0, 2);
		pid = worker_of(&puppets[0]);
		tell(&puppets[1], "heap 64");
		nap((double)(random() % 60));
		if (n % 3 == 0)
			kill((pid_t)pid, SIGKILL);
		else if (n % 3 == 1)
			end(&puppets[1]);
		else if (worker_of(&puppets[1]) > 0)
			kill((pid_t)worker_of(&puppets[1]), SIGKILL);
		if (n % 3 != 1 && !says(hear(&puppets[1]), "ok")) {
			lost++;
			if (!says(puppets[1].said, "719"))
				complain("in a move: %s", puppets[1].said);
		} else if (n % 3 == 0) {
			expect(&puppets[1], "check", "ok");
		}
		expect(&puppets[0], "check", "ok");
		expect_quiet(&puppets[0]);
		end(&puppets[1]);
		await_workers(1);
		quit();
	}
	printf("        of %u moves that lost a worker %u lost kernels\n",
	       rounds * 2 / 3, lost);
}

static void
what_cannot_move_stays_and_is_said(unsigned rounds)
{
	static const char *const commands[] = { "state", "address", "array" };
	static const char *const reasons[] = {
		"has variables", "the address of a variable", "has arrays",
	};

	(void)rounds;
	make(0, 4);
	for (int i = 0; i < 3; i++) {
		expect(&puppets[i], commands[i], "ok");
		/* An allocation of a kernel can fail natively, too. */
		expect(&puppets[i], "heap 64", "ok");
		expect_quiet(&puppets[i]);
		expect(&puppets[i], "nested", "801");
		expect_error(&puppets[i], reasons[i]);
		expect_error(&puppets[i], "mpsrun --solo");
		expect_solo(&puppets[i], "");
		expect(&puppets[i], "check", "ok");
	}
	await_workers(1);
	/* What used the heap has a reason less to be moved. */
	expect(&puppets[3], "wild", "700");
	for (int i = 0; i < 3; i++)
		expect(&puppets[i], "wait", "719");
}

int
main(int argc, char **argv)
{
	unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 12;

	if (argc < 3 || !begin_rows(argv[1], argv[2]))
		return 2;
	row("solo and shared clients are right at once",
	    solo_and_shared_are_right_at_once, 1);
	row("a solo client alone starts no other worker",
	    alone_it_starts_no_other_worker, 1);
	row("a killed solo client leaves nothing", a_killed_one_leaves_nothing,
	    6);
	row("the fault of a solo client is its own", its_fault_is_its_own, 1);
	row("a killed worker of one client is replaced",
	    a_killed_worker_of_its_own_is_replaced, 1);
	row("memory is shared across workers", memory_is_shared_across_workers,
	    1);
	row("two faults are enough", two_faults_are_enough, 1);
	row("the device heap is a reason to move",
	    the_device_heap_is_a_reason_to_move, 1);
	row("a larger limit is a reason to move",
	    a_larger_limit_is_a_reason_to_move, 1);
	row("a limit that cannot be had is refused",
	    a_limit_that_cannot_be_had_is_refused, 1);
	row("what the driver has for a client counts",
	    what_the_driver_has_for_a_client_counts, 1);
	row("not all can be solo", not_all_can_be_solo, 1);
	row("moves leave nothing", moves_leave_nothing, 2);
	row("worker or client may be killed while it moves",
	    killed_while_it_moves, rounds);
	row("what cannot move stays, and is said",
	    what_cannot_move_stays_and_is_said, 1);
	return end_rows();
}
