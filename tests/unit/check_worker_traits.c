/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker reads off code before it lets clients share a load of it. */
#include <check.h>
#include <elf.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "server/fatbin.h"
#include "server/worker/compile.h"
#include "server/worker/module.h"
#include "tests/unit/suite.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define SM 90

static struct wkr_traits
of_text(const char *text)
{
	return wkr_image_traits((const uint8_t *)text, strlen(text) + 1, SM);
}

static bool
shares(const char *text)
{
	return of_text(text).shares;
}

/* ---- PTX */

START_TEST(code_without_variables_is_shared)
{
	struct wkr_traits t = of_text(
		HEAD ".visible .entry f(.param .u64 .ptr .global .align 8 p)\n"
		     "{\n ld.global.u32 %r1, [%rd1];\n ret;\n}\n");

	ck_assert(t.shares);
	ck_assert(!t.variables);
	ck_assert(!t.prints);
	ck_assert(!t.managed);
}
END_TEST

START_TEST(a_variable_that_a_kernel_uses_is_not_shared)
{
	ck_assert(!shares(HEAD ".visible .global .align 4 .u32 count = 5;\n"
			       ".entry f() { atom.global.add.u32 %r1, [count], 1; }"));
	ck_assert(!shares(HEAD ".const .align 4 .b8 table[8];\n"
			       ".entry f() { ld.const.u32 %r1, [table+4]; }"));
	ck_assert(!shares(HEAD ".entry g(){ret;} .global .u32 a, count;\n"
			       ".entry f() { st.global.u32 [count], 1; }"));
	ck_assert(!shares(HEAD ".global .u64 where = generic(count);\n"
			       ".global .u32 count;\n"));
	ck_assert(!shares(HEAD "/* a */.global // b\n.align 4 .u32 count;"
			       "mov.u64 %rd1, count;"));
}
END_TEST

START_TEST(kernels_write_variables_but_no_constants)
{
	ck_assert(of_text(HEAD ".global .u32 n; st.global.u32 [n], 1;").state);
	ck_assert(!of_text(HEAD ".const .u32 n; ld.const.u32 %r1, [n];").state);
	ck_assert(!of_text(HEAD ".global .u32 n;").state);
}
END_TEST

START_TEST(a_variable_that_nobody_uses_is_shared)
{
	struct wkr_traits t = of_text(HEAD
		".visible .global .align 4 .u32 count = 5;\n"
		".global .align 4 .b8 t[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
		".entry f() { add.u32 %r1, %r2, %counter; }");

	ck_assert(t.shares);
	ck_assert(t.variables);
}
END_TEST

START_TEST(strings_and_tables_of_the_compiler_are_shared)
{
	ck_assert(shares(HEAD ".global .align 1 .b8 $str[3] = {37, 100, 0};\n"
			      ".global .align 1 .b8 __unnamed_1[2] = {1, 0};\n"
			      ".global .align 4 .b8 __cudart_i2opi_f[24];\n"
			      "mov.u64 %rd1, $str; mov.u64 %rd2, __unnamed_1;"
			      "mov.u64 %rd2, __cudart_i2opi_f;"));
	ck_assert(shares(HEAD
		".global .align 1 .b8 _ZN39_INTERNAL_01234567_5_x_cu_89abcdef_1234"
		"4cuda3std3__45__cpo5beginE[1];\n"
		"mov.u64 %rd1, _ZN39_INTERNAL_01234567_5_x_cu_89abcdef_1234"
		"4cuda3std3__45__cpo5beginE;"));
}
END_TEST

START_TEST(code_for_no_architecture_is_told)
{
	ck_assert(of_text(".version 7.0\n").untargeted);
	ck_assert(of_text("/* .target sm_70 */ .version 7.0\n").untargeted);
	ck_assert(!of_text(HEAD ".entry f() { ret; }").untargeted);
	/* The driver has another answer for what is no PTX at all. */
	ck_assert(!of_text("junk").untargeted);
	ck_assert(!of_text("").untargeted);
}
END_TEST

