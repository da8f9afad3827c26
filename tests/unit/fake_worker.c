/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fake_worker.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/risk.h"
#include "proto/shmem.h"
#include "proto/sock.h"

#define CONTROL_FD 3
#define RISK_FD 4
#define CLIENTS 128
#define LATER 256

/* What it must give back when the client is gone. */
static struct {
	uint64_t client;
	int fds[4];
} clients[CLIENTS];

static struct {
	uint64_t question, chunk;
} later[LATER];                         /* frees to answer some time */
static unsigned int nlater, nimages;
/* Chunks that it has made. */
static struct {
	uint64_t id, size;
} made[CLIENTS];
static bool slow_free, no_resume;

static void
done(uint64_t id, uint32_t status, const char *message, int fd)
{
	Mps__Control control = MPS__CONTROL__INIT;
	Mps__Done body = MPS__DONE__INIT;

	body.status = status;
	body.message = (char *)message;
	control.id = id;
	control.body_case = MPS__CONTROL__BODY_DONE;
	control.done = &body;
	sock_send_control(CONTROL_FD, &control, &fd, fd >= 0, 1000);
}

static const char *
check_environment(void)
{
	const char *loading = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	const char *wanted = getenv("MPSSHIM_FAKE_VISIBLE");

	if (wanted && (!visible || strcmp(visible, wanted)))
		return "the operator's choice of devices is missing";
	if (getenv("LD_PRELOAD") || (visible && !wanted) || getenv("FOREIGN"))
		return "the environment leaks into the worker";
	if (!loading || strcmp(loading, "32") ||
	    !getenv("CUDA_MPS_PIPE_DIRECTORY"))
		return "the driver's settings are missing";
	return NULL;
}

static void
ready(uint32_t status, const char *message)
{
	uint64_t windows[] = { FAKE_WINDOW, FAKE_WINDOW_SIZE,
			       FAKE_HOST_WINDOW, FAKE_WINDOW_SIZE };
	Mps__WorkerReady body = MPS__WORKER_READY__INIT;
	Mps__Control control = MPS__CONTROL__INIT;
	Mps__Device device = MPS__DEVICE__INIT, *devices[] = { &device };

	device.name = (char *)"fake device";
	device.total_memory = FAKE_TOTAL;
	body.status = status;
	body.message = (char *)message;
	body.driver_version = 13000;
	body.driver = (char *)"/fake/libcuda.so.1";
	body.total = FAKE_TOTAL;
	if (!status) {
		body.devices = devices;
		body.n_devices = 1;
		body.windows = windows;
		body.n_windows = 4;
	}
	control.body_case = MPS__CONTROL__BODY_WORKER_READY;
	control.worker_ready = &body;
	sock_send_control(CONTROL_FD, &control, NULL, 0, 1000);
}

static void
fault(uint64_t client, uint32_t status)
{
	Mps__WorkerFault body = MPS__WORKER_FAULT__INIT;
	Mps__Control control = MPS__CONTROL__INIT;

	body.status = status;
	body.message = (char *)"a made-up fault";
	body.client = client;
	body.suspects = client ? 0 : 2;
	control.body_case = MPS__CONTROL__BODY_WORKER_FAULT;
	control.worker_fault = &body;
	sock_send_control(CONTROL_FD, &control, NULL, 0, 1000);
	_exit(1);
}

static void
forget_made(uint64_t id)
{
	for (int i = 0; i < CLIENTS; i++)
		if (made[i].id == id)
			made[i].id = made[i].size = 0;
}

static bool
answer_frees(void)
{
	bool any = nlater != 0;

	for (unsigned int i = 0; i < nlater; i++) {
		forget_made(later[i].chunk);
		done(later[i].question, 0, "", -1);
	}
	nlater = 0;
	return any;
}

static void
free_chunk(uint64_t question, uint64_t chunk)
{
	if (nlater == LATER)
		answer_frees();
	later[nlater].question = question;
	later[nlater++].chunk = chunk;
	if (!slow_free)
		answer_frees();
}

static struct risk_page *
map_risks(void)
{
	return shmem_size(RISK_FD) == (long)sizeof(struct risk_page) ?
		shmem_map(RISK_FD, sizeof(struct risk_page)) : NULL;
}

static void
begin_load(struct risk_page *page, uint64_t client)
{
	page->now[0].client = client;
	memset(page->now[0].key, FAKE_KEY, RISK_KEY);
	atomic_store(&page->now[0].call, RISK_LOAD);
	atomic_store(&page->now[1].call, RISK_CALLS);
	atomic_store(&page->now[2].call, UINT32_MAX);
}

