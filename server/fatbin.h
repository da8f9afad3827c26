/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fatbins: what nvcc packs PTX and machine code of several targets into.
 * Called by the worker and by the software device.
 *
 * Everything in one comes from outside: offsets and sizes are compared with
 * what is left before they are used. No header of NVIDIA's describes the
 * format; the offsets were read off what nvcc 11.8 to 13.5 make.
 */
#ifndef SERVER_FATBIN_H
#define SERVER_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FATBIN_MAGIC 0xba55ed50u

enum fatbin_kind {
	FATBIN_PTX = 1,
	FATBIN_ELF = 2,
};

enum {
	FATBIN_E_INVALID = 1,   /* it cannot be expanded */
};

/* One entry, pointing into the caller's memory. */
struct fatbin_entry {
	unsigned int kind;      /* enum fatbin_kind, or what others there are */
	unsigned int sm;        /* 90: compute capability 9.0 */
	uint64_t flags, expanded;
	const uint8_t *payload;
	size_t size;            /* bytes of payload, padding left out */
};

/* Whole size in bytes by the header; 0: no fatbin, or more than limit. */
size_t fatbin_size(const void *data, size_t limit);
/* Reads the entry at *at, 0 at first, and moves behind it. size: as
 * fatbin_size() says. False at the end, and when what follows is none. */
bool fatbin_next(const void *data, size_t size, size_t *at,
		 struct fatbin_entry *out);
bool fatbin_is_compressed(const struct fatbin_entry *entry);
/* Compressed in a way that only the real driver knows. */
bool fatbin_is_opaque(const struct fatbin_entry *entry);
/* A copy of the code, with a NUL behind it, which the caller frees. 0,
 * FATBIN_E_INVALID, or -ENOMEM. */
int fatbin_expand(const struct fatbin_entry *entry, char **out_data,
		  size_t *out_size);

#endif
