/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of memory: device chunks and pinned host memory.
 *
 * A freed block is answered at once but stays until the worker has unmapped
 * it, which happens when the client's work on it has retired. Until then it
 * counts, and its addresses are taken. A question that only fails because
 * of such a block waits for it instead: memory that was freed is never
 * reported as missing.
 */
#include "server/broker/vault.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/shmem.h"
#include "server/broker/client.h"
#include "server/broker/part.h"
#include "server/broker/vault_own.h"

static void try_wanted(struct brk_client *client);
static void end_block(struct brk_client *client, struct brk_block *block);

static void
answer(struct brk_client *client, const struct brk_block_spec *spec,
       uint32_t status, uint64_t id, int fd)
{
	Mps__HostMemoryReply host = MPS__HOST_MEMORY_REPLY__INIT;
	Mps__ChunkReply chunk = MPS__CHUNK_REPLY__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	if (spec->host) {
		host.status = status;
		host.id = id;
		message.body_case = MPS__CONTROL__BODY_HOST_MEMORY_REPLY;
		message.host_memory_reply = &host;
	} else {
		chunk.status = status;
		chunk.chunk = id;
		message.body_case = MPS__CONTROL__BODY_CHUNK_REPLY;
		message.chunk_reply = &chunk;
	}
	brk_client_answer(client, &message, &fd, fd >= 0);
}

static enum brk_quota
quota_of(const struct brk_block_spec *spec)
{
	return spec->host ? QUOTA_HOST : QUOTA_DEVICE;
}

/* Bytes that it counts; a mapping's are its memory's, and what is opened
 * counts where it came from. */
static uint64_t
charge_of(const struct brk_block_spec *spec)
{
	return spec->what == BLOCK_MAPPING || spec->share ? 0 : spec->size;
}

struct brk_block *
brk_vault_find(struct brk_client *client, bool host, uint64_t id)
{
	struct brk_block *block;

	LIST_FOREACH(block, &client->vault.blocks, link)
		if (block->id == id && block->spec.host == host)
			return block;
	return NULL;
}

static void
block_free(struct brk_client *client, struct brk_block *block)
{
	struct brk_vault *vault = &client->vault;

	LIST_REMOVE(block, link);
	if (block->origin)
		brk_ipc_part(client->broker, block);
	else
		brk_discharge(client->tenant, quota_of(&block->spec),
			      charge_of(&block->spec));
	if (block->fd >= 0)
		close(block->fd);
	if (block->spec.host) {
		vault->host_bytes -= block->spec.size;
	} else {
		vault->device_bytes -= charge_of(&block->spec);
		vault->nchunks--;
		vault->ngone++;
	}
	brk_discharge(client->tenant, QUOTA_DESCRIPTORS, 1);
	free(block);
}

/* One mapping less; memory that was freed meanwhile goes with the last. */
static void
memory_unmapped(struct brk_client *client, uint64_t id)
{
	struct brk_block *memory = brk_vault_find(client, false, id);

	if (memory && !--memory->nmappings && memory->released)
		end_block(client, memory);
}

static void
drop_block(struct brk_client *client, struct brk_block *block)
{
	uint64_t of = block->spec.of;

	block_free(client, block);
	if (of)
		memory_unmapped(client, of);
}

/* Gone from the worker: whoever waits for that may go on. */
static void
block_gone(struct brk_client *client, struct brk_block *block)
{
	drop_block(client, block);
	if (client->vault.waiting)
		try_wanted(client);
	brk_part_block_gone(client);
}

static bool
has_dying(const struct brk_vault *vault)
{
	struct brk_block *block;

	LIST_FOREACH(block, &vault->blocks, link)
		if (block->state == BLOCK_DYING)
			return true;
	return false;
}

static void
wait_for_dying(struct brk_client *client, const struct brk_block_spec *spec)
{
	client->vault.waiting = true;
	client->vault.wanted = *spec;
	brk_client_later(client);
}

/* 0 when the client's piece has room there. *out_dying: only because of a
 * block that is on its way out. */
