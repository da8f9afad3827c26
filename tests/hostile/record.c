/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records what clients say, from outside: a proxy between them and the
 * broker.
 *
 *     record SOCKET BROKER-SOCKET FILE-PREFIX
 *
 * Listens at SOCKET. Every connection is passed on to the broker,
 * descriptors included; the data socket in an AttachReply is replaced by one
 * of ours, so that the frames to the worker come by, too (with no_ring all
 * of them do). Connections that attach a device leave FILE-PREFIX.N. Ends
 * when its stdin does.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/sock.h"
#include "tests/hostile/session.h"

enum { WAIT_MS = 10000, DEVICES = 8 };

struct tap {
	int client, broker;     /* control */
	int file;
	/* Data sockets: the program's end, the worker's end. */
	int data[DEVICES][2];
	struct sock_reader readers[DEVICES];
	int ndata;
	int image;              /* the last one offered, or -1 */
};

static void
note(struct tap *tap, enum entry_kind kind, const Mps__Control *message)
{
	static uint8_t frame[FRAME_MAX];
	struct frame_header header = {.type = FRAME_CONTROL};

	header.size = (uint32_t)mps__control__pack(message,
						   frame + sizeof(header));
	memcpy(frame, &header, sizeof(header));
	session_write(tap->file, kind, frame, sizeof(header) + header.size);
}

/* The client has filled it in. */
static void
note_image(struct tap *tap)
{
	struct stat st;
	void *map;

	if (tap->image < 0 || fstat(tap->image, &st) < 0)
		return;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE,
		   tap->image, 0);
	if (map == MAP_FAILED)
		err(1, "image");
	session_write(tap->file, ENTRY_IMAGE, map, (size_t)st.st_size);
	munmap(map, (size_t)st.st_size);
	close(tap->image);
	tap->image = -1;
}

/* Put ourselves between the client and the worker. */
static void
tap_data(struct tap *tap, int *fd)
{
	int pair[2];

	if (tap->ndata == DEVICES ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		err(1, "data socket");
	tap->data[tap->ndata][0] = pair[0];
	tap->data[tap->ndata][1] = *fd;
	sock_reader_init(&tap->readers[tap->ndata], pair[0]);
	tap->ndata++;
	*fd = pair[1];
}

static int
relay_question(struct tap *tap)
{
	int fds[SOCK_MAX_FDS], nfds = SOCK_MAX_FDS, r;
	Mps__Control *m;

	r = sock_recv_control(tap->client, &m, fds, &nfds, WAIT_MS);
	if (r < 0)
		return r;
	if (m->body_case == MPS__CONTROL__BODY_READY &&
	    m->ready->what == MPS__READY__WHAT__IMAGE)
		note_image(tap);
	note(tap, ENTRY_CONTROL, m);
	r = sock_send_control(tap->broker, m, fds, nfds, WAIT_MS);
	while (nfds)
		close(fds[--nfds]);
	mps__control__free_unpacked(m, NULL);
	return r;
}

static int
relay_answer(struct tap *tap)
{
	int fds[SOCK_MAX_FDS], nfds = SOCK_MAX_FDS, r;
	Mps__Control *m;

	r = sock_recv_control(tap->broker, &m, fds, &nfds, WAIT_MS);
	if (r < 0)
		return r;
	note(tap, ENTRY_ANSWER, m);
	if (m->body_case == MPS__CONTROL__BODY_ATTACH_REPLY && nfds == 3)
		tap_data(tap, &fds[0]);
	if (m->body_case == MPS__CONTROL__BODY_IMAGE_REPLY && nfds == 1)
		tap->image = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
	r = sock_send_control(tap->client, m, fds, nfds, WAIT_MS);
	while (nfds)
		close(fds[--nfds]);
	mps__control__free_unpacked(m, NULL);
	return r;
}

static int
relay_frames(struct tap *tap, int i)
{
	struct sock_reader *reader = &tap->readers[i];
	struct frame_header header;
	const uint8_t *body;
	int r = sock_reader_fill(reader);

	while (r == 0) {
		int next = sock_reader_next(reader, &header, &body);

		if (next)
			return next < 0 ? next : 0;
		if (header.type != FRAME_NUDGE)
			session_write(tap->file, ENTRY_DATA,
				      body - sizeof(header),
				      sizeof(header) + header.size);
		r = sock_write(tap->data[i][1], body - sizeof(header),
			       sizeof(header) + header.size, WAIT_MS);
	}
	return r;
}

static int
relay_replies(struct tap *tap, int i)
{
	uint8_t bytes[65536];
	ssize_t n = read(tap->data[i][1], bytes, sizeof(bytes));

	if (n <= 0)
		return -EPIPE;
	return sock_write(tap->data[i][0], bytes, (size_t)n, WAIT_MS);
}

/* One round: whatever is there. */
static int
relay(struct tap *tap)
{
	struct pollfd p[2 + 2 * DEVICES] = {
		{.fd = tap->client, .events = POLLIN},
		{.fd = tap->broker, .events = POLLIN},
	};
	int r = 0, n = tap->ndata;

	for (int i = 0; i < n; i++)
		for (int k = 0; k < 2; k++)
			p[2 + 2 * i + k] = (struct pollfd){
				.fd = tap->data[i][k],
				.events = POLLIN,
			};
	if (poll(p, 2 + 2 * (nfds_t)n, -1) < 0)
		return -errno;
	/* Frames before questions: what the client said first. */
	for (int i = 0; i < n && !r; i++) {
		if (p[2 + 2 * i].revents)
			r = relay_frames(tap, i);
		if (!r && p[3 + 2 * i].revents)
			r = relay_replies(tap, i);
	}
	if (!r && p[0].revents)
		r = relay_question(tap);
	if (!r && p[1].revents)
		r = relay_answer(tap);
	return r;
}

/* In a process of its own; its end closes every descriptor. */
static void
serve(int client, const char *broker, const char *path)
{
	struct tap tap = {.client = client, .image = -1};

	tap.broker = sock_connect(broker);
	tap.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (tap.broker < 0 || tap.file < 0)
		errx(1, "%s or %s does not open", broker, path);
	while (relay(&tap) >= 0)
		continue;
	if (!tap.ndata)
		unlink(path);
	exit(0);
}

int
main(int argc, char **argv)
{
	struct pollfd p[2] = {{.fd = 0, .events = POLLIN}, {.events = POLLIN}};
	char path[4096];
	int n = 0;

	if (argc != 4)
		errx(2, "usage: record SOCKET BROKER-SOCKET FILE-PREFIX");
	signal(SIGPIPE, SIG_IGN);
	p[1].fd = sock_listen(argv[1]);
	if (p[1].fd < 0)
		errx(1, "cannot listen at %s", argv[1]);
	printf("ready\n");
	fflush(stdout);
	while (poll(p, 2, -1) > 0 && !p[0].revents) {
		int client = accept4(p[1].fd, NULL, NULL, SOCK_CLOEXEC);

		if (client < 0)
			continue;
		snprintf(path, sizeof(path), "%s.%d", argv[3], n++);
		if (fork() == 0)
			serve(client, argv[2], path);
		close(client);
	}
	/* Let the last ones finish their files. */
	while (wait(NULL) > 0)
		continue;
	unlink(argv[1]);
	return 0;
}
