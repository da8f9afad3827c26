/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A code image in the caller's memory: what it is and where it ends.
 * Used by module and library loading; knows nothing of the broker.
 */
#ifndef SHIM_IMAGE_H
#define SHIM_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/function.h"

/* No real image comes near; a hostile length field does. */
#define IMAGE_MAX (UINT64_C(2) << 30)
/* Fatbins behind one version 2 wrapper. */
#define IMAGE_PARTS_MAX 65536u

struct image {
	enum module_kind kind;
	const uint8_t *data;   /* the caller's memory, or `owned` */
	size_t size;
	uint8_t *owned;
};

enum {
	IMAGE_E_INVALID = 1,   /* no image, or it runs into unmapped memory */
};

/*
 * Find out what lies at `from` and how long it is, reading no byte that is
 * not there. The result refers to the caller's memory, except for several
 * fatbins, which are gathered in a copy. 0, IMAGE_E_INVALID, -ENOMEM.
 */
int image_find(struct image *image, const void *from);
/* The same when the caller knows the size (files, archives). */
int image_find_sized(struct image *image, const void *from, size_t size);
void image_fini(struct image *image);

#endif
