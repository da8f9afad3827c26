/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: faults poison the process, and what still answers.
 */
#include "tests/unit/soft_kit.h"

#include <signal.h>

/* Some die of signals on purpose, and are to be seen to. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *
__asan_default_options(void)
{
	return "handle_segv=0";
}

const char *
__tsan_default_options(void)
{
	return "handle_segv=0";
}

static void
all_is_poisoned(struct kit *k, CUresult code)
{
	CUcontext ctx;
	CUdeviceptr p;
	CUevent e;
	CUstream s;
	int count;

	expect(cuCtxSynchronize(), code);
	expect(cuMemAlloc(&p, 4), code);
	expect(cuMemFree(64), code);
	expect(cuStreamCreate(&s, 0), code);
	expect(cuStreamSynchronize(NULL), code);
	expect(cuEventCreate(&e, 0), code);
	expect(kit_poke(k, 64, 1, NULL), code);
	expect(cuDevicePrimaryCtxReset(0), code);
	expect(cuCtxCreate(&ctx, NULL, 0, 0), code);
	/* Questions about devices are not the context's. */
	ok(cuDeviceGetCount(&count));
	ok(cuCtxGetCurrent(&ctx));
}

START_TEST(wild_store_is_an_illegal_address_for_good)
{
	struct kit k;

	kit_open(&k);
	ok(kit_poke(&k, 0x1234500, 1, NULL));
	all_is_poisoned(&k, CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(store_behind_an_allocation_is_an_illegal_address)
{
	CUdeviceptr p;
	struct kit k;

	kit_open(&k);
	ok(cuMemAlloc(&p, 4096));
	ok(kit_poke(&k, p + 4092, 1, NULL));
	ok(cuCtxSynchronize());
	ok(cuMemFree(p));
	ok(kit_poke(&k, p, 1, NULL));
	expect(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(trap_is_a_launch_failure)
{
	struct kit k;

	kit_open(&k);
	ok(cuLaunchKernel(k.boom, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	all_is_poisoned(&k, CUDA_ERROR_LAUNCH_FAILED);
}
END_TEST

START_TEST(misaligned_store_has_its_code)
{
	CUdeviceptr word;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	void *p[] = { &word };

	ok(cuLaunchKernel(k.odd, 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL));
	all_is_poisoned(&k, CUDA_ERROR_MISALIGNED_ADDRESS);
}
END_TEST

START_TEST(fault_ends_waits_of_other_streams)
{
	CUdeviceptr flag;
	CUstream s;
	struct kit k;

	kit_open(&k);
	kit_shared(&flag);
	s = kit_stream();
	ok(kit_until(&k, flag, 1, s));   /* never */
	ok(kit_poke(&k, 8, 1, NULL));
	expect(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(unmapping_under_a_running_grid_faults_it_alone)
{
	const size_t page = 2 << 20;
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp prop;
	CUmemAccessDesc desc;
	CUdeviceptr p;
	struct kit k;

	kit_open(&k);
	memset(&prop, 0, sizeof(prop));
	memset(&desc, 0, sizeof(desc));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	desc.location = prop.location;
	desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	ok(cuMemAddressReserve(&p, page, 0, 0, 0));
	ok(cuMemCreate(&h, page, &prop, 0));
	ok(cuMemMap(p, page, 0, h, 0));
	ok(cuMemSetAccess(p, page, &desc, 1));
	ok(kit_until(&k, p, 1, NULL));
	kit_sleep_ms(20);
	ok(cuMemUnmap(p, page));
	expect(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(read_only_memory_cannot_be_stored_to)
{
	uint32_t *p = aligned_alloc(4096, 4096);
	struct kit k;

	kit_open(&k);
	memset(p, 0, 4096);
	ok(cuMemHostRegister(p, 4096, CU_MEMHOSTREGISTER_READ_ONLY));
	ok(kit_poke(&k, (uintptr_t)p, 1, NULL));
	expect(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_uint_eq(p[0], 0);
	free(p);
}
END_TEST

START_TEST(injected_fault_hits_the_nth_launch)
{
	CUdeviceptr word;
	struct kit k;

	setenv("SOFTCUDA_FAULT", "launch:2=719", 1);
	kit_open(&k);
	word = kit_word(0);
	ok(kit_poke(&k, word, 1, NULL));
	ok(cuCtxSynchronize());
	ok(kit_poke(&k, word, 2, NULL));
	all_is_poisoned(&k, CUDA_ERROR_LAUNCH_FAILED);
}
END_TEST

START_TEST(injected_fault_hits_the_named_kernel)
{
	CUdeviceptr word;
	struct kit k;

	setenv("SOFTCUDA_FAULT", "kernel:bump=700", 1);
	kit_open(&k);
	word = kit_word(0);
	ok(kit_poke(&k, word, 1, NULL));
	ok(cuCtxSynchronize());
	ok(kit_bump(&k, word, 1, NULL));
	all_is_poisoned(&k, CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(second_context_dies_with_the_first)
{
	CUdeviceptr q;
	CUcontext second;
	struct kit k;

	kit_open(&k);
	ok(kit_poke(&k, 16, 1, NULL));
	while (cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY)
		kit_sleep_ms(1);
	expect(cuCtxCreate(&second, NULL, 0, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
	expect(cuMemAlloc(&q, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

static void
load_kit(const char *fault)
{
	struct kit k;

	setenv("SOFTCUDA_FAULT", fault, 1);
	kit_open(&k);
	ok(cuFuncLoad(k.bump));
}

START_TEST(load_of_the_text_ends_the_process)
{
	load_kit("load:vadd");
}
END_TEST

START_TEST(link_of_the_text_ends_the_process)
{
	CUlinkState link;
	struct kit k;

	setenv("SOFTCUDA_FAULT", "load:vadd", 1);
	kit_context(&k);
	ok(cuLinkCreate(0, NULL, NULL, &link));
	cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)kit_ptx,
		      sizeof(kit_ptx), "k", 0, NULL, NULL);
}
END_TEST

START_TEST(use_of_the_named_kernel_ends_the_process)
{
	load_kit("use:bump");
}
END_TEST

START_TEST(other_text_and_kernels_do_not)
{
	load_kit("use:bum,load:no-such-text");
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test_raise_signal(tc, link_of_the_text_ends_the_process,
				    SIGSEGV);
	tcase_add_test_raise_signal(tc, load_of_the_text_ends_the_process,
				    SIGSEGV);
	tcase_add_test_raise_signal(tc, use_of_the_named_kernel_ends_the_process,
				    SIGSEGV);
	tcase_add_test(tc, other_text_and_kernels_do_not);
	tcase_add_test(tc, fault_ends_waits_of_other_streams);
	tcase_add_test(tc, injected_fault_hits_the_named_kernel);
	tcase_add_test(tc, injected_fault_hits_the_nth_launch);
	tcase_add_test(tc, misaligned_store_has_its_code);
	tcase_add_test(tc, read_only_memory_cannot_be_stored_to);
	tcase_add_test(tc, second_context_dies_with_the_first);
	tcase_add_test(tc,
		       store_behind_an_allocation_is_an_illegal_address);
	tcase_add_test(tc, trap_is_a_launch_failure);
	tcase_add_test(tc, unmapping_under_a_running_grid_faults_it_alone);
	tcase_add_test(tc, wild_store_is_an_illegal_address_for_good);
}

int
main(void)
{
	return kit_main("soft_fault", fill);
}