START_TEST(what_others_define_or_bind_is_not_shared)
{
	ck_assert(!shares(HEAD ".extern .global .align 4 .u32 count;\n"));
	ck_assert(!shares(HEAD ".global .texref image;\n"));
	ck_assert(!shares(HEAD ".global .surfref image;\n"));
}
END_TEST

START_TEST(text_says_that_it_prints_or_is_managed)
{
	ck_assert(of_text(HEAD "call (r), vprintf, (a, b);").prints);
	ck_assert(!of_text(HEAD "call (r), my_vprintf, (a, b);").prints);
	ck_assert(of_text(HEAD ".global .attribute(.managed) .u32 x;").managed);
	ck_assert_str_eq(of_text(HEAD ".global .u32 y;\n.visible .global "
				 ".attribute(.managed) .align 4 .b8 x[8];\n"
				 ".global .u32 z;").managed_name, "x");
	ck_assert(!of_text(HEAD ".global .u32 managed;").managed);
}
END_TEST

START_TEST(text_says_that_it_uses_the_heap_or_launches)
{
	struct wkr_traits t = of_text(HEAD
		".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
		".entry f() { call.uni (r), malloc, (n); }");

	ck_assert(t.heap);
	ck_assert(!t.launches);
	ck_assert(t.shares);
	ck_assert(of_text(HEAD ".extern .func free (.param .b64 p);").heap);
	ck_assert(!of_text(HEAD ".func my_malloc() { ret; }").heap);
	t = of_text(HEAD ".extern .func (.param .b32 r) "
		    "__cudaCDP2LaunchDeviceV2(.param .b64 p, .param .b64 s);");
	ck_assert(t.launches);
	ck_assert(!t.heap);
	ck_assert(of_text(HEAD "call (r), cudaLaunchDevice, (a);").launches);
}
END_TEST

START_TEST(more_variables_than_are_looked_up_are_not_shared)
{
	static char text[64 * 1024];
	size_t at = (size_t)snprintf(text, sizeof(text), HEAD);

	for (int i = 0; i < 1000; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       ".global .u32 v%d;\n", i);
	ck_assert(!shares(text));
}
END_TEST

START_TEST(text_that_ends_anywhere_is_read_to_its_end)
{
	static const char whole[] = HEAD
		".visible .global .align 4 .u32 count[2] = {1, /* x */ 2};\n"
		"// end\n.entry f() { st.global.u32 [count], 1; }";

	for (size_t n = 0; n < sizeof(whole); n++) {
		char *cut = strndup(whole, n);

		wkr_image_traits((const uint8_t *)cut, n, SM);
		free(cut);
	}
}
END_TEST

/* ---- machine code */

/* A cubin with one section of variables and one symbol. */
struct cubin {
	Elf64_Ehdr eh;
	Elf64_Shdr sh[4];
	Elf64_Sym sym[2];
	char names[64];		/* of sections */
	char strings[128];	/* of symbols */
	char data[32];
};

static struct cubin
make_cubin(const char *section, const char *symbol, uint64_t size)
{
	struct cubin c = {
		.eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
		       .e_shoff = offsetof(struct cubin, sh),
		       .e_shnum = 4,
		       .e_shentsize = sizeof(Elf64_Shdr),
		       .e_shstrndx = 1},
		.sh = {[1] = {.sh_type = SHT_STRTAB,
			      .sh_offset = offsetof(struct cubin, names),
			      .sh_size = sizeof(c.names)},
		       [2] = {.sh_type = SHT_SYMTAB,
			      .sh_offset = offsetof(struct cubin, sym),
			      .sh_size = sizeof(c.sym),
			      .sh_entsize = sizeof(Elf64_Sym),
			      .sh_link = 3},
		       [3] = {.sh_name = 1, .sh_type = SHT_STRTAB,
			      .sh_offset = offsetof(struct cubin, strings),
			      .sh_size = sizeof(c.strings)}},
	};

	/* The table of strings stands for the section of variables too: only
	 * its name and size matter. */
	snprintf(c.names + 1, sizeof(c.names) - 1, "%s", section);
	snprintf(c.strings + 1, sizeof(c.strings) - 1, "%s", symbol);
	c.sym[1].st_name = 1;
	c.sym[1].st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
	c.sym[1].st_shndx = 3;
	c.sym[1].st_size = size;
	return c;
}

