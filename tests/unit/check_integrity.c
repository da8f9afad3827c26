/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The integrity answer against vectors of an independent implementation and
 * one that another project recorded from a real driver.
 */
#include "shim/integrity.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/suite.h"

static void
expect_hex(const uint8_t *bytes, const char *hex)
{
	char text[2 * INTEGRITY_SIZE + 1];

	for (size_t i = 0; i < INTEGRITY_SIZE; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	ck_assert_str_eq(text, hex);
}

static void
expect_md2(const char *message, const char *hex)
{
	uint8_t digest[INTEGRITY_SIZE];

	integrity_md2(message, strlen(message), digest);
	expect_hex(digest, hex);
}

/* RFC 1319, appendix A.5. */
START_TEST(integrity_md2_agrees_with_the_rfc)
{
	expect_md2("", "8350e5a3e24c153df2275c9f80692773");
	expect_md2("a", "32ec01ec4a6dac72c0ab96fb34c0b5d1");
	expect_md2("abc", "da853b0d3f88d99b30283a69e6ded6bb");
	expect_md2("message digest", "ab4f496bfb2a530b219ff33031fe06b0");
	expect_md2("abcdefghijklmnopqrstuvwxyz",
		   "4e8ddff3650292ab5a4108c3aa47940b");
	expect_md2("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		   "0123456789", "da33def2a42df13975352846c30338cd");
	expect_md2("1234567890123456789012345678901234567890"
		   "1234567890123456789012345678901234567890",
		   "d5976f79d83d3a0dc9806c3c66f3efd8");
}
END_TEST

START_TEST(integrity_answer_agrees_with_a_recorded_one)
{
	struct integrity_input input = {
		.driver_version = 12020, .version = 0x2b4a, .pid = 0x4d08,
		.thread = 0x2b78, .cudart_table = 0x7ff8c80717f0,
		.integrity_table = 0x7ff8c825e4b0,
		.function = 0x7ff8c7dd0ad0, .unix_seconds = 0x64a365ee,
	};
	struct integrity_device device = {
		.uuid = { 0x67, 0x22, 0xcb, 0xcf, 0xc6, 0x61, 0xf2, 0x92,
			  0x74, 0xd6, 0xed, 0x23, 0x2a, 0x32, 0x13, 0x1c },
		.pci_bus = 4,
	};
	uint8_t answer[INTEGRITY_SIZE];

	integrity_answer(&input, &device, 1, answer);
	expect_hex(answer, "7a7014f22846c3a784cdbf423331f1ea");
}
END_TEST

static const struct integrity_input plain_input = {
	.driver_version = 13000, .version = 13002, .pid = 1234,
	.thread = 0x5678, .cudart_table = 0x1000, .integrity_table = 0x2000,
	.function = 0x3000, .unix_seconds = 1700000000,
};

START_TEST(integrity_answer_covers_every_device)
{
	struct integrity_device devices[2] = {
		{ .pci_bus = 2 },
		{ .pci_domain = 1, .pci_bus = 11 },
	};
	uint8_t answer[INTEGRITY_SIZE];

	for (uint8_t i = 0; i < 16; i++) {
		devices[0].uuid[i] = i;
		devices[1].uuid[i] = (uint8_t)(16 + i);
	}
	integrity_answer(&plain_input, NULL, 0, answer);
	expect_hex(answer, "cd2493962dbf1f3dcd86620330f84c19");
	integrity_answer(&plain_input, devices, 2, answer);
	expect_hex(answer, "e570fea6ebb84d3b7b531e34d122c06f");
}
END_TEST

START_TEST(integrity_answer_is_constant_for_the_first_two_questions)
{
	struct integrity_input input = plain_input;
	uint8_t answer[INTEGRITY_SIZE];

	input.version = 13000;
	integrity_answer(&input, NULL, 0, answer);
	expect_hex(answer, "5c67cb031c184133e8d14c1faa83d38e");
	input.version = 13001;
	integrity_answer(&input, NULL, 0, answer);
	expect_hex(answer, "5c67cb031c184118e8d14c1faa83d38e");
}
END_TEST

/* A runtime that sees another value in any field must not be satisfied. */
START_TEST(integrity_answer_depends_on_every_field)
{
	struct integrity_input inputs[8];
	uint8_t plain[INTEGRITY_SIZE], changed[INTEGRITY_SIZE];

	for (size_t i = 0; i < 8; i++)
		inputs[i] = plain_input;
	inputs[0].driver_version++;
	inputs[1].version++;
	inputs[2].pid++;
	inputs[3].thread++;
	inputs[4].cudart_table += UINT64_C(1) << 40;
	inputs[5].integrity_table++;
	inputs[6].function += UINT64_C(1) << 40;
	inputs[7].unix_seconds++;
	integrity_answer(&plain_input, NULL, 0, plain);
	for (size_t i = 0; i < 8; i++) {
		integrity_answer(&inputs[i], NULL, 0, changed);
		ck_assert_mem_ne(plain, changed, INTEGRITY_SIZE);
	}
}
END_TEST

SUITE("integrity",
      integrity_md2_agrees_with_the_rfc,
      integrity_answer_agrees_with_a_recorded_one,
      integrity_answer_covers_every_device,
      integrity_answer_is_constant_for_the_first_two_questions,
      integrity_answer_depends_on_every_field)
