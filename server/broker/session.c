/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/session.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
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
#include "server/broker/move.h"
#include "server/broker/part.h"

/* Shared memory and descriptors of one session, charged to the tenant. */
#define SESSION_BYTES ((uint64_t)CHANNEL_SIZE + CHANNEL_STAGING_SIZE)
#define SESSION_DESCRIPTORS 4

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

static void
set_taken(struct brk_session *session, uint64_t bytes)
{
	struct brk_client *client = session->client;
	uint64_t limit = brk_tenant_limit(&client->broker->quotas,
					  client->tenant, QUOTA_DEVICE);
	uint64_t used = client->tenant->used[QUOTA_DEVICE] - session->taken;

	/* A worker that lies may not make the sum wrap. */
	if (bytes > UINT64_MAX - used)
		bytes = UINT64_MAX - used;
	brk_discharge(client->tenant, QUOTA_DEVICE, session->taken);
	brk_charge_anyway(client->tenant, QUOTA_DEVICE, bytes);
	session->taken = bytes;
	if (bytes && used + bytes > limit)
		log_line(LOG_WARN, "client %llu (pid %d) gets no more device "
			 "memory: the driver has %llu MiB for it, and with "
			 "its own that is more than the limit of %llu MiB",
			 (unsigned long long)client->id, (int)client->pid,
			 (unsigned long long)(bytes >> 20),
			 (unsigned long long)(limit >> 20));
}

void
brk_session_taken(struct brk_worker *worker, const Mps__WorkerTaken *message)
{
	struct brk_broker *broker = worker->broker;
	struct brk_session *session;
	struct brk_client *client;

	LIST_FOREACH(client, &broker->clients, link) {
		if (client->id != message->client)
			continue;
		session = brk_session_find(client, worker->device->ordinal);
		/* Not of one that it had before, or has lost. */
		if (session && session->device == worker->device &&
		    session->generation == worker->generation &&
		    session->state != SESSION_DEAD)
			set_taken(session, message->bytes);
		return;
	}
}

void
brk_session_free(struct brk_session *session)
{
	struct brk_tenant *tenant = session->client->tenant;

	set_taken(session, 0);
	LIST_REMOVE(session, link);
	err_closep(&session->data);
	err_closep(&session->channel);
	err_closep(&session->staging);
	err_closep(&session->journal);
	free(session->left);
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
		.data = -1, .channel = -1, .staging = -1, .journal = -1,
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
	session->staging = shmem_create("mpsshim-staging",
					CHANNEL_STAGING_SIZE);
	if (session->staging < 0)
		return err_trace(session->staging);
	/* The workers' alone, who may make it as long as they like. */
	session->journal = shmem_file("mpsshim-journal");
	if (session->journal < 0)
		return err_trace(session->journal);
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
		reply.staging_size = CHANNEL_STAGING_SIZE;
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

	/* A session that died or moves meanwhile stays what it is. */
	if (session->state == SESSION_HANDED && !result->lost) {
		if (result->status)
			brk_session_free(session);
		else
			session->state = SESSION_LIVE;
	}
	brk_client_done(client, result->status, result->message);
}

void
brk_session_hand(struct brk_session *session, bool resume,
		 void (*answered)(struct brk_request *request,
				  struct brk_result *result))
{
	struct brk_client *client = session->client;
	int fds[] = { session->data, session->channel, session->staging,
		      session->journal };
	Mps__WorkerClient body = MPS__WORKER_CLIENT__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.client = client->id;
	body.pid = client->pid;
	body.uid = client->uid;
	body.channel_size = CHANNEL_SIZE;
	body.staging_size = CHANNEL_STAGING_SIZE;
	body.no_ring = session->no_ring;
	body.resume = resume;
	body.device_limit = brk_tenant_limit(&client->broker->quotas,
					     client->tenant, QUOTA_DEVICE);
	message.body_case = MPS__CONTROL__BODY_WORKER_CLIENT;
	message.worker_client = &body;
	session->generation = session->device->worker->generation;
	session->hand = (struct brk_request){
		.client = client, .answered = answered,
	};
	brk_worker_ask(session->device->worker, &session->hand, &message, fds,
		       4);
}

