/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation and memory pools.
 */
#include <string.h>

#include "tests/api/facts.h"

#define MIB (UINT64_C(1) << 20)

static CUstream stream;

static uint64_t
figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	cuuint64_t value = UINT64_MAX;

	OK(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static void
in_order(void)
{
	unsigned char *host = malloc(4 * MIB);
	CUdeviceptr p, q;
	bool right = true;

	OK(cuMemAllocAsync(&p, 4 * MIB, stream));
	OK(cuMemsetD8Async(p, 0x11, 4 * MIB, stream));
	OK(cuMemcpyDtoHAsync(host, p, 4 * MIB, stream));
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamSynchronize(stream));
	for (size_t i = 0; i < 4 * MIB; i++)
		right &= host[i] == 0x11;
	fact("memory is there from its place in the stream", right);
	answers("freed memory is not freed again", cuMemFreeAsync(p, stream),
		CUDA_ERROR_INVALID_VALUE);
	right = true;
	for (int i = 0; i < 200; i++) {
		unsigned char first = 0;

		OK(cuMemAllocAsync(&p, 3 * MIB, stream));
		OK(cuMemAllocAsync(&q, 100 + (size_t)i, stream));
		OK(cuMemsetD8Async(p, (unsigned char)i, 3 * MIB, stream));
		OK(cuMemcpyDtoDAsync(q, p + MIB, 100, stream));
		OK(cuMemFreeAsync(p, stream));
		if (i % 16 == 0) {
			OK(cuMemcpyDtoHAsync(&first, q, 1, stream));
			OK(cuStreamSynchronize(stream));
			right &= first == (unsigned char)i;
		}
		OK(cuMemFreeAsync(q, stream));
	}
	OK(cuStreamSynchronize(stream));
	fact("two hundred blocks come and go", right);
	OK(cuMemAllocAsync(&p, MIB, NULL));
	OK(cuMemFree(p));
	fact("cuMemFree takes them too", true);
	/* Which address that is, a driver does not say. */
	answers("nothing is allocated", cuMemAllocAsync(&p, 0, stream),
		CUDA_SUCCESS);
	if (!facts_comparable())
		answers("and freed", cuMemFreeAsync(p, stream), CUDA_SUCCESS);
	free(host);
}

static void
names(void)
{
	CUmemoryPool standard, current;

	OK(cuDeviceGetDefaultMemPool(&standard, 0));
	OK(cuDeviceGetMemPool(&current, 0));
	fact("the default pool is the current one", standard == current);
	answers("it cannot be destroyed", cuMemPoolDestroy(standard),
		CUDA_ERROR_INVALID_VALUE);
	answers("no device has none", cuDeviceGetDefaultMemPool(&current, 99),
		CUDA_ERROR_INVALID_DEVICE);
}

static void
figures(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemoryPool pool, of = NULL, standard;
	cuuint64_t threshold = 5 * MIB, zero = 0, one = 1;
	int off = 0, policy = 7;
	CUdeviceptr p, q;

	OK(cuMemPoolCreate(&pool, &props));
	fact("a pool begins with nothing",
	     figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0 &&
	     figure(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 0);
	OK(cuMemAllocFromPoolAsync(&p, 8 * MIB, pool, stream));
	fact("what it gives is counted",
	     figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 8 * MIB &&
	     figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 8 * MIB);
	OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	fact("memory knows its pool", of == pool);
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamSynchronize(stream));
	fact("and no longer when it is freed",
	     figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0 &&
	     figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 8 * MIB);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
	fact("a high-water mark can be reset",
	     figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
	answers("and not set", cuMemPoolSetAttribute(pool,
				CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				 &threshold));
	fact("a threshold is kept",
	     figure(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 5 * MIB);
	OK(cuMemPoolGetAttribute(pool,
				 CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
				 &policy));
	fact("reuse is allowed at first", policy == 1);
	OK(cuMemPoolSetAttribute(pool,
				 CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
				 &off));
	OK(cuMemPoolGetAttribute(pool,
				 CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
				 &policy));
	fact("and can be forbidden", policy == 0);
	OK(cuMemPoolTrimTo(pool, 0));
	OK(cuDeviceSetMemPool(0, pool));
	OK(cuMemAllocAsync(&q, MIB, stream));
	fact("a current pool serves cuMemAllocAsync",
	     figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == MIB);
	OK(cuMemPoolDestroy(pool));
	OK(cuMemsetD8Async(q, 3, MIB, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemFreeAsync(q, stream));
	fact("memory outlives its pool", true);
	OK(cuDeviceGetDefaultMemPool(&standard, 0));
	OK(cuDeviceGetMemPool(&of, 0));
	fact("the default pool follows a destroyed one", of == standard);
	answers("a destroyed pool is none", cuMemPoolTrimTo(pool, 0),
		CUDA_ERROR_INVALID_VALUE);
}

static void
access(void)
{
	CUmemLocation place = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	CUmemAccess_flags flags = 0;
	CUmemoryPool pool;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolGetAccess(&flags, pool, &place));
	fact("a pool's own device reads and writes it",
	     flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

/* More in all than there is, as freed memory comes back. */
static void
pressure(void)
{
	size_t available, total, size;
	CUdeviceptr p;

	OK(cuMemGetInfo(&available, &total));
	size = available / 8 * 5 / MIB * MIB;
	for (int i = 0; i < 6; i++) {
		OK(cuMemAllocAsync(&p, size, stream));
		OK(cuMemsetD8Async(p + size - 64, 1, 64, stream));
		OK(cuMemFreeAsync(p, stream));
	}
	OK(cuStreamSynchronize(stream));
	fact("freed blocks are allocated again", true);
	answers("what is not there is refused",
		cuMemAllocAsync(&p, total * 2, stream),
		CUDA_ERROR_OUT_OF_MEMORY);
}

int
main(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	names();
	in_order();
	figures();
	access();
	pressure();
	return facts_end();
}
