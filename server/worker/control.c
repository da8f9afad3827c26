/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's questions. What calls the driver is done on the helper
 * thread, in the order in which it was asked.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/sock.h"
#include "server/worker/client.h"
#include "server/worker/crash.h"
#include "server/worker/lane.h"
#include "server/worker/memory.h"
#include "server/worker/module.h"
#include "server/worker/restore.h"
#include "server/worker/slow.h"
#include "server/worker/taken.h"

#define SEND_TIMEOUT_MS 10000
/* A frame that has begun must end. */
#define RECV_TIMEOUT_MS 10000
/* How often clients see that this process lives. */
#define ALIVE_MS 100
_Static_assert(ALIVE_MS * UINT64_C(1000000) <= WKR_SLOW_NS,
	       "slow.c is to look as often");

struct question {
	struct wkr_job job;
	Mps__Control *m;
	int fds[SOCK_MAX_FDS];
	int nfds;
};

int
wkr_control_send(const Mps__Control *message, const int *fds, int nfds)
{
	int r;

	pthread_mutex_lock(&wkr.control_lock);
	r = sock_send_control(WKR_CONTROL_FD, message, fds, nfds,
			      SEND_TIMEOUT_MS);
	pthread_mutex_unlock(&wkr.control_lock);
	return r;
}

void
wkr_control_done(uint64_t id, CUresult status, const char *message, int fd)
{
	Mps__Control control = MPS__CONTROL__INIT;
	Mps__Done done = MPS__DONE__INIT;

	done.status = (uint32_t)status;
	done.message = (char *)message;
	control.id = id;
	control.body_case = MPS__CONTROL__BODY_DONE;
	control.done = &done;
	wkr_control_send(&control, &fd, fd >= 0 ? 1 : 0);
}

static void
do_memory(struct question *q)
{
	Mps__Control control = MPS__CONTROL__INIT;
	Mps__Done done = MPS__DONE__INIT;

	done.status = (uint32_t)wkr_memory_left(&done.value);
	control.id = q->m->id;
	control.body_case = MPS__CONTROL__BODY_DONE;
	control.done = &done;
	wkr_control_send(&control, NULL, 0);
}

static int
take_fd(struct question *q, int i)
{
	return i < q->nfds ? steal_fd(&q->fds[i]) : -1;
}

/* The client for which the broker asks. */
static struct wkr_client *
who_asks(uint64_t id, const char *what)
{
	struct wkr_client *client = wkr_client_find(id);

	wkr_at_call(client, what);
	return client;
}

