/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker and the driver in it write to stdout and stderr: to the log,
 * and what is about an assertion is kept for whom it concerns.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "proto/log.h"
#include "server/broker/broker.h"
#include "server/broker/worker.h"

/* What every line of the driver about a failed assertion holds. */
#define ASSERTION "Assertion `"
/* Of its output that a line of the log has room for. */
#define LOGGED 960u

/* In pieces that a line of the log holds. */
static void
log_output_line(const struct brk_worker *worker)
{
	size_t at = 0, piece;

	do {
		piece = worker->line_size - at;
		if (piece > LOGGED)
			piece = LOGGED;
		log_line(LOG_WARN, "worker %d: %.*s", (int)worker->pid,
			 (int)piece, worker->line + at);
		at += piece;
	} while (at < worker->line_size);
}

/* The driver's words when an assertion fails, one line for each thread; the
 * first ones are enough. */
static void
keep_assertion(struct brk_worker *worker)
{
	size_t size = worker->line_size;
	char *end = worker->text + worker->text_size;

	if (!memmem(worker->line, size, ASSERTION, strlen(ASSERTION)) ||
	    worker->text_size + size + 2 > sizeof(worker->text))
		return;
	memcpy(end, worker->line, size);
	memcpy(end + size, "\n", 2);
	worker->text_size += size + 1;
}

static void
log_output(struct brk_worker *worker, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		bool full = worker->line_size == sizeof(worker->line);

		if (text[i] == '\n' || full) {
			log_output_line(worker);
			keep_assertion(worker);
			worker->line_size = 0;
		}
		if (text[i] != '\n')
			worker->line[worker->line_size++] =
				(unsigned char)text[i] < ' ' ? ' ' : text[i];
	}
}

void
brk_worker_end_line(struct brk_worker *worker)
{
	if (worker->line_size)
		log_output(worker, "\n", 1);
}

bool
brk_worker_read(struct brk_worker *worker)
{
	char text[4096];
	ssize_t n;

	if (worker->output.fd < 0)
		return false;
	n = read(worker->output_fd, text, sizeof(text));
	if (n > 0)
		log_output(worker, text, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		brk_loop_remove(&worker->broker->loop, &worker->output);
	return n > 0;
}
