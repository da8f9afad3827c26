/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of other processes. An imported pool is a name: whose it is, and its
 * number there; blocks are opened one by one, and only if they are of it.
 */
#include <string.h>

#include "shim/ctx.h"
#include "shim/ipc.h"
#include "shim/mempool.h"
#include "shim/range.h"
#include "shim_impl.h"

CUresult
shim_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
				      CUmemAllocationHandleType handleType,
				      unsigned long long flags)
{
	struct shim_mempool *found = shim_mempool_get(pool);
	CUresult r;
	int fd;

	if (!handle_out || flags || !found || !found->shareable ||
	    handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_ipc_export_pool(found->device, found->object.handle, &fd);
	if (r == CUDA_SUCCESS) {
		*(int *)handle_out = fd;
		atomic_store(&found->exported, true);
	}
	return r;
}

CUresult
shim_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
					CUmemAllocationHandleType handleType,
					unsigned long long flags)
{
	struct shim_mempool *pool;
	struct shim_ipc_look look;
	struct ipc_handle token;
	CUresult r;

	if (!pool_out || flags ||
	    handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_ipc_token((int)(intptr_t)handle, IPC_TOKEN_POOL, &token);
	if (r == CUDA_SUCCESS)
		r = shim_ipc_look(&token, &look);
	if (r == CUDA_ERROR_INVALID_HANDLE ||
	    (r == CUDA_SUCCESS && look.device < 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	pool = shim_mempool_make(look.device, 0);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->client = look.client;
	pool->number = look.pool;
	*pool_out = (CUmemoryPool)(uintptr_t)pool->object.handle;
	return CUDA_SUCCESS;
}

CUresult
shim_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out,
			    CUdeviceptr ptr)
{
	struct ipc_handle handle;
	struct shim_range range;
	CUresult r;

	if (!shareData_out || shim_range_find(ptr, &range) ||
	    range.kind != RANGE_DEVICE || !range.pool ||
	    !atomic_load(&range.pool->exported))
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_ipc_share(&range, IPC_POOL_MEMORY, &handle);
	if (r == CUDA_SUCCESS)
		memcpy(shareData_out, &handle, sizeof(handle));
	return r;
}

CUresult
shim_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
			    CUmemPoolPtrExportData *shareData)
{
	struct shim_mempool *found = shim_mempool_get(pool);
	struct ipc_handle handle;
	uint64_t address;
	CUresult r;

	if (!ptr_out || !shareData || !found || !found->client)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&handle, shareData, sizeof(handle));
	if (!shim_ipc_is(&handle, IPC_POOL_MEMORY))
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_ipc_open(shim_current, &handle, found, &address);
	if (r == CUDA_SUCCESS)
		*ptr_out = address;
	return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
}
