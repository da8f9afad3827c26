/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: initialisation, devices, contexts, errors, names.
 */
#include "tests/unit/soft_kit.h"

#include <sys/wait.h>

#include "server/soft/softcuda.h"

START_TEST(calls_before_init_are_refused)
{
	CUdevice dev;
	int count;

	expect(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	expect(cuDeviceGet(&dev, 0), CUDA_ERROR_NOT_INITIALIZED);
	ok(cuDriverGetVersion(&count));
	ck_assert_int_eq(count, 13000);
}
END_TEST

START_TEST(init_takes_no_flags_and_may_be_repeated)
{
	expect(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	ok(cuInit(0));
	ok(cuInit(0));
}
END_TEST

START_TEST(device_count_comes_from_environment)
{
	CUdevice dev;
	int count;

	setenv("SOFTCUDA_DEVICES", "3", 1);
	ok(cuInit(0));
	ok(cuDeviceGetCount(&count));
	ck_assert_int_eq(count, 3);
	ok(cuDeviceGet(&dev, 2));
	expect(cuDeviceGet(&dev, 3), CUDA_ERROR_INVALID_DEVICE);
	expect(cuDeviceGet(&dev, -1), CUDA_ERROR_INVALID_DEVICE);
}
END_TEST

START_TEST(no_device_is_said_at_init)
{
	setenv("SOFTCUDA_DEVICES", "0", 1);
	expect(cuInit(0), CUDA_ERROR_NO_DEVICE);
}
END_TEST

START_TEST(device_describes_itself_as_asked)
{
	char name[64], bus[32];
	CUdevice dev, found;
	size_t bytes;
	int value;

	setenv("SOFTCUDA_NAME", "toy", 1);
	setenv("SOFTCUDA_SMS", "5", 1);
	setenv("SOFTCUDA_MEMORY", "256M", 1);
	ok(cuInit(0));
	ok(cuDeviceGet(&dev, 0));
	ok(cuDeviceGetName(name, sizeof(name), dev));
	ck_assert_str_eq(name, "toy");
	ok(cuDeviceTotalMem(&bytes, dev));
	ck_assert_uint_eq(bytes, 256u << 20);
	ok(cuDeviceGetAttribute(&value,
		CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev));
	ck_assert_int_eq(value, 5);
	ok(cuDeviceGetAttribute(&value,
		CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev));
	ck_assert_int_eq(value, 9);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, dev));
	ck_assert_int_eq(value, 32);
	ok(cuDeviceGetPCIBusId(bus, sizeof(bus), dev));
	ck_assert_str_eq(bus, "0000:01:00.0");
	ok(cuDeviceGetByPCIBusId(&found, bus));
	ck_assert_int_eq(found, dev);
}
END_TEST

