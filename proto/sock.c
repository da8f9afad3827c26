/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames and descriptors over Unix stream sockets.
 */
#include "proto/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proto/err.h"

#define SOCKET_NAME "mpsshim"

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* Wait for events on fd until deadline (now_ms; negative: for ever). */
static int
wait_for(int fd, short events, int64_t deadline)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = events};
		int64_t left = deadline < 0 ? -1 : deadline - now_ms();
		int n;

		if (deadline >= 0 && left < 0)
			left = 0;
		n = poll(&p, 1, left > INT32_MAX ? INT32_MAX : (int)left);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_origin(-errno);
		/* Not before a look: we may have been stopped meanwhile. */
		if (deadline >= 0 && now_ms() >= deadline)
			return -ETIMEDOUT;
	}
}

static int64_t
deadline_of(int timeout_ms)
{
	return timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
}

int
sock_settle(void)
{
	const char *set = getenv("CUDA_MPS_PIPE_DIRECTORY");
	_cleanup_free_ char *here = NULL, *whole = NULL;

	if (!set || !*set || *set == '/')
		return 0;
	here = getcwd(NULL, 0);
	if (!here)
		return err_origin(-errno);
	if (asprintf(&whole, "%s/%s", here, set) < 0 ||
	    setenv("CUDA_MPS_PIPE_DIRECTORY", whole, 1) < 0)
		return err_origin(-ENOMEM);
	return 0;
}

int
sock_paths(char *dir, size_t dir_size, char *path, size_t path_size)
{
	const char *set = getenv("CUDA_MPS_PIPE_DIRECTORY");
	const char *run = getenv("XDG_RUNTIME_DIR");
	int n;

	/* su, cron and containers leave a variable that names nothing. */
	if (run && access(run, X_OK) < 0)
		run = NULL;
	if (set && *set && *set != '/')
		return -EINVAL;
	if (set && *set)
		n = snprintf(dir, dir_size, "%s", set);
	else if (run && *run)
		n = snprintf(dir, dir_size, "%s/mpsshim", run);
	else
		n = snprintf(dir, dir_size, "/tmp/mpsshim-%u",
			     (unsigned)geteuid());
	if (n < 0 || (size_t)n >= dir_size)
		return -ENAMETOOLONG;
	n = snprintf(path, path_size, "%s/" SOCKET_NAME, dir);
	if (n < 0 || (size_t)n >= path_size ||
	    (size_t)n >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return -ENAMETOOLONG;
	return 0;
}

static int
address(const char *path, struct sockaddr_un *out)
{
	memset(out, 0, sizeof(*out));
	out->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(out->sun_path))
		return err_origin(-ENAMETOOLONG);
	memcpy(out->sun_path, path, strlen(path) + 1);
	return 0;
}

int
sock_connect(const char *path)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un addr;
	int r = address(path, &addr);

	if (r < 0)
		return err_trace(r);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_origin(-errno);
	while (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return steal_fd(&fd);
}

int
sock_listen(const char *path)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un addr;
	mode_t mask;
	int r = address(path, &addr);

	if (r < 0)
		return err_trace(r);
	r = sock_connect(path);
	if (r >= 0) {
		close(r);
		return -EADDRINUSE;
	}
	if (r == -ECONNREFUSED && unlink(path) < 0 && errno != ENOENT)
		return err_origin(-errno);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_origin(-errno);
	mask = umask(0177);
	r = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	umask(mask);
	if (r < 0)
		return err_origin(r);
	if (listen(fd, SOMAXCONN) < 0)
		return err_origin(-errno);
	return steal_fd(&fd);
}

int
sock_directory(const char *dir)
{
	struct stat st;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(dir, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	/* Who may write in it could put another socket there. */
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return 0;
}

/* sendmsg with a deadline; descriptors go with the first byte. */
static int
send_all(int fd, const uint8_t *data, size_t size, const int *fds, int nfds,
	 int timeout_ms)
{
	int64_t deadline = deadline_of(timeout_ms);
	union {
		char space[CMSG_SPACE(sizeof(int) * SOCK_MAX_FDS)];
		struct cmsghdr align;
	} control;

	while (size) {
		struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
		struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
		ssize_t n;
		int r;

		if (nfds) {
			struct cmsghdr *c;

			memset(&control, 0, sizeof(control));
			msg.msg_control = &control;
			msg.msg_controllen =
				CMSG_SPACE(sizeof(int) * (size_t)nfds);
			c = CMSG_FIRSTHDR(&msg);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
			memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)nfds);
		}
		n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			data += n;
			size -= (size_t)n;
			nfds = 0;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return err_origin(-errno);
		r = wait_for(fd, POLLOUT, deadline);
		if (r < 0)
			return r;
	}
	return 0;
}

int
sock_write(int fd, const void *data, size_t size, int timeout_ms)
{
	return send_all(fd, data, size, NULL, 0, timeout_ms);
}

int
sock_send_control(int fd, const Mps__Control *message, const int *fds,
		  int nfds, int timeout_ms)
{
	size_t size = mps__control__get_packed_size(message);
	_cleanup_free_ uint8_t *buf = NULL;
	struct frame_header header;

	if (size > FRAME_MAX - sizeof(header) || nfds > SOCK_MAX_FDS)
		return err_origin(-EMSGSIZE);
	buf = malloc(sizeof(header) + size);
	if (!buf)
		return err_origin(-ENOMEM);
	header = (struct frame_header){
		.size = (uint32_t)size, .type = FRAME_CONTROL,
	};
	memcpy(buf, &header, sizeof(header));
	mps__control__pack(message, buf + sizeof(header));
	return send_all(fd, buf, sizeof(header) + size, fds, nfds, timeout_ms);
}

