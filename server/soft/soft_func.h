/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of kernels and functions.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_FUNC_H
#define SERVER_SOFT_SOFT_FUNC_H

#include "server/soft/soft_module.h"

/* Of an H200: shared memory, bytes. */
#define SOFT_SHARED_BLOCK 49152
#define SOFT_SHARED_OPTIN 232448
#define SOFT_SHARED_SM 233472
#define SOFT_SHARED_RESERVED 1024
#define SOFT_REGS_SM 65536
#define SOFT_THREADS_SM 2048
#define SOFT_BLOCKS_SM 32
#define SOFT_THREADS_BLOCK 1024

CUresult soft_attr_get(const struct soft_kernel_info *info,
		       const struct soft_func_attrs *attrs,
		       CUfunction_attribute attr, int *out);
CUresult soft_attr_set(const struct soft_kernel_info *info,
		       struct soft_func_attrs *attrs,
		       CUfunction_attribute attr, int value);
CUresult soft_param_info(const struct soft_kernel_info *info, size_t index,
			 size_t *offset, size_t *size);

#endif
