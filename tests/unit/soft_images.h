/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images made by hand: fatbins, wrappers, a machine-code ELF.
 * Included by check_soft_image.c and check_soft_module.c.
 */
#ifndef TESTS_UNIT_SOFT_IMAGES_H
#define TESTS_UNIT_SOFT_IMAGES_H

#include <elf.h>
#include <lz4.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define IMG_UNUSED __attribute__((unused))

enum img_pack { IMG_PLAIN, IMG_LZ4, IMG_ZSTD };

struct img {
	unsigned char *data;
	size_t size, room;
};

static IMG_UNUSED size_t
img_add(struct img *i, const void *bytes, size_t size)
{
	size_t at = i->size;

	while (i->size + size > i->room) {
		i->room = i->room ? i->room * 2 : 4096;
		i->data = realloc(i->data, i->room);
	}
	if (bytes)
		memcpy(i->data + at, bytes, size);
	else
		memset(i->data + at, 0, size);
	i->size += size;
	return at;
}

static IMG_UNUSED void
img_put(struct img *i, size_t at, const void *bytes, size_t size)
{
	memcpy(i->data + at, bytes, size);
}

static IMG_UNUSED void
img_fatbin_begin(struct img *i)
{
	struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t size;
	} h = { 0xba55ed50, 1, 16, 0 };

	img_add(i, &h, sizeof(h));
}

/* kind 1 PTX, 2 ELF. */
static IMG_UNUSED void
img_fatbin_add(struct img *i, unsigned kind, unsigned sm, const void *data,
	       size_t size, enum img_pack pack)
{
	struct {
		uint16_t kind, tag;
		uint32_t header;
		uint64_t padded;
		uint32_t exact, options;
		uint16_t minor, major;
		uint32_t sm, name_at, name_size;
		uint64_t flags, zero, expanded;
	} e = { (uint16_t)kind, 0x101, 64, 0, 0, 0, 0, 9, sm, 0, 0, 0x11, 0,
		0 };
	size_t room = ZSTD_compressBound(size) + (size_t)LZ4_compressBound(
		(int)size) + 8;
	char *payload = calloc(1, room);
	size_t got = size;
	uint64_t whole;

	if (pack == IMG_PLAIN) {
		memcpy(payload, data, size);
	} else if (pack == IMG_LZ4) {
		got = (size_t)LZ4_compress_default(data, payload, (int)size,
						   (int)room);
		e.flags |= 0x2000;
	} else {
		got = ZSTD_compress(payload, room, data, size, 3);
		e.flags |= 0x8000;
	}
	if (pack != IMG_PLAIN) {
		e.exact = (uint32_t)got;
		e.expanded = size;
	}
	e.padded = (got + 7) & ~(uint64_t)7;
	img_add(i, &e, sizeof(e));
	img_add(i, payload, (size_t)e.padded);
	free(payload);
	whole = i->size - 16;
	img_put(i, 8, &whole, sizeof(whole));
}

struct img_wrapper {
	uint32_t magic, version;
	const void *fatbin, *extra;
};

static IMG_UNUSED size_t
img_name(struct img *names, const char *name)
{
	return img_add(names, name, strlen(name) + 1);
}

/*
 * An ELF as ptxas would make it for sm_90: kernel "native" with parameters
 * of 8 bytes at 0 and 4 bytes at 8, variable "state" of 8 bytes holding 5.
 */
static IMG_UNUSED void
img_elf(struct img *i)
{
	static const unsigned char info[] = {
		4, 0x17, 12, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0xf0, 0x11, 0,
		4, 0x17, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x21, 0,
		3, 0x1b, 0xff, 0,
	};
	static const uint64_t state = 5;
	struct img names = { 0 }, strings = { 0 };
	Elf64_Shdr sh[7];
	Elf64_Ehdr eh;
	Elf64_Sym sym[2];
	size_t at;

	memset(sh, 0, sizeof(sh));
	memset(&eh, 0, sizeof(eh));
	memset(sym, 0, sizeof(sym));
	memcpy(eh.e_ident, "\177ELF\2\1\1\x33\x08", 9);
	eh.e_type = ET_EXEC;
	eh.e_machine = 190;
	eh.e_version = 1;
	eh.e_flags = 0x6005a04;
	eh.e_ehsize = sizeof(eh);
	eh.e_shentsize = sizeof(Elf64_Shdr);
	eh.e_shnum = 7;
	eh.e_shstrndx = 1;
	img_add(i, &eh, sizeof(eh));
	img_name(&names, "");
	img_name(&strings, "");

	sh[2].sh_name = (Elf64_Word)img_name(&names, ".text.native");
	sh[2].sh_type = SHT_PROGBITS;
	sh[2].sh_offset = img_add(i, NULL, 128);
	sh[2].sh_size = 128;
	sh[3].sh_name = (Elf64_Word)img_name(&names, ".nv.info.native");
	sh[3].sh_type = 0x70000000;
	sh[3].sh_offset = img_add(i, info, sizeof(info));
	sh[3].sh_size = sizeof(info);
	img_add(i, NULL, (8 - i->size % 8) % 8);
	sh[4].sh_name = (Elf64_Word)img_name(&names, ".nv.global.init");
	sh[4].sh_type = SHT_PROGBITS;
	sh[4].sh_offset = img_add(i, &state, sizeof(state));
	sh[4].sh_size = sizeof(state);
	sym[1].st_name = (Elf64_Word)img_name(&strings, "state");
	sym[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
	sym[1].st_shndx = 4;
	sym[1].st_size = 8;
	sh[5].sh_name = (Elf64_Word)img_name(&names, ".symtab");
	sh[5].sh_type = SHT_SYMTAB;
	sh[5].sh_link = 6;
	sh[5].sh_entsize = sizeof(Elf64_Sym);
	sh[5].sh_offset = img_add(i, sym, sizeof(sym));
	sh[5].sh_size = sizeof(sym);
	sh[6].sh_name = (Elf64_Word)img_name(&names, ".strtab");
	sh[6].sh_type = SHT_STRTAB;
	sh[6].sh_offset = img_add(i, strings.data, strings.size);
	sh[6].sh_size = strings.size;
	sh[1].sh_name = (Elf64_Word)img_name(&names, ".shstrtab");
	sh[1].sh_type = SHT_STRTAB;
	sh[1].sh_size = names.size;
	sh[1].sh_offset = img_add(i, names.data, names.size);
	img_add(i, NULL, (8 - i->size % 8) % 8);
	at = img_add(i, sh, sizeof(sh));
	eh.e_shoff = at;
	img_put(i, 0, &eh, sizeof(eh));
	free(names.data);
	free(strings.data);
}

#endif
