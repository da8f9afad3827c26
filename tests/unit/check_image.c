/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images in a caller's memory: every format's length, and that junk never
 * makes us read a byte that is not there. Images under test end at a page
 * that cannot be read, so one byte too far is a crash, not luck.
 */
#include "shim/image.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/probe.h"
#include "tests/unit/suite.h"

#define ROOM 65536u

/* `size` bytes of `data` whose end is the end of readable memory. */
static uint8_t *
at_edge(const void *data, size_t size)
{
	uint8_t *map = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(map, MAP_FAILED);
	ck_assert_int_eq(mprotect(map + ROOM, 4096, PROT_NONE), 0);
	ck_assert_uint_le(size, ROOM);
	if (data != NULL)
		memcpy(map + ROOM - size, data, size);
	return map + ROOM - size;
}

static void
expect_bare(const void *from, size_t size)
{
	struct image image;

	ck_assert_int_eq(image_find(&image, from), 0);
	ck_assert_int_eq(image.kind, MODULE_BARE);
	ck_assert_ptr_eq(image.data, from);
	ck_assert_uint_eq(image.size, size);
	ck_assert_ptr_null(image.owned);
	image_fini(&image);
}

static void
expect_invalid(const void *from)
{
	struct image image;

	ck_assert_int_eq(image_find(&image, from), IMAGE_E_INVALID);
}

struct fatbin {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size;
	uint8_t payload[40];
};

static struct fatbin
make_fatbin(uint8_t fill)
{
	struct fatbin fatbin = { 0xba55ed50, 1, 16, 40, { 0 } };

	memset(fatbin.payload, fill, sizeof(fatbin.payload));
	return fatbin;
}

struct wrapper {
	uint32_t magic, version;
	const void *fatbin, *more;
};

START_TEST(probe_tells_readable_from_not)
{
	uint8_t *edge = at_edge(NULL, 10);
	uint8_t byte;

	ck_assert(probe_readable(edge, 10));
	ck_assert(!probe_readable(edge, 11));
	ck_assert(probe_readable(edge - 20000, 20010));
	ck_assert(!probe_readable(edge - 20000, 20011));
	ck_assert(!probe_readable(NULL, 1));
	ck_assert(!probe_readable((void *)-1, 100));
	ck_assert(probe_read(&byte, edge + 9, 1));
	ck_assert(!probe_read(&byte, edge + 10, 1));
}
END_TEST

START_TEST(image_of_a_fatbin_is_header_and_size)
{
	struct fatbin fatbin = make_fatbin(1);
	uint8_t *edge = at_edge(&fatbin, 56);

	expect_bare(edge, 56);
	/* One byte more than there is. */
	((struct fatbin *)(void *)edge)->size = 41;
	expect_invalid(edge);
	((struct fatbin *)(void *)edge)->size = UINT64_MAX - 8;
	expect_invalid(edge);
	((struct fatbin *)(void *)edge)->size = 40;
	((struct fatbin *)(void *)edge)->header_size = 8;
	expect_invalid(edge);
}
END_TEST

START_TEST(image_of_text_ends_with_its_nul)
{
	static const char text[] = "\n   .version 7.0\n.target sm_50\n";
	char *page;

	expect_bare(at_edge(text, sizeof(text)), sizeof(text));
	expect_bare(at_edge("x", 2), 2);
	/* No NUL before the edge. */
	expect_invalid(at_edge(text, sizeof(text) - 1));
	expect_invalid(at_edge("", 1));
	/* Longer than a page, and not aligned to one. */
	page = malloc(9001);
	memset(page, 'x', 9000);
	page[9000] = '\0';
	expect_bare(at_edge(page, 9001), 9001);
	free(page);
}
END_TEST

START_TEST(image_with_control_characters_is_no_text)
{
	expect_invalid(at_edge(".version\x01 7.0", 14));
	expect_invalid(at_edge("\x7f" "EL", 4));
	expect_invalid(NULL);
	expect_invalid((void *)-1);
	expect_invalid((void *)0x1234);
}
END_TEST

START_TEST(image_archive_and_old_fatbin_are_refused)
{
	static const uint32_t old[] = { 0x1ee55a01, 0, 0, 0 };

	expect_invalid(at_edge("!<arch>\nlib.o/", 15));
	expect_invalid(at_edge(old, sizeof(old)));
}
END_TEST

struct small_elf {
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	uint8_t code[64];
	Elf64_Shdr sections[2];
};

static struct small_elf
make_elf(void)
{
	struct small_elf elf;

	memset(&elf, 0, sizeof(elf));
	memcpy(elf.head.e_ident, ELFMAG "\x02\x01\x01\x33", 8);
	elf.head.e_machine = 190;
	elf.head.e_phoff = offsetof(struct small_elf, segment);
	elf.head.e_phnum = 1;
	elf.head.e_phentsize = sizeof(Elf64_Phdr);
	elf.head.e_shoff = offsetof(struct small_elf, sections);
	elf.head.e_shnum = 2;
	elf.head.e_shentsize = sizeof(Elf64_Shdr);
	elf.segment.p_offset = offsetof(struct small_elf, code);
	elf.segment.p_filesz = sizeof(elf.code);
	elf.sections[1].sh_type = SHT_PROGBITS;
	elf.sections[1].sh_offset = offsetof(struct small_elf, code);
	elf.sections[1].sh_size = sizeof(elf.code);
	return elf;
}

