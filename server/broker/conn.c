/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/err.h"

/* One message that did not go out whole. */
struct brk_out {
	TAILQ_ENTRY(brk_out) link;
	size_t size, sent;
	int fds[SOCK_MAX_FDS];          /* owned copies, until sent */
	int nfds;
	uint8_t data[];
};

static void
out_free(struct brk_out *out)
{
	while (out->nfds)
		close(out->fds[--out->nfds]);
	free(out);
}

/*
 * Unpacked messages are bounded: a frame of 64 KiB of empty sub-messages
 * would otherwise grow fiftyfold. 16 times its size lets the fattest honest
 * message pass (a snapshot: 8 wire bytes an attribute, 48 in memory).
 */
struct budget {
	size_t left;
};

static void *
budget_alloc(void *data, size_t size)
{
	struct budget *budget = data;

	if (size > budget->left)
		return NULL;
	budget->left -= size;
	return malloc(size);
}

static void
budget_free(void *data, void *pointer)
{
	(void)data;
	free(pointer);
}

/* What epoll should report now. Hang-ups always; input unless paused. */
static void
watch(struct brk_conn *conn)
{
	uint32_t events = EPOLLRDHUP;

	if (!conn->paused && !conn->finishing)
		events |= EPOLLIN;
	if (!TAILQ_EMPTY(&conn->out))
		events |= EPOLLOUT;
	brk_loop_change(conn->loop, &conn->source, events);
}

void
brk_conn_fail(struct brk_conn *conn, int reason)
{
	if (!conn->failed)
		conn->failed = reason;
	/* The loop reports the hang-up and on_end follows. */
	shutdown(conn->fd, SHUT_RDWR);
}

/* Send from out->sent on. Positive: done; 0: later; negative: -errno. */
static int
push(struct brk_conn *conn, const uint8_t *data, size_t size, const int *fds,
     int nfds, size_t *sent)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * SOCK_MAX_FDS)];
		struct cmsghdr align;
	} control;

	while (*sent < size) {
		struct iovec iov = {
			.iov_base = (void *)(data + *sent),
			.iov_len = size - *sent,
		};
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n;

		if (nfds && !*sent) {
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
		n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		*sent += (size_t)n;
	}
	return 1;
}

/*
 * It could not be sent. A peer that is gone may have said why before, and that
 * is still to be read: the hang-up behind it ends the connection.
 */
static void
unsent(struct brk_conn *conn, int r)
{
	if (conn->finishing || (r != -EPIPE && r != -ECONNRESET))
		brk_conn_fail(conn, r);
}

static void
flush(struct brk_conn *conn)
{
	struct brk_out *out;

	while ((out = TAILQ_FIRST(&conn->out))) {
		int r = push(conn, out->data, out->size, out->fds, out->nfds,
			     &out->sent);

		if (r < 0)
			unsent(conn, r);
		if (!r)
			break;
		conn->queued -= out->size;
		TAILQ_REMOVE(&conn->out, out, link);
		out_free(out);
	}
	if (conn->finishing && TAILQ_EMPTY(&conn->out))
		brk_conn_fail(conn, -ESHUTDOWN);
	watch(conn);
}

/* Queue what is left of out; its descriptors are copied if still to go. */
static int
enqueue(struct brk_conn *conn, struct brk_out *out, const int *fds, int nfds)
{
	if (conn->queued + out->size > conn->limit)
		return -ENOBUFS;
	while (!out->sent && out->nfds < nfds) {
		int copy = fcntl(fds[out->nfds], F_DUPFD_CLOEXEC, 3);

		if (copy < 0)
			return err_origin(-errno);
		out->fds[out->nfds++] = copy;
	}
	conn->queued += out->size;
	TAILQ_INSERT_TAIL(&conn->out, out, link);
	watch(conn);
	return 0;
}

