/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program has said of its managed memory: where it should be, and who
 * uses it how. Used by managed.c and mem.c; the memory stays where it is.
 */
#ifndef SHIM_ADVICE_H
#define SHIM_ADVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"

/* Bits of `accessed`: devices by ordinal, and the host. */
#define ADVICE_HOST 63u

struct shim_advice {
	bool read_mostly;
	CUmemLocation preferred, prefetched; /* type INVALID: nowhere */
	uint64_t accessed;
};

/* One thing said of a range; `place` where it names one. */
enum shim_advice_word {
	ADVICE_READ_MOSTLY,
	ADVICE_NOT_READ_MOSTLY,
	ADVICE_PREFERRED,
	ADVICE_NOT_PREFERRED,
	ADVICE_ACCESSED,
	ADVICE_NOT_ACCESSED,
	ADVICE_PREFETCHED,
};

/* 0 or -ENOMEM. */
int shim_advice_say(uint64_t start, uint64_t size, enum shim_advice_word word,
		    CUmemLocation place);
/* What has been said of all of the range. */
struct shim_advice shim_advice_of(uint64_t start, uint64_t size);
/* The block is freed. */
void shim_advice_forget(uint64_t start, uint64_t size);

#endif
