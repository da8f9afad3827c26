/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/shmem.h"
#include "server/worker/jit.h"
#include "server/worker/module.h"
#include "server/worker/overlap.h"
#include "server/worker/range.h"
#include "server/worker/risk.h"
#include "tests/unit/suite.h"

/* ---- replay of a call by its signature */

static struct {
	int number;
	void *handle;
	const char *text;
	float factor;
} seen;
static char thing;

static CUresult
fake(int number, void *handle, const char *text, float factor, int *out,
     void **made)
{
	seen.number = number;
	seen.handle = handle;
	seen.text = text;
	seen.factor = factor;
	if (number < 0)
		return CUDA_ERROR_UNKNOWN;
	*out = number + 1;
	*made = &thing;
	return CUDA_SUCCESS;
}

static CUresult
fake_destroy(void *handle)
{
	seen.handle = handle;
	return CUDA_SUCCESS;
}

static const struct wire_param fake_params[] = {
	{WIRE_VALUE, WIRE_SIGNED, HANDLE_NONE, WIRE_NO_COUNT, 4},
	{WIRE_HANDLE, 0, HANDLE_NODE, WIRE_NO_COUNT, 8},
	{WIRE_STRING, 0, HANDLE_NONE, WIRE_NO_COUNT, 1},
	{WIRE_FLOAT, 0, HANDLE_NONE, WIRE_NO_COUNT, 4},
	{WIRE_OUT_VALUE, 0, HANDLE_NONE, WIRE_NO_COUNT, 4},
	{WIRE_NEW_HANDLE, 0, HANDLE_NODE, WIRE_NO_COUNT, 8},
};
static const struct wire_sig fake_sig = {"cuFakeCreate", WIRE_SYNC_ORDERED, 6,
					 fake_params};
static const struct wire_sig destroy_sig = {"cuFakeDestroy", WIRE_SYNC_ORDERED,
					    1, fake_params + 1};
static ffi_type *fake_types[] = {&ffi_type_sint32,  &ffi_type_pointer,
				 &ffi_type_pointer, &ffi_type_float,
				 &ffi_type_pointer, &ffi_type_pointer};
static const struct wkr_ffi fake_ffi = {6, fake_types};
static const struct wkr_ffi destroy_ffi = {1, fake_types + 1};

START_TEST(replay_translates_and_mints_handles)
{
	struct wkr_client client = {.id = 1};
	struct wkr_call call = {.client = &client, .on_lane = true};
	uint64_t old = handle_make(HANDLE_NODE, 1, 1);
	uint64_t new = handle_make(HANDLE_NODE, 2, 1);
	char native;
	struct wkr_object object = {.native = &native}, *made;
	float half = 0.5f;
	int out = 0;
	struct wire_arg args[6] = {{.value = 41},    {.value = old},
				   {.data = "text"}, {.value = 0},
				   {.out = &out},    {.value = new}};

	memcpy(&args[3].value, &half, sizeof(half));
	pthread_mutex_init(&client.lock, NULL);
	ck_assert_int_eq(handle_table_create(&client.table), 0);
	ck_assert_int_eq(wkr_put(&client, HANDLE_NODE, old, &object), 0);
	ck_assert_int_eq(wkr_replay(&call, &fake_sig, &fake_ffi,
				    (void (*)(void))fake, args),
			 0);
	ck_assert_int_eq(seen.number, 41);
	ck_assert_ptr_eq(seen.handle, &native);
	ck_assert_str_eq(seen.text, "text");
	ck_assert_float_eq(seen.factor, 0.5f);
	ck_assert_int_eq(out, 42);
	made = wkr_get(&client, HANDLE_NODE, new);
	ck_assert_ptr_eq(made->native, &thing);

	/* The same id again, a failing call, and a handle that is none. */
	ck_assert_int_eq(wkr_replay(&call, &fake_sig, &fake_ffi,
				    (void (*)(void))fake, args),
			 CUDA_ERROR_INVALID_HANDLE);
	args[0].value = UINT64_MAX;
	args[5].value = handle_make(HANDLE_NODE, 3, 1);
	ck_assert_int_eq(wkr_replay(&call, &fake_sig, &fake_ffi,
				    (void (*)(void))fake, args),
			 CUDA_ERROR_UNKNOWN);
	ck_assert_ptr_null(wkr_get(&client, HANDLE_NODE, args[5].value));
	args[1].value = 5;
	ck_assert_int_eq(wkr_replay(&call, &fake_sig, &fake_ffi,
				    (void (*)(void))fake, args),
			 CUDA_ERROR_INVALID_HANDLE);

	args[0].value = new;
	ck_assert_int_eq(wkr_replay(&call, &destroy_sig, &destroy_ffi,
				    (void (*)(void))fake_destroy, args),
			 0);
	ck_assert_ptr_eq(seen.handle, &thing);
	ck_assert_ptr_null(wkr_get(&client, HANDLE_NODE, new));
	handle_table_destroy(client.table);
}
END_TEST

