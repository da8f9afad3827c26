/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker and its clients: hello, attach, bad input, and that nothing is
 * left of who has gone. This program is the worker, too.
 */
#include "tests/unit/broker_rig.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

/* ---- hello --------------------------------------------------------------*/

static Mps__Control *
hello(int fd, uint32_t wire, bool ask_only)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Hello body = MPS__HELLO__INIT;

	body.wire = wire;
	body.ask_only = ask_only;
	question.body_case = MPS__CONTROL__BODY_HELLO;
	question.hello = &body;
	return rig_ask(fd, &question, MPS__CONTROL__BODY_HELLO_REPLY, NULL,
		       NULL);
}

START_TEST(hello_is_answered_with_the_snapshot)
{
	Mps__Control *answer;
	int fd;

	rig_start(NULL);
	fd = rig_connect();
	answer = hello(fd, WIRE_NUMBER, false);
	ck_assert_uint_eq(answer->hello_reply->status, 0);
	ck_assert_uint_eq(answer->hello_reply->driver_version, 13000);
	ck_assert_uint_eq(answer->hello_reply->n_devices, 1);
	ck_assert_str_eq(answer->hello_reply->devices[0]->name, "fake device");
	ck_assert_uint_ne(answer->hello_reply->client, 0);
	mps__control__free_unpacked(answer, NULL);
	close(fd);
}
END_TEST

static bool
no_worker(const Mps__StatusReply *status)
{
	return !status->n_workers && !status->n_clients;
}

START_TEST(who_only_asks_starts_no_worker)
{
	Mps__Control *answer;
	int fd;

	rig_start(NULL);
	fd = rig_connect();
	answer = hello(fd, WIRE_NUMBER, true);
	ck_assert_uint_eq(answer->hello_reply->status, 0);
	ck_assert_str_eq(answer->hello_reply->driver, rig.self);
	mps__control__free_unpacked(answer, NULL);
	rig_wait(no_worker);
	close(fd);
}
END_TEST

static bool
has_worker(const Mps__StatusReply *status)
{
	return status->n_workers == 1 && status->workers[0]->ready;
}

START_TEST(who_only_asks_may_have_a_worker_started)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Start start = MPS__START__INIT;
	int fd;

	rig_start(NULL);
	fd = rig_connect();
	mps__control__free_unpacked(hello(fd, WIRE_NUMBER, true), NULL);
	question.body_case = MPS__CONTROL__BODY_START;
	question.start = &start;
	ck_assert_uint_eq(rig_done(fd, &question), 0);
	rig_wait(has_worker);
	/* One is enough. */
	ck_assert_uint_eq(rig_done(fd, &question), 0);
	start.device = 9999;
	ck_assert_uint_eq(rig_done(fd, &question), 101);
	close(fd);
}
END_TEST

/* Nobody would come to use it, and its end would have to be waited for. */
START_TEST(a_broker_that_shuts_down_starts_no_worker)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Start start = MPS__START__INIT;
	Mps__Quit quit = MPS__QUIT__INIT;
	struct rig_client client;
	int fd;

	rig_start(NULL);
	/* It keeps the broker. */
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	fd = rig_connect();
	mps__control__free_unpacked(hello(fd, WIRE_NUMBER, true), NULL);
	question.body_case = MPS__CONTROL__BODY_QUIT;
	question.quit = &quit;
	ck_assert_uint_eq(rig_done(fd, &question), 0);
	question.body_case = MPS__CONTROL__BODY_START;
	question.start = &start;
	ck_assert_uint_eq(rig_done(fd, &question), 807);
	close(fd);
	rig_leave(&client);
}
END_TEST

static bool
has_no_client(const Mps__StatusReply *status)
{
	return !status->n_clients;
}

static bool
has_forgotten(const Mps__StatusReply *status)
{
	return status->n_workers == 1 && !status->workers[0]->handles;
}

