/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A variable of a module never has an address at which the program has memory
 * of its own: an address means one thing.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/facts.h"

#define PAGE 4096u

/* From where one program has the variable on, another one will have its. */
#define NEAR (UINT64_C(64) << 20)

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 4 .b32 table[4] = {1, 2, 3, 4};\n"
	".visible .entry none() { ret; }\n";

static CUmodule
open_module(void)
{
	CUcontext context;
	CUmodule module;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	return module;
}

/* Another program tells where it has the variable, and stays. */
static CUdeviceptr
elsewhere(int stay, int told)
{
	CUdeviceptr at = 0;
	char byte;
	size_t size;

	OK(cuModuleGetGlobal(&at, &size, open_module(), "table"));
	if (write(told, &at, sizeof(at)) != sizeof(at))
		return 1;
	return read(stay, &byte, 1) != 0;
}

static void *
map_at(CUdeviceptr at, uint64_t size)
{
	void *want = (void *)(uintptr_t)(at & ~(CUdeviceptr)(PAGE - 1));
	void *got = mmap(want, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			 MAP_FIXED_NOREPLACE, -1, 0);

	return got == MAP_FAILED ? NULL : got;
}

static CUmodule
beside_memory_of_ours(CUdeviceptr there)
{
	uint32_t *own = (uint32_t *)(uintptr_t)there, back = 0;
	unsigned int type = 0;
	CUdeviceptr at = 0, copy;
	size_t size = 0;
	CUmodule module;
	CUresult r;

	if (map_at(there, NEAR) == NULL) {
		fact("an address of another program's variable is free here",
		     false);
		exit(facts_end());
	}
	*own = 77;
	module = open_module();
	r = cuModuleGetGlobal(&at, &size, module, "table");
	fact("the variable lies elsewhere, or is refused",
	     r == CUDA_ERROR_NOT_SUPPORTED ||
	     (r == CUDA_SUCCESS && (at >= there + NEAR || at < there - PAGE)));
	answers("what is ours is no memory of the device",
		cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				      there), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAlloc(&copy, sizeof(back)));
	OK(cuMemcpy(copy, there, sizeof(back)));
	OK(cuMemcpyDtoH(&back, copy, sizeof(back)));
	fact_is(77, back, "a copy from there is of our memory");
	OK(cuMemFree(copy));
	munmap((void *)(uintptr_t)(there & ~(CUdeviceptr)(PAGE - 1)), NEAR);
	return module;
}

static void
alone(CUmodule module)
{
	CUdeviceptr at = 0;
	uint32_t word = 0;
	size_t size = 0;

	for (int i = 0; i < 2; i++)
		OK(cuModuleGetGlobal(&at, &size, module, "table"));
	fact_is(16, (long)size, "the variable has its size");
	OK(cuMemcpyDtoH(&word, at + 4, sizeof(word)));
	fact_is(2, word, "and its values");
	fact("no memory of ours can come to lie there", map_at(at, PAGE) == NULL);
}

int
main(void)
{
	int stay[2], told[2], status = 1;
	CUdeviceptr there = 0;
	pid_t pid;

	if (pipe(stay) || pipe(told))
		return 1;
	pid = fork();
	if (!pid) {
		close(stay[1]);
		_exit(elsewhere(stay[0], told[1]));
	}
	close(stay[0]);
	close(told[1]);
	fact("another program says where",
	     read(told[0], &there, sizeof(there)) == sizeof(there));
	alone(beside_memory_of_ours(there));
	close(stay[1]);
	waitpid(pid, &status, 0);
	fact_is(0, status, "the other program ends");
	return facts_end();
}
