/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the broker by themselves: which driver library it finds, sizes on
 * the command line, tenants and their limits, a worker's windows, timers,
 * connections, who has faulted.
 */
#include <check.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/broker/addr.h"
#include "server/broker/conn.h"
#include "server/broker/driver.h"
#include "server/broker/loop.h"
#include "server/broker/quota.h"
#include "server/broker/solo.h"
#include "tests/unit/suite.h"

static char dir[64];

static void
setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/mpsshim-parts-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	unsetenv("LD_LIBRARY_PATH");
}

static void
teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(command), 0);
}

/* ---- driver -------------------------------------------------------------*/

/* A library in its own directory, or what looks like one. */
static void
make_library(const char *sub, const char *name, int class, const char *text)
{
	Elf64_Ehdr head = { .e_machine = EM_X86_64 };
	char path[160];
	int fd;

#if defined(__aarch64__)
	head.e_machine = EM_AARCH64;
#endif
	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = (unsigned char)class;
	snprintf(path, sizeof(path), "%s/%s", dir, sub);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s/%s", dir, sub, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, &head, sizeof(head)), sizeof(head));
	/* With its NUL, as in a table of names. */
	ck_assert_int_eq(write(fd, text, strlen(text) + 1),
			 (long)strlen(text) + 1);
	close(fd);
}

static int
choose(const char *choice, struct brk_driver *driver, char why[256])
{
	char own[96];

	snprintf(own, sizeof(own), "%s/bin", dir);
	return brk_driver_choose(driver, choice, own, why, 256);
}

START_TEST(driver_is_neither_stub_nor_shim_nor_of_another_machine)
{
	char list[512], want[160], why[256];
	struct brk_driver driver;

	make_library("stubs", "libcuda.so.1", ELFCLASS64, "a toolkit's");
	make_library("ours", "libcuda.so.1", ELFCLASS64, "MPSSHIM_NO_BROKER");
	make_library("small", "libcuda.so.1", ELFCLASS32, "of 32 bits");
	make_library("real", "libcuda.so.1", ELFCLASS64, "a driver");
	snprintf(list, sizeof(list), "%s/none:relative:%s/stubs:%s/ours::"
		 "%s/small:%s/real", dir, dir, dir, dir, dir);
	setenv("LD_LIBRARY_PATH", list, 1);
	ck_assert_int_eq(choose("cuda", &driver, why), 0);
	snprintf(want, sizeof(want), "%s/real/libcuda.so.1", dir);
	ck_assert_str_eq(driver.path, want);
	ck_assert(!driver.software);
}
END_TEST

START_TEST(driver_is_not_our_shim_by_another_name)
{
	char list[96], link_path[160], target[160], why[256];
	struct brk_driver driver;

	make_library("lib", "libmpsshim.so", ELFCLASS64, "MPSSHIM_NO_BROKER");
	snprintf(list, sizeof(list), "%s/links", dir);
	ck_assert_int_eq(mkdir(list, 0700), 0);
	snprintf(link_path, sizeof(link_path), "%s/libcuda.so.1", list);
	snprintf(target, sizeof(target), "%s/lib/libmpsshim.so", dir);
	ck_assert_int_eq(symlink(target, link_path), 0);
	setenv("LD_LIBRARY_PATH", list, 1);
	/* A machine with a driver of its own finds that one. */
	if (choose("cuda", &driver, why) < 0)
		ck_assert_ptr_nonnull(strstr(why, "libcuda.so.1"));
	else
		ck_assert_ptr_null(strstr(driver.path, dir));
}
END_TEST

START_TEST(software_device_lies_beside_the_program)
{
	struct brk_driver driver;
	char why[256], bin[96];

	snprintf(bin, sizeof(bin), "%s/bin", dir);
	ck_assert_int_eq(mkdir(bin, 0700), 0);
	ck_assert_int_lt(choose("soft", &driver, why), 0);
	ck_assert_ptr_nonnull(strstr(why, "libsoftcuda.so"));
	make_library("lib", "libsoftcuda.so", ELFCLASS64, "");
	ck_assert_int_eq(choose("soft", &driver, why), 0);
	ck_assert(driver.software);
	ck_assert_ptr_nonnull(strstr(driver.path, "/lib/libsoftcuda.so"));
	/* Without a GPU, that is what "auto" is. */
	if (!access("/dev/nvidiactl", F_OK) || !access("/dev/dxg", F_OK))
		return;
	ck_assert_int_eq(choose("auto", &driver, why), 0);
	ck_assert(driver.software);
}
END_TEST

