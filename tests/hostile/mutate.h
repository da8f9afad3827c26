/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes to frames and other bytes, decided by one number.
 * Used by tests/hostile only.
 */
#ifndef TESTS_HOSTILE_MUTATE_H
#define TESTS_HOSTILE_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* A splitmix64 generator: the same seed gives the same run everywhere. */
struct dice {
	uint64_t state;
};

uint64_t dice_roll(struct dice *dice);
/* 0 <= x < n, n > 0 */
uint64_t dice_below(struct dice *dice, uint64_t n);

/*
 * Change bytes in a buffer of `cap` bytes: bits flipped, bytes set, lengths
 * and ids replaced by boundary values, pieces cut out, doubled, swapped, the
 * end cut off or made longer. Returns the new size.
 */
size_t mutate_bytes(struct dice *dice, uint8_t *bytes, size_t size,
		    size_t cap);
/* The same for a frame, mostly in its payload and with a header that says
 * the new size; now and then in the header itself. */
size_t mutate_frame(struct dice *dice, uint8_t *frame, size_t size,
		    size_t cap);

#endif
