/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sub-allocation of chunks: one heap for device memory, one for pinned memory.
 * Used by supply.c, which brings the chunks and the lock. Knows no broker and
 * never touches the memory that it hands out.
 *
 * A freed block is not reused before everything that the client had posted
 * at the free has retired: natively cuMemFree waits for that, here it is only
 * remembered. A chunk without live blocks is kept for a second, in case the
 * program allocates in a loop, as long as such chunks are few; then it goes
 * back (to the broker, which waits for retirement itself).
 */
#ifndef SHIM_HEAP_H
#define SHIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* Measured natively on an H200: small blocks, up to 1 MiB, lie 512 bytes
 * apart. Larger ones begin on a 2 MiB page; here on a small page where nothing
 * else is to be had. */
#define HEAP_ALIGN 512u
#define HEAP_SMALL (UINT64_C(1) << 20)
#define HEAP_BIG_ALIGN (UINT64_C(2) << 20)
#define HEAP_LEAST_BIG_ALIGN UINT64_C(4096)
/* Empty chunks that may be kept, in bytes and time. */
#define HEAP_KEEP (UINT64_C(64) << 20)
#define HEAP_KEEP_NS UINT64_C(1000000000)
#define HEAP_BINS 48

struct shim_heap_ops {
	/* A chunk of exactly `size` bytes. 0, HEAP_E_FULL, -errno. */
	int (*grow)(void *owner, uint64_t size, uint64_t *out_address,
		    uint64_t *out_id);
	void (*shrink)(void *owner, uint64_t address, uint64_t size,
		       uint64_t id);
	/* Frames up to this number are finished. Never falls. */
	uint64_t (*retired)(void *owner);
	uint64_t (*now_ns)(void *owner);
};

enum shim_block_state { BLOCK_FREE, BLOCK_LIVE, BLOCK_PENDING };

struct shim_chunk;

struct shim_block {
	uint64_t address, size;
	struct shim_chunk *chunk;
	struct shim_block *prev, *next;   /* neighbours by address */
	struct shim_block *before, *after; /* in its bin, or among the
					    * pending, oldest first */
	uint64_t seq;                     /* PENDING: waits for this */
	enum shim_block_state state;
};

struct shim_chunk {
	uint64_t address, size, id;
	uint64_t live;                    /* bytes in live blocks */
	uint64_t empty_ns;                /* when live became 0 */
	struct shim_block *first;
	struct shim_chunk *before, *after; /* among the empty, oldest first */
};

struct shim_heap {
	const struct shim_heap_ops *ops;
	void *owner;
	uint64_t granule;                 /* chunk sizes are multiples of it */
	uint64_t classes[4];              /* chunk sizes for small blocks … */
	uint64_t part;                    /* … the larger ones once that many
					   * of the size are held */
	uint64_t held, live, empty;       /* bytes: in chunks, in live blocks,
					   * in empty chunks */
	uint32_t nchunks;
	struct shim_block *bins[HEAP_BINS];
	struct shim_block *pending, *pending_last;
	struct shim_chunk *idle, *idle_last;
};

enum {
	HEAP_E_FULL = 1,   /* no chunk to be had */
};

void shim_heap_init(struct shim_heap *heap, const struct shim_heap_ops *ops,
		    void *owner, uint64_t granule, const uint64_t classes[4],
		    uint64_t part);
/* 0; HEAP_E_FULL; -ENOMEM for want of memory of our own. */
int shim_heap_alloc(struct shim_heap *heap, uint64_t size,
		    struct shim_block **out_block);
/* What the client has posted up to seq may still use the block. */
void shim_heap_free(struct shim_heap *heap, struct shim_block *block,
		    uint64_t seq);
/* Make retired blocks free; give back chunks that were empty for long. */
void shim_heap_tick(struct shim_heap *heap);
/* Give back every empty chunk. True when there was one. */
bool shim_heap_trim(struct shim_heap *heap);
/* What the oldest freed block waits for; false: none waits. */
bool shim_heap_oldest(const struct shim_heap *heap, uint64_t *out_seq);

/* Bytes of chunks in which no live block lies, in whole granules: what blocks
 * of any size can still have of what is held. */
uint64_t shim_heap_spare(const struct shim_heap *heap);

#endif
