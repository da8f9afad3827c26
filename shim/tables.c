/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetExportTable: tables of functions without names, found by 16 bytes.
 * NVIDIA's runtime and libraries need these; every other id is refused as the
 * real driver refuses an unknown one. Works before cuInit.
 */
#include "shim/tables.h"

#include <string.h>

#include "proto/log.h"
#include "shim/ctx.h"
#include "shim_impl.h"

static const struct {
	unsigned char id[16];
	shim_slot *const *table;
} tables[] = {
	/* CUDART: primary contexts and images for the runtime. */
	{ { 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
	    0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9 },
	  shim_table_cudart },
	/* HOOKS: a profiler's callbacks, which we never enable. */
	{ { 0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74,
	    0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66 },
	  shim_table_hooks },
	/* TLS: the thread's context. */
	{ { 0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47,
	    0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc },
	  shim_table_tls },
	/* CLS: context-local storage. */
	{ { 0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11,
	    0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93 },
	  shim_table_cls },
	/* CHECKS: does a context wrap another one? */
	{ { 0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43,
	    0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e },
	  shim_table_checks },
	/* INTEG: the integrity answer. */
	{ { 0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b,
	    0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2 },
	  shim_table_integ },
	/* 2131: ids of contexts and streams (cuBLAS, cuBLASLt, cuFFT). */
	{ { 0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48,
	    0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2 },
	  shim_table_2131 },
	/* 6E16: the functions of a module (cuFFT). */
	{ { 0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d,
	    0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e },
	  shim_table_6e16 },
	/* 1734: where multiprocessors sit (cuBLASLt on compute capability
	 * 9.0, which dereferences a NULL if this is refused). */
	{ { 0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45,
	    0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca },
	  shim_table_1734 },
};

CUresult
shim_cuGetExportTable(const void **ppExportTable,
		      const CUuuid *pExportTableId)
{
	if (ppExportTable == NULL || pExportTableId == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*ppExportTable = NULL;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (memcmp(tables[i].id, pExportTableId->bytes,
			   sizeof(tables[i].id)) == 0) {
			*ppExportTable = (const void *)tables[i].table;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_table_ctx_id(CUcontext handle, uint64_t *out_id)
{
	struct shim_context *ctx;

	if (out_id == NULL)
		return CUDA_ERROR_UNKNOWN;
	*out_id = 0;
	if (handle == NULL)
		return CUDA_SUCCESS;
	ctx = shim_ctx_get(handle);
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*out_id = ctx->id;
	return CUDA_SUCCESS;
}

CUresult
shim_slot_unknown(const char *name, _Atomic int *said, const void *caller)
{
	if (!atomic_exchange_explicit(said, 1, memory_order_relaxed))
		log_line(LOG_WARN, "export table slot %s is not served; "
			 "called from %p", name, caller);
	return CUDA_ERROR_NOT_SUPPORTED;
}
