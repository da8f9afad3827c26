/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log file that several processes write, the broker and its workers, and
 * that does not grow for ever.
 *
 * Before it writes, everybody looks at the size of the file that he has open.
 * Who finds it full renames it to FILE.1, under a lock of that very file and
 * only if it still has the name, and whoever finds it full goes on in the file
 * that has the name now. So nobody cuts what others are writing: a line that
 * comes late is in FILE.1. Only if two files have become full between
 * somebody's look and his write is his without a name, and he writes again.
 *
 * Nothing here waits: who does not get the lock is a line late.
 */
#include "proto/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"

/* Out of the way of the host's own descriptors, where there is room. */
#define HIGH_FD 512

static struct {
	_Atomic int fd;                 /* keeps its number; 0: none yet */
	/* Which file that is: a host may close all its descriptors and then
	 * have a file of its own under this number. While one file takes the
	 * other's place it may be either of two. */
	dev_t dev;
	_Atomic ino_t inos[2];
	unsigned int turn;
	uint64_t limit;
	char path[PATH_MAX], old[PATH_MAX + 2];
	atomic_flag turning;            /* guards turn and the replacement */
} file = { .turning = ATOMIC_FLAG_INIT };

/* A pipe that nobody reads, or reads no more, costs lines: who waited for it
 * would be the program that we are in. */
static int
open_path(void)
{
	int fd = open(file.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
		      O_NOCTTY | O_NONBLOCK, 0600);

	return fd < 0 ? -errno : fd;
}

static bool
is_ours(const struct stat *st)
{
	return st->st_dev == file.dev &&
	       (st->st_ino == atomic_load(&file.inos[0]) ||
		st->st_ino == atomic_load(&file.inos[1]));
}

int
log_file_open(const char *path, uint64_t limit)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int high;

	if (snprintf(file.path, sizeof(file.path), "%s", path) >=
	    (int)sizeof(file.path))
		return -ENAMETOOLONG;
	snprintf(file.old, sizeof(file.old), "%s.1", file.path);
	fd = open_path();
	if (fd < 0)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	file.dev = st.st_dev;
	atomic_store(&file.inos[0], st.st_ino);
	atomic_store(&file.inos[1], st.st_ino);
	file.limit = limit;
	atomic_store(&file.fd, steal_fd(&fd));
	return 0;
}

bool
log_file_is_open(void)
{
	return atomic_load(&file.fd) > 0;
}

/* Is it this file that has the name? */
static bool
has_the_name(const struct stat *st)
{
	struct stat named;

	return !stat(file.path, &named) && named.st_dev == st->st_dev &&
	       named.st_ino == st->st_ino;
}

/* False: somebody else is at it, or the file goes on empty. */
static bool
give_old_name(int fd, const struct stat *st)
{
	bool renamed = true;

	if (!has_the_name(st))
		return true;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return false;
	if (has_the_name(st) && rename(file.path, file.old) < 0) {
		/* Bounded all the same; lines of this moment may be lost. */
		renamed = ftruncate(fd, 0) < 0;
	}
	flock(fd, LOCK_UN);
	return renamed;
}

/* The file that has the name now, under the same number. */
static void
replace(int fd)
{
	_cleanup_close_ int named = open_path();
	struct stat st;

	if (named < 0 || fstat(named, &st) < 0 || st.st_dev != file.dev)
		return;
	atomic_store(&file.inos[++file.turn % 2], st.st_ino);
	/* If that fails, lines go on into the old one. */
	(void)dup3(named, fd, O_CLOEXEC);
}

static void
go_on_anew(int fd, const struct stat *st)
{
	if (atomic_flag_test_and_set(&file.turning))
		return;
	if (give_old_name(fd, st))
		replace(fd);
	atomic_flag_clear(&file.turning);
}

int
log_file_take(void)
{
	int fd = atomic_load(&file.fd);
	struct stat st;

	if (fstat(fd, &st) < 0 || !is_ours(&st))
		return -1;
	if (file.limit && (uint64_t)st.st_size >= file.limit)
		go_on_anew(fd, &st);
	return fd;
}

bool
log_file_was_lost(void)
{
	int fd = atomic_load(&file.fd);
	struct stat st;

	if (!file.limit || fstat(fd, &st) < 0 || !is_ours(&st) || st.st_nlink)
		return false;
	go_on_anew(fd, &st);
	return true;
}