/* ---- ranges */

static struct wkr_ranges ranges;
static struct wkr_range a = {.base = 0x1000, .size = 0x1000, .id = 1};
static struct wkr_range b = {.base = 0x2000, .size = 0x1000, .id = 2};
static struct wkr_range c = {.base = 0x8000, .size = 0x1000, .id = 3};

static void
add_three(void)
{
	ck_assert_int_eq(wkr_ranges_add(&ranges, &c), 0);
	ck_assert_int_eq(wkr_ranges_add(&ranges, &a), 0);
	ck_assert_int_eq(wkr_ranges_add(&ranges, &b), 0);
}

START_TEST(ranges_cover_only_what_was_added)
{
	add_three();
	ck_assert(wkr_ranges_cover(&ranges, 0x1000, 0x1000));
	ck_assert(wkr_ranges_cover(&ranges, 0x8fff, 1));
	ck_assert(!wkr_ranges_cover(&ranges, 0x0fff, 2));
	ck_assert(!wkr_ranges_cover(&ranges, 0x8fff, 2));
	ck_assert(!wkr_ranges_cover(&ranges, 0x5000, 1));
}
END_TEST

START_TEST(ranges_next_to_each_other_are_one)
{
	add_three();
	ck_assert(wkr_ranges_cover(&ranges, 0x1800, 0x1000));
	ck_assert(!wkr_ranges_cover(&ranges, 0x1800, 0x2000));
}
END_TEST

START_TEST(ranges_do_not_wrap_around)
{
	add_three();
	ck_assert(!wkr_ranges_cover(&ranges, UINT64_MAX - 1, 0x1003));
	ck_assert(!wkr_ranges_cover(&ranges, 0x1000, UINT64_MAX));
}
END_TEST

START_TEST(ranges_refuse_overlaps)
{
	struct wkr_range over = {.base = 0x1fff, .size = 0x10};

	add_three();
	ck_assert_int_eq(wkr_ranges_add(&ranges, &over), -EEXIST);
	over.base = 0x7fff;
	ck_assert_int_eq(wkr_ranges_add(&ranges, &over), -EEXIST);
}
END_TEST

START_TEST(ranges_are_taken_once)
{
	add_three();
	ck_assert_ptr_eq(wkr_ranges_take(&ranges, WKR_CHUNK, 2), &b);
	ck_assert_ptr_null(wkr_ranges_take(&ranges, WKR_CHUNK, 2));
	ck_assert(!wkr_ranges_cover(&ranges, 0x2000, 1));
	ck_assert(wkr_ranges_cover(&ranges, 0x8000, 1));
}
END_TEST

static void
add_image(const uint8_t *hash)
{
	_cleanup_close_ int fd = shmem_create("image", 4096);
	const char *why = "";

	ck_assert_int_eq(pwrite(fd, "code", 4, 0), 4);
	ck_assert_int_eq(shmem_seal_write(fd), 0);
	ck_assert_int_eq(wkr_image_add(hash, WKR_HASH_SIZE, 4096, fd, &why), 0);
}

