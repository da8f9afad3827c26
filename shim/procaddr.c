/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/procaddr.h"

#include <endian.h>
#include <string.h>

#include "shim/process.h"

/* What cuDriverGetVersion says; before cuInit nobody has asked the driver
 * yet and the table's own version stands. */
static int
driver_version(void)
{
	/* Acquire: pairs with the release in shim_connect. */
	_Atomic uint32_t *live = atomic_load_explicit(&shim_process.live,
						      memory_order_acquire);

	if (live && atomic_load_explicit(live, memory_order_acquire) == SHIM_UP)
		return shim_process.driver_version;
	return SHIM_PROC_VERSION;
}

static uint32_t
word(const char *at)
{
	uint32_t bytes;

	memcpy(&bytes, at, sizeof(bytes));
	return le32toh(bytes);
}

/* Four bytes at three places tell the names apart well enough; made to be
 * computed in proto/apigen/procaddr.py, too. */
static unsigned int
hash(const char *symbol, size_t size)
{
	uint32_t mixed = (word(symbol + 2) * 0x9e3779b1u ^
			  word(symbol + size / 2) * 0x85ebca77u ^
			  word(symbol + size - 4) * 0xc2b2ae3du) +
			 (uint32_t)size;

	return (unsigned int)((uint64_t)mixed * 0x27d4eb2fu >> 16);
}

static const struct shim_proc_name *
find_name(const char *symbol)
{
	size_t size = strlen(symbol);
	unsigned int at;

	/* No name is shorter than cuInit. */
	if (size < 6)
		return NULL;
	for (at = hash(symbol, size) & shim_proc_mask; shim_proc_slots[at];
	     at = (at + 1) & shim_proc_mask) {
		const struct shim_proc_name *name =
			&shim_proc_names[shim_proc_slots[at] - 1];

		if (!strcmp(symbol, shim_proc_text + name->text))
			return name;
	}
	return NULL;
}

/* The function that name means at version, or NULL: not yet. */
static void *
find_function(const struct shim_proc_name *name, int version, bool per_thread)
{
	uint16_t found = SHIM_PROC_NONE;
	void *address = NULL;

	for (unsigned int i = 0; i < name->count; i++) {
		const struct shim_proc_version *step =
			&shim_proc_versions[name->first + i];

		/* The driver finds the newest at negative versions. */
		if (step->version > (unsigned int)version)
			break;
		found = per_thread ? step->per_thread : step->legacy;
	}
	if (found != SHIM_PROC_NONE)
		memcpy(&address, &shim_proc_functions[found], sizeof(address));
	return address;
}

CUresult
shim_procaddr(const char *symbol, void **pfn, int version, cuuint64_t flags,
	      CUdriverProcAddressQueryResult *status, bool v2)
{
	CUdriverProcAddressQueryResult why = CU_GET_PROC_ADDRESS_SUCCESS;
	const struct shim_proc_name *name;
	void *address = NULL;

	if (!symbol || !pfn || version > driver_version() ||
	    flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
				  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
		return CUDA_ERROR_INVALID_VALUE;
	name = find_name(symbol);
	if (!name)
		why = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	else
		/* With both flags the per-thread one decides. */
		address = find_function(name, version, flags &
			CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	if (name && !address)
		why = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	if (!address && !v2)
		return CUDA_ERROR_NOT_FOUND;
	*pfn = address;
	if (status)
		*status = why;
	return CUDA_SUCCESS;
}
