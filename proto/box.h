/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of two and three dimensions and of arrays, as they travel.
 * Used by the shim, which fills in mpsCopyBox, and by the worker.
 */
#ifndef PROTO_BOX_H
#define PROTO_BOX_H

#include <stdint.h>

enum box_kind {
	BOX_MEMORY = 1,   /* an address that kernels of the client may use */
	BOX_ARRAY,
	BOX_STAGING,      /* an offset in the client's staging memory */
};

/* One end, little-endian. Sizes are in bytes across and rows down. */
struct box_end {
	uint32_t kind, zero;
	uint64_t where;           /* address, array handle, offset */
	uint64_t pitch, rows;     /* of a row, of a slice; not of arrays */
	uint64_t x, y, z;         /* where it begins; x in bytes */
};

struct box {
	struct box_end dst, src;
	uint64_t width, height, depth;   /* none is 0; width in bytes */
};

/*
 * Bytes of memory that an end of the box reaches: from *out_first, counted
 * from `where`, on. 0: rows or slices overlap, or no address is that large.
 */
static inline uint64_t
box_extent(const struct box *box, const struct box_end *end,
	   uint64_t *out_first)
{
	const uint64_t side = UINT64_C(1) << 40;
	uint64_t slice, first, last, z, y;

	if (box->width > side || box->height > side || box->depth > side ||
	    end->x > side || end->y > side || end->z > side ||
	    end->pitch > side || end->rows > side)
		return 0;
	if (box->height > 1 && end->pitch < end->x + box->width)
		return 0;
	if (box->depth > 1 && end->rows < end->y + box->height)
		return 0;
	if (__builtin_mul_overflow(end->pitch, end->rows, &slice) ||
	    __builtin_mul_overflow(slice, end->z, &z) ||
	    __builtin_mul_overflow(end->pitch, end->y, &y) ||
	    __builtin_add_overflow(z, y + end->x, &first) ||
	    __builtin_mul_overflow(slice, box->depth - 1, &z) ||
	    __builtin_mul_overflow(end->pitch, box->height - 1, &y) ||
	    __builtin_add_overflow(z, y, &last) ||
	    __builtin_add_overflow(last, box->width, &last) ||
	    first > UINT64_MAX / 2 || last > UINT64_MAX / 2)
		return 0;
	*out_first = first;
	return last;
}

#endif
