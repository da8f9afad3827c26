/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that are set up call by call, as programs from before CUDA 4 do.
 */
#include <string.h>

#include "tests/api/facts.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry put(.param .u64 to, .param .u32 a, .param .f32 b)\n"
	"{ .reg .u64 p, o; .reg .u32 i, t, b0, v, g, y; .reg .f32 f;"
	" ld.param.u64 p,[to]; ld.param.u32 v,[a]; ld.param.f32 f,[b];"
	" mov.u32 i,%ctaid.x; mov.u32 g,%nctaid.x; mov.u32 y,%ctaid.y;"
	" mad.lo.u32 i,y,g,i;"
	" mov.u32 b0,%ntid.x; mov.u32 t,%tid.x; mad.lo.u32 i,i,b0,t;"
	" add.u32 v,v,i; mul.wide.u32 o,i,8; add.u64 p,p,o;"
	" st.global.u32 [p],v; st.global.f32 [p+4],f; ret; }\n"
	".visible .entry nothing() { ret; }\n";

struct cell {
	uint32_t number;
	float fraction;
};

static bool
holds(CUdeviceptr p, uint32_t cells, uint32_t number, float fraction)
{
	struct cell all[256];
	bool right = true;

	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(all, p, sizeof(all)));
	for (uint32_t i = 0; i < 256; i++)
		right &= i < cells ? all[i].number == number + i &&
				     all[i].fraction == fraction :
				     all[i].number == 0;
	/* The next launch may be on a stream that waits for no other. */
	OK(cuMemsetD8(p, 0, sizeof(all)));
	OK(cuCtxSynchronize());
	return right;
}

int
main(void)
{
	CUfunction put, nothing;
	CUmodule module;
	CUstream stream;
	CUcontext ctx;
	CUdeviceptr p;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&put, module, "put"));
	OK(cuModuleGetFunction(&nothing, module, "nothing"));
	OK(cuMemAlloc(&p, 256 * sizeof(struct cell)));
	OK(cuMemsetD8(p, 0, 256 * sizeof(struct cell)));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

	OK(cuFuncSetBlockShape(put, 16, 1, 1));
	OK(cuFuncSetSharedSize(put, 64));
	OK(cuParamSetv(put, 0, &p, sizeof(p)));
	OK(cuParamSeti(put, 8, 100));
	OK(cuParamSetf(put, 12, 0.5f));
	OK(cuParamSetSize(put, 16));
	OK(cuLaunch(put));
	fact("one block", holds(p, 16, 100, 0.5f));
	OK(cuLaunchGrid(put, 3, 2));
	fact("a grid of two dimensions", holds(p, 96, 100, 0.5f));
	OK(cuParamSeti(put, 8, 7));
	OK(cuLaunchGridAsync(put, 4, 1, stream));
	OK(cuStreamSynchronize(stream));
	fact("on a stream, other numbers", holds(p, 64, 7, 0.5f));
	OK(cuFuncSetBlockShape(put, 32, 1, 1));
	OK(cuParamSetf(put, 12, 2));
	OK(cuLaunchGrid(put, 8, 1));
	fact("another block", holds(p, 256, 7, 2));

	OK(cuFuncSetBlockShape(nothing, 1, 1, 1));
	OK(cuLaunch(nothing));
	OK(cuCtxSynchronize());
	answers("no block", cuFuncSetBlockShape(put, 0, 1, 1),
		CUDA_ERROR_INVALID_VALUE);
	answers("no grid", cuLaunchGrid(put, 0, 1), CUDA_ERROR_INVALID_VALUE);
	answers("more parameters than any function has",
		cuParamSetSize(put, 1 << 20), CUDA_ERROR_INVALID_VALUE);
	OK(cuParamSetSize(put, 5000));
	fact("more parameters than there are are not launched",
	     cuLaunch(put) != CUDA_SUCCESS);
	OK(cuMemFree(p));
	return facts_end();
}
