/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the broker gives its clients: addresses, chunks, pinned memory, code
 * images, and the limits of each. This program is the worker, too.
 */
#include "tests/unit/broker_rig.h"

#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/sha256.h"
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

/* ---- addresses ----------------------------------------------------------*/

START_TEST(pieces_of_all_clients_are_apart)
{
	uint64_t at[8], host, id;
	struct rig_client clients[4];

	rig_start(NULL);
	for (int i = 0; i < 4; i++) {
		rig_join(&clients[i]);
		rig_piece(&clients[i], false, 100 * MIB, &at[2 * i]);
		rig_piece(&clients[i], false, 3 * MIB, &at[2 * i + 1]);
	}
	for (int i = 0; i < 8; i++) {
		uint64_t size = i % 2 ? 4 * MIB : 100 * MIB;

		ck_assert_uint_eq(at[i] % (2 * MIB), 0);
		ck_assert_uint_ge(at[i], FAKE_WINDOW);
		ck_assert_uint_le(at[i] + size, FAKE_HOST_WINDOW);
		for (int k = 0; k < 8; k++)
			ck_assert(k == i || at[k] >= at[i] + size ||
				  at[k] < at[i]);
	}
	/* Pinned memory has its own window. */
	rig_piece(&clients[0], true, MIB, &host);
	ck_assert_uint_ge(host, FAKE_HOST_WINDOW);
	/* What has gone comes back. */
	rig_leave(&clients[0]);
	for (int i = 0; i < 3000; i++) {
		ck_assert_uint_eq(rig_offer(&clients[1], false, 100 * MIB, &id,
					    &host), 0);
		if (host == at[0])
			break;
		usleep(10000);
	}
	ck_assert_uint_eq(host, at[0]);
	for (int i = 1; i < 4; i++)
		rig_leave(&clients[i]);
}
END_TEST

START_TEST(a_declined_piece_is_not_offered_again)
{
	struct rig_client client, other;
	uint64_t id, first, next = 0;
	int tries = 0;

	rig_start(NULL);
	rig_join(&client);
	ck_assert_uint_eq(rig_offer(&client, false, MIB, &id, &first), 0);
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__PIECE, id, 17),
			  0);
	/* All of 64 GiB is taken in that client: it learns so soon. */
	while (!rig_offer(&client, false, MIB, &id, &next)) {
		ck_assert_uint_gt(next, first);
		first = next;
		rig_ready(&client, MPS__READY__WHAT__PIECE, id, 17);
		ck_assert_int_lt(++tries, 16);
	}
	/* Another client may have it. */
	rig_join(&other);
	rig_piece(&other, false, MIB, &next);
	ck_assert_uint_eq(next, FAKE_WINDOW);
	rig_leave(&client);
	rig_leave(&other);
}
END_TEST

START_TEST(addresses_run_out_with_code_2)
{
	struct rig_client client, other;
	uint64_t id, at;

	rig_start(NULL);
	rig_join(&client);
	ck_assert_uint_eq(rig_offer(&client, false, FAKE_WINDOW_SIZE + 1, &id,
				    &at), 2);
	/* An eighth of both windows. */
	rig_piece(&client, false, FAKE_WINDOW_SIZE / 4, &at);
	ck_assert_uint_eq(rig_offer(&client, false, 1, &id, &at), 2);
	rig_join(&other);
	rig_piece(&other, false, MIB, &at);
	rig_leave(&other);
	ck_assert_uint_eq(rig_offer(&client, false, 0, &id, &at), 1);
	ck_assert_uint_eq(rig_offer(&client, false, UINT64_MAX, &id, &at), 1);
	rig_leave(&client);
}
END_TEST

/* ---- chunks -------------------------------------------------------------*/

static uint64_t chunks_wanted;

static bool
chunks_counted(const Mps__StatusReply *status)
{
	return status->vault_chunks == chunks_wanted;
}

