/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing between clients. Who opens memory gets a block of its own, with a
 * descriptor of the same memory, mapped at an address of its own: it ends by
 * itself, survives its exporter and the worker, and nobody's addresses need
 * to be free in another process.
 */
#include "server/broker/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/err.h"
#include "server/broker/client.h"
#include "server/broker/vault_own.h"

/* ---- origins ------------------------------------------------------------*/

/* Its memory counts already, as the block's. */
static struct brk_origin *
origin_new(struct brk_client *client, struct brk_block *block)
{
	struct brk_origin *origin = calloc(1, sizeof(*origin));

	if (!origin)
		return NULL;
	origin->device = block->spec.device;
	origin->size = block->spec.size;
	origin->fd = -1;
	origin->payer = brk_tenant_ref(client->tenant);
	LIST_INSERT_HEAD(&client->broker->ipc.origins, origin, link);
	LIST_INSERT_HEAD(&origin->holders, block, holder);
	block->origin = origin;
	block->tenant = client->tenant;
	return origin;
}

static int
origin_fd(const struct brk_origin *origin)
{
	struct brk_block *block;

	LIST_FOREACH(block, &origin->holders, holder)
		if (block->fd >= 0)
			return block->fd;
	return origin->fd;
}

static void
move_charge(struct brk_origin *origin, struct brk_tenant *to)
{
	brk_discharge(origin->payer, QUOTA_DEVICE, origin->size);
	brk_tenant_put(origin->payer);
	origin->payer = brk_tenant_ref(to);
	brk_charge_anyway(to, QUOTA_DEVICE, origin->size);
}

/* A holder or token less. */
static void
origin_settle(struct brk_origin *origin)
{
	struct brk_block *block, *heir = LIST_FIRST(&origin->holders);

	LIST_FOREACH(block, &origin->holders, holder)
		if (block->tenant == origin->payer)
			return;
	if (heir) {
		move_charge(origin, heir->tenant);
		return;
	}
	if (origin->ntokens)
		return;
	brk_discharge(origin->payer, QUOTA_DEVICE, origin->size);
	brk_tenant_put(origin->payer);
	if (origin->fd >= 0)
		close(origin->fd);
	LIST_REMOVE(origin, link);
	free(origin);
}

/* ---- exports ------------------------------------------------------------*/

static struct brk_export *
find(struct brk_broker *broker, uint64_t id)
{
	struct brk_export *export;

	LIST_FOREACH(export, &broker->ipc.exports, link)
		if (export->id == id)
			return export;
	return NULL;
}

/* The same time whatever is wrong with the key. */
static bool
is_key(const struct brk_export *export, const ProtobufCBinaryData *key)
{
	uint8_t wrong = 0;

	if (key->len != IPC_KEY)
		return false;
	for (int i = 0; i < IPC_KEY; i++)
		wrong |= export->key[i] ^ key->data[i];
	return !wrong;
}

static struct brk_export *
find_open(struct brk_broker *broker, uint64_t id,
	  const ProtobufCBinaryData *key)
{
	struct brk_export *export = find(broker, id);

	return export && !export->closed && is_key(export, key) ? export :
								  NULL;
}

static void
export_free(struct brk_export *export)
{
	struct brk_origin *origin = export->origin;

	LIST_REMOVE(export, link);
	if (export->token >= 0) {
		brk_loop_remove(&export->broker->loop, &export->source);
		close(export->token);
		if (origin) {
			origin->ntokens--;
			origin_settle(origin);
		}
	}
	brk_discharge(export->tenant, QUOTA_DESCRIPTORS, 1);
	brk_tenant_put(export->tenant);
	free(export);
}

static struct brk_export *
export_new(struct brk_client *client, const Mps__Export *message)
{
	struct brk_export *export = calloc(1, sizeof(*export));

	if (!export ||
	    getrandom(export->key, IPC_KEY, 0) != IPC_KEY ||
	    brk_charge(&client->broker->quotas, client->tenant,
		       QUOTA_DESCRIPTORS, 1)) {
		free(export);
		return NULL;
	}
	export->broker = client->broker;
	export->id = ++client->broker->next_id;
	export->client = client->id;
	export->offset = message->offset;
	export->size = message->size;
	export->pool = message->pool;
	export->device = message->device;
	export->token = -1;
	export->source.fd = -1;
	export->tenant = brk_tenant_ref(client->tenant);
	LIST_INSERT_HEAD(&client->broker->ipc.exports, export, link);
	return export;
}

