/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images, modules, libraries, the linker, functions, kernels and launches.
 */
#include "tests/gpu/fidelity/rows.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static const unsigned char elf[256] = { 0x7f, 'E', 'L', 'F', 2, 1, 1, 0x33 };
/* A wrapper's magic, and a fat binary's, with nothing behind them. */
static const uint32_t wrapper[64] = { 0x466243b1, 1 };
static const uint32_t fatbin[64] = { 0xba55ed50, 0x00100001 };

static const struct {
	const char *what;
	const void *image;
} images[] = {
	{ "no image", NULL },
	{ "junk", "junk" },
	{ "empty", "" },
	{ "half an ELF", elf },
	{ "a wrapper of nothing", wrapper },
	{ "an empty fat binary", fatbin },
	{ "PTX with a bad instruction",
	  HEAD ".visible .entry x(){ bogus; }\n" },
	{ "PTX of version 99", ".version 99.0\n.target sm_70\n"
	  ".address_size 64\n.visible .entry x(){ ret; }" },
	{ "PTX for sm_200", ".version 7.0\n.target sm_200\n"
	  ".address_size 64\n.visible .entry x(){ ret; }" },
	{ "PTX without a target", ".version 7.0\n" },
	{ "PTX that names an extern function",
	  HEAD ".extern .func gone;\n"
	  ".visible .entry x(){ call gone; ret; }\n" },
};
#define IMAGES (sizeof(images) / sizeof(images[0]))

static void
loads(void)
{
	CUjit_option bad_option = 999, log = CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
	CUlibraryOption bad_library_option = 99;
	void *value = NULL;

	for (size_t i = 0; i < IMAGES; i++) {
		ROW(cuModuleLoadData, images[i].what, PTR(0),
		    images[i].image);
		ROW(cuModuleLoadDataEx, images[i].what, PTR(0),
		    images[i].image, 0, NULL, NULL);
		ROW(cuLibraryLoadData, images[i].what, PTR(0),
		    images[i].image, NULL, NULL, 0, NULL, NULL, 0);
	}
	/* The function for fat binaries reads on behind what is none. */
	ROW(cuModuleLoadFatBinary, "no image", PTR(0), NULL);
	ROW(cuModuleLoadFatBinary, "PTX", PTR(0), row_ptx);
	ROW(cuModuleLoadFatBinary, "a wrapper of nothing", PTR(0), wrapper);
	ROW(cuModuleLoadData, "no out", NULL, row_ptx);
	ROW(cuModuleLoadDataEx, "no out", NULL, row_ptx, 0, NULL, NULL);
	ROW(cuModuleLoadDataEx, "option 999", PTR(0), row_ptx, 1, &bad_option,
	    &value);
	ROW(cuModuleLoadDataEx, "no options", PTR(0), row_ptx, 1, NULL,
	    &value);
	ROW(cuModuleLoadDataEx, "no values", PTR(0), row_ptx, 1, &log, NULL);
	ROW(cuModuleLoad, "no out", NULL, "/nonexistent");
	ROW(cuModuleLoad, "no name", PTR(0), NULL);
	ROW(cuModuleLoad, "no file", PTR(0), "/nonexistent");
	ROW(cuModuleLoad, "empty name", PTR(0), "");
	ROW(cuModuleLoad, "a directory", PTR(0), "/");
	ROW(cuModuleLoad, "an empty file", PTR(0), "/dev/null");
	ROW(cuLibraryLoadData, "no out", NULL, row_ptx, NULL, NULL, 0, NULL,
	    NULL, 0);
	ROW(cuLibraryLoadData, "option 999", PTR(0), row_ptx, &bad_option,
	    &value, 1, NULL, NULL, 0);
	ROW(cuLibraryLoadData, "library option 99", PTR(0), row_ptx, NULL,
	    NULL, 0, &bad_library_option, &value, 1);
	ROW(cuLibraryLoadData, "no library options", PTR(0), row_ptx, NULL,
	    NULL, 0, NULL, NULL, 1);
	ROW(cuLibraryLoadFromFile, "no name", PTR(0), NULL, NULL, NULL, 0,
	    NULL, NULL, 0);
	ROW(cuLibraryLoadFromFile, "no out", NULL, "/nonexistent", NULL,
	    NULL, 0, NULL, NULL, 0);
	ROW(cuLibraryLoadFromFile, "no file", PTR(0), "/nonexistent", NULL,
	    NULL, 0, NULL, NULL, 0);
	ROW(cuLibraryLoadFromFile, "a directory", PTR(0), "/", NULL, NULL, 0,
	    NULL, NULL, 0);
}

