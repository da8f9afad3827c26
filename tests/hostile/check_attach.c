/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching when something is missing: quota, descriptors, the worker. This
 * program is the worker, too.
 */
#include <check.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/broker_rig.h"
#include "tests/unit/fake_worker.h"
#include "tests/unit/suite.h"

static void
setup(void)
{
	rig_init();
}

static void
teardown(void)
{
	rig_fini();
}

/* Attach without Ready: the status, and the descriptors closed. */
static uint32_t
attach(const struct rig_client *client)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Attach body = MPS__ATTACH__INIT;
	int fds[3], nfds = 3;
	uint32_t status;

	question.body_case = MPS__CONTROL__BODY_ATTACH;
	question.attach = &body;
	answer = rig_ask(client->fd, &question,
			 MPS__CONTROL__BODY_ATTACH_REPLY, fds, &nfds);
	status = answer->attach_reply->status;
	ck_assert_int_eq(nfds, status ? 0 : 3);
	while (nfds)
		close(fds[--nfds]);
	mps__control__free_unpacked(answer, NULL);
	return status;
}

START_TEST(attach_over_the_limit_of_shared_memory_is_refused_with_2)
{
	struct rig_client client;

	rig_start("--host-limit=1M");
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	ck_assert_uint_eq(attach(&client), 2);
	rig_leave(&client);
}
END_TEST

START_TEST(attach_without_descriptors_is_refused_and_others_go_on)
{
	struct rig_client clients[16];
	uint32_t status = 0;
	int n = 0;

	rig.limit = "ulimit -n 32";
	rig_start(NULL);
	while (n < 16 && !status) {
		ck_assert_uint_eq(rig_hello(&clients[n], ""), 0);
		status = attach(&clients[n++]);
	}
	ck_assert_uint_eq(status, 2);
	for (int i = 0; i < n; i++)
		rig_leave(&clients[i]);
	do
		ck_assert_uint_eq(rig_hello(&clients[0], ""), 0);
	while (attach(&clients[0]) && (rig_leave(&clients[0]), 1));
	rig_leave(&clients[0]);
}
END_TEST

START_TEST(attach_that_the_client_declines_leaves_nothing)
{
	struct rig_client client;

	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	ck_assert_uint_eq(attach(&client), 0);
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__ATTACH, 0, 2),
			  0);
	ck_assert_uint_eq(attach(&client), 0);
	rig_leave(&client);
}
END_TEST

START_TEST(a_job_shares_its_descriptors)
{
	struct rig_client clients[8];
	uint32_t status = 0;
	int n = 0;

	/* A quarter of the broker's: ten, and a session holds four. */
	rig.limit = "ulimit -n 40";
	rig_start(NULL);
	while (n < 8 && !status) {
		ck_assert_uint_eq(rig_hello(&clients[n], "shared"), 0);
		status = attach(&clients[n++]);
	}
	ck_assert_uint_eq(status, 2);
	ck_assert_int_eq(n, 3);
	while (n)
		rig_leave(&clients[--n]);
}
END_TEST

START_TEST(memory_before_ready_is_refused_with_201)
{
	struct rig_client client;
	uint64_t id, at;

	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	ck_assert_uint_eq(attach(&client), 0);
	ck_assert_uint_eq(rig_offer(&client, false, FAKE_MIB, &id, &at), 201);
	rig_leave(&client);
}
END_TEST

static bool
has_no_worker(const Mps__StatusReply *status)
{
	return !status->n_workers || status->workers[0]->generation > 1;
}

START_TEST(worker_that_dies_between_attach_and_ready_is_replaced)
{
	struct rig_client client;
	Mps__Control *status;

	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	ck_assert_uint_eq(attach(&client), 0);
	status = rig_status();
	ck_assert_int_eq(kill(status->status_reply->workers[0]->pid, SIGKILL),
			 0);
	mps__control__free_unpacked(status, NULL);
	rig_wait(has_no_worker);
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__ATTACH, 0, 0),
			  0);
	status = rig_status();
	ck_assert_uint_eq(status->status_reply->workers_started, 2);
	mps__control__free_unpacked(status, NULL);
	rig_leave(&client);
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = {
		attach_over_the_limit_of_shared_memory_is_refused_with_2,
		attach_without_descriptors_is_refused_and_others_go_on,
		a_job_shares_its_descriptors,
		memory_before_ready_is_refused_with_201,
		attach_that_the_client_declines_leaves_nothing,
		worker_that_dies_between_attach_and_ready_is_replaced,
	};

	if (argc > 1 && !strcmp(argv[1], "--driver"))
		return fake_worker_main();
	return suite_run("attach", tests, sizeof(tests) / sizeof(*tests),
			 setup, teardown);
}
