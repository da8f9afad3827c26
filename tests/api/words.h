/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few words of device memory and of pinned memory, and two streams: what
 * programs about memory operations work on. Included by these.
 */
#ifndef TESTS_API_WORDS_H
#define TESTS_API_WORDS_H

#include <string.h>

#include "tests/api/facts.h"

enum { WORDS = 16 };

static CUcontext context;
static CUdeviceptr memory;
static volatile uint32_t *pinned;
static CUdeviceptr pinned_address;
static CUstream a, b;

static CUdeviceptr
word(unsigned index)
{
	return memory + 4 * index;
}

static uint64_t
peek(CUdeviceptr address, unsigned size)
{
	uint64_t value = 0;

	OK(cuMemcpyDtoHAsync(&value, address, size, b));
	OK(cuStreamSynchronize(b));
	return value;
}

static void
clear(void)
{
	OK(cuMemsetD32(memory, 0, WORDS));
	memset((void *)pinned, 0, 4 * WORDS);
	OK(cuCtxSynchronize());
}

static void
words_begin(void)
{
	CUdevice device;
	void *p;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&memory, 4 * WORDS));
	OK(cuMemHostAlloc(&p, 4 * WORDS, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&pinned_address, p, 0));
	pinned = p;
}

#endif
