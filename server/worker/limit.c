/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the context, where it is one client's alone. Memory that they
 * take is the driver's and no chunk of the vault: it has to leave what no
 * client gets, by itself it may be as much as a client may have, and it counts
 * with what the client has otherwise (taken.c).
 */
#include "server/worker/call.h"
#include "server/worker/memory.h"
#include "server/worker/taken.h"

/* What is more than the whole device has is the driver's to refuse. */
static CUresult
check_room(const struct wkr_client *client, CUlimit limit, uint64_t value)
{
	uint64_t each = wkr_limit_bytes(limit), more;
	size_t now = 0;

	wkr_ok(wkr.drv.cuCtxGetLimit(&now, limit));
	if (!each || value <= now || value > wkr.total_memory / each)
		return CUDA_SUCCESS;
	more = (value - now) * each;
	if (value * each > client->device_limit || !wkr_memory_fits(more))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult
wkr_mpsLimitSet(struct wkr_call *call, uint32_t limit, uint64_t value,
		uint64_t *kept)
{
	CUresult r = CUDA_SUCCESS;
	size_t was = 0, now = 0;

	/* The context that others share keeps what it has. */
	if (!wkr.solo)
		return CUDA_ERROR_NOT_PERMITTED;
	/* In a worker that takes over, it has been granted before. */
	if (!call->client->restore)
		r = check_room(call->client, (CUlimit)limit, value);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuCtxGetLimit(&was, (CUlimit)limit));
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuCtxSetLimit((CUlimit)limit, value));
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuCtxGetLimit(&now, (CUlimit)limit));
	if (r == CUDA_SUCCESS && now != was) {
		wkr_taken_limit((CUlimit)limit, was, now);
		wkr_taken_say(call->client);
	}
	*kept = now;
	return r;
}
