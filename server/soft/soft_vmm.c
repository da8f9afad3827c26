/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: physical memory is a sealed memfd, so that a
 * descriptor alone keeps it, also when the process that made it has died.
 * None of these calls waits for the device.
 */
#include "server/soft/soft_vmm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/soft/soft_ledger.h"

/* Guards everything here. Taken before the range table's lock. */
pthread_mutex_t soft_vmm_lock = PTHREAD_MUTEX_INITIALIZER;
struct soft_backing *soft_backings;
static struct soft_reservation *reservations;

bool
soft_is_granular(uint64_t value)
{
	return !(value & (SOFT_GRANULARITY - 1));
}

static struct soft_reservation *
reservation_of_locked(uint64_t base, uint64_t end)
{
	for (struct soft_reservation *r = reservations; r; r = r->next)
		if (base >= r->base && end <= r->end)
			return r;
	return NULL;
}

static void
backing_unref_locked(struct soft_backing *backing)
{
	struct soft_backing **at = &soft_backings;

	if (--backing->refs)
		return;
	while (*at != backing)
		at = &(*at)->next;
	*at = backing->next;
	close(backing->fd);
	soft_ledger_drop(backing->device, &backing->file);
	free(backing);
}

/* Takes over fd on success. */
static struct soft_backing *
backing_new_locked(struct soft_device *dev, int fd, const struct stat *st,
		   unsigned handle_types)
{
	struct soft_backing *backing = calloc(1, sizeof(*backing));

	if (!backing)
		return NULL;
	if (soft_mem_fails() || !soft_ledger_hold(dev, st)) {
		free(backing);
		return NULL;
	}
	backing->fd = fd;
	backing->file = *st;
	backing->size = (size_t)st->st_size;
	backing->device = dev;
	backing->handle_types = handle_types;
	backing->next = soft_backings;
	soft_backings = backing;
	return backing;
}

struct soft_vmm_handle *
soft_vmm_handle_locked(struct soft_backing *backing)
{
	struct soft_vmm_handle *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	if (!soft_handle_add(handle, SOFT_HANDLE_VMM)) {
		free(handle);
		return NULL;
	}
	handle->refs = 1;
	handle->backing = backing;
	backing->refs++;
	return handle;
}

struct soft_vmm_handle *
soft_vmm_from(CUmemGenericAllocationHandle handle)
{
	return soft_handle_get((void *)(uintptr_t)handle, SOFT_HANDLE_VMM);
}

CUresult
cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
		    CUdeviceptr addr, unsigned long long flags)
{
	CUresult res = soft_enter_live();
	size_t align = alignment > SOFT_GRANULARITY ? alignment :
		       SOFT_GRANULARITY;
	struct soft_reservation *r;
	uint64_t base;
	char *map = MAP_FAILED;

	if (res)
		return res;
	if (!ptr || !size || flags || !soft_is_granular(size) ||
	    !soft_is_granular(addr) || size > (size_t)1 << 47 ||
	    (alignment && (alignment & (alignment - 1))))
		return CUDA_ERROR_INVALID_VALUE;
	r = calloc(1, sizeof(*r));
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* The asked address is a hint; it is honoured whenever free. */
	if (addr && !(addr & (align - 1)))
		map = mmap((void *)(uintptr_t)addr, size, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			   MAP_FIXED_NOREPLACE, -1, 0);
	/* Kernels before 4.17 take the flag for a hint. */
	if (map != MAP_FAILED && (uintptr_t)map != addr) {
		munmap(map, size);
		map = MAP_FAILED;
	}
	if (map == MAP_FAILED) {
		map = mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE |
			   MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (map == MAP_FAILED) {
			free(r);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		base = ((uintptr_t)map + align - 1) & ~((uint64_t)align - 1);
		if (base > (uintptr_t)map)
			munmap(map, base - (uintptr_t)map);
		munmap((void *)(uintptr_t)(base + size),
		       (uintptr_t)map + align - base);
	} else {
		base = addr;
	}
	r->base = base;
	r->end = base + size;
	pthread_mutex_lock(&soft_vmm_lock);
	r->next = reservations;
	reservations = r;
	pthread_mutex_unlock(&soft_vmm_lock);
	*ptr = base;
	return CUDA_SUCCESS;
}

CUresult
cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	CUresult res = soft_enter_live();
	struct soft_reservation **at, *r = NULL;

	if (res)
		return res;
	pthread_mutex_lock(&soft_vmm_lock);
	for (at = &reservations; *at; at = &(*at)->next)
		if ((*at)->base == ptr && (*at)->end == ptr + size)
			break;
	if (*at && !(*at)->mappings) {
		r = *at;
		*at = r->next;
	}
	pthread_mutex_unlock(&soft_vmm_lock);
	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	munmap((void *)(uintptr_t)ptr, size);
	free(r);
	return CUDA_SUCCESS;
}

