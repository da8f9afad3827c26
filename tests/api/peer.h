/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second process that does what it is told, one request at a time: what
 * sharing between processes is tried with.
 * For tests/api only. A program that includes this calls peer_main() first.
 */
#ifndef TESTS_API_PEER_H
#define TESTS_API_PEER_H

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/facts.h"

/* Where the other process finds its end of the socket. */
#define PEER_FD 3

extern char **environ;

enum peer_op {
	PEER_OPEN,            /* handle -> address */
	PEER_CLOSE,           /* address */
	PEER_READ,            /* address -> word */
	PEER_FILL,            /* address, word, words */
	PEER_INC,             /* address, words: by a kernel */
	PEER_ALLOC,           /* bytes -> address */
	PEER_FREE,            /* address */
	PEER_EXPORT,          /* address -> handle */
	PEER_EVENT_NEW,       /* -> event, handle */
	PEER_EVENT_OPEN,      /* handle -> event */
	PEER_EVENT_END,       /* event */
	PEER_EVENT_RECORD,    /* event */
	PEER_EVENT_QUERY,     /* event */
	PEER_EVENT_SYNC,      /* event */
	PEER_STORE,           /* address, word, loops: slowly, on its stream,
			       * then a record of event `d` */
	PEER_FETCH,           /* address, event -> word, when that is over */
	PEER_MEMORY_IMPORT,   /* descriptor -> memory */
	PEER_MEMORY_EXPORT,   /* bytes -> descriptor, address */
	PEER_MEMORY_MAP,      /* memory, bytes -> address */
	PEER_MEMORY_UNMAP,    /* address, bytes, memory */
	PEER_POOL_IMPORT,     /* descriptor -> pool */
	PEER_POOL_OPEN,       /* handle, pool -> address */
	PEER_POOL_ALLOC,      /* pool, bytes -> address */
	PEER_FREE_ASYNC,      /* address */
};

struct peer_message {
	int op;
	CUresult code;
	uint64_t a, b, c, d;
	unsigned char handle[64];
	bool with_fd;
};

struct peer {
	pid_t pid;
	int fd;
};

/* Adds 1 to n words; stores a word after counting to `loops`. */
static const char peer_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry inc(.param .u64 to, .param .u32 n)\n"
	"{ .reg .u64 p, o; .reg .u32 i, t, b, v, m; .reg .pred q;"
	" ld.param.u64 p,[to]; ld.param.u32 m,[n];"
	" mov.u32 i,%ctaid.x; mov.u32 b,%ntid.x; mov.u32 t,%tid.x;"
	" mad.lo.u32 i,i,b,t; setp.ge.u32 q,i,m; @q bra done;"
	" mul.wide.u32 o,i,4; add.u64 p,p,o;"
	" ld.global.u32 v,[p]; add.u32 v,v,1; st.global.u32 [p],v;"
	" done: ret; }\n"
	".visible .entry store(.param .u64 to, .param .u32 word,"
	" .param .u32 loops)\n"
	"{ .reg .u64 p; .reg .u32 i, w, n; .reg .pred q;"
	" ld.param.u64 p,[to]; ld.param.u32 w,[word]; ld.param.u32 n,[loops];"
	" mov.u32 i,0;"
	" again: st.volatile.global.u32 [p],i; add.u32 i,i,1;"
	" setp.lt.u32 q,i,n; @q bra again;"
	" st.global.u32 [p],w; ret; }\n";

static CUfunction peer_inc_kernel, peer_store_kernel;
static CUstream peer_stream;
static CUdeviceptr peer_scratch;
static const CUmemAllocationProp peer_prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};
static const CUmemAccessDesc peer_access = {
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

/* ---- what both processes do ---- */

static inline void
peer_begin(void)
{
	CUmodule module;
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, peer_ptx));
	OK(cuModuleGetFunction(&peer_inc_kernel, module, "inc"));
	OK(cuModuleGetFunction(&peer_store_kernel, module, "store"));
	OK(cuStreamCreate(&peer_stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&peer_scratch, 4));
}

static inline CUresult
peer_increment(CUdeviceptr p, uint32_t words)
{
	void *args[] = { &p, &words };
	CUresult r = cuLaunchKernel(peer_inc_kernel, (words + 127) / 128, 1, 1,
				    128, 1, 1, 0, NULL, args, NULL);

	return r ? r : cuCtxSynchronize();
}

/* The record is behind the store, and nobody waits here. */
static inline CUresult
peer_store(CUdeviceptr p, uint32_t word, uint32_t loops, CUevent event)
{
	void *args[] = { &p, &word, &loops };
	CUresult r = cuLaunchKernel(peer_store_kernel, 1, 1, 1, 1, 1, 1, 0,
				    peer_stream, args, NULL);

	return r ? r : cuEventRecord(event, peer_stream);
}

