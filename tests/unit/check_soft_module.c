/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: modules, libraries, images, functions, launches.
 */
#include "tests/unit/soft_kit.h"
#include "tests/unit/soft_images.h"

#include <fcntl.h>

static void
run_vadd(CUfunction f)
{
	float a[100], b[100], c[100];
	CUdeviceptr da, db, dc;
	int n = 100;
	void *p[] = { &da, &db, &dc, &n };

	for (int i = 0; i < n; i++) {
		a[i] = (float)i;
		b[i] = 0.5f;
	}
	ok(cuMemAlloc(&da, sizeof(a)));
	ok(cuMemAlloc(&db, sizeof(a)));
	ok(cuMemAlloc(&dc, sizeof(a)));
	ok(cuMemcpyHtoD(da, a, sizeof(a)));
	ok(cuMemcpyHtoD(db, b, sizeof(a)));
	ok(cuLaunchKernel(f, 4, 1, 1, 32, 1, 1, 0, NULL, p, NULL));
	ok(cuMemcpyDtoH(c, dc, sizeof(c)));
	for (int i = 0; i < n; i++)
		ck_assert(c[i] == (float)i + 0.5f);
}

START_TEST(text_runs)
{
	struct kit k;

	kit_open(&k);
	run_vadd(k.vadd);
}
END_TEST

static void
load_packed(enum img_pack pack, unsigned wrap)
{
	struct img_wrapper w = { 0x466243b1, wrap, NULL, NULL };
	struct img i = { 0 }, elf = { 0 };
	CUfunction f;
	CUmodule m;
	struct kit k;

	kit_context(&k);
	img_elf(&elf);
	img_fatbin_begin(&i);
	img_fatbin_add(&i, 2, 90, elf.data, elf.size, IMG_PLAIN);
	img_fatbin_add(&i, 1, 75, kit_ptx, sizeof(kit_ptx), pack);
	w.fatbin = i.data;
	ok(cuModuleLoadData(&m, wrap ? (void *)&w : i.data));
	ok(cuModuleGetFunction(&f, m, "vadd"));
	/* The module keeps what it needs. */
	memset(i.data, 0xff, i.size);
	run_vadd(f);
	free(i.data);
	free(elf.data);
}

START_TEST(plain_fatbin_runs)
{
	load_packed(IMG_PLAIN, 0);
}
END_TEST

START_TEST(lz4_fatbin_runs)
{
	load_packed(IMG_LZ4, 1);
}
END_TEST

START_TEST(zstd_fatbin_runs)
{
	load_packed(IMG_ZSTD, 1);
}
END_TEST

static const char part_one[] =
".version 8.0\n.target sm_80\n.address_size 64\n"
".visible .entry one(.param .u64 p) {\n"
" .reg .b64 %r; .reg .b32 %v; ld.param.u64 %r, [p]; mov.u32 %v, 1;\n"
" st.global.u32 [%r], %v; ret; }\n";
static const char part_two[] =
".version 8.0\n.target sm_80\n.address_size 64\n"
".visible .entry two(.param .u64 p) {\n"
" .reg .b64 %r; .reg .b32 %v; ld.param.u64 %r, [p]; mov.u32 %v, 2;\n"
" st.global.u32 [%r], %v; ret; }\n";

static void
run_one_and_two(CUmodule m)
{
	CUdeviceptr word = kit_word(0);
	void *p[] = { &word };
	CUfunction f;

	ok(cuModuleGetFunction(&f, m, "one"));
	ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL));
	ck_assert_uint_eq(kit_read(word), 1);
	ok(cuModuleGetFunction(&f, m, "two"));
	ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL));
	ck_assert_uint_eq(kit_read(word), 2);
}

