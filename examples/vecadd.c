/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector addition with the CUDA driver API; the kernel is PTX in a string,
 * so no nvcc is needed. Prints one line and exits 0 when the result is right.
 *
 *     cc -o vecadd_driver vecadd.c -lcuda && mpsrun ./vecadd_driver [N]
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) check((call), #call)

static const char ptx[] =
	".version 7.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry vecadd(.param .u64 pa, .param .u64 pb,\n"
	"                       .param .u64 pc, .param .u32 pn)\n"
	"{\n"
	"  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<8>; .reg .f32 %f<4>;\n"
	"  ld.param.u64 %d1, [pa]; ld.param.u64 %d2, [pb];\n"
	"  ld.param.u64 %d3, [pc]; ld.param.u32 %r1, [pn];\n"
	"  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
	"  mad.lo.u32 %r5, %r2, %r3, %r4;\n"
	"  setp.ge.u32 %p, %r5, %r1; @%p bra DONE;\n"
	"  mul.wide.u32 %d4, %r5, 4;\n"
	"  add.u64 %d5, %d1, %d4; add.u64 %d6, %d2, %d4;\n"
	"  add.u64 %d7, %d3, %d4;\n"
	"  ld.global.f32 %f1, [%d5]; ld.global.f32 %f2, [%d6];\n"
	"  add.rn.f32 %f3, %f1, %f2; st.global.f32 [%d7], %f3;\n"
	"DONE: ret;\n"
	"}\n";

static void
check(CUresult result, const char *what)
{
	const char *name = "unknown error";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "vecadd: %s: %s (%d)\n", what, name, (int)result);
	exit(1);
}

int
main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 1u << 16;
	size_t bytes = n * sizeof(float);
	float *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
	CUdeviceptr da, db, dc;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	void *params[] = {&da, &db, &dc, &n};
	unsigned wrong = 0;
	char name[100];

	if (!a || !b || !c)
		return 1;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDeviceGetName(name, sizeof(name), device));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&kernel, module, "vecadd"));
	CHECK(cuMemAlloc(&da, bytes));
	CHECK(cuMemAlloc(&db, bytes));
	CHECK(cuMemAlloc(&dc, bytes));
	for (unsigned i = 0; i < n; i++) {
		a[i] = (float)i;
		b[i] = 2.0f * (float)(n - i);
	}
	CHECK(cuMemcpyHtoD(da, a, bytes));
	CHECK(cuMemcpyHtoD(db, b, bytes));
	CHECK(cuLaunchKernel(kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL,
			     params, NULL));
	CHECK(cuMemcpyDtoH(c, dc, bytes));
	for (unsigned i = 0; i < n; i++)
		wrong += c[i] != a[i] + b[i];
	printf("vecadd (driver API): %u sums on %s, %u wrong\n", n, name,
	       wrong);
	CHECK(cuMemFree(da));
	CHECK(cuMemFree(db));
	CHECK(cuMemFree(dc));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(device));
	free(a);
	free(b);
	free(c);
	return wrong != 0;
}
