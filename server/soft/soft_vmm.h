/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: what lies behind handles and mappings.
 * Called by soft_vmm.c and soft_vmm_share.c only.
 */
#ifndef SERVER_SOFT_SOFT_VMM_H
#define SERVER_SOFT_SOFT_VMM_H

#include <sys/stat.h>
#include <sys/types.h>

#include "server/soft/soft_mem.h"

/* Physical memory. Guarded by soft_vmm_lock. */
struct soft_backing {
	unsigned refs;             /* handles and mappings */
	int fd;
	struct stat file;
	size_t size;
	struct soft_device *device;
	unsigned handle_types;
	struct soft_backing *next;
};

struct soft_vmm_handle {
	unsigned refs;             /* create, import, retain */
	struct soft_backing *backing;
};

struct soft_mapping {
	uint64_t base, end;
	struct soft_backing *backing;
	struct soft_vmm_handle *handle; /* of cuMemMap; may be gone */
	size_t offset;
	unsigned access;           /* CUmemAccess_flags */
	struct soft_mapping *next;
};

struct soft_reservation {
	uint64_t base, end;
	struct soft_mapping *mappings;
	struct soft_reservation *next;
};

/* Guards everything behind handles. Taken before the range table's lock. */
extern pthread_mutex_t soft_vmm_lock;
extern struct soft_backing *soft_backings;

bool soft_is_granular(uint64_t value);
CUresult soft_vmm_prop_check(const CUmemAllocationProp *prop);
struct soft_vmm_handle *soft_vmm_from(CUmemGenericAllocationHandle value);
struct soft_vmm_handle *soft_vmm_handle_locked(struct soft_backing *backing);
/* Make a handle for the memory behind fd, which is taken over in any case. */
CUresult soft_vmm_adopt(struct soft_device *dev, int fd, const struct stat *st,
			unsigned types, CUmemGenericAllocationHandle *out);
struct soft_mapping *soft_vmm_at_locked(uint64_t addr);

#endif
