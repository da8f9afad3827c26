/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker: PTX is added from memory and from a file, the result loads as a
 * module, and what is wrong is said.
 */
#include <string.h>
#include <unistd.h>

#include "tests/api/facts.h"

static const char first[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry one(.param .u64 to)\n"
	"{ .reg .u64 p; .reg .u32 v; ld.param.u64 p,[to];"
	" mov.u32 v,1; st.global.u32 [p],v; ret; }\n";
static const char wrong[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry bad() { nonsense.u32 x; }\n";

static char info[1024], error[1024];
static CUjit_option names[] = {
	CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
	CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
	CU_JIT_MAX_REGISTERS,
};

static CUlinkState
begin(void)
{
	static void *values[5];
	CUlinkState state;

	values[0] = info;
	values[1] = (void *)sizeof(info);
	values[2] = error;
	values[3] = (void *)sizeof(error);
	values[4] = (void *)32;
	memset(error, 0, sizeof(error));
	OK(cuLinkCreate(5, names, values, &state));
	return state;
}

static uint32_t
run(const void *image)
{
	uint32_t value = 0;
	CUmodule module;
	CUfunction f;
	CUdeviceptr p;
	void *args[] = { &p };

	OK(cuMemAlloc(&p, 4));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&f, module, "one"));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	OK(cuMemcpyDtoH(&value, p, 4));
	OK(cuModuleUnload(module));
	OK(cuMemFree(p));
	return value;
}

static void
from_memory(void)
{
	CUlinkState state = begin();
	size_t size = 0;
	void *image;

	OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)first, sizeof(first),
			 "first", 0, NULL, NULL));
	OK(cuLinkComplete(state, &image, &size));
	fact("an image is linked", image != NULL && size > 0);
	fact("it loads and runs", run(image) == 1);
	OK(cuLinkDestroy(state));
}

static void
from_file(void)
{
	char path[] = "/tmp/mpsshim-link.XXXXXX";
	CUlinkState state = begin();
	int fd = mkstemp(path);
	size_t size;
	void *image;

	fact("a file is written", fd >= 0 &&
	     write(fd, first, sizeof(first) - 1) == sizeof(first) - 1);
	close(fd);
	OK(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
	unlink(path);
	OK(cuLinkComplete(state, &image, &size));
	fact("a file is linked too", run(image) == 1);
	OK(cuLinkDestroy(state));
	state = begin();
	answers("a file that is not there is said",
		cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, NULL, NULL),
		CUDA_ERROR_FILE_NOT_FOUND);
	OK(cuLinkDestroy(state));
}

static void
from_nonsense(void)
{
	CUlinkState state = begin();
	void *image;

	answers("wrong PTX is refused",
		cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)wrong,
			      sizeof(wrong), "wrong", 0, NULL, NULL),
		CUDA_ERROR_INVALID_PTX);
	fact("and the log says why", strlen(error) > 0);
	answers("nothing links to an image without kernels",
		cuLinkComplete(state, &image, NULL), CUDA_SUCCESS);
	OK(cuLinkDestroy(state));
}

/* The runtime of the device, which lies beside this program if there is a
 * toolkit. The software device takes no libraries. */
static void
from_library(const char *program)
{
	char path[4096];
	const char *slash = strrchr(program, '/');
	CUlinkState state = begin();
	size_t size;
	void *image;
	CUresult r;

	snprintf(path, sizeof(path), "%.*s/libcudadevrt.a",
		 slash ? (int)(slash - program) : 1, slash ? program : ".");
	if (access(path, R_OK)) {
		OK(cuLinkDestroy(state));
		return;
	}
	OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)first, sizeof(first),
			 "first", 0, NULL, NULL));
	r = cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, path, 0, NULL, NULL);
	printf("a library is added: %d\n", (int)r);
	if (r == CUDA_SUCCESS) {
		OK(cuLinkComplete(state, &image, &size));
		fact("what is linked with a library runs", run(image) == 1);
	}
	OK(cuLinkDestroy(state));
	state = begin();
	answers("a library that is not there is said",
		cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, "/nonexistent", 0,
			      NULL, NULL), CUDA_ERROR_FILE_NOT_FOUND);
	OK(cuLinkDestroy(state));
}

int
main(int argc, char **argv)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	from_memory();
	from_file();
	from_nonsense();
	if (argc > 0)
		from_library(argv[0]);
	return facts_end();
}
