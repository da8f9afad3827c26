/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an image ends. cuModuleLoadData and its kin take an address without
 * a length; each format says its own:
 *
 *   wrapper     24 bytes, magic 0x466243b1, version 1 or 2, a pointer to a
 *               fatbin; version 2: a NULL-ended list of further fatbins
 *   fatbin      magic 0xba55ed50, u16 version, u16 header size, u64 size
 *   ELF         the last byte that a header, segment or section names
 *   PTX         text up to its NUL; may start with white space
 *
 * Archives ("!<arch>") and the fatbins of before CUDA 4 (0x1ee55a01) are
 * refused as the driver does. All fields come from memory that may be junk:
 * it is read with probe_read(), lengths are bounded by IMAGE_MAX and the
 * range is probed before anybody hashes or copies it in place.
 */
#include "shim/image.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "shim/probe.h"

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
#define TEXT_STEP 4096u
/* Counts that would need longer tables than any cubin has. */
#define ELF_HEADERS_MAX (1u << 20)

struct wrapper {
	uint32_t magic, version;
	const void *fatbin;
	const void *more;      /* version 2: const void *[], NULL at the end */
};

struct fatbin_header {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size;
};

static int
found(struct image *image, const void *from, uint64_t size)
{
	if (size == 0 || size > IMAGE_MAX || !probe_readable(from, size))
		return IMAGE_E_INVALID;
	*image = (struct image){ .kind = MODULE_BARE, .data = from,
				 .size = size };
	return 0;
}

static int
fatbin_size(const void *from, uint64_t *out_size)
{
	struct fatbin_header header;

	if (!probe_read(&header, from, sizeof(header)) ||
	    header.magic != FATBIN_MAGIC ||
	    header.header_size < sizeof(header) || header.size > IMAGE_MAX)
		return IMAGE_E_INVALID;
	*out_size = header.header_size + header.size;
	return 0;
}

/* Raise *end to offset + size. */
static bool
extend(uint64_t *end, uint64_t offset, uint64_t size)
{
	if (offset > IMAGE_MAX || size > IMAGE_MAX)
		return false;
	if (*end < offset + size)
		*end = offset + size;
	return *end <= IMAGE_MAX;
}

static bool
elf_segments(const uint8_t *from, const Elf64_Ehdr *elf, uint64_t *end)
{
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		uint64_t offset = elf->e_phoff +
				  (uint64_t)i * elf->e_phentsize;
		Elf64_Phdr header;

		if (!extend(end, offset, sizeof(header)) ||
		    !probe_read(&header, from + offset, sizeof(header)) ||
		    !extend(end, header.p_offset, header.p_filesz))
			return false;
	}
	return true;
}

static bool
elf_sections(const uint8_t *from, const Elf64_Ehdr *elf, uint64_t *end)
{
	uint64_t count = elf->e_shnum;
	Elf64_Shdr header;

	if (elf->e_shoff == 0)
		return true;
	if (elf->e_shoff > IMAGE_MAX)
		return false;
	/* From 65,280 sections on, the first one's size is the count. */
	if (count == 0) {
		if (!probe_read(&header, from + elf->e_shoff, sizeof(header)))
			return false;
		count = header.sh_size;
	}
	if (count > ELF_HEADERS_MAX)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t offset = elf->e_shoff + i * elf->e_shentsize;

		if (!extend(end, offset, sizeof(header)) ||
		    !probe_read(&header, from + offset, sizeof(header)))
			return false;
		if (header.sh_type != SHT_NOBITS &&
		    !extend(end, header.sh_offset, header.sh_size))
			return false;
	}
	return true;
}

static int
elf_size(const uint8_t *from, uint64_t *out_size)
{
	uint64_t end = sizeof(Elf64_Ehdr);
	Elf64_Ehdr elf;

	if (!probe_read(&elf, from, sizeof(elf)) ||
	    elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_ident[EI_DATA] != ELFDATA2LSB ||
	    (elf.e_phnum != 0 && elf.e_phentsize < sizeof(Elf64_Phdr)) ||
	    (elf.e_shoff != 0 && elf.e_shentsize < sizeof(Elf64_Shdr)))
		return IMAGE_E_INVALID;
	if (!elf_segments(from, &elf, &end) || !elf_sections(from, &elf, &end))
		return IMAGE_E_INVALID;
	*out_size = end;
	return 0;
}

/* A control character that no text has: whatever this is, it is not PTX. */
static bool
is_binary(uint8_t c)
{
	return (c < ' ' && (c < '\t' || c > '\r')) || c == 0x7f;
}

/* Length with the NUL; stops at what is no text or cannot be read. */
static int
text_size(const uint8_t *from, uint64_t *out_size)
{
	uint8_t step[TEXT_STEP];
	uint64_t size = 0;

	while (size < IMAGE_MAX) {
		/* Up to the end of the page: the next may not be there. */
		size_t n = TEXT_STEP - ((uintptr_t)(from + size)) % TEXT_STEP;

		if (!probe_read(step, from + size, n))
			return IMAGE_E_INVALID;
		for (size_t i = 0; i < n; i++) {
			if (step[i] == '\0') {
				*out_size = size + i + 1;
				return size + i == 0 ? IMAGE_E_INVALID : 0;
			}
			if (is_binary(step[i]))
				return IMAGE_E_INVALID;
		}
		size += n;
	}
	return IMAGE_E_INVALID;
}

