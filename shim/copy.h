/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What copies of all shapes share.
 * Used by memcpy.c, which has it, and box.c.
 */
#ifndef SHIM_COPY_H
#define SHIM_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"

struct shim_context;

/* What an address means for a copy. */
enum shim_place {
	PLACE_PAGEABLE,
	PLACE_STAGED,   /* pinned, but the worker does not reach it */
	PLACE_PINNED,
	PLACE_DEVICE,
};

static inline bool
shim_is_staged(enum shim_place place)
{
	return place == PLACE_PAGEABLE || place == PLACE_STAGED;
}

/* CUDA_ERROR_INVALID_VALUE when only a part of it is CUDA's. */
CUresult shim_copy_place(const struct shim_context *ctx, uint64_t address,
			 uint64_t size, enum shim_place *out_place);
/* Staging memory for a piece of a copy on that stream, once there is some. */
CUresult shim_copy_stage(struct shim_context *ctx, uint64_t stream,
			 uint32_t size, uint32_t *out_offset);

#endif
