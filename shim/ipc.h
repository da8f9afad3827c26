/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory shared with other processes of the same broker.
 * Used by entry points that share, and by what frees and lacks memory.
 */
#ifndef SHIM_IPC_H
#define SHIM_IPC_H

#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "proto/ipc.h"

struct shim_context;
struct shim_mempool;
struct shim_range;

/* What another process has exported. */
struct shim_ipc_look {
	uint64_t client, pool;
	int device;                   /* as this process sees it; -1: not */
	uint64_t chunk_size, offset, size;
};

/* ---- ipc_ask.c: questions to the broker ---- */

/* Bytes of a chunk of ours, as `kind`; pool: a number of ours, or 0. */
CUresult shim_ipc_export_block(enum ipc_kind kind, uint64_t chunk,
			       uint64_t offset, uint64_t size, uint64_t pool,
			       struct ipc_handle *out_handle);
/* Tokens, which are the caller's: of memory without an address, of a pool. */
CUresult shim_ipc_export_memory(uint64_t chunk, uint64_t size, int *out_fd);
CUresult shim_ipc_export_pool(int device, uint64_t pool, int *out_fd);
/* Is it one of ours, of that kind? */
bool shim_ipc_is(const struct ipc_handle *handle, enum ipc_kind kind);
/* The handle in a token. CUDA_ERROR_INVALID_VALUE: it is none. */
CUresult shim_ipc_token(int fd, enum ipc_kind kind,
			struct ipc_handle *out_handle);
CUresult shim_ipc_look(const struct ipc_handle *handle,
		       struct shim_ipc_look *out);
/* Its memory at an address of a piece; piece 0: without an address. */
CUresult shim_ipc_import(const struct ipc_handle *handle, uint64_t piece,
			 uint64_t address, uint64_t *out_chunk);
/* Nobody opens it any more. True: somebody has it open; *out_closing: and has
 * closed it, as far as he goes. */
bool shim_ipc_withdraw(uint64_t id, bool *out_closing);
/* Chunks, memory and mappings of ours end. */
CUresult shim_ipc_free(uint64_t chunk);

/* ---- ipc.c ---- */

/* The handle for a block of ours, the same each time. */
CUresult shim_ipc_share(const struct shim_range *range, enum ipc_kind kind,
			struct ipc_handle *out_handle);
/*
 * The block has been freed. True: somebody still has it open, and it is kept
 * until nobody has. That is found out when memory lacks and when other blocks
 * are freed.
 */
bool shim_ipc_keep(const struct shim_range *range);
/* Free kept blocks that nobody has open; wait a little for those that are
 * being closed. True: there was one. */
bool shim_ipc_sweep(void);

/* Memory of another process, for as many times as it is opened. pool: that
 * it is of, or NULL. */
CUresult shim_ipc_open(struct shim_context *ctx,
		       const struct ipc_handle *handle,
		       struct shim_mempool *pool, uint64_t *out_address);
/* CUDA_ERROR_INVALID_VALUE unless it was opened so. */
CUresult shim_ipc_close(uint64_t address, bool of_pool);
void shim_ipc_drop_context(struct shim_context *ctx);

#endif
