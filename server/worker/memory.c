/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory is VMM chunks at addresses of the broker's choice, exported
 * so that they outlive this process; pinned memory is a shared mapping at
 * the same address here and in the client. None of the calls for a chunk
 * waits for running kernels (measured), only cuMemHostUnregister does.
 */
#include "server/worker/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/shmem.h"
#include "server/worker/crash.h"
#include "server/worker/module.h"

/*
 * Device memory that no client gets: for their code and its local memory, for
 * a compiler in a process of its own, and for the next worker's context,
 * since what clients have outlives this one. On an H200 a context takes
 * 526 MiB; a small device has less to spare.
 */
#define BALLAST (UINT64_C(1) << 30)
#define BALLAST_SHARE 16u

void
wkr_ballast_read(void)
{
	const char *set = getenv("MPSSHIM_BALLAST_MB");

	if (set && *set)
		wkr.ballast = (uint64_t)strtoull(set, NULL, 10) << 20;
	else if (wkr.total_memory / BALLAST_SHARE < BALLAST)
		wkr.ballast = wkr.total_memory / BALLAST_SHARE;
	else
		wkr.ballast = BALLAST;
}

CUresult
wkr_memory_left(uint64_t *out_size)
{
	size_t left = 0, total = 0;
	CUresult r = wkr_ok(wkr.drv.cuMemGetInfo_v2(&left, &total));

	*out_size = r == CUDA_SUCCESS && left > wkr.ballast ?
			    left - wkr.ballast :
			    0;
	return r;
}

bool
wkr_memory_fits(uint64_t size)
{
	uint64_t left;

	return wkr_memory_left(&left) == CUDA_SUCCESS && size <= left;
}

