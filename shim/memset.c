/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills. All are posted; one into pinned memory, which the program may read at
 * once, waits when the function is not an Async one, as natively.
 */
#include "shim_calls.h"
#include "shim_impl.h"
#include "proto/log.h"
#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/range.h"
#include "shim/stream.h"

struct fill {
	uint64_t dst, pitch;   /* pitch 0: one row */
	uint32_t element;      /* bytes */
	uint32_t value;
	uint64_t width, height; /* width in elements */
};

/* Bytes from the first to the last that the fill writes; 0: too many. */
static uint64_t
extent(const struct fill *f)
{
	uint64_t row, rest;

	if (__builtin_mul_overflow(f->width, (uint64_t)f->element, &row) ||
	    __builtin_mul_overflow(f->pitch, f->height - 1, &rest) ||
	    __builtin_add_overflow(row, rest, &rest))
		return 0;
	return rest;
}

static CUresult
capture_fill(struct shim_stream *stream, const struct fill *f)
{
	CUDA_MEMSET_NODE_PARAMS p = {
		.dst = f->dst, .pitch = f->height > 1 ? f->pitch : 0,
		.value = f->value, .elementSize = f->element,
		.width = f->width, .height = f->height,
	};
	struct shim_work work;
	CUresult r = shim_work_captured_fill(&p, &work);

	return r != CUDA_SUCCESS ? r : shim_capture_work(stream, &work);
}

static CUresult
fill(CUstream handle, const struct fill *f, bool sync)
{
	struct shim_context *ctx = shim_current;
	struct shim_stream *stream;
	struct shim_range range;
	uint64_t size, left = 0;
	CUresult r = shim_stream_find(handle, ctx, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r == CUDA_SUCCESS && sync)
		r = shim_capture_wait_stream(stream);
	if (r != CUDA_SUCCESS || !f->width || !f->height)
		return r;
	if (f->dst % f->element)
		return CUDA_ERROR_INVALID_VALUE;
	/* The driver counts bytes in 64 bits: these are none (measured). */
	if (f->height == 1 && f->width * f->element == 0)
		return r;
	if (f->height > 1 && (f->pitch % f->element ||
			      f->width > f->pitch / f->element))
		return CUDA_ERROR_INVALID_VALUE;
	if (shim_stream_is_capturing(stream))
		return capture_fill(stream, f);
	size = extent(f);
	if (!size || shim_range_reach(f->dst, size, &range, &left) ||
	    size > left || range.closed || range.kind == RANGE_REGISTERED) {
		if (log_enabled(LOG_DEBUG))
			log_line(LOG_DEBUG, "a fill of %#llx bytes at %#llx: "
				 "%#llx are there", (unsigned long long)size,
				 (unsigned long long)f->dst,
				 (unsigned long long)left);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (range.device != ctx->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = shim_room_take(stream, SHIM_ROOM_OTHER);
	if (r != CUDA_SUCCESS)
		return r;
	r = call_mpsFill(ctx->chan, f->dst, f->height > 1 ? f->pitch : 0,
			 f->element, f->value, f->width, f->height,
			 stream->object.handle);
	if (r == CUDA_SUCCESS && sync && (shim_range_is_host(&range) ||
				      range.sync_memops))
		r = call_mpsStreamSync(ctx->chan, stream->object.handle);
	return r;
}

static CUresult
fill_row(CUstream stream, uint64_t dst, uint32_t element, uint32_t value,
	 uint64_t count, bool sync)
{
	struct fill f = { dst, 0, element, value, count, 1 };

	return fill(stream, &f, sync);
}

static CUresult
fill_rows(CUstream stream, uint64_t dst, uint64_t pitch, uint32_t element,
	  uint32_t value, uint64_t width, uint64_t height, bool sync)
{
	struct fill f = { dst, pitch, element, value, width, height };

	return fill(stream, &f, sync);
}

CUresult
shim_cuMemsetD8_v2(CUstream stream, CUdeviceptr dstDevice, unsigned char uc,
		   size_t N)
{
	return fill_row(stream, dstDevice, 1, uc, N, true);
}

CUresult
shim_cuMemsetD16_v2(CUstream stream, CUdeviceptr dstDevice, unsigned short us,
		    size_t N)
{
	return fill_row(stream, dstDevice, 2, us, N, true);
}

CUresult
shim_cuMemsetD32_v2(CUstream stream, CUdeviceptr dstDevice, unsigned int ui,
		    size_t N)
{
	return fill_row(stream, dstDevice, 4, ui, N, true);
}

CUresult
shim_cuMemsetD2D8_v2(CUstream stream, CUdeviceptr dstDevice, size_t dstPitch,
		     unsigned char uc, size_t Width, size_t Height)
{
	return fill_rows(stream, dstDevice, dstPitch, 1, uc, Width, Height,
			 true);
}

CUresult
shim_cuMemsetD2D16_v2(CUstream stream, CUdeviceptr dstDevice, size_t dstPitch,
		      unsigned short us, size_t Width, size_t Height)
{
	return fill_rows(stream, dstDevice, dstPitch, 2, us, Width, Height,
			 true);
}

CUresult
shim_cuMemsetD2D32_v2(CUstream stream, CUdeviceptr dstDevice, size_t dstPitch,
		      unsigned int ui, size_t Width, size_t Height)
{
	return fill_rows(stream, dstDevice, dstPitch, 4, ui, Width, Height,
			 true);
}

CUresult
shim_cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
		     CUstream hStream)
{
	return fill_row(hStream, dstDevice, 1, uc, N, false);
}

CUresult
shim_cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
		      CUstream hStream)
{
	return fill_row(hStream, dstDevice, 2, us, N, false);
}

CUresult
shim_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N,
		      CUstream hStream)
{
	return fill_row(hStream, dstDevice, 4, ui, N, false);
}

CUresult
shim_cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch,
		       unsigned char uc, size_t Width, size_t Height,
		       CUstream hStream)
{
	return fill_rows(hStream, dstDevice, dstPitch, 1, uc, Width, Height,
			 false);
}

CUresult
shim_cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch,
			unsigned short us, size_t Width, size_t Height,
			CUstream hStream)
{
	return fill_rows(hStream, dstDevice, dstPitch, 2, us, Width, Height,
			 false);
}

CUresult
shim_cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch,
			unsigned int ui, size_t Width, size_t Height,
			CUstream hStream)
{
	return fill_rows(hStream, dstDevice, dstPitch, 4, ui, Width, Height,
			 false);
}
