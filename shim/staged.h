/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of pageable memory, which pass through a channel's staging memory.
 * Used by memcpy.c, and box.c for its own pieces.
 */
#ifndef SHIM_STAGED_H
#define SHIM_STAGED_H

#include <stdint.h>

#include "api_cuda.h"

struct shim_context;

/* `host` is the program's own memory, `device` what the worker reaches. */
struct shim_staged {
	struct shim_context *ctx;
	uint64_t stream;
	uint64_t device, host, size;
};

/* Taken when it returns; on the device in the stream's turn. */
CUresult shim_staged_in(const struct shim_staged *copy);
/* The bytes are there when it returns. */
CUresult shim_staged_out(const struct shim_staged *copy);

/* Staging memory for a piece of a copy on that stream, once there is some.
 * Who holds a piece that the GPU has not got yet must not ask for another. */
CUresult shim_staged_take(struct shim_context *ctx, uint64_t stream,
			  uint32_t size, uint32_t *out_offset);

#endif
