/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/part.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/log.h"
#include "server/broker/client.h"
#include "server/broker/move.h"

/* What the client has begun is given so long to end. */
#define PART_MS 30000
#define IN_VAIN BRK_NOT_SUPPORTED

/* The question's answer; whoever is between two workers asks again. */
static void
answer(struct brk_client *client, uint32_t status, const char *why)
{
	client->parting = false;
	if (status)
		log_line(LOG_WARN, "client %llu (pid %d) gets no worker of its "
			 "own: %s", (unsigned long long)client->id,
			 (int)client->pid, why);
	brk_client_done(client, status, why);
}

/* The worker that was started for it is not needed. */
static void
dismiss(struct brk_device *device)
{
	if (!device->worker)
		return;
	device->worker->replaced = true;
	brk_worker_stop(device->worker);
}

/* What can be told without asking a worker; NULL: nothing. */
static const char *
why_not(struct brk_session *session)
{
	if (session->no_ring)
		return "over a socket (MPSSHIM_PERF=no_ring) it cannot be "
		       "moved to another worker";
	if (brk_vault_has_arrays(session->client, session->device->ordinal))
		return "it has arrays, whose content would be lost";
	return NULL;
}

/* ---- the old worker -------------------------------------------------------*/

static void
stayed(struct brk_request *request, struct brk_result *result)
{
	(void)request;
	(void)result;
}

static void
ask_stay(struct brk_session *session)
{
	Mps__WorkerStay body = MPS__WORKER_STAY__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.client = session->client->id;
	message.body_case = MPS__CONTROL__BODY_WORKER_STAY;
	message.worker_stay = &body;
	session->stay = (struct brk_request){
		.client = session->client, .answered = stayed,
	};
	brk_worker_ask(session->device->worker, &session->stay, &message, NULL,
		       0);
}

static void
parted(struct brk_request *request, struct brk_result *result)
{
	struct brk_session *session = brk_of(request, struct brk_session,
					     hand);
	struct brk_client *client = session->client;
	struct brk_device *own;

	if (client->state != CLIENT_LIVE || !client->parting)
		return;
	/* It is there: it was waited for. */
	own = brk_device_solo(client, session->device->ordinal);
	if (result->lost) {
		/* It has died with its worker, or asks once more. */
		dismiss(own);
		answer(client, session->state == SESSION_DEAD ?
		       session->death : IN_VAIN, result->message);
		return;
	}
	if (!session->left)
		session->left = calloc(1, sizeof(*session->left));
	if (!result->status && (!session->left || !own->worker ||
				own->worker->state != WORKER_READY)) {
		ask_stay(session);
		answer(client, IN_VAIN, session->left ?
		       "the new worker has ended" :
		       "the broker is out of memory");
		return;
	}
	if (result->status) {
		dismiss(own);
		answer(client, IN_VAIN, result->message);
		return;
	}
	session->from = session->device;
	session->from_generation = session->generation;
	session->device = own;
	brk_move_restore(session);
}

static void
ask_part(struct brk_session *session)
{
	Mps__WorkerPart body = MPS__WORKER_PART__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.client = session->client->id;
	body.patience_ms = PART_MS;
	message.body_case = MPS__CONTROL__BODY_WORKER_PART;
	message.worker_part = &body;
	session->hand = (struct brk_request){
		.client = session->client, .answered = parted,
	};
	brk_worker_ask(session->device->worker, &session->hand, &message, NULL,
		       0);
}

/* ---- the question ---------------------------------------------------------*/

static void
own_ready(struct brk_wait *wait, struct brk_device *own, uint32_t status,
	  const char *message)
{
	struct brk_client *client = brk_of(wait, struct brk_client, wait);
	struct brk_session *session = brk_session_find(client, own->ordinal);
	const char *why = NULL;

	if (session->state == SESSION_MOVING ||
	    session->state == SESSION_RESTORING) {
		/* A neighbour's fault: afterwards it is asked again. */
		client->parting = false;
		brk_move_wait(client, true);
		return;
	}
	if (session->state != SESSION_LIVE) {
		answer(client, brk_session_error(client, own->ordinal), "");
		return;
	}
	if (status)
		why = message;
	else if (!brk_addr_fits(client, own->worker))
		why = "its addresses are taken in the new worker";
	else
		why = why_not(session);
	if (!why) {
		ask_part(session);
		return;
	}
	dismiss(own);
	answer(client, IN_VAIN, why);
}