CUresult
wkr_memory_get(uint64_t size, int fd, CUmemGenericAllocationHandle *out)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
			     .id = wkr.device},
	};

	if (fd < 0 && !wkr_memory_fits(size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (fd < 0)
		return wkr_ok(wkr.drv.cuMemCreate(out, size, &prop, 0));
	return wkr_ok(wkr.drv.cuMemImportFromShareableHandle(
		out, (void *)(uintptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

CUresult
wkr_memory_export(CUmemGenericAllocationHandle memory, int *fd)
{
	*fd = -1;
	return wkr_ok(wkr.drv.cuMemExportToShareableHandle(
		fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

static CUresult
map_memory(uint64_t address, uint64_t size, CUmemGenericAllocationHandle memory)
{
	CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
			     .id = wkr.device},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUresult r;

	r = wkr_ok(wkr.drv.cuMemMap(address, size, 0, memory, 0));
	if (r != CUDA_SUCCESS)
		return r;
	r = wkr_ok(wkr.drv.cuMemSetAccess(address, size, &access, 1));
	if (r != CUDA_SUCCESS)
		wkr_ok(wkr.drv.cuMemUnmap(address, size));
	return r;
}

static int
add_range(struct wkr_client *client, struct wkr_range *range)
{
	int r;

	pthread_mutex_lock(&client->lock);
	r = wkr_ranges_add(&client->ranges, range);
	pthread_mutex_unlock(&client->lock);
	return r;
}

static CUresult
make_chunk(struct wkr_range *range, int *fd)
{
	bool import = *fd >= 0;
	int exported = -1;
	CUresult r;

	r = wkr_memory_get(range->size, *fd, &range->memory);
	if (r != CUDA_SUCCESS)
		return r;
	r = map_memory(range->base, range->size, range->memory);
	if (r == CUDA_SUCCESS && !import) {
		r = wkr_memory_export(range->memory, &exported);
		if (r != CUDA_SUCCESS)
			wkr_ok(wkr.drv.cuMemUnmap(range->base, range->size));
	}
	if (r != CUDA_SUCCESS)
		wkr_ok(wkr.drv.cuMemRelease(range->memory));
	else if (!import)
		*fd = exported;
	return r;
}

CUresult
wkr_chunk_add(struct wkr_client *client, const Mps__WorkerChunk *m, int *fd,
	      const char **out_why)
{
	struct wkr_range *range;
	CUresult r;

	if (!m->size || m->size % wkr.granularity ||
	    m->address % wkr.granularity ||
	    !wkr_windows_hold(m->address, m->size, false)) {
		*out_why = "a chunk outside the address window";
		return CUDA_ERROR_INVALID_VALUE;
	}
	range = calloc(1, sizeof(*range));
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->base = m->address;
	range->size = m->size;
	range->kind = WKR_CHUNK;
	range->id = m->chunk;
	r = make_chunk(range, fd);
	if (r != CUDA_SUCCESS) {
		*out_why = "the driver does not give the memory";
		free(range);
		return r;
	}
	atomic_fetch_add(&client->device_bytes, range->size);
	if (add_range(client, range) == 0)
		return CUDA_SUCCESS;
	wkr_range_free(client, range);
	*out_why = "the address is in use";
	return CUDA_ERROR_INVALID_VALUE;
}

static void
reserve_again(const struct wkr_range *range)
{
	mmap((void *)(uintptr_t)range->base, range->size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static CUresult
register_host(const struct wkr_range *range, const char **out_why)
{
	void *address = (void *)(uintptr_t)range->base;
	CUdeviceptr device = 0;
	CUresult r;

	r = wkr_ok(wkr.drv.cuMemHostRegister_v2(
		address, range->size,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
	if (r != CUDA_SUCCESS) {
		*out_why = "the driver does not register the memory";
		return r;
	}
	r = wkr_ok(wkr.drv.cuMemHostGetDevicePointer_v2(&device, address, 0));
	if (r == CUDA_SUCCESS && device == range->base)
		return CUDA_SUCCESS;
	*out_why = "kernels see the memory at another address";
	wkr_ok(wkr.drv.cuMemHostUnregister(address));
	return r != CUDA_SUCCESS ? r : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult
wkr_host_add(struct wkr_client *client, const Mps__WorkerHost *m, int fd,
	     const char **out_why)
{
	struct wkr_range *range;
	CUresult r;

	if (!m->size || m->size % 4096 || m->address % 4096 ||
	    !wkr_windows_hold(m->address, m->size, true) ||
	    shmem_size(fd) < (long)m->size) {
		*out_why = "pinned memory outside the window or its file";
		return CUDA_ERROR_INVALID_VALUE;
	}
	range = calloc(1, sizeof(*range));
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->base = m->address;
	range->size = m->size;
	range->kind = WKR_HOST;
	range->id = m->id;
	/* First into the list: two at one address must not map over each
	 * other. The broker's address map sees to it across clients. */
	if (add_range(client, range) < 0) {
		free(range);
		*out_why = "the address is in use";
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (mmap((void *)(uintptr_t)range->base, range->size,
		 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 0) == MAP_FAILED) {
		*out_why = "the memory cannot be mapped";
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		r = register_host(range, out_why);
	}
	if (r == CUDA_SUCCESS) {
		atomic_fetch_add(&client->host_bytes, range->size);
		return r;
	}
	reserve_again(range);
	pthread_mutex_lock(&client->lock);
	wkr_ranges_remove(&client->ranges, range);
	pthread_mutex_unlock(&client->lock);
	free(range);
	return r;
}

void
wkr_range_free(struct wkr_client *client, struct wkr_range *range)
{
	void *address = (void *)(uintptr_t)range->base;

	switch (range->kind) {
	case WKR_CHUNK:
		wkr_ok(wkr.drv.cuMemUnmap(range->base, range->size));
		wkr_ok(wkr.drv.cuMemRelease(range->memory));
		atomic_fetch_sub(&client->device_bytes, range->size);
		break;
	case WKR_HOST:
		wkr_ok(wkr.drv.cuMemHostUnregister(address));
		reserve_again(range);
		atomic_fetch_sub(&client->host_bytes, range->size);
		break;
	case WKR_GLOBAL:
		break; /* lives and ends with its module */
	case WKR_MAPPING:
		wkr_ok(wkr.drv.cuMemUnmap(range->base, range->size));
		break;
	case WKR_MEMORY:
		wkr_ok(wkr.drv.cuMemRelease(range->memory));
		atomic_fetch_sub(&client->device_bytes, range->size);
		break;
	case WKR_ARRAY:
		wkr_array_free(range);
		break;
	}
	free(range);
}

struct reaping {
	struct wkr_job job;
	struct wkr_client *client;
	struct wkr_range *range;
	uint64_t control_id;
};

static enum wkr_job_result
reap(struct wkr_job *job)
{
	struct reaping *j = (struct reaping *)job;
	struct wkr_client *client = j->client;

	wkr_at_work(client, "memory given back");
	if (j->range->kind == WKR_HOST && !wkr_gate_enter())
		return WKR_JOB_AGAIN;
	/* Somebody may wait for the memory of an array. */
	if (j->range->kind == WKR_ARRAY && !wkr_gate_enter())
		return WKR_JOB_AGAIN;
	pthread_mutex_lock(&client->lock);
	if (j->range->kind == WKR_MEMORY || j->range->kind == WKR_ARRAY)
		wkr_unplaced_remove(client, j->range);
	else
		wkr_ranges_remove(&client->ranges, j->range);
	pthread_mutex_unlock(&client->lock);
	wkr_range_free(client, j->range);
	wkr_control_done(j->control_id, CUDA_SUCCESS, "", -1);
	wkr_client_unpin(client);
	free(j);
	return WKR_JOB_DONE;
}

void
wkr_range_reap(struct wkr_client *client, struct wkr_range *range,
	       uint64_t control_id)
{
	struct reaping *j = calloc(1, sizeof(*j));

	if (!j) {
		wkr_control_done(control_id, CUDA_ERROR_OUT_OF_MEMORY,
				 "the worker is out of memory", -1);
		return;
	}
	j->job.run = reap;
	j->client = client;
	j->range = range;
	j->control_id = control_id;
	wkr_client_pin(client);
	wkr_queue_add(&wkr.reaper, &j->job);
}
