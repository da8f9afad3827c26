/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an array counts. Its driver alone knows what it takes; this is at
 * least that on every device seen: rows and slices rounded up as they are
 * stored in blocks, the whole to pages of 64 KiB.
 */
#include "server/broker/vault.h"

#define PAGE (UINT64_C(64) << 10)
/* Bytes of a row, rows of a slice that are stored together. */
#define BLOCK_ROW 64u
#define BLOCK_ROWS 8u
/* No array has more of any. */
#define SIDE_MAX (UINT64_C(1) << 32)
/* CUDA_ARRAY3D_LAYERED and CUDA_ARRAY3D_CUBEMAP: depth counts layers, which
 * mipmaps do not halve. */
#define LAYERED 0x01u
#define CUBEMAP 0x04u

static uint64_t
round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* Of one channel. Formats of fixed numbers of channels and compressed ones
 * have numbers beyond these, and none needs more. */
static uint64_t
format_bytes(uint32_t format)
{
	switch (format) {
	case 0x01:      /* unsigned, signed int8 */
	case 0x08:
		return 1;
	case 0x02:      /* … int16, half */
	case 0x09:
	case 0x10:
		return 2;
	case 0x03:      /* … int32, float */
	case 0x0a:
	case 0x20:
		return 4;
	}
	return 16;
}

static uint64_t
half(uint64_t side)
{
	return side > 1 ? side / 2 : side;
}

/* 0: no such array. */
uint64_t
brk_array_bytes(const struct brk_array *array)
{
	uint64_t width = array->width, height = array->height;
	uint64_t depth = array->depth, sum = 0, row, level, unit;
	uint32_t levels = array->levels ? array->levels : 1;

	if (!width || width > SIDE_MAX || height > SIDE_MAX ||
	    depth > SIDE_MAX || !array->channels || array->channels > 4 ||
	    levels > 32)
		return 0;
	unit = format_bytes(array->format) * array->channels;
	for (uint32_t i = 0; i < levels; i++) {
		row = round_up(width * unit, BLOCK_ROW);
		if (__builtin_mul_overflow(row, height ?
					   round_up(height, BLOCK_ROWS) : 1,
					   &level) ||
		    __builtin_mul_overflow(level, depth ? depth : 1, &level) ||
		    __builtin_add_overflow(sum, level, &sum) ||
		    sum > UINT64_MAX - PAGE)
			return 0;
		width = half(width);
		height = half(height);
		if (!(array->flags & (LAYERED | CUBEMAP)))
			depth = half(depth);
	}
	return round_up(sum, PAGE);
}