START_TEST(who_only_asks_may_end_a_client)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Terminate terminate = MPS__TERMINATE__INIT;
	struct rig_client client;
	int fd;

	rig_start(NULL);
	rig_join(&client);
	fd = rig_connect();
	mps__control__free_unpacked(hello(fd, WIRE_NUMBER, true), NULL);
	question.body_case = MPS__CONTROL__BODY_TERMINATE;
	question.terminate = &terminate;
	terminate.pid = 1;
	ck_assert_uint_eq(rig_done(fd, &question), 1);
	terminate.pid = getpid();
	ck_assert_uint_eq(rig_done(fd, &question), 0);
	rig_expect_end(client.fd);
	rig_wait(has_no_client);
	rig_wait(has_forgotten);
	ck_assert_uint_eq(rig_done(fd, &question), 1);
	rig_leave(&client);
	close(fd);
}
END_TEST

START_TEST(who_only_asks_may_limit_memory)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Limit limit = MPS__LIMIT__INIT;
	struct rig_client client;
	uint64_t piece, address, chunk;
	int fd;

	rig_start(NULL);
	fd = rig_connect();
	mps__control__free_unpacked(hello(fd, WIRE_NUMBER, true), NULL);
	question.body_case = MPS__CONTROL__BODY_LIMIT;
	question.limit = &limit;
	limit.device = 4 << 20;
	ck_assert_uint_eq(rig_done(fd, &question), 0);
	answer = rig_status();
	ck_assert_uint_eq(answer->status_reply->device_limit, 4 << 20);
	mps__control__free_unpacked(answer, NULL);
	rig_join(&client);
	piece = rig_piece(&client, false, 16 << 20, &address);
	ck_assert_uint_eq(rig_chunk(&client, piece, address, 4 << 20, &chunk),
			  0);
	address += 4 << 20;
	ck_assert_uint_eq(rig_chunk(&client, piece, address, 2 << 20, &chunk),
			  2);
	limit.device = 0;
	ck_assert_uint_eq(rig_done(fd, &question), 0);
	ck_assert_uint_eq(rig_chunk(&client, piece, address, 2 << 20, &chunk),
			  0);
	rig_leave(&client);
	close(fd);
}
END_TEST

/* And a client may do nothing of it. */
START_TEST(a_client_that_asks_for_it_is_dropped)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Terminate terminate = MPS__TERMINATE__INIT;
	struct rig_client client;

	rig_start(NULL);
	rig_join(&client);
	question.body_case = MPS__CONTROL__BODY_TERMINATE;
	question.terminate = &terminate;
	terminate.pid = getpid();
	ck_assert_int_eq(sock_send_control(client.fd, &question, NULL, 0, 1000),
			 0);
	rig_expect_end(client.fd);
	rig_leave(&client);
}
END_TEST

START_TEST(another_wire_number_is_refused_with_803)
{
	Mps__Control *answer;
	int fd;

	rig_start(NULL);
	fd = rig_connect();
	answer = hello(fd, WIRE_NUMBER + 1, false);
	ck_assert_uint_eq(answer->hello_reply->status, 803);
	ck_assert_ptr_nonnull(strstr(answer->hello_reply->message, "wire"));
	mps__control__free_unpacked(answer, NULL);
	rig_expect_end(fd);
	close(fd);
}
END_TEST

/* ---- bad input ----------------------------------------------------------*/

static size_t
pack_hello(uint8_t *out)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Hello body = MPS__HELLO__INIT;
	struct frame_header header = { .type = FRAME_CONTROL };

	body.wire = WIRE_NUMBER;
	body.exe = (char *)"/bin/truncated";
	question.id = 5;
	question.body_case = MPS__CONTROL__BODY_HELLO;
	question.hello = &body;
	header.size = (uint32_t)mps__control__pack(&question,
						   out + sizeof(header));
	memcpy(out, &header, sizeof(header));
	return sizeof(header) + header.size;
}

