/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about devices, contexts, functions, arrays and managed memory
 * whose answers are numbers: printed, to be compared with the real driver's.
 */
#include <string.h>

#include "tests/api/facts.h"

/* cuCtxAttach. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define SIZE (UINT64_C(4) << 20)

static const char ptx[] =
	".version 7.8\n.target sm_80\n.address_size 64\n"
	".visible .entry fill(.param .u64 to, .param .u32 value)\n"
	"{ .reg .u64 p, o; .reg .u32 i, t, b, v;"
	" ld.param.u64 p,[to]; ld.param.u32 v,[value];"
	" mov.u32 i,%ctaid.x; mov.u32 b,%ntid.x; mov.u32 t,%tid.x;"
	" mad.lo.u32 i,i,b,t; mul.wide.u32 o,i,4; add.u64 p,p,o;"
	" st.global.u32 [p],v; ret; }\n";

static void
numbers(const char *text, CUresult r, const int *values, size_t count)
{
	const char *name = "?";

	cuGetErrorName(r, &name);
	printf("%s: %s", text, name);
	for (size_t i = 0; i < count; i++)
		printf(" %d", values[i]);
	printf("\n");
}

static void
devices(void)
{
	static const CUarray_format formats[] = {
		CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_HALF,
		CU_AD_FORMAT_FLOAT,
	};
	CUatomicOperation all[CU_ATOMIC_OPERATION_MAX];
	unsigned int of[CU_ATOMIC_OPERATION_MAX] = {0};
	CUexecAffinityParam affinity;
	size_t width;
	int value;

	for (unsigned int f = 0; f < 3; f++) {
		for (unsigned int n = 1; n <= 4; n *= 2) {
			CUresult r = cuDeviceGetTexture1DLinearMaxWidth(
				&width, formats[f], n, 0);

			value = (int)width;
			numbers("linear texture", r, &value, 1);
		}
	}
	answers("3 channels make no texture",
		cuDeviceGetTexture1DLinearMaxWidth(&width, formats[0], 3, 0),
		CUDA_ERROR_INVALID_VALUE);
	answers("there is no device 99", cuDeviceGetTexture1DLinearMaxWidth(
			&width, formats[0], 1, 99), CUDA_ERROR_INVALID_DEVICE);
	for (unsigned int i = 0; i < CU_ATOMIC_OPERATION_MAX; i++)
		all[i] = (CUatomicOperation)i;
	numbers("atomics on host memory", cuDeviceGetHostAtomicCapabilities(
			of, all, CU_ATOMIC_OPERATION_MAX, 0), (int *)of,
		CU_ATOMIC_OPERATION_MAX);
	answers("no operations", cuDeviceGetHostAtomicCapabilities(of, all, 0,
								   0),
		CUDA_ERROR_INVALID_VALUE);
	all[0] = CU_ATOMIC_OPERATION_MAX;
	answers("unknown operations", cuDeviceGetHostAtomicCapabilities(
			of, all, 1, 0), CUDA_ERROR_INVALID_VALUE);
	answers("a device and itself", cuDeviceGetP2PAtomicCapabilities(
			of, all + 1, 1, 0, 0), CUDA_ERROR_INVALID_DEVICE);
	numbers("affinity", cuDeviceGetExecAffinitySupport(
			&value, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0), &value, 1);
	memset(&affinity, 0, sizeof(affinity));
	numbers("affinity of the context", cuCtxGetExecAffinity(
			&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
		(int *)&affinity, sizeof(affinity) / 4);
	answers("persisting lines are reset", cuCtxResetPersistingL2Cache(),
		CUDA_SUCCESS);
}

static void
contexts(void)
{
	CUcontext made, got = NULL, before;
	CUresult r;

	OK(cuCtxGetCurrent(&before));
	OK(cuCtxCreate(&made, NULL, 0, 0));
	r = cuCtxAttach(&got, 0);
	numbers("attached", r, NULL, 0);
	fact("to the current one", got == made);
	numbers("attached with flags", cuCtxAttach(&got, 1), NULL, 0);
	numbers("detached", cuCtxDetach(made), NULL, 0);
	numbers("and lives", cuCtxSynchronize(), NULL, 0);
	numbers("detached again", cuCtxDetach(made), NULL, 0);
	OK(cuCtxGetCurrent(&got));
	fact("and is not current any more", got == before);
	OK(cuCtxSetCurrent(before));
}

static void
functions(void)
{
	CUlaunchConfig config = {
		.gridDimX = 64, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 128, .blockDimY = 1, .blockDimZ = 1,
	};
	CUlibrary library;
	CUkernel kernel;
	CUdeviceptr p;
	size_t size;
	void *address;
	int value = 0;

	OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "fill"));
	numbers("blocks in a cluster", cuOccupancyMaxPotentialClusterSize(
			&value, (CUfunction)kernel, &config), &value, 1);
	config.sharedMemBytes = 40000;
	numbers("with shared memory", cuOccupancyMaxPotentialClusterSize(
			&value, (CUfunction)kernel, &config), &value, 1);
	OK(cuKernelSetAttribute(
		CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1,
		kernel, 0));
	OK(cuOccupancyMaxPotentialClusterSize(&value, (CUfunction)kernel,
					      &config));
	fact("more if they need not be portable", value == 16);
	answers("no managed variable", cuLibraryGetManaged(&p, &size, library,
							   "none"),
		CUDA_ERROR_NOT_FOUND);
	answers("no unified function", cuLibraryGetUnifiedFunction(
			&address, library, "fill"), CUDA_ERROR_INVALID_VALUE);
	OK(cuLibraryUnload(library));
}

static void
arrays(void)
{
	const CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 64, .Height = 64, .NumChannels = 1,
		.Format = CU_AD_FORMAT_FLOAT,
	};
	const CUDA_ARRAY3D_DESCRIPTOR levels = {
		.Width = 64, .Height = 64, .NumChannels = 1,
		.Format = CU_AD_FORMAT_FLOAT,
	};
	CUDA_ARRAY_SPARSE_PROPERTIES sparse;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	CUmipmappedArray mipmap;
	CUarray array, plane;

	OK(cuArrayCreate(&array, &shape));
	answers("an array is not sparse", cuArrayGetSparseProperties(&sparse,
								     array),
		CUDA_ERROR_INVALID_VALUE);
	numbers("it has its memory", cuArrayGetMemoryRequirements(
			&needs, array, 0), NULL, 0);
	answers("it has no planes", cuArrayGetPlane(&plane, array, 0),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(array));
	/* The software device has none. */
	if (cuMipmappedArrayCreate(&mipmap, &levels, 3) != CUDA_SUCCESS)
		return;
	answers("nor are levels", cuMipmappedArrayGetSparseProperties(
			&sparse, mipmap), CUDA_ERROR_INVALID_VALUE);
	numbers("levels too", cuMipmappedArrayGetMemoryRequirements(
			&needs, mipmap, 0), NULL, 0);
	OK(cuMipmappedArrayDestroy(mipmap));
}

