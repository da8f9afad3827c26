/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays and mipmapped arrays as the client sees them.
 * Used by array.c, by copies and textures, and by context teardown.
 */
#ifndef SHIM_ARRAY_H
#define SHIM_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "shim/object.h"

/* Under HANDLE_ARRAY and HANDLE_MIPMAP. Constant but for `ended`. */
struct shim_array {
	struct shim_object object;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	uint64_t id;                /* the broker's; 0: a level */
	unsigned int levels;        /* of a mipmapped array */
	struct shim_array *whole;   /* of a level */
	unsigned int level;
	_Atomic bool ended;         /* being destroyed */
};

/* NULL: no live array. */
struct shim_array *shim_array_get(CUarray handle);
struct shim_array *shim_mipmap_get(CUmipmappedArray handle);
/* Bytes of one element; 0 for formats that are not plain channels. */
uint32_t shim_array_element(const struct shim_array *array);
/* A context's arrays go with it. */
void shim_array_drop_context(struct shim_context *ctx);
/* texture.c: so do its textures and surfaces. */
void shim_texture_drop_context(struct shim_context *ctx);

#endif
