/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/worker_rig.h"

#include <check.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/handle.h"
#include "proto/shmem.h"

#define WAIT_MS 20000

static const char *
build_path(const char *name)
{
	static char path[4096];
	const char *build = getenv("MPSSHIM_BUILD");

	snprintf(path, sizeof(path), "%s/%s", build ? build : "build", name);
	return path;
}

bool
rig_is_possible(void)
{
	return access(build_path("bin/mpsd-worker"), X_OK) == 0 &&
	       (getenv("MPSSHIM_TEST_DRIVER") ||
		access(build_path("lib/libsoftcuda.so"), R_OK) == 0);
}

static void
exec_worker(int control, int risks, const char *const *environment)
{
	char program[4096], driver[4096];

	snprintf(program, sizeof(program), "%s", build_path("bin/mpsd-worker"));
	for (; environment && *environment; environment++)
		putenv((char *)*environment);
	/* Any driver library in the software one's place. */
	if (getenv("MPSSHIM_TEST_DRIVER"))
		snprintf(driver, sizeof(driver), "%s",
			 getenv("MPSSHIM_TEST_DRIVER"));
	else if (!realpath(build_path("lib/libsoftcuda.so"), driver))
		_exit(126);
	if (dup2(control, 3) < 0 || dup2(risks, 4) < 0)
		_exit(126);
	fcntl(3, F_SETFD, 0);
	execl(program, program, "--driver", driver, "--device", "0",
	      "--risk-fd", "4", NULL);
	_exit(127);
}

void
rig_start(struct rig *rig, const char *const *environment)
{
	int pair[2], low, risks;

	memset(rig, 0, sizeof(*rig));
	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	rig->control = fcntl(pair[0], F_DUPFD_CLOEXEC, 10);
	close(pair[0]);
	low = shmem_create("risk", sizeof(*rig->risks));
	risks = fcntl(low, F_DUPFD_CLOEXEC, 10);
	close(low);
	rig->risks = shmem_map(risks, sizeof(*rig->risks));
	ck_assert_ptr_nonnull(rig->risks);
	rig->pid = fork();
	ck_assert_int_ge(rig->pid, 0);
	if (!rig->pid)
		exec_worker(pair[1], risks, environment);
	close(pair[1]);
	close(risks);
	ck_assert_int_eq(sock_recv_control(rig->control, &rig->ready, NULL,
					   NULL, WAIT_MS),
			 0);
	ck_assert_int_eq(rig->ready->body_case,
			 MPS__CONTROL__BODY_WORKER_READY);
	if (rig->ready->worker_ready->n_windows >= 4) {
		rig->device_base = rig->ready->worker_ready->windows[0];
		rig->host_base = rig->ready->worker_ready->windows[2];
	}
}

void
rig_stop(struct rig *rig)
{
	int status;

	close(rig->control);
	ck_assert_int_eq(waitpid(rig->pid, &status, 0), rig->pid);
	munmap(rig->risks, sizeof(*rig->risks));
	mps__control__free_unpacked(rig->ready, NULL);
}

Mps__Control *
rig_ask(struct rig *rig, Mps__Control *question, const int *fds, int nfds,
	int *out_fd)
{
	question->id = ++rig->next_id;
	ck_assert_int_eq(
		sock_send_control(rig->control, question, fds, nfds, WAIT_MS),
		0);
	for (;;) {
		Mps__Control *answer;
		int got = -1, n = 1;

		ck_assert_int_eq(sock_recv_control(rig->control, &answer, &got,
						   &n, WAIT_MS),
				 0);
		if (answer->id == question->id) {
			if (out_fd)
				*out_fd = n ? got : -1;
			else if (n)
				close(got);
			return answer;
		}
		if (n)
			close(got);
		mps__control__free_unpacked(answer, NULL);
	}
}

