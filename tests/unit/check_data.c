/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data messages by hand against protobuf-c: the same bytes out, and
 * nothing accepted that it reads otherwise.
 */
#include "proto/data.h"

#include <check.h>
#include <stdio.h>

#include "proto/wire.pb-c.h"
#include "tests/unit/suite.h"

#define ROUNDS 20000

static uint64_t state;

static uint64_t
any(void)
{
	/* splitmix64 */
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Numbers that are 0, small, or anything. */
static uint32_t
any_u32(void)
{
	return any() % 4 ? (uint32_t)any() >> any() % 32 : 0;
}

/* Lengths around those where a varint grows, and others. */
static size_t
any_size(size_t most)
{
	static const size_t edges[] = { 0, 1, 127, 128, 16383, 16384 };
	size_t size = any() % 2 ? edges[any() % 6] : any() % (most + 1);

	return size < most ? size : most;
}

static void
any_bytes(uint8_t *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (uint8_t)any();
}

static uint8_t buf[2 * FRAME_MAX], other[2 * FRAME_MAX], extra[FRAME_MAX];

static void
assert_header(const uint8_t *frame, size_t size, enum frame_type type,
	      uint8_t lane)
{
	struct frame_header header;

	memcpy(&header, frame, sizeof(header));
	ck_assert_int_eq(frame_header_check(&header), 0);
	ck_assert_uint_eq(header.size, size - sizeof(header));
	ck_assert_uint_eq(header.type, type);
	ck_assert_uint_eq(header.lane, lane);
}

static void
number(uint8_t *frame, uint64_t seq)
{
	memcpy(frame + DATA_SEQ_AT, &seq, sizeof(seq));
}

START_TEST(data_calls_are_what_protobuf_packs)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t *args = buf + DATA_CALL_ROOM, *frame;
		Mps__Call m = MPS__CALL__INIT;
		struct data_call read;
		uint8_t lane = any() & 1;
		size_t size;

		m.seq = any() | 1;
		m.fn = any_u32();
		m.slot = any() % 3 ? any_u32() : UINT32_MAX;
		m.args.len = any_size(i % 50 ? 300 : 40000);
		m.args.data = args;
		any_bytes(args, m.args.len);
		frame = data_put_call(args, m.args.len, lane, m.fn, m.slot);
		ck_assert(frame >= buf);
		number(frame, m.seq);
		size = (size_t)(args + m.args.len - frame);
		assert_header(frame, size, FRAME_CALL, lane);
		ck_assert_uint_eq(size - 8, mps__call__pack(&m, other));
		ck_assert_mem_eq(frame + 8, other, size - 8);
		ck_assert(data_read_call(other, size - 8, &read));
		ck_assert_uint_eq(read.seq, m.seq);
		ck_assert_uint_eq(read.fn, m.fn);
		ck_assert_uint_eq(read.slot, m.slot);
		ck_assert_uint_eq(read.args.size, m.args.len);
		if (m.args.len)
			ck_assert_mem_eq(read.args.data, args, m.args.len);
	}
}
END_TEST

START_TEST(data_launches_are_what_protobuf_packs)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t *params = buf + DATA_LAUNCH_ROOM, *frame, *end;
		struct launch_attr attrs[LAUNCH_ATTRS_MAX];
		Mps__Launch m = MPS__LAUNCH__INIT;
		struct data_launch read;
		struct launch_head head;
		size_t size;

		any_bytes((uint8_t *)&head, sizeof(head));
		any_bytes((uint8_t *)attrs, sizeof(attrs));
		m.seq = any() | 1;
		m.head.data = (uint8_t *)&head;
		m.head.len = sizeof(head);
		m.params.len = any_size(i % 50 ? 300 : LAUNCH_PARAMS_MAX);
		m.params.data = extra;
		any_bytes(extra, m.params.len);
		memcpy(params, extra, m.params.len);
		m.attrs.len = any() % (LAUNCH_ATTRS_MAX + 1) * sizeof(*attrs);
		m.attrs.data = (uint8_t *)attrs;
		frame = data_put_launch(params, m.params.len, m.attrs.len,
					&head);
		ck_assert(frame >= buf);
		number(frame, m.seq);
		end = data_put_attrs(params + m.params.len, attrs,
				     m.attrs.len);
		size = (size_t)(end - frame);
		assert_header(frame, size, FRAME_LAUNCH, 0);
		ck_assert_uint_eq(size - 8, mps__launch__pack(&m, other));
		ck_assert_mem_eq(frame + 8, other, size - 8);
		ck_assert(data_read_launch(other, size - 8, &read));
		ck_assert_uint_eq(read.seq, m.seq);
		ck_assert_uint_eq(read.head.size, sizeof(head));
		ck_assert_mem_eq(read.head.data, &head, sizeof(head));
		ck_assert_uint_eq(read.params.size, m.params.len);
		if (m.params.len)
			ck_assert_mem_eq(read.params.data, extra,
					 m.params.len);
		ck_assert_uint_eq(read.attrs.size, m.attrs.len);
		if (m.attrs.len)
			ck_assert_mem_eq(read.attrs.data, attrs, m.attrs.len);
	}
}
END_TEST

