/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and pools passed to another process as file descriptors.
 */
#include <fcntl.h>

#include "tests/api/peer.h"

#define CHUNK (UINT64_C(2) << 20)
#define FILE_DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static uint32_t
word(CUdeviceptr p)
{
	uint32_t value = 0;

	OK(cuMemcpyDtoH(&value, p, sizeof(value)));
	return value;
}

static void
fill(CUdeviceptr p, uint32_t value, size_t bytes)
{
	OK(cuMemsetD32(p, value, bytes / 4));
	OK(cuCtxSynchronize());
}

/* The other's handle for memory, by a descriptor that stays ours. */
static uint64_t
give(const struct peer *peer, int fd)
{
	struct peer_message m = { .op = PEER_MEMORY_IMPORT };

	m = peer_ask_fd(peer, m, &fd);
	facts_ok("import", __LINE__, m.code);
	return m.a;
}

static void
memory(void)
{
	struct peer peer = peer_start();
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp plain = peer_prop, is = { 0 };
	uint64_t theirs, q;
	CUdeviceptr p, second;
	int fd = -1, again = -1;

	OK(peer_memory(4 * CHUNK, &h, &p, &fd));
	fact("memory is exported as a descriptor", fcntl(fd, F_GETFD) >= 0);
	OK(cuMemExportToShareableHandle(&again, h, FILE_DESCRIPTOR, 0));
	fact("and as another one", again >= 0 && again != fd);
	close(again);
	fill(p, 41, 4 * CHUNK);
	theirs = give(&peer, fd);
	q = peer_get(&peer, PEER_MEMORY_MAP, theirs, 4 * CHUNK, 0);
	fact("another process maps it and sees what is there",
	     peer_get(&peer, PEER_READ, q, 0, 0) == 41 &&
	     peer_get(&peer, PEER_READ, q + 4 * CHUNK - 4, 0, 0) == 41);
	peer_get(&peer, PEER_INC, q, CHUNK, 0);
	fact("what its kernels write is seen here",
	     word(p) == 42 && word(p + 4 * CHUNK - 4) == 42);
	close(fd);
	OK(peer_unmap(p, 4 * CHUNK, h));
	peer_get(&peer, PEER_INC, q, CHUNK, 0);
	fact("it outlives its maker's handle, mapping and descriptor",
	     peer_get(&peer, PEER_READ, q, 0, 0) == 43);
	peer_get(&peer, PEER_MEMORY_UNMAP, q, 4 * CHUNK, theirs);
	plain.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	OK(cuMemCreate(&h, CHUNK, &plain, 0));
	answers("memory that is not made for it is not exported",
		cuMemExportToShareableHandle(&fd, h, FILE_DESCRIPTOR, 0),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(h));
	OK(peer_memory(CHUNK, &h, &p, &fd));
	OK(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd,
					  FILE_DESCRIPTOR));
	OK(cuMemGetAllocationPropertiesFromHandle(&is, h));
	fact("an imported handle knows its properties",
	     is.type == peer_prop.type && is.location.id == 0 &&
	     is.location.type == peer_prop.location.type);
	fill(p, 5, CHUNK);
	OK(peer_map(h, CHUNK, &second));
	fact("its own process may import it too", word(second) == 5);
	OK(peer_unmap(second, CHUNK, h));
	OK(cuMemUnmap(p, CHUNK));
	OK(cuMemAddressFree(p, CHUNK));
	close(fd);
	peer_end(&peer);
}

/* A descriptor alone is memory. */
static void
descriptor(void)
{
	struct peer peer = peer_start();
	struct peer_message m = { .op = PEER_MEMORY_EXPORT, .a = 3 * CHUNK };
	CUmemGenericAllocationHandle h;
	CUdeviceptr p;
	int fd = -1;

	m = peer_ask_fd(&peer, m, &fd);
	facts_ok("export", __LINE__, m.code);
	peer_get(&peer, PEER_FILL, m.a, 99, 3 * CHUNK / 4);
	peer_kill(&peer);
	OK(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd,
					  FILE_DESCRIPTOR));
	close(fd);
	OK(peer_map(h, 3 * CHUNK, &p));
	fact("its maker is killed before it is imported, and it is there",
	     word(p) == 99 && word(p + 3 * CHUNK - 4) == 99);
	OK(peer_increment(p, 3 * CHUNK / 4));
	fact("to write as well", word(p + CHUNK) == 100);
	OK(peer_unmap(p, 3 * CHUNK, h));
}

