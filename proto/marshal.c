/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments to bytes and back. proto/marshal.h states the layout.
 */
#include "proto/marshal.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

/* A writer that remembers overflow, so that callers check once. */
struct writer {
	uint8_t *at, *end;
	bool full;
};

/* A reader that remembers running short. */
struct reader {
	const uint8_t *at, *end;
	bool bad;
};

static void
put(struct writer *w, const void *data, size_t size)
{
	if ((size_t)(w->end - w->at) < size) {
		w->full = true;
		return;
	}
	if (size)
		memcpy(w->at, data, size);
	w->at += size;
}

static void
put_u32(struct writer *w, uint32_t value)
{
	put(w, &value, sizeof(value));
}

static void
put_u64(struct writer *w, uint64_t value)
{
	put(w, &value, sizeof(value));
}

static const uint8_t *
get(struct reader *r, size_t size)
{
	const uint8_t *at = r->at;

	if ((size_t)(r->end - at) < size) {
		r->bad = true;
		return NULL;
	}
	r->at += size;
	return at;
}

static uint32_t
get_u32(struct reader *r)
{
	const uint8_t *at = get(r, 4);
	uint32_t value = 0;

	if (at)
		memcpy(&value, at, 4);
	return value;
}

static uint64_t
get_u64(struct reader *r)
{
	const uint8_t *at = get(r, 8);
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, 8);
	return value;
}

/* The scalar of `size` bytes at p, extended to 64 bits. */
static uint64_t
load(const void *p, uint32_t size, bool is_signed)
{
	union {
		uint8_t u1;
		uint16_t u2;
		uint32_t u4;
		uint64_t u8;
	} v;

	switch (size) {
	case 1:
		memcpy(&v.u1, p, 1);
		return is_signed ? (uint64_t)(int8_t)v.u1 : v.u1;
	case 2:
		memcpy(&v.u2, p, 2);
		return is_signed ? (uint64_t)(int16_t)v.u2 : v.u2;
	case 4:
		memcpy(&v.u4, p, 4);
		return is_signed ? (uint64_t)(int32_t)v.u4 : v.u4;
	default:
		memcpy(&v.u8, p, 8);
		return v.u8;
	}
}

static void *
pointer(void *const argv[], unsigned i)
{
	void *p;

	memcpy(&p, argv[i], sizeof(p));
	return p;
}

/* Bytes that a counted parameter stands for; SIZE_MAX when that overflows or
 * a negative count was given. */
static size_t
native_extent(const struct wire_sig *sig, unsigned i, void *const argv[])
{
	const struct wire_param *p = &sig->params[i], *c;
	uint64_t count;
	size_t bytes;

	if (p->count == WIRE_NO_COUNT)
		return p->size;
	c = &sig->params[p->count];
	count = load(argv[p->count], c->size, c->flags & WIRE_SIGNED);
	if (count > INT64_MAX ||
	    __builtin_mul_overflow((size_t)count, (size_t)p->size, &bytes))
		return SIZE_MAX;
	return bytes;
}

static void
pack_bytes(struct writer *w, const void *data, size_t size)
{
	if (!data) {
		put_u32(w, UINT32_MAX);
		return;
	}
	if (size > WIRE_MAX_ARGS) {
		w->full = true;
		return;
	}
	put_u32(w, (uint32_t)size);
	put(w, data, size);
}