/* The status of the answer. */
static uint32_t
risk(uint64_t size, uint64_t client)
{
	struct risk_page *page = map_risks();

	if (!page)
		return 999;
	switch (size) {
	case FAKE_CHUNK_PASSES:
		for (unsigned int i = 0; i < RISK_RECORDS; i++)
			atomic_store(&page->records[i].outcome, RISK_PASSED);
		return 0;
	case FAKE_CHUNK_LOADS:
		for (unsigned int i = 0; i < RISK_RECORDS; i++)
			if (page->records[i].key[31] == FAKE_KEY &&
			    atomic_load(&page->records[i].verdict) ==
				    RISK_REFUSED)
				return 200;
		begin_load(page, client);
		raise(SIGKILL);
		return 999;
	default:
		begin_load(page, size == FAKE_CHUNK_BEGINS ? client :
			   UINT64_MAX);
		return 0;
	}
}

static void
remember_made(uint64_t id, uint64_t size)
{
	for (int i = 0; i < CLIENTS; i++) {
		if (made[i].id)
			continue;
		made[i].id = id;
		made[i].size = size;
		return;
	}
}

static void
memory(uint64_t id)
{
	Mps__Control control = MPS__CONTROL__INIT;
	Mps__Done body = MPS__DONE__INIT;

	body.value = FAKE_LEFT;
	for (int i = 0; i < CLIENTS; i++)
		body.value -= made[i].size;
	control.id = id;
	control.body_case = MPS__CONTROL__BODY_DONE;
	control.done = &body;
	sock_send_control(CONTROL_FD, &control, NULL, 0, 1000);
}

static void
say_taken(uint64_t client)
{
	Mps__WorkerTaken body = MPS__WORKER_TAKEN__INIT;
	Mps__Control control = MPS__CONTROL__INIT;

	body.client = client;
	body.bytes = FAKE_TAKEN;
	control.body_case = MPS__CONTROL__BODY_WORKER_TAKEN;
	control.worker_taken = &body;
	sock_send_control(CONTROL_FD, &control, NULL, 0, 1000);
	/* Of nobody: it is read all the same. */
	body.client = UINT64_MAX;
	sock_send_control(CONTROL_FD, &control, NULL, 0, 1000);
}

static void
chunk(const Mps__Control *message, int nfds)
{
	const Mps__WorkerChunk *m = message->worker_chunk;
	uint32_t status;
	int fd;

	if (m->import) {
		done(message->id, nfds == 1 ? 0 : 1, "", -1);
		return;
	}

	switch (m->size) {
	case FAKE_CHUNK_NO_MEMORY:
		done(message->id, 2, "no memory", -1);
		return;
	case FAKE_CHUNK_FAULT:
		fault(m->client, 700);
		return;
	case FAKE_CHUNK_ASSERT:
	case FAKE_CHUNK_ASSERTS:
		dprintf(STDERR_FILENO, "not about it\n");
		for (unsigned int i = 0; i < FAKE_ASSERTIONS; i++)
			dprintf(STDERR_FILENO, FAKE_ASSERTION "\n", i);
		fault(m->size == FAKE_CHUNK_ASSERT ? m->client : 0, 710);
		return;
	case FAKE_CHUNK_CRASH:
		raise(SIGKILL);
		return;
	case FAKE_CHUNK_JUNK:
		sock_write(CONTROL_FD, "this is no frame at all", 23, 1000);
		return;
	case FAKE_CHUNK_NO_FD:
		done(message->id, 0, "", -1);
		return;
	case FAKE_CHUNK_OTHER_ID:
		done(message->id + 1000, 0, "", -1);
		return;
	case FAKE_CHUNK_SILENT:
		return;
	case FAKE_CHUNK_LOADS:
	case FAKE_CHUNK_BEGINS:
	case FAKE_CHUNK_BEGINS_FOR_NOBODY:
	case FAKE_CHUNK_PASSES:
		status = risk(m->size, m->client);
		if (!status)
			break;
		done(message->id, status, "", -1);
		return;
	case FAKE_CHUNK_TAKES:
		say_taken(m->client);
		break;
	case FAKE_CHUNK_FREES:
		if (!answer_frees())
			break;
		done(message->id, 2, "no memory", -1);
		return;
	default:
		break;
	}
	if (m->import) {
		done(message->id, nfds == 1 ? 0 : 1, "", -1);
		return;
	}
	fd = shmem_create("fake-chunk", m->size);
	remember_made(m->chunk, m->size);
	done(message->id, fd < 0 ? 2 : 0, "", fd);
	close(fd);
}

static void
client(const Mps__Control *message, int *fds, int nfds)
{
	for (int i = 0; i < CLIENTS; i++) {
		if (clients[i].client || nfds != 4)
			continue;
		clients[i].client = message->worker_client->client;
		for (int k = 0; k < 4; k++) {
			clients[i].fds[k] = fds[k];
			fds[k] = -1;
		}
		done(message->id, 0, "", -1);
		return;
	}
	done(message->id, 1, "four descriptors, please", -1);
}

