/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF cubins: machine code that cannot run here, but whose kernels,
 * parameters and variables a program may ask for.
 *
 * Section names carry the kernel's: .text.NAME, .nv.info.NAME,
 * .nv.shared.NAME. An .nv.info section is a list of attributes: format,
 * code, 16-bit size or value, payload.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/soft/soft_image.h"

#define EM_CUDA_MACHINE 190
/* Finding a kernel by name is a walk; this bounds a hostile one. */
#define KERNELS_MAX 8192u
/* Of every block's shared memory the system keeps this much (sm_90). */
#define SHARED_RESERVED 1024u
#define PARAMS_MAX 4096u
#define SYMBOL_MAX ((uint64_t)1 << 32)

enum {
	INFO_FORMAT_SIZED = 4,
	INFO_MAX_THREADS = 0x05,
	INFO_KPARAM = 0x17,
	INFO_KPARAM_V2 = 0x45,
};

/* The file and its section table; every accessor checks. */
struct view {
	const char *data;
	size_t size;
	const Elf64_Shdr *sections;   /* copied, aligned */
	unsigned section_count;
	const char *names;
	size_t names_size;
};

static int
spans(size_t size, uint64_t offset, uint64_t length)
{
	return offset <= size && length <= size - offset;
}

static int
read_header(const char *data, size_t limit, Elf64_Ehdr *out)
{
	if (limit < sizeof(*out))
		return 0;
	memcpy(out, data, sizeof(*out));
	return !memcmp(out->e_ident, ELFMAG, SELFMAG) &&
	       out->e_ident[EI_CLASS] == ELFCLASS64 &&
	       out->e_ident[EI_DATA] == ELFDATA2LSB &&
	       out->e_machine == EM_CUDA_MACHINE;
}

static uint64_t
later(uint64_t end, uint64_t offset, uint64_t length)
{
	uint64_t this_end;

	if (__builtin_add_overflow(offset, length, &this_end))
		return UINT64_MAX;
	return this_end > end ? this_end : end;
}

size_t
soft_elf_length(const char *data, size_t limit)
{
	Elf64_Ehdr eh;
	uint64_t end;

	if (!read_header(data, limit, &eh))
		return 0;
	if ((eh.e_shnum && eh.e_shentsize != sizeof(Elf64_Shdr)) ||
	    (eh.e_phnum && eh.e_phentsize != sizeof(Elf64_Phdr)))
		return 0;
	end = later(sizeof(eh), eh.e_shoff,
		    (uint64_t)eh.e_shnum * sizeof(Elf64_Shdr));
	end = later(end, eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(Elf64_Phdr));
	if (end > limit || end > (uint64_t)1 << 40)
		return 0;
	for (unsigned i = 0; i < eh.e_shnum; i++) {
		Elf64_Shdr sh;

		memcpy(&sh, data + eh.e_shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_type != SHT_NOBITS && sh.sh_type != SHT_NULL)
			end = later(end, sh.sh_offset, sh.sh_size);
	}
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, data + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		end = later(end, ph.p_offset, ph.p_filesz);
	}
	return end > limit || end > (uint64_t)1 << 40 ? 0 : (size_t)end;
}

static int
view_open(struct view *v, Elf64_Shdr **out_sections, const char *data,
	  size_t size)
{
	Elf64_Ehdr eh;
	const Elf64_Shdr *names;
	size_t bytes;

	if (!read_header(data, size, &eh))
		return SOFT_IMAGE_E_INVALID;
	bytes = (size_t)eh.e_shnum * sizeof(Elf64_Shdr);
	if (!eh.e_shnum || eh.e_shentsize != sizeof(Elf64_Shdr) ||
	    !spans(size, eh.e_shoff, bytes) || eh.e_shstrndx >= eh.e_shnum)
		return SOFT_IMAGE_E_INVALID;
	*out_sections = malloc(bytes);
	if (!*out_sections)
		return -ENOMEM;
	memcpy(*out_sections, data + eh.e_shoff, bytes);
	v->data = data;
	v->size = size;
	v->sections = *out_sections;
	v->section_count = eh.e_shnum;
	names = &v->sections[eh.e_shstrndx];
	if (!spans(size, names->sh_offset, names->sh_size))
		return SOFT_IMAGE_E_INVALID;
	v->names = data + names->sh_offset;
	v->names_size = names->sh_size;
	return 0;
}

/* A NUL-terminated string inside [table, table + size), or NULL. */
static const char *
string_at(const char *table, size_t size, size_t offset)
{
	if (offset >= size || !memchr(table + offset, '\0', size - offset))
		return NULL;
	return table + offset;
}

