/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of our own.
 * Used by calls that the shared one cannot serve.
 */
#ifndef SHIM_SOLO_H
#define SHIM_SOLO_H

#include <stdbool.h>
#include <stddef.h>

#include "api_cuda.h"

/* Is the worker of that device nobody else's? */
bool shim_is_solo(int device);
/* Leave the shared worker; what we have there comes along. Otherwise out_why
 * says why not, and nothing has changed. */
CUresult shim_solo(int device, const char *why, char *out_why, size_t size);

#endif
