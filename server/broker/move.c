/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/move.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/log.h"
#include "server/broker/client.h"
#include "server/broker/part.h"

void
brk_move_wait(struct brk_client *client, bool redo)
{
	client->redo |= redo;
	brk_client_later(client);
}

bool
brk_move_is_on(const struct brk_client *client)
{
	struct brk_session *session;

	LIST_FOREACH(session, &client->sessions, link)
		if (session->state == SESSION_MOVING ||
		    session->state == SESSION_RESTORING)
			return true;
	return false;
}

bool
brk_move_is_awaited(const struct brk_device *device)
{
	struct brk_client *client;
	struct brk_session *session;

	LIST_FOREACH(client, &device->broker->clients, link)
		LIST_FOREACH(session, &client->sessions, link)
			if (session->device == device &&
			    session->state == SESSION_MOVING &&
			    client->state == CLIENT_LIVE)
				return true;
	return false;
}

/* ---- what it had, to the next worker --------------------------------------*/

static void ask_resume(struct brk_session *session);

/* One question less; behind the last one the worker may go on with it. */
static void
part_done(struct brk_session *session, const struct brk_result *result,
	  const char *what)
{
	session->parts--;
	if (session->state != SESSION_RESTORING)
		return;         /* that worker is lost, too */
	if (result->status && !*session->failed)
		snprintf(session->failed, sizeof(session->failed),
			 "%s: %.100s (%u)", what, result->message,
			 result->status);
	if (!session->parts)
		ask_resume(session);
}

static void
handed(struct brk_request *request, struct brk_result *result)
{
	part_done(brk_of(request, struct brk_session, hand), result,
		  "the next worker does not take it");
}

static void
block_again(struct brk_request *request, struct brk_result *result)
{
	struct brk_block *block = brk_of(request, struct brk_block, request);
	struct brk_client *client = request->client;
	struct brk_session *session;
	struct brk_worker *worker;

	session = brk_session_find(client, block->spec.device);
	worker = session->device->worker;
	if (!result->status && block->open && !block->opened &&
	    session->state == SESSION_RESTORING) {
		block->opened = true;
		brk_vault_ask_access(client, worker, block, block_again);
		return;
	}
	part_done(session, result, "its memory cannot be mapped again");
}

struct image_part {
	struct brk_request request;
	struct brk_image *image;        /* the client keeps it */
	struct brk_session *session;
};

static void
image_again(struct brk_request *request, struct brk_result *result)
{
	struct image_part *part = brk_of(request, struct image_part, request);
	struct brk_session *session = part->session;

	/* What cannot be remembered is given once more, later. */
	if (!result->status && session->state == SESSION_RESTORING)
		brk_image_learned(part->image, session->device->worker);
	free(part);
	part_done(session, result, "its code cannot be mapped again");
}

static void
give_images(struct brk_session *session)
{
	struct brk_worker *worker = session->device->worker;
	struct brk_images *images = &session->client->images;

	for (unsigned int i = 0; i < images->nused; i++) {
		struct image_part *part;

		if (brk_image_known(images->used[i], worker))
			continue;
		part = calloc(1, sizeof(*part));
		if (!part) {
			snprintf(session->failed, sizeof(session->failed),
				 "the broker is out of memory");
			return;
		}
		part->image = images->used[i];
		part->session = session;
		part->request = (struct brk_request){
			.client = session->client, .answered = image_again,
		};
		session->parts++;
		brk_image_give(worker, &part->request, part->image);
	}
}

/* Mappings after all memory that they can be of. */
static void
give_blocks(struct brk_session *session, bool mappings)
{
	struct brk_client *client = session->client;
	struct brk_worker *worker = session->device->worker;
	struct brk_block *block;

	LIST_FOREACH(block, &client->vault.blocks, link) {
		if (block->spec.device != session->device->ordinal ||
		    (block->spec.what == BLOCK_MAPPING) != mappings)
			continue;
		block->generation = worker->generation;
		if (block->state != BLOCK_LIVE)
			continue;       /* offered: the client's turn */
		block->opened = false;
		session->parts++;
		brk_vault_ask_again(client, worker, block, block_again);
	}
}

void
brk_move_restore(struct brk_session *session)
{
	session->state = SESSION_RESTORING;
	*session->failed = 0;
	/* Nothing is answered before all is asked. */
	session->parts = 1;
	brk_session_hand(session, true, handed);
	give_blocks(session, false);
	give_blocks(session, true);
	give_images(session);
}

/* ---- the end of it --------------------------------------------------------*/

static void
go_on(struct brk_client *client)
{
	if (!brk_move_is_on(client))
		brk_client_go_on(client);
}

static void
resumed(struct brk_request *request, struct brk_result *result)
{
	struct brk_session *session = brk_of(request, struct brk_session,
					     hand);
	struct brk_client *client = session->client;

	if (session->state != SESSION_RESTORING) {
		brk_part_over(session);
		return;
	}
	if (result->status && client->state == CLIENT_LIVE &&
	    brk_part_failed(session, result->message)) {
		go_on(client);
		return;
	}
	if (result->status || client->state != CLIENT_LIVE) {
		brk_session_die(session, BRK_LAUNCH_FAILED, result->message);
	} else {
		session->state = SESSION_LIVE;
		session->device->moved_clients++;
		log_line(LOG_INFO, "client %llu (pid %d) goes on in worker %d",
			 (unsigned long long)client->id, (int)client->pid,
			 (int)session->device->worker->pid);
		brk_session_wake(session);
	}
	brk_part_over(session);
	go_on(client);
}

