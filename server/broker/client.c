/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/settings.h"
#include "server/broker/asker.h"
#include "server/broker/move.h"
#include "server/broker/part.h"
#include "server/broker/status.h"

/* Answers are small and there is one at a time. */
#define CLIENT_QUEUE (256u * 1024u)
/* A connection that says nothing, or does not close when told. */
#define PATIENCE_MS 10000
/* Of its own settings that the broker tells; what is longer is not told. */
#define SETTINGS_TOLD 32u
#define SETTING_MAX 256u

/* ---- answers ------------------------------------------------------------*/

void
brk_client_answer(struct brk_client *client, Mps__Control *answer,
		  const int *fds, int nfds)
{
	if (client->state == CLIENT_ENDED)
		return;
	/* Once: a question may be what ends the workers. */
	if (client->redoes && !client->redone) {
		client->redo = true;
		return;
	}
	answer->id = client->question;
	brk_conn_send(&client->conn, answer, fds, nfds);
	if (client->conn.paused && !brk_move_is_on(client))
		brk_conn_resume(&client->conn);
}

void
brk_client_done(struct brk_client *client, uint32_t status,
		const char *message)
{
	Mps__Done body = MPS__DONE__INIT;
	Mps__Control answer = MPS__CONTROL__INIT;

	body.status = status;
	body.message = (char *)message;
	answer.body_case = MPS__CONTROL__BODY_DONE;
	answer.done = &body;
	brk_client_answer(client, &answer, NULL, 0);
}

void
brk_client_later(struct brk_client *client)
{
	if (client->state != CLIENT_ENDED)
		brk_conn_pause(&client->conn);
}

/* ---- hello --------------------------------------------------------------*/

/* What the broker was started with: whoever sets something else now must be
 * told that it comes too late. */
static size_t
own_settings(bool software, char *out[SETTINGS_TOLD])
{
	size_t n = 0;

	for (char **e = environ; *e && n < SETTINGS_TOLD; e++)
		if (strlen(*e) < SETTING_MAX && settings_of_start(*e, software))
			out[n++] = *e;
	return n;
}

static void
hello_reply(struct brk_client *client, uint32_t status, const char *message)
{
	struct brk_device *first = client->broker->devices[0];
	const struct brk_driver *driver = &client->broker->driver;
	Mps__HelloReply body = MPS__HELLO_REPLY__INIT;
	Mps__Control answer = MPS__CONTROL__INIT;
	char *settings[SETTINGS_TOLD];

	body.status = status;
	body.message = (char *)message;
	body.client = client->id;
	body.driver = (char *)driver->path;
	body.software = driver->software;
	body.draining = client->broker->draining;
	body.solo = *client->solo;
	body.settings = settings;
	if (client->state == CLIENT_ASKING)
		body.n_settings = own_settings(driver->software, settings);
	if (!status && first && first->snapshot) {
		body.driver_version = first->snapshot->driver_version;
		body.devices = first->snapshot->devices;
		body.n_devices = first->snapshot->n_devices;
		body.implemented = first->snapshot->implemented;
		body.software = first->snapshot->software;
	}
	answer.body_case = MPS__CONTROL__BODY_HELLO_REPLY;
	answer.hello_reply = &body;
	brk_client_answer(client, &answer, NULL, 0);
}

static void
refuse(struct brk_client *client, uint32_t status, const char *message)
{
	log_line(LOG_WARN, "client %llu (pid %d, uid %u) refused: %s",
		 (unsigned long long)client->id, (int)client->pid,
		 (unsigned int)client->uid, message);
	client->state = CLIENT_REFUSED;
	hello_reply(client, status, message);
	brk_conn_finish(&client->conn);
	brk_timer_set(&client->broker->loop, &client->patience, PATIENCE_MS);
}

