/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own pages that are registered.
 * Used by host.c and mem.c.
 */
#ifndef SHIM_REGISTER_H
#define SHIM_REGISTER_H

#include <stdint.h>

#include "api_cuda.h"
#include "shim/range.h"

/* What kernels have for this address in registered memory; the pages become
 * such that kernels reach when that is asked for the first time.
 * CUDA_ERROR_NOT_SUPPORTED if they cannot. */
CUresult shim_register_alias(uint64_t address, uint64_t *out_alias);
/* The range is registered no more. */
void shim_register_drop(const struct shim_range *range);

#endif
