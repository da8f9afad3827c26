/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management between processes, and questions about it.
 */
#include "server/soft/soft_vmm.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "server/soft/soft_ledger.h"

CUresult
cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle value,
			     CUmemAllocationHandleType type,
			     unsigned long long flags)
{
	CUresult res = soft_enter_live();
	struct soft_vmm_handle *handle;
	int fd = -1;

	if (res)
		return res;
	if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_vmm_lock);
	handle = soft_vmm_from(value);
	if (!handle || !(handle->backing->handle_types & type))
		res = CUDA_ERROR_INVALID_VALUE;
	else
		fd = fcntl(handle->backing->fd, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0)
		soft_ledger_share(&handle->backing->file);
	pthread_mutex_unlock(&soft_vmm_lock);
	if (res)
		return res;
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

static CUresult
import_known_locked(const struct stat *st, bool *out_known,
		    CUmemGenericAllocationHandle *out)
{
	struct soft_vmm_handle *handle;
	struct soft_backing *b = soft_backings;

	while (b && (b->file.st_dev != st->st_dev ||
		     b->file.st_ino != st->st_ino))
		b = b->next;
	*out_known = b;
	if (!b)
		return CUDA_SUCCESS;
	handle = soft_vmm_handle_locked(b);
	if (!handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (uintptr_t)handle;
	return CUDA_SUCCESS;
}

/* Only memory that a software device made: sealed, so that nobody can cut
 * it off under a running kernel. */
static bool
is_device_memory(int fd, struct stat *st)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, st) &&
	       S_ISREG(st->st_mode) && st->st_size > 0 &&
	       soft_is_granular((uint64_t)st->st_size);
}

CUresult
cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out,
			       void *os_handle, CUmemAllocationHandleType type)
{
	CUresult res = soft_enter_live();
	int fd = (int)(intptr_t)os_handle;
	struct soft_ctx *ctx;
	struct stat st;
	bool known;

	if (res)
		return res;
	if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_device_memory(fd, &st))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_vmm_lock);
	res = import_known_locked(&st, &known, out);
	pthread_mutex_unlock(&soft_vmm_lock);
	if (res || known)
		return res;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	ctx = soft_ctx_current();
	res = soft_vmm_adopt(ctx ? ctx->device : &soft.devices[0], fd, &st,
			     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, out);
	if (!res)
		soft_ledger_share(&st);
	return res;
}

CUresult
cuMemGetAllocationGranularity(size_t *granularity,
			      const CUmemAllocationProp *prop,
			      CUmemAllocationGranularity_flags option)
{
	CUresult res = soft_enter();

	if (!res)
		res = soft_vmm_prop_check(prop);
	if (res)
		return res;
	if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
			     option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SOFT_GRANULARITY;
	return CUDA_SUCCESS;
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
				       CUmemGenericAllocationHandle value)
{
	CUresult res = soft_enter_live();
	struct soft_vmm_handle *handle;

	if (res)
		return res;
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_vmm_lock);
	handle = soft_vmm_from(value);
	if (handle) {
		memset(prop, 0, sizeof(*prop));
		prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
		prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		prop->location.id = handle->backing->device->ordinal;
		prop->requestedHandleTypes = (CUmemAllocationHandleType)
					     handle->backing->handle_types;
	}
	pthread_mutex_unlock(&soft_vmm_lock);
	return handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *addr)
{
	CUresult res = soft_enter_live();
	struct soft_vmm_handle *handle = NULL;
	struct soft_mapping *m;

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_vmm_lock);
	m = soft_vmm_at_locked((uintptr_t)addr);
	if (m) {
		if (soft_handle_is(m->handle, SOFT_HANDLE_VMM))
			handle = m->handle;
		if (handle && handle->backing == m->backing)
			handle->refs++;
		else
			handle = m->handle = soft_vmm_handle_locked(m->backing);
	}
	pthread_mutex_unlock(&soft_vmm_lock);
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (uintptr_t)handle;
	return CUDA_SUCCESS;
}

bool
soft_vmm_handle_types(uint64_t addr, unsigned *out_types)
{
	struct soft_mapping *m;

	pthread_mutex_lock(&soft_vmm_lock);
	m = soft_vmm_at_locked(addr);
	if (m)
		*out_types = m->backing->handle_types;
	pthread_mutex_unlock(&soft_vmm_lock);
	return m;
}
