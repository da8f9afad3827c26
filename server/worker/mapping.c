/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and addresses apart, as programs have them by the virtual memory
 * API. The broker has checked that memory and address are the client's, and
 * asks memory back only after its mappings.
 */
#include <stdlib.h>

#include "server/worker/memory.h"

static void
unplaced_add(struct wkr_client *client, struct wkr_range *range)
{
	pthread_mutex_lock(&client->lock);
	range->next = client->unplaced;
	client->unplaced = range;
	pthread_mutex_unlock(&client->lock);
}

struct wkr_range *
wkr_unplaced_find(struct wkr_client *client, uint64_t id)
{
	struct wkr_range *range = client->unplaced;

	while (range && range->id != id)
		range = range->next;
	return range;
}

void
wkr_unplaced_remove(struct wkr_client *client, struct wkr_range *range)
{
	struct wkr_range **link = &client->unplaced;

	while (*link && *link != range)
		link = &(*link)->next;
	if (*link)
		*link = range->next;
}

/* At the client's end. Arrays that still have a handle go with the other
 * objects. */
void
wkr_unplaced_drop(struct wkr_client *client)
{
	struct wkr_range *range;

	while ((range = client->unplaced)) {
		client->unplaced = range->next;
		wkr_range_free(client, range);
	}
}

static struct wkr_range *
range_new(enum wkr_range_kind kind, uint64_t id, uint64_t base, uint64_t size)
{
	struct wkr_range *range = calloc(1, sizeof(*range));

	if (range) {
		range->kind = kind;
		range->id = id;
		range->base = base;
		range->size = size;
	}
	return range;
}

CUresult
wkr_memory_add(struct wkr_client *client, const Mps__WorkerChunk *m, int *fd,
	       const char **out_why)
{
	_cleanup_free_ struct wkr_range *range =
		range_new(WKR_MEMORY, m->chunk, 0, m->size);
	CUresult r;

	*out_why = "the driver does not give the memory";
	if (!m->size || m->size % wkr.granularity)
		return CUDA_ERROR_INVALID_VALUE;
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = wkr_memory_get(m->size, *fd, &range->memory);
	if (r != CUDA_SUCCESS)
		return r;
	if (*fd < 0)
		r = wkr_memory_export(range->memory, fd);
	if (r != CUDA_SUCCESS) {
		wkr_ok(wkr.drv.cuMemRelease(range->memory));
		return r;
	}
	atomic_fetch_add(&client->device_bytes, range->size);
	unplaced_add(client, steal_ptr(&range));
	return CUDA_SUCCESS;
}

CUresult
wkr_mapping_add(struct wkr_client *client, const Mps__WorkerMapping *m,
		const char **out_why)
{
	_cleanup_free_ struct wkr_range *range =
		range_new(WKR_MAPPING, m->mapping, m->address, m->size);
	struct wkr_range *memory;
	CUresult r;
	int added;

	*out_why = "a mapping of no memory, or outside the address window";
	pthread_mutex_lock(&client->lock);
	memory = wkr_unplaced_find(client, m->chunk);
	pthread_mutex_unlock(&client->lock);
	if (!memory || memory->kind != WKR_MEMORY || memory->leaving ||
	    !m->size || m->size % wkr.granularity ||
	    m->address % wkr.granularity || m->size > memory->size ||
	    !wkr_windows_hold(m->address, m->size, false))
		return CUDA_ERROR_INVALID_VALUE;
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out_why = "the driver does not map the memory";
	r = wkr_ok(wkr.drv.cuMemMap(m->address, m->size, 0, memory->memory,
				    0));
	if (r != CUDA_SUCCESS)
		return r;
	range->closed = true;
	pthread_mutex_lock(&client->lock);
	added = wkr_ranges_add(&client->ranges, range);
	pthread_mutex_unlock(&client->lock);
	if (added == 0) {
		steal_ptr(&range);
		return CUDA_SUCCESS;
	}
	wkr_ok(wkr.drv.cuMemUnmap(m->address, m->size));
	*out_why = "the address is in use";
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult
wkr_mapping_open(struct wkr_client *client, uint64_t id, const char **out_why)
{
	CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
			     .id = wkr.device},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	struct wkr_range *range;
	CUresult r;

	/* This thread alone marks ranges as leaving, so it stays. */
	pthread_mutex_lock(&client->lock);
	range = wkr_ranges_find(&client->ranges, WKR_MAPPING, id);
	pthread_mutex_unlock(&client->lock);
	*out_why = "no such mapping";
	if (!range || range->leaving)
		return CUDA_ERROR_INVALID_VALUE;
	*out_why = "the driver does not give access";
	r = wkr_ok(wkr.drv.cuMemSetAccess(range->base, range->size, &access,
					  1));
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&client->lock);
	range->closed = false;
	pthread_mutex_unlock(&client->lock);
	return CUDA_SUCCESS;
}