static struct wkr_traits
of_cubin(const struct cubin *c)
{
	return wkr_image_traits((const uint8_t *)c, sizeof(*c), SM);
}

START_TEST(symbols_of_machine_code_tell)
{
	struct cubin c = make_cubin(".nv.global", "count", 128);

	ck_assert(!of_cubin(&c).shares);
	ck_assert(of_cubin(&c).variables);
	ck_assert(of_cubin(&c).state);
	c = make_cubin(".nv.global.init", "$str$1", 128);
	ck_assert(of_cubin(&c).shares);
	ck_assert(!of_cubin(&c).state);
	c = make_cubin(".nv.constant3", "table", 128);
	ck_assert(!of_cubin(&c).shares);
	ck_assert(!of_cubin(&c).state);
	c = make_cubin(".nv.shared.f", "tile", 128);
	ck_assert(of_cubin(&c).shares);
	ck_assert(!of_cubin(&c).variables);
}
END_TEST

START_TEST(bytes_without_a_name_are_not_shared)
{
	struct cubin c = make_cubin(".nv.global.init", "$str", 16);

	ck_assert(!of_cubin(&c).shares);
}
END_TEST

START_TEST(empty_objects_are_shared_when_they_are_one_byte)
{
	static const char name[] = "_ZN12_INTERNAL_ab4cuda3std3__48in_placeE";
	struct cubin c = make_cubin(".nv.global", name, 1);

	c.sh[3].sh_size = 16;
	snprintf(c.strings, sizeof(c.strings), "%c%s", 0, name);
	c.sh[3].sh_size = 64;
	/* One symbol of a byte does not explain 64 bytes. */
	ck_assert(!of_cubin(&c).shares);
	c = make_cubin(".nv.global", name, 64);
	ck_assert(!of_cubin(&c).shares);
}
END_TEST

START_TEST(undefined_objects_and_references_are_not_shared)
{
	struct cubin c = make_cubin(".nv.shared.f", "elsewhere", 4);

	c.sym[1].st_shndx = SHN_UNDEF;
	ck_assert(!of_cubin(&c).shares);
	c.sym[1].st_shndx = 60000;
	ck_assert(!of_cubin(&c).shares);
	c.sym[1].st_shndx = 3;
	c.sym[1].st_info = ELF64_ST_INFO(STB_LOCAL, 10);
	ck_assert(!of_cubin(&c).shares);
}
END_TEST

/* Every kernel of sm_90 refers to it. */
START_TEST(shared_memory_of_the_system_is_no_variable)
{
	struct cubin c = make_cubin(".nv.shared.reserved.0",
				    ".nv.reservedSmem.offset0", 4);

	c.sym[1].st_info = ELF64_ST_INFO(STB_WEAK, STT_OBJECT);
	c.sym[1].st_shndx = SHN_UNDEF;
	ck_assert(of_cubin(&c).shares);
	ck_assert(!of_cubin(&c).state);
	ck_assert(!of_cubin(&c).variables);
}
END_TEST

