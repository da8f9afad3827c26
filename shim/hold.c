/* SPDX-License-Identifier: Apache-2.0 */
/*
 * userfaultfd in its write-protecting mode: a thread that writes into such a
 * page sleeps in its page fault until it is told to look again, and then
 * finds what has been put in the page's place. Without privileges (and a
 * system setting) it only does so for writes of the program itself; a system
 * call that writes there fails with EFAULT meanwhile.
 */
#include "shim/hold.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/mman.h, since Linux 5.14. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The best first. Shared memory can be protected since Linux 5.19. */
#define ANONYMOUS UFFD_FEATURE_PAGEFAULT_FLAG_WP
#define SHARED (ANONYMOUS | UFFD_FEATURE_WP_HUGETLBFS_SHMEM)

static const struct way {
	int flags;
	uint64_t features;
} ways[] = {
	{ 0, SHARED },
	{ UFFD_USER_MODE_ONLY, SHARED },
	{ 0, ANONYMOUS },
	{ UFFD_USER_MODE_ONLY, ANONYMOUS },
};

static int
open_hold(const struct way *way)
{
	struct uffdio_api api = { .api = UFFD_API, .features = way->features };
	int fd = (int)syscall(SYS_userfaultfd,
			      O_CLOEXEC | O_NONBLOCK | way->flags);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void
shim_hold_begin(struct shim_hold *hold)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	_Static_assert(sizeof(old) <= sizeof(hold->signals), "it fits");
	memcpy(hold->signals, &old, sizeof(old));
	hold->must = false;
	hold->fd = -1;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways) && hold->fd < 0;
	     i++) {
		hold->fd = open_hold(&ways[i]);
		hold->all = hold->fd >= 0 && i == 0;
	}
}

bool
shim_hold_pages(const struct shim_hold *hold, uint64_t start, uint64_t size)
{
	struct uffdio_register there = {
		.range = { start, size }, .mode = UFFDIO_REGISTER_MODE_WP,
	};
	struct uffdio_writeprotect protect = {
		.range = { start, size }, .mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	if (hold->fd < 0 || ioctl(hold->fd, UFFDIO_REGISTER, &there) < 0)
		return false;
	/* Of what is not there, nothing is protected. */
	if (madvise((void *)(uintptr_t)start, size, MADV_POPULATE_WRITE) ||
	    ioctl(hold->fd, UFFDIO_WRITEPROTECT, &protect) < 0)
		return false;
	return hold->all;
}

void
shim_hold_release(const struct shim_hold *hold, uint64_t start, uint64_t size)
{
	struct uffdio_range range = { start, size };

	if (hold->fd >= 0)
		ioctl(hold->fd, UFFDIO_WAKE, &range);
}

void
shim_hold_end(struct shim_hold *hold)
{
	sigset_t old;

	/* Whoever waits still, for a page that was not exchanged, goes on. */
	if (hold->fd >= 0)
		close(hold->fd);
	memcpy(&old, hold->signals, sizeof(old));
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
