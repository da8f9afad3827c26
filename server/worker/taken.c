/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that the driver has for a client. A limit that counts chunks
 * alone would let a program of few bytes take gigabytes: its kernels' local
 * memory is the driver's, and so is all of a context of its own.
 *
 * Local memory is counted as a context of the program's own would have it:
 * for every thread that can be on the device, as much as its deepest kernel
 * needs beyond what every context has. A neighbour's kernel may have made the
 * driver find it before; the same is counted for each of them.
 *
 * What a context takes nobody says. It is what is gone from the device while
 * it is made: another process may take or give some in that half second.
 */
#include "server/worker/taken.h"

#include <dlfcn.h>

#include "server/worker/call.h"

/* The driver's management library, which needs no context. Its interface is
 * stable; its header is in no package that we need otherwise. */
struct nvml_memory {
	unsigned long long total, free, used;
};

static uint64_t before, context_bytes;

/* Of limits that take memory, beyond what a fresh context has. */
static _Atomic uint64_t stack_first, stack_now, other_bytes;

static uint64_t
left_by_nvml(void *library)
{
	int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
	int (*get)(const char *, void **) = (int (*)(const char *, void **))
		dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
	int (*ask)(void *, struct nvml_memory *) =
		(int (*)(void *, struct nvml_memory *))
		dlsym(library, "nvmlDeviceGetMemoryInfo");
	struct nvml_memory memory = {0};
	char id[32] = "";
	void *device;

	if (!init || !get || !ask || init() ||
	    wkr.drv.cuDeviceGetPCIBusId(id, sizeof(id), wkr.device) !=
		    CUDA_SUCCESS ||
	    get(id, &device) || ask(device, &memory))
		return 0;
	return memory.free;
}

/* Bytes of the device that nobody has; 0: not known. */
static uint64_t
device_left(void)
{
	static void *nvml;
	uint64_t left = 0;

	if (wkr.soft)
		return wkr.soft->memory_left(wkr.ordinal, &left) ==
		       CUDA_SUCCESS ? left : 0;
	if (!nvml)
		nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	return nvml ? left_by_nvml(nvml) : 0;
}

void
wkr_taken_begin(void)
{
	before = device_left();
}

void
wkr_taken_context(void)
{
	uint64_t after = before ? device_left() : 0;

	if (before && after && after < before)
		context_bytes = before - after;
	if (!after)
		log_line(LOG_WARN, "what this context takes of the device is "
			 "not known and not counted: no answer of "
			 "libnvidia-ml.so.1");
}

static uint64_t
attribute(CUdevice_attribute which)
{
	int value = 0;

	wkr_ok(wkr.drv.cuDeviceGetAttribute(&value, which, wkr.device));
	return value > 0 ? (uint64_t)value : 0;
}

uint64_t
wkr_limit_bytes(CUlimit limit)
{
	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
		return attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *
		       attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
	case CU_LIMIT_PRINTF_FIFO_SIZE:
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		return 1;
	default:
		return 0;
	}
}

static uint64_t
first_stack(void)
{
	uint64_t first = atomic_load(&stack_first);
	size_t bytes = 0;

	if (first)
		return first;
	wkr_ok(wkr.drv.cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
	atomic_store(&stack_first, bytes);
	return bytes;
}

void
wkr_taken_limit(CUlimit limit, uint64_t was, uint64_t is)
{
	uint64_t each = wkr_limit_bytes(limit);

	if (limit == CU_LIMIT_STACK_SIZE) {
		if (!atomic_load(&stack_first))
			atomic_store(&stack_first, was);
		atomic_store(&stack_now, is);
	} else if (each) {
		/* Also downwards: the sum is of what it is now. */
		atomic_fetch_add(&other_bytes, (is - was) * each);
	}
}

static uint64_t
local_bytes(uint64_t deepest)
{
	uint64_t first = first_stack();

	return deepest > first ? (deepest - first) *
				 wkr_limit_bytes(CU_LIMIT_STACK_SIZE) : 0;
}

bool
wkr_taken_local(struct wkr_client *client, uint32_t bytes)
{
	uint32_t was = atomic_load(&client->deepest);

	if (bytes <= was)
		return true;
	if (local_bytes(bytes) > client->device_limit)
		return false;
	while (bytes > was && !atomic_compare_exchange_weak(&client->deepest,
							    &was, bytes))
		;
	if (local_bytes(bytes))
		wkr_taken_say(client);
	return true;
}

void
wkr_taken_say(const struct wkr_client *client)
{
	Mps__Control control = MPS__CONTROL__INIT;
	Mps__WorkerTaken taken = MPS__WORKER_TAKEN__INIT;
	uint64_t deepest = atomic_load(&client->deepest);
	uint64_t stack = atomic_load(&stack_now);

	taken.client = client->id;
	taken.bytes = context_bytes + atomic_load(&other_bytes) +
		      local_bytes(deepest > stack ? deepest : stack);
	control.body_case = MPS__CONTROL__BODY_WORKER_TAKEN;
	control.worker_taken = &taken;
	wkr_control_send(&control, NULL, 0);
}
