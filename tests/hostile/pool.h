/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images of recorded sessions, and harmless ones in their place.
 * Used by tests/hostile only.
 *
 * A frame with one bit changed may well be a sound launch with a wrong
 * pointer. What a kernel then does is a fault of the device, which is
 * another test's subject; so the kernels that replayed sessions launch have
 * the recorded names and parameters, and bodies that only return.
 */
#ifndef TESTS_HOSTILE_POOL_H
#define TESTS_HOSTILE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "proto/sha256.h"

struct pool_image {
	uint8_t hash[SHA256_SIZE];  /* as recorded */
	uint8_t *bytes;
	size_t size;
	uint8_t tame_hash[SHA256_SIZE];
	uint8_t *tame;              /* PTX whose kernels only return */
	size_t tame_size;
};

struct pool {
	struct pool_image *images;
	size_t count;
};

void pool_add(struct pool *pool, const uint8_t *bytes, size_t size);
void pool_free(struct pool *pool);
const struct pool_image *pool_find(const struct pool *pool,
				   const uint8_t *hash);
void pool_hash(const void *bytes, size_t size, uint8_t out[SHA256_SIZE]);

#endif
