/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver library under test, loaded by dlopen.
 * For the programs of tests/contract, tests/ptx and tests/gpu only.
 *
 * The environment variable DRIVER names the library (libcuda.so.1 without),
 * so one binary runs on the real driver and on the software device. Calls
 * are written drv.cuMemAlloc(...): cuda.h's macros turn the name into the
 * newest version, in the member's declaration and at each use alike.
 */
#ifndef TESTS_CONTRACT_DRV_H
#define TESTS_CONTRACT_DRV_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ThreadSanitizer ends a process that maps outside of its own ranges. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN
#endif
#elif defined(__SANITIZE_THREAD__)
#define TEST_TSAN
#endif

/* Exit statuses of a test program. */
enum {
	TEST_PASS = 0,
	TEST_FAIL = 1,
	TEST_SKIP = 77,
};

#define DRV_CALLS(X)				\
	X(cuArrayCreate)			\
	X(cuArrayDestroy)			\
	X(cuCtxCreate)				\
	X(cuCtxDestroy)				\
	X(cuCtxFromGreenCtx)			\
	X(cuCtxGetCurrent)			\
	X(cuCtxGetDevice)			\
	X(cuCtxGetLimit)			\
	X(cuCtxPopCurrent)			\
	X(cuCtxSetCurrent)			\
	X(cuCtxSetLimit)			\
	X(cuCtxSynchronize)			\
	X(cuDevResourceGenerateDesc)		\
	X(cuDevSmResourceSplitByCount)		\
	X(cuDeviceGet)				\
	X(cuDeviceGetAttribute)			\
	X(cuDeviceGetCount)			\
	X(cuDeviceGetDefaultMemPool)		\
	X(cuDeviceGetDevResource)		\
	X(cuDeviceGetName)			\
	X(cuDevicePrimaryCtxGetState)		\
	X(cuDevicePrimaryCtxRelease)		\
	X(cuDevicePrimaryCtxReset)		\
	X(cuDevicePrimaryCtxRetain)		\
	X(cuDriverGetVersion)			\
	X(cuEventCreate)			\
	X(cuEventDestroy)			\
	X(cuEventElapsedTime)			\
	X(cuEventQuery)				\
	X(cuEventRecord)			\
	X(cuEventSynchronize)			\
	X(cuFuncGetAttribute)			\
	X(cuFuncGetModule)			\
	X(cuFuncGetParamInfo)			\
	X(cuFuncSetAttribute)			\
	X(cuGetErrorName)			\
	X(cuGetExportTable)			\
	X(cuGetProcAddress)			\
	X(cuGraphAddKernelNode)			\
	X(cuGraphAddNode)			\
	X(cuGraphConditionalHandleCreate)	\
	X(cuGraphCreate)			\
	X(cuGraphDestroy)			\
	X(cuGraphDestroyNode)			\
	X(cuGraphExecDestroy)			\
	X(cuGraphGetNodes)			\
	X(cuGraphInstantiate)			\
	X(cuGraphLaunch)			\
	X(cuGreenCtxCreate)			\
	X(cuGreenCtxDestroy)			\
	X(cuGreenCtxGetDevResource)		\
	X(cuGreenCtxStreamCreate)		\
	X(cuInit)				\
	X(cuKernelGetAttribute)			\
	X(cuKernelGetFunction)			\
	X(cuKernelGetParamInfo)			\
	X(cuLaunchCooperativeKernel)		\
	X(cuLaunchHostFunc)			\
	X(cuLaunchKernel)			\
	X(cuLibraryGetKernel)			\
	X(cuLibraryLoadData)			\
	X(cuLibraryUnload)			\
	X(cuMemAddressFree)			\
	X(cuMemAddressReserve)			\
	X(cuMemAlloc)				\
	X(cuMemAllocAsync)			\
	X(cuMemCreate)				\
	X(cuMemExportToShareableHandle)		\
	X(cuMemFree)				\
	X(cuMemFreeAsync)			\
	X(cuMemFreeHost)			\
	X(cuMemGetAllocationGranularity)	\
	X(cuMemGetInfo)				\
	X(cuMemHostAlloc)			\
	X(cuMemHostGetDevicePointer)		\
	X(cuMemHostRegister)			\
	X(cuMemHostUnregister)			\
	X(cuMemImportFromShareableHandle)	\
	X(cuMemMap)				\
	X(cuMemPoolTrimTo)			\
	X(cuMemRelease)				\
	X(cuMemSetAccess)			\
	X(cuMemUnmap)				\
	X(cuMemcpyDtoD)				\
	X(cuMemcpyDtoDAsync)			\
	X(cuMemcpyDtoH)				\
	X(cuMemcpyDtoHAsync)			\
	X(cuMemcpyHtoD)				\
	X(cuMemcpyHtoDAsync)			\
	X(cuMemsetD32)				\
	X(cuMemsetD32Async)			\
	X(cuMemsetD8)				\
	X(cuMemsetD8Async)			\
	X(cuModuleGetFunction)			\
	X(cuModuleGetGlobal)			\
	X(cuModuleLoadData)			\
	X(cuModuleLoadDataEx)			\
	X(cuModuleUnload)			\
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
	X(cuPointerGetAttribute)		\
	X(cuStreamBeginCapture)			\
	X(cuStreamCreate)			\
	X(cuStreamCreateWithPriority)		\
	X(cuStreamDestroy)			\
	X(cuStreamEndCapture)			\
	X(cuStreamGetFlags)			\
	X(cuStreamIsCapturing)			\
	X(cuStreamQuery)			\
	X(cuStreamSynchronize)			\
	X(cuStreamWaitEvent)			\
	X(cuStreamWaitValue64)			\
	X(cuStreamWriteValue32)			\
	X(cuStreamWriteValue64)			\
	X(cuThreadExchangeStreamCaptureMode)

