/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading memory of the host program that may not be there.
 * Used where a caller's pointer decides how far we read: code images, hooks.
 */
#ifndef SHIM_PROBE_H
#define SHIM_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/* Copy size bytes from `from`. False, and nothing is promised about `to`,
 * when any of them cannot be read. Never faults. */
bool probe_read(void *to, const void *from, size_t size);
/* True when all of it can be read now. */
bool probe_readable(const void *from, size_t size);

#endif