START_TEST(driver_by_path_is_taken_as_it_is)
{
	struct brk_driver driver;
	char path[160], why[256];

	make_library("any", "libwhat.so", ELFCLASS64, "");
	snprintf(path, sizeof(path), "%s/any/../any/libwhat.so", dir);
	ck_assert_int_lt(choose(path, &driver, why), 0);
	ck_assert_ptr_nonnull(strstr(why, "cuInit"));
	make_library("any", "libwhat.so", ELFCLASS64, "cuInit");
	ck_assert_int_eq(choose(path, &driver, why), 0);
	ck_assert_ptr_null(strstr(driver.path, ".."));
	ck_assert_int_lt(choose("/no/such/file", &driver, why), 0);
	ck_assert_ptr_nonnull(strstr(why, "/no/such/file"));
}
END_TEST

/* ---- limits -------------------------------------------------------------*/

START_TEST(sizes_are_read_with_their_unit)
{
	static const char *const wrong[] = {
		"", "-1", "1.5G", "G", "12X", "12GB", " 3", "0x10",
		"18446744073709551616", "17179869185G",
	};
	uint64_t bytes = 0;

	ck_assert_int_eq(brk_quota_parse("4096", &bytes), 0);
	ck_assert_uint_eq(bytes, 4096);
	ck_assert_int_eq(brk_quota_parse("7K", &bytes), 0);
	ck_assert_uint_eq(bytes, 7 * 1024);
	ck_assert_int_eq(brk_quota_parse("40g", &bytes), 0);
	ck_assert_uint_eq(bytes, UINT64_C(40) << 30);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		ck_assert_int_lt(brk_quota_parse(wrong[i], &bytes), 0);
}
END_TEST

START_TEST(a_job_is_one_tenant_and_a_process_its_own)
{
	struct brk_tenant *a, *b, *c, *d;
	struct brk_quotas quotas;

	brk_quotas_init(&quotas);
	quotas.limits[QUOTA_DEVICE] = 100;
	ck_assert_int_eq(brk_tenant_get(&quotas, "job", &a), 0);
	ck_assert_int_eq(brk_tenant_get(&quotas, "job", &b), 0);
	ck_assert_int_eq(brk_tenant_get(&quotas, "", &c), 0);
	ck_assert_int_eq(brk_tenant_get(&quotas, "", &d), 0);
	ck_assert_ptr_eq(a, b);
	ck_assert_ptr_ne(c, d);
	ck_assert_int_eq(brk_charge(&quotas, a, QUOTA_DEVICE, 60), 0);
	ck_assert_int_eq(brk_charge(&quotas, b, QUOTA_DEVICE, 41),
			 QUOTA_E_LIMIT);
	ck_assert_int_eq(brk_charge(&quotas, b, QUOTA_DEVICE, UINT64_MAX),
			 QUOTA_E_LIMIT);
	ck_assert_int_eq(brk_charge(&quotas, b, QUOTA_DEVICE, 40), 0);
	/* What it wishes is never more than what it may have. */
	brk_tenant_wish(c, 200);
	brk_tenant_wish(c, 0);
	ck_assert_int_eq(brk_charge(&quotas, c, QUOTA_DEVICE, 101),
			 QUOTA_E_LIMIT);
	ck_assert_int_eq(brk_charge(&quotas, c, QUOTA_DEVICE, 100), 0);
	brk_tenant_wish(d, 60);
	brk_tenant_wish(d, 50);
	brk_tenant_wish(d, 60);
	ck_assert_int_eq(brk_charge(&quotas, d, QUOTA_DEVICE, 51),
			 QUOTA_E_LIMIT);
	ck_assert_int_eq(brk_charge(&quotas, d, QUOTA_DEVICE, 50), 0);
	ck_assert_int_eq(brk_charge(&quotas, d, QUOTA_HOST, 51), 0);
	brk_discharge(d, QUOTA_HOST, 51);
	brk_discharge(d, QUOTA_DEVICE, 50);
	brk_discharge(a, QUOTA_DEVICE, 100);
	brk_discharge(c, QUOTA_DEVICE, 100);
	brk_tenant_put(a);
	brk_tenant_put(b);
	brk_tenant_put(c);
	brk_tenant_put(d);
	ck_assert(LIST_EMPTY(&quotas.tenants));
}
END_TEST

