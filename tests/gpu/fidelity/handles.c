/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of another kind, handles of nothing, and handles that are no more.
 * The real driver follows many of them and may die there, which is a row's
 * answer, too.
 */
#include "tests/gpu/fidelity/rows.h"

static struct {
	CUcontext ctx;
	CUstream stream;
	CUevent event;
	CUmodule module;
	CUfunction function;
	CUlibrary library;
	CUkernel kernel;
	CUgraph graph;
	CUgraphNode node;
	CUgraphExec exec;
	CUarray array;
	CUmipmappedArray levels;
	CUmemoryPool pool;
	CUtexObject texture;
	CUmemGenericAllocationHandle memory;
	CUlinkState linker;
	CUuserObject object;
	CUdeviceptr plain, pooled;
	void *pinned;
} h;

static void
nothing(void *unused)
{
	(void)unused;
}

static void
make(void)
{
	const CUDA_ARRAY_DESCRIPTOR flat = { 16, 16, CU_AD_FORMAT_FLOAT, 1 };
	const CUDA_ARRAY3D_DESCRIPTOR deep = { 16, 16, 0, CU_AD_FORMAT_FLOAT,
					       1, 0 };
	const CUDA_TEXTURE_DESC t = { 0 };
	CUDA_RESOURCE_DESC r = { .resType = CU_RESOURCE_TYPE_ARRAY };
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = props.location,
	};

	h.ctx = row_context();
	OK(cuStreamCreate, &h.stream, 0);
	OK(cuEventCreate, &h.event, 0);
	OK(cuModuleLoadData, &h.module, row_ptx);
	OK(cuModuleGetFunction, &h.function, h.module, "none");
	OK(cuLibraryLoadData, &h.library, row_ptx, NULL, NULL, 0, NULL, NULL,
	   0);
	OK(cuLibraryGetKernel, &h.kernel, h.library, "none");
	OK(cuGraphCreate, &h.graph, 0);
	OK(cuGraphAddEmptyNode, &h.node, h.graph, NULL, 0);
	OK(cuGraphInstantiateWithFlags, &h.exec, h.graph, 0);
	OK(cuArrayCreate_v2, &h.array, &flat);
	TRY(cuMipmappedArrayCreate, &h.levels, &deep, 2);
	r.res.array.hArray = h.array;
	OK(cuTexObjectCreate, &h.texture, &r, &t, NULL);
	OK(cuMemPoolCreate, &h.pool, &props);
	OK(cuMemCreate, &h.memory, 2 << 20, &prop, 0);
	TRY(cuLinkCreate_v2, 0, NULL, NULL, &h.linker);
	TRY(cuUserObjectCreate, &h.object, NULL, nothing, 1, 1);
	OK(cuMemAlloc_v2, &h.plain, 4096);
	OK(cuMemAllocAsync, &h.pooled, 4096, h.stream);
	OK(cuMemAllocHost_v2, &h.pinned, 4096);
	OK(cuStreamSynchronize, h.stream);
}

/* Every function that takes one handle as the main thing. */
static void
ask_streams(const char *what, void *handle)
{
	ROW(cuStreamQuery, what, handle);
	ROW(cuStreamSynchronize, what, handle);
	ROW(cuStreamGetFlags, what, handle, I32(0));
	ROW(cuStreamGetPriority, what, handle, I32(0));
	ROW(cuStreamGetId, what, handle, SOME(0));
	ROW(cuStreamGetCtx, what, handle, PTR(0));
	ROW(cuStreamIsCapturing, what, handle, I32(0));
	ROW(cuStreamBeginCapture_v2, what, handle, 2);
	ROW(cuStreamWaitEvent, what, handle, h.event, 0);
	ROW(cuLaunchKernel, what, h.function, 1, 1, 1, 1, 1, 1, 0, handle,
	    NULL, NULL);
	ROW(cuMemsetD8Async, what, h.plain, 0, 4, handle);
	ROW(cuMemAllocAsync, what, PTR(0), 64, handle);
	ROW(cuGraphLaunch, what, h.exec, handle);
	ROW(cuEventRecord, what, h.event, handle);
	ROW(cuStreamDestroy_v2, what, handle);
}

static void
ask_events(const char *what, void *handle)
{
	ROW(cuEventQuery, what, handle);
	ROW(cuEventSynchronize, what, handle);
	ROW(cuEventRecord, row_text("event: %s", what), handle, NULL);
	ROW(cuStreamWaitEvent, row_text("event: %s", what), NULL, handle, 0);
	ROW(cuEventElapsedTime_v2, what, F32(0), handle, handle);
	ROW(cuEventDestroy_v2, what, handle);
}

