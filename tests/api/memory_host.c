/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that the program registers, and managed memory.
 */
#include <string.h>

#include "tests/api/facts.h"

#define SIZE (UINT64_C(3) << 20)

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry inc(.param .u64 to)\n"
	"{ .reg .u64 p, o; .reg .u32 i, t, b, v;"
	" ld.param.u64 p,[to];"
	" mov.u32 i,%ctaid.x; mov.u32 b,%ntid.x; mov.u32 t,%tid.x;"
	" mad.lo.u32 i,i,b,t; mul.wide.u32 o,i,4; add.u64 p,p,o;"
	" ld.global.u32 v,[p]; add.u32 v,v,1; st.global.u32 [p],v; ret; }\n";

static void
registered(CUstream stream)
{
	unsigned char *a = malloc(SIZE), *b = malloc(SIZE);
	unsigned int type = 0;
	CUdeviceptr p;

	for (size_t i = 0; i < SIZE; i++)
		a[i] = (unsigned char)(i * 7);
	memset(b, 0, SIZE);
	OK(cuMemAlloc(&p, SIZE));
	OK(cuMemHostRegister(a, SIZE, 0));
	OK(cuMemHostRegister(b, SIZE, CU_MEMHOSTREGISTER_PORTABLE));
	answers("memory is registered once", cuMemHostRegister(a, SIZE, 0),
		CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	answers("nothing is not registered", cuMemHostRegister(a, 0, 0),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				 (CUdeviceptr)(uintptr_t)a));
	fact("it is host memory", type == CU_MEMORYTYPE_HOST);
	OK(cuMemcpyHtoDAsync(p, a, SIZE, stream));
	OK(cuMemcpyDtoHAsync(b, p, SIZE, stream));
	OK(cuStreamSynchronize(stream));
	fact("copies from and to it", !memcmp(a, b, SIZE));
	OK(cuMemHostUnregister(a));
	OK(cuMemHostUnregister(b));
	answers("memory is unregistered once", cuMemHostUnregister(a),
		CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	OK(cuMemFree(p));
	free(a);
	free(b);
}

static void
managed(CUfunction inc, CUstream stream)
{
	int is_managed = 0;
	uint32_t *words;
	CUdeviceptr p, q;
	bool right = true;
	void *args[] = { &p };

	OK(cuMemAllocManaged(&p, SIZE, CU_MEM_ATTACH_GLOBAL));
	words = (uint32_t *)(uintptr_t)p;
	for (uint32_t i = 0; i < SIZE / 4; i++)
		words[i] = i;
	OK(cuLaunchKernel(inc, SIZE / 4 / 256, 1, 1, 256, 1, 1, 0, stream, args,
			  NULL));
	OK(cuStreamSynchronize(stream));
	for (uint32_t i = 0; i < SIZE / 4; i++)
		right &= words[i] == i + 1;
	fact("host and kernels use one address", right);
	OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
				 p + 100));
	fact("it is managed", is_managed == 1);
	OK(cuStreamAttachMemAsync(stream, p, 0, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAlloc(&q, SIZE));
	OK(cuMemcpyDtoD(q, p, SIZE));
	OK(cuMemsetD8(p, 0, SIZE));
	OK(cuCtxSynchronize());
	fact("fills reach it", words[SIZE / 8] == 0);
	OK(cuMemcpyDtoD(p, q, SIZE));
	OK(cuCtxSynchronize());
	fact("copies too", words[1000] == 1001);
	answers("it has a size", cuMemAllocManaged(&q, 0,
						   CU_MEM_ATTACH_GLOBAL),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(p));
	answers("it is freed once", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
}

int
main(void)
{
	CUmodule module;
	CUstream stream;
	CUfunction inc;
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&inc, module, "inc"));
	registered(stream);
	managed(inc, stream);
	return facts_end();
}
