/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/sock.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static int pair[2];
static int descriptors;

static void
setup(void)
{
	descriptors = suite_descriptors();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				    pair), 0);
}

static void
teardown(void)
{
	close(pair[0]);
	close(pair[1]);
	ck_assert_int_eq(suite_descriptors(), descriptors);
}

static int
send_ping(uint64_t id, const int *fds, int nfds)
{
	Mps__Control control = MPS__CONTROL__INIT;
	Mps__Done done = MPS__DONE__INIT;

	control.id = id;
	control.body_case = MPS__CONTROL__BODY_DONE;
	control.done = &done;
	done.message = (char *)"text";
	return sock_send_control(pair[0], &control, fds, nfds, 1000);
}

START_TEST(sock_carries_a_message_and_its_descriptors)
{
	int fds[2] = {open("/dev/null", O_RDONLY | O_CLOEXEC),
		      open("/dev/zero", O_RDONLY | O_CLOEXEC)};
	int got[4], n = 4;
	Mps__Control *message;
	struct stat a, b;

	ck_assert_int_eq(send_ping(7, fds, 2), 0);
	ck_assert_int_eq(sock_recv_control(pair[1], &message, got, &n, 1000),
			 0);
	ck_assert_uint_eq(message->id, 7);
	ck_assert_str_eq(message->done->message, "text");
	ck_assert_int_eq(n, 2);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(fstat(fds[i], &a), 0);
		ck_assert_int_eq(fstat(got[i], &b), 0);
		ck_assert_uint_eq(a.st_rdev, b.st_rdev);
		ck_assert_int_ne(fcntl(got[i], F_GETFD) & FD_CLOEXEC, 0);
		close(fds[i]);
		close(got[i]);
	}
	mps__control__free_unpacked(message, NULL);
}
END_TEST

