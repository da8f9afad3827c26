/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies in batches, between contexts, and between devices where there are
 * two.
 */
#include <cudaProfiler.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tests/api/facts.h"

#define WORDS 4096
#define BYTES (WORDS * 4)
#define MIB (UINT64_C(1) << 20)

static CUcontext context;
static CUstream stream;

static uint32_t
word(CUdeviceptr p)
{
	uint32_t value = 0;

	OK(cuMemcpyDtoH(&value, p, sizeof(value)));
	return value;
}

static CUmemcpyAttributes
in(CUmemcpySrcAccessOrder order)
{
	return (CUmemcpyAttributes){ .srcAccessOrder = order };
}

static atomic_bool released;

static void
hold(void *data)
{
	struct timespec t = { .tv_nsec = 1000000 };

	(void)data;
	while (!atomic_load(&released))
		nanosleep(&t, NULL);
}

/*
 * Sources of every kind; one of them changes while the stream is held. What
 * is to be read during the call makes the driver wait for the stream: those
 * come when it is held no more.
 */
static void
bytes(void)
{
	CUmemcpyAttributes attrs[] = {
		in(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
		in(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL),
		in(CU_MEMCPY_SRC_ACCESS_ORDER_ANY),
	};
	size_t first[] = { 0, 2 }, sizes[] = { BYTES, BYTES, BYTES, BYTES };
	CUdeviceptr dsts[4], srcs[4];
	uint32_t *pinned, *late, *pageable = malloc(BYTES);
	void *p;

	OK(cuMemHostAlloc(&p, BYTES, 0));
	pinned = p;
	OK(cuMemHostAlloc(&p, BYTES, 0));
	late = p;
	for (int i = 0; i < 4; i++)
		OK(cuMemAlloc(&dsts[i], BYTES));
	OK(cuMemAlloc(&srcs[3], BYTES));
	OK(cuMemsetD32(srcs[3], 4, WORDS));
	OK(cuCtxSynchronize());
	for (int i = 0; i < WORDS; i++)
		pinned[i] = 2, pageable[i] = 3;
	srcs[0] = (uintptr_t)late;
	srcs[1] = (uintptr_t)pinned;
	srcs[2] = (uintptr_t)pageable;
	memset(late, 0, BYTES);
	OK(cuLaunchHostFunc(stream, hold, NULL));
	OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 1, attrs, first, 1, stream));
	for (int i = 0; i < WORDS; i++)
		late[i] = 1;
	atomic_store(&released, true);
	OK(cuMemcpyBatchAsync(dsts + 1, srcs + 1, sizes, 3, attrs + 1, first,
			      2, stream));
	memset(pinned, 0, BYTES);
	memset(pageable, 0, BYTES);
	OK(cuStreamSynchronize(stream));
	fact("what is read in the stream is read then", word(dsts[0]) == 1);
	fact("what is read during the call is read then",
	     word(dsts[1]) == 2 && word(dsts[1] + BYTES - 4) == 2 &&
	     word(dsts[2]) == 3 && word(dsts[2] + BYTES - 4) == 3);
	fact("from device to device too",
	     word(dsts[3]) == 4 && word(dsts[3] + BYTES - 4) == 4);
	for (int i = 0; i < 2; i++)
		dsts[i] = i ? (uintptr_t)pageable : (uintptr_t)pinned;
	srcs[0] = srcs[1] = srcs[3];
	OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, attrs, first, 1, stream));
	OK(cuStreamSynchronize(stream));
	fact("and back", pinned[WORDS - 1] == 4 && pageable[WORDS - 1] == 4);
	OK(cuMemFreeHost(pinned));
	OK(cuMemFreeHost(late));
	OK(cuMemFree(dsts[2]));
	OK(cuMemFree(dsts[3]));
	OK(cuMemFree(srcs[3]));
	free(pageable);
}