/* What the word is once the event has passed. */
static inline CUresult
peer_fetch(CUdeviceptr p, CUevent event, uint64_t *out)
{
	uint32_t word = 0;
	CUresult r = cuStreamWaitEvent(peer_stream, event, 0);

	if (!r)
		r = cuMemcpyDtoDAsync(peer_scratch, p, 4, peer_stream);
	if (!r)
		r = cuStreamSynchronize(peer_stream);
	if (!r)
		r = cuMemcpyDtoH(&word, peer_scratch, 4);
	*out = word;
	return r;
}

static inline CUresult
peer_event_new(CUevent *out, unsigned char handle[64])
{
	CUresult r = cuEventCreate(out, CU_EVENT_INTERPROCESS |
				   CU_EVENT_DISABLE_TIMING);
	CUipcEventHandle h;

	if (!r)
		r = cuIpcGetEventHandle(&h, *out);
	memcpy(handle, &h, sizeof(h));
	return r;
}

static inline CUresult
peer_map(CUmemGenericAllocationHandle memory, size_t size, CUdeviceptr *out)
{
	CUresult r = cuMemAddressReserve(out, size, 0, 0, 0);

	if (!r)
		r = cuMemMap(*out, size, 0, memory, 0);
	return r ? r : cuMemSetAccess(*out, size, &peer_access, 1);
}

static inline CUresult
peer_unmap(CUdeviceptr p, size_t size, CUmemGenericAllocationHandle memory)
{
	CUresult r = cuMemUnmap(p, size);

	if (!r)
		r = cuMemAddressFree(p, size);
	return r ? r : cuMemRelease(memory);
}

/* Memory that is mapped, and a descriptor of it. */
static inline CUresult
peer_memory(size_t size, CUmemGenericAllocationHandle *out_memory,
	    CUdeviceptr *out, int *out_fd)
{
	CUresult r = cuMemCreate(out_memory, size, &peer_prop, 0);

	if (!r)
		r = cuMemExportToShareableHandle(
			out_fd, *out_memory,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	return r ? r : peer_map(*out_memory, size, out);
}

/* ---- messages ---- */

static inline bool
peer_send(int to, const struct peer_message *m, int fd)
{
	struct iovec part = { .iov_base = (void *)m, .iov_len = sizeof(*m) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} room = { 0 };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };

	if (m->with_fd) {
		msg.msg_control = room.bytes;
		msg.msg_controllen = sizeof(room.bytes);
		room.align.cmsg_level = SOL_SOCKET;
		room.align.cmsg_type = SCM_RIGHTS;
		room.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&room.align), &fd, sizeof(fd));
	}
	return sendmsg(to, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(*m);
}

static inline bool
peer_receive(int from, struct peer_message *m, int *fd)
{
	struct iovec part = { .iov_base = m, .iov_len = sizeof(*m) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} room = { 0 };
	struct msghdr msg = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = room.bytes, .msg_controllen = sizeof(room.bytes),
	};

	if (recvmsg(from, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*m))
		return false;
	*fd = -1;
	if (m->with_fd && CMSG_FIRSTHDR(&msg))
		memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(*fd));
	return true;
}

/* ---- the other process ---- */

static inline void
peer_do_event(struct peer_message *m)
{
	CUevent event = (CUevent)(uintptr_t)m->a;
	CUipcEventHandle handle;

	switch ((enum peer_op)m->op) {
	case PEER_EVENT_NEW:
		m->code = peer_event_new(&event, m->handle);
		m->a = (uintptr_t)event;
		return;
	case PEER_EVENT_OPEN:
		memcpy(&handle, m->handle, sizeof(handle));
		m->code = cuIpcOpenEventHandle(&event, handle);
		m->a = (uintptr_t)event;
		return;
	case PEER_EVENT_END:
		m->code = cuEventDestroy(event);
		return;
	case PEER_EVENT_RECORD:
		m->code = cuEventRecord(event, peer_stream);
		return;
	case PEER_EVENT_QUERY:
		m->code = cuEventQuery(event);
		return;
	case PEER_EVENT_SYNC:
		m->code = cuEventSynchronize(event);
		return;
	default:
		m->code = CUDA_ERROR_UNKNOWN;
	}
}

