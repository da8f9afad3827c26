/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress behaves as the real driver was measured to behave.
 * Links shim/procaddr.o, the generated table and the entry points.
 */
#include "tests/unit/suite.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api_exports.h"
#include "shim/procaddr.h"
#include "shim/process.h"

#define DECLARE(name) \
	__attribute__((visibility("hidden"))) void entry_##name(void);
API_EXPORTS(DECLARE)

struct export {
	const char *name;
	void (*function)(void);
};

static const struct export exports[] = {
#define ROW(name) { #name, entry_##name },
	API_EXPORTS(ROW)
};
#define EXPORTS (sizeof(exports) / sizeof(exports[0]))

#define UNTOUCHED ((void *)0x5a5a)
#define PER_THREAD CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

static CUdriverProcAddressQueryResult status;
static void *pfn;

static CUresult
ask(const char *symbol, int version, cuuint64_t flags, bool v2)
{
	pfn = UNTOUCHED;
	status = 0x5a;
	return shim_procaddr(symbol, &pfn, version, flags, v2 ? &status : NULL,
			     v2);
}

/* The exported name behind an answer, "" for none. */
static const char *
exported(const void *address)
{
	for (size_t i = 0; i < EXPORTS; i++)
		if (!memcmp(&exports[i].function, &address, sizeof(address)))
			return exports[i].name;
	return "";
}

static void
expect_symbol(const char *symbol, int version, cuuint64_t flags,
	      const char *expected)
{
	ck_assert_int_eq(ask(symbol, version, flags, true), CUDA_SUCCESS);
	ck_assert_str_eq(exported(pfn), expected);
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SUCCESS);
	ck_assert_int_eq(ask(symbol, version, flags, false), CUDA_SUCCESS);
	ck_assert_str_eq(exported(pfn), expected);
}

START_TEST(version_picks_the_abi_of_its_time)
{
	expect_symbol("cuCtxCreate", 2000, 0, "cuCtxCreate");
	expect_symbol("cuCtxCreate", 3019, 0, "cuCtxCreate");
	expect_symbol("cuCtxCreate", 3020, 0, "cuCtxCreate_v2");
	expect_symbol("cuCtxCreate", 11040, 0, "cuCtxCreate_v3");
	expect_symbol("cuCtxCreate", 13000, 0, "cuCtxCreate_v4");
	expect_symbol("cuCtxGetDevice", 12090, 0, "cuCtxGetDevice");
	expect_symbol("cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2");
}
END_TEST

START_TEST(per_thread_flag_picks_the_twin)
{
	expect_symbol("cuLaunchKernel", 7000, PER_THREAD,
		      "cuLaunchKernel_ptsz");
	expect_symbol("cuLaunchKernel", 7000, 1, "cuLaunchKernel");
	expect_symbol("cuLaunchKernel", 7000, 1 | PER_THREAD,
		      "cuLaunchKernel_ptsz");
	expect_symbol("cuMemcpy", 13000, PER_THREAD, "cuMemcpy_ptds");
	expect_symbol("cuMemAlloc", 13000, PER_THREAD, "cuMemAlloc_v2");
}
END_TEST

START_TEST(unknown_names_are_no_error_in_v2)
{
	static const char *const names[] = { "", "cuNothing", "cuMemAlloc_v2" };

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(ask(names[i], 13000, 0, true), CUDA_SUCCESS);
		ck_assert_ptr_null(pfn);
		ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
		ck_assert_int_eq(ask(names[i], 13000, 0, false),
				 CUDA_ERROR_NOT_FOUND);
		ck_assert_ptr_eq(pfn, UNTOUCHED);
	}
}
END_TEST

START_TEST(a_negative_version_finds_the_newest)
{
	expect_symbol("cuCtxCreate", -1, 0, "cuCtxCreate_v4");
}
END_TEST

