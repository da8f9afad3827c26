/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of cuMemCreate lives as long as an exported descriptor is open,
 * in a process that never calls CUDA: its creator dies of a fault, and a
 * new process maps the descriptor at the same address and finds the data.
 */
#include "tests/contract/descriptor.h"

#include <sys/socket.h>
#include <unistd.h>

enum {
	SIZE = 512 << 20,
	VALUE = 0x5ca1ab1e,
};

static const CUdeviceptr base = 0x7e8000000000;

static void
map(CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUdeviceptr at = 0;

	OK(drv.cuMemAddressReserve(&at, SIZE, 0, base, 0));
	CHECK(at == base);
	OK(drv.cuMemMap(at, SIZE, 0, handle, 0));
	OK(drv.cuMemSetAccess(at, SIZE, &access, 1));
}

static void
creator(int sock)
{
	CUmemGenericAllocationHandle handle;
	uint64_t wild = 0x10;
	uint32_t value = 1;
	void *args[] = { &wild, &value };

	drv_start();
	descriptor_send(sock, descriptor_make(SIZE, &handle));
	map(handle);
	OK(drv.cuMemsetD32(base, VALUE, SIZE / 4));
	OK(drv.cuCtxSynchronize());
	OK(drv_launch1(drv_kernel(KERNEL_STORE), NULL, args));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, drv.cuCtxSynchronize());
	test_pass();
}

static void
successor(int fd)
{
	CUmemGenericAllocationHandle handle;
	uint32_t word = 0;

	drv_start();
	OK(drv.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	map(handle);
	OK(drv.cuMemcpyDtoH(&word, base, 4));
	CHECK(word == VALUE);
	OK(drv.cuMemcpyDtoH(&word, base + SIZE - 4, 4));
	CHECK(word == VALUE);
	test_pass();
}

int
main(void)
{
	int pair[2], fd;
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (pid == 0)
		creator(pair[1]);
	child_join(pid, "the creator");
	fd = descriptor_receive(pair[0]);
	CHECK(fd >= 0);
	pid = fork();
	if (pid == 0)
		successor(fd);
	child_join(pid, "the successor");
	test_pass();
}
