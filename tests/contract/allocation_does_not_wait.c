/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemAlloc, cuMemAllocAsync, cuMemFreeAsync, cuMemPoolTrimTo and
 * cuMemGetInfo neither wait for a neighbour's kernel nor stall others'
 * launches.
 */
#include "tests/contract/neighbour.h"

static CUdeviceptr plain, pooled;

static CUresult
alloc(void *arg)
{
	(void)arg;
	return drv.cuMemAlloc(&plain, 1 << 20);
}

static CUresult
alloc_async(void *arg)
{
	CUresult rc;

	(void)arg;
	rc = drv.cuMemAllocAsync(&pooled, 1 << 20, neighbour_own_stream);
	if (!rc)
		rc = drv.cuMemFreeAsync(pooled, neighbour_own_stream);
	return rc ? rc : drv.cuStreamSynchronize(neighbour_own_stream);
}

static CUresult
trim(void *arg)
{
	CUmemoryPool pool;
	CUresult rc;

	(void)arg;
	rc = drv.cuDeviceGetDefaultMemPool(&pool, drv.dev);
	return rc ? rc : drv.cuMemPoolTrimTo(pool, 0);
}

static CUresult
get_info(void *arg)
{
	size_t available, total;

	(void)arg;
	return drv.cuMemGetInfo(&available, &total);
}

int
main(void)
{
	neighbour_start();
	neighbour_expect("cuMemAlloc", alloc, NULL, false, false);
	neighbour_expect("cuMemAllocAsync, cuMemFreeAsync", alloc_async, NULL,
			 false, false);
	neighbour_expect("cuMemPoolTrimTo", trim, NULL, false, false);
	neighbour_expect("cuMemGetInfo", get_info, NULL, false, false);
	test_pass();
}
