/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of a device beyond its attributes.
 */
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/device.h"
#include "shim_calls.h"
#include "shim_impl.h"

CUresult
shim_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements,
					CUarray_format format,
					unsigned int numChannels, CUdevice dev)
{
	struct shim_chan *chan;
	uint64_t width;
	CUresult r;

	if (!maxWidthInElements)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	r = shim_chan_get(dev, &chan);
	if (r == CUDA_SUCCESS)
		r = call_mpsTextureWidth(chan, (uint32_t)format, numChannels,
					 &width);
	if (r == CUDA_SUCCESS)
		*maxWidthInElements = width;
	return r;
}

static bool
are_operations(const CUatomicOperation *operations, unsigned int count)
{
	if (!operations || !count)
		return false;
	for (unsigned int i = 0; i < count; i++)
		if ((unsigned int)operations[i] >= CU_ATOMIC_OPERATION_MAX)
			return false;
	return true;
}

/* Operations of a device on memory of the host: those of all clients' kernels
 * are the same. */
CUresult
shim_cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
				       const CUatomicOperation *operations,
				       unsigned int count, CUdevice dev)
{
	unsigned int of[CU_ATOMIC_OPERATION_MAX];
	struct shim_chan *chan;
	CUresult r;

	if (!capabilities || !are_operations(operations, count))
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	r = shim_chan_get(dev, &chan);
	if (r == CUDA_SUCCESS)
		r = call_mpsHostAtomics(chan, of, sizeof(of));
	for (unsigned int i = 0; i < count && r == CUDA_SUCCESS; i++)
		capabilities[i] = of[operations[i]];
	return r;
}

/* No device reaches another's memory, as cuDeviceGetP2PAttribute says. */
CUresult
shim_cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
				      const CUatomicOperation *operations,
				      unsigned int count, CUdevice srcDevice,
				      CUdevice dstDevice)
{
	if (!capabilities || !are_operations(operations, count))
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(srcDevice) || !shim_device_exists(dstDevice) ||
	    srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	for (unsigned int i = 0; i < count; i++)
		capabilities[i] = 0;
	return CUDA_SUCCESS;
}

/* A client's share of the device is a matter of the broker's limits. */
CUresult
shim_cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type,
				    CUdevice dev)
{
	(void)type;
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pi = 0;
	return CUDA_SUCCESS;
}

CUresult
shim_cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity,
			  CUexecAffinityType type)
{
	if (!pExecAffinity)
		return CUDA_ERROR_INVALID_VALUE;
	*pExecAffinity = (CUexecAffinityParam){ .type = type };
	if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	pExecAffinity->param.smCount.val = (unsigned int)shim_device_attribute(
		shim_current->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	return CUDA_SUCCESS;
}