START_TEST(versions_before_the_first_find_nothing)
{
	static const int versions[] = { 0, 1999 };

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ask("cuInit", versions[i], 0, true),
				 CUDA_SUCCESS);
		ck_assert_ptr_null(pfn);
		ck_assert_int_eq(status,
				 CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	}
	ck_assert_int_eq(ask("cuLaunchKernel", 6050, PER_THREAD, true),
			 CUDA_SUCCESS);
	ck_assert_ptr_null(pfn);
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}
END_TEST

START_TEST(versions_beyond_the_driver_touch_nothing)
{
	ck_assert_int_eq(ask("cuInit", 13010, 0, true),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_eq(pfn, UNTOUCHED);
	ck_assert_int_eq(status, 0x5a);
	ck_assert_int_eq(ask("cuInit", 15000, 0, false),
			 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(older_driver_lowers_the_limit)
{
	static _Atomic uint32_t live = SHIM_UP;

	shim_process.driver_version = 12040;
	atomic_store(&shim_process.live, &live);
	ck_assert_int_eq(ask("cuInit", 12040, 0, true), CUDA_SUCCESS);
	ck_assert_int_eq(ask("cuInit", 12050, 0, true),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_eq(pfn, UNTOUCHED);
	atomic_store(&live, SHIM_DOWN);
	ck_assert_int_eq(ask("cuInit", 13000, 0, true), CUDA_SUCCESS);
}
END_TEST

START_TEST(missing_arguments_and_bad_flags_are_invalid)
{
	ck_assert_int_eq(shim_procaddr(NULL, &pfn, 13000, 0, NULL, true),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_procaddr("cuInit", NULL, 13000, 0, NULL, true),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(ask("cuInit", 13000, 4, true),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_eq(pfn, UNTOUCHED);
	ck_assert_int_eq(ask("cuInit", 13000, UINT64_C(1) << 32, true),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_procaddr("cuInit", &pfn, 13000, 0, NULL, true),
			 CUDA_SUCCESS);
	ck_assert_str_eq(exported(pfn), "cuInit");
}
END_TEST

/* "VERSION=SYMBOL …": just before, at each step, and at the end. */
static void
check_steps(const char *name, char *cell, cuuint64_t flags)
{
	char *save = NULL, before[128] = "";

	for (char *item = strtok_r(cell, " \n", &save); item;
	     item = strtok_r(NULL, " \n", &save)) {
		char *symbol = strchr(item, '=');
		int version = atoi(item);

		ck_assert_ptr_nonnull(symbol);
		ck_assert_int_eq(ask(name, version - 1, flags, true),
				 CUDA_SUCCESS);
		ck_assert_msg(!strcmp(exported(pfn), before), "%s at %d is %s",
			      name, version - 1, exported(pfn));
		expect_symbol(name, version, flags, symbol + 1);
		snprintf(before, sizeof(before), "%s", symbol + 1);
	}
	expect_symbol(name, SHIM_PROC_VERSION, flags, before);
}

START_TEST(every_step_of_the_recorded_table_is_answered)
{
	FILE *file = fopen("tests/api/procaddr_table.tsv", "re");
	char line[4096];
	int names = 0;

	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file)) {
		char *save = NULL, *name = strtok_r(line, "\t", &save);
		char *legacy = strtok_r(NULL, "\t", &save);
		char *per_thread = strtok_r(NULL, "\t", &save);
		char again[2048];

		if (line[0] == '#')
			continue;
		snprintf(again, sizeof(again), "%s", legacy);
		check_steps(name, legacy, 0);
		check_steps(name, again, 1);
		check_steps(name, per_thread, PER_THREAD);
		names++;
	}
	fclose(file);
	ck_assert_int_eq(names, 477);
}
END_TEST

SUITE("procaddr",
	version_picks_the_abi_of_its_time,
	per_thread_flag_picks_the_twin,
	unknown_names_are_no_error_in_v2,
	a_negative_version_finds_the_newest,
	versions_before_the_first_find_nothing,
	versions_beyond_the_driver_touch_nothing,
	older_driver_lowers_the_limit,
	missing_arguments_and_bad_flags_are_invalid,
	every_step_of_the_recorded_table_is_answered)
