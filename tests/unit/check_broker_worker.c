/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker and its workers: start, death, faults, lies. This program is
 * the worker, too.
 */
#include "tests/unit/broker_rig.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/shmem.h"
#include "tests/unit/fake_worker.h"
#include "tests/unit/suite.h"

#define MIB FAKE_MIB

static int descriptors;

static void
setup(void)
{
	descriptors = suite_descriptors();
	rig_init();
}

static void
teardown(void)
{
	rig_fini();
	ck_assert_int_eq(suite_descriptors(), descriptors);
}

static pid_t
worker_pid(void)
{
	Mps__Control *answer = rig_status();
	pid_t pid;

	ck_assert_uint_eq(answer->status_reply->n_workers, 1);
	pid = answer->status_reply->workers[0]->pid;
	mps__control__free_unpacked(answer, NULL);
	return pid;
}

static struct channel_page *
map_channel(const struct rig_client *client)
{
	void *map = shmem_map(client->channel, CHANNEL_SIZE);

	ck_assert_ptr_nonnull(map);
	return map;
}

static bool
is_dead(struct channel_page *page, uint32_t code)
{
	for (int i = 0; i < 3000 && !atomic_load(&page->dead); i++)
		usleep(10000);
	return atomic_load(&page->dead) == code;
}

static void
expect_data_end(const struct rig_client *client)
{
	struct pollfd p = { .fd = client->data, .events = POLLIN };
	char byte;

	ck_assert_int_eq(poll(&p, 1, 30000), 1);
	ck_assert_int_eq(recv(client->data, &byte, 1, 0), 0);
}

/* What the worker answered a chunk of that size with; it may be dead then. */
static uint32_t
provoke(struct rig_client *client, uint64_t size)
{
	uint64_t piece, at;

	piece = rig_piece(client, false, 64 * MIB, &at);
	return rig_chunk(client, piece, at, size, NULL);
}

static void *
wait_in_slot(void *arg)
{
	struct reply_slot *slot = arg;
	/* Longer than the test may take. */
	struct timespec limit = { .tv_sec = 25 };
	long r;

	atomic_store(&slot->state, SLOT_WAITING);
	r = syscall(SYS_futex, &slot->state, FUTEX_WAIT, SLOT_WAITING, &limit,
		    NULL, 0);
	return (void *)(r < 0 && errno == ETIMEDOUT ? 1L : 0L);
}

static bool
is_moved(const Mps__StatusReply *status)
{
	return status->n_workers && status->workers[0]->moved;
}

START_TEST(a_client_goes_on_when_its_worker_is_killed)
{
	struct rig_client client, next;
	struct channel_page *page;
	struct reply_slot *slot;
	pthread_t thread;
	void *timed_out;

	rig_start(NULL);
	rig_join(&client);
	page = map_channel(&client);
	slot = (struct reply_slot *)((char *)page + CHANNEL_SLOTS_OFFSET) + 63;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_in_slot, slot), 0);
	while (atomic_load(&slot->state) != SLOT_WAITING)
		usleep(1000);
	usleep(20000);
	kill(worker_pid(), SIGKILL);
	/* Whoever waits for an answer looks again. */
	pthread_join(thread, &timed_out);
	ck_assert_ptr_null(timed_out);
	rig_wait(is_moved);
	ck_assert_uint_eq(atomic_load(&page->dead), 0);
	ck_assert_uint_eq(provoke(&client, 2 * MIB), 0);
	rig_join(&next);
	ck_assert_uint_eq(next.generation, 2);
	rig_leave(&next);
	munmap(page, CHANNEL_SIZE);
	rig_leave(&client);
}
END_TEST

START_TEST(a_client_that_the_next_worker_refuses_hears_why)
{
	struct rig_client client;
	struct channel_page *page;

	setenv("MPSSHIM_FAKE", "noresume", 1);
	rig_start(NULL);
	rig_join(&client);
	page = map_channel(&client);
	kill(worker_pid(), SIGKILL);
	ck_assert(is_dead(page, 719));
	ck_assert_str_eq(page->why, "it has a journal in German");
	expect_data_end(&client);
	/* It may ask anew. */
	munmap(page, CHANNEL_SIZE);
	close(client.data);
	close(client.channel);
	close(client.staging);
	ck_assert_uint_eq(rig_attach(&client), 0);
	ck_assert_uint_eq(client.generation, 2);
	rig_leave(&client);
}
END_TEST