START_TEST(windows_that_are_none_are_left_out)
{
	static const uint64_t G = UINT64_C(1) << 30;
	const uint64_t words[] = {
		0, G,                           /* at NULL */
		4096, G,                        /* not aligned */
		G, 0,                           /* empty */
		G, G,
		UINT64_C(1) << 47, G,           /* the kernel's */
		(UINT64_C(1) << 47) - G, 2 * G, /* beyond the end */
		UINT64_MAX - G + 1, G,          /* wraps */
		64 * G, 2 * G,
		99,                             /* half a pair */
	};
	struct brk_window out[ADDR_WINDOWS];

	ck_assert_uint_eq(brk_windows_check(words, sizeof(words) / 8, out), 2);
	ck_assert_uint_eq(out[0].range.base, G);
	ck_assert(out[0].host);
	ck_assert_uint_eq(out[1].range.base, 64 * G);
	ck_assert(out[1].host);
	ck_assert_uint_eq(brk_windows_check(words + 6, 2, out), 1);
	ck_assert(!out[0].host);
}
END_TEST

START_TEST(no_tenant_may_reserve_all_addresses)
{
	const uint64_t G = UINT64_C(1) << 30;
	struct brk_window windows[2] = {
		{ { 4096 * G, 12288 * G }, false },
		{ { 16384 * G, 4096 * G }, true },
	};

	ck_assert_uint_eq(brk_windows_share(windows, 2, 141 * G),
			  2048 * G);
	windows[0].range.size = windows[1].range.size = 128 * G;
	ck_assert_uint_eq(brk_windows_share(windows, 2, 4 * G), 32 * G);
	windows[1].range.size = 64 * G;
	ck_assert_uint_eq(brk_windows_share(windows, 2, 24 * G), 24 * G);
	ck_assert_uint_eq(brk_windows_share(windows, 2, 141 * G), 141 * G);
}
END_TEST

/* ---- timers -------------------------------------------------------------*/

static struct brk_loop loop;
static struct brk_timer early, late, never;
static char order[8];
static int turns;

static void
fire_early(struct brk_timer *timer)
{
	strcat(order, "e");
	/* A timer may stop another, and arm itself again. */
	brk_timer_stop(&never);
	if (++turns < 3)
		brk_timer_set(&loop, timer, 0);
}

static void
fire_late(struct brk_timer *timer)
{
	(void)timer;
	strcat(order, "l");
	loop.done = true;
}

static void
fire_never(struct brk_timer *timer)
{
	(void)timer;
	ck_abort_msg("a stopped timer fired");
}

START_TEST(timers_fire_in_order_and_when_stopped_not_at_all)
{
	ck_assert_int_eq(brk_loop_init(&loop), 0);
	early.fire = fire_early;
	late.fire = fire_late;
	never.fire = fire_never;
	brk_timer_set(&loop, &late, 60);
	brk_timer_set(&loop, &never, 50);
	brk_timer_set(&loop, &early, 1);
	ck_assert_int_eq(brk_loop_run(&loop), 0);
	ck_assert_str_eq(order, "eeel");
	brk_loop_fini(&loop);
}
END_TEST

/* ---- connections --------------------------------------------------------*/

static unsigned int heard;
static int ended;

static int
hear(struct brk_conn *conn, const Mps__Control *message)
{
	(void)conn;
	heard += message->body_case == MPS__CONTROL__BODY_WORKER_FAULT;
	return 0;
}

static void
end(struct brk_conn *conn, int reason)
{
	ended = reason;
	brk_conn_fini(conn);
	loop.done = true;
}

/* A worker says why it ends, and ends; the broker, which has not read it yet,
 * has something to tell it. */
