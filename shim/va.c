/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address pieces and ranges in them.
 */
#include "shim/va.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "proto/err.h"

/* Linux 4.17; an older kernel takes the address as a hint. */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

void
shim_va_init(struct shim_va *va, const struct shim_va_ops *ops, void *owner,
	     uint64_t align)
{
	*va = (struct shim_va){ .ops = ops, .owner = owner, .align = align };
}

int
shim_va_reserve(uint64_t base, uint64_t size)
{
	void *want = (void *)(uintptr_t)base;
	/* MAP_FIXED too: ThreadSanitizer takes an address without it for a
	 * wish and gives up on one that it will not grant. The kernel never
	 * replaces a mapping where the second flag is known (Linux 4.17). */
	void *got = mmap(want, size, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			 MAP_FIXED | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == MAP_FAILED)
		return -errno;
	if (got != want) {
		munmap(got, size);
		return -EEXIST;
	}
	return 0;
}

static bool
usable(const struct shim_va *va, uint64_t base, uint64_t size, uint64_t least)
{
	return base && base % va->align == 0 && size % va->align == 0 &&
	       size >= least && base + size > base;
}

/* Agree with the broker on one more piece. */
static int
add_piece(struct shim_va *va, uint64_t least)
{
	uint64_t ask = (least + VA_PIECE - 1) / VA_PIECE * VA_PIECE;
	_cleanup_free_ struct shim_va_piece *piece = malloc(sizeof(*piece));
	int r;

	if (!piece || ask < least)
		return err_origin(-ENOMEM);
	for (int i = 0; i < VA_TRIES; i++) {
		r = va->ops->propose(va->owner, ask, &piece->id, &piece->base,
				     &piece->size);
		if (r)
			return r;
		r = usable(va, piece->base, piece->size, least) ?
			shim_va_reserve(piece->base, piece->size) : -EINVAL;
		if (!r)
			break;
		/* Another size may do where the address space is limited. */
		if (r == -ENOMEM && ask > least)
			ask = ask / 2 > least ? ask / 2 : least;
		r = va->ops->answer(va->owner, piece->id, -r);
		if (r < 0)
			return r;
		r = VA_E_NONE;
	}
	if (r)
		return r;
	r = va->ops->answer(va->owner, piece->id, 0);
	if (r < 0) {
		munmap((void *)(uintptr_t)piece->base, piece->size);
		return r;
	}
	piece->next = va->pieces;
	va->pieces = piece;
	steal_ptr(&piece);
	shim_va_give(va, va->pieces->base, va->pieces->size);
	return 0;
}

/* Where in the span a range that begins at the cursor or behind it would lie;
 * UINT64_MAX: nowhere. */
static uint64_t
place_behind(const struct shim_va *va, const struct shim_va_span *span,
	     uint64_t size)
{
	uint64_t at = span->start > va->cursor ? span->start : va->cursor;
	uint64_t end = span->start + span->size;

	return at < end && end - at >= size ? at : UINT64_MAX;
}

/* A span with room behind the cursor, else the first with room. */
static struct shim_va_span **
search(struct shim_va *va, uint64_t size, uint64_t *out_address)
{
	struct shim_va_span **first = NULL;

	for (struct shim_va_span **at = &va->spans; *at; at = &(*at)->next) {
		*out_address = place_behind(va, *at, size);
		if (*out_address != UINT64_MAX)
			return at;
		if (!first && (*at)->size >= size)
			first = at;
	}
	if (first)
		*out_address = (*first)->start;
	return first;
}

/* Take [address, address + size) out of the span at *at. */
static int
cut(struct shim_va_span **at, uint64_t address, uint64_t size)
{
	struct shim_va_span *span = *at, *tail;
	uint64_t head = address - span->start;
	uint64_t rest = span->size - head - size;

	if (head && rest) {
		tail = malloc(sizeof(*tail));
		if (!tail)
			return err_origin(-ENOMEM);
		*tail = (struct shim_va_span){
			span->next, address + size, rest, span->piece,
		};
		span->next = tail;
		span->size = head;
	} else if (head) {
		span->size = head;
	} else if (rest) {
		span->start += size;
		span->size = rest;
	} else {
		*at = span->next;
		free(span);
	}
	return 0;
}

int
shim_va_take(struct shim_va *va, uint64_t size, uint64_t *out_address,
	     uint64_t *out_piece)
{
	struct shim_va_span **at;
	int r;

	if (!size || size % va->align)
		return err_origin(-EINVAL);
	at = search(va, size, out_address);
	if (!at) {
		r = add_piece(va, size);
		if (r)
			return r;
		at = search(va, size, out_address);
		if (!at)
			return VA_E_NONE;
	}
	*out_piece = (*at)->piece->id;
	r = cut(at, *out_address, size);
	if (!r)
		va->cursor = *out_address + size;
	return r;
}

static const struct shim_va_piece *
piece_of(const struct shim_va *va, uint64_t address)
{
	const struct shim_va_piece *piece = va->pieces;

	while (piece && address - piece->base >= piece->size)
		piece = piece->next;
	return piece;
}

void
shim_va_give(struct shim_va *va, uint64_t address, uint64_t size)
{
	const struct shim_va_piece *piece = piece_of(va, address);
	struct shim_va_span **at = &va->spans, *span, *next;

	while (*at && (*at)->start + (*at)->size < address)
		at = &(*at)->next;
	span = *at;
	if (span && span->piece == piece &&
	    span->start + span->size == address) {
		span->size += size;
	} else {
		if (span && span->piece != piece &&
		    span->start + span->size == address)
			at = &span->next;
		span = malloc(sizeof(*span));
		/* Without memory the range is merely never used again. */
		if (!span)
			return;
		*span = (struct shim_va_span){ *at, address, size, piece };
		*at = span;
	}
	next = span->next;
	if (next && next->piece == piece &&
	    span->start + span->size == next->start) {
		span->size += next->size;
		span->next = next->next;
		free(next);
	}
}