static void
linker(void)
{
	CUjit_option bad_option = 999;
	void *value = NULL;
	CUlinkState s = NULL;

	TRY(cuLinkCreate_v2, 0, NULL, NULL, &s);
	ROW(cuLinkCreate_v2, "no out", 0, NULL, NULL, NULL);
	ROW(cuLinkCreate_v2, "option 999", 1, &bad_option, &value, PTR(0));
	ROW(cuLinkAddData_v2, "no data", s, CU_JIT_INPUT_PTX, NULL, 10, "x",
	    0, NULL, NULL);
	ROW(cuLinkAddData_v2, "0 bytes", s, CU_JIT_INPUT_PTX, (void *)HEAD, 0,
	    "x", 0, NULL, NULL);
	ROW(cuLinkAddData_v2, "kind 99", s, 99, (void *)HEAD, sizeof(HEAD),
	    "x", 0, NULL, NULL);
	ROW(cuLinkAddData_v2, "no state", NULL, CU_JIT_INPUT_PTX,
	    (void *)HEAD, sizeof(HEAD), "x", 0, NULL, NULL);
	ROW(cuLinkAddData_v2, "junk as cubin", s, CU_JIT_INPUT_CUBIN,
	    (void *)"junk", 5, "x", 0, NULL, NULL);
	ROW(cuLinkAddFile_v2, "no name", s, CU_JIT_INPUT_PTX, NULL, 0, NULL,
	    NULL);
	ROW(cuLinkAddFile_v2, "no file", s, CU_JIT_INPUT_PTX, "/nonexistent",
	    0, NULL, NULL);
	ROW(cuLinkComplete, "no state", NULL, PTR(0), I64(1));
	ROW(cuLinkComplete, "no out", s, NULL, NULL);
	ROW(cuLinkDestroy, "none", NULL);
}

