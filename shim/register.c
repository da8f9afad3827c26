/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own pages, registered. The worker cannot map them, so copies
 * pass through staging memory, until the program wants a device address (it
 * registers for that, or asks for one): then the pages are exchanged for
 * pinned memory with the same contents, which kernels know at an address of
 * its own, the alias (attribute CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0).
 * Only private anonymous memory can be exchanged: of a shared mapping, other
 * processes would keep the old pages.
 */
#include "shim/register.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/pages.h"
#include "shim/process.h"
#include "shim/relax.h"
#include "shim/supply.h"
#include "shim_impl.h"

#define KNOWN_FLAGS (CU_MEMHOSTREGISTER_PORTABLE | \
		     CU_MEMHOSTREGISTER_DEVICEMAP | \
		     CU_MEMHOSTREGISTER_IOMEMORY | \
		     CU_MEMHOSTREGISTER_READ_ONLY)
/* Pages asked about at a time. */
#define PAGES 1024

/* Pages of registrations that lie in pinned memory: those of one, of which
 * others may have what they leave of its first and its last page. */
struct exchange {
	LIST_ENTRY(exchange) link;
	struct shim_pages pages;
	struct shim_chan *chan;
	uint64_t alias, id;     /* of the pinned memory */
	unsigned int users;     /* registrations; 0: it cannot be undone */
};

/* Guards the list, and that pages are exchanged by one thread at a time. Held
 * across fork, whose child finds every exchange whole. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, exchange) exchanges = LIST_HEAD_INITIALIZER(exchanges);
/* What a child closes when the mixed pages are its own. */
static int forked[2] = { -1, -1 };
/* For a child that cannot. */
#define FORK_WAIT_MS 1000

/* Is something mapped at every page of it? */
static bool
is_there(uint64_t address, uint64_t size)
{
	uint64_t at = address / PAGES_SIZE * PAGES_SIZE, end = address + size;
	unsigned char residency[PAGES];

	while (at < end) {
		uint64_t step = end - at < PAGES * PAGES_SIZE ? end - at :
							  PAGES * PAGES_SIZE;

		if (mincore((void *)(uintptr_t)at, step, residency) < 0 &&
		    errno != EAGAIN)
			return false;
		at += PAGES * PAGES_SIZE;
	}
	return true;
}

/* ---- exchanging --------------------------------------------------------- */

static void
fork_prepare(void)
{
	struct exchange *x;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(x, &exchanges, link)
		if (x->pages.mixed && forked[0] < 0 &&
		    pipe2(forked, O_CLOEXEC) < 0)
			forked[0] = forked[1] = -1;
}

/* Its end of the pipe is closed, whatever signals come meanwhile. */
static void
await_child(void)
{
	struct pollfd end = { .fd = forked[0] };
	uint64_t last = shim_now_ns() + FORK_WAIT_MS * UINT64_C(1000000);

	while (poll(&end, 1, FORK_WAIT_MS) < 0 && errno == EINTR &&
	       shim_now_ns() < last)
		;
}

/* What this thread writes next into its heap the child must not see. */
static void
fork_parent(void)
{
	int state;

	if (forked[0] >= 0) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		close(forked[1]);
		await_child();
		close(forked[0]);
		forked[0] = forked[1] = -1;
		pthread_setcancelstate(state, NULL);
	}
	pthread_mutex_unlock(&lock);
}

static void
fork_child(void)
{
	struct exchange *x;

	LIST_FOREACH(x, &exchanges, link)
		shim_pages_forked(&x->pages);
	LIST_INIT(&exchanges);
	if (forked[0] >= 0) {
		close(forked[0]);
		close(forked[1]);
		forked[0] = forked[1] = -1;
	}
	pthread_mutex_unlock(&lock);
}

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_watched;

