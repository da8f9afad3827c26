/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The occupancy calculator's answers, kept per function.
 * Used by its entry points and by cooperative launches.
 */
#ifndef SHIM_OCCUPANCY_H
#define SHIM_OCCUPANCY_H

#include <stdint.h>

#include "api_cuda.h"

struct shim_function;

/* Blocks of one function that fit a multiprocessor at once. */
CUresult shim_occupancy_blocks(struct shim_function *function, int block_size,
			       uint64_t shared, unsigned int flags,
			       int *out_blocks);

#endif