void
group_code(void)
{
	CUmodule m;
	CUlibrary lib;
	CUkernel k;

	row_context();
	m = row_module();
	OK(cuLibraryLoadData, &lib, row_ptx, NULL, NULL, 0, NULL, NULL, 0);
	OK(cuLibraryGetKernel, &k, lib, "none");
	loads();
	ROW(cuModuleGetFunction, "no out", NULL, m, "none");
	ROW(cuModuleGetFunction, "no name", PTR(0), m, NULL);
	ROW(cuModuleGetFunction, "no module", PTR(0), NULL, "none");
	ROW(cuModuleGetFunction, "unknown", PTR(0), m, "nothing");
	ROW(cuModuleGetFunction, "empty name", PTR(0), m, "");
	ROW(cuModuleGetFunction, "a variable", PTR(0), m, "counter");
	ROW(cuModuleGetFunctionCount, "no out", NULL, m);
	ROW(cuModuleGetFunctionCount, "no module", I32(0), NULL);
	ROW(cuModuleGetFunctionCount, "five", I32(0), m);
	ROW(cuModuleEnumerateFunctions, "no out", NULL, 2, m);
	ROW(cuModuleEnumerateFunctions, "none asked", PTR(0), 0, m);
	ROW(cuModuleEnumerateFunctions, "two asked", BYTES(0), 2, m);
	ROW(cuModuleEnumerateFunctions, "more than there are", BYTES(0), 50,
	    m);
	ROW(cuModuleGetGlobal_v2, "no address", NULL, I64(0), m, "counter");
	ROW(cuModuleGetGlobal_v2, "no size", PTR(0), NULL, m, "counter");
	ROW(cuModuleGetGlobal_v2, "no out", NULL, NULL, m, "counter");
	ROW(cuModuleGetGlobal_v2, "no name", PTR(0), I64(1), m, NULL);
	ROW(cuModuleGetGlobal_v2, "no module", PTR(0), I64(1), NULL,
	    "counter");
	ROW(cuModuleGetGlobal_v2, "unknown", PTR(0), I64(1), m, "nothing");
	ROW(cuModuleGetGlobal_v2, "a function", PTR(0), I64(1), m, "none");
	ROW(cuModuleGetGlobal_v2, "constant", PTR(0), I64(1), m, "table");
	ROW(cuModuleGetLoadingMode, "no out", NULL);
	ROW(cuModuleUnload, "none", NULL);
	ROW(cuModuleGetTexRef, "unknown", PTR(0), m, "nothing");
	ROW(cuModuleGetTexRef, "no out", NULL, m, "nothing");
	ROW(cuModuleGetSurfRef, "unknown", PTR(0), m, "nothing");
	ROW(cuLibraryGetKernel, "no out", NULL, lib, "none");
	ROW(cuLibraryGetKernel, "no name", PTR(0), lib, NULL);
	ROW(cuLibraryGetKernel, "no library", PTR(0), NULL, "none");
	ROW(cuLibraryGetKernel, "unknown", PTR(0), lib, "nothing");
	ROW(cuLibraryGetKernelCount, "no out", NULL, lib);
	ROW(cuLibraryGetKernelCount, "no library", I32(0), NULL);
	ROW(cuLibraryEnumerateKernels, "no out", NULL, 2, lib);
	ROW(cuLibraryEnumerateKernels, "none asked", PTR(0), 0, lib);
	ROW(cuLibraryEnumerateKernels, "more than there are", BYTES(0), 50,
	    lib);
	ROW(cuLibraryGetModule, "no out", NULL, lib);
	ROW(cuLibraryGetModule, "no library", PTR(0), NULL);
	ROW(cuLibraryGetGlobal, "no out", NULL, NULL, lib, "counter");
	ROW(cuLibraryGetGlobal, "no name", PTR(0), I64(1), lib, NULL);
	ROW(cuLibraryGetGlobal, "unknown", PTR(0), I64(1), lib, "nothing");
	ROW(cuLibraryGetGlobal, "no library", PTR(0), I64(1), NULL,
	    "counter");
	ROW(cuLibraryGetManaged, "not managed", PTR(0), I64(1), lib,
	    "counter");
	ROW(cuLibraryGetManaged, "unknown", PTR(0), I64(1), lib, "nothing");
	ROW(cuLibraryGetUnifiedFunction, "unknown", PTR(0), lib, "nothing");
	ROW(cuLibraryUnload, "none", NULL);
	ROW(cuKernelGetFunction, "no out", NULL, k);
	ROW(cuKernelGetFunction, "none", PTR(0), NULL);
	ROW(cuKernelGetLibrary, "no out", NULL, k);
	ROW(cuKernelGetLibrary, "none", PTR(0), NULL);
	linker();
}