static uint32_t
check_range(struct brk_client *client, const struct brk_block_spec *spec,
	    bool *out_dying)
{
	uint64_t unit = spec->host ? 4096 : ADDR_GRANULE, offset;
	struct brk_piece *piece = brk_addr_find(client, spec->piece);
	struct brk_block *block;

	*out_dying = false;
	if (!piece || piece->host != spec->host ||
	    piece->device != spec->device || !spec->size ||
	    spec->size % unit || spec->address % unit ||
	    spec->address < piece->range.base)
		return BRK_INVALID_VALUE;
	offset = spec->address - piece->range.base;
	if (offset > piece->range.size ||
	    spec->size > piece->range.size - offset)
		return BRK_INVALID_VALUE;
	LIST_FOREACH(block, &client->vault.blocks, link) {
		if (block->spec.address >= spec->address + spec->size ||
		    block->spec.address + block->spec.size <= spec->address)
			continue;
		if (block->state != BLOCK_DYING) {
			*out_dying = false;
			return BRK_INVALID_VALUE;
		}
		*out_dying = true;
	}
	return *out_dying ? BRK_INVALID_VALUE : BRK_SUCCESS;
}

static int
charge(struct brk_client *client, const struct brk_block_spec *spec)
{
	const struct brk_quotas *quotas = &client->broker->quotas;
	struct brk_tenant *tenant = client->tenant;

	if (brk_charge(quotas, tenant, quota_of(spec), charge_of(spec)))
		return QUOTA_E_LIMIT;
	/* Each also bounds what the worker and this list hold. */
	if (!brk_charge(quotas, tenant, QUOTA_DESCRIPTORS, 1))
		return 0;
	brk_discharge(tenant, quota_of(spec), charge_of(spec));
	return QUOTA_E_LIMIT;
}

static struct brk_block *
block_new(struct brk_client *client, const struct brk_block_spec *spec,
	  const struct brk_worker *worker)
{
	struct brk_vault *vault = &client->vault;
	struct brk_block *block;

	if (charge(client, spec))
		return NULL;
	block = calloc(1, sizeof(*block));
	if (block)
		*block = (struct brk_block){
			.id = ++client->broker->next_id, .spec = *spec,
			.fd = -1, .generation = worker->generation,
		};
	if (block && spec->share && brk_ipc_join(client, block) < 0) {
		free(block);
		block = NULL;
	}
	if (!block) {
		brk_discharge(client->tenant, quota_of(spec), charge_of(spec));
		brk_discharge(client->tenant, QUOTA_DESCRIPTORS, 1);
		return NULL;
	}
	LIST_INSERT_HEAD(&vault->blocks, block, link);
	if (spec->host) {
		vault->host_bytes += spec->size;
	} else {
		vault->device_bytes += charge_of(spec);
		vault->nchunks++;
	}
	return block;
}

static void
chunk_made(struct brk_request *request, struct brk_result *result)
{
	struct brk_block *block = brk_of(request, struct brk_block, request);
	struct brk_client *client = request->client;
	struct brk_block_spec spec = block->spec;
	/* That one's memory may be what lacked. */
	bool freed_since = block->ngone != client->vault.ngone &&
			   client->state != CLIENT_ENDED;

	if (!result->status) {
		if (block->fd < 0)
			block->fd = steal_fd(&result->fd);
		block->state = BLOCK_LIVE;
		answer(client, &spec, BRK_SUCCESS, block->id, -1);
		return;
	}
	drop_block(client, block);
	if (result->status == BRK_OUT_OF_MEMORY && has_dying(&client->vault))
		wait_for_dying(client, &spec);
	else if (result->status == BRK_OUT_OF_MEMORY && freed_since)
		brk_vault_make(client, &spec);
	else
		answer(client, &spec, result->status, 0, -1);
}

void
brk_vault_ask(struct brk_client *client, struct brk_worker *worker,
	      struct brk_block *block, Mps__Control *message, bool wants_fd)
{
	block->state = BLOCK_MAKING;
	block->ngone = client->vault.ngone;
	block->request = (struct brk_request){
		.client = client, .wants_fd = wants_fd, .answered = chunk_made,
	};
	brk_client_later(client);
	brk_worker_ask(worker, &block->request, message, &block->fd,
		       block->fd >= 0);
}

static void
ask_chunk(struct brk_client *client, struct brk_worker *worker,
	  struct brk_block *block, bool again)
{
	Mps__WorkerChunk body = MPS__WORKER_CHUNK__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.client = client->id;
	body.chunk = block->id;
	body.address = block->spec.address;
	body.size = block->spec.size;
	body.unmapped = block->spec.what == BLOCK_MEMORY;
	body.import = block->fd >= 0;
	message.body_case = MPS__CONTROL__BODY_WORKER_CHUNK;
	message.worker_chunk = &body;
	if (again)
		brk_worker_ask(worker, &block->request, &message, &block->fd,
			       1);
	else
		brk_vault_ask(client, worker, block, &message, !body.import);
}