/* No control characters, C1 ones included. */
void
brk_client_text(char *out, size_t size, const char *text)
{
	int n = snprintf(out, size, "%s", text);

	(void)n;
	for (unsigned char *p = (unsigned char *)out; *p; p++) {
		if (*p < ' ' || *p == 0x7f ||
		    (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
			*p = '?';
	}
}

static void
hello_ready(struct brk_wait *wait, struct brk_device *device, uint32_t status,
	    const char *message)
{
	struct brk_client *client = brk_of(wait, struct brk_client, wait);

	(void)device;
	if (status)
		refuse(client, status, message);
	else
		hello_reply(client, status, message);
}

static void
admit(struct brk_client *client, const Mps__Hello *message)
{
	struct brk_broker *broker = client->broker;
	struct brk_device *first = brk_device_get(broker, 0);
	char why[BRK_SOLO_WHY];

	brk_solo_judge(client, message->solo);
	/* Not among others instead: they would bear what it is kept for. */
	if (*client->solo && brk_device_solo_is_full(client, 0, why)) {
		refuse(client, BRK_MPS_MAX_CLIENTS_REACHED, why);
		return;
	}
	if (!first || brk_tenant_get(&broker->quotas, client->job,
				     &client->tenant) < 0) {
		refuse(client, BRK_OUT_OF_MEMORY, "the broker is out of memory");
		return;
	}
	brk_tenant_wish(client->tenant, message->device_limit);
	client->state = CLIENT_LIVE;
	broker->nclients++;
	broker->total_clients++;
	brk_broker_counted(broker);
	log_line(LOG_INFO, "client %llu: pid %d, %s",
		 (unsigned long long)client->id, (int)client->pid, client->exe);
	if (first->snapshot && first->snapshot->n_devices) {
		hello_reply(client, BRK_SUCCESS, "");
		return;
	}
	brk_client_later(client);
	client->wait.ready = hello_ready;
	/* The worker that it would have in any case can tell. */
	if (*client->solo)
		first = brk_device_solo(client, 0);
	if (first)
		brk_device_wait(first, &client->wait);
	else
		refuse(client, BRK_OUT_OF_MEMORY, "the broker is out of memory");
}

static int
hello(struct brk_client *client, const Mps__Hello *message)
{
	char line[128];

	if (client->state != CLIENT_NEW)
		return err_origin(-EPROTO);
	brk_timer_stop(&client->patience);
	brk_client_text(client->exe, sizeof(client->exe), message->exe);
	brk_client_text(client->job, sizeof(client->job), message->job);
	if (!client->pid)
		client->pid = message->pid;
	if (client->refusal) {
		refuse(client, BRK_NOT_PERMITTED, client->refusal);
	} else if (message->wire != WIRE_NUMBER) {
		snprintf(line, sizeof(line), "wire number %u, this broker "
			 "speaks %u: end it (mpsctl quit) or update the other",
			 message->wire, WIRE_NUMBER);
		refuse(client, BRK_SYSTEM_DRIVER_MISMATCH, line);
	} else if (message->ask_only) {
		client->state = CLIENT_ASKING;
		hello_reply(client, BRK_SUCCESS, "");
	} else if (client->broker->draining) {
		snprintf(line, sizeof(line), "the broker is shutting down and "
			 "waits for %u of its programs",
			 client->broker->nclients);
		refuse(client, BRK_MPS_SERVER_NOT_READY, line);
	} else {
		admit(client, message);
	}
	return 0;
}

/* ---- attach, ready ------------------------------------------------------*/

static void
attach_ready(struct brk_wait *wait, struct brk_device *device, uint32_t status,
	     const char *message)
{
	struct brk_client *client = brk_of(wait, struct brk_client, wait);
	Mps__AttachReply reply = MPS__ATTACH_REPLY__INIT;
	Mps__Control answer = MPS__CONTROL__INIT;

	if (!status) {
		brk_session_attach(client, device);
		return;
	}
	reply.status = status;
	reply.message = (char *)message;
	answer.body_case = MPS__CONTROL__BODY_ATTACH_REPLY;
	answer.attach_reply = &reply;
	brk_client_answer(client, &answer, NULL, 0);
}

static int
attach(struct brk_client *client, const Mps__Attach *message)
{
	struct brk_session *session = brk_session_find(client, message->device);
	struct brk_device *device;
	char why[BRK_SOLO_WHY];

	if (session && session->state != SESSION_DEAD)
		return err_origin(-EPROTO);
	client->no_ring = message->no_ring;
	client->wait.ready = attach_ready;
	if (*client->solo &&
	    brk_device_solo_is_full(client, message->device, why)) {
		attach_ready(&client->wait, NULL, BRK_MPS_MAX_CLIENTS_REACHED,
			     why);
		return 0;
	}
	device = *client->solo ?
		brk_device_solo(client, message->device) :
		brk_device_get(client->broker, message->device);
	if (!device) {
		attach_ready(&client->wait, NULL, BRK_INVALID_DEVICE,
			     "no such device");
		return 0;
	}
	brk_client_later(client);
	brk_device_wait(device, &client->wait);
	return 0;
}

static int
ready(struct brk_client *client, const Mps__Ready *message)
{
	switch (message->what) {
	case MPS__READY__WHAT__ATTACH:
		return brk_session_ready(client, message->object,
					 message->status);
	case MPS__READY__WHAT__HOST:
		return brk_vault_host_ready(client, message->object,
					    message->status);
	case MPS__READY__WHAT__IMAGE:
		return brk_images_ready(client, message->status);
	case MPS__READY__WHAT__PIECE:
		return brk_addr_ready(client, message->object,
				      message->status);
	default:
		return err_origin(-EBADMSG);
	}
}

/* ---- frames -------------------------------------------------------------*/

static int
quit(struct brk_client *client, const Mps__Quit *message)
{
	brk_client_done(client, BRK_SUCCESS, "");
	if (!client->quits)
		client->broker->quitters++;
	client->quits = true;
	brk_broker_quit(client->broker, message->force);
	return 0;
}

/* What only a client may ask. */
static int
client_question(struct brk_client *client, const Mps__Control *message)
{
	if (client->state != CLIENT_LIVE)
		return err_origin(-EPROTO);
	switch (message->body_case) {
	case MPS__CONTROL__BODY_ATTACH:
		return attach(client, message->attach);
	case MPS__CONTROL__BODY_READY:
		return ready(client, message->ready);
	case MPS__CONTROL__BODY_PIECE:
		return brk_addr_piece(client, message->piece);
	case MPS__CONTROL__BODY_CHUNK:
		return brk_vault_chunk(client, message->chunk);
	case MPS__CONTROL__BODY_MAPPING:
		return brk_vault_mapping(client, message->mapping);
	case MPS__CONTROL__BODY_ACCESS:
		return brk_vault_access(client, message->access);
	case MPS__CONTROL__BODY_ARRAY:
		return brk_vault_array(client, message->array);
	case MPS__CONTROL__BODY_CHUNK_FREE:
		return brk_vault_free(client, false,
				      message->chunk_free->chunk);
	case MPS__CONTROL__BODY_HOST_MEMORY:
		return brk_vault_host(client, message->host_memory);
	case MPS__CONTROL__BODY_HOST_FREE:
		return brk_vault_free(client, true, message->host_free->id);
	case MPS__CONTROL__BODY_IMAGE:
		return brk_images_ask(client, message->image);
	case MPS__CONTROL__BODY_EXPORT:
		return brk_ipc_export(client, message->export);
	case MPS__CONTROL__BODY_LOOK:
		return brk_ipc_look(client, message->look);
	case MPS__CONTROL__BODY_IMPORT:
		return brk_ipc_import(client, message->import);
	case MPS__CONTROL__BODY_WITHDRAW:
		return brk_ipc_withdraw(client, message->withdraw);
	case MPS__CONTROL__BODY_SOLO:
		return brk_part_ask(client, message->solo);
	case MPS__CONTROL__BODY_MEMORY_INFO:
		return brk_vault_info(client, message->memory_info);
	default:
		return err_origin(-EPROTO);
	}
}

/* Keep it for brk_client_go_on(). Without memory, its answer is what the
 * worker's end makes of it. */
static void
remember(struct brk_client *client, const Mps__Control *message)
{
	size_t size = mps__control__get_packed_size(message);
	uint8_t *bytes = realloc(client->asked, size ? size : 1);

	client->redo = false;
	client->redone = !bytes;
	if (!bytes)
		return;
	client->asked = bytes;
	client->asked_size = size;
	mps__control__pack(message, bytes);
}

void
brk_client_go_on(struct brk_client *client)
{
	Mps__Control *message;
	int r = -ENOMEM;

	if (client->state == CLIENT_ENDED)
		return;
	if (!client->redo) {
		/* Unless another device's worker has yet to answer it. */
		if (!client->parting && !client->wait.waiting)
			brk_conn_resume(&client->conn);
		return;
	}
	client->redo = false;
	client->redone = true;
	message = mps__control__unpack(NULL, client->asked_size,
				       client->asked);
	if (message)
		r = client_question(client, message);
	mps__control__free_unpacked(message, NULL);
	if (r < 0)
		brk_conn_fail(&client->conn, r);
}

static int
client_frame(struct brk_conn *conn, const Mps__Control *message)
{
	struct brk_client *client = brk_of(conn, struct brk_client, conn);

	/* Nobody but the broker makes descriptors here. */
	if (conn->reader.nfds)
		return err_origin(-EBADMSG);
	client->question = message->id;
	if (message->body_case == MPS__CONTROL__BODY_HELLO)
		return hello(client, message->hello);
	if (client->state != CLIENT_LIVE && client->state != CLIENT_ASKING)
		return err_origin(-EPROTO);
	if (message->body_case == MPS__CONTROL__BODY_STATUS)
		return brk_status_ask(client);
	if (message->body_case == MPS__CONTROL__BODY_QUIT)
		return quit(client, message->quit);
	if (client->state == CLIENT_ASKING)
		return brk_asker_question(client, message);
	remember(client, message);
	return client_question(client, message);
}

/* ---- life and end -------------------------------------------------------*/

static void
client_free(struct brk_client *client)
{
	struct brk_broker *broker = client->broker;
	struct brk_session *session;
	struct brk_device *device;

	while ((session = LIST_FIRST(&client->sessions)))
		brk_session_free(session);
	while ((device = client->gone_devices)) {
		client->gone_devices = device->gone_next;
		free(device);
	}
	brk_vault_release(client);
	brk_images_release(client);
	brk_addr_release(client);
	brk_tenant_put(client->tenant);
	LIST_REMOVE(client, link);
	free(client->asked);
	free(client);
	brk_broker_counted(broker);
}

void
brk_client_hold(struct brk_client *client)
{
	client->outstanding++;
}

void
brk_client_let_go(struct brk_client *client)
{
	if (!--client->outstanding && client->state == CLIENT_ENDED)
		client_free(client);
}

void
brk_client_end(struct brk_client *client)
{
	struct brk_broker *broker = client->broker;

	if (client->state == CLIENT_ENDED)
		return;
	client->state = CLIENT_ENDED;
	client->ended_ns = brk_now_ns();
	brk_conn_fini(&client->conn);
	brk_timer_stop(&client->patience);
	brk_timer_stop(&client->images.step);
	brk_device_unwait(&client->wait);
	client->vault.waiting = false;
	/* Held, so that answers that come at once do not free it here. */
	brk_client_hold(client);
	broker->nconnections--;
	if (client->quits)
		brk_broker_unquit(broker);
	if (client->tenant) {
		broker->nclients--;
		brk_ipc_leave(client);
		brk_addr_leave(client);
		brk_vault_leave(client);
		brk_session_leave(client);
		brk_device_leave(client);
	}
	brk_client_let_go(client);
}

static void
client_end(struct brk_conn *conn, int reason)
{
	struct brk_client *client = brk_of(conn, struct brk_client, conn);

	if (reason == -EBADMSG || reason == -EPROTO || reason == -EMSGSIZE)
		client->broker->bad_frames++;
	if (reason == -EPIPE || reason == -ECONNRESET || reason == -ESHUTDOWN)
		log_line(LOG_DEBUG, "client %llu (pid %d) ended",
			 (unsigned long long)client->id, (int)client->pid);
	else
		log_line(LOG_WARN, "client %llu (pid %d): %s: closed",
			 (unsigned long long)client->id, (int)client->pid,
			 reason == -ENOBUFS ? "does not read its answers" :
			 err_text(reason));
	brk_client_end(client);
}

static void
lost_patience(struct brk_timer *timer)
{
	struct brk_client *client = brk_of(timer, struct brk_client, patience);

	brk_conn_fail(&client->conn, -ETIMEDOUT);
}

/* Who may connect: the broker's own user. */
static const char *
check_peer(struct brk_client *client, int fd)
{
	gid_t gid;

	if (sock_peer(fd, &client->pid, &client->uid, &gid) < 0)
		return "who you are cannot be told";
	/* /proc/sys/kernel/overflowuid: the user nobody, or somebody whom our
	 * user namespace does not know. */
	if (client->uid == 65534 && geteuid() != 65534)
		return "this broker serves another user, or yours is not known "
		       "in the broker's user namespace";
	if (client->uid != geteuid())
		return "this broker serves another user";
	return NULL;
}

void
brk_client_accept(struct brk_broker *broker, int fd)
{
	struct brk_client *client = calloc(1, sizeof(*client));

	if (!client) {
		close(fd);
		return;
	}
	client->broker = broker;
	client->id = ++broker->next_id;
	client->refusal = check_peer(client, fd);
	client->patience.fire = lost_patience;
	brk_images_init(&client->images);
	if (brk_conn_init(&client->conn, &broker->loop, fd, CLIENT_QUEUE) < 0) {
		free(client);
		return;
	}
	client->conn.on_frame = client_frame;
	client->conn.on_end = client_end;
	LIST_INSERT_HEAD(&broker->clients, client, link);
	broker->nconnections++;
	brk_timer_set(&broker->loop, &client->patience, PATIENCE_MS);
	brk_broker_counted(broker);
}
