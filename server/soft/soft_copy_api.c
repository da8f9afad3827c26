/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of the copies.
 */
#include <string.h>

#include "server/soft/soft_memcpy.h"

static uint64_t
host(const void *p)
{
	return (uintptr_t)p;
}

CUresult
cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t size)
{
	return soft_copy_1d(dst, host(src), size, SOFT_COPY_H2D, NULL, false);
}

CUresult
cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t size)
{
	return soft_copy_1d(host(dst), src, size, SOFT_COPY_D2H, NULL, false);
}

/* A copy inside the device does not make the host wait. */
CUresult
cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return soft_copy_1d(dst, src, size, SOFT_COPY_D2D, NULL, true);
}

CUresult
cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return soft_copy_1d(dst, src, size, SOFT_COPY_ANY, NULL, false);
}

CUresult
cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream s)
{
	return soft_copy_1d(dst, host(src), size, SOFT_COPY_H2D, s, true);
}

CUresult
cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream s)
{
	return soft_copy_1d(host(dst), src, size, SOFT_COPY_D2H, s, true);
}

CUresult
cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream s)
{
	return soft_copy_1d(dst, src, size, SOFT_COPY_D2D, s, true);
}

CUresult
cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream s)
{
	return soft_copy_1d(dst, src, size, SOFT_COPY_ANY, s, true);
}

/* Both contexts are of this process and share one address space. */
static CUresult
peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
     size_t size, CUstream s)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!soft_ctx_from(dst_ctx) || !soft_ctx_from(src_ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return soft_copy_1d(dst, src, size, SOFT_COPY_D2D, s, true);
}

CUresult
cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
	     CUcontext src_ctx, size_t size)
{
	return peer(dst, dst_ctx, src, src_ctx, size, NULL);
}

CUresult
cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
		  CUcontext src_ctx, size_t size, CUstream s)
{
	return peer(dst, dst_ctx, src, src_ctx, size, s);
}

static CUresult
copy_3d(const CUDA_MEMCPY3D *p, CUstream handle, bool async)
{
	struct soft_stream *stream;
	struct soft_work *work;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	res = soft_copy_work_new(p, &work);
	return res ? res : soft_copy_issue(stream, work, async);
}

static CUresult
copy_2d(const CUDA_MEMCPY2D *p, CUstream handle, bool async)
{
	CUDA_MEMCPY3D q;

	if (!p)
		return copy_3d(NULL, handle, async);
	memset(&q, 0, sizeof(q));
	q.srcXInBytes = p->srcXInBytes;
	q.srcY = p->srcY;
	q.srcMemoryType = p->srcMemoryType;
	q.srcHost = p->srcHost;
	q.srcDevice = p->srcDevice;
	q.srcArray = p->srcArray;
	q.srcPitch = p->srcPitch;
	q.dstXInBytes = p->dstXInBytes;
	q.dstY = p->dstY;
	q.dstMemoryType = p->dstMemoryType;
	q.dstHost = p->dstHost;
	q.dstDevice = p->dstDevice;
	q.dstArray = p->dstArray;
	q.dstPitch = p->dstPitch;
	q.WidthInBytes = p->WidthInBytes;
	q.Height = p->Height;
	q.Depth = 1;
	return copy_3d(&q, handle, async);
}

CUresult
cuMemcpy2D_v2(const CUDA_MEMCPY2D *p)
{
	return copy_2d(p, NULL, false);
}

CUresult
cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p)
{
	return copy_2d(p, NULL, false);
}

CUresult
cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream s)
{
	return copy_2d(p, s, true);
}

CUresult
cuMemcpy3D_v2(const CUDA_MEMCPY3D *p)
{
	return copy_3d(p, NULL, false);
}

CUresult
cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream s)
{
	return copy_3d(p, s, true);
}

/* One-dimensional copies to and from arrays: along the first row. */
static CUresult
array_1d(CUmemorytype dst_type, uint64_t dst, size_t dst_at,
	 CUmemorytype src_type, uint64_t src, size_t src_at, size_t size,
	 CUstream s, bool async)
{
	CUDA_MEMCPY3D p;

	memset(&p, 0, sizeof(p));
	p.srcMemoryType = src_type;
	p.srcXInBytes = src_at;
	p.srcHost = (void *)(uintptr_t)src;
	p.srcDevice = src;
	p.srcArray = (CUarray)(uintptr_t)src;
	p.dstMemoryType = dst_type;
	p.dstXInBytes = dst_at;
	p.dstHost = (void *)(uintptr_t)dst;
	p.dstDevice = dst;
	p.dstArray = (CUarray)(uintptr_t)dst;
	p.WidthInBytes = size;
	p.Height = 1;
	p.Depth = 1;
	return copy_3d(&p, s, async);
}