static void
ask_device(struct brk_client *client, struct brk_worker *worker,
	   struct brk_block *block)
{
	switch (block->spec.what) {
	case BLOCK_PLACED:
	case BLOCK_MEMORY:
		ask_chunk(client, worker, block, false);
		return;
	case BLOCK_MAPPING:
		brk_vault_ask_mapping(client, worker, block, false);
		return;
	case BLOCK_ARRAY:
		brk_vault_ask_array(client, worker, block);
		return;
	}
}

/* The memory that is to be mapped: live, of this worker, large enough. */
static uint32_t
check_memory(struct brk_client *client, const struct brk_block_spec *spec,
	     const struct brk_worker *worker)
{
	struct brk_block *memory = brk_vault_find(client, false, spec->of);

	return memory && memory->spec.what == BLOCK_MEMORY &&
	       memory->state == BLOCK_LIVE && !memory->released &&
	       memory->spec.device == spec->device &&
	       memory->generation == worker->generation &&
	       spec->size <= memory->spec.size ? BRK_SUCCESS :
						 BRK_INVALID_VALUE;
}

static uint32_t
check(struct brk_client *client, const struct brk_block_spec *spec,
      const struct brk_worker *worker, bool *out_dying)
{
	*out_dying = false;
	if (spec->share && !brk_ipc_is_open(client->broker, spec))
		return BRK_INVALID_HANDLE;
	switch (spec->what) {
	case BLOCK_MAPPING:
		if (check_memory(client, spec, worker))
			return BRK_INVALID_VALUE;
		return check_range(client, spec, out_dying);
	case BLOCK_PLACED:
		return check_range(client, spec, out_dying);
	case BLOCK_MEMORY:
		return spec->size && spec->size % ADDR_GRANULE == 0 ?
			BRK_SUCCESS : BRK_INVALID_VALUE;
	case BLOCK_ARRAY:
		return spec->size ? BRK_SUCCESS : BRK_INVALID_VALUE;
	}
	return BRK_INVALID_VALUE;
}

static void
offer_host(struct brk_client *client, struct brk_block *block)
{
	struct brk_block_spec spec = block->spec;

	block->state = BLOCK_OFFERED;
	block->fd = shmem_create("mpsshim-pinned", spec.size);
	if (block->fd >= 0) {
		answer(client, &spec, BRK_SUCCESS, block->id, block->fd);
		return;
	}
	block_free(client, block);
	answer(client, &spec, BRK_OUT_OF_MEMORY, 0, -1);
}

void
brk_vault_make(struct brk_client *client, const struct brk_block_spec *spec)
{
	struct brk_worker *worker = brk_session_worker(client, spec->device);
	struct brk_block *block;
	uint32_t status;
	bool dying;

	if (!worker) {
		answer(client, spec, brk_session_error(client, spec->device),
		       0, -1);
		return;
	}
	status = check(client, spec, worker, &dying);
	if (dying) {
		wait_for_dying(client, spec);
		return;
	}
	if (status) {
		answer(client, spec, status, 0, -1);
		return;
	}
	block = block_new(client, spec, worker);
	if (!block && has_dying(&client->vault))
		wait_for_dying(client, spec);
	else if (!block)
		answer(client, spec, BRK_OUT_OF_MEMORY, 0, -1);
	else if (spec->host)
		offer_host(client, block);
	else
		ask_device(client, worker, block);
}

static void
try_wanted(struct brk_client *client)
{
	struct brk_block_spec spec = client->vault.wanted;

	client->vault.waiting = false;
	brk_vault_make(client, &spec);
}

int
brk_vault_chunk(struct brk_client *client, const Mps__Chunk *message)
{
	struct brk_block_spec spec = {
		.device = message->device, .size = message->size,
		.piece = message->piece, .address = message->address,
	};

	if (message->unmapped) {
		spec.what = BLOCK_MEMORY;
		spec.piece = spec.address = 0;
	}
	brk_vault_make(client, &spec);
	return 0;
}

int
brk_vault_host(struct brk_client *client, const Mps__HostMemory *message)
{
	struct brk_block_spec spec = {
		.host = true, .device = message->device,
		.size = message->size, .piece = message->piece,
		.address = message->address, .flags = message->flags,
	};

	brk_vault_make(client, &spec);
	return 0;
}