START_TEST(image_stays_mapped_while_a_load_reads_it)
{
	static const uint8_t hash[WKR_HASH_SIZE] = {5};
	struct wkr_image *held, *next;
	const char *why = "";

	add_image(hash);
	held = wkr_image_ref(hash, sizeof(hash));
	ck_assert_ptr_nonnull(held);
	ck_assert_int_eq(wkr_image_drop(hash, sizeof(hash), &why), 0);
	ck_assert_ptr_null(wkr_image_ref(hash, sizeof(hash)));
	ck_assert_uint_eq(wkr_image_count(), 1);
	/* The same again, meanwhile. */
	add_image(hash);
	next = wkr_image_ref(hash, sizeof(hash));
	ck_assert_ptr_ne(next, held);
	ck_assert_int_eq(memcmp(held->data, "code", 4), 0);
	ck_assert_uint_eq(wkr_image_count(), 2);
	wkr_image_unref(held);
	ck_assert_uint_eq(wkr_image_count(), 1);
	ck_assert_int_eq(wkr_image_drop(hash, sizeof(hash), &why), 0);
	wkr_image_unref(next);
	ck_assert_uint_eq(wkr_image_count(), 0);
}
END_TEST

START_TEST(text_is_sound)
{
	static const char plain[] = ".version 9.0\n.target sm_90\n";

	ck_assert(wkr_image_is_sound((const uint8_t *)plain, sizeof(plain)));
}
END_TEST

START_TEST(elf_that_points_outside_is_not_sound)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Shdr sh[1];
	} image = {.eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
			  .e_shoff = sizeof(Elf64_Ehdr),
			  .e_shnum = 1,
			  .e_shentsize = sizeof(Elf64_Shdr)},
		   .sh = {{.sh_type = SHT_PROGBITS, .sh_size = 64}}};
	const uint8_t *data = (const uint8_t *)&image;

	ck_assert(wkr_image_is_sound(data, sizeof(image)));
	image.sh[0].sh_size = sizeof(image) + 1;
	ck_assert(!wkr_image_is_sound(data, sizeof(image)));
	image.sh[0].sh_size = 8;
	image.sh[0].sh_offset = UINT64_MAX - 4;
	ck_assert(!wkr_image_is_sound(data, sizeof(image)));
	image.sh[0].sh_offset = 0;
	image.eh.e_shnum = 2;
	ck_assert(!wkr_image_is_sound(data, sizeof(image)));
	ck_assert(!wkr_image_is_sound(data, sizeof(image.eh) - 1));
}
END_TEST

/* A fatbin of one entry of `kind` with `size` payload bytes. */
static size_t
make_fatbin(uint8_t *out, uint16_t kind, uint32_t compressed, uint64_t size)
{
	uint64_t whole = 64 + size;
	uint32_t magic = 0xba55ed50, entry = 64;
	uint16_t version = 1, header = 16;

	memset(out, 0, 16 + whole);
	memcpy(out, &magic, 4);
	memcpy(out + 4, &version, 2);
	memcpy(out + 6, &header, 2);
	memcpy(out + 8, &whole, 8);
	memcpy(out + 16, &kind, 2);
	memcpy(out + 20, &entry, 4);
	memcpy(out + 24, &size, 8);
	memcpy(out + 32, &compressed, 4);
	return 16 + whole;
}

START_TEST(fatbin_is_checked_entry_by_entry)
{
	uint8_t data[512];
	size_t size = make_fatbin(data, 1, 0, 100);
	uint64_t more = 101;

	ck_assert(wkr_image_is_sound(data, size));
	ck_assert(!wkr_image_is_sound(data, size - 1));
	memcpy(data + 24, &more, 8);
	ck_assert(!wkr_image_is_sound(data, size));
	/* Machine code inside is looked into: these bytes are none. */
	size = make_fatbin(data, 2, 0, 100);
	ck_assert(!wkr_image_is_sound(data, size));
}
END_TEST

/* A member of an archive: its size as in its header, and its bytes. */
static size_t
add_member(uint8_t *out, size_t at, const char *size, const void *data,
	   size_t bytes)
{
	memset(out + at, ' ', 60);
	memcpy(out + at, "member.o/", 9);
	memcpy(out + at + 48, size, strlen(size));
	memcpy(out + at + 58, "`\n", 2);
	memcpy(out + at + 60, data, bytes);
	return at + 60 + bytes + bytes % 2;
}