void
brk_conn_send(struct brk_conn *conn, const Mps__Control *message,
	      const int *fds, int nfds)
{
	size_t size = mps__control__get_packed_size(message);
	struct frame_header header = {
		.size = (uint32_t)size, .type = FRAME_CONTROL,
	};
	struct brk_out *out;
	int r = 0;

	if (conn->failed)
		return;
	if (size > FRAME_MAX - sizeof(header) || nfds > SOCK_MAX_FDS) {
		brk_conn_fail(conn, err_origin(-EMSGSIZE));
		return;
	}
	out = malloc(sizeof(*out) + sizeof(header) + size);
	if (!out) {
		brk_conn_fail(conn, err_origin(-ENOMEM));
		return;
	}
	*out = (struct brk_out){ .size = sizeof(header) + size };
	memcpy(out->data, &header, sizeof(header));
	mps__control__pack(message, out->data + sizeof(header));
	if (TAILQ_EMPTY(&conn->out))
		r = push(conn, out->data, out->size, fds, nfds, &out->sent);
	if (!r) {
		r = enqueue(conn, out, fds, nfds);
		if (!r)
			return;
	}
	out_free(out);
	if (r < 0)
		unsent(conn, r);
}

static int
handle(struct brk_conn *conn, const struct frame_header *header,
       const uint8_t *payload)
{
	struct budget budget = { .left = 16 * (size_t)header->size + 4096 };
	ProtobufCAllocator allocator = {
		.alloc = budget_alloc, .free = budget_free,
		.allocator_data = &budget,
	};
	Mps__Control *message;
	int r;

	if (header->type != FRAME_CONTROL)
		return err_origin(-EBADMSG);
	message = mps__control__unpack(&allocator, header->size, payload);
	if (!message)
		return err_origin(-EBADMSG);
	r = conn->on_frame(conn, message);
	mps__control__free_unpacked(message, &allocator);
	return r;
}

static int
handle_all(struct brk_conn *conn)
{
	while (!conn->paused && !conn->finishing && !conn->failed) {
		struct frame_header header;
		const uint8_t *payload;
		int r;

		r = sock_reader_next(&conn->reader, &header, &payload);
		if (r == SOCK_E_MORE)
			return 0;
		if (!r)
			r = handle(conn, &header, payload);
		if (r < 0)
			return r;
	}
	return 0;
}

static void
dispatch(struct brk_source *source, uint32_t events)
{
	struct brk_conn *conn = brk_of(source, struct brk_conn, source);
	int end = 0, r = 0;

	if (events & EPOLLOUT)
		flush(conn);
	if (!conn->failed && events & EPOLLIN && !conn->paused)
		end = sock_reader_fill(&conn->reader);
	if (!conn->failed)
		r = handle_all(conn);
	if (r < 0 && !conn->failed)
		conn->failed = r;
	if (end < 0 && !conn->failed)
		conn->failed = end;
	/* A hang-up with input still unread is taken when that is read. */
	if (!conn->failed && events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR) &&
	    !(events & EPOLLIN))
		conn->failed = -EPIPE;
	if (conn->failed) {
		conn->on_end(conn, conn->failed);
		return;
	}
	watch(conn);
}

int
brk_conn_init(struct brk_conn *conn, struct brk_loop *loop, int fd,
	      size_t limit)
{
	int flags = fcntl(fd, F_GETFL), r = 0;

	*conn = (struct brk_conn){
		.source.dispatch = dispatch, .loop = loop, .fd = fd,
		.limit = limit,
	};
	TAILQ_INIT(&conn->out);
	sock_reader_init(&conn->reader, fd);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		r = err_origin(-errno);
	if (!r)
		r = err_trace(brk_loop_add(loop, &conn->source, fd,
					   EPOLLIN | EPOLLRDHUP));
	if (r < 0) {
		close(fd);
		conn->fd = -1;
	}
	return r;
}

void
brk_conn_fini(struct brk_conn *conn)
{
	struct brk_out *out;

	if (conn->fd < 0)
		return;
	brk_loop_remove(conn->loop, &conn->source);
	while ((out = TAILQ_FIRST(&conn->out))) {
		TAILQ_REMOVE(&conn->out, out, link);
		out_free(out);
	}
	sock_reader_fini(&conn->reader);
	close(conn->fd);
	conn->fd = -1;
}

void
brk_conn_pause(struct brk_conn *conn)
{
	conn->paused = true;
	watch(conn);
}

void
brk_conn_resume(struct brk_conn *conn)
{
	conn->paused = false;
	/* A socket is nearly always writable: this brings us to dispatch,
	 * where frames that wait in the buffer are found. */
	brk_loop_change(conn->loop, &conn->source,
			EPOLLIN | EPOLLOUT | EPOLLRDHUP);
}

void
brk_conn_finish(struct brk_conn *conn)
{
	conn->finishing = true;
	if (TAILQ_EMPTY(&conn->out))
		brk_conn_fail(conn, -ESHUTDOWN);
	watch(conn);
}
