/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/toys.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/channel.h"

/* SCM_MAX_FD: the kernel takes no more at once. */
enum { MOST = 253 };

static int
memory(struct dice *dice)
{
	static const off_t sizes[] = {
		0, 1, 4095, 4096, CHANNEL_SIZE - 1, CHANNEL_SIZE,
		CHANNEL_SIZE + 4096, CHANNEL_STAGING_SIZE, (off_t)1 << 40,
	};
	int fd = memfd_create("toy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, sizes[dice_below(dice, sizeof(sizes) /
					   sizeof(sizes[0]))]) == 0 &&
	    dice_below(dice, 2))
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	return fd;
}

/* One descriptor to send; *out_spare: one to close with it, or -1. */
static int
toy(struct dice *dice, int sock, int *out_spare)
{
	int pair[2];

	*out_spare = -1;
	switch (dice_below(dice, 8)) {
	case 0:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 1:
		return open("/dev/zero", O_RDONLY | O_CLOEXEC);
	case 2:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 3:
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
			return -1;
		*out_spare = pair[1];
		return pair[0];
	case 4:
		if (pipe2(pair, O_CLOEXEC))
			return -1;
		*out_spare = pair[1];
		return pair[0];
	case 5:
		return dice_below(dice, 2) ? epoll_create1(EPOLL_CLOEXEC)
					   : eventfd(0, EFD_CLOEXEC);
	case 6:
		return fcntl(sock, F_DUPFD_CLOEXEC, 3);
	default:
		return memory(dice);
	}
}

unsigned
toy_send(struct dice *dice, int sock, const uint8_t *bytes, size_t size)
{
	unsigned n = dice_below(dice, 8) ? 1 + (unsigned)dice_below(dice, 9)
					 : MOST;
	union {
		char space[CMSG_SPACE(sizeof(int) * MOST)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = size};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(sizeof(int) * n),
	};
	struct cmsghdr *c;
	int fds[MOST], spare[MOST];

	memset(&control, 0, sizeof(control));
	for (unsigned i = 0; i < n; i++)
		fds[i] = toy(dice, sock, &spare[i]);
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * n);
	memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	if (sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		size = 0;
	for (unsigned i = 0; i < n; i++) {
		close(fds[i]);
		if (spare[i] >= 0)
			close(spare[i]);
	}
	return size ? n : 0;
}

void
toy_abuse(struct dice *dice, int fd)
{
	/* What the seals forbid just fails. */
	switch (dice_below(dice, 6)) {
	case 0:
		(void)!ftruncate(fd, 0);
		(void)!ftruncate(fd, (off_t)1 << 40);
		break;
	case 1:
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
		break;
	case 2:
		fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
		break;
	case 3:
		fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
		break;
	case 4:
		(void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE |
				 FALLOC_FL_KEEP_SIZE, 0, CHANNEL_SIZE);
		break;
	default:
		fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND);
		break;
	}
}
