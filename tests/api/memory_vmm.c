/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management as allocators use it: reserve more than there is,
 * map chunks as needed, copy and compute across them, unmap and map anew.
 */
#include <string.h>

#include "tests/api/facts.h"

#define CHUNK (UINT64_C(2) << 20)

/* Adds 1 to n words. */
static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry inc(.param .u64 to, .param .u32 n)\n"
	"{ .reg .u64 p, o; .reg .u32 i, t, b, v, m; .reg .pred q;"
	" ld.param.u64 p,[to]; ld.param.u32 m,[n];"
	" mov.u32 i,%ctaid.x; mov.u32 b,%ntid.x; mov.u32 t,%tid.x;"
	" mad.lo.u32 i,i,b,t; setp.ge.u32 q,i,m; @q bra done;"
	" mul.wide.u32 o,i,4; add.u64 p,p,o;"
	" ld.global.u32 v,[p]; add.u32 v,v,1; st.global.u32 [p],v;"
	" done: ret; }\n";

static CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};
static const CUmemAccessDesc both = {
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};
static CUfunction inc;

static void
increment(CUdeviceptr p, uint32_t words)
{
	void *args[] = { &p, &words };

	OK(cuLaunchKernel(inc, (words + 127) / 128, 1, 1, 128, 1, 1, 0, NULL,
			  args, NULL));
}

static uint32_t
word(CUdeviceptr p)
{
	uint32_t value = 0;

	OK(cuMemcpyDtoH(&value, p, sizeof(value)));
	return value;
}

