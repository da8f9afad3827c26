/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/marshal.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/suite.h"

/* One signature that has every kind of parameter. */
static const struct wire_param params[] = {
	{.kind = WIRE_VALUE, .size = 4, .flags = WIRE_SIGNED,
	 .count = WIRE_NO_COUNT},
	{.kind = WIRE_VALUE, .size = 1, .count = WIRE_NO_COUNT},
	{.kind = WIRE_FLOAT, .size = 4, .count = WIRE_NO_COUNT},
	{.kind = WIRE_DOUBLE, .size = 8, .count = WIRE_NO_COUNT},
	{.kind = WIRE_HANDLE, .size = 8, .count = WIRE_NO_COUNT},
	{.kind = WIRE_NEW_HANDLE, .size = 8, .count = WIRE_NO_COUNT},
	{.kind = WIRE_STRING, .size = 1, .count = WIRE_NO_COUNT},
	{.kind = WIRE_BYTES, .size = 2, .count = 8},
	{.kind = WIRE_VALUE, .size = 8, .count = WIRE_NO_COUNT},
	{.kind = WIRE_OUT_VALUE, .size = 4, .count = WIRE_NO_COUNT},
	{.kind = WIRE_OUT_BYTES, .size = 1, .count = 11},
	{.kind = WIRE_VALUE, .size = 4, .count = WIRE_NO_COUNT},
	{.kind = WIRE_INOUT_BYTES, .size = 12, .count = WIRE_NO_COUNT},
};
static const struct wire_sig sig = {
	.name = "every", .class_ = WIRE_SYNC_ORDERED,
	.nparams = sizeof(params) / sizeof(params[0]), .params = params,
};

static struct {
	int32_t i;
	uint8_t b;
	float f;
	double d;
	uint64_t handle, new_handle, *p_new;
	const char *text;
	uint16_t items[3];
	void *p_items;
	uint64_t count;
	int32_t out, *p_out;
	char name[10], *p_name;
	uint32_t cap;
	uint8_t both[12], *p_both;
} c;
static void *argv[] = {
	&c.i, &c.b, &c.f, &c.d, &c.handle, &c.p_new, &c.text, &c.p_items,
	&c.count, &c.p_out, &c.p_name, &c.cap, &c.p_both,
};
static uint8_t frame[4096], memory[8192], reply[4096];
static struct wire_arg args[WIRE_MAX_PARAMS];
static struct wire_arena arena;
static long size;

static void
setup(void)
{
	memset(&c, 0, sizeof(c));
	c.i = -5;
	c.b = 200;
	c.f = 1.5f;
	c.d = -2.25;
	c.handle = 77;
	c.new_handle = 88;
	c.p_new = &c.new_handle;
	c.text = "hello";
	c.items[0] = 1, c.items[1] = 2, c.items[2] = 3;
	c.p_items = c.items;
	c.count = 3;
	c.p_out = &c.out;
	c.p_name = c.name;
	c.cap = sizeof(c.name);
	memcpy(c.both, "abcdefghijkl", 12);
	c.p_both = c.both;
	arena = (struct wire_arena){.base = memory, .size = sizeof(memory)};
	size = wire_pack_call(&sig, argv, frame, sizeof(frame));
	ck_assert_int_gt(size, 0);
}

static int
unpack(const uint8_t *bytes, long n)
{
	arena.used = 0;
	return wire_unpack_call(&sig, bytes, (size_t)n, args, &arena);
}

START_TEST(marshal_carries_every_kind_of_argument)
{
	float f;

	ck_assert_int_eq(unpack(frame, size), 0);
	ck_assert_int_eq((int64_t)args[0].value, -5);
	ck_assert_uint_eq(args[1].value, 200);
	memcpy(&f, &args[2].value, 4);
	ck_assert(f == 1.5f);
	ck_assert_uint_eq(args[4].value, 77);
	ck_assert_uint_eq(args[5].value, 88);
	ck_assert_str_eq(args[6].data, "hello");
	ck_assert_uint_eq(args[7].size, 6);
	ck_assert_mem_eq(args[7].data, c.items, 6);
	ck_assert_uint_eq(args[10].size, 10);
	ck_assert_mem_eq(args[12].data, "abcdefghijkl", 12);
}
END_TEST

