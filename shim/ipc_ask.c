/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing, as the broker is asked. Keys come from there and are known to
 * whoever was given the handle; a token is a socket in which the handle waits
 * and which nobody writes to.
 */
#include <string.h>
#include <sys/socket.h>

#include "shim/ipc.h"
#include "shim/process.h"
#include "shim/supply.h"

static ProtobufCBinaryData
key_of(const struct ipc_handle *handle)
{
	return (ProtobufCBinaryData){
		.data = (uint8_t *)handle->key, .len = IPC_KEY,
	};
}

static CUresult
take_export(const Mps__ExportReply *reply, enum ipc_kind kind,
	    struct ipc_handle *out)
{
	if (reply->status)
		return (CUresult)reply->status;
	if (reply->key.len != IPC_KEY)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	*out = (struct ipc_handle){
		.magic = IPC_MAGIC, .kind = kind, .id = reply->id,
		.client = shim_process.hello->client,
	};
	memcpy(out->key, reply->key.data, IPC_KEY);
	return CUDA_SUCCESS;
}

/* out_fd: a token comes along, else NULL. */
static CUresult
ask_export(Mps__Export *body, enum ipc_kind kind,
	   struct ipc_handle *out_handle, int *out_fd)
{
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	CUresult r;

	body->token = out_fd != NULL;
	message.body_case = MPS__CONTROL__BODY_EXPORT;
	message.export = body;
	r = shim_supply_ask(&message, MPS__CONTROL__BODY_EXPORT_REPLY, &answer,
			    out_fd);
	if (r != CUDA_SUCCESS)
		return r;
	r = take_export(answer->export_reply, kind, out_handle);
	mps__control__free_unpacked(answer, NULL);
	if (r == CUDA_SUCCESS && out_fd && *out_fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	return r;
}

CUresult
shim_ipc_export_block(enum ipc_kind kind, uint64_t chunk, uint64_t offset,
		      uint64_t size, uint64_t pool,
		      struct ipc_handle *out_handle)
{
	Mps__Export body = MPS__EXPORT__INIT;

	body.chunk = chunk;
	body.offset = offset;
	body.size = size;
	body.pool = pool;
	return ask_export(&body, kind, out_handle, NULL);
}

CUresult
shim_ipc_export_memory(uint64_t chunk, uint64_t size, int *out_fd)
{
	Mps__Export body = MPS__EXPORT__INIT;
	struct ipc_handle in_token;

	body.chunk = chunk;
	body.size = size;
	return ask_export(&body, IPC_TOKEN_MEMORY, &in_token, out_fd);
}

CUresult
shim_ipc_export_pool(int device, uint64_t pool, int *out_fd)
{
	Mps__Export body = MPS__EXPORT__INIT;
	struct ipc_handle in_token;

	body.device = shim_process.devices[device].real;
	body.pool = pool;
	return ask_export(&body, IPC_TOKEN_POOL, &in_token, out_fd);
}

bool
shim_ipc_is(const struct ipc_handle *handle, enum ipc_kind kind)
{
	static const uint8_t zero[sizeof(handle->zero)];

	return handle->magic == IPC_MAGIC && handle->kind == kind &&
	       !memcmp(handle->zero, zero, sizeof(zero));
}

CUresult
shim_ipc_token(int fd, enum ipc_kind kind, struct ipc_handle *out_handle)
{
	ssize_t n = recv(fd, out_handle, sizeof(*out_handle),
			 MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);

	return n == (ssize_t)sizeof(*out_handle) &&
	       shim_ipc_is(out_handle, kind) ? CUDA_SUCCESS :
					       CUDA_ERROR_INVALID_VALUE;
}

static int
visible(int real)
{
	for (int i = 0; i < shim_process.ndevices; i++)
		if (shim_process.devices[i].real == real)
			return i;
	return -1;
}

CUresult
shim_ipc_look(const struct ipc_handle *handle, struct shim_ipc_look *out)
{
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__Look body = MPS__LOOK__INIT;
	const Mps__LookReply *reply;
	CUresult r;

	body.id = handle->id;
	body.key = key_of(handle);
	message.body_case = MPS__CONTROL__BODY_LOOK;
	message.look = &body;
	r = shim_supply_ask(&message, MPS__CONTROL__BODY_LOOK_REPLY, &answer,
			    NULL);
	if (r != CUDA_SUCCESS)
		return r;
	reply = answer->look_reply;
	r = (CUresult)reply->status;
	*out = (struct shim_ipc_look){
		.client = reply->client, .pool = reply->pool,
		.device = visible(reply->device),
		.chunk_size = reply->chunk_size, .offset = reply->offset,
		.size = reply->size,
	};
	mps__control__free_unpacked(answer, NULL);
	return r;
}

CUresult
shim_ipc_import(const struct ipc_handle *handle, uint64_t piece,
		uint64_t address, uint64_t *out_chunk)
{
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__Import body = MPS__IMPORT__INIT;
	CUresult r;

	body.id = handle->id;
	body.key = key_of(handle);
	body.piece = piece;
	body.address = address;
	body.unmapped = !piece;
	message.body_case = MPS__CONTROL__BODY_IMPORT;
	message.import = &body;
	r = shim_supply_ask(&message, MPS__CONTROL__BODY_CHUNK_REPLY, &answer,
			    NULL);
	if (r != CUDA_SUCCESS)
		return r;
	r = (CUresult)answer->chunk_reply->status;
	*out_chunk = answer->chunk_reply->chunk;
	mps__control__free_unpacked(answer, NULL);
	return r;
}

bool
shim_ipc_withdraw(uint64_t id, bool *out_closing)
{
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__Withdraw body = MPS__WITHDRAW__INIT;
	bool opened;

	*out_closing = false;
	body.id = id;
	message.body_case = MPS__CONTROL__BODY_WITHDRAW;
	message.withdraw = &body;
	/* Without a broker nobody has anything. */
	if (shim_supply_ask(&message, MPS__CONTROL__BODY_WITHDRAW_REPLY,
			    &answer, NULL) != CUDA_SUCCESS)
		return false;
	opened = answer->withdraw_reply->opened;
	*out_closing = answer->withdraw_reply->closing;
	mps__control__free_unpacked(answer, NULL);
	return opened;
}

CUresult
shim_ipc_free(uint64_t chunk)
{
	Mps__Control message = MPS__CONTROL__INIT;
	Mps__ChunkFree body = MPS__CHUNK_FREE__INIT;

	body.chunk = chunk;
	message.body_case = MPS__CONTROL__BODY_CHUNK_FREE;
	message.chunk_free = &body;
	return shim_ask_back(&message, "shared memory");
}
