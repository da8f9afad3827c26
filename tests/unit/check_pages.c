/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/pages.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/shmem.h"
#include "shim/hold.h"
#include "tests/unit/suite.h"

/* More than one piece, and no multiple of one. */
#define SIZE ((UINT64_C(5) << 19) + 3 * PAGES_SIZE)

static struct shim_pages pages;

static uint8_t *
map(uint64_t size, int access, int flags)
{
	uint8_t *p = mmap(NULL, size, access, flags, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

static uint8_t *
plain(uint64_t size)
{
	return map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

static uint8_t
pattern(uint64_t i)
{
	return (uint8_t)(i * 7 + (i >> 12));
}

static void
fill(uint8_t *p, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++)
		p[i] = pattern(i);
}

static bool
is_filled(const uint8_t *p, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		if (p[i] != pattern(i))
			return false;
	return true;
}

static int
check(const void *p, uint64_t size)
{
	return shim_pages_check((uintptr_t)p, size, &pages);
}

/* Exchange the pages, with a file as the broker makes them. */
static int
try_share(uint8_t *p, uint64_t size)
{
	int fd;

	ck_assert_int_eq(check(p, size), 0);
	fd = shmem_create("pages", pages.size);
	ck_assert_int_ge(fd, 0);
	pages.mirror = shmem_map(fd, pages.size);
	ck_assert_ptr_nonnull(pages.mirror);
	ck_assert_int_eq(shim_fd_init(&pages.file, fd), 0);
	return shim_pages_share(&pages);
}

static void
share(uint8_t *p, uint64_t size)
{
	ck_assert_int_eq(try_share(p, size), 0);
}

/* Before the next check(), which begins anew. */
static void
release(void)
{
	ck_assert_int_eq(munmap(pages.mirror, pages.size), 0);
	ck_assert_int_eq(close(pages.file.fd), 0);
}

static bool
is_locked(const void *p)
{
	char line[256];
	FILE *f = fopen("/proc/self/smaps", "re");
	bool inside = false, locked = false;
	unsigned long start, end;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = (unsigned long)p >= start &&
				 (unsigned long)p < end;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			locked = strstr(line, " lo") != NULL;
	}
	fclose(f);
	return locked;
}

START_TEST(pages_hold_the_same_before_between_and_after)
{
	uint8_t *p = plain(SIZE);

	fill(p, SIZE);
	share(p, SIZE);
	ck_assert(is_filled(p, 0, SIZE));
	ck_assert(is_filled(pages.mirror, 0, SIZE));
	pages.mirror[SIZE - 1] = 1;
	ck_assert_uint_eq(p[SIZE - 1], 1);
	p[0] = 99;
	ck_assert_uint_eq(pages.mirror[0], 99);
	shim_pages_own(&pages);
	ck_assert_uint_eq(p[0], 99);
	ck_assert_uint_eq(p[SIZE - 1], 1);
	ck_assert(is_filled(p, 1, SIZE - 1));
	pages.mirror[5] = 44;
	ck_assert_uint_eq(p[5], pattern(5));
	release();
	ck_assert_int_eq(check(p, SIZE), 0);
}
END_TEST

START_TEST(pages_of_other_kinds_are_refused)
{
	uint8_t *p = plain(4 * PAGES_SIZE), here[2 * PAGES_SIZE] = {0};
	struct shim_pages taken;
	uint8_t *shared = map(PAGES_SIZE, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS);
	uint8_t *constant = map(PAGES_SIZE, PROT_READ,
				MAP_PRIVATE | MAP_ANONYMOUS);
	static const char text[] = "of a file";

	ck_assert_int_eq(check(here, sizeof(here)), PAGES_E_KIND);
	ck_assert_int_eq(check(shared, PAGES_SIZE), PAGES_E_KIND);
	ck_assert_int_eq(check(constant, PAGES_SIZE), PAGES_E_KIND);
	ck_assert_int_eq(check(text, sizeof(text)), PAGES_E_KIND);
	ck_assert_int_eq(check(p, 4 * PAGES_SIZE), 0);
	munmap(p + PAGES_SIZE, PAGES_SIZE);
	ck_assert_int_eq(check(p, 4 * PAGES_SIZE), PAGES_E_KIND);
	ck_assert_int_eq(check(p + 2 * PAGES_SIZE, 2 * PAGES_SIZE), 0);
	ck_assert_int_eq(check(p, 1), 0);
	ck_assert_int_eq(check(p, PAGES_SIZE + 1), PAGES_E_KIND);
	share(p, PAGES_SIZE);
	taken = pages;
	ck_assert_int_eq(check(p, 1), PAGES_E_KIND);
	pages = taken;
	shim_pages_own(&pages);
	release();
}
END_TEST

static void *
stack_of_a_thread(void *arg)
{
	uint8_t here[2 * PAGES_SIZE] = {0};

	(void)arg;
	ck_assert_int_eq(check(here, sizeof(here)), PAGES_E_KIND);
	return NULL;
}

START_TEST(pages_of_the_callers_own_stack_are_refused)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, stack_of_a_thread,
					NULL), 0);
	pthread_join(thread, NULL);
}
END_TEST

