/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client-minted handles: what a CUstream, CUevent … of a client is made of.
 * Used by the shim, which mints them, and by the worker, which looks them up.
 *
 * A handle is 64 bits: kind, generation and index. It is never an address,
 * so nothing can be read through it, and a freed or forged one is told from
 * a live one without touching memory. Bit 55 is always set: no handle equals
 * NULL, CU_STREAM_LEGACY (1), CU_STREAM_PER_THREAD (2) or a user-space
 * pointer. Values that kernels can see (texture and surface objects, device
 * pointers) are never minted here.
 */
#ifndef PROTO_HANDLE_H
#define PROTO_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum handle_kind {
	HANDLE_NONE,
	HANDLE_CONTEXT,
	HANDLE_MODULE,
	HANDLE_FUNCTION,
	HANDLE_LIBRARY,
	HANDLE_KERNEL,
	HANDLE_STREAM,
	HANDLE_EVENT,
	HANDLE_GRAPH,
	HANDLE_NODE,
	HANDLE_EXEC,
	HANDLE_ARRAY,
	HANDLE_MIPMAP,
	HANDLE_POOL,
	HANDLE_MEMORY,     /* CUmemGenericAllocationHandle */
	HANDLE_LINK,
	HANDLE_GREEN,
	HANDLE_USER,       /* CUuserObject */
	HANDLE_KIND_COUNT
};

#define HANDLE_INDEX_BITS 24u
#define HANDLE_INDEX_MAX ((1u << HANDLE_INDEX_BITS) - 1u)
#define HANDLE_GENERATION_BITS 24u
#define HANDLE_KIND_SHIFT 48u
#define HANDLE_MARK (UINT64_C(1) << 55)

static inline uint64_t
handle_make(enum handle_kind kind, uint32_t index, uint32_t generation)
{
	generation &= (1u << HANDLE_GENERATION_BITS) - 1u;
	return HANDLE_MARK | (uint64_t)kind << HANDLE_KIND_SHIFT |
	       (uint64_t)generation << HANDLE_INDEX_BITS | index;
}

static inline enum handle_kind
handle_kind(uint64_t handle)
{
	uint64_t kind = handle >> HANDLE_KIND_SHIFT & 0x7f;

	if ((handle >> 55) != 1 || kind >= HANDLE_KIND_COUNT)
		return HANDLE_NONE;
	return (enum handle_kind)kind;
}

static inline uint32_t
handle_index(uint64_t handle)
{
	return (uint32_t)(handle & HANDLE_INDEX_MAX);
}

static inline uint32_t
handle_generation(uint64_t handle)
{
	return (uint32_t)(handle >> HANDLE_INDEX_BITS) &
	       ((1u << HANDLE_GENERATION_BITS) - 1u);
}

/*
 * A table of objects by handle. Look-ups take no lock: slots live in blocks
 * that never move and never go away, and a slot is published with release
 * order (pairs with the acquire in handle_get). Adding and removing are
 * serialised by the caller. The object is the caller's; the table only
 * refers to it, and who frees an object must know that nobody looks it up.
 */
#define HANDLE_BLOCK_BITS 10u
#define HANDLE_BLOCK_SLOTS (1u << HANDLE_BLOCK_BITS)
#define HANDLE_BLOCKS (1u << (HANDLE_INDEX_BITS - HANDLE_BLOCK_BITS))

struct handle_slot {
	_Atomic uint64_t handle;   /* 0: free */
	_Atomic(void *) object;
	uint32_t generation;       /* of the last handle minted here */
	uint32_t next_free;        /* index + 1 of the next free slot */
};

struct handle_table {
	_Atomic(struct handle_slot *) blocks[HANDLE_BLOCKS];
	uint32_t high;             /* slots ever used */
	uint32_t free;             /* index + 1 */
	uint32_t counts[HANDLE_KIND_COUNT];
};

int handle_table_create(struct handle_table **out_table);
struct handle_table *handle_table_destroy(struct handle_table *table);

/* Mint a handle for object (shim). 0 or -ENOMEM, -ENFILE when 2^24 live. */
int handle_add(struct handle_table *table, enum handle_kind kind,
	       void *object, uint64_t *out_handle);
/* Register object under a handle minted elsewhere (worker). -EEXIST when
 * the slot is taken, -EINVAL when handle is no handle of this kind. */
int handle_put(struct handle_table *table, enum handle_kind kind,
	       uint64_t handle, void *object);
/* The slot of an index, or NULL when none was ever used near it. */
static inline struct handle_slot *
handle_slot(const struct handle_table *table, uint32_t index)
{
	/* Acquire: pairs with the release in make_slot. */
	struct handle_slot *block = atomic_load_explicit(
		&((struct handle_table *)table)->blocks[
			index >> HANDLE_BLOCK_BITS],
		memory_order_acquire);

	return block ? &block[index & (HANDLE_BLOCK_SLOTS - 1)] : NULL;
}

/* The object, or NULL: not a handle, another kind, freed, never made. Inline:
 * a launch looks up two. */
static inline void *
handle_get(const struct handle_table *table, enum handle_kind kind,
	   uint64_t handle)
{
	struct handle_slot *slot;
	void *object;

	/* Mark, kind, and nothing above them. */
	if (handle >> HANDLE_KIND_SHIFT !=
	    (HANDLE_MARK >> HANDLE_KIND_SHIFT | kind) || kind == HANDLE_NONE)
		return NULL;
	slot = handle_slot(table, handle_index(handle));
	/* Acquire: pairs with publish. */
	if (!slot || atomic_load_explicit(&slot->handle,
					  memory_order_acquire) != handle)
		return NULL;
	/* The slot may have been freed and reused between the two loads. Who
	 * reads the next object sees that this handle has gone: acquire, pairs
	 * with the release of every store there. */
	object = atomic_load_explicit(&slot->object, memory_order_acquire);
	if (atomic_load_explicit(&slot->handle, memory_order_relaxed) !=
	    handle)
		return NULL;
	return object;
}
/* Forget the handle and return its object, or NULL as handle_get. */
void *handle_remove(struct handle_table *table, enum handle_kind kind,
		    uint64_t handle);
/* Walk: the first object at or after *cursor; advances it. NULL at the end. */
void *handle_next(const struct handle_table *table, uint32_t *cursor,
		  uint64_t *out_handle);
uint32_t handle_count(const struct handle_table *table, enum handle_kind kind);

#endif
