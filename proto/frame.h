/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: what travels in rings and on stream sockets.
 * Used by shim, broker, worker and tools.
 *
 * A frame is an 8-byte header and one packed protobuf-c message. An empty
 * frame of type NUDGE wakes a worker that sleeps.
 */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

/* Raised by every incompatible change of frames, messages, channel layout,
 * launch_head or ids in proto/cuda.api. */
#define WIRE_NUMBER 4u

/* One frame, header included, never exceeds this. */
#define FRAME_MAX (64u * 1024u)

enum frame_type {
	FRAME_NUDGE = 1,
	FRAME_CALL,
	FRAME_REPLY,
	FRAME_LAUNCH,
	FRAME_CONTROL,
	FRAME_TYPE_COUNT
};

struct frame_header {
	uint32_t size;     /* bytes after the header */
	uint8_t type;      /* enum frame_type */
	uint8_t lane;      /* on the socket: 1 = unordered call */
	uint16_t zero;
};

/* Check a header that came from outside: 0 or -EBADMSG. */
int frame_header_check(const struct frame_header *header);

#endif
