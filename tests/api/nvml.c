/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program without device files hears from libnvidia-ml.so.1 about the
 * devices is what CUDA says; asking it leaves CUDA alone, so that a child may
 * use it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/nvml/nvml.h"
#include "tests/api/facts.h"

static void *nvml;

#define CALL(name, ...) (((__typeof__(&name))find(#name))(__VA_ARGS__))
/* One of those that are not served. */
enum nvml_code nvmlDeviceGetUtilizationRates(struct nvml_device *device,
					     unsigned int rates[2]);

static void *
find(const char *name)
{
	void *function = dlsym(nvml, name);

	if (!function) {
		printf("NO   %s is missing\n", name);
		exit(1);
	}
	return function;
}

static void
name_uuid(const CUuuid *uuid, char out[41])
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	sprintf(out, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		"%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5],
		b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		b[15]);
}

/* This one is the only one, with what it has of the first device. */
static void
processes(struct nvml_device *handle)
{
	struct {
		unsigned int pid;
		unsigned long long bytes;
	} all[4];
	unsigned int n = 0;
	CUcontext ctx;
	CUdeviceptr p;

	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc(&p, 3 << 20));
	fact_is(7, CALL(nvmlDeviceGetComputeRunningProcesses, handle, &n, NULL),
		"processes need room");
	fact_is(1, n, "for one");
	n = 4;
	fact_is(0, CALL(nvmlDeviceGetComputeRunningProcesses, handle, &n, all),
		"and are listed");
	fact("which it is", n == 1 && all[0].pid == (unsigned int)getpid());
	fact("and what it has", all[0].bytes >= 3 << 20);
	OK(cuMemFree(p));
}

