/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/puppets.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of the log, where something hangs. */
#define LOG_SHOWN 6000

static const char *bin, *program;
static char folder[64], dir[96];
struct puppet puppets[PUPPETS];
bool row_failed, row_skipped;
static unsigned brokers, passed, failed, skipped, rows;
static double row_ends_ms;
static jmp_buf end_of_row;

double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void
nap(double ms)
{
	usleep((useconds_t)(ms * 1000));
}

void
complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("        ", stdout);
	vprintf(format, args);
	putchar('\n');
	fflush(stdout);
	va_end(args);
	row_failed = true;
}

static void no_answer(void) __attribute__((noreturn));

/* ---- puppets ---- */

void
start(struct puppet *p)
{
	char path[4096];
	int to[2], from[2], err;

	snprintf(path, sizeof(path), "%s/mpsrun", bin);
	snprintf(p->errors, sizeof(p->errors), "%s/errors.%d", folder,
		 (int)(p - puppets));
	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		exit(2);
	p->pid = fork();
	if (p->pid == 0) {
		err = open(p->errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(to[0], 0);
		dup2(from[1], 1);
		dup2(err, 2);
		execl(path, path, program, (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	p->to = to[1];
	p->from = from[0];
}

void
tell(struct puppet *p, const char *command)
{
	snprintf(p->asked, sizeof(p->asked), "%s", command);
	dprintf(p->to, "%s\n", command);
}

/* One line, without its end. */
const char *
hear(struct puppet *p)
{
	size_t n = 0;

	while (n + 1 < sizeof(p->said)) {
		struct pollfd f = { .fd = p->from, .events = POLLIN };
		double left = row_ends_ms - now_ms();

		if (poll(&f, 1, left > 0 ? (int)left : 0) <= 0) {
			complain("puppet %d does not answer \"%s\"",
				 (int)(p - puppets), p->asked);
			no_answer();
		}
		if (read(p->from, p->said + n, 1) != 1) {
			snprintf(p->said, sizeof(p->said), "its end");
			return p->said;
		}
		if (p->said[n] == '\n')
			break;
		n++;
	}
	p->said[n] = 0;
	return p->said;
}

const char *
ask(struct puppet *p, const char *command)
{
	tell(p, command);
	return hear(p);
}

bool
says(const char *answer, const char *begin)
{
	return !strncmp(answer, begin, strlen(begin));
}

void
expect(struct puppet *p, const char *command, const char *begin)
{
	if (!says(ask(p, command), begin))
		complain("puppet %d: %s: \"%s\", not \"%s\"",
			 (int)(p - puppets), command, p->said, begin);
}

void
end(struct puppet *p)
{
	if (p->pid <= 0)
		return;
	close(p->to);
	close(p->from);
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	p->pid = 0;
}

const char *
read_file(const char *path)
{
	static char text[1 << 18];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
	return text;
}

void
expect_quiet(struct puppet *p)
{
	const char *text = read_file(p->errors);

	if (*text)
		complain("puppet %d wrote: %s", (int)(p - puppets), text);
}

void
expect_error(struct puppet *p, const char *part)
{
	const char *text = read_file(p->errors), *first = strchr(text, '\n');

	if (!strstr(text, part) || !first || first[1])
		complain("puppet %d wrote \"%s\", not one line with \"%s\"",
			 (int)(p - puppets), text, part);
}

void
expect_log(const char *part)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/mpsd.log", dir);
	if (!strstr(read_file(path), part))
		complain("the log has no \"%s\"", part);
}

bool
is_software(void)
{
	const char *driver = getenv("MPSSHIM_DRIVER");

	return driver && !strcmp(driver, "soft");
}

const char *
unique_name(void)
{
	return folder + strlen("/tmp/");
}

/* ---- broker ---- */

void
fresh(void)
{
	snprintf(dir, sizeof(dir), "%s/%u", folder, ++brokers);
	setenv("CUDA_MPS_PIPE_DIRECTORY", dir, 1);
}

const char *
status(void)
{
	static char text[1 << 18];
	char command[4096];
	size_t n = 0;
	FILE *f;

	snprintf(command, sizeof(command),
		 "timeout 5 %s/mpsctl status --json", bin);
	f = popen(command, "r");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		pclose(f);
	}
	text[n] = 0;
	return text;
}

/* The number behind the first such key at or behind `from`; -1: none. */
long
number(const char *text, const char *from, const char *key)
{
	char quoted[64];
	const char *at = strstr(text, from);

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	at = at ? strstr(at, quoted) : NULL;
	return at ? strtol(at + strlen(quoted), NULL, 10) : -1;
}

/* What a thread of the worker is in, as far as the system tells. */
static void
show_thread(const char *task)
{
	static const char *const files[] = { "comm", "wchan", "syscall" };
	char path[512], text[256];

	printf("          ");
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", task, files[i]);
		snprintf(text, sizeof(text), "%s", read_file(path));
		text[strcspn(text, "\n")] = 0;
		printf(" %s", text);
	}
	putchar('\n');
}

static void
show_worker(long pid)
{
	char tasks[64], path[400];
	struct dirent *entry;
	DIR *d;

	snprintf(tasks, sizeof(tasks), "/proc/%ld/task", pid);
	d = opendir(tasks);
	printf("        worker %ld: thread, where it waits, its call\n", pid);
	while (d && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", tasks, entry->d_name);
		show_thread(path);
	}
	if (d)
		closedir(d);
}

static void
show_log(void)
{
	char path[128];
	const char *text;
	size_t size;

	snprintf(path, sizeof(path), "%s/mpsd.log", dir);
	text = read_file(path);
	size = strlen(text);
	printf("%s", size > LOG_SHOWN ? text + size - LOG_SHOWN : text);
}

/* Show who waits for whom, and give the row up. */
static void
no_answer(void)
{
	char command[4096];
	long pid = number(status(), "\"workers\"", "pid");

	snprintf(command, sizeof(command), "timeout 5 %s/mpsctl status", bin);
	fflush(stdout);
	if (system(command) != 0)
		printf("        mpsctl status fails\n");
	if (pid > 0)
		show_worker(pid);
	fflush(stdout);
	longjmp(end_of_row, 1);
}

pid_t
worker(void)
{
	for (int i = 0; i < 400 && now_ms() < row_ends_ms; i++) {
		long pid = number(status(), "\"workers\"", "pid");

		if (pid > 0)
			return (pid_t)pid;
		nap(25);
	}
	complain("no worker");
	return 0;
}

void
kill_worker(void)
{
	pid_t pid = worker();

	if (pid > 0)
		kill(pid, SIGKILL);
}

void
quit(void)
{
	char command[4096];

	for (int i = 0; i < PUPPETS; i++)
		end(&puppets[i]);
	snprintf(command, sizeof(command),
		 "timeout 10 %s/mpsctl quit --force >/dev/null 2>&1", bin);
	if (system(command) < 0)
		complain("no shell");
}

void
make(int from, int to)
{
	for (int i = from; i < to; i++)
		start(&puppets[i]);
	for (int i = from; i < to; i++)
		tell(&puppets[i], "make");
	for (int i = from; i < to; i++)
		if (!says(hear(&puppets[i]), "ok"))
			complain("puppet %d: make: %s", i, puppets[i].said);
}

/* Does ROWS name it, or nothing? */
static bool
is_wanted(unsigned number)
{
	const char *list = getenv("ROWS");

	if (!list || !*list)
		return true;
	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (strtoul(list, NULL, 10) == number)
			return true;
	return false;
}

static double
row_ms(void)
{
	const char *seconds = getenv("ROW_S");

	return (seconds && *seconds ? atof(seconds) : 30) * 1000;
}

void
row(const char *name, void (*body)(unsigned rounds), unsigned rounds)
{
	double begin = now_ms();

	if (!is_wanted(++rows))
		return;
	fresh();
	row_failed = row_skipped = false;
	row_ends_ms = begin + row_ms();
	if (!setjmp(end_of_row))
		body(rounds);
	quit();
	printf("%s  %s (%.0f ms)\n", row_failed ? "FAIL" :
	       row_skipped ? "skip" : "ok  ", name, now_ms() - begin);
	if (row_failed)
		show_log();
	fflush(stdout);
	passed += !row_failed && !row_skipped;
	failed += row_failed;
	skipped += row_skipped;
}

bool
begin_rows(const char *bin_folder, const char *puppet)
{
	bin = bin_folder;
	program = puppet;
	signal(SIGPIPE, SIG_IGN);
	snprintf(folder, sizeof(folder), "/tmp/mpsshim-rows.XXXXXX");
	return mkdtemp(folder);
}

int
end_rows(void)
{
	char command[128];

	if (!failed) {
		snprintf(command, sizeof(command), "rm -rf %s", folder);
		if (system(command) != 0)
			failed++;
	}
	printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
	return failed != 0;
}
