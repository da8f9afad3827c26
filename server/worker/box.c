/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of two and three dimensions, and of arrays.
 */
#include <string.h>

#include "proto/box.h"
#include "server/worker/graph.h"
#include "server/worker/texture.h"

/* How the driver is told of one end. */
struct end {
	CUmemorytype type;
	void *host;
	CUdeviceptr device;
	CUarray array;
	uint64_t pitch, rows;
};

/* The driver wants pitches even of what has one row. */
static void
set_pitch(struct end *out, const struct box *box, const struct box_end *end)
{
	out->pitch = end->pitch > end->x + box->width ? end->pitch :
							end->x + box->width;
	out->rows = end->rows > end->y + box->height ? end->rows :
						       end->y + box->height;
}

/* False: not the client's, or no box. Arrays are looked up later. */
static bool
check_end_locked(struct wkr_client *client, const struct box *box,
		 const struct box_end *end, struct end *out)
{
	uint64_t first, size, from;

	memset(out, 0, sizeof(*out));
	if (end->kind == BOX_ARRAY) {
		out->type = CU_MEMORYTYPE_ARRAY;
		return true;
	}
	size = box_extent(box, end, &first);
	if (!size || __builtin_add_overflow(end->where, first, &from))
		return false;
	set_pitch(out, box, end);
	if (end->kind == BOX_STAGING) {
		out->type = CU_MEMORYTYPE_HOST;
		out->host = client->staging + end->where;
		return from <= CHANNEL_STAGING &&
		       size <= CHANNEL_STAGING - from;
	}
	if (end->kind != BOX_MEMORY)
		return false;
	out->type = CU_MEMORYTYPE_UNIFIED;
	out->device = end->where;
	return wkr_ranges_cover(&client->ranges, from, size);
}

static bool
check_ends_locked(struct wkr_client *client, const struct box *box,
		  struct end *dst, struct end *src)
{
	return box->width && box->height && box->depth &&
	       check_end_locked(client, box, &box->dst, dst) &&
	       check_end_locked(client, box, &box->src, src);
}

static bool
find_array(struct wkr_client *client, const struct box_end *end,
	   struct end *out)
{
	struct wkr_array *array;

	if (out->type != CU_MEMORYTYPE_ARRAY)
		return true;
	array = wkr_get(client, HANDLE_ARRAY, end->where);
	if (array)
		out->array = array->native;
	return array != NULL;
}

static void
describe(CUDA_MEMCPY3D *m, const struct box *box, const struct end *dst,
	 const struct end *src)
{
	*m = (CUDA_MEMCPY3D){
		.srcXInBytes = box->src.x,
		.srcY = box->src.y,
		.srcZ = box->src.z,
		.srcMemoryType = src->type,
		.srcHost = src->host,
		.srcDevice = src->device,
		.srcArray = src->array,
		.srcPitch = src->pitch,
		.srcHeight = src->rows,
		.dstXInBytes = box->dst.x,
		.dstY = box->dst.y,
		.dstZ = box->dst.z,
		.dstMemoryType = dst->type,
		.dstHost = dst->host,
		.dstDevice = dst->device,
		.dstArray = dst->array,
		.dstPitch = dst->pitch,
		.dstHeight = dst->rows,
		.WidthInBytes = box->width,
		.Height = box->height,
		.Depth = box->depth,
	};
}

static CUresult
copy(struct wkr_call *call, const void *bytes, size_t size, uint64_t stream,
     struct wkr_stream **out_stream)
{
	struct wkr_client *client = call->client;
	struct wkr_stream *s = wkr_get(client, HANDLE_STREAM, stream);
	CUresult r = CUDA_ERROR_INVALID_HANDLE;
	struct end dst, src;
	CUDA_MEMCPY3D m;
	struct box box;
	bool good;

	if (!s)
		return r;
	if (!bytes || size != sizeof(box))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&box, bytes, sizeof(box));
	pthread_mutex_lock(&client->lock);
	good = check_ends_locked(client, &box, &dst, &src);
	pthread_mutex_unlock(&client->lock);
	if (!good)
		return CUDA_ERROR_INVALID_VALUE;
	r = wkr_stream_begin(call, s);
	if (r != CUDA_SUCCESS)
		return r;
	/* Under the lock the reaper cannot end an array. */
	pthread_mutex_lock(&client->lock);
	r = CUDA_ERROR_INVALID_HANDLE;
	if (find_array(client, &box.dst, &dst) &&
	    find_array(client, &box.src, &src)) {
		describe(&m, &box, &dst, &src);
		r = wkr.drv.cuMemcpy3DAsync_v2(&m, s->native);
	}
	pthread_mutex_unlock(&client->lock);
	r = wkr_ok(r);
	if (r == CUDA_SUCCESS)
		wkr_stream_end(call, s, false);
	*out_stream = s;
	return r;
}

static void
need(struct wkr_needs *needs, int k, const struct box *box,
     const struct box_end *end, const struct end *of)
{
	uint64_t first = 0;

	if (end->kind == BOX_ARRAY) {
		needs->array[k] = end->where;
		needs->native[k] = of->array;
		return;
	}
	needs->size[k] = box_extent(box, end, &first);
	needs->base[k] = end->where + first;
}

CUresult
wkr_node_box(struct wkr_call *call, const void *bytes, size_t size,
	     CUDA_MEMCPY3D *out, struct wkr_needs *needs)
{
	struct wkr_client *client = call->client;
	struct end dst, src;
	struct box box;

	if (!bytes || size != sizeof(box))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&box, bytes, sizeof(box));
	/* Staging memory is used again while the graph lives. */
	if (box.dst.kind == BOX_STAGING || box.src.kind == BOX_STAGING ||
	    !check_ends_locked(client, &box, &dst, &src))
		return CUDA_ERROR_INVALID_VALUE;
	if (!find_array(client, &box.dst, &dst) ||
	    !find_array(client, &box.src, &src))
		return CUDA_ERROR_INVALID_HANDLE;
	need(needs, 0, &box, &box.src, &src);
	need(needs, 1, &box, &box.dst, &dst);
	describe(out, &box, &dst, &src);
	return CUDA_SUCCESS;
}

CUresult
wkr_mpsCopyBox(struct wkr_call *call, const void *box, size_t box_size,
	       uint64_t stream)
{
	struct wkr_stream *s;

	return copy(call, box, box_size, stream, &s);
}

CUresult
wkr_mpsCopyBoxOut(struct wkr_call *call, const void *box, size_t box_size,
		  uint64_t stream)
{
	struct wkr_stream *s;
	CUresult r = copy(call, box, box_size, stream, &s);

	return r == CUDA_SUCCESS ? wkr_defer(call, WKR_OF_STREAM, s) : r;
}
