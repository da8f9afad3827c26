/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common ground of the check_soft*.c tests: kernels, a device, time.
 * Included by tests/unit/check_soft*.c; they link libsoftcuda.so.
 */
#ifndef TESTS_UNIT_SOFT_KIT_H
#define TESTS_UNIT_SOFT_KIT_H

#undef NDEBUG
#include <check.h>
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KIT_UNUSED __attribute__((unused))

/* The expected code, by name in the failure message. */
#define expect(call, code) \
	do { \
		CUresult got_ = (call); \
		ck_assert_msg(got_ == (code), "%s: %d, not %s", #call, \
			      (int)got_, #code); \
	} while (0)
#define ok(call) expect(call, CUDA_SUCCESS)

/*
 * vadd(a, b, c, n)     c[i] = a[i] + b[i], floats
 * spin(ns, word)       runs for ns nanoseconds, then adds 1 to *word if any
 * poke(p, v)           *p = v
 * bump(p)              atomic add 1 to *p by every thread
 * until(p, v)          runs until *p == v
 * hold(p)              uses 8 KiB of local memory
 * boom()               traps
 * odd(p)               stores a word at p + 1
 */
static const char kit_ptx[] KIT_UNUSED =
"\n  // white space and comments may come first\n"
".version 8.0\n.target sm_75\n.address_size 64\n"
".visible .global .align 4 .u32 counter = 7;\n"
".visible .const .align 4 .b8 table[16] = {1,0,0,0,2,0,0,0,3,0,0,0,4,0,0,0};\n"
".visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c,\n"
"                     .param .u32 n) {\n"
"  .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<8>; .reg .f32 %f<4>;\n"
"  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];\n"
"  ld.param.u32 %r4, [n];\n"
"  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"
"  mad.lo.s32 %r3, %r0, %r1, %r2;\n"
"  setp.ge.u32 %p, %r3, %r4; @%p bra done;\n"
"  mul.wide.u32 %rd4, %r3, 4;\n"
"  add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4;\n"
"  add.s64 %rd7, %rd3, %rd4;\n"
"  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];\n"
"  add.f32 %f3, %f1, %f2; st.global.f32 [%rd7], %f3;\n"
"done: ret;\n}\n"
".visible .entry spin(.param .u64 ns, .param .u64 word) {\n"
"  .reg .pred %p; .reg .b32 %r; .reg .b64 %rd<6>;\n"
"  ld.param.u64 %rd1, [ns]; ld.param.u64 %rd2, [word];\n"
"  mov.u64 %rd3, %globaltimer;\n"
"again: mov.u64 %rd4, %globaltimer; sub.s64 %rd5, %rd4, %rd3;\n"
"  setp.lt.u64 %p, %rd5, %rd1; @%p bra again;\n"
"  setp.eq.u64 %p, %rd2, 0; @%p bra done;\n"
"  atom.global.add.u32 %r, [%rd2], 1;\n"
"done: ret;\n}\n"
".visible .entry poke(.param .u64 p, .param .u32 v) {\n"
"  .reg .b32 %r; .reg .b64 %rd;\n"
"  ld.param.u64 %rd, [p]; ld.param.u32 %r, [v]; st.global.u32 [%rd], %r;\n"
"  ret;\n}\n"
".visible .entry bump(.param .u64 p) {\n"
"  .reg .b32 %r; .reg .b64 %rd;\n"
"  ld.param.u64 %rd, [p]; atom.global.add.u32 %r, [%rd], 1; ret;\n}\n"
".visible .entry until(.param .u64 p, .param .u32 v) {\n"
"  .reg .pred %q; .reg .b32 %r<2>; .reg .b64 %rd;\n"
"  ld.param.u64 %rd, [p]; ld.param.u32 %r0, [v];\n"
"again: ld.volatile.global.u32 %r1, [%rd]; setp.ne.u32 %q, %r1, %r0;\n"
"  @%q bra again;\n  ret;\n}\n"
".visible .entry hold(.param .u64 p) {\n"
"  .local .align 8 .b8 frame[8192];\n"
"  .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
"  ld.param.u64 %rd0, [p]; mov.u64 %rd1, frame; mov.u32 %r0, 5;\n"
"  st.local.u32 [%rd1+8000], %r0; ld.local.u32 %r1, [%rd1+8000];\n"
"  st.global.u32 [%rd0], %r1; ret;\n}\n"
".visible .entry boom() { trap; ret; }\n"
".visible .entry odd(.param .u64 p) {\n"
"  .reg .b32 %r; .reg .b64 %rd<2>;\n"
"  ld.param.u64 %rd0, [p]; add.s64 %rd1, %rd0, 1; mov.u32 %r, 3;\n"
"  st.global.u32 [%rd1], %r; ret;\n}\n";

/* One device with its primary context current and the kernels loaded. */
struct kit {
	CUdevice dev;
	CUcontext ctx;
	CUmodule module;
	CUfunction vadd, spin, poke, bump, until, hold, boom, odd;
};

static KIT_UNUSED void
kit_context(struct kit *k)
{
	ok(cuInit(0));
	ok(cuDeviceGet(&k->dev, 0));
	ok(cuDevicePrimaryCtxRetain(&k->ctx, k->dev));
	ok(cuCtxSetCurrent(k->ctx));
}

static KIT_UNUSED void
kit_open(struct kit *k)
{
	kit_context(k);
	ok(cuModuleLoadData(&k->module, kit_ptx));
	ok(cuModuleGetFunction(&k->vadd, k->module, "vadd"));
	ok(cuModuleGetFunction(&k->spin, k->module, "spin"));
	ok(cuModuleGetFunction(&k->poke, k->module, "poke"));
	ok(cuModuleGetFunction(&k->bump, k->module, "bump"));
	ok(cuModuleGetFunction(&k->until, k->module, "until"));
	ok(cuModuleGetFunction(&k->hold, k->module, "hold"));
	ok(cuModuleGetFunction(&k->boom, k->module, "boom"));
	ok(cuModuleGetFunction(&k->odd, k->module, "odd"));
}

static KIT_UNUSED double
kit_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static KIT_UNUSED void
kit_sleep_ms(unsigned ms)
{
	struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&ts, NULL);
}