static void
gone(const Mps__Control *message)
{
	uint32_t status = 1;

	for (int i = 0; i < CLIENTS; i++) {
		if (clients[i].client != message->worker_client_gone->client)
			continue;
		for (int k = 0; k < 4; k++)
			close(clients[i].fds[k]);
		clients[i].client = 0;
		status = 0;
	}
	done(message->id, status, "", -1);
}

static void
stats(const Mps__Control *message)
{
	Mps__WorkerStatsReply body = MPS__WORKER_STATS_REPLY__INIT;
	Mps__ClientStat stat[CLIENTS], *list[CLIENTS];
	Mps__WorkerStat worker = MPS__WORKER_STAT__INIT;
	Mps__Control control = MPS__CONTROL__INIT;

	answer_frees();
	worker.contexts = 1;
	worker.images = nimages;
	/* Somebody who is no client of ours as well. */
	for (int i = 0; i < CLIENTS; i++) {
		worker.handles += clients[i].client != 0;
		if (i && !clients[i].client)
			continue;
		mps__client_stat__init(&stat[i]);
		stat[i].client = clients[i].client ? clients[i].client : 999999;
		stat[i].modules = 7;
		stat[i].waiting = (char *)"launch";
		list[body.n_clients++] = &stat[i];
	}
	body.clients = list;
	body.worker = &worker;
	control.id = message->id;
	control.body_case = MPS__CONTROL__BODY_WORKER_STATS_REPLY;
	control.worker_stats_reply = &body;
	sock_send_control(CONTROL_FD, &control, NULL, 0, 1000);
}

static void
answer(const Mps__Control *message, int *fds, int nfds)
{
	switch (message->body_case) {
	case MPS__CONTROL__BODY_WORKER_CLIENT:
		client(message, fds, nfds);
		break;
	case MPS__CONTROL__BODY_WORKER_CLIENT_GONE:
		gone(message);
		break;
	case MPS__CONTROL__BODY_WORKER_CHUNK:
		chunk(message, nfds);
		break;
	case MPS__CONTROL__BODY_WORKER_RESUME:
		if (no_resume)
			done(message->id, 719, "it has a journal in German",
			     -1);
		else
			done(message->id, 0, "", -1);
		break;
	case MPS__CONTROL__BODY_WORKER_MAPPING:
	case MPS__CONTROL__BODY_WORKER_ACCESS:
	case MPS__CONTROL__BODY_WORKER_ARRAY:
		done(message->id, 0, "", -1);
		break;
	case MPS__CONTROL__BODY_WORKER_MEMORY:
		memory(message->id);
		break;
	case MPS__CONTROL__BODY_WORKER_CHUNK_FREE:
		free_chunk(message->id, message->worker_chunk_free->chunk);
		break;
	case MPS__CONTROL__BODY_WORKER_HOST_FREE:
		free_chunk(message->id, 0);
		break;
	case MPS__CONTROL__BODY_WORKER_IMAGE:
		nimages++;
		done(message->id, nfds == 1 ? 0 : 1, "", -1);
		break;
	case MPS__CONTROL__BODY_WORKER_IMAGE_FREE:
		nimages--;
		done(message->id, 0, "", -1);
		break;
	case MPS__CONTROL__BODY_WORKER_HOST:
		done(message->id, nfds == 1 ? 0 : 1, "", -1);
		break;
	case MPS__CONTROL__BODY_WORKER_STATS:
		stats(message);
		break;
	default:
		done(message->id, 801, "not understood", -1);
		break;
	}
}

int
fake_worker_main(void)
{
	const char *fake = getenv("MPSSHIM_FAKE");
	const char *wrong = check_environment();

	printf("a line of the worker\n");
	fflush(stdout);
	if (fake && !strcmp(fake, "dies"))
		return 3;
	slow_free = fake && !strcmp(fake, "slowfree");
	no_resume = fake && !strcmp(fake, "noresume");
	if (fake && !strcmp(fake, "nodevice")) {
		ready(100, "no device is there");
		return 1;
	}
	ready(wrong ? 999 : 0, wrong ? wrong : "");
	for (;;) {
		int fds[SOCK_MAX_FDS], nfds = SOCK_MAX_FDS;
		Mps__Control *message;

		if (sock_recv_control(CONTROL_FD, &message, fds, &nfds, -1) < 0)
			return 0;
		answer(message, fds, nfds);
		for (int i = 0; i < nfds; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		mps__control__free_unpacked(message, NULL);
	}
}
