/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables that mean something, and values that do not. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mpsenv.h"
#include "proto/settings.h"
#include "tests/unit/suite.h"

enum { ALL = SETTINGS_SHIM | SETTINGS_BROKER | SETTINGS_SOFT };

static const char *const good[][2] = {
	{ "MPSSHIM_PERF", "no_ring" }, { "MPSSHIM_PERF", "no_post,no_cache," },
	{ "MPSSHIM_PERF", "no_line,no_backlog" },
	{ "MPSSHIM_PERF", "" }, { "MPSSHIM_NO_BROKER", "native" },
	{ "MPSSHIM_LOG_MB", "0" }, { "MPSSHIM_SOLO_MAX", "0" },
	{ "SOFTCUDA_CONTEXT", "64M" },
	{ "MPSSHIM_LOG", "debug" }, { "MPSSHIM_LOG", "info:/dev/null" },
	{ "MPSSHIM_LOG", ":/dev/null" }, { "MPSSHIM_IDLE_S", "0" },
	{ "MPSSHIM_IDLE_S", "3600" }, { "MPSSHIM_OVERLAP", "1" },
	{ "MPSSHIM_WAIT_WARN_S", "0" },
	{ "MPSSHIM_LANES", "4" }, { "MPSSHIM_BALLAST_MB", "0" }, { "SOFTCUDA_DEVICES", "0" },
	{ "SOFTCUDA_SMS", "132" }, { "SOFTCUDA_THREADS", "1" },
	{ "SOFTCUDA_MEMORY", "64M" }, { "SOFTCUDA_MEMORY", "4g" },
	{ "SOFTCUDA_MEMORY", "1073741824" }, { "SOFTCUDA_CC", "8.6" },
	{ "MPSSHIM_WINDOWS", "0x7e8000000000:256G" },
	{ "MPSSHIM_WINDOWS", "0x100000000000:16T,0x7e8000000000:8M" },
};

static const char *const bad[][2] = {
	{ "MPSSHIM_PERF", "banana" }, { "MPSSHIM_PERF", "no_ring,no_rin" },
	{ "MPSSHIM_PERF", "no_ring no_post" }, { "MPSSHIM_NO_BROKER", "yes" },
	{ "MPSSHIM_LOG_MB", "8M" }, { "MPSSHIM_SOLO_MAX", "many" },
	{ "SOFTCUDA_CONTEXT", "0" },
	{ "MPSSHIM_LOG", "bogus" }, { "MPSSHIM_LOG", "bogus:/dev/null" },
	{ "MPSSHIM_LOG", "info:/nowhere/x" }, { "MPSSHIM_LOG", "info:/" },
	{ "MPSSHIM_IDLE_S", "abc" }, { "MPSSHIM_IDLE_S", "-1" },
	{ "MPSSHIM_IDLE_S", "5s" }, { "MPSSHIM_OVERLAP", "yes" },
	{ "MPSSHIM_WAIT_WARN_S", "10s" },
	{ "MPSSHIM_LANES", "0" }, { "MPSSHIM_BALLAST_MB", "1G" }, { "SOFTCUDA_DEVICES", "17" },
	{ "SOFTCUDA_SMS", "-3" }, { "SOFTCUDA_SMS", " 3" },
	{ "SOFTCUDA_THREADS", "0" }, { "SOFTCUDA_MEMORY", "banana" },
	{ "SOFTCUDA_MEMORY", "4T" }, { "SOFTCUDA_MEMORY", "0" },
	{ "SOFTCUDA_CC", "9" }, { "SOFTCUDA_CC", "4.2" },
	{ "SOFTCUDA_CC", "9.0a" }, { "MPSSHIM_WINDOWS", "garbage" },
	{ "MPSSHIM_WINDOWS", "0x1000:1G" }, { "MPSSHIM_WINDOWS", "1T" },
	{ "MPSSHIM_WINDOWS", "1T:4M" }, { "MPSSHIM_WINDOWS", ":8M" },
	{ "MPSSHIM_WINDOWS", "1T:8Q" }, { "MPSSHIM_WINDOWS", "16777216T:8M" },
};

