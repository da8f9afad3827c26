/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that clients share: who may open it, whom it counts for, and what is
 * left when one of them ends. The clients here guess, repeat and lie.
 */
#include "tests/unit/broker_rig.h"

#include <check.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/ipc.h"
#include "tests/unit/fake_worker.h"
#include "tests/unit/suite.h"

#define MIB FAKE_MIB
#define INVALID 1u
#define NO_MEMORY 2u
#define NO_HANDLE 400u

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

struct shared {
	uint64_t id;
	uint8_t key[IPC_KEY];
	size_t key_size;
};

/* What is asked of the broker; chunk 0 and pool not: a pool. */
static uint32_t
export(const struct rig_client *client, uint64_t chunk, uint64_t offset,
       uint64_t size, uint64_t pool, struct shared *out, int *out_token)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Export body = MPS__EXPORT__INIT;
	int token = -1, nfds = 1;
	uint32_t status;

	body.chunk = chunk;
	body.offset = offset;
	body.size = size;
	body.pool = pool;
	body.token = out_token != NULL;
	question.body_case = MPS__CONTROL__BODY_EXPORT;
	question.export = &body;
	answer = rig_ask(client->fd, &question, MPS__CONTROL__BODY_EXPORT_REPLY,
			 &token, &nfds);
	status = answer->export_reply->status;
	if (!status && out) {
		ck_assert_uint_eq(answer->export_reply->key.len, IPC_KEY);
		out->id = answer->export_reply->id;
		out->key_size = IPC_KEY;
		memcpy(out->key, answer->export_reply->key.data, IPC_KEY);
	}
	mps__control__free_unpacked(answer, NULL);
	ck_assert_int_eq(nfds, !status && out_token);
	if (out_token)
		*out_token = nfds ? token : -1;
	return status;
}

static ProtobufCBinaryData
key_of(const struct shared *shared)
{
	return (ProtobufCBinaryData){
		.data = (uint8_t *)shared->key, .len = shared->key_size,
	};
}

static uint32_t
look(const struct rig_client *client, const struct shared *shared,
     Mps__LookReply *out)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Look body = MPS__LOOK__INIT;
	uint32_t status;

	body.id = shared->id;
	body.key = key_of(shared);
	question.body_case = MPS__CONTROL__BODY_LOOK;
	question.look = &body;
	answer = rig_ask(client->fd, &question, MPS__CONTROL__BODY_LOOK_REPLY,
			 NULL, NULL);
	status = answer->look_reply->status;
	if (out)
		*out = *answer->look_reply;
	mps__control__free_unpacked(answer, NULL);
	return status;
}

static uint32_t
import(const struct rig_client *client, const struct shared *shared,
       uint64_t piece, uint64_t address, uint64_t *out_chunk)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Import body = MPS__IMPORT__INIT;
	uint32_t status;

	body.id = shared->id;
	body.key = key_of(shared);
	body.piece = piece;
	body.address = address;
	body.unmapped = !piece;
	question.body_case = MPS__CONTROL__BODY_IMPORT;
	question.import = &body;
	question.id = 77;
	ck_assert_int_eq(sock_send_control(client->fd, &question, NULL, 0,
					   1000), 0);
	ck_assert_int_eq(sock_recv_control(client->fd, &answer, NULL,
					   &(int){ 0 }, 5000), 0);
	/* Refused at once, or answered for the worker. */
	if (answer->body_case == MPS__CONTROL__BODY_DONE) {
		status = answer->done->status;
	} else {
		ck_assert_int_eq(answer->body_case,
				 MPS__CONTROL__BODY_CHUNK_REPLY);
		status = answer->chunk_reply->status;
		if (out_chunk)
			*out_chunk = answer->chunk_reply->chunk;
	}
	mps__control__free_unpacked(answer, NULL);
	return status;
}

static uint32_t
withdraw(const struct rig_client *client, uint64_t id, uint64_t *out_opened)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Withdraw body = MPS__WITHDRAW__INIT;
	uint32_t status;

	body.id = id;
	question.body_case = MPS__CONTROL__BODY_WITHDRAW;
	question.withdraw = &body;
	answer = rig_ask(client->fd, &question,
			 MPS__CONTROL__BODY_WITHDRAW_REPLY, NULL, NULL);
	status = answer->withdraw_reply->status;
	*out_opened = answer->withdraw_reply->opened;
	mps__control__free_unpacked(answer, NULL);
	return status;
}