static void
watch_fork(void)
{
	fork_watched = pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void
exchange_free(struct exchange *x)
{
	if (shim_fd_is_ours(&x->pages.file))
		close(x->pages.file.fd);
	shim_supply_unfile(x->chan, x->alias, x->pages.size, x->id);
	free(x);
}

static CUresult
refuse(const char *why)
{
	log_once(LOG_WARN, "registered memory gets no device address: %s", why);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* A code of pages.h, in words. */
static const char *
why_not(int code)
{
	switch (code) {
	case PAGES_E_ADVISED:
		return "madvise was told of too many parts of it";
	case PAGES_E_PINNED:
		return "pages of this program are pinned for a device or the "
		       "kernel";
	case PAGES_E_SHARED:
		return "it is not whole pages, and this system does not let us "
		       "hold up other threads that write there";
	default:
		return "it is not private anonymous memory";
	}
}

/* The pages of this range, exchanged. Caller holds the lock. */
static CUresult
exchange_new(const struct shim_range *range, struct exchange **out)
{
	_cleanup_free_ struct exchange *x = calloc(1, sizeof(*x));
	int fd = -1, r;
	CUresult code;

	if (!x)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = shim_pages_check(range->start, range->size, &x->pages);
	if (r > 0)
		return refuse(why_not(r));
	pthread_once(&fork_once, watch_fork);
	if (r < 0 || fork_watched)
		return CUDA_ERROR_OPERATING_SYSTEM;
	code = shim_chan_get(range->device, &x->chan);
	if (code == CUDA_SUCCESS)
		code = shim_supply_file(x->chan, x->pages.size, &x->alias,
					&x->id, &fd);
	if (code != CUDA_SUCCESS)
		return code;
	x->pages.mirror = (uint8_t *)(uintptr_t)x->alias;
	r = shim_fd_init(&x->pages.file, fd);
	if (!r)
		r = shim_pages_share(&x->pages);
	if (r) {
		exchange_free(steal_ptr(&x));
		return r < 0 ? CUDA_ERROR_OUT_OF_MEMORY : refuse(why_not(r));
	}
	x->users = 1;
	LIST_INSERT_HEAD(&exchanges, x, link);
	*out = steal_ptr(&x);
	return CUDA_SUCCESS;
}

/* The pages of this range, exchanged for it or for another before. Caller
 * holds the lock. */
static CUresult
exchange_get(const struct shim_range *range, struct exchange **out)
{
	struct exchange *x;

	LIST_FOREACH(x, &exchanges, link)
		if (x->users && shim_chan_device(x->chan) == range->device &&
		    range->start >= x->pages.start &&
		    range->start + range->size <=
		    x->pages.start + x->pages.size &&
		    shim_pages_are_file(&x->pages, range->start, range->size))
			break;
	if (!x)
		return exchange_new(range, out);
	x->users++;
	*out = x;
	return CUDA_SUCCESS;
}

/* After the last, the pages are the program's own again. Caller holds the
 * lock. */
static void
exchange_put(struct exchange *x)
{
	if (--x->users)
		return;
	if (shim_pages_own(&x->pages)) {
		log_line(LOG_INFO, "pages at %#llx stay registered: this system "
			 "no longer lets us hold up other threads",
			 (unsigned long long)x->pages.start);
		return;
	}
	LIST_REMOVE(x, link);
	exchange_free(x);
}

static CUresult
make_alias(struct shim_range *range)
{
	struct shim_range alias = *range;
	struct exchange *x;
	CUresult r = exchange_get(range, &x);

	if (r != CUDA_SUCCESS)
		return r;
	range->other = x->alias + (range->start - x->pages.start);
	alias.kind = RANGE_ALIAS;
	alias.start = range->other;
	alias.other = range->start;
	if (shim_range_add(&alias)) {
		exchange_put(x);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* Unregistered meanwhile: then nobody else would undo it. */
	if (shim_range_set_alias(range->start, range->other, x)) {
		shim_range_remove(alias.start, RANGE_ALIAS, &alias);
		exchange_put(x);
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult
shim_register_alias(uint64_t address, uint64_t *out_alias)
{
	CUresult r = CUDA_SUCCESS;
	struct shim_range range;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&lock);
	if (shim_range_find(address, &range) || range.kind != RANGE_REGISTERED)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (range.device != shim_current->device)
		r = refuse("it was registered on another device");
	else if (!range.other && shim_process.perf & SHIM_NO_SWAP)
		r = refuse("MPSSHIM_PERF has no_swap");
	else if (!range.other)
		r = make_alias(&range);
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(state, NULL);
	if (r == CUDA_SUCCESS)
		*out_alias = range.other + (address - range.start);
	return r;
}

void
shim_register_drop(const struct shim_range *range)
{
	struct exchange *x = range->block;
	struct shim_range alias;
	int state;

	if (!x)
		return;
	/* Kernels may write there still; natively unregistering waits, too. */
	shim_chan_fence(x->chan);
	shim_range_remove(range->other, RANGE_ALIAS, &alias);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&lock);
	exchange_put(x);
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(state, NULL);
}

/* ---- entry points ------------------------------------------------------- */

static CUresult
add(const struct shim_range *range)
{
	struct shim_range other = {0};

	switch (shim_range_add(range)) {
	case 0:
		return CUDA_SUCCESS;
	case RANGE_E_OVERLAP:
		return shim_range_find(range->start, &other) ||
		       other.kind == RANGE_REGISTERED ?
		       CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED :
		       CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
}

CUresult
shim_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	struct shim_context *ctx = shim_current;
	struct shim_range range = {
		.start = (uintptr_t)p, .size = bytesize,
		.kind = RANGE_REGISTERED, .device = ctx->device,
		.flags = Flags, .ctx = ctx,
	};
	uint64_t alias;
	CUresult r;

	if (!p || !bytesize || Flags & ~(unsigned int)KNOWN_FLAGS ||
	    (uintptr_t)p + bytesize < bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_there((uintptr_t)p, bytesize))
		return CUDA_ERROR_INVALID_VALUE;
	r = add(&range);
	if (r != CUDA_SUCCESS || !(Flags & CU_MEMHOSTREGISTER_DEVICEMAP))
		return r;
	r = shim_register_alias((uintptr_t)p, &alias);
	if (r != CUDA_SUCCESS)
		shim_range_remove((uintptr_t)p, RANGE_REGISTERED, &range);
	return r;
}

CUresult
shim_cuMemHostUnregister(void *p)
{
	struct shim_range range;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	/* What is posted has taken its bytes, what waits has its turn. */
	if (!shim_range_remove((uintptr_t)p, RANGE_REGISTERED, &range)) {
		shim_register_drop(&range);
		return CUDA_SUCCESS;
	}
	/* Not its start, or memory that was not registered but made. */
	return shim_range_find((uintptr_t)p, &range) ?
	       CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED :
	       CUDA_ERROR_INVALID_VALUE;
}
