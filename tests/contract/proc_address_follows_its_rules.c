/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress_v2: found gives 0 and status 0; an unknown name gives 0,
 * NULL and status 1; a version below the name's first gives 0, NULL and
 * status 2; a version above the driver's, or flags 4, gives 1 and leaves
 * the pointer alone. Flags 3 are as 2: per-thread streams. The older call
 * gives 500 for an unknown name.
 */
#include "tests/contract/drv.h"

#include <dlfcn.h>

typedef CUresult (*procaddr_v1)(const char *, void **, int, cuuint64_t);

static char untouched;

static void
expect(const char *name, int version, cuuint64_t flags, CUresult rc,
       const void *address, int status)
{
	CUdriverProcAddressQueryResult s = (CUdriverProcAddressQueryResult)9;
	void *p = &untouched;
	CUresult got = drv.cuGetProcAddress(name, &p, version, flags, &s);

	if (got != rc || p != address || (status >= 0 && (int)s != status))
		test_note("%s version %d flags %d: %d, %p, status %d", name,
			  version, (int)flags, (int)got, p, (int)s);
	p = &untouched;
	got = drv.cuGetProcAddress(name, &p, version, flags, NULL);
	if (got != rc || p != address)
		test_note("%s version %d flags %d, no status: %d, %p", name,
			  version, (int)flags, (int)got, p);
}

int
main(void)
{
	procaddr_v1 v1;
	void *p = &untouched;
	int driver = 0;

	drv_open();
	OK(drv.cuInit(0));
	OK(drv.cuDriverGetVersion(&driver));
	v1 = (procaddr_v1)drv_symbol("cuGetProcAddress");
	expect("cuStreamDestroy", 12000, 0, CUDA_SUCCESS,
	       drv_symbol("cuStreamDestroy_v2"), 0);
	expect("cuStreamDestroy", 2000, 0, CUDA_SUCCESS,
	       drv_symbol("cuStreamDestroy"), 0);
	expect("cuLaunchKernel", 12000, 1, CUDA_SUCCESS,
	       drv_symbol("cuLaunchKernel"), 0);
	expect("cuLaunchKernel", 12000, 2, CUDA_SUCCESS,
	       drv_symbol("cuLaunchKernel_ptsz"), 0);
	expect("cuLaunchKernel", 12000, 3, CUDA_SUCCESS,
	       drv_symbol("cuLaunchKernel_ptsz"), 0);
	expect("cuMemcpyHtoD", 12000, 2, CUDA_SUCCESS,
	       drv_symbol("cuMemcpyHtoD_v2_ptds"), 0);
	expect("cuMemAlloc_v2", 12000, 0, CUDA_SUCCESS, NULL, 1);
	expect("cuNoSuchFunction", 12000, 0, CUDA_SUCCESS, NULL, 1);
	expect("", 12000, 0, CUDA_SUCCESS, NULL, 1);
	expect("cuLibraryLoadData", 11080, 0, CUDA_SUCCESS, NULL, 2);
	expect("cuMemAlloc", 0, 0, CUDA_SUCCESS, NULL, 2);
	expect("cuMemAlloc", driver + 1000, 0, CUDA_ERROR_INVALID_VALUE,
	       &untouched, -1);
	expect("cuMemAlloc", 12000, 4, CUDA_ERROR_INVALID_VALUE, &untouched,
	       -1);
	EXPECT(CUDA_ERROR_NOT_FOUND, v1("cuNoSuchFunction", &p, 12000, 0));
	EXPECT(CUDA_SUCCESS, v1("cuInit", &p, 12000, 0));
	CHECK(p == drv_symbol("cuInit"));
	test_pass();
}