START_TEST(image_of_an_elf_ends_with_its_last_part)
{
	struct small_elf elf = make_elf();
	uint8_t bytes[sizeof(elf) + 100];

	expect_bare(at_edge(&elf, sizeof(elf)), sizeof(elf));

	/* A section behind the headers. */
	elf.sections[1].sh_offset = sizeof(elf);
	elf.sections[1].sh_size = 100;
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, &elf, sizeof(elf));
	expect_bare(at_edge(bytes, sizeof(bytes)), sizeof(bytes));
	/* The same section takes no room when it is NOBITS. */
	elf.sections[1].sh_type = SHT_NOBITS;
	elf.sections[1].sh_size = UINT64_C(1) << 40;
	expect_bare(at_edge(&elf, sizeof(elf)), sizeof(elf));

	/* A segment behind the headers. */
	elf.segment.p_offset = sizeof(elf);
	elf.segment.p_filesz = 100;
	memcpy(bytes, &elf, sizeof(elf));
	expect_bare(at_edge(bytes, sizeof(bytes)), sizeof(bytes));
}
END_TEST

START_TEST(image_of_an_elf_with_many_sections_counts_them_in_the_first)
{
	struct small_elf elf = make_elf();

	elf.head.e_shnum = 0;
	elf.sections[0].sh_size = 2;
	expect_bare(at_edge(&elf, sizeof(elf)), sizeof(elf));
	elf.sections[0].sh_size = UINT64_MAX;
	expect_invalid(at_edge(&elf, sizeof(elf)));
}
END_TEST

START_TEST(image_of_a_hostile_elf_is_refused)
{
	struct small_elf elf;

	elf = make_elf();
	elf.head.e_ident[EI_CLASS] = ELFCLASS32;
	expect_invalid(at_edge(&elf, sizeof(elf)));
	elf = make_elf();
	elf.head.e_shoff = UINT64_MAX - 4;
	expect_invalid(at_edge(&elf, sizeof(elf)));
	elf = make_elf();
	elf.head.e_phnum = 0xffff;
	expect_invalid(at_edge(&elf, sizeof(elf)));
	elf = make_elf();
	elf.sections[1].sh_offset = UINT64_MAX;
	elf.sections[1].sh_size = 2;
	expect_invalid(at_edge(&elf, sizeof(elf)));
	elf = make_elf();
	elf.head.e_shentsize = 1;
	expect_invalid(at_edge(&elf, sizeof(elf)));
	/* Truncated at every byte: never accepted, never a fault. */
	elf = make_elf();
	for (size_t size = 0; size < sizeof(elf); size += 7)
		expect_invalid(at_edge(&elf, size));
}
END_TEST

START_TEST(image_behind_a_wrapper_is_its_fatbin)
{
	struct fatbin fatbin = make_fatbin(1);
	void *edge = at_edge(&fatbin, 56);
	struct wrapper wrapper = { 0x466243b1, 1, edge, "file.cu" };
	struct image image;

	ck_assert_int_eq(image_find(&image, &wrapper), 0);
	ck_assert_int_eq(image.kind, MODULE_BARE);
	ck_assert_ptr_eq(image.data, edge);
	ck_assert_uint_eq(image.size, 56);
	wrapper.version = 3;
	expect_invalid(&wrapper);
	wrapper.version = 1;
	wrapper.fatbin = NULL;
	expect_invalid(&wrapper);
	expect_invalid(at_edge(&wrapper, 23));
}
END_TEST

START_TEST(image_of_several_fatbins_is_gathered)
{
	struct fatbin fatbins[3] = { make_fatbin(1), make_fatbin(2),
				     make_fatbin(3) };
	const void *more[] = { &fatbins[1], &fatbins[2], NULL };
	struct wrapper wrapper = { 0x466243b1, 2, &fatbins[0], more };
	struct image image;
	uint64_t sizes[3];
	uint32_t start[2];

	ck_assert_int_eq(image_find(&image, &wrapper), 0);
	ck_assert_int_eq(image.kind, MODULE_FATBINS);
	ck_assert_uint_eq(image.size, 8 + 3 * 8 + 3 * 56);
	memcpy(start, image.data, sizeof(start));
	memcpy(sizes, image.data + 8, sizeof(sizes));
	ck_assert_uint_eq(start[0], 3);
	ck_assert_uint_eq(start[1], 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(sizes[i], 56);
		ck_assert_mem_eq(image.data + 32 + 56 * i, &fatbins[i], 56);
	}
	image_fini(&image);

	/* An empty list is a plain fatbin; a list into nowhere is junk. */
	more[0] = NULL;
	ck_assert_int_eq(image_find(&image, &wrapper), 0);
	ck_assert_int_eq(image.kind, MODULE_BARE);
	more[0] = (void *)0x1000;
	expect_invalid(&wrapper);
	wrapper.more = at_edge(more, 0);
	expect_invalid(&wrapper);
}
END_TEST

SUITE("image",
      probe_tells_readable_from_not,
      image_of_a_fatbin_is_header_and_size,
      image_of_text_ends_with_its_nul,
      image_with_control_characters_is_no_text,
      image_archive_and_old_fatbin_are_refused,
      image_of_an_elf_ends_with_its_last_part,
      image_of_an_elf_with_many_sections_counts_them_in_the_first,
      image_of_a_hostile_elf_is_refused,
      image_behind_a_wrapper_is_its_fatbin,
      image_of_several_fatbins_is_gathered)
