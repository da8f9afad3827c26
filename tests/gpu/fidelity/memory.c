/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the device and of the host, pools, virtual memory, and what is
 * said of pointers. HUGE is more than any device has; UNMAPPED lies where
 * nobody puts memory.
 */
#include "tests/gpu/fidelity/rows.h"

#define HUGE ((size_t)1 << 46)
#define ALL (~(size_t)0)
#define UNMAPPED ((CUdeviceptr)0xdead0000)

void
group_memory(void)
{
	CUdeviceptr p;

	row_context();
	OK(cuMemAlloc_v2, &p, 4096);
	ROW(cuMemAlloc_v2, "no out", NULL, 64);
	ROW(cuMemAlloc_v2, "0 bytes", PTR(0), 0);
	ROW(cuMemAlloc_v2, "no out, 0 bytes", NULL, 0);
	ROW(cuMemAlloc_v2, "2^46 bytes", PTR(0), HUGE);
	ROW(cuMemAlloc_v2, "all bytes", PTR(0), ALL);
	ROW(cuMemAlloc_v2, "2^63 bytes", PTR(0), (size_t)1 << 63);
	ROW(cuMemAllocPitch_v2, "no out", NULL, I64(0), 64, 4, 4);
	ROW(cuMemAllocPitch_v2, "no pitch", PTR(0), NULL, 64, 4, 4);
	ROW(cuMemAllocPitch_v2, "width 0", PTR(0), I64(1), 0, 4, 4);
	ROW(cuMemAllocPitch_v2, "height 0", PTR(0), I64(1), 64, 0, 4);
	ROW(cuMemAllocPitch_v2, "element 0", PTR(0), I64(1), 64, 4, 0);
	ROW(cuMemAllocPitch_v2, "element 3", PTR(0), I64(1), 64, 4, 3);
	ROW(cuMemAllocPitch_v2, "element 32", PTR(0), I64(1), 64, 4, 32);
	ROW(cuMemAllocPitch_v2, "overflow", PTR(0), I64(1), HUGE, HUGE, 4);
	ROW(cuMemAllocPitch_v2, "width -1", PTR(0), I64(1), ALL, 1, 4);
	ROW(cuMemAllocPitch_v2, "width 4 GiB", PTR(0), I64(1),
	    (size_t)1 << 32, 1, 4);
	ROW(cuMemGetInfo_v2, "no free", NULL, SOME(0));
	ROW(cuMemGetInfo_v2, "no total", SOME(0), NULL);
	ROW(cuMemFree_v2, "0", 0);
	ROW(cuMemFree_v2, "1", 1);
	ROW(cuMemFree_v2, "unmapped", UNMAPPED);
	ROW(cuMemFree_v2, "inside", p + 256);
	ROW(cuMemFree_v2, "behind", p + 4096);
	ROW(cuMemFree_v2, "all bits", ALL);
	ROW(cuMemGetAddressRange_v2, "no base", NULL, I64(0), p);
	ROW(cuMemGetAddressRange_v2, "no size", PTR(0), NULL, p);
	ROW(cuMemGetAddressRange_v2, "no out", NULL, NULL, p);
	ROW(cuMemGetAddressRange_v2, "inside", PTR(0), I64(1), p + 100);
	ROW(cuMemGetAddressRange_v2, "0", PTR(0), I64(1), 0);
	ROW(cuMemGetAddressRange_v2, "unmapped", PTR(0), I64(1), UNMAPPED);
	ROW(cuMemAllocManaged, "no out", NULL, 64, 1);
	ROW(cuMemAllocManaged, "0 bytes", PTR(0), 0, 1);
	ROW(cuMemAllocManaged, "flags 0", PTR(0), 64, 0);
	ROW(cuMemAllocManaged, "flags 3", PTR(0), 64, 3);
	ROW(cuMemAllocManaged, "flags 4 (single)", PTR(0), 64, 4);
	ROW(cuMemAllocManaged, "flags 8", PTR(0), 64, 8);
	ROW(cuMemAllocManaged, "2^46 bytes", PTR(0), HUGE, 1);
	ROW(cuMemAdvise, "no memory", 0, 64, CU_MEM_ADVISE_SET_READ_MOSTLY,
	    0);
	ROW(cuMemAdvise, "memory of the device", p, 64,
	    CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	ROW(cuMemAdvise, "advice 9", p, 64, 9, 0);
	ROW(cuMemAdvise, "device 99", p, 64,
	    CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 99);
	ROW(cuMemPrefetchAsync, "no memory", 0, 64, 0, NULL);
	ROW(cuMemPrefetchAsync, "memory of the device", p, 64, 0, NULL);
	ROW(cuMemPrefetchAsync, "0 bytes", p, 0, 0, NULL);
	ROW(cuMemPrefetchAsync, "device 99", p, 64, 99, NULL);
	ROW(cuStreamAttachMemAsync, "no memory", NULL, 0, 0, 4);
	ROW(cuStreamAttachMemAsync, "flags 3", NULL, p, 0, 3);
	ROW(cuStreamAttachMemAsync, "flags 0", NULL, p, 0, 0);
	ROW(cuStreamAttachMemAsync, "memory of the device", NULL, p, 0, 1);
	ROW(cuMemRangeGetAttribute, "memory of the device", I32(0), 4,
	    CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 64);
	ROW(cuMemRangeGetAttribute, "no out", NULL, 4,
	    CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 64);
}

void
group_host_memory(void)
{
	static char host[65536] __attribute__((aligned(65536)));
	CUdeviceptr device;
	void *pinned;

	row_context();
	OK(cuMemAlloc_v2, &device, 4096);
	OK(cuMemHostAlloc, &pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP);
	ROW(cuMemAllocHost_v2, "no out", NULL, 64);
	ROW(cuMemAllocHost_v2, "0 bytes", PTR(0), 0);
	ROW(cuMemAllocHost_v2, "2^46 bytes", PTR(0), HUGE);
	ROW(cuMemHostAlloc, "no out", NULL, 64, 0);
	ROW(cuMemHostAlloc, "0 bytes", PTR(0), 0, 0);
	ROW(cuMemHostAlloc, "2^46 bytes", PTR(0), HUGE, 0);
	ROW(cuMemHostAlloc, "all bytes", PTR(0), ALL, 0);
	ROW(cuMemHostAlloc, "flags 8", PTR(0), 64, 8);
	ROW(cuMemHostAlloc, "all flags", PTR(0), 64, ~0u);
	ROW(cuMemFreeHost, "NULL", NULL);
	ROW(cuMemFreeHost, "pageable", host);
	ROW(cuMemFreeHost, "inside", (char *)pinned + 64);
	ROW(cuMemFreeHost, "of the device", (void *)(uintptr_t)device);
	ROW(cuMemFree_v2, "pinned memory", (CUdeviceptr)(uintptr_t)pinned);
	ROW(cuMemHostGetDevicePointer_v2, "no out", NULL, pinned, 0);
	ROW(cuMemHostGetDevicePointer_v2, "NULL", PTR(0), NULL, 0);
	ROW(cuMemHostGetDevicePointer_v2, "flags 1", PTR(0), pinned, 1);
	ROW(cuMemHostGetDevicePointer_v2, "pageable", PTR(0), host, 0);
	ROW(cuMemHostGetDevicePointer_v2, "of the device", PTR(0),
	    (void *)(uintptr_t)device, 0);
	ROW(cuMemHostGetDevicePointer_v2, "behind", PTR(0),
	    (char *)pinned + 4096, 0);
	ROW(cuMemHostGetDevicePointer_v2, "inside", PTR(0),
	    (char *)pinned + 5, 0);
	ROW(cuMemHostGetFlags, "no out", NULL, pinned);
	ROW(cuMemHostGetFlags, "NULL", I32(0), NULL);
	ROW(cuMemHostGetFlags, "pageable", I32(0), host);
	ROW(cuMemHostGetFlags, "inside", I32(0), (char *)pinned + 5);
	ROW(cuMemHostGetFlags, "of the device", I32(0),
	    (void *)(uintptr_t)device);
	ROW(cuMemHostRegister_v2, "NULL", NULL, 4096, 0);
	ROW(cuMemHostRegister_v2, "0 bytes", host, 0, 0);
	ROW(cuMemHostRegister_v2, "flags 32", host, 4096, 32);
	ROW(cuMemHostRegister_v2, "all flags", host, 4096, ~0u);
	ROW(cuMemHostRegister_v2, "pinned memory", pinned, 4096, 0);
	ROW(cuMemHostRegister_v2, "unmapped", ODD, 4096, 0);
	ROW(cuMemHostRegister_v2, "all bytes", host, ALL, 0);
	ROW(cuMemHostUnregister, "NULL", NULL);
	ROW(cuMemHostUnregister, "never registered", host);
	ROW(cuMemHostUnregister, "pinned memory", pinned);
	OK(cuMemHostRegister_v2, host, 8192, 0);
	ROW(cuMemHostRegister_v2, "registered", host, 8192, 0);
	ROW(cuMemHostRegister_v2, "overlapping", host + 4096, 8192, 0);
	ROW(cuMemHostUnregister, "inside", host + 4096);
	ROW(cuMemFreeHost, "registered", host);
	ROW(cuMemHostGetFlags, "registered", I32(0), host);
	OK(cuMemHostUnregister, host);
	ROW(cuMemHostUnregister, "no longer registered", host);
}

void
group_vmm(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	}, odd = prop;
	CUmemAccessDesc access = {
		{ CU_MEM_LOCATION_TYPE_DEVICE, 0 },
		CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	}, odd_access = access;
	CUmemGenericAllocationHandle h;
	CUmemLocation odd_place = { CU_MEM_LOCATION_TYPE_DEVICE, 99 };
	const size_t size = 2 << 20;
	CUdeviceptr va, mapped;

	row_context();
	OK(cuMemAddressReserve, &va, 4 * size, 0, 0, 0);
	OK(cuMemAddressReserve, &mapped, size, 0, 0, 0);
	OK(cuMemCreate, &h, size, &prop, 0);
	OK(cuMemMap, mapped, size, 0, h, 0);
	OK(cuMemSetAccess, mapped, size, &access, 1);
	ROW(cuMemAddressReserve, "no out", NULL, size, 0, 0, 0);
	ROW(cuMemAddressReserve, "0 bytes", PTR(0), 0, 0, 0, 0);
	ROW(cuMemAddressReserve, "4096 bytes", PTR(0), 4096, 0, 0, 0);
	ROW(cuMemAddressReserve, "alignment 3", PTR(0), size, 3, 0, 0);
	ROW(cuMemAddressReserve, "flags 1", PTR(0), size, 0, 0, 1);
	ROW(cuMemAddressReserve, "all bytes", PTR(0), ALL, 0, 0, 0);
	ROW(cuMemAddressReserve, "odd address", PTR(0), size, 0, 12345, 0);
	ROW(cuMemAddressFree, "0", 0, size);
	ROW(cuMemAddressFree, "0 bytes", va, 0);
	ROW(cuMemAddressFree, "other size", va, size);
	ROW(cuMemAddressFree, "inside", va + size, size);
	ROW(cuMemAddressFree, "mapped", mapped, size);
	ROW(cuMemCreate, "no out", NULL, size, &prop, 0);
	ROW(cuMemCreate, "no properties", I64(0), size, NULL, 0);
	ROW(cuMemCreate, "0 bytes", I64(0), 0, &prop, 0);
	ROW(cuMemCreate, "4096 bytes", I64(0), 4096, &prop, 0);
	ROW(cuMemCreate, "flags 1", I64(0), size, &prop, 1);
	ROW(cuMemCreate, "2^46 bytes", I64(0), HUGE, &prop, 0);
	odd.type = 0;
	ROW(cuMemCreate, "type 0", I64(0), size, &odd, 0);
	odd.type = 9;
	ROW(cuMemCreate, "type 9", I64(0), size, &odd, 0);
	odd = prop;
	odd.location.id = 99;
	ROW(cuMemCreate, "device 99", I64(0), size, &odd, 0);
	odd.location.type = 0;
	ROW(cuMemCreate, "nowhere", I64(0), size, &odd, 0);
	odd.location.type = 77;
	ROW(cuMemCreate, "place 77", I64(0), size, &odd, 0);
	odd = prop;
	odd.requestedHandleTypes = 64;
	ROW(cuMemCreate, "handle type 64", SOME(0), size, &odd, 0);
	ROW(cuMemRelease, "0", 0);
	ROW(cuMemMap, "0", 0, size, 0, h, 0);
	ROW(cuMemMap, "0 bytes", va, 0, 0, h, 0);
	ROW(cuMemMap, "no handle", va, size, 0, 0, 0);
	ROW(cuMemMap, "flags 1", va, size, 0, h, 1);
	ROW(cuMemMap, "odd size", va, 4096, 0, h, 0);
	ROW(cuMemMap, "odd address", va + 4096, size, 0, h, 0);
	ROW(cuMemMap, "larger than the memory", va, 2 * size, 0, h, 0);
	ROW(cuMemMap, "with an offset", va, size, size, h, 0);
	ROW(cuMemMap, "mapped already", mapped, size, 0, h, 0);
	ROW(cuMemMap, "not reserved", UNMAPPED & ~(size - 1), size, 0, h, 0);
	ROW(cuMemUnmap, "0", 0, size);
	ROW(cuMemUnmap, "not mapped", va, size);
	ROW(cuMemUnmap, "0 bytes", mapped, 0);
	ROW(cuMemUnmap, "a part", mapped, size / 2);
	ROW(cuMemUnmap, "more", mapped, 2 * size);
	ROW(cuMemSetAccess, "not mapped", va, size, &access, 1);
	ROW(cuMemSetAccess, "no description", mapped, size, NULL, 1);
	ROW(cuMemSetAccess, "no descriptions", mapped, size, &access, 0);
	ROW(cuMemSetAccess, "0 bytes", mapped, 0, &access, 1);
	ROW(cuMemSetAccess, "a part", mapped, size / 2, &access, 1);
	odd_access.flags = 2;
	ROW(cuMemSetAccess, "access 2", mapped, size, &odd_access, 1);
	odd_access = access;
	odd_access.location.id = 99;
	ROW(cuMemSetAccess, "device 99", mapped, size, &odd_access, 1);
	odd_access.location.type = 0;
	ROW(cuMemSetAccess, "nowhere", mapped, size, &odd_access, 1);
	ROW(cuMemGetAccess, "no out", NULL, &access.location, mapped);
	ROW(cuMemGetAccess, "no place", I64(0), NULL, mapped);
	ROW(cuMemGetAccess, "mapped", I64(0), &access.location, mapped);
	ROW(cuMemGetAccess, "reserved only", I64(0), &access.location, va);
	ROW(cuMemGetAccess, "0", I64(0), &access.location, 0);
	ROW(cuMemGetAccess, "device 99", I64(0), &odd_place, mapped);
	ROW(cuMemGetAllocationGranularity, "no out", NULL, &prop, 0);
	ROW(cuMemGetAllocationGranularity, "no properties", I64(0), NULL, 0);
	ROW(cuMemGetAllocationGranularity, "option 2", I64(0), &prop, 2);
	ROW(cuMemGetAllocationPropertiesFromHandle, "no out", NULL, h);
	ROW(cuMemGetAllocationPropertiesFromHandle, "no handle", SOME(0), 0);
	ROW(cuMemRetainAllocationHandle, "no out", NULL,
	    (void *)(uintptr_t)mapped);
	ROW(cuMemRetainAllocationHandle, "NULL", SOME(0), NULL);
	ROW(cuMemRetainAllocationHandle, "reserved only", SOME(0),
	    (void *)(uintptr_t)va);
	ROW(cuMemRetainAllocationHandle, "memory of the host", SOME(0),
	    row_zeros);
	ROW(cuMemExportToShareableHandle, "not asked for", I32(0), h,
	    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	ROW(cuMemExportToShareableHandle, "flags 1", I32(0), h,
	    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1);
	ROW(cuMemImportFromShareableHandle, "no descriptor", SOME(0),
	    (void *)-1L, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	ROW(cuMemImportFromShareableHandle, "kind 0", SOME(0), NULL, 0);
	ROW(cuMemFree_v2, "mapped memory", mapped);
	ROW(cuMemFree_v2, "a reservation", va);
	ROW(cuMemsetD8_v2, "a reservation", va, 0, 4);
	ROW(cuMemcpyHtoD_v2, "a reservation", va, row_zeros, 4);
	ROW(cuPointerGetAttribute, "a reservation", I32(0),
	    CU_POINTER_ATTRIBUTE_MEMORY_TYPE, va);
}

void
group_pools(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	}, odd = props;
	CUmemLocation odd_place = { CU_MEM_LOCATION_TYPE_DEVICE, 99 };
	CUmemAccessDesc access = { props.location, 3 };
	CUmemoryPool pool, usual;
	CUdeviceptr mem, plain;
	cuuint64_t value = 1;

	row_context();
	OK(cuDeviceGetDefaultMemPool, &usual, 0);
	OK(cuMemPoolCreate, &pool, &props);
	OK(cuMemAllocAsync, &mem, 4096, NULL);
	OK(cuMemAlloc_v2, &plain, 4096);
	ROW(cuMemPoolCreate, "no out", NULL, &props);
	ROW(cuMemPoolCreate, "no properties", PTR(0), NULL);
	odd.allocType = 0;
	ROW(cuMemPoolCreate, "type 0", PTR(0), &odd);
	odd = props;
	odd.location.id = 99;
	ROW(cuMemPoolCreate, "device 99", PTR(0), &odd);
	odd.location.type = 0;
	ROW(cuMemPoolCreate, "nowhere", PTR(0), &odd);
	odd = props;
	odd.handleTypes = 64;
	ROW(cuMemPoolCreate, "handle type 64", PTR(0), &odd);
	odd = props;
	odd.reserved[0] = 1;
	ROW(cuMemPoolCreate, "reserved byte", PTR(0), &odd);
	ROW(cuMemPoolDestroy, "none", NULL);
	ROW(cuMemPoolDestroy, "the default pool", usual);
	ROW(cuMemPoolTrimTo, "none", NULL, 0);
	ROW(cuMemPoolTrimTo, "all bytes", pool, ALL);
	ROW(cuMemPoolGetAttribute, "none", NULL,
	    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, I64(0));
	ROW(cuMemPoolGetAttribute, "no out", pool,
	    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL);
	ROW(cuMemPoolGetAttribute, "attribute 0", pool, 0, I64(0));
	ROW(cuMemPoolGetAttribute, "attribute 99", pool, 99, I64(0));
	ROW(cuMemPoolGetAttribute, "threshold", pool,
	    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, I64(0));
	ROW(cuMemPoolSetAttribute, "no value", pool,
	    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL);
	ROW(cuMemPoolSetAttribute, "none", NULL,
	    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
	ROW(cuMemPoolSetAttribute, "attribute 99", pool, 99, &value);
	ROW(cuMemPoolSetAttribute, "high water of 1", pool,
	    CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value);
	ROW(cuMemPoolSetAttribute, "current use", pool,
	    CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
	ROW(cuMemPoolSetAccess, "none", NULL, &access, 1);
	ROW(cuMemPoolSetAccess, "no map", pool, NULL, 1);
	ROW(cuMemPoolSetAccess, "no maps", pool, NULL, 0);
	access.flags = 2;
	ROW(cuMemPoolSetAccess, "access 2", pool, &access, 1);
	access.flags = 0;
	ROW(cuMemPoolSetAccess, "its own device, nothing", pool, &access, 1);
	access.flags = 3;
	access.location = odd_place;
	ROW(cuMemPoolSetAccess, "device 99", pool, &access, 1);
	ROW(cuMemPoolGetAccess, "no out", NULL, pool, &props.location);
	ROW(cuMemPoolGetAccess, "none", I32(0), NULL, &props.location);
	ROW(cuMemPoolGetAccess, "no place", I32(0), pool, NULL);
	ROW(cuMemPoolGetAccess, "device 99", I32(0), pool, &odd_place);
	ROW(cuMemPoolExportToShareableHandle, "not asked for", I32(0), pool,
	    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	ROW(cuMemPoolExportPointer, "memory of no pool", BYTES(0), plain);
	ROW(cuMemAllocAsync, "no out", NULL, 64, NULL);
	ROW(cuMemAllocAsync, "0 bytes", PTR(0), 0, NULL);
	ROW(cuMemAllocAsync, "2^46 bytes", PTR(0), HUGE, NULL);
	ROW(cuMemAllocAsync, "all bytes", PTR(0), ALL, NULL);
	ROW(cuMemAllocFromPoolAsync, "no pool", PTR(0), 64, NULL, NULL);
	ROW(cuMemAllocFromPoolAsync, "no out", NULL, 64, pool, NULL);
	ROW(cuMemAllocFromPoolAsync, "0 bytes", PTR(0), 0, pool, NULL);
	ROW(cuMemFreeAsync, "0", 0, NULL);
	ROW(cuMemFreeAsync, "unmapped", UNMAPPED, NULL);
	ROW(cuMemFreeAsync, "inside", mem + 256, NULL);
	ROW(cuMemFree_v2, "inside memory of a pool", mem + 256);
	ROW(cuDeviceSetMemPool, "device 99", 99, pool);
	ROW(cuMemGetDefaultMemPool, "no place", PTR(0), NULL,
	    CU_MEM_ALLOCATION_TYPE_PINNED);
	ROW(cuMemGetDefaultMemPool, "device 99", PTR(0), &odd_place,
	    CU_MEM_ALLOCATION_TYPE_PINNED);
	ROW(cuMemGetDefaultMemPool, "type 9", PTR(0), &props.location, 9);
	ROW(cuMemGetMemPool, "no place", PTR(0), NULL,
	    CU_MEM_ALLOCATION_TYPE_PINNED);
	ROW(cuMemGetMemPool, "no out", NULL, &props.location,
	    CU_MEM_ALLOCATION_TYPE_PINNED);
	ROW(cuMemSetMemPool, "no pool", &props.location,
	    CU_MEM_ALLOCATION_TYPE_PINNED, NULL);
}

void
group_pointers(void)
{
	static const int asked[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
				     13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
				     99 };
	CUpointer_attribute one = CU_POINTER_ATTRIBUTE_MEMORY_TYPE, bad = 99;
	static char host[64];
	CUdeviceptr p;
	void *pinned, *data[1];
	unsigned int type;

	row_context();
	OK(cuMemAlloc_v2, &p, 4096);
	OK(cuMemAllocHost_v2, &pinned, 4096);
	data[0] = &type;
	ROW(cuPointerGetAttribute, "no out", NULL, one, p);
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		ROW(cuPointerGetAttribute,
		    row_text("pageable, attribute %d", asked[i]), BYTES(0),
		    (CUpointer_attribute)asked[i],
		    (CUdeviceptr)(uintptr_t)host);
		ROW(cuPointerGetAttribute,
		    row_text("unmapped, attribute %d", asked[i]), BYTES(0),
		    (CUpointer_attribute)asked[i], UNMAPPED);
		ROW(cuPointerGetAttribute,
		    row_text("device, attribute %d", asked[i]), BYTES(0),
		    (CUpointer_attribute)asked[i], p);
		ROW(cuPointerGetAttribute,
		    row_text("pinned, attribute %d", asked[i]), BYTES(0),
		    (CUpointer_attribute)asked[i],
		    (CUdeviceptr)(uintptr_t)pinned);
	}
	ROW(cuPointerGetAttribute, "of 0", I32(0), one, 0);
	ROW(cuPointerGetAttribute, "behind", I32(0), one, p + (64 << 20));
	ROW(cuPointerGetAttributes, "none asked", 0, &one, data, p);
	ROW(cuPointerGetAttributes, "no attributes", 1, NULL, data, p);
	ROW(cuPointerGetAttributes, "no data", 1, &one, NULL, p);
	ROW(cuPointerGetAttributes, "attribute 99", 1, &bad, data, p);
	ROW(cuPointerGetAttributes, "of 0", 1, &one, data, 0);
	ROW(cuPointerGetAttributes, "pageable", 1, &one, data,
	    (CUdeviceptr)(uintptr_t)host);
	ROW(cuPointerSetAttribute, "no value", NULL,
	    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p);
	ROW(cuPointerSetAttribute, "memory type", &type, one, p);
	ROW(cuPointerSetAttribute, "pageable", &type,
	    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)(uintptr_t)host);
}
