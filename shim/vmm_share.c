/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory without an address in another process. What programs pass on is a
 * token of the broker's, never the driver's own descriptor: that would keep
 * memory of the GPU alive behind every limit.
 */
#include "shim/chan.h"
#include "shim/ipc.h"
#include "shim/vmm.h"
#include "shim_impl.h"

CUresult
shim_cuMemExportToShareableHandle(void *shareableHandle,
				  CUmemGenericAllocationHandle handle,
				  CUmemAllocationHandleType handleType,
				  unsigned long long flags)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct shim_memory *memory;
	int fd = -1;

	/* Other types cannot have been requested. */
	if (!shareableHandle || flags ||
	    handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return r;
	shim_vmm_lock();
	memory = shim_object_get(HANDLE_MEMORY, handle);
	if (memory && memory->prop.requestedHandleTypes & handleType)
		r = shim_ipc_export_memory(memory->id, memory->size, &fd);
	shim_vmm_unlock();
	if (r == CUDA_SUCCESS)
		*(int *)shareableHandle = fd;
	return r;
}

static CUresult
import_locked(const struct ipc_handle *handle,
	      const struct shim_ipc_look *look, struct shim_memory **out)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = look->device },
	};
	struct shim_chan *chan;
	uint64_t id = 0;
	CUresult r = shim_chan_get(look->device, &chan);

	if (r == CUDA_SUCCESS)
		r = shim_ipc_import(handle, 0, 0, &id);
	return r != CUDA_SUCCESS ? r :
	       shim_vmm_adopt(look->device, look->size, &prop, id, out);
}

CUresult
shim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
				    void *osHandle,
				    CUmemAllocationHandleType shHandleType)
{
	struct shim_memory *memory;
	struct shim_ipc_look look;
	struct ipc_handle token;
	CUresult r;

	if (!handle || shHandleType == CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_INVALID_VALUE;
	if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* The driver's word for a number that is no descriptor. */
	if ((int)(intptr_t)osHandle < 0)
		return CUDA_ERROR_UNKNOWN;
	r = shim_ipc_token((int)(intptr_t)osHandle, IPC_TOKEN_MEMORY, &token);
	if (r == CUDA_SUCCESS)
		r = shim_ipc_look(&token, &look);
	/* Of another broker, or of a device that is hidden here. */
	if (r == CUDA_ERROR_INVALID_HANDLE ||
	    (r == CUDA_SUCCESS && look.device < 0))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (r != CUDA_SUCCESS)
		return r;
	shim_vmm_lock();
	r = import_locked(&token, &look, &memory);
	if (r == CUDA_SUCCESS)
		*handle = memory->object.handle;
	shim_vmm_unlock();
	return r;
}
