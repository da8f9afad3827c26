/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that touch memory of another device than the current context's. Each
 * device has a worker of its own, and none reaches another's memory: what goes
 * from one to another passes through memory of ours. Such a copy has its turn
 * in the stream and is over when the call returns.
 */
#include <stdlib.h>

#include "proto/err.h"
#include "shim/capture.h"
#include "shim/copy.h"
#include "shim/ctx.h"
#include "shim/process.h"
#include "shim/range.h"
#include "shim/stream.h"
#include "shim_calls.h"
#include "shim_impl.h"

/* Through this much at a time. */
#define BOUNCE (UINT64_C(4) << 20)

/* A context of the device that has this memory; NULL: the program has it. */
static CUresult
owner(uint64_t address, struct shim_context **out)
{
	struct shim_range range;

	*out = NULL;
	if (shim_range_find(address, &range))
		return CUDA_SUCCESS;
	switch (range.kind) {
	case RANGE_PINNED:
	case RANGE_MANAGED:
	case RANGE_REGISTERED:
	case RANGE_ALIAS:
		return CUDA_SUCCESS;
	case RANGE_DEVICE:
	case RANGE_GLOBAL:
	case RANGE_MAPPED:
	case RANGE_OPENED:
	case RANGE_GRAPH:
		break;
	}
	*out = range.ctx ? range.ctx : shim_primary(range.device);
	/* Mapped memory is no context's; a worker is there with any. */
	return *out && shim_ctx_is_live(*out) ? CUDA_SUCCESS :
						CUDA_ERROR_INVALID_CONTEXT;
}

bool
shim_copy_is_foreign(const struct shim_context *ctx, uint64_t address)
{
	struct shim_range range;

	return shim_process.ndevices > 1 &&
	       !shim_range_find(address, &range) &&
	       !shim_range_is_host(&range) && range.device != ctx->device;
}

static CUresult
across(struct shim_context *to, uint64_t dst, struct shim_context *from,
       uint64_t src, uint64_t size)
{
	uint64_t most = size < BOUNCE ? size : BOUNCE;
	_cleanup_free_ void *bounce = malloc(most);
	CUresult r = CUDA_SUCCESS;

	if (!bounce)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint64_t at = 0, n; at < size && r == CUDA_SUCCESS; at += n) {
		n = size - at < most ? size - at : most;
		r = shim_copy_now(from, (uintptr_t)bounce, src + at, n);
		if (r == CUDA_SUCCESS)
			r = shim_copy_now(to, dst + at, (uintptr_t)bounce, n);
	}
	return r;
}

CUresult
shim_copy_foreign(struct shim_stream *stream, uint64_t dst, uint64_t src,
		  uint64_t size)
{
	struct shim_context *to, *from;
	CUresult r = shim_capture_wait_stream(stream);

	if (r == CUDA_SUCCESS)
		r = owner(dst, &to);
	if (r == CUDA_SUCCESS)
		r = owner(src, &from);
	if (r == CUDA_SUCCESS)
		r = call_mpsStreamSync(stream->object.ctx->chan,
				       stream->object.handle);
	if (r != CUDA_SUCCESS)
		return r;
	if (to && from && to->device != from->device)
		return across(to, dst, from, src, size);
	return shim_copy_now(to ? to : from, dst, src, size);
}

/* ---- entry points ------------------------------------------------------- */

/* The pointers say it all, but contexts must be. Two that are not named are
 * the current one. */
static CUresult
check_contexts(CUcontext dst, CUcontext src)
{
	struct shim_context *found;
	CUresult r = !dst == !src ? shim_ctx_find(dst, &found) :
				    CUDA_ERROR_INVALID_CONTEXT;

	return r != CUDA_SUCCESS ? r : shim_ctx_find(src, &found);
}

CUresult
shim_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
		       CUdeviceptr srcDevice, CUcontext srcContext,
		       size_t ByteCount, CUstream hStream)
{
	CUresult r = check_contexts(dstContext, srcContext);

	return r != CUDA_SUCCESS ? r :
	       shim_cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount,
					 hStream);
}

/* After all that is pending in the three contexts, which between contexts of
 * one device is nothing to wait for here. */
CUresult
shim_cuMemcpyPeer(CUstream stream, CUdeviceptr dstDevice,
		  CUcontext dstContext, CUdeviceptr srcDevice,
		  CUcontext srcContext, size_t ByteCount)
{
	CUresult r = check_contexts(dstContext, srcContext);

	if (r == CUDA_SUCCESS && dstContext != srcContext)
		r = shim_cuCtxSynchronize_v2(srcContext);
	if (r == CUDA_SUCCESS && dstContext != srcContext)
		r = shim_cuCtxSynchronize_v2(dstContext);
	return r != CUDA_SUCCESS ? r :
	       shim_cuMemcpyDtoD_v2(stream, dstDevice, srcDevice, ByteCount);
}

static CUDA_MEMCPY3D
without_contexts(const CUDA_MEMCPY3D_PEER *p)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = p->srcXInBytes, .srcY = p->srcY,
		.srcZ = p->srcZ, .srcLOD = p->srcLOD,
		.srcMemoryType = p->srcMemoryType, .srcHost = p->srcHost,
		.srcDevice = p->srcDevice, .srcArray = p->srcArray,
		.srcPitch = p->srcPitch, .srcHeight = p->srcHeight,
		.dstXInBytes = p->dstXInBytes, .dstY = p->dstY,
		.dstZ = p->dstZ, .dstLOD = p->dstLOD,
		.dstMemoryType = p->dstMemoryType, .dstHost = p->dstHost,
		.dstDevice = p->dstDevice, .dstArray = p->dstArray,
		.dstPitch = p->dstPitch, .dstHeight = p->dstHeight,
		.WidthInBytes = p->WidthInBytes, .Height = p->Height,
		.Depth = p->Depth,
	};
}

CUresult
shim_cuMemcpy3DPeer(CUstream stream, const CUDA_MEMCPY3D_PEER *pCopy)
{
	CUDA_MEMCPY3D copy;

	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	copy = without_contexts(pCopy);
	return shim_cuMemcpy3D_v2(stream, &copy);
}

CUresult
shim_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	CUDA_MEMCPY3D copy;

	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	copy = without_contexts(pCopy);
	return shim_cuMemcpy3DAsync_v2(&copy, hStream);
}

/* ---- peer access -------------------------------------------------------- */

CUresult
shim_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct shim_context *peer;
	CUresult r = peerContext ? shim_ctx_find(peerContext, &peer) :
				   CUDA_ERROR_INVALID_CONTEXT;

	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	/* cuDeviceCanAccessPeer says so of all pairs. */
	return peer == shim_current ? CUDA_ERROR_INVALID_CONTEXT :
				      CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult
shim_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct shim_context *peer;
	CUresult r = peerContext ? shim_ctx_find(peerContext, &peer) :
				   CUDA_ERROR_INVALID_CONTEXT;

	return r != CUDA_SUCCESS ? r : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
