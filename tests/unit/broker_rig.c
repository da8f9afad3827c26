/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/broker_rig.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/sha256.h"
#include "proto/shmem.h"

#define ANSWER_MS 20000

struct rig rig;

/* ---- processes ----------------------------------------------------------*/

void
rig_init(void)
{
	const char *build = getenv("MPSSHIM_BUILD");
	ssize_t n;

	rig.limit = NULL;
	snprintf(rig.dir, sizeof(rig.dir), "/tmp/mpsshim-check-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(rig.dir));
	snprintf(rig.path, sizeof(rig.path), "%s/mpsshim", rig.dir);
	ck_assert_ptr_nonnull(realpath(build ? build : "build", rig.bin));
	strcat(rig.bin, "/bin");
	n = readlink("/proc/self/exe", rig.self, sizeof(rig.self) - 1);
	ck_assert_int_gt(n, 0);
	rig.self[n] = 0;
	setenv("CUDA_MPS_PIPE_DIRECTORY", rig.dir, 1);
	setenv("MPSSHIM_WORKER", rig.self, 1);
	/* Any program with a driver's word will do: the worker is a false
	 * one. */
	setenv("MPSSHIM_DRIVER", rig.self, 1);
	setenv("FOREIGN", "must not reach the worker", 1);
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	unsetenv("MPSSHIM_LOG");
	unsetenv("MPSSHIM_FAKE");
}

__attribute__((used)) static const char driver_word[] = "cuInit";

static void
remove_dir(const char *path)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s'", path);
	ck_assert_int_eq(system(command), 0);
}

static pid_t
spawn_mpsd(const char *argument, int ready)
{
	char program[5000], fd[32], script[128];
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	snprintf(program, sizeof(program), "%s/mpsd", rig.bin);
	snprintf(fd, sizeof(fd), "--ready-fd=%d", ready);
	fcntl(ready, F_SETFD, 0);
	/* Limits are the shell's to set: what this program itself does before
	 * exec (coverage counters) must not meet them. */
	snprintf(script, sizeof(script), "%s; exec \"$0\" \"$@\"",
		 rig.limit ? rig.limit : ":");
	execl("/bin/sh", "sh", "-c", script, program, fd, argument, NULL);
	_exit(127);
}

