/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: processes of one account share the device's memory, and
 * what a process held is free when it has ended, however it did.
 */
#include "tests/unit/soft_kit.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

/* A process that does one thing, says so, and stays until it is ended. */
struct other {
	pid_t pid;
	int sock;
	int fd;                    /* a descriptor that it sent, or -1 */
};

static void
say(int sock, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec io = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	ck_assert_int_eq(sendmsg(sock, &msg, 0), 1);
}

static void
hear(struct other *other)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec io = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &io, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};

	other->fd = -1;
	ck_assert_int_eq(recvmsg(other->sock, &msg, 0), 1);
	if (CMSG_FIRSTHDR(&msg))
		memcpy(&other->fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)),
		       sizeof(other->fd));
}

static void
start(struct other *other, int (*act)(void))
{
	int pair[2];
	struct kit k;
	char byte;

	ck_assert(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	other->sock = pair[0];
	other->pid = fork();
	if (!other->pid) {
		close(pair[0]);
		kit_context(&k);
		say(pair[1], act());
		/* Until the other end is closed. */
		while (read(pair[1], &byte, 1) > 0)
			;
		_exit(0);
	}
	close(pair[1]);
	hear(other);
}

static void
finish(struct other *other, int signal_number)
{
	if (signal_number)
		kill(other->pid, signal_number);
	close(other->sock);
	ck_assert_int_eq(waitpid(other->pid, NULL, 0), other->pid);
}

static size_t
available(void)
{
	size_t free_size, total;

	ok(cuMemGetInfo(&free_size, &total));
	ck_assert_uint_eq(total, 256 * MIB);
	return free_size;
}

static int
allocate(void)
{
	CUdeviceptr at;

	ok(cuMemAlloc(&at, 100 * MIB));
	return -1;
}

static CUmemGenericAllocationHandle
created(void)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};

	ok(cuMemCreate(&handle, 100 * MIB, &prop, 0));
	return handle;
}

static int
create(void)
{
	created();
	return -1;
}

