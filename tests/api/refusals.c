/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are refused, for check_refusals.sh, which looks at stderr:
 *
 *     refusals one       one function, by four threads, again and again
 *     refusals part      a function that is served, in a form that is not
 *     refusals probes    what libraries ask at start and do without
 *     refusals all       more functions than are to be named
 *
 * Prints "refused N" with the number of calls that were. Exit status 0 if
 * every call was.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* References to textures. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define THREADS 4
#define TIMES 100

static _Atomic int calls, refused;

static void
count(CUresult r)
{
	calls++;
	refused += r == CUDA_ERROR_NOT_SUPPORTED;
}

static void *
again_and_again(void *arg)
{
	CUtexref ref;

	if (cuCtxSetCurrent(arg))
		abort();
	for (int i = 0; i < TIMES; i++)
		count(cuTexRefCreate(&ref));
	return NULL;
}

static void
one(void)
{
	pthread_t threads[THREADS];
	CUcontext ctx;

	if (cuCtxGetCurrent(&ctx))
		abort();
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, again_and_again, ctx))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void
part(void)
{
	CUgraphExec exec;
	CUgraph graph;

	if (cuGraphCreate(&graph, 0))
		abort();
	for (int i = 0; i < TIMES; i++)
		count(cuGraphInstantiateWithFlags(
			&exec, graph,
			CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
	cuGraphDestroy(graph);
}

static void
probes(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
	};
	CUmulticastObjectProp joined = {
		.numDevices = 1, .size = 2u << 20,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	};
	CUmemGenericAllocationHandle memory;
	unsigned int mask;
	size_t size;
	char luid[8];

	count(cuMemCreate(&memory, 2u << 20, &prop, 0));
	count(cuMulticastGetGranularity(&size, &joined,
					CU_MULTICAST_GRANULARITY_MINIMUM));
	count(cuDeviceGetLuid(luid, &mask, 0));
}

/* Those of these that are refused; all are before they look at arguments. */
static void
all(void)
{
	CUtexref ref = (CUtexref)&ref;
	CUarray array;
	int n;

	count(cuTexRefCreate(&ref));
	count(cuTexRefDestroy(ref));
	count(cuTexRefSetArray(ref, NULL, 0));
	count(cuTexRefSetFormat(ref, CU_AD_FORMAT_FLOAT, 1));
	count(cuTexRefSetAddressMode(ref, 0, CU_TR_ADDRESS_MODE_WRAP));
	count(cuTexRefSetFilterMode(ref, CU_TR_FILTER_MODE_POINT));
	count(cuTexRefSetMipmapLevelBias(ref, 0));
	count(cuTexRefSetMaxAnisotropy(ref, 1));
	count(cuTexRefSetFlags(ref, 0));
	count(cuTexRefGetArray(&array, ref));
	count(cuTexRefGetMaxAnisotropy(&n, ref));
	count(cuSurfRefSetArray((CUsurfref)&ref, NULL, 0));
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "one", one }, { "part", part }, { "probes", probes }, { "all", all },
};

int
main(int argc, char **argv)
{
	CUdevice device;
	CUcontext ctx;

	if (cuInit(0) || cuDeviceGet(&device, 0) ||
	    cuDevicePrimaryCtxRetain(&ctx, device) || cuCtxSetCurrent(ctx))
		return 2;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (argc == 2 && !strcmp(argv[1], parts[i].name))
			parts[i].run();
	printf("refused %d\n", refused);
	return calls && refused == calls ? 0 : 1;
}
