/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and addresses apart.
 *
 * Physical memory is an unmapped chunk of the broker's, counted and kept as
 * every other; addresses come from pieces of our own that hold nothing else.
 * A mapping ends, in the worker, when the work posted before has retired, and
 * the broker gives its address out again only then.
 */
#include "shim/vmm.h"

#include <pthread.h>
#include <stdlib.h>

#include "proto/err.h"
#include "shim/chan.h"
#include "shim/ipc.h"
#include "shim/process.h"
#include "shim/range.h"
#include "shim/supply.h"

struct reservation {
	struct reservation *next;
	uint64_t base, size, piece;
	uint64_t nmappings;
	int device;
};

/* Guards all of this file, and what vmm_api.c does. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation *reservations;

void
shim_vmm_lock(void)
{
	pthread_mutex_lock(&lock);
}

void
shim_vmm_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* ---- addresses ---------------------------------------------------------- */

CUresult
shim_vmm_reserve(int device, uint64_t size, uint64_t align,
		 uint64_t *out_address)
{
	struct reservation *made = calloc(1, sizeof(*made));
	struct shim_chan *chan;
	CUresult r = made ? shim_chan_get(device, &chan) :
			    CUDA_ERROR_OUT_OF_MEMORY;

	if (r == CUDA_SUCCESS)
		r = shim_supply_reserve(chan, size, align, &made->base,
					&made->piece);
	if (r != CUDA_SUCCESS) {
		free(made);
		return r;
	}
	made->size = size;
	made->device = device;
	made->next = reservations;
	reservations = made;
	*out_address = made->base;
	return CUDA_SUCCESS;
}

static struct reservation *
reservation_of(uint64_t address, uint64_t size)
{
	struct reservation *at = reservations;

	while (at && (address < at->base || address - at->base >= at->size ||
		      size > at->size - (address - at->base)))
		at = at->next;
	return at;
}

CUresult
shim_vmm_unreserve(uint64_t address, uint64_t size)
{
	struct reservation **link = &reservations, *r;
	struct shim_chan *chan;

	while ((r = *link) && (r->base != address || r->size != size))
		link = &r->next;
	if (!r || r->nmappings)
		return CUDA_ERROR_INVALID_VALUE;
	*link = r->next;
	if (shim_chan_get(r->device, &chan) == CUDA_SUCCESS)
		shim_supply_unreserve(chan, address, size);
	free(r);
	return CUDA_SUCCESS;
}

/* ---- memory ------------------------------------------------------------- */

/* A ChunkReply's id. */
static CUresult
ask_id(Mps__Control *message, uint64_t *out_id)
{
	Mps__Control *answer;
	CUresult r = shim_supply_ask(message, MPS__CONTROL__BODY_CHUNK_REPLY,
				     &answer, NULL);

	if (r != CUDA_SUCCESS)
		return r;
	r = (CUresult)answer->chunk_reply->status;
	*out_id = answer->chunk_reply->chunk;
	mps__control__free_unpacked(answer, NULL);
	return r;
}

static CUresult
ask_memory(int device, uint64_t size, uint64_t *out_id)
{
	Mps__Control message = MPS__CONTROL__INIT;
	Mps__Chunk body = MPS__CHUNK__INIT;

	body.device = shim_process.devices[device].real;
	body.size = size;
	body.unmapped = true;
	message.body_case = MPS__CONTROL__BODY_CHUNK;
	message.chunk = &body;
	return ask_id(&message, out_id);
}

CUresult
shim_vmm_create(int device, uint64_t size, const CUmemAllocationProp *prop,
		struct shim_memory **out_memory)
{
	struct shim_chan *chan;
	CUresult r = shim_chan_get(device, &chan), why;
	uint64_t id = 0;

	if (r != CUDA_SUCCESS)
		return r;
	do
		r = ask_memory(device, size, &id);
	/* What our heap holds and does not use may be what lacks. */
	while (r == CUDA_ERROR_OUT_OF_MEMORY && shim_supply_trim(chan, &why));
	return r != CUDA_SUCCESS ? r :
	       shim_vmm_adopt(device, size, prop, id, out_memory);
}

CUresult
shim_vmm_adopt(int device, uint64_t size, const CUmemAllocationProp *prop,
	       uint64_t id, struct shim_memory **out_memory)
{
	_cleanup_free_ struct shim_memory *memory = calloc(1, sizeof(*memory));
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (memory) {
		memory->id = id;
		memory->size = size;
		memory->device = device;
		memory->prop = *prop;
		r = shim_vmm_retain(memory);
	}
	if (r == CUDA_SUCCESS)
		*out_memory = steal_ptr(&memory);
	else
		shim_ipc_free(id);
	return r;
}

