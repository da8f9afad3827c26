/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose instructions are counted: check_instructions.py runs this under
 * callgrind and reads what main's callee `counted` has spent below it.
 *
 * What a call costs must not depend on how far the worker has come meanwhile.
 * So the worker is stopped while calls that need no answer are counted: before
 * and after, this program prints "stop" and "go" and waits for a line from
 * whoever started it. The first calls bind symbols and take pages: they are
 * made under `warm`. The stream is given back its places after each of them.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/kernels.h"

enum {
	WARM = 64,
	/* Whole rounds of what the shim does every so many calls, and with
	 * WARM less than the places of a stream. */
	COUNTED = 256,
};

static CUfunction with4, with20;
static CUstream stream;
static CUevent event;
static CUdeviceptr memory;
static CUdevice device;
static struct bench_params params;

static void
ok(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "count: %s gives %d\n", what, (int)r);
	exit(1);
}
#define OK(call) ok((call), #call)

#define CALLS(name, call)					\
	static __attribute__((noinline)) void			\
	name(int rounds)					\
	{							\
		for (int i = 0; i < rounds; i++)		\
			OK(call);				\
	}

static CUcontext context;
static int value;
static void *address;
static char bytes[64];

static CUresult
alloc_and_free(void)
{
	CUdeviceptr at;
	CUresult r = cuMemAlloc(&at, 1u << 20);

	return r != CUDA_SUCCESS ? r : cuMemFree(at);
}

CALLS(launch_4, cuLaunchKernel(with4, 8, 1, 1, 128, 1, 1, 0, stream,
			       params.argv, NULL))
CALLS(launch_20, cuLaunchKernel(with20, 8, 1, 1, 128, 1, 1, 0, stream,
				params.argv, NULL))
CALLS(event_record, cuEventRecord(event, stream))
CALLS(copy_in, cuMemcpyHtoDAsync(memory, bytes, sizeof(bytes), stream))
CALLS(mem_alloc_free, alloc_and_free())
CALLS(get_device, cuCtxGetDevice(&device))
CALLS(get_current, cuCtxGetCurrent(&context))
CALLS(attribute, cuDeviceGetAttribute(&value,
		CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0))
CALLS(proc_address, cuGetProcAddress("cuLaunchKernel", &address, 12000, 0,
				     NULL))
CALLS(synchronize, cuStreamSynchronize(stream))

/* A call without an answer is counted beside a stopped worker. */
static const struct {
	void (*run)(int rounds);
	int stopped;
} items[] = {
	{ launch_4, 1 }, { launch_20, 1 }, { event_record, 1 }, { copy_in, 1 },
	{ mem_alloc_free, 0 }, { get_device, 1 }, { get_current, 1 },
	{ attribute, 1 }, { proc_address, 1 }, { synchronize, 0 },
};

static void
say(const char *what)
{
	char line[16];

	printf("%s\n", what);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static __attribute__((noinline)) void
warm(void (*run)(int rounds))
{
	run(WARM);
}

static __attribute__((noinline)) void
counted(void (*run)(int rounds))
{
	run(COUNTED);
}

static void
prepare(void)
{
	CUmodule module;

	bench_params_init(&params);
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, bench_ptx));
	OK(cuModuleGetFunction(&with4, module, "with4"));
	OK(cuModuleGetFunction(&with20, module, "with20"));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuMemAlloc(&memory, sizeof(bytes)));
}

int
main(void)
{
	prepare();
	for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
		OK(cuStreamSynchronize(stream));
		if (items[i].stopped)
			say("stop");
		warm(items[i].run);
		counted(items[i].run);
		if (items[i].stopped)
			say("go");
	}
	OK(cuStreamSynchronize(stream));
	printf("%d calls each\n", COUNTED);
	return 0;
}
