/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/procaddr.h"

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

static const struct shim_proc_name *
find_name(const char *symbol)
{
	unsigned int low = 0, high = shim_proc_count;

	while (low < high) {
		unsigned int middle = low + (high - low) / 2;
		const struct shim_proc_name *name = &shim_proc_names[middle];
		int order = strcmp(symbol, shim_proc_text + name->text);

		if (order == 0)
			return name;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
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
