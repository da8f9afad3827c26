/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and addresses apart: the virtual memory API's state.
 * Used by vmm.c and vmm_api.c alone.
 */
#ifndef SHIM_VMM_H
#define SHIM_VMM_H

#include <stdbool.h>
#include <stdint.h>

#include "api_cuda.h"
#include "shim/object.h"

/* Of memory, addresses and mappings: that of the chunks. */
#define VMM_GRANULE (UINT64_C(2) << 20)

/* Physical memory. Lives while a handle or a mapping refers to it. */
struct shim_memory {
	struct shim_object object;    /* while it has a handle */
	uint64_t id;                  /* the broker's */
	uint64_t size;
	int device;
	CUmemAllocationProp prop;     /* as asked */
	uint32_t refs;                /* of its handle */
	uint32_t nmappings;
};

/* In the interval map as a RANGE_MAPPED whose block it is. */
struct shim_mapping {
	struct shim_memory *memory;
	uint64_t id;                  /* the broker's */
};

/* Calls change one thing at a time. */
void shim_vmm_lock(void);
void shim_vmm_unlock(void);

/* All below with the lock held. */
CUresult shim_vmm_reserve(int device, uint64_t size, uint64_t align,
			  uint64_t *out_address);
CUresult shim_vmm_unreserve(uint64_t address, uint64_t size);
CUresult shim_vmm_create(int device, uint64_t size,
			 const CUmemAllocationProp *prop,
			 struct shim_memory **out_memory);
/* Memory that the broker has as `id` already. */
CUresult shim_vmm_adopt(int device, uint64_t size,
			const CUmemAllocationProp *prop, uint64_t id,
			struct shim_memory **out_memory);
/* Another reference of its handle, which it may have to be given first. */
CUresult shim_vmm_retain(struct shim_memory *memory);
CUresult shim_vmm_release(struct shim_memory *memory);
CUresult shim_vmm_map(struct shim_memory *memory, uint64_t address,
		      uint64_t size);
/* Is the range made of whole mappings? */
bool shim_vmm_is_mapped(uint64_t address, uint64_t size);
/* Is it reserved, and nothing mapped there? */
bool shim_vmm_is_empty(uint64_t address, uint64_t size);
CUresult shim_vmm_unmap(uint64_t address, uint64_t size);
CUresult shim_vmm_open(uint64_t address, uint64_t size);

#endif