START_TEST(a_chunk_is_kept_until_it_is_freed)
{
	struct rig_client client;
	uint64_t piece, at, a, b;

	rig_start(NULL);
	rig_join(&client);
	piece = rig_piece(&client, false, 16 * MIB, &at);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 2 * MIB, &a), 0);
	ck_assert_uint_eq(rig_chunk(&client, piece, at + 2 * MIB, 4 * MIB, &b),
			  0);
	ck_assert_uint_ne(a, b);
	chunks_wanted = 2;
	rig_wait(chunks_counted);
	ck_assert_uint_eq(rig_chunk_free(&client, a), 0);
	ck_assert_uint_eq(rig_chunk_free(&client, a), 1);
	ck_assert_uint_eq(rig_chunk_free(&client, 12345), 1);
	chunks_wanted = 1;
	rig_wait(chunks_counted);
	rig_leave(&client);
	chunks_wanted = 0;
	rig_wait(chunks_counted);
}
END_TEST

START_TEST(a_chunk_lies_free_in_a_piece_of_its_client)
{
	struct rig_client client, other;
	uint64_t piece, at, host, host_at, offered, offered_at, foreign, f_at;

	rig_start(NULL);
	rig_join(&client);
	rig_join(&other);
	piece = rig_piece(&client, false, 8 * MIB, &at);
	host = rig_piece(&client, true, 8 * MIB, &host_at);
	foreign = rig_piece(&other, false, 8 * MIB, &f_at);
	ck_assert_uint_eq(rig_offer(&client, false, 8 * MIB, &offered,
				    &offered_at), 0);
	const struct {
		uint64_t piece, at, size;
	} wrong[] = {
		{ piece, at, 0 },
		{ piece, at, MIB },
		{ piece, at, 2 * MIB + 4096 },
		{ piece, at + 4096, 2 * MIB },
		{ piece, at, 10 * MIB },
		{ piece, at + 6 * MIB, 4 * MIB },
		{ piece, at + 8 * MIB, 2 * MIB },
		{ piece, at - 2 * MIB, 2 * MIB },
		{ piece, at, UINT64_MAX - 2 * MIB + 1 },
		{ piece, UINT64_MAX - 2 * MIB + 1, 2 * MIB },
		{ host, host_at, 2 * MIB },
		{ foreign, f_at, 2 * MIB },
		{ offered, offered_at, 2 * MIB },
		{ 0, at, 2 * MIB },
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		ck_assert_msg(rig_chunk(&client, wrong[i].piece, wrong[i].at,
					wrong[i].size, NULL) == 1,
			      "row %zu was not refused", i);
	ck_assert_uint_eq(rig_chunk(&client, piece, at + 2 * MIB, 4 * MIB,
				    NULL), 0);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 4 * MIB, NULL), 1);
	ck_assert_uint_eq(rig_chunk(&client, piece, at + 4 * MIB, 2 * MIB,
				    NULL), 1);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 2 * MIB, NULL), 0);
	/* Another client's chunk is no chunk. */
	rig_leave(&client);
	rig_leave(&other);
}
END_TEST

START_TEST(the_worker_s_refusal_of_a_chunk_is_passed_on)
{
	struct rig_client client;
	uint64_t piece, at;

	rig_start(NULL);
	rig_join(&client);
	piece = rig_piece(&client, false, 64 * MIB, &at);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, FAKE_CHUNK_NO_MEMORY,
				    NULL), 2);
	/* And leaves nothing there. */
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 2 * MIB, NULL), 0);
	rig_leave(&client);
}
END_TEST

START_TEST(a_chunk_waits_for_the_freed_one_at_its_address)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Chunk chunk = MPS__CHUNK__INIT;
	struct rig_client client;
	uint64_t piece, at, id;
	struct pollfd p;

	setenv("MPSSHIM_FAKE", "slowfree", 1);
	rig_start(NULL);
	rig_join(&client);
	piece = rig_piece(&client, false, 4 * MIB, &at);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 2 * MIB, &id), 0);
	ck_assert_uint_eq(rig_chunk_free(&client, id), 0);
	chunk.size = 2 * MIB;
	chunk.piece = piece;
	chunk.address = at;
	question.id = 77;
	question.body_case = MPS__CONTROL__BODY_CHUNK;
	question.chunk = &chunk;
	ck_assert_int_eq(sock_send_control(client.fd, &question, NULL, 0,
					   1000), 0);
	p = (struct pollfd){ .fd = client.fd, .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 200), 0);
	/* The worker lets go when it is asked for figures. */
	mps__control__free_unpacked(rig_status(), NULL);
	ck_assert_int_eq(sock_recv_control(client.fd, &answer, NULL, NULL,
					   5000), 0);
	ck_assert_uint_eq(answer->id, 77);
	ck_assert_uint_eq(answer->chunk_reply->status, 0);
	mps__control__free_unpacked(answer, NULL);
	rig_leave(&client);
}
END_TEST

