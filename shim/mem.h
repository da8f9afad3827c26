/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device and pinned memory of this process.
 * Used by entry points that allocate, by context teardown, and by whatever
 * needs memory of its own.
 */
#ifndef SHIM_MEM_H
#define SHIM_MEM_H

#include <stdint.h>

#include "api_cuda.h"
#include "shim/range.h"

struct shim_context;

/* A block of device memory with its range, aligned as natively (512 bytes,
 * 2 MiB above 1 MiB, 4096 where no other is to be had).
 * CUDA_ERROR_OUT_OF_MEMORY only after what is freed but not retired has been
 * waited for. */
CUresult shim_mem_alloc(struct shim_context *ctx, uint64_t size,
			uint64_t *out_address);
/* CUDA_ERROR_INVALID_VALUE unless address is the start of a live block of
 * device or managed memory, or of an imported one of a pool. */
CUresult shim_mem_free(uint64_t address);

CUresult shim_host_alloc(struct shim_context *ctx, uint64_t size,
			 unsigned int flags, void **out_address);
CUresult shim_host_free(void *address);

/* What all kinds share; kind is RANGE_DEVICE, RANGE_PINNED or RANGE_MANAGED. */
CUresult shim_mem_add(struct shim_context *ctx, enum range_kind kind,
		      uint64_t size, unsigned int flags,
		      uint64_t *out_address);
CUresult shim_mem_remove(uint64_t address, enum range_kind kind);

/* Everything that the context still owns, when it is destroyed or reset. */
void shim_mem_drop_context(struct shim_context *ctx);

#endif
