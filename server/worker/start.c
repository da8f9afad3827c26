/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From nothing to a driver with a context. The order matters: addresses are
 * kept free before the driver starts, and the environment that it reads is
 * set before that.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/worker/call.h"
#include "server/worker/crash.h"
#include "server/worker/memory.h"
#include "server/worker/slow.h"
#include "server/worker/taken.h"
#include "server/worker/word.h"
#include "server/worker/worker.h"

struct wkr wkr = {
	.control_lock = PTHREAD_MUTEX_INITIALIZER,
	.clients_lock = PTHREAD_MUTEX_INITIALIZER,
};

uint64_t
wkr_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What the start was spent on, in one line of the log. */
static struct {
	uint64_t begun, last;
	char text[256];
	size_t size;
} laps;

void
wkr_lap(const char *what)
{
	uint64_t now = wkr_now_ns();
	int n = 0;

	if (!laps.begun)
		laps.begun = laps.last = now;
	else
		n = snprintf(laps.text + laps.size,
			     sizeof(laps.text) - laps.size, "%s%s %.1f",
			     laps.size ? ", " : "", what,
			     (double)(now - laps.last) / 1e6);
	if (n > 0 && (size_t)n < sizeof(laps.text) - laps.size)
		laps.size += (size_t)n;
	laps.last = now;
}

void
wkr_laps_say(void)
{
	log_line(LOG_INFO, "started in %.1f ms: %s",
		 (double)(laps.last - laps.begun) / 1e6, laps.text);
}

/* There when the build counts covered lines, which _exit() would lose. */
extern void __gcov_dump(void) __attribute__((weak));

void
wkr_leave(int status)
{
	if (__gcov_dump)
		__gcov_dump();
	_exit(status);
}

void
wkr_thread_begin(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	wkr_crash_thread();
	wkr_slow_thread();
	wkr_ok(wkr.drv.cuCtxSetCurrent(wkr.context));
	/* One client's capture must not forbid another's calls. */
	wkr_ok(wkr.drv.cuThreadExchangeStreamCaptureMode(&mode));
}

/*
 * A word that only our shim has in it. Were it taken for the driver, it
 * would connect to the broker that has started us.
 */
static bool
is_our_shim(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	bool found;
	void *p;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
		return false;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return false;
	found = memmem(p, (size_t)st.st_size, "MPSSHIM_NO_BROKER", 17);
	munmap(p, (size_t)st.st_size);
	return found;
}

static void
find_soft(void)
{
	const void *table = NULL;
	CUuuid id;

	_Static_assert(sizeof(id) == sizeof(SOFTCUDA_TABLE_ID), "16 bytes");
	memcpy(&id, SOFTCUDA_TABLE_ID, sizeof(id));
	if (wkr.drv.cuGetExportTable(&table, &id) == CUDA_SUCCESS)
		wkr.soft = table;
}

static CUresult
open_driver(char *message, size_t size)
{
	const char *path = wkr.driver_path;
	void *library;

	if (path[0] != '/' || is_our_shim(path)) {
		snprintf(message, size, "%s: not a driver library (%s)", path,
			 path[0] == '/' ? "it is our own shim"
					: "the path is not absolute");
		return CUDA_ERROR_STUB_LIBRARY;
	}
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(message, size, "no driver library: %s", dlerror());
		return CUDA_ERROR_NO_DEVICE;
	}
	if (wkr_driver_load(&wkr.drv, library) < 0) {
		snprintf(message, size, "%s has no cuInit", path);
		return CUDA_ERROR_STUB_LIBRARY;
	}
	find_soft();
	return CUDA_SUCCESS;
}

static void
set_environment(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* All hardware queues there are. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	/* Code is loaded at its first use, which the gate forces. */
	setenv("CUDA_MODULE_LOADING", "LAZY", 1);
	unsetenv("LD_PRELOAD");
}

