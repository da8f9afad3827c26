/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events of one process in another: who sees what, who ends first,
 * and what is refused.
 */
#include <stdatomic.h>
#include <time.h>

#include "tests/api/peer.h"

#define MIB (UINT64_C(1) << 20)
#define ROUNDS 100
/* Enough for a reader who did not wait to come too early. */
#define LOOPS 3000

static uint32_t
word(CUdeviceptr p)
{
	uint32_t value = 0;

	OK(cuMemcpyDtoH(&value, p, sizeof(value)));
	return value;
}

static void
memory(void)
{
	struct peer peer = peer_start();
	CUipcMemHandle handle, inside;
	unsigned int capable = 7;
	CUdeviceptr p;
	uint64_t q;
	struct peer_message m;

	OK(cuMemAlloc(&p, 3 * MIB));
	OK(cuMemsetD32(p, 41, 3 * MIB / 4));
	OK(cuCtxSynchronize());
	OK(cuPointerGetAttribute(
		&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
	fact("its pointer says that it can be shared", capable == 1);
	OK(cuIpcGetMemHandle(&handle, p));
	m = peer_open(&peer, PEER_OPEN, &handle, 0);
	answers("another process opens it", m.code, CUDA_SUCCESS);
	q = m.a;
	fact("and sees what is there",
	     peer_get(&peer, PEER_READ, q, 0, 0) == 41 &&
	     peer_get(&peer, PEER_READ, q + 3 * MIB - 4, 0, 0) == 41);
	peer_get(&peer, PEER_INC, q, 3 * MIB / 4, 0);
	fact("what its kernels write is seen here",
	     word(p) == 42 && word(p + 3 * MIB - 4) == 42);
	peer_get(&peer, PEER_FILL, q + 8, 7, 2);
	fact("and what it copies and fills",
	     word(p + 4) == 42 && word(p + 8) == 7 && word(p + 16) == 42);
	OK(cuIpcGetMemHandle(&inside, p + MIB));
	m = peer_open(&peer, PEER_OPEN, &inside, 0);
	fact("a handle is of the block, and opened again is where it was",
	     m.code == CUDA_SUCCESS && m.a == q);
	peer_get(&peer, PEER_CLOSE, q, 0, 0);
	fact("what was opened twice and closed once is open",
	     peer_get(&peer, PEER_READ, q, 0, 0) == 42);
	peer_get(&peer, PEER_CLOSE, q, 0, 0);
	m = peer_ask(&peer, (struct peer_message){ .op = PEER_CLOSE, .a = q });
	answers("it is not closed a third time", m.code,
		CUDA_ERROR_INVALID_VALUE);
	fact("its own process still has it", word(p) == 42);
	answers("it is no one's to open in its own process",
		cuIpcOpenMemHandle(&p, handle,
				   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		CUDA_ERROR_INVALID_CONTEXT);
	answers("nor without the flag", cuIpcOpenMemHandle(&p, handle, 0),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(p));
	peer_end(&peer);
}

/* Small blocks share pages. */
static void
small_blocks(void)
{
	struct peer peer = peer_start();
	CUdeviceptr p[8];
	uint64_t q[8];
	bool right = true;

	for (int i = 0; i < 8; i++) {
		CUipcMemHandle handle;
		struct peer_message m;

		OK(cuMemAlloc(&p[i], 1000));
		OK(cuMemsetD32(p[i], (unsigned int)i, 250));
		OK(cuCtxSynchronize());
		OK(cuIpcGetMemHandle(&handle, p[i]));
		m = peer_open(&peer, PEER_OPEN, &handle, 0);
		right &= m.code == CUDA_SUCCESS;
		q[i] = m.a;
	}
	for (int i = 0; i < 8; i++) {
		right &= peer_get(&peer, PEER_READ, q[i] + 996, 0, 0) ==
			 (uint64_t)i;
		peer_get(&peer, PEER_INC, q[i], 250, 0);
		right &= word(p[i]) == (uint32_t)i + 1;
	}
	fact("eight small blocks are eight", right);
	for (int i = 0; i < 8; i++) {
		peer_get(&peer, PEER_CLOSE, q[i], 0, 0);
		OK(cuMemFree(p[i]));
	}
	peer_end(&peer);
}

static void
rounds(void)
{
	struct peer peer = peer_start();
	CUdeviceptr p;
	int right = 0;

	for (int i = 0; i < ROUNDS; i++) {
		CUipcMemHandle handle;
		struct peer_message m;

		OK(cuMemAlloc(&p, 4096 + (size_t)i * 50000));
		OK(cuMemsetD32(p, (unsigned int)i, 1));
		OK(cuCtxSynchronize());
		OK(cuIpcGetMemHandle(&handle, p));
		m = peer_open(&peer, PEER_OPEN, &handle, 0);
		facts_ok("open", __LINE__, m.code);
		right += peer_get(&peer, PEER_READ, m.a, 0, 0) == (uint64_t)i;
		peer_get(&peer, PEER_CLOSE, m.a, 0, 0);
		OK(cuMemFree(p));
	}
	fact("a hundred blocks are shared one after the other",
	     right == ROUNDS);
	peer_end(&peer);
}

/* Nobody waits on the host: the streams of the two do it. */
static void
events(void)
{
	struct peer peer = peer_start();
	unsigned char theirs[64], ours[64];
	struct peer_message m = { .op = PEER_EVENT_NEW };
	CUipcEventHandle h;
	CUipcMemHandle handle;
	CUevent event, their_event;
	uint64_t q, our_event, value, their_name;
	CUdeviceptr p;
	int right = 0, back = 0;

	OK(cuMemAlloc(&p, 4096));
	OK(cuIpcGetMemHandle(&handle, p));
	m = peer_ask(&peer, m);
	answers("an event is made to be shared", m.code, CUDA_SUCCESS);
	memcpy(theirs, m.handle, sizeof(theirs));
	their_name = m.a;
	q = peer_open(&peer, PEER_OPEN, &handle, 0).a;
	OK(peer_event_new(&event, ours));
	m = peer_open(&peer, PEER_EVENT_OPEN, ours, 0);
	answers("another process opens it", m.code, CUDA_SUCCESS);
	our_event = m.a;
	m = peer_ask(&peer, (struct peer_message){
		.op = PEER_EVENT_QUERY, .a = our_event });
	answers("what was never recorded has passed", m.code, CUDA_SUCCESS);
	memcpy(&h, theirs, sizeof(h));
	OK(cuIpcOpenEventHandle(&their_event, h));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		OK(peer_store(p, 1000000 + i, LOOPS, event));
		value = peer_get(&peer, PEER_FETCH, q, our_event, 0);
		right += value == 1000000 + i;
		m = (struct peer_message){
			.op = PEER_STORE, .a = q, .b = 2000000 + i,
			.c = LOOPS, .d = their_name,
		};
		facts_ok("store", __LINE__, peer_ask(&peer, m).code);
		OK(peer_fetch(p, their_event, &value));
		back += value == 2000000 + i;
	}
	fact("the other's stream waits for this one's", right == ROUNDS);
	fact("and this one's for the other's", back == ROUNDS);
	OK(peer_store(p, 3000000, LOOPS, event));
	peer_get(&peer, PEER_EVENT_SYNC, our_event, 0, 0);
	fact("its host waits as well",
	     peer_get(&peer, PEER_READ, q, 0, 0) == 3000000);
	OK(cuStreamSynchronize(peer_stream));
	peer_get(&peer, PEER_EVENT_RECORD, our_event, 0, 0);
	OK(cuEventSynchronize(event));
	answers("whoever has it may record it", cuEventQuery(event),
		CUDA_SUCCESS);
	peer_get(&peer, PEER_EVENT_END, our_event, 0, 0);
	answers("it stays with who made it", cuEventQuery(event),
		CUDA_SUCCESS);
	OK(cuEventDestroy(their_event));
	OK(cuEventDestroy(event));
	peer_get(&peer, PEER_CLOSE, q, 0, 0);
	OK(cuMemFree(p));
	peer_end(&peer);
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

/* A record that something on the host holds up is one already. */
static void
held_record(void)
{
	struct peer peer = peer_start();
	unsigned char handle[64];
	CUipcMemHandle memory_handle;
	struct peer_message m;
	CUevent event;
	CUdeviceptr p;
	uint64_t q, e;
	int fd;

	OK(cuMemAlloc(&p, 4096));
	OK(cuMemsetD32(p, 1, 1));
	OK(cuCtxSynchronize());
	OK(cuIpcGetMemHandle(&memory_handle, p));
	OK(peer_event_new(&event, handle));
	q = peer_open(&peer, PEER_OPEN, &memory_handle, 0).a;
	e = peer_open(&peer, PEER_EVENT_OPEN, handle, 0).a;
	OK(cuEventRecord(event, peer_stream));
	OK(cuEventSynchronize(event));
	OK(cuLaunchHostFunc(peer_stream, hold, NULL));
	OK(peer_store(p, 2, 1, event));
	m = peer_ask(&peer, (struct peer_message){
		.op = PEER_EVENT_QUERY, .a = e });
	answers("a record that is held up has not passed", m.code,
		CUDA_ERROR_NOT_READY);
	m = (struct peer_message){ .op = PEER_FETCH, .a = q, .b = e };
	if (!peer_send(peer.fd, &m, -1))
		exit(1);
	atomic_store(&released, true);
	if (!peer_receive(peer.fd, &m, &fd))
		exit(1);
	fact("who waits for it meanwhile gets what comes before it",
	     m.code == CUDA_SUCCESS && m.a == 2);
	OK(cuStreamSynchronize(peer_stream));
	OK(cuEventDestroy(event));
	peer_get(&peer, PEER_EVENT_END, e, 0, 0);
	peer_get(&peer, PEER_CLOSE, q, 0, 0);
	OK(cuMemFree(p));
	peer_end(&peer);
}

static void
importer_dies(void)
{
	CUdeviceptr p;

	OK(cuMemAlloc(&p, 5 * MIB));
	OK(cuMemsetD32(p, 9, 5 * MIB / 4));
	OK(cuCtxSynchronize());
	for (int i = 0; i < 3; i++) {
		struct peer peer = peer_start();
		CUipcMemHandle handle;
		struct peer_message m;

		OK(cuIpcGetMemHandle(&handle, p));
		m = peer_open(&peer, PEER_OPEN, &handle, 0);
		facts_ok("open", __LINE__, m.code);
		peer_get(&peer, PEER_INC, m.a, 1, 0);
		peer_kill(&peer);
	}
	fact("three that had it open are killed, and it is there",
	     word(p) == 12 && word(p + 5 * MIB - 4) == 9);
	answers("and freed", cuMemFree(p), CUDA_SUCCESS);
}

/* ---- what the real driver leaves undefined, or answers otherwise ---- */

static void
exporter_frees(void)
{
	struct peer peer = peer_start();
	CUipcMemHandle handle;
	CUdeviceptr p, more[16];
	struct peer_message m;
	uint64_t q;

	OK(cuMemAlloc(&p, 8192));
	OK(cuMemsetD32(p, 5, 2048));
	OK(cuCtxSynchronize());
	OK(cuIpcGetMemHandle(&handle, p));
	m = peer_open(&peer, PEER_OPEN, &handle, 0);
	facts_ok("open", __LINE__, m.code);
	q = m.a;
	answers("a block that is open elsewhere is freed", cuMemFree(p),
		CUDA_SUCCESS);
	answers("once", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	answers("who has it open may open it again",
		peer_open(&peer, PEER_OPEN, &handle, 0).code,
		CUDA_SUCCESS);
	for (int i = 0; i < 16; i++) {
		OK(cuMemAlloc(&more[i], 8192));
		OK(cuMemsetD32(more[i], 6, 2048));
	}
	OK(cuCtxSynchronize());
	fact("who has it keeps it, and it is given to nobody else",
	     peer_get(&peer, PEER_READ, q, 0, 0) == 5 &&
	     peer_get(&peer, PEER_READ, q + 8188, 0, 0) == 5);
	peer_get(&peer, PEER_INC, q, 2048, 0);
	fact("to write as well", peer_get(&peer, PEER_READ, q, 0, 0) == 6);
	peer_get(&peer, PEER_CLOSE, q, 0, 0);
	peer_get(&peer, PEER_CLOSE, q, 0, 0);
	answers("now nobody opens it",
		peer_open(&peer, PEER_OPEN, &handle, 0).code,
		CUDA_ERROR_INVALID_HANDLE);
	for (int i = 0; i < 16; i++)
		OK(cuMemFree(more[i]));
	peer_end(&peer);
}

/* As much memory as there is, twice. */
static void
kept_memory_comes_back(void)
{
	struct peer peer = peer_start();
	size_t available, total, size;
	CUipcMemHandle handle;
	struct peer_message m;
	CUdeviceptr p, q;

	OK(cuMemGetInfo(&available, &total));
	size = available / 8 * 5;
	OK(cuMemAlloc(&p, size));
	OK(cuIpcGetMemHandle(&handle, p));
	m = peer_open(&peer, PEER_OPEN, &handle, 0);
	facts_ok("open", __LINE__, m.code);
	OK(cuMemFree(p));
	answers("memory that is open elsewhere is not free",
		cuMemAlloc(&q, size), CUDA_ERROR_OUT_OF_MEMORY);
	peer_get(&peer, PEER_CLOSE, m.a, 0, 0);
	answers("closed it is", cuMemAlloc(&q, size), CUDA_SUCCESS);
	OK(cuMemFree(q));
	peer_end(&peer);
}

static void
exporter_dies(void)
{
	struct peer peer = peer_start(), third = peer_start();
	CUipcMemHandle handle;
	struct peer_message m;
	CUdeviceptr p;
	uint64_t q;

	q = peer_get(&peer, PEER_ALLOC, 5 * MIB, 0, 0);
	peer_get(&peer, PEER_FILL, q, 77, 5 * MIB / 4);
	m = peer_ask(&peer, (struct peer_message){ .op = PEER_EXPORT, .a = q });
	facts_ok("export", __LINE__, m.code);
	memcpy(&handle, m.handle, sizeof(handle));
	OK(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(peer_increment(p, 1));
	peer_kill(&peer);
	fact("its process is killed, and what is open is there",
	     word(p) == 78 && word(p + 5 * MIB - 4) == 77);
	OK(peer_increment(p, 5 * MIB / 4));
	fact("to write as well", word(p) == 79 && word(p + 4) == 78);
	answers("but nobody opens it any more",
		peer_open(&third, PEER_OPEN, &handle, 0).code,
		CUDA_ERROR_INVALID_HANDLE);
	OK(cuIpcCloseMemHandle(p));
	peer_end(&third);
}

static void
event_dies(void)
{
	struct peer peer = peer_start();
	struct peer_message m = { .op = PEER_EVENT_NEW };
	CUipcEventHandle handle;
	CUevent event;

	m = peer_ask(&peer, m);
	memcpy(&handle, m.handle, sizeof(handle));
	OK(cuIpcOpenEventHandle(&event, handle));
	peer_get(&peer, PEER_EVENT_RECORD, m.a, 0, 0);
	peer_kill(&peer);
	OK(cuStreamWaitEvent(peer_stream, event, 0));
	OK(cuEventSynchronize(event));
	OK(cuEventRecord(event, peer_stream));
	OK(cuEventSynchronize(event));
	fact("an event outlives the process that made it", true);
	OK(cuEventDestroy(event));
}

static void
refusals(void)
{
	struct peer peer = peer_start();
	unsigned char junk[64], good[64];
	CUipcMemHandle handle;
	CUipcEventHandle h;
	CUevent event, plain;
	CUdeviceptr p, q;
	int opened = 0;

	for (int i = 0; i < 64; i++)
		junk[i] = (unsigned char)(i * 37 + 11);
	answers("junk opens no memory",
		peer_open(&peer, PEER_OPEN, junk, 0).code,
		CUDA_ERROR_INVALID_HANDLE);
	answers("nor an event",
		peer_open(&peer, PEER_EVENT_OPEN, junk, 0).code,
		CUDA_ERROR_INVALID_HANDLE);
	OK(cuMemAlloc(&p, 4096));
	OK(cuIpcGetMemHandle(&handle, p));
	OK(peer_event_new(&event, good));
	answers("a handle of memory opens no event",
		peer_open(&peer, PEER_EVENT_OPEN, &handle, 0).code,
		CUDA_ERROR_INVALID_HANDLE);
	answers("one of an event no memory",
		peer_open(&peer, PEER_OPEN, good, 0).code,
		CUDA_ERROR_INVALID_HANDLE);
	/* Every byte of it counts, but for whose it says that it is. */
	for (int i = 0; i < 64; i++) {
		memcpy(junk, &handle, sizeof(junk));
		junk[i] ^= 0x10;
		opened += (i < 24 || i >= 32) && (i < 12 || i >= 16) &&
			  peer_open(&peer, PEER_OPEN, junk, 0).code ==
			  CUDA_SUCCESS;
		memcpy(junk, good, sizeof(junk));
		junk[i] ^= 0x10;
		opened += (i < 16 || i >= 32) &&
			  peer_open(&peer, PEER_EVENT_OPEN, junk, 0).code ==
			  CUDA_SUCCESS;
	}
	fact("no handle with a wrong bit opens anything", opened == 0);
	OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
	answers("an event that is not made for it is not shared",
		cuIpcGetEventHandle(&h, plain), CUDA_ERROR_INVALID_HANDLE);
	memcpy(&h, good, sizeof(h));
	answers("an event is not opened in its own process",
		cuIpcOpenEventHandle(&plain, h), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuMemAllocAsync(&q, 4096, peer_stream));
	answers("memory of a pool is not shared so",
		cuIpcGetMemHandle(&handle, q), CUDA_ERROR_INVALID_VALUE);
	answers("nor what is no memory", cuIpcGetMemHandle(&handle, 0x1234),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(q, peer_stream));
	answers("what was not opened is not closed", cuIpcCloseMemHandle(p),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(p));
	OK(cuEventDestroy(event));
	answers("an event that is no more is not opened",
		peer_open(&peer, PEER_EVENT_OPEN, good, 0).code,
		CUDA_ERROR_INVALID_HANDLE);
	peer_end(&peer);
}

static void
opened_memory(void)
{
	struct peer peer = peer_start();
	unsigned int type = 0, capable = 7;
	CUipcMemHandle handle;
	struct peer_message m;
	uint64_t start = 0;
	CUdeviceptr p, base;
	size_t size = 0;
	uint64_t q;
	int eight[2] = { 1, 2 };

	q = peer_get(&peer, PEER_ALLOC, 10000, 0, 0);
	m = peer_ask(&peer, (struct peer_message){ .op = PEER_EXPORT, .a = q });
	memcpy(&handle, m.handle, sizeof(handle));
	OK(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	OK(cuPointerGetAttribute(
		&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
	OK(cuPointerGetAttribute(
		&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 100));
	OK(cuMemGetAddressRange(&base, &size, p + 100));
	fact("opened memory is device memory", type == CU_MEMORYTYPE_DEVICE);
	fact("that begins and ends with the block",
	     start == p && base == p && size == 10000);
	fact("and is not shared on", capable == 0);
	answers("so says the call", cuIpcGetMemHandle(&handle, p),
		CUDA_ERROR_INVALID_VALUE);
	answers("a copy beyond it is refused", cuMemcpyHtoD(p + 9996, eight, 8),
		CUDA_ERROR_INVALID_VALUE);
	answers("it is not freed", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcCloseMemHandle(p));
	answers("closed memory is none", cuMemcpyHtoD(p, eight, 8),
		CUDA_ERROR_INVALID_VALUE);
	peer_end(&peer);
}

/* It goes with the context, and can be opened anew. */
static void
reset(void)
{
	struct peer peer = peer_start();
	CUipcMemHandle handle;
	struct peer_message m;
	CUcontext ctx;
	CUdeviceptr p;
	uint64_t q;

	q = peer_get(&peer, PEER_ALLOC, MIB, 0, 0);
	peer_get(&peer, PEER_FILL, q, 3, MIB / 4);
	m = peer_ask(&peer, (struct peer_message){ .op = PEER_EXPORT, .a = q });
	memcpy(&handle, m.handle, sizeof(handle));
	for (int i = 0; i < 2; i++) {
		OK(cuCtxCreate(&ctx, NULL, 0, 0));
		OK(cuIpcOpenMemHandle(&p, handle,
				      CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		fact("another context has it", word(p + MIB - 4) == 3);
		OK(cuCtxDestroy(ctx));
	}
	fact("and its process after that",
	     peer_get(&peer, PEER_READ, q, 0, 0) == 3);
	peer_get(&peer, PEER_FREE, q, 0, 0);
	peer_end(&peer);
}

int
main(int argc, char **argv)
{
	peer_main(argc, argv);
	peer_begin();
	memory();
	small_blocks();
	rounds();
	events();
	held_record();
	importer_dies();
	if (!facts_comparable()) {
		exporter_frees();
		kept_memory_comes_back();
		exporter_dies();
		event_dies();
		refusals();
		opened_memory();
		reset();
	}
	return facts_end();
}
