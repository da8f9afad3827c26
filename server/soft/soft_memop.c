/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream memory operations: writing and waiting for values.
 */
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_mem.h"
#include "server/soft/soft_work.h"

#define WAIT_FLAGS 0x3u
#define BATCH_MAX 256u     /* as the driver documents */

static bool
is_wide(CUstreamBatchMemOpType op)
{
	return op == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
	       op == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static uint64_t
value_at(uint64_t addr, bool wide)
{
	/* Acquire: what was written before the value is seen after it. */
	if (wide)
		return __atomic_load_n((uint64_t *)(uintptr_t)addr,
				       __ATOMIC_ACQUIRE);
	return __atomic_load_n((uint32_t *)(uintptr_t)addr, __ATOMIC_ACQUIRE);
}

static bool
is_met(const CUstreamBatchMemOpParams *op)
{
	bool wide = is_wide(op->operation);
	uint64_t want = wide ? op->waitValue.value64 : op->waitValue.value;
	uint64_t have = value_at(op->waitValue.address, wide);
	uint64_t mask = wide ? ~0ull : 0xffffffffull;

	switch (op->waitValue.flags & WAIT_FLAGS) {
	case CU_STREAM_WAIT_VALUE_EQ:
		return have == want;
	case CU_STREAM_WAIT_VALUE_AND:
		return have & want;
	case CU_STREAM_WAIT_VALUE_NOR:
		return ~(have | want) & mask;
	default:
		return wide ? (int64_t)(have - want) >= 0 :
			      (int32_t)(uint32_t)(have - want) >= 0;
	}
}

static void
store(const CUstreamBatchMemOpParams *op)
{
	uint64_t addr = op->writeValue.address;

	if (is_wide(op->operation))
		__atomic_store_n((uint64_t *)(uintptr_t)addr,
				 op->writeValue.value64, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)(uintptr_t)addr,
				 op->writeValue.value, __ATOMIC_RELEASE);
}

/* Inside a slice. Memory that went away under a wait poisons. */
bool
soft_memops_poll(struct soft_work *work)
{
	for (; work->memops.next < work->memops.count; work->memops.next++) {
		CUstreamBatchMemOpParams *op =
			&work->memops.ops[work->memops.next];
		size_t size = is_wide(op->operation) ? 8 : 4;

		switch (op->operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
			if (!soft_mem_check(op->waitValue.address, size, false))
				goto out_fault;
			if (!is_met(op))
				return false;
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			if (!soft_mem_check(op->writeValue.address, size, true))
				goto out_fault;
			store(op);
			break;
		default:
			atomic_thread_fence(memory_order_seq_cst);
			break;
		}
	}
	return true;
out_fault:
	soft_log("stream memory operation on memory that is not mapped");
	soft_poison(CUDA_ERROR_ILLEGAL_ADDRESS);
	return false;
}

static CUresult
op_check(const CUstreamBatchMemOpParams *op)
{
	size_t size = is_wide(op->operation) ? 8 : 4;

	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		if (op->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (op->waitValue.flags & ~WAIT_FLAGS)
			return CUDA_ERROR_INVALID_VALUE;
		if (op->waitValue.address % size ||
		    !soft_mem_check(op->waitValue.address, size, false))
			return CUDA_ERROR_INVALID_VALUE;
		return CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		/* Version 2 knows no write without a barrier. */
		if (op->writeValue.flags)
			return CUDA_ERROR_INVALID_VALUE;
		if (op->writeValue.address % size ||
		    !soft_mem_check(op->writeValue.address, size, true))
			return CUDA_ERROR_INVALID_VALUE;
		return CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_BARRIER:
		return op->memoryBarrier.flags > 1 ?
		       CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
soft_memops_work(unsigned count, const CUstreamBatchMemOpParams *ops,
		 unsigned flags, struct soft_work **out)
{
	struct soft_work *work;
	CUresult res = CUDA_SUCCESS;

	if (count > BATCH_MAX || flags || (count && !ops))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && !res; i++)
		res = op_check(&ops[i]);
	if (res)
		return res;
	work = soft_work_new(SOFT_WORK_MEMOPS);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->memops.ops = malloc(count * sizeof(*ops) + 1);
	if (!work->memops.ops) {
		soft_work_free(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (count)
		memcpy(work->memops.ops, ops, count * sizeof(*ops));
	work->memops.count = count;
	*out = work;
	return CUDA_SUCCESS;
}

CUresult
cuStreamBatchMemOp_v2(CUstream handle, unsigned int count,
		      CUstreamBatchMemOpParams *ops, unsigned int flags)
{
	struct soft_stream *stream;
	struct soft_work *work;
	CUresult res = soft_stream_from(handle, &stream, NULL);

	if (!res && count)
		soft_follow(ops);
	if (!res)
		res = soft_memops_work(count, ops, flags, &work);
	if (res)
		return res;
	if (!count) {
		soft_work_free(work);
		return CUDA_SUCCESS;
	}
	work->memops.ctx = (CUcontext)stream->ctx;
	return soft_issue(stream, work, NULL);
}

static CUresult
one(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr addr,
    uint64_t value, unsigned flags)
{
	CUstreamBatchMemOpParams op;

	memset(&op, 0, sizeof(op));
	op.waitValue.operation = type;
	op.waitValue.address = addr;
	op.waitValue.flags = flags;
	if (is_wide(type))
		op.waitValue.value64 = value;
	else
		op.waitValue.value = (uint32_t)value;
	return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

CUresult
cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
			unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult
cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
			unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

CUresult
cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
		       unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult
cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
		       unsigned int flags)
{
	return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}