/* The free is answered between the question and its refusal. */
START_TEST(what_is_freed_meanwhile_is_tried_for_again)
{
	struct rig_client client;
	uint64_t piece, at, id;

	setenv("MPSSHIM_FAKE", "slowfree", 1);
	rig_start(NULL);
	rig_join(&client);
	piece = rig_piece(&client, false, 64 * MIB, &at);
	for (unsigned int i = 0; i < 3; i++) {
		ck_assert_uint_eq(rig_chunk(&client, piece, at, 2 * MIB, &id),
				  0);
		ck_assert_uint_eq(rig_chunk_free(&client, id), 0);
		ck_assert_uint_eq(rig_chunk(&client, piece, at + 2 * MIB,
					    FAKE_CHUNK_FREES, &id), 0);
		ck_assert_uint_eq(rig_chunk_free(&client, id), 0);
		mps__control__free_unpacked(rig_status(), NULL);
	}
	rig_leave(&client);
}
END_TEST

START_TEST(the_limit_counts_chunks_and_frees_waits_for_them)
{
	struct rig_client client, other;
	uint64_t piece, at, id, o_piece, o_at;

	rig_start("--device-limit=8M");
	ck_assert_uint_eq(rig_hello(&client, "a job"), 0);
	ck_assert_uint_eq(rig_attach(&client), 0);
	ck_assert_uint_eq(rig_hello(&other, "a job"), 0);
	ck_assert_uint_eq(rig_attach(&other), 0);
	piece = rig_piece(&client, false, 16 * MIB, &at);
	o_piece = rig_piece(&other, false, 16 * MIB, &o_at);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 10 * MIB, NULL), 2);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 6 * MIB, &id), 0);
	/* One job, one limit. */
	ck_assert_uint_eq(rig_chunk(&other, o_piece, o_at, 4 * MIB, NULL), 2);
	ck_assert_uint_eq(rig_chunk_free(&client, id), 0);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 8 * MIB, NULL), 0);
	rig_leave(&other);
	/* Who is of no job has a limit of his own. */
	rig_join(&other);
	o_piece = rig_piece(&other, false, 16 * MIB, &o_at);
	ck_assert_uint_eq(rig_chunk(&other, o_piece, o_at, 8 * MIB, NULL), 0);
	rig_leave(&client);
	rig_leave(&other);
}
END_TEST

static void
expect_info(const struct rig_client *client, uint64_t total, uint64_t left)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__MemoryInfo info = MPS__MEMORY_INFO__INIT;

	question.body_case = MPS__CONTROL__BODY_MEMORY_INFO;
	question.memory_info = &info;
	answer = rig_ask(client->fd, &question,
			 MPS__CONTROL__BODY_MEMORY_INFO_REPLY, NULL, NULL);
	ck_assert_uint_eq(answer->memory_info_reply->status, 0);
	ck_assert_uint_eq(answer->memory_info_reply->total, total);
	ck_assert_uint_eq(answer->memory_info_reply->free, left);
	mps__control__free_unpacked(answer, NULL);
}

START_TEST(memory_info_is_what_the_worker_has_left)
{
	struct rig_client client;
	uint64_t piece, at;

	rig_start(NULL);
	rig_join(&client);
	piece = rig_piece(&client, false, 16 * MIB, &at);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 6 * MIB, NULL), 0);
	expect_info(&client, FAKE_TOTAL, FAKE_LEFT - 6 * MIB);
	rig_leave(&client);
}
END_TEST

