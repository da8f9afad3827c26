/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: memory, copies, fills, virtual memory management.
 */
#include "tests/unit/soft_kit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)

static CUmemAllocationProp
prop_of(CUmemAllocationHandleType type)
{
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = type;
	return prop;
}

static const CUmemAccessDesc read_write = {
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

START_TEST(allocation_counts_and_returns)
{
	size_t before, during, after, total;
	CUdeviceptr p;
	struct kit k;

	kit_context(&k);
	ok(cuMemGetInfo(&before, &total));
	ok(cuMemAlloc(&p, 3 * MIB));
	ck_assert_uint_eq(p % PAGE, 0);
	ok(cuMemGetInfo(&during, &total));
	ck_assert_uint_eq(before - during, 3 * MIB);
	ok(cuMemFree(p));
	ok(cuMemGetInfo(&after, &total));
	ck_assert_uint_eq(before, after);
	expect(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemFree(p + 4), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree(0));
}
END_TEST

START_TEST(memory_ends_at_what_the_device_has)
{
	CUdeviceptr p, q;
	struct kit k;

	setenv("SOFTCUDA_MEMORY", "64M", 1);
	kit_context(&k);
	ok(cuMemAlloc(&p, 40 * MIB));
	expect(cuMemAlloc(&q, 40 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemFree(p));
	ok(cuMemAlloc(&q, 40 * MIB));
	expect(cuMemAlloc(&q, 0), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemAlloc(&q, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(injected_allocation_fault_hits_the_nth)
{
	CUdeviceptr p;
	struct kit k;

	setenv("SOFTCUDA_FAULT", "alloc:2", 1);
	kit_context(&k);
	ok(cuMemAlloc(&p, 4));
	expect(cuMemAlloc(&p, 4), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemAlloc(&p, 4));
}
END_TEST

START_TEST(address_range_is_the_allocation)
{
	CUdeviceptr p, base;
	size_t size;
	struct kit k;

	kit_context(&k);
	ok(cuMemAlloc(&p, 1000));
	ok(cuMemGetAddressRange(&base, &size, p + 999));
	ck_assert_uint_eq(base, p);
	ck_assert_uint_eq(size, 1000);
	expect(cuMemGetAddressRange(&base, &size, 16), CUDA_ERROR_NOT_FOUND);
}
END_TEST

START_TEST(pitched_rows_are_aligned)
{
	CUdeviceptr p;
	size_t pitch;
	struct kit k;

	kit_context(&k);
	ok(cuMemAllocPitch(&p, &pitch, 700, 3, 4));
	ck_assert_uint_eq(pitch, 1024);
	expect(cuMemAllocPitch(&p, &pitch, 700, 3, 3),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(copies_go_round_through_the_device)
{
	unsigned char in[5000], out[5000];
	CUdeviceptr a, b;
	struct kit k;

	kit_context(&k);
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 7);
	ok(cuMemAlloc(&a, sizeof(in)));
	ok(cuMemAlloc(&b, sizeof(in)));
	ok(cuMemcpyHtoD(a, in, sizeof(in)));
	ok(cuMemcpyDtoD(b, a, sizeof(in)));
	memset(out, 0, sizeof(out));
	ok(cuMemcpyDtoH(out, b, sizeof(out)));
	ck_assert_int_eq(memcmp(in, out, sizeof(in)), 0);
	memset(out, 0, sizeof(out));
	ok(cuMemcpy((CUdeviceptr)(uintptr_t)out, b, sizeof(out)));
	ck_assert_int_eq(memcmp(in, out, sizeof(in)), 0);
}
END_TEST

START_TEST(copies_out_of_range_are_refused_without_harm)
{
	char host[64] = { 0 };
	CUdeviceptr p;
	struct kit k;

	kit_context(&k);
	ok(cuMemAlloc(&p, 32));
	expect(cuMemcpyHtoD(p, host, 33), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemcpyDtoH(host, p + 1, 32), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemcpyDtoD(p, 64, 4), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemsetD8(p, 0, 33), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemcpyHtoD(p, host, 32));
	ok(cuMemcpyHtoD(p, host, 0));
}
END_TEST

START_TEST(pageable_source_is_taken_over_at_the_call)
{
	uint32_t value = 1, *big;
	CUdeviceptr word, all;
	CUstream s;
	struct kit k;
	size_t n = 2 * MIB;

	kit_open(&k);
	s = kit_stream();
	word = kit_word(0);
	ok(cuMemAlloc(&all, n));
	big = calloc(1, n);
	big[n / 4 - 1] = 5;
	ok(kit_spin(&k, 50, 0, s));
	ok(cuMemcpyHtoDAsync(word, &value, 4, s));
	ok(cuMemcpyHtoDAsync(all, big, n, s));
	value = 2;
	big[n / 4 - 1] = 6;
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(kit_read(word), 1);
	ck_assert_uint_eq(kit_read(all + n - 4), 5);
	free(big);
}
END_TEST

START_TEST(pageable_destination_is_filled_when_the_call_returns)
{
	uint32_t value = 0;
	CUdeviceptr word;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	word = kit_word(0);
	ok(kit_spin(&k, 50, word, s));
	ok(cuMemcpyDtoHAsync(&value, word, 4, s));
	ck_assert_uint_eq(value, 1);
}
END_TEST

START_TEST(pinned_copies_are_asynchronous)
{
	volatile uint32_t *host;
	CUdeviceptr word, device;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	host = kit_shared(&device);
	word = kit_word(9);
	ok(kit_until(&k, device + 4, 1, s));
	ok(cuMemcpyDtoHAsync((void *)(uintptr_t)host, word, 4, s));
	ck_assert_uint_eq(*host, 0);
	expect(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	__atomic_store_n(host + 1, 1, __ATOMIC_RELEASE);
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(*host, 9);
}
END_TEST

START_TEST(two_dimensional_copies_keep_their_pitch)
{
	unsigned char in[8][16], out[8][16];
	CUDA_MEMCPY2D c;
	CUdeviceptr p;
	size_t pitch;
	struct kit k;

	kit_context(&k);
	for (int y = 0; y < 8; y++)
		for (int x = 0; x < 16; x++)
			in[y][x] = (unsigned char)(y * 16 + x);
	memset(out, 0xee, sizeof(out));
	ok(cuMemAllocPitch(&p, &pitch, 16, 8, 4));
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = in;
	c.srcPitch = 16;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = p;
	c.dstPitch = pitch;
	c.WidthInBytes = 16;
	c.Height = 8;
	ok(cuMemcpy2D(&c));
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = p;
	c.srcPitch = pitch;
	c.srcXInBytes = 4;
	c.srcY = 2;
	c.dstMemoryType = CU_MEMORYTYPE_HOST;
	c.dstHost = out;
	c.dstPitch = 16;
	c.dstXInBytes = 1;
	c.WidthInBytes = 3;
	c.Height = 2;
	ok(cuMemcpy2D(&c));
	ck_assert_uint_eq(out[0][0], 0xee);
	ck_assert_uint_eq(out[0][1], 36);
	ck_assert_uint_eq(out[1][3], 54);
	ck_assert_uint_eq(out[2][1], 0xee);
	c.WidthInBytes = pitch;
	expect(cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(three_dimensional_copies_step_by_slices)
{
	unsigned char in[3][4][8], out[3][4][8];
	CUDA_MEMCPY3D c;
	CUdeviceptr p;
	struct kit k;

	kit_context(&k);
	for (size_t i = 0; i < sizeof(in); i++)
		((unsigned char *)in)[i] = (unsigned char)i;
	ok(cuMemAlloc(&p, sizeof(in)));
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = in;
	c.srcPitch = 8;
	c.srcHeight = 4;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = p;
	c.dstPitch = 8;
	c.dstHeight = 4;
	c.WidthInBytes = 8;
	c.Height = 4;
	c.Depth = 3;
	ok(cuMemcpy3D(&c));
	memset(out, 0, sizeof(out));
	ok(cuMemcpyDtoH(out, p, sizeof(out)));
	ck_assert_int_eq(memcmp(in, out, sizeof(in)), 0);
	c.dstLOD = 1;
	expect(cuMemcpy3D(&c), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(fills_write_every_width)
{
	uint32_t words[4];
	CUdeviceptr p;
	struct kit k;

	kit_context(&k);
	ok(cuMemAlloc(&p, 16));
	ok(cuMemsetD32(p, 0x01020304, 4));
	ok(cuMemsetD16(p + 4, 0xbeef, 2));
	ok(cuMemsetD8(p + 8, 0x7f, 4));
	ok(cuMemcpyDtoH(words, p, 16));
	ck_assert_uint_eq(words[0], 0x01020304);
	ck_assert_uint_eq(words[1], 0xbeefbeef);
	ck_assert_uint_eq(words[2], 0x7f7f7f7f);
	ck_assert_uint_eq(words[3], 0x01020304);
	expect(cuMemsetD32(p + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemsetD2D8(p, 8, 0, 4, 2));
	ok(cuMemcpyDtoH(words, p, 16));
	ck_assert_uint_eq(words[0], 0);
	ck_assert_uint_eq(words[1], 0xbeefbeef);
	ck_assert_uint_eq(words[2], 0);
	ck_assert_uint_eq(words[3], 0x01020304);
}
END_TEST

START_TEST(registered_memory_is_used_in_place)
{
	uint32_t *p = aligned_alloc(4096, 8192);
	CUdeviceptr d;
	unsigned flags;
	struct kit k;

	kit_open(&k);
	ok(cuMemHostRegister(p, 8192, CU_MEMHOSTREGISTER_DEVICEMAP));
	expect(cuMemHostRegister(p, 4096, 0),
	       CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	ok(cuMemHostGetDevicePointer(&d, p, 0));
	ck_assert_uint_eq(d, (uintptr_t)p);
	ok(cuMemHostGetFlags(&flags, p));
	ok(kit_poke(&k, d + 4, 77, NULL));
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(p[1], 77);
	ok(cuMemHostUnregister(p));
	expect(cuMemHostUnregister(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	free(p);
}
END_TEST

START_TEST(unmapped_memory_cannot_be_registered)
{
	void *p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	struct kit k;

	kit_context(&k);
	expect(cuMemHostRegister(p, 8192, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemHostRegister(p, 8192, CU_MEMHOSTREGISTER_READ_ONLY));
	ok(cuMemHostUnregister(p));
	munmap(p, 8192);
	expect(cuMemHostRegister(p, 8192, CU_MEMHOSTREGISTER_READ_ONLY),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(reservation_honours_the_asked_address)
{
	/* Free in every process, also under the sanitizers. */
	const CUdeviceptr want = 0x7e8000000000;
	CUdeviceptr p, q;

	ok(cuInit(0));
	ok(cuMemAddressReserve(&p, 64 * PAGE, 0, want, 0));
	ck_assert_uint_eq(p, want);
	ok(cuMemAddressReserve(&q, PAGE, 0, want, 0));
	ck_assert_uint_ne(q, want);
	ck_assert_uint_eq(q % PAGE, 0);
	expect(cuMemAddressFree(p, PAGE), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemAddressFree(p, 64 * PAGE));
	ok(cuMemAddressFree(q, PAGE));
	expect(cuMemAddressReserve(&p, PAGE + 1, 0, 0, 0),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(granularity_is_two_mebibytes)
{
	CUmemAllocationProp prop = prop_of(CU_MEM_HANDLE_TYPE_NONE);
	size_t size;

	ok(cuInit(0));
	ok(cuMemGetAllocationGranularity(&size, &prop,
					 CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ck_assert_uint_eq(size, PAGE);
}
END_TEST

START_TEST(mapped_memory_needs_access_before_use)
{
	CUmemAllocationProp prop = prop_of(CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle h;
	unsigned long long flags;
	uint32_t value = 3;
	CUdeviceptr p;
	struct kit k;

	kit_open(&k);
	ok(cuMemAddressReserve(&p, 2 * PAGE, 0, 0, 0));
	ok(cuMemCreate(&h, PAGE, &prop, 0));
	expect(cuMemSetAccess(p, PAGE, &read_write, 1),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuMemMap(p, PAGE, 0, h, 0));
	expect(cuMemMap(p, PAGE, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemcpyHtoD(p, &value, 4), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemSetAccess(p, PAGE, &read_write, 1));
	ok(cuMemGetAccess(&flags, &read_write.location, p));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	ok(cuMemcpyHtoD(p, &value, 4));
	ok(kit_bump(&k, p, 5, NULL));
	ck_assert_uint_eq(kit_read(p), 8);
	expect(cuMemAddressFree(p, 2 * PAGE), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemUnmap(p, PAGE));
	expect(cuMemcpyHtoD(p, &value, 4), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemRelease(h));
	expect(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemAddressFree(p, 2 * PAGE));
}
END_TEST

START_TEST(read_only_access_refuses_writes)
{
	CUmemAllocationProp prop = prop_of(CU_MEM_HANDLE_TYPE_NONE);
	CUmemAccessDesc desc = read_write;
	CUmemGenericAllocationHandle h;
	uint32_t value = 3;
	CUdeviceptr p;
	struct kit k;

	kit_context(&k);
	desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	ok(cuMemAddressReserve(&p, PAGE, 0, 0, 0));
	ok(cuMemCreate(&h, PAGE, &prop, 0));
	ok(cuMemMap(p, PAGE, 0, h, 0));
	ok(cuMemSetAccess(p, PAGE, &desc, 1));
	ck_assert_uint_eq(kit_read(p), 0);
	expect(cuMemcpyHtoD(p, &value, 4), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemSetAccess(p, PAGE, &read_write, 1));
	ok(cuMemcpyHtoD(p, &value, 4));
}
END_TEST

START_TEST(two_mappings_of_one_handle_are_one_memory)
{
	CUmemAllocationProp prop = prop_of(CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle h, again;
	uint32_t value = 42;
	CUdeviceptr p;
	size_t avail, total;
	struct kit k;

	kit_context(&k);
	ok(cuMemAddressReserve(&p, 4 * PAGE, 0, 0, 0));
	ok(cuMemCreate(&h, 2 * PAGE, &prop, 0));
	ok(cuMemMap(p, 2 * PAGE, 0, h, 0));
	ok(cuMemMap(p + 2 * PAGE, PAGE, PAGE, h, 0));
	ok(cuMemSetAccess(p, 3 * PAGE, &read_write, 1));
	ok(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p));
	ck_assert_uint_eq(again, h);
	ok(cuMemRelease(h));
	ok(cuMemRelease(again));
	ok(cuMemcpyHtoD(p + PAGE, &value, 4));
	ck_assert_uint_eq(kit_read(p + 2 * PAGE), 42);
	ok(cuMemGetInfo(&avail, &total));
	ck_assert_uint_eq(total - avail, 2 * PAGE);
	expect(cuMemUnmap(p, PAGE), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemUnmap(p, 3 * PAGE));
	ok(cuMemGetInfo(&avail, &total));
	ck_assert_uint_eq(total, avail);
}
END_TEST

START_TEST(descriptor_alone_keeps_memory)
{
	CUmemAllocationProp prop =
		prop_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CUmemGenericAllocationHandle h;
	size_t avail, total;
	uint32_t value = 4711;
	CUdeviceptr p;
	struct kit k;
	int fd, fd2;

	kit_context(&k);
	ok(cuMemAddressReserve(&p, PAGE, 0, 0, 0));
	ok(cuMemCreate(&h, PAGE, &prop, 0));
	ok(cuMemMap(p, PAGE, 0, h, 0));
	ok(cuMemSetAccess(p, PAGE, &read_write, 1));
	ok(cuMemcpyHtoD(p, &value, 4));
	ok(cuMemExportToShareableHandle(&fd, h,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	fd2 = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	ck_assert_int_ge(fd2, 100);
	close(fd);
	ok(cuMemUnmap(p, PAGE));
	ok(cuMemRelease(h));
	ok(cuMemGetInfo(&avail, &total));
	ck_assert_uint_eq(total - avail, PAGE);
	ok(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd2,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd2);
	ok(cuMemGetInfo(&avail, &total));
	ck_assert_uint_eq(total - avail, PAGE);
	ok(cuMemMap(p, PAGE, 0, h, 0));
	ok(cuMemSetAccess(p, PAGE, &read_write, 1));
	ck_assert_uint_eq(kit_read(p), 4711);
}
END_TEST

START_TEST(memory_outlives_the_process_that_made_it)
{
	CUmemGenericAllocationHandle h;
	uint32_t value = 99;
	CUdeviceptr p;
	struct kit k;
	int fd, go[2];
	pid_t pid;

	/* The child makes memory in descriptor 200 of the parent's by having
	 * it opened from /proc before it dies. */
	ck_assert_int_eq(pipe(go), 0);
	pid = fork();
	if (!pid) {
		CUmemAllocationProp prop =
			prop_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

		kit_context(&k);
		ok(cuMemAddressReserve(&p, PAGE, 0, 0, 0));
		ok(cuMemCreate(&h, PAGE, &prop, 0));
		ok(cuMemMap(p, PAGE, 0, h, 0));
		ok(cuMemSetAccess(p, PAGE, &read_write, 1));
		ok(cuMemcpyHtoD(p, &value, 4));
		ok(cuMemExportToShareableHandle(&fd, h,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		ck_assert_int_eq(write(go[1], &fd, sizeof(fd)), sizeof(fd));
		pause();
	}
	char path[64];
	int there;

	ck_assert_int_eq(read(go[0], &there, sizeof(there)), sizeof(there));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, there);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	kit_context(&k);
	ok(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	ok(cuMemAddressReserve(&p, PAGE, 0, 0, 0));
	ok(cuMemMap(p, PAGE, 0, h, 0));
	ok(cuMemSetAccess(p, PAGE, &read_write, 1));
	ck_assert_uint_eq(kit_read(p), 99);
}
END_TEST

START_TEST(ordinary_descriptors_are_not_device_memory)
{
	CUmemGenericAllocationHandle h;
	int fd = memfd_create("x", 0);

	ok(cuInit(0));
	ck_assert_int_eq(ftruncate(fd, (off_t)PAGE), 0);
	expect(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)-1,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(export_needs_the_type_asked_for_at_creation)
{
	CUmemAllocationProp prop = prop_of(CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle h;
	int fd;

	ok(cuInit(0));
	ok(cuMemCreate(&h, PAGE, &prop, 0));
	expect(cuMemExportToShareableHandle(&fd, h,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuMemCreate(&h, PAGE - 4096, &prop, 0),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(stream_ordered_memory_goes_back_at_its_free)
{
	volatile uint32_t *flag;
	CUmemoryPool pool;
	CUdeviceptr p, device;
	cuuint64_t used;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	ok(cuDeviceGetDefaultMemPool(&pool, 0));
	ok(cuMemAllocAsync(&p, MIB, s));
	flag = kit_shared(&device);
	ok(cuMemsetD32Async(p, 5, 4, s));
	ok(kit_until(&k, device, 1, s));
	ok(kit_bump(&k, p, 1, s));
	ok(cuMemFreeAsync(p, s));
	expect(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
				 &used));
	ck_assert_uint_eq(used, MIB);
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	ok(cuStreamSynchronize(s));
	ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
				 &used));
	ck_assert_uint_eq(used, 0);
	ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
	ck_assert_uint_eq(used, MIB);
}
END_TEST

START_TEST(managed_memory_is_everybodys)
{
	CUmemLocation here;
	volatile uint32_t *host;
	CUdeviceptr p;
	unsigned managed;
	struct kit k;

	kit_open(&k);
	memset(&here, 0, sizeof(here));
	here.type = CU_MEM_LOCATION_TYPE_DEVICE;
	ok(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
	ok(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
				 p));
	ck_assert_uint_eq(managed, 1);
	host = (volatile uint32_t *)(uintptr_t)p;
	*host = 5;
	ok(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
	ok(cuMemPrefetchAsync(p, 4096, here, 0, NULL));
	ok(kit_bump(&k, p, 2, NULL));
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(*host, 7);
	expect(cuMemPrefetchAsync(p, 8192, here, 0, NULL),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static const char heap_ptx[] =
".version 8.0\n.target sm_75\n.address_size 64\n"
".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
".extern .func free(.param .b64 p);\n"
".visible .entry get(.param .u64 out, .param .u64 n) {\n"
" .reg .b64 %rd<4>; .reg .b32 %r;\n"
" ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [n];\n"
" { .param .b64 a; st.param.b64 [a], %rd2; .param .b64 q;\n"
"   call.uni (q), malloc, (a); ld.param.b64 %rd3, [q]; }\n"
" st.global.u64 [%rd1], %rd3; ret; }\n"
".visible .entry put(.param .u64 p) {\n"
" .reg .b64 %rd; ld.param.u64 %rd, [p];\n"
" { .param .b64 a; st.param.b64 [a], %rd; call.uni free, (a); }\n"
" ret; }\n";

START_TEST(device_heap_gives_takes_and_ends)
{
	uint64_t first = 0, second = 0, n;
	CUfunction get, put;
	CUdeviceptr out;
	CUmodule m;
	struct kit k;

	kit_open(&k);
	ok(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20));
	ok(cuModuleLoadData(&m, heap_ptx));
	ok(cuModuleGetFunction(&get, m, "get"));
	ok(cuModuleGetFunction(&put, m, "put"));
	ok(cuMemAlloc(&out, 8));
	void *p[] = { &out, &n }, *q[] = { &first };

	n = 700000;
	ok(cuLaunchKernel(get, 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL));
	ok(cuMemcpyDtoH(&first, out, 8));
	ck_assert_uint_ne(first, 0);
	/* Kernels may use it, copies from the host may as well. */
	ok(kit_poke(&k, first + n - 4, 9, NULL));
	ok(cuCtxSynchronize());
	ok(cuLaunchKernel(get, 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL));
	ok(cuMemcpyDtoH(&second, out, 8));
	ck_assert_uint_eq(second, 0);
	ok(cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, NULL, q, NULL));
	ok(cuLaunchKernel(get, 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL));
	ok(cuMemcpyDtoH(&second, out, 8));
	ck_assert_uint_eq(second, first);
	expect(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 << 20),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(pointers_know_what_they_are)
{
	CUpointer_attribute attrs[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	};
	unsigned type = 9;
	int ordinal = 9;
	size_t size = 9;
	void *out[] = { &type, &ordinal, &size };
	CUdeviceptr p, h;
	CUcontext ctx;
	struct kit k;

	kit_context(&k);
	ok(cuMemAlloc(&p, 100));
	ok(cuPointerGetAttributes(3, attrs, out, p + 5));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
	ck_assert_int_eq(ordinal, 0);
	ck_assert_uint_eq(size, 100);
	ok(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	ck_assert_ptr_eq(ctx, k.ctx);
	kit_shared(&h);
	ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, h));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
	ok(cuPointerGetAttributes(3, attrs, out, (uintptr_t)&k));
	ck_assert_uint_eq(type, 0);
	ck_assert_int_eq(ordinal, -2);
	expect(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				     (uintptr_t)&k), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, address_range_is_the_allocation);
	tcase_add_test(tc, allocation_counts_and_returns);
	tcase_add_test(tc, copies_go_round_through_the_device);
	tcase_add_test(tc, copies_out_of_range_are_refused_without_harm);
	tcase_add_test(tc, descriptor_alone_keeps_memory);
	tcase_add_test(tc, device_heap_gives_takes_and_ends);
	tcase_add_test(tc, export_needs_the_type_asked_for_at_creation);
	tcase_add_test(tc, fills_write_every_width);
	tcase_add_test(tc, granularity_is_two_mebibytes);
	tcase_add_test(tc, injected_allocation_fault_hits_the_nth);
	tcase_add_test(tc, managed_memory_is_everybodys);
	tcase_add_test(tc, mapped_memory_needs_access_before_use);
	tcase_add_test(tc, memory_ends_at_what_the_device_has);
	tcase_add_test(tc, memory_outlives_the_process_that_made_it);
	tcase_add_test(tc, ordinary_descriptors_are_not_device_memory);
	tcase_add_test(tc,
		       pageable_destination_is_filled_when_the_call_returns);
	tcase_add_test(tc, pageable_source_is_taken_over_at_the_call);
	tcase_add_test(tc, pinned_copies_are_asynchronous);
	tcase_add_test(tc, pitched_rows_are_aligned);
	tcase_add_test(tc, pointers_know_what_they_are);
	tcase_add_test(tc, read_only_access_refuses_writes);
	tcase_add_test(tc, registered_memory_is_used_in_place);
	tcase_add_test(tc, reservation_honours_the_asked_address);
	tcase_add_test(tc, stream_ordered_memory_goes_back_at_its_free);
	tcase_add_test(tc, three_dimensional_copies_step_by_slices);
	tcase_add_test(tc, two_dimensional_copies_keep_their_pitch);
	tcase_add_test(tc, two_mappings_of_one_handle_are_one_memory);
	tcase_add_test(tc, unmapped_memory_cannot_be_registered);
}

int
main(void)
{
	return kit_main("soft_mem", fill);
}
