/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory without an address, its mappings, and arrays: what the broker gives,
 * counts and keeps.
 */
#include "tests/unit/broker_rig.h"

#include <check.h>
#include <string.h>

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

static uint32_t
ask(const struct rig_client *client, Mps__Control *question, uint64_t *out_id)
{
	Mps__Control *answer = rig_ask(client->fd, question,
				       MPS__CONTROL__BODY_CHUNK_REPLY, NULL,
				       NULL);
	uint32_t status = answer->chunk_reply->status;

	if (out_id)
		*out_id = answer->chunk_reply->chunk;
	mps__control__free_unpacked(answer, NULL);
	return status;
}

static uint32_t
memory(const struct rig_client *client, uint64_t size, uint64_t *out_id)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Chunk body = MPS__CHUNK__INIT;

	body.size = size;
	body.unmapped = true;
	question.body_case = MPS__CONTROL__BODY_CHUNK;
	question.chunk = &body;
	return ask(client, &question, out_id);
}

static uint32_t
map(const struct rig_client *client, uint64_t chunk, uint64_t piece,
    uint64_t address, uint64_t size, uint64_t *out_id)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Mapping body = MPS__MAPPING__INIT;

	body.chunk = chunk;
	body.piece = piece;
	body.address = address;
	body.size = size;
	question.body_case = MPS__CONTROL__BODY_MAPPING;
	question.mapping = &body;
	return ask(client, &question, out_id);
}

static uint32_t
access_to(const struct rig_client *client, uint64_t mapping)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Access body = MPS__ACCESS__INIT;

	body.mapping = mapping;
	question.body_case = MPS__CONTROL__BODY_ACCESS;
	question.access = &body;
	return rig_done(client->fd, &question);
}

static uint32_t
array(const struct rig_client *client, uint64_t width, uint64_t height,
      uint64_t *out_id)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__ArrayShape shape = MPS__ARRAY_SHAPE__INIT;
	Mps__Array body = MPS__ARRAY__INIT;

	shape.width = width;
	shape.height = height;
	shape.format = 0x20;    /* float */
	shape.channels = 4;
	body.shape = &shape;
	question.body_case = MPS__CONTROL__BODY_ARRAY;
	question.array = &body;
	return ask(client, &question, out_id);
}

static uint64_t wanted;

static bool
chunks_are_kept(const Mps__StatusReply *status)
{
	return status->vault_chunks == wanted;
}

static void
expect_chunks(uint64_t count)
{
	wanted = count;
	rig_wait(chunks_are_kept);
}

START_TEST(memory_stays_until_its_last_mapping_is_gone)
{
	struct rig_client client;
	uint64_t piece, at, id, a, b;

	rig_start(NULL);
	rig_join(&client);
	piece = rig_piece(&client, false, 16 * MIB, &at);
	ck_assert_uint_eq(memory(&client, 4 * MIB, &id), 0);
	expect_chunks(1);
	ck_assert_uint_eq(map(&client, id, piece, at, 4 * MIB, &a), 0);
	ck_assert_uint_eq(map(&client, id, piece, at + 8 * MIB, 2 * MIB, &b),
			  0);
	ck_assert_uint_eq(access_to(&client, a), 0);
	ck_assert_uint_eq(rig_chunk_free(&client, id), 0);
	/* Released: it can be neither mapped nor freed again. */
	ck_assert_uint_eq(rig_chunk_free(&client, id), 1);
	ck_assert_uint_eq(map(&client, id, piece, at + 4 * MIB, 2 * MIB, NULL),
			  1);
	expect_chunks(1);
	ck_assert_uint_eq(rig_chunk_free(&client, a), 0);
	expect_chunks(1);
	ck_assert_uint_eq(rig_chunk_free(&client, b), 0);
	expect_chunks(0);
	rig_leave(&client);
}
END_TEST

