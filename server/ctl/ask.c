/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ctl/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"

__attribute__((format(printf, 2, 3))) static Mps__Control *
failed(struct ctl_broker *broker, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(broker->why, sizeof(broker->why), format, args);
	va_end(args);
	return NULL;
}

Mps__Control *
ctl_ask(struct ctl_broker *broker, Mps__Control *question,
	Mps__Control__BodyCase wanted, int timeout_ms)
{
	Mps__Control *answer;
	int r;

	r = sock_send_control(broker->fd, question, NULL, 0, CTL_ANSWER_MS);
	if (!r)
		r = sock_recv_control(broker->fd, &answer, NULL, NULL,
				      timeout_ms);
	if (r < 0)
		return failed(broker, "the broker at %s does not answer: %s",
			      broker->path, r == -EPIPE ?
			      "it closed the connection" : strerror(-r));
	if (answer->body_case != wanted) {
		mps__control__free_unpacked(answer, NULL);
		return failed(broker, "what listens at %s is no broker of ours",
			      broker->path);
	}
	return answer;
}

/* Out of the way of stdout and stderr, which the caller may have closed. */
static int
connect_high(const char *path)
{
	int low = sock_connect(path), high;

	if (low < 0 || low > 2)
		return low;
	high = fcntl(low, F_DUPFD_CLOEXEC, 3);
	if (high < 0)
		high = -errno;
	close(low);
	return high;
}

static Mps__Control *
greet(struct ctl_broker *broker, const char *name)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Hello hello = MPS__HELLO__INIT;

	hello.wire = WIRE_NUMBER;
	hello.exe = (char *)name;
	hello.ask_only = true;
	hello.pid = getpid();
	question.body_case = MPS__CONTROL__BODY_HELLO;
	question.hello = &hello;
	answer = ctl_ask(broker, &question, MPS__CONTROL__BODY_HELLO_REPLY,
			 CTL_ANSWER_MS);
	if (answer && answer->hello_reply->status) {
		failed(broker, "the broker at %s refuses: %s", broker->path,
		       answer->hello_reply->message);
		mps__control__free_unpacked(answer, NULL);
		return NULL;
	}
	return answer;
}

Mps__Control *
ctl_connect(struct ctl_broker *broker, const char *name)
{
	Mps__Control *answer;
	int r;

	broker->fd = -1;
	r = sock_settle();
	if (r < 0)
		return failed(broker, "the working directory: %s",
			      strerror(-r));
	r = sock_paths(broker->dir, sizeof(broker->dir), broker->path,
		       sizeof(broker->path));
	if (r < 0)
		return failed(broker, "the socket's path is longer than the "
			      "system's 107 bytes: %s", broker->dir);
	broker->fd = connect_high(broker->path);
	if (broker->fd < 0)
		return failed(broker, "no broker at %s: %s", broker->path,
			      strerror(-broker->fd));
	answer = greet(broker, name);
	if (!answer) {
		close(broker->fd);
		broker->fd = -1;
	}
	return answer;
}

Mps__Control *
ctl_ask_status(struct ctl_broker *broker)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Status status = MPS__STATUS__INIT;

	question.id = 2;
	question.body_case = MPS__CONTROL__BODY_STATUS;
	question.status = &status;
	return ctl_ask(broker, &question, MPS__CONTROL__BODY_STATUS_REPLY,
		       CTL_ANSWER_MS);
}

int
ctl_ask_done(struct ctl_broker *broker, Mps__Control *question, int timeout_ms)
{
	Mps__Control *answer = ctl_ask(broker, question,
				       MPS__CONTROL__BODY_DONE, timeout_ms);
	int status;

	if (!answer)
		return -EPIPE;
	status = (int)answer->done->status;
	if (status && *answer->done->message)
		fprintf(stderr, "%s\n", answer->done->message);
	mps__control__free_unpacked(answer, NULL);
	return status;
}

int
ctl_quit(struct ctl_broker *broker, bool force)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Quit quit = MPS__QUIT__INIT;

	quit.force = force;
	question.body_case = MPS__CONTROL__BODY_QUIT;
	question.quit = &quit;
	return ctl_ask_done(broker, &question, CTL_ANSWER_MS);
}

int
ctl_await_end(struct ctl_broker *broker, int timeout_ms)
{
	Mps__Control *answer;
	int r = sock_recv_control(broker->fd, &answer, NULL, NULL, timeout_ms);

	if (!r)
		mps__control__free_unpacked(answer, NULL);
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	return r == -ETIMEDOUT ? r : -EPROTO;
}
