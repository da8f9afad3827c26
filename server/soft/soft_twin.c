/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Twins of the stream calls for programs built with per-thread default
 * streams: NULL means the calling thread's stream.
 */
#include "server/soft/soft_ctx.h"

CUresult
cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f,
		      void **kernelParams, void **extra)
{
	CUlaunchConfig mine;

	if (!config)
		return cuLaunchKernelEx(NULL, f, kernelParams, extra);
	mine = *config;
	mine.hStream = soft_stream_twin(mine.hStream);
	return cuLaunchKernelEx(&mine, f, kernelParams, extra);
}

CUresult
cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
		CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return cuGraphInstantiateWithParams(phGraphExec, hGraph,
					    instantiateParams);
}

CUresult
cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream,
			    unsigned int flags)
{
	return cuEventRecordWithFlags(hEvent, soft_stream_twin(hStream),
			       flags);
}

CUresult
cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
	return cuEventRecord(hEvent, soft_stream_twin(hStream));
}

CUresult
cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	return cuGraphLaunch(hGraphExec, soft_stream_twin(hStream));
}

CUresult
cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	return cuGraphUpload(hGraphExec, soft_stream_twin(hStream));
}

CUresult
cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX,
			       unsigned int gridDimY, unsigned int gridDimZ,
			       unsigned int blockDimX, unsigned int blockDimY,
			       unsigned int blockDimZ,
			       unsigned int sharedMemBytes, CUstream hStream,
			       void **kernelParams)
{
	return cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ,
				  blockDimX, blockDimY, blockDimZ,
				  sharedMemBytes, soft_stream_twin(hStream),
				  kernelParams);
}

CUresult
cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData)
{
	return cuLaunchHostFunc(soft_stream_twin(hStream), fn, userData);
}

CUresult
cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX,
		    unsigned int gridDimY, unsigned int gridDimZ,
		    unsigned int blockDimX, unsigned int blockDimY,
		    unsigned int blockDimZ, unsigned int sharedMemBytes,
		    CUstream hStream, void **kernelParams, void **extra)
{
	return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX,
		       blockDimY, blockDimZ, sharedMemBytes,
		       soft_stream_twin(hStream), kernelParams, extra);
}

CUresult
cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return cuMemAllocAsync(dptr, bytesize, soft_stream_twin(hStream));
}

CUresult
cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize,
			     CUmemoryPool pool, CUstream hStream)
{
	return cuMemAllocFromPoolAsync(dptr, bytesize, pool,
				soft_stream_twin(hStream));
}

CUresult
cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
	return cuMemFreeAsync(dptr, soft_stream_twin(hStream));
}

CUresult
cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return cuMemcpy2DAsync_v2(pCopy, soft_stream_twin(hStream));
}

CUresult
cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return cuMemcpy3DAsync_v2(pCopy, soft_stream_twin(hStream));
}

CUresult
cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
		   CUstream hStream)
{
	return cuMemcpyAsync(dst, src, ByteCount, soft_stream_twin(hStream));
}

CUresult
cuMemcpyAtoHAsync_v2_ptsz(void *dstHost, CUarray srcArray, size_t srcOffset,
			  size_t ByteCount, CUstream hStream)
{
	return cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount,
			     soft_stream_twin(hStream));
}

CUresult
cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
			  size_t ByteCount, CUstream hStream)
{
	return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount,
			     soft_stream_twin(hStream));
}

CUresult
cuMemcpyDtoHAsync_v2_ptsz(void *dstHost, CUdeviceptr srcDevice,
			  size_t ByteCount, CUstream hStream)
{
	return cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount,
			     soft_stream_twin(hStream));
}

CUresult
cuMemcpyHtoAAsync_v2_ptsz(CUarray dstArray, size_t dstOffset,
			  const void *srcHost, size_t ByteCount,
			  CUstream hStream)
{
	return cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount,
			     soft_stream_twin(hStream));
}

CUresult
cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void *srcHost,
			  size_t ByteCount, CUstream hStream)
{
	return cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount,
			     soft_stream_twin(hStream));
}