struct drv {
#define DRV_MEMBER(f) __typeof__(f) *f;
	DRV_CALLS(DRV_MEMBER)
#undef DRV_MEMBER
	void *library;
	CUdevice dev;
	CUcontext ctx; /* the primary context */
};

extern struct drv drv;

/* Kernels that drv_kernel() finds; their PTX is in drv.c. */
#define KERNEL_EMPTY "empty"   /* () */
#define KERNEL_SPIN "spin"     /* (u64 ns) */
#define KERNEL_BUMP "bump"     /* (u64 address of u32): adds 1 */
#define KERNEL_HOLD "hold"     /* (u64 address of u32, u64 ns): until it is
				* not 0 or the time is over */
#define KERNEL_STORE "store"   /* (u64 address of u32, u32 value) */
#define KERNEL_LATE "late"     /* (u64 address, u32 value, u64 ns): waits,
				* then stores */
#define KERNEL_FILL "fill"     /* (u64 address, u32 value, u32 count) */
#define KERNEL_TRAP "trap"     /* () */

/* Load the library; a name it lacks skips the test when it is called. */
void drv_open(void);
/* drv_open(), cuInit, device 0, primary context retained and current. */
void drv_start(void);
/* Compile PTX text; any error fails the test. */
CUmodule drv_load(const char *ptx);
CUfunction drv_kernel(const char *name);
/* A name that cuda.h does not give as drv member; skips when absent. */
void *drv_symbol(const char *name);

/* One thread, one block; extra arguments come as addresses. */
CUresult drv_launch1(CUfunction f, CUstream stream, void **args);
/* A kernel of one warp that runs for ms milliseconds. */
void drv_spin(CUstream stream, double ms);
void drv_empty(CUstream stream);

double test_ms(void);                  /* a monotonic clock */
void test_sleep_ms(double ms);
/* The end of a program: passes unless test_note() was called. */
_Noreturn void test_pass(void);
/* A failure after which the program can go on. */
void test_note(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
_Noreturn void test_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
_Noreturn void test_skip(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

void test_expect_rc(CUresult want, CUresult got, const char *call,
		    const char *file, int line);
/* Another code than the wanted one is noted, and the program goes on. */
#define EXPECT(want, call) \
	test_expect_rc(want, call, #call, __FILE__, __LINE__)
/* Success, or the program ends. */
#define OK(call)							\
	do {								\
		CUresult ok_rc_ = (call);				\
									\
		if (ok_rc_)						\
			test_fail("%s:%d: %s gave %d", __FILE__,	\
				  __LINE__, #call, (int)ok_rc_);	\
	} while (0)
/* A plain condition, with its text as the reason. */
#define CHECK(condition)						\
	do {								\
		if (!(condition))					\
			test_note("%s:%d: %s", __FILE__, __LINE__,	\
				  #condition);				\
	} while (0)

#endif
