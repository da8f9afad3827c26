/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies. What the worker can reach (device memory, pinned memory, module
 * variables) it copies by itself, posted. Pageable memory passes through the
 * channel's staging memory: on the way in it is copied at call time, so the
 * caller may change it at once; on the way out the call waits, so that the
 * data are there before anybody can learn that the work is complete.
 */
#include <stdbool.h>
#include <string.h>

#include "shim_calls.h"
#include "shim_impl.h"
#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/copy.h"
#include "shim/ctx.h"
#include "shim/process.h"
#include "shim/range.h"
#include "shim/staged.h"
#include "shim/stream.h"

/* One copy; addresses are valid for `size` bytes as far as we can know. */
struct copy {
	struct shim_context *ctx;
	uint64_t stream;
	uint64_t dst, src, size;
	enum shim_place to, from;
};

CUresult
shim_copy_place(const struct shim_context *ctx, uint64_t *address,
		uint64_t size, enum shim_place *out_place)
{
	struct shim_range range;
	uint64_t left;
	bool near;

	*out_place = PLACE_PAGEABLE;
	if (shim_range_reach(*address, size, &range, &left))
		return *address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (size > left || range.closed)
		return CUDA_ERROR_INVALID_VALUE;
	if (shim_range_is_host(&range)) {
		near = range.device == ctx->device &&
		       !(shim_process.perf & SHIM_NO_PIN) &&
		       (range.kind != RANGE_REGISTERED || range.other);
		if (near && range.kind == RANGE_REGISTERED)
			*address += range.other - range.start;
		*out_place = near ? PLACE_PINNED : PLACE_STAGED;
		return CUDA_SUCCESS;
	}
	*out_place = PLACE_DEVICE;
	/* One worker a device: memory of two meets in neither. */
	return range.device == ctx->device ? CUDA_SUCCESS
					   : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult
copy_in(const struct copy *c)
{
	struct shim_staged staged = {
		.ctx = c->ctx, .stream = c->stream, .device = c->dst,
		.host = c->src, .size = c->size,
	};

	return shim_staged_in(&staged);
}

static CUresult
copy_out(const struct copy *c)
{
	struct shim_staged staged = {
		.ctx = c->ctx, .stream = c->stream, .device = c->src,
		.host = c->dst, .size = c->size,
	};

	return shim_staged_out(&staged);
}

/* Both ends are the program's own memory: its turn in the stream, then an
 * ordinary copy, as the real driver does it. */
static CUresult
copy_host(const struct copy *c)
{
	CUresult r = call_mpsStreamSync(c->ctx->chan, c->stream);

	if (r == CUDA_SUCCESS)
		memmove((void *)(uintptr_t)c->dst,
			(const void *)(uintptr_t)c->src, c->size);
	return r;
}

bool
shim_copy_is_synchronous(uint64_t address)
{
	struct shim_range range;

	return !shim_range_find(address, &range) && range.sync_memops;
}

/* Does the call return only when the data have arrived? Natively a copy that
 * touches no host memory is asynchronous even without Async in its name,
 * unless the program has asked for the contrary. */
static CUresult
do_copy(const struct copy *c, bool sync)
{
	struct shim_chan *chan = c->ctx->chan;
	CUresult r;

	if (shim_is_staged(c->to))
		return shim_is_staged(c->from) ? copy_host(c) : copy_out(c);
	if (shim_is_staged(c->from))
		r = copy_in(c);
	else
		r = call_mpsCopy(chan, c->dst, c->src, c->size, c->stream);
	if (r == CUDA_SUCCESS && sync &&
	    (c->to != PLACE_DEVICE || c->from != PLACE_DEVICE ||
	     shim_copy_is_synchronous(c->dst) ||
	     shim_copy_is_synchronous(c->src)))
		r = call_mpsStreamSync(chan, c->stream);
	return r;
}

CUresult
shim_copy_now(struct shim_context *ctx, uint64_t dst, uint64_t src,
	      uint64_t size)
{
	struct copy c = { .ctx = ctx, .dst = dst, .src = src, .size = size };
	struct shim_stream *s;
	CUresult r = shim_stream_find(CU_STREAM_PER_THREAD, ctx, &s);

	if (r == CUDA_SUCCESS)
		r = shim_copy_place(ctx, &c.dst, size, &c.to);
	if (r == CUDA_SUCCESS)
		r = shim_copy_place(ctx, &c.src, size, &c.from);
	if (r == CUDA_SUCCESS)
		r = shim_room_take(s, SHIM_ROOM_OTHER);
	if (r != CUDA_SUCCESS)
		return r;
	c.stream = s->object.handle;
	r = do_copy(&c, true);
	return r != CUDA_SUCCESS ? r : call_mpsStreamSync(ctx->chan, c.stream);
}

enum {
	TO_DEVICE = 1,    /* the destination must not be pageable */
	FROM_DEVICE = 2,  /* nor the source */
	EARLY = 4,        /* the source is read before the call returns */
};

static CUresult
copy(CUstream stream, uint64_t dst, uint64_t src, uint64_t size,
     unsigned int rule, bool sync)
{
	struct copy c = {
		.ctx = shim_current, .dst = dst, .src = src, .size = size,
	};
	struct shim_stream *s;
	CUresult r = shim_stream_find(stream, shim_current, &s);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(s);
	if (r == CUDA_SUCCESS && sync)
		r = shim_capture_wait_stream(s);
	if (r != CUDA_SUCCESS || !size)
		return r;
	if (shim_copy_is_foreign(c.ctx, dst) ||
	    shim_copy_is_foreign(c.ctx, src))
		return shim_copy_foreign(s, dst, src, size);
	c.stream = s->object.handle;
	r = shim_copy_place(c.ctx, &c.dst, size, &c.to);
	if (r == CUDA_SUCCESS)
		r = shim_copy_place(c.ctx, &c.src, size, &c.from);
	if (r != CUDA_SUCCESS)
		return r;
	if ((rule & TO_DEVICE && c.to == PLACE_PAGEABLE) ||
	    (rule & FROM_DEVICE && c.from == PLACE_PAGEABLE))
		return CUDA_ERROR_INVALID_VALUE;
	if (shim_stream_is_capturing(s))
		return shim_capture_copy(s, dst, src, size);
	/* The caller's thread reads it, as it does pageable memory. */
	if (rule & EARLY && c.from == PLACE_PINNED)
		c.from = PLACE_STAGED;
	r = shim_room_take(s, SHIM_ROOM_OTHER);
	if (r == CUDA_SUCCESS)
		r = do_copy(&c, sync);
	return r == CUDA_SUCCESS && rule & EARLY && c.from == PLACE_DEVICE ?
	       call_mpsStreamSync(c.ctx->chan, c.stream) : r;
}

CUresult
shim_copy_ordered(CUstream stream, uint64_t dst, uint64_t src, uint64_t size,
		  CUmemcpySrcAccessOrder order)
{
	bool early = order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;

	return copy(stream, dst, src, size, early ? EARLY : 0, false);
}

CUresult
shim_cuMemcpyHtoD_v2(CUstream stream, CUdeviceptr dstDevice,
		     const void *srcHost, size_t ByteCount)
{
	return copy(stream, dstDevice, (uintptr_t)srcHost, ByteCount,
		    TO_DEVICE, true);
}

CUresult
shim_cuMemcpyDtoH_v2(CUstream stream, void *dstHost, CUdeviceptr srcDevice,
		     size_t ByteCount)
{
	return copy(stream, (uintptr_t)dstHost, srcDevice, ByteCount,
		    FROM_DEVICE, true);
}

CUresult
shim_cuMemcpyDtoD_v2(CUstream stream, CUdeviceptr dstDevice,
		     CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy(stream, dstDevice, srcDevice, ByteCount,
		    TO_DEVICE | FROM_DEVICE, true);
}

CUresult
shim_cuMemcpy(CUstream stream, CUdeviceptr dst, CUdeviceptr src,
	      size_t ByteCount)
{
	return copy(stream, dst, src, ByteCount, 0, true);
}

CUresult
shim_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost,
			  size_t ByteCount, CUstream hStream)
{
	return copy(hStream, dstDevice, (uintptr_t)srcHost, ByteCount,
		    TO_DEVICE, false);
}

CUresult
shim_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice,
			  size_t ByteCount, CUstream hStream)
{
	return copy(hStream, (uintptr_t)dstHost, srcDevice, ByteCount,
		    FROM_DEVICE, false);
}

CUresult
shim_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
			  size_t ByteCount, CUstream hStream)
{
	return copy(hStream, dstDevice, srcDevice, ByteCount,
		    TO_DEVICE | FROM_DEVICE, false);
}

CUresult
shim_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
		   CUstream hStream)
{
	return copy(hStream, dst, src, ByteCount, 0, false);
}