static uint64_t bad_frames_wanted;

static bool
bad_frames_counted(const Mps__StatusReply *status)
{
	return status->bad_frames == bad_frames_wanted && !status->n_clients;
}

START_TEST(hello_truncated_at_every_byte_harms_nobody)
{
	uint8_t bytes[256];
	size_t size = pack_hello(bytes);

	rig_start(NULL);
	for (size_t n = 0; n < size; n++) {
		int fd = rig_connect();

		ck_assert_int_eq(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
		shutdown(fd, SHUT_WR);
		rig_expect_end(fd);
		close(fd);
	}
	bad_frames_wanted = 0;
	rig_wait(bad_frames_counted);
}
END_TEST

/* Bytes after which the broker must end the connection. */
static void
send_bad(const void *bytes, size_t size)
{
	int fd = rig_connect();

	ck_assert_int_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
	rig_expect_end(fd);
	close(fd);
	bad_frames_wanted++;
}

START_TEST(frames_that_are_none_end_the_connection)
{
	static const struct frame_header bad[] = {
		{ FRAME_MAX, FRAME_CONTROL, 0, 0 },
		{ UINT32_MAX, FRAME_CONTROL, 0, 0 },
		{ 0, 0, 0, 0 },
		{ 0, FRAME_TYPE_COUNT, 0, 0 },
		{ 0, FRAME_CALL, 0, 0 },
		{ 0, FRAME_NUDGE, 0, 0 },
		{ 0, FRAME_CONTROL, 0, 1 },
		{ 0, FRAME_CONTROL, 0, 0 },     /* no question in it */
	};
	uint8_t junk[sizeof(struct frame_header) + 64];
	struct frame_header header = { 64, FRAME_CONTROL, 0, 0 };

	rig_start(NULL);
	bad_frames_wanted = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		send_bad(&bad[i], sizeof(bad[i]));
	memset(junk, 0xff, sizeof(junk));
	memcpy(junk, &header, sizeof(header));
	send_bad(junk, sizeof(junk));
	rig_wait(bad_frames_counted);
}
END_TEST

START_TEST(a_frame_of_empty_submessages_is_not_unpacked)
{
	/* hello_reply (field 11) with devices (field 5), each of 0 bytes. */
	static uint8_t bytes[60000];
	struct frame_header header = { 0, FRAME_CONTROL, 0, 0 };
	uint32_t inner = 50000;
	uint8_t *p = bytes + sizeof(header);

	*p++ = 11 << 3 | 2;
	*p++ = (uint8_t)(inner | 0x80);
	*p++ = (uint8_t)(inner >> 7 | 0x80);
	*p++ = (uint8_t)(inner >> 14);
	for (uint32_t i = 0; i < inner; i += 2) {
		*p++ = 5 << 3 | 2;
		*p++ = 0;
	}
	header.size = (uint32_t)(p - bytes - (long)sizeof(header));
	memcpy(bytes, &header, sizeof(header));
	rig_start(NULL);
	bad_frames_wanted = 0;
	send_bad(bytes, (size_t)(p - bytes));
	rig_wait(bad_frames_counted);
}
END_TEST

/* A client sends that, and is no more. */
static void
send_wrong(struct rig_client *client, Mps__Control *question)
{
	ck_assert_int_eq(sock_send_control(client->fd, question, NULL, 0,
					   1000), 0);
	rig_expect_end(client->fd);
	rig_leave(client);
	bad_frames_wanted++;
}

START_TEST(questions_out_of_order_end_the_connection)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Attach attach = MPS__ATTACH__INIT;
	Mps__Hello body = MPS__HELLO__INIT;
	Mps__Ready ready = MPS__READY__INIT;
	Mps__Done done = MPS__DONE__INIT;
	struct rig_client client;

	rig_start(NULL);
	bad_frames_wanted = 0;
	/* Before hello. */
	client = (struct rig_client){ rig_connect(), 0, 0, -1, -1, -1 };
	question.body_case = MPS__CONTROL__BODY_ATTACH;
	question.attach = &attach;
	send_wrong(&client, &question);
	/* Twice. */
	rig_join(&client);
	send_wrong(&client, &question);
	rig_join(&client);
	question.body_case = MPS__CONTROL__BODY_HELLO;
	question.hello = &body;
	body.wire = WIRE_NUMBER;
	send_wrong(&client, &question);
	/* An answer. */
	rig_join(&client);
	question.body_case = MPS__CONTROL__BODY_DONE;
	question.done = &done;
	send_wrong(&client, &question);
	/* Ready without an offer, of every kind and of none. */
	question.body_case = MPS__CONTROL__BODY_READY;
	question.ready = &ready;
	for (int what = 0; what < 5; what++) {
		ck_assert_uint_eq(rig_hello(&client, ""), 0);
		ready.what = (Mps__Ready__What)what;
		send_wrong(&client, &question);
	}
	rig_wait(bad_frames_counted);
}
END_TEST

