/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one process in another. A handle stands for a block; who opens it
 * has the whole chunk mapped at an address of its own, as natively, where
 * addresses differ as well and small blocks share pages. What is opened lives
 * until it is closed, whatever its exporter does: a freed block is kept from
 * its heap meanwhile, and the chunk outlives its process.
 */
#include "shim/ipc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/mempool.h"
#include "shim/process.h"
#include "shim/range.h"
#include "shim/relax.h"
#include "shim/supply.h"
#include "shim_impl.h"

/* Who has closed it may still have work on it: waits of 1, 2 … 128 ms. */
#define CLOSING_TRIES 8

/* A block that others may open. */
struct exported {
	struct exported *next;
	uint64_t buffer_id;
	struct ipc_handle handle;
	bool kept;                    /* freed, as far as the program goes */
	struct shim_range range;      /* then */
};

/* A block of another process, and the chunk that it lies in. */
struct opened {
	struct opened *next;
	struct shim_context *ctx;
	uint64_t id;                  /* of the export */
	uint64_t refs;
	uint64_t base, size, chunk;
	uint64_t address;             /* of the block */
	bool of_pool;
};

/* Guards all below, and is held while the broker is asked. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct exported *exports;
static struct opened *opens;
/* For those who have none: no lock. */
static atomic_uint nexports, nopens;

/* ---- exported ----------------------------------------------------------- */

static struct exported *
find_export(uint64_t buffer_id)
{
	struct exported *e = exports;

	while (e && e->buffer_id != buffer_id)
		e = e->next;
	return e;
}

static CUresult
share_locked(const struct shim_range *range, enum ipc_kind kind,
	     struct ipc_handle *out_handle)
{
	uint64_t chunk, base, size, pool = 0;
	struct exported *e = find_export(range->buffer_id);
	CUresult r;

	if (e) {
		*out_handle = e->handle;
		return CUDA_SUCCESS;
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	shim_supply_chunk(range->block, &base, &size, &chunk);
	if (range->pool)
		pool = range->pool->object.handle;
	r = shim_ipc_export_block(kind, chunk, range->start - base,
				  range->size, pool, &e->handle);
	if (r != CUDA_SUCCESS) {
		free(e);
		return r;
	}
	e->buffer_id = range->buffer_id;
	e->next = exports;
	exports = e;
	atomic_fetch_add(&nexports, 1);
	*out_handle = e->handle;
	return CUDA_SUCCESS;
}

CUresult
shim_ipc_share(const struct shim_range *range, enum ipc_kind kind,
	       struct ipc_handle *out_handle)
{
	CUresult r;

	pthread_mutex_lock(&lock);
	r = share_locked(range, kind, out_handle);
	pthread_mutex_unlock(&lock);
	return r;
}

static void
forget(struct exported **link)
{
	struct exported *e = *link;

	*link = e->next;
	atomic_fetch_sub(&nexports, 1);
	free(e);
}

/* *out_closing: another one soon can be freed. */
static bool
sweep_locked(bool *out_closing)
{
	struct exported **link = &exports, *e;
	struct shim_chan *chan;
	bool any = false, closing = false;

	*out_closing = false;
	while ((e = *link)) {
		if (!e->kept || shim_ipc_withdraw(e->handle.id, &closing)) {
			*out_closing |= e->kept && closing;
			link = &e->next;
			continue;
		}
		if (shim_chan_get(e->range.device, &chan) == CUDA_SUCCESS)
			shim_supply_free(chan, false, e->range.block);
		forget(link);
		any = true;
	}
	return any;
}

bool
shim_ipc_sweep(void)
{
	bool any, closing;
	int tries = 0;

	if (!atomic_load(&nexports))
		return false;
	for (;;) {
		pthread_mutex_lock(&lock);
		any = sweep_locked(&closing);
		pthread_mutex_unlock(&lock);
		if (any || !closing || tries == CLOSING_TRIES)
			return any;
		shim_nap(UINT64_C(1000000) << tries++);
	}
}

bool
shim_ipc_keep(const struct shim_range *range)
{
	struct exported **link = &exports;
	bool kept = false, closing;

	if (!atomic_load(&nexports))
		return false;
	pthread_mutex_lock(&lock);
	sweep_locked(&closing);
	while (*link && (*link)->buffer_id != range->buffer_id)
		link = &(*link)->next;
	if (*link) {
		kept = shim_ipc_withdraw((*link)->handle.id, &closing);
		(*link)->kept = kept;
		(*link)->range = *range;
		if (!kept)
			forget(link);
	}
	pthread_mutex_unlock(&lock);
	return kept;
}

/* ---- opened ------------------------------------------------------------- */

/* Of what the broker says nothing is believed: the block must lie in its
 * chunk, or copies would be checked against nonsense. */
static CUresult
place(struct opened *o, const struct ipc_handle *handle,
      const struct shim_ipc_look *look, struct shim_mempool *pool)
{
	struct shim_range range = {
		.size = look->size, .kind = RANGE_OPENED,
		.device = o->ctx->device, .ctx = o->ctx, .block = o,
		.pool = pool,
	};
	struct shim_chan *chan = o->ctx->chan;
	uint64_t piece;
	CUresult r;

	o->size = look->chunk_size;
	if (look->size > o->size || look->offset > o->size - look->size)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	r = shim_supply_reserve(chan, o->size, 0, &o->base, &piece);
	if (r != CUDA_SUCCESS)
		return r;
	r = shim_ipc_import(handle, piece, o->base, &o->chunk);
	range.start = o->address = o->base + look->offset;
	if (r == CUDA_SUCCESS && shim_range_add(&range)) {
		shim_ipc_free(o->chunk);
		r = CUDA_ERROR_MAP_FAILED;
	}
	if (r != CUDA_SUCCESS)
		shim_supply_unreserve(chan, o->base, o->size);
	return r;
}

static CUresult
open_new(struct shim_context *ctx, const struct ipc_handle *handle,
	 struct shim_mempool *pool, struct opened **out)
{
	_cleanup_free_ struct opened *o = calloc(1, sizeof(*o));
	struct shim_ipc_look look;
	CUresult r = shim_ipc_look(handle, &look);