static void
ask_resume(struct brk_session *session)
{
	Mps__WorkerResume body = MPS__WORKER_RESUME__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	/* An ended one: the worker knows, and drops what it was given. */
	if (session->client->state != CLIENT_LIVE)
		return;
	if (*session->failed && brk_part_failed(session, session->failed)) {
		go_on(session->client);
		return;
	}
	if (*session->failed) {
		brk_session_die(session, BRK_LAUNCH_FAILED, session->failed);
		brk_session_forget(session, session->device->worker);
		brk_part_over(session);
		go_on(session->client);
		return;
	}
	brk_part_resume(session);
	body.client = session->client->id;
	message.body_case = MPS__CONTROL__BODY_WORKER_RESUME;
	message.worker_resume = &body;
	session->hand = (struct brk_request){
		.client = session->client, .answered = resumed,
	};
	brk_worker_ask(session->device->worker, &session->hand, &message, NULL,
		       0);
}

void
brk_move_start(struct brk_device *device)
{
	struct brk_client *client;
	struct brk_session *session;

	LIST_FOREACH(client, &device->broker->clients, link)
		LIST_FOREACH(session, &client->sessions, link)
			if (session->device == device &&
			    session->state == SESSION_MOVING &&
			    client->state == CLIENT_LIVE)
				brk_move_restore(session);
}

void
brk_move_fail(struct brk_device *device, uint32_t status, const char *message)
{
	struct brk_client *client;
	struct brk_session *session;

	LIST_FOREACH(client, &device->broker->clients, link) {
		bool any = false;

		LIST_FOREACH(session, &client->sessions, link) {
			if (session->device != device ||
			    session->state != SESSION_MOVING)
				continue;
			brk_session_die(session, status, message);
			any = true;
		}
		if (any)
			go_on(client);
	}
}

/* ---- hand-over: nobody has lost anything ----------------------------------*/

/* What others have begun is given so long to end. */
#define PAUSE_MS 5000

static void
paused(struct brk_request *request, struct brk_result *result)
{
	struct brk_device *device = brk_of(request, struct brk_device, pause);
	struct brk_worker *worker = device->worker;

	device->pausing = false;
	if (result->lost || !worker)
		return;
	if (result->status) {
		log_line(LOG_WARN, "device %d: worker %d is not replaced yet: "
			 "%s", device->ordinal, (int)worker->pid,
			 result->message);
		return;
	}
	worker->replaced = true;
	kill(worker->pid, SIGKILL);
}

static void
replace(struct brk_device *device)
{
	Mps__WorkerPause body = MPS__WORKER_PAUSE__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.patience_ms = PAUSE_MS;
	message.body_case = MPS__CONTROL__BODY_WORKER_PAUSE;
	message.worker_pause = &body;
	device->pausing = true;
	device->pause = (struct brk_request){ .answered = paused };
	brk_worker_ask(device->worker, &device->pause, &message, NULL, 0);
}

/* One that has work on the device. One that has none waits for a quiet moment
 * to be cleaned up, and nobody waits for it. */
static struct brk_client *
find_ended(struct brk_device *device)
{
	struct brk_client *client;
	struct brk_session *session;

	LIST_FOREACH(client, &device->broker->clients, link)
		if (client->state == CLIENT_ENDED)
			LIST_FOREACH(session, &client->sessions, link)
				if (session->device == device &&
				    session->state == SESSION_LIVE &&
				    brk_session_is_busy(session))
					return client;
	return NULL;
}

/* Whom it would cost something that the worker does not know of. */
static const struct brk_client *
find_fragile(struct brk_device *device)
{
	struct brk_client *client;
	struct brk_session *session;

	LIST_FOREACH(client, &device->broker->clients, link)
		LIST_FOREACH(session, &client->sessions, link)
			if (session->device == device &&
			    client->state == CLIENT_LIVE &&
			    brk_vault_has_arrays(client, device->ordinal))
				return client;
	return NULL;
}

void
brk_move_look(struct brk_timer *timer)
{
	struct brk_device *device = brk_of(timer, struct brk_device, handover);
	uint64_t limit = device->broker->handover_ms;
	struct brk_client *ended = find_ended(device);
	const struct brk_client *fragile = find_fragile(device);

	if (!ended)
		return;
	brk_timer_set(&device->broker->loop, timer, limit);
	if (brk_now_ns() - ended->ended_ns < limit * 1000000u ||
	    device->pausing || !device->worker ||
	    device->worker->state != WORKER_READY)
		return;
	if (fragile) {
		log_line(LOG_WARN, "device %d: worker %d is not replaced yet: "
			 "client %llu (pid %d) has arrays", device->ordinal,
			 (int)device->worker->pid,
			 (unsigned long long)fragile->id, (int)fragile->pid);
		return;
	}
	log_line(LOG_WARN, "device %d: client %llu (pid %d) ended %llu s ago "
		 "and its work goes on: worker %d is replaced",
		 device->ordinal, (unsigned long long)ended->id,
		 (int)ended->pid, (unsigned long long)
		 ((brk_now_ns() - ended->ended_ns) / 1000000000u),
		 (int)device->worker->pid);
	replace(device);
}

void
brk_move_watch(struct brk_device *device)
{
	uint64_t limit = device->broker->handover_ms;

	if (limit && !device->handover.due_ns)
		brk_timer_set(&device->broker->loop, &device->handover,
			      limit + 1);
}