static inline void
peer_do_token(struct peer_message *m, int *fd)
{
	CUmemGenericAllocationHandle memory = m->a;
	CUmemPoolPtrExportData data;
	CUdeviceptr p = 0;
	CUmemoryPool pool;

	switch ((enum peer_op)m->op) {
	case PEER_MEMORY_IMPORT:
		m->code = cuMemImportFromShareableHandle(
			&memory, (void *)(uintptr_t)*fd,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		m->a = memory;
		break;
	case PEER_MEMORY_EXPORT:
		m->code = peer_memory(m->a, &memory, &p, fd);
		m->with_fd = m->code == CUDA_SUCCESS;
		m->a = p;
		return;
	case PEER_MEMORY_MAP:
		m->code = peer_map(memory, m->b, &p);
		m->a = p;
		break;
	case PEER_MEMORY_UNMAP:
		m->code = peer_unmap(m->a, m->b, m->c);
		break;
	case PEER_POOL_IMPORT:
		m->code = cuMemPoolImportFromShareableHandle(
			&pool, (void *)(uintptr_t)*fd,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		m->a = (uintptr_t)pool;
		break;
	case PEER_POOL_OPEN:
		memcpy(&data, m->handle, sizeof(data));
		m->code = cuMemPoolImportPointer(
			&p, (CUmemoryPool)(uintptr_t)m->a, &data);
		m->a = p;
		break;
	case PEER_POOL_ALLOC:
		m->code = cuMemAllocFromPoolAsync(
			&p, m->b, (CUmemoryPool)(uintptr_t)m->a, peer_stream);
		m->a = p;
		break;
	default:
		m->code = CUDA_ERROR_UNKNOWN;
	}
	if (*fd >= 0)
		close(*fd);
	m->with_fd = false;
}

static inline void
peer_do(struct peer_message *m, int *fd)
{
	CUipcMemHandle handle;
	CUdeviceptr p = m->a;
	uint32_t word = 0;

	switch ((enum peer_op)m->op) {
	case PEER_OPEN:
		memcpy(&handle, m->handle, sizeof(handle));
		m->code = cuIpcOpenMemHandle(
			&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
		m->a = p;
		return;
	case PEER_CLOSE:
		m->code = cuIpcCloseMemHandle(p);
		return;
	case PEER_READ:
		m->code = cuMemcpyDtoH(&word, p, 4);
		m->a = word;
		return;
	case PEER_FILL:
		m->code = cuMemsetD32(p, (uint32_t)m->b, m->c);
		if (!m->code)
			m->code = cuCtxSynchronize();
		return;
	case PEER_INC:
		m->code = peer_increment(p, (uint32_t)m->b);
		return;
	case PEER_ALLOC:
		m->code = cuMemAlloc(&p, m->a);
		m->a = p;
		return;
	case PEER_FREE:
		m->code = cuMemFree(p);
		return;
	case PEER_FREE_ASYNC:
		m->code = cuMemFreeAsync(p, peer_stream);
		if (!m->code)
			m->code = cuStreamSynchronize(peer_stream);
		return;
	case PEER_EXPORT:
		m->code = cuIpcGetMemHandle(&handle, p);
		memcpy(m->handle, &handle, sizeof(handle));
		return;
	case PEER_STORE:
		m->code = peer_store(p, (uint32_t)m->b, (uint32_t)m->c,
				     (CUevent)(uintptr_t)m->d);
		return;
	case PEER_FETCH:
		m->code = peer_fetch(p, (CUevent)(uintptr_t)m->b, &m->a);
		return;
	default:
		if (m->op >= PEER_MEMORY_IMPORT)
			peer_do_token(m, fd);
		else
			peer_do_event(m);
	}
}

/* Does not return in the other process. */
static inline void
peer_main(int argc, char **argv)
{
	struct peer_message m;
	int fd;

	if (argc != 2 || strcmp(argv[1], "peer"))
		return;
	peer_begin();
	while (peer_receive(PEER_FD, &m, &fd)) {
		peer_do(&m, &fd);
		if (!peer_send(PEER_FD, &m, fd))
			break;
		if (m.with_fd)
			close(fd);
	}
	exit(facts_wrong);
}

/* ---- the first process ---- */

static inline struct peer
peer_start(void)
{
	char self[] = "/proc/self/exe", word[] = "peer";
	char *argv[] = { self, word, NULL };
	posix_spawn_file_actions_t actions;
	struct peer peer;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		exit(1);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], PEER_FD);
	if (posix_spawn(&peer.pid, self, &actions, NULL, argv, environ))
		exit(1);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	peer.fd = ends[0];
	return peer;
}

static inline void
peer_end(struct peer *peer)
{
	int status = 1;

	close(peer->fd);
	waitpid(peer->pid, &status, 0);
	fact("the other process ends well", status == 0);
}

static inline void
peer_kill(struct peer *peer)
{
	kill(peer->pid, SIGKILL);
	waitpid(peer->pid, NULL, 0);
	close(peer->fd);
}

/* fd: taken along if not -1; the answer's if there is one. */
static inline struct peer_message
peer_ask_fd(const struct peer *peer, struct peer_message m, int *fd)
{
	m.with_fd = *fd >= 0;
	if (!peer_send(peer->fd, &m, *fd) || !peer_receive(peer->fd, &m, fd)) {
		printf("NO   the other process is gone\n");
		exit(1);
	}
	return m;
}

static inline struct peer_message
peer_ask(const struct peer *peer, struct peer_message m)
{
	int fd = -1;

	return peer_ask_fd(peer, m, &fd);
}

/* The same, of which nothing can fail. */
static inline uint64_t
peer_get(const struct peer *peer, enum peer_op op, uint64_t a, uint64_t b,
	 uint64_t c)
{
	struct peer_message m = { .op = op, .a = a, .b = b, .c = c };

	m = peer_ask(peer, m);
	facts_ok("a request to the other process", (int)op, m.code);
	return m.a;
}

static inline struct peer_message
peer_open(const struct peer *peer, enum peer_op op, const void *handle,
	  uint64_t a)
{
	struct peer_message m = { .op = op, .a = a };

	memcpy(m.handle, handle, sizeof(m.handle));
	return peer_ask(peer, m);
}

#endif
