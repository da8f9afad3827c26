/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: a program built for per-thread default streams, whose
 * NULL stream is the calling thread's own.
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include "tests/unit/soft_kit.h"

#define BYTES 4096u

START_TEST(null_is_the_thread_s_stream)
{
	unsigned long long own, legacy, named;
	unsigned int flags;
	int priority = 1;
	CUcontext ctx;
	CUdevice dev = -1;
	struct kit k;

	kit_context(&k);
	ok(cuStreamGetId(NULL, &own));
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, &named));
	ok(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
	ck_assert_uint_eq(own, named);
	ck_assert_uint_ne(own, legacy);
	ok(cuStreamGetFlags(NULL, &flags));
	ok(cuStreamGetPriority(NULL, &priority));
	ck_assert_int_eq(priority, 0);
	ok(cuStreamGetCtx(NULL, &ctx));
	ck_assert_ptr_eq(ctx, k.ctx);
	ok(cuStreamGetDevice(NULL, &dev));
	ck_assert_int_eq(dev, 0);
}
END_TEST

/* Started by each kind of launch, it holds up the thread's stream and no
 * other until it is let go. */
static void
check_held(volatile uint32_t *flag, CUstream other)
{
	expect(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	expect(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
	ok(cuStreamQuery(other));
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	ok(cuStreamSynchronize(NULL));
	__atomic_store_n(flag, 0, __ATOMIC_RELEASE);
}

START_TEST(launches_go_to_the_thread_s_stream)
{
	volatile uint32_t *flag;
	CUstream other;
	CUdeviceptr at;
	uint32_t value = 1;
	void *args[] = { &at, &value };
	CUlaunchConfig config;
	struct kit k;

	kit_open(&k);
	flag = kit_shared(&at);
	other = kit_stream();
	memset(&config, 0, sizeof(config));
	config.gridDimX = config.gridDimY = config.gridDimZ = 1;
	config.blockDimX = config.blockDimY = config.blockDimZ = 1;
	ok(kit_until(&k, at, 1, NULL));
	check_held(flag, other);
	ok(cuLaunchKernelEx(&config, k.until, args, NULL));
	check_held(flag, other);
	ok(cuLaunchCooperativeKernel(k.until, 1, 1, 1, 1, 1, 1, 0, NULL,
				     args));
	check_held(flag, other);
	expect(cuLaunchKernelEx(NULL, k.until, args, NULL),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(events_are_recorded_and_awaited_there)
{
	CUevent event, later;
	struct kit_hold hold;
	struct kit k;

	kit_open(&k);
	ok(cuEventCreate(&event, 0));
	ok(cuEventCreate(&later, 0));
	kit_hold_start(&k, &hold);
	ok(cuEventRecord(event, hold.stream));
	ok(cuStreamWaitEvent(NULL, event, 0));
	ok(cuEventRecordWithFlags(later, NULL, 0));
	expect(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	expect(cuEventQuery(later), CUDA_ERROR_NOT_READY);
	kit_hold_end(&hold);
	ok(cuEventSynchronize(later));
	ok(cuStreamSynchronize(NULL));
}
END_TEST

START_TEST(copies_and_fills_go_there_too)
{
	static unsigned char out[BYTES], in[BYTES];
	CUdeviceptr a, b;
	struct kit k;

	kit_context(&k);
	memset(in, 0x5a, sizeof(in));
	ok(cuMemAllocAsync(&a, BYTES, NULL));
	ok(cuMemAlloc(&b, BYTES));
	ok(cuMemcpyHtoDAsync(a, in, BYTES, NULL));
	ok(cuMemsetD8Async(a, 1, 16, NULL));
	ok(cuMemsetD16Async(a + 16, 0x0202, 8, NULL));
	ok(cuMemsetD32Async(a + 32, 0x03030303, 4, NULL));
	ok(cuMemsetD2D8Async(a + 64, 32, 4, 8, 2, NULL));
	ok(cuMemsetD2D16Async(a + 128, 32, 0x0505, 4, 2, NULL));
	ok(cuMemsetD2D32Async(a + 192, 32, 0x06060606, 2, 2, NULL));
	ok(cuMemcpyDtoDAsync(b, a, BYTES, NULL));
	ok(cuMemcpyAsync(b + 512, a, 16, NULL));
	ok(cuMemcpyPeerAsync(b + 1024, k.ctx, a, k.ctx, 16, NULL));
	ok(cuMemcpyDtoHAsync(out, b, BYTES, NULL));
	ok(cuStreamSynchronize(NULL));
	ck_assert_int_eq(out[15], 1);
	ck_assert_int_eq(out[16], 2);
	ck_assert_int_eq(out[47], 3);
	ck_assert_int_eq(out[48], 0x5a);
	ck_assert_int_eq(out[64 + 32 + 7], 4);
	ck_assert_int_eq(out[64 + 8], 0x5a);
	ck_assert_int_eq(out[128 + 32 + 7], 5);
	ck_assert_int_eq(out[192 + 32 + 7], 6);
	ck_assert_int_eq(out[512], 1);
	ck_assert_int_eq(out[1024 + 15], 1);
	ck_assert_int_eq(out[BYTES - 1], 0x5a);
	ok(cuMemFreeAsync(a, NULL));
	ok(cuStreamSynchronize(NULL));
}
END_TEST

static void CUDA_CB
set_flag(void *flag)
{
	*(int *)flag = 1;
}

START_TEST(host_functions_and_words_are_in_its_order)
{
	CUdeviceptr word;
	struct kit k;
	int ran = 0;

	kit_context(&k);
	ok(cuMemAlloc(&word, 16));
	ok(cuMemsetD8Async(word, 0, 16, NULL));
	ok(cuLaunchHostFunc(NULL, set_flag, &ran));
	ok(cuStreamWriteValue32(NULL, word, 7, 0));
	ok(cuStreamWaitValue32(NULL, word, 7, CU_STREAM_WAIT_VALUE_EQ));
	ok(cuStreamWriteValue64(NULL, word + 8, 9, 0));
	ok(cuStreamWaitValue64(NULL, word + 8, 9, CU_STREAM_WAIT_VALUE_GEQ));
	ok(cuStreamSynchronize(NULL));
	ck_assert_int_eq(ran, 1);
}
END_TEST

START_TEST(a_capture_of_it_is_a_graph)
{
	CUstreamCaptureStatus status;
	CUgraphExec exec;
	CUdeviceptr word;
	CUgraph graph;
	struct kit k;
	unsigned out = 0;

	kit_open(&k);
	ok(cuMemAlloc(&word, 4));
	ok(cuMemsetD8(word, 0, 4));
	ok(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(cuStreamIsCapturing(NULL, &status));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(cuLaunchKernel(k.bump, 1, 1, 1, 3, 1, 1, 0, NULL,
			  (void *[]){ &word }, NULL));
	ok(cuStreamEndCapture(NULL, &graph));
	ok(cuGraphInstantiate(&exec, graph, 0));
	ok(cuGraphUpload(exec, NULL));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuStreamSynchronize(NULL));
	ok(cuMemcpyDtoH(&out, word, 4));
	ck_assert_uint_eq(out, 6);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, null_is_the_thread_s_stream);
	tcase_add_test(tc, launches_go_to_the_thread_s_stream);
	tcase_add_test(tc, events_are_recorded_and_awaited_there);
	tcase_add_test(tc, copies_and_fills_go_there_too);
	tcase_add_test(tc, host_functions_and_words_are_in_its_order);
	tcase_add_test(tc, a_capture_of_it_is_a_graph);
}

int
main(void)
{
	return kit_main("soft_twin", fill);
}
