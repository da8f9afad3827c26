/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interval map of everything a device address of this process can mean.
 * Used by memory, copies, pointer queries and (for module globals) modules.
 *
 * It answers alone what natively the driver knows of a pointer: the block
 * that the application asked for, not the chunk that it lies in.
 */
#ifndef SHIM_RANGE_H
#define SHIM_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct shim_context;
struct shim_mempool;

enum range_kind {
	RANGE_DEVICE,   /* cuMemAlloc and kin */
	RANGE_PINNED,   /* cuMemHostAlloc and kin */
	RANGE_GLOBAL,   /* variable of a loaded module */
	RANGE_MAPPED,   /* cuMemMap; block is vmm.c's */
	RANGE_MANAGED,  /* cuMemAllocManaged: pinned memory, but for its name */
	RANGE_REGISTERED, /* the program's own, cuMemHostRegister; block is
			   * register.c's */
	RANGE_ALIAS,    /* what kernels have for a registered one */
	RANGE_OPENED,   /* of another process; block is ipc.c's */
	RANGE_GRAPH,    /* of memory nodes: graph_mem.c */
};

struct shim_range {
	uint64_t start, size;       /* as asked for; never overlap */
	enum range_kind kind;
	int device;
	unsigned int flags;         /* of the allocating call */
	struct shim_context *ctx;
	uint64_t owner;             /* GLOBAL: module handle; else 0 */
	void *block;                /* the allocator's own; else NULL */
	uint64_t other;             /* REGISTERED: its alias or 0; ALIAS: what
				     * it is the alias of */
	uint64_t buffer_id;         /* unique in this process (BUFFER_ID) */
	bool sync_memops;
	bool closed;                /* MAPPED: without access, unknown */
	struct shim_mempool *pool;  /* DEVICE, OPENED: that it is of, or NULL */
	unsigned int handle_types;  /* that it can be exported by */
};

/* Is it memory of the host? */
static inline bool
shim_range_is_host(const struct shim_range *range)
{
	return range->kind == RANGE_PINNED || range->kind == RANGE_MANAGED ||
	       range->kind == RANGE_REGISTERED || range->kind == RANGE_ALIAS;
}

enum {
	RANGE_E_NONE = 1,       /* no such range */
	RANGE_E_OVERLAP,
};

/* Copies *range and mints its buffer_id. 0, RANGE_E_OVERLAP, -ENOMEM. */
int shim_range_add(const struct shim_range *range);
/* The range that holds address. 0 or RANGE_E_NONE. */
int shim_range_find(uint64_t address, struct shim_range *out_range);
/* The same, and how far the range goes from address on; mappings next to each
 * other count as one, as far as `size`. */
int shim_range_reach(uint64_t address, uint64_t size,
		     struct shim_range *out_range, uint64_t *out_left);
/* A mapping has been given access. */
int shim_range_open(uint64_t start);
/* Forget the range that starts at `start`, is of this kind, and say what it
 * was. 0 or RANGE_E_NONE; of two racing callers one gets RANGE_E_NONE. */
int shim_range_remove(uint64_t start, enum range_kind kind,
		      struct shim_range *out_range);
/* Any range of this context and kind (owner not 0: and this owner), removed
 * from the map. 0 or RANGE_E_NONE. */
int shim_range_remove_any(struct shim_context *ctx, enum range_kind kind,
			  uint64_t owner, struct shim_range *out_range);
int shim_range_set_sync_memops(uint64_t address, bool on);
/* A registered range has got an alias. */
int shim_range_set_alias(uint64_t start, uint64_t alias, void *block);

#endif
