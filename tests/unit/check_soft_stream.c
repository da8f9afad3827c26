/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: streams, events, queues, who waits for whom.
 */
#include "tests/unit/soft_kit.h"

#include "server/soft/softcuda.h"

START_TEST(operations_of_a_stream_keep_their_order)
{
	CUdeviceptr word;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	word = kit_word(0);
	for (uint32_t i = 1; i <= 200; i++)
		ok(kit_poke(&k, word, i, s));
	ok(cuMemsetD32Async(word, 1000, 1, s));
	ok(kit_bump(&k, word, 3, s));
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(kit_read(word), 1003);
}
END_TEST

START_TEST(two_streams_run_at_the_same_time)
{
	volatile uint32_t *host;
	CUdeviceptr flag;
	CUstream a, b;
	struct kit k;

	kit_open(&k);
	a = kit_stream();
	b = kit_stream();
	host = kit_shared(&flag);
	/* The first ends only if the second, launched later, runs too. */
	ok(kit_until(&k, flag, 1, a));
	ok(kit_poke(&k, flag, 1, b));
	ok(cuStreamSynchronize(a));
	ck_assert_uint_eq(*host, 1);
}
END_TEST

START_TEST(one_thread_still_serves_all_streams)
{
	volatile uint32_t *host;
	CUdeviceptr flag;
	CUstream a, b;
	struct kit k;

	setenv("SOFTCUDA_THREADS", "1", 1);
	kit_open(&k);
	a = kit_stream();
	b = kit_stream();
	host = kit_shared(&flag);
	ok(kit_until(&k, flag, 1, a));
	ok(kit_poke(&k, flag, 1, b));
	ok(cuStreamSynchronize(a));
	ck_assert_uint_eq(*host, 1);
}
END_TEST

START_TEST(query_says_whether_work_is_left)
{
	struct kit_hold h;
	struct kit k;

	kit_open(&k);
	ok(cuStreamQuery(kit_stream()));
	kit_hold_start(&k, &h);
	expect(cuStreamQuery(h.stream), CUDA_ERROR_NOT_READY);
	kit_hold_end(&h);
	ok(cuStreamSynchronize(h.stream));
	ok(cuStreamQuery(h.stream));
}
END_TEST