START_TEST(killed_worker_costs_work_that_was_issued)
{
	struct rig_client busy, forewarned, idle;
	struct channel_page *pages[3];
	Mps__Control *answer;

	rig_start(NULL);
	rig_join(&busy);
	rig_join(&forewarned);
	rig_join(&idle);
	pages[0] = map_channel(&busy);
	pages[1] = map_channel(&forewarned);
	pages[2] = map_channel(&idle);
	atomic_store(&pages[0]->kept, 5);
	atomic_store(&pages[0]->done, 4);
	/* What the worker itself had said stays. */
	atomic_store(&pages[1]->dead, 700);
	/* All that it has under way is still in its ring. */
	atomic_store(&pages[2]->issued, 9);
	atomic_store(&pages[2]->kept, 4);
	atomic_store(&pages[2]->done, 4);
	kill(worker_pid(), SIGKILL);
	ck_assert(is_dead(pages[0], 719));
	expect_data_end(&forewarned);
	ck_assert_uint_eq(atomic_load(&pages[1]->dead), 700);
	rig_wait(is_moved);
	ck_assert_uint_eq(atomic_load(&pages[2]->dead), 0);
	for (int i = 0; i < 3; i++)
		munmap(pages[i], CHANNEL_SIZE);
	rig_leave(&busy);
	rig_leave(&forewarned);
	answer = rig_status();
	ck_assert_uint_eq(answer->status_reply->workers[0]->lost, 2);
	ck_assert_uint_eq(answer->status_reply->workers[0]->moved, 1);
	mps__control__free_unpacked(answer, NULL);
	rig_leave(&idle);
}
END_TEST

START_TEST(memory_survives_the_worker_in_the_vault)
{
	struct rig_client client;
	uint64_t piece, at, chunk;
	Mps__Control *answer;

	rig_start(NULL);
	rig_join(&client);
	piece = rig_piece(&client, false, 64 * MIB, &at);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 2 * MIB, &chunk), 0);
	kill(worker_pid(), SIGKILL);
	/* A question meanwhile is answered by the next worker. */
	ck_assert_uint_eq(rig_chunk(&client, piece, at + 2 * MIB, 2 * MIB,
				    NULL), 0);
	answer = rig_status();
	ck_assert_uint_eq(answer->status_reply->workers_started, 2);
	ck_assert_uint_eq(answer->status_reply->vault_chunks, 2);
	mps__control__free_unpacked(answer, NULL);
	/* Its place is taken, and its own to give back. */
	ck_assert_uint_ne(rig_chunk(&client, piece, at, 2 * MIB, NULL), 0);
	ck_assert_uint_eq(rig_chunk_free(&client, chunk), 0);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 2 * MIB, NULL), 0);
	rig_leave(&client);
}
END_TEST

START_TEST(a_question_that_ends_workers_is_asked_twice)
{
	static const uint64_t sizes[] = {
		FAKE_CHUNK_CRASH, FAKE_CHUNK_JUNK, FAKE_CHUNK_NO_FD,
		FAKE_CHUNK_OTHER_ID,
	};
	uint64_t size = sizes[_i];
	struct rig_client client;

	rig_start(NULL);
	rig_join(&client);
	/* One that lies is killed; either way, the client hears of it. */
	ck_assert_uint_eq(provoke(&client, size), 806);
	/* And goes on: it was only a question. */
	ck_assert_uint_eq(provoke(&client, 2 * MIB), 0);
	rig_leave(&client);
	rig_join(&client);
	ck_assert_uint_eq(client.generation, 3);
	rig_leave(&client);
}
END_TEST

START_TEST(a_fault_passes_on_its_code)
{
	struct rig_client client;

	rig_start(NULL);
	rig_join(&client);
	ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_FAULT), 700);
	rig_leave(&client);
}
END_TEST

/* As many whole lines as there is room for. */
static void
expect_assertions(const struct channel_page *page)
{
	char line[128];
	size_t at = 0;
	int n;

	ck_assert_uint_lt(strnlen(page->text, CHANNEL_TEXT), CHANNEL_TEXT);
	for (unsigned int i = 0; page->text[at]; i++) {
		n = snprintf(line, sizeof(line), FAKE_ASSERTION "\n", i);
		ck_assert(!strncmp(page->text + at, line, (size_t)n));
		at += (size_t)n;
	}
	ck_assert_uint_gt(at + sizeof(line), CHANNEL_TEXT);
}