/* The last descriptor of a token is closed. */
static void
token_dispatch(struct brk_source *source, uint32_t events)
{
	(void)events;
	export_free(brk_of(source, struct brk_export, source));
}

/* *out_fd is the caller's. */
static int
make_token(struct brk_export *export, int *out_fd)
{
	struct ipc_handle handle = {
		.magic = IPC_MAGIC,
		.kind = export->origin ? IPC_TOKEN_MEMORY : IPC_TOKEN_POOL,
		.id = export->id, .client = export->client,
	};
	int ends[2], r;

	memcpy(handle.key, export->key, IPC_KEY);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0, ends) < 0)
		return err_origin(-errno);
	export->token = ends[0];
	if (export->origin)
		export->origin->ntokens++;
	*out_fd = ends[1];
	/* Nothing is asked for: a hang-up is told in any case. */
	export->source.dispatch = token_dispatch;
	r = brk_loop_add(&export->broker->loop, &export->source, ends[0], 0);
	if (r < 0)
		return err_trace(r);
	if (send(ends[0], &handle, sizeof(handle), MSG_NOSIGNAL) !=
	    (ssize_t)sizeof(handle))
		return err_origin(-EIO);
	return 0;
}

static void
answer_export(struct brk_client *client, uint32_t status,
	      struct brk_export *export, int fd)
{
	Mps__ExportReply reply = MPS__EXPORT_REPLY__INIT;
	Mps__Control answer = MPS__CONTROL__INIT;

	reply.status = status;
	if (export) {
		reply.id = export->id;
		reply.key.data = export->key;
		reply.key.len = IPC_KEY;
	}
	answer.body_case = MPS__CONTROL__BODY_EXPORT_REPLY;
	answer.export_reply = &reply;
	brk_client_answer(client, &answer, &fd, fd >= 0);
}

static bool
is_part(const struct brk_block *block, const Mps__Export *message)
{
	return block && (block->spec.what == BLOCK_PLACED ||
			 block->spec.what == BLOCK_MEMORY) &&
	       block->state == BLOCK_LIVE && !block->released &&
	       block->fd >= 0 && message->size &&
	       message->size <= block->spec.size &&
	       message->offset <= block->spec.size - message->size;
}

static int
fill_export(struct brk_client *client, struct brk_export *export,
	    struct brk_block *block, bool token, int *out_fd)
{
	if (block && !block->origin && !origin_new(client, block))
		return err_origin(-ENOMEM);
	if (block)
		export->origin = block->origin;
	if (token)
		return make_token(export, out_fd);
	export->block = block;
	return 0;
}

int
brk_ipc_export(struct brk_client *client, const Mps__Export *message)
{
	_cleanup_close_ int fd = -1;
	struct brk_block *block = brk_vault_find(client, false, message->chunk);
	struct brk_export *export;

	if (message->chunk ? !is_part(block, message) :
			     !message->token || !message->pool) {
		answer_export(client, BRK_INVALID_VALUE, NULL, -1);
		return 0;
	}
	export = export_new(client, message);
	if (export && fill_export(client, export, block, message->token,
				  &fd) < 0) {
		export_free(export);
		export = NULL;
	}
	answer_export(client, export ? BRK_SUCCESS : BRK_OUT_OF_MEMORY, export,
		      fd);
	return 0;
}

int
brk_ipc_look(struct brk_client *client, const Mps__Look *message)
{
	struct brk_export *export = find_open(client->broker, message->id,
					      &message->key);
	Mps__LookReply reply = MPS__LOOK_REPLY__INIT;
	Mps__Control answer = MPS__CONTROL__INIT;

	if (!export) {
		reply.status = BRK_INVALID_HANDLE;
	} else {
		reply.client = export->client;
		reply.offset = export->offset;
		reply.size = export->size;
		reply.pool = export->pool;
		reply.device = export->device;
	}
	if (export && export->origin) {
		reply.device = export->origin->device;
		reply.chunk_size = export->origin->size;
	}
	answer.body_case = MPS__CONTROL__BODY_LOOK_REPLY;
	answer.look_reply = &reply;
	brk_client_answer(client, &answer, NULL, 0);
	return 0;
}