static uint64_t
free_bytes(const struct rig_client *client)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__MemoryInfo body = MPS__MEMORY_INFO__INIT;
	uint64_t free;

	question.body_case = MPS__CONTROL__BODY_MEMORY_INFO;
	question.memory_info = &body;
	answer = rig_ask(client->fd, &question,
			 MPS__CONTROL__BODY_MEMORY_INFO_REPLY, NULL, NULL);
	free = answer->memory_info_reply->free;
	mps__control__free_unpacked(answer, NULL);
	return free;
}

static uint64_t wanted;

static bool
chunks_are_kept(const Mps__StatusReply *status)
{
	return status->vault_chunks == wanted;
}

static bool
descriptors_are(const Mps__StatusReply *status)
{
	return status->broker_descriptors == wanted;
}

static void
expect_chunks(uint64_t count)
{
	wanted = count;
	rig_wait(chunks_are_kept);
}

static uint64_t
broker_descriptors(void)
{
	Mps__Control *status = rig_status();
	uint64_t count = status->status_reply->broker_descriptors;

	mps__control__free_unpacked(status, NULL);
	return count;
}

/* A client with a piece. */
struct party {
	struct rig_client client;
	uint64_t piece, at;
};

static void
join(struct party *party)
{
	rig_join(&party->client);
	party->piece = rig_piece(&party->client, false, 64 * MIB, &party->at);
}

static uint64_t
chunk(const struct party *party, uint64_t offset, uint64_t size)
{
	uint64_t id = 0;

	ck_assert_uint_eq(rig_chunk(&party->client, party->piece,
				    party->at + offset, size, &id), 0);
	return id;
}

START_TEST(memory_is_opened_by_id_and_key)
{
	struct party a, b;
	struct shared shared, again;
	Mps__LookReply is;
	uint64_t mine, open, twice, before;

	rig_start(NULL);
	join(&a);
	join(&b);
	mine = chunk(&a, 0, 4 * MIB);
	before = free_bytes(&b.client);
	ck_assert_uint_eq(export(&a.client, mine, MIB, 5000, 9, &shared, NULL),
			  0);
	ck_assert_uint_eq(look(&b.client, &shared, &is), 0);
	ck_assert_uint_eq(is.client, a.client.id);
	ck_assert_uint_eq(is.chunk_size, 4 * MIB);
	ck_assert_uint_eq(is.offset, MIB);
	ck_assert_uint_eq(is.size, 5000);
	ck_assert_uint_eq(is.pool, 9);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at, &open), 0);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at + 8 * MIB,
				 &twice), 0);
	expect_chunks(3);
	ck_assert_uint_eq(free_bytes(&b.client), before);
	/* Another part of it, with a key of its own. */
	ck_assert_uint_eq(export(&a.client, mine, 0, 4 * MIB, 0, &again, NULL),
			  0);
	ck_assert_uint_ne(again.id, shared.id);
	ck_assert_mem_ne(again.key, shared.key, IPC_KEY);
	ck_assert_uint_eq(rig_chunk_free(&b.client, open), 0);
	ck_assert_uint_eq(rig_chunk_free(&b.client, open), INVALID);
	ck_assert_uint_eq(rig_chunk_free(&a.client, twice), INVALID);
	ck_assert_uint_eq(rig_chunk_free(&b.client, twice), 0);
	expect_chunks(1);
	ck_assert_uint_eq(rig_chunk_free(&a.client, mine), 0);
	expect_chunks(0);
	ck_assert_uint_eq(look(&b.client, &shared, NULL), NO_HANDLE);
	ck_assert_uint_eq(free_bytes(&b.client), before + 4 * MIB);
	rig_leave(&a.client);
	rig_leave(&b.client);
}
END_TEST

