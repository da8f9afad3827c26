/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Export tables (cuGetExportTable) and context-local storage behind one.
 * Used by the entry point, by context teardown and by tests.
 */
#ifndef SHIM_TABLES_H
#define SHIM_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "api_cuda.h"

struct shim_context;

typedef void shim_slot(void);

/* A table is an array of words; the first is its size in bytes, but in CLS,
 * which has none. Names are the short ones of the project's notes on them:
 * the first digits of the id, or what the table is about. */
extern shim_slot *const shim_table_cls[4];
extern shim_slot *const shim_table_cudart[13];
extern shim_slot *const shim_table_hooks[7];
extern shim_slot *const shim_table_tls[3];
extern shim_slot *const shim_table_checks[15];
extern shim_slot *const shim_table_integ[3];
extern shim_slot *const shim_table_2131[93];
extern shim_slot *const shim_table_6e16[99];
extern shim_slot *const shim_table_1734[17];

/* CUDA_ERROR_NOT_SUPPORTED, said once in the log with the slot's name and
 * the caller. */
CUresult shim_slot_unknown(const char *name, _Atomic int *said,
			   const void *caller);

/* cuCtxGetId with these tables' own codes: no context has id 0. */
CUresult shim_table_ctx_id(CUcontext handle, uint64_t *out_id);

/* Run the destructors of a context that ends and empty its storage. */
void shim_cls_end(struct shim_context *ctx);

#endif
