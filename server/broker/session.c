/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/session.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/channel.h"
#include "proto/err.h"
#include "proto/log.h"
#include "proto/shmem.h"
#include "server/broker/client.h"

/* Shared memory and descriptors of one session, charged to the tenant. */
#define SESSION_BYTES ((uint64_t)CHANNEL_SIZE + CHANNEL_STAGING)
#define SESSION_DESCRIPTORS 3

struct brk_session *
brk_session_find(struct brk_client *client, int device)
{
	struct brk_session *session;

	LIST_FOREACH(session, &client->sessions, link)
		if (session->device->ordinal == device)
			return session;
	return NULL;
}

struct brk_worker *
brk_session_worker(struct brk_client *client, int device)
{
	struct brk_session *session = brk_session_find(client, device);
	struct brk_worker *worker;

	if (!session || session->state != SESSION_LIVE)
		return NULL;
	worker = session->device->worker;
	if (!worker || worker->state != WORKER_READY ||
	    worker->generation != session->generation)
		return NULL;
	return worker;
}

void
brk_session_free(struct brk_session *session)
{
	struct brk_tenant *tenant = session->client->tenant;

	LIST_REMOVE(session, link);
	err_closep(&session->data);
	err_closep(&session->channel);
	err_closep(&session->staging);
	brk_discharge(tenant, QUOTA_HOST, SESSION_BYTES);
	brk_discharge(tenant, QUOTA_DESCRIPTORS, SESSION_DESCRIPTORS);
	free(session);
}

static struct brk_session *
session_new(struct brk_client *client, struct brk_device *device)
{
	const struct brk_quotas *quotas = &client->broker->quotas;
	struct brk_tenant *tenant = client->tenant;
	struct brk_session *session;

	if (brk_charge(quotas, tenant, QUOTA_HOST, SESSION_BYTES))
		return NULL;
	if (brk_charge(quotas, tenant, QUOTA_DESCRIPTORS, SESSION_DESCRIPTORS))
		goto out_host;
	session = calloc(1, sizeof(*session));
	if (!session)
		goto out_descriptors;
	*session = (struct brk_session){
		.client = client, .device = device,
		.generation = device->worker->generation,
		.data = -1, .channel = -1, .staging = -1,
		.no_ring = client->no_ring,
	};
	LIST_INSERT_HEAD(&client->sessions, session, link);
	return session;
out_descriptors:
	brk_discharge(tenant, QUOTA_DESCRIPTORS, SESSION_DESCRIPTORS);
out_host:
	brk_discharge(tenant, QUOTA_HOST, SESSION_BYTES);
	return NULL;
}

/* Out: the client's end of the data socket. */
static int
session_open(struct brk_session *session, int *out_data)
{
	int pair[2];

	session->channel = shmem_create("mpsshim-channel", CHANNEL_SIZE);
	if (session->channel < 0)
		return err_trace(session->channel);
	session->staging = shmem_create("mpsshim-staging", CHANNEL_STAGING);
	if (session->staging < 0)
		return err_trace(session->staging);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_origin(-errno);
	session->data = pair[0];
	*out_data = pair[1];
	return 0;
}

void
brk_session_attach(struct brk_client *client, struct brk_device *device)
{
	struct brk_session *session = brk_session_find(client, device->ordinal);
	Mps__AttachReply reply = MPS__ATTACH_REPLY__INIT;
	Mps__Control answer = MPS__CONTROL__INIT;
	_cleanup_close_ int data = -1;
	int fds[3], nfds = 0;

	/* A dead one makes room; client.c refused a living one. */
	if (session)
		brk_session_free(session);
	session = session_new(client, device);
	if (!session) {
		reply.status = BRK_OUT_OF_MEMORY;
		reply.message = (char *)"the limit of shared memory or "
			"descriptors is reached";
	} else if (session_open(session, &data) < 0) {
		brk_session_free(session);
		reply.status = BRK_OUT_OF_MEMORY;
		reply.message = (char *)"cannot make shared memory";
	} else {
		reply.channel_size = CHANNEL_SIZE;
		reply.staging_size = CHANNEL_STAGING;
		reply.generation = session->generation;
		fds[nfds++] = data;
		fds[nfds++] = session->channel;
		fds[nfds++] = session->staging;
	}
	answer.body_case = MPS__CONTROL__BODY_ATTACH_REPLY;
	answer.attach_reply = &reply;
	brk_client_answer(client, &answer, fds, nfds);
}

static void
handed(struct brk_request *request, struct brk_result *result)
{
	struct brk_session *session = brk_of(request, struct brk_session,
					     hand);
	struct brk_client *client = request->client;

	/* A session that died meanwhile stays what it is. */
	if (session->state == SESSION_HANDED) {
		if (result->status)
			brk_session_free(session);
		else
			session->state = SESSION_LIVE;
	}
	brk_client_done(client, result->status, result->message);
}

