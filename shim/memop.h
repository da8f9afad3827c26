/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory operations: values written in the order of a stream, and waits for
 * values. Used by entry points and by graphs with nodes of them.
 */
#ifndef SHIM_MEMOP_H
#define SHIM_MEMOP_H

#include <stdbool.h>

#include "api_cuda.h"

struct shim_stream;

/* May they be issued, in the current context? */
CUresult shim_memops_check(unsigned int count,
			   const CUstreamBatchMemOpParams *ops,
			   unsigned int flags);
/* One after the other; they have been checked. */
CUresult shim_memops_issue(struct shim_stream *stream, unsigned int count,
			   const CUstreamBatchMemOpParams *ops);

/* As many, of the same kinds: what cannot change in an executable graph. */
bool shim_memops_alike(const CUDA_BATCH_MEM_OP_NODE_PARAMS *a,
		       const CUDA_BATCH_MEM_OP_NODE_PARAMS *b);

static inline bool
shim_memop_waits(const CUstreamBatchMemOpParams *op)
{
	return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
	       op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

/* Does any of them? */
static inline bool
shim_memops_wait(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	for (unsigned int i = 0; i < p->count; i++) {
		if (shim_memop_waits(&p->paramArray[i]))
			return true;
	}
	return false;
}

#endif
