/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that compiles as it goes: loader COUNT PAUSE_MS loads so many
 * images, runs each one's kernel to its end, and takes a pause after each. What
 * is printed is how long that took on average without the pauses, and at most.
 */
#include <time.h>
#include <unistd.h>

#include "tests/gpu/stall/stall.h"

/* No two alike, neither here nor in another run. */
static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry put(.param .u64 at, .param .u32 value)\n"
	"{ .reg .u64 a; .reg .u32 n; ld.param.u64 a,[at];\n"
	" ld.param.u32 n,[value]; st.global.u32 [a],n; ret; }\n"
	"// %d %d %lld\n";

static void
load_and_run(int n, CUstream stream, CUdeviceptr at)
{
	void *args[] = { &at, &n };
	char text[sizeof(ptx) + 64];
	CUfunction kernel;
	CUmodule module;
	uint32_t got = 0;

	snprintf(text, sizeof(text), ptx, n, (int)getpid(),
		 (long long)time(NULL));
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&kernel, module, "put"));
	OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH(&got, at, sizeof(got)));
	if (got != (uint32_t)n) {
		fprintf(stderr, "loader: kernel %d has written %u\n", n, got);
		exit(1);
	}
}

int
main(int argc, char **argv)
{
	int count = argc == 3 ? atoi(argv[1]) : 0;
	uint64_t all = 0, longest = 0;
	CUcontext context;
	CUstream stream;
	CUdeviceptr at;

	if (count <= 0) {
		fprintf(stderr, "loader COUNT PAUSE_MS\n");
		return 2;
	}
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&at, 4096));
	for (int n = 1; n <= count; n++) {
		uint64_t took = now_ns();

		load_and_run(n, stream, at);
		took = now_ns() - took;
		all += took;
		longest = took > longest ? took : longest;
		usleep((useconds_t)atoi(argv[2]) * 1000);
	}
	printf("%d loads, %.2f ms each, %.2f at most\n", count,
	       (double)all / count / 1e6, (double)longest / 1e6);
	return 0;
}
