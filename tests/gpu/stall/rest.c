/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Valid calls to what no program of tests/api calls: old versions, questions,
 * fills, graphs by hand. Each must succeed; what it does is tested elsewhere.
 * "---" before a call says that this driver does not have it.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 65536

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 4 .u32 word;\n"
	".visible .entry set(.param .u64 to, .param .u32 value)\n"
	"{ .reg .u64 p; .reg .u32 v; ld.param.u64 p,[to];"
	" ld.param.u32 v,[value]; st.global.u32 [p],v; ret; }\n";

static int wrong;
static CUcontext context;
static CUdevice device;
static CUdeviceptr memory, other;
static CUmodule module;
static CUfunction set;
static CUlibrary library;
static CUkernel kernel;
static CUstream stream;
static CUevent event, later;
static char host[SIZE];

#define OK(call) ok(#call, __LINE__, call)
static void
ok(const char *call, int line, CUresult r)
{
	const char *name = "?";

	cuGetErrorName(r, &name);
	if (r == CUDA_SUCCESS)
		return;
	printf("%s  line %d: %s gives %d %s\n",
	       r == CUDA_ERROR_NOT_SUPPORTED ? "---" : "NO ", line, call,
	       (int)r, name);
	wrong += r != CUDA_ERROR_NOT_SUPPORTED;
}

static void
devices(void)
{
	CUuuid uuid;
	CUdevprop prop;
	char bus[64];
	int major, minor, n;

	OK(cuDeviceComputeCapability(&major, &minor, device));
	OK(cuDeviceGetPCIBusId(bus, sizeof(bus), device));
	OK(cuDeviceGetByPCIBusId(&device, bus));
	OK(cuDeviceGetProperties(&prop, device));
	OK(cuDeviceGetUuid_v2(&uuid, device));
	OK(cuDeviceGetCount(&n));
	if (n > 1)
		OK(cuDeviceGetP2PAttribute(
			&n, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	OK(cuDevicePrimaryCtxSetFlags(device, 0));
}

static void
contexts(void)
{
	CUcontext own, popped;
	void *function;

	OK(cuCtxCreate(&own, 0, device));
	OK(cuCtxPopCurrent(&popped));
	OK(cuCtxPushCurrent(popped));
	OK(cuCtxDestroy(own));
	OK(cuCtxCreate_v3(&own, NULL, 0, 0, device));
	OK(cuCtxDestroy(own));
	OK(cuCtxSetCurrent(context));
	OK(cuGetProcAddress("cuMemAlloc", &function, 12000, 0));
}

static void
copies(void)
{
	CUDA_MEMCPY2D two = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = memory,
		.srcPitch = 256, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = other, .dstPitch = 512,
		.WidthInBytes = 100, .Height = 16,
	};

	OK(cuMemcpy(memory, other, SIZE));
	OK(cuMemcpyAsync(memory, other, SIZE, stream));
	OK(cuMemcpy2DUnaligned_v2(&two));
	OK(cuMemsetD8_v2(memory, 1, SIZE));
	OK(cuMemsetD16_v2(memory, 1, SIZE / 2));
	OK(cuMemsetD16Async(memory, 1, SIZE / 2, stream));
	OK(cuMemsetD2D8_v2(memory, 256, 1, 100, 16));
	OK(cuMemsetD2D8Async(memory, 256, 1, 100, 16, stream));
	OK(cuMemsetD2D16_v2(memory, 256, 1, 100, 16));
	OK(cuMemsetD2D16Async(memory, 256, 1, 100, 16, stream));
	OK(cuMemsetD2D32_v2(memory, 256, 1, 50, 16));
	OK(cuMemsetD2D32Async(memory, 256, 1, 50, 16, stream));
	OK(cuStreamSynchronize(stream));
}

static void
arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR flat = {
		.Width = 64, .Height = 64, .NumChannels = 1,
		.Format = CU_AD_FORMAT_FLOAT,
	};
	CUDA_ARRAY_DESCRIPTOR line = {
		.Width = 1024, .NumChannels = 1,
		.Format = CU_AD_FORMAT_FLOAT,
	};
	CUDA_RESOURCE_VIEW_DESC view;
	CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_ARRAY };
	CUDA_TEXTURE_DESC texture = { .maxAnisotropy = 1 };
	CUmipmappedArray levels;
	CUtexObject object;
	CUarray array, level;
	CUresult made;

	OK(cuArrayCreate_v2(&array, &line));
	OK(cuMemcpyHtoAAsync_v2(array, 0, host, 4096, stream));
	OK(cuStreamSynchronize(stream));
	resource.res.array.hArray = array;
	memset(&view, 0, sizeof(view));
	view.format = CU_RES_VIEW_FORMAT_FLOAT_1X32;
	view.width = 1024;
	OK(cuTexObjectCreate(&object, &resource, &texture, &view));
	OK(cuTexObjectGetResourceViewDesc(&view, object));
	OK(cuTexObjectDestroy(object));
	OK(cuArrayDestroy(array));
	made = cuMipmappedArrayCreate(&levels, &flat, 3);
	OK(made);
	if (made != CUDA_SUCCESS)
		return;
	OK(cuMipmappedArrayGetLevel(&level, levels, 1));
	OK(cuMipmappedArrayDestroy(levels));
}

