/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private export table: tags of streams and times of kernels.
 */
#include <string.h>

#include "server/soft/soft_ctx.h"
#include "server/soft/soft_ledger.h"
#include "server/soft/softcuda.h"

static CUresult
set_stream_tag(CUstream handle, uint64_t tag)
{
	struct soft_stream *stream;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (res)
		return res;
	pthread_mutex_lock(&soft_sched.lock);
	stream->tag = tag;
	pthread_mutex_unlock(&soft_sched.lock);
	return CUDA_SUCCESS;
}

static CUresult
overlap_ns(uint64_t *out_ns)
{
	if (!out_ns)
		return CUDA_ERROR_INVALID_VALUE;
	*out_ns = soft_account_overlap_ns();
	return CUDA_SUCCESS;
}

static CUresult
kernel_ns(uint64_t tag, uint64_t *out_ns)
{
	if (!out_ns || !tag)
		return CUDA_ERROR_INVALID_VALUE;
	*out_ns = soft_account_kernel_ns(tag);
	return CUDA_SUCCESS;
}

static CUresult
memory_left(int ordinal, uint64_t *out_bytes)
{
	struct soft_device *dev = soft_device_get(ordinal);

	if (!out_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	*out_bytes = dev->memory_total - soft_ledger_used(dev);
	return CUDA_SUCCESS;
}

static const struct softcuda_table table = {
	.size = sizeof(table),
	.set_stream_tag = set_stream_tag,
	.overlap_ns = overlap_ns,
	.kernel_ns = kernel_ns,
	.memory_left = memory_left,
};

CUresult
cuGetExportTable(const void **out, const CUuuid *id)
{
	if (!out || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	if (memcmp(id, SOFTCUDA_TABLE_ID, sizeof(*id)))
		return CUDA_ERROR_INVALID_VALUE;
	*out = &table;
	return CUDA_SUCCESS;
}
