/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of cuMemCreate whose creator has ended is in use as long as a
 * descriptor of it is open, in a process that never calls CUDA; when the
 * last one is closed the memory is free again.
 */
#include "tests/contract/descriptor.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	SIZE = 512 << 20,
	/* What others may take or give back meanwhile. */
	SLACK = SIZE / 10,
};

static void
creator(int sock)
{
	CUmemGenericAllocationHandle handle;

	drv_start();
	descriptor_send(sock, descriptor_make(SIZE, &handle));
	test_pass();
}

/* Reports how much device memory is free. */
static void
onlooker(int sock)
{
	size_t available = 0, total = 0;

	drv_start();
	OK(drv.cuMemGetInfo(&available, &total));
	CHECK(write(sock, &available, sizeof(available)) ==
	      sizeof(available));
	test_pass();
}

static size_t
available_size(int pair[2])
{
	size_t available = 0;
	pid_t pid = fork();

	if (pid == 0)
		onlooker(pair[1]);
	child_join(pid, "the onlooker");
	CHECK(read(pair[0], &available, sizeof(available)) ==
	      sizeof(available));
	return available;
}

int
main(void)
{
	size_t before, held, released;
	int pair[2], fd;
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	before = available_size(pair);
	pid = fork();
	if (pid == 0)
		creator(pair[1]);
	child_join(pid, "the creator");
	fd = descriptor_receive(pair[0]);
	CHECK(fd >= 0);
	held = available_size(pair);
	close(fd);
	released = available_size(pair);
	printf("free %zu MiB, with the descriptor open %zu MiB, closed "
	       "%zu MiB\n", before >> 20, held >> 20, released >> 20);
	/* That the memory is still there is shown by
	 * descriptor_keeps_memory_alive. */
	if (held == before && released == before)
		test_skip("processes do not share this device's memory");
	CHECK(held + SIZE - SLACK <= before);
	CHECK(released >= held + SIZE - SLACK);
	test_pass();
}
