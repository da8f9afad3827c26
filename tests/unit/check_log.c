/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log file: what many processes write at once, and its bound.
 */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/log.h"
#include "proto/log_file.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, FILL = 900 };

static char dir[64], path[96], old[100];
static char fill[FILL + 1];

static void
setup(void)
{
	char spec[128];

	snprintf(dir, sizeof(dir), "/tmp/mpsshim-check-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/log", dir);
	snprintf(old, sizeof(old), "%s.1", path);
	snprintf(spec, sizeof(spec), "info:%s", path);
	setenv("MPSSHIM_LOG", spec, 1);
	setenv("MPSSHIM_LOG_MB", "1", 1);
	memset(fill, 'x', FILL);
}

static void
teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(command), 0);
}

static off_t
size_of(const char *name)
{
	struct stat st;

	return stat(name, &st) < 0 ? -1 : st.st_size;
}

/* Lines of a file that end in "who COUNT", counted in seen; they are whole. */
static void
count_lines(const char *name, unsigned char *seen, int cap)
{
	char line[1200];
	FILE *f = fopen(name, "r");

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		char *at = strrchr(line, ' ');
		int n;

		ck_assert_ptr_nonnull(strstr(line, fill));
		ck_assert_ptr_nonnull(at);
		n = atoi(at + 1);
		ck_assert_int_ge(n, 0);
		ck_assert_int_lt(n, cap);
		seen[n]++;
	}
	fclose(f);
}

enum { PROCESSES = 6, THREADS = 3, LINES = 100 };

static void *
write_lines(void *arg)
{
	int *first = arg;

	for (int i = 0; i < LINES; i++)
		log_line(LOG_INFO, "%s %d", fill, *first + i);
	return NULL;
}

static void
write_in_threads(int process)
{
	pthread_t threads[THREADS];
	int first[THREADS];

	for (int i = 0; i < THREADS; i++) {
		first[i] = (process * THREADS + i) * LINES;
		if (pthread_create(&threads[i], NULL, write_lines, &first[i]))
			_exit(1);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* More than one file holds, less than two: all lines are in the one or the
 * other. */
START_TEST(lines_of_many_writers_are_all_there_once)
{
	static unsigned char seen[PROCESSES * THREADS * LINES];
	pid_t pids[PROCESSES];
	int status;

	ck_assert_int_gt((int)sizeof(seen) * FILL, MIB);
	ck_assert_int_lt((int)sizeof(seen) * (FILL + 100), 2 * MIB);
	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		ck_assert_int_ge(pids[i], 0);
		if (!pids[i]) {
			log_init("writer", LOG_INFO);
			write_in_threads(i);
			_exit(0);
		}
	}
	for (int i = 0; i < PROCESSES; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	count_lines(path, seen, sizeof(seen));
	count_lines(old, seen, sizeof(seen));
	for (size_t i = 0; i < sizeof(seen); i++)
		ck_assert_int_eq(seen[i], 1);
	/* By how much more depends on who was kept from the processor when it
	 * was full: nobody waits for him. */
	ck_assert_int_ge(size_of(old), MIB);
}
END_TEST

static void
write_bytes(int bytes)
{
	for (int done = 0; done < bytes; done += FILL)
		log_line(LOG_INFO, "%s", fill);
}

/* Several times as much as a file holds, by another process. */
static void
have_written(int bytes)
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		write_bytes(bytes);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

static bool
holds(const char *name, const char *text)
{
	char command[256];

	snprintf(command, sizeof(command), "grep -q '%s' '%s'", text, name);
	return system(command) == 0;
}

START_TEST(who_writes_seldom_writes_to_the_file_of_today)
{
	log_init("seldom", LOG_INFO);
	log_line(LOG_INFO, "early");
	have_written(7 * MIB / 2);
	ck_assert(!holds(path, "early") && !holds(old, "early"));
	ck_assert_int_lt(size_of(old), MIB + 2 * FILL);
	log_line(LOG_INFO, "late");
	ck_assert(holds(path, "late"));
}
END_TEST

START_TEST(a_removed_file_is_made_again)
{
	log_init("writer", LOG_INFO);
	log_line(LOG_INFO, "early");
	ck_assert_int_eq(unlink(path), 0);
	log_line(LOG_INFO, "late");
	ck_assert(holds(path, "late"));
}
END_TEST

START_TEST(what_cannot_be_renamed_is_bounded_all_the_same)
{
	char in[128];

	ck_assert_int_eq(mkdir(old, 0700), 0);
	snprintf(in, sizeof(in), "%s/full", old);
	ck_assert_int_eq(mkdir(in, 0700), 0);
	log_init("writer", LOG_INFO);
	write_bytes(5 * MIB / 2);
	log_line(LOG_INFO, "late");
	ck_assert_int_lt(size_of(path), MIB + 2 * FILL);
	ck_assert(holds(path, "late"));
}
END_TEST

START_TEST(a_file_of_the_user_s_own_grows)
{
	unsetenv("MPSSHIM_LOG_MB");
	log_init("writer", LOG_INFO);
	write_bytes(3 * MIB / 2);
	ck_assert_int_ge(size_of(path), 3 * MIB / 2);
	ck_assert_int_eq(size_of(old), -1);
}
END_TEST

/* As a daemon does that closes all it has. */
/* One without a reader, and one whose reader does not read. */
START_TEST(a_pipe_that_nobody_reads_keeps_nobody)
{
	char text[FILL];
	int reader;

	ck_assert_int_eq(mkfifo(path, 0600), 0);
	log_init("test", LOG_INFO);
	ck_assert(!log_file_is_open());
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	log_init("test", LOG_INFO);
	ck_assert(log_file_is_open());
	for (int i = 0; i < 2 * MIB / FILL; i++)
		log_line(LOG_INFO, "%s", fill);
	ck_assert_int_eq(read(reader, text, sizeof(text)), FILL);
	close(reader);
}
END_TEST

START_TEST(a_file_under_the_same_number_is_let_alone)
{
	char other[128];
	int fd;

	log_init("writer", LOG_INFO);
	log_line(LOG_INFO, "early");
	snprintf(other, sizeof(other), "%s/other", dir);
	fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (int i = 3; i < 1024; i++)
		if (i != fd && fcntl(i, F_GETFD) >= 0)
			dup2(fd, i);
	write_bytes(2 * MIB);
	ck_assert_int_eq(size_of(other), 0);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		lines_of_many_writers_are_all_there_once,
		who_writes_seldom_writes_to_the_file_of_today,
		a_removed_file_is_made_again,
		what_cannot_be_renamed_is_bounded_all_the_same,
		a_file_of_the_user_s_own_grows,
		a_pipe_that_nobody_reads_keeps_nobody,
		a_file_under_the_same_number_is_let_alone,
	};

	return suite_run("log", tests, sizeof(tests) / sizeof(*tests), setup,
			 teardown);
}
