/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What entry points answer, row by row: contexts, streams, events, modules,
 * functions, launches, and every error's name and text. Codes and texts are
 * those of driver 580.159.04 on an H200; the same binary runs there natively
 * and anywhere under the shim. Natively with FACTS_COMPARABLE in the
 * environment: the driver follows pointers that are none or are no more, and
 * crashes at rows of that kind, which are left out then.
 * Usage: answers errors_real.tsv
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;
static unsigned passed, failed;
/* Rows with handles and pointers that are none or are no more. */
static bool careless;
/* The row that is being asked, for who crashes in it. */
static volatile sig_atomic_t asked;

static void *
find(const char *name)
{
	void *found = dlsym(library, name);

	if (found == NULL) {
		fprintf(stderr, "no %s\n", name);
		exit(2);
	}
	return found;
}

/* The driver's function of that name. */
#define D(name) (asked = __LINE__, (__typeof__(&name))find(#name))

/* Says where. */
static void
crashed(int number)
{
	char text[] = "line     : the call crashes\n";
	int at = 8;

	for (int line = asked; line > 0 && at > 4; line /= 10)
		text[at--] = (char)('0' + line % 10);
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	signal(number, SIG_DFL);
	raise(number);
}

static void
row(int line, const char *call, long expected, long got)
{
	if (got == expected) {
		passed++;
		return;
	}
	failed++;
	printf("line %d: %s gives %ld instead of %ld\n", line, call, got,
	       expected);
}

#define EXPECT(code, name, ...) \
	row(__LINE__, #name "(" #__VA_ARGS__ ")", code, \
	    D(name)(__VA_ARGS__))
#define VALUE(expected, value) \
	row(__LINE__, #value, (long)(expected), (long)(value))
#define OK(name, ...) EXPECT(CUDA_SUCCESS, name, __VA_ARGS__)

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".global .align 4 .u32 counter;\n"
	".const .align 4 .u32 table[4];\n"
	".visible .entry none()\n{ ret; }\n"
	".visible .entry two(.param .u64 a, .param .u32 b)\n{ ret; }\n"
	".visible .entry bound(.param .u32 b) .maxntid 256,1,1\n{ ret; }\n"
	".visible .entry shares(.param .u64 a)\n"
	"{ .shared .align 4 .b8 s[1024]; .reg .u32 r; .reg .u64 q;"
	" ld.param.u64 q,[a]; ld.shared.u32 r,[s];"
	" st.global.u32 [q], r; ret; }\n"
	".visible .entry spin(.param .u64 n)\n"
	"{ .reg .u64 q,t,u; .reg .pred p; ld.param.u64 q,[n];"
	" mov.u64 t,%globaltimer; add.u64 t,t,q;\n"
	"L: mov.u64 u,%globaltimer; setp.lt.u64 p,u,t; @p bra L; ret; }\n";

/* ---- errors ---- */

static void
check_error_line(int code, const char *name, const char *text)
{
	const char *got = NULL;

	OK(cuGetErrorName, code, &got);
	if (got == NULL || strcmp(got, name) != 0)
		row(__LINE__, name, 0, 1);
	OK(cuGetErrorString, code, &got);
	if (got == NULL || strcmp(got, text) != 0)
		row(__LINE__, text, 0, 1);
}

static void
errors(const char *path)
{
	char line[256], *name, *text, known[1001] = { 0 };
	FILE *file = fopen(path, "r");
	const char *got;

	if (file == NULL) {
		perror(path);
		exit(2);
	}
	while (fgets(line, sizeof(line), file) != NULL) {
		int code = atoi(strtok(line, "\t"));

		name = strtok(NULL, "\t");
		text = strtok(NULL, "\n");
		check_error_line(code, name, text);
		known[code] = 1;
	}
	fclose(file);
	for (int code = 0; code <= 1000; code++) {
		got = "";
		if (known[code])
			continue;
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetErrorName, code, &got);
		VALUE(0, got);
		got = "";
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetErrorString, code,
		       &got);
		VALUE(0, got);
	}
}

/* ---- before cuInit ---- */