/* A step of the driver's start that failed, in one line. */
static CUresult
failed(CUresult r, const char *what, char *message, size_t size)
{
	const char *text = NULL;

	wkr.drv.cuGetErrorString(r, &text);
	snprintf(message, size, "%s: %s answers %d (%s)", wkr.driver_path, what,
		 (int)r, text ? text : "unknown");
	return r;
}

static CUresult
make_context(char *message, size_t size)
{
	CUresult r;

	r = wkr.drv.cuDeviceGet(&wkr.device, wkr.ordinal);
	if (r != CUDA_SUCCESS)
		return failed(r, "cuDeviceGet", message, size);
	/* Of a context that all share nobody has more than another. */
	if (wkr.solo)
		wkr_taken_begin();
	r = wkr.drv.cuDevicePrimaryCtxRetain(&wkr.context, wkr.device);
	if (r != CUDA_SUCCESS)
		return failed(r, "the primary context", message, size);
	r = wkr.drv.cuCtxSetCurrent(wkr.context);
	if (r != CUDA_SUCCESS)
		return failed(r, "cuCtxSetCurrent", message, size);
	if (wkr.solo)
		wkr_taken_context();
	return CUDA_SUCCESS;
}

static void
ask_device(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
			     .id = wkr.device},
	};
	size_t free_bytes = 0, total = 0;
	int major = 0, minor = 0;

	wkr.drv.cuDeviceGetAttribute(
		&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
		wkr.device);
	wkr.drv.cuDeviceGetAttribute(
		&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
		wkr.device);
	wkr.sm = (unsigned)(major * 10 + minor);
	if (wkr.drv.cuMemGetAllocationGranularity(
		    &wkr.granularity, &prop,
		    CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
	    !wkr.granularity)
		wkr.granularity = (size_t)2 << 20;
	wkr.drv.cuDeviceGetAttribute(
		&wkr.shared_optin,
		CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
		wkr.device);
	wkr.drv.cuMemGetInfo_v2(&free_bytes, &total);
	wkr.total_memory = total;
	wkr_ballast_read();
}

static CUresult
init_driver(char *message, size_t size)
{
	CUresult r = wkr.drv.cuInit(0);

	wkr_lap("cuInit");
	if (r != CUDA_SUCCESS)
		return failed(r, "cuInit", message, size);
	wkr.drv.cuDriverGetVersion(&wkr.driver_version);
	/* cuFuncGetParamInfo and others that this rests on are 12.4's. */
	if (wkr.driver_version < 12040) {
		snprintf(message, size,
			 "%s is of CUDA %d.%d; 12.4 is the "
			 "oldest that serves",
			 wkr.driver_path, wkr.driver_version / 1000,
			 wkr.driver_version % 1000 / 10);
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	}
	r = wkr.drv.cuDeviceGetCount(&wkr.device_count);
	if (r != CUDA_SUCCESS)
		return failed(r, "cuDeviceGetCount", message, size);
	return make_context(message, size);
}

CUresult
wkr_start_driver(char *message, size_t size)
{
	CUresult r;

	set_environment();
	r = open_driver(message, size);
	return r == CUDA_SUCCESS ? init_driver(message, size) : r;
}

CUresult
wkr_start(char *message, size_t size)
{
	CUresult r;

	set_environment();
	r = open_driver(message, size);
	if (r != CUDA_SUCCESS)
		return r;
	wkr_lap("library");
	wkr_windows_read();
	wkr_windows_fill();
	wkr_lap("addresses");
	r = init_driver(message, size);
	if (r != CUDA_SUCCESS)
		return r;
	wkr_lap("context");
	wkr_windows_reserve();
	wkr_lap("windows");
	ask_device();
	wkr_words_start();
	wkr_lap("words");
	/* A solo client disturbs nobody, and may still choose the size. */
	if (!wkr.solo)
		wkr_print_first();
	wkr_lap("text");
	return CUDA_SUCCESS;
}
