/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: names, properties, attributes of an H200 where they say what a
 * program may do, honest zeros where a feature is not served.
 */
#include "server/soft/soft_func.h"

#include <stdio.h>
#include <string.h>

/* Served for every device; those that depend on it are below. */
static const struct {
	CUdevice_attribute attr;
	int value;
} fixed[] = {
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, SOFT_SHARED_BLOCK },
	{ CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
	{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
	{ CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, SOFT_REGS_SM },
	{ CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
	{ CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0 },
	{ CU_DEVICE_ATTRIBUTE_INTEGRATED, 0 },
	{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048 },
	{ CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
	{ CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 0 },
	{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_TCC_DRIVER, 0 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000 },
	{ CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144 },
	{ CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560 },
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
	  SOFT_THREADS_SM },
	{ CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2 },
	{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048 },
	{ CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, 8192 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, 8192 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, 32768 },
	{ CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 2046 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 131072 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 65536 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, 16384 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, 16384 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, 16384 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, 2048 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, 2048 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 2046 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 32768 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 32768 },
	{ CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
	  SOFT_SHARED_SM },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, SOFT_REGS_SM },
	{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, 0 },
	{ CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2 },
	{ CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1 },
	{ CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
	  SOFT_SHARED_OPTIN },
	{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 1 },
	{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, SOFT_BLOCKS_SM },
	{ CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
	  SOFT_SHARED_RESERVED },
	{ CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1 },
	{ CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4 },
	{ CU_DEVICE_ATTRIBUTE_NUMA_ID, -1 },
	{ CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0 },
};

static CUresult
device_from(CUdevice dev, struct soft_device **out)
{
	CUresult res = soft_enter();

	if (res)
		return res;
	*out = soft_device_get(dev);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = SOFT_DRIVER_VERSION;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGet(CUdevice *out, int ordinal)
{
	struct soft_device *dev;
	CUresult res = device_from(ordinal, &dev);

	if (res)
		return res;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = ordinal;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetCount(int *count)
{
	CUresult res = soft_enter();

	if (res)
		return res;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = soft.device_count;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetName(char *name, int size, CUdevice dev)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (res)
		return res;
	if (!name || size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)size, "%s", device->name);
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (res)
		return res;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	*uuid = device->uuid;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult
cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (res)
		return res;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = device->memory_total;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (res)
		return res;
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = device->major;
	*minor = device->minor;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetAttribute(int *value, CUdevice_attribute attr, CUdevice dev)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (res)
		return res;
	if (!value || (int)attr <= 0 || attr >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attr) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = device->sms;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = device->major;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		*value = device->minor;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		*value = device->ordinal + 1;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
		*value = device->ordinal;
		return CUDA_SUCCESS;
	default:
		break;
	}
	/* A feature that is not in the table is one that is not there. */
	*value = 0;
	for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
		if (fixed[i].attr == attr)
			*value = fixed[i].value;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (res)
		return res;
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = (CUdevprop){
		.maxThreadsPerBlock = SOFT_THREADS_BLOCK,
		.maxThreadsDim = { 1024, 1024, 64 },
		.maxGridSize = { 2147483647, 65535, 65535 },
		.sharedMemPerBlock = SOFT_SHARED_BLOCK,
		.totalConstantMemory = 65536,
		.SIMDWidth = 32,
		.memPitch = 2147483647,
		.regsPerBlock = SOFT_REGS_SM,
		.clockRate = 1980000,
		.textureAlign = 512,
	};
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetPCIBusId(char *id, int size, CUdevice dev)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (res)
		return res;
	if (!id || size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(id, (size_t)size, "0000:%02X:00.0", device->ordinal + 1);
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetByPCIBusId(CUdevice *out, const char *id)
{
	unsigned domain = 0, bus, slot, function = 0;
	CUresult res = soft_enter();

	if (res)
		return res;
	if (!out || !id)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
		domain = 0;
		if (sscanf(id, "%x:%x.%x", &bus, &slot, &function) < 2)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (domain || slot || function || !bus ||
	    bus > (unsigned)soft.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	*out = (CUdevice)bus - 1;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format,
				   unsigned int channels, CUdevice dev)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	(void)format;
	if (res)
		return res;
	if (!width || !channels || channels > 4 || channels == 3)
		return CUDA_ERROR_INVALID_VALUE;
	*width = 268435456;
	return CUDA_SUCCESS;
}

/* The device's memory is the host's, and its atomics are the processor's. */
CUresult
cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
				  const CUatomicOperation *operations,
				  unsigned int count, CUdevice dev)
{
	const unsigned int words = CU_ATOMIC_CAPABILITY_SCALAR_32 |
				   CU_ATOMIC_CAPABILITY_SCALAR_64 |
				   CU_ATOMIC_CAPABILITY_REDUCTION;
	const unsigned int whole = words | CU_ATOMIC_CAPABILITY_SIGNED |
				   CU_ATOMIC_CAPABILITY_UNSIGNED;
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (res)
		return res;
	if (!capabilities || !operations || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		if ((unsigned int)operations[i] >= CU_ATOMIC_OPERATION_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		switch ((int)operations[i]) {
		case CU_ATOMIC_OPERATION_FLOAT_ADD:
			capabilities[i] = words;
			break;
		case CU_ATOMIC_OPERATION_FLOAT_MIN:
		case CU_ATOMIC_OPERATION_FLOAT_MAX:
			/* PTX has none. */
			capabilities[i] = 0;
			break;
		default:
			capabilities[i] = whole;
		}
	}
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type,
			       CUdevice dev)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (res)
		return res;
	if (!value || type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*value = 0;
	return CUDA_SUCCESS;
}

/* Devices of one process share its address space. */
CUresult
cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	struct soft_device *device;
	CUresult res = device_from(dev, &device);

	if (!res)
		res = device_from(peer, &device);
	if (res)
		return res;
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	*can = dev != peer;
	return CUDA_SUCCESS;
}