/* Length of a bare image: anything but a wrapper. */
static int
bare_size(const void *from, uint64_t *out_size)
{
	uint32_t magic;
	char archive[8];

	/* The shortest text is one byte and its NUL. */
	if (!probe_read(&magic, from, sizeof(magic)))
		return text_size(from, out_size);
	if (magic == FATBIN_MAGIC)
		return fatbin_size(from, out_size);
	if (memcmp(&magic, ELFMAG, SELFMAG) == 0)
		return elf_size(from, out_size);
	if (probe_read(archive, from, sizeof(archive)) &&
	    memcmp(archive, "!<arch>\n", sizeof(archive)) == 0)
		return IMAGE_E_INVALID;
	return text_size(from, out_size);
}

/* The fatbins of a version 2 wrapper, main one first. */
struct parts {
	const void **from;
	uint64_t *sizes;
	uint32_t count;
	uint64_t total;
};

static int
parts_add(struct parts *parts, const void *from)
{
	uint64_t size = 0;
	void *grown;
	int r;

	r = fatbin_size(from, &size);
	if (r != 0)
		return r;
	if (!probe_readable(from, size) || parts->count == IMAGE_PARTS_MAX ||
	    parts->total + size > IMAGE_MAX)
		return IMAGE_E_INVALID;
	if (parts->count % 64 == 0) {
		grown = reallocarray(parts->from, parts->count + 64,
				     sizeof(*parts->from));
		if (grown == NULL)
			return err_origin(-ENOMEM);
		parts->from = grown;
		grown = reallocarray(parts->sizes, parts->count + 64,
				     sizeof(*parts->sizes));
		if (grown == NULL)
			return err_origin(-ENOMEM);
		parts->sizes = grown;
	}
	parts->from[parts->count] = from;
	parts->sizes[parts->count++] = size;
	parts->total += size;
	return 0;
}

static void
parts_fini(struct parts *parts)
{
	free(parts->from);
	free(parts->sizes);
}

static int
parts_collect(struct parts *parts, const struct wrapper *wrapper)
{
	const void *const *more = wrapper->more;
	const void *fatbin;
	int r;

	r = parts_add(parts, wrapper->fatbin);
	for (; r == 0 && more != NULL; more++) {
		if (!probe_read(&fatbin, more, sizeof(fatbin)))
			return IMAGE_E_INVALID;
		if (fatbin == NULL)
			break;
		r = parts_add(parts, fatbin);
	}
	return r;
}

static int
parts_gather(struct image *image, const struct parts *parts)
{
	/* A zero behind the count puts the sizes, and mostly the fatbins,
	 * at multiples of 8. */
	uint32_t start[2] = { parts->count, 0 };
	size_t head = sizeof(start) + parts->count * sizeof(uint64_t);
	size_t size = head + parts->total;
	uint8_t *blob, *to;

	blob = malloc(size);
	if (blob == NULL)
		return err_origin(-ENOMEM);
	memcpy(blob, start, sizeof(start));
	memcpy(blob + sizeof(start), parts->sizes,
	       parts->count * sizeof(uint64_t));
	to = blob + head;
	for (uint32_t i = 0; i < parts->count; i++) {
		memcpy(to, parts->from[i], parts->sizes[i]);
		to += parts->sizes[i];
	}
	*image = (struct image){ .kind = MODULE_FATBINS, .data = blob,
				 .size = size, .owned = blob };
	return 0;
}

static int
wrapper_find(struct image *image, const void *from)
{
	__attribute__((cleanup(parts_fini))) struct parts parts = { 0 };
	struct wrapper wrapper;
	int r;

	if (!probe_read(&wrapper, from, sizeof(wrapper)) ||
	    (wrapper.version != 1 && wrapper.version != 2))
		return IMAGE_E_INVALID;
	/* In version 1 the second pointer names a file, or is NULL. */
	if (wrapper.version == 1)
		wrapper.more = NULL;
	r = parts_collect(&parts, &wrapper);
	if (r != 0)
		return err_trace(r);
	if (parts.count == 1)
		return found(image, parts.from[0], parts.sizes[0]);
	return err_trace(parts_gather(image, &parts));
}

int
image_find(struct image *image, const void *from)
{
	uint64_t size = 0;
	uint32_t magic;
	int r;

	*image = (struct image){ 0 };
	if (probe_read(&magic, from, sizeof(magic)) && magic == WRAPPER_MAGIC)
		return err_trace(wrapper_find(image, from));
	r = bare_size(from, &size);
	return r != 0 ? r : found(image, from, size);
}

int
image_find_sized(struct image *image, const void *from, size_t size)
{
	*image = (struct image){ 0 };
	return found(image, from, size);
}

void
image_fini(struct image *image)
{
	free(image->owned);
	*image = (struct image){ 0 };
}