static void
refused(void)
{
	CUmemcpyAttributes good[] = { in(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
				      in(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) };
	CUmemcpyAttributes bad = in(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID);
	size_t first[] = { 0, 1 }, late[] = { 1, 1 }, sizes[] = { 4, 4 };
	CUdeviceptr d[2], s[2];

	for (int i = 0; i < 2; i++) {
		OK(cuMemAlloc(&d[i], 4));
		OK(cuMemAlloc(&s[i], 4));
		OK(cuMemsetD32(s[i], 7, 1));
		OK(cuMemsetD32(d[i], 0, 1));
	}
	OK(cuCtxSynchronize());
	answers("an empty batch is refused",
		cuMemcpyBatchAsync(d, s, sizes, 0, good, first, 1, stream),
		CUDA_ERROR_INVALID_VALUE);
	answers("one without attributes",
		cuMemcpyBatchAsync(d, s, sizes, 2, good, first, 0, stream),
		CUDA_ERROR_INVALID_VALUE);
	answers("one whose attributes do not begin at its beginning",
		cuMemcpyBatchAsync(d, s, sizes, 2, good, late, 1, stream),
		CUDA_ERROR_INVALID_VALUE);
	answers("one with an order that is none",
		cuMemcpyBatchAsync(d, s, sizes, 2, &bad, first, 1, stream),
		CUDA_ERROR_INVALID_VALUE);
	answers("one in the default stream",
		cuMemcpyBatchAsync(d, s, sizes, 2, good, first, 1, NULL),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamSynchronize(stream));
	fact("and none of them has copied anything", word(d[0]) == 0);
	OK(cuMemcpyBatchAsync(d, s, sizes, 2, good, first, 2, stream));
	OK(cuStreamSynchronize(stream));
	fact("a good one has", word(d[0]) == 7 && word(d[1]) == 7);
	for (int i = 0; i < 2; i++) {
		OK(cuMemFree(d[i]));
		OK(cuMemFree(s[i]));
	}
}

/* A box out of pitched memory into an array, and of that back. */
static void
boxes(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = 32, .Height = 16, .Depth = 4,
		.Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1,
	};
	CUDA_MEMCPY3D_BATCH_OP op[2] = { 0 };
	uint32_t *host = malloc(64 * 20 * 4 * 4), *back = malloc(8 * 8 * 2 * 4);
	bool right = true;
	CUdeviceptr p;
	CUarray array;

	for (int i = 0; i < 64 * 20 * 4; i++)
		host[i] = (uint32_t)i;
	OK(cuMemAlloc(&p, 64 * 20 * 4 * 4));
	OK(cuMemcpyHtoD(p, host, 64 * 20 * 4 * 4));
	OK(cuArray3DCreate(&array, &desc));
	op[0].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	op[0].src.op.ptr.ptr = p;
	op[0].src.op.ptr.rowLength = 64;
	op[0].src.op.ptr.layerHeight = 20;
	op[0].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	op[0].dst.op.array.array = array;
	op[0].extent = (CUextent3D){ .width = 32, .height = 16, .depth = 4 };
	op[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	OK(cuMemcpy3DBatchAsync(1, op, 0, stream));
	op[1].src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	op[1].src.op.array.array = array;
	op[1].src.op.array.offset =
		(CUoffset3D){ .x = 5, .y = 3, .z = 1 };
	op[1].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	op[1].dst.op.ptr.ptr = (uintptr_t)back;
	op[1].extent = (CUextent3D){ .width = 8, .height = 8, .depth = 2 };
	op[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
	OK(cuMemcpy3DBatchAsync(1, &op[1], 0, stream));
	OK(cuStreamSynchronize(stream));
	for (uint32_t z = 0; z < 2; z++)
		for (uint32_t y = 0; y < 8; y++)
			for (uint32_t x = 0; x < 8; x++)
				right &= back[(z * 8 + y) * 8 + x] ==
					 ((z + 1) * 20 + y + 3) * 64 + x + 5;
	fact("a box of an array is where it was in memory", right);
	op[1].extent.width = 0;
	answers("a box without width is refused",
		cuMemcpy3DBatchAsync(2, op, 0, stream),
		CUDA_ERROR_INVALID_VALUE);
	op[1].extent.width = 8;
	op[1].dst.op.ptr.rowLength = 7;
	answers("one that is wider than its rows",
		cuMemcpy3DBatchAsync(2, op, 0, stream),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(array));
	OK(cuMemFree(p));
	free(host);
	free(back);
}

static void
contexts(void)
{
	CUDA_MEMCPY3D_PEER box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.WidthInBytes = 16, .Height = 2, .Depth = 1,
		.srcPitch = 32, .dstPitch = 16,
	};
	CUcontext other;
	CUdeviceptr p, q;

	OK(cuMemAlloc(&p, BYTES));
	OK(cuMemsetD32(p, 11, WORDS));
	OK(cuCtxCreate(&other, NULL, 0, 0));
	OK(cuMemAlloc(&q, BYTES));
	OK(cuMemcpyPeer(q, other, p, context, BYTES));
	OK(cuCtxSynchronize());
	fact("a copy from another context", word(q + BYTES - 4) == 11);
	OK(cuMemsetD32(q, 12, WORDS));
	OK(cuMemcpyPeerAsync(p, context, q, other, BYTES, NULL));
	OK(cuCtxSynchronize());
	fact("and to it", word(p + BYTES - 4) == 12);
	box.srcDevice = p;
	box.dstDevice = q;
	box.srcContext = context;
	box.dstContext = other;
	OK(cuMemsetD32(q, 0, WORDS));
	OK(cuMemcpy3DPeer(&box));
	OK(cuCtxSynchronize());
	fact("or of a part", word(q + 28) == 12 && word(q + 32) == 0);
	/* The driver takes the current one, which is not to be relied on. */
	if (!facts_comparable())
		answers("no context is none",
			cuMemcpyPeer(q, NULL, p, context, 4),
			CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxDestroy(other));
	OK(cuCtxSetCurrent(context));
	OK(cuMemFree(p));
}

/* What programs set before they give memory to other devices. */
static void
synchronous(void)
{
	unsigned int on = 1, is = 7, off = 0;
	CUdeviceptr p, q;
	char local;

	OK(cuMemAlloc(&p, BYTES));
	OK(cuMemAlloc(&q, BYTES));
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				 p + 100));
	OK(cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	fact("memory can be made synchronous", is == 1);
	for (unsigned int i = 0; i < 50; i++) {
		OK(cuMemsetD32(p, i, WORDS));
		is &= cuStreamQuery(NULL) == CUDA_SUCCESS;
		OK(cuMemcpyDtoD(q, p, BYTES));
		is &= cuStreamQuery(NULL) == CUDA_SUCCESS;
	}
	fact("then fills and copies of it are over at once", is == 1);
	OK(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	OK(cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	fact("and asynchronous again", is == 0);
	answers("no other attribute is set",
		cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, p),
		CUDA_ERROR_INVALID_VALUE);
	answers("nor one of other memory",
		cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				      (uintptr_t)&local),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(p));
	OK(cuMemFree(q));
}