START_TEST(memory_info_counts_what_is_freed_as_free)
{
	struct rig_client client;
	uint64_t piece, at, id;

	setenv("MPSSHIM_FAKE", "slowfree", 1);
	rig_start("--device-limit=16M");
	rig_join(&client);
	piece = rig_piece(&client, false, 16 * MIB, &at);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 6 * MIB, &id), 0);
	ck_assert_uint_eq(rig_chunk_free(&client, id), 0);
	expect_info(&client, 16 * MIB, 16 * MIB);
	/* By now it has gone. */
	mps__control__free_unpacked(rig_status(), NULL);
	expect_info(&client, 16 * MIB, 16 * MIB);
	rig_leave(&client);
}
END_TEST

START_TEST(memory_info_is_what_the_limit_leaves)
{
	struct rig_client client;
	uint64_t piece, at;

	rig_start("--device-limit=16M");
	rig_join(&client);
	piece = rig_piece(&client, false, 16 * MIB, &at);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, 6 * MIB, NULL), 0);
	expect_info(&client, 16 * MIB, 10 * MIB);
	rig_leave(&client);
}
END_TEST

START_TEST(what_the_driver_has_for_a_client_counts)
{
	struct rig_client client, other;
	uint64_t piece, at, id, limit = FAKE_CHUNK_TAKES + 4 * MIB;

	rig_start("--device-limit=64M");
	ck_assert_uint_eq(limit, 64 * MIB);
	ck_assert_uint_eq(rig_hello(&client, "a job"), 0);
	ck_assert_uint_eq(rig_attach(&client), 0);
	piece = rig_piece(&client, false, 256 * MIB, &at);
	/* Said again, it is not more. */
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(rig_chunk(&client, piece, at,
					    FAKE_CHUNK_TAKES, &id), 0);
		ck_assert_uint_eq(rig_chunk(&client, piece, at + 128 * MIB,
					    2 * MIB, NULL), 2);
		ck_assert_uint_eq(rig_chunk_free(&client, id), 0);
	}
	expect_info(&client, limit, limit - FAKE_TAKEN);
	rig_leave(&client);
	/* It goes with the client, not with the job. */
	ck_assert_uint_eq(rig_hello(&other, "a job"), 0);
	ck_assert_uint_eq(rig_attach(&other), 0);
	piece = rig_piece(&other, false, 256 * MIB, &at);
	ck_assert_uint_eq(rig_chunk(&other, piece, at, limit, NULL), 0);
	rig_leave(&other);
}
END_TEST

START_TEST(what_the_driver_had_goes_with_the_worker)
{
	struct rig_client client;
	uint64_t piece, at, id;

	rig_start("--device-limit=64M");
	rig_join(&client);
	piece = rig_piece(&client, false, 256 * MIB, &at);
	ck_assert_uint_eq(rig_chunk(&client, piece, at, FAKE_CHUNK_TAKES, &id),
			  0);
	ck_assert_uint_eq(rig_chunk_free(&client, id), 0);
	ck_assert_uint_ne(rig_chunk(&client, piece, at, FAKE_CHUNK_CRASH,
				    NULL), 0);
	rig_leave(&client);
}
END_TEST

/* ---- pinned memory ------------------------------------------------------*/

static uint32_t
host_free(const struct rig_client *client, uint64_t id)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__HostFree body = MPS__HOST_FREE__INIT;

	body.id = id;
	question.body_case = MPS__CONTROL__BODY_HOST_FREE;
	question.host_free = &body;
	return rig_done(client->fd, &question);
}

