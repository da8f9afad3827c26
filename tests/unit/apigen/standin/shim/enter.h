/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that build/gen/shim_entry.c needs of shim/enter.h.
 * For test_apigen.py, so that generated code is tested without the shim.
 */
#ifndef SHIM_ENTER_H
#define SHIM_ENTER_H

#include "api_cuda.h"
#include "api_ids.h"

extern int standin_initialized;
extern enum api_id standin_last_id;     /* of the last generated answer */

static inline CUresult
shim_enter_init(enum api_id id)
{
	standin_last_id = id;
	return standin_initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

static inline CUresult
shim_enter_context(enum api_id id)
{
	return shim_enter_init(id);
}

static inline CUresult
shim_answer(enum api_id id, CUresult r)
{
	(void)id;
	return r;
}

CUresult shim_refuse(enum api_id id, CUresult code);
CUresult shim_call(enum api_id id, void *const argv[]);
CUresult shim_post(enum api_id id, void *const argv[]);

#endif
