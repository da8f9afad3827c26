/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to the broker that asks and is no client.
 * Used by mpsctl and by nvidia-cuda-mps-control.
 */
#ifndef CTL_ASK_H
#define CTL_ASK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/sock.h"

enum { CTL_ANSWER_MS = 10000 };

struct ctl_broker {
	char dir[PATH_MAX], path[PATH_MAX];
	int fd;
	char why[2 * PATH_MAX + 256];   /* one line, after a failure */
};

/* Connect and greet as `name`: the answer, to be freed, or NULL. */
Mps__Control *ctl_connect(struct ctl_broker *broker, const char *name);
/* Ask and wait at most timeout_ms (-1: for ever): the answer, which is of the
 * wanted kind and to be freed, or NULL. */
Mps__Control *ctl_ask(struct ctl_broker *broker, Mps__Control *question,
		      Mps__Control__BodyCase wanted, int timeout_ms);
Mps__Control *ctl_ask_status(struct ctl_broker *broker);
/* What Done answers: its CUresult, after a line on stderr if it is an error
 * with words; -EPIPE without an answer. */
int ctl_ask_done(struct ctl_broker *broker, Mps__Control *question,
		 int timeout_ms);
/* The same for the broker's end, which is then to be waited for. */
int ctl_quit(struct ctl_broker *broker, bool force);
/* Until the broker closes the connection, which is its end. 0, -ETIMEDOUT
 * after timeout_ms (-1: never), or -EPROTO when it says something instead. */
int ctl_await_end(struct ctl_broker *broker, int timeout_ms);

#endif