static void *
wait_for(void *barrier)
{
	pthread_barrier_wait(barrier);
	return NULL;
}

START_TEST(pages_with_other_data_are_widened)
{
	uint8_t *p = plain(4 * PAGES_SIZE);

	ck_assert_int_eq(check(p + 5, PAGES_SIZE), 0);
	ck_assert_uint_eq(pages.start, (uintptr_t)p);
	ck_assert_uint_eq(pages.size, 2 * PAGES_SIZE);
	ck_assert(pages.mixed);
	ck_assert_int_eq(check(p, PAGES_SIZE - 1), 0);
	ck_assert(pages.mixed);
	ck_assert_int_eq(check(p + PAGES_SIZE, 2 * PAGES_SIZE), 0);
	ck_assert(!pages.mixed);
}
END_TEST

/* No userfaultfd from here on, as in a container that forbids it. */
static void
forbid_hold(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {
		sizeof(code) / sizeof(*code), code,
	};

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
			 0);
}

START_TEST(pages_with_other_data_stay_if_threads_cannot_be_held_up)
{
	uint8_t *p = plain(4 * PAGES_SIZE);
	pthread_barrier_t barrier;
	pthread_t thread;

	fill(p, 4 * PAGES_SIZE);
	forbid_hold();
#ifndef __SANITIZE_THREAD__     /* which has a thread of its own */
	share(p + 5, PAGES_SIZE);
	ck_assert_int_eq(shim_pages_own(&pages), 0);
	release();
#endif
	pthread_barrier_init(&barrier, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for, &barrier), 0);
	ck_assert_int_eq(try_share(p + 5, PAGES_SIZE), PAGES_E_SHARED);
	release();
	ck_assert_int_eq(try_share(p, 5), PAGES_E_SHARED);
	release();
	ck_assert(is_filled(p, 0, 4 * PAGES_SIZE));
	ck_assert_int_eq(check(p, 4 * PAGES_SIZE), 0);
	share(p, 2 * PAGES_SIZE);
	ck_assert_int_eq(shim_pages_own(&pages), 0);
	release();
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
}
END_TEST

START_TEST(pages_with_other_data_go_back_only_if_threads_are_held_up)
{
	uint8_t *p = plain(2 * PAGES_SIZE);
	pthread_barrier_t barrier;
	pthread_t thread;

	fill(p, 2 * PAGES_SIZE);
	if (try_share(p + 5, PAGES_SIZE)) {
		printf("skip: this system holds no threads up\n");
		return;
	}
	forbid_hold();
	pthread_barrier_init(&barrier, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for, &barrier), 0);
	ck_assert_int_eq(shim_pages_own(&pages), PAGES_E_SHARED);
	ck_assert(shim_pages_are_file(&pages, (uintptr_t)p, 2 * PAGES_SIZE));
	p[0] = 9;
	ck_assert_uint_eq(pages.mirror[0], 9);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	release();
}
END_TEST

