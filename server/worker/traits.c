/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the code of an image is, told by its symbols: may several clients use
 * one load of it, does it print, use the device heap or launch kernels, has it
 * managed variables.
 *
 * Code may be shared when no client can see another's writes through it, so
 * when it has no variables but such as no kernel writes. Names tell
 * them: nothing else does, as the compiler puts strings and tables into
 * writable sections and lists every variable's address in a constant bank
 * (seen in nvcc 11.8 to 13.0). PyTorch 2.11 has 444 images, all with
 * variables; by the names below 441 of them can be shared.
 */
#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/fatbin.h"
#include "server/worker/module.h"

/* Types of symbols that are nvcc's own: texture, surface and sampler
 * references, which a client binds. */
#define STT_CUDA_FIRST 10
/* Of sm_90 and later: how much shared memory of each block is the system's.
 * The loader defines it. */
#define RESERVED_SHARED ".nv.reservedSmem"
/* nvcc's mark on the symbol of a managed variable (seen in st_other). */
#define OTHER_MANAGED 0x04u
/* Of PTX: more variables than this are not looked up one by one. */
#define PTX_NAMES_MAX 256

struct span {
	const char *at;
	size_t size;
};

static bool
begins(struct span name, const char *with)
{
	size_t n = strlen(with);

	return name.size >= n && !memcmp(name.at, with, n);
}

static bool
equals(struct span name, const char *other)
{
	return name.size == strlen(other) && begins(name, other);
}

/* The part of a mangled name behind _ZN and, where the variable is of one
 * file, the component that names it. */
static struct span
inner_name(struct span name)
{
	size_t at = 3, length = 0;

	while (at < name.size && isdigit((unsigned char)name.at[at]))
		length = length * 10 + (size_t)(name.at[at++] - '0');
	if (length > name.size - at)
		length = 0;
	if (begins((struct span){name.at + at, name.size - at}, "_INTERNAL_"))
		at += length;
	else
		at = 3;
	return (struct span){name.at + at, name.size - at};
}

/*
 * Objects without members, which stand for functions and tags: one byte that
 * nothing reads or writes. Every file that includes a header of CCCL or
 * CUTLASS has some thirty.
 */
static bool
is_empty_object(struct span name, uint64_t size)
{
	struct span inner;

	if (size != 1 || !begins(name, "_ZN"))
		return false;
	inner = inner_name(name);
	return begins(inner, "4cuda3std") || begins(inner, "6thrust") ||
	       equals(inner, "4cute1_E") || equals(inner, "4cute7productE");
}

/* Strings of assertions and printf, vtables, and the tables of the math
 * library and of cuRAND's headers. */
