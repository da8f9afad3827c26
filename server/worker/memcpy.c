/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills. Every address is one that the client owns; bytes
 * from and to pageable memory come and go by the client's staging memory.
 */
#include "server/worker/call.h"

static bool
owns(struct wkr_client *client, uint64_t address, uint64_t size)
{
	bool yes;

	pthread_mutex_lock(&client->lock);
	yes = wkr_ranges_cover(&client->ranges, address, size);
	pthread_mutex_unlock(&client->lock);
	return yes;
}

static bool
in_staging(uint64_t offset, uint64_t size)
{
	return offset <= CHANNEL_STAGING &&
	       size <= CHANNEL_STAGING - offset;
}

CUresult
wkr_mpsCopyIn(struct wkr_call *call, uint64_t dst, uint64_t size,
	      uint64_t staging, uint64_t stream)
{
	struct wkr_client *client = call->client;
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	CUresult r;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!in_staging(staging, size) || !owns(client, dst, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (!size)
		return CUDA_SUCCESS;
	call->again = wkr_keep_write(client, dst, size);
	r = wkr_stream_begin(call, s);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuMemcpyHtoDAsync_v2(
			dst, client->staging + staging, size, s->native));
	if (r == CUDA_SUCCESS)
		wkr_stream_end(call, s, false);
	return r;
}

CUresult
wkr_mpsCopyOut(struct wkr_call *call, uint64_t src, uint64_t size,
	       uint64_t staging, uint64_t stream)
{
	struct wkr_client *client = call->client;
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	CUresult r = CUDA_SUCCESS;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!in_staging(staging, size) || !owns(client, src, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (size) {
		call->again = wkr_keep_read(client, src, size);
		r = wkr_stream_begin(call, s);
		if (r == CUDA_SUCCESS)
			r = wkr_ok(wkr.drv.cuMemcpyDtoHAsync_v2(
				client->staging + staging, src, size,
				s->native));
		if (r == CUDA_SUCCESS)
			wkr_stream_end(call, s, false);
	}
	return r == CUDA_SUCCESS ? wkr_defer(call, WKR_OF_STREAM, s) : r;
}

CUresult
wkr_mpsCopy(struct wkr_call *call, uint64_t dst, uint64_t src, uint64_t size,
	    uint64_t stream)
{
	struct wkr_client *client = call->client;
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	CUresult r;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!owns(client, dst, size) || !owns(client, src, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (!size)
		return CUDA_SUCCESS;
	r = wkr_stream_begin(call, s);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuMemcpyAsync(dst, src, size, s->native));
	if (r == CUDA_SUCCESS)
		wkr_stream_end(call, s, false);
	return r;
}

struct fill {
	uint64_t dst, pitch, width, height;
	uint32_t element, value;
};

/* Bytes from the first to behind the last; false when that overflows or the
 * shape makes no sense. */
static bool
fill_extent(const struct fill *f, uint64_t *out)
{
	uint64_t row, rows;

	if (f->element != 1 && f->element != 2 && f->element != 4)
		return false;
	if (__builtin_mul_overflow(f->width, f->element, &row) ||
	    f->dst % f->element || f->pitch % f->element)
		return false;
	if (!f->width || !f->height) {
		*out = 0;
		return true;
	}
	if (f->height > 1 && f->pitch < row)
		return false;
	return !__builtin_mul_overflow(f->height - 1, f->pitch, &rows) &&
	       !__builtin_add_overflow(rows, row, out);
}

static CUresult
fill_row(const struct fill *f, CUstream s)
{
	switch (f->element) {
	case 1:
		return wkr.drv.cuMemsetD8Async(f->dst, (unsigned char)f->value,
					       f->width, s);
	case 2:
		return wkr.drv.cuMemsetD16Async(
			f->dst, (unsigned short)f->value, f->width, s);
	default:
		return wkr.drv.cuMemsetD32Async(f->dst, f->value, f->width, s);
	}
}

static CUresult
fill_rows(const struct fill *f, CUstream s)
{
	switch (f->element) {
	case 1:
		return wkr.drv.cuMemsetD2D8Async(f->dst, f->pitch,
						 (unsigned char)f->value,
						 f->width, f->height, s);
	case 2:
		return wkr.drv.cuMemsetD2D16Async(f->dst, f->pitch,
						  (unsigned short)f->value,
						  f->width, f->height, s);
	default:
		return wkr.drv.cuMemsetD2D32Async(f->dst, f->pitch, f->value,
						  f->width, f->height, s);
	}
}

CUresult
wkr_mpsStreamWrite(struct wkr_call *call, uint64_t dst, uint64_t value,
		   uint32_t wide, uint32_t flags, uint64_t stream)
{
	struct wkr_client *client = call->client;
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	uint64_t size = wide ? 8 : 4;
	CUresult r;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (dst % size || !owns(client, dst, size))
		return CUDA_ERROR_INVALID_VALUE;
	call->again = wkr_keep_write(client, dst, size);
	r = wkr_stream_begin(call, s);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wide ? wkr.drv.cuStreamWriteValue64_v2(
					  s->native, dst, value, flags)
				: wkr.drv.cuStreamWriteValue32_v2(
					  s->native, dst, (cuuint32_t)value,
					  flags));
	if (r == CUDA_SUCCESS)
		wkr_stream_end(call, s, false);
	return r;
}

CUresult
wkr_mpsFill(struct wkr_call *call, uint64_t dst, uint64_t pitch,
	    uint32_t element, uint32_t value, uint64_t width, uint64_t height,
	    uint64_t stream)
{
	struct wkr_client *client = call->client;
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	struct fill f = {.dst = dst,
			 .pitch = pitch,
			 .width = width,
			 .height = height,
			 .element = element,
			 .value = value};
	uint64_t size;
	CUresult r;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!fill_extent(&f, &size) || !owns(client, dst, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (!size)
		return CUDA_SUCCESS;
	call->again = wkr_keep_write(client, dst, size);
	r = wkr_stream_begin(call, s);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(height == 1 ? fill_row(&f, s->native)
				       : fill_rows(&f, s->native));
	if (r == CUDA_SUCCESS)
		wkr_stream_end(call, s, false);
	return r;
}