#define SEGMENTS 24

/* As PyTorch's expandable segments, sent to another process. */
static void
expandable(void)
{
	struct peer peer = peer_start();
	CUmemGenericAllocationHandle h[SEGMENTS];
	uint64_t theirs[SEGMENTS], q[SEGMENTS];
	CUdeviceptr p[SEGMENTS];
	bool right = true;
	int fd;

	for (uint32_t i = 0; i < SEGMENTS; i++) {
		OK(peer_memory(CHUNK, &h[i], &p[i], &fd));
		fill(p[i], i, CHUNK);
		theirs[i] = give(&peer, fd);
		close(fd);
		q[i] = peer_get(&peer, PEER_MEMORY_MAP, theirs[i], CHUNK, 0);
	}
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		peer_get(&peer, PEER_INC, q[i], CHUNK / 4, 0);
		right &= word(p[i] + CHUNK - 4) == i + 1;
	}
	fact("two dozen segments are two dozen", right);
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		OK(peer_unmap(p[i], CHUNK, h[i]));
		right &= peer_get(&peer, PEER_READ, q[i], 0, 0) == i + 1;
		peer_get(&peer, PEER_MEMORY_UNMAP, q[i], CHUNK, theirs[i]);
	}
	fact("and stay where they are still mapped", right);
	peer_end(&peer);
}

static CUmemoryPool
pool_new(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &props));
	return pool;
}

static CUdeviceptr
pool_block(CUmemoryPool pool, uint32_t value, size_t bytes)
{
	CUdeviceptr p;

	OK(cuMemAllocFromPoolAsync(&p, bytes, pool, peer_stream));
	OK(cuMemsetD32Async(p, value, bytes / 4, peer_stream));
	OK(cuStreamSynchronize(peer_stream));
	return p;
}

static void
pools(void)
{
	struct peer peer = peer_start();
	CUmemoryPool pool = pool_new(), other = pool_new(), plain;
	CUmemPoolPtrExportData data, foreign;
	struct peer_message m = { .op = PEER_POOL_IMPORT };
	CUdeviceptr p, r;
	uint64_t theirs, q;
	unsigned int types = 0;
	int fd = -1, mine;

	OK(cuMemPoolExportToShareableHandle(&fd, pool, FILE_DESCRIPTOR, 0));
	mine = fd;
	m = peer_ask_fd(&peer, m, &fd);
	answers("a pool is imported", m.code, CUDA_SUCCESS);
	theirs = m.a;
	close(mine);
	p = pool_block(pool, 7, 100000);
	r = pool_block(other, 8, 100000);
	OK(cuPointerGetAttribute(
		&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p));
	fact("its memory says how it is passed on", types == FILE_DESCRIPTOR);
	OK(cuMemPoolExportPointer(&data, p));
	answers("nothing is exported of a pool that is not",
		cuMemPoolExportPointer(&foreign, r),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolExportToShareableHandle(&fd, other, FILE_DESCRIPTOR, 0));
	close(fd);
	OK(cuMemPoolExportPointer(&foreign, r));
	m = peer_open(&peer, PEER_POOL_OPEN, &data, theirs);
	answers("so is a block of it", m.code, CUDA_SUCCESS);
	q = m.a;
	fact("with what is there",
	     peer_get(&peer, PEER_READ, q, 0, 0) == 7 &&
	     peer_get(&peer, PEER_READ, q + 99996, 0, 0) == 7);
	peer_get(&peer, PEER_INC, q, 25000, 0);
	fact("what is written to it is seen here",
	     word(p) == 8 && word(p + 99996) == 8);
	peer_get(&peer, PEER_FREE_ASYNC, q, 0, 0);
	fact("freed there, it is here", word(p) == 8);
	if (!facts_comparable()) {
		answers("a block of another pool is not imported",
			peer_open(&peer, PEER_POOL_OPEN, &foreign,
				  theirs).code, CUDA_ERROR_INVALID_VALUE);
		m = peer_open(&peer, PEER_POOL_OPEN, &data, theirs);
		facts_ok("open", __LINE__, m.code);
		OK(cuMemFree(p));
		p = pool_block(pool, 1, 100000);
		fact("what is freed while it is open is kept",
		     peer_get(&peer, PEER_READ, m.a, 0, 0) == 8);
		peer_get(&peer, PEER_FREE, m.a, 0, 0);
		answers("once it is freed there it is gone",
			peer_open(&peer, PEER_POOL_OPEN, &data, theirs).code,
			CUDA_ERROR_INVALID_VALUE);
	}
	m = (struct peer_message){
		.op = PEER_POOL_ALLOC, .a = theirs, .b = 4096 };
	answers("an imported pool gives nothing new",
		peer_ask(&peer, m).code, CUDA_ERROR_INVALID_VALUE);
	OK(cuDeviceGetDefaultMemPool(&plain, 0));
	answers("a pool that is not made for it is not exported",
		cuMemPoolExportToShareableHandle(&fd, plain, FILE_DESCRIPTOR,
						 0),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(p, peer_stream));
	OK(cuMemFreeAsync(r, peer_stream));
	OK(cuStreamSynchronize(peer_stream));
	OK(cuMemPoolDestroy(pool));
	OK(cuMemPoolDestroy(other));
	peer_end(&peer);
}