CUresult
cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext,
		       CUdeviceptr srcDevice, CUcontext srcContext,
		       size_t ByteCount, CUstream hStream)
{
	return cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext,
			  ByteCount, soft_stream_twin(hStream));
}

CUresult
cuMemsetD16Async_ptsz(CUdeviceptr dstDevice, unsigned short us, size_t N,
		      CUstream hStream)
{
	return cuMemsetD16Async(dstDevice, us, N, soft_stream_twin(hStream));
}

CUresult
cuMemsetD2D16Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch,
			unsigned short us, size_t Width, size_t Height,
			CUstream hStream)
{
	return cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height,
			   soft_stream_twin(hStream));
}

CUresult
cuMemsetD2D32Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch,
			unsigned int ui, size_t Width, size_t Height,
			CUstream hStream)
{
	return cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height,
			   soft_stream_twin(hStream));
}

CUresult
cuMemsetD2D8Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch,
		       unsigned char uc, size_t Width, size_t Height,
		       CUstream hStream)
{
	return cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height,
			  soft_stream_twin(hStream));
}

CUresult
cuMemsetD32Async_ptsz(CUdeviceptr dstDevice, unsigned int ui, size_t N,
		      CUstream hStream)
{
	return cuMemsetD32Async(dstDevice, ui, N, soft_stream_twin(hStream));
}

CUresult
cuMemsetD8Async_ptsz(CUdeviceptr dstDevice, unsigned char uc, size_t N,
		     CUstream hStream)
{
	return cuMemsetD8Async(dstDevice, uc, N, soft_stream_twin(hStream));
}

CUresult
cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback,
			 void *userData, unsigned int flags)
{
	return cuStreamAddCallback(soft_stream_twin(hStream), callback,
			    userData, flags);
}

CUresult
cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
			   CUstreamBatchMemOpParams *paramArray,
			   unsigned int flags)
{
	return cuStreamBatchMemOp_v2(soft_stream_twin(stream), count,
			      paramArray, flags);
}

CUresult
cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
				 const CUgraphNode *dependencies,
				 const CUgraphEdgeData *dependencyData,
				 size_t numDependencies,
				 CUstreamCaptureMode mode)
{
	return cuStreamBeginCaptureToGraph(soft_stream_twin(hStream), hGraph,
				    dependencies, dependencyData,
				    numDependencies, mode);
}

CUresult
cuStreamBeginCapture_ptsz(CUstream hStream)
{
	return cuStreamBeginCapture(soft_stream_twin(hStream));
}

CUresult
cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
	return cuStreamBeginCapture_v2(soft_stream_twin(hStream), mode);
}

CUresult
cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src)
{
	return cuStreamCopyAttributes(soft_stream_twin(dst),
			       soft_stream_twin(src));
}

CUresult
cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
	return cuStreamEndCapture(soft_stream_twin(hStream), phGraph);
}

CUresult
cuStreamGetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr,
			  CUstreamAttrValue *value_out)
{
	return cuStreamGetAttribute(soft_stream_twin(hStream), attr,
			     value_out);
}

CUresult
cuStreamGetCaptureInfo_ptsz(CUstream hStream,
			    CUstreamCaptureStatus *captureStatus_out,
			    cuuint64_t *id_out)
{
	return cuStreamGetCaptureInfo(soft_stream_twin(hStream),
			       captureStatus_out, id_out);
}

CUresult
cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream,
			       CUstreamCaptureStatus *captureStatus_out,
			       cuuint64_t *id_out, CUgraph *graph_out,
			       const CUgraphNode **dependencies_out,
			       size_t *numDependencies_out)
{
	return cuStreamGetCaptureInfo_v2(soft_stream_twin(hStream),
				  captureStatus_out, id_out, graph_out,
				  dependencies_out, numDependencies_out);
}

CUresult
cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream,
			       CUstreamCaptureStatus *captureStatus_out,
			       cuuint64_t *id_out, CUgraph *graph_out,
			       const CUgraphNode **dependencies_out,
			       const CUgraphEdgeData **edgeData_out,
			       size_t *numDependencies_out)
{
	return cuStreamGetCaptureInfo_v3(soft_stream_twin(hStream),
				  captureStatus_out, id_out, graph_out,
				  dependencies_out, edgeData_out,
				  numDependencies_out);
}

