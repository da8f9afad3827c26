/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault: descriptors of every client's device chunks and pinned memory.
 * Used by client.c, which passes messages here.
 *
 * A descriptor alone keeps device memory alive (measured), so what is in
 * here survives the worker's death at its addresses.
 */
#ifndef BROKER_VAULT_H
#define BROKER_VAULT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/wire.pb-c.h"
#include "server/broker/worker.h"

struct brk_client;
struct brk_origin;
struct brk_tenant;

enum brk_block_state {
	BLOCK_OFFERED,          /* pinned: client has yet to map it */
	BLOCK_MAKING,           /* worker has yet to answer */
	BLOCK_LIVE,
	BLOCK_DYING,            /* freed; mapped until its work retired */
};

enum brk_block_what {
	BLOCK_PLACED,           /* memory at an address */
	BLOCK_MEMORY,           /* device memory without one */
	BLOCK_MAPPING,          /* a BLOCK_MEMORY at an address */
	BLOCK_ARRAY,            /* of the worker's driver; has no descriptor */
};

struct brk_array {
	uint64_t width, height, depth;
	uint32_t format, channels, flags, levels;
};

/* What a block is to be. */
struct brk_block_spec {
	bool host;
	enum brk_block_what what;
	int device;
	uint64_t size, piece, address;
	uint32_t flags;
	uint64_t of;                    /* MAPPING: the memory's id */
	uint64_t share;                 /* the export that it is opened by */
	struct brk_array array;         /* ARRAY */
};

struct brk_block {
	LIST_ENTRY(brk_block) link;
	uint64_t id;
	struct brk_block_spec spec;
	enum brk_block_state state;
	uint64_t generation;            /* of the worker that has it mapped */
	int fd;                         /* -1 until there is one */
	unsigned int nmappings;         /* MEMORY: of it */
	bool released;                  /* … and freed once there is none */
	bool open;                      /* MAPPING: kernels may use it */
	bool opened;                    /* … in this worker, too (move.c) */
	/* Held by others too (ipc.h): what it counts is counted there. */
	struct brk_origin *origin;
	LIST_ENTRY(brk_block) holder;
	struct brk_tenant *tenant;
	struct brk_request request;
	uint64_t ngone;                 /* the vault's, when it was asked */
};

/* A client's part of the vault. */
struct brk_vault {
	LIST_HEAD(, brk_block) blocks;
	uint64_t device_bytes, host_bytes;
	unsigned int nchunks;
	uint64_t ngone;                 /* device blocks, ever */
	/* A question that waits until a dying block is gone. */
	bool waiting;
	struct brk_block_spec wanted;
	struct brk_request info;        /* MemoryInfo, which waits, too */
	int info_device;
	uint64_t info_ngone;            /* when it was asked */
};

int brk_vault_chunk(struct brk_client *client, const Mps__Chunk *message);
int brk_vault_mapping(struct brk_client *client, const Mps__Mapping *message);
int brk_vault_access(struct brk_client *client, const Mps__Access *message);
int brk_vault_array(struct brk_client *client, const Mps__Array *message);
/* array.c: bytes that it counts; 0: there is no such array. */
uint64_t brk_array_bytes(const struct brk_array *array);
int brk_vault_host(struct brk_client *client,
		   const Mps__HostMemory *message);
int brk_vault_host_ready(struct brk_client *client, uint64_t id,
			 uint32_t status);
int brk_vault_free(struct brk_client *client, bool host, uint64_t id);
int brk_vault_info(struct brk_client *client, const Mps__MemoryInfo *message);
/* Has it arrays on that device? */
bool brk_vault_has_arrays(const struct brk_client *client, int device);
/* Another worker: the same block at the same address, access to it. */
void brk_vault_ask_again(struct brk_client *client, struct brk_worker *worker,
			 struct brk_block *block,
			 void (*answered)(struct brk_request *request,
					  struct brk_result *result));
void brk_vault_ask_access(struct brk_client *client,
			  struct brk_worker *worker, struct brk_block *block,
			  void (*answered)(struct brk_request *request,
					   struct brk_result *result));
/* The client has ended and its worker is not told yet. */
void brk_vault_leave(struct brk_client *client);
void brk_vault_release(struct brk_client *client);
/* Descriptors of device memory in all vaults. */
uint64_t brk_vault_count(const struct brk_broker *broker);

#endif
