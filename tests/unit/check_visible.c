/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/visible.h"

#include <check.h>

#include "tests/unit/suite.h"

/* Three devices; the first two share the beginning of their UUIDs. */
static Mps__Device devices[3];
static Mps__Device *list[3];
static uint8_t uuids[3][16] = {
	{ 0x54, 0xf6, 0x71, 0x76, 0x52, 0x49, 0x7d, 0xf5,
	  0x8b, 0x6b, 0x46, 0x6d, 0x53, 0x62, 0x7d, 0x87 },
	{ 0x54, 0xf6, 0x11 },
	{ 0x9a },
};

static void
setup(void)
{
	for (int i = 0; i < 3; i++) {
		mps__device__init(&devices[i]);
		devices[i].uuid.data = uuids[i];
		devices[i].uuid.len = 16;
		list[i] = &devices[i];
	}
}

/* The visible devices as decimal digits, or -1 as "twice". */
static const char *
visible(const char *spec)
{
	static char text[8];
	int out[8], n = shim_visible(spec, list, 3, out, 8);

	if (n < 0)
		return "twice";
	for (int i = 0; i < n; i++)
		text[i] = (char)('0' + out[i]);
	text[n] = 0;
	return text;
}

START_TEST(visible_are_all_when_nothing_is_said)
{
	ck_assert_str_eq(visible(NULL), "012");
}
END_TEST

START_TEST(visible_are_none_when_nothing_is_named)
{
	ck_assert_str_eq(visible(""), "");
	ck_assert_str_eq(visible(" "), "");
	ck_assert_str_eq(visible(",0"), "");
	ck_assert_str_eq(visible("-1"), "");
	ck_assert_str_eq(visible("NoDevFiles"), "");
	ck_assert_str_eq(visible("99999999999999999999"), "");
	ck_assert_str_eq(visible("MIG-1"), "");
}
END_TEST

START_TEST(visible_are_filtered_and_reordered_by_ordinal)
{
	ck_assert_str_eq(visible("2,0"), "20");
	ck_assert_str_eq(visible("1"), "1");
	ck_assert_str_eq(visible(" 1 , 2"), "12");
}
END_TEST

START_TEST(visible_end_at_the_first_entry_that_names_none)
{
	ck_assert_str_eq(visible("1,3,0"), "1");
	ck_assert_str_eq(visible("1,-1,0"), "1");
	ck_assert_str_eq(visible("2,,0"), "2");
	ck_assert_str_eq(visible("0,"), "0");
	ck_assert_str_eq(visible("0,x"), "0");
}
END_TEST

START_TEST(visible_numbers_end_where_the_real_driver_lets_them)
{
	ck_assert_str_eq(visible("00"), "0");
	ck_assert_str_eq(visible("+1"), "1");
	ck_assert_str_eq(visible("0x2"), "0");
	ck_assert_str_eq(visible("2abc,1"), "21");
	ck_assert_str_eq(visible("0;1"), "0");
}
END_TEST

START_TEST(visible_are_found_by_uuid)
{
	ck_assert_str_eq(visible("GPU-54f67176-5249-7df5-8b6b-466d53627d87"),
			 "0");
	ck_assert_str_eq(visible("GPU-54F67176-5249-7DF5-8B6B-466D53627D87"),
			 "0");
	ck_assert_str_eq(visible("GPU-54f67176-5249-7df5-8b6b-466d53627d87x"),
			 "0");
	ck_assert_str_eq(visible("GPU-9,GPU-54f611"), "21");
}
END_TEST

START_TEST(visible_uuid_must_be_unique_and_well_begun)
{
	ck_assert_str_eq(visible("GPU-54f6"), "");
	ck_assert_str_eq(visible("GPU-"), "");
	ck_assert_str_eq(visible("gpu-9a"), "");
	ck_assert_str_eq(visible(" GPU-9a"), "");
	ck_assert_str_eq(visible("9a00"), "");
}
END_TEST

START_TEST(visible_ordinals_and_uuids_do_not_mix)
{
	ck_assert_str_eq(visible("2,GPU-9a"), "2");
	ck_assert_str_eq(visible("1,GPU-9a"), "1");
	ck_assert_str_eq(visible("GPU-9a,0"), "2");
}
END_TEST

START_TEST(visible_device_named_twice_is_an_error)
{
	ck_assert_str_eq(visible("0,0"), "twice");
	ck_assert_str_eq(visible("2,1,2x"), "twice");
	ck_assert_str_eq(visible("2,1,02"), "twice");
	ck_assert_str_eq(visible("GPU-9,GPU-9a"), "twice");
}
END_TEST

SUITE_FIXTURE("visible", setup, NULL,
	visible_are_all_when_nothing_is_said,
	visible_are_none_when_nothing_is_named,
	visible_are_filtered_and_reordered_by_ordinal,
	visible_end_at_the_first_entry_that_names_none,
	visible_numbers_end_where_the_real_driver_lets_them,
	visible_are_found_by_uuid,
	visible_uuid_must_be_unique_and_well_begun,
	visible_ordinals_and_uuids_do_not_mix,
	visible_device_named_twice_is_an_error)
