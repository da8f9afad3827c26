/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed shared memory.
 */
#include "proto/shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"

/* linux/memfd.h has it since Linux 6.3; older kernels answer EINVAL. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
/* linux/mman.h, since Linux 5.14. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int
shmem_file(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING |
			      MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? err_origin(-errno) : fd;
}

int
shmem_create(const char *name, size_t size)
{
	_cleanup_close_ int fd = shmem_file(name);

	if (fd < 0)
		return err_trace(fd);
	if (ftruncate(fd, (off_t)size) < 0)
		return err_origin(-errno);
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return err_origin(-errno);
	return steal_fd(&fd);
}

long
shmem_size(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0)
		return err_origin(-errno);
	if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) !=
	    (F_SEAL_SHRINK | F_SEAL_GROW))
		return err_origin(-EBADMSG);
	if (fstat(fd, &st) < 0)
		return err_origin(-errno);
	return st.st_size;
}

int
shmem_seal_write(int fd)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0)
		return err_origin(-errno);
	return 0;
}

void *
shmem_map(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

int
shmem_populate(void *addr, size_t size)
{
	if (!madvise(addr, size, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return err_origin(-errno);
	/* An old kernel: touch by hand. An OR of nothing faults the page in
	 * for writing without changing what another side stored there. */
	for (size_t at = 0; at < size; at += 4096)
		__atomic_fetch_or((uint8_t *)addr + at, 0, __ATOMIC_RELAXED);
	return 0;
}
