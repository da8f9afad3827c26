/* SPDX-License-Identifier: Apache-2.0 */
#include "server/fatbin.h"

#include <errno.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* Header: magic at 0, its own size at 6, that of the entries at 8. */
#define HEADER_SIZE 16
/* Entry: kind at 0, header size at 4, padded payload size at 8, its exact
 * size if compressed at 16, target at 28, flags at 40, expanded size at 56. */
#define ENTRY_SIZE 64

/* Nothing that a compiler makes expands to more than this. */
#define EXPANDED_MAX ((uint64_t)512 << 20)

enum {
	FLAG_OLD_COMPRESSION = 0x1000,
	FLAG_LZ4 = 0x2000,
	FLAG_ZSTD = 0x8000,
};

static uint16_t
get16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint32_t
get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint64_t
get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

size_t
fatbin_size(const void *data, size_t limit)
{
	size_t header;
	uint64_t size;

	if (limit < HEADER_SIZE || get32(data) != FATBIN_MAGIC)
		return 0;
	header = get16((const uint8_t *)data + 6);
	size = get64((const uint8_t *)data + 8);
	if (header < HEADER_SIZE || header > limit || size > limit - header ||
	    size > (uint64_t)1 << 40)
		return 0;
	return header + (size_t)size;
}

bool
fatbin_next(const void *data, size_t size, size_t *at, struct fatbin_entry *out)
{
	const uint8_t *e;
	size_t left, header, padded, exact;

	if (*at == 0)
		*at = get16((const uint8_t *)data + 6);
	if (*at > size || size - *at < ENTRY_SIZE)
		return false;
	left = size - *at;
	e = (const uint8_t *)data + *at;
	header = get32(e + 4);
	padded = (size_t)get64(e + 8);
	exact = get32(e + 16);
	if (header < ENTRY_SIZE || header > left || padded > left - header ||
	    exact > padded)
		return false;
	out->kind = get16(e);
	out->sm = get32(e + 28);
	out->flags = get64(e + 40);
	out->expanded = get64(e + 56);
	out->payload = e + header;
	out->size = exact ? exact : padded;
	*at += header + padded;
	return true;
}

bool
fatbin_is_compressed(const struct fatbin_entry *e)
{
	return e->flags & (FLAG_OLD_COMPRESSION | FLAG_LZ4 | FLAG_ZSTD);
}

bool
fatbin_is_opaque(const struct fatbin_entry *e)
{
	return e->flags & FLAG_OLD_COMPRESSION;
}

static bool
expand_into(char *out, size_t size, const struct fatbin_entry *e)
{
	if (e->flags & FLAG_ZSTD) {
		size_t got = ZSTD_decompress(out, size, e->payload, e->size);

		return !ZSTD_isError(got) && got == size;
	}
	if (e->flags & FLAG_LZ4) {
		int got = LZ4_decompress_safe((const char *)e->payload, out,
					      (int)e->size, (int)size);

		return got >= 0 && (size_t)got == size;
	}
	memcpy(out, e->payload, size);
	return true;
}

int
fatbin_expand(const struct fatbin_entry *e, char **out_data, size_t *out_size)
{
	size_t size = e->size;
	char *data;

	if (fatbin_is_opaque(e))
		return FATBIN_E_INVALID;
	if (fatbin_is_compressed(e)) {
		if (!e->expanded || e->expanded > EXPANDED_MAX ||
		    e->size > EXPANDED_MAX)
			return FATBIN_E_INVALID;
		/* No LZ4 block grows by more than 255; so a short entry
		 * cannot make us allocate much. */
		if (e->flags & FLAG_LZ4 && e->expanded / 256 > e->size)
			return FATBIN_E_INVALID;
		size = (size_t)e->expanded;
	}
	data = malloc(size + 1);
	if (!data)
		return -ENOMEM;
	if (!expand_into(data, size, e)) {
		free(data);
		return FATBIN_E_INVALID;
	}
	data[size] = '\0';
	*out_data = data;
	*out_size = size;
	return 0;
}