START_TEST(machine_code_says_that_it_prints_or_is_managed)
{
	struct cubin c = make_cubin(".nv.shared.f", "vprintf", 0);

	c.sym[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	c.sym[1].st_shndx = SHN_UNDEF;
	ck_assert(of_cubin(&c).prints);
	ck_assert(of_cubin(&c).shares);
	c = make_cubin(".nv.global", "x", 4);
	c.sym[1].st_other = 4;
	ck_assert(of_cubin(&c).managed);
	ck_assert_str_eq(of_cubin(&c).managed_name, "x");
}
END_TEST

START_TEST(machine_code_says_that_it_uses_the_heap_or_launches)
{
	static const char *const names[] = {
		"malloc", "free", "__cuda_syscall_cnpv2LaunchDeviceV2",
		"__cudaCDP2LaunchDeviceV2", "cudaLaunchDeviceV2",
	};

	for (int i = 0; i < 5; i++) {
		struct cubin c = make_cubin(".text.f", names[i], 0);

		c.sym[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
		/* A function of its own of that name. */
		ck_assert(!of_cubin(&c).heap);
		ck_assert(!of_cubin(&c).launches);
		c.sym[1].st_shndx = SHN_UNDEF;
		ck_assert_int_eq(of_cubin(&c).heap, i < 2);
		ck_assert_int_eq(of_cubin(&c).launches, i >= 2);
	}
}
END_TEST

START_TEST(every_byte_of_machine_code_may_be_wrong)
{
	struct cubin whole = make_cubin(".nv.global", "count", 128);

	for (size_t i = 4; i < sizeof(whole); i++) {
		struct cubin c = whole;

		((uint8_t *)&c)[i] ^= 0xff;
		of_cubin(&c);
		/* Exactly as long as it is: ASan sees a byte too far. */
		wkr_image_traits((const uint8_t *)&c, i, SM);
	}
}
END_TEST

/* ---- fatbins */

struct fatbin {
	uint8_t bytes[8192];
	size_t size;
};

static void
fatbin_begin(struct fatbin *f)
{
	uint32_t magic = FATBIN_MAGIC;
	uint16_t version = 1, header = 16;

	memset(f, 0, sizeof(*f));
	memcpy(f->bytes, &magic, 4);
	memcpy(f->bytes + 4, &version, 2);
	memcpy(f->bytes + 6, &header, 2);
	f->size = 16;
}

static void
fatbin_add(struct fatbin *f, uint16_t kind, uint32_t sm, uint64_t flags,
	   const void *payload, uint32_t size, uint64_t expanded)
{
	uint8_t *e = f->bytes + f->size;
	uint64_t padded = (size + 7u) & ~UINT64_C(7), whole;
	uint32_t header = 64;

	ck_assert_uint_lt(f->size + header + padded, sizeof(f->bytes));
	memcpy(e, &kind, 2);
	memcpy(e + 4, &header, 4);
	memcpy(e + 8, &padded, 8);
	if (flags)
		memcpy(e + 16, &size, 4);
	memcpy(e + 28, &sm, 4);
	memcpy(e + 40, &flags, 8);
	memcpy(e + 56, &expanded, 8);
	memcpy(e + 64, payload, size);
	f->size += header + padded;
	whole = f->size - 16;
	memcpy(f->bytes + 8, &whole, 8);
}

static struct wkr_traits
of_fatbin(const struct fatbin *f)
{
	return wkr_image_traits(f->bytes, f->size, SM);
}

static const char counting[] = HEAD ".global .u32 n; st.global.u32 [n], 1;";
static const char harmless[] = HEAD ".entry f() { ret; }";

START_TEST(a_fatbin_is_as_its_usable_code_is)
{
	struct fatbin f;

	fatbin_begin(&f);
	fatbin_add(&f, FATBIN_PTX, 90, 0, harmless, sizeof(harmless), 0);
	ck_assert(of_fatbin(&f).shares);
	/* Text for a newer device, code of another generation: never run. */
	fatbin_add(&f, FATBIN_PTX, 100, 0, counting, sizeof(counting), 0);
	fatbin_add(&f, FATBIN_ELF, 80, 0, counting, sizeof(counting), 0);
	ck_assert(of_fatbin(&f).shares);
	fatbin_add(&f, FATBIN_PTX, 80, 0, counting, sizeof(counting), 0);
	ck_assert(!of_fatbin(&f).shares);
}
END_TEST

static bool
is_compiled(const void *data, size_t size, bool wrapper)
{
	struct wkr_image image = {.data = data, .size = size};

	wkr.sm = SM;
	return wkr_compile_is_for(&image, wrapper);
}

START_TEST(what_has_no_machine_code_for_the_device_is_compiled)
{
	struct cubin c = make_cubin(".nv.global", "count", 128);
	struct fatbin f;

	ck_assert(is_compiled(harmless, sizeof(harmless), false));
	ck_assert(!is_compiled(&c, sizeof(c), false));
	fatbin_begin(&f);
	fatbin_add(&f, FATBIN_PTX, 80, 0, harmless, sizeof(harmless), 0);
	fatbin_add(&f, FATBIN_ELF, 80, 0, harmless, sizeof(harmless), 0);
	fatbin_add(&f, FATBIN_ELF, 100, 0, harmless, sizeof(harmless), 0);
	ck_assert(is_compiled(f.bytes, f.size, false));
	/* Several in one, which are loaded as they are. */
	ck_assert(!is_compiled(f.bytes, f.size, true));
	fatbin_add(&f, FATBIN_ELF, 90, 0, harmless, sizeof(harmless), 0);
	ck_assert(!is_compiled(f.bytes, f.size, false));
}
END_TEST

START_TEST(compressed_code_is_looked_into)
{
	struct cubin c = make_cubin(".nv.global", "count", 128);
	char packed[2048];
	struct fatbin f;
	size_t n;

	n = (size_t)LZ4_compress_default(harmless, packed, sizeof(harmless),
					 sizeof(packed));
	fatbin_begin(&f);
	fatbin_add(&f, FATBIN_PTX, 90, 0x2000, packed, (uint32_t)n,
		   sizeof(harmless));
	ck_assert(of_fatbin(&f).shares);
	ck_assert(!of_fatbin(&f).prints);
	n = ZSTD_compress(packed, sizeof(packed), &c, sizeof(c), 1);
	fatbin_add(&f, FATBIN_ELF, 90, 0x8000, packed, (uint32_t)n, sizeof(c));
	ck_assert(!of_fatbin(&f).shares);
}
END_TEST

START_TEST(code_that_cannot_be_looked_into_prints_and_is_not_shared)
{
	struct fatbin f;

	fatbin_begin(&f);
	ck_assert(of_fatbin(&f).prints);
	fatbin_add(&f, 8, 90, 0, harmless, sizeof(harmless), 0);
	ck_assert(of_fatbin(&f).prints);
	ck_assert(!of_fatbin(&f).shares);
	/* Compressed as nvcc did long ago, and wrongly. */
	fatbin_begin(&f);
	fatbin_add(&f, FATBIN_PTX, 90, 0x1000, harmless, sizeof(harmless), 99);
	ck_assert(!of_fatbin(&f).shares);
	fatbin_begin(&f);
	fatbin_add(&f, FATBIN_PTX, 90, 0x8000, harmless, sizeof(harmless), 99);
	ck_assert(!of_fatbin(&f).shares);
	ck_assert(of_fatbin(&f).prints);
}
END_TEST

SUITE("worker_traits", code_without_variables_is_shared,
      a_variable_that_a_kernel_uses_is_not_shared,
      kernels_write_variables_but_no_constants,
      a_variable_that_nobody_uses_is_shared,
      strings_and_tables_of_the_compiler_are_shared,
      code_for_no_architecture_is_told,
      what_others_define_or_bind_is_not_shared,
      text_says_that_it_prints_or_is_managed,
      text_says_that_it_uses_the_heap_or_launches,
      more_variables_than_are_looked_up_are_not_shared,
      text_that_ends_anywhere_is_read_to_its_end,
      symbols_of_machine_code_tell, bytes_without_a_name_are_not_shared,
      empty_objects_are_shared_when_they_are_one_byte,
      undefined_objects_and_references_are_not_shared,
      shared_memory_of_the_system_is_no_variable,
      machine_code_says_that_it_prints_or_is_managed,
      machine_code_says_that_it_uses_the_heap_or_launches,
      every_byte_of_machine_code_may_be_wrong,
      a_fatbin_is_as_its_usable_code_is, compressed_code_is_looked_into,
      code_that_cannot_be_looked_into_prints_and_is_not_shared,
      what_has_no_machine_code_for_the_device_is_compiled)