/* In a child: natively, too, CUDA is lost to children of who has used it. */
static void
same_as_cuda(CUdevice device)
{
	char bus[32], name[96], cuda_name[96], uuid[41], cuda_uuid[41];
	int major = 0, minor = 0, cuda_major = 0, cuda_minor = 0;
	unsigned int index = 77;
	struct nvml_device *handle = NULL, *by_index = NULL, *by_uuid = NULL;
	unsigned int rates[2];
	CUuuid id;

	OK(cuDeviceGetPCIBusId(bus, sizeof(bus), device));
	OK(cuDeviceGetName(cuda_name, sizeof(cuda_name), device));
	OK(cuDeviceGetUuid(&id, device));
	OK(cuDeviceGetAttribute(&cuda_major,
		CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
	OK(cuDeviceGetAttribute(&cuda_minor,
		CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
	name_uuid(&id, cuda_uuid);
	fact_is(0, CALL(nvmlDeviceGetHandleByPciBusId_v2, bus, &handle),
		"a device is found by its place on the bus");
	fact_is(0, CALL(nvmlDeviceGetName, handle, name, (unsigned)sizeof(name)),
		"it has a name");
	fact("that CUDA says, too", !strcmp(name, cuda_name));
	fact_is(0, CALL(nvmlDeviceGetUUID, handle, uuid, (unsigned)sizeof(uuid)),
		"and a UUID");
	fact("likewise", !strcmp(uuid, cuda_uuid));
	fact_is(0, CALL(nvmlDeviceGetHandleByUUID, uuid, &by_uuid),
		"by which it is found");
	fact_is(0, CALL(nvmlDeviceGetIndex, handle, &index), "and an index");
	fact_is(0, CALL(nvmlDeviceGetHandleByIndex_v2, index, &by_index),
		"by which it is found as well");
	fact("always the same one", handle == by_index && handle == by_uuid);
	fact_is(0, CALL(nvmlDeviceGetCudaComputeCapability, handle, &major,
			&minor), "it has a compute capability");
	fact("that of CUDA", major == cuda_major && minor == cuda_minor);
	processes(handle);
	fact_is(7, CALL(nvmlDeviceGetName, handle, name, 2u),
		"a name needs room");
	fact_is(3, CALL(nvmlDeviceGetUtilizationRates, handle, rates),
		"what only the driver knows is not supported");
}

static int
child(unsigned int count)
{
	CUdevice device;
	int visible = 0;

	OK(cuInit(0));
	OK(cuDeviceGetCount(&visible));
	fact("CUDA_VISIBLE_DEVICES hides none from it",
	     visible == 1 && count == 2);
	OK(cuDeviceGet(&device, 0));
	same_as_cuda(device);
	return facts_end();
}

/* ---- with a broker that does not answer ---------------------------------*/

static char directory[] = "/tmp/mpsshim-nvml-XXXXXX";
static struct sockaddr_un mute_address = { .sun_family = AF_UNIX };

/* Its socket. */
static int
mute_broker(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!mkdtemp(directory))
		return -1;
	snprintf(mute_address.sun_path, sizeof(mute_address.sun_path),
		 "%s/mpsshim", directory);
	if (bind(fd, (struct sockaddr *)&mute_address, sizeof(mute_address)) ||
	    listen(fd, 8))
		return -1;
	setenv("CUDA_MPS_PIPE_DIRECTORY", directory, 1);
	return fd;
}

static void *
begin(void *arg)
{
	*(int *)arg = (int)CALL(nvmlInit_v2);
	return NULL;
}

/* Somebody who waits in it for ever keeps no child from asking, nor, when he
 * is cancelled, anybody else. */
static void
beside_one_who_waits(void)
{
	const char *set = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char *kept = set ? strdup(set) : NULL;
	int broker = mute_broker(), code = -1, status = 1, client;
	pthread_t thread;
	pid_t pid;

	pthread_create(&thread, NULL, begin, &code);
	client = accept(broker, NULL, NULL);
	fact("somebody waits for an answer", client >= 0);
	if (kept)
		setenv("CUDA_MPS_PIPE_DIRECTORY", kept, 1);
	else
		unsetenv("CUDA_MPS_PIPE_DIRECTORY");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(20);
		_exit((int)CALL(nvmlInit_v2));
	}
	waitpid(pid, &status, 0);
	fact("a child of that moment begins", status == 0);
	pthread_cancel(thread);
	close(client);
	pthread_join(thread, NULL);
	alarm(20);
	fact_is(0, CALL(nvmlInit_v2), "and so does who comes later");
	alarm(0);
	fact_is(0, CALL(nvmlShutdown), "and ends");
	unlink(mute_address.sun_path);
	rmdir(directory);
	close(broker);
	free(kept);
}

int
main(void)
{
	unsigned int count = 77, rates[2];
	struct nvml_device *handle = NULL;
	int status, version = 0, cuda_version = 0;
	pid_t pid;

	nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!nvml) {
		printf("NO   it is found: %s\n", dlerror());
		return 1;
	}
	fact_is(1, CALL(nvmlDeviceGetCount_v2, &count), "it has to be begun");
	fact_is(1, CALL(nvmlDeviceGetUtilizationRates, handle, rates),
		"for everything");
	beside_one_who_waits();
	fact_is(0, CALL(nvmlInit_v2), "it begins");
	fact_is(0, CALL(nvmlDeviceGetCount_v2, &count), "it counts devices");
	fact_is(2, CALL(nvmlDeviceGetHandleByIndex_v2, count, &handle),
		"there are no more");
	fact_is(6, CALL(nvmlDeviceGetHandleByUUID, "GPU-none", &handle),
		"nor others");
	fact_is(2, CALL(nvmlDeviceGetIndex, (void *)&count, &count),
		"what is no handle is none");
	OK(cuDriverGetVersion(&cuda_version));
	fact_is(0, CALL(nvmlSystemGetCudaDriverVersion_v2, &version),
		"it knows a version");
	fact("that CUDA says, too", version == cuda_version);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		exit(child(count));
	waitpid(pid, &status, 0);
	fact("a child may use CUDA", WIFEXITED(status) && !WEXITSTATUS(status));
	fact_is(0, CALL(nvmlShutdown), "it ends");
	fact_is(1, CALL(nvmlShutdown), "once");
	return facts_end();
}
