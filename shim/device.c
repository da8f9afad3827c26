/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: answered from the snapshot that came with the broker's hello,
 * except where the truth of a shared context differs from the driver's.
 */
#include "shim/device.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim_impl.h"

#define ATTRIBUTES CU_DEVICE_ATTRIBUTE_MAX

struct override {
	CUdevice_attribute attribute;
	int value;
};

#define NOT(name) { CU_DEVICE_ATTRIBUTE_##name, 0 }

/*
 * Where we answer otherwise than the driver. Tests list every difference, so
 * this is the only place for one.
 */
static const struct override overrides[] = {
	/* Kernels run in the worker, where malloc's and mmap's addresses of
	 * this process mean nothing. */
	NOT(PAGEABLE_MEMORY_ACCESS),
	NOT(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
	NOT(CONCURRENT_MANAGED_ACCESS),
	NOT(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
	/* Application pages have another address there. */
	NOT(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
	NOT(READ_ONLY_HOST_REGISTER_SUPPORTED),
	/* No driver descriptor leaves the worker. */
	NOT(GPU_DIRECT_RDMA_SUPPORTED),
	NOT(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
	NOT(GPU_DIRECT_RDMA_WRITES_ORDERING),
	NOT(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
	NOT(CAN_FLUSH_REMOTE_WRITES),
	NOT(DMA_BUF_SUPPORTED),
	NOT(HOST_ALLOC_DMA_BUF_SUPPORTED),
	NOT(HANDLE_TYPE_FABRIC_SUPPORTED),
	NOT(MULTICAST_SUPPORTED),
	NOT(HOST_NUMA_MULTINODE_IPC_SUPPORTED),
	/* Refused in proto/cuda.api: programs that ask first take another
	 * way. */
	NOT(HOST_MEMORY_POOLS_SUPPORTED),
	NOT(HOST_NUMA_MEMORY_POOLS_SUPPORTED),
	NOT(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
	NOT(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
	NOT(CAN_USE_STREAM_MEM_OPS_V1),
	NOT(CAN_USE_64_BIT_STREAM_MEM_OPS_V1),
	NOT(CAN_USE_STREAM_WAIT_VALUE_NOR_V1),
	NOT(COOPERATIVE_MULTI_DEVICE_LAUNCH),
	NOT(SPARSE_CUDA_ARRAY_SUPPORTED),
	NOT(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED),
	NOT(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
	NOT(UNIFIED_FUNCTION_POINTERS),
	NOT(MEM_DECOMPRESS_ALGORITHM_MASK),
	NOT(MEM_DECOMPRESS_MAXIMUM_LENGTH),
	NOT(D3D12_CIG_SUPPORTED),
	NOT(VULKAN_CIG_SUPPORTED),
	/* Of the broker's making, whatever the driver has of these. */
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
	  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR },
	{ CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1 },
	/* Clients share a context, as they would under MPS. */
	{ CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 1 },
};

/* Filled once after connecting, then constant. */
static struct {
	pthread_mutex_t lock;
	const Mps__HelloReply *of;      /* the answer that it indexes */
	bool has[SHIM_MAX_DEVICES][ATTRIBUTES];
	int value[SHIM_MAX_DEVICES][ATTRIBUTES];
} snapshot = { .lock = PTHREAD_MUTEX_INITIALIZER };
struct shim_limits shim_limits[SHIM_MAX_DEVICES];

static void
prepare_limits(const int *value, struct shim_limits *limits)
{
	static const CUdevice_attribute grid[3] = {
		CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
		CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
		CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
	}, block[3] = {
		CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
		CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
		CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
	};

	for (unsigned i = 0; i < 3; i++) {
		limits->grid[i] = (uint32_t)value[grid[i]];
		limits->block[i] = (uint32_t)value[block[i]];
	}
	limits->threads = (uint32_t)value[
		CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
	limits->shared =
		value[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK];
}

static void
prepare_device(int device)
{
	const Mps__Device *info = shim_process.devices[device].info;
	bool *has = snapshot.has[device];
	int *value = snapshot.value[device];

	memset(has, 0, sizeof(snapshot.has[device]));
	memset(value, 0, sizeof(snapshot.value[device]));
	for (size_t i = 0; i < info->n_attributes; i++) {
		int32_t id = info->attributes[i]->id;

		if (id <= 0 || id >= ATTRIBUTES)
			continue;
		has[id] = true;
		value[id] = info->attributes[i]->value;
	}
	for (size_t i = 0; i < sizeof(overrides) / sizeof(*overrides); i++) {
		has[overrides[i].attribute] = true;
		value[overrides[i].attribute] = overrides[i].value;
	}
	prepare_limits(value, &shim_limits[device]);
}

void
shim_device_prepare(void)
{
	pthread_mutex_lock(&snapshot.lock);
	if (snapshot.of != shim_process.hello) {
		for (int i = 0; i < shim_process.ndevices; i++)
			prepare_device(i);
		snapshot.of = shim_process.hello;
	}
	pthread_mutex_unlock(&snapshot.lock);
}

bool
shim_device_lookup(CUdevice device, CUdevice_attribute attribute,
		   int *out_value)
{
	if ((int)attribute <= 0 || attribute >= ATTRIBUTES ||
	    !snapshot.has[device][attribute])
		return false;
	*out_value = snapshot.value[device][attribute];
	return true;
}

int
shim_device_attribute(CUdevice device, CUdevice_attribute attribute)
{
	int value = 0;

	shim_device_lookup(device, attribute, &value);
	return value;
}

static const Mps__Device *
info_of(CUdevice dev)
{
	return shim_device_exists(dev) ? shim_process.devices[dev].info : NULL;
}

CUresult
shim_cuDeviceGet(CUdevice *device, int ordinal)
{
	if (device == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult
shim_cuDeviceGetCount(int *count)
{
	if (count == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*count = shim_process.ndevices;
	return CUDA_SUCCESS;
}

CUresult
shim_cuDeviceGetName(char *name, int len, CUdevice dev)
{
	const Mps__Device *info = info_of(dev);

	if (name == NULL || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (info == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)len, "%s", info->name);
	return CUDA_SUCCESS;
}

static CUresult
copy_uuid(CUuuid *uuid, CUdevice dev, bool v2)
{
	const Mps__Device *info = info_of(dev);
	const ProtobufCBinaryData *from;

	if (uuid == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (info == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	/* They differ on partitions of a device only. */
	from = v2 && info->uuid_v2.len == sizeof(uuid->bytes) ?
	       &info->uuid_v2 : &info->uuid;
	memset(uuid, 0, sizeof(*uuid));
	if (from->len == sizeof(uuid->bytes))
		memcpy(uuid->bytes, from->data, sizeof(uuid->bytes));
	return CUDA_SUCCESS;
}

CUresult
shim_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return copy_uuid(uuid, dev, false);
}

CUresult
shim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return copy_uuid(uuid, dev, true);
}

CUresult
shim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	const Mps__Device *info = info_of(dev);

	if (bytes == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (info == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = info->total_memory;
	return CUDA_SUCCESS;
}

CUresult
shim_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return shim_device_lookup(dev, attrib, pi) ? CUDA_SUCCESS :
						     CUDA_ERROR_INVALID_VALUE;
}

CUresult
shim_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	if (major == NULL || minor == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*major = shim_device_attribute(dev,
		CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	*minor = shim_device_attribute(dev,
		CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	return CUDA_SUCCESS;
}

CUresult
shim_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
#define GET(name) shim_device_attribute(dev, CU_DEVICE_ATTRIBUTE_##name)
	if (prop == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*prop = (CUdevprop){
		.maxThreadsPerBlock = GET(MAX_THREADS_PER_BLOCK),
		.maxThreadsDim = { GET(MAX_BLOCK_DIM_X), GET(MAX_BLOCK_DIM_Y),
				   GET(MAX_BLOCK_DIM_Z) },
		.maxGridSize = { GET(MAX_GRID_DIM_X), GET(MAX_GRID_DIM_Y),
				 GET(MAX_GRID_DIM_Z) },
		.sharedMemPerBlock = GET(MAX_SHARED_MEMORY_PER_BLOCK),
		.totalConstantMemory = GET(TOTAL_CONSTANT_MEMORY),
		.SIMDWidth = GET(WARP_SIZE),
		.memPitch = GET(MAX_PITCH),
		.regsPerBlock = GET(MAX_REGISTERS_PER_BLOCK),
		.clockRate = GET(CLOCK_RATE),
		.textureAlign = GET(TEXTURE_ALIGNMENT),
	};
	return CUDA_SUCCESS;
#undef GET
}

/* domain:bus:device.function, domain:bus:device or bus:device.function, all
 * in hexadecimal digits. */
static bool
parse_bus_id(const char *text, int *domain, int *bus, int *device)
{
	unsigned a, b, c, f;
	int end = 0;

	if (sscanf(text, "%x:%x:%x%n", &a, &b, &c, &end) == 3) {
		text += end;
	} else if (sscanf(text, "%x:%x%n", &b, &c, &end) == 2) {
		a = 0;
		text += end;
	} else {
		return false;
	}
	end = 0;
	if (*text == '.' && sscanf(text, ".%x%n", &f, &end) == 1)
		text += end;
	*domain = (int)a;
	*bus = (int)b;
	*device = (int)c;
	return *text == '\0';
}

CUresult
shim_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	int domain, bus, device;

	if (dev == NULL || pciBusId == NULL ||
	    !parse_bus_id(pciBusId, &domain, &bus, &device))
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < shim_process.ndevices; i++) {
		if (shim_device_attribute(i,
			CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) == domain &&
		    shim_device_attribute(i,
			CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) == bus &&
		    shim_device_attribute(i,
			CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) == device) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult
shim_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	const Mps__Device *info = info_of(dev);

	if (pciBusId == NULL || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (info == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	/* What does not fit is cut, and an error. */
	snprintf(pciBusId, (size_t)len, "%s", info->pci_bus_id);
	return strlen(info->pci_bus_id) < (size_t)len ?
	       CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* No profiler is attached to the program, as none can be; natively the calls
 * do nothing then. */
CUresult
shim_cuProfilerStart(void)
{
	return CUDA_SUCCESS;
}

CUresult
shim_cuProfilerStop(void)
{
	return CUDA_SUCCESS;
}

CUresult
shim_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	if (canAccessPeer == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_device_exists(dev) || !shim_device_exists(peerDev))
		return CUDA_ERROR_INVALID_DEVICE;
	/* Workers of two devices are two processes; the driver says 0 for a
	 * device and itself. */
	*canAccessPeer = 0;
	return CUDA_SUCCESS;
}

CUresult
shim_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
			     CUdevice srcDevice, CUdevice dstDevice)
{
	const Mps__Device *info = info_of(srcDevice);
	int32_t id;

	if (value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (info == NULL || !shim_device_exists(dstDevice) ||
	    srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	if ((int)attrib < 1 ||
	    attrib > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	*value = 0;
	if (attrib != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
		return CUDA_SUCCESS;
	/* Where a peer is, stays true without access to it. */
	id = (int32_t)attrib * SHIM_MAX_DEVICES +
	     shim_process.devices[dstDevice].real;
	for (size_t i = 0; i < info->n_p2p; i++) {
		if (info->p2p[i]->id == id)
			*value = info->p2p[i]->value;
	}
	return CUDA_SUCCESS;
}