CUresult
soft_vmm_prop_check(const CUmemAllocationProp *prop)
{
	const unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return prop->location.type > CU_MEM_LOCATION_TYPE_DEVICE ?
		       CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	if (!soft_device_get(prop->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	if ((unsigned)prop->requestedHandleTypes & ~known)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

/* A memfd of this size that can neither shrink nor grow. */
static int
memfd_new(size_t size)
{
	int fd = memfd_create(SOFT_LEDGER_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd;
}

/* Takes over fd in any case. */
CUresult
soft_vmm_adopt(struct soft_device *dev, int fd, const struct stat *st,
	       unsigned types, CUmemGenericAllocationHandle *out)
{
	struct soft_vmm_handle *handle = NULL;
	struct soft_backing *backing;

	pthread_mutex_lock(&soft_vmm_lock);
	backing = backing_new_locked(dev, fd, st, types);
	if (!backing)
		close(fd);
	if (backing) {
		backing->refs = 1;
		handle = soft_vmm_handle_locked(backing);
		backing_unref_locked(backing);
	}
	pthread_mutex_unlock(&soft_vmm_lock);
	if (!handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (uintptr_t)handle;
	return CUDA_SUCCESS;
}

CUresult
cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
	    const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult res = soft_enter_live();
	struct stat st;
	int fd;

	if (!res)
		res = soft_vmm_prop_check(prop);
	if (res)
		return res;
	if (!out || !size || flags || !soft_is_granular(size))
		return CUDA_ERROR_INVALID_VALUE;
	if (size > soft.devices[prop->location.id].memory_total)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fd = memfd_new(size);
	if (fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (fstat(fd, &st)) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	return soft_vmm_adopt(&soft.devices[prop->location.id], fd, &st,
		     (unsigned)prop->requestedHandleTypes, out);
}

CUresult
cuMemRelease(CUmemGenericAllocationHandle value)
{
	CUresult res = soft_enter_live();
	struct soft_vmm_handle *handle;

	if (res)
		return res;
	pthread_mutex_lock(&soft_vmm_lock);
	handle = soft_vmm_from(value);
	if (handle && !--handle->refs) {
		soft_handle_del(handle, SOFT_HANDLE_VMM);
		backing_unref_locked(handle->backing);
		free(handle);
	}
	pthread_mutex_unlock(&soft_vmm_lock);
	return handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool
is_mapped_locked(const struct soft_reservation *r, uint64_t base, uint64_t end)
{
	for (struct soft_mapping *m = r->mappings; m; m = m->next)
		if (m->base < end && base < m->end)
			return true;
	return false;
}

static CUresult
map_locked(uint64_t base, size_t size, size_t offset,
	   struct soft_vmm_handle *handle)
{
	struct soft_reservation *r = reservation_of_locked(base, base + size);
	struct soft_mapping *m;
	void *map;

	if (!r || is_mapped_locked(r, base, base + size) ||
	    offset > handle->backing->size ||
	    size > handle->backing->size - offset)
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	map = mmap((void *)(uintptr_t)base, size, PROT_NONE,
		   MAP_SHARED | MAP_FIXED, handle->backing->fd,
		   (off_t)offset);
	if (map == MAP_FAILED) {
		free(m);
		return CUDA_ERROR_MAP_FAILED;
	}
	m->base = base;
	m->end = base + size;
	m->offset = offset;
	m->handle = handle;
	m->backing = handle->backing;
	m->backing->refs++;
	m->next = r->mappings;
	r->mappings = m;
	return CUDA_SUCCESS;
}

CUresult
cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
	 CUmemGenericAllocationHandle value, unsigned long long flags)
{
	CUresult res = soft_enter_live();
	struct soft_vmm_handle *handle;

	if (res)
		return res;
	if (!ptr || !size || flags || !soft_is_granular(ptr) ||
	    !soft_is_granular(size) || !soft_is_granular(offset) || ptr + size < ptr)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_vmm_lock);
	handle = soft_vmm_from(value);
	res = handle ? map_locked(ptr, size, offset, handle) :
	      CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&soft_vmm_lock);
	return res;
}

/* Take the mapping's pages away from kernels. */
static void
revoke_locked(struct soft_mapping *m)
{
	if (m->access)
		soft_range_free(soft_range_take(m->base, SOFT_RANGE_VMM));
	m->access = 0;
}

static CUresult
unmap_locked(uint64_t base, uint64_t end)
{
	struct soft_reservation *r = reservation_of_locked(base, end);
	struct soft_mapping **at;
	uint64_t covered = 0;

	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct soft_mapping *m = r->mappings; m; m = m->next) {
		if (m->base >= base && m->end <= end)
			covered += m->end - m->base;
		else if (m->base < end && base < m->end)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (covered != end - base)
		return CUDA_ERROR_INVALID_VALUE;
	for (at = &r->mappings; *at;) {
		struct soft_mapping *m = *at;

		if (m->base < base || m->end > end) {
			at = &m->next;
			continue;
		}
		revoke_locked(m);
		mmap((void *)(uintptr_t)m->base, m->end - m->base, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		     -1, 0);
		backing_unref_locked(m->backing);
		*at = m->next;
		free(m);
	}
	return CUDA_SUCCESS;
}

CUresult
cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!ptr || !size || ptr + size < ptr)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_vmm_lock);
	res = unmap_locked(ptr, ptr + size);
	pthread_mutex_unlock(&soft_vmm_lock);
	return res;
}

