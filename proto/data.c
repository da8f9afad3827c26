/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages whose fields are of fixed size but for the last, laid down byte by
 * byte: what protobuf-c would pack, to the byte (tests/unit/check_data.c), for
 * a tenth of the instructions. Reading takes fields in the order in which
 * they are packed and nothing else, which is all that a shim or worker of
 * ours sends.
 */
#include "proto/data.h"

/* Tag bytes: field number << 3 | wire type (1: 8 bytes, 5: 4 bytes, 2: length
 * and bytes). */
#define TAG_SEQ 0x09
#define CALL_FN 0x15
#define CALL_SLOT 0x1d
#define CALL_ARGS 0x22
#define REPLY_RESULT 0x15
#define REPLY_OUTS 0x1a
#define REPLY_TEXT 0x22
#define REPLY_TEXT_LEFT 0x2d
#define LAUNCH_HEAD 0x12
#define LAUNCH_PARAMS 0x1a
#define LAUNCH_ATTRS 0x22

_Static_assert(FRAME_MAX < 1u << 21, "three bytes of length");
_Static_assert(sizeof(struct launch_head) < 128, "one byte of length");

/* ---- packing ---- */

/* Bytes that a bytes field takes before its bytes; none when it is empty. */
static size_t
prefix_size(size_t size)
{
	if (!size)
		return 0;
	return size < 1u << 7 ? 2 : size < 1u << 14 ? 3 : 4;
}

static uint8_t *
put_prefix(uint8_t *at, uint8_t tag, size_t size)
{
	if (!size)
		return at;
	*at++ = tag;
	while (size >= 0x80) {
		*at++ = (uint8_t)size | 0x80;
		size >>= 7;
	}
	*at++ = (uint8_t)size;
	return at;
}