	if (r != CUDA_SUCCESS)
		return r;
	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* One worker a device: no other one reaches its memory. */
	if (look.device != ctx->device)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (pool && !shim_mempool_is_from(pool, look.client, look.pool))
		return CUDA_ERROR_INVALID_VALUE;
	o->ctx = ctx;
	o->id = handle->id;
	o->of_pool = pool != NULL;
	r = place(o, handle, &look, pool);
	if (r != CUDA_SUCCESS)
		return r;
	o->next = opens;
	opens = o;
	atomic_fetch_add(&nopens, 1);
	*out = steal_ptr(&o);
	return CUDA_SUCCESS;
}

CUresult
shim_ipc_open(struct shim_context *ctx, const struct ipc_handle *handle,
	      struct shim_mempool *pool, uint64_t *out_address)
{
	CUresult r = CUDA_SUCCESS;
	struct opened *o;

	pthread_mutex_lock(&lock);
	for (o = opens; o; o = o->next)
		if (o->id == handle->id && o->ctx == ctx &&
		    o->of_pool == (pool != NULL))
			break;
	if (!o)
		r = open_new(ctx, handle, pool, &o);
	if (r == CUDA_SUCCESS) {
		o->refs++;
		*out_address = o->address;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static CUresult
end_locked(struct opened **link)
{
	struct opened *o = *link;
	struct shim_chan *chan = o->ctx->chan;
	struct shim_range range;
	CUresult r;

	shim_range_remove(o->address, RANGE_OPENED, &range);
	/* The broker's word to the worker must not overtake ours. */
	shim_chan_wait_issued(chan);
	r = shim_ipc_free(o->chunk);
	if (r == CUDA_SUCCESS)
		shim_supply_unreserve(chan, o->base, o->size);
	*link = o->next;
	atomic_fetch_sub(&nopens, 1);
	free(o);
	return r;
}

CUresult
shim_ipc_close(uint64_t address, bool of_pool)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct opened **link = &opens;

	if (!atomic_load(&nopens))
		return r;
	pthread_mutex_lock(&lock);
	while (*link && ((*link)->address != address ||
			 (*link)->of_pool != of_pool))
		link = &(*link)->next;
	if (*link)
		r = --(*link)->refs ? CUDA_SUCCESS : end_locked(link);
	pthread_mutex_unlock(&lock);
	return r;
}

void
shim_ipc_drop_context(struct shim_context *ctx)
{
	struct opened **link = &opens;

	if (!atomic_load(&nopens))
		return;
	pthread_mutex_lock(&lock);
	while (*link) {
		if ((*link)->ctx == ctx)
			end_locked(link);
		else
			link = &(*link)->next;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- entry points ------------------------------------------------------- */

CUresult
shim_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	CUresult r = shim_capture_unsafe();
	struct ipc_handle handle;
	struct shim_range range;

	if (r != CUDA_SUCCESS)
		return r;
	/* As natively: any address in the block, but not of every block. */
	if (!pHandle || shim_range_find(dptr, &range) ||
	    range.kind != RANGE_DEVICE || range.pool)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_ipc_share(&range, IPC_MEMORY, &handle);
	if (r == CUDA_SUCCESS)
		memcpy(pHandle, &handle, sizeof(handle));
	return r;
}

CUresult
shim_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle,
			   unsigned int Flags)
{
	struct ipc_handle ours;
	uint64_t address;
	CUresult r = shim_capture_unsafe();

	if (r != CUDA_SUCCESS)
		return r;
	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&ours, &handle, sizeof(ours));
	if (!shim_ipc_is(&ours, IPC_MEMORY))
		return CUDA_ERROR_INVALID_HANDLE;
	/* The process has it already, at its own address. */
	if (ours.client == shim_process.hello->client)
		return CUDA_ERROR_INVALID_CONTEXT;
	r = shim_ipc_open(shim_current, &ours, NULL, &address);
	if (r == CUDA_SUCCESS)
		*pdptr = address;
	return r;
}

CUresult
shim_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	CUresult r = shim_capture_unsafe();

	return r != CUDA_SUCCESS ? r : shim_ipc_close(dptr, false);
}
