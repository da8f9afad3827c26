/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets at their edges: no memory, no descriptors, no room, interrupted
 * calls, peers that stop in the middle. Linked with malloc, sendmsg and
 * recvmsg wrapped, so that they fail when a test says so.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/broker/conn.h"
#include "tests/unit/suite.h"

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);

static bool no_memory, interrupted;

void *
__wrap_malloc(size_t size)
{
	return no_memory ? NULL : __real_malloc(size);
}

ssize_t
__wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (interrupted) {
		interrupted = false;
		errno = EINTR;
		return -1;
	}
	return __real_sendmsg(fd, msg, flags);
}

ssize_t
__wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (interrupted) {
		interrupted = false;
		errno = EINTR;
		return -1;
	}
	return __real_recvmsg(fd, msg, flags);
}

static int pair[2];
static struct brk_loop loop;
static struct brk_conn conn;
static int end_reason;

static void
setup(void)
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				    pair), 0);
	ck_assert_int_eq(brk_loop_init(&loop), 0);
}

static void
teardown(void)
{
	no_memory = false;
	close(pair[0]);
	close(pair[1]);
	brk_loop_fini(&loop);
}

/* From here on no further descriptor can be had. */
static void
use_up_descriptors(void)
{
	struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static Mps__Control control = MPS__CONTROL__INIT;
static Mps__Done done = MPS__DONE__INIT;

static Mps__Control *
message(const char *text)
{
	control.body_case = MPS__CONTROL__BODY_DONE;
	control.done = &done;
	done.message = (char *)text;
	return &control;
}

/* ---- paths ----------------------------------------------------------------*/

START_TEST(directory_is_the_variable_or_the_users_own)
{
	char dir[64], path[108], many[200];

	setenv("CUDA_MPS_PIPE_DIRECTORY", "", 1);
	setenv("XDG_RUNTIME_DIR", "/tmp", 1);
	ck_assert_int_eq(sock_paths(dir, sizeof(dir), path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/tmp/mpsshim/mpsshim");
	unsetenv("XDG_RUNTIME_DIR");
	ck_assert_int_eq(sock_paths(dir, sizeof(dir), path, sizeof(path)), 0);
	ck_assert_int_eq(strncmp(dir, "/tmp/mpsshim-", 13), 0);
	memset(many, 'x', sizeof(many));
	many[0] = '/';
	many[sizeof(many) - 1] = 0;
	setenv("CUDA_MPS_PIPE_DIRECTORY", many, 1);
	ck_assert_int_eq(sock_paths(dir, sizeof(dir), path, sizeof(path)),
			 -ENAMETOOLONG);
	ck_assert_int_eq(sock_connect(many), -ENAMETOOLONG);
	ck_assert_int_eq(sock_listen(many), -ENAMETOOLONG);
}
END_TEST

START_TEST(what_cannot_be_made_is_an_error)
{
	ck_assert_int_eq(sock_directory("/nowhere/at/all"), -ENOENT);
	ck_assert_int_eq(sock_directory("/dev/null"), -ENOTDIR);
	ck_assert_int_eq(sock_listen("/nowhere/at/all"), -ENOENT);
	use_up_descriptors();
	ck_assert_int_eq(sock_connect("/nowhere/at/all"), -EMFILE);
	ck_assert_int_eq(sock_listen("/nowhere/at/all"), -EMFILE);
}
END_TEST

/* ---- whole messages -------------------------------------------------------*/

START_TEST(sending_ends_when_there_is_no_room)
{
	static uint8_t bytes[4096];
	int fds[SOCK_MAX_FDS + 1] = {0}, r;

	ck_assert_int_eq(sock_send_control(pair[0], message("x"), fds,
					   SOCK_MAX_FDS + 1, 10), -EMSGSIZE);
	no_memory = true;
	r = sock_send_control(pair[0], message("x"), NULL, 0, 10);
	no_memory = false;
	ck_assert_int_eq(r, -ENOMEM);
	interrupted = true;
	do
		r = sock_write(pair[0], bytes, sizeof(bytes), 10);
	while (!r);
	ck_assert_int_eq(r, -ETIMEDOUT);
}
END_TEST

static int
receive(void)
{
	int fds[2], nfds = 2, before = suite_descriptors(), r;
	Mps__Control *m;

	r = sock_recv_control(pair[1], &m, fds, &nfds, 1000);
	ck_assert_int_lt(r, 0);
	ck_assert_int_eq(nfds, 0);
	ck_assert_int_eq(suite_descriptors(), before);
	return r;
}

static void
send_frame(uint8_t type, uint32_t says, size_t size)
{
	struct {
		struct frame_header header;
		uint8_t body[64];
	} f = {{.size = says, .type = type}, {0xff, 0xff, 0xff}};

	ck_assert_int_eq(write(pair[0], &f, sizeof(f.header) + size),
			 (ssize_t)(sizeof(f.header) + size));
}

START_TEST(a_frame_of_another_type_is_no_message)
{
	send_frame(FRAME_CALL, 3, 3);
	ck_assert_int_eq(receive(), -EBADMSG);
}
END_TEST

START_TEST(junk_is_no_message)
{
	interrupted = true;
	send_frame(FRAME_CONTROL, 3, 3);
	ck_assert_int_eq(receive(), -EBADMSG);
}
END_TEST

START_TEST(a_message_that_stops_in_the_middle_ends_at_its_deadline)
{
	int fd = 0;

	ck_assert_int_eq(sock_send_control(pair[0], message("x"), &fd, 1, 10),
			 0);
	/* The first byte of the next brings nothing along. */
	send_frame(FRAME_CONTROL, 60, 3);
	shutdown(pair[0], SHUT_WR);
	ck_assert_int_eq(recv(pair[1], &(char[8]){0}, 8, 0), 8);
	ck_assert_int_lt(receive(), 0);
}
END_TEST

START_TEST(a_message_without_memory_is_an_error_and_leaks_nothing)
{
	int fd = 0, fds[2], nfds = 2, r;
	Mps__Control *m;

	ck_assert_int_eq(sock_send_control(pair[0], message("x"), &fd, 1, 10),
			 0);
	no_memory = true;
	r = sock_recv_control(pair[1], &m, fds, &nfds, 1000);
	no_memory = false;
	ck_assert_int_eq(r, -ENOMEM);
	ck_assert_int_eq(nfds, 0);
}
END_TEST

START_TEST(a_reader_takes_no_more_than_it_can_hold)
{
	static uint8_t bytes[FRAME_MAX];
	struct sock_reader reader;
	int r;

	sock_reader_init(&reader, pair[1]);
	no_memory = true;
	r = sock_reader_fill(&reader);
	no_memory = false;
	ck_assert_int_eq(r, -ENOMEM);
	for (int i = 0; i < 40; i++) {
		send(pair[0], bytes, sizeof(bytes), MSG_DONTWAIT);
		ck_assert_int_eq(sock_reader_fill(&reader), 0);
	}
	ck_assert_uint_eq(reader.size, reader.cap);
	sock_reader_fini(&reader);
}
END_TEST

/* ---- the broker's connections ---------------------------------------------*/

static int
on_frame(struct brk_conn *c, const Mps__Control *m)
{
	(void)c;
	(void)m;
	return 0;
}

static void
on_end(struct brk_conn *c, int reason)
{
	(void)c;
	end_reason = reason;
}

static void
open_conn(size_t limit)
{
	int fd = fcntl(pair[0], F_DUPFD_CLOEXEC, 3);

	ck_assert_int_eq(brk_conn_init(&conn, &loop, fd, limit), 0);
	conn.on_frame = on_frame;
	conn.on_end = on_end;
	end_reason = 0;
}

/* Until something has to wait. */
static void
fill(void)
{
	static char text[2048];
	int fds[2] = {0, 1};

	memset(text, 'x', sizeof(text) - 1);
	while (TAILQ_EMPTY(&conn.out) && !conn.failed)
		brk_conn_send(&conn, message(text), fds, 2);
	/* One whole message with its descriptors behind that. */
	brk_conn_send(&conn, message(text), fds, 2);
}

static void
turn(uint32_t events)
{
	conn.source.dispatch(&conn.source, events);
}

START_TEST(answers_wait_for_a_slow_reader_and_then_go)
{
	char bytes[65536];

	open_conn(1 << 20);
	fill();
	ck_assert_int_eq(conn.failed, 0);
	brk_conn_finish(&conn);
	for (int i = 0; i < 1000 && !end_reason; i++) {
		while (recv(pair[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			continue;
		turn(EPOLLOUT);
	}
	ck_assert_int_eq(end_reason, -ESHUTDOWN);
	brk_conn_fini(&conn);
	brk_conn_fini(&conn);
}
END_TEST

START_TEST(who_reads_nothing_loses_the_connection)
{
	open_conn(8192);
	for (int i = 0; i < 100; i++)
		fill();
	ck_assert_int_eq(conn.failed, -ENOBUFS);
	turn(EPOLLIN);
	ck_assert_int_eq(end_reason, -ENOBUFS);
	brk_conn_fini(&conn);
}
END_TEST

START_TEST(what_waits_is_dropped_when_the_peer_goes)
{
	open_conn(1 << 20);
	fill();
	close(pair[1]);
	/* It may have said something before, which is read first. */
	turn(EPOLLOUT);
	ck_assert(TAILQ_EMPTY(&conn.out));
	ck_assert_int_eq(end_reason, 0);
	turn(EPOLLIN | EPOLLOUT | EPOLLHUP);
	/* -ECONNRESET where the peer has left something unread. */
	ck_assert_int_lt(end_reason, 0);
	brk_conn_fini(&conn);
}
END_TEST

START_TEST(an_answer_that_cannot_be_made_ends_the_connection)
{
	static char text[FRAME_MAX];

	memset(text, 'x', sizeof(text) - 1);
	open_conn(1 << 20);
	interrupted = true;
	brk_conn_send(&conn, message("x"), NULL, 0);
	ck_assert_int_eq(conn.failed, 0);
	brk_conn_send(&conn, message(text), NULL, 0);
	ck_assert_int_eq(conn.failed, -EMSGSIZE);
	brk_conn_send(&conn, message("x"), NULL, 0);
	brk_conn_fini(&conn);
	open_conn(1 << 20);
	no_memory = true;
	brk_conn_send(&conn, message("x"), NULL, 0);
	no_memory = false;
	ck_assert_int_eq(conn.failed, -ENOMEM);
	brk_conn_fini(&conn);
}
END_TEST

START_TEST(no_descriptor_for_a_waiting_answer_ends_the_connection)
{
	open_conn(1 << 20);
	use_up_descriptors();
	fill();
	/* EINVAL: the lowest number allowed is over the limit. */
	ck_assert(conn.failed == -EMFILE || conn.failed == -EINVAL);
	brk_conn_fini(&conn);
}
END_TEST

START_TEST(no_connection_without_a_socket)
{
	ck_assert_int_lt(brk_conn_init(&conn, &loop, -1, 1), 0);
	brk_conn_fini(&conn);
}
END_TEST

SUITE_FIXTURE("edges", setup, teardown,
	      directory_is_the_variable_or_the_users_own,
	      what_cannot_be_made_is_an_error,
	      sending_ends_when_there_is_no_room,
	      a_frame_of_another_type_is_no_message,
	      junk_is_no_message,
	      a_message_that_stops_in_the_middle_ends_at_its_deadline,
	      a_message_without_memory_is_an_error_and_leaks_nothing,
	      a_reader_takes_no_more_than_it_can_hold,
	      answers_wait_for_a_slow_reader_and_then_go,
	      who_reads_nothing_loses_the_connection,
	      what_waits_is_dropped_when_the_peer_goes,
	      an_answer_that_cannot_be_made_ends_the_connection,
	      no_descriptor_for_a_waiting_answer_ends_the_connection,
	      no_connection_without_a_socket)