START_TEST(every_attribute_has_a_value)
{
	int value;

	ok(cuInit(0));
	for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++)
		ok(cuDeviceGetAttribute(&value, (CUdevice_attribute)a, 0));
	expect(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(uuids_differ_by_ordinal_only)
{
	CUuuid a, b, again;

	setenv("SOFTCUDA_DEVICES", "2", 1);
	ok(cuInit(0));
	ok(cuDeviceGetUuid(&a, 0));
	ok(cuDeviceGetUuid(&b, 1));
	ok(cuDeviceGetUuid(&again, 0));
	ck_assert_int_eq(memcmp(&a, &again, sizeof(a)), 0);
	ck_assert_int_ne(memcmp(&a, &b, sizeof(a)), 0);
	ck_assert_int_eq(memcmp(&a, &b, 15), 0);
}
END_TEST

START_TEST(primary_context_is_counted)
{
	CUcontext a, b;
	unsigned flags;
	int active;

	ok(cuInit(0));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ck_assert_int_eq(active, 0);
	expect(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuDevicePrimaryCtxRetain(&a, 0));
	ok(cuDevicePrimaryCtxRetain(&b, 0));
	ck_assert_ptr_eq(a, b);
	ok(cuDevicePrimaryCtxRelease(0));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ck_assert_int_eq(active, 1);
	ok(cuDevicePrimaryCtxRelease(0));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ck_assert_int_eq(active, 0);
}
END_TEST

START_TEST(released_primary_context_is_destroyed_for_its_users)
{
	struct kit k;
	CUdeviceptr p;
	size_t avail, total;

	kit_context(&k);
	ok(cuMemAlloc(&p, 1 << 20));
	ok(cuDevicePrimaryCtxRelease(0));
	expect(cuMemAlloc(&p, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ok(cuDevicePrimaryCtxRetain(&k.ctx, 0));
	ok(cuMemGetInfo(&avail, &total));
	ck_assert_uint_eq(avail, total);
}
END_TEST

START_TEST(context_stack_pushes_and_pops)
{
	CUcontext a, b, c;
	CUdeviceptr p;

	ok(cuInit(0));
	expect(cuMemAlloc(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxCreate(&a, NULL, 0, 0));
	ok(cuCtxCreate(&b, NULL, 0, 0));
	ok(cuCtxGetCurrent(&c));
	ck_assert_ptr_eq(c, b);
	ok(cuCtxPopCurrent(&c));
	ck_assert_ptr_eq(c, b);
	ok(cuCtxGetCurrent(&c));
	ck_assert_ptr_eq(c, a);
	ok(cuCtxPushCurrent(b));
	ok(cuCtxDestroy(b));
	ok(cuCtxGetCurrent(&c));
	ck_assert_ptr_eq(c, a);
	expect(cuCtxPushCurrent(b), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxPopCurrent(NULL));
	expect(cuCtxPopCurrent(NULL), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

START_TEST(context_ids_are_unique_and_new_after_reset)
{
	unsigned long long first, second;
	struct kit k;

	kit_context(&k);
	ok(cuCtxGetId(k.ctx, &first));
	ok(cuDevicePrimaryCtxReset(0));
	ok(cuCtxGetId(k.ctx, &second));
	ck_assert_uint_ne(first, second);
}
END_TEST

START_TEST(limits_are_kept_and_checked)
{
	struct kit k;
	size_t value;

	kit_context(&k);
	ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	ck_assert_uint_eq(value, 1024);
	ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	ck_assert_uint_eq(value, 4096);
	expect(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH),
	       CUDA_ERROR_UNSUPPORTED_LIMIT);
	expect(cuCtxGetLimit(&value, CU_LIMIT_MAX), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(error_names_and_texts_are_the_drivers)
{
	const char *text;

	ok(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
	ck_assert_str_eq(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
	ok(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
	ck_assert_str_eq(text, "an illegal memory access was encountered");
	ok(cuGetErrorString(CUDA_SUCCESS, &text));
	ck_assert_str_eq(text, "no error");
	expect(cuGetErrorName((CUresult)12345, &text),
	       CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_null(text);
}
END_TEST

START_TEST(proc_address_follows_version_and_flag)
{
	CUdriverProcAddressQueryResult status;
	void *a, *b;

	ok(cuGetProcAddress_v2("cuMemAlloc", &a, 2000, 0, &status));
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	ck_assert_ptr_null(a);
	ok(cuGetProcAddress_v2("cuMemAlloc", &a, 3020, 0, &status));
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SUCCESS);
	ck_assert_ptr_eq(a, (void *)cuMemAlloc);
	ok(cuGetProcAddress_v2("cuStreamQuery", &a, 13000, 1, &status));
	ok(cuGetProcAddress_v2("cuStreamQuery", &b, 13000, 2, &status));
	ck_assert_ptr_ne(a, b);
	ok(cuGetProcAddress_v2("cuNothing", &a, 13000, 0, &status));
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect(cuGetProcAddress_v2("cuInit", &a, 15000, 0, &status),
	       CUDA_ERROR_INVALID_VALUE);
	expect(cuGetProcAddress_v2("cuInit", &a, 13000, 4, &status),
	       CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(null_out_pointers_are_invalid_values)
{
	struct kit k;

	kit_context(&k);
	expect(cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
	expect(cuMemAlloc(NULL, 4), CUDA_ERROR_INVALID_VALUE);
	expect(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	expect(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	expect(cuCtxGetCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
	expect(cuModuleLoadData(NULL, kit_ptx), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(foreign_handles_are_invalid)
{
	struct kit k;
	int value;

	kit_context(&k);
	expect(cuStreamSynchronize((CUstream)&value),
	       CUDA_ERROR_INVALID_HANDLE);
	expect(cuEventQuery((CUevent)&value), CUDA_ERROR_INVALID_HANDLE);
	expect(cuModuleUnload((CUmodule)&value), CUDA_ERROR_INVALID_HANDLE);
	expect(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS,
				  (CUfunction)&value),
	       CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(child_of_a_fork_is_not_initialised)
{
	struct kit k;
	int status;
	pid_t pid;

	kit_context(&k);
	pid = fork();
	if (!pid) {
		CUdeviceptr p;

		_exit(cuMemAlloc(&p, 4) != CUDA_ERROR_NOT_INITIALIZED);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

START_TEST(private_table_has_its_id_only)
{
	const struct softcuda_table *table;
	CUuuid id;
	const void *p;

	memcpy(&id, SOFTCUDA_TABLE_ID, sizeof(id));
	ok(cuGetExportTable(&p, &id));
	table = p;
	ck_assert_uint_eq(table->size, sizeof(*table));
	id.bytes[0] ^= 1;
	expect(cuGetExportTable(&p, &id), CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_null(p);
}
END_TEST

START_TEST(injected_init_fault_is_answered)
{
	setenv("SOFTCUDA_FAULT", "init=802", 1);
	expect(cuInit(0), CUDA_ERROR_SYSTEM_NOT_READY);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, calls_before_init_are_refused);
	tcase_add_test(tc, child_of_a_fork_is_not_initialised);
	tcase_add_test(tc, context_ids_are_unique_and_new_after_reset);
	tcase_add_test(tc, context_stack_pushes_and_pops);
	tcase_add_test(tc, device_count_comes_from_environment);
	tcase_add_test(tc, device_describes_itself_as_asked);
	tcase_add_test(tc, error_names_and_texts_are_the_drivers);
	tcase_add_test(tc, every_attribute_has_a_value);
	tcase_add_test(tc, foreign_handles_are_invalid);
	tcase_add_test(tc, init_takes_no_flags_and_may_be_repeated);
	tcase_add_test(tc, injected_init_fault_is_answered);
	tcase_add_test(tc, limits_are_kept_and_checked);
	tcase_add_test(tc, no_device_is_said_at_init);
	tcase_add_test(tc, null_out_pointers_are_invalid_values);
	tcase_add_test(tc, primary_context_is_counted);
	tcase_add_test(tc, private_table_has_its_id_only);
	tcase_add_test(tc, proc_address_follows_version_and_flag);
	tcase_add_test(tc,
		       released_primary_context_is_destroyed_for_its_users);
	tcase_add_test(tc, uuids_differ_by_ordinal_only);
}

int
main(void)
{
	return kit_main("soft", fill);
}