static void
hand_over(struct brk_session *session)
{
	struct brk_client *client = session->client;
	struct brk_worker *worker = session->device->worker;

	/* The one that it was offered with has gone since. */
	if (!worker || worker->state != WORKER_READY) {
		session->state = SESSION_MOVING;
		brk_move_wait(client, true);
		brk_device_want(session->device);
		return;
	}
	session->state = SESSION_HANDED;
	brk_client_later(client);
	brk_session_hand(session, false, handed);
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
	/* Another worker has been given it meanwhile. */
	if (session && session->state == SESSION_LIVE && client->redone) {
		brk_client_done(client, BRK_SUCCESS, "");
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
brk_session_ask_gone(struct brk_worker *worker, struct brk_request *request)
{
	Mps__WorkerClientGone body = MPS__WORKER_CLIENT_GONE__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.client = request->client->id;
	message.body_case = MPS__CONTROL__BODY_WORKER_CLIENT_GONE;
	message.worker_client_gone = &body;
	brk_worker_ask(worker, request, &message, NULL, 0);
}

void
brk_session_forget(struct brk_session *session, struct brk_worker *worker)
{
	session->gone = (struct brk_request){
		.client = session->client, .answered = forgotten,
	};
	brk_session_ask_gone(worker, &session->gone);
}

void
brk_session_leave(struct brk_client *client)
{
	struct brk_session *session;

	LIST_FOREACH(session, &client->sessions, link) {
		struct brk_device *device = session->from ? session->from :
							    session->device;

		/* A worker of its own ends. */
		if (!device->solo && (session->state == SESSION_HANDED ||
				      session->state == SESSION_LIVE ||
				      session->state == SESSION_RESTORING)) {
			brk_session_forget(session, device->worker);
			brk_move_watch(device);
		}
	}
}

/* ---- the worker's end ----------------------------------------------------*/

static struct channel_page *
map_page(const struct brk_session *session)
{
	void *map = mmap(NULL, CHANNEL_SIZE, PROT_READ | PROT_WRITE,
			 MAP_SHARED, session->channel, 0);

	return map == MAP_FAILED ? NULL : map;
}

/* Whoever waits for a reply looks again. */
static void
wake_slots(struct channel_page *page)
{
	uint8_t *slots = (uint8_t *)page + CHANNEL_SLOTS_OFFSET;

	for (unsigned int i = 0; i < CHANNEL_SLOTS; i++)
		syscall(SYS_futex, slots + i * CHANNEL_SLOT_SIZE, FUTEX_WAKE,
			INT_MAX, NULL, NULL, 0);
}

/*
 * Everybody in the client who waits for the worker must see that none will
 * answer: the dead word, then a wake-up for each reply slot, then
 * end-of-file on the data socket. What the worker itself has said stays. The
 * memory is shared with the client, but its size is sealed.
 */
uint32_t
brk_session_tell(struct brk_session *session, uint32_t status, const char *why)
{
	struct channel_page *page = map_page(session);
	struct brk_client *client = session->client;
	uint32_t was = 0;

	if (page) {
		if (!atomic_load(&page->dead))
			snprintf(page->why, sizeof(page->why), "%s", why);
		/* The client reads it before and after every wait. */
		if (!atomic_compare_exchange_strong(&page->dead, &was, status))
			status = was;
		wake_slots(page);
		munmap(page, CHANNEL_SIZE);
	}
	shutdown(session->data, SHUT_RDWR);
	if (client->state != CLIENT_ENDED)
		log_line(LOG_WARN, "client %llu (pid %d, %s) gets error %u: %s",
			 (unsigned long long)client->id, (int)client->pid,
			 client->exe, status, why);
	return status;
}

void
brk_session_die(struct brk_session *session, uint32_t status, const char *why)
{
	session->state = SESSION_DEAD;
	session->death = brk_session_tell(session, status, why);
	if (session->death != BRK_MPS_RPC_FAILURE &&
	    session->death != BRK_MPS_CLIENT_TERMINATED)
		session->device->lost_clients++;
}

void
brk_session_wake(struct brk_session *session)
{
	struct channel_page *page = map_page(session);

	if (!page)
		return;
	wake_slots(page);
	munmap(page, CHANNEL_SIZE);
}

bool
brk_session_is_busy(const struct brk_session *session)
{
	struct channel_page *page = map_page(session);
	bool busy;

	if (!page)
		return false;
	busy = atomic_load(&page->retired) < atomic_load(&page->issued);
	munmap(page, CHANNEL_SIZE);
	return busy;
}

/*
 * What of the client cannot go on in another worker; 0: nothing. A client
 * that forges its cursors deceives itself only.
 */
static uint32_t
judge(struct brk_session *session, const struct brk_loss *loss,
      const char **out_why)
{
	struct channel_page *page = map_page(session);
	uint64_t done = 0, kept = 1, issued = 1;
	uint32_t dead = 0;

	*out_why = "the broker is out of memory";
	if (!page)
		return BRK_LAUNCH_FAILED;
	dead = atomic_load(&page->dead);
	kept = atomic_load(&page->kept);
	done = atomic_load(&page->done);
	issued = atomic_load(&page->issued);
	munmap(page, CHANNEL_SIZE);
	*out_why = loss->fault ? "a kernel of this program has faulted" :
				 "the driver died in a call of this program";
	if (dead)
		return dead;
	/* Not moved: made again, the call would end the next worker. */
	if (loss->culprit && loss->culprit == session->client->id)
		return loss->fault ? loss->fault : BRK_LAUNCH_FAILED;
	*out_why = "the broker ends it";
	if (loss->status)
		return loss->status;
	*out_why = loss->fault ? "it had work on the device when a kernel "
				 "faulted" :
				 "it had work on the device when the worker "
				 "ended";
	if (kept > done)
		return BRK_LAUNCH_FAILED;
	*out_why = "over a socket (MPSSHIM_PERF=no_ring) it cannot be moved to "
		   "another worker";
	if (session->no_ring)
		return issued > done ? BRK_LAUNCH_FAILED : BRK_MPS_RPC_FAILURE;
	*out_why = "it has arrays, whose content is lost";
	return brk_vault_has_arrays(session->client,
				    session->device->ordinal) ?
		BRK_LAUNCH_FAILED : 0;
}

/* To whoever it may be about, before it hears that it has lost. */
static void
give_text(struct brk_session *session, const struct brk_loss *loss)
{
	struct channel_page *page = loss->text ? map_page(session) : NULL;
	uint64_t begun;
	bool may_be;

	if (!page)
		return;
	begun = session->no_ring ? atomic_load(&page->issued) :
				   atomic_load(&page->kept);
	may_be = loss->culprit ? loss->culprit == session->client->id :
				 begun > atomic_load(&page->done);
	if (may_be)
		snprintf(page->text, sizeof(page->text), "%s", loss->text);
	munmap(page, CHANNEL_SIZE);
}

void
brk_session_lose(struct brk_client *client, const struct brk_loss *loss)
{
	struct brk_session *session;
	const char *why;
	uint32_t status;

	LIST_FOREACH(session, &client->sessions, link) {
		if (brk_part_lose(session, loss->generation) ||
		    session->generation != loss->generation ||
		    session->state == SESSION_DEAD ||
		    session->state == SESSION_MOVING ||
		    (session->state == SESSION_OFFERED && !loss->status))
			continue;
		set_taken(session, 0);
		status = judge(session, loss, &why);
		if (status || client->state != CLIENT_LIVE) {
			give_text(session, loss);
			brk_session_die(session, status ? status :
					BRK_MPS_RPC_FAILURE, why);
			continue;
		}
		session->state = SESSION_MOVING;
		brk_move_wait(client, false);
	}
}

uint32_t
brk_session_error(struct brk_client *client, int device)
{
	struct brk_session *session = brk_session_find(client, device);

	return session && session->state == SESSION_DEAD ? session->death :
							   BRK_INVALID_CONTEXT;
}