static bool
has_dying(const struct brk_client *client)
{
	const struct brk_block *block;

	LIST_FOREACH(block, &client->vault.blocks, link)
		if (block->state == BLOCK_DYING)
			return true;
	return false;
}

/* What it has freed may be used by frames that are not begun: the new worker
 * would lack it. */
static void
try(struct brk_client *client)
{
	struct brk_device *own;
	char why[BRK_SOLO_WHY];

	client->part_waits = has_dying(client);
	if (client->part_waits)
		return;
	if (brk_device_solo_is_full(client, client->part_device, why)) {
		answer(client, IN_VAIN, why);
		return;
	}
	own = brk_device_solo(client, client->part_device);
	if (!own) {
		answer(client, BRK_OUT_OF_MEMORY, "the broker is out of memory");
		return;
	}
	client->wait.ready = own_ready;
	brk_device_wait(own, &client->wait);
}

void
brk_part_block_gone(struct brk_client *client)
{
	if (client->part_waits && client->state == CLIENT_LIVE)
		try(client);
}

int
brk_part_ask(struct brk_client *client, const Mps__Solo *message)
{
	struct brk_session *session = brk_session_find(client, message->device);
	const char *why;

	if (!session || session->state != SESSION_LIVE) {
		brk_client_done(client, brk_session_error(client,
							  message->device),
				"");
		return 0;
	}
	if (session->device->solo) {
		brk_client_done(client, BRK_SUCCESS, "");
		return 0;
	}
	why = why_not(session);
	if (why) {
		answer(client, IN_VAIN, why);
		return 0;
	}
	brk_client_text(client->part_why, sizeof(client->part_why),
			message->why);
	client->parting = true;
	client->part_device = message->device;
	brk_client_later(client);
	try(client);
	return 0;
}

/* ---- the new worker -------------------------------------------------------*/

/* From here on there is no way back. */
void
brk_part_resume(struct brk_session *session)
{
	if (session->from)
		session->resuming = true;
}

static void
set_generation(struct brk_session *session)
{
	struct brk_block *block;

	session->generation = session->from_generation;
	LIST_FOREACH(block, &session->client->vault.blocks, link)
		if (block->spec.device == session->device->ordinal)
			block->generation = session->generation;
}

bool
brk_part_failed(struct brk_session *session, const char *why)
{
	struct brk_device *own = session->device;
	char line[sizeof(session->failed)];

	if (!session->from)
		return false;
	session->resuming = false;
	session->device = session->from;
	session->from = NULL;
	session->state = SESSION_LIVE;
	set_generation(session);
	ask_stay(session);
	/* The text may be the new worker's. */
	snprintf(line, sizeof(line), "%s", why);
	dismiss(own);
	answer(session->client, IN_VAIN, line);
	return true;
}

static void
old_has_let_go(struct brk_request *request, struct brk_result *result)
{
	(void)result;
	request->client->lingers--;
	free(request);
}

/* The old worker forgets it, if it is still there. */
static void
leave_old(struct brk_session *session)
{
	struct brk_device *from = session->from;
	struct brk_request *left = session->left;

	session->from = NULL;
	session->resuming = false;
	if (!from)
		return;
	session->left = NULL;
	*left = (struct brk_request){
		.client = session->client, .answered = old_has_let_go,
	};
	session->client->lingers++;
	brk_session_ask_gone(from->worker, left);
}

void
brk_part_over(struct brk_session *session)
{
	struct brk_client *client = session->client;

	if (!client->parting)
		return;
	leave_old(session);
	if (session->state == SESSION_LIVE) {
		snprintf(client->solo, sizeof(client->solo), "%s",
			 client->part_why);
		answer(client, BRK_SUCCESS, "");
	} else {
		answer(client, session->state == SESSION_DEAD ?
		       session->death : IN_VAIN, "its new worker has ended");
	}
}

bool
brk_part_lose(struct brk_session *session, uint64_t generation)
{
	if (!session->from)
		return false;
	if (session->from_generation == generation) {
		/* It had nothing of the client's under way. */
		session->from = NULL;
		return true;
	}
	if (session->generation != generation)
		return false;
	if (!session->resuming)
		return true;    /* what it was asked fails, and says so */
	/* It may have begun something. */
	leave_old(session);
	return false;
}