START_TEST(archive_is_checked_member_by_member)
{
	const Elf64_Ehdr elf = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64}};
	const Elf64_Ehdr wrong = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
				  .e_shoff = 1000, .e_shnum = 1,
				  .e_shentsize = sizeof(Elf64_Shdr)};
	uint8_t data[512] = "!<arch>\n";
	size_t size = add_member(data, 8, "5", "hello", 5), two;

	ck_assert(wkr_image_is_archive(data, size));
	ck_assert(wkr_image_is_sound(data, size));
	ck_assert(wkr_image_is_sound(data, size - 1));
	ck_assert(!wkr_image_is_sound(data, size - 2));
	two = add_member(data, size, "64", &elf, sizeof(elf));
	ck_assert(wkr_image_is_sound(data, two));
	ck_assert(!wkr_image_is_sound(data, size + 20));
	add_member(data, size, "64", &wrong, sizeof(wrong));
	ck_assert(!wkr_image_is_sound(data, two));
	add_member(data, size, "65", &elf, sizeof(elf));
	ck_assert(!wkr_image_is_sound(data, two));
	add_member(data, size, "9999999999", &elf, sizeof(elf));
	ck_assert(!wkr_image_is_sound(data, two));
	add_member(data, size, "six", &elf, sizeof(elf));
	ck_assert(!wkr_image_is_sound(data, two));
	add_member(data, size, "6x", &elf, sizeof(elf));
	ck_assert(!wkr_image_is_sound(data, two));
	data[size + 58] = 0;
	ck_assert(!wkr_image_is_sound(data, two));
	ck_assert(!wkr_image_is_archive(data, 7));
}
END_TEST

static void
add(struct wkr_times *times, uint64_t client, uint64_t begin, uint64_t end)
{
	ck_assert_int_eq(wkr_times_add(times, client, begin, end), 0);
}

static uint64_t
busy(const struct wkr_times *times, uint64_t client)
{
	for (size_t i = 0; i < times->nbusy; i++)
		if (times->busy[i].client == client)
			return times->busy[i].ns;
	return 0;
}

static void
times_free(struct wkr_times *times)
{
	free(times->items);
	free(times->busy);
}

START_TEST(overlap_is_time_of_two_clients_or_more)
{
	struct wkr_times times = {0};

	add(&times, 3, 150, 160); /* three at once count once */
	add(&times, 1, 100, 200);
	add(&times, 2, 140, 300);
	add(&times, 2, 400, 400); /* nothing */
	add(&times, 1, 300, 310); /* begins as the other ends */
	ck_assert_uint_eq(wkr_times_end(&times), 310);
	ck_assert_int_eq(wkr_times_fold(&times), 0);
	ck_assert_uint_eq(times.both_ns, 60);
	ck_assert_uint_eq(times.any_ns, 210);
	ck_assert_uint_eq(busy(&times, 1), 110);
	ck_assert_uint_eq(busy(&times, 2), 160);
	ck_assert_uint_eq(busy(&times, 3), 10);
	ck_assert_uint_eq(wkr_times_end(&times), 0);
	times_free(&times);
}
END_TEST

START_TEST(overlap_of_a_client_with_itself_is_none)
{
	struct wkr_times times = {0};

	for (uint64_t i = 0; i < 1000; i++) {
		add(&times, 7, 10 * i, 10 * i + 25);
		add(&times, 7, 10 * i + 5, 10 * i + 6);
	}
	ck_assert_int_eq(wkr_times_fold(&times), 0);
	ck_assert_uint_eq(times.both_ns, 0);
	ck_assert_uint_eq(times.any_ns, 9990 + 25);
	ck_assert_uint_eq(busy(&times, 7), 9990 + 25);
	add(&times, 8, 20000, 20001);
	add(&times, 7, 20000, 20002);
	ck_assert_int_eq(wkr_times_fold(&times), 0);
	ck_assert_uint_eq(times.both_ns, 1);
	wkr_times_forget(&times, 7);
	ck_assert_uint_eq(busy(&times, 7), 0);
	ck_assert_uint_eq(busy(&times, 8), 1);
	times_free(&times);
}
END_TEST

/* ---- threads that die in a call */

static struct risk_page *risks;
static pthread_barrier_t turn;

/* Begins a call as client `id`, and dies in it when it is its turn. */
static void *
die(void *id)
{
	struct wkr_client client = {.id = (uintptr_t)id};
	const uint8_t key[RISK_KEY] = {(uint8_t)client.id};

	ck_assert(wkr_risk_begin(&client, RISK_LOAD, key, 0));
	pthread_barrier_wait(&turn);
	if (client.id == 1)
		wkr_risk_crash();
	pthread_barrier_wait(&turn);
	if (client.id == 2)
		wkr_risk_crash();
	pthread_barrier_wait(&turn);
	return NULL;
}

