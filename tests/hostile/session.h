/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorded session of a client: what it sent, and those answers that name
 * things (addresses, ids). Used by tests/hostile only.
 *
 * A session file is a row of entries: struct entry_head, then `size` bytes.
 * Frames are whole, header included.
 */
#ifndef TESTS_HOSTILE_SESSION_H
#define TESTS_HOSTILE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"

enum entry_kind {
	ENTRY_CONTROL = 1, /* frame to the broker */
	ENTRY_ANSWER,      /* frame from the broker */
	ENTRY_DATA,        /* frame to the worker */
	ENTRY_IMAGE,       /* bytes of an image that the client filled in */
};

struct entry_head {
	uint32_t kind;
	uint32_t size; /* bytes that follow */
};

struct entry {
	enum entry_kind kind;
	uint8_t *bytes;
	size_t size;
};

struct session {
	char name[64];
	struct entry *entries;
	size_t count;
	size_t ndata; /* entries of ENTRY_DATA */
};

/* Append one entry to a file. Ends the process when that fails. */
void session_write(int fd, enum entry_kind kind, const void *bytes,
		   size_t size);
/* Read a file whole. Ends the process when it is none. */
void session_read(struct session *out, const char *path);
void session_free(struct session *session);

#endif