START_TEST(a_guess_opens_nothing)
{
	struct party a, b;
	struct shared shared, guess;

	rig_start(NULL);
	join(&a);
	join(&b);
	ck_assert_uint_eq(export(&a.client, chunk(&a, 0, 2 * MIB), 0, 2 * MIB,
				 0, &shared, NULL), 0);
	for (int bit = 0; bit < 8 * IPC_KEY; bit++) {
		guess = shared;
		guess.key[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_uint_eq(look(&b.client, &guess, NULL), NO_HANDLE);
		ck_assert_uint_eq(import(&b.client, &guess, b.piece, b.at,
					 NULL), NO_HANDLE);
	}
	guess = shared;
	for (guess.key_size = 0; guess.key_size < IPC_KEY; guess.key_size++)
		ck_assert_uint_eq(look(&b.client, &guess, NULL), NO_HANDLE);
	for (int i = -4; i < 5; i++) {
		guess = shared;
		guess.id += (uint64_t)(int64_t)i;
		ck_assert_uint_eq(look(&b.client, &guess, NULL),
				  i ? NO_HANDLE : 0);
	}
	expect_chunks(1);
	rig_leave(&a.client);
	rig_leave(&b.client);
}
END_TEST

START_TEST(what_is_opened_lies_where_its_client_may_have_it)
{
	struct party a, b;
	struct shared shared;

	rig_start(NULL);
	join(&a);
	join(&b);
	ck_assert_uint_eq(export(&a.client, chunk(&a, 0, 4 * MIB), 0, MIB, 0,
				 &shared, NULL), 0);
	chunk(&b, 0, 2 * MIB);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at, NULL),
			  INVALID);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at + MIB,
				 NULL), INVALID);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at + 62 * MIB,
				 NULL), INVALID);
	ck_assert_uint_eq(import(&b.client, &shared, a.piece, a.at + 8 * MIB,
				 NULL), INVALID);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at + 4 * MIB,
				 NULL), 0);
	expect_chunks(3);
	rig_leave(&a.client);
	rig_leave(&b.client);
	expect_chunks(0);
}
END_TEST

START_TEST(only_live_memory_of_ones_own_is_exported)
{
	struct party a, b;
	struct shared shared;
	uint64_t mine;
	int token;

	rig_start(NULL);
	join(&a);
	join(&b);
	mine = chunk(&a, 0, 2 * MIB);
	ck_assert_uint_eq(export(&b.client, mine, 0, MIB, 0, NULL, NULL),
			  INVALID);
	ck_assert_uint_eq(export(&a.client, mine, 0, 0, 0, NULL, NULL),
			  INVALID);
	ck_assert_uint_eq(export(&a.client, mine, MIB, MIB + 1, 0, NULL, NULL),
			  INVALID);
	ck_assert_uint_eq(export(&a.client, mine, UINT64_MAX, 2, 0, NULL,
				 NULL), INVALID);
	ck_assert_uint_eq(export(&a.client, mine, 1, UINT64_MAX, 0, NULL,
				 NULL), INVALID);
	ck_assert_uint_eq(export(&a.client, 0, 0, MIB, 7, NULL, NULL), INVALID);
	ck_assert_uint_eq(export(&a.client, 0, 0, MIB, 0, NULL, &token),
			  INVALID);
	ck_assert_uint_eq(rig_chunk_free(&a.client, mine), 0);
	ck_assert_uint_eq(export(&a.client, mine, 0, MIB, 0, &shared, NULL),
			  INVALID);
	rig_leave(&a.client);
	rig_leave(&b.client);
}
END_TEST

START_TEST(an_exporters_end_leaves_what_is_open)
{
	struct party a, b, c;
	struct shared shared;
	uint64_t open, fds;

	rig_start(NULL);
	join(&b);
	join(&c);
	fds = broker_descriptors();
	join(&a);
	ck_assert_uint_eq(export(&a.client, chunk(&a, 0, 4 * MIB), 0, MIB, 0,
				 &shared, NULL), 0);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at, &open), 0);
	rig_leave(&a.client);
	expect_chunks(1);
	ck_assert_uint_eq(look(&c.client, &shared, NULL), NO_HANDLE);
	ck_assert_uint_eq(import(&c.client, &shared, c.piece, c.at, NULL),
			  NO_HANDLE);
	ck_assert_uint_eq(rig_chunk_free(&b.client, open), 0);
	expect_chunks(0);
	wanted = fds;
	rig_wait(descriptors_are);
	rig_leave(&b.client);
	rig_leave(&c.client);
}
END_TEST