START_TEST(null_stream_waits_for_blocking_streams)
{
	CUdeviceptr word;
	CUstream s;
	struct kit k;

	kit_open(&k);
	ok(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	word = kit_word(0);
	ok(kit_spin(&k, 50, word, s));
	ok(kit_bump(&k, word, 1, NULL));
	ok(kit_spin(&k, 1, word, s));
	ok(cuStreamSynchronize(NULL));
	ck_assert_uint_eq(kit_read(word), 3);
}
END_TEST

START_TEST(blocking_streams_wait_for_the_null_stream)
{
	CUdeviceptr word;
	CUstream s;
	struct kit k;

	kit_open(&k);
	ok(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	word = kit_word(0);
	ok(kit_spin(&k, 60, word, NULL));
	ok(kit_poke(&k, word, 10, s));
	ok(cuStreamSynchronize(s));
	/* Had the store not waited, the atomic would have made it 11. */
	ck_assert_uint_eq(kit_read(word), 10);
}
END_TEST

START_TEST(non_blocking_streams_ignore_the_null_stream)
{
	volatile uint32_t *flag;
	CUdeviceptr word, device;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	word = kit_word(0);
	flag = kit_shared(&device);
	ok(kit_until(&k, device, 1, NULL));
	ok(kit_poke(&k, word, 1, s));
	ok(cuStreamSynchronize(s));
	expect(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	ok(cuStreamSynchronize(NULL));
}
END_TEST

START_TEST(destroyed_stream_still_orders_the_null_stream)
{
	CUdeviceptr word;
	CUstream s;
	struct kit k;

	kit_open(&k);
	ok(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	word = kit_word(0);
	ok(kit_spin(&k, 60, word, s));
	ok(cuStreamDestroy(s));
	expect(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
	ok(kit_poke(&k, word, 20, NULL));
	ck_assert_uint_eq(kit_read(word), 20);
}
END_TEST

static void *
thread_stream_id(void *arg)
{
	static unsigned long long id;

	ok(cuCtxSetCurrent(arg));
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
	return &id;
}

START_TEST(per_thread_stream_is_one_for_each_thread)
{
	unsigned long long mine, again, legacy;
	pthread_t thread;
	void *other;
	struct kit k;

	kit_context(&k);
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, &again));
	ok(cuStreamGetId(NULL, &legacy));
	ck_assert_uint_eq(mine, again);
	ck_assert_uint_ne(mine, legacy);
	ck_assert(!pthread_create(&thread, NULL, thread_stream_id, k.ctx));
	pthread_join(thread, &other);
	ck_assert_uint_ne(mine, *(unsigned long long *)other);
}
END_TEST

START_TEST(priorities_are_clamped_into_the_range)
{
	int least, greatest, priority;
	CUstream s;
	struct kit k;

	kit_context(&k);
	ok(cuCtxGetStreamPriorityRange(&least, &greatest));
	ck_assert_int_eq(least, 0);
	ck_assert_int_eq(greatest, -5);
	ok(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -100));
	ok(cuStreamGetPriority(s, &priority));
	ck_assert_int_eq(priority, -5);
	expect(cuStreamCreate(&s, 8), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(streams_know_their_context_and_device)
{
	CUcontext ctx;
	CUdevice dev;
	unsigned flags;
	CUstream s;
	struct kit k;

	kit_context(&k);
	s = kit_stream();
	ok(cuStreamGetCtx(s, &ctx));
	ck_assert_ptr_eq(ctx, k.ctx);
	ok(cuStreamGetDevice(s, &dev));
	ck_assert_int_eq(dev, 0);
	ok(cuStreamGetFlags(s, &flags));
	ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
}
END_TEST

START_TEST(event_marks_a_place_in_its_stream)
{
	CUevent first, second;
	CUdeviceptr word, device;
	volatile uint32_t *flag;
	float ms;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	word = kit_word(0);
	flag = kit_shared(&device);
	ok(cuEventCreate(&first, 0));
	ok(cuEventCreate(&second, CU_EVENT_BLOCKING_SYNC));
	ok(cuEventQuery(first));
	expect(cuEventElapsedTime(&ms, first, second),
	       CUDA_ERROR_INVALID_HANDLE);
	ok(cuEventRecord(first, s));
	ok(kit_spin(&k, 60, word, s));
	ok(kit_until(&k, device, 1, s));
	ok(cuEventRecord(second, s));
	expect(cuEventQuery(second), CUDA_ERROR_NOT_READY);
	expect(cuEventElapsedTime(&ms, first, second), CUDA_ERROR_NOT_READY);
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	ok(cuEventSynchronize(second));
	ck_assert_uint_eq(kit_read(word), 1);
	ok(cuEventElapsedTime(&ms, first, second));
	ck_assert(ms >= 59.0f && ms < 20000.0f);
}
END_TEST

START_TEST(event_without_timing_has_no_time)
{
	CUevent e;
	float ms;
	struct kit k;

	kit_context(&k);
	ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	ok(cuEventRecord(e, NULL));
	ok(cuEventSynchronize(e));
	expect(cuEventElapsedTime(&ms, e, e), CUDA_ERROR_INVALID_HANDLE);
	expect(cuEventCreate(&e, 64), CUDA_ERROR_INVALID_VALUE);
	expect(cuEventCreate(&e, CU_EVENT_INTERPROCESS),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(wait_event_orders_across_streams)
{
	CUdeviceptr word;
	CUstream a, b;
	CUevent e;
	struct kit k;

	kit_open(&k);
	a = kit_stream();
	b = kit_stream();
	word = kit_word(0);
	ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	ok(kit_spin(&k, 60, word, a));
	ok(cuEventRecord(e, a));
	ok(cuStreamWaitEvent(b, e, 0));
	ok(kit_poke(&k, word, 30, b));
	/* The wait is on what was recorded when it was asked for. */
	ok(cuEventRecord(e, a));
	ok(cuEventDestroy(e));
	ok(cuStreamSynchronize(b));
	ck_assert_uint_eq(kit_read(word), 30);
}
END_TEST

struct callback_seen {
	CUresult inside, status;
	uint32_t value;
	const uint32_t *word;
};

static void CUDA_CB
host_function(void *arg)
{
	struct callback_seen *seen = arg;
	CUdeviceptr p;

	seen->value = *(volatile const uint32_t *)seen->word;
	seen->inside = cuMemAlloc(&p, 4);
}

static void CUDA_CB
stream_callback(CUstream s, CUresult status, void *arg)
{
	(void)s;
	host_function(arg);
	((struct callback_seen *)arg)->status = status;
}

START_TEST(host_functions_run_in_order_and_make_no_calls)
{
	struct callback_seen one = { 0 }, two = { .status = 99 };
	volatile uint32_t *host;
	CUdeviceptr device;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	host = kit_shared(&device);
	one.word = two.word = (const uint32_t *)(uintptr_t)host;
	ok(kit_spin(&k, 30, device, s));
	ok(cuLaunchHostFunc(s, host_function, &one));
	ok(kit_poke(&k, device, 50, s));
	ok(cuStreamAddCallback(s, stream_callback, &two, 0));
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(one.value, 1);
	ck_assert_uint_eq(two.value, 50);
	ck_assert_int_eq(one.inside, CUDA_ERROR_NOT_PERMITTED);
	ck_assert_int_eq(two.status, CUDA_SUCCESS);
}
END_TEST

START_TEST(value_waits_hold_the_stream_until_met)
{
	volatile uint32_t *host;
	CUdeviceptr device;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	host = kit_shared(&device);
	ok(cuStreamWaitValue32(s, device, 5, CU_STREAM_WAIT_VALUE_GEQ));
	ok(cuStreamWriteValue32(s, device + 4, 8, 0));
	ok(cuStreamWriteValue64(s, device + 8, 1ull << 40, 0));
	kit_sleep_ms(30);
	expect(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	__atomic_store_n(host, 6, __ATOMIC_RELEASE);
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(host[1], 8);
	ck_assert_uint_eq(*(volatile uint64_t *)(host + 2), 1ull << 40);
	expect(cuStreamWaitValue32(s, device + 1, 5, 0),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuStreamWriteValue32(s, 64, 5, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static _Atomic int launches_done;

struct flood {
	struct kit *kit;
	CUstream stream;
	CUdeviceptr word;
};

static void *
flood_thread(void *arg)
{
	struct flood *f = arg;

	ok(cuCtxSetCurrent(f->kit->ctx));
	for (int i = 0; i < 1100; i++) {
		ok(kit_poke(f->kit, f->word, 1, f->stream));
		launches_done = i + 1;
	}
	return NULL;
}

START_TEST(full_stream_blocks_its_launcher_alone)
{
	pthread_t thread;
	struct kit_hold h;
	struct flood f;
	CUstream s;
	struct kit k;

	kit_open(&k);
	s = kit_stream();
	kit_hold_start(&k, &h);
	f = (struct flood){ &k, h.stream, kit_word(0) };
	ck_assert(!pthread_create(&thread, NULL, flood_thread, &f));
	while (launches_done < 1022)
		kit_sleep_ms(1);
	kit_sleep_ms(100);
	ck_assert_int_eq(launches_done, 1022);
	ok(kit_poke(&k, f.word, 1, s));
	ok(cuStreamSynchronize(s));
	ck_assert_int_eq(launches_done, 1022);
	kit_hold_end(&h);
	pthread_join(thread, NULL);
	ck_assert_int_eq(launches_done, 1100);
	ok(cuStreamSynchronize(h.stream));
}
END_TEST

START_TEST(relaxed_queue_takes_any_number)
{
	struct kit_hold h;
	CUdeviceptr word;
	struct kit k;

	setenv("SOFTCUDA_RELAX", "queue", 1);
	kit_open(&k);
	word = kit_word(0);
	kit_hold_start(&k, &h);
	for (int i = 0; i < 1500; i++)
		ok(kit_bump(&k, word, 1, h.stream));
	expect(cuStreamQuery(h.stream), CUDA_ERROR_NOT_READY);
	kit_hold_end(&h);
	ok(cuStreamSynchronize(h.stream));
	ck_assert_uint_eq(kit_read(word), 1500);
}
END_TEST

enum behind { NOTHING, LAUNCH, RECORD };

/* K streams, each with a running kernel and perhaps something behind it;
 * does a neighbour's launch end meanwhile? */
static bool
neighbour_ends(unsigned streams, enum behind behind, unsigned limit_ms)
{
	unsigned launches = behind == LAUNCH ? streams : 0;
	struct kit_hold h[32];
	CUdeviceptr word;
	CUevent event;
	CUstream s;
	struct kit k;
	bool ends;

	kit_open(&k);
	word = kit_word(0);
	s = kit_stream();
	for (unsigned i = 0; i < streams; i++)
		kit_hold_start(&k, &h[i]);
	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; i < launches; i++)
		ok(kit_bump(&k, word, 1, h[i].stream));
	for (unsigned i = 0; i < streams && behind == RECORD; i++)
		ok(cuEventRecord(event, h[i].stream));
	ok(kit_bump(&k, word, 1, s));
	ends = kit_ends(s, limit_ms);
	for (unsigned i = 0; i < streams; i++)
		kit_hold_end(&h[i]);
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(kit_read(word), launches + 1);
	return ends;
}

START_TEST(queues_with_waiting_heads_block_the_stream_that_shares)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
	ck_assert(!neighbour_ends(8, LAUNCH, 300));
}
END_TEST

START_TEST(one_stream_fewer_leaves_a_queue_free)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
	ck_assert(neighbour_ends(7, LAUNCH, 20000));
}
END_TEST

START_TEST(running_operations_alone_block_nobody)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
	ck_assert(neighbour_ends(20, NOTHING, 20000));
}
END_TEST

START_TEST(event_records_block_nobody)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
	ck_assert(neighbour_ends(20, RECORD, 20000));
}
END_TEST

START_TEST(relaxed_head_of_line_blocks_nobody)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
	setenv("SOFTCUDA_RELAX", "hol", 1);
	ck_assert(neighbour_ends(8, LAUNCH, 20000));
}
END_TEST

START_TEST(idle_streams_take_no_queue)
{
	CUdeviceptr word;
	struct kit k;

	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1);
	kit_open(&k);
	word = kit_word(0);
	for (int i = 0; i < 7; i++) {
		CUstream s = kit_stream();

		ok(kit_bump(&k, word, 1, s));
		ok(cuStreamSynchronize(s));
	}
	ck_assert(neighbour_ends(1, LAUNCH, 20000));
}
END_TEST

/*
 * Wait matrix: a neighbour's kernel runs, a third thread launches on its own
 * stream, and a call is made. Does the call wait until the kernel is let go?
 * Do the launches stop meanwhile? What is to come to pass is waited for, and
 * that may take long on a busy machine; what is not to happen is given a
 * while.
 */
enum { WAITS = 1, STALLS = 2 };
enum { PATIENCE_MS = 20000, WHILE_MS = 300, FLOW = 20 };

struct matrix {
	struct kit *kit;
	struct kit_hold hold;
	unsigned expected;
	_Atomic int called, returned, stop, launches;
	bool waits, stalls;
};

static void *
matrix_launcher(void *arg)
{
	struct matrix *m = arg;
	CUdeviceptr word;
	CUstream s;

	ok(cuCtxSetCurrent(m->kit->ctx));
	ok(cuMemAlloc(&word, 4));
	s = kit_stream();
	while (!m->stop) {
		ok(kit_poke(m->kit, word, 1, s));
		m->launches++;
		kit_sleep_ms(1);
	}
	return NULL;
}

/* No launch for a while. */
static bool
comes_to_stall(struct matrix *m)
{
	double begin = kit_ms(), moved = begin;
	int seen = m->launches;

	while (kit_ms() - begin < PATIENCE_MS) {
		if (kit_ms() - moved > WHILE_MS)
			return true;
		kit_sleep_ms(5);
		if (m->launches == seen)
			continue;
		seen = m->launches;
		moved = kit_ms();
	}
	return false;
}

/* One launch may have been on its way in when the call began. */
static bool
goes_on(struct matrix *m)
{
	double begin = kit_ms();
	int seen = m->launches;

	while (m->launches < seen + FLOW && kit_ms() - begin < PATIENCE_MS)
		kit_sleep_ms(1);
	return m->launches >= seen + FLOW;
}

static bool
returns_within(struct matrix *m, unsigned ms)
{
	double begin = kit_ms();

	while (!m->returned && kit_ms() - begin < ms)
		kit_sleep_ms(1);
	return m->returned;
}

/* Looks on, then lets the kernel go. */
static void *
matrix_watcher(void *arg)
{
	struct matrix *m = arg;

	while (!m->called)
		kit_sleep_ms(1);
	m->waits = !returns_within(m, m->expected & WAITS ? WHILE_MS :
							    PATIENCE_MS);
	m->stalls = m->expected & STALLS ? comes_to_stall(m) : !goes_on(m);
	kit_hold_end(&m->hold);
	return NULL;
}

static void
measure(struct kit *k, void (*call)(struct kit *k, void *arg), void *arg,
	unsigned expected)
{
	struct matrix m = { .kit = k, .expected = expected };
	pthread_t launcher, watcher;

	ck_assert(!pthread_create(&launcher, NULL, matrix_launcher, &m));
	while (m.launches < 3)
		kit_sleep_ms(1);
	kit_hold_start(k, &m.hold);
	ck_assert(!pthread_create(&watcher, NULL, matrix_watcher, &m));
	m.called = 1;
	call(k, arg);
	m.returned = 1;
	pthread_join(watcher, NULL);
	m.stop = 1;
	pthread_join(launcher, NULL);
	ok(cuCtxSynchronize());
	ck_assert_msg(m.waits == !!(expected & WAITS), "the call %s",
		      m.waits ? "waited" : "returned at once");
	ck_assert_msg(m.stalls == !!(expected & STALLS), "launches %s",
		      m.stalls ? "stalled" : "went on");
}

static void
call_load(struct kit *k, void *arg)
{
	CUmodule m;

	(void)k;
	(void)arg;
	ok(cuModuleLoadData(&m, kit_ptx));
}

START_TEST(module_load_waits_and_stalls)
{
	struct kit k;

	kit_open(&k);
	measure(&k, call_load, NULL, WAITS | STALLS);
}
END_TEST

START_TEST(relaxed_module_load_does_neither)
{
	struct kit k;

	setenv("SOFTCUDA_RELAX", "load", 1);
	kit_open(&k);
	measure(&k, call_load, NULL, 0);
}
END_TEST

static void
call_library(struct kit *k, void *arg)
{
	(void)k;
	ok(cuLibraryLoadData(arg, kit_ptx, NULL, NULL, 0, NULL, NULL, 0));
}

static void
call_first_use(struct kit *k, void *arg)
{
	CUfunction f;
	CUkernel kernel;

	(void)k;
	ok(cuLibraryGetKernel(&kernel, *(CUlibrary *)arg, "vadd"));
	ok(cuKernelGetFunction(&f, kernel));
}

START_TEST(library_waits_at_first_use_only)
{
	CUlibrary lib;
	struct kit k;

	kit_open(&k);
	measure(&k, call_library, &lib, 0);
	measure(&k, call_first_use, &lib, WAITS | STALLS);
	measure(&k, call_first_use, &lib, 0);
}
END_TEST

static void
call_free(struct kit *k, void *arg)
{
	(void)k;
	ok(cuMemFree(*(CUdeviceptr *)arg));
}

START_TEST(memory_free_waits_and_stalls)
{
	CUdeviceptr p;
	struct kit k;

	kit_open(&k);
	ok(cuMemAlloc(&p, 1 << 20));
	measure(&k, call_free, &p, WAITS | STALLS);
}
END_TEST

START_TEST(relaxed_memory_free_does_neither)
{
	CUdeviceptr p;
	struct kit k;

	setenv("SOFTCUDA_RELAX", "free", 1);
	kit_open(&k);
	ok(cuMemAlloc(&p, 1 << 20));
	measure(&k, call_free, &p, 0);
}
END_TEST

static void
call_unload(struct kit *k, void *arg)
{
	(void)k;
	ok(cuModuleUnload(*(CUmodule *)arg));
}

START_TEST(module_unload_waits_without_stalling)
{
	CUmodule module;
	struct kit k;

	kit_open(&k);
	ok(cuModuleLoadData(&module, kit_ptx));
	measure(&k, call_unload, &module, WAITS);
}
END_TEST

static void
call_limit(struct kit *k, void *arg)
{
	(void)k;
	(void)arg;
	ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
}

START_TEST(stack_limit_waits_and_stalls)
{
	struct kit k;

	kit_open(&k);
	measure(&k, call_limit, NULL, WAITS | STALLS);
}
END_TEST

static void
call_local(struct kit *k, void *arg)
{
	void *p[] = { arg };

	ok(cuLaunchKernel(k->hold, 1, 1, 1, 1, 1, 1, 0, kit_stream(), p,
			  NULL));
}

START_TEST(first_launch_with_much_local_memory_waits)
{
	CUdeviceptr word;
	struct kit k;

	kit_open(&k);
	word = kit_word(0);
	measure(&k, call_local, &word, WAITS | STALLS);
	ck_assert_uint_eq(kit_read(word), 5);
	measure(&k, call_local, &word, 0);
}
END_TEST

static void
call_vmm(struct kit *k, void *arg)
{
	const size_t page = 2 << 20;
	CUmemAllocationProp prop;
	CUmemAccessDesc desc;
	CUmemGenericAllocationHandle h;
	CUdeviceptr p;

	(void)k;
	(void)arg;
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
	ok(cuMemUnmap(p, page));
	ok(cuMemRelease(h));
	ok(cuMemAddressFree(p, page));
}

START_TEST(virtual_memory_calls_wait_for_nobody)
{
	struct kit k;

	kit_open(&k);
	measure(&k, call_vmm, NULL, 0);
}
END_TEST

static void
call_ctx_sync(struct kit *k, void *arg)
{
	(void)k;
	(void)arg;
	ok(cuCtxSynchronize());
}

START_TEST(context_synchronize_waits_without_stalling)
{
	struct kit k;

	kit_open(&k);
	measure(&k, call_ctx_sync, NULL, WAITS);
}
END_TEST

static const struct softcuda_table *
private_table(void)
{
	const void *table;
	CUuuid id;

	memcpy(&id, SOFTCUDA_TABLE_ID, sizeof(id));
	ok(cuGetExportTable(&table, &id));
	return table;
}

struct seen {
	uint64_t overlap, busy[2];
};

static struct seen
look(uint64_t first, uint64_t second)
{
	const struct softcuda_table *table = private_table();
	struct seen seen;

	ok(table->overlap_ns(&seen.overlap));
	ok(table->kernel_ns(first, &seen.busy[0]));
	ok(table->kernel_ns(second, &seen.busy[1]));
	return seen;
}

/* Kernels of both tags run until both have been executing for `ns`, and have
 * overlapped for `overlap_ns` (waited for). */
static struct seen
run_two(uint64_t first, uint64_t second, uint64_t ns, uint64_t overlap_ns)
{
	double begin = kit_ms(), all;
	struct kit_hold h[2];
	struct seen seen;
	struct kit k;

	kit_open(&k);
	for (int i = 0; i < 2; i++) {
		h[i].stream = kit_stream();
		h[i].flag = kit_shared(&h[i].device);
		ok(private_table()->set_stream_tag(h[i].stream,
						   i ? second : first));
	}
	for (int i = 0; i < 2; i++)
		ok(kit_until(&k, h[i].device, 1, h[i].stream));
	do {
		kit_sleep_ms(1);
		seen = look(first, second);
	} while (seen.busy[0] < ns || seen.busy[1] < ns ||
		 seen.overlap < overlap_ns);
	for (int i = 0; i < 2; i++)
		kit_hold_end(&h[i]);
	ok(cuCtxSynchronize());
	seen = look(first, second);
	all = kit_ms() - begin;
	ck_assert_uint_le(seen.busy[0], (uint64_t)(all * 1e6));
	ck_assert_uint_le(seen.busy[1], (uint64_t)(all * 1e6));
	return seen;
}

START_TEST(overlap_is_seen_with_two_threads_and_two_tags)
{
	struct seen seen;

	setenv("SOFTCUDA_THREADS", "2", 1);
	seen = run_two(1, 2, 20000000, 10000000);
	ck_assert_uint_le(seen.overlap, seen.busy[0]);
	ck_assert_uint_le(seen.overlap, seen.busy[1]);
}
END_TEST

START_TEST(overlap_of_one_tag_with_itself_does_not_count)
{
	setenv("SOFTCUDA_THREADS", "2", 1);
	ck_assert_uint_eq(run_two(7, 7, 20000000, 0).overlap, 0);
}
END_TEST

START_TEST(overlap_with_one_thread_is_zero)
{
	setenv("SOFTCUDA_THREADS", "1", 1);
	ck_assert_uint_eq(run_two(1, 2, 20000000, 0).overlap, 0);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, blocking_streams_wait_for_the_null_stream);
	tcase_add_test(tc, context_synchronize_waits_without_stalling);
	tcase_add_test(tc, destroyed_stream_still_orders_the_null_stream);
	tcase_add_test(tc, event_marks_a_place_in_its_stream);
	tcase_add_test(tc, event_records_block_nobody);
	tcase_add_test(tc, event_without_timing_has_no_time);
	tcase_add_test(tc, first_launch_with_much_local_memory_waits);
	tcase_add_test(tc, full_stream_blocks_its_launcher_alone);
	tcase_add_test(tc, host_functions_run_in_order_and_make_no_calls);
	tcase_add_test(tc, idle_streams_take_no_queue);
	tcase_add_test(tc, library_waits_at_first_use_only);
	tcase_add_test(tc, memory_free_waits_and_stalls);
	tcase_add_test(tc, module_load_waits_and_stalls);
	tcase_add_test(tc, module_unload_waits_without_stalling);
	tcase_add_test(tc, non_blocking_streams_ignore_the_null_stream);
	tcase_add_test(tc, null_stream_waits_for_blocking_streams);
	tcase_add_test(tc, one_stream_fewer_leaves_a_queue_free);
	tcase_add_test(tc, one_thread_still_serves_all_streams);
	tcase_add_test(tc, operations_of_a_stream_keep_their_order);
	tcase_add_test(tc, overlap_is_seen_with_two_threads_and_two_tags);
	tcase_add_test(tc, overlap_of_one_tag_with_itself_does_not_count);
	tcase_add_test(tc, overlap_with_one_thread_is_zero);
	tcase_add_test(tc, per_thread_stream_is_one_for_each_thread);
	tcase_add_test(tc, priorities_are_clamped_into_the_range);
	tcase_add_test(tc, query_says_whether_work_is_left);
	tcase_add_test(tc,
		       queues_with_waiting_heads_block_the_stream_that_shares);
	tcase_add_test(tc, relaxed_head_of_line_blocks_nobody);
	tcase_add_test(tc, relaxed_memory_free_does_neither);
	tcase_add_test(tc, relaxed_module_load_does_neither);
	tcase_add_test(tc, relaxed_queue_takes_any_number);
	tcase_add_test(tc, running_operations_alone_block_nobody);
	tcase_add_test(tc, stack_limit_waits_and_stalls);
	tcase_add_test(tc, streams_know_their_context_and_device);
	tcase_add_test(tc, two_streams_run_at_the_same_time);
	tcase_add_test(tc, value_waits_hold_the_stream_until_met);
	tcase_add_test(tc, virtual_memory_calls_wait_for_nobody);
	tcase_add_test(tc, wait_event_orders_across_streams);
}

int
main(void)
{
	return kit_main("soft_stream", fill);
}
