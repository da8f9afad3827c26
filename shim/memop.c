/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream memory operations: values written to memory in the order of a
 * stream, and waits for values.
 *
 * Writes are the driver's. Waits never are: one that nobody ends would hold
 * a hardware queue, and with it streams of others. The stream is held as
 * for a host function, and a thread here looks at the value.
 */
#include "shim/memop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/hostfunc.h"
#include "shim/probe.h"
#include "shim/range.h"
#include "shim/room.h"
#include "shim/stream.h"
#include "shim_calls.h"
#include "shim_impl.h"

#define BATCH_MAX 256u     /* as the driver documents */
#define WAIT_KINDS 0x3u

struct wait {
	struct shim_context *ctx;
	uint64_t address;            /* of the device's memory, or */
	const void *here;            /* of memory that this process sees */
	uint64_t value;
	bool wide;
	unsigned int kind;
	CUstream stream;             /* that its copies go by */
};

/* ---- parameters ---- */

static bool
is_wide(CUstreamBatchMemOpType type)
{
	return type == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
	       type == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static CUresult
find(uint64_t address, bool wide, struct shim_range *out)
{
	uint64_t size = wide ? 8 : 4, left;

	if (address % size || shim_range_reach(address, size, out, &left) ||
	    left < size || out->closed || out->kind == RANGE_REGISTERED)
		return CUDA_ERROR_INVALID_VALUE;
	return out->device == shim_current->device ? CUDA_SUCCESS :
						     CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult
check(const CUstreamBatchMemOpParams *op)
{
	unsigned int flags = op->waitValue.flags;
	struct shim_range range;

	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		if (flags & CU_STREAM_WAIT_VALUE_FLUSH)
			return CUDA_ERROR_NOT_SUPPORTED;
		return flags & ~WAIT_KINDS ? CUDA_ERROR_INVALID_VALUE :
		       find(op->waitValue.address, is_wide(op->operation),
			    &range);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		/* Version 2 knows no write without a barrier. */
		return op->writeValue.flags ? CUDA_ERROR_INVALID_VALUE :
		       find(op->writeValue.address, is_wide(op->operation),
			    &range);
	case CU_STREAM_MEM_OP_BARRIER:
		return op->memoryBarrier.flags >
		       CU_STREAM_MEMORY_BARRIER_TYPE_GPU ?
		       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* ---- waits ---- */

static bool
is_met(const struct wait *w, uint64_t have)
{
	uint64_t mask = w->wide ? UINT64_MAX : UINT32_MAX;

	switch (w->kind) {
	case CU_STREAM_WAIT_VALUE_EQ:
		return have == w->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (have & w->value) != 0;
	case CU_STREAM_WAIT_VALUE_NOR:
		return (~(have | w->value) & mask) != 0;
	default:
		return w->wide ? (int64_t)(have - w->value) >= 0 :
		       (int32_t)(uint32_t)(have - w->value) >= 0;
	}
}

/* False: the program has given the memory back meanwhile. */
static bool
value_here(const struct wait *w, uint64_t *out)
{
	bool yes = probe_read(out, w->here, w->wide ? 8 : 4);

	/* What was written before the value is there with it. */
	atomic_thread_fence(memory_order_acquire);
	return yes;
}

/* The stream that a context's waits read by. It is made before there is
 * anything to wait for: later, making one might have to wait as well. */
static CUresult
reader(struct shim_context *ctx, CUstream *out)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct { struct shim_context *ctx; CUstream stream; } *all;
	static unsigned int count;
	CUresult r = CUDA_SUCCESS;
	const struct shim_stream *s;
	unsigned int i = 0;
	void *grown;

	pthread_mutex_lock(&lock);
	while (i < count && all[i].ctx != ctx)
		i++;
	if (i == count) {
		grown = realloc(all, (count + 1) * sizeof(*all));
		if (grown == NULL) {
			pthread_mutex_unlock(&lock);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		all = grown;
		all[count].ctx = ctx;
		all[count++].stream = NULL;
	}
	/* Streams end with their context, whose place another may take. */
	s = shim_object_get(HANDLE_STREAM, (uintptr_t)all[i].stream);
	if (s == NULL || s->object.ctx != ctx)
		r = shim_cuStreamCreate(&all[i].stream,
					CU_STREAM_NON_BLOCKING);
	*out = all[i].stream;
	pthread_mutex_unlock(&lock);
	return r;
}

/* In the thread that waits. A value that cannot be had any more will not
 * change: the device is lost, or the program has freed the memory. */
static bool
is_over(void *arg)
{
	struct wait *w = arg;
	uint64_t have = 0;

	if (shim_chan_sticky(w->ctx->chan) != CUDA_SUCCESS)
		return true;
	if (w->here != NULL)
		return !value_here(w, &have) || is_met(w, have);
	shim_current = w->ctx;
	return shim_cuMemcpyDtoHAsync_v2(&have, w->address, w->wide ? 8 : 4,
					 w->stream) != CUDA_SUCCESS ||
	       is_met(w, have);
}

static CUresult
wait_for(struct shim_stream *stream, const CUstreamBatchMemOpParams *op)
{
	uint64_t address = op->waitValue.address;
	struct shim_range range;
	struct wait *w;
	CUresult r = find(address, is_wide(op->operation), &range);

	if (r != CUDA_SUCCESS)
		return r;
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	w->ctx = shim_current;
	r = reader(w->ctx, &w->stream);
	if (r != CUDA_SUCCESS) {
		free(w);
		return r;
	}
	w->wide = is_wide(op->operation);
	w->value = w->wide ? op->waitValue.value64 : op->waitValue.value;
	w->kind = op->waitValue.flags & WAIT_KINDS;
	if (range.kind == RANGE_ALIAS)
		w->here = (const void *)(uintptr_t)
			  (range.other + (address - range.start));
	else if (shim_range_is_host(&range))
		w->here = (const void *)(uintptr_t)address;
	else
		w->address = address;
	r = shim_host_wait(stream, is_over, w);
	if (r != CUDA_SUCCESS)
		free(w);
	return r;
}

/* ---- all of them ---- */

static CUresult
issue(struct shim_stream *stream, const CUstreamBatchMemOpParams *op)
{
	bool wide = is_wide(op->operation);
	CUresult r;

	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return wait_for(stream, op);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		r = shim_room_take(stream, SHIM_ROOM_OTHER);
		return r != CUDA_SUCCESS ? r :
		       call_mpsStreamWrite(stream->object.ctx->chan,
			op->writeValue.address,
			wide ? op->writeValue.value64 : op->writeValue.value,
			wide, op->writeValue.flags, stream->object.handle);
	default:
		/* A barrier: each of these comes after the one before. */
		return CUDA_SUCCESS;
	}
}

CUresult
shim_memops_check(unsigned int count, const CUstreamBatchMemOpParams *ops,
		  unsigned int flags)
{
	CUresult r = CUDA_SUCCESS;

	if (flags || count > BATCH_MAX || (count > 0 && ops == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count && r == CUDA_SUCCESS; i++)
		r = check(&ops[i]);
	return r;
}

CUresult
shim_memops_issue(struct shim_stream *stream, unsigned int count,
		  const CUstreamBatchMemOpParams *ops)
{
	CUresult r = CUDA_SUCCESS;

	for (unsigned int i = 0; i < count && r == CUDA_SUCCESS; i++)
		r = issue(stream, &ops[i]);
	return r;
}

bool
shim_memops_alike(const CUDA_BATCH_MEM_OP_NODE_PARAMS *a,
		  const CUDA_BATCH_MEM_OP_NODE_PARAMS *b)
{
	if (a->count != b->count)
		return false;
	for (unsigned int i = 0; i < a->count; i++) {
		if (a->paramArray[i].operation != b->paramArray[i].operation)
			return false;
	}
	return true;
}

static CUresult
capture(struct shim_stream *stream, unsigned int count,
	CUstreamBatchMemOpParams *ops)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS p = {
		.ctx = (CUcontext)(uintptr_t)stream->object.ctx->handle,
		.count = count, .paramArray = ops,
	};
	struct shim_work work;
	CUresult r = shim_work_memops(&p, &work);

	return r != CUDA_SUCCESS ? r : shim_capture_work(stream, &work);
}

CUresult
shim_cuStreamBatchMemOp_v2(CUstream handle, unsigned int count,
			   CUstreamBatchMemOpParams *ops, unsigned int flags)
{
	struct shim_stream *stream;
	CUresult r = shim_stream_find(handle, shim_current, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r == CUDA_SUCCESS)
		r = shim_memops_check(count, ops, flags);
	if (r != CUDA_SUCCESS || count == 0)
		return r;
	return shim_stream_is_capturing(stream) ?
	       capture(stream, count, ops) :
	       shim_memops_issue(stream, count, ops);
}

static CUresult
one(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address,
    uint64_t value, unsigned int flags)
{
	CUstreamBatchMemOpParams op;

	/* Both members begin alike. */
	memset(&op, 0, sizeof(op));
	op.waitValue.operation = type;
	op.waitValue.address = address;
	if (is_wide(type))
		op.waitValue.value64 = value;
	else
		op.waitValue.value = (cuuint32_t)value;
	op.waitValue.flags = flags;
	return shim_cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

CUresult
shim_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr,
			     cuuint32_t value, unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value,
		   flags);
}

CUresult
shim_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr,
			     cuuint64_t value, unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value,
		   flags);
}

CUresult
shim_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr,
			    cuuint32_t value, unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult
shim_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr,
			    cuuint64_t value, unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}