/* All that is remembered of a range. */
static void
remembered(const char *text, CUdeviceptr p, size_t size)
{
	int read_mostly = 9, preferred = 9, accessed[3] = {9, 9, 9};
	int prefetched = 9, type = 9, last = 9, id = 9;
	void *data[] = { &read_mostly, &preferred, accessed, &prefetched,
			 &type, &last };
	size_t sizes[] = { 4, 4, 12, 4, 4, 4 };
	CUmem_range_attribute which[] = {
		CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
		CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
		CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
		CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
	};
	int all[8];

	OK(cuMemRangeGetAttributes(data, sizes, which, 6, p, size));
	all[0] = read_mostly;
	all[1] = preferred;
	memcpy(all + 2, accessed, sizeof(accessed));
	all[5] = prefetched;
	all[6] = type;
	all[7] = last;
	numbers(text, CUDA_SUCCESS, all, 8);
	if (type == CU_MEM_LOCATION_TYPE_DEVICE)
		numbers("  its device", cuMemRangeGetAttribute(
				&id, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID,
				p, size), &id, 1);
}

static void
advice(CUdeviceptr p)
{
	const CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	const CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };
	const CUmemLocation none = {0};
	const uint64_t half = SIZE / 2;
	int value[2];

	remembered("nothing said", p, SIZE);
	OK(cuMemAdvise(p, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	remembered("read mostly", p, SIZE);
	OK(cuMemAdvise(p, half, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
	remembered("half of it not", p, SIZE);
	remembered("the other half", p + half, half);
	OK(cuMemAdvise(p, SIZE, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
	OK(cuMemAdvise(p, SIZE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
	remembered("preferred on the device", p, SIZE);
	OK(cuMemAdvise(p, half, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
	remembered("half on the host", p, half);
	remembered("both", p, SIZE);
	OK(cuMemAdvise(p, SIZE, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host));
	OK(cuMemAdvise(p, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
	remembered("used by the device", p, SIZE);
	OK(cuMemAdvise(p, SIZE, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device));
	OK(cuMemPrefetchAsync(p, SIZE, device, 0, NULL));
	remembered("prefetched to the device", p, SIZE);
	OK(cuMemPrefetchAsync(p, half, host, 0, NULL));
	remembered("half of it to the host", p, SIZE);
	remembered("that half", p, half);
	answers("4 bytes are asked for", cuMemRangeGetAttribute(
			value, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, SIZE),
		CUDA_ERROR_INVALID_VALUE);
	answers("a multiple of 4", cuMemRangeGetAttribute(
			value, 6, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, SIZE),
		CUDA_ERROR_INVALID_VALUE);
	answers("there is no attribute 99", cuMemRangeGetAttribute(
			value, 4, (CUmem_range_attribute)99, p, SIZE),
		CUDA_ERROR_INVALID_VALUE);
	answers("no place", cuMemAdvise(
			p, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, none),
		CUDA_ERROR_INVALID_VALUE);
	answers("no place of that kind", cuMemAdvise(
			p, SIZE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, none),
		CUDA_ERROR_INVALID_VALUE);
}

static void
lists(CUdeviceptr p, CUfunction fill)
{
	CUdeviceptr parts[3] = { p, p + SIZE / 4, p + SIZE / 2 };
	size_t sizes[3] = { SIZE / 4, SIZE / 4, SIZE / 2 }, first[2] = {0, 2};
	CUmemLocation places[2] = {
		{ .type = CU_MEM_LOCATION_TYPE_DEVICE },
		{ .type = CU_MEM_LOCATION_TYPE_HOST },
	};
	const uint32_t *words = (const uint32_t *)(uintptr_t)p;
	uint32_t value = 5;
	void *args[] = { &p, &value };
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemPrefetchBatchAsync(parts, sizes, 3, places, first, 2, 0,
				   stream));
	OK(cuStreamSynchronize(stream));
	remembered("the first half", p, SIZE / 2);
	remembered("the second half", p + SIZE / 2, SIZE / 2);
	OK(cuMemDiscardBatchAsync(parts, sizes, 3, 0, stream));
	OK(cuLaunchKernel(fill, (unsigned int)(SIZE / 1024), 1, 1, 256, 1, 1,
			  0, stream, args, NULL));
	OK(cuMemPrefetchAsync(p, SIZE, places[1], 0, stream));
	OK(cuStreamSynchronize(stream));
	fact("written after it was discarded", words[0] == 5 &&
					       words[SIZE / 4 - 1] == 5);
	OK(cuMemDiscardAndPrefetchBatchAsync(parts, sizes, 3, places, first, 2,
					     0, stream));
	OK(cuStreamSynchronize(stream));
	first[0] = 1;
	answers("the first place is for the first",
		cuMemPrefetchBatchAsync(parts, sizes, 3, places, first, 2, 0,
					stream), CUDA_ERROR_INVALID_VALUE);
	first[0] = 0;
	first[1] = 3;
	answers("places are for something",
		cuMemPrefetchBatchAsync(parts, sizes, 3, places, first, 2, 0,
					stream), CUDA_ERROR_INVALID_VALUE);
	first[1] = 2;
	answers("no flags", cuMemPrefetchBatchAsync(parts, sizes, 3, places,
						    first, 2, 1, stream),
		CUDA_ERROR_INVALID_VALUE);
	answers("nothing to discard", cuMemDiscardBatchAsync(parts, sizes, 0,
							     0, stream),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamDestroy(stream));
}

int
main(void)
{
	CUmodule module;
	CUfunction fill;
	CUcontext ctx;
	CUdeviceptr p;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	devices();
	contexts();
	functions();
	arrays();
	OK(cuMemAllocManaged(&p, SIZE, CU_MEM_ATTACH_GLOBAL));
	advice(p);
	lists(p, fill);
	OK(cuMemFree(p));
	OK(cuMemAllocManaged(&p, SIZE, CU_MEM_ATTACH_GLOBAL));
	remembered("of a new block, nothing", p, SIZE);
	return facts_end();
}
