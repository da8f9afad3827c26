/* SPDX-License-Identifier: Apache-2.0 */
#include "server/soft/ptx_ir.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE (64u << 10)

struct ptx_chunk {
	struct ptx_chunk *next;
	size_t used, size;
	_Alignas(64) unsigned char data[];
};

void *
ptx_vec_push(struct ptx_vec *v, size_t item_size)
{
	if (v->count == v->cap) {
		size_t cap = v->cap ? 2 * v->cap : 8;
		void *data = realloc(v->data, cap * item_size);

		if (!data)
			return NULL;
		v->data = data;
		v->cap = cap;
	}
	void *item = (char *)v->data + v->count++ * item_size;

	return memset(item, 0, item_size);
}

void
ptx_vec_free(struct ptx_vec *v)
{
	free(v->data);
	memset(v, 0, sizeof(*v));
}

void *
ptx_arena_alloc(struct ptx_chunk **arena, size_t size)
{
	struct ptx_chunk *c = *arena;

	size = (size + 63) & ~(size_t)63;
	if (size > SIZE_MAX / 2)
		return NULL;
	if (!c || c->size - c->used < size) {
		size_t want = size > CHUNK_SIZE ? size : CHUNK_SIZE;
		size_t bytes = (sizeof(*c) + want + 63) & ~(size_t)63;

		c = aligned_alloc(64, bytes);
		if (!c)
			return NULL;
		memset(c, 0, bytes);
		c->size = want;
		c->next = *arena;
		*arena = c;
	}
	void *p = c->data + c->used;

	c->used += size;
	return p;
}

char *
ptx_arena_strndup(struct ptx_chunk **arena, const char *s, size_t n)
{
	char *p = ptx_arena_alloc(arena, n + 1);

	if (p)
		memcpy(p, s, n);
	return p;
}

void
ptx_arena_free(struct ptx_chunk **arena)
{
	while (*arena) {
		struct ptx_chunk *c = *arena;

		*arena = c->next;
		free(c);
	}
}

static const struct {
	const char *name;
	unsigned char size;
	bool is_signed, is_float;
} types[PTX_T_COUNT] = {
	[PTX_T_NONE] = { "", 0, false, false },
	[PTX_T_PRED] = { "pred", 1, false, false },
	[PTX_T_B8] = { "b8", 1, false, false },
	[PTX_T_B16] = { "b16", 2, false, false },
	[PTX_T_B32] = { "b32", 4, false, false },
	[PTX_T_B64] = { "b64", 8, false, false },
	[PTX_T_B128] = { "b128", 16, false, false },
	[PTX_T_U8] = { "u8", 1, false, false },
	[PTX_T_U16] = { "u16", 2, false, false },
	[PTX_T_U32] = { "u32", 4, false, false },
	[PTX_T_U64] = { "u64", 8, false, false },
	[PTX_T_S8] = { "s8", 1, true, false },
	[PTX_T_S16] = { "s16", 2, true, false },
	[PTX_T_S32] = { "s32", 4, true, false },
	[PTX_T_S64] = { "s64", 8, true, false },
	[PTX_T_F16] = { "f16", 2, false, true },
	[PTX_T_F16X2] = { "f16x2", 4, false, true },
	[PTX_T_BF16] = { "bf16", 2, false, true },
	[PTX_T_BF16X2] = { "bf16x2", 4, false, true },
	[PTX_T_F32] = { "f32", 4, false, true },
	[PTX_T_F64] = { "f64", 8, false, true },
	[PTX_T_TF32] = { "tf32", 4, false, true },
	[PTX_T_E4M3X2] = { "e4m3x2", 2, false, true },
	[PTX_T_E5M2X2] = { "e5m2x2", 2, false, true },
	[PTX_T_U16X2] = { "u16x2", 4, false, false },
	[PTX_T_S16X2] = { "s16x2", 4, true, false },
};

unsigned
ptx_type_size(int type)
{
	return types[type].size;
}

bool
ptx_type_is_signed(int type)
{
	return types[type].is_signed;
}

bool
ptx_type_is_float(int type)
{
	return types[type].is_float;
}

int
ptx_type_named(const char *name)
{
	for (int t = PTX_T_PRED; t < PTX_T_COUNT; t++) {
		if (!strcmp(types[t].name, name))
			return t;
	}
	return PTX_T_NONE;
}