static void
ask_host(struct brk_client *client, struct brk_worker *worker,
	 struct brk_block *block)
{
	Mps__WorkerHost body = MPS__WORKER_HOST__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.client = client->id;
	body.id = block->id;
	body.address = block->spec.address;
	body.size = block->spec.size;
	body.flags = block->spec.flags;
	message.body_case = MPS__CONTROL__BODY_WORKER_HOST;
	message.worker_host = &body;
	brk_worker_ask(worker, &block->request, &message, &block->fd, 1);
}

static void
host_made(struct brk_request *request, struct brk_result *result)
{
	struct brk_block *block = brk_of(request, struct brk_block, request);
	struct brk_client *client = request->client;

	if (result->lost && client->redoes && !client->redone)
		block->state = BLOCK_OFFERED;
	else if (result->status)
		block_free(client, block);
	else
		block->state = BLOCK_LIVE;
	brk_client_done(client, result->status, result->message);
}

int
brk_vault_host_ready(struct brk_client *client, uint64_t id, uint32_t status)
{
	struct brk_block *block = brk_vault_find(client, true, id);
	struct brk_worker *worker;
	int device;

	if (!block || block->state != BLOCK_OFFERED)
		return err_origin(-EPROTO);
	device = block->spec.device;
	worker = brk_session_worker(client, block->spec.device);
	if (status || !worker || worker->generation != block->generation) {
		block_free(client, block);
		brk_client_done(client, status ? BRK_SUCCESS :
				brk_session_error(client, device), "");
		return 0;
	}
	block->state = BLOCK_MAKING;
	block->request = (struct brk_request){
		.client = client, .answered = host_made,
	};
	brk_client_later(client);
	ask_host(client, worker, block);
	return 0;
}

void
brk_vault_ask_again(struct brk_client *client, struct brk_worker *worker,
		    struct brk_block *block,
		    void (*answered)(struct brk_request *request,
				     struct brk_result *result))
{
	block->request = (struct brk_request){
		.client = client, .answered = answered,
	};
	if (block->spec.host)
		ask_host(client, worker, block);
	else if (block->spec.what == BLOCK_MAPPING)
		brk_vault_ask_mapping(client, worker, block, true);
	else
		ask_chunk(client, worker, block, true);
}

bool
brk_vault_has_arrays(const struct brk_client *client, int device)
{
	struct brk_block *block;

	LIST_FOREACH(block, &client->vault.blocks, link)
		if (block->spec.what == BLOCK_ARRAY &&
		    block->spec.device == device &&
		    block->state == BLOCK_LIVE)
			return true;
	return false;
}

static void
freed(struct brk_request *request, struct brk_result *result)
{
	/* Whatever the worker says: it has let go, or it is gone itself. */
	(void)result;
	block_gone(request->client,
		   brk_of(request, struct brk_block, request));
}

static void
ask_free(struct brk_client *client, struct brk_worker *worker,
	 struct brk_block *block)
{
	Mps__WorkerChunkFree chunk = MPS__WORKER_CHUNK_FREE__INIT;
	Mps__WorkerHostFree host = MPS__WORKER_HOST_FREE__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	if (block->spec.host) {
		host.client = client->id;
		host.id = block->id;
		message.body_case = MPS__CONTROL__BODY_WORKER_HOST_FREE;
		message.worker_host_free = &host;
	} else {
		chunk.client = client->id;
		chunk.chunk = block->id;
		message.body_case = MPS__CONTROL__BODY_WORKER_CHUNK_FREE;
		message.worker_chunk_free = &chunk;
	}
	block->state = BLOCK_DYING;
	block->request = (struct brk_request){
		.client = client, .answered = freed,
	};
	brk_worker_ask(worker, &block->request, &message, NULL, 0);
}

/* With its worker it is really gone only once that has let go. */
static void
end_block(struct brk_client *client, struct brk_block *block)
{
	struct brk_worker *worker = brk_session_worker(client,
						       block->spec.device);

	if (block->state == BLOCK_LIVE && worker &&
	    worker->generation == block->generation)
		ask_free(client, worker, block);
	else
		drop_block(client, block);
}

int
brk_vault_free(struct brk_client *client, bool host, uint64_t id)
{
	struct brk_block *block = brk_vault_find(client, host, id);

	if (!block || block->released || (block->state != BLOCK_LIVE &&
					  block->state != BLOCK_OFFERED)) {
		brk_client_done(client, BRK_INVALID_VALUE, "no such memory");
		return 0;
	}
	if (block->nmappings)
		block->released = true;
	else
		end_block(client, block);
	brk_client_done(client, BRK_SUCCESS, "");
	return 0;
}