START_TEST(data_replies_are_what_protobuf_packs)
{
	for (int i = 0; i < ROUNDS; i++) {
		size_t outs = any_size(i % 50 ? 300 : 20000);
		size_t text = any() % 2 ? any_size(i % 50 ? 300 : 20000) : 0;
		Mps__Reply m = MPS__REPLY__INIT;
		struct data_reply reply = {
			.seq = any() % 8 ? any() : 0, .result = any_u32(),
			.text_left = any_u32(), .outs = { extra, outs },
			.text = { extra + outs, text },
		}, read;
		size_t size;

		any_bytes(extra, outs + text);
		m.seq = reply.seq;
		m.result = reply.result;
		m.text_left = reply.text_left;
		m.outs.data = extra;
		m.outs.len = outs;
		m.text.data = extra + outs;
		m.text.len = text;
		size = data_reply_size(&reply);
		data_put_reply(buf, &reply);
		assert_header(buf, size, FRAME_REPLY, 0);
		ck_assert_uint_eq(size - 8, mps__reply__pack(&m, other));
		ck_assert_mem_eq(buf + 8, other, size - 8);
		ck_assert(data_read_reply(other, size - 8, &read));
		ck_assert_uint_eq(read.seq, reply.seq);
		ck_assert_uint_eq(read.result, reply.result);
		ck_assert_uint_eq(read.text_left, reply.text_left);
		ck_assert_uint_eq(read.outs.size, outs);
		ck_assert_uint_eq(read.text.size, text);
		if (outs)
			ck_assert_mem_eq(read.outs.data, extra, outs);
		if (text)
			ck_assert_mem_eq(read.text.data, extra + outs, text);
	}
}
END_TEST

static bool
same(const struct data_bytes *ours, const ProtobufCBinaryData *theirs)
{
	return ours->size == theirs->len &&
	       (!ours->size || !memcmp(ours->data, theirs->data, ours->size));
}

/* A message, or nearly one: each change is small, so that many are still
 * accepted by somebody. */
static size_t
mutate(uint8_t *at, size_t size)
{
	unsigned n = (unsigned)(any() % 4);

	while (n-- && size) {
		size_t place = any() % (any() % 2 && size > 24 ? 24 : size);

		switch (any() % 4) {
		case 0:
			at[place] = (uint8_t)any();
			break;
		case 1:
			at[place] ^= (uint8_t)(1u << any() % 8);
			break;
		case 2:
			size--;
			memmove(at + place, at + place + 1, size - place);
			break;
		default:
			memmove(at + place + 1, at + place, size - place);
			size++;
			break;
		}
	}
	return size;
}

/* Exactly as large as the message, so that a read beyond it is seen. */
static uint8_t *
tight(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, bytes, size);
	return copy;
}

START_TEST(data_accepts_only_what_protobuf_reads_the_same)
{
	uint32_t accepted = 0, refused = 0;

	for (int i = 0; i < 4 * ROUNDS; i++) {
		uint8_t *args = buf + DATA_CALL_ROOM, *frame, *copy;
		size_t size = any_size(200), whole;
		struct data_call call;
		Mps__Call *m;

		any_bytes(args, size);
		frame = data_put_call(args, size, 0, any_u32(), any_u32());
		number(frame, any());
		whole = mutate(frame + 8, (size_t)(args + size - frame) - 8);
		copy = tight(frame + 8, whole);
		if (data_read_call(copy, whole, &call)) {
			m = mps__call__unpack(NULL, whole, copy);
			ck_assert_ptr_nonnull(m);
			ck_assert_uint_eq(m->seq, call.seq);
			ck_assert_uint_eq(m->fn, call.fn);
			ck_assert_uint_eq(m->slot, call.slot);
			ck_assert(same(&call.args, &m->args));
			mps__call__free_unpacked(m, NULL);
			accepted++;
		} else {
			refused++;
		}
		free(copy);
	}
	ck_assert_uint_gt(accepted, ROUNDS);
	ck_assert_uint_gt(refused, ROUNDS / 4);
}
END_TEST

START_TEST(data_accepts_only_launches_that_protobuf_reads_the_same)
{
	uint32_t accepted = 0, refused = 0;

	for (int i = 0; i < 4 * ROUNDS; i++) {
		uint8_t *params = buf + DATA_LAUNCH_ROOM, *frame, *end, *copy;
		struct launch_attr attrs[2] = {{0}};
		size_t size = any_size(200), whole;
		struct launch_head head = {0};
		struct data_launch launch;
		Mps__Launch *m;

		any_bytes(params, size);
		whole = any() % 3 * sizeof(*attrs);
		frame = data_put_launch(params, size, whole, &head);
		end = data_put_attrs(params + size, attrs, whole);
		number(frame, any());
		whole = mutate(frame + 8, (size_t)(end - frame) - 8);
		copy = tight(frame + 8, whole);
		if (data_read_launch(copy, whole, &launch)) {
			m = mps__launch__unpack(NULL, whole, copy);
			ck_assert_ptr_nonnull(m);
			ck_assert_uint_eq(m->seq, launch.seq);
			ck_assert(same(&launch.head, &m->head));
			ck_assert(same(&launch.params, &m->params));
			ck_assert(same(&launch.attrs, &m->attrs));
			mps__launch__free_unpacked(m, NULL);
			accepted++;
		} else {
			refused++;
		}
		free(copy);
	}
	ck_assert_uint_gt(accepted, ROUNDS);
	ck_assert_uint_gt(refused, ROUNDS / 4);
}
END_TEST

SUITE("data",
	data_calls_are_what_protobuf_packs,
	data_launches_are_what_protobuf_packs,
	data_replies_are_what_protobuf_packs,
	data_accepts_only_what_protobuf_reads_the_same,
	data_accepts_only_launches_that_protobuf_reads_the_same)