static int
export(void)
{
	int fd;

	ok(cuMemExportToShareableHandle(&fd, created(),
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return fd;
}

static int
allocate_and_fork(void)
{
	allocate();
	/* Lives on without its parent's memory. */
	if (!fork())
		for (;;)
			pause();
	return -1;
}

/* Memory that act() takes is seen until the process ends by the signal. */
static void
check_seen(int (*act)(void), int signal_number)
{
	struct other other;
	struct kit k;

	start(&other, act);
	kit_context(&k);
	ck_assert_uint_eq(available(), 156 * MIB);
	finish(&other, signal_number);
	ck_assert_uint_eq(available(), 256 * MIB);
}

START_TEST(others_allocations_are_seen)
{
	check_seen(allocate, 0);
}
END_TEST

START_TEST(a_killed_process_s_memory_is_free)
{
	check_seen(allocate, SIGKILL);
}
END_TEST

START_TEST(physical_memory_of_a_killed_process_is_free)
{
	check_seen(create, SIGKILL);
}
END_TEST

START_TEST(a_child_does_not_keep_its_parent_s_memory)
{
	setpgid(0, 0);
	check_seen(allocate_and_fork, SIGKILL);
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
}
END_TEST

START_TEST(what_others_hold_cannot_be_had)
{
	CUdeviceptr at, second;
	struct other other;
	struct kit k;

	start(&other, allocate);
	kit_context(&k);
	expect(cuMemAlloc(&at, 160 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemAlloc(&at, 156 * MIB));
	expect(cuMemAlloc(&second, MIB), CUDA_ERROR_OUT_OF_MEMORY);
	finish(&other, SIGKILL);
	ok(cuMemAlloc(&second, 100 * MIB));
	ok(cuMemFree(at));
	ok(cuMemFree(second));
	ck_assert_uint_eq(available(), 256 * MIB);
}
END_TEST

START_TEST(an_open_descriptor_holds_memory)
{
	CUmemGenericAllocationHandle handle;
	struct other other;
	struct kit k;

	start(&other, export);
	kit_context(&k);
	ck_assert_uint_eq(available(), 156 * MIB);
	finish(&other, SIGKILL);
	/* Its descriptor is here, and not known to the device. */
	ck_assert_uint_eq(available(), 156 * MIB);
	ok(cuMemImportFromShareableHandle(&handle,
		(void *)(intptr_t)other.fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	/* Counted once. */
	ck_assert_uint_eq(available(), 156 * MIB);
	close(other.fd);
	ck_assert_uint_eq(available(), 156 * MIB);
	ok(cuMemRelease(handle));
	ck_assert_uint_eq(available(), 256 * MIB);
}
END_TEST

START_TEST(a_released_handle_s_descriptor_holds_memory)
{
	CUmemGenericAllocationHandle handle;
	struct kit k;
	int fd;

	kit_context(&k);
	handle = created();
	ok(cuMemExportToShareableHandle(&fd, handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ok(cuMemRelease(handle));
	ck_assert_uint_eq(available(), 156 * MIB);
	close(fd);
	ck_assert_uint_eq(available(), 256 * MIB);
}
END_TEST

START_TEST(memory_in_two_processes_is_counted_once)
{
	CUmemGenericAllocationHandle handle;
	struct other other;
	struct kit k;

	start(&other, export);
	kit_context(&k);
	ok(cuMemImportFromShareableHandle(&handle,
		(void *)(intptr_t)other.fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(other.fd);
	ck_assert_uint_eq(available(), 156 * MIB);
	finish(&other, 0);
	ck_assert_uint_eq(available(), 156 * MIB);
	ok(cuMemRelease(handle));
	ck_assert_uint_eq(available(), 256 * MIB);
}
END_TEST

START_TEST(a_private_account_is_nobody_else_s)
{
	struct other other;
	struct kit k;

	start(&other, allocate);
	setenv("SOFTCUDA_ACCOUNT", "private", 1);
	kit_context(&k);
	ck_assert_uint_eq(available(), 256 * MIB);
	finish(&other, 0);
}
END_TEST

START_TEST(an_account_file_that_is_no_account_is_left_alone)
{
	char path[256];
	struct stat st;
	struct kit k;
	FILE *f;

	setenv("SOFTCUDA_ACCOUNT", "check-strange", 1);
	snprintf(path, sizeof(path), "/dev/shm/softcuda-%u-%zu-check-strange",
		 (unsigned)geteuid(), 256 * MIB);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs("something else", f);
	fclose(f);
	/* In the next folder, or private. */
	kit_context(&k);
	allocate();
	ck_assert_uint_eq(available(), 156 * MIB);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, 14);
	unlink(path);
	snprintf(path, sizeof(path), "/tmp/softcuda-%u-%zu-check-strange",
		 (unsigned)geteuid(), 256 * MIB);
	unlink(path);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, others_allocations_are_seen);
	tcase_add_test(tc, a_killed_process_s_memory_is_free);
	tcase_add_test(tc, physical_memory_of_a_killed_process_is_free);
	tcase_add_test(tc, a_child_does_not_keep_its_parent_s_memory);
	tcase_add_test(tc, what_others_hold_cannot_be_had);
	tcase_add_test(tc, an_open_descriptor_holds_memory);
	tcase_add_test(tc, a_released_handle_s_descriptor_holds_memory);
	tcase_add_test(tc, memory_in_two_processes_is_counted_once);
	tcase_add_test(tc, a_private_account_is_nobody_else_s);
	tcase_add_test(tc, an_account_file_that_is_no_account_is_left_alone);
}

int
main(void)
{
	char account[64], path[256];
	int rc;

	snprintf(account, sizeof(account), "check-%d", (int)getpid());
	setenv("SOFTCUDA_ACCOUNT", account, 1);
	setenv("SOFTCUDA_MEMORY", "256M", 1);
	rc = kit_main("soft_ledger", fill);
	snprintf(path, sizeof(path), "/dev/shm/softcuda-%u-%zu-%s",
		 (unsigned)geteuid(), 256 * MIB, account);
	unlink(path);
	return rc;
}