START_TEST(descriptors_from_a_client_end_the_connection)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__MemoryInfo info = MPS__MEMORY_INFO__INIT;
	struct rig_client client;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	rig_start(NULL);
	rig_join(&client);
	question.body_case = MPS__CONTROL__BODY_MEMORY_INFO;
	question.memory_info = &info;
	ck_assert_int_eq(sock_send_control(client.fd, &question, &null, 1,
					   1000), 0);
	rig_expect_end(client.fd);
	rig_leave(&client);
	close(null);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_dropped_and_others_go_on)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__MemoryInfo info = MPS__MEMORY_INFO__INIT;
	struct rig_client deaf, client;
	int r;

	rig_start(NULL);
	rig_join(&deaf);
	question.body_case = MPS__CONTROL__BODY_MEMORY_INFO;
	question.memory_info = &info;
	do
		r = sock_send_control(deaf.fd, &question, NULL, 0, 5000);
	while (!r);
	ck_assert(r == -EPIPE || r == -ECONNRESET);
	rig_join(&client);
	rig_leave(&deaf);
	rig_leave(&client);
}
END_TEST

/* ---- attach -------------------------------------------------------------*/

START_TEST(attach_gives_sealed_memory_of_the_right_size)
{
	struct rig_client client;

	rig_start(NULL);
	rig_join(&client);
	ck_assert_int_eq(shmem_size(client.channel), CHANNEL_SIZE);
	ck_assert_int_eq(shmem_size(client.staging), CHANNEL_STAGING_SIZE);
	ck_assert_uint_eq(client.generation, 1);
	rig_leave(&client);
}
END_TEST

START_TEST(attach_to_no_device_is_refused)
{
	static const int none[] = { 1, -1, 64, INT32_MAX, INT32_MIN };
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Attach attach = MPS__ATTACH__INIT;
	struct rig_client client;

	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	question.body_case = MPS__CONTROL__BODY_ATTACH;
	question.attach = &attach;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		attach.device = none[i];
		answer = rig_ask(client.fd, &question,
				 MPS__CONTROL__BODY_ATTACH_REPLY, NULL, NULL);
		ck_assert_uint_eq(answer->attach_reply->status, 101);
		mps__control__free_unpacked(answer, NULL);
	}
	rig_leave(&client);
}
END_TEST

START_TEST(memory_without_a_context_is_refused_with_201)
{
	struct rig_client client;
	uint64_t id, at;
	uint8_t hash[32] = { 0 };
	int fd;

	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, ""), 0);
	ck_assert_uint_eq(rig_offer(&client, false, MIB, &id, &at), 201);
	ck_assert_uint_eq(rig_chunk(&client, 1, 0, 2 * MIB, NULL), 201);
	ck_assert_uint_eq(rig_host(&client, 1, 0, 4096, &id, &fd), 201);
	ck_assert_uint_eq(rig_image(&client, hash, 100, &fd), 201);
	rig_leave(&client);
}
END_TEST

