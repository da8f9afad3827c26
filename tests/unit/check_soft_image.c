/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software device: image parsing, from the inside, with hostile input.
 * Links soft_image.o and soft_elf.o.
 */
#include "tests/unit/soft_kit.h"
#include "tests/unit/soft_images.h"

#include "server/soft/soft_image.h"

/* A copy that ends where the image ends, so that ASan sees one byte more. */
static int
open_exact(const void *data, size_t size)
{
	unsigned char *copy = malloc(size ? size : 1);
	struct soft_image image;
	int r;

	memcpy(copy, data, size);
	r = soft_image_open(&image, copy, size);
	if (!r && image.kind == SOFT_IMAGE_ELF) {
		struct soft_elf elf;

		if (!soft_elf_open(&elf, image.data, image.size))
			soft_elf_close(&elf);
	}
	if (!r)
		soft_image_close(&image);
	free(copy);
	return r;
}

static uint32_t random_state = 12345;

static uint32_t
random_next(void)
{
	random_state = random_state * 1664525u + 1013904223u;
	return random_state >> 8;
}

static void
mutate(const struct img *i, unsigned rounds)
{
	unsigned char *copy = malloc(i->size);

	for (unsigned n = 0; n < rounds; n++) {
		unsigned changes = 1 + random_next() % 8;

		memcpy(copy, i->data, i->size);
		while (changes--) {
			size_t at = random_next() % i->size;

			/* Headers decide; most changes go there. */
			if (random_next() % 2)
				at %= 256;
			if (at >= i->size)
				at = 0;
			copy[at] = (unsigned char)(random_next() % 3 ?
				random_next() : random_next() % 2 ? 0xff : 0);
		}
		open_exact(copy, i->size);
	}
	free(copy);
}

static void
every_prefix(const struct img *i)
{
	for (size_t size = 0; size < i->size; size++)
		ck_assert_int_ne(open_exact(i->data, size), 0);
	ck_assert_int_eq(open_exact(i->data, i->size), 0);
}

static struct img
fatbin(enum img_pack pack)
{
	struct img i = { 0 }, elf = { 0 };

	img_elf(&elf);
	img_fatbin_begin(&i);
	img_fatbin_add(&i, 1, 75, kit_ptx, sizeof(kit_ptx), pack);
	img_fatbin_add(&i, 2, 90, elf.data, elf.size, IMG_PLAIN);
	free(elf.data);
	return i;
}

START_TEST(cut_fatbins_are_invalid)
{
	struct img i = fatbin(IMG_ZSTD);

	every_prefix(&i);
	free(i.data);
}
END_TEST

START_TEST(cut_elf_is_invalid)
{
	struct img i = { 0 };

	img_elf(&i);
	every_prefix(&i);
	free(i.data);
}
END_TEST

START_TEST(changed_fatbins_do_no_harm)
{
	for (int pack = IMG_PLAIN; pack <= IMG_ZSTD; pack++) {
		struct img i = fatbin((enum img_pack)pack);

		mutate(&i, 3000);
		free(i.data);
	}
}
END_TEST

START_TEST(changed_elf_does_no_harm)
{
	struct img i = { 0 };

	img_elf(&i);
	mutate(&i, 20000);
	free(i.data);
}
END_TEST

START_TEST(small_entry_cannot_ask_for_much_memory)
{
	struct img i = { 0 };
	uint64_t huge = 1ull << 40;

	img_fatbin_begin(&i);
	img_fatbin_add(&i, 1, 75, kit_ptx, 64, IMG_LZ4);
	img_put(&i, 16 + 56, &huge, sizeof(huge));
	ck_assert_int_eq(open_exact(i.data, i.size), SOFT_IMAGE_E_INVALID);
	huge = 100 << 20;
	img_put(&i, 16 + 56, &huge, sizeof(huge));
	ck_assert_int_eq(open_exact(i.data, i.size), SOFT_IMAGE_E_INVALID);
	free(i.data);
}
END_TEST

START_TEST(elf_tells_its_kernels)
{
	struct img i = { 0 };
	struct soft_elf elf;

	img_elf(&i);
	ck_assert_uint_eq(soft_elf_length((char *)i.data, i.size), i.size);
	ck_assert_int_eq(soft_elf_open(&elf, (char *)i.data, i.size), 0);
	ck_assert_uint_eq(elf.kernel_count, 1);
	ck_assert_str_eq(elf.kernels[0].name, "native");
	ck_assert_uint_eq(elf.kernels[0].param_size, 12);
	ck_assert_uint_eq(elf.symbol_count, 1);
	ck_assert_str_eq(elf.symbols[0].name, "state");
	ck_assert_uint_eq(elf.sm, 90);
	soft_elf_close(&elf);
	free(i.data);
}
END_TEST

START_TEST(joined_text_has_one_header)
{
	struct soft_image all;
	const char *text = "  .version 7.0\n.target sm_70\n.address_size 64\n"
			   "// two\n";

	ck_assert_int_eq(soft_image_open(&all, ".version 8.0\n.target sm_80\n"
					 ".address_size 64\n// one\n",
					 SIZE_MAX), 0);
	ck_assert_int_eq(soft_image_join(&all, text, strlen(text)), 0);
	ck_assert_str_eq(all.data, ".version 8.0\n.target sm_80\n"
			 ".address_size 64\n// one\n\n// two\n");
	ck_assert_uint_eq(all.size, strlen(all.data));
	soft_image_close(&all);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, changed_elf_does_no_harm);
	tcase_add_test(tc, changed_fatbins_do_no_harm);
	tcase_add_test(tc, cut_elf_is_invalid);
	tcase_add_test(tc, cut_fatbins_are_invalid);
	tcase_add_test(tc, elf_tells_its_kernels);
	tcase_add_test(tc, joined_text_has_one_header);
	tcase_add_test(tc, small_entry_cannot_ask_for_much_memory);
}

int
main(void)
{
	return kit_main("soft_image", fill);
}