START_TEST(a_mapping_is_of_memory_and_addresses_of_its_client)
{
	struct rig_client client, other;
	uint64_t piece, at, id, theirs, their_at, chunk, a;

	rig_start(NULL);
	rig_join(&client);
	rig_join(&other);
	piece = rig_piece(&client, false, 16 * MIB, &at);
	theirs = rig_piece(&other, false, 16 * MIB, &their_at);
	ck_assert_uint_eq(memory(&client, 3 * MIB, NULL), 1);
	ck_assert_uint_eq(memory(&client, 4 * MIB, &id), 0);
	ck_assert_uint_eq(map(&client, id, theirs, their_at, 2 * MIB, NULL),
			  1);
	ck_assert_uint_eq(map(&other, id, theirs, their_at, 2 * MIB, NULL), 1);
	ck_assert_uint_eq(map(&client, id, piece, at, 6 * MIB, NULL), 1);
	ck_assert_uint_eq(map(&client, id, piece, at + MIB, 2 * MIB, NULL), 1);
	ck_assert_uint_eq(map(&client, id, piece, at + 14 * MIB, 4 * MIB,
			      NULL), 1);
	/* Nor is a chunk with an address memory to be mapped, nor the
	 * other way round. */
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 2 * MIB, &chunk), 0);
	ck_assert_uint_eq(map(&client, chunk, piece, at + 4 * MIB, 2 * MIB,
			      NULL), 1);
	ck_assert_uint_eq(map(&client, id, piece, at, 2 * MIB, NULL), 1);
	ck_assert_uint_eq(map(&client, id, piece, at + 2 * MIB, 2 * MIB, &a),
			  0);
	ck_assert_uint_eq(rig_chunk(&client, piece, at + 2 * MIB, 2 * MIB,
				    NULL), 1);
	ck_assert_uint_eq(access_to(&client, chunk), 1);
	ck_assert_uint_eq(access_to(&client, id), 1);
	ck_assert_uint_eq(access_to(&other, a), 1);
	rig_leave(&client);
	rig_leave(&other);
	expect_chunks(0);
}
END_TEST

START_TEST(memory_counts_once_however_often_it_is_mapped)
{
	struct rig_client client;
	uint64_t piece, at, id;

	rig_start("--device-limit=8M");
	rig_join(&client);
	piece = rig_piece(&client, false, 32 * MIB, &at);
	ck_assert_uint_eq(memory(&client, 10 * MIB, NULL), 2);
	ck_assert_uint_eq(memory(&client, 6 * MIB, &id), 0);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(map(&client, id, piece, at + i * 6 * MIB,
				      6 * MIB, NULL), 0);
	ck_assert_uint_eq(memory(&client, 4 * MIB, NULL), 2);
	ck_assert_uint_eq(memory(&client, 2 * MIB, NULL), 0);
	rig_leave(&client);
}
END_TEST

START_TEST(arrays_count_what_they_take)
{
	struct rig_client client;
	uint64_t id;

	rig_start("--device-limit=8M");
	rig_join(&client);
	ck_assert_uint_eq(array(&client, 0, 0, NULL), 1);
	ck_assert_uint_eq(array(&client, UINT64_MAX, 1, NULL), 1);
	ck_assert_uint_eq(array(&client, 1024, 1024, NULL), 2);
	ck_assert_uint_eq(array(&client, 512, 512, &id), 0);
	ck_assert_uint_eq(array(&client, 512, 512, NULL), 0);
	ck_assert_uint_eq(array(&client, 512, 512, NULL), 2);
	ck_assert_uint_eq(rig_chunk_free(&client, id), 0);
	ck_assert_uint_eq(array(&client, 512, 512, NULL), 0);
	/* An array is no descriptor in the vault. */
	expect_chunks(0);
	rig_leave(&client);
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = {
		memory_stays_until_its_last_mapping_is_gone,
		a_mapping_is_of_memory_and_addresses_of_its_client,
		memory_counts_once_however_often_it_is_mapped,
		arrays_count_what_they_take,
	};

	if (argc > 1 && !strcmp(argv[1], "--driver"))
		return fake_worker_main();
	return suite_run("broker_mapping", tests,
			 sizeof(tests) / sizeof(*tests), setup, teardown);
}