/* ---- the end ------------------------------------------------------------*/

/* Everything a client can hold, some of it half made. */
static void
hold_everything(struct rig_client *client)
{
	static const char code[] = "an image for the end";
	uint64_t piece, host, at, host_at, id, offered;
	uint8_t hash[32];
	int fd;

	rig_join(client);
	piece = rig_piece(client, false, 16 * MIB, &at);
	host = rig_piece(client, true, 16 * MIB, &host_at);
	for (uint64_t i = 0; i < 4; i++)
		ck_assert_uint_eq(rig_chunk(client, piece, at + 2 * MIB * i,
					    2 * MIB, &id), 0);
	ck_assert_uint_eq(rig_chunk_free(client, id), 0);
	ck_assert_uint_eq(rig_host(client, host, host_at, 8192, &id, &fd), 0);
	close(fd);
	ck_assert_uint_eq(rig_ready(client, MPS__READY__WHAT__HOST, id, 0), 0);
	ck_assert_uint_eq(rig_host(client, host, host_at + 8192, 8192, &id,
				   &fd), 0);
	close(fd);
	rig_hash(code, hash);
	ck_assert_uint_eq(rig_image(client, hash, strlen(code), &fd), 0);
	if (fd >= 0) {
		rig_fill_image(fd, code, strlen(code));
		ck_assert_uint_eq(rig_ready(client, MPS__READY__WHAT__IMAGE, 0,
					    0), 0);
	}
	/* Left in the middle of an upload and of an offer. */
	hash[0] ^= 1;
	ck_assert_uint_eq(rig_image(client, hash, 4096, &fd), 0);
	close(fd);
	ck_assert_uint_eq(rig_offer(client, false, MIB, &offered, &at), 0);
}

static uint64_t wanted_descriptors, wanted_mappings;

static bool
nothing_is_left(const Mps__StatusReply *status)
{
	return !status->n_clients && !status->vault_chunks &&
	       status->broker_descriptors == wanted_descriptors &&
	       status->broker_mappings <= wanted_mappings;
}

static bool
nobody_is_left(const Mps__StatusReply *status)
{
	wanted_descriptors = status->broker_descriptors;
	/* The heap may grow once; a sanitizer's shadow as it likes. */
#ifdef MPSSHIM_SANITIZED
	wanted_mappings = UINT64_MAX;
#else
	wanted_mappings = status->broker_mappings + 2;
#endif
	return !status->n_clients;
}

START_TEST(nothing_is_left_of_clients_that_have_gone)
{
	struct rig_client clients[8];

	rig_start(NULL);
	hold_everything(&clients[0]);
	rig_leave(&clients[0]);
	rig_wait(nobody_is_left);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 8; i++)
			hold_everything(&clients[i]);
		for (int i = 0; i < 8; i++)
			rig_leave(&clients[i]);
	}
	rig_wait(nothing_is_left);
}
END_TEST

START_TEST(status_merges_what_a_worker_says_of_its_own_clients_only)
{
	Mps__Control *answer;
	struct rig_client client;

	rig_start(NULL);
	ck_assert_uint_eq(rig_hello(&client, "job\x1b[31m"), 0);
	ck_assert_uint_eq(rig_attach(&client), 0);
	answer = rig_status();
	ck_assert_uint_eq(answer->status_reply->n_clients, 1);
	ck_assert_uint_eq(answer->status_reply->clients[0]->client, client.id);
	ck_assert_uint_eq(answer->status_reply->clients[0]->modules, 7);
	ck_assert_int_eq(answer->status_reply->clients[0]->pid, getpid());
	ck_assert_str_eq(answer->status_reply->clients[0]->job, "job?[31m");
	ck_assert_str_eq(answer->status_reply->clients[0]->waiting, "launch");
	ck_assert_uint_eq(answer->status_reply->n_workers, 1);
	ck_assert_uint_eq(answer->status_reply->workers[0]->contexts, 1);
	ck_assert_str_eq(answer->status_reply->workers[0]->device_name,
			 "fake device");
	mps__control__free_unpacked(answer, NULL);
	rig_leave(&client);
}
END_TEST

