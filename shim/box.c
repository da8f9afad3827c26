/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of two and three dimensions, and of arrays. As with plain copies,
 * what the worker reaches it copies by itself, posted; rows of pageable memory
 * pass through the channel's staging memory, as many at a time as fit.
 */
#include "proto/box.h"

#include <string.h>

#include "shim/array.h"
#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/copy.h"
#include "shim/ctx.h"
#include "shim/stage.h"
#include "shim/staged.h"
#include "shim/stream.h"
#include "shim_calls.h"
#include "shim_impl.h"

/* A copy under way. The box's ends hold addresses of the program's memory
 * where that is to be staged. */
struct job {
	struct shim_context *ctx;
	uint64_t stream;
	struct box box;
	enum shim_place to, from;   /* PLACE_DEVICE: arrays too */
};

/* What a descriptor says of one end. */
struct side {
	CUmemorytype type;
	uint64_t address;
	CUarray array;
	uint64_t pitch, rows, x, y, z, lod;
};

static CUresult
array_end(const struct box *box, const struct side *side, struct box_end *end)
{
	const struct shim_array *array = shim_array_get(side->array);
	const CUDA_ARRAY3D_DESCRIPTOR *desc;
	uint32_t element;

	if (!array)
		return side->array ? CUDA_ERROR_INVALID_HANDLE :
				     CUDA_ERROR_INVALID_VALUE;
	desc = &array->desc;
	element = shim_array_element(array);
	if (array->object.ctx->device != shim_current->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* Blocks of compressed formats are the driver's to judge, and so are
	 * parts of elements, which it takes. */
	if (element && (side->x > desc->Width * element ||
			box->width > desc->Width * element - side->x ||
			side->y + box->height > (desc->Height ? desc->Height :
								1) ||
			side->z + box->depth > (desc->Depth ? desc->Depth :
							      1)))
		return CUDA_ERROR_INVALID_VALUE;
	end->kind = BOX_ARRAY;
	end->where = array->object.handle;
	return CUDA_SUCCESS;
}

static CUresult
memory_end(const struct box *box, const struct side *side,
	   struct box_end *end, enum shim_place *out_place)
{
	uint64_t first, size, at;
	CUresult r;

	end->kind = BOX_MEMORY;
	end->pitch = side->pitch ? side->pitch : side->x + box->width;
	end->rows = side->rows ? side->rows : side->y + box->height;
	size = box_extent(box, end, &first);
	if (!size || !side->address || side->address + first < first)
		return CUDA_ERROR_INVALID_VALUE;
	at = side->address + first;
	r = shim_copy_place(shim_current, &at, size, out_place);
	end->where = at - first;
	if (r == CUDA_SUCCESS && side->type == CU_MEMORYTYPE_DEVICE &&
	    *out_place == PLACE_PAGEABLE)
		r = CUDA_ERROR_INVALID_VALUE;
	return r;
}

static CUresult
set_end(const struct box *box, const struct side *side, struct box_end *end,
	enum shim_place *out_place)
{
	*end = (struct box_end){
		.x = side->x, .y = side->y, .z = side->z,
	};
	*out_place = PLACE_DEVICE;
	/* Plain memory has no levels, whatever is asked for. */
	if ((side->lod && side->type == CU_MEMORYTYPE_ARRAY) ||
	    side->x >> 40 || side->y >> 40 || side->z >> 40)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)side->type) {
	case CU_MEMORYTYPE_ARRAY:
		return array_end(box, side, end);
	case CU_MEMORYTYPE_HOST:
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		return memory_end(box, side, end, out_place);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* ---- pieces ------------------------------------------------------------- */

/* A part of the box that fits into a piece of staging memory. */
struct part {
	uint64_t x, y, z;
	uint64_t width, height, depth;
};

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The part at p's corner: whole slices, else whole rows, else part of one. */
static void
shape_part(const struct box *box, struct part *p)
{
	uint64_t fit;

	p->width = least(box->width - p->x, STAGE_PIECE);
	p->height = p->depth = 1;
	if (p->width < box->width)
		return;
	fit = STAGE_PIECE / box->width;
	p->height = least(box->height - p->y, fit);
	if (p->height < box->height)
		return;
	p->depth = least(box->depth - p->z, fit / box->height);
}

/* False: that was the last one. */
static bool
next_part(const struct box *box, struct part *p)
{
	p->x += p->width;
	if (p->x < box->width)
		return true;
	p->x = 0;
	p->y += p->height;
	if (p->y < box->height)
		return true;
	p->y = 0;
	p->z += p->depth;
	return p->z < box->depth;
}

static uint32_t
part_size(const struct part *p)
{
	return (uint32_t)(p->width * p->height * p->depth);
}

static void
move_end(struct box_end *end, const struct part *p)
{
	end->x += p->x;
	end->y += p->y;
	end->z += p->z;
}

static void
stage_end(struct box_end *end, const struct part *p, uint32_t offset)
{
	*end = (struct box_end){
		.kind = BOX_STAGING, .where = offset, .pitch = p->width,
		.rows = p->height,
	};
}

static uint8_t *
row_of(const struct box_end *end, const struct part *p, uint64_t y, uint64_t z)
{
	uint64_t row = (end->z + p->z + z) * end->rows + end->y + p->y + y;

	return (uint8_t *)(uintptr_t)(end->where + row * end->pitch + end->x +
				      p->x);
}

/* Between the program's rows and the piece, which has them close together. */
static void
copy_rows(const struct box_end *end, const struct part *p, uint8_t *piece,
	  bool in)
{
	for (uint64_t z = 0; z < p->depth; z++) {
		for (uint64_t y = 0; y < p->height; y++) {
			uint8_t *row = row_of(end, p, y, z);

			memcpy(in ? piece : row, in ? row : piece, p->width);
			piece += p->width;
		}
	}
}

static void
shape_box(struct box *box, const struct part *p)
{
	box->width = p->width;
	box->height = p->height;
	box->depth = p->depth;
}

static CUresult
part_in(const struct job *job, const struct part *p)
{
	struct shim_chan *chan = job->ctx->chan;
	struct box box = job->box;
	uint32_t offset;
	CUresult r = shim_staged_take(job->ctx, job->stream, part_size(p),
				      &offset);

	if (r != CUDA_SUCCESS)
		return r;
	copy_rows(&job->box.src, p, shim_chan_staging(chan) + offset, true);
	shape_box(&box, p);
	stage_end(&box.src, p, offset);
	move_end(&box.dst, p);
	r = call_mpsCopyBox(chan, &box, sizeof(box), job->stream);
	if (r != CUDA_SUCCESS) {
		shim_stage_drop(shim_chan_stage(chan), offset);
		return r;
	}
	/* At least the number of that frame. */
	shim_stage_mark(shim_chan_stage(chan), offset, shim_chan_seq(chan));
	return r;
}

static CUresult
part_out(const struct job *job, const struct part *p)
{
	struct shim_chan *chan = job->ctx->chan;
	struct box box = job->box;
	uint32_t offset;
	CUresult r = shim_staged_take(job->ctx, job->stream, part_size(p),
				      &offset);

	if (r != CUDA_SUCCESS)
		return r;
	shape_box(&box, p);
	stage_end(&box.dst, p, offset);
	move_end(&box.src, p);
	r = call_mpsCopyBoxOut(chan, &box, sizeof(box), job->stream);
	if (r == CUDA_SUCCESS)
		copy_rows(&job->box.dst, p, shim_chan_staging(chan) + offset,
			  false);
	/* The staging of a lost worker is never reused. */
	if (shim_chan_sticky(chan) == CUDA_SUCCESS)
		shim_stage_drop(shim_chan_stage(chan), offset);
	return r;
}

static CUresult
each_part(const struct job *job,
	  CUresult (*one)(const struct job *, const struct part *))
{
	struct part p = {0};
	CUresult r;

	do {
		shape_part(&job->box, &p);
		r = one(job, &p);
	} while (r == CUDA_SUCCESS && next_part(&job->box, &p));
	return r;
}

/* Both ends are the program's own memory: as natively, in the stream's turn. */
static CUresult
copy_host(const struct job *job)
{
	struct part p = {
		.width = job->box.width, .height = 1, .depth = 1,
	};
	CUresult r = call_mpsStreamSync(job->ctx->chan, job->stream);

	if (r != CUDA_SUCCESS)
		return r;
	for (uint64_t z = 0; z < job->box.depth; z++)
		for (uint64_t y = 0; y < job->box.height; y++)
			memmove(row_of(&job->box.dst, &p, y, z),
				row_of(&job->box.src, &p, y, z), p.width);
	return CUDA_SUCCESS;
}

static bool
is_synchronous(const struct box_end *end)
{
	return end->kind == BOX_MEMORY && shim_copy_is_synchronous(end->where);
}

static CUresult
do_box(const struct job *job, bool sync)
{
	struct shim_chan *chan = job->ctx->chan;
	CUresult r;

	if (shim_is_staged(job->to))
		return shim_is_staged(job->from) ? copy_host(job) :
						   each_part(job, part_out);
	if (shim_is_staged(job->from))
		r = each_part(job, part_in);
	else
		r = call_mpsCopyBox(chan, &job->box, sizeof(job->box),
				    job->stream);
	/* As natively, a copy that touches no host memory is asynchronous. */
	if (r == CUDA_SUCCESS && sync &&
	    (job->to != PLACE_DEVICE || job->from != PLACE_DEVICE ||
	     is_synchronous(&job->box.dst) || is_synchronous(&job->box.src)))
		r = call_mpsStreamSync(chan, job->stream);
	return r;
}

/* ---- descriptors -------------------------------------------------------- */

static CUresult
find_stream(CUstream handle, bool sync, struct shim_stream **out_stream)
{
	CUresult r = shim_stream_find(handle, shim_current, out_stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(*out_stream);
	if (r == CUDA_SUCCESS && sync)
		r = shim_capture_wait_stream(*out_stream);
	return r;
}

static CUresult
capture(struct shim_stream *stream, const CUDA_MEMCPY3D *m)
{
	struct shim_work work;
	CUresult r = shim_work_copy(m, &work);

	return r != CUDA_SUCCESS ? r : shim_capture_work(stream, &work);
}

static uint64_t
address_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
	return type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
}

static CUresult
box_job(const CUDA_MEMCPY3D *m, struct job *out)
{
	struct side src = {
		.type = m->srcMemoryType, .array = m->srcArray,
		.address = address_of(m->srcMemoryType, m->srcHost,
				      m->srcDevice),
		.pitch = m->srcPitch, .rows = m->srcHeight,
		.x = m->srcXInBytes, .y = m->srcY, .z = m->srcZ,
		.lod = m->srcLOD,
	};
	struct side dst = {
		.type = m->dstMemoryType, .array = m->dstArray,
		.address = address_of(m->dstMemoryType, m->dstHost,
				      m->dstDevice),
		.pitch = m->dstPitch, .rows = m->dstHeight,
		.x = m->dstXInBytes, .y = m->dstY, .z = m->dstZ,
		.lod = m->dstLOD,
	};
	CUresult r;

	*out = (struct job){
		.ctx = shim_current, .box = {
			.width = m->WidthInBytes, .height = m->Height,
			.depth = m->Depth,
		},
	};
	r = set_end(&out->box, &src, &out->box.src, &out->from);
	return r != CUDA_SUCCESS ? r :
	       set_end(&out->box, &dst, &out->box.dst, &out->to);
}

CUresult
shim_copy_box(const CUDA_MEMCPY3D *m, struct box *out,
	      enum shim_place *out_to, enum shim_place *out_from)
{
	struct job job;
	CUresult r = box_job(m, &job);

	*out = job.box;
	*out_to = job.to;
	*out_from = job.from;
	return r;
}

static CUresult
copy3d(const CUDA_MEMCPY3D *m, CUstream handle, bool sync)
{
	struct shim_stream *stream;
	struct job job;
	CUresult r = find_stream(handle, sync, &stream);

	if (r != CUDA_SUCCESS || !m->WidthInBytes || !m->Height || !m->Depth)
		return r;
	r = box_job(m, &job);
	if (r != CUDA_SUCCESS)
		return r;
	job.stream = stream->object.handle;
	return shim_stream_is_capturing(stream) ? capture(stream, m) :
						  do_box(&job, sync);
}

static CUresult
copy2d(const CUDA_MEMCPY2D *m, CUstream handle, bool sync)
{
	CUDA_MEMCPY3D whole = {
		.srcXInBytes = m->srcXInBytes, .srcY = m->srcY,
		.srcMemoryType = m->srcMemoryType, .srcHost = m->srcHost,
		.srcDevice = m->srcDevice, .srcArray = m->srcArray,
		.srcPitch = m->srcPitch,
		.dstXInBytes = m->dstXInBytes, .dstY = m->dstY,
		.dstMemoryType = m->dstMemoryType, .dstHost = m->dstHost,
		.dstDevice = m->dstDevice, .dstArray = m->dstArray,
		.dstPitch = m->dstPitch,
		.WidthInBytes = m->WidthInBytes, .Height = m->Height,
		.Depth = 1,
	};

	return copy3d(&whole, handle, sync);
}

/* One row, from or to arrays of one dimension. */
static CUresult
copy_row(CUstream handle, const struct side *dst, const struct side *src,
	 size_t size, bool sync)
{
	CUDA_MEMCPY3D row = {
		.srcXInBytes = src->x, .srcMemoryType = src->type,
		.srcHost = (const void *)(uintptr_t)src->address,
		.srcDevice = src->address, .srcArray = src->array,
		.dstXInBytes = dst->x, .dstMemoryType = dst->type,
		.dstHost = (void *)(uintptr_t)dst->address,
		.dstDevice = dst->address, .dstArray = dst->array,
		.WidthInBytes = size, .Height = 1, .Depth = 1,
	};

	return copy3d(&row, handle, sync);
}

static struct side
of_array(CUarray array, size_t offset)
{
	return (struct side){
		.type = CU_MEMORYTYPE_ARRAY, .array = array, .x = offset,
	};
}

static struct side
of_memory(CUmemorytype type, uint64_t address)
{
	return (struct side){ .type = type, .address = address };
}

/* ---- entry points ------------------------------------------------------- */

CUresult
shim_cuMemcpy2D_v2(CUstream stream, const CUDA_MEMCPY2D *pCopy)
{
	return pCopy ? copy2d(pCopy, stream, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuMemcpy2DUnaligned_v2(CUstream stream, const CUDA_MEMCPY2D *pCopy)
{
	return pCopy ? copy2d(pCopy, stream, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return pCopy ? copy2d(pCopy, hStream, false) :
		       CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuMemcpy3D_v2(CUstream stream, const CUDA_MEMCPY3D *pCopy)
{
	return pCopy ? copy3d(pCopy, stream, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return pCopy ? copy3d(pCopy, hStream, false) :
		       CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuMemcpyDtoA_v2(CUstream stream, CUarray dstArray, size_t dstOffset,
		     CUdeviceptr srcDevice, size_t ByteCount)
{
	struct side dst = of_array(dstArray, dstOffset);
	struct side src = of_memory(CU_MEMORYTYPE_DEVICE, srcDevice);

	return copy_row(stream, &dst, &src, ByteCount, true);
}

CUresult
shim_cuMemcpyAtoD_v2(CUstream stream, CUdeviceptr dstDevice, CUarray srcArray,
		     size_t srcOffset, size_t ByteCount)
{
	struct side dst = of_memory(CU_MEMORYTYPE_DEVICE, dstDevice);
	struct side src = of_array(srcArray, srcOffset);

	return copy_row(stream, &dst, &src, ByteCount, true);
}

static CUresult
host_to_array(CUstream stream, CUarray array, size_t offset, const void *host,
	      size_t size, bool sync)
{
	struct side dst = of_array(array, offset);
	struct side src = of_memory(CU_MEMORYTYPE_HOST, (uintptr_t)host);

	return copy_row(stream, &dst, &src, size, sync);
}

static CUresult
array_to_host(CUstream stream, void *host, CUarray array, size_t offset,
	      size_t size, bool sync)
{
	struct side dst = of_memory(CU_MEMORYTYPE_HOST, (uintptr_t)host);
	struct side src = of_array(array, offset);

	return copy_row(stream, &dst, &src, size, sync);
}

CUresult
shim_cuMemcpyHtoA_v2(CUstream stream, CUarray dstArray, size_t dstOffset,
		     const void *srcHost, size_t ByteCount)
{
	return host_to_array(stream, dstArray, dstOffset, srcHost, ByteCount,
			     true);
}

CUresult
shim_cuMemcpyAtoH_v2(CUstream stream, void *dstHost, CUarray srcArray,
		     size_t srcOffset, size_t ByteCount)
{
	return array_to_host(stream, dstHost, srcArray, srcOffset, ByteCount,
			     true);
}

CUresult
shim_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset,
			  const void *srcHost, size_t ByteCount,
			  CUstream hStream)
{
	return host_to_array(hStream, dstArray, dstOffset, srcHost, ByteCount,
			     false);
}

CUresult
shim_cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
			  size_t ByteCount, CUstream hStream)
{
	return array_to_host(hStream, dstHost, srcArray, srcOffset, ByteCount,
			     false);
}

CUresult
shim_cuMemcpyAtoA_v2(CUstream stream, CUarray dstArray, size_t dstOffset,
		     CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	struct side dst = of_array(dstArray, dstOffset);
	struct side src = of_array(srcArray, srcOffset);

	return copy_row(stream, &dst, &src, ByteCount, true);
}
