/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describing copies and fills.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_MEMCPY_H
#define SERVER_SOFT_SOFT_MEMCPY_H

#include "server/soft/soft_work.h"

/* How the addresses of a one-dimensional copy are named. */
enum soft_copy_ends {
	SOFT_COPY_H2D,
	SOFT_COPY_D2H,
	SOFT_COPY_D2D,
	SOFT_COPY_ANY,    /* unified addresses */
};

/* Work for a copy by parameters; checks everything that can be checked. */
CUresult soft_copy_work_new(const CUDA_MEMCPY3D *params,
			    struct soft_work **out_work);
CUresult soft_set_work_new(CUdeviceptr dst, size_t pitch, unsigned element,
			   uint32_t value, size_t width, size_t rows,
			   struct soft_work **out_work);
/* All that the fill writes is memory. */
bool soft_set_is_mapped(const struct soft_set_work *set);
/* Issue a copy or fill, with CUDA's rules about pageable memory. */
CUresult soft_copy_issue(struct soft_stream *stream, struct soft_work *work,
			 bool async);
CUresult soft_copy_1d(uint64_t dst, uint64_t src, size_t size,
		      enum soft_copy_ends ends, CUstream handle, bool async);

#endif
