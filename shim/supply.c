/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks from the broker.
 *
 * Address first, then memory: a range of a piece that is ours (shim/va.h), the
 * broker's yes, and for pinned memory a mapping of what the broker made. What
 * we give back may be in the worker's hands for a while yet, so a new chunk
 * at the same address can be refused; then another address is tried, and the
 * refused one rests.
 */
#include "shim/supply.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/shmem.h"
#include "shim/chan.h"
#include "shim/ipc.h"
#include "shim/process.h"
#include "shim/relax.h"
#include "shim/va.h"

#define DEVICE_GRANULE (UINT64_C(2) << 20)
#define HOST_GRANULE UINT64_C(4096)
/* Of the system, where it gives some to shared memory that asks. */
#define HUGE_PAGE (UINT64_C(2) << 20)
#define ADDRESS_TRIES 8
/* Chunks that went back are free again when the worker has unmapped them, at
 * a quiet moment after retirement: waits of 1, 2, 4 … 128 ms. */
#define RETURN_TRIES 8

/* A chunk that nobody uses yet is this part of what is held, at most: device
 * memory is what tenants lack, of the other kind a chunk costs a registration
 * in the worker. */
#define DEVICE_PART 16
#define HOST_PART 2

static const uint64_t device_classes[4] = {
	UINT64_C(2) << 20, UINT64_C(8) << 20, UINT64_C(32) << 20,
	UINT64_C(128) << 20,
};
/* Pinned memory costs 0.8 ms per MiB when it is first touched. */
static const uint64_t host_classes[4] = {
	UINT64_C(256) << 10, UINT64_C(1) << 20, UINT64_C(4) << 20,
	UINT64_C(16) << 20,
};

struct supply {
	pthread_mutex_t lock;       /* guards all below */
	struct shim_chan *chan;     /* NULL until the first use */
	int real;                   /* the broker's ordinal */
	bool host;
	struct shim_va va;
	struct shim_va reserved;    /* device: what programs map themselves */
	struct shim_heap heap;
	CUresult code;              /* why the last chunk was not granted */
	bool returned;              /* a chunk went back … */
	uint64_t returned_seq;      /* … and is in use up to this frame */
};

static struct supply supplies[SHIM_MAX_DEVICES][2];
/* Guards that they are initialised once. */
static pthread_mutex_t supplies_lock = PTHREAD_MUTEX_INITIALIZER;

/* Some other answer than the one awaited: its status, or a broken broker. */
static CUresult
done_status(const Mps__Control *answer)
{
	CUresult r = (CUresult)answer->done->status;

	if (*answer->done->message)
		log_line(LOG_INFO, "broker: %s", answer->done->message);
	return r ? r : CUDA_ERROR_MPS_RPC_FAILURE;
}

CUresult
shim_supply_ask(Mps__Control *message, Mps__Control__BodyCase want,
		Mps__Control **out_answer, int *fd)
{
	int nfds = fd ? 1 : 0;
	CUresult r;

	if (fd)
		*fd = -1;
	r = shim_ask(message, want, out_answer, fd, fd ? &nfds : NULL);
	if (r != CUDA_SUCCESS)
		return r;
	if ((*out_answer)->body_case == want)
		return CUDA_SUCCESS;
	r = done_status(*out_answer);
	mps__control__free_unpacked(*out_answer, NULL);
	return r;
}

static CUresult
ready(int what, uint64_t object, uint32_t status)
{
	Mps__Control message = MPS__CONTROL__INIT;
	Mps__Ready body = MPS__READY__INIT;

	body.what = (Mps__Ready__What)what;
	body.object = object;
	body.status = status;
	message.body_case = MPS__CONTROL__BODY_READY;
	message.ready = &body;
	return shim_ask_done(&message);
}

static int
propose_piece(void *owner, uint64_t size, uint64_t *out_id, uint64_t *out_base,
	      uint64_t *out_size)
{
	struct supply *s = owner;
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__Piece body = MPS__PIECE__INIT;

	body.device = s->real;
	body.host = s->host;
	body.size = size;
	message.body_case = MPS__CONTROL__BODY_PIECE;
	message.piece = &body;
	s->code = shim_supply_ask(&message, MPS__CONTROL__BODY_PIECE_REPLY,
				  &answer, NULL);
	if (s->code != CUDA_SUCCESS)
		return VA_E_NONE;
	s->code = (CUresult)answer->piece_reply->status;
	*out_id = answer->piece_reply->id;
	*out_base = answer->piece_reply->address;
	*out_size = answer->piece_reply->size;
	mps__control__free_unpacked(answer, NULL);
	return s->code ? VA_E_NONE : 0;
}