START_TEST(whoever_asserted_gets_the_text)
{
	bool known = !_i;
	struct rig_client client, other;
	struct channel_page *page, *others;

	rig_start(NULL);
	rig_join(&client);
	rig_join(&other);
	page = map_channel(&client);
	others = map_channel(&other);
	/* As the worker has it: a frame that cannot be done twice. */
	atomic_store(&page->kept, 1);
	provoke(&client, known ? FAKE_CHUNK_ASSERT : FAKE_CHUNK_ASSERTS);
	ck_assert(is_dead(page, known ? 710 : 719));
	expect_assertions(page);
	rig_wait(is_moved);
	ck_assert_uint_eq(atomic_load(&others->dead), 0);
	ck_assert_str_eq(others->text, "");
	munmap(page, CHANNEL_SIZE);
	munmap(others, CHANNEL_SIZE);
	rig_leave(&client);
	rig_leave(&other);
}
END_TEST

START_TEST(faults_of_clients_do_not_count_against_the_device)
{
	struct rig_client client;

	rig_start(NULL);
	for (unsigned int i = 0; i < 5; i++) {
		rig_join(&client);
		ck_assert_uint_eq(client.generation, i + 1);
		ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_FAULT), 700);
		rig_leave(&client);
	}
}
END_TEST

START_TEST(a_device_is_lost_after_three_deaths_in_a_minute)
{
	struct rig_client client;
	struct timespec before, after;

	rig_start(NULL);
	/* The question is asked twice, so this is the end of two. */
	rig_join(&client);
	ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_CRASH), 806);
	/* And of the third: nobody is left to ask. */
	ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_CRASH), 802);
	rig_leave(&client);
	/* The snapshot is known, so hello is answered; the device is not. */
	clock_gettime(CLOCK_MONOTONIC, &before);
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	ck_assert_uint_eq(rig_attach(&client), 802);
	clock_gettime(CLOCK_MONOTONIC, &after);
	ck_assert_int_le(after.tv_sec - before.tv_sec, 2);
	rig_leave(&client);
}
END_TEST

/* A status with so many of them; the caller's. */
static Mps__Control *
risks(size_t count)
{
	Mps__Control *answer = rig_status();

	ck_assert_uint_eq(answer->status_reply->n_risks, count);
	return answer;
}

static const char key[] =
	"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

START_TEST(code_that_ends_two_workers_is_refused)
{
	struct rig_client client, other;
	Mps__Control *answer;
	const Mps__RiskStat *risk;

	rig_start(NULL);
	rig_join(&client);
	rig_join(&other);
	/* Asked twice, this ends two; the next one knows better. */
	ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_LOADS), 806);
	ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_LOADS), 200);
	ck_assert_uint_eq(provoke(&other, FAKE_CHUNK_LOADS), 200);
	answer = risks(1);
	ck_assert_uint_eq(answer->status_reply->workers_started, 3);
	risk = answer->status_reply->risks[0];
	ck_assert(risk->refused);
	ck_assert_str_eq(risk->key, key);
	ck_assert_str_eq(risk->call, "loading code");
	ck_assert_int_eq(risk->pid, getpid());
	mps__control__free_unpacked(answer, NULL);
	/* The second end was not against the device: this is the second that
	 * is, and only the next the third. */
	kill(worker_pid(), SIGKILL);
	ck_assert_uint_eq(provoke(&other, FAKE_CHUNK_LOADS), 200);
	ck_assert_uint_eq(provoke(&other, 2 * MIB), 0);
	rig_leave(&client);
	rig_leave(&other);
}
END_TEST

