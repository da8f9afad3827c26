/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Export tables as a runtime library sees them, without a broker: sizes,
 * slots, refusals, context-local storage, and the integrity answer over a
 * process that is made up here.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/ctx.h"
#include "shim/device.h"
#include "shim/integrity.h"
#include "shim/process.h"
#include "shim/tables.h"
#include "shim_impl.h"
#include "tests/unit/suite.h"

#define WORD 8u

/* What the real driver's tables are like; CLS has no size word. */
static const struct table {
	const char *name, *id;
	size_t words;
	int null_slot;             /* -1: none */
	int served[7];             /* ends with 0 */
} tables[] = {
	{ "CUDART", "6bd5fb6c5bf4e74a8987d93912fd9df9", 13, 10,
	  { 1, 2, 6, 7, 8, 12 } },
	{ "HOOKS", "a094798c2e742e7493f20800200c0a66", 7, -1, { 0 } },
	{ "TLS", "42d85a8123f6cb478298f6e78a3aecdc", 3, -1, { 0 } },
	{ "CHECKS", "263e88607cd2614392f6bbd5006dfa7e", 15, -1, { 2, 3 } },
	{ "INTEG", "d4082055bde6704b8d34ba123c66e1f2", 3, -1, { 0 } },
	{ "2131", "21318c60971432488ca641ff7324c8f2", 93, 91,
	  { 3, 4, 39, 51 } },
	{ "6E16", "6e163fbeb958444d835ce182aff1991e", 99, 93, { 7 } },
	{ "1734", "1734dc26800d47458726c0f1e7dd8bca", 17, -1, { 4, 13 } },
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

static CUuuid
parse_id(const char *hex)
{
	CUuuid id;

	for (unsigned i = 0; i < sizeof(id.bytes); i++) {
		char digits[3] = { hex[2 * i], hex[2 * i + 1], '\0' };

		id.bytes[i] = (char)strtoul(digits, NULL, 16);
	}
	return id;
}

static shim_slot *const *
find(const char *hex)
{
	CUuuid id = parse_id(hex);
	const void *table = NULL;

	ck_assert_int_eq(shim_cuGetExportTable(&table, &id), CUDA_SUCCESS);
	ck_assert_ptr_nonnull(table);
	return table;
}

#define CLS_ID "c693336e1121df11a8c368f355d89593"
#define CUDART_ID "6bd5fb6c5bf4e74a8987d93912fd9df9"
#define INTEG_ID "d4082055bde6704b8d34ba123c66e1f2"

START_TEST(tables_say_their_size_in_bytes)
{
	for (unsigned i = 0; i < TABLES; i++)
		ck_assert_uint_eq((uintptr_t)find(tables[i].id)[0],
				  tables[i].words * WORD);
}
END_TEST

START_TEST(tables_have_null_where_the_driver_has_it_and_nowhere_else)
{
	for (unsigned i = 0; i < TABLES; i++) {
		shim_slot *const *table = find(tables[i].id);

		for (int j = 1; j < (int)tables[i].words; j++)
			ck_assert_msg((table[j] == NULL) ==
				      (j == tables[i].null_slot),
				      "%s[%d]", tables[i].name, j);
	}
}
END_TEST

static bool
is_served(const struct table *table, int slot)
{
	for (const int *served = table->served; *served != 0; served++) {
		if (*served == slot)
			return true;
	}
	return false;
}

START_TEST(tables_refuse_slots_that_nobody_is_known_to_call)
{
	unsigned refused = 0;

	for (unsigned i = 0; i < TABLES; i++) {
		const struct table *table = &tables[i];
		shim_slot *const *slots = find(table->id);

		if (table->served[0] == 0)
			continue;
		for (int j = 1; j < (int)table->words; j++) {
			if (is_served(table, j) || j == table->null_slot)
				continue;
			ck_assert_msg(((CUresult(*)(void))slots[j])() ==
				      CUDA_ERROR_NOT_SUPPORTED,
				      "%s[%d]", table->name, j);
			refused++;
		}
	}
	/* 5 + 12 + 87 + 96 + 14 of the tables above. */
	ck_assert_uint_eq(refused, 214);
}
END_TEST

START_TEST(tables_of_other_ids_are_refused_with_null)
{
	/* The runtime's logger, NVML's, a profiler's, and nobody's. */
	static const char *const ids[] = {
		"f8cff95121468b4eb9e2fb469e7c0dd9",
		"69a28e9f24498b47b030c5da330ea4e9",
		"2c8e0ad80710ab4e90dd54719fe5f74b",
		"00000000000000000000000000000000",
	};

	for (unsigned i = 0; i < 4; i++) {
		CUuuid id = parse_id(ids[i]);
		const void *table = &id;

		ck_assert_int_eq(shim_cuGetExportTable(&table, &id),
				 CUDA_ERROR_INVALID_VALUE);
		ck_assert_ptr_null(table);
	}
	ck_assert_int_eq(shim_cuGetExportTable(NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(tables_are_the_same_at_every_look)
{
	for (unsigned i = 0; i < TABLES; i++)
		ck_assert_ptr_eq(find(tables[i].id), find(tables[i].id));
}
END_TEST

/* A shorter buffer makes the runtime read what lies behind it. */
START_TEST(tables_hooks_are_long_enough_and_off)
{
	shim_slot *const *hooks = find("a094798c2e742e7493f20800200c0a66");
	static const struct {
		int slot;
		size_t count;
	} buffers[] = { { 2, 1024 }, { 6, 14 } };

	for (unsigned i = 0; i < 2; i++) {
		void (*get)(void **, size_t *) =
			(void (*)(void **, size_t *))hooks[buffers[i].slot];
		size_t count = 0;
		uint32_t *words;

		get((void **)&words, &count);
		ck_assert_uint_eq(count, buffers[i].count);
		for (size_t j = 0; j < count; j++)
			ck_assert_uint_eq(words[j], 0);
	}
}
END_TEST

START_TEST(tables_that_need_cuInit_say_so)
{
	shim_slot *const *cudart = find(CUDART_ID);
	shim_slot *const *tls = find("42d85a8123f6cb478298f6e78a3aecdc");
	shim_slot *const *integ = find(INTEG_ID);
	CUcontext ctx = (CUcontext)1;
	uint8_t answer[16];

	ck_assert_int_eq(((CUresult(*)(CUcontext *))tls[2])(&ctx),
			 CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_ptr_eq(ctx, (CUcontext)1);
	ck_assert_int_eq(((CUresult(*)(CUcontext *, CUdevice))cudart[2])(
				 &ctx, 0), CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_int_eq(((CUresult(*)(uint32_t, uint64_t, uint8_t *))
				 integ[1])(13002, 1, answer),
			 CUDA_ERROR_NOT_INITIALIZED);
}
END_TEST

/* ---- with a process ---- */

static Mps__Device device = MPS__DEVICE__INIT;
static Mps__HelloReply hello = MPS__HELLO_REPLY__INIT;
static Mps__Attribute attributes[3] = {
	MPS__ATTRIBUTE__INIT, MPS__ATTRIBUTE__INIT, MPS__ATTRIBUTE__INIT,
};
static Mps__Attribute *attribute_list[3];
static uint8_t uuid[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
static _Atomic uint32_t live = SHIM_UP;

static void
make_process(void)
{
	static const int ids[3] = { CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
				    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
				    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID };

	for (int i = 0; i < 3; i++) {
		attributes[i].id = ids[i];
		attributes[i].value = 3 + i;
		attribute_list[i] = &attributes[i];
	}
	device.uuid.data = uuid;
	device.uuid.len = sizeof(uuid);
	device.attributes = attribute_list;
	device.n_attributes = 3;
	shim_process.hello = &hello;
	shim_process.driver_version = 13000;
	shim_process.ndevices = 1;
	shim_process.devices[0].info = &device;
	shim_process.live = &live;
	shim_device_prepare();
}

START_TEST(tables_answer_integrity_for_the_devices_they_show)
{
	shim_slot *const *integ = find(INTEG_ID);
	struct integrity_device shown = { .pci_domain = 3, .pci_bus = 4,
					  .pci_device = 5 };
	struct integrity_input input = {
		.driver_version = 13000, .version = 13002,
		.pid = (uint32_t)getpid(),
		.thread = (uint32_t)(uintptr_t)pthread_self(),
		.cudart_table = (uintptr_t)find(CUDART_ID),
		.integrity_table = (uintptr_t)integ,
		.function = (uintptr_t)integ[1],
		.unix_seconds = 1234567890,
	};
	uint8_t expected[16], answer[16];

	make_process();
	memcpy(shown.uuid, uuid, sizeof(uuid));
	integrity_answer(&input, &shown, 1, expected);
	ck_assert_int_eq(((CUresult(*)(uint32_t, uint64_t, uint8_t *))
				 integ[1])(13002, 1234567890, answer),
			 CUDA_SUCCESS);
	ck_assert_mem_eq(answer, expected, sizeof(answer));
}
END_TEST

START_TEST(tables_hand_out_the_primary_context_as_it_is)
{
	CUresult (*get)(CUcontext *, CUdevice) =
		(CUresult(*)(CUcontext *, CUdevice))find(CUDART_ID)[2];
	CUcontext first, again, current;
	unsigned int flags;
	int active = 1;

	make_process();
	ck_assert_int_eq(get(&first, 0), CUDA_SUCCESS);
	ck_assert_int_eq(get(&again, 0), CUDA_SUCCESS);
	ck_assert_ptr_eq(first, again);
	ck_assert_int_eq(get(&again, 1), CUDA_ERROR_INVALID_DEVICE);
	ck_assert_int_eq(shim_cuDevicePrimaryCtxGetState(0, &flags, &active),
			 CUDA_SUCCESS);
	ck_assert_uint_eq(flags, 0);
	ck_assert_int_eq(active, 0);
	/* It can be made current, and is not usable. */
	ck_assert_int_eq(shim_cuCtxSetCurrent(first), CUDA_SUCCESS);
	ck_assert_int_eq(shim_cuCtxGetCurrent(&current), CUDA_SUCCESS);
	ck_assert_ptr_eq(current, first);
	ck_assert_int_eq(shim_cuCtxSynchronize(),
			 CUDA_ERROR_CONTEXT_IS_DESTROYED);
}
END_TEST

START_TEST(tables_give_no_context_the_id_zero)
{
	CUresult (*ctx_id)(CUcontext, uint64_t *) =
		(CUresult(*)(CUcontext, uint64_t *))
		find("21318c60971432488ca641ff7324c8f2")[4];
	uint64_t id = 7;

	ck_assert_int_eq(ctx_id(NULL, &id), CUDA_SUCCESS);
	ck_assert_uint_eq(id, 0);
	ck_assert_int_eq(ctx_id(NULL, NULL), CUDA_ERROR_UNKNOWN);
}
END_TEST

/* ---- context-local storage ---- */

typedef void cls_destructor(CUcontext ctx, const void *key, void *value);
typedef CUresult cls_put_fn(CUcontext ctx, const void *key, void *value,
			    cls_destructor *destructor);
typedef CUresult cls_delete_fn(CUcontext ctx, const void *key);
typedef CUresult cls_get_fn(void **value, CUcontext ctx, const void *key);

static struct shim_context *
make_context(CUcontext *out_handle)
{
	struct shim_context *ctx;

	make_process();
	ck_assert_int_eq(shim_ctx_make(0, false, 0, &ctx), CUDA_SUCCESS);
	ctx->dead = false;
	*out_handle = (CUcontext)(uintptr_t)ctx->handle;
	return ctx;
}

static cls_put_fn *put;
static cls_delete_fn *delete;
static cls_get_fn *get;

static void
find_cls(void)
{
	shim_slot *const *cls = find(CLS_ID);

	put = (cls_put_fn *)cls[0];
	delete = (cls_delete_fn *)cls[1];
	get = (cls_get_fn *)cls[2];
	ck_assert_ptr_null(cls[3]);
}

static char keys[200];

START_TEST(cls_keeps_the_first_value_of_a_key)
{
	CUcontext ctx;
	void *value = NULL;

	find_cls();
	make_context(&ctx);
	ck_assert_int_eq(put(ctx, &keys[0], &keys[1], NULL), 0);
	ck_assert_int_eq(put(ctx, &keys[0], &keys[2], NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	ck_assert_int_eq(get(&value, ctx, &keys[0]), 0);
	ck_assert_ptr_eq(value, &keys[1]);
	ck_assert_int_eq(delete(ctx, &keys[0]), 0);
	ck_assert_int_eq(delete(ctx, &keys[0]), CUDA_ERROR_INVALID_HANDLE);
	value = &keys[9];
	ck_assert_int_eq(get(&value, ctx, &keys[0]),
			 CUDA_ERROR_INVALID_HANDLE);
	ck_assert_ptr_eq(value, &keys[9]);
}
END_TEST

START_TEST(cls_needs_a_context_unless_one_is_current)
{
	struct shim_context *context;
	void *value = &keys[9];
	CUcontext ctx;

	find_cls();
	ck_assert_int_eq(get(&value, NULL, &keys[0]),
			 CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_ptr_eq(value, &keys[9]);
	context = make_context(&ctx);
	shim_ctx_push(context);
	ck_assert_int_eq(put(NULL, &keys[0], &keys[1], NULL), 0);
	ck_assert_int_eq(get(&value, ctx, &keys[0]), 0);
	ck_assert_ptr_eq(value, &keys[1]);
	ck_assert_int_eq(get(&value, NULL, &keys[0]), 0);
	/* A context that was never alive has nothing. */
	ck_assert_int_eq(get(&value, (CUcontext)(uintptr_t)
				     shim_primary(0)->handle, &keys[0]),
			 CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(cls_of_two_contexts_are_apart)
{
	CUcontext one, two;
	void *value;

	find_cls();
	make_context(&one);
	make_context(&two);
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(put(one, &keys[i], &keys[i], NULL), 0);
		ck_assert_int_eq(put(two, &keys[i], &keys[i + 1], NULL), 0);
	}
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(get(&value, one, &keys[i]), 0);
		ck_assert_ptr_eq(value, &keys[i]);
		ck_assert_int_eq(get(&value, two, &keys[i]), 0);
		ck_assert_ptr_eq(value, &keys[i + 1]);
	}
}
END_TEST

static unsigned destroyed[200];
static CUcontext destroyed_in;

static void
note_destroyed(CUcontext ctx, const void *key, void *value)
{
	ck_assert_ptr_eq(ctx, destroyed_in);
	ck_assert_ptr_eq((const char *)key + 1, value);
	destroyed[(const char *)key - keys]++;
	/* Runtimes delete in their destructors what is deleted already. */
	ck_assert_int_eq(delete(ctx, key), CUDA_ERROR_INVALID_HANDLE);
}

START_TEST(cls_destructors_run_once_for_what_is_left)
{
	struct shim_context *context;
	void *value;

	find_cls();
	context = make_context(&destroyed_in);
	for (int i = 0; i < 40; i++)
		ck_assert_int_eq(put(destroyed_in, &keys[i], &keys[i + 1],
				     i % 2 ? note_destroyed : NULL), 0);
	ck_assert_int_eq(delete(destroyed_in, &keys[7]), 0);
	shim_cls_end(context);
	shim_cls_end(context);
	for (int i = 0; i < 40; i++) {
		ck_assert_uint_eq(destroyed[i], i % 2 && i != 7);
		ck_assert_int_eq(get(&value, destroyed_in, &keys[i]),
				 CUDA_ERROR_INVALID_HANDLE);
	}
}
END_TEST

static void *
read_all(void *ctx)
{
	void *value;

	for (int round = 0; round < 20000; round++) {
		const char *key = &keys[round % 64];

		if (get(&value, ctx, key) == CUDA_SUCCESS &&
		    value != key + 1)
			return value;
	}
	return NULL;
}

START_TEST(cls_look_ups_never_see_half_an_entry)
{
	pthread_t reader;
	CUcontext ctx;
	void *wrong;

	find_cls();
	make_context(&ctx);
	ck_assert_int_eq(pthread_create(&reader, NULL, read_all, ctx), 0);
	for (int i = 0; i < 64; i++)
		ck_assert_int_eq(put(ctx, &keys[i], &keys[i + 1], NULL), 0);
	pthread_join(reader, &wrong);
	ck_assert_ptr_null(wrong);
}
END_TEST

SUITE("tables",
      tables_say_their_size_in_bytes,
      tables_have_null_where_the_driver_has_it_and_nowhere_else,
      tables_refuse_slots_that_nobody_is_known_to_call,
      tables_of_other_ids_are_refused_with_null,
      tables_are_the_same_at_every_look,
      tables_hooks_are_long_enough_and_off,
      tables_that_need_cuInit_say_so,
      tables_answer_integrity_for_the_devices_they_show,
      tables_hand_out_the_primary_context_as_it_is,
      tables_give_no_context_the_id_zero,
      cls_keeps_the_first_value_of_a_key,
      cls_needs_a_context_unless_one_is_current,
      cls_of_two_contexts_are_apart,
      cls_destructors_run_once_for_what_is_left,
      cls_look_ups_never_see_half_an_entry)
