/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/pool.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_image.h"

void
pool_hash(const void *bytes, size_t size, uint8_t out[SHA256_SIZE])
{
	struct sha256 sha;

	sha256_init(&sha);
	sha256_update(&sha, bytes, size);
	sha256_final(&sha, out);
}

/* The end of the block that opens at `at`: behind its closing brace. */
static const char *
block_end(const char *at)
{
	int depth = 0;

	for (; *at; at++) {
		depth += (*at == '{') - (*at == '}');
		if (*at == '}' && !depth)
			return at + 1;
	}
	return at;
}

/* PTX text with the bodies of its kernels replaced. */
static void
tame(struct pool_image *image, const char *text, size_t size)
{
	static const char body[] = "{\n\tret;\n}\n";
	const char *at = text, *entry, *open;

	image->tame = malloc(size + 1);
	if (!image->tame)
		err(1, "pool");
	while ((entry = strstr(at, ".entry")) && (open = strchr(entry, '{'))) {
		const char *end = block_end(open);

		memcpy(image->tame + image->tame_size, at, (size_t)(open - at));
		image->tame_size += (size_t)(open - at);
		/* Never longer than what it replaces, but for "{ret;}". */
		if (end - open >= (long)sizeof(body) - 1) {
			memcpy(image->tame + image->tame_size, body,
			       sizeof(body) - 1);
			image->tame_size += sizeof(body) - 1;
		} else {
			memcpy(image->tame + image->tame_size, open,
			       (size_t)(end - open));
			image->tame_size += (size_t)(end - open);
		}
		at = end;
	}
	memcpy(image->tame + image->tame_size, at, strlen(at) + 1);
	image->tame_size += strlen(at) + 1;
}

void
pool_add(struct pool *pool, const uint8_t *bytes, size_t size)
{
	struct pool_image *image;
	struct soft_image found;

	pool->images = reallocarray(pool->images, pool->count + 1,
				    sizeof(*pool->images));
	if (!pool->images)
		err(1, "pool");
	image = &pool->images[pool->count];
	memset(image, 0, sizeof(*image));
	pool_hash(bytes, size, image->hash);
	if (pool_find(pool, image->hash))
		return;
	image->bytes = malloc(size);
	image->size = size;
	memcpy(image->bytes, bytes, size);
	if (soft_image_open(&found, bytes, size) ||
	    found.kind != SOFT_IMAGE_PTX)
		errx(1, "a recorded image without PTX");
	tame(image, found.data, found.size);
	soft_image_close(&found);
	pool_hash(image->tame, image->tame_size, image->tame_hash);
	pool->count++;
}

void
pool_free(struct pool *pool)
{
	for (size_t i = 0; i < pool->count; i++) {
		free(pool->images[i].bytes);
		free(pool->images[i].tame);
	}
	free(pool->images);
}

const struct pool_image *
pool_find(const struct pool *pool, const uint8_t *hash)
{
	for (size_t i = 0; i < pool->count; i++)
		if (!memcmp(pool->images[i].hash, hash, SHA256_SIZE))
			return &pool->images[i];
	return NULL;
}