START_TEST(pages_tell_whether_they_are_still_the_files)
{
	uint8_t *p = plain(4 * PAGES_SIZE);

	share(p, 4 * PAGES_SIZE);
	ck_assert(shim_pages_are_file(&pages, (uintptr_t)p, 4 * PAGES_SIZE));
	ck_assert(shim_pages_are_file(&pages, (uintptr_t)p + 5, 7));
	ck_assert(!shim_pages_are_file(&pages, (uintptr_t)p,
				       4 * PAGES_SIZE + 1));
	ck_assert_ptr_ne(mremap(p + 2 * PAGES_SIZE, PAGES_SIZE, PAGES_SIZE,
				MREMAP_MAYMOVE | MREMAP_FIXED,
				p + PAGES_SIZE), MAP_FAILED);
	ck_assert(!shim_pages_are_file(&pages, (uintptr_t)p + PAGES_SIZE, 1));
	ck_assert(!shim_pages_are_file(&pages, (uintptr_t)p + 2 * PAGES_SIZE,
				       1));
	ck_assert(!shim_pages_are_file(&pages, (uintptr_t)p, 4 * PAGES_SIZE));
	ck_assert(shim_pages_are_file(&pages, (uintptr_t)p + 3 * PAGES_SIZE,
				      PAGES_SIZE));
	ck_assert_int_eq(shim_pages_own(&pages), 0);
	ck_assert(!shim_pages_are_file(&pages, (uintptr_t)p, 1));
	release();
}
END_TEST