static void
ask_code(const char *what, void *handle)
{
	ROW(cuModuleGetFunction, what, PTR(0), handle, "none");
	ROW(cuModuleGetGlobal_v2, what, PTR(0), I64(1), handle, "counter");
	ROW(cuModuleGetFunctionCount, what, I32(0), handle);
	ROW(cuLibraryGetKernel, what, PTR(0), handle, "none");
	ROW(cuLibraryGetModule, what, PTR(0), handle);
	ROW(cuLibraryUnload, what, handle);
	ROW(cuModuleUnload, what, handle);
}

static void
ask_functions(const char *what, void *handle)
{
	ROW(cuFuncGetAttribute, what, I32(0), 0, handle);
	ROW(cuFuncSetAttribute, what, handle, 8, 0);
	ROW(cuFuncGetModule, what, PTR(0), handle);
	ROW(cuFuncGetName, what, PTR(0), handle);
	ROW(cuKernelGetFunction, what, PTR(0), handle);
	ROW(cuKernelGetAttribute, what, I32(0), 0, handle, 0);
	ROW(cuLaunchKernel, row_text("function: %s", what), handle, 1, 1, 1,
	    1, 1, 1, 0, NULL, NULL, NULL);
	ROW(cuOccupancyMaxActiveBlocksPerMultiprocessor, what, SOME(0),
	    handle, 32, 0);
}

static void
ask_graphs(const char *what, void *handle)
{
	ROW(cuGraphGetNodes, what, handle, NULL, I64(0));
	ROW(cuGraphAddEmptyNode, what, PTR(0), handle, NULL, 0);
	ROW(cuGraphClone, what, PTR(0), handle);
	ROW(cuGraphInstantiateWithFlags, what, PTR(0), handle, 0);
	ROW(cuGraphNodeGetType, what, handle, I32(0));
	ROW(cuGraphDestroyNode, what, handle);
	ROW(cuGraphExecGetFlags, what, handle, I64(0));
	ROW(cuGraphLaunch, row_text("graph: %s", what), handle, h.stream);
	ROW(cuGraphExecDestroy, what, handle);
	ROW(cuGraphDestroy, what, handle);
}

static void
ask_memory(const char *what, void *handle)
{
	ROW(cuArrayGetDescriptor_v2, what, SOME(0), handle);
	ROW(cuMemcpyAtoH_v2, what, row_zeros, handle, 0, 4);
	ROW(cuArrayDestroy, what, handle);
	ROW(cuMipmappedArrayGetLevel, what, PTR(0), handle, 0);
	ROW(cuMipmappedArrayDestroy, what, handle);
	ROW(cuMemPoolGetAttribute, what, handle,
	    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, I64(0));
	ROW(cuMemAllocFromPoolAsync, what, PTR(0), 64, handle, h.stream);
	ROW(cuMemPoolTrimTo, what, handle, 0);
	ROW(cuMemPoolDestroy, what, handle);
	ROW(cuMemRelease, what, (CUmemGenericAllocationHandle)
	    (uintptr_t)handle);
	ROW(cuMemGetAllocationPropertiesFromHandle, what, SOME(0),
	    (CUmemGenericAllocationHandle)(uintptr_t)handle);
}

static void
ask_contexts(const char *what, void *handle)
{
	ROW(cuCtxGetId, what, handle, SOME(0));
	ROW(cuCtxGetApiVersion, what, handle, I32(0));
	ROW(cuCtxGetDevice_v2, what, I32(0), handle);
	ROW(cuCtxDestroy_v2, what, handle);
}

/*
 * Halves, since a driver that dies has to make all of it anew.
 */
void
group_zeroed_handles_1(void)
{
	void *const zeros = row_zeros + sizeof(row_zeros) / 2;
	const char *const what = "zeros for a handle";

	make();
	ask_streams(what, zeros);
	ask_events(what, zeros);
	ask_contexts(what, zeros);
	ask_memory(what, zeros);
}

void
group_zeroed_handles_2(void)
{
	void *const zeros = row_zeros + sizeof(row_zeros) / 2;
	const char *const what = "zeros for a handle";

	make();
	ask_code(what, zeros);
	ask_functions(what, zeros);
	ask_graphs(what, zeros);
	ROW(cuLinkComplete, what, (CUlinkState)zeros, PTR(0), I64(1));
	ROW(cuUserObjectRetain, what, (CUuserObject)zeros, 1);
}

