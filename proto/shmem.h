/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed shared memory. Made by the broker only; others map it.
 */
#ifndef PROTO_SHMEM_H
#define PROTO_SHMEM_H

#include <stddef.h>

/* A memfd of `size` bytes that can neither shrink nor grow (sealed), not
 * executable where the kernel knows that. Descriptor or -errno. */
int shmem_create(const char *name, size_t size);
/* One that grows as its holders like: for those who trust each other with
 * its size. Descriptor or -errno. */
int shmem_file(const char *name);
/* Its size when fd is such a memfd (sealed against resizing), else -errno. */
long shmem_size(int fd);
/* Seal against writing as well. -EBUSY while a writable mapping exists. */
int shmem_seal_write(int fd);
/* Map all of it read-write, shared, anywhere. NULL and errno on failure. */
void *shmem_map(int fd, size_t size);
/* Touch the pages now, so that the calling process pays for them. */
int shmem_populate(void *addr, size_t size);

#endif
