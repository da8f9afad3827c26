/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: splitting multiprocessors, green contexts on them, and
 * that a green context's share is all that its kernels get.
 */
#include "tests/unit/soft_kit.h"

#include "server/soft/softcuda.h"

#define WHERE_BLOCKS 64u

/* where(p): p[block] = multiprocessor */
static const char where_ptx[] =
".version 8.0\n.target sm_75\n.address_size 64\n"
".visible .entry where(.param .u64 p) {\n"
"  .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
"  ld.param.u64 %rd0, [p]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %smid;\n"
"  mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r1; ret;\n}\n";

static CUdevResource
whole(CUdevice dev)
{
	CUdevResource all;

	ok(cuDeviceGetDevResource(dev, &all, CU_DEV_RESOURCE_TYPE_SM));
	return all;
}

static CUgreenCtx
green_of(CUdevice dev, CUdevResource *parts, unsigned count)
{
	CUdevResourceDesc desc;
	CUgreenCtx green;

	ok(cuDevResourceGenerateDesc(&desc, parts, count));
	ok(cuGreenCtxCreate(&green, desc, dev, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

static CUstream
green_stream(CUgreenCtx green)
{
	CUstream s;

	ok(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
	return s;
}

static CUcontext
context_of(CUgreenCtx green)
{
	CUcontext ctx;

	ok(cuCtxFromGreenCtx(&ctx, green));
	return ctx;
}

/* `groups` groups of 8 of a device that has `sms`. */
static void
split(CUdevice dev, CUdevResource *parts, unsigned groups)
{
	CUdevResource all = whole(dev);
	unsigned made = groups;

	ok(cuDevSmResourceSplitByCount(parts, &made, &all, NULL, 0, 8));
	ck_assert_uint_eq(made, groups);
}

static unsigned
groups_of(const CUdevResource *from, unsigned flags, unsigned least)
{
	unsigned made = 0;

	ok(cuDevSmResourceSplitByCount(NULL, &made, from, NULL, flags, least));
	return made;
}

START_TEST(groups_hold_eights)
{
	CUdevResource all, part[16], rest;
	unsigned made = 16;
	struct kit k;

	setenv("SOFTCUDA_SMS", "132", 1);
	kit_context(&k);
	all = whole(k.dev);
	ck_assert_uint_eq(all.sm.smCount, 132);
	ck_assert_uint_eq(all.sm.minSmPartitionSize, 8);
	ck_assert_uint_eq(all.sm.smCoscheduledAlignment, 8);
	ck_assert_uint_eq(groups_of(&all, 0, 0), 16);
	ck_assert_uint_eq(groups_of(&all, 0, 8), 16);
	ck_assert_uint_eq(groups_of(&all, 0, 9), 8);
	ck_assert_uint_eq(groups_of(&all, 0, 66), 1);
	ck_assert_uint_eq(groups_of(&all,
		CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 1), 66);
	ok(cuDevSmResourceSplitByCount(part, &made, &all, &rest, 0, 8));
	ck_assert_uint_eq(made, 16);
	for (unsigned i = 0; i < made; i++)
		ck_assert_uint_eq(part[i].sm.smCount, 8);
	ck_assert_uint_eq(rest.sm.smCount, 4);
	made = 3;
	ok(cuDevSmResourceSplitByCount(part, &made, &all, &rest, 0, 16));
	ck_assert_uint_eq(made, 3);
	ck_assert_uint_eq(part[2].sm.smCount, 16);
	ck_assert_uint_eq(rest.sm.smCount, 132 - 48);
	made = 1;
	ok(cuDevSmResourceSplitByCount(part, &made, &all, NULL, 0, 128));
	ck_assert_uint_eq(part[0].sm.smCount, 128);
}
END_TEST

START_TEST(splits_that_cannot_be_are_refused)
{
	CUdevResource all, none = { 0 }, part[2];
	unsigned made = 2;
	struct kit k;

	setenv("SOFTCUDA_SMS", "20", 1);
	kit_context(&k);
	all = whole(k.dev);
	expect(cuDevSmResourceSplitByCount(part, &made, &all, NULL, 0, 21),
	       CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	expect(cuDevSmResourceSplitByCount(part, &made, &all, NULL, 0, 17),
	       CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	expect(cuDevSmResourceSplitByCount(part, &made, &all, NULL, 4, 8),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuDevSmResourceSplitByCount(part, &made, &none, NULL, 0, 8),
	       CUDA_ERROR_INVALID_RESOURCE_TYPE);
	expect(cuDevSmResourceSplitByCount(part, NULL, &all, NULL, 0, 8),
	       CUDA_ERROR_INVALID_VALUE);
	none.type = CU_DEV_RESOURCE_TYPE_SM;
	expect(cuDevSmResourceSplitByCount(part, &made, &none, NULL, 0, 8),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuDevSmResourceSplitByCount(part, &made, &all, NULL, 0, 8));
	expect(cuDevSmResourceSplitByCount(&all, &made, &part[0], NULL, 0, 8),
	       CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	expect(cuDeviceGetDevResource(k.dev, &all,
				      CU_DEV_RESOURCE_TYPE_INVALID),
	       CUDA_ERROR_INVALID_RESOURCE_TYPE);
	expect(cuDeviceGetDevResource(7, &all, CU_DEV_RESOURCE_TYPE_SM),
	       CUDA_ERROR_INVALID_DEVICE);
}
END_TEST

START_TEST(a_descriptor_takes_parts_of_splits)
{
	CUdevResource one[2], other[2], mixed[2], got, half[2];
	CUdevResourceDesc desc;
	unsigned made = 2;
	CUgreenCtx green;
	struct kit k;

	setenv("SOFTCUDA_SMS", "32", 1);
	kit_context(&k);
	split(k.dev, one, 2);
	split(k.dev, other, 2);
	mixed[0] = one[0];
	mixed[1] = other[1];
	green = green_of(k.dev, mixed, 2);
	ok(cuGreenCtxGetDevResource(green, &got, CU_DEV_RESOURCE_TYPE_SM));
	ck_assert_uint_eq(got.sm.smCount, 16);
	ok(cuGreenCtxDestroy(green));
	/* One that is in both counts once. */
	mixed[1] = other[0];
	green = green_of(k.dev, mixed, 2);
	ok(cuGreenCtxGetDevResource(green, &got, CU_DEV_RESOURCE_TYPE_SM));
	ck_assert_uint_eq(got.sm.smCount, 8);
	ok(cuGreenCtxDestroy(green));
	expect(cuDevResourceGenerateDesc(&desc, one, 0),
	       CUDA_ERROR_INVALID_VALUE);
	green = green_of(k.dev, one, 2);
	ok(cuGreenCtxGetDevResource(green, &got, CU_DEV_RESOURCE_TYPE_SM));
	ck_assert_uint_eq(got.sm.smCount, 16);
	ok(cuCtxGetDevResource(context_of(green), &got,
			       CU_DEV_RESOURCE_TYPE_SM));
	ck_assert_uint_eq(got.sm.smCount, 16);
	/* As a green context's resource it may be split again. */
	ok(cuDevSmResourceSplitByCount(half, &made, &got, NULL, 0, 8));
	ck_assert_uint_eq(made, 2);
	ok(cuCtxGetDevResource(k.ctx, &got, CU_DEV_RESOURCE_TYPE_SM));
	ck_assert_uint_eq(got.sm.smCount, 32);
}
END_TEST

START_TEST(kernels_run_on_the_context_s_multiprocessors)
{
	uint32_t sm[WHERE_BLOCKS];
	bool seen[32] = { false };
	CUdevResource part[4];
	CUfunction where;
	CUmodule module;
	CUdeviceptr at;
	CUstream s;
	struct kit k;

	setenv("SOFTCUDA_SMS", "32", 1);
	kit_context(&k);
	ok(cuModuleLoadData(&module, where_ptx));
	ok(cuModuleGetFunction(&where, module, "where"));
	ok(cuMemAlloc(&at, sizeof(sm)));
	split(k.dev, part, 4);
	/* The second and the last: not next to each other. */
	part[0] = part[1];
	part[1] = part[3];
	s = green_stream(green_of(k.dev, part, 2));
	ok(cuLaunchKernel(where, WHERE_BLOCKS, 1, 1, 1, 1, 1, 0, s,
			  (void *[]){ &at }, NULL));
	ok(cuStreamSynchronize(s));
	ok(cuMemcpyDtoH(sm, at, sizeof(sm)));
	for (unsigned i = 0; i < WHERE_BLOCKS; i++) {
		ck_assert_uint_lt(sm[i], 32);
		seen[sm[i]] = true;
	}
	for (unsigned i = 0; i < 32; i++)
		ck_assert_int_eq(seen[i], i / 8 == 1 || i / 8 == 3);
}
END_TEST

static uint64_t
overlap_ns(void)
{
	static const char id[16] = SOFTCUDA_TABLE_ID;
	const struct softcuda_table *table;
	uint64_t ns;

	ok(cuGetExportTable((const void **)&table, (const CUuuid *)id));
	ok(table->overlap_ns(&ns));
	return ns;
}

static void
tag(CUstream s, uint64_t value)
{
	static const char id[16] = SOFTCUDA_TABLE_ID;
	const struct softcuda_table *table;

	ok(cuGetExportTable((const void **)&table, (const CUuuid *)id));
	ok(table->set_stream_tag(s, value));
}

/* Two kernels that run until they are let go. */
static void
two_kernels(struct kit *k, CUstream a, CUstream b, struct kit_hold hold[2])
{
	CUstream s[] = { a, b };

	for (unsigned i = 0; i < 2; i++) {
		tag(s[i], i + 1);
		hold[i].flag = kit_shared(&hold[i].device);
		ok(kit_until(k, hold[i].device, 1, s[i]));
	}
}

/* Four threads, 32 multiprocessors: eight of them are one thread's. */
START_TEST(eight_of_32_multiprocessors_are_one_thread_of_four)
{
	CUdevResource part[4];
	struct kit_hold hold[2];
	CUgreenCtx one, other;
	struct kit k;

	setenv("SOFTCUDA_SMS", "32", 1);
	setenv("SOFTCUDA_THREADS", "4", 1);
	kit_open(&k);
	split(k.dev, part, 4);
	one = green_of(k.dev, &part[0], 1);
	two_kernels(&k, green_stream(one), green_stream(one), hold);
	kit_sleep_ms(50);
	ck_assert_uint_eq(overlap_ns(), 0);
	kit_hold_end(&hold[0]);
	kit_hold_end(&hold[1]);
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(overlap_ns(), 0);
	/* The same multiprocessors again: no more threads for it. */
	other = green_of(k.dev, &part[0], 1);
	two_kernels(&k, green_stream(one), green_stream(other), hold);
	kit_sleep_ms(50);
	kit_hold_end(&hold[0]);
	kit_hold_end(&hold[1]);
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(overlap_ns(), 0);
}
END_TEST

START_TEST(disjoint_green_contexts_run_side_by_side)
{
	CUdevResource part[4];
	struct kit_hold hold[2];
	struct kit k;

	setenv("SOFTCUDA_SMS", "32", 1);
	setenv("SOFTCUDA_THREADS", "4", 1);
	kit_open(&k);
	split(k.dev, part, 4);
	two_kernels(&k, green_stream(green_of(k.dev, &part[0], 1)),
		    green_stream(green_of(k.dev, &part[1], 1)), hold);
	while (!overlap_ns())
		kit_sleep_ms(1);
	kit_hold_end(&hold[0]);
	kit_hold_end(&hold[1]);
	ok(cuCtxSynchronize());
}
END_TEST

START_TEST(a_cooperative_grid_fits_the_share)
{
	CUdeviceptr word;
	void *args[] = { &word };
	CUdevResource part[2];
	int blocks;
	CUstream s;
	struct kit k;

	setenv("SOFTCUDA_SMS", "16", 1);
	kit_open(&k);
	word = kit_word(0);
	ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k.bump, 1024,
						       0));
	split(k.dev, part, 2);
	s = green_stream(green_of(k.dev, part, 1));
	ok(cuLaunchCooperativeKernel(k.bump, 8 * (unsigned)blocks, 1, 1, 1024,
				     1, 1, 0, s, args));
	expect(cuLaunchCooperativeKernel(k.bump, 8 * (unsigned)blocks + 1, 1,
					 1, 1024, 1, 1, 0, s, args),
	       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	ok(cuLaunchCooperativeKernel(k.bump, 8 * (unsigned)blocks + 1, 1, 1,
				     1024, 1, 1, 0, NULL, args));
	ok(cuCtxSynchronize());
}
END_TEST

static void *
make_current(void *ctx)
{
	return (void *)(intptr_t)cuCtxSetCurrent(ctx);
}

static CUresult
in_another_thread(CUcontext ctx)
{
	pthread_t thread;
	void *res;

	ck_assert(!pthread_create(&thread, NULL, make_current, ctx));
	pthread_join(thread, &res);
	return (CUresult)(intptr_t)res;
}

START_TEST(a_green_context_is_current_in_one_thread)
{
	CUdevResource all;
	CUcontext ctx, got;
	struct kit k;

	kit_context(&k);
	all = whole(k.dev);
	ctx = context_of(green_of(k.dev, &all, 1));
	ok(cuCtxPushCurrent(ctx));
	ok(cuCtxPushCurrent(ctx));
	expect(in_another_thread(ctx), CUDA_ERROR_CONTEXT_ALREADY_IN_USE);
	ok(cuCtxPopCurrent(&got));
	ck_assert_ptr_eq(got, ctx);
	expect(in_another_thread(ctx), CUDA_ERROR_CONTEXT_ALREADY_IN_USE);
	ok(cuCtxPopCurrent(NULL));
	ok(in_another_thread(ctx));
	/* That thread has ended and left it. */
	ok(cuCtxSetCurrent(ctx));
	ok(cuCtxSetCurrent(k.ctx));
	ok(in_another_thread(ctx));
}
END_TEST

START_TEST(relaxed_it_is_current_in_any_thread)
{
	CUdevResource all;
	CUcontext ctx;
	struct kit k;

	setenv("SOFTCUDA_RELAX", "green", 1);
	kit_context(&k);
	all = whole(k.dev);
	ctx = context_of(green_of(k.dev, &all, 1));
	ok(cuCtxSetCurrent(ctx));
	ok(in_another_thread(ctx));
}
END_TEST

START_TEST(it_has_its_home_s_memory_and_an_id_of_its_own)
{
	unsigned long long id, same, home;
	CUgreenCtx green, got;
	CUdevResource all;
	CUcontext ctx, of;
	CUdeviceptr word;
	CUstream s;
	struct kit k;

	kit_open(&k);
	all = whole(k.dev);
	green = green_of(k.dev, &all, 1);
	ctx = context_of(green);
	ck_assert_ptr_ne(ctx, k.ctx);
	ok(cuCtxSetCurrent(ctx));
	word = kit_word(5);
	ok(kit_bump(&k, word, 1, NULL));
	ok(cuStreamSynchronize(NULL));
	ck_assert_uint_eq(kit_read(word), 6);
	ok(cuGreenCtxGetId(NULL, &id));
	ok(cuGreenCtxGetId(green, &same));
	ok(cuCtxGetId(k.ctx, &home));
	ck_assert_uint_eq(id, same);
	ck_assert_uint_ne(id, home);
	ok(cuStreamGetGreenCtx(NULL, &got));
	ck_assert_ptr_eq(got, green);
	s = green_stream(green);
	ok(cuStreamGetCtx(s, &of));
	ck_assert_ptr_eq(of, ctx);
	ok(cuStreamGetCtx_v2(s, &of, &got));
	ck_assert_ptr_eq(of, k.ctx);
	ck_assert_ptr_eq(got, green);
	expect(cuStreamGetCtx_v2(CU_STREAM_PER_THREAD, &of, &got),
	       CUDA_ERROR_INVALID_HANDLE);
	ok(cuCtxSetCurrent(k.ctx));
	ok(cuStreamGetGreenCtx(NULL, &got));
	ck_assert_ptr_null(got);
	expect(cuGreenCtxGetId(NULL, &id), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuGreenCtxDestroy(green));
	/* What was allocated there is its home's. */
	ck_assert_uint_eq(kit_read(word), 6);
}
END_TEST

START_TEST(a_destroyed_one_leaves_dead_streams)
{
	CUgreenCtx green;
	CUdevResource all;
	CUcontext ctx;
	CUstream s, own;
	struct kit k;

	kit_context(&k);
	all = whole(k.dev);
	green = green_of(k.dev, &all, 1);
	ctx = context_of(green);
	s = green_stream(green);
	own = green_stream(green);
	ok(cuStreamDestroy(own));
	expect(cuCtxDestroy(ctx), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuGreenCtxDestroy(green));
	expect(cuStreamQuery(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	expect(cuStreamDestroy(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	expect(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
	expect(cuCtxFromGreenCtx(&ctx, green), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuStreamSynchronize(NULL));
}
END_TEST

START_TEST(it_keeps_its_home_alive)
{
	CUdevResource all;
	unsigned flags;
	CUgreenCtx green;
	int active;
	struct kit k;

	kit_context(&k);
	all = whole(k.dev);
	green = green_of(k.dev, &all, 1);
	ok(cuDevicePrimaryCtxRelease(k.dev));
	ok(cuDevicePrimaryCtxGetState(k.dev, &flags, &active));
	ck_assert_int_eq(active, 1);
	ok(cuGreenCtxDestroy(green));
	ok(cuDevicePrimaryCtxGetState(k.dev, &flags, &active));
	ck_assert_int_eq(active, 0);
}
END_TEST

START_TEST(wrong_arguments_are_refused)
{
	CUgreenCtx none = (CUgreenCtx)(uintptr_t)0x1234560, green;
	CUdevResourceDesc desc;
	unsigned long long id;
	CUdevResource all;
	CUcontext ctx;
	CUevent event;
	CUstream s;
	struct kit k;

	kit_context(&k);
	all = whole(k.dev);
	ok(cuEventCreate(&event, 0));
	ok(cuDevResourceGenerateDesc(&desc, &all, 1));
	expect(cuGreenCtxCreate(&green, desc, k.dev, 0),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuGreenCtxCreate(&green, NULL, k.dev,
				CU_GREEN_CTX_DEFAULT_STREAM),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuGreenCtxCreate(&green, desc, 7, CU_GREEN_CTX_DEFAULT_STREAM),
	       CUDA_ERROR_INVALID_DEVICE);
	expect(cuCtxFromGreenCtx(&ctx, none), CUDA_ERROR_INVALID_CONTEXT);
	expect(cuCtxSetCurrent((CUcontext)none), CUDA_ERROR_INVALID_CONTEXT);
	expect(cuGreenCtxGetId(none, &id), CUDA_ERROR_INVALID_CONTEXT);
	expect(cuGreenCtxStreamCreate(&s, none, CU_STREAM_NON_BLOCKING, 0),
	       CUDA_ERROR_INVALID_CONTEXT);
	expect(cuGreenCtxRecordEvent(none, event), CUDA_ERROR_INVALID_CONTEXT);
	green = green_of(k.dev, &all, 1);
	expect(cuGreenCtxRecordEvent(green, NULL), CUDA_ERROR_INVALID_HANDLE);
	expect(cuGreenCtxWaitEvent(green, NULL), CUDA_ERROR_INVALID_HANDLE);
	expect(cuGreenCtxStreamCreate(&s, green, 0, 0),
	       CUDA_ERROR_INVALID_VALUE);
	/* A green context that is not converted is no context. */
	expect(cuCtxSetCurrent((CUcontext)green), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

START_TEST(a_home_waits_for_its_green_contexts_not_they_for_it)
{
	struct kit_hold hold;
	CUdevResource all;
	CUgreenCtx green;
	CUevent event;
	CUstream s;
	struct kit k;

	kit_open(&k);
	all = whole(k.dev);
	green = green_of(k.dev, &all, 1);
	s = green_stream(green);
	ok(cuEventCreate(&event, 0));
	kit_hold_start(&k, &hold);
	ok(cuCtxSynchronize_v2(context_of(green)));
	ok(cuGreenCtxRecordEvent(green, event));
	ok(cuEventQuery(event));
	ok(cuCtxRecordEvent(k.ctx, event));
	expect(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	kit_hold_end(&hold);
	ok(cuEventSynchronize(event));
	hold.flag = kit_shared(&hold.device);
	ok(kit_until(&k, hold.device, 1, s));
	ok(cuCtxRecordEvent(k.ctx, event));
	expect(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	kit_hold_end(&hold);
	ok(cuCtxSynchronize());
	ok(cuStreamQuery(s));
	ok(cuEventQuery(event));
}
END_TEST

/* Launches into s wait for the kernel that `hold` lets go; others do not. */
static void
check_waits(struct kit *k, CUstream s, CUstream other, struct kit_hold *hold)
{
	CUdeviceptr word = kit_word(0);

	ok(kit_bump(k, word, 1, s));
	ok(kit_bump(k, word, 1, other));
	ok(cuStreamSynchronize(other));
	expect(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	ck_assert_uint_eq(kit_read(word), 1);
	kit_hold_end(hold);
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(kit_read(word), 2);
}

START_TEST(all_later_work_of_a_context_waits_for_the_event)
{
	struct kit_hold hold;
	CUdevResource all;
	CUgreenCtx green;
	CUevent event;
	CUstream s, later;
	CUdeviceptr word;
	struct kit k;

	/* A head that waits would hold up the streams of its queue. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	kit_open(&k);
	all = whole(k.dev);
	green = green_of(k.dev, &all, 1);
	s = green_stream(green);
	word = kit_word(0);
	ok(cuEventCreate(&event, 0));
	kit_hold_start(&k, &hold);
	ok(cuEventRecord(event, hold.stream));
	ok(cuGreenCtxWaitEvent(green, event));
	check_waits(&k, s, kit_stream(), &hold);
	kit_hold_start(&k, &hold);
	ok(cuEventRecord(event, hold.stream));
	ok(cuCtxWaitEvent(k.ctx, event));
	/* Of the home: its green contexts wait, streams made later too. */
	later = green_stream(green);
	ok(kit_bump(&k, word, 1, later));
	expect(cuStreamQuery(later), CUDA_ERROR_NOT_READY);
	kit_hold_end(&hold);
	ok(cuStreamSynchronize(later));
}
END_TEST

START_TEST(a_capture_forbids_context_events)
{
	CUdevResource all;
	CUgreenCtx green;
	CUgraph graph;
	CUevent event;
	CUstream s;
	struct kit k;

	kit_context(&k);
	all = whole(k.dev);
	green = green_of(k.dev, &all, 1);
	s = green_stream(green);
	ok(cuEventCreate(&event, 0));
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect(cuGreenCtxRecordEvent(green, event),
	       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect(cuStreamEndCapture(s, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(cuEventRecord(event, s));
	expect(cuCtxWaitEvent(k.ctx, event),
	       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect(cuStreamEndCapture(s, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(a_graph_s_kernel_keeps_the_context_it_was_captured_in)
{
	uint32_t sm[WHERE_BLOCKS];
	CUdevResource part[2];
	CUgraphExec exec;
	CUfunction where;
	CUmodule module;
	CUgraph graph;
	CUdeviceptr at;
	CUstream s;
	struct kit k;

	setenv("SOFTCUDA_SMS", "16", 1);
	kit_context(&k);
	ok(cuModuleLoadData(&module, where_ptx));
	ok(cuModuleGetFunction(&where, module, "where"));
	ok(cuMemAlloc(&at, sizeof(sm)));
	split(k.dev, part, 2);
	s = green_stream(green_of(k.dev, &part[1], 1));
	ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(cuLaunchKernel(where, WHERE_BLOCKS, 1, 1, 1, 1, 1, 0, s,
			  (void *[]){ &at }, NULL));
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiate(&exec, graph, 0));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuStreamSynchronize(NULL));
	ok(cuMemcpyDtoH(sm, at, sizeof(sm)));
	for (unsigned i = 0; i < WHERE_BLOCKS; i++)
		ck_assert_uint_ge(sm[i], 8);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, groups_hold_eights);
	tcase_add_test(tc, splits_that_cannot_be_are_refused);
	tcase_add_test(tc, a_descriptor_takes_parts_of_splits);
	tcase_add_test(tc, kernels_run_on_the_context_s_multiprocessors);
	tcase_add_test(tc, eight_of_32_multiprocessors_are_one_thread_of_four);
	tcase_add_test(tc, disjoint_green_contexts_run_side_by_side);
	tcase_add_test(tc, a_cooperative_grid_fits_the_share);
	tcase_add_test(tc, a_green_context_is_current_in_one_thread);
	tcase_add_test(tc, relaxed_it_is_current_in_any_thread);
	tcase_add_test(tc, it_has_its_home_s_memory_and_an_id_of_its_own);
	tcase_add_test(tc, a_destroyed_one_leaves_dead_streams);
	tcase_add_test(tc, it_keeps_its_home_alive);
	tcase_add_test(tc, wrong_arguments_are_refused);
	tcase_add_test(tc, a_home_waits_for_its_green_contexts_not_they_for_it);
	tcase_add_test(tc, all_later_work_of_a_context_waits_for_the_event);
	tcase_add_test(tc, a_capture_forbids_context_events);
	tcase_add_test(tc, a_graph_s_kernel_keeps_the_context_it_was_captured_in);
}

int
main(void)
{
	return kit_main("soft_green", fill);
}
