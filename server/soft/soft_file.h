/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an image file.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_FILE_H
#define SERVER_SOFT_SOFT_FILE_H

#include "server/soft/soft.h"

/* The whole file, NUL-terminated; the NUL counts in size. */
CUresult soft_file_read(const char *path, char **out_data, size_t *out_size);

#endif
