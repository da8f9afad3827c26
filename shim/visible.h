/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA_VISIBLE_DEVICES: which of the broker's devices this process sees.
 * Used by process.c; pure, so that it can be tested without a broker.
 */
#ifndef SHIM_VISIBLE_H
#define SHIM_VISIBLE_H

#include "proto/wire.pb-c.h"

/*
 * Fill out[] (room for max) with indices into devices[], in the order that
 * `spec` asks for; NULL spec: all. Returns how many, or -1 when a device is
 * named twice, for which the real cuInit answers CUDA_ERROR_INVALID_DEVICE.
 *
 * Entries are all ordinals or all UUIDs ("GPU-…", a unique prefix will do).
 * The list ends at the first entry that names no device or is of the other
 * sort. Recorded from driver 580.
 */
int shim_visible(const char *spec, Mps__Device *const *devices, int ndevices,
		 int *out, int max);

#endif