static bool
is_constant(struct span name)
{
	static const char *const prefixes[] = {
		"$str", "__unnamed_", "_ZTV", "__cudart_", "__cr_",
	};
	static const char *const names[] = {
		"precalc_xorwow_matrix", "precalc_xorwow_offset_matrix",
		"mrg32k3aM1", "mrg32k3aM1SubSeq", "mrg32k3aM1Seq",
		"mrg32k3aM2", "mrg32k3aM2SubSeq", "mrg32k3aM2Seq",
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (begins(name, prefixes[i]))
			return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (equals(name, names[i]))
			return true;
	return false;
}

static bool
is_harmless(struct span name, uint64_t size)
{
	return is_constant(name) || is_empty_object(name, size);
}

/* What it calls of the device's runtime, as nvcc 11.8 to 13.0 name it. */
static void
note_function(struct wkr_traits *traits, struct span name)
{
	traits->prints |= equals(name, "vprintf");
	traits->heap |= equals(name, "malloc") || equals(name, "free");
	traits->launches |= begins(name, "__cudaCDP") ||
			    begins(name, "__cuda_syscall_cnp") ||
			    begins(name, "cudaLaunchDevice") ||
			    begins(name, "cudaGetParameterBuffer");
}

/* ---- machine code; soundness has been checked */

struct elf {
	const char *data;
	size_t size;
	Elf64_Ehdr eh;
};

static bool
section(const struct elf *elf, unsigned index, Elf64_Shdr *out)
{
	if (index >= elf->eh.e_shnum)
		return false;
	memcpy(out, elf->data + elf->eh.e_shoff + index * sizeof(*out),
	       sizeof(*out));
	return true;
}

/* A string of a string table; empty when it is not there. */
static struct span
string(const struct elf *elf, const Elf64_Shdr *table, uint64_t at)
{
	if (table->sh_type != SHT_STRTAB || at >= table->sh_size)
		return (struct span){"", 0};
	return (struct span){
		elf->data + table->sh_offset + at,
		strnlen(elf->data + table->sh_offset + at,
			(size_t)(table->sh_size - at)),
	};
}

/* Which variables that outlive a kernel does a section hold? */
enum holding { HOLDS_NONE, HOLDS_CONSTANTS, HOLDS_GLOBALS };

static enum holding
held_by(const struct elf *elf, const Elf64_Shdr *sh)
{
	Elf64_Shdr names;
	struct span name;

	if (!section(elf, elf->eh.e_shstrndx, &names))
		return HOLDS_GLOBALS;
	name = string(elf, &names, sh->sh_name);
	if (begins(name, ".nv.global"))
		return HOLDS_GLOBALS;
	/* Bank 3 is that of __constant__ variables. */
	return begins(name, ".nv.constant3") ? HOLDS_CONSTANTS : HOLDS_NONE;
}

/* A variable that only the host writes, by its address, or kernels too. */
static void
note_variable(struct wkr_traits *traits, enum holding held)
{
	traits->shares = false;
	traits->state |= held == HOLDS_GLOBALS;
}

static void
note_managed(struct wkr_traits *traits, struct span name)
{
	traits->managed = true;
	if (!*traits->managed_name)
		snprintf(traits->managed_name, sizeof(traits->managed_name),
			 "%.*s", (int)name.size, name.at);
}

static void
look_at_symbol(const struct elf *elf, const Elf64_Shdr *names,
	       const Elf64_Sym *sym, uint64_t *named, struct wkr_traits *traits)
{
	struct span name = string(elf, names, sym->st_name);
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	Elf64_Shdr home;

	/* In somebody's own functions these names mean nothing. */
	if (!sym->st_shndx)
		note_function(traits, name);
	if (type >= STT_CUDA_FIRST)
		note_variable(traits, HOLDS_GLOBALS);
	if (type != STT_OBJECT ||
	    (!sym->st_shndx && begins(name, RESERVED_SHARED)))
		return;
	if (sym->st_other & OTHER_MANAGED)
		note_managed(traits, name);
	if (!sym->st_shndx || !section(elf, sym->st_shndx, &home)) {
		/* Another module's. */
		note_variable(traits, HOLDS_GLOBALS);
	} else if (held_by(elf, &home)) {
		/* What lies between them is at most their alignment. */
		named[sym->st_shndx] += sym->st_size + 16;
		traits->variables = true;
		if (!is_harmless(name, sym->st_size))
			note_variable(traits, held_by(elf, &home));
	}
}

static void
look_at_table(const struct elf *elf, const Elf64_Shdr *table, uint64_t *named,
	      struct wkr_traits *traits)
{
	Elf64_Shdr names;
	Elf64_Sym sym;

	if (table->sh_entsize != sizeof(sym) ||
	    !section(elf, table->sh_link, &names)) {
		note_variable(traits, HOLDS_GLOBALS);
		return;
	}
	for (uint64_t at = 0; at + sizeof(sym) <= table->sh_size;
	     at += sizeof(sym)) {
		memcpy(&sym, elf->data + table->sh_offset + at, sizeof(sym));
		look_at_symbol(elf, &names, &sym, named, traits);
	}
}

static void
look_at_elf(const char *data, size_t size, struct wkr_traits *traits)
{
	struct elf elf = {.data = data, .size = size};
	_cleanup_free_ uint64_t *named = NULL;
	Elf64_Shdr sh;

	memcpy(&elf.eh, data, sizeof(elf.eh));
	named = calloc((size_t)elf.eh.e_shnum + 1, sizeof(*named));
	if (!named) {
		*traits = WKR_TRAITS_UNKNOWN;
		return;
	}
	for (unsigned i = 0; section(&elf, i, &sh); i++)
		if (sh.sh_type == SHT_SYMTAB)
			look_at_table(&elf, &sh, named, traits);
	/* Bytes without a name may be anything. */
	for (unsigned i = 0; section(&elf, i, &sh); i++)
		if (held_by(&elf, &sh) && sh.sh_size > named[i])
			note_variable(traits, held_by(&elf, &sh));
}

/* ---- text */

static bool
is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' ||
	       c == '.';
}

/* The next word at or after *at: names, directives, numbers; or one other
 * character. Comments are left out. Empty: the end. */
static struct span
next_word(const char *text, size_t size, size_t *at)
{
	size_t i = *at, start;

	for (;;) {
		while (i < size && isspace((unsigned char)text[i]))
			i++;
		if (i + 1 >= size || text[i] != '/')
			break;
		if (text[i + 1] == '/') {
			while (i < size && text[i] != '\n')
				i++;
		} else if (text[i + 1] == '*') {
			for (i += 2; i + 1 < size; i++)
				if (text[i] == '*' && text[i + 1] == '/')
					break;
			i = i + 2 < size ? i + 2 : size;
		} else {
			break;
		}
	}
	start = i;
	while (i < size && is_name(text[i]))
		i++;
	if (i == start && i < size)
		i++;
	*at = i;
	return (struct span){text + start, i - start};
}

