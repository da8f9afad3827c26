/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: from name, version and stream flag to an entry point.
 * Used by the entry points of group init only.
 */
#ifndef SHIM_PROCADDR_H
#define SHIM_PROCADDR_H

#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"

/* The table in build/gen/shim_procaddr.c, made of proto/procaddr-13.0.tsv. */
#define SHIM_PROC_VERSION 13000
#define SHIM_PROC_NONE UINT16_MAX

struct shim_proc_name {
	uint16_t text;          /* offset in shim_proc_text */
	uint16_t first, count;  /* of its steps in shim_proc_versions */
};

/* From `version` on these are meant: indices of shim_proc_functions, or
 * SHIM_PROC_NONE where nothing is yet. */
struct shim_proc_version {
	uint16_t version;
	uint16_t legacy, per_thread;
};

/* Numbers of names, from 1 on, at the hashes of these or behind: see
 * find_name(). shim_proc_mask is their count less 1. */
extern const uint16_t shim_proc_slots[];
extern const unsigned int shim_proc_mask;
extern const char shim_proc_text[];
extern const struct shim_proc_name shim_proc_names[];
extern const struct shim_proc_version shim_proc_versions[];
extern void (*const shim_proc_functions[])(void);

/*
 * Both functions, told apart by v2; status is NULL in the older one. A name
 * that does not exist yet is no error in v2: success, *pfn NULL, and *status
 * says why. With a version that this driver has not reached nothing is
 * stored.
 */
CUresult shim_procaddr(const char *symbol, void **pfn, int version,
		       cuuint64_t flags,
		       CUdriverProcAddressQueryResult *status, bool v2);

#endif