/* ---- the file with its process id ---------------------------------------*/

static char pid_path[96], pid_option[112];

static void
name_pid_file(const char *name)
{
	snprintf(pid_path, sizeof(pid_path), "%s/%s", rig.dir, name);
	snprintf(pid_option, sizeof(pid_option), "--pid-file=%s", pid_path);
}

static void
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static int
read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	int n = -1;

	if (f && fscanf(f, "%d", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

START_TEST(its_pid_is_in_a_file_while_it_serves)
{
	struct stat st;

	name_pid_file("pid");
	write_file(pid_path, "1234567890123 of another time");
	rig_start(pid_option);
	ck_assert_int_eq(read_number(pid_path), rig.mpsd);
	ck_assert_int_eq(stat(pid_path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0644);
	rig_stop();
	ck_assert_int_ne(access(pid_path, F_OK), 0);
}
END_TEST

/* Who may write where it lies must not have it end or write elsewhere. */
START_TEST(what_is_no_file_of_its_own_gets_no_pid)
{
	static const char *const kinds[] = { "pipe", "link", "second", "socket" };
	char victim[96];

	snprintf(victim, sizeof(victim), "%s/victim", rig.dir);
	write_file(victim, "77");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		name_pid_file(kinds[i]);
		if (i == 0)
			ck_assert_int_eq(mkfifo(pid_path, 0600), 0);
		else if (i == 1)
			ck_assert_int_eq(symlink(victim, pid_path), 0);
		else if (i == 2)
			ck_assert_int_eq(link(victim, pid_path), 0);
		else
			close(sock_listen(pid_path));
		rig_start(pid_option);
		rig_stop();
		ck_assert_int_eq(access(pid_path, F_OK), 0);
		ck_assert_int_eq(read_number(victim), 77);
	}
}
END_TEST

START_TEST(another_broker_s_pid_file_stays)
{
	name_pid_file("pid");
	rig_start(pid_option);
	write_file(pid_path, "4711");
	rig_stop();
	ck_assert_int_eq(read_number(pid_path), 4711);
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = {
		hello_is_answered_with_the_snapshot,
		who_only_asks_starts_no_worker,
		who_only_asks_may_have_a_worker_started,
		a_broker_that_shuts_down_starts_no_worker,
		who_only_asks_may_end_a_client,
		who_only_asks_may_limit_memory,
		a_client_that_asks_for_it_is_dropped,
		another_wire_number_is_refused_with_803,
		hello_truncated_at_every_byte_harms_nobody,
		frames_that_are_none_end_the_connection,
		a_frame_of_empty_submessages_is_not_unpacked,
		questions_out_of_order_end_the_connection,
		descriptors_from_a_client_end_the_connection,
		a_client_that_does_not_read_is_dropped_and_others_go_on,
		attach_gives_sealed_memory_of_the_right_size,
		attach_to_no_device_is_refused,
		memory_without_a_context_is_refused_with_201,
		nothing_is_left_of_clients_that_have_gone,
		status_merges_what_a_worker_says_of_its_own_clients_only,
		its_pid_is_in_a_file_while_it_serves,
		what_is_no_file_of_its_own_gets_no_pid,
		another_broker_s_pid_file_stays,
	};

	if (argc > 1 && !strcmp(argv[1], "--driver"))
		return fake_worker_main();
	return suite_run("broker", tests, sizeof(tests) / sizeof(*tests),
			 setup, teardown);
}
