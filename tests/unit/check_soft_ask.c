/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: what contexts, functions, pointers and pools say of
 * themselves, and which questions are refused.
 */
#include "tests/unit/soft_kit.h"

#define MIB ((size_t)1 << 20)
/* No handle and no address of anything. */
#define NOWHERE 0x1234560u

START_TEST(a_context_knows_device_flags_and_id)
{
	unsigned long long id, same;
	unsigned int flags, version;
	CUdevice dev = -1;
	struct kit k;

	kit_context(&k);
	ok(cuCtxGetDevice(&dev));
	ck_assert_int_eq(dev, 0);
	dev = -1;
	ok(cuCtxGetDevice_v2(&dev, k.ctx));
	ck_assert_int_eq(dev, 0);
	expect(cuCtxGetDevice(NULL), CUDA_ERROR_INVALID_VALUE);
	expect(cuCtxGetDevice_v2(NULL, k.ctx), CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxSetFlags(CU_CTX_SCHED_YIELD));
	ok(cuCtxGetFlags(&flags));
	ck_assert_uint_eq(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_YIELD);
	expect(cuCtxSetFlags(1u << 30), CUDA_ERROR_INVALID_VALUE);
	expect(cuCtxGetFlags(NULL), CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxGetId(NULL, &id));
	ok(cuCtxGetId(k.ctx, &same));
	ck_assert_uint_eq(id, same);
	expect(cuCtxGetId(k.ctx, NULL), CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxGetApiVersion(k.ctx, &version));
	ck_assert_uint_ge(version, 3010);
	expect(cuCtxGetApiVersion(k.ctx, NULL), CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxSynchronize_v2(k.ctx));
}
END_TEST

START_TEST(without_a_context_there_is_nothing_to_ask)
{
	CUcontext none = (CUcontext)(uintptr_t)NOWHERE;
	unsigned long long id;
	unsigned int value;
	CUdevice dev;

	ok(cuInit(0));
	expect(cuCtxGetDevice(&dev), CUDA_ERROR_INVALID_CONTEXT);
	expect(cuCtxGetFlags(&value), CUDA_ERROR_INVALID_CONTEXT);
	expect(cuCtxSetFlags(0), CUDA_ERROR_INVALID_CONTEXT);
	expect(cuCtxGetId(NULL, &id), CUDA_ERROR_INVALID_CONTEXT);
	expect(cuCtxGetApiVersion(none, &value), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

START_TEST(limits_are_kept_within_their_bounds)
{
	static const struct {
		CUlimit limit;
		size_t value;
		CUresult code;
	} rows[] = {
		{ CU_LIMIT_STACK_SIZE, 4096, CUDA_SUCCESS },
		{ CU_LIMIT_STACK_SIZE, MIB, CUDA_ERROR_INVALID_VALUE },
		{ CU_LIMIT_PRINTF_FIFO_SIZE, MIB, CUDA_SUCCESS },
		{ CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB, CUDA_SUCCESS },
		{ CU_LIMIT_MALLOC_HEAP_SIZE, SIZE_MAX, CUDA_SUCCESS },
		{ CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 100,
		  CUDA_SUCCESS },
		{ CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64, CUDA_SUCCESS },
		{ CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 129,
		  CUDA_ERROR_INVALID_VALUE },
		{ CU_LIMIT_PERSISTING_L2_CACHE_SIZE, MIB, CUDA_SUCCESS },
		{ CU_LIMIT_SHMEM_SIZE, 1, CUDA_ERROR_NOT_PERMITTED },
		{ CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 1,
		  CUDA_ERROR_UNSUPPORTED_LIMIT },
		{ CU_LIMIT_MAX, 1, CUDA_ERROR_INVALID_VALUE },
	};
	struct kit k;
	size_t value;

	kit_context(&k);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		expect(cuCtxSetLimit(rows[i].limit, rows[i].value),
		       rows[i].code);
		if (rows[i].code)
			continue;
		ok(cuCtxGetLimit(&value, rows[i].limit));
		ck_assert_uint_eq(value, rows[i].value);
	}
	expect(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuCtxGetLimit(&value, CU_LIMIT_MAX), CUDA_ERROR_INVALID_VALUE);
	expect(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH),
	       CUDA_ERROR_UNSUPPORTED_LIMIT);
}
END_TEST