int
rig_try_start(const char *argument)
{
	int fds[2], status;
	char word[512];
	ssize_t n;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	rig.mpsd = spawn_mpsd(argument, fds[1]);
	close(fds[1]);
	n = read(fds[0], word, sizeof(word));
	close(fds[0]);
	if (n == 1 && *word == '\n')
		return -1;
	ck_assert_int_eq(waitpid(rig.mpsd, &status, 0), rig.mpsd);
	rig.mpsd = 0;
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

void
rig_start(const char *argument)
{
	ck_assert_int_eq(rig_try_start(argument), -1);
}

void
rig_stop(void)
{
	int status;

	ck_assert_int_gt(rig.mpsd, 0);
	kill(rig.mpsd, SIGTERM);
	ck_assert_int_eq(waitpid(rig.mpsd, &status, 0), rig.mpsd);
	rig.mpsd = 0;
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	/* It takes its name away. */
	ck_assert_int_ne(access(rig.path, F_OK), 0);
}

/* A broker that mpsrun has started is nobody's child. */
static void
end_stranger(void)
{
	const char *const quit[] = { "mpsctl", "quit", "--force", NULL };
	char out[256];

	if (!access(rig.path, F_OK))
		rig_run(out, sizeof(out), quit);
}

void
rig_fini(void)
{
	if (rig.mpsd)
		rig_stop();
	else
		end_stranger();
	remove_dir(rig.dir);
}

int
rig_run(char *out, size_t size, const char *const *argv)
{
	char program[5000];
	int fds[2], status;
	size_t got = 0;
	ssize_t n;
	pid_t pid;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	snprintf(program, sizeof(program), "%s/%s", rig.bin, argv[0]);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		execv(program, (char *const *)argv);
		_exit(127);
	}
	close(fds[1]);
	while (got < size - 1 &&
	       (n = read(fds[0], out + got, size - 1 - got)) > 0)
		got += (size_t)n;
	out[got] = 0;
	close(fds[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* ---- talking ------------------------------------------------------------*/

int
rig_connect(void)
{
	int fd = sock_connect(rig.path);

	ck_assert_int_ge(fd, 0);
	return fd;
}

Mps__Control *
rig_ask(int fd, Mps__Control *question, Mps__Control__BodyCase wanted,
	int *fds, int *nfds)
{
	static uint64_t id = 1000;
	Mps__Control *answer = NULL;

	question->id = ++id;
	ck_assert_int_eq(sock_send_control(fd, question, NULL, 0, ANSWER_MS),
			 0);
	ck_assert_int_eq(sock_recv_control(fd, &answer, fds, nfds, ANSWER_MS),
			 0);
	ck_assert_uint_eq(answer->id, id);
	ck_assert_int_eq(answer->body_case, wanted);
	return answer;
}

uint32_t
rig_done(int fd, Mps__Control *question)
{
	Mps__Control *answer = rig_ask(fd, question, MPS__CONTROL__BODY_DONE,
				       NULL, NULL);
	uint32_t status = answer->done->status;

	mps__control__free_unpacked(answer, NULL);
	return status;
}

void
rig_expect_end(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char bytes[4096];
	ssize_t n;

	do {
		ck_assert_int_eq(poll(&p, 1, ANSWER_MS), 1);
		n = read(fd, bytes, sizeof(bytes));
	} while (n > 0);
	ck_assert(n == 0 || errno == ECONNRESET);
}

/* ---- clients ------------------------------------------------------------*/

uint32_t
rig_hello(struct rig_client *client, const char *job)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Hello hello = MPS__HELLO__INIT;
	uint32_t status;

	*client = (struct rig_client){
		.fd = rig_connect(), .data = -1, .channel = -1, .staging = -1,
	};
	hello.wire = WIRE_NUMBER;
	hello.exe = (char *)"/usr/bin/check";
	hello.job = (char *)job;
	question.body_case = MPS__CONTROL__BODY_HELLO;
	question.hello = &hello;
	answer = rig_ask(client->fd, &question,
			 MPS__CONTROL__BODY_HELLO_REPLY, NULL, NULL);
	status = answer->hello_reply->status;
	client->id = answer->hello_reply->client;
	mps__control__free_unpacked(answer, NULL);
	return status;
}

uint32_t
rig_ready(const struct rig_client *client, Mps__Ready__What what,
	  uint64_t object, uint32_t status)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__Ready ready = MPS__READY__INIT;

	ready.what = what;
	ready.object = object;
	ready.status = status;
	question.body_case = MPS__CONTROL__BODY_READY;
	question.ready = &ready;
	return rig_done(client->fd, &question);
}

uint32_t
rig_attach(struct rig_client *client)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Attach attach = MPS__ATTACH__INIT;
	int fds[SOCK_MAX_FDS], nfds = SOCK_MAX_FDS;
	uint32_t status;

	question.body_case = MPS__CONTROL__BODY_ATTACH;
	question.attach = &attach;
	answer = rig_ask(client->fd, &question,
			 MPS__CONTROL__BODY_ATTACH_REPLY, fds, &nfds);
	status = answer->attach_reply->status;
	client->generation = answer->attach_reply->generation;
	mps__control__free_unpacked(answer, NULL);
	ck_assert_int_eq(nfds, status ? 0 : 3);
	if (status)
		return status;
	client->data = fds[0];
	client->channel = fds[1];
	client->staging = fds[2];
	return rig_ready(client, MPS__READY__WHAT__ATTACH, 0, 0);
}

void
rig_join(struct rig_client *client)
{
	ck_assert_uint_eq(rig_hello(client, ""), 0);
	ck_assert_uint_eq(rig_attach(client), 0);
}

void
rig_leave(struct rig_client *client)
{
	int fds[] = { client->fd, client->data, client->channel,
		      client->staging };

	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* ---- memory -------------------------------------------------------------*/

uint32_t
rig_offer(const struct rig_client *client, bool host, uint64_t size,
	  uint64_t *out_id, uint64_t *out_address)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Piece piece = MPS__PIECE__INIT;
	uint32_t status;

	piece.host = host;
	piece.size = size;
	question.body_case = MPS__CONTROL__BODY_PIECE;
	question.piece = &piece;
	answer = rig_ask(client->fd, &question,
			 MPS__CONTROL__BODY_PIECE_REPLY, NULL, NULL);
	status = answer->piece_reply->status;
	*out_id = answer->piece_reply->id;
	*out_address = answer->piece_reply->address;
	if (!status)
		ck_assert_uint_ge(answer->piece_reply->size, size);
	mps__control__free_unpacked(answer, NULL);
	return status;
}

uint64_t
rig_piece(const struct rig_client *client, bool host, uint64_t size,
	  uint64_t *out_address)
{
	uint64_t id;

	ck_assert_uint_eq(rig_offer(client, host, size, &id, out_address), 0);
	ck_assert_uint_eq(rig_ready(client, MPS__READY__WHAT__PIECE, id, 0),
			  0);
	return id;
}