static void
function_attributes(CUfunction f, CUkernel k)
{
	static const struct {
		int attribute, value;
	} sets[] = {
		{ 0, 1 }, { 4, 1 }, { 7, 1 },
		{ CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1 },
		{ CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20 },
		{ CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -2 },
		{ CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101 },
		{ CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, 1 },
		{ CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, -1 },
		{ CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 2 },
		{ CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 9 },
		{ 99, 0 }, { -1, 0 },
	};

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		const char *what = row_text("attribute %d to %d",
					    sets[i].attribute, sets[i].value);

		ROW(cuFuncSetAttribute, what, f,
		    (CUfunction_attribute)sets[i].attribute, sets[i].value);
		ROW(cuKernelSetAttribute, what,
		    (CUfunction_attribute)sets[i].attribute, sets[i].value, k,
		    0);
	}
	ROW(cuFuncGetAttribute, "no out", NULL, 0, f);
	ROW(cuFuncGetAttribute, "attribute -1", I32(0),
	    (CUfunction_attribute)-1, f);
	ROW(cuFuncGetAttribute, "attribute 16", I32(0), 16, f);
	ROW(cuFuncGetAttribute, "attribute 99", I32(0), 99, f);
	ROW(cuFuncGetAttribute, "none", I32(0), 0, NULL);
	ROW(cuFuncSetAttribute, "none", NULL, 8, 0);
	ROW(cuKernelGetAttribute, "no out", NULL, 0, k, 0);
	ROW(cuKernelGetAttribute, "attribute 99", I32(0), 99, k, 0);
	ROW(cuKernelGetAttribute, "none", I32(0), 0, NULL, 0);
	ROW(cuKernelGetAttribute, "device 99", I32(0), 0, k, 99);
	ROW(cuKernelSetAttribute, "none", 8, 0, NULL, 0);
	ROW(cuKernelSetAttribute, "device 99", 8, 0, k, 99);
}

static void
occupancies(CUfunction f)
{
	CUlaunchConfig config = { 1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0 };

#define BLOCKS cuOccupancyMaxActiveBlocksPerMultiprocessor
#define BLOCKS_FLAGS cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
	ROW(BLOCKS, "no out", NULL, f, 32, 0);
	ROW(BLOCKS, "none", I32(0), NULL, 32, 0);
	ROW(BLOCKS, "block 0", I32(0), f, 0, 0);
	ROW(BLOCKS, "block -1", I32(0), f, -1, 0);
	ROW(BLOCKS, "block 1025", I32(0), f, 1025, 0);
	ROW(BLOCKS, "shared memory of 1 GiB", I32(0), f, 32, 1 << 30);
	ROW(BLOCKS_FLAGS, "flags 2", I32(0), f, 32, 0, 2);
	ROW(BLOCKS_FLAGS, "no out", NULL, f, 32, 0, 0);
	ROW(cuOccupancyMaxPotentialBlockSize, "no grid", NULL, I32(0), f,
	    NULL, 0, 0);
	ROW(cuOccupancyMaxPotentialBlockSize, "no block", I32(0), NULL, f,
	    NULL, 0, 0);
	ROW(cuOccupancyMaxPotentialBlockSize, "none", I32(0), I32(1), NULL,
	    NULL, 0, 0);
	ROW(cuOccupancyMaxPotentialBlockSize, "limit -1", SOME(0), I32(1), f,
	    NULL, 0, -1);
	ROW(cuOccupancyMaxPotentialBlockSizeWithFlags, "flags 2", I32(0),
	    I32(1), f, NULL, 0, 0, 2);
	ROW(cuOccupancyAvailableDynamicSMemPerBlock, "no out", NULL, f, 1,
	    32);
	ROW(cuOccupancyAvailableDynamicSMemPerBlock, "0 blocks", I64(0), f, 0,
	    32);
	ROW(cuOccupancyAvailableDynamicSMemPerBlock, "block 0", I64(0), f, 1,
	    0);
	ROW(cuOccupancyAvailableDynamicSMemPerBlock, "99 blocks", I64(0), f,
	    99, 1024);
	ROW(cuOccupancyMaxActiveClusters, "no configuration", I32(0), f,
	    NULL);
	ROW(cuOccupancyMaxActiveClusters, "no out", NULL, f, &config);
	ROW(cuOccupancyMaxActiveClusters, "none", I32(0), NULL, &config);
	ROW(cuOccupancyMaxActiveClusters, "no cluster", SOME(0), f, &config);
	ROW(cuOccupancyMaxPotentialClusterSize, "no out", NULL, f, &config);
	ROW(cuOccupancyMaxPotentialClusterSize, "no configuration", I32(0), f,
	    NULL);
}