CUresult
cuStreamGetCtx_ptsz(CUstream hStream, CUcontext *pctx)
{
	return cuStreamGetCtx(soft_stream_twin(hStream), pctx);
}

CUresult
cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx,
		       CUgreenCtx *pGreenCtx)
{
	return cuStreamGetCtx_v2(soft_stream_twin(hStream), pCtx, pGreenCtx);
}

CUresult
cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device)
{
	return cuStreamGetDevice(soft_stream_twin(hStream), device);
}

CUresult
cuStreamGetFlags_ptsz(CUstream hStream, unsigned int *flags)
{
	return cuStreamGetFlags(soft_stream_twin(hStream), flags);
}

CUresult
cuStreamGetId_ptsz(CUstream hStream, unsigned long long *streamId)
{
	return cuStreamGetId(soft_stream_twin(hStream), streamId);
}

CUresult
cuStreamGetPriority_ptsz(CUstream hStream, int *priority)
{
	return cuStreamGetPriority(soft_stream_twin(hStream), priority);
}

CUresult
cuStreamIsCapturing_ptsz(CUstream hStream,
			 CUstreamCaptureStatus *captureStatus)
{
	return cuStreamIsCapturing(soft_stream_twin(hStream), captureStatus);
}

CUresult
cuStreamQuery_ptsz(CUstream hStream)
{
	return cuStreamQuery(soft_stream_twin(hStream));
}

CUresult
cuStreamSetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr,
			  const CUstreamAttrValue *value)
{
	return cuStreamSetAttribute(soft_stream_twin(hStream), attr, value);
}

CUresult
cuStreamSynchronize_ptsz(CUstream hStream)
{
	return cuStreamSynchronize(soft_stream_twin(hStream));
}

CUresult
cuStreamUpdateCaptureDependencies_ptsz(CUstream hStream,
				       CUgraphNode *dependencies,
				       size_t numDependencies,
				       unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies(soft_stream_twin(hStream),
					  dependencies, numDependencies,
					  flags);
}

CUresult
cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream,
					  CUgraphNode *dependencies,
					  const CUgraphEdgeData *dependencyData,
					  size_t numDependencies,
					  unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(soft_stream_twin(hStream),
					     dependencies, dependencyData,
					     numDependencies, flags);
}

CUresult
cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	return cuStreamWaitEvent(soft_stream_twin(hStream), hEvent, Flags);
}

CUresult
cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr addr,
			    cuuint32_t value, unsigned int flags)
{
	return cuStreamWaitValue32_v2(soft_stream_twin(stream), addr, value,
			       flags);
}

CUresult
cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr addr,
			    cuuint64_t value, unsigned int flags)
{
	return cuStreamWaitValue64_v2(soft_stream_twin(stream), addr, value,
			       flags);
}

CUresult
cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr addr,
			     cuuint32_t value, unsigned int flags)
{
	return cuStreamWriteValue32_v2(soft_stream_twin(stream), addr, value,
				flags);
}

CUresult
cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr addr,
			     cuuint64_t value, unsigned int flags)
{
	return cuStreamWriteValue64_v2(soft_stream_twin(stream), addr, value,
				flags);
}

CUresult
cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
			CUstream hStream)
{
	return cuMemPrefetchAsync(devPtr, count, dstDevice,
			   soft_stream_twin(hStream));
}

CUresult
cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count,
			   CUmemLocation location, unsigned int flags,
			   CUstream hStream)
{
	return cuMemPrefetchAsync_v2(devPtr, count, location, flags,
			      soft_stream_twin(hStream));
}

CUresult
cuStreamAttachMemAsync_ptsz(CUstream hStream, CUdeviceptr dptr, size_t length,
			    unsigned int flags)
{
	return cuStreamAttachMemAsync(soft_stream_twin(hStream), dptr, length,
			       flags);
}