uint32_t
rig_chunk(const struct rig_client *client, uint64_t piece, uint64_t address,
	  uint64_t size, uint64_t *out_chunk)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Chunk chunk = MPS__CHUNK__INIT;
	uint32_t status;

	chunk.size = size;
	chunk.piece = piece;
	chunk.address = address;
	question.body_case = MPS__CONTROL__BODY_CHUNK;
	question.chunk = &chunk;
	answer = rig_ask(client->fd, &question, MPS__CONTROL__BODY_CHUNK_REPLY,
			 NULL, NULL);
	status = answer->chunk_reply->status;
	if (out_chunk)
		*out_chunk = answer->chunk_reply->chunk;
	mps__control__free_unpacked(answer, NULL);
	return status;
}

uint32_t
rig_chunk_free(const struct rig_client *client, uint64_t chunk)
{
	Mps__Control question = MPS__CONTROL__INIT;
	Mps__ChunkFree chunk_free = MPS__CHUNK_FREE__INIT;

	chunk_free.chunk = chunk;
	question.body_case = MPS__CONTROL__BODY_CHUNK_FREE;
	question.chunk_free = &chunk_free;
	return rig_done(client->fd, &question);
}

uint32_t
rig_host(const struct rig_client *client, uint64_t piece, uint64_t address,
	 uint64_t size, uint64_t *out_id, int *out_fd)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__HostMemory host = MPS__HOST_MEMORY__INIT;
	uint32_t status;
	int nfds = 1;

	*out_fd = -1;
	host.size = size;
	host.piece = piece;
	host.address = address;
	question.body_case = MPS__CONTROL__BODY_HOST_MEMORY;
	question.host_memory = &host;
	answer = rig_ask(client->fd, &question,
			 MPS__CONTROL__BODY_HOST_MEMORY_REPLY, out_fd, &nfds);
	status = answer->host_memory_reply->status;
	*out_id = answer->host_memory_reply->id;
	ck_assert_int_eq(nfds, status ? 0 : 1);
	mps__control__free_unpacked(answer, NULL);
	return status;
}

uint32_t
rig_image(const struct rig_client *client, const uint8_t hash[32],
	  uint64_t size, int *out_fd)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Image image = MPS__IMAGE__INIT;
	uint32_t status;
	int nfds = 1;

	*out_fd = -1;
	image.hash.data = (uint8_t *)hash;
	image.hash.len = 32;
	image.size = size;
	question.body_case = MPS__CONTROL__BODY_IMAGE;
	question.image = &image;
	answer = rig_ask(client->fd, &question, MPS__CONTROL__BODY_IMAGE_REPLY,
			 out_fd, &nfds);
	status = answer->image_reply->status;
	ck_assert_int_eq(nfds, !status && !answer->image_reply->have);
	mps__control__free_unpacked(answer, NULL);
	return status;
}

void
rig_fill_image(int fd, const char *text, size_t size)
{
	ck_assert_int_eq(shmem_size(fd), (long)size);
	ck_assert_int_eq(pwrite(fd, text, size, 0), (ssize_t)size);
	close(fd);
}

void
rig_hash(const char *text, uint8_t out[32])
{
	struct sha256 sha;

	sha256_init(&sha);
	sha256_update(&sha, text, strlen(text));
	sha256_final(&sha, out);
}

/* ---- figures ------------------------------------------------------------*/

Mps__Control *
rig_status(void)
{
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Status status = MPS__STATUS__INIT;
	Mps__Hello hello = MPS__HELLO__INIT;
	int fd = rig_connect();

	hello.wire = WIRE_NUMBER;
	hello.ask_only = true;
	question.body_case = MPS__CONTROL__BODY_HELLO;
	question.hello = &hello;
	answer = rig_ask(fd, &question, MPS__CONTROL__BODY_HELLO_REPLY, NULL,
			 NULL);
	mps__control__free_unpacked(answer, NULL);
	question.body_case = MPS__CONTROL__BODY_STATUS;
	question.status = &status;
	answer = rig_ask(fd, &question, MPS__CONTROL__BODY_STATUS_REPLY, NULL,
			 NULL);
	close(fd);
	return answer;
}

void
rig_wait(bool (*holds)(const Mps__StatusReply *status))
{
	bool good = false;

	for (int i = 0; !good && i < 3000; i++) {
		Mps__Control *answer = rig_status();

		good = holds(answer->status_reply);
		mps__control__free_unpacked(answer, NULL);
		if (!good)
			usleep(10000);
	}
	ck_assert(good);
}