static void
sizes(void)
{
	size_t least = 0, best = 0;

	OK(cuMemGetAllocationGranularity(&least, &prop,
					 CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemGetAllocationGranularity(&best, &prop,
					 CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	fact("the granularity is 2 MiB", least == CHUNK && best == CHUNK);
}

static void
arguments(void)
{
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp wrong = prop;
	CUdeviceptr p;

	answers("a reservation of half a chunk is refused",
		cuMemAddressReserve(&p, CHUNK / 2, 0, 0, 0),
		CUDA_ERROR_INVALID_VALUE);
	answers("memory of half a chunk is refused",
		cuMemCreate(&h, CHUNK / 2, &prop, 0),
		CUDA_ERROR_INVALID_VALUE);
	wrong.location.id = 99;
	answers("memory of no device is refused",
		cuMemCreate(&h, CHUNK, &wrong, 0), CUDA_ERROR_INVALID_DEVICE);
	answers("more memory than there is is not made",
		cuMemCreate(&h, UINT64_C(1) << 46, &prop, 0),
		CUDA_ERROR_OUT_OF_MEMORY);
}

static void
one_mapping(void)
{
	CUmemGenericAllocationHandle h, again;
	CUmemLocation place = prop.location;
	CUmemAllocationProp is = { 0 };
	unsigned long long flags = 7;
	unsigned int type = 0;
	CUdeviceptr p, base;
	size_t size;

	OK(cuMemAddressReserve(&p, 4 * CHUNK, 0, 0, 0));
	fact("a reservation begins at a chunk", p && p % CHUNK == 0);
	OK(cuMemCreate(&h, 2 * CHUNK, &prop, 0));
	answers("mapping outside of any reservation is refused",
		cuMemMap(p + 4 * CHUNK, 2 * CHUNK, 0, h, 0),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(p + CHUNK, 2 * CHUNK, 0, h, 0));
	answers("mapping where something is mapped is refused",
		cuMemMap(p, 2 * CHUNK, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemGetAccess(&flags, &place, p + CHUNK));
	fact("without access at first", flags == 0);
	answers("access to what is half mapped is refused",
		cuMemSetAccess(p, 2 * CHUNK, &both, 1),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemSetAccess(p + CHUNK, 2 * CHUNK, &both, 1));
	OK(cuMemGetAccess(&flags, &place, p + CHUNK));
	fact("then to read and write",
	     flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	OK(cuMemsetD32(p + CHUNK, 41, 2 * CHUNK / 4));
	increment(p + CHUNK, 2 * CHUNK / 4);
	fact("kernels reach it", word(p + CHUNK) == 42 &&
	     word(p + 3 * CHUNK - 4) == 42);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				 p + CHUNK));
	fact("it is device memory", type == CU_MEMORYTYPE_DEVICE);
	OK(cuMemGetAddressRange(&base, &size, p + 2 * CHUNK));
	fact("its range is the mapping",
	     base == p + CHUNK && size == 2 * CHUNK);
	OK(cuMemGetAllocationPropertiesFromHandle(&is, h));
	fact("a handle knows its properties", is.type == prop.type &&
	     is.location.type == prop.location.type && is.location.id == 0);
	OK(cuMemRelease(h));
	increment(p + CHUNK, 1);
	fact("released memory lives while it is mapped",
	     word(p + CHUNK) == 43);
	OK(cuMemRetainAllocationHandle(&again, (void *)(p + CHUNK)));
	answers("a reservation in use is not freed",
		cuMemAddressFree(p, 4 * CHUNK), CUDA_ERROR_INVALID_VALUE);
	answers("half a mapping is not unmapped", cuMemUnmap(p + CHUNK, CHUNK),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(p + CHUNK, 2 * CHUNK));
	OK(cuMemMap(p, 2 * CHUNK, 0, again, 0));
	OK(cuMemSetAccess(p, 2 * CHUNK, &both, 1));
	fact("memory keeps its bytes at another address",
	     word(p) == 43 && word(p + 4) == 42);
	OK(cuMemUnmap(p, 2 * CHUNK));
	OK(cuMemRelease(again));
	OK(cuMemAddressFree(p, 4 * CHUNK));
	answers("a reservation is freed once", cuMemAddressFree(p, 4 * CHUNK),
		CUDA_ERROR_INVALID_VALUE);
}

#define SEGMENTS 24

/* As PyTorch's expandable segments. */
static void
expandable(void)
{
	CUmemGenericAllocationHandle h[SEGMENTS];
	size_t total, room, bytes = SEGMENTS * CHUNK;
	uint32_t *host = malloc(bytes);
	CUdeviceptr p;
	bool right = true;

	OK(cuDeviceTotalMem(&total, 0));
	room = (total + total / 8) / CHUNK * CHUNK;
	OK(cuMemAddressReserve(&p, room, 0, 0, 0));
	fact("more is reserved than there is memory", true);
	for (int i = 0; i < SEGMENTS; i++) {
		OK(cuMemCreate(&h[i], CHUNK, &prop, 0));
		OK(cuMemMap(p + (size_t)i * CHUNK, CHUNK, 0, h[i], 0));
		if (i % 2)
			OK(cuMemSetAccess(p + (size_t)(i - 1) * CHUNK,
					  2 * CHUNK, &both, 1));
	}
	for (size_t i = 0; i < bytes / 4; i++)
		host[i] = (uint32_t)i;
	OK(cuMemcpyHtoD(p, host, bytes));
	increment(p, (uint32_t)(bytes / 4));
	memset(host, 0, bytes);
	OK(cuMemcpyDtoH(host, p, bytes));
	for (size_t i = 0; i < bytes / 4; i++)
		right &= host[i] == (uint32_t)i + 1;
	fact("copies and kernels go across mappings", right);
	OK(cuMemsetD8(p + CHUNK - 16, 0x5a, 32));
	fact("fills too", word(p + CHUNK - 4) == 0x5a5a5a5a &&
	     word(p + CHUNK) == 0x5a5a5a5a);
	answers("a copy beyond the last mapping is refused",
		cuMemcpyHtoD(p + bytes - 4, host, 8),
		CUDA_ERROR_INVALID_VALUE);
	/* Shrink from the middle, grow again at once. */
	increment(p, (uint32_t)(bytes / 4));
	OK(cuCtxSynchronize());
	OK(cuMemUnmap(p + 4 * CHUNK, 4 * CHUNK));
	for (int i = 4; i < 8; i++)
		OK(cuMemRelease(h[i]));
	answers("a copy across the gap is refused",
		cuMemcpyHtoD(p + 4 * CHUNK - 4, host, 8),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemCreate(&h[4], 4 * CHUNK, &prop, 0));
	OK(cuMemMap(p + 4 * CHUNK, 4 * CHUNK, 0, h[4], 0));
	OK(cuMemSetAccess(p + 4 * CHUNK, 4 * CHUNK, &both, 1));
	OK(cuMemsetD32(p + 4 * CHUNK, 9, 4 * CHUNK / 4));
	fact("unmapped addresses are mapped anew at once",
	     word(p + 4 * CHUNK) == 9 && word(p + 8 * CHUNK - 4) == 9 &&
	     word(p + 8 * CHUNK) == 8 * CHUNK / 4 + 2);
	OK(cuMemUnmap(p, bytes));
	for (int i = 0; i < SEGMENTS; i++)
		if (i < 5 || i > 7)
			OK(cuMemRelease(h[i]));
	OK(cuMemAddressFree(p, room));
	free(host);
}

/* One memory at two addresses. */
static void
twice(void)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr p;

	OK(cuMemAddressReserve(&p, 2 * CHUNK, 16 * CHUNK, 0, 0));
	fact("a reservation is aligned as asked", p % (16 * CHUNK) == 0);
	OK(cuMemCreate(&h, CHUNK, &prop, 0));
	OK(cuMemMap(p, CHUNK, 0, h, 0));
	OK(cuMemMap(p + CHUNK, CHUNK, 0, h, 0));
	answers("an address has one mapping", cuMemMap(p, CHUNK, 0, h, 0),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(h));
	OK(cuMemSetAccess(p, 2 * CHUNK, &both, 1));
	OK(cuMemsetD32(p, 77, 1));
	OK(cuCtxSynchronize());
	fact("one memory is seen at two addresses", word(p + CHUNK) == 77);
	OK(cuMemUnmap(p, CHUNK));
	fact("and stays at the other", word(p + CHUNK) == 77);
	OK(cuMemUnmap(p + CHUNK, CHUNK));
	OK(cuMemAddressFree(p, 2 * CHUNK));
}

/* Everything that there is, again and again. */
static void
pressure(void)
{
	CUmemGenericAllocationHandle h;
	size_t available, total, size;
	CUdeviceptr p, q;

	OK(cuMemGetInfo(&available, &total));
	size = available / 8 * 5 / CHUNK * CHUNK;
	OK(cuMemAddressReserve(&p, size, 0, 0, 0));
	for (int i = 0; i < 4; i++) {
		OK(cuMemCreate(&h, size, &prop, 0));
		OK(cuMemMap(p, size, 0, h, 0));
		OK(cuMemRelease(h));
		OK(cuMemSetAccess(p, size, &both, 1));
		OK(cuMemsetD8(p + size - 64, (unsigned char)i, 64));
		answers("a second one does not fit",
			cuMemCreate(&h, size, &prop, 0),
			CUDA_ERROR_OUT_OF_MEMORY);
		OK(cuCtxSynchronize());
		OK(cuMemUnmap(p, size));
	}
	OK(cuMemAlloc(&q, size));
	OK(cuMemFree(q));
	OK(cuMemCreate(&h, size, &prop, 0));
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(p, size));
	fact("freed memory is there again", true);
}

/* The real driver looks into what a handle points at, and crashes. */
static void
no_handles(void)
{
	CUmemGenericAllocationHandle h;

	answers("a handle that is none is not released",
		cuMemRelease(0x1234), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemCreate(&h, CHUNK, &prop, 0));
	OK(cuMemRelease(h));
	answers("a released handle is none", cuMemRelease(h),
		CUDA_ERROR_INVALID_VALUE);
}

int
main(void)
{
	CUcontext ctx;
	CUmodule module;

	OK(cuInit(0));
	sizes();
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&inc, module, "inc"));
	arguments();
	one_mapping();
	expandable();
	twice();
	pressure();
	if (!facts_comparable())
		no_handles();
	return facts_end();
}