CUresult
shim_vmm_retain(struct shim_memory *memory)
{
	if (!memory->refs &&
	    shim_object_add(HANDLE_MEMORY, &memory->object) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory->refs++;
	return CUDA_SUCCESS;
}

static CUresult
end_unused(struct shim_memory *memory)
{
	CUresult r;

	if (memory->refs || memory->nmappings)
		return CUDA_SUCCESS;
	r = shim_ipc_free(memory->id);
	free(memory);
	return r;
}

CUresult
shim_vmm_release(struct shim_memory *memory)
{
	if (!--memory->refs)
		shim_object_remove(HANDLE_MEMORY, memory->object.handle);
	return end_unused(memory);
}

/* ---- mappings ----------------------------------------------------------- */

static CUresult
ask_mapping(const struct shim_memory *memory, const struct reservation *r,
	    uint64_t address, uint64_t size, uint64_t *out_id)
{
	Mps__Control message = MPS__CONTROL__INIT;
	Mps__Mapping body = MPS__MAPPING__INIT;

	body.device = shim_process.devices[memory->device].real;
	body.chunk = memory->id;
	body.piece = r->piece;
	body.address = address;
	body.size = size;
	message.body_case = MPS__CONTROL__BODY_MAPPING;
	message.mapping = &body;
	return ask_id(&message, out_id);
}

CUresult
shim_vmm_map(struct shim_memory *memory, uint64_t address, uint64_t size)
{
	struct reservation *reservation = reservation_of(address, size);
	struct shim_mapping *mapping;
	struct shim_range range = {
		.start = address, .size = size, .kind = RANGE_MAPPED,
		.device = memory->device, .closed = true,
		.handle_types = (unsigned)memory->prop.requestedHandleTypes,
	};
	CUresult r;

	if (!reservation || size > memory->size)
		return CUDA_ERROR_INVALID_VALUE;
	/* One worker a device: their addresses differ. */
	if (reservation->device != memory->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapping->memory = memory;
	range.block = mapping;
	/* First into the map: it knows of overlaps. */
	if (shim_range_add(&range)) {
		free(mapping);
		return CUDA_ERROR_INVALID_VALUE;
	}
	r = ask_mapping(memory, reservation, address, size, &mapping->id);
	if (r != CUDA_SUCCESS) {
		shim_range_remove(address, RANGE_MAPPED, &range);
		free(mapping);
		return r;
	}
	memory->nmappings++;
	reservation->nmappings++;
	return CUDA_SUCCESS;
}

bool
shim_vmm_is_mapped(uint64_t address, uint64_t size)
{
	uint64_t end = address + size;
	struct shim_range range;

	while (address < end) {
		if (shim_range_find(address, &range) ||
		    range.kind != RANGE_MAPPED || range.start != address ||
		    range.size > end - address)
			return false;
		address += range.size;
	}
	return true;
}

bool
shim_vmm_is_empty(uint64_t address, uint64_t size)
{
	struct reservation *reservation = reservation_of(address, size);
	struct shim_range range;

	if (!reservation)
		return false;
	for (uint64_t at = 0; reservation->nmappings && at < size;
	     at += VMM_GRANULE)
		if (!shim_range_find(address + at, &range))
			return false;
	return true;
}

static CUresult
unmap_one(const struct shim_range *range)
{
	struct shim_mapping *mapping = range->block;
	struct shim_memory *memory = mapping->memory;
	struct reservation *reservation = reservation_of(range->start,
							 range->size);
	CUresult r = shim_ipc_free(mapping->id), ended;

	free(mapping);
	/* No mapping without one. */
	if (reservation)
		reservation->nmappings--;
	memory->nmappings--;
	ended = end_unused(memory);
	return r ? r : ended;
}

CUresult
shim_vmm_unmap(uint64_t address, uint64_t size)
{
	uint64_t end = address + size;
	CUresult first = CUDA_SUCCESS, r;
	struct shim_chan *chan = NULL;
	struct shim_range range;

	while (address < end &&
	       !shim_range_remove(address, RANGE_MAPPED, &range)) {
		r = CUDA_SUCCESS;
		/* The broker's word to the worker must not overtake ours. */
		if (!chan)
			r = shim_chan_get(range.device, &chan);
		if (r == CUDA_SUCCESS)
			shim_chan_wait_issued(chan);
		r = unmap_one(&range);
		first = first ? first : r;
		address += range.size;
	}
	return first;
}

CUresult
shim_vmm_open(uint64_t address, uint64_t size)
{
	uint64_t end = address + size;
	struct shim_range range;

	for (; address < end; address += range.size) {
		Mps__Control message = MPS__CONTROL__INIT;
		Mps__Access body = MPS__ACCESS__INIT;
		CUresult r;

		if (shim_range_find(address, &range))
			return CUDA_ERROR_INVALID_VALUE;
		if (!range.closed)
			continue;
		body.mapping = ((struct shim_mapping *)range.block)->id;
		message.body_case = MPS__CONTROL__BODY_ACCESS;
		message.access = &body;
		r = shim_ask_done(&message);
		if (r != CUDA_SUCCESS)
			return r;
		shim_range_open(address);
	}
	return CUDA_SUCCESS;
}
