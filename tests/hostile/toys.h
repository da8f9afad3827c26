/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that nobody asked for, and memory treated as only a hostile
 * client does. Used by tests/hostile only.
 */
#ifndef TESTS_HOSTILE_TOYS_H
#define TESTS_HOSTILE_TOYS_H

#include <stddef.h>
#include <stdint.h>

#include "tests/hostile/mutate.h"

/* Send bytes along with up to 253 descriptors of all sorts: memory of wrong
 * sizes, unsealed, devices, pipes, sockets, the socket itself. How many. */
unsigned toy_send(struct dice *dice, int sock, const uint8_t *bytes,
		  size_t size);
/* Resize, seal, punch holes into. */
void toy_abuse(struct dice *dice, int memory);

#endif
