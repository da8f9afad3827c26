/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/contract/drv.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct drv drv;

static CUmodule common;
/* test_note() was called. */
static volatile bool noted;

static const char common_ptx[] =
	".version 7.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry empty()\n"
	"{\n"
	"	ret;\n"
	"}\n"
	".visible .entry spin(.param .u64 ns)\n"
	"{\n"
	"	.reg .pred p;\n"
	"	.reg .u64 end, now;\n"
	"	ld.param.u64 end, [ns];\n"
	"	mov.u64 now, %globaltimer;\n"
	"	add.u64 end, end, now;\n"
	"AGAIN:\n"
	"	mov.u64 now, %globaltimer;\n"
	"	setp.lt.u64 p, now, end;\n"
	"	@p bra AGAIN;\n"
	"	ret;\n"
	"}\n"
	".visible .entry bump(.param .u64 at)\n"
	"{\n"
	"	.reg .u64 p;\n"
	"	.reg .u32 v;\n"
	"	ld.param.u64 p, [at];\n"
	"	ld.global.u32 v, [p];\n"
	"	add.u32 v, v, 1;\n"
	"	st.global.u32 [p], v;\n"
	"	ret;\n"
	"}\n"
	".visible .entry hold(.param .u64 at, .param .u64 ns)\n"
	"{\n"
	"	.reg .pred p;\n"
	"	.reg .u64 a, end, now;\n"
	"	.reg .u32 v;\n"
	"	ld.param.u64 a, [at];\n"
	"	ld.param.u64 end, [ns];\n"
	"	mov.u64 now, %globaltimer;\n"
	"	add.u64 end, end, now;\n"
	"AGAIN:\n"
	"	ld.volatile.global.u32 v, [a];\n"
	"	setp.ne.u32 p, v, 0;\n"
	"	@p ret;\n"
	"	mov.u64 now, %globaltimer;\n"
	"	setp.lt.u64 p, now, end;\n"
	"	@p bra AGAIN;\n"
	"	ret;\n"
	"}\n"
	".visible .entry store(.param .u64 at, .param .u32 value)\n"
	"{\n"
	"	.reg .u64 p;\n"
	"	.reg .u32 v;\n"
	"	ld.param.u64 p, [at];\n"
	"	ld.param.u32 v, [value];\n"
	"	st.global.u32 [p], v;\n"
	"	ret;\n"
	"}\n"
	".visible .entry late(.param .u64 at, .param .u32 value,\n"
	"		      .param .u64 ns)\n"
	"{\n"
	"	.reg .pred p;\n"
	"	.reg .u64 a, end, now;\n"
	"	.reg .u32 v;\n"
	"	ld.param.u64 a, [at];\n"
	"	ld.param.u32 v, [value];\n"
	"	ld.param.u64 end, [ns];\n"
	"	mov.u64 now, %globaltimer;\n"
	"	add.u64 end, end, now;\n"
	"AGAIN:\n"
	"	mov.u64 now, %globaltimer;\n"
	"	setp.lt.u64 p, now, end;\n"
	"	@p bra AGAIN;\n"
	"	st.global.u32 [a], v;\n"
	"	ret;\n"
	"}\n"
	".visible .entry fill(.param .u64 at, .param .u32 value,\n"
	"		      .param .u32 count)\n"
	"{\n"
	"	.reg .pred p;\n"
	"	.reg .u64 a, q;\n"
	"	.reg .u32 i, n, v, step, t;\n"
	"	ld.param.u64 a, [at];\n"
	"	ld.param.u32 v, [value];\n"
	"	ld.param.u32 n, [count];\n"
	"	mov.u32 i, %ctaid.x;\n"
	"	mov.u32 step, %ntid.x;\n"
	"	mov.u32 t, %tid.x;\n"
	"	mad.lo.u32 i, i, step, t;\n"
	"	mov.u32 t, %nctaid.x;\n"
	"	mul.lo.u32 step, step, t;\n"
	"AGAIN:\n"
	"	setp.ge.u32 p, i, n;\n"
	"	@p ret;\n"
	"	mul.wide.u32 q, i, 4;\n"
	"	add.u64 q, q, a;\n"
	"	st.global.u32 [q], v;\n"
	"	add.u32 i, i, step;\n"
	"	bra AGAIN;\n"
	"}\n"
	".visible .entry trap()\n"
	"{\n"
	"	trap;\n"
	"	ret;\n"
	"}\n";

