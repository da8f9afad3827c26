/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our environment variables: which there are, which values they take.
 * Used by mpsrun, the preload library and mpsd, so that a slip of the pen is
 * not taken for a default.
 */
#ifndef PROTO_SETTINGS_H
#define PROTO_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/* Who reads a variable. */
enum settings_reader {
	SETTINGS_SHIM = 1,   /* in each program */
	SETTINGS_BROKER = 2, /* broker and worker, when they start */
	SETTINGS_SOFT = 4,   /* likewise, the software device */
};

/* Check what is set of those that any of `readers` reads. False: one line in
 * `why` names the first bad one and what it takes. */
bool settings_good(unsigned readers, char *why, size_t size);
/* "NAME=VALUE", of the environment: is it read when a broker starts, with that
 * driver? */
bool settings_of_start(const char *entry, bool software);

#endif
