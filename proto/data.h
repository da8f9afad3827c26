/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three data messages, Call, Reply and Launch, packed and read by hand.
 * Used by shim and worker on every call.
 */
#ifndef PROTO_DATA_H
#define PROTO_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/launch.h"

/* Bytes of a message. */
struct data_bytes {
	const uint8_t *data;        /* NULL without any */
	size_t size;
};

struct data_call {
	uint64_t seq;
	uint32_t fn, slot;
	struct data_bytes args;
};

struct data_reply {
	uint64_t seq;
	uint32_t result, text_left;
	struct data_bytes outs, text;
};

struct data_launch {
	uint64_t seq;
	struct data_bytes head, params, attrs;
};

/* What a message may need in front of its last bytes field, frame header
 * included, and for lengths that no frame exceeds. */
#define DATA_SEQ_AT (sizeof(struct frame_header) + 1)
#define DATA_CALL_ROOM (DATA_SEQ_AT + 8 + 5 + 5 + 4)
#define DATA_LAUNCH_ROOM (DATA_SEQ_AT + 8 + 2 + sizeof(struct launch_head) + 4)
#define DATA_ATTRS_ROOM 4u

/*
 * A frame's bytes before its arguments, laid so that they end at `args`, in
 * front of which DATA_CALL_ROOM bytes are free. The number is put in at
 * DATA_SEQ_AT by whoever sends it; until then it is anything but 0. Returns
 * where the frame begins.
 */
uint8_t *data_put_call(uint8_t *args, size_t args_size, uint8_t lane,
		       uint32_t fn, uint32_t slot);
/* The same in front of parameters; attrs_size is what data_put_attrs will
 * append behind them. */
uint8_t *data_put_launch(uint8_t *params, size_t params_size,
			 size_t attrs_size, const struct launch_head *head);
/* Attributes behind the parameters; returns the frame's end. */
uint8_t *data_put_attrs(uint8_t *at, const struct launch_attr *attrs,
			size_t size);
/* Bytes of a whole reply frame, and the frame. */
size_t data_reply_size(const struct data_reply *reply);
void data_put_reply(uint8_t *frame, const struct data_reply *reply);

/*
 * Read a message, the frame's header not included; bytes stay where they are.
 * False: not as the functions above lay it down; protobuf-c may know what it
 * is.
 */
bool data_read_call(const uint8_t *at, size_t size, struct data_call *out);
bool data_read_reply(const uint8_t *at, size_t size, struct data_reply *out);
bool data_read_launch(const uint8_t *at, size_t size, struct data_launch *out);

#endif