long
wire_pack_call(const struct wire_sig *sig, void *const argv[], uint8_t *buf,
	       size_t cap)
{
	struct writer w = {.at = buf, .end = buf + cap};

	for (unsigned i = 0; i < sig->nparams; i++) {
		const struct wire_param *p = &sig->params[i];
		uint8_t given;
		uint64_t id;
		size_t size;
		void *ptr;

		switch ((enum wire_kind)p->kind) {
		case WIRE_VALUE:
		case WIRE_HANDLE:
			put_u64(&w, load(argv[i], p->size,
					 p->flags & WIRE_SIGNED));
			break;
		case WIRE_FLOAT:
			put_u64(&w, load(argv[i], 4, false));
			break;
		case WIRE_DOUBLE:
			put_u64(&w, load(argv[i], 8, false));
			break;
		case WIRE_NEW_HANDLE:
			ptr = pointer(argv, i);
			id = ptr ? load(ptr, 8, false) : 0;
			put_u64(&w, id);
			break;
		case WIRE_STRING:
			ptr = pointer(argv, i);
			pack_bytes(&w, ptr, ptr ? strlen(ptr) + 1 : 0);
			break;
		case WIRE_BYTES:
		case WIRE_INOUT_BYTES:
			pack_bytes(&w, pointer(argv, i),
				   native_extent(sig, i, argv));
			break;
		case WIRE_OUT_VALUE:
			given = pointer(argv, i) != NULL;
			put(&w, &given, 1);
			break;
		case WIRE_OUT_BYTES:
			size = native_extent(sig, i, argv);
			if (!pointer(argv, i))
				put_u32(&w, UINT32_MAX);
			else if (size >= UINT32_MAX)
				w.full = true;
			else
				put_u32(&w, (uint32_t)size);
			break;
		}
	}
	return w.full ? -EMSGSIZE : (long)(w.at - buf);
}

void *
wire_arena_alloc(struct wire_arena *arena, size_t size)
{
	size_t start = (arena->used + 15) & ~(size_t)15;
	void *p;

	if (start > arena->size || size > arena->size - start)
		return NULL;
	p = arena->base + start;
	arena->used = start + size;
	return p;
}

/* Copy `size` bytes of the frame to aligned memory; one spare NUL behind. */
static void *
unpack_copy(struct reader *r, size_t size, struct wire_arena *arena)
{
	const uint8_t *from = get(r, size);
	uint8_t *to;

	if (!from)
		return NULL;
	to = wire_arena_alloc(arena, size + 1);
	if (!to)
		return NULL;
	memcpy(to, from, size);
	to[size] = 0;
	return to;
}

static int
unpack_data(struct reader *r, const struct wire_param *p, struct wire_arg *arg,
	    struct wire_arena *arena)
{
	uint32_t size = get_u32(r);
	void *copy;

	if (size == UINT32_MAX)
		return 0;
	if (size > (size_t)(r->end - r->at))
		return -EBADMSG;
	copy = unpack_copy(r, size, arena);
	if (!copy)
		return -ENOMEM;
	/* One string: its only NUL is the last byte. */
	if (p->kind == WIRE_STRING &&
	    (size == 0 || strlen(copy) + 1 != size))
		return -EBADMSG;
	if (p->count == WIRE_NO_COUNT && p->kind != WIRE_STRING &&
	    size != p->size)
		return -EBADMSG;
	arg->data = copy;
	arg->size = size;
	if (p->kind == WIRE_INOUT_BYTES) {
		arg->out = copy;
		arg->out_size = size;
	}
	return 0;
}

static int
unpack_out(struct wire_arg *arg, size_t size, struct wire_arena *arena)
{
	if (size > WIRE_MAX_ARGS)
		return -EBADMSG;
	arg->out = wire_arena_alloc(arena, size ? size : 1);
	if (!arg->out)
		return -ENOMEM;
	memset(arg->out, 0, size);
	arg->size = arg->out_size = size;
	return 0;
}

int
wire_unpack_call(const struct wire_sig *sig, const uint8_t *buf, size_t size,
		 struct wire_arg *args, struct wire_arena *arena)
{
	struct reader rd = {.at = buf, .end = buf + size};
	int r = 0;