void
group_kernels(void)
{
	CUfunction f, bound;
	CUlibrary lib;
	CUkernel k;

	row_context();
	f = row_kernel("two");
	bound = row_kernel("bound");
	OK(cuLibraryLoadData, &lib, row_ptx, NULL, NULL, 0, NULL, NULL, 0);
	OK(cuLibraryGetKernel, &k, lib, "two");
	function_attributes(f, k);
	occupancies(bound);
	ROW(cuFuncSetCacheConfig, "configuration 4", f, 4);
	ROW(cuFuncSetCacheConfig, "none", NULL, 0);
	ROW(cuFuncSetSharedMemConfig, "configuration 3", f, 3);
	ROW(cuFuncSetSharedMemConfig, "none", NULL, 0);
	ROW(cuFuncGetModule, "no out", NULL, f);
	ROW(cuFuncGetModule, "none", PTR(0), NULL);
	ROW(cuFuncGetName, "no out", NULL, f);
	ROW(cuFuncGetName, "none", PTR(0), NULL);
	ROW(cuFuncGetParamInfo, "no offset", f, 0, NULL, I64(0));
	ROW(cuFuncGetParamInfo, "no size", f, 1, I64(0), NULL);
	ROW(cuFuncGetParamInfo, "parameter 2 of 2", f, 2, I64(0), I64(1));
	ROW(cuFuncGetParamInfo, "none", NULL, 0, I64(0), I64(1));
	ROW(cuFuncIsLoaded, "no out", NULL, f);
	ROW(cuFuncIsLoaded, "none", I32(0), NULL);
	ROW(cuFuncLoad, "none", NULL);
	ROW(cuKernelSetCacheConfig, "configuration 4", k, 4, 0);
	ROW(cuKernelSetCacheConfig, "none", NULL, 0, 0);
	ROW(cuKernelSetCacheConfig, "device 99", k, 0, 99);
	ROW(cuKernelGetName, "no out", NULL, k);
	ROW(cuKernelGetName, "none", PTR(0), NULL);
	ROW(cuKernelGetParamInfo, "no offset", k, 0, NULL, I64(0));
	ROW(cuKernelGetParamInfo, "parameter 2 of 2", k, 2, I64(0), I64(1));
	ROW(cuKernelGetParamInfo, "none", NULL, 0, I64(0), I64(1));
}

static void
launch_attributes(CUfunction none)
{
	CUlaunchAttribute attr;
	CUlaunchConfig config = { 1, 1, 1, 1, 1, 1, 0, NULL, &attr, 1 };

	for (int i = 0; i < 18; i++) {
		memset(&attr, 0, sizeof(attr));
		attr.id = (CUlaunchAttributeID)i;
		ROW(cuLaunchKernelEx, row_text("attribute %d of zeros", i),
		    &config, none, NULL, NULL);
		memset(&attr.value, 0xff, 8);
		ROW(cuLaunchKernelEx, row_text("attribute %d of ones", i),
		    &config, none, NULL, NULL);
	}
	attr.id = -1;
	ROW(cuLaunchKernelEx, "attribute -1", &config, none, NULL, NULL);
	config.attrs = NULL;
	ROW(cuLaunchKernelEx, "attributes of NULL", &config, none, NULL,
	    NULL);
	config.numAttrs = 0;
	config.gridDimX = 0;
	ROW(cuLaunchKernelEx, "grid 0", &config, none, NULL, NULL);
	config.gridDimX = 1;
	ROW(cuLaunchKernelEx, "no function", &config, NULL, NULL, NULL);
	config.sharedMemBytes = 1 << 20;
	ROW(cuLaunchKernelEx, "shared memory of 1 MiB", &config, none, NULL,
	    NULL);
}

