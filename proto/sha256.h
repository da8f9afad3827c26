/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4): the name of a code image.
 * Used by the shim, which names what it loads, and by the broker, which checks.
 *
 * Our own and not a crypto library's: the shim may need nothing but libc.
 */
#ifndef PROTO_SHA256_H
#define PROTO_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32u
#define SHA256_BLOCK 64u

struct sha256 {
	uint32_t state[8];
	uint64_t bytes;                 /* fed so far */
	uint8_t tail[SHA256_BLOCK];     /* bytes % SHA256_BLOCK of them */
};

void sha256_init(struct sha256 *sha);
void sha256_update(struct sha256 *sha, const void *data, size_t size);
/* Ends the computation; sha must be initialised again before reuse. */
void sha256_final(struct sha256 *sha, uint8_t out_hash[SHA256_SIZE]);

/* The two compression functions, chosen by the processor at run time; here
 * so that tests reach both. sha256_hard is NULL where there is none. */
typedef void sha256_blocks_fn(uint32_t state[8], const uint8_t *data,
			      size_t nblocks);
void sha256_soft(uint32_t state[8], const uint8_t *data, size_t nblocks);
sha256_blocks_fn *sha256_hard(void);

#endif
