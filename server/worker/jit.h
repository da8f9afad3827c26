/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of the driver's compiler and linker, as calls bring them.
 * Used by server/worker/module.c, which has it, and link.c.
 */
#ifndef SERVER_WORKER_JIT_H
#define SERVER_WORKER_JIT_H

#include <stddef.h>
#include <stdint.h>

#include "wkr_driver.h"

#define WKR_JIT_MAX 32u

struct wkr_jit {
	CUjit_option names[WKR_JIT_MAX + 4];
	void *values[WKR_JIT_MAX + 4];
	unsigned count;
};

/* CUDA_ERROR_INVALID_VALUE for what is no plain value. */
CUresult wkr_jit_read(const uint8_t *bytes, size_t size, struct wkr_jit *out);
/* A log of the driver in memory of ours; not when out is NULL or cap 0. */
void wkr_jit_add_log(struct wkr_jit *jit, CUjit_option buffer,
		     CUjit_option length, void *out, size_t cap);

struct wkr_object;
/* link.c, any thread: the gate destroys it. */
void wkr_link_end(struct wkr_object *link);

#endif