static void
flags(void)
{
	unsigned int is = 0;
	CUcontext other;

	OK(cuCtxCreate(&other, NULL, CU_CTX_SCHED_SPIN, 0));
	OK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
	OK(cuCtxGetFlags(&is));
	fact("how a context waits can be changed",
	     (is & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
	answers("but not to what is none", cuCtxSetFlags(0x4000),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxDestroy(other));
	OK(cuCtxSetCurrent(context));
	answers("without a profiler nothing is recorded", cuProfilerStart(),
		CUDA_SUCCESS);
	answers("and no recording ends", cuProfilerStop(), CUDA_SUCCESS);
}

static void
access(void)
{
	int can = 7;

	OK(cuDeviceCanAccessPeer(&can, 0, 0));
	fact("a device is no peer of itself", can == 0);
	/* An H200 says that it has no peers instead. */
	if (!facts_comparable())
		answers("nor a context", cuCtxEnablePeerAccess(context, 0),
			CUDA_ERROR_INVALID_CONTEXT);
	answers("flags there are none", cuCtxEnablePeerAccess(context, 1),
		CUDA_ERROR_INVALID_VALUE);
	answers("nor a peer without a context", cuCtxEnablePeerAccess(NULL, 0),
		CUDA_ERROR_INVALID_CONTEXT);
}

static void
devices(void)
{
	size_t size = 9 * MIB + 20;
	uint32_t value = 99;
	CUcontext other;
	CUdeviceptr p, q;
	void *pinned;
	int can = 7;

	OK(cuMemAlloc(&p, size));
	OK(cuMemsetD32(p, 21, size / 4));
	OK(cuMemHostAlloc(&pinned, 4, CU_MEMHOSTALLOC_PORTABLE));
	OK(cuDevicePrimaryCtxRetain(&other, 1));
	OK(cuCtxPushCurrent(other));
	OK(cuMemAlloc(&q, size));
	OK(cuDeviceCanAccessPeer(&can, 0, 1));
	answers("access is given where it is said to be",
		cuCtxEnablePeerAccess(context, 0),
		can ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	if (!can)
		answers("and taken back", cuCtxDisablePeerAccess(context),
			CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	OK(cuMemcpyPeer(q, other, p, context, size));
	OK(cuCtxSynchronize());
	fact("a copy from another device",
	     word(q) == 21 && word(q + size - 4) == 21);
	OK(cuMemsetD32(q, 22, size / 4));
	OK(cuMemcpyPeerAsync(p, context, q, other, size, NULL));
	OK(cuCtxSynchronize());
	fact("and back, seen from there",
	     word(p) == 22 && word(p + size - 4) == 22);
	OK(cuMemcpyHtoD(p, &value, 4));
	OK(cuMemcpyDtoH(pinned, p, 4));
	fact("its memory is copied from here",
	     *(uint32_t *)pinned == 99);
	*(uint32_t *)pinned = 98;
	OK(cuMemcpy(p, (uintptr_t)pinned, 4));
	OK(cuMemcpyDtoD(p + 4, p, 4));
	OK(cuCtxSynchronize());
	OK(cuCtxPopCurrent(&other));
	fact("and is what it is there", word(p) == 98 && word(p + 4) == 98);
	OK(cuStreamSynchronize(stream));
	OK(cuMemsetD32Async(p, 31, size / 4, stream));
	OK(cuMemcpyAsync(q, p, size, stream));
	OK(cuMemsetD32Async(p, 32, size / 4, stream));
	OK(cuStreamSynchronize(stream));
	fact("it has its turn in the stream",
	     word(q + size - 4) == 31 && word(p) == 32);
	answers("but not beyond the end", cuMemcpyDtoD(q + size - 4, p, 8),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(p));
	OK(cuMemFreeHost(pinned));
	OK(cuCtxPushCurrent(other));
	OK(cuMemFree(q));
	OK(cuCtxPopCurrent(&other));
}

int
main(void)
{
	int count = 0;

	OK(cuInit(0));
	OK(cuDeviceGetCount(&count));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	bytes();
	refused();
	boxes();
	contexts();
	synchronous();
	flags();
	access();
	if (count > 1)
		devices();
	return facts_end();
}
