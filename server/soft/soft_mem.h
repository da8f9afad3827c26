/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the software device: what is mapped where.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_MEM_H
#define SERVER_SOFT_SOFT_MEM_H

#include "server/soft/soft_ctx.h"

enum soft_range_kind {
	SOFT_RANGE_DEVICE,     /* cuMemAlloc */
	SOFT_RANGE_MANAGED,
	SOFT_RANGE_HOST,       /* cuMemHostAlloc */
	SOFT_RANGE_REGISTERED, /* cuMemHostRegister */
	SOFT_RANGE_VMM,        /* one cuMemMap with access */
	SOFT_RANGE_SYMBOL,     /* variables of a module */
	SOFT_RANGE_POOL,       /* cuMemAllocAsync */
	SOFT_RANGE_HEAP,       /* device heap: kernels only */
};

struct soft_mempool;

struct soft_range {
	uint64_t base, end;        /* [base, end) may be accessed */
	enum soft_range_kind kind;
	bool writable;
	struct soft_ctx *ctx;      /* NULL: VMM, of the device */
	struct soft_device *device;
	unsigned flags;            /* host memory: as asked for */
	uint64_t id;               /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	void *map;                 /* to unmap with the range, or NULL */
	size_t map_size;           /* bytes */
	size_t charged;            /* bytes of device memory */
	struct soft_mempool *pool;
	bool freeing;              /* pool: a free is in some stream */
	bool sync_memops;
};

/* Partner of ptx_env.generation. */
extern _Atomic uint64_t soft_mem_generation;

/* SOFTCUDA_FAULT alloc: this allocation is the one to refuse. */
bool soft_mem_fails(void);
bool soft_mem_charge(struct soft_device *dev, size_t size);
void soft_mem_uncharge(struct soft_device *dev, size_t size);

/* Takes over range on success. */
bool soft_range_add(struct soft_range *range);
/* A copy of the range that holds addr. */
bool soft_range_find(uint64_t addr, struct soft_range *out_range);
/* Overlap with [base, end)? */
bool soft_range_overlaps(uint64_t base, uint64_t end);
/*
 * Take out the range that starts at base and is of this kind; NULL when
 * there is none. The caller owns it; no thread uses it any more.
 */
struct soft_range *soft_range_take(uint64_t base, enum soft_range_kind kind);
/* Unmap, uncharge, free. */
void soft_range_free(struct soft_range *range);
/* [addr, addr + size) is mapped throughout, for writing if asked. */
bool soft_mem_check(uint64_t addr, size_t size, bool write);
/* ptx_env.range */
bool soft_mem_lookup(void *ctx, uint64_t addr, uint64_t *out_base,
		     uint64_t *out_end, bool *out_writable);
/* For each range of the table, under its lock. */
void soft_range_each(bool (*use)(struct soft_range *range, void *arg),
		     void *arg);

/* New anonymous device memory of ctx as a range of this kind. */
CUresult soft_mem_new(struct soft_ctx *ctx, enum soft_range_kind kind,
		      size_t size, struct soft_range **out_range);
/* Everything that belongs to the context. */
void soft_mem_destroy(struct soft_ctx *ctx);

/* soft_heap.c */
bool soft_heap_resize(struct soft_ctx *ctx, size_t size);
uint64_t soft_heap_alloc(void *ctx, size_t size);
void soft_heap_free(void *ctx, uint64_t addr);

/* soft_mempool.c */
CUresult soft_mempool_free_run(uint64_t addr);
void soft_mempool_range_gone(struct soft_range *range);

/* soft_vmm.c: the handle behind a VMM address, for pointer attributes. */
bool soft_vmm_handle_types(uint64_t addr, unsigned *out_types);

#endif