	for (unsigned i = 0; i < sig->nparams && !r && !rd.bad; i++) {
		const struct wire_param *p = &sig->params[i];
		const uint8_t *given;
		uint32_t cap;

		args[i] = (struct wire_arg){0};
		switch ((enum wire_kind)p->kind) {
		case WIRE_VALUE:
		case WIRE_FLOAT:
		case WIRE_DOUBLE:
		case WIRE_HANDLE:
		case WIRE_NEW_HANDLE:
			args[i].value = get_u64(&rd);
			break;
		case WIRE_STRING:
		case WIRE_BYTES:
		case WIRE_INOUT_BYTES:
			r = unpack_data(&rd, p, &args[i], arena);
			break;
		case WIRE_OUT_VALUE:
			given = get(&rd, 1);
			if (given && *given > 1)
				return -EBADMSG;
			if (given && *given)
				r = unpack_out(&args[i], 8, arena);
			break;
		case WIRE_OUT_BYTES:
			cap = get_u32(&rd);
			if (!rd.bad && cap != UINT32_MAX)
				r = unpack_out(&args[i], cap, arena);
			break;
		}
	}
	if (r)
		return r;
	if (rd.bad || rd.at != rd.end)
		return -EBADMSG;
	/* A counted block has exactly the bytes that its count says: whoever
	 * hands data and count to the driver need not check again. */
	for (unsigned i = 0; i < sig->nparams; i++) {
		const struct wire_param *p = &sig->params[i];
		size_t bytes;

		if (p->count == WIRE_NO_COUNT || p->kind == WIRE_VALUE)
			continue;
		if (!args[i].data && !args[i].out)
			continue;
		if (__builtin_mul_overflow((size_t)args[p->count].value,
					   (size_t)p->size, &bytes) ||
		    bytes != args[i].size)
			return -EBADMSG;
	}
	return 0;
}

long
wire_pack_reply(const struct wire_sig *sig, const struct wire_arg *args,
		uint8_t *buf, size_t cap)
{
	struct writer w = {.at = buf, .end = buf + cap};

	for (unsigned i = 0; i < sig->nparams; i++) {
		const struct wire_arg *a = &args[i];

		switch ((enum wire_kind)sig->params[i].kind) {
		case WIRE_OUT_VALUE:
			if (a->out)
				put(&w, a->out, 8);
			break;
		case WIRE_OUT_BYTES:
		case WIRE_INOUT_BYTES:
			if (a->out) {
				put_u32(&w, (uint32_t)a->out_size);
				put(&w, a->out, a->out_size);
			}
			break;
		default:
			break;
		}
	}
	return w.full ? -EMSGSIZE : (long)(w.at - buf);
}

/* One walk over a reply: checks it, or stores it when `store`. */
static int
walk_reply(const struct wire_sig *sig, const uint8_t *buf, size_t size,
	   void *const argv[], bool store)
{
	struct reader rd = {.at = buf, .end = buf + size};

	for (unsigned i = 0; i < sig->nparams; i++) {
		const struct wire_param *p = &sig->params[i];
		const uint8_t *from;
		uint32_t bytes;
		void *to;

		switch ((enum wire_kind)p->kind) {
		case WIRE_OUT_VALUE:
			to = pointer(argv, i);
			if (!to)
				break;
			from = get(&rd, 8);
			if (from && store)
				memcpy(to, from, p->size);
			break;
		case WIRE_OUT_BYTES:
		case WIRE_INOUT_BYTES:
			to = pointer(argv, i);
			if (!to)
				break;
			bytes = get_u32(&rd);
			if (bytes > native_extent(sig, i, argv))
				return -EBADMSG;
			from = get(&rd, bytes);
			if (from && store)
				memcpy(to, from, bytes);
			break;
		default:
			break;
		}
		if (rd.bad)
			return -EBADMSG;
	}
	return rd.at == rd.end ? 0 : -EBADMSG;
}

int
wire_unpack_reply(const struct wire_sig *sig, const uint8_t *buf, size_t size,
		  void *const argv[])
{
	int r = walk_reply(sig, buf, size, argv, false);

	if (r < 0)
		return r;
	return walk_reply(sig, buf, size, argv, true);
}
