/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that several clients hold, and what they open it by.
 * Used by client.c for their messages, by vault.c as blocks come and go.
 *
 * Shared memory counts once, for a tenant that holds it: the exporter's as
 * long as that does, then one of those who opened it, even above its limit.
 * So nobody's limit is evaded by a process that exports and ends, and nobody
 * is refused what another has already paid for.
 */
#ifndef BROKER_IPC_H
#define BROKER_IPC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/ipc.h"
#include "proto/wire.pb-c.h"
#include "server/broker/loop.h"

struct brk_block;
struct brk_block_spec;
struct brk_broker;
struct brk_client;
struct brk_tenant;

/* The memory of one descriptor. Goes with the last holder and token. */
struct brk_origin {
	LIST_ENTRY(brk_origin) link;
	LIST_HEAD(, brk_block) holders;
	unsigned int ntokens;           /* that keep it */
	int device;
	uint64_t size;
	int fd;                         /* -1 while a holder has one */
	struct brk_tenant *payer;       /* referenced */
};

/* What clients may open, by id and key. */
struct brk_export {
	LIST_ENTRY(brk_export) link;
	struct brk_broker *broker;
	uint64_t id, client;
	uint8_t key[IPC_KEY];
	struct brk_origin *origin;      /* NULL: stands for a pool */
	struct brk_block *block;        /* exporter's; with a token NULL */
	uint64_t offset, size, pool;
	int device;                     /* of the pool */
	bool closed;                    /* to whom has not opened it */
	uint64_t opened;                /* blocks that were opened by it */
	int token;                      /* our end, or -1 */
	struct brk_source source;
	struct brk_tenant *tenant;      /* counts a descriptor; referenced */
};

struct brk_ipc {
	LIST_HEAD(, brk_origin) origins;
	LIST_HEAD(, brk_export) exports;
};

int brk_ipc_export(struct brk_client *client, const Mps__Export *message);
int brk_ipc_look(struct brk_client *client, const Mps__Look *message);
int brk_ipc_import(struct brk_client *client, const Mps__Import *message);
int brk_ipc_withdraw(struct brk_client *client, const Mps__Withdraw *message);
/* The client has ended: nobody opens what was its. */
void brk_ipc_leave(struct brk_client *client);
void brk_ipc_fini(struct brk_broker *broker);

/* For vault.c. Can what spec names still be opened? */
bool brk_ipc_is_open(struct brk_broker *broker,
		     const struct brk_block_spec *spec);
/* A new block, opened by spec.share, gets its descriptor. 0 or -errno. */
int brk_ipc_join(struct brk_client *client, struct brk_block *block);
/* A block with an origin ends; what it counts is the origin's affair. */
void brk_ipc_part(struct brk_broker *broker, struct brk_block *block);

#endif
