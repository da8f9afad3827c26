/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/contract/descriptor.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

int
descriptor_make(size_t size, CUmemGenericAllocationHandle *out_handle)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	int fd = -1;

	OK(drv.cuMemCreate(out_handle, size, &prop, 0));
	OK(drv.cuMemExportToShareableHandle(&fd, *out_handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return fd;
}

void
descriptor_send(int sock, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))];
	struct iovec io = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;

	memset(control, 0, sizeof(control));
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CHECK(sendmsg(sock, &msg, 0) == 1);
}

int
descriptor_receive(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec io = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd = -1;

	if (recvmsg(sock, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

void
child_join(pid_t pid, const char *who)
{
	int status = 0;

	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP)
		test_skip("%s", who);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != TEST_PASS)
		test_fail("%s ended with status 0x%x", who, status);
}