/* Without success the broker has not noted the answer: no use to go on. */
static int
answer_piece(void *owner, uint64_t id, int status)
{
	struct supply *s = owner;

	s->code = ready(MPS__READY__WHAT__PIECE, id, (uint32_t)status);
	return s->code ? err_origin(-EIO) : 0;
}

static const struct shim_va_ops va_ops = { propose_piece, answer_piece };

static CUresult
grant_device(struct supply *s, uint64_t piece, uint64_t address, uint64_t size,
	     uint64_t *out_id)
{
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__Chunk body = MPS__CHUNK__INIT;
	CUresult r;

	body.device = s->real;
	body.size = size;
	body.piece = piece;
	body.address = address;
	message.body_case = MPS__CONTROL__BODY_CHUNK;
	message.chunk = &body;
	r = shim_supply_ask(&message, MPS__CONTROL__BODY_CHUNK_REPLY, &answer,
			    NULL);
	if (r != CUDA_SUCCESS)
		return r;
	r = (CUresult)answer->chunk_reply->status;
	*out_id = answer->chunk_reply->chunk;
	mps__control__free_unpacked(answer, NULL);
	return r;
}

/* Put PROT_NONE back over what was mapped there. Cannot leave a hole: where
 * it fails, the old mapping stays. */
static void
unmap_host(uint64_t address, uint64_t size)
{
	if (mmap((void *)(uintptr_t)address, size, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		log_line(LOG_WARN, "pinned memory could not be unmapped");
}

static CUresult
map_host(int fd, uint64_t address, uint64_t size)
{
	void *at = (void *)(uintptr_t)address;

	if (shmem_size(fd) != (long)size)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 0) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Refused by systems without: then it is small pages. */
	if (size >= HUGE_PAGE)
		madvise(at, size, MADV_HUGEPAGE);
	if (shmem_populate(at, size) < 0) {
		unmap_host(address, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static CUresult
grant_host(struct supply *s, uint64_t piece, uint64_t address, uint64_t size,
	   uint64_t *out_id, int *out_fd)
{
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__HostMemory body = MPS__HOST_MEMORY__INIT;
	_cleanup_close_ int fd = -1;
	CUresult r, told;

	body.device = s->real;
	body.size = size;
	body.piece = piece;
	body.address = address;
	/* What single blocks ask for differs; the chunk serves them all. */
	body.flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
	message.body_case = MPS__CONTROL__BODY_HOST_MEMORY;
	message.host_memory = &body;
	r = shim_supply_ask(&message, MPS__CONTROL__BODY_HOST_MEMORY_REPLY,
			    &answer, &fd);
	if (r != CUDA_SUCCESS)
		return r;
	r = (CUresult)answer->host_memory_reply->status;
	*out_id = answer->host_memory_reply->id;
	mps__control__free_unpacked(answer, NULL);
	if (r != CUDA_SUCCESS)
		return r;
	r = fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : map_host(fd, address, size);
	told = ready(MPS__READY__WHAT__HOST, *out_id, (uint32_t)r);
	if (r == CUDA_SUCCESS && told != CUDA_SUCCESS)
		unmap_host(address, size);
	r = r ? r : told;
	if (r == CUDA_SUCCESS && out_fd)
		*out_fd = steal_fd(&fd);
	return r;
}

/* A range that begins at a multiple of align. */
static int
take_aligned(struct shim_va *va, uint64_t size, uint64_t align,
	     uint64_t *out_address, uint64_t *out_piece)
{
	uint64_t room, at, head;
	int r;

	if (align <= va->align)
		return shim_va_take(va, size, out_address, out_piece);
	if (__builtin_add_overflow(size, align - va->align, &room))
		return VA_E_NONE;
	r = shim_va_take(va, room, &at, out_piece);
	if (r)
		return r;
	head = (align - at % align) % align;
	*out_address = at + head;
	if (head)
		shim_va_give(va, at, head);
	if (room > head + size)
		shim_va_give(va, at + head + size, room - head - size);
	return 0;
}

/* out_fd NULL: whoever asks needs no descriptor of pinned memory. */
static int
place(struct supply *s, uint64_t size, uint64_t *out_address, uint64_t *out_id,
      int *out_fd)
{
	uint64_t resting[ADDRESS_TRIES];
	int nresting = 0, r = 0;
	uint64_t piece;

	do {
		r = take_aligned(&s->va, size,
				 size >= HUGE_PAGE ? HUGE_PAGE : s->va.align,
				 out_address, &piece);
		if (r) {
			if (r > 0 && s->code == CUDA_SUCCESS)
				s->code = CUDA_ERROR_OUT_OF_MEMORY;
			break;
		}
		s->code = s->host ? grant_host(s, piece, *out_address, size,
					       out_id, out_fd)
				  : grant_device(s, piece, *out_address, size,
						 out_id);
		if (s->code != CUDA_SUCCESS)
			resting[nresting++] = *out_address;
	} while (s->code == CUDA_ERROR_INVALID_VALUE &&
		 nresting < ADDRESS_TRIES);
	for (int i = 0; i < nresting; i++)
		shim_va_give(&s->va, resting[i], size);
	if (s->code == CUDA_ERROR_INVALID_VALUE)
		s->code = CUDA_ERROR_OUT_OF_MEMORY;
	return s->code ? HEAP_E_FULL : r;
}

static int
grow(void *owner, uint64_t size, uint64_t *out_address, uint64_t *out_id)
{
	return place(owner, size, out_address, out_id, NULL);
}

static void
shrink(void *owner, uint64_t address, uint64_t size, uint64_t id)
{
	struct supply *s = owner;
	Mps__Control message = MPS__CONTROL__INIT;
	Mps__ChunkFree chunk = MPS__CHUNK_FREE__INIT;
	Mps__HostFree memory = MPS__HOST_FREE__INIT;
	CUresult r;

	/* The broker's word to the worker must not overtake our frames. In
	 * the ring the worker sees them waiting, on the socket it cannot. */
	shim_chan_wait_issued(s->chan);
	if (s->host) {
		memory.id = id;
		message.body_case = MPS__CONTROL__BODY_HOST_FREE;
		message.host_free = &memory;
	} else {
		chunk.chunk = id;
		message.body_case = MPS__CONTROL__BODY_CHUNK_FREE;
		message.chunk_free = &chunk;
	}
	r = shim_ask_back(&message, "a chunk");
	if (s->host)
		unmap_host(address, size);
	if (r != CUDA_SUCCESS)
		return;
	shim_va_give(&s->va, address, size);
	s->returned = true;
	s->returned_seq = shim_chan_seq(s->chan);
}

static uint64_t
retired(void *owner)
{
	return shim_chan_retired(((struct supply *)owner)->chan);
}

static uint64_t
now_ns(void *owner)
{
	(void)owner;
	return shim_now_ns();
}

static const struct shim_heap_ops heap_ops = { grow, shrink, retired, now_ns };

static struct supply *
get_supply(struct shim_chan *chan, bool host)
{
	struct supply *s = &supplies[shim_chan_device(chan)][host];
	uint64_t granule = host ? HOST_GRANULE : DEVICE_GRANULE;

	pthread_mutex_lock(&supplies_lock);
	if (!s->chan) {
		pthread_mutex_init(&s->lock, NULL);
		s->real = shim_process.devices[shim_chan_device(chan)].real;
		s->host = host;
		shim_va_init(&s->va, &va_ops, s, granule);
		shim_va_init(&s->reserved, &va_ops, s, granule);
		shim_heap_init(&s->heap, &heap_ops, s, granule,
			       host ? host_classes : device_classes,
			       host ? HOST_PART : DEVICE_PART);
		s->chan = chan;
	}
	pthread_mutex_unlock(&supplies_lock);
	return s;
}

/*
 * Something may have become free since the heap was full. False: nothing
 * will; *out_code is written when the wait itself failed. *tries counts the
 * waits for chunks that went back before.
 */
static bool
wait_for_memory(struct supply *s, int *tries, CUresult *out_code)
{
	bool trimmed, waits, returned;
	uint64_t seq = 0;
	CUresult r;

	pthread_mutex_lock(&s->lock);
	waits = shim_heap_oldest(&s->heap, &seq);
	trimmed = shim_heap_trim(&s->heap);
	returned = s->returned;
	if (!waits && returned)
		seq = s->returned_seq;
	if (*tries == RETURN_TRIES)
		s->returned = false;
	pthread_mutex_unlock(&s->lock);
	if (trimmed)
		return true;
	if (!waits && (!returned || *tries == RETURN_TRIES))
		return false;
	r = shim_chan_wait(s->chan, seq);
	if (r != CUDA_SUCCESS) {
		*out_code = r;
		return false;
	}
	if (!waits)
		shim_nap(UINT64_C(1000000) << (*tries)++);
	return true;
}

CUresult
shim_supply_alloc(struct shim_chan *chan, bool host, uint64_t size,
		  struct shim_block **out_block)
{
	struct supply *s = get_supply(chan, host);
	CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
	int r, tries = 0, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	do {
		pthread_mutex_lock(&s->lock);
		r = shim_heap_alloc(&s->heap, size, out_block);
		if (r)
			code = r < 0 ? CUDA_ERROR_OUT_OF_MEMORY : s->code;
		pthread_mutex_unlock(&s->lock);
	} while (r == HEAP_E_FULL && code == CUDA_ERROR_OUT_OF_MEMORY &&
		 (wait_for_memory(s, &tries, &code) || shim_ipc_sweep()));
	pthread_setcancelstate(state, NULL);
	return r ? code : CUDA_SUCCESS;
}

CUresult
shim_supply_free(struct shim_chan *chan, bool host, struct shim_block *block)
{
	struct supply *s = get_supply(chan, host);
	uint64_t seq = shim_chan_seq(chan);
	CUresult r = CUDA_SUCCESS;
	int state;

	/* For programs that use cudaFree as a barrier. */
	if (shim_process.sync_free)
		r = shim_chan_fence(chan);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&s->lock);
	shim_heap_free(&s->heap, block, seq);
	pthread_mutex_unlock(&s->lock);
	pthread_setcancelstate(state, NULL);
	return r;
}

CUresult
shim_supply_file(struct shim_chan *chan, uint64_t size, uint64_t *out_address,
		 uint64_t *out_id, int *out_fd)
{
	struct supply *s = get_supply(chan, true);
	CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
	int r, tries = 0, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	do {
		pthread_mutex_lock(&s->lock);
		s->code = CUDA_SUCCESS;
		r = place(s, size, out_address, out_id, out_fd);
		if (r)
			code = r < 0 ? CUDA_ERROR_OUT_OF_MEMORY : s->code;
		pthread_mutex_unlock(&s->lock);
	} while (r > 0 && code == CUDA_ERROR_OUT_OF_MEMORY &&
		 wait_for_memory(s, &tries, &code));
	pthread_setcancelstate(state, NULL);
	return r ? code : CUDA_SUCCESS;
}

void
shim_supply_unfile(struct shim_chan *chan, uint64_t address, uint64_t size,
		   uint64_t id)
{
	struct supply *s = get_supply(chan, true);
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&s->lock);
	shrink(s, address, size, id);
	pthread_mutex_unlock(&s->lock);
	pthread_setcancelstate(state, NULL);
}

CUresult
shim_supply_reserve(struct shim_chan *chan, uint64_t size, uint64_t align,
		    uint64_t *out_address, uint64_t *out_piece)
{
	struct supply *s = get_supply(chan, false);
	int r, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&s->lock);
	s->code = CUDA_SUCCESS;
	r = take_aligned(&s->reserved, size, align, out_address, out_piece);
	pthread_mutex_unlock(&s->lock);
	pthread_setcancelstate(state, NULL);
	/* Whatever the broker says: there is no room. */
	return r ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void
shim_supply_unreserve(struct shim_chan *chan, uint64_t address, uint64_t size)
{
	struct supply *s = get_supply(chan, false);

	pthread_mutex_lock(&s->lock);
	shim_va_give(&s->reserved, address, size);
	pthread_mutex_unlock(&s->lock);
}

bool
shim_supply_wait(struct shim_chan *chan, int *tries, CUresult *out_code)
{
	struct supply *s = get_supply(chan, false);

	*out_code = CUDA_ERROR_OUT_OF_MEMORY;
	return wait_for_memory(s, tries, out_code) || shim_ipc_sweep();
}

bool
shim_supply_trim(struct shim_chan *chan, CUresult *out_code)
{
	int tries = 0;

	return shim_supply_wait(chan, &tries, out_code);
}

void
shim_supply_release(struct shim_chan *chan)
{
	struct supply *s = get_supply(chan, false);
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&s->lock);
	shim_heap_trim(&s->heap);
	pthread_mutex_unlock(&s->lock);
	pthread_setcancelstate(state, NULL);
}

uint64_t
shim_supply_idle(struct shim_chan *chan, bool host)
{
	struct supply *s = get_supply(chan, host);
	uint64_t idle;

	pthread_mutex_lock(&s->lock);
	shim_heap_tick(&s->heap);
	idle = shim_heap_spare(&s->heap);
	pthread_mutex_unlock(&s->lock);
	return idle;
}

void
shim_supply_chunk(const struct shim_block *block, uint64_t *out_address,
		  uint64_t *out_size, uint64_t *out_id)
{
	*out_address = block->chunk->address;
	*out_size = block->chunk->size;
	*out_id = block->chunk->id;
}