START_TEST(marshal_brings_results_back_to_the_callers_pointers)
{
	int32_t result = -123;
	long n;

	ck_assert_int_eq(unpack(frame, size), 0);
	memcpy(args[9].out, &result, 4);
	memcpy(args[10].out, "name", 5);
	args[10].out_size = 5;
	memcpy(args[12].out, "ABCDEFGHIJKL", 12);
	n = wire_pack_reply(&sig, args, reply, sizeof(reply));
	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(wire_unpack_reply(&sig, reply, (size_t)n, argv), 0);
	ck_assert_int_eq(c.out, -123);
	ck_assert_str_eq(c.name, "name");
	ck_assert_mem_eq(c.both, "ABCDEFGHIJKL", 12);
}
END_TEST

START_TEST(marshal_tells_null_pointers_from_empty_data)
{
	c.p_items = NULL;
	c.p_out = NULL;
	c.p_name = NULL;
	c.text = NULL;
	c.p_both = NULL;
	size = wire_pack_call(&sig, argv, frame, sizeof(frame));
	ck_assert_int_eq(unpack(frame, size), 0);
	ck_assert_ptr_null(args[6].data);
	ck_assert_ptr_null(args[7].data);
	ck_assert_ptr_null(args[9].out);
	ck_assert_ptr_null(args[10].out);
	ck_assert_ptr_null(args[12].out);
	ck_assert_int_eq(wire_pack_reply(&sig, args, reply, sizeof(reply)), 0);
	ck_assert_int_eq(wire_unpack_reply(&sig, reply, 0, argv), 0);
}
END_TEST

START_TEST(marshal_refuses_a_frame_cut_anywhere)
{
	for (long n = 0; n < size; n++)
		ck_assert_int_eq(unpack(frame, n), -EBADMSG);
	frame[size] = 0;
	ck_assert_int_eq(unpack(frame, size + 1), -EBADMSG);
}
END_TEST

START_TEST(marshal_survives_every_single_byte_changed)
{
	for (long i = 0; i < size; i++) {
		uint8_t saved = frame[i];

		for (int v = 0; v < 256; v++) {
			int r;

			frame[i] = (uint8_t)v;
			r = unpack(frame, size);
			ck_assert(r == 0 || r == -EBADMSG || r == -ENOMEM);
		}
		frame[i] = saved;
	}
}
END_TEST

START_TEST(marshal_refuses_a_count_that_is_not_the_datas)
{
	c.count = 2;
	size = wire_pack_call(&sig, argv, frame, sizeof(frame));
	ck_assert_int_eq(unpack(frame, size), 0);
	/* The count is 8 bytes before: u8, u32, u32 value, inout. */
	frame[size - 16 - 8 - 4 - 1 - 8] = 3;
	ck_assert_int_eq(unpack(frame, size), -EBADMSG);
}
END_TEST

START_TEST(marshal_stores_nothing_of_a_reply_that_does_not_fit)
{
	long n;

	ck_assert_int_eq(unpack(frame, size), 0);
	memset(args[9].out, 0x55, 4);
	n = wire_pack_reply(&sig, args, reply, sizeof(reply));
	for (long cut = 0; cut < n; cut++) {
		ck_assert_int_eq(wire_unpack_reply(&sig, reply, (size_t)cut,
						   argv), -EBADMSG);
		ck_assert_int_eq(c.out, 0);
	}
	/* A longer answer than the caller's buffer. */
	reply[8] = 11;
	ck_assert_int_eq(wire_unpack_reply(&sig, reply, (size_t)n, argv),
			 -EBADMSG);
}
END_TEST

START_TEST(marshal_refuses_more_than_a_frame_holds)
{
	c.count = UINT64_MAX / 2;
	ck_assert_int_eq(wire_pack_call(&sig, argv, frame, sizeof(frame)),
			 -EMSGSIZE);
	c.count = 3;
	for (size_t cap = 0; cap < (size_t)size; cap++)
		ck_assert_int_eq(wire_pack_call(&sig, argv, frame, cap),
				 -EMSGSIZE);
	arena.size = 8;
	ck_assert_int_eq(unpack(frame, size), -ENOMEM);
}
END_TEST

SUITE_FIXTURE("marshal", setup, NULL,
	marshal_carries_every_kind_of_argument,
	marshal_brings_results_back_to_the_callers_pointers,
	marshal_tells_null_pointers_from_empty_data,
	marshal_refuses_a_frame_cut_anywhere,
	marshal_survives_every_single_byte_changed,
	marshal_refuses_a_count_that_is_not_the_datas,
	marshal_stores_nothing_of_a_reply_that_does_not_fit,
	marshal_refuses_more_than_a_frame_holds)