/* Each kind where another is due. */
void
group_foreign_handles_1(void)
{
	make();
	ask_streams("an event for a stream", h.event);
	ask_events("a stream for an event", h.stream);
	ask_contexts("a stream for a context", h.stream);
	ask_memory("an event for memory", h.event);
}

void
group_foreign_handles_2(void)
{
	CUmodule of_library;

	make();
	OK(cuLibraryGetModule, &of_library, h.library);
	ask_code("a graph for code", h.graph);
	ask_functions("a module for a function", h.module);
	ask_graphs("a stream for a graph", h.stream);
	ROW(cuModuleUnload, "the module of a library", of_library);
}

void
group_dead_handles_1(void)
{
	const char *const what = "destroyed";

	make();
	OK(cuStreamDestroy_v2, h.stream);
	ask_streams(what, h.stream);
	OK(cuEventDestroy_v2, h.event);
	ask_events(what, h.event);
	OK(cuModuleUnload, h.module);
	ROW(cuModuleGetFunction, what, PTR(0), h.module, "none");
	ROW(cuModuleGetGlobal_v2, what, PTR(0), I64(1), h.module, "counter");
	ROW(cuModuleUnload, what, h.module);
	ROW(cuFuncGetAttribute, what, I32(0), 0, h.function);
	ROW(cuFuncGetName, what, PTR(0), h.function);
	ROW(cuLaunchKernel, "function: destroyed", h.function, 1, 1, 1, 1, 1,
	    1, 0, NULL, NULL, NULL);
	OK(cuLibraryUnload, h.library);
	ROW(cuLibraryGetKernel, what, PTR(0), h.library, "none");
	ROW(cuLibraryUnload, what, h.library);
	ROW(cuKernelGetFunction, what, PTR(0), h.kernel);
	OK(cuGraphExecDestroy, h.exec);
	ROW(cuGraphLaunch, "executable: destroyed", h.exec, NULL);
	ROW(cuGraphExecDestroy, what, h.exec);
	OK(cuGraphDestroy, h.graph);
	ROW(cuGraphGetNodes, what, h.graph, NULL, I64(0));
	ROW(cuGraphInstantiateWithFlags, what, PTR(0), h.graph, 0);
	ROW(cuGraphNodeGetType, what, h.node, I32(0));
	ROW(cuGraphDestroy, what, h.graph);
}

void
group_dead_handles_2(void)
{
	const char *const what = "destroyed";

	make();
	OK(cuTexObjectDestroy, h.texture);
	ROW(cuTexObjectGetTextureDesc, what, SOME(0), h.texture);
	ROW(cuTexObjectDestroy, what, h.texture);
	OK(cuArrayDestroy, h.array);
	ROW(cuArrayGetDescriptor_v2, what, SOME(0), h.array);
	ROW(cuMemcpyAtoH_v2, what, row_zeros, h.array, 0, 4);
	ROW(cuArrayDestroy, what, h.array);
	TRY(cuMipmappedArrayDestroy, h.levels);
	ROW(cuMipmappedArrayGetLevel, what, PTR(0), h.levels, 0);
	ROW(cuMipmappedArrayDestroy, what, h.levels);
	OK(cuMemPoolDestroy, h.pool);
	ROW(cuMemPoolTrimTo, what, h.pool, 0);
	ROW(cuMemAllocFromPoolAsync, what, PTR(0), 64, h.pool, NULL);
	ROW(cuMemPoolDestroy, what, h.pool);
	OK(cuMemRelease, h.memory);
	ROW(cuMemRelease, what, h.memory);
	ROW(cuMemGetAllocationPropertiesFromHandle, what, SOME(0), h.memory);
	TRY(cuLinkDestroy, h.linker);
	ROW(cuLinkDestroy, what, h.linker);
	TRY(cuUserObjectRelease, h.object, 1);
	ROW(cuUserObjectRelease, what, h.object, 1);
	OK(cuMemFree_v2, h.plain);
	ROW(cuMemFree_v2, "freed", h.plain);
	ROW(cuMemsetD8_v2, "freed", h.plain, 0, 4);
	ROW(cuMemGetAddressRange_v2, "freed", PTR(0), I64(1), h.plain);
	OK(cuMemFree_v2, h.pooled);
	ROW(cuMemFreeAsync, "freed", h.pooled, NULL);
	OK(cuMemFreeHost, h.pinned);
	ROW(cuMemFreeHost, "freed", h.pinned);
	ROW(cuMemHostGetFlags, "freed", I32(0), h.pinned);
}
