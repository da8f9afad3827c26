/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many launches one after another, so many that they wait: each has its own
 * kernel and parameters, and what they sum up is right.
 *
 *	backlog [N]     says so, of N launches
 *	backlog fault   one among them faults, and that is what is answered
 *	backlog flood   goes on until it is killed
 */
#include <string.h>

#include "tests/api/facts.h"

#define VALUES 19 /* of the kernel with 20 parameters */

static const char head[] = ".version 8.0\n.target sm_75\n.address_size 64\n";

/* Each adds to a sum, and takes one step of a chain if it comes in its turn:
 * to the place of its own number minus one. */
static const char few[] =
	".visible .entry few(.param .u64 p, .param .u32 n, .param .u32 a, "
	".param .u32 b)\n{\n"
	" .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %q;\n"
	" ld.param.u64 %d1, [p];\n ld.param.u32 %r1, [n];\n"
	" ld.param.u32 %r2, [a];\n ld.param.u32 %r3, [b];\n"
	" mul.lo.u32 %r2, %r2, %r3;\n cvt.u64.u32 %d2, %r2;\n"
	" ld.global.u64 %d3, [%d1+8];\n add.u64 %d3, %d3, %d2;\n"
	" st.global.u64 [%d1+8], %d3;\n"
	" ld.global.u32 %r4, [%d1];\n setp.ne.u32 %q, %r4, %r1;\n"
	" @%q ret;\n add.u32 %r4, %r4, 1;\n st.global.u32 [%d1], %r4;\n"
	" ret;\n}\n";

static uint32_t launches = 100000;
static CUcontext context;
static CUfunction few_f, many_f, wild_f;
static CUdeviceptr cell;

/* Its 19 values are weighed by their place. */
static void
write_many(char *out, size_t size)
{
	size_t at = 0;

	at += (size_t)snprintf(out + at, size - at,
			       ".visible .entry many(.param .u64 p");
	for (int i = 0; i < VALUES; i++)
		at += (size_t)snprintf(out + at, size - at,
				       ", .param .u32 v%d", i);
	at += (size_t)snprintf(
		out + at, size - at,
		")\n{\n .reg .b32 %%r<8>; .reg .b64 %%d<4>; .reg .pred %%q;\n"
		" ld.param.u64 %%d1, [p];\n mov.u32 %%r1, 0;\n");
	for (int i = 1; i < VALUES; i++)
		at += (size_t)snprintf(out + at, size - at,
				       " ld.param.u32 %%r2, [v%d];\n"
				       " mad.lo.u32 %%r1, %%r2, %d, %%r1;\n",
				       i, i);
	snprintf(out + at, size - at,
		 " cvt.u64.u32 %%d2, %%r1;\n ld.global.u64 %%d3, [%%d1+8];\n"
		 " add.u64 %%d3, %%d3, %%d2;\n st.global.u64 [%%d1+8], %%d3;\n"
		 " ld.param.u32 %%r3, [v0];\n ld.global.u32 %%r4, [%%d1];\n"
		 " setp.ne.u32 %%q, %%r3, %%r4;\n @%%q ret;\n"
		 " add.u32 %%r4, %%r4, 1;\n st.global.u32 [%%d1], %%r4;\n"
		 " ret;\n}\n");
}

static void
begin(void)
{
	static char image[16384], many[8192];
	CUmodule module;
	CUdevice device;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	write_many(many, sizeof(many));
	snprintf(image, sizeof(image),
		 "%s%s%s.visible .entry wild()\n{\n .reg .b64 %%d<2>;\n"
		 " mov.u64 %%d1, 64;\n st.global.u32 [%%d1], 1;\n ret;\n}\n",
		 head, few, many);
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&few_f, module, "few"));
	OK(cuModuleGetFunction(&many_f, module, "many"));
	OK(cuModuleGetFunction(&wild_f, module, "wild"));
	OK(cuMemAlloc(&cell, 16));
}

static CUresult
launch_few(uint32_t n, CUstream stream, uint64_t *sum)
{
	uint32_t a = n % 1009, b = n % 31;
	void *args[] = {&cell, &n, &a, &b};

	*sum += (uint64_t)a * b;
	return cuLaunchKernel(few_f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}

static CUresult
launch_many(uint32_t n, CUstream stream, uint64_t *sum)
{
	uint32_t values[VALUES];
	void *args[VALUES + 1] = {&cell};

	for (uint32_t i = 0; i < VALUES; i++) {
		values[i] = i ? (n + i) % 251 : n;
		args[i + 1] = &values[i];
		*sum += (uint64_t)i * (i ? values[i] : 0);
	}
	return cuLaunchKernel(many_f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}

static bool
is_many(const char *which, uint32_t n)
{
	if (!strcmp(which, "many"))
		return true;
	return !strcmp(which, "both") && (n % 2 || n % 5 == 0);
}

static void
sum_up(const char *text, const char *which, CUstream stream)
{
	uint64_t sum = 0, got[2];
	CUresult r = CUDA_SUCCESS;

	OK(cuMemsetD8(cell, 0, 16));
	OK(cuCtxSynchronize());
	for (uint32_t n = 0; n < launches && r == CUDA_SUCCESS; n++)
		r = is_many(which, n) ? launch_many(n, stream, &sum)
				      : launch_few(n, stream, &sum);
	OK(r);
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH(got, cell, sizeof(got)));
	fact(text, (uint32_t)got[0] == launches && got[1] == sum);
}

static int
fault(void)
{
	uint64_t sum = 0;
	CUresult r = CUDA_SUCCESS;

	OK(cuMemsetD8(cell, 0, 16));
	for (uint32_t n = 0; n < launches && r == CUDA_SUCCESS; n++)
		r = n == launches / 2
			    ? cuLaunchKernel(wild_f, 1, 1, 1, 1, 1, 1, 0, NULL,
					     NULL, NULL)
			    : launch_few(n, NULL, &sum);
	if (r == CUDA_SUCCESS)
		r = cuCtxSynchronize();
	answers("what is launched and what waits after a fault is told of it",
		r, CUDA_ERROR_ILLEGAL_ADDRESS);
	return facts_end();
}

static _Noreturn void
flood(void)
{
	uint64_t sum = 0;

	OK(cuMemsetD8(cell, 0, 16));
	for (uint32_t n = 0;; n++) {
		OK(launch_few(n, NULL, &sum));
		if (n == launches / 4) {
			puts("flooding");
			fflush(stdout);
		}
	}
}

int
main(int argc, char **argv)
{
	CUstream stream;

	begin();
	if (argc > 1 && !strcmp(argv[1], "fault"))
		return fault();
	if (argc > 1 && !strcmp(argv[1], "flood"))
		flood();
	if (argc > 1)
		launches = (uint32_t)atoi(argv[1]);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	sum_up("launches of 4 parameters sum up", "few", stream);
	sum_up("so do those of 20", "many", stream);
	sum_up("so do both in turn", "both", stream);
	sum_up("in the default stream, too", "both", NULL);
	return facts_end();
}
