/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about the device that depend on more than its attributes. */
#include <string.h>

#include "server/worker/call.h"

CUresult
wkr_mpsTextureWidth(struct wkr_call *call, uint32_t format, uint32_t channels,
		    uint64_t *width)
{
	size_t value = 0;
	CUresult r;

	(void)call;
	if (!wkr.drv.cuDeviceGetTexture1DLinearMaxWidth)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = wkr_ok(wkr.drv.cuDeviceGetTexture1DLinearMaxWidth(
		&value, (CUarray_format)format, channels, wkr.device));
	if (width)
		*width = value;
	return r;
}

CUresult
wkr_mpsHostAtomics(struct wkr_call *call, void *of, size_t *of_size,
		   uint32_t of_cap)
{
	CUatomicOperation all[CU_ATOMIC_OPERATION_MAX];
	unsigned int values[CU_ATOMIC_OPERATION_MAX] = {0};
	CUresult r;

	(void)call;
	(void)of_cap;
	if (!wkr.drv.cuDeviceGetHostAtomicCapabilities)
		return CUDA_ERROR_NOT_SUPPORTED;
	for (unsigned int i = 0; i < CU_ATOMIC_OPERATION_MAX; i++)
		all[i] = (CUatomicOperation)i;
	r = wkr_ok(wkr.drv.cuDeviceGetHostAtomicCapabilities(
		values, all, CU_ATOMIC_OPERATION_MAX, wkr.device));
	if (of && *of_size >= sizeof(values)) {
		memcpy(of, values, sizeof(values));
		*of_size = sizeof(values);
	}
	return r;
}