/* Stands in for a name the library lacks. */
#define NAME_TEXT(f) #f
#define DRV_NAME(f) NAME_TEXT(f)
#define ABSENT_GLUE(f) absent_##f
#define ABSENT(f) ABSENT_GLUE(f)
#define DRV_ABSENT(f)						\
	static void						\
	ABSENT(f)(void)						\
	{							\
		test_skip("the driver library lacks %s",	\
			  DRV_NAME(f));				\
	}
DRV_CALLS(DRV_ABSENT)

struct entry {
	const char *name;
	void *member;
	void (*absent)(void);
};

static const struct entry entries[] = {
#define DRV_ENTRY(f) { DRV_NAME(f), &drv.f, ABSENT(f) },
	DRV_CALLS(DRV_ENTRY)
};

static void *
library_open(void)
{
	const char *path = getenv("DRIVER");
	void *library;

	if (!path || !*path)
		path = "libcuda.so.1";
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	/* One that is there and does not load is broken, not absent. */
	if (!library && !access(path, F_OK))
		test_fail("%s", dlerror());
	if (!library)
		test_skip("%s", dlerror());
	return library;
}

void
drv_open(void)
{
	size_t i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	drv.library = library_open();
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void *address = dlsym(drv.library, entries[i].name);

		if (!address)
			address = (void *)entries[i].absent;
		memcpy(entries[i].member, &address, sizeof(address));
	}
}

void
drv_start(void)
{
	drv_open();
	OK(drv.cuInit(0));
	OK(drv.cuDeviceGet(&drv.dev, 0));
	OK(drv.cuDevicePrimaryCtxRetain(&drv.ctx, drv.dev));
	OK(drv.cuCtxSetCurrent(drv.ctx));
}

CUmodule
drv_load(const char *ptx)
{
	char log[2048] = "";
	CUjit_option option[] = { CU_JIT_ERROR_LOG_BUFFER,
				  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *value[] = { log, (void *)(uintptr_t)sizeof(log) };
	CUmodule module = NULL;
	CUresult rc;

	rc = drv.cuModuleLoadDataEx(&module, ptx, 2, option, value);
	if (rc)
		test_fail("cuModuleLoadDataEx: %d: %s", rc, log);
	return module;
}

CUfunction
drv_kernel(const char *name)
{
	CUfunction function;

	if (!common)
		common = drv_load(common_ptx);
	OK(drv.cuModuleGetFunction(&function, common, name));
	return function;
}

void *
drv_symbol(const char *name)
{
	void *address = dlsym(drv.library, name);

	if (!address)
		test_skip("the driver library lacks %s", name);
	return address;
}

CUresult
drv_launch1(CUfunction f, CUstream stream, void **args)
{
	return drv.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}

void
drv_spin(CUstream stream, double ms)
{
	static CUfunction spin;
	uint64_t ns = (uint64_t)(ms * 1e6);
	void *args[] = { &ns };

	if (!spin)
		spin = drv_kernel(KERNEL_SPIN);
	OK(drv_launch1(spin, stream, args));
}

void
drv_empty(CUstream stream)
{
	static CUfunction empty;

	if (!empty)
		empty = drv_kernel(KERNEL_EMPTY);
	OK(drv_launch1(empty, stream, NULL));
}

double
test_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void
test_sleep_ms(double ms)
{
	struct timespec t = {
		.tv_sec = (time_t)(ms / 1e3),
		.tv_nsec = (long)((ms - 1e3 * (double)(long)(ms / 1e3)) * 1e6),
	};

	nanosleep(&t, NULL);
}

static void
reason_print(const char *word, const char *format, va_list args)
{
	printf("%s: ", word);
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
}

/* Programs leave by _exit: kernels may still run, and a poisoned context
 * must not decide the exit status in a destructor. */
void
test_pass(void)
{
	fflush(stdout);
	_exit(noted ? TEST_FAIL : TEST_PASS);
}

void
test_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	reason_print("failed", format, args);
	va_end(args);
	noted = true;
}

void
test_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	reason_print("failed", format, args);
	_exit(TEST_FAIL);
}

void
test_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	reason_print("skipped", format, args);
	/* What was found wrong before stays wrong. */
	_exit(noted ? TEST_FAIL : TEST_SKIP);
}

void
test_expect_rc(CUresult want, CUresult got, const char *call,
	       const char *file, int line)
{
	if (got != want)
		test_note("%s:%d: %s gave %d, not %d", file, line, call,
			  (int)got, (int)want);
}