static void
memories(void)
{
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, device };
	CUmemAccessDesc access = { here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED;
	CUpointer_attribute which[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					CU_POINTER_ATTRIBUTE_DEVICE_POINTER };
	unsigned int kind, flags;
	CUdeviceptr at, managed;
	void *values[] = { &kind, &at }, *pinned;
	CUmemoryPool pool;

	OK(cuPointerGetAttributes(2, which, values, memory));
	OK(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostGetDevicePointer_v2(&at, pinned, 0));
	OK(cuMemHostGetFlags(&flags, pinned));
	OK(cuMemFreeHost(pinned));
	pinned = aligned_alloc(4096, 65536);
	memset(pinned, 1, 65536);
	OK(cuMemHostRegister(pinned, 65536, 0));
	OK(cuMemHostUnregister(pinned));
	free(pinned);
	OK(cuMemAllocManaged(&managed, 65536, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAdvise(managed, 65536, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	OK(cuMemAdvise_v2(managed, 65536, CU_MEM_ADVISE_SET_READ_MOSTLY,
			  here));
	OK(cuMemPrefetchAsync(managed, 65536, device, stream));
	OK(cuMemPrefetchAsync_v2(managed, 65536, here, 0, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemFree_v2(managed));
	OK(cuDeviceGetDefaultMemPool(&pool, device));
	OK(cuMemPoolSetAccess(pool, &access, 1));
	OK(cuMemGetDefaultMemPool(&pool, &here, type));
	OK(cuMemGetMemPool(&pool, &here, type));
	OK(cuMemSetMemPool(&here, type, pool));
}

static size_t
no_shared(int block)
{
	(void)block;
	return 0;
}

static void
code(void)
{
	char path[] = "/tmp/mpsshim-rest.XXXXXX";
	int fd = mkstemp(path), value;
	unsigned int count;
	CUfunction found[4];
	CUkernel kernels[4];
	CUdeviceptr global;
	CUlinkState link;
	CUlibrary file;
	CUmodule loaded;
	const char *name;
	size_t offset, size;
	void *image;

	if (write(fd, ptx, sizeof(ptx)) != sizeof(ptx))
		OK(CUDA_ERROR_FILE_NOT_FOUND);
	close(fd);
	OK(cuModuleLoad(&loaded, path));
	OK(cuModuleGetFunctionCount(&count, loaded));
	OK(cuModuleEnumerateFunctions(found, count, loaded));
	OK(cuModuleUnload(loaded));
	OK(cuModuleLoadDataEx(&loaded, ptx, 0, NULL, NULL));
	OK(cuModuleUnload(loaded));
	OK(cuLibraryLoadFromFile(&file, path, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernelCount(&count, file));
	OK(cuLibraryEnumerateKernels(kernels, count, file));
	OK(cuLibraryGetModule(&loaded, file));
	OK(cuLibraryGetGlobal(&global, &size, file, "word"));
	OK(cuKernelGetName(&name, kernels[0]));
	OK(cuKernelGetLibrary(&library, kernels[0]));
	OK(cuKernelGetParamInfo(kernels[0], 1, &offset, &size));
	OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernels[0],
				device));
	OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				4096, kernels[0], device));
	OK(cuKernelSetCacheConfig(kernels[0], CU_FUNC_CACHE_PREFER_L1,
				  device));
	OK(cuLibraryUnload(file));
	OK(cuLinkCreate(0, NULL, NULL, &link));
	OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)ptx,
			 sizeof(ptx), "rest", 0, NULL, NULL));
	OK(cuLinkComplete(link, &image, &size));
	OK(cuModuleLoadData(&loaded, image));
	OK(cuModuleUnload(loaded));
	OK(cuLinkDestroy(link));
	OK(cuLinkCreate(0, NULL, NULL, &link));
	OK(cuLinkAddFile(link, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
	OK(cuLinkComplete(link, &image, &size));
	OK(cuLinkDestroy(link));
	unlink(path);
}

static void
occupancy(void)
{
	CUfunctionLoadingState state;
	int blocks, threads;
	size_t size;

	OK(cuFuncIsLoaded(&state, set));
	OK(cuFuncSetSharedMemConfig(set, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, set, 128, 0));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		&blocks, set, 128, 0, 0));
	OK(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, set, no_shared,
					    0, 0));
	OK(cuOccupancyMaxPotentialBlockSizeWithFlags(&blocks, &threads, set,
						     no_shared, 0, 0, 0));
	OK(cuOccupancyAvailableDynamicSMemPerBlock(&size, set, 1, 128));
}