static unsigned
named(uint64_t client)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RISK_THREADS; i++)
		n += atomic_load(&risks->now[i].call) == RISK_LOAD &&
		     risks->now[i].client == client &&
		     risks->now[i].key[0] == client;
	return n;
}

START_TEST(threads_that_die_together_are_both_named_and_nobody_else)
{
	int fd = shmem_create("risks", sizeof(*risks));
	pthread_t threads[3];

	risks = shmem_map(fd, sizeof(*risks));
	ck_assert_ptr_nonnull(risks);
	ck_assert_int_eq(wkr_risk_open(fd), 0);
	pthread_barrier_init(&turn, NULL, 3);
	for (uintptr_t i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, die,
						(void *)(i + 1)), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(named(1), 1);
	ck_assert_uint_eq(named(2), 1);
	ck_assert_uint_eq(named(3), 0);
	close(fd);
}
END_TEST

/* ---- loads that clients share */

static unsigned int unloads;

static CUresult
count_unload(CUmodule module)
{
	(void)module;
	unloads++;
	return CUDA_SUCCESS;
}

static struct wkr_code *
make_code(struct wkr_image *image, uint8_t name, uint64_t mib, bool is_shared)
{
	static const struct wkr_jit plain;

	*image = (struct wkr_image){ .size = mib << 20 };
	memset(image->hash, name, sizeof(image->hash));
	return wkr_code_create(image, &plain, (CUmodule)&thing, NULL,
			       is_shared);
}

/* Who lets go of code that stays, or that others have, need not wait for a
 * moment in which nothing runs. */
START_TEST(code_that_stays_is_let_go_at_any_time)
{
	static const struct wkr_jit plain;
	struct wkr_image small, large, own, gone;
	struct wkr_code *code = make_code(&small, 1, 1, true);

	wkr.drv.cuModuleUnload = count_unload;
	unloads = 0;
	ck_assert_ptr_eq(wkr_code_ref(&small, &plain), code);
	ck_assert(wkr_code_let_go(code));
	ck_assert(wkr_code_let_go(code));
	ck_assert_ptr_eq(wkr_code_ref(&small, &plain), code);
	ck_assert(wkr_code_let_go(code));
	ck_assert_uint_eq(unloads, 0);
	/* With it, more than is kept for nobody: the oldest goes. */
	code = make_code(&large, 2, 256, true);
	ck_assert(!wkr_code_let_go(code));
	ck_assert_ptr_eq(wkr_code_ref(&large, &plain), code);
	ck_assert(wkr_code_let_go(code));
	ck_assert_uint_eq(unloads, 0);
	wkr_code_unref(code);
	ck_assert_uint_eq(unloads, 1);
	ck_assert_ptr_null(wkr_code_ref(&small, &plain));
	code = make_code(&own, 3, 1, false);
	ck_assert(!wkr_code_let_go(code));
	wkr_code_unref(code);
	ck_assert_uint_eq(unloads, 2);
	/* The broker has taken its image back. */
	code = make_code(&gone, 4, 1, true);
	wkr_code_orphan(gone.hash);
	ck_assert(!wkr_code_let_go(code));
	wkr_code_unref(code);
	ck_assert_uint_eq(unloads, 3);
	/* And what is left. */
	code = wkr_code_ref(&large, &plain);
	wkr_code_orphan(large.hash);
	wkr_code_unref(code);
	ck_assert_uint_eq(unloads, 4);
}
END_TEST

SUITE("worker_parts", replay_translates_and_mints_handles,
      ranges_cover_only_what_was_added, ranges_next_to_each_other_are_one,
      ranges_do_not_wrap_around, ranges_refuse_overlaps, ranges_are_taken_once,
      image_stays_mapped_while_a_load_reads_it,
      text_is_sound, elf_that_points_outside_is_not_sound,
      fatbin_is_checked_entry_by_entry, archive_is_checked_member_by_member,
      overlap_is_time_of_two_clients_or_more,
      overlap_of_a_client_with_itself_is_none,
      threads_that_die_together_are_both_named_and_nobody_else,
      code_that_stays_is_let_go_at_any_time)
