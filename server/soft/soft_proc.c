/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: names without version suffix, the version says which.
 */
#include <string.h>

#include "server/soft/soft.h"

#define ROW(name, version, per_thread, symbol) \
	{ name, version, per_thread, (void (*)(void))symbol }

static const struct {
	const char *name;
	int version;
	int per_thread;
	void (*function)(void);
} rows[] = {
#include "server/soft/soft_proc_rows.h"
};

struct found {
	bool known;                /* the name, in some version */
	int version;
	void (*function)(void);
};

/* The highest version that is not above the asked one; with the flag the
 * per-thread symbol wins where there is one. */
static struct found
find(const char *name, int version, bool per_thread)
{
	struct found best = { 0 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (strcmp(rows[i].name, name))
			continue;
		best.known = true;
		if (rows[i].version > version ||
		    (rows[i].per_thread && !per_thread))
			continue;
		if (rows[i].version >= best.version) {
			best.version = rows[i].version;
			best.function = rows[i].function;
		}
	}
	return best;
}

CUresult
cuGetProcAddress_v2(const char *symbol, void **out, int version,
		    cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	/* Both at once mean per-thread streams (measured). */
	const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
				 CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	struct found found;

	if (!symbol || !out || version > SOFT_DRIVER_VERSION ||
	    version < 0 || flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	found = find(symbol, version, flags &
		     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	memcpy(out, &found.function, sizeof(*out));
	if (status)
		*status = found.function ? CU_GET_PROC_ADDRESS_SUCCESS :
			  found.known ?
			  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT :
			  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

CUresult
cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
	void *function;
	CUresult res = cuGetProcAddress_v2(symbol, &function, version, flags,
					   NULL);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function)
		return CUDA_ERROR_NOT_FOUND;
	*out = function;
	return CUDA_SUCCESS;
}