/* Keep the descriptors of a received message, up to cap; close the rest. */
static void
take_fds(struct msghdr *msg, int *fds, int *count, int cap)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(fd));
			if (*count < cap)
				fds[(*count)++] = fd;
			else
				close(fd);
		}
	}
}

/* One recvmsg. Bytes read, 0 at end-of-file, -errno (-EAGAIN too). */
static ssize_t
recv_some(int fd, void *buf, size_t size, int *fds, int *count, int cap)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * 253)];  /* SCM_MAX_FD */
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	ssize_t n;

	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	take_fds(&msg, fds, count, cap);
	return n;
}

static int
recv_exact(int fd, uint8_t *buf, size_t size, int *fds, int *count, int cap,
	   int64_t deadline)
{
	while (size) {
		ssize_t n = recv_some(fd, buf, size, fds, count, cap);

		if (n > 0) {
			buf += n;
			size -= (size_t)n;
		} else if (n == 0) {
			return -EPIPE;
		} else if (n != -EAGAIN) {
			return err_origin((int)n);
		} else {
			int r = wait_for(fd, POLLIN, deadline);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

int
sock_recv_control(int fd, Mps__Control **out_message, int *fds, int *out_nfds,
		  int timeout_ms)
{
	int64_t deadline = deadline_of(timeout_ms);
	int cap = out_nfds ? *out_nfds : 0, count = 0, r;
	_cleanup_free_ uint8_t *buf = NULL;
	Mps__Control *message = NULL;
	struct frame_header header;

	r = recv_exact(fd, (uint8_t *)&header, sizeof(header), fds, &count,
		       cap, deadline);
	if (r < 0)
		goto out_fds;
	r = frame_header_check(&header);
	if (r < 0 || header.type != FRAME_CONTROL) {
		r = err_origin(-EBADMSG);
		goto out_fds;
	}
	buf = malloc(header.size ? header.size : 1);
	if (!buf) {
		r = err_origin(-ENOMEM);
		goto out_fds;
	}
	r = recv_exact(fd, buf, header.size, fds, &count, cap, deadline);
	if (r < 0)
		goto out_fds;
	message = mps__control__unpack(NULL, header.size, buf);
	if (!message) {
		r = err_origin(-EBADMSG);
		goto out_fds;
	}
	*out_message = message;
	if (out_nfds)
		*out_nfds = count;
	return 0;
out_fds:
	while (count)
		close(fds[--count]);
	if (out_nfds)
		*out_nfds = 0;
	return r;
}

void
sock_reader_init(struct sock_reader *reader, int fd)
{
	*reader = (struct sock_reader){.fd = fd};
}

void
sock_reader_fini(struct sock_reader *reader)
{
	while (reader->nfds)
		close(reader->fds[--reader->nfds]);
	free(reader->buf);
	reader->buf = NULL;
	reader->size = reader->cap = reader->taken = 0;
}

/* Drop the frame that was handed out last. */
static void
compact(struct sock_reader *reader)
{
	if (!reader->taken)
		return;
	reader->size -= reader->taken;
	memmove(reader->buf, reader->buf + reader->taken, reader->size);
	reader->taken = 0;
}

int
sock_reader_fill(struct sock_reader *reader)
{
	int cap = (int)(sizeof(reader->fds) / sizeof(reader->fds[0]));
	ssize_t n;

	compact(reader);
	if (!reader->buf) {
		reader->cap = 2 * FRAME_MAX;
		reader->buf = malloc(reader->cap);
		if (!reader->buf)
			return err_origin(-ENOMEM);
	}
	if (reader->size == reader->cap)
		return 0;
	n = recv_some(reader->fd, reader->buf + reader->size,
		      reader->cap - reader->size, reader->fds, &reader->nfds,
		      cap);
	if (n == 0)
		return -EPIPE;
	if (n < 0)
		return n == -EAGAIN ? 0 : (int)n;
	reader->size += (size_t)n;
	return 0;
}

int
sock_reader_next(struct sock_reader *reader, struct frame_header *out_header,
		 const uint8_t **out_payload)
{
	int r;

	compact(reader);
	if (reader->size < sizeof(*out_header))
		return SOCK_E_MORE;
	memcpy(out_header, reader->buf, sizeof(*out_header));
	r = frame_header_check(out_header);
	if (r < 0)
		return r;
	if (reader->size < sizeof(*out_header) + out_header->size)
		return SOCK_E_MORE;
	*out_payload = reader->buf + sizeof(*out_header);
	reader->taken = sizeof(*out_header) + out_header->size;
	return 0;
}

int
sock_reader_take_fd(struct sock_reader *reader)
{
	int fd;

	if (!reader->nfds)
		return -1;
	fd = reader->fds[0];
	reader->nfds--;
	memmove(reader->fds, reader->fds + 1,
		sizeof(reader->fds[0]) * (size_t)reader->nfds);
	return fd;
}

int
sock_peer(int fd, pid_t *out_pid, uid_t *out_uid, gid_t *out_gid)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return err_origin(-errno);
	*out_pid = cred.pid;
	*out_uid = cred.uid;
	*out_gid = cred.gid;
	return 0;
}
