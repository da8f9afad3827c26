/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits FILE: a kernel that runs until there is such a file, and is waited for.
 * waits: loads code of its own, and that is all.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/api/facts.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static const char kernel[] = HEAD
	".visible .entry wait(.param .u64 at)\n"
	"{\n"
	"	.reg .u64 %rd<2>;\n"
	"	.reg .u32 %r<2>;\n"
	"	.reg .pred %p<2>;\n"
	"	ld.param.u64 %rd1, [at];\n"
	"	mov.u32 %r1, 1;\n"
	"	st.volatile.global.u32 [%rd1 + 4], %r1;\n"
	"L:\n"
	"	ld.volatile.global.u32 %r1, [%rd1];\n"
	"	setp.eq.u32 %p1, %r1, 0;\n"
	"	@%p1 bra L;\n"
	"	ret;\n"
	"}\n";
static const char other[] = HEAD ".visible .entry other() { ret; }\n";

static const char *path;

/* While the other thread waits for the kernel. */
static void *
let_go(void *words)
{
	while (access(path, F_OK) != 0)
		usleep(10000);
	*(volatile uint32_t *)words = 1;
	return NULL;
}

int
main(int argc, char **argv)
{
	volatile uint32_t *words;
	pthread_t thread;
	CUcontext context;
	CUdevice device;
	CUfunction f;
	CUmodule m;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuCtxCreate(&context, NULL, 0, device));
	OK(cuModuleLoadData(&m, argc > 1 ? kernel : other));
	OK(cuModuleGetFunction(&f, m, argc > 1 ? "wait" : "other"));
	if (argc == 1) {
		printf("loaded\n");
		return 0;
	}
	OK(cuMemHostAlloc((void **)&words, 8, CU_MEMHOSTALLOC_DEVICEMAP));
	words[0] = words[1] = 0;
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL,
			  (void *[]){ (void *[]){ (void *)words } }, NULL));
	while (!words[1])
		usleep(1000);
	printf("runs\n");
	fflush(stdout);
	path = argv[1];
	if (pthread_create(&thread, NULL, let_go, (void *)words) != 0)
		return 1;
	OK(cuCtxSynchronize());
	printf("ended\n");
	return 0;
}