/* How often a word occurs, up to twice. */
static unsigned
count_word(const char *text, size_t size, struct span word)
{
	const char *end = text + size, *p = text;
	unsigned n = 0;

	while (n < 2 && (p = memmem(p, (size_t)(end - p), word.at, word.size))) {
		const char *behind = p + word.size;

		if ((p == text || !is_name(p[-1])) &&
		    (behind == end || !is_name(*behind)))
			n++;
		p = behind;
	}
	return n;
}

/* A variable that is declared and never used cannot be written. */
static bool
is_used(const char *text, size_t size, struct span name, unsigned *budget)
{
	/* Of these the names say enough, whatever their size is. */
	if (is_harmless(name, 1))
		return false;
	if (!*budget)
		return true;
	--*budget;
	return count_word(text, size, name) > 1;
}

static void
look_at_word(struct span w, struct wkr_traits *traits)
{
	note_function(traits, w);
	if (equals(w, ".texref") || equals(w, ".surfref") ||
	    equals(w, ".samplerref"))
		note_variable(traits, HOLDS_GLOBALS);
}

/* Behind .global or .const: the names declared, up to the semicolon. */
static void
look_at_declaration(const char *text, size_t size, size_t *at, unsigned *budget,
		    enum holding held, struct wkr_traits *traits)
{
	unsigned depth = 0;
	bool named = false, managed = false;
	struct span w;

	traits->variables = true;
	while ((w = next_word(text, size, at)).size && *w.at != ';') {
		look_at_word(w, traits);
		managed |= equals(w, ".managed");
		if (*w.at == '{' || *w.at == '(' || *w.at == '[')
			depth++;
		else if (*w.at == '}' || *w.at == ')' || *w.at == ']')
			depth -= depth > 0;
		else if (depth)
			continue;
		else if (*w.at == ',')
			named = false;
		else if (!named && !isdigit((unsigned char)*w.at) &&
			 *w.at != '.' && is_name(*w.at)) {
			named = true;
			if (managed)
				note_managed(traits, w);
			if (is_used(text, size, w, budget))
				note_variable(traits, held);
		}
	}
}

static void
look_at_text(const char *text, size_t size, struct wkr_traits *traits)
{
	unsigned budget = PTX_NAMES_MAX;
	struct span w, before = {"", 0};
	bool version = false, target = false;
	size_t at = 0;

	size = strnlen(text, size);
	while ((w = next_word(text, size, &at)).size) {
		look_at_word(w, traits);
		version |= equals(w, ".version");
		target |= equals(w, ".target");
		/* .ptr .global says of a parameter where it points. */
		if ((equals(w, ".global") || equals(w, ".const")) &&
		    !equals(before, ".ptr")) {
			enum holding held = equals(w, ".const") ?
				HOLDS_CONSTANTS : HOLDS_GLOBALS;

			if (equals(before, ".extern"))
				note_variable(traits, held);
			look_at_declaration(text, size, &at, &budget, held,
					    traits);
		}
		before = w;
	}
	traits->untargeted |= version && !target;
}

/* ---- images */

static void
look_at_code(const char *data, size_t size, struct wkr_traits *traits)
{
	if (size < 4 || memcmp(data, ELFMAG, SELFMAG) != 0)
		look_at_text(data, size, traits);
	else if (wkr_image_is_sound((const uint8_t *)data, size))
		look_at_elf(data, size, traits);
	else
		*traits = WKR_TRAITS_UNKNOWN;
}

static void
look_at_entry(const struct fatbin_entry *e, struct wkr_traits *traits)
{
	_cleanup_free_ char *data = NULL;
	size_t size;

	if (!fatbin_is_compressed(e))
		look_at_code((const char *)e->payload, e->size, traits);
	else if (fatbin_expand(e, &data, &size) == 0)
		look_at_code(data, size, traits);
	else
		*traits = WKR_TRAITS_UNKNOWN;
}

/* Could the device run this entry? Machine code of another generation never;
 * text of a newer one never. */
static bool
is_candidate(const struct fatbin_entry *e, unsigned sm)
{
	if (e->kind == FATBIN_ELF)
		return e->sm / 10 == sm / 10;
	return e->kind == FATBIN_PTX && e->sm <= sm;
}

static void
look_at_fatbin(const uint8_t *data, size_t size, unsigned sm,
	       struct wkr_traits *traits)
{
	struct fatbin_entry e;
	bool any = false;
	size_t at = 0;

	while (fatbin_next(data, size, &at, &e)) {
		if (!is_candidate(&e, sm))
			continue;
		any = true;
		look_at_entry(&e, traits);
	}
	/* Code of a kind that only the driver reads. */
	if (!any)
		*traits = WKR_TRAITS_UNKNOWN;
}

struct wkr_traits
wkr_image_traits(const uint8_t *data, size_t size, unsigned sm)
{
	struct wkr_traits traits = {.shares = true};
	size_t whole = fatbin_size(data, size);

	if (whole)
		look_at_fatbin(data, whole, sm, &traits);
	else
		look_at_code((const char *)data, size, &traits);
	return traits;
}