START_TEST(a_withdrawn_export_counts_who_has_it)
{
	struct party a, b, c;
	struct shared shared;
	uint64_t open[2], n;

	rig_start(NULL);
	join(&a);
	join(&b);
	join(&c);
	ck_assert_uint_eq(export(&a.client, chunk(&a, 0, 4 * MIB), 0, MIB, 0,
				 &shared, NULL), 0);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at, &open[0]),
			  0);
	ck_assert_uint_eq(import(&c.client, &shared, c.piece, c.at, &open[1]),
			  0);
	ck_assert_uint_eq(withdraw(&b.client, shared.id, &n), NO_HANDLE);
	ck_assert_uint_eq(withdraw(&a.client, shared.id + 1, &n), NO_HANDLE);
	ck_assert_uint_eq(look(&b.client, &shared, NULL), 0);
	ck_assert_uint_eq(withdraw(&a.client, shared.id, &n), 0);
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(look(&b.client, &shared, NULL), NO_HANDLE);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at + 8 * MIB,
				 NULL), NO_HANDLE);
	ck_assert_uint_eq(rig_chunk_free(&b.client, open[0]), 0);
	expect_chunks(2);
	ck_assert_uint_eq(withdraw(&a.client, shared.id, &n), 0);
	ck_assert_uint_eq(n, 1);
	/* The other one just ends. */
	rig_leave(&c.client);
	expect_chunks(1);
	ck_assert_uint_eq(withdraw(&a.client, shared.id, &n), 0);
	ck_assert_uint_eq(n, 0);
	ck_assert_uint_eq(withdraw(&a.client, shared.id, &n), NO_HANDLE);
	rig_leave(&a.client);
	rig_leave(&b.client);
}
END_TEST

START_TEST(shared_memory_counts_for_one_that_has_it)
{
	struct party a, b;
	struct shared shared;
	uint64_t open, extra;

	rig_start("--device-limit=8M");
	join(&a);
	join(&b);
	ck_assert_uint_eq(export(&a.client, chunk(&a, 0, 6 * MIB), 0, MIB, 0,
				 &shared, NULL), 0);
	ck_assert_uint_eq(import(&b.client, &shared, b.piece, b.at, &open), 0);
	/* The exporter pays. */
	extra = chunk(&b, 16 * MIB, 6 * MIB);
	ck_assert_uint_eq(rig_chunk(&a.client, a.piece, a.at + 8 * MIB,
				    4 * MIB, NULL), NO_MEMORY);
	rig_leave(&a.client);
	expect_chunks(2);
	/* Now the other does, above its limit if need be. */
	ck_assert_uint_eq(rig_chunk(&b.client, b.piece, b.at + 32 * MIB,
				    2 * MIB, NULL), NO_MEMORY);
	ck_assert_uint_eq(rig_chunk_free(&b.client, extra), 0);
	ck_assert_uint_eq(rig_chunk(&b.client, b.piece, b.at + 32 * MIB,
				    4 * MIB, NULL), NO_MEMORY);
	ck_assert_uint_eq(rig_chunk_free(&b.client, open), 0);
	chunk(&b, 40 * MIB, 8 * MIB);
	rig_leave(&b.client);
	expect_chunks(0);
}
END_TEST

START_TEST(a_token_keeps_memory_until_nobody_holds_it)
{
	struct ipc_handle handle;
	struct party a, b;
	struct shared shared;
	uint64_t open, kept;
	int token, copy;

	rig_start(NULL);
	join(&a);
	join(&b);
	ck_assert_uint_eq(export(&a.client, chunk(&a, 0, 4 * MIB), 0, 4 * MIB,
				 0, &shared, &token), 0);
	/* The handle in it stays. */
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(recv(token, &handle, sizeof(handle),
				      MSG_PEEK | MSG_DONTWAIT),
				 sizeof(handle));
		ck_assert_uint_eq(handle.magic, IPC_MAGIC);
		ck_assert_uint_eq(handle.kind, IPC_TOKEN_MEMORY);
		ck_assert_uint_eq(handle.id, shared.id);
		ck_assert_uint_eq(handle.client, a.client.id);
		ck_assert_mem_eq(handle.key, shared.key, IPC_KEY);
	}
	copy = dup(token);
	close(token);
	rig_leave(&a.client);
	expect_chunks(0);
	kept = broker_descriptors();
	ck_assert_uint_eq(import(&b.client, &shared, 0, 0, &open), 0);
	expect_chunks(1);
	ck_assert_uint_eq(rig_chunk_free(&b.client, open), 0);
	expect_chunks(0);
	ck_assert_uint_eq(look(&b.client, &shared, NULL), 0);
	close(copy);
	/* Its own end of the token, and the memory's. */
	wanted = kept - 2;
	rig_wait(descriptors_are);
	ck_assert_uint_eq(look(&b.client, &shared, NULL), NO_HANDLE);
	rig_leave(&b.client);
}
END_TEST

