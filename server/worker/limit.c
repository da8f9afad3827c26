/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the context, where it is one client's alone. Memory that they
 * take is the driver's and no chunk of the vault: it has to leave what no
 * client gets, and by itself it may be as much as a client may have.
 */
#include "server/worker/call.h"
#include "server/worker/memory.h"

static uint64_t
attribute(CUdevice_attribute which)
{
	int value = 0;

	wkr_ok(wkr.drv.cuDeviceGetAttribute(&value, which, wkr.device));
	return value > 0 ? (uint64_t)value : 0;
}

/* Bytes of device memory for each one of the limit's unit. */
static uint64_t
bytes_each(CUlimit limit)
{
	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
		return attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *
		       attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
	case CU_LIMIT_PRINTF_FIFO_SIZE:
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		return 1;
	default:
		return 0;
	}
}

/* What is more than the whole device has is the driver's to refuse. */
static CUresult
check_room(CUlimit limit, uint64_t value)
{
	uint64_t each = bytes_each(limit), more;
	size_t now = 0;

	wkr_ok(wkr.drv.cuCtxGetLimit(&now, limit));
	if (!each || value <= now || value > wkr.total_memory / each)
		return CUDA_SUCCESS;
	more = (value - now) * each;
	if (value * each > wkr.client_memory || !wkr_memory_fits(more))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult
wkr_mpsLimitSet(struct wkr_call *call, uint32_t limit, uint64_t value,
		uint64_t *kept)
{
	CUresult r = CUDA_SUCCESS;
	size_t now = 0;

	/* The context that others share keeps what it has. */
	if (!wkr.solo)
		return CUDA_ERROR_NOT_PERMITTED;
	/* In a worker that takes over, it has been granted before. */
	if (!call->client->restore)
		r = check_room((CUlimit)limit, value);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuCtxSetLimit((CUlimit)limit, value));
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuCtxGetLimit(&now, (CUlimit)limit));
	*kept = now;
	return r;
}