START_TEST(pages_that_mean_something_else_by_now_are_left_alone)
{
	uint8_t *p = plain(SIZE);

	fill(p, SIZE);
	share(p, SIZE);
	ck_assert_ptr_eq(mmap(p + PAGES_SIZE, PAGES_SIZE,
			      PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p + PAGES_SIZE);
	munmap(p + SIZE - PAGES_SIZE, PAGES_SIZE);
	memset(p + PAGES_SIZE, 3, PAGES_SIZE);
	shim_pages_own(&pages);
	ck_assert(is_filled(p, 0, PAGES_SIZE));
	ck_assert_uint_eq(p[PAGES_SIZE], 3);
	ck_assert_uint_eq(p[2 * PAGES_SIZE - 1], 3);
	ck_assert(is_filled(p, 2 * PAGES_SIZE, SIZE - PAGES_SIZE));
	release();
	ck_assert_int_eq(check(p, SIZE - PAGES_SIZE), 0);
	ck_assert_int_eq(check(p, SIZE), PAGES_E_KIND);
}
END_TEST

static void
in_child(uint8_t *p, bool close_first)
{
	int status = 1;
	pid_t child = fork();

	if (!child) {
		if (close_first)
			close(pages.file.fd);
		shim_pages_forked(&pages);
		if (!is_filled(p, 0, SIZE))
			_exit(2);
		memset(p, 1, SIZE);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert(is_filled(p, 0, SIZE));
}

START_TEST(pages_of_a_child_are_its_own)
{
	uint8_t *p = plain(SIZE);

	fill(p, SIZE);
	share(p, SIZE);
	in_child(p, false);
	in_child(p, true);
	release();
}
END_TEST

/* What the parent writes into them after the fork is not the child's. */
START_TEST(mixed_pages_of_a_child_are_its_own_at_once)
{
	uint8_t *p = plain(SIZE);
	int done[2], go[2], status = 1;
	pid_t child;
	char c;

	fill(p, SIZE);
	if (try_share(p + 5, SIZE - 10)) {
		printf("skip: this system holds no threads up\n");
		return;
	}
	ck_assert_int_eq(pipe(done), 0);
	ck_assert_int_eq(pipe(go), 0);
	child = fork();
	if (!child) {
		shim_pages_forked(&pages);
		if (write(done[1], "", 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(3);
		if (!is_filled(p, 0, PAGES_SIZE) ||
		    !is_filled(p, SIZE - PAGES_SIZE, SIZE))
			_exit(2);
		memset(p, 1, SIZE);
		_exit(0);
	}
	ck_assert_int_eq(read(done[0], &c, 1), 1);
	p[0] = p[PAGES_SIZE - 1] = p[SIZE - 1] = 99;
	ck_assert_int_eq(write(go[1], "", 1), 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(p[0], 99);
	ck_assert_uint_eq(p[SIZE - 1], 99);
	ck_assert(is_filled(p, PAGES_SIZE, SIZE - PAGES_SIZE));
	release();
}
END_TEST

START_TEST(pages_that_were_locked_stay_locked)
{
	uint8_t *p = plain(4 * PAGES_SIZE);

	/* Sanitizers let mlock() do nothing. */
	ck_assert_int_eq(syscall(SYS_mlock, p, 2 * PAGES_SIZE), 0);
	share(p, 2 * PAGES_SIZE);
	ck_assert(is_locked(p));
	shim_pages_own(&pages);
	ck_assert(is_locked(p));
	release();
	share(p + 2 * PAGES_SIZE, 2 * PAGES_SIZE);
	ck_assert(!is_locked(p + 2 * PAGES_SIZE));
	shim_pages_own(&pages);
	release();
}
END_TEST

/* ---- while another thread writes ---- */

#define WORDS (SIZE / 8)

static struct {
	volatile uint64_t *words;
	_Atomic bool end;
	uint64_t rounds;                 /* each adds 1 to each 64th word */
} writer;

static void *
count_words(void *arg)
{
	(void)arg;
	while (!writer.end) {
		for (uint64_t i = 0; i < WORDS; i += 64)
			writer.words[i]++;
		writer.rounds++;
	}
	return NULL;
}

static bool
can_hold(void)
{
	struct shim_hold hold;
	bool can;

#ifdef __SANITIZE_THREAD__
	/* It would find the race that this is. */
	return false;
#endif
	shim_hold_begin(&hold);
	can = hold.fd >= 0;
	shim_hold_end(&hold);
	return can;
}

/* What smaps has of the page there. */
static const char *
flags_at(const void *p)
{
	static char line[512];
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long start, end, at = (uintptr_t)p;
	bool inside = false;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = at >= start && at < end;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			break;
	}
	fclose(f);
	ck_assert(inside);
	return line;
}

static bool
has(const void *p, const char *flag)
{
	return strstr(flags_at(p), flag) != NULL;
}

START_TEST(pages_keep_what_was_advised)
{
	uint8_t *p = plain(SIZE), *wiped = p + 64 * PAGES_SIZE;
	uint8_t *end = p + SIZE - PAGES_SIZE;

	fill(p, SIZE);
	ck_assert_int_eq(madvise(p, 2 * PAGES_SIZE, MADV_DONTFORK), 0);
	ck_assert_int_eq(madvise(p + PAGES_SIZE, SIZE / 2 / PAGES_SIZE *
				 PAGES_SIZE, MADV_DONTDUMP), 0);
	ck_assert_int_eq(madvise(end, PAGES_SIZE, MADV_RANDOM), 0);
	ck_assert_int_eq(madvise(wiped, 2 * PAGES_SIZE, MADV_WIPEONFORK), 0);
	share(p, SIZE);
	ck_assert(has(p, " dc") && !has(p, " dd"));
	ck_assert(has(p + PAGES_SIZE, " dc") && has(p + PAGES_SIZE, " dd"));
	ck_assert(!has(p + 2 * PAGES_SIZE, " dc"));
	ck_assert(has(end, " rr") && !has(end, " dd"));
	/* Said meanwhile, and taken back. */
	ck_assert_int_eq(madvise(end, PAGES_SIZE, MADV_DONTFORK), 0);
	ck_assert_int_eq(madvise(p, PAGES_SIZE, MADV_DOFORK), 0);
	ck_assert_int_eq(shim_pages_own(&pages), 0);
	ck_assert(!has(p, " dc") && has(p + PAGES_SIZE, " dc"));
	ck_assert(has(p + PAGES_SIZE, " dd"));
	ck_assert(has(end, " rr") && has(end, " dc"));
	ck_assert(has(wiped, " wf") && has(wiped, " dd"));
	ck_assert(!has(wiped + 2 * PAGES_SIZE, " wf"));
	ck_assert(is_filled(p, 0, SIZE));
	release();
}
END_TEST

START_TEST(pages_that_a_child_is_to_find_empty_are_empty_there)
{
	uint8_t *p = plain(SIZE), *wiped = p + 64 * PAGES_SIZE;
	int status = 1;
	pid_t child;

	fill(p, SIZE);
	ck_assert_int_eq(madvise(wiped, 2 * PAGES_SIZE, MADV_WIPEONFORK), 0);
	ck_assert_int_eq(madvise(p, PAGES_SIZE, MADV_DONTFORK), 0);
	share(p, SIZE);
	child = fork();
	if (!child) {
		bool empty = true;

		shim_pages_forked(&pages);
		for (uint64_t i = 0; i < 2 * PAGES_SIZE; i++)
			empty &= !wiped[i];
		_exit(empty && mincore(p, PAGES_SIZE, &(uint8_t){0}) < 0 &&
		      is_filled(p, PAGES_SIZE, 64 * PAGES_SIZE) &&
		      is_filled(p, 66 * PAGES_SIZE, SIZE) ? 0 : 2);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert(is_filled(p, 0, SIZE));
	release();
}
END_TEST

/* More than anybody would remember for one of them. */
START_TEST(pages_that_are_advised_upon_in_many_parts_are_refused)
{
	uint8_t *p = plain(SIZE);

	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(madvise(p + 2 * i * PAGES_SIZE, PAGES_SIZE,
					 MADV_DONTFORK), 0);
	ck_assert_int_eq(check(p, SIZE), 0);
	ck_assert_int_eq(madvise(p + 32 * PAGES_SIZE, PAGES_SIZE,
				 MADV_DONTDUMP), 0);
	ck_assert_int_eq(check(p, SIZE), PAGES_E_ADVISED);
}
END_TEST

START_TEST(pages_lose_nothing_that_another_thread_writes)
{
	pthread_t thread;
	uint64_t lost = 0;

	if (!can_hold()) {
		printf("skip: this system holds no threads up\n");
		return;
	}
	writer.words = (volatile uint64_t *)(void *)plain(SIZE);
	ck_assert_int_eq(pthread_create(&thread, NULL, count_words, NULL), 0);
	for (int i = 0; i < 30; i++) {
		share((uint8_t *)(uintptr_t)writer.words, SIZE);
		shim_pages_own(&pages);
		release();
	}
	writer.end = true;
	pthread_join(thread, NULL);
	for (uint64_t i = 0; i < WORDS; i += 64)
		lost += writer.words[i] != writer.rounds;
	ck_assert_uint_gt(writer.rounds, 0);
	ck_assert_uint_eq(lost, 0);
}
END_TEST

/* ---- while a system call of another thread writes beside them ---- */

static struct {
	uint8_t *to;
	int from;                       /* of 0, 1, 2, … */
	_Atomic bool end, failed;
	_Atomic uint64_t reads;
} caller;

/* It writes into pages that are being copied, and the system holds it up,
 * which no sanitizer sees. */
__attribute__((no_sanitize("thread"))) static void *
read_all_the_time(void *arg)
{
	volatile uint8_t *to = caller.to;

	(void)arg;
	while (!caller.end) {
		for (int i = 0; i < 64; i++)
			to[i] = 0xff;
		if (syscall(SYS_pread64, caller.from, caller.to, 64, 0) != 64)
			caller.failed = true;
		for (int i = 0; i < 64; i++)
			caller.failed = caller.failed || to[i] != i;
		caller.reads++;
	}
	return NULL;
}

START_TEST(pages_hold_up_what_system_calls_write_beside_them)
{
	uint8_t *p = plain(PAGES_SIZE), bytes[64];
	pthread_t thread;
	int shared = 0;

	for (int i = 0; i < 64; i++)
		bytes[i] = (uint8_t)i;
	caller.to = p;
	caller.from = memfd_create("bytes", 0);
	ck_assert_int_eq(pwrite(caller.from, bytes, 64, 0), 64);
	ck_assert_int_eq(pthread_create(&thread, NULL, read_all_the_time,
					NULL), 0);
	while (!caller.reads)
		;
	for (int i = 0; i < 300; i++) {
		if (!try_share(p + 100, 80)) {
			shared++;
			ck_assert_int_eq(shim_pages_own(&pages), 0);
		}
		release();
	}
	caller.end = true;
	pthread_join(thread, NULL);
	/* Whoever cannot hold them up leaves the pages alone. */
	ck_assert(!caller.failed);
	ck_assert(shared == 0 || shared == 300);
	if (!shared)
		printf("skip: this system holds no system calls up\n");
}
END_TEST

SUITE("pages",
	pages_hold_up_what_system_calls_write_beside_them,
	pages_with_other_data_stay_if_threads_cannot_be_held_up,
	pages_with_other_data_go_back_only_if_threads_are_held_up,
	pages_tell_whether_they_are_still_the_files,
	mixed_pages_of_a_child_are_its_own_at_once,
	pages_lose_nothing_that_another_thread_writes,
	pages_hold_the_same_before_between_and_after,
	pages_of_other_kinds_are_refused,
	pages_of_the_callers_own_stack_are_refused,
	pages_with_other_data_are_widened,
	pages_that_mean_something_else_by_now_are_left_alone,
	pages_of_a_child_are_its_own,
	pages_that_were_locked_stay_locked,
	pages_keep_what_was_advised,
	pages_that_a_child_is_to_find_empty_are_empty_there,
	pages_that_are_advised_upon_in_many_parts_are_refused)