START_TEST(last_words_are_heard_by_who_speaks_himself)
{
	Mps__Control words = MPS__CONTROL__INIT, ours = MPS__CONTROL__INIT;
	Mps__WorkerFault fault = MPS__WORKER_FAULT__INIT;
	Mps__WorkerStats question = MPS__WORKER_STATS__INIT;
	struct brk_conn conn;
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ck_assert_int_eq(brk_loop_init(&loop), 0);
	ck_assert_int_eq(brk_conn_init(&conn, &loop, pair[0], 1 << 20), 0);
	conn.on_frame = hear;
	conn.on_end = end;
	words.body_case = MPS__CONTROL__BODY_WORKER_FAULT;
	words.worker_fault = &fault;
	ck_assert_int_eq(sock_send_control(pair[1], &words, NULL, 0, 1000), 0);
	close(pair[1]);
	ours.body_case = MPS__CONTROL__BODY_WORKER_STATS;
	ours.worker_stats = &question;
	for (int i = 0; i < 3; i++)
		brk_conn_send(&conn, &ours, NULL, 0);
	ck_assert_int_eq(brk_loop_run(&loop), 0);
	ck_assert_uint_eq(heard, 1);
	ck_assert_int_eq(ended, -EPIPE);
	brk_loop_fini(&loop);
}
END_TEST

/* ---- faults -------------------------------------------------------------*/

#define SECOND UINT64_C(1000000000)

START_TEST(two_faults_within_ten_minutes_are_many)
{
	static struct brk_faults faults;
	uint64_t t = 1000 * SECOND;

	ck_assert(!brk_faults_are_many(&faults, 1, "j", "/a", t));
	brk_faults_add(&faults, 1, "j", "/a", t);
	ck_assert(!brk_faults_are_many(&faults, 1, "j", "/a", t));
	brk_faults_add(&faults, 1, "j", "/a", t + 599 * SECOND);
	ck_assert(brk_faults_are_many(&faults, 1, "j", "/a",
				      t + 599 * SECOND));
	/* Another user, job or program. */
	ck_assert(!brk_faults_are_many(&faults, 2, "j", "/a", t));
	ck_assert(!brk_faults_are_many(&faults, 1, "k", "/a", t));
	ck_assert(!brk_faults_are_many(&faults, 1, "j", "/b", t));
	/* The first of them is long ago; one more is too many again. */
	ck_assert(!brk_faults_are_many(&faults, 1, "j", "/a",
				       t + 600 * SECOND));
	brk_faults_add(&faults, 1, "j", "/a", t + 700 * SECOND);
	ck_assert(brk_faults_are_many(&faults, 1, "j", "/a",
				      t + 700 * SECOND));
}
END_TEST

START_TEST(faults_of_many_programs_are_kept_and_the_oldest_goes)
{
	static struct brk_faults faults;
	uint64_t t = 1000 * SECOND;
	char exe[16];

	for (int i = 0; i <= SOLO_PROGRAMS; i++) {
		snprintf(exe, sizeof(exe), "/%d", i);
		brk_faults_add(&faults, 1, "", exe, t + (uint64_t)i);
		brk_faults_add(&faults, 1, "", exe, t + (uint64_t)i);
	}
	ck_assert(!brk_faults_are_many(&faults, 1, "", "/0", t + SECOND));
	for (int i = 1; i <= SOLO_PROGRAMS; i++) {
		snprintf(exe, sizeof(exe), "/%d", i);
		ck_assert(brk_faults_are_many(&faults, 1, "", exe,
					      t + SECOND));
	}
}
END_TEST

SUITE_FIXTURE("broker_parts", setup, teardown,
	      driver_is_neither_stub_nor_shim_nor_of_another_machine,
	      driver_is_not_our_shim_by_another_name,
	      software_device_lies_beside_the_program,
	      driver_by_path_is_taken_as_it_is,
	      sizes_are_read_with_their_unit,
	      a_job_is_one_tenant_and_a_process_its_own,
	      windows_that_are_none_are_left_out,
	      no_tenant_may_reserve_all_addresses,
	      two_faults_within_ten_minutes_are_many,
	      faults_of_many_programs_are_kept_and_the_oldest_goes,
	      timers_fire_in_order_and_when_stopped_not_at_all,
	      last_words_are_heard_by_who_speaks_himself)