static void
before_init(void)
{
	CUmoduleLoadingMode mode;
	CUcontext ctx;
	int n;

	OK(cuDriverGetVersion, &n);
	EXPECT(1, cuDriverGetVersion, NULL);
	EXPECT(1, cuInit, 1);
	EXPECT(3, cuDeviceGetCount, &n);
	EXPECT(3, cuCtxGetCurrent, &ctx);
	EXPECT(3, cuCtxSynchronize);
	EXPECT(3, cuModuleGetLoadingMode, &mode);
}

/* ---- code without a context ---- */

/* A launch takes a kernel for its function; nobody else does. */
static void
kernel_is_no_function(CUfunction kernel)
{
	size_t offset, size;
	const char *name;
	CUmodule m;
	int value;

	EXPECT(400, cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_NUM_REGS,
	       kernel);
	EXPECT(400, cuFuncSetAttribute, kernel,
	       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0);
	EXPECT(400, cuFuncSetCacheConfig, kernel, CU_FUNC_CACHE_PREFER_L1);
	EXPECT(400, cuFuncGetModule, &m, kernel);
	EXPECT(400, cuFuncGetName, &name, kernel);
	EXPECT(400, cuFuncGetParamInfo, kernel, 0, &offset, &size);
	EXPECT(400, cuFuncLoad, kernel);
}

