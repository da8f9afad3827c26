/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 against the published examples, by both compression functions.
 */
#undef NDEBUG
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/sha256.h"

/* NIST, "SHA-256 examples" and FIPS 180-2 appendix B. */
static const struct {
	const char *text, *hash;
} examples[] = {
	{ "", "e3b0c44298fc1c149afbf4c8996fb924"
	      "27ae41e4649b934ca495991b7852b855" },
	{ "abc", "ba7816bf8f01cfea414140de5dae2223"
		 "b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	  "248d6a61d20638b8e5c026930c3e6039"
	  "a33ce45964ff2167f6ecedd419db06c1" },
	{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
	  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
	  "cf5b16a778af8380036ce59e7b049237"
	  "0b249b11e8f07a51afac45037afee9d1" },
};
#define MILLION_A "cdc76e5c9914fb9281a1c7e284d73e67" \
		  "f1809a48a497200e046d39ccc7112cd0"

static void
hex_of(struct sha256 *sha, char out[65])
{
	uint8_t hash[SHA256_SIZE];

	sha256_final(sha, hash);
	for (unsigned int i = 0; i < SHA256_SIZE; i++)
		snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

START_TEST(sha256_equals_published_examples)
{
	struct sha256 sha;
	char hex[65];

	sha256_init(&sha);
	sha256_update(&sha, examples[_i].text, strlen(examples[_i].text));
	hex_of(&sha, hex);
	ck_assert_str_eq(hex, examples[_i].hash);
}
END_TEST

START_TEST(sha256_of_a_million_a_in_uneven_pieces)
{
	static char a[1000];
	struct sha256 sha;
	char hex[65];
	size_t left = 1000000, piece = 1;

	memset(a, 'a', sizeof(a));
	sha256_init(&sha);
	while (left) {
		piece = piece * 7 % 997 + 1;
		if (piece > left)
			piece = left;
		sha256_update(&sha, a, piece);
		left -= piece;
	}
	hex_of(&sha, hex);
	ck_assert_str_eq(hex, MILLION_A);
}
END_TEST

START_TEST(sha256_of_processor_equals_plain_c)
{
	sha256_blocks_fn *hard = sha256_hard();
	uint32_t a[8], b[8];
	uint8_t data[SHA256_BLOCK * 5];

	if (!hard) {
		printf("skipped: no SHA extensions in this processor\n");
		return;
	}
	for (unsigned int round = 0; round < 200; round++) {
		for (unsigned int i = 0; i < sizeof(data); i++)
			data[i] = (uint8_t)(i * 31 + round * 7 + (i >> 3));
		for (unsigned int i = 0; i < 8; i++)
			a[i] = b[i] = round * 0x9e3779b9u + i;
		sha256_soft(a, data, 5);
		hard(b, data, 5);
		ck_assert_mem_eq(a, b, sizeof(a));
	}
}
END_TEST

START_TEST(sha256_plain_c_equals_published_example)
{
	uint32_t state[8];
	struct sha256 sha;
	uint8_t block[SHA256_BLOCK] = "abc\x80";

	block[63] = 24;
	sha256_init(&sha);
	memcpy(state, sha.state, sizeof(state));
	sha256_soft(state, block, 1);
	ck_assert_uint_eq(state[0], 0xba7816bf);
	ck_assert_uint_eq(state[7], 0xf20015ad);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("sha256");
	TCase *tc = tcase_create("sha256");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, sha256_equals_published_examples, 0,
			    sizeof(examples) / sizeof(examples[0]));
	tcase_add_test(tc, sha256_of_a_million_a_in_uneven_pieces);
	tcase_add_test(tc, sha256_of_processor_equals_plain_c);
	tcase_add_test(tc, sha256_plain_c_equals_published_example);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