START_TEST(pinned_memory_is_the_broker_s_and_of_that_size)
{
	struct rig_client client;
	uint64_t piece, at, id;
	int fd;

	rig_start(NULL);
	rig_join(&client);
	piece = rig_piece(&client, true, 4 * MIB, &at);
	ck_assert_uint_eq(rig_host(&client, piece, at, 12288, &id, &fd), 0);
	ck_assert_int_eq(shmem_size(fd), 12288);
	close(fd);
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__HOST, id, 0),
			  0);
	ck_assert_uint_eq(rig_host(&client, piece, at, 4096, &id, &fd), 1);
	ck_assert_uint_eq(rig_host(&client, piece, at + 12288, 100, &id, &fd),
			  1);
	/* Declined: its place is free again. */
	ck_assert_uint_eq(rig_host(&client, piece, at + 12288, 4096, &id, &fd),
			  0);
	close(fd);
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__HOST, id, 2),
			  0);
	ck_assert_uint_eq(rig_host(&client, piece, at + 12288, 8192, &id, &fd),
			  0);
	close(fd);
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__HOST, id, 0),
			  0);
	ck_assert_uint_eq(host_free(&client, id), 0);
	ck_assert_uint_eq(host_free(&client, id), 1);
	rig_leave(&client);
}
END_TEST

START_TEST(shared_memory_has_a_limit)
{
	struct rig_client client;
	uint64_t piece, at, id;
	int fd;

	/* Rings and staging of one client take 5.4 MiB of it. */
	rig_start("--host-limit=8M");
	rig_join(&client);
	piece = rig_piece(&client, true, 16 * MIB, &at);
	ck_assert_uint_eq(rig_host(&client, piece, at, 4 * MIB, &id, &fd), 2);
	ck_assert_uint_eq(rig_host(&client, piece, at, 2 * MIB, &id, &fd), 0);
	close(fd);
	rig_leave(&client);
}
END_TEST

/* ---- images -------------------------------------------------------------*/

static uint64_t images_wanted;

static bool
images_stored(const Mps__StatusReply *status)
{
	return status->store_images == images_wanted &&
	       status->workers[0]->images == images_wanted;
}

START_TEST(an_image_travels_once)
{
	static const char code[] = "some code, or what passes for it";
	struct rig_client client, other;
	uint8_t hash[32];
	int fd;

	rig_start(NULL);
	rig_join(&client);
	rig_hash(code, hash);
	ck_assert_uint_eq(rig_image(&client, hash, strlen(code), &fd), 0);
	ck_assert_int_ge(fd, 0);
	rig_fill_image(fd, code, strlen(code));
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__IMAGE, 0, 0),
			  0);
	rig_join(&other);
	ck_assert_uint_eq(rig_image(&other, hash, strlen(code), &fd), 0);
	ck_assert_int_eq(fd, -1);
	images_wanted = 1;
	rig_wait(images_stored);
	/* The same hash with another size is another image. */
	ck_assert_uint_eq(rig_image(&other, hash, strlen(code) - 1, &fd), 0);
	ck_assert_int_ge(fd, 0);
	close(fd);
	rig_leave(&client);
	rig_leave(&other);
}
END_TEST

START_TEST(an_image_of_several_slices_is_hashed_whole)
{
	static char code[1200 * 1024 + 1];
	struct rig_client client;
	uint8_t hash[32];
	int fd;

	memset(code, 'x', sizeof(code) - 1);
	code[700 * 1024] = 'y';
	rig_start(NULL);
	rig_join(&client);
	rig_hash(code, hash);
	ck_assert_uint_eq(rig_image(&client, hash, strlen(code), &fd), 0);
	rig_fill_image(fd, code, strlen(code));
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__IMAGE, 0, 0),
			  0);
	rig_leave(&client);
}
END_TEST

START_TEST(an_image_that_is_not_what_it_says_is_refused)
{
	static const char code[] = "some code", other[] = "evil code";
	struct rig_client client;
	uint8_t hash[32];
	int fd;

	rig_start(NULL);
	rig_join(&client);
	rig_hash(code, hash);
	ck_assert_uint_eq(rig_image(&client, hash, strlen(code), &fd), 0);
	rig_fill_image(fd, other, strlen(other));
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__IMAGE, 0, 0),
			  200);
	/* Not stored under that name, and the right one still may come. */
	ck_assert_uint_eq(rig_image(&client, hash, strlen(code), &fd), 0);
	ck_assert_int_ge(fd, 0);
	rig_fill_image(fd, code, strlen(code));
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__IMAGE, 0, 0),
			  0);
	ck_assert_uint_eq(rig_image(&client, hash, 0, &fd), 1);
	ck_assert_uint_eq(rig_image(&client, hash, UINT64_MAX, &fd), 1);
	rig_leave(&client);
}
END_TEST