CUresult
cuMemcpyHtoA_v2(CUarray dst, size_t at, const void *src, size_t size)
{
	return array_1d(CU_MEMORYTYPE_ARRAY, host(dst), at, CU_MEMORYTYPE_HOST,
			host(src), 0, size, NULL, false);
}

CUresult
cuMemcpyAtoH_v2(void *dst, CUarray src, size_t at, size_t size)
{
	return array_1d(CU_MEMORYTYPE_HOST, host(dst), 0, CU_MEMORYTYPE_ARRAY,
			host(src), at, size, NULL, false);
}

CUresult
cuMemcpyDtoA_v2(CUarray dst, size_t at, CUdeviceptr src, size_t size)
{
	return array_1d(CU_MEMORYTYPE_ARRAY, host(dst), at,
			CU_MEMORYTYPE_DEVICE, src, 0, size, NULL, true);
}

CUresult
cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray src, size_t at, size_t size)
{
	return array_1d(CU_MEMORYTYPE_DEVICE, dst, 0, CU_MEMORYTYPE_ARRAY,
			host(src), at, size, NULL, true);
}

CUresult
cuMemcpyAtoA_v2(CUarray dst, size_t dst_at, CUarray src, size_t src_at,
		size_t size)
{
	return array_1d(CU_MEMORYTYPE_ARRAY, host(dst), dst_at,
			CU_MEMORYTYPE_ARRAY, host(src), src_at, size, NULL,
			true);
}

CUresult
cuMemcpyHtoAAsync_v2(CUarray dst, size_t at, const void *src, size_t size,
		     CUstream s)
{
	return array_1d(CU_MEMORYTYPE_ARRAY, host(dst), at, CU_MEMORYTYPE_HOST,
			host(src), 0, size, s, true);
}

CUresult
cuMemcpyAtoHAsync_v2(void *dst, CUarray src, size_t at, size_t size,
		     CUstream s)
{
	return array_1d(CU_MEMORYTYPE_HOST, host(dst), 0, CU_MEMORYTYPE_ARRAY,
			host(src), at, size, s, true);
}

/* The same in the calling thread's default stream. */
static CUstream
own(void)
{
	return soft_stream_twin(NULL);
}

CUresult
cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t size)
{
	return soft_copy_1d(dst, host(src), size, SOFT_COPY_H2D, own(), false);
}

CUresult
cuMemcpyDtoH_v2_ptds(void *dst, CUdeviceptr src, size_t size)
{
	return soft_copy_1d(host(dst), src, size, SOFT_COPY_D2H, own(), false);
}

CUresult
cuMemcpyDtoD_v2_ptds(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return soft_copy_1d(dst, src, size, SOFT_COPY_D2D, own(), true);
}

CUresult
cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return soft_copy_1d(dst, src, size, SOFT_COPY_ANY, own(), false);
}

CUresult
cuMemcpyPeer_ptds(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
		  CUcontext src_ctx, size_t size)
{
	return peer(dst, dst_ctx, src, src_ctx, size, own());
}

CUresult
cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *p)
{
	return copy_2d(p, own(), false);
}

CUresult
cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *p)
{
	return copy_2d(p, own(), false);
}

CUresult
cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *p)
{
	return copy_3d(p, own(), false);
}

CUresult
cuMemcpyHtoA_v2_ptds(CUarray dst, size_t at, const void *src, size_t size)
{
	return array_1d(CU_MEMORYTYPE_ARRAY, host(dst), at, CU_MEMORYTYPE_HOST,
			host(src), 0, size, own(), false);
}

CUresult
cuMemcpyAtoH_v2_ptds(void *dst, CUarray src, size_t at, size_t size)
{
	return array_1d(CU_MEMORYTYPE_HOST, host(dst), 0, CU_MEMORYTYPE_ARRAY,
			host(src), at, size, own(), false);
}

CUresult
cuMemcpyDtoA_v2_ptds(CUarray dst, size_t at, CUdeviceptr src, size_t size)
{
	return array_1d(CU_MEMORYTYPE_ARRAY, host(dst), at,
			CU_MEMORYTYPE_DEVICE, src, 0, size, own(), true);
}

CUresult
cuMemcpyAtoD_v2_ptds(CUdeviceptr dst, CUarray src, size_t at, size_t size)
{
	return array_1d(CU_MEMORYTYPE_DEVICE, dst, 0, CU_MEMORYTYPE_ARRAY,
			host(src), at, size, own(), true);
}

CUresult
cuMemcpyAtoA_v2_ptds(CUarray dst, size_t dst_at, CUarray src, size_t src_at,
		     size_t size)
{
	return array_1d(CU_MEMORYTYPE_ARRAY, host(dst), dst_at,
			CU_MEMORYTYPE_ARRAY, host(src), src_at, size, own(),
			true);
}