void
group_launches(void)
{
	CUfunction none, two, bound;
	CUdeviceptr p = 0;
	uint32_t b = 1;
	void *args[] = { &p, &b }, *holes[] = { NULL, NULL };
	void *no_size[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &p,
			    CU_LAUNCH_PARAM_END };
	void *unknown[] = { (void *)9, &p, CU_LAUNCH_PARAM_END };

	row_context();
	none = row_kernel("none");
	two = row_kernel("two");
	bound = row_kernel("bound");
#define LAUNCH(what, f, gx, gy, gz, bx, by, bz, shared, stream, params,	\
	       extra)							\
	ROW(cuLaunchKernel, what, f, gx, gy, gz, bx, by, bz, shared, stream, \
	    params, extra)
	LAUNCH("no function", NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	LAUNCH("grid x 0", none, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	LAUNCH("grid y 0", none, 1, 0, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	LAUNCH("grid z 0", none, 1, 1, 0, 1, 1, 1, 0, NULL, NULL, NULL);
	LAUNCH("block x 0", none, 1, 1, 1, 0, 1, 1, 0, NULL, NULL, NULL);
	LAUNCH("block z 0", none, 1, 1, 1, 1, 1, 0, 0, NULL, NULL, NULL);
	LAUNCH("grid x 2^31", none, 1u << 31, 1, 1, 1, 1, 1, 0, NULL, NULL,
	       NULL);
	LAUNCH("grid y 65536", none, 1, 65536, 1, 1, 1, 1, 0, NULL, NULL,
	       NULL);
	LAUNCH("block x 1025", none, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL,
	       NULL);
	LAUNCH("block z 65", none, 1, 1, 1, 1, 1, 65, 0, NULL, NULL, NULL);
	LAUNCH("block of 2048", none, 1, 1, 1, 64, 32, 1, 0, NULL, NULL,
	       NULL);
	LAUNCH("more than the kernel's bound", bound, 1, 1, 1, 257, 1, 1, 0,
	       NULL, args, NULL);
	LAUNCH("shared memory of 49153", none, 1, 1, 1, 1, 1, 1, 49153, NULL,
	       NULL, NULL);
	LAUNCH("all shared memory", none, 1, 1, 1, 1, 1, 1, ~0u, NULL, NULL,
	       NULL);
	LAUNCH("no parameters", two, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	LAUNCH("parameters of NULL", two, 1, 1, 1, 1, 1, 1, 0, NULL, holes,
	       NULL);
	LAUNCH("both kinds of parameters", two, 1, 1, 1, 1, 1, 1, 0, NULL,
	       args, no_size);
	LAUNCH("extra without a size", two, 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
	       no_size);
	LAUNCH("unknown extra", two, 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
	       unknown);
	ROW(cuLaunchCooperativeKernel, "no function", NULL, 1, 1, 1, 1, 1, 1,
	    0, NULL, NULL);
	ROW(cuLaunchCooperativeKernel, "grid 0", none, 0, 1, 1, 1, 1, 1, 0,
	    NULL, NULL);
	ROW(cuLaunchCooperativeKernel, "too large", none, 1 << 20, 1, 1, 1024,
	    1, 1, 0, NULL, NULL);
	ROW(cuLaunchCooperativeKernel, "block 1025", none, 1, 1, 1, 1025, 1,
	    1, 0, NULL, NULL);
	ROW(cuLaunchKernelEx, "no configuration", NULL, none, NULL, NULL);
	ROW(cuLaunchCooperativeKernelMultiDevice, "none", NULL, 0, 0);
	ROW(cuLaunchHostFunc, "no function", NULL, NULL, NULL);
	ROW(cuStreamAddCallback, "no function", NULL, NULL, NULL, 0);
	ROW(cuStreamAddCallback, "flags 1", NULL, (CUstreamCallback)ODD, NULL,
	    1);
	ROW(cuFuncSetBlockShape, "0", none, 0, 0, 0);
	ROW(cuParamSetSize, "too many", none, 1 << 20);
	launch_attributes(none);
}