START_TEST(an_image_that_can_still_be_written_is_refused)
{
	static const char code[] = "some code";
	struct rig_client client;
	uint8_t hash[32];
	void *map;
	int fd;

	rig_start(NULL);
	rig_join(&client);
	rig_hash(code, hash);
	ck_assert_uint_eq(rig_image(&client, hash, strlen(code), &fd), 0);
	map = mmap(NULL, strlen(code), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	rig_fill_image(fd, code, strlen(code));
	ck_assert_uint_eq(rig_ready(&client, MPS__READY__WHAT__IMAGE, 0, 0),
			  200);
	munmap(map, strlen(code));
	rig_leave(&client);
}
END_TEST

#define CODE_SIZE (64 * 1024)
/* Images of CODE_SIZE that --store-limit=4M has room for. */
#define STORE_ROOM 64

/* The n-th image; true if the client had to bring it. */
static bool
send_image(const struct rig_client *client, unsigned int n)
{
	static char code[CODE_SIZE + 1];
	uint8_t hash[32];
	int fd;

	memset(code, 'x', CODE_SIZE);
	snprintf(code, 16, "image %08u", n);
	code[strlen(code)] = 'x';
	rig_hash(code, hash);
	ck_assert_uint_eq(rig_image(client, hash, CODE_SIZE, &fd), 0);
	if (fd < 0)
		return false;
	rig_fill_image(fd, code, CODE_SIZE);
	ck_assert_uint_eq(rig_ready(client, MPS__READY__WHAT__IMAGE, 0, 0), 0);
	return true;
}

START_TEST(what_the_store_drops_the_worker_drops)
{
	struct rig_client client, other;

	rig_start("--store-limit=4M");
	rig_join(&client);
	for (unsigned int n = 0; n < 300; n++)
		ck_assert(send_image(&client, n));
	images_wanted = STORE_ROOM;
	rig_wait(images_stored);
	/* The last is there, the first comes again, to store and worker. */
	ck_assert(!send_image(&client, 299));
	ck_assert(send_image(&client, 0));
	ck_assert(!send_image(&client, 0));
	rig_wait(images_stored);
	/* One client does not fill the store for the others. */
	rig_join(&other);
	for (unsigned int n = 1000; n < 1000 + STORE_ROOM; n++)
		ck_assert(send_image(&other, n));
	ck_assert(!send_image(&client, 0));
	rig_wait(images_stored);
	rig_leave(&client);
	rig_leave(&other);
}
END_TEST

START_TEST(the_store_s_limit_is_a_size)
{
	ck_assert_int_eq(rig_try_start("--store-limit=much"), 2);
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = {
		pieces_of_all_clients_are_apart,
		a_declined_piece_is_not_offered_again,
		addresses_run_out_with_code_2,
		a_chunk_is_kept_until_it_is_freed,
		a_chunk_lies_free_in_a_piece_of_its_client,
		the_worker_s_refusal_of_a_chunk_is_passed_on,
		a_chunk_waits_for_the_freed_one_at_its_address,
		what_is_freed_meanwhile_is_tried_for_again,
		the_limit_counts_chunks_and_frees_waits_for_them,
		memory_info_counts_what_is_freed_as_free,
		memory_info_is_what_the_limit_leaves,
		what_the_driver_has_for_a_client_counts,
		what_the_driver_had_goes_with_the_worker,
		memory_info_is_what_the_worker_has_left,
		pinned_memory_is_the_broker_s_and_of_that_size,
		shared_memory_has_a_limit,
		an_image_travels_once,
		an_image_of_several_slices_is_hashed_whole,
		an_image_that_is_not_what_it_says_is_refused,
		an_image_that_can_still_be_written_is_refused,
		what_the_store_drops_the_worker_drops,
		the_store_s_limit_is_a_size,
	};

	if (argc > 1 && !strcmp(argv[1], "--driver"))
		return fake_worker_main();
	return suite_run("broker_memory", tests,
			 sizeof(tests) / sizeof(*tests), setup, teardown);
}
