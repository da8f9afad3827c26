/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the vault.
 * Used by vault.c, mapping.c and ipc.c alone.
 */
#ifndef BROKER_VAULT_OWN_H
#define BROKER_VAULT_OWN_H

#include "server/broker/vault.h"

/* Check, charge, and have the worker make it; the client hears. */
void brk_vault_make(struct brk_client *client,
		    const struct brk_block_spec *spec);
/* One of the client's blocks, or NULL. */
struct brk_block *brk_vault_find(struct brk_client *client, bool host,
				 uint64_t id);
/* The question that makes the block; its answer is the client's. */
void brk_vault_ask(struct brk_client *client, struct brk_worker *worker,
		   struct brk_block *block, Mps__Control *message,
		   bool wants_fd);
/* again: block->request is set, and not the client's question. */
void brk_vault_ask_mapping(struct brk_client *client,
			   struct brk_worker *worker,
			   struct brk_block *block, bool again);
void brk_vault_ask_array(struct brk_client *client, struct brk_worker *worker,
			 struct brk_block *block);

#endif