START_TEST(sock_closes_descriptors_that_nobody_asked_for)
{
	int fds[2] = {dup(0), dup(0)};
	Mps__Control *message;

	ck_assert_int_eq(send_ping(1, fds, 2), 0);
	ck_assert_int_eq(sock_recv_control(pair[1], &message, NULL, NULL,
					   1000), 0);
	mps__control__free_unpacked(message, NULL);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

START_TEST(sock_wait_ends_at_its_deadline_and_at_end_of_file)
{
	Mps__Control *message;

	ck_assert_int_eq(sock_recv_control(pair[1], &message, NULL, NULL, 30),
			 -ETIMEDOUT);
	shutdown(pair[0], SHUT_RDWR);
	ck_assert_int_eq(sock_recv_control(pair[1], &message, NULL, NULL, 30),
			 -EPIPE);
	ck_assert_int_eq(send_ping(1, NULL, 0), -EPIPE);
}
END_TEST

START_TEST(sock_reader_takes_frames_cut_into_single_bytes)
{
	struct sock_reader reader;
	struct frame_header header;
	const uint8_t *payload;
	uint8_t bytes[64];
	ssize_t n;

	ck_assert_int_eq(send_ping(9, NULL, 0), 0);
	n = read(pair[1], bytes, sizeof(bytes));
	ck_assert_int_gt(n, 8);
	sock_reader_init(&reader, pair[1]);
	for (ssize_t i = 0; i < n; i++) {
		ck_assert_int_eq(sock_reader_fill(&reader), 0);
		ck_assert_int_eq(sock_reader_next(&reader, &header, &payload),
				 SOCK_E_MORE);
		ck_assert_int_eq(write(pair[0], bytes + i, 1), 1);
	}
	ck_assert_int_eq(sock_reader_fill(&reader), 0);
	ck_assert_int_eq(sock_reader_next(&reader, &header, &payload), 0);
	ck_assert_uint_eq(header.size, (unsigned)n - 8);
	ck_assert_int_eq(sock_reader_next(&reader, &header, &payload),
			 SOCK_E_MORE);
	sock_reader_fini(&reader);
}
END_TEST

START_TEST(sock_reader_keeps_and_closes_descriptors)
{
	struct sock_reader reader;
	int fds[2] = {dup(0), dup(0)}, one;

	sock_reader_init(&reader, pair[1]);
	ck_assert_int_eq(send_ping(1, fds, 2), 0);
	ck_assert_int_eq(sock_reader_fill(&reader), 0);
	one = sock_reader_take_fd(&reader);
	ck_assert_int_ge(one, 0);
	close(one);
	sock_reader_fini(&reader);
	ck_assert_int_eq(sock_reader_take_fd(&reader), -1);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

START_TEST(sock_reader_refuses_hostile_headers)
{
	const struct frame_header bad[] = {
		{.size = FRAME_MAX, .type = FRAME_CONTROL},
		{.size = UINT32_MAX, .type = FRAME_CALL},
		{.size = 0, .type = 0},
		{.size = 0, .type = 200},
		{.size = 1, .type = FRAME_NUDGE},
		{.size = 0, .type = FRAME_CALL, .lane = 2},
		{.size = 0, .type = FRAME_CALL, .zero = 1},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sock_reader reader;
		struct frame_header header;
		const uint8_t *payload;

		sock_reader_init(&reader, pair[1]);
		ck_assert_int_eq(write(pair[0], &bad[i], sizeof(bad[i])), 8);
		ck_assert_int_eq(sock_reader_fill(&reader), 0);
		ck_assert_int_eq(sock_reader_next(&reader, &header, &payload),
				 -EBADMSG);
		sock_reader_fini(&reader);
	}
}
END_TEST

START_TEST(sock_listener_replaces_a_stale_socket_only)
{
	char dir[] = "/tmp/check_sock.XXXXXX", path[64];
	int a, b;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	a = sock_listen(path);
	ck_assert_int_ge(a, 0);
	ck_assert_int_eq(sock_listen(path), -EADDRINUSE);
	close(a);
	b = sock_listen(path);
	ck_assert_int_ge(b, 0);
	close(b);
	unlink(path);
	rmdir(dir);
}
END_TEST

START_TEST(sock_path_of_more_than_107_bytes_is_refused)
{
	char dir[256], path[512], longer[120];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = 0;
	setenv("CUDA_MPS_PIPE_DIRECTORY", longer, 1);
	ck_assert_int_eq(sock_paths(dir, sizeof(dir), path, sizeof(path)),
			 -ENAMETOOLONG);
	longer[107 - 8] = 0;  /* "/mpsshim" is 8 bytes */
	setenv("CUDA_MPS_PIPE_DIRECTORY", longer, 1);
	ck_assert_int_eq(sock_paths(dir, sizeof(dir), path, sizeof(path)), 0);
	ck_assert_uint_eq(strlen(path), 107);
}
END_TEST

START_TEST(sock_directory_is_named_whole_and_exists)
{
	char dir[256], path[512], here[200], want[256];

	ck_assert_int_eq(chdir("/tmp"), 0);
	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	setenv("CUDA_MPS_PIPE_DIRECTORY", "some/where", 1);
	ck_assert_int_eq(sock_paths(dir, sizeof(dir), path, sizeof(path)),
			 -EINVAL);
	ck_assert_int_eq(sock_settle(), 0);
	ck_assert_int_eq(sock_paths(dir, sizeof(dir), path, sizeof(path)), 0);
	snprintf(want, sizeof(want), "%s/some/where", here);
	ck_assert_str_eq(dir, want);
	unsetenv("CUDA_MPS_PIPE_DIRECTORY");
	setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
	ck_assert_int_eq(sock_paths(dir, sizeof(dir), path, sizeof(path)), 0);
	snprintf(want, sizeof(want), "/tmp/mpsshim-%u", (unsigned)geteuid());
	ck_assert_str_eq(dir, want);
	setenv("XDG_RUNTIME_DIR", "/tmp", 1);
	ck_assert_int_eq(sock_paths(dir, sizeof(dir), path, sizeof(path)), 0);
	ck_assert_str_eq(dir, "/tmp/mpsshim");
}
END_TEST

START_TEST(sock_directory_is_ours_or_refused)
{
	char dir[] = "/tmp/check_sock.XXXXXX", link[64];

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(sock_directory(dir), 0);
	snprintf(link, sizeof(link), "%s/link", dir);
	ck_assert_int_eq(symlink(dir, link), 0);
	ck_assert_int_eq(sock_directory(link), -ENOTDIR);
	unlink(link);
	ck_assert_int_eq(chmod(dir, 0770), 0);
	ck_assert_int_eq(sock_directory(dir), -EPERM);
	ck_assert_int_eq(chmod(dir, 0755), 0);
	ck_assert_int_eq(sock_directory(dir), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(dir, 12345, 12345), 0);
		ck_assert_int_eq(sock_directory(dir), -EPERM);
	}
	rmdir(dir);
}
END_TEST

SUITE_FIXTURE("sock", setup, teardown,
	sock_carries_a_message_and_its_descriptors,
	sock_closes_descriptors_that_nobody_asked_for,
	sock_wait_ends_at_its_deadline_and_at_end_of_file,
	sock_reader_takes_frames_cut_into_single_bytes,
	sock_reader_keeps_and_closes_descriptors,
	sock_reader_refuses_hostile_headers,
	sock_listener_replaces_a_stale_socket_only,
	sock_path_of_more_than_107_bytes_is_refused,
	sock_directory_is_named_whole_and_exists,
	sock_directory_is_ours_or_refused)