START_TEST(cache_preferences_are_kept)
{
	CUfunc_cache config;
	int least, greatest;
	struct kit k;

	kit_open(&k);
	ok(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
	ok(cuCtxGetCacheConfig(&config));
	ck_assert_int_eq(config, CU_FUNC_CACHE_PREFER_L1);
	expect(cuCtxSetCacheConfig((CUfunc_cache)9), CUDA_ERROR_INVALID_VALUE);
	expect(cuCtxGetCacheConfig(NULL), CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncSetCacheConfig(k.vadd, CU_FUNC_CACHE_PREFER_EQUAL));
	expect(cuFuncSetCacheConfig(k.vadd, (CUfunc_cache)9),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxGetStreamPriorityRange(&least, &greatest));
	ck_assert_int_eq(least, 0);
	ck_assert_int_lt(greatest, least);
	ok(cuCtxGetStreamPriorityRange(NULL, NULL));
}
END_TEST

START_TEST(a_function_knows_name_module_and_parameters)
{
	CUfunctionLoadingState state;
	size_t offset, size;
	const char *name;
	CUmodule module;
	struct kit k;

	kit_open(&k);
	ok(cuFuncGetName(&name, k.vadd));
	ck_assert_str_eq(name, "vadd");
	expect(cuFuncGetName(NULL, k.vadd), CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncGetModule(&module, k.vadd));
	ck_assert_ptr_eq(module, k.module);
	expect(cuFuncGetModule(NULL, k.vadd), CUDA_ERROR_INVALID_VALUE);
	expect(cuFuncGetModule(&module, (CUfunction)k.module),
	       CUDA_ERROR_INVALID_HANDLE);
	ok(cuFuncGetParamInfo(k.vadd, 3, &offset, &size));
	ck_assert_uint_eq(offset, 24);
	ck_assert_uint_eq(size, 4);
	ok(cuFuncGetParamInfo(k.vadd, 1, &offset, NULL));
	ck_assert_uint_eq(offset, 8);
	expect(cuFuncGetParamInfo(k.vadd, 4, &offset, &size),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncIsLoaded(&state, k.vadd));
	ck_assert_int_eq(state, CU_FUNCTION_LOADING_STATE_LOADED);
	expect(cuFuncIsLoaded(NULL, k.vadd), CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncLoad(k.vadd));
}
END_TEST

START_TEST(function_attributes_are_set_within_their_bounds)
{
	static const struct {
		CUfunction_attribute attr;
		int value;
		CUresult code;
	} rows[] = {
		{ CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 * 1024,
		  CUDA_SUCCESS },
		{ CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 24,
		  CUDA_ERROR_INVALID_VALUE },
		{ CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1,
		  CUDA_ERROR_INVALID_VALUE },
		{ CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50,
		  CUDA_SUCCESS },
		{ CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101,
		  CUDA_ERROR_INVALID_VALUE },
		{ CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 2, CUDA_SUCCESS },
		{ CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, -1,
		  CUDA_ERROR_INVALID_VALUE },
		{ CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1,
		  CUDA_SUCCESS },
		{ CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 1,
		  CUDA_SUCCESS },
		{ CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 77,
		  CUDA_ERROR_INVALID_VALUE },
		{ CU_FUNC_ATTRIBUTE_NUM_REGS, 32, CUDA_ERROR_INVALID_VALUE },
	};
	struct kit k;
	int value;

	kit_open(&k);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		expect(cuFuncSetAttribute(k.vadd, rows[i].attr, rows[i].value),
		       rows[i].code);
		if (rows[i].code)
			continue;
		ok(cuFuncGetAttribute(&value, rows[i].attr, k.vadd));
		ck_assert_int_eq(value, rows[i].value);
	}
	/* One function's attributes are not another's. */
	ok(cuFuncGetAttribute(&value,
			      CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
			      k.bump));
	ck_assert_int_eq(value, 0);
}
END_TEST

START_TEST(function_attributes_follow_from_the_code)
{
	struct kit k;
	int value;

	kit_open(&k);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
			      k.hold));
	ck_assert_int_ge(value, 8192);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
			      k.vadd));
	ck_assert_int_eq(value, 0);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, k.vadd));
	ck_assert_int_gt(value, 0);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, k.vadd));
	ck_assert_int_eq(value, 75);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION,
			      k.vadd));
	ck_assert_int_eq(value, 90);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA,
			      k.vadd));
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
			      k.vadd));
	ok(cuFuncGetAttribute(&value,
			      CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET,
			      k.vadd));
	ck_assert_int_eq(value, 0);
	expect(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX, k.vadd),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, k.vadd),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static uint64_t