START_TEST(second_wrapper_takes_text_from_its_parts)
{
	struct img main_bin = { 0 }, a = { 0 }, b = { 0 }, elf = { 0 };
	const void *parts[3] = { NULL, NULL, NULL };
	struct img_wrapper w = { 0x466243b1, 2, NULL, parts };
	CUmodule m;
	struct kit k;

	kit_context(&k);
	img_elf(&elf);
	img_fatbin_begin(&main_bin);
	img_fatbin_add(&main_bin, 2, 90, elf.data, elf.size, IMG_PLAIN);
	img_fatbin_begin(&a);
	img_fatbin_add(&a, 1, 80, part_one, sizeof(part_one), IMG_ZSTD);
	img_fatbin_begin(&b);
	img_fatbin_add(&b, 1, 80, part_two, sizeof(part_two), IMG_LZ4);
	w.fatbin = main_bin.data;
	parts[0] = a.data;
	parts[1] = b.data;
	ok(cuModuleLoadFatBinary(&m, &w));
	run_one_and_two(m);
	free(main_bin.data);
	free(elf.data);
	free(a.data);
	free(b.data);
}
END_TEST

START_TEST(highest_fitting_text_is_chosen)
{
	struct img i = { 0 };
	CUfunction f;
	CUmodule m;
	struct kit k;

	kit_context(&k);
	img_fatbin_begin(&i);
	img_fatbin_add(&i, 1, 80, part_one, sizeof(part_one), IMG_PLAIN);
	img_fatbin_add(&i, 1, 86, part_two, sizeof(part_two), IMG_PLAIN);
	img_fatbin_add(&i, 1, 120, "junk", 5, IMG_PLAIN);
	ok(cuModuleLoadData(&m, i.data));
	ok(cuModuleGetFunction(&f, m, "two"));
	expect(cuModuleGetFunction(&f, m, "one"), CUDA_ERROR_NOT_FOUND);
	free(i.data);
}
END_TEST

START_TEST(machine_code_loads_and_launch_says_no_binary)
{
	struct img i = { 0 };
	CUdeviceptr p;
	CUfunction f;
	CUmodule m;
	size_t offset, size;
	uint64_t value;
	uint32_t four = 4;
	void *params[] = { &value, &four };
	struct kit k;

	kit_context(&k);
	img_elf(&i);
	ok(cuModuleLoadData(&m, i.data));
	ok(cuModuleGetFunction(&f, m, "native"));
	ok(cuFuncGetParamInfo(f, 0, &offset, &size));
	ck_assert_uint_eq(offset, 0);
	ck_assert_uint_eq(size, 8);
	ok(cuFuncGetParamInfo(f, 1, &offset, &size));
	ck_assert_uint_eq(offset, 8);
	ck_assert_uint_eq(size, 4);
	expect(cuFuncGetParamInfo(f, 2, &offset, &size),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuModuleGetGlobal(&p, &size, m, "state"));
	ck_assert_uint_eq(size, 8);
	ok(cuMemcpyDtoH(&value, p, 8));
	ck_assert_uint_eq(value, 5);
	expect(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL),
	       CUDA_ERROR_NO_BINARY_FOR_GPU);
	/* An answer, not a fault. */
	ok(cuCtxSynchronize());
	free(i.data);
}
END_TEST