static uint8_t *
put_u32(uint8_t *at, uint8_t tag, uint32_t value)
{
	if (!value)
		return at;
	*at++ = tag;
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static uint8_t *
put_bytes(uint8_t *at, uint8_t tag, const void *data, size_t size)
{
	at = put_prefix(at, tag, size);
	if (size)
		memcpy(at, data, size);
	return at + size;
}

/* Header and seq; `size` is of the whole frame. */
static uint8_t *
put_header(uint8_t *at, enum frame_type type, uint8_t lane, size_t size,
	   uint64_t seq)
{
	struct frame_header header = {
		.size = (uint32_t)(size - sizeof(header)),
		.type = (uint8_t)type, .lane = lane,
	};

	memcpy(at, &header, sizeof(header));
	at += sizeof(header);
	if (!seq)
		return at;
	*at++ = TAG_SEQ;
	memcpy(at, &seq, sizeof(seq));
	return at + sizeof(seq);
}

uint8_t *
data_put_call(uint8_t *args, size_t args_size, uint8_t lane, uint32_t fn,
	      uint32_t slot)
{
	size_t front = DATA_SEQ_AT + 8 + (fn ? 5 : 0) + (slot ? 5 : 0) +
		       prefix_size(args_size);
	uint8_t *frame = args - front, *at;

	at = put_header(frame, FRAME_CALL, lane, front + args_size, 1);
	at = put_u32(at, CALL_FN, fn);
	at = put_u32(at, CALL_SLOT, slot);
	put_prefix(at, CALL_ARGS, args_size);
	return frame;
}

uint8_t *
data_put_launch(uint8_t *params, size_t params_size, size_t attrs_size,
		const struct launch_head *head)
{
	size_t front = DATA_SEQ_AT + 8 + 2 + sizeof(*head) +
		       prefix_size(params_size);
	size_t size = front + params_size + prefix_size(attrs_size) +
		      attrs_size;
	uint8_t *frame = params - front, *at;

	at = put_header(frame, FRAME_LAUNCH, 0, size, 1);
	*at++ = LAUNCH_HEAD;
	*at++ = sizeof(*head);
	memcpy(at, head, sizeof(*head));
	put_prefix(at + sizeof(*head), LAUNCH_PARAMS, params_size);
	return frame;
}

uint8_t *
data_put_attrs(uint8_t *at, const struct launch_attr *attrs, size_t size)
{
	return put_bytes(at, LAUNCH_ATTRS, attrs, size);
}

size_t
data_reply_size(const struct data_reply *reply)
{
	return sizeof(struct frame_header) + (reply->seq ? 9 : 0) +
	       (reply->result ? 5 : 0) + prefix_size(reply->outs.size) +
	       reply->outs.size + prefix_size(reply->text.size) +
	       reply->text.size + (reply->text_left ? 5 : 0);
}

void
data_put_reply(uint8_t *frame, const struct data_reply *reply)
{
	uint8_t *at = put_header(frame, FRAME_REPLY, 0,
				 data_reply_size(reply), reply->seq);

	at = put_u32(at, REPLY_RESULT, reply->result);
	at = put_bytes(at, REPLY_OUTS, reply->outs.data, reply->outs.size);
	at = put_bytes(at, REPLY_TEXT, reply->text.data, reply->text.size);
	put_u32(at, REPLY_TEXT_LEFT, reply->text_left);
}

/* ---- reading ---- */

struct reader {
	const uint8_t *at, *end;
	bool bad;
};

static bool
next_is(struct reader *r, uint8_t tag)
{
	if (r->at == r->end || *r->at != tag)
		return false;
	r->at++;
	return true;
}

static uint64_t
read_seq(struct reader *r)
{
	uint64_t value = 0;

	if (!next_is(r, TAG_SEQ))
		return 0;
	if (r->end - r->at < 8) {
		r->bad = true;
		return 0;
	}
	memcpy(&value, r->at, 8);
	r->at += 8;
	return value;
}

static uint32_t
read_u32(struct reader *r, uint8_t tag)
{
	uint32_t value = 0;

	if (!next_is(r, tag))
		return 0;
	if (r->end - r->at < 4) {
		r->bad = true;
		return 0;
	}
	memcpy(&value, r->at, 4);
	r->at += 4;
	return value;
}

static struct data_bytes
read_bytes(struct reader *r, uint8_t tag)
{
	struct data_bytes bytes = {0};
	unsigned shift = 0;
	size_t size = 0;
	uint8_t byte;

	if (r->bad || !next_is(r, tag))
		return bytes;
	do {
		if (r->at == r->end || shift > 14) {
			r->bad = true;
			return bytes;
		}
		byte = *r->at++;
		size |= (size_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (size > (size_t)(r->end - r->at)) {
		r->bad = true;
		return bytes;
	}
	if (size)
		bytes = (struct data_bytes){ r->at, size };
	r->at += size;
	return bytes;
}

static bool
is_read(const struct reader *r)
{
	return !r->bad && r->at == r->end;
}

bool
data_read_call(const uint8_t *at, size_t size, struct data_call *out)
{
	struct reader r = { at, at + size, false };

	out->seq = read_seq(&r);
	out->fn = read_u32(&r, CALL_FN);
	out->slot = read_u32(&r, CALL_SLOT);
	out->args = read_bytes(&r, CALL_ARGS);
	return is_read(&r);
}

bool
data_read_reply(const uint8_t *at, size_t size, struct data_reply *out)
{
	struct reader r = { at, at + size, false };

	out->seq = read_seq(&r);
	out->result = read_u32(&r, REPLY_RESULT);
	out->outs = read_bytes(&r, REPLY_OUTS);
	out->text = read_bytes(&r, REPLY_TEXT);
	out->text_left = read_u32(&r, REPLY_TEXT_LEFT);
	return is_read(&r);
}

bool
data_read_launch(const uint8_t *at, size_t size, struct data_launch *out)
{
	struct reader r = { at, at + size, false };

	out->seq = read_seq(&r);
	out->head = read_bytes(&r, LAUNCH_HEAD);
	out->params = read_bytes(&r, LAUNCH_PARAMS);
	out->attrs = read_bytes(&r, LAUNCH_ATTRS);
	return is_read(&r);
}