static void
streams(void)
{
	CUstreamCaptureStatus status;
	CUgreenCtx green;
	CUcontext its;
	CUstream made;
	CUgraph graph;
	CUdevice where;
	cuuint64_t id;
	float ms;
	int priority;

	OK(cuStreamGetPriority(stream, &priority));
	OK(cuStreamGetDevice(stream, &where));
	OK(cuStreamGetCtx_v2(stream, &its, &green));
	OK(cuEventRecord(event, stream));
	OK(cuEventRecord(later, stream));
	OK(cuEventSynchronize(later));
	OK(cuEventElapsedTime(&ms, event, later));
	OK(cuStreamCreate(&made, CU_STREAM_DEFAULT));
	OK(cuStreamBeginCapture(made));
	OK(cuStreamGetCaptureInfo(made, &status, &id));
	OK(cuStreamGetCaptureInfo_v2(made, &status, &id, NULL, NULL, NULL));
	OK(cuMemsetD32Async(memory, 1, 16, made));
	OK(cuStreamUpdateCaptureDependencies(
		made, NULL, 0, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	OK(cuStreamEndCapture(made, &graph));
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy(made));
}

static void CUDA_CB
nothing(void *argument)
{
	(void)argument;
}

/* A graph of every kind of node, changed before and after it is made. */
static void
graphs(void)
{
	uint32_t value = 7;
	void *args[] = { &memory, &value };
	CUDA_KERNEL_NODE_PARAMS_v1 old = {
		.func = set, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 1, .blockDimY = 1, .blockDimZ = 1,
		.kernelParams = args,
	}, read;
	CUDA_HOST_NODE_PARAMS call = { nothing, NULL };
	CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	CUDA_MEMCPY3D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = memory,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = other,
		.WidthInBytes = 256, .Height = 1, .Depth = 1,
	};
	CUgraphNode k, k2, k3, c, h, r, w, from[16], to[16], bad;
	CUgraphExecUpdateResult result;
	CUuserObject object;
	CUgraphExec exec;
	CUgraph graph;
	size_t n;
	CUevent got;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode(&k, graph, NULL, 0, &old));
	OK(cuGraphAddKernelNode(&k2, graph, &k, 1, &old));
	any.kernel.func = set;
	any.kernel.gridDimX = any.kernel.gridDimY = any.kernel.gridDimZ = 1;
	any.kernel.blockDimX = any.kernel.blockDimY = any.kernel.blockDimZ = 1;
	any.kernel.kernelParams = args;
	OK(cuGraphAddNode(&k3, graph, NULL, 0, &any));
	OK(cuGraphAddMemcpyNode(&c, graph, &k2, 1, &copy, context));
	OK(cuGraphAddHostNode(&h, graph, NULL, 0, &call));
	OK(cuGraphAddEventRecordNode(&r, graph, NULL, 0, event));
	OK(cuGraphAddEventWaitNode(&w, graph, NULL, 0, event));
	OK(cuGraphAddDependencies(graph, &k, &k3, 1));
	n = 16;
	OK(cuGraphGetEdges(graph, from, to, &n));
	n = 16;
	OK(cuGraphNodeGetDependencies(k3, from, &n));
	n = 16;
	OK(cuGraphNodeGetDependentNodes(k, from, &n));
	OK(cuGraphRemoveDependencies(graph, &k, &k3, 1));
	OK(cuGraphKernelNodeGetParams(k, &read));
	OK(cuGraphKernelNodeSetParams(k, &old));
	OK(cuGraphKernelNodeCopyAttributes(k, k2));
	OK(cuGraphMemcpyNodeGetParams(c, &copy));
	OK(cuGraphMemcpyNodeSetParams(c, &copy));
	OK(cuGraphHostNodeSetParams(h, &call));
	OK(cuGraphEventRecordNodeSetEvent(r, later));
	OK(cuGraphEventRecordNodeGetEvent(r, &got));
	OK(cuGraphEventWaitNodeSetEvent(w, event));
	OK(cuGraphEventWaitNodeGetEvent(w, &got));
	OK(cuGraphNodeSetParams(k3, &any));
	OK(cuUserObjectCreate(&object, &value, nothing, 1,
			      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	OK(cuUserObjectRetain(object, 1));
	OK(cuGraphRetainUserObject(graph, object, 1, 0));
	OK(cuGraphReleaseUserObject(graph, object, 1));
	OK(cuUserObjectRelease(object, 2));
	OK(cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	OK(cuGraphExecKernelNodeSetParams(exec, k, &old));
	OK(cuGraphExecHostNodeSetParams(exec, h, &call));
	OK(cuGraphExecEventRecordNodeSetEvent(exec, r, event));
	OK(cuGraphExecEventWaitNodeSetEvent(exec, w, later));
	OK(cuGraphExecNodeSetParams(exec, k3, &any));
	OK(cuGraphExecUpdate(exec, graph, &bad, &result));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

int
main(void)
{
	CUevent gone;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	devices();
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&memory, SIZE));
	OK(cuMemAlloc_v2(&other, SIZE));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&set, module, "set"));
	OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "set"));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
	OK(cuEventCreate(&later, CU_EVENT_DEFAULT));
	OK(cuEventCreate(&gone, CU_EVENT_DEFAULT));
	OK(cuEventDestroy(gone));
	contexts();
	copies();
	arrays();
	memories();
	code();
	occupancy();
	streams();
	graphs();
	OK(cuDevicePrimaryCtxReset(device));
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