static void
hand_over(struct brk_session *session)
{
	struct brk_client *client = session->client;
	int fds[] = { session->data, session->channel, session->staging };
	Mps__WorkerClient body = MPS__WORKER_CLIENT__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.client = client->id;
	body.pid = client->pid;
	body.uid = client->uid;
	body.channel_size = CHANNEL_SIZE;
	body.staging_size = CHANNEL_STAGING;
	body.no_ring = session->no_ring;
	message.body_case = MPS__CONTROL__BODY_WORKER_CLIENT;
	message.worker_client = &body;
	session->state = SESSION_HANDED;
	session->hand = (struct brk_request){
		.client = client, .answered = handed,
	};
	brk_client_later(client);
	brk_worker_ask(session->device->worker, &session->hand, &message, fds,
		       3);
}

int
brk_session_ready(struct brk_client *client, uint64_t device, uint32_t status)
{
	struct brk_session *session;

	session = device < BRK_DEVICES ?
		brk_session_find(client, (int)device) : NULL;
	if (session && session->state == SESSION_DEAD) {
		brk_client_done(client, BRK_SYSTEM_NOT_READY,
				"the worker of the device was lost meanwhile");
		return 0;
	}
	if (!session || session->state != SESSION_OFFERED)
		return err_origin(-EPROTO);
	if (status) {
		brk_session_free(session);
		brk_client_done(client, BRK_SUCCESS, "");
		return 0;
	}
	hand_over(session);
	return 0;
}

static void
forgotten(struct brk_request *request, struct brk_result *result)
{
	/* Answered or lost, the worker holds nothing of the client's now;
	 * brk_client_let_go() does the rest. */
	(void)request;
	(void)result;
}

void
brk_session_leave(struct brk_client *client)
{
	Mps__WorkerClientGone body = MPS__WORKER_CLIENT_GONE__INIT;
	Mps__Control message = MPS__CONTROL__INIT;
	struct brk_session *session;

	body.client = client->id;
	message.body_case = MPS__CONTROL__BODY_WORKER_CLIENT_GONE;
	message.worker_client_gone = &body;
	LIST_FOREACH(session, &client->sessions, link) {
		if (session->state != SESSION_HANDED &&
		    session->state != SESSION_LIVE)
			continue;
		session->gone = (struct brk_request){
			.client = client, .answered = forgotten,
		};
		brk_worker_ask(session->device->worker, &session->gone,
			       &message, NULL, 0);
	}
}

/*
 * What the client is told. A worker that ended with a fault has said so
 * itself, to each client its own code: that stays. Otherwise who had work on
 * the device lost it, and who had none only lost his worker. A client that
 * forges its cursors deceives itself only.
 */
static uint32_t
mark_dead(struct channel_page *page, uint32_t status)
{
	uint64_t issued = atomic_load(&page->issued);
	uint32_t was = 0;

	if (!status)
		status = issued != atomic_load(&page->retired) ?
			BRK_LAUNCH_FAILED : BRK_MPS_RPC_FAILURE;
	/* The client reads it before and after every wait. */
	atomic_compare_exchange_strong(&page->dead, &was, status);
	return was ? was : status;
}

/*
 * Everybody in the client who waits for the worker must see that none will
 * answer: the dead word, then a wake-up for each reply slot, then
 * end-of-file on the data socket. True if the client lost work. The memory
 * is shared with the client, but its size is sealed.
 */
static bool
announce(struct brk_session *session, uint32_t status)
{
	uint8_t *map;

	map = mmap(NULL, CHANNEL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
		   session->channel, 0);
	if (map != MAP_FAILED) {
		status = mark_dead((struct channel_page *)map, status);
		for (unsigned int i = 0; i < CHANNEL_SLOTS; i++)
			syscall(SYS_futex, map + CHANNEL_SLOTS_OFFSET +
				i * CHANNEL_SLOT_SIZE, FUTEX_WAKE, INT_MAX,
				NULL, NULL, 0);
		munmap(map, CHANNEL_SIZE);
	}
	shutdown(session->data, SHUT_RDWR);
	return status != BRK_MPS_RPC_FAILURE;
}

void
brk_session_lose(struct brk_client *client, uint64_t generation,
		 uint32_t status)
{
	struct brk_session *session;

	LIST_FOREACH(session, &client->sessions, link) {
		if (session->generation != generation ||
		    session->state == SESSION_DEAD)
			continue;
		session->state = SESSION_DEAD;
		if (announce(session, status))
			session->device->lost_clients++;
	}
}