START_TEST(code_that_a_worker_only_happened_to_load_is_not_refused)
{
	bool passes = !_i;
	struct rig_client client;
	Mps__Control *answer;

	rig_start(NULL);
	rig_join(&client);
	ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_BEGINS), 0);
	mps__control__free_unpacked(risks(0), NULL);
	kill(worker_pid(), SIGKILL);
	ck_assert_uint_eq(provoke(&client, passes ? FAKE_CHUNK_PASSES :
				  2 * MIB), 0);
	answer = risks(passes ? 0 : 1);
	if (!passes)
		ck_assert(!answer->status_reply->risks[0]->refused);
	mps__control__free_unpacked(answer, NULL);
	ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_BEGINS), 0);
	kill(worker_pid(), SIGKILL);
	ck_assert_uint_eq(provoke(&client, 2 * MIB), 0);
	answer = risks(1);
	ck_assert_int_eq(answer->status_reply->risks[0]->refused, !passes);
	mps__control__free_unpacked(answer, NULL);
	/* That is no longer the worker's to say. */
	ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_PASSES), 0);
	mps__control__free_unpacked(risks(passes ? 0 : 1), NULL);
	rig_leave(&client);
}
END_TEST

START_TEST(what_a_worker_says_of_nobody_is_read_all_the_same)
{
	struct rig_client client;
	Mps__Control *answer;

	rig_start(NULL);
	rig_join(&client);
	ck_assert_uint_eq(provoke(&client, FAKE_CHUNK_BEGINS_FOR_NOBODY), 0);
	kill(worker_pid(), SIGKILL);
	ck_assert_uint_eq(provoke(&client, 2 * MIB), 0);
	answer = risks(1);
	ck_assert_int_eq(answer->status_reply->risks[0]->pid, 0);
	ck_assert_str_eq(answer->status_reply->risks[0]->exe, "");
	mps__control__free_unpacked(answer, NULL);
	rig_leave(&client);
}
END_TEST

START_TEST(a_worker_s_reason_not_to_start_reaches_the_client)
{
	struct rig_client client;

	setenv("MPSSHIM_FAKE", "nodevice", 1);
	rig_start(NULL);
	for (int i = 0; i < 5; i++) {
		ck_assert_uint_eq(rig_hello(&client, ""), 100);
		rig_expect_end(client.fd);
		rig_leave(&client);
	}
}
END_TEST

START_TEST(a_worker_that_ends_at_once_gives_802)
{
	struct rig_client client;

	setenv("MPSSHIM_FAKE", "dies", 1);
	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, ""), 802);
	rig_leave(&client);
}
END_TEST

START_TEST(a_worker_program_that_cannot_run_gives_802)
{
	struct rig_client client;
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "%s/no-program", rig.dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	ck_assert_int_eq(write(fd, "\x7f" "ELF", 4), 4);
	close(fd);
	setenv("MPSSHIM_WORKER", path, 1);
	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, ""), 802);
	rig_leave(&client);
}
END_TEST

static bool
no_worker(const Mps__StatusReply *status)
{
	return !status->n_workers;
}

START_TEST(a_client_that_goes_while_a_worker_is_silent_is_forgotten)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Chunk chunk = MPS__CHUNK__INIT;
	struct rig_client client;

	rig_start(NULL);
	rig_join(&client);
	chunk.piece = rig_piece(&client, false, 64 * MIB, &chunk.address);
	chunk.size = FAKE_CHUNK_SILENT;
	question.body_case = MPS__CONTROL__BODY_CHUNK;
	question.chunk = &chunk;
	ck_assert_int_eq(sock_send_control(client.fd, &question, NULL, 0,
					   1000), 0);
	usleep(50000);
	rig_leave(&client);
	/* Others are served, and its end waits for the worker's only. */
	rig_join(&client);
	rig_leave(&client);
	kill(worker_pid(), SIGKILL);
	rig_wait(no_worker);
	rig_join(&client);
	rig_leave(&client);
}
END_TEST

START_TEST(sixteen_clients_at_once_share_one_worker)
{
	struct rig_client clients[16];
	Mps__Control *answer;

	rig_start(NULL);
	for (int i = 0; i < 16; i++)
		rig_join(&clients[i]);
	answer = rig_status();
	ck_assert_uint_eq(answer->status_reply->n_clients, 16);
	ck_assert_uint_eq(answer->status_reply->workers_started, 1);
	mps__control__free_unpacked(answer, NULL);
	for (int i = 0; i < 16; i++)
		rig_leave(&clients[i]);
}
END_TEST

