/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local memory. The context has some for each thread that can be on the
 * device. The first launch of a kernel that needs more makes the driver find
 * it, and that waits for all that runs and stalls whoever launches
 * (measured). So a kernel of ours with as much is launched before, by the
 * gate, as other code is loaded. What the driver has once found it keeps.
 */
#include <stdio.h>

#include "server/worker/call.h"
#include "server/worker/module.h"

/* Steps of growth: each one is a load of code. */
#define STEP 512u

/* The gate's: what each thread has, bytes; 0: not asked yet. */
static uint32_t found;

/* Where it writes and what it then reads, only the launch says, and what
 * becomes of that, too: the compiler cannot drop it. There is no volatile
 * access to local memory. */
static const char source[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry deep(.param .u64 p, .param .u32 n)\n{\n"
	" .local .align 4 .b8 room[%u]; .reg .b64 %%d<5>; .reg .b32 %%r<3>;\n"
	" .reg .pred %%q; ld.param.u64 %%d4, [p]; ld.param.u32 %%r1, [n];\n"
	" mov.u64 %%d1, room; mul.wide.u32 %%d2, %%r1, 4;\n"
	" add.u64 %%d3, %%d1, %%d2; st.local.u32 [%%d1], %%r1;\n"
	" st.local.u32 [%%d1+4], %%r1; ld.local.u32 %%r2, [%%d3];\n"
	" setp.eq.u64 %%q, %%d4, 0; @%%q bra E;\n"
	" st.global.u32 [%%d4], %%r2;\nE: ret;\n}\n";

static uint32_t
found_at_start(void)
{
	size_t bytes = 0;

	wkr_ok(wkr.drv.cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

static CUresult
launch(uint32_t bytes, CUstream stream)
{
	CUdeviceptr nowhere = 0;
	uint32_t n = 1;
	void *args[] = {&nowhere, &n};
	char text[sizeof(source) + 16];
	CUfunction function;
	CUmodule module;
	CUresult r;

	snprintf(text, sizeof(text), source, bytes);
	/* It stays: an unload would wait for others, and they are few. */
	r = wkr_ok(wkr.drv.cuModuleLoadData(&module, text));
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuModuleGetFunction(&function, module,
						       "deep"));
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1,
						  0, stream, args, NULL));
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuStreamSynchronize(stream));
	return r;
}

CUresult
wkr_local_want(uint32_t bytes)
{
	static uint32_t refused;
	static CUstream stream;
	CUresult r = CUDA_SUCCESS;

	if (!found)
		found = found_at_start();
	if (bytes <= found || (refused && bytes >= refused))
		return CUDA_SUCCESS;
	if (!wkr_gate_enter())
		return WKR_AGAIN;
	bytes = (bytes + STEP - 1) / STEP * STEP;
	if (!stream)
		r = wkr_ok(wkr.drv.cuStreamCreate(&stream,
						  CU_STREAM_NON_BLOCKING));
	if (r == CUDA_SUCCESS)
		r = launch(bytes, stream);
	/* Where there is not so much, its own launch says so, as natively. */
	if (r == CUDA_SUCCESS) {
		found = bytes;
	} else {
		/* Each try keeps a module. */
		refused = bytes;
		log_line(LOG_WARN, "no %u bytes of local memory for each "
			 "thread: %d", bytes, (int)r);
	}
	return CUDA_SUCCESS;
}
