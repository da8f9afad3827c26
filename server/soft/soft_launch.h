/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching kernels: checking, packing parameters.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_LAUNCH_H
#define SERVER_SOFT_SOFT_LAUNCH_H

#include "server/soft/soft_work.h"

struct soft_launch {
	CUfunction function;
	unsigned grid[3], block[3], dyn_shared;
	void **params, **extra;
	unsigned attr_count;
	const CUlaunchAttribute *attrs;
	bool cooperative;
};

/* Work for a launch, checked; the function is resolved in ctx. */
CUresult soft_kernel_work_new(struct soft_ctx *ctx,
			      const struct soft_launch *launch,
			      struct soft_work **out_work);

#endif