START_TEST(bad_images_have_their_codes)
{
	struct img i = { 0 };
	CUmodule m;
	struct kit k;

	kit_context(&k);
	expect(cuModuleLoadData(&m, "garbage"), CUDA_ERROR_INVALID_IMAGE);
	expect(cuModuleLoadData(&m, ""), CUDA_ERROR_INVALID_IMAGE);
	expect(cuModuleLoadData(&m, ".target sm_75\n.version 8.0\n"),
	       CUDA_ERROR_INVALID_IMAGE);
	expect(cuModuleLoadData(&m, ".version 8.0\n.target sm_75\n"
				".address_size 64\n.visible .entry x( {"),
	       CUDA_ERROR_INVALID_PTX);
	expect(cuModuleLoadData(&m, ".version 19.0\n.target sm_75\n"
				".address_size 64\n"),
	       CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	expect(cuModuleLoadData(&m, ".version 8.8\n.target sm_120\n"
				".address_size 64\n"),
	       CUDA_ERROR_INVALID_PTX);
	img_fatbin_begin(&i);
	img_fatbin_add(&i, 8, 90, "lto", 4, IMG_PLAIN);
	expect(cuModuleLoadData(&m, i.data), CUDA_ERROR_NO_BINARY_FOR_GPU);
	expect(cuModuleLoad(&m, "/nonexistent"), CUDA_ERROR_FILE_NOT_FOUND);
	expect(cuModuleLoadData(&m, NULL), CUDA_ERROR_INVALID_VALUE);
	free(i.data);
}
END_TEST

START_TEST(error_log_names_the_line)
{
	char log[512] = "";
	CUjit_option options[] = {
		CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
	};
	void *values[] = { log, (void *)(uintptr_t)sizeof(log) };
	CUmodule m;
	struct kit k;

	kit_context(&k);
	expect(cuModuleLoadDataEx(&m, ".version 8.0\n.target sm_75\n"
		".address_size 64\n.visible .entry x()\n{\n"
		" frobnicate.u32 %r1, %r2;\n ret;\n}\n", 2, options, values),
	       CUDA_ERROR_INVALID_PTX);
	ck_assert_msg(strstr(log, "frobnicate"), "log: %s", log);
	ck_assert_msg(strstr(log, "6"), "log: %s", log);
	ck_assert_uint_eq((uintptr_t)values[1], strlen(log));
	options[0] = CU_JIT_NUM_OPTIONS;
	expect(cuModuleLoadDataEx(&m, kit_ptx, 2, options, values),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(variables_start_with_their_values)
{
	uint32_t table[4];
	CUdeviceptr p;
	size_t size;
	struct kit k;

	kit_open(&k);
	ok(cuModuleGetGlobal(&p, &size, k.module, "counter"));
	ck_assert_uint_eq(size, 4);
	ck_assert_uint_eq(kit_read(p), 7);
	ok(kit_bump(&k, p, 3, NULL));
	ck_assert_uint_eq(kit_read(p), 10);
	ok(cuModuleGetGlobal(&p, &size, k.module, "table"));
	ck_assert_uint_eq(size, 16);
	ok(cuMemcpyDtoH(table, p, 16));
	ck_assert_uint_eq(table[3], 4);
	expect(cuModuleGetGlobal(&p, &size, k.module, "none"),
	       CUDA_ERROR_NOT_FOUND);
}
END_TEST

START_TEST(each_module_has_its_own_variables)
{
	CUdeviceptr a, b;
	CUmodule second;
	struct kit k;

	kit_open(&k);
	ok(cuModuleLoadData(&second, kit_ptx));
	ok(cuModuleGetGlobal(&a, NULL, k.module, "counter"));
	ok(cuModuleGetGlobal(&b, NULL, second, "counter"));
	ck_assert_uint_ne(a, b);
	ok(kit_bump(&k, a, 1, NULL));
	ck_assert_uint_eq(kit_read(b), 7);
	ok(cuModuleUnload(second));
	expect(cuMemsetD32(b, 0, 1), CUDA_ERROR_INVALID_VALUE);
	expect(cuModuleUnload(second), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(library_needs_no_context_until_it_is_used)
{
	CUlibrary lib, owner;
	CUkernel kernel, all[8];
	CUfunction f;
	CUmodule m;
	const char *name;
	unsigned count;
	struct kit k;

	ok(cuInit(0));
	ok(cuLibraryLoadData(&lib, kit_ptx, NULL, NULL, 0, NULL, NULL, 0));
	ok(cuLibraryGetKernelCount(&count, lib));
	ck_assert_uint_eq(count, 8);
	ok(cuLibraryEnumerateKernels(all, 8, lib));
	ok(cuLibraryGetKernel(&kernel, lib, "vadd"));
	ok(cuKernelGetName(&name, kernel));
	ck_assert_str_eq(name, "vadd");
	ok(cuKernelGetLibrary(&owner, kernel));
	ck_assert_ptr_eq(owner, lib);
	expect(cuLibraryGetModule(&m, lib), CUDA_ERROR_INVALID_CONTEXT);
	expect(cuLibraryGetKernel(&kernel, lib, "none"),
	       CUDA_ERROR_NOT_FOUND);
	kit_context(&k);
	ok(cuLibraryGetModule(&m, lib));
	ok(cuKernelGetFunction(&f, kernel));
	run_vadd(f);
	/* The launch takes a CUkernel as well. */
	run_vadd((CUfunction)kernel);
	expect(cuModuleUnload(m), CUDA_ERROR_NOT_PERMITTED);
	ok(cuLibraryUnload(lib));
	expect(cuLibraryUnload(lib), CUDA_ERROR_INVALID_HANDLE);
	expect(cuKernelGetName(&name, kernel), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(library_options_are_checked)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	CUlibrary lib;

	ok(cuInit(0));
	/* As cuBLASLt does: an option, and no values. */
	ok(cuLibraryLoadData(&lib, kit_ptx, NULL, NULL, 0, &option, NULL, 1));
	option = CU_LIBRARY_NUM_OPTIONS;
	expect(cuLibraryLoadData(&lib, kit_ptx, NULL, NULL, 0, &option, NULL,
				 1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(linker_joins_text)
{
	CUlinkState link;
	CUmodule m;
	void *image;
	size_t size;
	struct kit k;

	kit_context(&k);
	ok(cuLinkCreate(0, NULL, NULL, &link));
	ok(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)part_one,
			 sizeof(part_one), "a", 0, NULL, NULL));
	ok(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)part_two,
			 sizeof(part_two), "b", 0, NULL, NULL));
	expect(cuLinkAddData(link, CU_JIT_INPUT_PTX, (char[]){ "x" }, 2, "c",
			     0, NULL, NULL), CUDA_ERROR_INVALID_PTX);
	ok(cuLinkComplete(link, &image, &size));
	ok(cuModuleLoadData(&m, image));
	ok(cuLinkDestroy(link));
	run_one_and_two(m);
}
END_TEST

START_TEST(linker_makes_an_image_of_nothing)
{
	unsigned int count = 1;
	CUlinkState link;
	CUmodule m;
	void *image;
	struct kit k;

	kit_context(&k);
	ok(cuLinkCreate(0, NULL, NULL, &link));
	expect(cuLinkAddData(link, CU_JIT_INPUT_PTX, (char[]){ "x" }, 2, "c",
			     0, NULL, NULL), CUDA_ERROR_INVALID_PTX);
	ok(cuLinkComplete(link, &image, NULL));
	ok(cuModuleLoadData(&m, image));
	ok(cuModuleGetFunctionCount(&count, m));
	ck_assert_uint_eq(count, 0);
	ok(cuLinkDestroy(link));
}
END_TEST

START_TEST(functions_have_attributes)
{
	const char *name;
	CUmodule m;
	int value;
	struct kit k;

	kit_open(&k);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
			      k.vadd));
	ck_assert_int_eq(value, 1024);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
			      k.hold));
	ck_assert_int_ge(value, 8192);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, k.vadd));
	ck_assert_int_eq(value, 75);
	ok(cuFuncSetAttribute(k.vadd,
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
	ok(cuFuncGetAttribute(&value,
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k.vadd));
	ck_assert_int_eq(value, 100000);
	expect(cuFuncSetAttribute(k.vadd,
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuFuncSetAttribute(k.vadd, CU_FUNC_ATTRIBUTE_NUM_REGS, 3),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncGetName(&name, k.vadd));
	ck_assert_str_eq(name, "vadd");
	ok(cuFuncGetModule(&m, k.vadd));
	ck_assert_ptr_eq(m, k.module);
}
END_TEST

static CUresult
launch_shape(CUfunction f, unsigned gx, unsigned gy, unsigned bx, unsigned bz,
	     unsigned shared)
{
	CUdeviceptr nothing = 0;
	int n = 0;
	void *p[] = { &nothing, &nothing, &nothing, &n };

	return cuLaunchKernel(f, gx, gy, 1, bx, 1, bz, shared, NULL, p, NULL);
}

START_TEST(launch_shapes_are_checked_at_the_call)
{
	struct kit k;

	kit_open(&k);
	ok(launch_shape(k.vadd, 1, 1, 1024, 1, 49152));
	expect(launch_shape(k.vadd, 0, 1, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
	expect(launch_shape(k.vadd, 1, 1, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
	expect(launch_shape(k.vadd, 1, 1, 1025, 1, 0),
	       CUDA_ERROR_INVALID_VALUE);
	expect(launch_shape(k.vadd, 1, 1, 512, 3, 0),
	       CUDA_ERROR_INVALID_VALUE);
	expect(launch_shape(k.vadd, 1, 1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
	expect(launch_shape(k.vadd, 1, 65536, 1, 1, 0),
	       CUDA_ERROR_INVALID_VALUE);
	expect(launch_shape(k.vadd, 1, 1, 32, 1, 49153),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncSetAttribute(k.vadd,
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
	ok(launch_shape(k.vadd, 1, 1, 32, 1, 100000));
	expect(cuLaunchKernel(k.vadd, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxSynchronize());
}
END_TEST

START_TEST(extra_buffer_carries_parameters)
{
	struct kit k;

	kit_open(&k);
	struct { CUdeviceptr p; uint32_t v; } args = { kit_word(0), 55 };
	size_t size = sizeof(args), small = 8;
	void *extra[] = {
		CU_LAUNCH_PARAM_BUFFER_POINTER, &args,
		CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END,
	};

	ok(cuLaunchKernel(k.poke, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	ck_assert_uint_eq(kit_read(args.p), 55);
	extra[3] = &small;
	expect(cuLaunchKernel(k.poke, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(launch_attributes_are_understood)
{
	CUlaunchAttribute attr[1];
	CUlaunchConfig config;
	CUdeviceptr word;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	void *p[] = { &word };

	memset(attr, 0, sizeof(attr));
	memset(&config, 0, sizeof(config));
	config.gridDimX = 8;
	config.gridDimY = config.gridDimZ = 1;
	config.blockDimX = 4;
	config.blockDimY = config.blockDimZ = 1;
	config.attrs = attr;
	config.numAttrs = 1;
	attr[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
	attr[0].value.clusterDim.x = 2;
	attr[0].value.clusterDim.y = attr[0].value.clusterDim.z = 1;
	ok(cuLaunchKernelEx(&config, k.bump, p, NULL));
	ck_assert_uint_eq(kit_read(word), 32);
	attr[0].value.clusterDim.x = 3;
	expect(cuLaunchKernelEx(&config, k.bump, p, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	config.gridDimX = 32;
	attr[0].value.clusterDim.x = 16;
	expect(cuLaunchKernelEx(&config, k.bump, p, NULL),
	       CUDA_ERROR_INVALID_CLUSTER_SIZE);
	attr[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
	ok(cuLaunchKernelEx(&config, k.bump, p, NULL));
	attr[0].id = (CUlaunchAttributeID)99;
	expect(cuLaunchKernelEx(&config, k.bump, p, NULL),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(cooperative_grids_must_fit)
{
	CUdeviceptr word;
	struct kit k;

	setenv("SOFTCUDA_SMS", "2", 1);
	kit_open(&k);
	word = kit_word(0);
	void *p[] = { &word };

	ok(cuLaunchCooperativeKernel(k.bump, 4, 1, 1, 1024, 1, 1, 0, NULL, p));
	ck_assert_uint_eq(kit_read(word), 4096);
	expect(cuLaunchCooperativeKernel(k.bump, 5, 1, 1, 1024, 1, 1, 0, NULL,
					 p),
	       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}
END_TEST

START_TEST(occupancy_follows_the_limits_of_an_sm)
{
	int blocks, grid, size;
	size_t shared;
	struct kit k;

	kit_open(&k);
	ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k.bump, 1024,
						       0));
	ck_assert_int_eq(blocks, 2);
	ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k.bump, 32,
						       0));
	ck_assert_int_eq(blocks, 32);
	ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k.bump, 32,
						       48 << 10));
	ck_assert_int_eq(blocks, 4);
	ok(cuOccupancyMaxPotentialBlockSize(&grid, &size, k.bump, NULL, 0, 0));
	ck_assert_int_eq(size, 1024);
	ck_assert_int_eq(grid, 16);
	ok(cuOccupancyAvailableDynamicSMemPerBlock(&shared, k.bump, 2, 1024));
	ck_assert_uint_eq(shared, 228 * 1024 / 2 - 1024);
	expect(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k.bump, 0,
							   0),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static const char print_ptx[] =
".version 8.0\n.target sm_75\n.address_size 64\n"
".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
".global .align 1 .b8 text[7] = {110, 61, 37, 100, 10, 0, 0};\n"
".visible .entry say(.param .u32 n) {\n"
" .local .align 8 .b8 frame[8];\n"
" .reg .b32 %r<3>; .reg .b64 %rd<5>;\n"
" mov.u64 %rd1, frame; cvta.local.u64 %rd2, %rd1;\n"
" ld.param.u32 %r1, [n]; st.local.u32 [%rd1], %r1;\n"
" mov.u64 %rd3, text; cvta.global.u64 %rd4, %rd3;\n"
" { .param .b64 p0; st.param.b64 [p0], %rd4;\n"
"   .param .b64 p1; st.param.b64 [p1], %rd2;\n"
"   .param .b32 q; call.uni (q), vprintf, (p0, p1);\n"
"   ld.param.b32 %r2, [q]; }\n"
" ret;\n}\n";

START_TEST(device_printf_reaches_stdout_at_synchronise)
{
	char out[64] = "";
	int pipes[2], saved, n = 31;
	void *p[] = { &n };
	CUfunction f;
	CUmodule m;
	struct kit k;

	kit_context(&k);
	ok(cuModuleLoadData(&m, print_ptx));
	ok(cuModuleGetFunction(&f, m, "say"));
	ck_assert_int_eq(pipe2(pipes, O_NONBLOCK), 0);
	fflush(stdout);
	saved = dup(1);
	dup2(pipes[1], 1);
	ok(cuLaunchKernel(f, 1, 1, 1, 2, 1, 1, 0, NULL, p, NULL));
	kit_sleep_ms(100);
	ck_assert_int_lt(read(pipes[0], out, sizeof(out)), 0);
	ok(cuCtxSynchronize());
	dup2(saved, 1);
	ck_assert_int_eq(read(pipes[0], out, sizeof(out) - 1), 10);
	ck_assert_str_eq(out, "n=31\nn=31\n");
}
END_TEST

START_TEST(context_has_its_own_module_of_a_library)
{
	CUdeviceptr a, b;
	CUcontext second;
	CUlibrary lib;
	struct kit k;

	kit_context(&k);
	ok(cuLibraryLoadData(&lib, kit_ptx, NULL, NULL, 0, NULL, NULL, 0));
	ok(cuLibraryGetGlobal(&a, NULL, lib, "counter"));
	ok(cuCtxCreate(&second, NULL, 0, 0));
	ok(cuLibraryGetGlobal(&b, NULL, lib, "counter"));
	ck_assert_uint_ne(a, b);
	ok(cuCtxDestroy(second));
	ck_assert_uint_eq(kit_read(a), 7);
	expect(cuMemsetD32(b, 0, 1), CUDA_ERROR_INVALID_VALUE);
	ok(cuLibraryUnload(lib));
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, bad_images_have_their_codes);
	tcase_add_test(tc, context_has_its_own_module_of_a_library);
	tcase_add_test(tc, cooperative_grids_must_fit);
	tcase_add_test(tc, device_printf_reaches_stdout_at_synchronise);
	tcase_add_test(tc, each_module_has_its_own_variables);
	tcase_add_test(tc, error_log_names_the_line);
	tcase_add_test(tc, extra_buffer_carries_parameters);
	tcase_add_test(tc, functions_have_attributes);
	tcase_add_test(tc, highest_fitting_text_is_chosen);
	tcase_add_test(tc, launch_attributes_are_understood);
	tcase_add_test(tc, launch_shapes_are_checked_at_the_call);
	tcase_add_test(tc, library_needs_no_context_until_it_is_used);
	tcase_add_test(tc, library_options_are_checked);
	tcase_add_test(tc, linker_joins_text);
	tcase_add_test(tc, linker_makes_an_image_of_nothing);
	tcase_add_test(tc, lz4_fatbin_runs);
	tcase_add_test(tc, machine_code_loads_and_launch_says_no_binary);
	tcase_add_test(tc, occupancy_follows_the_limits_of_an_sm);
	tcase_add_test(tc, plain_fatbin_runs);
	tcase_add_test(tc, second_wrapper_takes_text_from_its_parts);
	tcase_add_test(tc, text_runs);
	tcase_add_test(tc, variables_start_with_their_values);
	tcase_add_test(tc, zstd_fatbin_runs);
}

int
main(void)
{
	return kit_main("soft_module", fill);
}