static void
do_client(struct question *q)
{
	int fds[WKR_CLIENT_FDS];
	const char *why = "";
	uint64_t id;
	CUresult r;

	for (int i = 0; i < WKR_CLIENT_FDS; i++)
		fds[i] = take_fd(q, i);
	/* Without a journal it is served and never moved. */
	if (fds[2] < 0 || wkr_client_find(q->m->worker_client->client)) {
		for (int i = 0; i < WKR_CLIENT_FDS; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		wkr_control_done(q->m->id, CUDA_ERROR_INVALID_VALUE,
				 "a client comes with its descriptors, once",
				 -1);
		return;
	}
	id = q->m->worker_client->client;
	r = wkr_client_create(q->m->worker_client, fds, &why);
	/* Before the answer: nothing that it asks for is in between. */
	if (r == CUDA_SUCCESS && wkr.solo)
		wkr_taken_say(wkr_client_find(id));
	wkr_control_done(q->m->id, r, r == CUDA_SUCCESS ? "" : why, -1);
}

static void
do_resume(struct question *q)
{
	struct wkr_client *client =
		wkr_client_find(q->m->worker_resume->client);

	if (client)
		wkr_restore_go(client, q->m->id);
	else
		wkr_control_done(q->m->id, CUDA_ERROR_INVALID_VALUE,
				 "no such client", -1);
}

static void
do_chunk(struct question *q)
{
	const Mps__WorkerChunk *m = q->m->worker_chunk;
	struct wkr_client *client = who_asks(m->client, "memory");
	_cleanup_close_ int fd = m->import ? take_fd(q, 0) : -1;
	const char *why = "no such client";
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (client && m->import && fd < 0)
		why = "an import without a descriptor";
	else if (client && m->unmapped)
		r = wkr_memory_add(client, m, &fd, &why);
	else if (client)
		r = wkr_chunk_add(client, m, &fd, &why);
	wkr_control_done(q->m->id, r, r == CUDA_SUCCESS ? "" : why,
			 r == CUDA_SUCCESS && !m->import ? fd : -1);
}

static void
answer(struct question *q, CUresult r, const char *why)
{
	wkr_control_done(q->m->id, r, r == CUDA_SUCCESS ? "" : why, -1);
}

static void
do_mapping(struct question *q)
{
	const Mps__WorkerMapping *m = q->m->worker_mapping;
	struct wkr_client *client = who_asks(m->client, "a mapping");
	const char *why = "no such client";
	CUresult r = client ? wkr_mapping_add(client, m, &why) :
			      CUDA_ERROR_INVALID_VALUE;

	answer(q, r, why);
}

static void
do_access(struct question *q)
{
	const Mps__WorkerAccess *m = q->m->worker_access;
	struct wkr_client *client = who_asks(m->client, "access to memory");
	const char *why = "no such client";
	CUresult r = client ? wkr_mapping_open(client, m->mapping, &why) :
			      CUDA_ERROR_INVALID_VALUE;

	answer(q, r, why);
}

static void
do_array(struct question *q)
{
	const Mps__WorkerArray *m = q->m->worker_array;
	struct wkr_client *client = who_asks(m->client, "an array");
	const char *why = "no such client";
	CUresult r = client && m->shape ? wkr_array_add(client, m, &why) :
					  CUDA_ERROR_INVALID_VALUE;

	answer(q, r, why);
}

static void
do_host(struct question *q)
{
	const Mps__WorkerHost *m = q->m->worker_host;
	struct wkr_client *client = who_asks(m->client, "pinned memory");
	_cleanup_close_ int fd = take_fd(q, 0);
	const char *why = "no such client";
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (client)
		r = wkr_host_add(client, m, fd, &why);
	wkr_control_done(q->m->id, r, r == CUDA_SUCCESS ? "" : why, -1);
}

/* What a WorkerChunkFree means. */
static struct wkr_range *
find_device(struct wkr_client *client, uint64_t id)
{
	struct wkr_range *range;

	range = wkr_ranges_find(&client->ranges, WKR_CHUNK, id);
	if (!range)
		range = wkr_ranges_find(&client->ranges, WKR_MAPPING, id);
	return range ? range : wkr_unplaced_find(client, id);
}

static void
do_free(struct question *q, uint64_t client_id, enum wkr_range_kind kind,
	uint64_t id)
{
	struct wkr_client *client = wkr_client_find(client_id);
	struct wkr_note *note = calloc(1, sizeof(*note));
	struct wkr_range *range = NULL;

	/* One that no lane serves yet has nothing on the device. */
	if (client && note && client->lane) {
		pthread_mutex_lock(&client->lock);
		range = kind == WKR_CHUNK ? find_device(client, id) :
			wkr_ranges_find(&client->ranges, kind, id);
		if (range && range->leaving)
			range = NULL;
		if (range)
			range->leaving = true;
		pthread_mutex_unlock(&client->lock);
	}
	if (!range) {
		free(note);
		wkr_control_done(q->m->id, CUDA_ERROR_INVALID_VALUE,
				 "no such memory", -1);
		return;
	}
	note->kind = WKR_NOTE_FREE;
	note->client = client;
	note->range = range;
	note->control_id = q->m->id;
	wkr_lane_note(client->lane, note);
}

static void
do_gone(struct question *q)
{
	struct wkr_client *client =
		wkr_client_find(q->m->worker_client_gone->client);

	if (client)
		wkr_client_gone(client, q->m->id);
	else
		wkr_control_done(q->m->id, CUDA_ERROR_INVALID_VALUE,
				 "no such client", -1);
}

static void
do_part(struct question *q)
{
	const Mps__WorkerPart *m = q->m->worker_part;
	struct wkr_client *client = wkr_client_find(m->client);

	if (client)
		wkr_part(client, m->patience_ms, q->m->id);
	else
		answer(q, CUDA_ERROR_INVALID_VALUE, "no such client");
}

static void
do_stay(struct question *q)
{
	struct wkr_client *client =
		wkr_client_find(q->m->worker_stay->client);

	/* The other one has said something else meanwhile. */
	if (client) {
		wkr_stay(client);
		wkr_taken_say(client);
	}
	answer(q, client ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
	       "no such client");
}

static void
do_image(struct question *q)
{
	const Mps__WorkerImage *m = q->m->worker_image;
	_cleanup_close_ int fd = take_fd(q, 0);
	const char *why = "";
	CUresult r;

	r = wkr_image_add(m->hash.data, m->hash.len, m->size, fd, &why);
	wkr_control_done(q->m->id, r, r == CUDA_SUCCESS ? "" : why, -1);
}

static void
do_image_free(struct question *q)
{
	const Mps__WorkerImageFree *m = q->m->worker_image_free;
	const char *why = "";
	CUresult r = wkr_image_drop(m->hash.data, m->hash.len, &why);

	if (r == CUDA_SUCCESS)
		wkr_code_orphan(m->hash.data);
	answer(q, r, why);
}

static void
do_question(struct question *q)
{
	switch (q->m->body_case) {
	case MPS__CONTROL__BODY_WORKER_CLIENT:
		do_client(q);
		return;
	case MPS__CONTROL__BODY_WORKER_CLIENT_GONE:
		do_gone(q);
		return;
	case MPS__CONTROL__BODY_WORKER_RESUME:
		do_resume(q);
		return;
	case MPS__CONTROL__BODY_WORKER_PAUSE:
		wkr_pause(q->m->worker_pause->patience_ms, q->m->id);
		return;
	case MPS__CONTROL__BODY_WORKER_MEMORY:
		do_memory(q);
		return;
	case MPS__CONTROL__BODY_WORKER_PART:
		do_part(q);
		return;
	case MPS__CONTROL__BODY_WORKER_STAY:
		do_stay(q);
		return;
	case MPS__CONTROL__BODY_WORKER_CHUNK:
		do_chunk(q);
		return;
	case MPS__CONTROL__BODY_WORKER_CHUNK_FREE:
		do_free(q, q->m->worker_chunk_free->client, WKR_CHUNK,
			q->m->worker_chunk_free->chunk);
		return;
	case MPS__CONTROL__BODY_WORKER_MAPPING:
		do_mapping(q);
		return;
	case MPS__CONTROL__BODY_WORKER_ACCESS:
		do_access(q);
		return;
	case MPS__CONTROL__BODY_WORKER_ARRAY:
		do_array(q);
		return;
	case MPS__CONTROL__BODY_WORKER_HOST:
		do_host(q);
		return;
	case MPS__CONTROL__BODY_WORKER_HOST_FREE:
		do_free(q, q->m->worker_host_free->client, WKR_HOST,
			q->m->worker_host_free->id);
		return;
	case MPS__CONTROL__BODY_WORKER_IMAGE:
		do_image(q);
		return;
	case MPS__CONTROL__BODY_WORKER_IMAGE_FREE:
		do_image_free(q);
		return;
	case MPS__CONTROL__BODY_WORKER_STATS:
		wkr_stats_send(q->m->id);
		return;
	default:
		wkr_control_done(q->m->id, CUDA_ERROR_NOT_SUPPORTED,
				 "no question for a worker", -1);
		return;
	}
}

static enum wkr_job_result
question_job(struct wkr_job *job)
{
	struct question *q = (struct question *)job;

	do_question(q);
	for (int i = 0; i < q->nfds; i++)
		if (q->fds[i] >= 0)
			close(q->fds[i]);
	mps__control__free_unpacked(q->m, NULL);
	free(q);
	return WKR_JOB_DONE;
}

static void
show_life(void)
{
	pthread_mutex_lock(&wkr.clients_lock);
	for (struct wkr_client *c = wkr.clients; c; c = c->next)
		atomic_fetch_add_explicit(&c->channel.page->alive, 1,
					  memory_order_relaxed);
	pthread_mutex_unlock(&wkr.clients_lock);
}

static bool
has_clients(void)
{
	bool any;

	pthread_mutex_lock(&wkr.clients_lock);
	any = wkr.clients != NULL;
	pthread_mutex_unlock(&wkr.clients_lock);
	return any;
}

static int
receive(void)
{
	struct question *q = calloc(1, sizeof(*q));
	int r;

	if (!q)
		return err_origin(-ENOMEM);
	q->job.run = question_job;
	q->nfds = SOCK_MAX_FDS;
	r = sock_recv_control(WKR_CONTROL_FD, &q->m, q->fds, &q->nfds,
			      RECV_TIMEOUT_MS);
	if (r < 0) {
		free(q);
		return r;
	}
	wkr_queue_add(&wkr.helper, &q->job);
	return 0;
}

int
wkr_control_run(void)
{
	for (;;) {
		struct pollfd p = {.fd = WKR_CONTROL_FD, .events = POLLIN};
		int n = poll(&p, 1, has_clients() ? ALIVE_MS : -1);
		int r;

		if (n < 0 && errno != EINTR)
			return err_origin(-errno);
		show_life();
		wkr_slow_look();
		if (n <= 0)
			continue;
		r = receive();
		if (r < 0)
			return r == -EPIPE ? 0 : err_trace(r);
	}
}
