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
#include "shim/relax.h"
#include "shim/stage.h"
#include "shim/stream.h"

/* One copy; addresses are valid for `size` bytes as far as we can know. */
struct copy {
	struct shim_context *ctx;
	uint64_t stream;
	uint64_t dst, src, size;
	enum shim_place to, from;
};

CUresult
shim_copy_place(const struct shim_context *ctx, uint64_t address,
		uint64_t size, enum shim_place *out_place)
{
	struct shim_range range;
	uint64_t left;

	*out_place = PLACE_PAGEABLE;
	if (shim_range_reach(address, size, &range, &left))
		return address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (size > left || range.closed)
		return CUDA_ERROR_INVALID_VALUE;
	if (range.kind == RANGE_REGISTERED) {
		*out_place = PLACE_STAGED;
		return CUDA_SUCCESS;
	}
	if (range.kind == RANGE_PINNED || range.kind == RANGE_MANAGED) {
		*out_place = range.device == ctx->device &&
			!(shim_process.perf & SHIM_NO_PIN) ?
			PLACE_PINNED : PLACE_STAGED;
		return CUDA_SUCCESS;
	}
	*out_place = PLACE_DEVICE;
	/* One worker a device: memory of two meets in neither. */
	return range.device == ctx->device ? CUDA_SUCCESS
					   : CUDA_ERROR_NOT_SUPPORTED;
}

/*
 * Staging for a piece of a copy. When all is in use, wait for this stream's
 * own work first: another stream's kernel may run for ever, or wait for this
 * very copy.
 */
static CUresult
take_staging(const struct copy *c, uint32_t size, uint32_t *out_offset)
{
	struct shim_chan *chan = c->ctx->chan;
	struct shim_stage *stage = shim_chan_stage(chan);
	struct shim_relax relax = {0};
	bool synced = false;
	CUresult r = CUDA_SUCCESS;

	while (shim_stage_take(stage, size, c->stream, shim_chan_retired(chan),
			       out_offset) == STAGE_E_FULL) {
		if (synced) {
			r = shim_relax(chan, &relax);
		} else {
			uint64_t seq = shim_chan_seq(chan);

			r = call_mpsStreamSync(chan, c->stream);
			shim_stage_finish(stage, c->stream, seq);
			synced = true;
		}
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

CUresult
shim_copy_stage(struct shim_context *ctx, uint64_t stream, uint32_t size,
		uint32_t *out_offset)
{
	struct copy c = { .ctx = ctx, .stream = stream };

	return take_staging(&c, size, out_offset);
}

static uint32_t
piece_size(uint64_t left)
{
	return left < STAGE_PIECE ? (uint32_t)left : STAGE_PIECE;
}

static CUresult
copy_in(const struct copy *c)
{
	struct shim_chan *chan = c->ctx->chan;
	struct shim_stage *stage = shim_chan_stage(chan);
	uint8_t *staging = shim_chan_staging(chan);

	for (uint64_t at = 0; at < c->size;) {
		uint32_t size = piece_size(c->size - at), offset;
		CUresult r = take_staging(c, size, &offset);

		if (r != CUDA_SUCCESS)
			return r;
		memcpy(staging + offset,
		       (const void *)(uintptr_t)(c->src + at), size);
		r = call_mpsCopyIn(chan, c->dst + at, size, offset, c->stream);
		if (r != CUDA_SUCCESS) {
			shim_stage_drop(stage, offset);
			return r;
		}
		/* At least the number of that frame. */
		shim_stage_mark(stage, offset, shim_chan_seq(chan));
		at += size;
	}
	return CUDA_SUCCESS;
}

/* A piece on its way out: the call's arguments live as long as the call. */
struct out_piece {
	struct shim_wait wait;
	uint64_t src, size, staging, stream;
	uint64_t at;            /* where in the copy */
	void *argv[4];
};

static CUresult
begin_out(const struct copy *c, struct out_piece *p, uint64_t at)
{
	uint32_t offset;
	CUresult r;

	p->at = at;
	p->size = piece_size(c->size - at);
	p->src = c->src + at;
	p->stream = c->stream;
	p->argv[0] = &p->src;
	p->argv[1] = &p->size;
	p->argv[2] = &p->staging;
	p->argv[3] = &p->stream;
	r = take_staging(c, (uint32_t)p->size, &offset);
	if (r != CUDA_SUCCESS)
		return r;
	p->staging = offset;
	r = shim_chan_begin(c->ctx->chan, API_mpsCopyOut, p->argv, &p->wait);
	if (r != CUDA_SUCCESS)
		shim_stage_drop(shim_chan_stage(c->ctx->chan), offset);
	return r;
}

static CUresult
end_out(const struct copy *c, struct out_piece *p)
{
	struct shim_chan *chan = c->ctx->chan;
	CUresult r = shim_chan_end(chan, API_mpsCopyOut, p->argv, &p->wait);

	if (r == CUDA_SUCCESS)
		memcpy((void *)(uintptr_t)(c->dst + p->at),
		       shim_chan_staging(chan) + p->staging, p->size);
	/* The staging of a lost worker is never reused. */
	if (shim_chan_sticky(chan) == CUDA_SUCCESS)
		shim_stage_drop(shim_chan_stage(chan), (uint32_t)p->staging);
	return r;
}

/* Two pieces are under way: while one is copied to the caller, the GPU fills
 * the other. */
static CUresult
copy_out(const struct copy *c)
{
	struct out_piece pieces[2];
	CUresult first = CUDA_SUCCESS, r;
	unsigned begun = 0, ended = 0;
	uint64_t at = 0;

	while (ended < begun || (at < c->size && first == CUDA_SUCCESS)) {
		if (begun - ended < 2 && at < c->size &&
		    first == CUDA_SUCCESS) {
			r = begin_out(c, &pieces[begun % 2], at);
			if (r == CUDA_SUCCESS)
				at += pieces[begun++ % 2].size;
		} else {
			r = end_out(c, &pieces[ended++ % 2]);
		}
		if (first == CUDA_SUCCESS)
			first = r;
	}
	return first;
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
		r = shim_copy_place(ctx, dst, size, &c.to);
	if (r == CUDA_SUCCESS)
		r = shim_copy_place(ctx, src, size, &c.from);
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
	r = shim_copy_place(c.ctx, dst, size, &c.to);
	if (r == CUDA_SUCCESS)
		r = shim_copy_place(c.ctx, src, size, &c.from);
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