/*
 * The worker ends a client when its neighbours have a quiet moment, and that
 * may take as long as their longest kernel. Device memory need not wait for
 * it; what is left goes with the client.
 */
void
brk_vault_leave(struct brk_client *client)
{
	struct brk_block *block;

	LIST_FOREACH(block, &client->vault.blocks, link) {
		struct brk_worker *worker;

		if (block->spec.host || block->spec.what != BLOCK_PLACED ||
		    block->state != BLOCK_LIVE)
			continue;
		worker = brk_session_worker(client, block->spec.device);
		/* One of its own ends at once. */
		if (worker && !worker->device->solo &&
		    worker->generation == block->generation)
			ask_free(client, worker, block);
	}
}

static uint64_t
minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* What it has freed is free to it, since whatever needs it waits for it; and
 * not yet to the driver, since a descriptor of it is open here. */
static uint64_t
dying_bytes(const struct brk_client *client, int device)
{
	struct brk_block *block;
	uint64_t sum = 0;

	LIST_FOREACH(block, &client->vault.blocks, link)
		if (block->state == BLOCK_DYING && !block->spec.host &&
		    !block->origin && block->spec.device == device)
			sum += charge_of(&block->spec);
	return sum;
}

static void
answer_info(struct brk_client *client, uint32_t status, uint64_t left,
	    uint64_t total)
{
	uint64_t limit = brk_tenant_limit(&client->broker->quotas,
					  client->tenant, QUOTA_DEVICE);
	uint64_t own = minus(limit, client->tenant->used[QUOTA_DEVICE]);
	Mps__MemoryInfoReply reply = MPS__MEMORY_INFO_REPLY__INIT;
	Mps__Control control = MPS__CONTROL__INIT;

	reply.status = status;
	reply.total = limit < total ? limit : total;
	reply.free = (left < own ? left : own) +
		     dying_bytes(client, client->vault.info_device);
	if (reply.free > reply.total)
		reply.free = reply.total;
	control.body_case = MPS__CONTROL__BODY_MEMORY_INFO_REPLY;
	control.memory_info_reply = &reply;
	brk_client_answer(client, &control, NULL, 0);
}

static void ask_left(struct brk_client *client, struct brk_worker *worker);

static void
info_came(struct brk_request *request, struct brk_result *result)
{
	struct brk_client *client = request->client;
	struct brk_vault *vault = &client->vault;
	struct brk_worker *worker;

	worker = brk_session_worker(client, vault->info_device);
	/* A block that went meanwhile is in that figure or is not. There are
	 * no new ones while the client waits. */
	if (!result->status && worker && client->state != CLIENT_ENDED &&
	    vault->info_ngone != vault->ngone)
		ask_left(client, worker);
	else
		answer_info(client, result->status, result->value,
			    worker ? worker->total : 0);
}

static void
ask_left(struct brk_client *client, struct brk_worker *worker)
{
	Mps__WorkerMemory body = MPS__WORKER_MEMORY__INIT;
	Mps__Control question = MPS__CONTROL__INIT;
	struct brk_vault *vault = &client->vault;

	vault->info_ngone = vault->ngone;
	vault->info = (struct brk_request){
		.client = client, .answered = info_came,
	};
	question.body_case = MPS__CONTROL__BODY_WORKER_MEMORY;
	question.worker_memory = &body;
	brk_worker_ask(worker, &vault->info, &question, NULL, 0);
}

/* The worker knows what others, and its own code, take of the device. */
int
brk_vault_info(struct brk_client *client, const Mps__MemoryInfo *message)
{
	struct brk_worker *worker = brk_session_worker(client, message->device);

	client->vault.info_device = message->device;
	if (worker) {
		brk_client_later(client);
		ask_left(client, worker);
	} else {
		answer_info(client, BRK_INVALID_CONTEXT, 0, 0);
	}
	return 0;
}

void
brk_vault_release(struct brk_client *client)
{
	struct brk_block *block;

	while ((block = LIST_FIRST(&client->vault.blocks)))
		block_free(client, block);
}

uint64_t
brk_vault_count(const struct brk_broker *broker)
{
	struct brk_client *client;
	struct brk_block *block;
	uint64_t count = 0;

	LIST_FOREACH(client, &broker->clients, link)
		LIST_FOREACH(block, &client->vault.blocks, link)
			count += !block->spec.host && block->fd >= 0;
	return count;
}