static const char *
section_name(const struct view *v, unsigned i)
{
	const char *name = string_at(v->names, v->names_size,
				     v->sections[i].sh_name);

	return name ? name : "";
}

static const char *
section_data(const struct view *v, unsigned i, size_t *out_size)
{
	const Elf64_Shdr *sh = &v->sections[i];

	if (sh->sh_type == SHT_NOBITS ||
	    !spans(v->size, sh->sh_offset, sh->sh_size))
		return NULL;
	*out_size = (size_t)sh->sh_size;
	return v->data + sh->sh_offset;
}

static struct soft_elf_kernel *
kernel_named(struct soft_elf *elf, const char *name)
{
	for (unsigned i = 0; i < elf->kernel_count; i++)
		if (!strcmp(elf->kernels[i].name, name))
			return &elf->kernels[i];
	return NULL;
}

static int
add_kernel(struct soft_elf *elf, const struct view *v, unsigned section,
	   const char *name)
{
	const Elf64_Shdr *sh = &v->sections[section];
	struct soft_elf_kernel *grown, *kernel;

	if (elf->kernel_count >= KERNELS_MAX)
		return SOFT_IMAGE_E_INVALID;
	if (!(elf->kernel_count & (elf->kernel_count - 1))) {
		size_t room = elf->kernel_count ? elf->kernel_count * 2 : 1;

		grown = realloc(elf->kernels, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		elf->kernels = grown;
	}
	kernel = &elf->kernels[elf->kernel_count];
	memset(kernel, 0, sizeof(*kernel));
	kernel->name = strdup(name);
	if (!kernel->name)
		return -ENOMEM;
	kernel->regs = sh->sh_info >> 24;   /* of older compilers */
	if (!kernel->regs)
		kernel->regs = 32;
	kernel->max_threads = 1024;
	elf->kernel_count++;
	return 0;
}

static int
set_param(struct soft_elf_kernel *kernel, uint32_t ordinal, uint32_t offset,
	  uint32_t size)
{
	if (ordinal >= PARAMS_MAX || offset > 32768 || size > 32768)
		return SOFT_IMAGE_E_INVALID;
	if (ordinal >= kernel->nparams) {
		struct soft_elf_param *grown;

		grown = realloc(kernel->params, (ordinal + 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + kernel->nparams, 0,
		       (ordinal + 1 - kernel->nparams) * sizeof(*grown));
		kernel->params = grown;
		kernel->nparams = ordinal + 1;
	}
	kernel->params[ordinal].offset = offset;
	kernel->params[ordinal].size = size;
	if (offset + size > kernel->param_size)
		kernel->param_size = offset + size;
	return 0;
}

static uint32_t
word(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int
info_attribute(struct soft_elf_kernel *kernel, unsigned code, const char *at,
	       size_t size)
{
	switch (code) {
	case INFO_KPARAM:
		/* index; ordinal and offset; space, and size from bit 18. */
		if (size < 12)
			return SOFT_IMAGE_E_INVALID;
		return set_param(kernel, word(at + 4) & 0xffff,
				 word(at + 4) >> 16, word(at + 8) >> 18);
	case INFO_KPARAM_V2:
		if (size < 16)
			return SOFT_IMAGE_E_INVALID;
		return set_param(kernel, word(at + 4) & 0xffff,
				 word(at + 8) & 0xffff, word(at + 12) & 0xffff);
	case INFO_MAX_THREADS:
		if (size >= 12)
			kernel->max_threads = word(at) * word(at + 4) *
					      word(at + 8);
		if (!kernel->max_threads || kernel->max_threads > 1024)
			kernel->max_threads = 1024;
		return 0;
	default:
		return 0;
	}
}

static int
read_info(struct soft_elf_kernel *kernel, const char *at, size_t left)
{
	while (left >= 4) {
		unsigned format = (unsigned char)at[0];
		unsigned code = (unsigned char)at[1];
		unsigned value = (unsigned char)at[2] |
				 (unsigned)(unsigned char)at[3] << 8;
		int r;

		at += 4;
		left -= 4;
		if (format != INFO_FORMAT_SIZED)
			continue;
		if (value > left)
			return SOFT_IMAGE_E_INVALID;
		r = info_attribute(kernel, code, at, value);
		if (r)
			return r;
		at += value;
		left -= value;
	}
	return 0;
}

static int
add_symbol(struct soft_elf *elf, const struct view *v, const Elf64_Sym *sym,
	   const char *name)
{
	struct soft_elf_symbol *grown, *symbol;
	const char *initial;
	size_t size = 0;

	grown = realloc(elf->symbols, (elf->symbol_count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	elf->symbols = grown;
	symbol = &grown[elf->symbol_count];
	memset(symbol, 0, sizeof(*symbol));
	symbol->name = strdup(name);
	if (!symbol->name)
		return -ENOMEM;
	elf->symbol_count++;
	symbol->size = sym->st_size;
	initial = section_data(v, sym->st_shndx, &size);
	if (!initial || !spans(size, sym->st_value, sym->st_size))
		return 0;
	symbol->initial = malloc(sym->st_size);
	if (!symbol->initial)
		return -ENOMEM;
	memcpy(symbol->initial, initial + sym->st_value, sym->st_size);
	return 0;
}

static int
is_variable(const struct view *v, const Elf64_Sym *sym)
{
	const char *section;

	if (ELF64_ST_TYPE(sym->st_info) != STT_OBJECT || !sym->st_size ||
	    sym->st_size > SYMBOL_MAX || sym->st_shndx >= v->section_count)
		return 0;
	section = section_name(v, sym->st_shndx);
	return !strncmp(section, ".nv.global", 10) ||
	       !strncmp(section, ".nv.constant3", 13);
}

static int
read_symbols(struct soft_elf *elf, const struct view *v, unsigned section)
{
	const Elf64_Shdr *sh = &v->sections[section];
	const char *at, *strings;
	size_t size, strings_size;
	int r = 0;

	at = section_data(v, section, &size);
	if (!at || sh->sh_link >= v->section_count)
		return SOFT_IMAGE_E_INVALID;
	strings = section_data(v, sh->sh_link, &strings_size);
	if (!strings)
		return SOFT_IMAGE_E_INVALID;
	for (; size >= sizeof(Elf64_Sym) && !r; size -= sizeof(Elf64_Sym)) {
		const char *name;
		Elf64_Sym sym;

		memcpy(&sym, at, sizeof(sym));
		at += sizeof(sym);
		if (!is_variable(v, &sym))
			continue;
		name = string_at(strings, strings_size, sym.st_name);
		if (name && *name)
			r = add_symbol(elf, v, &sym, name);
	}
	return r;
}

static int
read_sections(struct soft_elf *elf, const struct view *v)
{
	int r = 0;

	for (unsigned i = 0; i < v->section_count && !r; i++) {
		const char *name = section_name(v, i);

		if (!strncmp(name, ".text.", 6) && name[6])
			r = add_kernel(elf, v, i, name + 6);
	}
	for (unsigned i = 0; i < v->section_count && !r; i++) {
		const char *name = section_name(v, i), *data;
		struct soft_elf_kernel *kernel;
		size_t size;

		if (v->sections[i].sh_type == SHT_SYMTAB)
			r = read_symbols(elf, v, i);
		if (!strncmp(name, ".nv.shared.", 11)) {
			kernel = kernel_named(elf, name + 11);
			if (kernel && v->sections[i].sh_size <= 1 << 20)
				kernel->shared_static = (uint32_t)
					v->sections[i].sh_size;
		}
		if (strncmp(name, ".nv.info.", 9))
			continue;
		kernel = kernel_named(elf, name + 9);
		data = section_data(v, i, &size);
		if (kernel && data)
			r = read_info(kernel, data, size);
	}
	for (unsigned i = 0; i < elf->kernel_count; i++)
		if (elf->kernels[i].shared_static >= SHARED_RESERVED)
			elf->kernels[i].shared_static -= SHARED_RESERVED;
	return r;
}

int
soft_elf_open(struct soft_elf *elf, const char *data, size_t size)
{
	Elf64_Shdr *sections = NULL;
	Elf64_Ehdr eh;
	struct view v = { 0 };
	int r;

	memset(elf, 0, sizeof(*elf));
	r = view_open(&v, &sections, data, size);
	if (!r)
		r = read_sections(elf, &v);
	free(sections);
	if (r) {
		soft_elf_close(elf);
		return r;
	}
	read_header(data, size, &eh);
	elf->sm = (eh.e_flags >> 8 & 0xff) >= 50 ? eh.e_flags >> 8 & 0xff :
		  eh.e_flags & 0xff;
	return 0;
}

void
soft_elf_close(struct soft_elf *elf)
{
	for (unsigned i = 0; i < elf->kernel_count; i++) {
		free(elf->kernels[i].name);
		free(elf->kernels[i].params);
	}
	for (unsigned i = 0; i < elf->symbol_count; i++) {
		free(elf->symbols[i].name);
		free(elf->symbols[i].initial);
	}
	free(elf->kernels);
	free(elf->symbols);
	memset(elf, 0, sizeof(*elf));
}
