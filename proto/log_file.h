/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that log lines go to, and its bound.
 * Used by proto/log.c only.
 */
#ifndef PROTO_LOG_FILE_H
#define PROTO_LOG_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Append to path from here on; full at `limit` bytes, 0: never. 0 or -errno;
 * only the first call that succeeds counts. */
int log_file_open(const char *path, uint64_t limit);
/* Is there one? */
bool log_file_is_open(void);
/* What to write the next line to, or -1 when the host has closed it. */
int log_file_take(void);
/* After writing: has the file gone meanwhile? If so, the line is to be
 * written once more. */
bool log_file_was_lost(void);

#endif
