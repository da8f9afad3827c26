/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses for chunks: pieces of the broker's window, reserved here so that
 * nothing of the host lands on them, and cut into ranges.
 * Used by supply.c, one for device memory and one for pinned memory, under
 * its lock.
 *
 * The broker proposes a piece, we reserve it or decline and ask again: no
 * base is free in every process (sanitizers, large address randomisation).
 */
#ifndef SHIM_VA_H
#define SHIM_VA_H

#include <stdint.h>

/* Pieces asked for: large enough that few are needed, small enough for a
 * process with a limited address space. */
#define VA_PIECE (UINT64_C(1) << 30)
/* Proposals declined before we give up. */
#define VA_TRIES 16

struct shim_va_ops {
	/* A piece of at least `size` bytes. 0; VA_E_NONE; -errno. */
	int (*propose)(void *owner, uint64_t size, uint64_t *out_id,
		       uint64_t *out_base, uint64_t *out_size);
	/* Tell the broker: taken (status 0) or declined. 0 or -errno. */
	int (*answer)(void *owner, uint64_t id, int status);
};

struct shim_va_piece {
	struct shim_va_piece *next;
	uint64_t id, base, size;
};

/* A free range; sorted by address, never adjacent within one piece. */
struct shim_va_span {
	struct shim_va_span *next;
	uint64_t start, size;
	const struct shim_va_piece *piece;
};

struct shim_va {
	const struct shim_va_ops *ops;
	void *owner;
	uint64_t align;
	struct shim_va_piece *pieces;
	struct shim_va_span *spans;
	uint64_t cursor;     /* where the last search ended: the longer a
			      * range rests before its next use, the surer the
			      * worker is done with its old mapping */
};

enum {
	VA_E_NONE = 1,       /* the broker has no more, or we cannot reserve */
};

void shim_va_init(struct shim_va *va, const struct shim_va_ops *ops,
		  void *owner, uint64_t align);
/* A range of `size` (a multiple of align), PROT_NONE. 0; VA_E_NONE;
 * -errno. */
int shim_va_take(struct shim_va *va, uint64_t size, uint64_t *out_address,
		 uint64_t *out_piece);
/* Addresses that are the process's, without access. 0, -EEXIST when something
 * is there, -ENOMEM under RLIMIT_AS. */
int shim_va_reserve(uint64_t base, uint64_t size);
/* The range is PROT_NONE again. */
void shim_va_give(struct shim_va *va, uint64_t address, uint64_t size);

#endif