/* The order in which a runtime starts: code first, then a context. */
static void
library_first(void)
{
	CUlibrary lib;
	CUkernel kernel;
	CUfunction f;
	CUcontext ctx;

	/* The driver looks at it when it is first used. */
	if (careless)
		EXPECT(200, cuLibraryLoadData, &lib, "junk", NULL, NULL, 0,
		       NULL, NULL, 0);
	EXPECT(1, cuLibraryLoadData, &lib, NULL, NULL, NULL, 0, NULL, NULL,
	       0);
	OK(cuLibraryLoadData, &lib, ptx, NULL, NULL, 0, NULL, NULL, 0);
	OK(cuDevicePrimaryCtxRetain, &ctx, 0);
	OK(cuCtxSetCurrent, ctx);
	EXPECT(500, cuLibraryGetKernel, &kernel, lib, "absent");
	OK(cuLibraryGetKernel, &kernel, lib, "none");
	OK(cuLaunchKernel, (CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL,
	   NULL, NULL);
	OK(cuCtxSynchronize);

	/* Handles of a library outlive a context. */
	OK(cuDevicePrimaryCtxReset_v2, 0);
	OK(cuDevicePrimaryCtxRetain, &ctx, 0);
	OK(cuLaunchKernel, (CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL,
	   NULL, NULL);
	OK(cuKernelGetFunction, &f, kernel);
	kernel_is_no_function((CUfunction)kernel);
	OK(cuFuncLoad, f);
	OK(cuCtxSynchronize);
	OK(cuLibraryUnload, lib);
	OK(cuDevicePrimaryCtxRelease_v2, 0);
	OK(cuDevicePrimaryCtxRelease_v2, 0);
	OK(cuCtxSetCurrent, NULL);
}

/* ---- contexts ---- */

static void
without_context(void)
{
	unsigned int flags, version;
	unsigned long long id;
	CUdeviceptr p;
	CUcontext ctx;
	CUdevice dev;
	size_t size;
	CUstream s;
	int active;

	EXPECT(201, cuCtxGetDevice, &dev);
	EXPECT(1, cuCtxGetDevice, NULL);
	EXPECT(201, cuCtxGetFlags, &flags);
	EXPECT(1, cuCtxGetFlags, NULL);
	EXPECT(201, cuCtxGetId, NULL, &id);
	EXPECT(201, cuCtxGetApiVersion, NULL, &version);
	EXPECT(201, cuCtxSynchronize);
	EXPECT(201, cuCtxSynchronize_v2, NULL);
	EXPECT(201, cuCtxGetLimit, &size, CU_LIMIT_STACK_SIZE);
	EXPECT(201, cuCtxGetLimit, NULL, CU_LIMIT_STACK_SIZE);
	EXPECT(201, cuCtxPopCurrent_v2, &ctx);
	EXPECT(1, cuCtxPushCurrent_v2, NULL);
	OK(cuCtxSetCurrent, NULL);
	OK(cuCtxGetCurrent, &ctx);
	VALUE(0, ctx);
	EXPECT(201, cuMemAlloc_v2, &p, 4);
	EXPECT(201, cuStreamCreate, &s, 0);
	EXPECT(201, cuStreamGetFlags, NULL, &flags);
	EXPECT(201, cuStreamGetId, NULL, &id);
	EXPECT(1, cuCtxDestroy_v2, NULL);
	EXPECT(201, cuCtxGetDevice_v2, &dev, NULL);
	EXPECT(201, cuDevicePrimaryCtxRelease_v2, 0);
	OK(cuDevicePrimaryCtxReset_v2, 0);
	EXPECT(101, cuDevicePrimaryCtxRelease_v2, 99);
	EXPECT(101, cuDevicePrimaryCtxReset_v2, 99);
	EXPECT(1, cuDevicePrimaryCtxRetain, NULL, 0);
	EXPECT(101, cuDevicePrimaryCtxRetain, &ctx, 99);
	EXPECT(1, cuDevicePrimaryCtxGetState, 0, NULL, &active);
	EXPECT(1, cuDevicePrimaryCtxGetState, 0, &flags, NULL);
}

static void
primary_flags(void)
{
	/* Scheduling bits exclude each other; CU_CTX_MAP_HOST is none. */
	static const unsigned int good[] = { 1, 2, 4, 0x10, 0x20, 0x40, 0x80,
					     0 };
	static const unsigned int bad[] = { 3, 5, 6, 7, 8, 0x100 };
	unsigned int flags;
	int active;

	for (unsigned i = 0; i < 8; i++) {
		OK(cuDevicePrimaryCtxSetFlags_v2, 0, good[i]);
		OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
		VALUE(good[i], flags);
		VALUE(0, active);
	}
	for (unsigned i = 0; i < 6; i++)
		EXPECT(1, cuDevicePrimaryCtxSetFlags_v2, 0, bad[i]);
}

/* A primary context that is current but not alive. */
static void
inactive(CUcontext primary)
{
	unsigned long long id = 0;
	unsigned int flags;
	CUfunc_cache cache;
	CUsharedconfig shared;
	CUdeviceptr p;
	CUcontext ctx;
	CUdevice dev;
	size_t size;
	CUstream s;

	OK(cuCtxSetCurrent, primary);
	OK(cuCtxGetCurrent, &ctx);
	VALUE(primary, ctx);
	OK(cuCtxGetDevice, &dev);
	OK(cuCtxGetDevice_v2, &dev, primary);
	OK(cuCtxGetFlags, &flags);
	EXPECT(709, cuCtxGetId, NULL, &id);
	VALUE(0, id);
	EXPECT(709, cuCtxGetId, primary, &id);
	EXPECT(709, cuCtxGetApiVersion, NULL, &flags);
	EXPECT(201, cuCtxGetApiVersion, primary, &flags);
	EXPECT(709, cuMemAlloc_v2, &p, 4);
	EXPECT(709, cuStreamCreate, &s, 0);
	EXPECT(709, cuCtxSynchronize);
	EXPECT(709, cuCtxSynchronize_v2, primary);
	EXPECT(709, cuCtxGetLimit, &size, CU_LIMIT_STACK_SIZE);
	EXPECT(709, cuCtxGetCacheConfig, &cache);
	EXPECT(709, cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_L1);
	EXPECT(709, cuCtxGetSharedMemConfig, &shared);
	EXPECT(709, cuStreamGetFlags, NULL, &flags);
	OK(cuCtxPushCurrent_v2, primary);
	OK(cuCtxPopCurrent_v2, &ctx);
	OK(cuCtxPopCurrent_v2, NULL);
	EXPECT(201, cuCtxPopCurrent_v2, &ctx);
	EXPECT(201, cuCtxDestroy_v2, primary);
}

static void
primary_life(void)
{
	unsigned long long first, second;
	unsigned int flags;
	CUcontext ctx, again;
	CUdeviceptr p;
	int active;

	OK(cuDevicePrimaryCtxRetain, &ctx, 0);
	OK(cuDevicePrimaryCtxRetain, &again, 0);
	VALUE(ctx, again);
	OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	VALUE(0, flags);
	VALUE(1, active);
	OK(cuCtxSetCurrent, ctx);
	OK(cuCtxGetFlags, &flags);
	VALUE(CU_CTX_MAP_HOST, flags);
	OK(cuCtxGetApiVersion, ctx, &flags);
	VALUE(3020, flags);
	OK(cuCtxGetId, ctx, &first);
	/* Flags of a live context change at once. */
	OK(cuDevicePrimaryCtxSetFlags_v2, 0, CU_CTX_SCHED_BLOCKING_SYNC);
	OK(cuCtxGetFlags, &flags);
	VALUE(CU_CTX_MAP_HOST | CU_CTX_SCHED_BLOCKING_SYNC, flags);
	OK(cuDevicePrimaryCtxSetFlags_v2, 0, 0);

	/* A reset takes no retain away. */
	OK(cuDevicePrimaryCtxReset_v2, 0);
	OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	VALUE(0, active);
	OK(cuCtxGetCurrent, &again);
	VALUE(ctx, again);
	EXPECT(709, cuMemAlloc_v2, &p, 4);
	inactive(ctx);
	OK(cuDevicePrimaryCtxRelease_v2, 0);
	OK(cuDevicePrimaryCtxRelease_v2, 0);
	EXPECT(201, cuDevicePrimaryCtxRelease_v2, 0);
	OK(cuDevicePrimaryCtxRetain, &again, 0);
	VALUE(ctx, again);
	OK(cuCtxGetId, ctx, &second);
	VALUE(1, first != second);
	OK(cuCtxSetCurrent, ctx);
	OK(cuMemAlloc_v2, &p, 4);
	OK(cuDevicePrimaryCtxRelease_v2, 0);
	OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	VALUE(0, active);
	OK(cuCtxSetCurrent, NULL);
}

static void
created_contexts(void)
{
	static const unsigned int bad[] = { 3, 5, 6, 7, 0x100 };
	unsigned int flags;
	CUcontext a, b, top;

	for (unsigned i = 0; i < 5; i++)
		EXPECT(1, cuCtxCreate_v2, &a, bad[i], 0);
	EXPECT(1, cuCtxCreate_v2, NULL, 0, 0);
	EXPECT(101, cuCtxCreate_v2, &a, 0, 99);
	OK(cuCtxCreate_v2, &a, CU_CTX_MAP_HOST, 0);
	OK(cuCtxGetFlags, &flags);
	VALUE(CU_CTX_MAP_HOST, flags);
	OK(cuCtxCreate_v4, &b, NULL, 0, 0);
	OK(cuCtxGetFlags, &flags);
	VALUE(0, flags);
	OK(cuCtxGetApiVersion, b, &flags);
	VALUE(3020, flags);

	/* The stack is a, b. NULL takes the top away, others replace it. */
	OK(cuCtxSetCurrent, NULL);
	OK(cuCtxGetCurrent, &top);
	VALUE(a, top);
	OK(cuCtxSetCurrent, b);
	OK(cuCtxPopCurrent_v2, NULL);
	OK(cuCtxGetCurrent, &top);
	VALUE(0, top);
	OK(cuCtxPushCurrent_v2, a);
	OK(cuCtxPushCurrent_v2, b);
	/* Destroying the current one takes it off the stack. */
	OK(cuCtxDestroy_v2, b);
	OK(cuCtxGetCurrent, &top);
	VALUE(a, top);
	if (careless) {
		EXPECT(709, cuCtxDestroy_v2, b);
		OK(cuCtxPushCurrent_v2, b);
		EXPECT(709, cuCtxSynchronize);
		OK(cuCtxPopCurrent_v2, NULL);
	}
	OK(cuCtxDestroy_v2, a);
	OK(cuCtxGetCurrent, &top);
	VALUE(0, top);
}

static pthread_barrier_t barrier;

static void *
keep_current(void *arg)
{
	unsigned int flags;
	CUcontext ctx = arg, top;
	CUdeviceptr p;
	CUdevice dev;

	D(cuCtxSetCurrent)(ctx);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	OK(cuCtxGetCurrent, &top);
	VALUE(ctx, top);
	OK(cuCtxGetDevice, &dev);
	OK(cuCtxGetFlags, &flags);
	EXPECT(709, cuMemAlloc_v2, &p, 4);
	EXPECT(709, cuCtxSynchronize);
	OK(cuCtxPopCurrent_v2, &top);
	OK(cuCtxGetCurrent, &top);
	VALUE(0, top);
	return NULL;
}

static void
destroyed_elsewhere(void)
{
	pthread_t thread;
	CUcontext ctx;

	OK(cuCtxCreate_v2, &ctx, 0, 0);
	OK(cuCtxPopCurrent_v2, NULL);
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, keep_current, ctx);
	pthread_barrier_wait(&barrier);
	OK(cuCtxDestroy_v2, ctx);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
}

static void
settings(void)
{
	CUsharedconfig shared;
	CUfunc_cache cache;
	size_t size;

	EXPECT(1, cuCtxGetLimit, &size, 77);
	EXPECT(1, cuCtxSetLimit, 77, 1);
	EXPECT(1, cuCtxSetLimit, CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 1000);
	OK(cuCtxSetLimit, CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 100);
	OK(cuCtxGetLimit, &size, CU_LIMIT_MAX_L2_FETCH_GRANULARITY);
	VALUE(100, size);
	EXPECT(800, cuCtxSetLimit, CU_LIMIT_SHMEM_SIZE, 5);
	EXPECT(800, cuCtxSetLimit, CU_LIMIT_CIG_ENABLED, 1);
	EXPECT(1, cuCtxSetCacheConfig, 5);
	OK(cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_L1);
	OK(cuCtxGetCacheConfig, &cache);
	VALUE(CU_FUNC_CACHE_PREFER_L1, cache);
	OK(cuCtxSetSharedMemConfig, 2);
	OK(cuCtxGetSharedMemConfig, &shared);
	VALUE(CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE, shared);
	EXPECT(1, cuCtxSetSharedMemConfig, 7);
	OK(cuCtxGetStreamPriorityRange, NULL, NULL);
}

/* ---- streams and events ---- */

static void
streams(void)
{
	unsigned long long legacy, same, thread, own;
	unsigned int flags;
	CUcontext ctx, top;
	CUstream s;

	for (unsigned i = 2; i < 9; i++)
		EXPECT(1, cuStreamCreate, &s, i);
	EXPECT(1, cuStreamCreate, NULL, 0);
	OK(cuStreamCreateWithPriority, &s, CU_STREAM_NON_BLOCKING, 0);
	OK(cuStreamGetFlags, s, &flags);
	VALUE(CU_STREAM_NON_BLOCKING, flags);
	OK(cuStreamGetFlags, NULL, &flags);
	VALUE(CU_STREAM_DEFAULT, flags);
	OK(cuStreamGetId, NULL, &legacy);
	OK(cuStreamGetId, CU_STREAM_LEGACY, &same);
	OK(cuStreamGetId, CU_STREAM_PER_THREAD, &thread);
	OK(cuStreamGetId, s, &own);
	VALUE(legacy, same);
	VALUE(1, legacy != thread && thread != own && own != legacy);
	OK(cuStreamGetId_ptsz, NULL, &same);
	VALUE(thread, same);
	EXPECT(1, cuStreamGetId, s, NULL);
	EXPECT(1, cuStreamGetFlags, s, NULL);
	OK(cuCtxGetCurrent, &top);
	OK(cuStreamGetCtx, s, &ctx);
	VALUE(top, ctx);
	OK(cuStreamGetCtx, NULL, &ctx);
	VALUE(top, ctx);
	EXPECT(1, cuStreamGetCtx, s, NULL);
	OK(cuStreamQuery, s);
	OK(cuStreamQuery, NULL);
	OK(cuStreamSynchronize, CU_STREAM_PER_THREAD);
	EXPECT(400, cuStreamDestroy_v2, NULL);
	OK(cuStreamDestroy_v2, s);
}

static void
events(CUfunction spin)
{
	static const unsigned int bad[] = { 4, 5, 8, 16, 32 };
	CUevent start, end, untimed;
	/* Long enough for three questions on a loaded machine. */
	uint64_t ns = 1000000000;
	void *args[] = { &ns };
	CUstream s;
	float ms;

	for (unsigned i = 0; i < 5; i++)
		EXPECT(1, cuEventCreate, &start, bad[i]);
	EXPECT(1, cuEventCreate, NULL, 0);
	OK(cuEventCreate, &start, CU_EVENT_DEFAULT);
	OK(cuEventCreate, &end, CU_EVENT_BLOCKING_SYNC);
	OK(cuEventCreate, &untimed, CU_EVENT_DISABLE_TIMING);
	OK(cuEventQuery, start);
	OK(cuEventSynchronize, start);
	EXPECT(400, cuEventElapsedTime_v2, &ms, start, end);
	OK(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
	OK(cuStreamWaitEvent, s, start, 0);
	OK(cuEventRecord, start, s);
	EXPECT(400, cuEventElapsedTime_v2, &ms, start, end);
	OK(cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, s, args, NULL);
	OK(cuEventRecord, end, s);
	EXPECT(600, cuEventQuery, end);
	EXPECT(600, cuEventElapsedTime_v2, &ms, start, end);
	EXPECT(600, cuStreamQuery, s);
	OK(cuEventSynchronize, end);
	OK(cuEventQuery, end);
	OK(cuEventElapsedTime_v2, &ms, start, end);
	VALUE(1, ms > 100 && ms < 10000);
	OK(cuEventRecord, untimed, s);
	OK(cuEventSynchronize, untimed);
	EXPECT(400, cuEventElapsedTime_v2, &ms, untimed, end);
	EXPECT(400, cuEventElapsedTime_v2, &ms, start, untimed);
	EXPECT(400, cuEventRecord, NULL, s);
	EXPECT(400, cuStreamWaitEvent, s, NULL, 0);
	EXPECT(400, cuEventQuery, NULL);
	EXPECT(400, cuEventDestroy_v2, NULL);
	OK(cuEventDestroy_v2, start);
	OK(cuEventDestroy_v2, end);
	OK(cuEventDestroy_v2, untimed);
	OK(cuStreamDestroy_v2, s);
}

/* ---- code ---- */

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static void
images(void)
{
	static const unsigned char elf[256] = { 0x7f, 'E', 'L', 'F', 2, 1, 1,
						0x33 };
	CUmodule m;

	EXPECT(1, cuModuleLoadData, &m, NULL);
	EXPECT(1, cuModuleLoadData, NULL, ptx);
	EXPECT(200, cuModuleLoadData, &m, "junk");
	EXPECT(200, cuModuleLoadData, &m, "");
	EXPECT(200, cuModuleLoadData, &m, "\x01\x02\x03 and more");
	EXPECT(200, cuModuleLoadData, &m, ".target sm_70\n");
	EXPECT(200, cuModuleLoadData, &m, "!<arch>\nmember");
	EXPECT(200, cuModuleLoadData, &m, elf);
	EXPECT(218, cuModuleLoadData, &m,
	       HEAD ".visible .entry x(){ bogus; }\n");
	EXPECT(222, cuModuleLoadData, &m, ".version 99.0\n.target sm_70\n"
	       ".address_size 64\n.visible .entry x(){ ret; }");
	EXPECT(218, cuModuleLoadData, &m, ".version 7.0\n.target sm_200\n"
	       ".address_size 64\n.visible .entry x(){ ret; }");
	OK(cuModuleLoadData, &m, "// a comment first\n" HEAD);
	OK(cuModuleUnload, m);
	if (careless)
		EXPECT(400, cuModuleUnload, m);
	OK(cuModuleLoadData, &m, "\n   " HEAD);
	OK(cuModuleUnload, m);
}

static void
launches(CUmodule m)
{
	CUfunction none, two, bound, shares;
	CUdeviceptr p = 0;
	uint32_t b = 1;
	void *args[] = { &p, &b }, *one[] = { &b }, *holes[] = { NULL, NULL };

#define LAUNCH(code, f, gx, gy, gz, bx, by, bz, shared, params, extra) \
	EXPECT(code, cuLaunchKernel, f, gx, gy, gz, bx, by, bz, shared, \
	       NULL, params, extra)
	OK(cuModuleGetFunction, &none, m, "none");
	OK(cuModuleGetFunction, &two, m, "two");
	OK(cuModuleGetFunction, &bound, m, "bound");
	OK(cuModuleGetFunction, &shares, m, "shares");
	LAUNCH(1, bound, 1, 1, 1, 257, 1, 1, 0, one, NULL);
	LAUNCH(1, bound, 1, 1, 1, 1, 1, 257, 0, one, NULL);
	LAUNCH(0, bound, 1, 1, 1, 256, 1, 1, 0, one, NULL);
	LAUNCH(1, none, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL);
	LAUNCH(1, none, 1, 1, 65536, 1, 1, 1, 0, NULL, NULL);
	LAUNCH(1, none, 0x80000000u, 1, 1, 1, 1, 1, 0, NULL, NULL);
	LAUNCH(1, none, 0, 1, 1, 1, 1, 1, 0, NULL, NULL);
	LAUNCH(0, none, 1, 1, 1, 1, 1, 1, 49152, NULL, NULL);
	LAUNCH(1, none, 1, 1, 1, 1, 1, 1, 49153, NULL, NULL);
	LAUNCH(1, shares, 1, 1, 1, 1, 1, 1, 48129, args, NULL);
	LAUNCH(0, none, 1, 1, 1, 1, 1, 1, 0, args, NULL);
	LAUNCH(1, two, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
	if (careless)
		LAUNCH(1, two, 1, 1, 1, 1, 1, 1, 0, holes, NULL);
	LAUNCH(400, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
	EXPECT(720, cuLaunchCooperativeKernel, none, 1000000, 1, 1, 1024, 1,
	       1, 0, NULL, NULL);
	OK(cuLaunchCooperativeKernel, none, 2, 1, 1, 32, 1, 1, 0, NULL, NULL);
	OK(cuCtxSynchronize);
}

static void
packed_parameters(CUmodule m)
{
	static const struct {
		size_t size;
		CUresult code;
	} rows[] = { { 0, 1 }, { 8, 0 }, { 11, 0 }, { 12, 0 }, { 13, 701 },
		     { 16, 701 }, { 24, 701 } };
	char block[64] = { 0 };
	size_t size = 12;
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, block,
			  CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			  CU_LAUNCH_PARAM_END };
	void *unknown[] = { (void *)7, block, CU_LAUNCH_PARAM_END };
	void *empty[] = { CU_LAUNCH_PARAM_END };
	void *unsized[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, block,
			    CU_LAUNCH_PARAM_END };
	void *args[] = { block, block };
	CUfunction none, two;

	OK(cuModuleGetFunction, &none, m, "none");
	OK(cuModuleGetFunction, &two, m, "two");
	LAUNCH(1, two, 1, 1, 1, 1, 1, 1, 0, args, extra);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size = rows[i].size;
		LAUNCH(rows[i].code, two, 1, 1, 1, 1, 1, 1, 0, NULL, extra);
	}
	size = 0;
	LAUNCH(0, none, 1, 1, 1, 1, 1, 1, 0, NULL, extra);
	size = 8;
	LAUNCH(701, none, 1, 1, 1, 1, 1, 1, 0, NULL, extra);
	LAUNCH(1, two, 1, 1, 1, 1, 1, 1, 0, NULL, unknown);
	LAUNCH(1, two, 1, 1, 1, 1, 1, 1, 0, NULL, empty);
	LAUNCH(0, none, 1, 1, 1, 1, 1, 1, 0, NULL, empty);
	LAUNCH(1, two, 1, 1, 1, 1, 1, 1, 0, NULL, unsized);
	OK(cuCtxSynchronize);
}

static void
attributes(CUmodule m)
{
	/* With a value of zeros, by id. */
	static const CUresult zero[] = { 0, 0, 0, 1, 0, 0, 0, 400, 0, 0, 0, 0,
					 400, 801, 0, 1, 0, 1 };
	CUlaunchAttribute attr;
	CUlaunchConfig config = { 1, 1, 1, 1, 1, 1, 0, NULL, &attr, 1 };
	CUfunction none;
	CUevent timed;
	int clusters;

	OK(cuModuleGetFunction, &none, m, "none");
	EXPECT(1, cuLaunchKernelEx, NULL, none, NULL, NULL);
	for (unsigned i = 0; i < sizeof(zero) / sizeof(zero[0]); i++) {
		memset(&attr, 0, sizeof(attr));
		attr.id = i;
		row(__LINE__, "a launch with an attribute of zeros", zero[i],
		    D(cuLaunchKernelEx)(&config, none, NULL, NULL));
	}
	attr.id = 77;
	EXPECT(1, cuLaunchKernelEx, &config, none, NULL, NULL);
	config.attrs = NULL;
	if (careless)
		EXPECT(1, cuLaunchKernelEx, &config, none, NULL, NULL);
	config.attrs = &attr;

	attr.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
	attr.value.clusterDim.x = 2;
	attr.value.clusterDim.y = attr.value.clusterDim.z = 1;
	EXPECT(912, cuLaunchKernelEx, &config, none, NULL, NULL);
	config.gridDimX = 16;
	OK(cuLaunchKernelEx, &config, none, NULL, NULL);
	attr.value.clusterDim.x = 16;
	EXPECT(912, cuLaunchKernelEx, &config, none, NULL, NULL);
	OK(cuFuncSetAttribute, none,
	   CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
	OK(cuLaunchKernelEx, &config, none, NULL, NULL);
	OK(cuOccupancyMaxActiveClusters, &clusters, none, &config);
	OK(cuCtxSynchronize);
	OK(cuFuncSetAttribute, none,
	   CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0);
	attr.value.clusterDim.x = 0;
	EXPECT(912, cuLaunchKernelEx, &config, none, NULL, NULL);

	attr.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
	attr.value.sharedMemCarveout = 50;
	OK(cuLaunchKernelEx, &config, none, NULL, NULL);
	attr.value.sharedMemCarveout = 500;
	EXPECT(1, cuLaunchKernelEx, &config, none, NULL, NULL);
	attr.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
	attr.value.priority = -30;
	OK(cuLaunchKernelEx, &config, none, NULL, NULL);

	OK(cuEventCreate, &timed, 0);
	memset(&attr, 0, sizeof(attr));
	attr.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
	attr.value.programmaticEvent.event = timed;
	EXPECT(801, cuLaunchKernelEx, &config, none, NULL, NULL);
	OK(cuEventDestroy_v2, timed);
	OK(cuCtxSynchronize);
}

static void
code(void)
{
	CUfunction spin;
	CUmodule m;

	images();
	OK(cuModuleLoadData, &m, ptx);
	launches(m);
	packed_parameters(m);
	attributes(m);
	OK(cuModuleGetFunction, &spin, m, "spin");
	events(spin);
	OK(cuModuleUnload, m);
}

int
main(int argc, char **argv)
{
	CUcontext ctx;

	if (argc != 2)
		return 2;
	careless = getenv("FACTS_COMPARABLE") == NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGSEGV, crashed);
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library == NULL) {
		printf("%s\n", dlerror());
		return 77;
	}
	errors(argv[1]);
	before_init();
	OK(cuInit, 0);
	if (failed > 0) {
		printf("%u passed, %u failed\n", passed, failed);
		return 1;
	}
	library_first();
	without_context();
	primary_flags();
	primary_life();
	created_contexts();
	destroyed_elsewhere();
	OK(cuDevicePrimaryCtxRetain, &ctx, 0);
	OK(cuCtxSetCurrent, ctx);
	settings();
	streams();
	code();
	OK(cuDevicePrimaryCtxRelease_v2, 0);
	printf("%u passed, %u failed\n", passed, failed);
	return failed == 0 ? 0 : 1;
}
