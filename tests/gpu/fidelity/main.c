/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fidelity [-j JOBS] [-t SECONDS] [GROUP...]: what the driver library that the loader finds
 * as libcuda.so.1 answers to calls that it must refuse. Prints
 *
 *	function TAB case TAB CUresult TAB what it wrote TAB answer afterwards
 *
 * in the order of rows.h, whichever group was done first. The CUresult is
 * SIGNAME where the driver dies in the call, TIMEOUT where it does not come
 * back. Groups that are not done after SECONDS (60) are given up. Exit status
 * 0: every group ran to its end; 1: some did not; 77: no driver library.
 *
 * The program is its own child, once for each group and again after each row
 * that killed one: a driver does not survive a fork.
 */
#include "tests/gpu/fidelity/rows.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/gpu/fidelity/group.h"

enum {
	/* A process that prints nothing for so long hangs in a row. */
	SILENT_MS = 15000,
	/* Nobody asks more of a group. */
	DEATHS_MAX = 200,
};

struct group {
	const char *name;
	void (*run)(void);
	bool alone;

	bool wanted, done, failed;
	pid_t pid;
	int fd;
	long long heard_ms;
	bool silent;		/* we killed it */
	unsigned int deaths;
	char *text;		/* what its processes printed */
	size_t size, room;
};

static struct group groups[] = {
#define GROUP_ROW(name, alone) { #name, group_##name, alone, \
		.pid = -1, .fd = -1 },
	FIDELITY_GROUPS(GROUP_ROW)
#undef GROUP_ROW
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static long long
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- a child ---- */

static int
child(const char *name, const char *skip)
{
	const struct rlimit no_core = { 0, 0 };
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 77;
	}
	setrlimit(RLIMIT_CORE, &no_core);
	row_start(library, (unsigned int)atoi(skip));
	for (size_t i = 0; i < GROUPS; i++)
		if (strcmp(groups[i].name, name) == 0)
			groups[i].run();
	/* What the driver does at exit is not asked here. */
	fflush(NULL);
	_exit(0);
}

/* ---- the parent ---- */

static const char *
signal_name(int number)
{
	switch (number) {
	case SIGABRT:
		return "SIGABRT";
	case SIGBUS:
		return "SIGBUS";
	case SIGFPE:
		return "SIGFPE";
	case SIGILL:
		return "SIGILL";
	case SIGSEGV:
		return "SIGSEGV";
	default:
		return "SIGNAL";
	}
}

static unsigned int
lines_of(const struct group *g)
{
	unsigned int lines = 0;

	for (size_t i = 0; i < g->size; i++)
		lines += g->text[i] == '\n';
	return lines;
}

static void
start(struct group *g)
{
	char skip[16];
	int fds[2];

	snprintf(skip, sizeof(skip), "%u", lines_of(g));
	if (pipe2(fds, O_CLOEXEC) < 0) {
		perror("pipe2");
		exit(1);
	}
	g->pid = fork();
	if (g->pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		execl("/proc/self/exe", "fidelity", "--group", g->name, skip,
		      (char *)NULL);
		_exit(126);
	}
	close(fds[1]);
	if (g->pid < 0) {
		perror("fork");
		exit(1);
	}
	g->fd = fds[0];
	g->heard_ms = now_ms();
	g->silent = false;
}

static void
append(struct group *g, const char *text, size_t size)
{
	if (g->size + size > g->room) {
		g->room = 2 * (g->size + size) + 4096;
		g->text = realloc(g->text, g->room);
		if (g->text == NULL)
			exit(1);
	}
	memcpy(g->text + g->size, text, size);
	g->size += size;
}

/* The process ended, perhaps in the middle of a row. */
static void
ended(struct group *g)
{
	bool inside = g->size > 0 && g->text[g->size - 1] != '\n';
	char how[64];
	int status;

	close(g->fd);
	g->fd = -1;
	while (waitpid(g->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !inside) {
		g->done = true;
		return;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == ROW_POISONED &&
	    !inside && ++g->deaths <= DEATHS_MAX) {
		start(g);
		return;
	}
	if (!inside || ++g->deaths > DEATHS_MAX) {
		fprintf(stderr, "%s: ended by %s %d outside of a row\n",
			g->name, WIFEXITED(status) ? "status" : "signal",
			WIFEXITED(status) ? WEXITSTATUS(status) :
			WTERMSIG(status));
		if (inside)
			append(g, "\n", 1);
		g->done = g->failed = true;
		return;
	}
	/* The answer may be there already: it died in the call afterwards. */
	if (g->silent)
		snprintf(how, sizeof(how), "\tTIMEOUT\t-\t-\n");
	else if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "\t%s\t-\t-\n",
			 signal_name(WTERMSIG(status)));
	else
		snprintf(how, sizeof(how), "\tEXIT%d\t-\t-\n",
			 WEXITSTATUS(status));
	append(g, how, strlen(how));
	start(g);
}