uint32_t
rig_done(struct rig *rig, Mps__Control *question, const int *fds, int nfds,
	 int *out_fd)
{
	Mps__Control *answer = rig_ask(rig, question, fds, nfds, out_fd);
	uint32_t status;

	ck_assert_int_eq(answer->body_case, MPS__CONTROL__BODY_DONE);
	status = answer->done->status;
	if (status && getenv("MPSSHIM_LOG"))
		fprintf(stderr, "worker: %u %s\n", status,
			answer->done->message);
	mps__control__free_unpacked(answer, NULL);
	return status;
}

Mps__WorkerStatsReply *
rig_stats(struct rig *rig, Mps__Control **out_hold)
{
	Mps__WorkerStats m = MPS__WORKER_STATS__INIT;
	Mps__Control q = MPS__CONTROL__INIT;

	q.body_case = MPS__CONTROL__BODY_WORKER_STATS;
	q.worker_stats = &m;
	*out_hold = rig_ask(rig, &q, NULL, 0, NULL);
	ck_assert_int_eq((*out_hold)->body_case,
			 MPS__CONTROL__BODY_WORKER_STATS_REPLY);
	return (*out_hold)->worker_stats_reply;
}

void
rig_client_start(struct rig *rig, struct rig_client *client, uint64_t id,
		 bool no_ring)
{
	Mps__WorkerClient m = MPS__WORKER_CLIENT__INIT;
	Mps__Control q = MPS__CONTROL__INIT;
	int pair[2], fds[3];

	memset(client, 0, sizeof(*client));
	client->rig = rig;
	client->id = id;
	client->no_ring = no_ring;
	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	client->data = pair[0];
	fds[0] = pair[1];
	fds[1] = shmem_create("channel", CHANNEL_SIZE);
	fds[2] = shmem_create("staging", CHANNEL_STAGING_SIZE);
	ck_assert_int_eq(channel_map(&client->channel, fds[1]), 0);
	client->staging = shmem_map(fds[2], CHANNEL_STAGING_SIZE);
	ck_assert_ptr_nonnull(client->staging);
	ring_init(&client->ordered, &client->channel.page->ordered,
		  client->channel.ordered, RING_ORDERED);
	ring_init(&client->unordered, &client->channel.page->unordered,
		  client->channel.unordered, RING_UNORDERED);
	sock_reader_init(&client->reader, client->data);
	m.client = id;
	m.pid = getpid();
	m.channel_size = CHANNEL_SIZE;
	m.staging_size = CHANNEL_STAGING_SIZE;
	m.no_ring = no_ring;
	q.body_case = MPS__CONTROL__BODY_WORKER_CLIENT;
	q.worker_client = &m;
	ck_assert_uint_eq(rig_done(rig, &q, fds, 3, NULL), 0);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

uint32_t
rig_client_end(struct rig_client *client)
{
	Mps__WorkerClientGone m = MPS__WORKER_CLIENT_GONE__INIT;
	Mps__Control q = MPS__CONTROL__INIT;

	close(client->data);
	sock_reader_fini(&client->reader);
	channel_unmap(&client->channel);
	munmap(client->staging, CHANNEL_STAGING_SIZE);
	m.client = client->id;
	q.body_case = MPS__CONTROL__BODY_WORKER_CLIENT_GONE;
	q.worker_client_gone = &m;
	return rig_done(client->rig, &q, NULL, 0, NULL);
}

uint32_t
rig_chunk_fd(struct rig_client *client, uint64_t id, uint64_t address,
	     uint64_t size, int *fd)
{
	Mps__WorkerChunk m = MPS__WORKER_CHUNK__INIT;
	Mps__Control q = MPS__CONTROL__INIT;
	int given = *fd;

	m.client = client->id;
	m.chunk = id;
	m.address = address;
	m.size = size;
	m.import = given >= 0;
	q.body_case = MPS__CONTROL__BODY_WORKER_CHUNK;
	q.worker_chunk = &m;
	return rig_done(client->rig, &q, &given, given >= 0, fd);
}

uint32_t
rig_chunk(struct rig_client *client, uint64_t id, uint64_t address,
	  uint64_t size)
{
	int fd = -1;
	uint32_t status = rig_chunk_fd(client, id, address, size, &fd);

	ck_assert_int_eq(fd >= 0, status == 0);
	if (fd >= 0)
		close(fd);
	return status;
}

uint32_t
rig_host(struct rig_client *client, uint64_t id, uint64_t address,
	 uint64_t size, void **out_map)
{
	Mps__WorkerHost m = MPS__WORKER_HOST__INIT;
	Mps__Control q = MPS__CONTROL__INIT;
	int fd = shmem_create("pinned", size);
	uint32_t status;

	*out_map = shmem_map(fd, size);
	m.client = client->id;
	m.id = id;
	m.address = address;
	m.size = size;
	q.body_case = MPS__CONTROL__BODY_WORKER_HOST;
	q.worker_host = &m;
	status = rig_done(client->rig, &q, &fd, 1, NULL);
	close(fd);
	return status;
}

uint32_t
rig_image(struct rig *rig, const void *data, size_t size, uint8_t hash[32])
{
	Mps__WorkerImage m = MPS__WORKER_IMAGE__INIT;
	Mps__Control q = MPS__CONTROL__INIT;
	int fd = shmem_create("image", size);
	void *map = shmem_map(fd, size);
	uint32_t status, sum = 2166136261u;

	memcpy(map, data, size);
	munmap(map, size);
	ck_assert_int_eq(shmem_seal_write(fd), 0);
	/* Only the broker hashes; any name that tells images apart will do. */
	for (size_t i = 0; i < size; i++)
		sum = (sum ^ ((const uint8_t *)data)[i]) * 16777619u;
	memset(hash, 0, 32);
	memcpy(hash, &sum, sizeof(sum));
	m.hash.data = hash;
	m.hash.len = 32;
	m.size = size;
	q.body_case = MPS__CONTROL__BODY_WORKER_IMAGE;
	q.worker_image = &m;
	status = rig_done(rig, &q, &fd, 1, NULL);
	close(fd);
	return status;
}

uint64_t
rig_mint(struct rig_client *client, unsigned kind)
{
	return handle_make((enum handle_kind)kind, (uint32_t)++client->handles,
			   1);
}

void
rig_nudge(struct rig_client *client)
{
	struct frame_header header = {.type = FRAME_NUDGE};

	sock_write(client->data, &header, sizeof(header), WAIT_MS);
}

void
rig_push(struct rig_client *client, const void *frame, uint32_t size,
	 bool ordered)
{
	struct ring *ring = ordered ? &client->ordered : &client->unordered;
	void *at;

	if (client->no_ring) {
		sock_write(client->data, frame, size, WAIT_MS);
		return;
	}
	for (int i = 0; !(at = ring_reserve(ring, size)); i++) {
		ck_assert_int_lt(i, WAIT_MS);
		usleep(1000);
	}
	memcpy(at, frame, size);
	if (ring_commit(ring, size))
		rig_nudge(client);
}

static void
send_call(struct rig_client *client, enum api_id id, void *const argv[],
	  uint32_t slot)
{
	static uint8_t args[WIRE_MAX_ARGS], frame[FRAME_MAX];
	bool ordered = api_sigs[id].class_ != WIRE_SYNC_UNORDERED;
	struct frame_header header = {.type = FRAME_CALL};
	Mps__Call m = MPS__CALL__INIT;
	long size = wire_pack_call(&api_sigs[id], argv, args, sizeof(args));

	ck_assert_int_ge(size, 0);
	m.seq = ordered ? ++client->seq : ++client->unordered_seq;
	m.fn = id;
	m.slot = slot;
	m.args.data = args;
	m.args.len = (size_t)size;
	header.size = (uint32_t)mps__call__get_packed_size(&m);
	header.lane = client->no_ring && !ordered;
	memcpy(frame, &header, sizeof(header));
	mps__call__pack(&m, frame + sizeof(header));
	rig_push(client, frame, header.size + (uint32_t)sizeof(header),
		 ordered);
}

static bool
wait_slot(struct reply_slot *slot)
{
	struct timespec t = {.tv_sec = WAIT_MS / 1000};
	uint32_t pending = SLOT_PENDING;

	if (!atomic_compare_exchange_strong(&slot->state, &pending,
					    SLOT_WAITING))
		return pending == SLOT_DONE;
	while (atomic_load(&slot->state) == SLOT_WAITING)
		if (syscall(SYS_futex, &slot->state, FUTEX_WAIT, SLOT_WAITING,
			    &t, NULL, 0) < 0 &&
		    atomic_load(&slot->state) == SLOT_WAITING)
			return false;
	return true;
}

static int
take_reply(struct rig_client *client, enum api_id id, const uint8_t *body,
	   uint32_t size, void *const argv[])
{
	Mps__Reply *m = mps__reply__unpack(NULL, size, body);
	int result;

	ck_assert_ptr_nonnull(m);
	result = (int)m->result;
	if (m->outs.len || result == 0)
		ck_assert_int_eq(wire_unpack_reply(&api_sigs[id], m->outs.data,
						   m->outs.len, argv) <= 0,
				 1);
	strncat(client->text, m->text.len ? (char *)m->text.data : "",
		m->text.len);
	client->text_left = m->text_left;
	mps__reply__free_unpacked(m, NULL);
	return result;
}

static int
reply_from_socket(struct rig_client *client, enum api_id id, void *const argv[])
{
	for (int i = 0; i < WAIT_MS; i++) {
		struct frame_header header;
		const uint8_t *body;

		if (sock_reader_fill(&client->reader) < 0)
			return -1;
		if (sock_reader_next(&client->reader, &header, &body) == 0)
			return take_reply(client, id, body, header.size, argv);
		usleep(1000);
	}
	return -1;
}

void
rig_call_begin(struct rig_client *client, enum api_id id, void *const argv[])
{
	atomic_store(&client->channel.slots[0].state, SLOT_PENDING);
	send_call(client, id, argv, 0);
}

int
rig_call_end(struct rig_client *client, enum api_id id, void *const argv[])
{
	struct reply_slot *slot = &client->channel.slots[0];
	struct frame_header header;

	if (client->no_ring)
		return reply_from_socket(client, id, argv);
	if (!wait_slot(slot))
		return -1;
	memcpy(&header, slot->data, sizeof(header));
	return take_reply(client, id, slot->data + sizeof(header), header.size,
			  argv);
}

int
rig_call(struct rig_client *client, enum api_id id, void *const argv[])
{
	rig_call_begin(client, id, argv);
	return rig_call_end(client, id, argv);
}

void
rig_post(struct rig_client *client, enum api_id id, void *const argv[])
{
	send_call(client, id, argv, CHANNEL_NO_SLOT);
}

void
rig_launch_head(struct rig_client *client, const struct launch_head *head,
		const void *params, size_t size,
		const struct launch_attr *attrs)
{
	struct frame_header header = {.type = FRAME_LAUNCH};
	Mps__Launch m = MPS__LAUNCH__INIT;
	uint8_t frame[4096];

	m.seq = ++client->seq;
	m.head.data = (uint8_t *)head;
	m.head.len = sizeof(*head);
	m.params.data = (uint8_t *)params;
	m.params.len = size;
	m.attrs.data = (uint8_t *)attrs;
	m.attrs.len = head->nattrs * sizeof(*attrs);
	header.size = (uint32_t)mps__launch__get_packed_size(&m);
	memcpy(frame, &header, sizeof(header));
	mps__launch__pack(&m, frame + sizeof(header));
	rig_push(client, frame, header.size + (uint32_t)sizeof(header), true);
}

void
rig_launch(struct rig_client *client, uint64_t function, uint64_t stream,
	   uint32_t blocks, uint32_t threads, const void *params, size_t size)
{
	struct launch_head head = {
		.version = LAUNCH_HEAD_VERSION,
		.function = function,
		.stream = stream,
		.grid = {blocks, 1, 1},
		.block = {threads, 1, 1},
	};

	rig_launch_head(client, &head, params, size, NULL);
}

bool
rig_is_dropped(struct rig_client *client)
{
	for (int i = 0; i < WAIT_MS; i++) {
		if (atomic_load(&client->channel.page->dead))
			return true;
		usleep(1000);
	}
	return false;
}
