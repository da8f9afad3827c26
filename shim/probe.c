/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading memory that may not be there, without a signal handler: a guest
 * owns no signal. process_vm_readv() on ourselves answers EFAULT where a
 * load would fault. Sandboxes that forbid it (old container profiles) leave
 * rt_sigprocmask(), which copies its eight bytes in before it looks at an
 * invalid `how`: EFAULT tells an unreadable address, EINVAL a readable one.
 */
#include "shim/probe.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096u
/* Pages per system call; UIO_MAXIOV is 1024. */
#define BATCH 256u

static bool
page_readable(uintptr_t address)
{
	uintptr_t word = address & ~(uintptr_t)7;
	int saved = errno;
	bool readable;

	readable = syscall(SYS_rt_sigprocmask, -1, word, NULL, 8) == 0 ||
		   errno != EFAULT;
	errno = saved;
	return readable;
}

/* One byte of each of `count` pages from `address` on. */
static bool
pages_readable(uintptr_t address, size_t count)
{
	struct iovec remote[BATCH];
	char bytes[BATCH];
	struct iovec local = { bytes, count };
	int saved = errno;
	ssize_t n;

	for (size_t i = 0; i < count; i++) {
		remote[i].iov_base = (void *)(address + i * PAGE);
		remote[i].iov_len = 1;
	}
	n = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, remote,
		    (unsigned long)count, 0UL);
	if (n < 0 && errno != EFAULT) {
		size_t i = 0;

		while (i < count && page_readable(address + i * PAGE))
			i++;
		n = (ssize_t)i;
	}
	errno = saved;
	return n == (ssize_t)count;
}

bool
probe_readable(const void *from, size_t size)
{
	uintptr_t first = (uintptr_t)from & ~(uintptr_t)(PAGE - 1);
	uintptr_t end = (uintptr_t)from + size;
	size_t pages;

	if (end < (uintptr_t)from)
		return false;
	if (size == 0)
		return true;
	pages = (end - first + PAGE - 1) / PAGE;
	for (size_t done = 0; done < pages; done += BATCH) {
		size_t count = pages - done < BATCH ? pages - done : BATCH;

		if (!pages_readable(first + done * PAGE, count))
			return false;
	}
	return true;
}

bool
probe_read(void *to, const void *from, size_t size)
{
	struct iovec local = { to, size };
	struct iovec remote = { (void *)(uintptr_t)from, size };
	int saved = errno;
	ssize_t n;

	if (size == 0)
		return true;
	n = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL,
		    0UL);
	if (n < 0 && errno != EFAULT && probe_readable(from, size)) {
		memcpy(to, from, size);
		n = (ssize_t)size;
	}
	errno = saved;
	return n == (ssize_t)size;
}