/* A holder that writes into a token, reads it empty, or withdraws it. */
START_TEST(a_token_can_only_be_closed)
{
	struct party a, b;
	struct shared shared, pool;
	Mps__LookReply is;
	uint64_t open, n;
	int token, other;
	char junk[256];

	rig_start(NULL);
	join(&a);
	join(&b);
	ck_assert_uint_eq(export(&a.client, chunk(&a, 0, 4 * MIB), 0, 4 * MIB,
				 0, &shared, &token), 0);
	ck_assert_uint_eq(export(&a.client, 0, 0, 0, 12, &pool, &other), 0);
	ck_assert_uint_eq(look(&b.client, &pool, &is), 0);
	ck_assert_uint_eq(is.pool, 12);
	ck_assert_uint_eq(is.chunk_size, 0);
	ck_assert_uint_eq(import(&b.client, &pool, b.piece, b.at, NULL),
			  NO_HANDLE);
	memset(junk, 'x', sizeof(junk));
	while (send(token, junk, sizeof(junk), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	while (recv(token, junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
	ck_assert_uint_eq(withdraw(&a.client, shared.id, &n), NO_HANDLE);
	ck_assert_uint_eq(import(&b.client, &shared, 0, 0, &open), 0);
	close(other);
	close(token);
	ck_assert_uint_eq(rig_chunk_free(&b.client, open), 0);
	expect_chunks(1);
	rig_leave(&a.client);
	rig_leave(&b.client);
	expect_chunks(0);
}
END_TEST

START_TEST(exports_count_as_descriptors)
{
	struct shared shared;
	struct party a, b;
	uint64_t mine;
	int many = 0;

	rig.limit = "ulimit -n 128";
	rig_start(NULL);
	join(&a);
	join(&b);
	mine = chunk(&a, 0, 2 * MIB);
	while (export(&a.client, mine, 0, MIB, 0, &shared, NULL) == 0)
		ck_assert_int_lt(++many, 200);
	ck_assert_int_gt(many, 8);
	ck_assert_uint_eq(export(&a.client, mine, 0, MIB, 0, &shared, NULL),
			  NO_MEMORY);
	ck_assert_uint_eq(rig_chunk(&a.client, a.piece, a.at + 8 * MIB,
				    2 * MIB, NULL), NO_MEMORY);
	chunk(&b, 0, 2 * MIB);
	ck_assert_uint_eq(rig_chunk_free(&a.client, mine), 0);
	expect_chunks(1);
	chunk(&a, 8 * MIB, 2 * MIB);
	rig_leave(&a.client);
	rig_leave(&b.client);
}
END_TEST

/* Two that open each other's, and end in any order. */
START_TEST(sharing_both_ways_leaves_nothing)
{
	for (int order = 0; order < 4; order++) {
		struct party a, b;
		struct shared of_a, of_b;
		uint64_t open[2];

		if (!order)
			rig_start(NULL);
		join(&a);
		join(&b);
		ck_assert_uint_eq(export(&a.client, chunk(&a, 0, 2 * MIB), 0,
					 MIB, 0, &of_a, NULL), 0);
		ck_assert_uint_eq(export(&b.client, chunk(&b, 0, 2 * MIB), 0,
					 MIB, 0, &of_b, NULL), 0);
		ck_assert_uint_eq(import(&a.client, &of_b, a.piece,
					 a.at + 8 * MIB, &open[0]), 0);
		ck_assert_uint_eq(import(&b.client, &of_a, b.piece,
					 b.at + 8 * MIB, &open[1]), 0);
		/* What was opened is exported on. */
		ck_assert_uint_eq(export(&b.client, open[1], 0, MIB, 0, &of_a,
					 NULL), 0);
		if (order & 1)
			rig_leave(&a.client);
		rig_leave(&b.client);
		if (!(order & 1))
			rig_leave(&a.client);
		expect_chunks(0);
	}
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = {
		memory_is_opened_by_id_and_key,
		a_guess_opens_nothing,
		what_is_opened_lies_where_its_client_may_have_it,
		only_live_memory_of_ones_own_is_exported,
		an_exporters_end_leaves_what_is_open,
		a_withdrawn_export_counts_who_has_it,
		shared_memory_counts_for_one_that_has_it,
		a_token_keeps_memory_until_nobody_holds_it,
		a_token_can_only_be_closed,
		exports_count_as_descriptors,
		sharing_both_ways_leaves_nothing,
	};

	if (argc > 1 && !strcmp(argv[1], "--driver"))
		return fake_worker_main();
	return suite_run("broker_ipc", tests, sizeof(tests) / sizeof(*tests),
			 setup, teardown);
}
