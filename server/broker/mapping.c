/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of memory that has no address of its own, and arrays: blocks of the
 * vault like all others, but for what the worker is asked.
 */
#include <errno.h>

#include "proto/err.h"
#include "server/broker/client.h"
#include "server/broker/vault_own.h"

void
brk_vault_ask_mapping(struct brk_client *client, struct brk_worker *worker,
		      struct brk_block *block, bool again)
{
	Mps__WorkerMapping body = MPS__WORKER_MAPPING__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.client = client->id;
	body.mapping = block->id;
	body.chunk = block->spec.of;
	body.address = block->spec.address;
	body.size = block->spec.size;
	message.body_case = MPS__CONTROL__BODY_WORKER_MAPPING;
	message.worker_mapping = &body;
	if (again) {
		brk_worker_ask(worker, &block->request, &message, NULL, 0);
		return;
	}
	brk_vault_find(client, false, block->spec.of)->nmappings++;
	brk_vault_ask(client, worker, block, &message, false);
}

void
brk_vault_ask_array(struct brk_client *client, struct brk_worker *worker,
		    struct brk_block *block)
{
	const struct brk_array *array = &block->spec.array;
	Mps__ArrayShape shape = MPS__ARRAY_SHAPE__INIT;
	Mps__WorkerArray body = MPS__WORKER_ARRAY__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	shape.width = array->width;
	shape.height = array->height;
	shape.depth = array->depth;
	shape.format = array->format;
	shape.channels = array->channels;
	shape.flags = array->flags;
	shape.levels = array->levels;
	body.client = client->id;
	body.id = block->id;
	body.shape = &shape;
	body.size = block->spec.size;
	message.body_case = MPS__CONTROL__BODY_WORKER_ARRAY;
	message.worker_array = &body;
	brk_vault_ask(client, worker, block, &message, false);
}

int
brk_vault_mapping(struct brk_client *client, const Mps__Mapping *message)
{
	struct brk_block_spec spec = {
		.what = BLOCK_MAPPING, .device = message->device,
		.size = message->size, .piece = message->piece,
		.address = message->address, .of = message->chunk,
	};

	brk_vault_make(client, &spec);
	return 0;
}

static void
access_given(struct brk_request *request, struct brk_result *result)
{
	struct brk_block *block = brk_of(request, struct brk_block, request);

	block->state = BLOCK_LIVE;
	block->open |= !result->status;
	brk_client_done(request->client, result->status, result->message);
}

void
brk_vault_ask_access(struct brk_client *client, struct brk_worker *worker,
		     struct brk_block *block,
		     void (*answered)(struct brk_request *request,
				      struct brk_result *result))
{
	Mps__WorkerAccess body = MPS__WORKER_ACCESS__INIT;
	Mps__Control control = MPS__CONTROL__INIT;

	body.client = client->id;
	body.mapping = block->id;
	control.body_case = MPS__CONTROL__BODY_WORKER_ACCESS;
	control.worker_access = &body;
	block->request = (struct brk_request){
		.client = client, .answered = answered,
	};
	brk_worker_ask(worker, &block->request, &control, NULL, 0);
}

int
brk_vault_access(struct brk_client *client, const Mps__Access *message)
{
	struct brk_block *block = brk_vault_find(client, false, message->mapping);
	struct brk_worker *worker;

	if (!block || block->spec.what != BLOCK_MAPPING ||
	    block->state != BLOCK_LIVE) {
		brk_client_done(client, BRK_INVALID_VALUE, "no such mapping");
		return 0;
	}
	worker = brk_session_worker(client, block->spec.device);
	if (!worker || worker->generation != block->generation) {
		brk_client_done(client, brk_session_error(
				client, block->spec.device), "");
		return 0;
	}
	block->state = BLOCK_MAKING;
	brk_client_later(client);
	brk_vault_ask_access(client, worker, block, access_given);
	return 0;
}

int
brk_vault_array(struct brk_client *client, const Mps__Array *message)
{
	const Mps__ArrayShape *shape = message->shape;
	struct brk_block_spec spec = {
		.what = BLOCK_ARRAY, .device = message->device,
	};

	if (!shape)
		return err_origin(-EPROTO);
	spec.array = (struct brk_array){
		.width = shape->width, .height = shape->height,
		.depth = shape->depth,
		.format = shape->format, .channels = shape->channels,
		.flags = shape->flags, .levels = shape->levels,
	};
	spec.size = brk_array_bytes(&spec.array);
	brk_vault_make(client, &spec);
	return 0;
}