/* ---- what the real driver answers otherwise, or not at all ---- */

static void
junk(void)
{
	CUmemGenericAllocationHandle h;
	CUmemoryPool pool;
	CUdeviceptr p;
	int pipes[2], sockets[2], fd, wrong = 0;
	char bytes[64] = "smpmipc1";

	if (pipe(pipes) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets))
		exit(1);
	if (write(pipes[1], bytes, sizeof(bytes)) < 0 ||
	    send(sockets[1], bytes, sizeof(bytes), 0) < 0)
		exit(1);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 5; i++) {
		const int fds[] = { pipes[0], sockets[0], fd, -1, 12345 };
		void *name = (void *)(uintptr_t)fds[i];

		wrong += cuMemImportFromShareableHandle(
				 &h, name, FILE_DESCRIPTOR) !=
			 (fds[i] < 0 ? CUDA_ERROR_UNKNOWN :
				       CUDA_ERROR_INVALID_VALUE);
		wrong += cuMemPoolImportFromShareableHandle(
				 &pool, name, FILE_DESCRIPTOR, 0) !=
			 CUDA_ERROR_INVALID_VALUE;
	}
	fact("other descriptors are no memory and no pool", !wrong);
	close(fd);
	OK(peer_memory(CHUNK, &h, &p, &fd));
	answers("memory is no pool",
		cuMemPoolImportFromShareableHandle(
			&pool, (void *)(uintptr_t)fd, FILE_DESCRIPTOR, 0),
		CUDA_ERROR_INVALID_VALUE);
	close(fd);
	OK(peer_unmap(p, CHUNK, h));
	for (int i = 0; i < 2; i++) {
		close(pipes[i]);
		close(sockets[i]);
	}
}

/* When the last descriptor is closed, that memory is there again. */
static void
last_descriptor(void)
{
	CUmemGenericAllocationHandle h;
	size_t available, total, size;
	CUdeviceptr p;
	int fd;

	OK(cuMemGetInfo(&available, &total));
	size = total / 8 * 5 / CHUNK * CHUNK;
	OK(peer_memory(size, &h, &p, &fd));
	OK(peer_unmap(p, size, h));
	OK(cuMemGetInfo(&available, &total));
	fact("a descriptor counts as memory", available <= total - size);
	close(fd);
	for (int i = 0; i < 500 && available <= total - size; i++) {
		usleep(10000);
		OK(cuMemGetInfo(&available, &total));
	}
	fact("until it is closed", available > total - size);
}

int
main(int argc, char **argv)
{
	peer_main(argc, argv);
	peer_begin();
	memory();
	descriptor();
	expandable();
	pools();
	if (!facts_comparable()) {
		junk();
		last_descriptor();
	}
	return facts_end();
}
