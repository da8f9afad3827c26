/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVML that is served. Its names, codes and sizes are NVIDIA's.
 */
#ifndef SHIM_NVML_NVML_H
#define SHIM_NVML_NVML_H

enum nvml_code {
	NVML_SUCCESS = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
};

/* A device: what its handle points at. */
struct nvml_device;

/* For the generated functions of refused.txt. */
enum nvml_code nvml_refused(void);

enum nvml_code nvmlInit(void);
enum nvml_code nvmlInit_v2(void);
enum nvml_code nvmlInitWithFlags(unsigned int flags);
enum nvml_code nvmlShutdown(void);
const char *nvmlErrorString(enum nvml_code code);
enum nvml_code nvmlSystemGetDriverVersion(char *version, unsigned int length);
enum nvml_code nvmlSystemGetCudaDriverVersion(int *version);
enum nvml_code nvmlSystemGetCudaDriverVersion_v2(int *version);
enum nvml_code nvmlDeviceGetCount(unsigned int *count);
enum nvml_code nvmlDeviceGetCount_v2(unsigned int *count);
enum nvml_code nvmlDeviceGetHandleByIndex(unsigned int index,
					  struct nvml_device **device);
enum nvml_code nvmlDeviceGetHandleByIndex_v2(unsigned int index,
					     struct nvml_device **device);
enum nvml_code nvmlDeviceGetHandleByPciBusId(const char *id,
					     struct nvml_device **device);
enum nvml_code nvmlDeviceGetHandleByPciBusId_v2(const char *id,
						struct nvml_device **device);
enum nvml_code nvmlDeviceGetHandleByUUID(const char *uuid,
					 struct nvml_device **device);
enum nvml_code nvmlDeviceGetIndex(struct nvml_device *device,
				  unsigned int *index);
enum nvml_code nvmlDeviceGetName(struct nvml_device *device, char *name,
				 unsigned int length);
enum nvml_code nvmlDeviceGetUUID(struct nvml_device *device, char *uuid,
				 unsigned int length);
enum nvml_code nvmlDeviceGetCudaComputeCapability(struct nvml_device *device,
						  int *major, int *minor);
enum nvml_code nvmlDeviceGetComputeRunningProcesses(struct nvml_device *device,
						    unsigned int *count,
						    void *processes);
enum nvml_code
nvmlDeviceGetComputeRunningProcesses_v2(struct nvml_device *device,
					unsigned int *count, void *processes);
enum nvml_code
nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device,
					unsigned int *count, void *processes);

#endif
