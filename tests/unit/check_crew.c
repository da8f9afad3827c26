/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/crew.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

enum { GUARD = 64, JOBS = 8, MOST = 5 * CREW_BIT };

struct buffers {
	uint8_t *to, *from;
	size_t size;                /* of each */
};

static struct buffers
make_buffers(size_t size)
{
	struct buffers b = { malloc(size), malloc(size), size };

	ck_assert(b.to && b.from);
	for (size_t i = 0; i < size; i++)
		b.from[i] = (uint8_t)(i % 251 + 1);
	return b;
}

static void
free_buffers(struct buffers *b)
{
	free(b->to);
	free(b->from);
}

static bool
is_zero(const uint8_t *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (p[i])
			return false;
	return true;
}

/* One job between odd addresses: all of it is moved, and nothing beside. */
static void
move_one(struct buffers *b, size_t size, size_t to, size_t from, bool past)
{
	struct shim_crew_job job = {
		.to = b->to + GUARD + to, .from = b->from + from,
		.size = size, .past_caches = past,
	};

	memset(b->to, 0, b->size);
	shim_crew_add(&job, CREW_MAX);
	shim_crew_finish(&job);
	ck_assert(shim_crew_is_done(&job));
	ck_assert(!memcmp(b->to + GUARD + to, b->from + from, size));
	ck_assert(is_zero(b->to, GUARD + to));
	ck_assert(is_zero(b->to + GUARD + to + size,
			  b->size - GUARD - to - size));
}

static void
move_all_sizes(void)
{
	static const size_t sizes[] = {
		1, 15, 63, 64, 65, 200, CREW_BIT - 1, CREW_BIT, CREW_BIT + 1,
		3 * CREW_BIT, 3 * CREW_BIT + 7, MOST - 1,
	};
	struct buffers b = make_buffers(MOST + 4 * GUARD);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (size_t to = 0; to < 20; to += 19)
			for (int past = 0; past < 2; past++)
				move_one(&b, sizes[i], to, i % 5, past);
	free_buffers(&b);
}

START_TEST(crew_moves_every_byte_without_helpers)
{
	move_all_sizes();
	ck_assert_uint_eq(shim_crew_count(), 0);
}
END_TEST

START_TEST(crew_moves_every_byte_with_helpers)
{
	shim_crew_open(CREW_MAX);
	ck_assert_uint_eq(shim_crew_count(), CREW_MAX);
	move_all_sizes();
	shim_crew_close();
}
END_TEST

START_TEST(crew_has_no_more_helpers_than_asked_for)
{
	shim_crew_open(1);
	ck_assert_uint_eq(shim_crew_count(), 1);
	shim_crew_open(2);
	ck_assert_uint_eq(shim_crew_count(), 2);
	shim_crew_open(1);
	ck_assert_uint_eq(shim_crew_count(), 2);
	ck_assert_uint_le(shim_crew_size(), CREW_MAX);
}
END_TEST

/* A pipeline as large copies have: several jobs, finished in their order. */
static void *
move_in_pieces(void *arg)
{
	struct shim_crew_job jobs[JOBS];
	struct buffers b = make_buffers(MOST * 4);
	size_t piece = b.size / JOBS;

	(void)arg;
	shim_crew_open(CREW_MAX);
	for (int round = 0; round < 10; round++) {
		memset(b.to, 0, b.size);
		for (int i = 0; i < JOBS; i++) {
			jobs[i] = (struct shim_crew_job){
				.to = b.to + i * piece,
				.from = b.from + i * piece,
				.size = piece, .past_caches = round % 2,
			};
			shim_crew_add(&jobs[i], CREW_MAX);
		}
		for (int i = 0; i < JOBS; i++) {
			shim_crew_finish(&jobs[i]);
			ck_assert(!memcmp(b.to + i * piece, b.from + i * piece,
					  piece));
		}
	}
	shim_crew_close();
	free_buffers(&b);
	return NULL;
}

START_TEST(crew_serves_several_callers_at_once)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		ck_assert(!pthread_create(&threads[i], NULL, move_in_pieces,
					  NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_le(shim_crew_count(), CREW_MAX);
}
END_TEST

START_TEST(crew_helpers_stay_for_a_copy_and_end_after_it)
{
	shim_crew_open(CREW_MAX);
	/* Longer than they wait when there is no copy. */
	sleep(2);
	ck_assert_uint_eq(shim_crew_count(), CREW_MAX);
	shim_crew_close();
	/* The suite's time limit ends this if they do not. */
	while (shim_crew_count())
		usleep(10000);
	move_in_pieces(NULL);
	ck_assert_uint_eq(shim_crew_count(), CREW_MAX);
}
END_TEST

static void
read_status(const char *task, char *name, uint64_t *blocked)
{
	char path[300], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "Name: %31s", name);
		sscanf(line, "SigBlk: %lx", blocked);
	}
	fclose(f);
}

