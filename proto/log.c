/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines. One write(2) a line, so lines of several processes do not mix.
 */
#include "proto/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/log_file.h"

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static char program[32] = "mpsshim";
static _Atomic int level = LOG_ERROR;

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

/* MiB at which a log file goes on anew; 0: never. Not set, it is the user's
 * own file, all of which he may want. */
static uint64_t
bound(void)
{
	const char *set = getenv("MPSSHIM_LOG_MB");

	return set ? strtoull(set, NULL, 10) << 20 : 0;
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
		if (colon && colon[1] && !log_file_is_open())
			log_file_open(colon + 1, bound());
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
	if (pthread_sigmask(SIG_BLOCK, &mask, &old))
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

static void
put(const char *text, size_t size)
{
	int fd;

	if (!log_file_is_open()) {
		quiet_write(STDERR_FILENO, text, size);
		return;
	}
	fd = log_file_take();
	if (fd < 0)
		return;
	quiet_write(fd, text, size);
	if (log_file_was_lost())
		quiet_write(fd, text, size);
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
	put(text, (size_t)(head + body) + 1);
	errno = saved;
}
