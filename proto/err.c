/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a failure begins and passes, one debug line each.
 */
#include "proto/err.h"

#include <string.h>

#include "proto/log.h"

int
err_note(int r, bool origin, const char *file, int line, const char *func)
{
	if (r < 0 && log_enabled(LOG_DEBUG))
		log_line(LOG_DEBUG, "%s %s:%d %s(): %s",
			 origin ? "failed at" : "     from", file, line,
			 func, err_text(r));
	return r;
}

/* strerror() is not safe with threads before glibc 2.32, and the names that
 * are came with it; the floor is 2.28. */
const char *
err_text(int r)
{
	static _Thread_local char text[64];

	return strerror_r(-r, text, sizeof(text));
}