static KIT_UNUSED CUresult
kit_spin(struct kit *k, unsigned ms, CUdeviceptr word, CUstream s)
{
	uint64_t ns = (uint64_t)ms * 1000000;
	void *p[] = { &ns, &word };

	return cuLaunchKernel(k->spin, 1, 1, 1, 1, 1, 1, 0, s, p, NULL);
}

static KIT_UNUSED CUresult
kit_poke(struct kit *k, CUdeviceptr at, uint32_t value, CUstream s)
{
	void *p[] = { &at, &value };

	return cuLaunchKernel(k->poke, 1, 1, 1, 1, 1, 1, 0, s, p, NULL);
}

static KIT_UNUSED CUresult
kit_bump(struct kit *k, CUdeviceptr at, unsigned threads, CUstream s)
{
	void *p[] = { &at };

	return cuLaunchKernel(k->bump, 1, 1, 1, threads, 1, 1, 0, s, p, NULL);
}

static KIT_UNUSED CUresult
kit_until(struct kit *k, CUdeviceptr at, uint32_t value, CUstream s)
{
	void *p[] = { &at, &value };

	return cuLaunchKernel(k->until, 1, 1, 1, 1, 1, 1, 0, s, p, NULL);
}

static KIT_UNUSED CUstream
kit_stream(void)
{
	CUstream s;

	ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

static KIT_UNUSED CUdeviceptr
kit_word(uint32_t value)
{
	CUdeviceptr at;

	ok(cuMemAlloc(&at, 4));
	ok(cuMemcpyHtoD(at, &value, 4));
	return at;
}

/* Host memory that kernels see, for handshakes without copies. */
static KIT_UNUSED volatile uint32_t *
kit_shared(CUdeviceptr *out_device)
{
	void *p;

	ok(cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	memset(p, 0, 4096);
	ok(cuMemHostGetDevicePointer(out_device, p, 0));
	return p;
}

static KIT_UNUSED uint32_t
kit_read(CUdeviceptr at)
{
	uint32_t value;

	ok(cuMemcpyDtoH(&value, at, 4));
	return value;
}

/* A kernel that runs until it is let go: no test depends on how long. */
struct kit_hold {
	CUstream stream;
	CUdeviceptr device;
	volatile uint32_t *flag;
};

static KIT_UNUSED void
kit_hold_start(struct kit *k, struct kit_hold *h)
{
	h->stream = kit_stream();
	h->flag = kit_shared(&h->device);
	ok(kit_until(k, h->device, 1, h->stream));
}

static KIT_UNUSED void
kit_hold_end(struct kit_hold *h)
{
	__atomic_store_n(h->flag, 1, __ATOMIC_RELEASE);
}

/* Does the stream end within limit_ms? */
static KIT_UNUSED bool
kit_ends(CUstream s, unsigned limit_ms)
{
	double until = kit_ms() + limit_ms;

	while (kit_ms() < until) {
		CUresult res = cuStreamQuery(s);

		if (res != CUDA_ERROR_NOT_READY) {
			ok(res);
			return true;
		}
		kit_sleep_ms(1);
	}
	return false;
}

/* main() of a test program: one suite, its cases added by fill. */
static KIT_UNUSED int
kit_main(const char *name, void (*fill)(TCase *tc))
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create("all");
	SRunner *runner;
	int failed;

	/* What other programs hold meanwhile is nothing to the tests. */
	setenv("SOFTCUDA_ACCOUNT", "private", 0);
	tcase_set_timeout(tc, 60);
	fill(tc);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

#endif
