/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays, textures, surfaces.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_TEX_H
#define SERVER_SOFT_SOFT_TEX_H

#include "server/soft/soft_work.h"

/* Linear memory, row after row: no swizzle to hide mistakes behind. */
struct soft_array {
	struct soft_ctx *ctx;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	unsigned element;          /* bytes of a texel */
	size_t pitch;              /* bytes of a row */
	size_t rows, slices;       /* at least 1 */
	size_t charged;            /* bytes */
	char *data;
	struct soft_array *next;   /* of all arrays */
};

struct soft_array *soft_array_from(CUarray handle);
/* The array as one side of a copy. */
bool soft_array_side(CUarray handle, struct soft_copy_side *side);
void soft_arrays_destroy(struct soft_ctx *ctx);
unsigned soft_format_bytes(CUarray_format format);

/* ptx_env.texture, ptx_env.surface */
bool soft_tex_fetch(void *ctx, uint64_t tex, int geom, bool is_float,
		    const uint32_t coord[4], float lod, uint32_t out[4]);
bool soft_surf_access(void *ctx, uint64_t surf, int geom, bool is_store,
		      const int32_t coord[4], int clamp, unsigned bytes,
		      void *data);

#endif
