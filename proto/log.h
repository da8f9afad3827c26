/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines: to stderr, or to the file that MPSSHIM_LOG names.
 * Used by every program; in a guest process nothing is printed below
 * `warn` unless the user asked.
 *
 * MPSSHIM_LOG=LEVEL or LEVEL:PATH with LEVEL error, warn, info, debug.
 * With MPSSHIM_LOG_MB=N the file goes on anew at N MiB, and PATH.1 is what was.
 * A line is one write(2): "mpsshim[PID] LEVEL: text". Writing never raises
 * SIGPIPE or SIGXFSZ in the host and a failed write loses the line only.
 */
#ifndef PROTO_LOG_H
#define PROTO_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Read MPSSHIM_LOG; `name` opens every line ("mpsd"), default_level rules
 * when the variable is unset. Safe to call again. */
void log_init(const char *name, enum log_level default_level);
bool log_enabled(enum log_level level);
void log_line(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* On stderr as it is, whatever the level and wherever the log goes. */
void log_text(const char *text, size_t size);
/* At most once per call site and process. */
#define log_once(level, ...) \
	do { \
		static _Atomic int once_; \
		if (!__atomic_exchange_n((int *)&once_, 1, __ATOMIC_RELAXED)) \
			log_line(level, __VA_ARGS__); \
	} while (0)

#endif