#define BIT_OF(signal) (UINT64_C(1) << ((signal) - 1))

START_TEST(crew_helpers_take_no_signal_but_faults)
{
	struct dirent *task;
	unsigned int seen = 0;
	DIR *dir;

	shim_crew_open(CREW_MAX);
	/* They have begun when each has its name and its mask. */
	while (seen < CREW_MAX) {
		seen = 0;
		dir = opendir("/proc/self/task");
		while ((task = readdir(dir)) != NULL) {
			uint64_t blocked = 0;
			char name[32] = "";

			if (task->d_name[0] == '.')
				continue;
			read_status(task->d_name, name, &blocked);
			if (strcmp(name, "cuda-copy") ||
			    blocked & BIT_OF(SIGSEGV))
				continue;
			ck_assert(blocked & BIT_OF(SIGTERM));
			ck_assert(blocked & BIT_OF(SIGINT));
			ck_assert(blocked & BIT_OF(SIGUSR1));
			ck_assert(blocked & BIT_OF(SIGCHLD));
			ck_assert(blocked & BIT_OF(SIGRTMAX));
			ck_assert(!(blocked & BIT_OF(SIGBUS)));
			seen++;
		}
		closedir(dir);
	}
	shim_crew_close();
}
END_TEST

static uint8_t *guarded;
static _Atomic int faults;

static void
let_write(int signal)
{
	(void)signal;
	faults++;
	mprotect(guarded, MOST, PROT_READ | PROT_WRITE);
}

START_TEST(crew_leaves_faults_to_the_program)
{
	struct sigaction action = { .sa_handler = let_write };
	uint8_t *from = malloc(MOST);
	struct shim_crew_job job = { .from = from, .size = MOST };

	memset(from, 0x5a, MOST);
	job.to = guarded = mmap(NULL, MOST, PROT_READ,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(guarded != MAP_FAILED);
	sigaction(SIGSEGV, &action, NULL);
	shim_crew_open(CREW_MAX);
	shim_crew_add(&job, CREW_MAX);
	shim_crew_finish(&job);
	shim_crew_close();
	ck_assert_int_ge(faults, 1);
	ck_assert(!memcmp(guarded, from, MOST));
	munmap(guarded, MOST);
	free(from);
}
END_TEST

static int
count_tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *task;
	int n = 0;

	while (dir && (task = readdir(dir)) != NULL)
		n += task->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

START_TEST(crew_goes_on_when_its_process_forks)
{
	struct buffers b = make_buffers(MOST);
	struct shim_crew_job job = {
		.to = b.to, .from = b.from, .size = b.size,
	};
	int status;
	pid_t pid;

	shim_crew_open(CREW_MAX);
	shim_crew_add(&job, CREW_MAX);
	pid = fork();
	if (!pid)
		_exit(count_tasks());
	shim_crew_finish(&job);
	ck_assert(!memcmp(b.to, b.from, b.size));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
#ifndef MPSSHIM_SANITIZED
	/* A sanitizer has a thread of its own. */
	ck_assert_int_eq(WEXITSTATUS(status), 1);
#endif
	move_one(&(struct buffers){ b.to, b.from, b.size }, 1000, 0, 0, false);
	shim_crew_close();
	free_buffers(&b);
}
END_TEST

START_TEST(crew_keeps_no_process_whose_threads_have_ended)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		shim_crew_open(CREW_MAX);
		shim_crew_close();
#ifdef MPSSHIM_SANITIZED
		/* A sanitizer's own thread never ends. */
		while (shim_crew_count())
			usleep(10000);
		_exit(0);
#endif
		pthread_exit(NULL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
}
END_TEST

SUITE("crew",
	crew_moves_every_byte_without_helpers,
	crew_moves_every_byte_with_helpers,
	crew_has_no_more_helpers_than_asked_for,
	crew_serves_several_callers_at_once,
	crew_helpers_stay_for_a_copy_and_end_after_it,
	crew_helpers_take_no_signal_but_faults,
	crew_leaves_faults_to_the_program,
	crew_goes_on_when_its_process_forks,
	crew_keeps_no_process_whose_threads_have_ended)