static CUresult
grant_locked(struct soft_mapping *m, unsigned access)
{
	struct soft_range *range;
	int prot = PROT_NONE;

	if (m->access == access)
		return CUDA_SUCCESS;
	revoke_locked(m);
	if (access)
		prot = PROT_READ;
	if (access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		prot |= PROT_WRITE;
	if (mprotect((void *)(uintptr_t)m->base, m->end - m->base, prot))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!access)
		return CUDA_SUCCESS;
	range = calloc(1, sizeof(*range));
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->base = m->base;
	range->end = m->end;
	range->kind = SOFT_RANGE_VMM;
	range->writable = prot & PROT_WRITE;
	range->device = m->backing->device;
	range->id = soft_new_id();
	if (!soft_range_add(range)) {
		free(range);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->access = access;
	return CUDA_SUCCESS;
}

static CUresult
access_locked(uint64_t base, uint64_t end, unsigned access)
{
	struct soft_reservation *r = reservation_of_locked(base, end);
	CUresult res = CUDA_SUCCESS;
	uint64_t covered = 0;

	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct soft_mapping *m = r->mappings; m; m = m->next)
		if (m->base >= base && m->end <= end)
			covered += m->end - m->base;
	if (covered != end - base)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct soft_mapping *m = r->mappings; m && !res; m = m->next)
		if (m->base >= base && m->end <= end)
			res = grant_locked(m, access);
	return res;
}

CUresult
cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
	       size_t count)
{
	CUresult res = soft_enter_live();

	if (res)
		return res;
	if (!ptr || !size || !desc || !count || ptr + size < ptr)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_vmm_lock);
	for (size_t i = 0; i < count && !res; i++) {
		unsigned flags = (unsigned)desc[i].flags;

		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !soft_device_get(desc[i].location.id) ||
		    (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		     flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		     flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
			res = CUDA_ERROR_INVALID_VALUE;
		else
			res = access_locked(ptr, ptr + size, flags);
	}
	pthread_mutex_unlock(&soft_vmm_lock);
	return res;
}

struct soft_mapping *
soft_vmm_at_locked(uint64_t addr)
{
	struct soft_reservation *r = reservation_of_locked(addr, addr + 1);

	for (struct soft_mapping *m = r ? r->mappings : NULL; m; m = m->next)
		if (addr >= m->base && addr < m->end)
			return m;
	return NULL;
}

CUresult
cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
	       CUdeviceptr ptr)
{
	CUresult res = soft_enter_live();
	struct soft_mapping *m;

	if (res)
		return res;
	if (!flags || !location ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !soft_device_get(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&soft_vmm_lock);
	m = soft_vmm_at_locked(ptr);
	if (m)
		*flags = m->access;
	pthread_mutex_unlock(&soft_vmm_lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