START_TEST(settings_that_mean_something_are_good)
{
	char why[256] = "";

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		setenv(good[i][0], good[i][1], 1);
		ck_assert_msg(settings_good(ALL, why, sizeof(why)), "%s", why);
		unsetenv(good[i][0]);
	}
}
END_TEST

START_TEST(others_are_named_with_what_would_do)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char why[256] = "";

		setenv(bad[i][0], bad[i][1], 1);
		ck_assert_msg(!settings_good(ALL, why, sizeof(why)), "%s=%s",
			      bad[i][0], bad[i][1]);
		ck_assert_ptr_nonnull(strstr(why, bad[i][0]));
		ck_assert_ptr_nonnull(strstr(why, "takes"));
		ck_assert_ptr_null(strchr(why, '\n'));
		unsetenv(bad[i][0]);
	}
}
END_TEST

START_TEST(only_who_reads_a_setting_minds_it)
{
	char why[256] = "";

	setenv("SOFTCUDA_SMS", "banana", 1);
	ck_assert(settings_good(SETTINGS_SHIM | SETTINGS_BROKER, why,
				sizeof(why)));
	ck_assert(!settings_good(SETTINGS_SOFT, why, sizeof(why)));
	unsetenv("SOFTCUDA_SMS");
}
END_TEST

START_TEST(settings_of_a_start_are_told_from_others)
{
	ck_assert(settings_of_start("SOFTCUDA_SMS=3", true));
	ck_assert(settings_of_start("SOFTCUDA_FAULT=init=999", true));
	ck_assert(!settings_of_start("SOFTCUDA_SMS=3", false));
	ck_assert(settings_of_start("MPSSHIM_LANES=3", false));
	ck_assert(!settings_of_start("MPSSHIM_LANESX=3", true));
	ck_assert(!settings_of_start("MPSSHIM_PERF=no_ring", true));
	ck_assert(!settings_of_start("PATH=/bin", true));
}
END_TEST

START_TEST(a_limit_of_mps_is_the_smallest_of_its_entries)
{
	static const struct {
		const char *text;
		uint64_t limit;
		bool good;
	} cases[] = {
		{ "", 0, true },
		{ "0=1G", UINT64_C(1) << 30, true },
		{ "0=512M", 512 << 20, true }, { "0=512MB", 512 << 20, true },
		{ "GPU-12-34=2GB,1=3G,", UINT64_C(2) << 30, true },
		{ "0=1G,1=abc", UINT64_C(1) << 30, false },
		{ "1G", 0, false }, { "0=", 0, false }, { "0=0", 0, false },
		{ "0=-1G", 0, false }, { "0=1T", 0, false },
		{ "0=99999999999999999999G", 0, false },
		{ "0=18446744073709551615G", 0, false },
	};
	bool all;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", cases[i].text, 1);
		ck_assert_uint_eq(mpsenv_memory_limit(&all), cases[i].limit);
		ck_assert_msg(all == cases[i].good, "%s", cases[i].text);
	}
	unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	ck_assert_uint_eq(mpsenv_memory_limit(&all), 0);
	ck_assert(all);
}
END_TEST

START_TEST(variables_of_mps_without_effect_are_named)
{
	char line[256];

	setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100", 1);
	setenv("CUDA_MPS_CLIENT_PRIORITY", "0", 1);
	ck_assert(!mpsenv_idle(0, line, sizeof(line)));
	setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", 1);
	setenv("CUDA_MPS_CLIENT_PRIORITY", "1", 1);
	ck_assert(mpsenv_idle(0, line, sizeof(line)));
	ck_assert_ptr_nonnull(strstr(line, "PERCENTAGE=50 has no effect"));
	ck_assert(mpsenv_idle(1, line, sizeof(line)));
	ck_assert_ptr_nonnull(strstr(line, "PRIORITY=1 has no effect"));
	ck_assert(!mpsenv_idle(2, line, sizeof(line)));
	unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	unsetenv("CUDA_MPS_CLIENT_PRIORITY");
}
END_TEST

SUITE("settings", settings_that_mean_something_are_good,
      others_are_named_with_what_would_do, only_who_reads_a_setting_minds_it,
      settings_of_a_start_are_told_from_others,
      a_limit_of_mps_is_the_smallest_of_its_entries,
      variables_of_mps_without_effect_are_named)
