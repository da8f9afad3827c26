/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/pid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"

#define TEXT 16

static int
own_pid(char out[TEXT])
{
	return snprintf(out, TEXT, "%d", (int)getpid());
}

/* A file of our user's that has no other name. What it is not may be a pipe
 * that nobody reads, or somebody's trap. */
static int
open_own(const char *path, int flags)
{
	_cleanup_close_ int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW |
				      O_NONBLOCK | O_NOCTTY, 0644);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
		return -EPERM;
	return steal_fd(&fd);
}

static int
write_text(const char *path)
{
	_cleanup_close_ int fd = open_own(path, O_WRONLY | O_CREAT);
	char text[TEXT];
	ssize_t n = own_pid(text);

	if (fd < 0)
		return fd;
	/* Whoever may look into the directory may read it. */
	if (fchmod(fd, 0644) < 0 || ftruncate(fd, 0) < 0)
		return -errno;
	errno = EIO;
	return write(fd, text, (size_t)n) == n ? 0 : -errno;
}

int
brk_pid_write(const char *path)
{
	int r = path ? write_text(path) : 0;
	struct stat st;

	if (r < 0)
		log_line(LOG_WARN, "%s: %s", path, r == -EPERM ?
			 "it is no file of ours" : err_text(r));
	/* Whoever has laid something there must not have us end. */
	return r < 0 && lstat(path, &st) < 0 ? r : 0;
}

void
brk_pid_remove(const char *path)
{
	_cleanup_close_ int fd = path ? open_own(path, O_RDONLY) : -1;
	char text[TEXT], own[TEXT];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (n >= 0 && n == own_pid(own) && !memcmp(text, own, (size_t)n))
		unlink(path);
}
