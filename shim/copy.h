/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What copies of all shapes share.
 * Used by memcpy*.c, which have it, and box.c.
 */
#ifndef SHIM_COPY_H
#define SHIM_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"

struct shim_context;
struct shim_stream;

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

/* CUDA_ERROR_INVALID_VALUE when only a part of it is CUDA's. The address
 * becomes the one that the worker knows it by, which is as good here. */
CUresult shim_copy_place(const struct shim_context *ctx, uint64_t *address,
			 uint64_t size, enum shim_place *out_place);
struct box;
/* box.c. A copy with an array at an end, checked: as the worker takes it, but
 * for pageable memory, of which the places tell. */
CUresult shim_copy_box(const CUDA_MEMCPY3D *m, struct box *out,
		       enum shim_place *out_to, enum shim_place *out_from);
/* Has the program asked for CU_POINTER_ATTRIBUTE_SYNC_MEMOPS there? */
bool shim_copy_is_synchronous(uint64_t address);
/* A copy in a context's own stream that is over when the call returns. */
CUresult shim_copy_now(struct shim_context *ctx, uint64_t dst, uint64_t src,
		       uint64_t size);
/* cuMemcpyAsync, whose source is read as `order` says. */
CUresult shim_copy_ordered(CUstream stream, uint64_t dst, uint64_t src,
			   uint64_t size, CUmemcpySrcAccessOrder order);
/* memcpy_peer.c: memory of another device, and a copy that touches some. */
bool shim_copy_is_foreign(const struct shim_context *ctx, uint64_t address);
CUresult shim_copy_foreign(struct shim_stream *stream, uint64_t dst,
			   uint64_t src, uint64_t size);

#endif
