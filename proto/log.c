/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines. One write(2) a line, so lines of several processes do not mix.
 */
#include "proto/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static char program[32] = "mpsshim";
static _Atomic int level = LOG_ERROR;
static _Atomic int log_fd = 2;
/* Which file log_fd is, if not stderr: a host may close all its descriptors
 * and then have a file of its own under this number. */
static dev_t log_dev;
static ino_t log_ino;

static bool
parse_level(const char *text, size_t size, enum log_level *out_level)
{
	for (unsigned i = 0; i < 4; i++) {
		if (strlen(level_names[i]) == size &&
		    !memcmp(level_names[i], text, size)) {
			*out_level = (enum log_level)i;
			return true;
		}
	}
	return false;
}

/* Out of the way of the host's own descriptors, where there is room. */
#define HIGH_FD 512

static void
open_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
		      O_NOCTTY, 0600), high;
	struct stat st;

	if (fd < 0)
		return;
	high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	if (fstat(fd, &st) < 0) {
		close(fd);
		return;
	}
	log_dev = st.st_dev;
	log_ino = st.st_ino;
	log_fd = fd;
}

static bool
is_ours(int fd)
{
	struct stat st;

	return fd == 2 || (fstat(fd, &st) == 0 && st.st_dev == log_dev &&
			   st.st_ino == log_ino);
}

void
log_init(const char *name, enum log_level default_level)
{
	const char *spec = getenv("MPSSHIM_LOG");
	enum log_level chosen = default_level;
	const char *colon;

	snprintf(program, sizeof(program), "%s", name);
	if (spec) {
		colon = strchr(spec, ':');
		parse_level(spec, colon ? (size_t)(colon - spec) : strlen(spec),
			    &chosen);
		if (colon && colon[1] && log_fd == 2)
			open_file(colon + 1);
	}
	level = chosen;
}

bool
log_enabled(enum log_level asked)
{
	return asked <= (enum log_level)level;
}

/*
 * Write with SIGPIPE and SIGXFSZ kept from the host: both are sent to the
 * writing thread, so blocking them here and eating a fresh one is enough.
 */
static void
quiet_write(int fd, const char *text, size_t size)
{
	sigset_t mask, old, pending;
	struct timespec none = {0};
	bool had_pipe, had_size;

	sigemptyset(&mask);
	sigaddset(&mask, SIGPIPE);
	sigaddset(&mask, SIGXFSZ);
	if (!is_ours(fd) || pthread_sigmask(SIG_BLOCK, &mask, &old))
		return;
	sigpending(&pending);
	had_pipe = sigismember(&pending, SIGPIPE);
	had_size = sigismember(&pending, SIGXFSZ);
	if (syscall(SYS_write, fd, text, size) < 0 &&
	    (errno == EPIPE || errno == EFBIG)) {
		if (had_pipe)
			sigdelset(&mask, SIGPIPE);
		if (had_size)
			sigdelset(&mask, SIGXFSZ);
		while (sigtimedwait(&mask, NULL, &none) < 0 && errno == EINTR)
			;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void
log_text(const char *text, size_t size)
{
	int saved = errno;

	quiet_write(STDERR_FILENO, text, size);
	errno = saved;
}

void
log_line(enum log_level at, const char *format, ...)
{
	char text[1024];
	va_list args;
	int saved = errno, head, body;

	if (!log_enabled(at))
		return;
	head = snprintf(text, sizeof(text), "%s[%d] %s: ", program,
			(int)getpid(), level_names[at]);
	va_start(args, format);
	body = vsnprintf(text + head, sizeof(text) - (size_t)head - 1, format,
			 args);
	va_end(args);
	if (body < 0)
		body = 0;
	if ((size_t)(head + body) > sizeof(text) - 2)
		body = (int)sizeof(text) - 2 - head;
	text[head + body] = '\n';
	quiet_write(log_fd, text, (size_t)(head + body) + 1);
	errno = saved;
}