ask_pointer(CUpointer_attribute attr, CUdeviceptr p)
{
	uint64_t value = 0;

	ok(cuPointerGetAttribute(&value, attr, p));
	return value;
}

START_TEST(a_pointer_knows_its_allocation)
{
	unsigned int on = 1;
	uint64_t value;
	CUdeviceptr p, q;
	struct kit k;

	kit_context(&k);
	ok(cuMemAlloc(&p, 1000));
	ok(cuMemAllocManaged(&q, 1000, CU_MEM_ATTACH_GLOBAL));
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p),
			  CU_MEMORYTYPE_DEVICE);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				      p + 5), p + 5);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
				      p + 5), p);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 5),
			  1000);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p),
			  0);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_IS_MANAGED, p), 0);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_IS_MANAGED, q), 1);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_HOST_POINTER, q),
			  q);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_MAPPED, p), 1);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p),
			  CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
	ck_assert_uint_ne(ask_pointer(CU_POINTER_ATTRIBUTE_BUFFER_ID, p),
			  ask_pointer(CU_POINTER_ATTRIBUTE_BUFFER_ID, q));
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 0);
	ok(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 1);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, q), 0);
	expect(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MAPPED, p),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				     NOWHERE), CUDA_ERROR_INVALID_VALUE);
	expect(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MAPPED,
				     NOWHERE), CUDA_ERROR_INVALID_VALUE);
	expect(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_P2P_TOKENS,
				     p), CUDA_ERROR_NOT_SUPPORTED);
	expect(cuPointerGetAttribute(&value, (CUpointer_attribute)999, p),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(many_pointer_attributes_at_once_need_no_allocation)
{
	CUpointer_attribute attrs[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_HOST_POINTER,
	};
	unsigned int type;
	int ordinal;
	size_t size;
	void *host, *data[] = { &type, &ordinal, &size, &host };
	CUdeviceptr p;
	struct kit k;

	kit_context(&k);
	ok(cuMemAlloc(&p, 300));
	ok(cuPointerGetAttributes(4, attrs, data, p));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
	ck_assert_int_eq(ordinal, 0);
	ck_assert_uint_eq(size, 300);
	ck_assert_ptr_null(host);
	ok(cuPointerGetAttributes(4, attrs, data, NOWHERE));
	ck_assert_uint_eq(type, 0);
	ck_assert_int_eq(ordinal, -2);
	ck_assert_uint_eq(size, 0);
	expect(cuPointerGetAttributes(0, attrs, data, p),
	       CUDA_ERROR_INVALID_VALUE);
	data[1] = NULL;
	expect(cuPointerGetAttributes(4, attrs, data, p),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_pool_of_its_own_serves_the_device)
{
	CUmemPoolProps props;
	CUmemoryPool pool, now, usual;
	CUdeviceptr p, q;
	uint64_t used;
	struct kit k;

	kit_context(&k);
	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	ok(cuDeviceGetDefaultMemPool(&usual, 0));
	ok(cuMemPoolCreate(&pool, &props));
	ok(cuDeviceSetMemPool(0, pool));
	ok(cuDeviceGetMemPool(&now, 0));
	ck_assert_ptr_eq(now, pool);
	ok(cuMemAllocAsync(&p, 5000, NULL));
	ok(cuMemAllocFromPoolAsync(&q, 5000, usual, NULL));
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p),
			  (uintptr_t)pool);
	ck_assert_uint_eq(ask_pointer(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q),
			  (uintptr_t)usual);
	ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
				 &used));
	ck_assert_uint_ge(used, 5000);
	ok(cuMemFreeAsync(p, NULL));
	ok(cuMemFreeAsync(q, NULL));
	ok(cuStreamSynchronize(NULL));
	expect(cuMemFreeAsync(p, NULL), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
				 &used));
	ck_assert_uint_eq(used, 0);
	ok(cuMemPoolTrimTo(pool, 0));
	ok(cuMemPoolDestroy(pool));
	/* The device falls back to its own, which stays. */
	ok(cuDeviceGetMemPool(&now, 0));
	ck_assert_ptr_eq(now, usual);
	expect(cuMemPoolDestroy(usual), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	expect(cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
	props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
	expect(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(pool_attributes_are_kept)
{
	CUmemLocation where = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	uint64_t threshold = 12345, got, zero = 0;
	CUmemAccess_flags flags;
	int off = 0, value = 1;
	CUmemoryPool pool;
	struct kit k;

	kit_context(&k);
	ok(cuDeviceGetDefaultMemPool(&pool, 0));
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				 &threshold));
	ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				 &got));
	ck_assert_uint_eq(got, threshold);
	for (int i = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
	     i <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; i++) {
		ok(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)i, &off));
		ok(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)i,
					 &value));
		ck_assert_int_eq(value, 0);
	}
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
	/* A mark can only be taken back. */
	expect(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
				     &threshold), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
				     NULL), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &got),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuMemPoolGetAccess(&flags, pool, &where));
	ck_assert_int_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	expect(cuMemPoolGetAccess(NULL, pool, &where),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuDeviceGetMemPool(&pool, 99), CUDA_ERROR_INVALID_DEVICE);
	expect(cuDeviceGetDefaultMemPool(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(hints_are_for_managed_memory)
{
	CUdeviceptr managed, plain;
	struct kit k;

	kit_context(&k);
	ok(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	ok(cuMemAlloc(&plain, 4096));
	ok(cuMemPrefetchAsync_v2(managed, 4096,
		(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE }, 0,
		NULL));
	ok(cuMemPrefetchAsync_v2(managed, 4096,
		(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST }, 0,
		NULL));
	expect(cuMemPrefetchAsync_v2(managed, 4097,
		(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST }, 0,
		NULL), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemPrefetchAsync_v2(managed, 4096,
		(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE,
				 .id = 99 }, 0, NULL),
		CUDA_ERROR_INVALID_DEVICE);
	ok(cuMemAdvise_v2(managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY,
		(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE }));
	expect(cuMemAdvise_v2(managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY,
		(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_INVALID }),
		CUDA_ERROR_INVALID_VALUE);
	expect(cuMemAdvise_v2(managed, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY,
		(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_INVALID }),
		CUDA_ERROR_INVALID_VALUE);
	expect(cuMemAdvise_v2(plain, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY,
		(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE }),
		CUDA_ERROR_INVALID_VALUE);
	ok(cuStreamAttachMemAsync(NULL, managed, 0, CU_MEM_ATTACH_SINGLE));
	expect(cuStreamAttachMemAsync(NULL, plain, 0, CU_MEM_ATTACH_SINGLE),
	       CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxSynchronize());
}
END_TEST

START_TEST(two_devices_are_peers_once)
{
	CUcontext other;
	struct kit k;
	int value;

	setenv("SOFTCUDA_DEVICES", "2", 1);
	kit_context(&k);
	ok(cuDevicePrimaryCtxRetain(&other, 1));
	ok(cuDeviceGetP2PAttribute(&value,
		CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	ck_assert_int_eq(value, 1);
	ok(cuDeviceGetP2PAttribute(&value,
		CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1));
	expect(cuDeviceGetP2PAttribute(&value,
		CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
		CUDA_ERROR_INVALID_VALUE);
	expect(cuDeviceGetP2PAttribute(&value,
		CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 2),
		CUDA_ERROR_INVALID_DEVICE);
	ok(cuCtxEnablePeerAccess(other, 0));
	expect(cuCtxEnablePeerAccess(other, 0),
	       CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	ok(cuCtxDisablePeerAccess(other));
	expect(cuCtxDisablePeerAccess(other),
	       CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	expect(cuCtxEnablePeerAccess(other, 1), CUDA_ERROR_INVALID_VALUE);
	expect(cuCtxEnablePeerAccess(k.ctx, 0),
	       CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	expect(cuCtxEnablePeerAccess(NULL, 0), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, a_context_knows_device_flags_and_id);
	tcase_add_test(tc, without_a_context_there_is_nothing_to_ask);
	tcase_add_test(tc, limits_are_kept_within_their_bounds);
	tcase_add_test(tc, cache_preferences_are_kept);
	tcase_add_test(tc, a_function_knows_name_module_and_parameters);
	tcase_add_test(tc, function_attributes_are_set_within_their_bounds);
	tcase_add_test(tc, function_attributes_follow_from_the_code);
	tcase_add_test(tc, a_pointer_knows_its_allocation);
	tcase_add_test(tc, many_pointer_attributes_at_once_need_no_allocation);
	tcase_add_test(tc, a_pool_of_its_own_serves_the_device);
	tcase_add_test(tc, pool_attributes_are_kept);
	tcase_add_test(tc, hints_are_for_managed_memory);
	tcase_add_test(tc, two_devices_are_peers_once);
}

int
main(void)
{
	return kit_main("soft_ask", fill);
}
