/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start, version and look-up of entry points. Everything here may be called
 * before cuInit.
 */
#include "shim_impl.h"

#include "shim/device.h"
#include "shim/procaddr.h"
#include "shim/process.h"

CUresult
shim_cuInit(unsigned int Flags)
{
	CUresult r;

	if (Flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_connect();
	if (r == CUDA_SUCCESS)
		shim_device_prepare();
	return r;
}

CUresult
shim_cuDriverGetVersion(int *driverVersion)
{
	if (driverVersion == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = shim_driver_version();
	return CUDA_SUCCESS;
}

CUresult
shim_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
		      cuuint64_t flags)
{
	return shim_procaddr(symbol, pfn, cudaVersion, flags, NULL, false);
}

CUresult
shim_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
			 cuuint64_t flags,
			 CUdriverProcAddressQueryResult *symbolStatus)
{
	return shim_procaddr(symbol, pfn, cudaVersion, flags, symbolStatus,
			     true);
}