int
brk_ipc_import(struct brk_client *client, const Mps__Import *message)
{
	struct brk_export *export = find_open(client->broker, message->id,
					      &message->key);
	struct brk_block_spec spec = {
		.what = message->unmapped ? BLOCK_MEMORY : BLOCK_PLACED,
	};

	if (!export || !export->origin) {
		brk_client_done(client, BRK_INVALID_HANDLE,
				"no such export, or it is no more");
		return 0;
	}
	spec.share = export->id;
	spec.device = export->origin->device;
	spec.size = export->origin->size;
	if (!message->unmapped) {
		spec.piece = message->piece;
		spec.address = message->address;
	}
	brk_vault_make(client, &spec);
	return 0;
}

/* Closed, and still mapped. */
static uint64_t
count_closing(const struct brk_export *export)
{
	struct brk_block *block;
	uint64_t count = 0;

	LIST_FOREACH(block, &export->origin->holders, holder)
		count += block->spec.share == export->id &&
			 block->state == BLOCK_DYING;
	return count;
}

int
brk_ipc_withdraw(struct brk_client *client, const Mps__Withdraw *message)
{
	struct brk_export *export = find(client->broker, message->id);
	Mps__WithdrawReply reply = MPS__WITHDRAW_REPLY__INIT;
	Mps__Control answer = MPS__CONTROL__INIT;

	if (!export || export->client != client->id || export->token >= 0) {
		reply.status = BRK_INVALID_HANDLE;
	} else {
		export->closed = true;
		reply.opened = export->opened;
		reply.closing = count_closing(export);
		if (!export->opened)
			export_free(export);
	}
	answer.body_case = MPS__CONTROL__BODY_WITHDRAW_REPLY;
	answer.withdraw_reply = &reply;
	brk_client_answer(client, &answer, NULL, 0);
	return 0;
}

/* Tokens are whoever holds them. */
void
brk_ipc_leave(struct brk_client *client)
{
	struct brk_export *export;

	LIST_FOREACH(export, &client->broker->ipc.exports, link)
		if (export->client == client->id && export->token < 0)
			export->closed = true;
}

void
brk_ipc_fini(struct brk_broker *broker)
{
	struct brk_export *export;

	while ((export = LIST_FIRST(&broker->ipc.exports)))
		export_free(export);
}

/* ---- blocks -------------------------------------------------------------*/

bool
brk_ipc_is_open(struct brk_broker *broker, const struct brk_block_spec *spec)
{
	struct brk_export *export = find(broker, spec->share);

	return export && !export->closed && export->origin &&
	       export->origin->size == spec->size;
}

int
brk_ipc_join(struct brk_client *client, struct brk_block *block)
{
	struct brk_export *export = find(client->broker, block->spec.share);

	block->fd = fcntl(origin_fd(export->origin), F_DUPFD_CLOEXEC, 0);
	if (block->fd < 0)
		return err_origin(-errno);
	export->opened++;
	block->origin = export->origin;
	block->tenant = client->tenant;
	LIST_INSERT_HEAD(&block->origin->holders, block, holder);
	return 0;
}

void
brk_ipc_part(struct brk_broker *broker, struct brk_block *block)
{
	struct brk_origin *origin = block->origin;
	struct brk_export *export, *next;

	for (export = LIST_FIRST(&broker->ipc.exports); export; export = next) {
		next = LIST_NEXT(export, link);
		if (export->id == block->spec.share)
			export->opened--;
		if (export->block == block)
			export_free(export);
	}
	LIST_REMOVE(block, holder);
	/* For who comes by a token. */
	if (origin->ntokens && origin_fd(origin) < 0)
		origin->fd = steal_fd(&block->fd);
	origin_settle(origin);
}