static void
hear(struct group *g, short revents)
{
	char text[65536];
	ssize_t n;

	if (revents == 0) {
		if (now_ms() - g->heard_ms > SILENT_MS) {
			g->silent = true;
			kill(g->pid, SIGKILL);
			g->heard_ms = now_ms();
		}
		return;
	}
	n = read(g->fd, text, sizeof(text));
	if (n > 0) {
		append(g, text, (size_t)n);
		g->heard_ms = now_ms();
	} else if (n == 0 || errno != EINTR) {
		ended(g);
	}
}

/* Start what may run now; how many do. */
static unsigned int
fill(unsigned int jobs, bool alone)
{
	unsigned int running = 0;

	for (size_t i = 0; i < GROUPS; i++)
		running += groups[i].fd >= 0;
	for (size_t i = 0; i < GROUPS && running < jobs; i++) {
		struct group *g = &groups[i];

		if (g->wanted && !g->done && g->fd < 0 && g->alone == alone) {
			start(g);
			running++;
		}
	}
	return running;
}

static void
give_up(struct group *g)
{
	kill(g->pid, SIGKILL);
	waitpid(g->pid, NULL, 0);
	close(g->fd);
	g->fd = -1;
	fprintf(stderr, "%s: not done in time\n", g->name);
	if (g->size > 0 && g->text[g->size - 1] != '\n')
		append(g, "\n", 1);
	g->done = g->failed = true;
}

static void
run(unsigned int jobs, bool alone, long long until_ms)
{
	while (now_ms() < until_ms && fill(jobs, alone) > 0) {
		struct pollfd fds[GROUPS];
		struct group *of[GROUPS];
		nfds_t n = 0;

		for (size_t i = 0; i < GROUPS; i++) {
			if (groups[i].fd < 0)
				continue;
			of[n] = &groups[i];
			fds[n++] = (struct pollfd){ groups[i].fd, POLLIN, 0 };
		}
		poll(fds, n, 500);
		for (nfds_t i = 0; i < n; i++)
			hear(of[i], fds[i].revents);
	}
	for (size_t i = 0; i < GROUPS; i++) {
		struct group *g = &groups[i];

		if (g->fd >= 0)
			give_up(g);
		else if (g->wanted && g->alone == alone && !g->done)
			g->failed = true;
	}
}

static bool
want(int argc, char **argv)
{
	for (size_t i = 0; i < GROUPS; i++)
		groups[i].wanted = argc == 0;
	for (int a = 0; a < argc; a++) {
		bool found = false;

		for (size_t i = 0; i < GROUPS; i++)
			if (strcmp(groups[i].name, argv[a]) == 0)
				groups[i].wanted = found = true;
		if (!found) {
			fprintf(stderr, "no group %s\n", argv[a]);
			return false;
		}
	}
	return true;
}

int
main(int argc, char **argv)
{
	unsigned int jobs = 8;
	long long seconds = 60, until;
	int failed = 0, option;

	if (argc == 4 && strcmp(argv[1], "--group") == 0)
		return child(argv[2], argv[3]);
	while ((option = getopt(argc, argv, "j:t:")) >= 0) {
		if (option == 'j')
			jobs = (unsigned int)atoi(optarg);
		else if (option == 't')
			seconds = atoi(optarg);
		else
			return 2;
	}
	if (!want(argc - optind, argv + optind) || jobs == 0)
		return 2;
	if (dlopen("libcuda.so.1", RTLD_NOW) == NULL) {
		printf("%s\n", dlerror());
		return 77;
	}
	until = now_ms() + seconds * 1000;
	run(jobs, false, until);
	run(1, true, until);
	for (size_t i = 0; i < GROUPS; i++) {
		fwrite(groups[i].text, 1, groups[i].size, stdout);
		failed |= groups[i].failed;
	}
	return failed;
}