START_TEST(workers_end_with_the_broker)
{
	struct rig_client client;
	struct channel_page *page;
	pid_t worker;

	rig_start(NULL);
	rig_join(&client);
	page = map_channel(&client);
	worker = worker_pid();
	rig_stop();
	/* The broker waits for it: no process of that number is left. */
	ck_assert_int_eq(kill(worker, 0), -1);
	ck_assert(is_dead(page, 810));
	munmap(page, CHANNEL_SIZE);
	rig_leave(&client);
}
END_TEST

static bool
is_warm(const Mps__StatusReply *status)
{
	return status->n_workers && status->workers[0]->generation;
}

static bool
is_warm_again(const Mps__StatusReply *status)
{
	return is_warm(status) && status->workers_started == 2;
}

START_TEST(a_warm_broker_has_a_worker_before_anybody_comes)
{
	struct rig_client client;
	pid_t worker;

	rig_start("--warm");
	rig_wait(is_warm);
	worker = worker_pid();
	rig_join(&client);
	ck_assert_int_eq(worker_pid(), worker);
	rig_leave(&client);
	/* And the next one, should it end while nobody is there. */
	kill(worker, SIGKILL);
	rig_wait(is_warm_again);
	ck_assert_int_ne(worker_pid(), worker);
	rig_stop();
}
END_TEST

START_TEST(a_worker_sees_the_devices_that_the_broker_is_told)
{
	struct rig_client client;

	setenv("MPSSHIM_FAKE_VISIBLE", "GPU-12,1", 1);
	rig_start("--devices=GPU-12,1");
	rig_join(&client);
	rig_leave(&client);
	rig_stop();
	/* The environment's are those of the program that started it. */
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	unsetenv("MPSSHIM_FAKE_VISIBLE");
	rig_start(NULL);
	rig_join(&client);
	rig_leave(&client);
}
END_TEST

START_TEST(a_worker_s_output_is_in_the_log)
{
	struct rig_client client;
	char path[128], text[8192];
	ssize_t n;
	int fd;

	rig_start(NULL);
	rig_join(&client);
	rig_leave(&client);
	rig_stop();
	snprintf(path, sizeof(path), "%s/mpsd.log", rig.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	n = read(fd, text, sizeof(text) - 1);
	ck_assert_int_gt(n, 0);
	text[n] = 0;
	close(fd);
	ck_assert_ptr_nonnull(strstr(text, "a line of the worker"));
	ck_assert_ptr_nonnull(strstr(text, "listening on"));
}
END_TEST

static Suite *
make_suite(void)
{
	const TTest *const tests[] = {
		a_client_goes_on_when_its_worker_is_killed,
		a_client_that_the_next_worker_refuses_hears_why,
		killed_worker_costs_work_that_was_issued,
		memory_survives_the_worker_in_the_vault,
		a_fault_passes_on_its_code,
		faults_of_clients_do_not_count_against_the_device,
		a_device_is_lost_after_three_deaths_in_a_minute,
		a_worker_s_reason_not_to_start_reaches_the_client,
		code_that_ends_two_workers_is_refused,
		what_a_worker_says_of_nobody_is_read_all_the_same,
		a_worker_that_ends_at_once_gives_802,
		a_worker_program_that_cannot_run_gives_802,
		a_client_that_goes_while_a_worker_is_silent_is_forgotten,
		sixteen_clients_at_once_share_one_worker,
		workers_end_with_the_broker,
		a_warm_broker_has_a_worker_before_anybody_comes,
		a_worker_sees_the_devices_that_the_broker_is_told,
		a_worker_s_output_is_in_the_log,
	};
	Suite *suite = suite_create("broker_worker");
	TCase *tcase = tcase_create("broker_worker");

	tcase_set_timeout(tcase, SUITE_TIMEOUT);
	tcase_add_checked_fixture(tcase, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		tcase_add_test(tcase, tests[i]);
	tcase_add_loop_test(tcase, a_question_that_ends_workers_is_asked_twice, 0,
			    4);
	tcase_add_loop_test(tcase,
			    code_that_a_worker_only_happened_to_load_is_not_refused,
			    0, 2);
	tcase_add_loop_test(tcase, whoever_asserted_gets_the_text, 0, 2);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(int argc, char **argv)
{
	SRunner *runner;
	int failed;

	if (argc > 1 && !strcmp(argv[1], "--driver"))
		return fake_worker_main();
	runner = srunner_create(make_suite());
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
