/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in: one reply.
 */
#include "shim/chan_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_sigs.h"
#include "proto/log.h"
#include "proto/wire.pb-c.h"
#include "shim/process.h"

/* Replies are small: protobuf-c unpacks most of them into this. */
struct bump {
	ProtobufCAllocator allocator;
	uint8_t *at;
	_Alignas(16) uint8_t bytes[1024];
};

static void *
bump_alloc(void *data, size_t size)
{
	struct bump *bump = data;
	size_t padded = (size + 15) & ~(size_t)15;
	uint8_t *at = bump->at;

	if (padded > (size_t)(bump->bytes + sizeof(bump->bytes) - at))
		return malloc(size);
	bump->at += padded;
	return at;
}

static void
bump_free(void *data, void *p)
{
	struct bump *bump = data;
	uintptr_t at = (uintptr_t)p, base = (uintptr_t)bump->bytes;

	if (at - base >= sizeof(bump->bytes))
		free(p);
}

/* What kernels printed comes out where and when natively it does: on this
 * process's stdout, before the call that waited for them returns. */
static void
print_text(const ProtobufCBinaryData *text)
{
	int state;

	if (!text->len)
		return;
	/* stdio has cancellation points; a reply must not be left half
	 * taken. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	fwrite(text->data, 1, text->len, stdout);
	fflush(stdout);
	pthread_setcancelstate(state, NULL);
}

static CUresult
bad_reply(enum api_id id)
{
	log_line(LOG_ERROR, "the worker's reply to %s is malformed",
		 api_names[id] ? api_names[id] : "?");
	return CUDA_ERROR_MPS_RPC_FAILURE;
}

CUresult
shim_reply_take(enum api_id id, void *const argv[], const uint8_t *frame,
		size_t size, uint32_t *out_text_left)
{
	struct bump bump = {
		.allocator = { bump_alloc, bump_free, &bump },
		.at = bump.bytes,
	};
	struct frame_header header;
	Mps__Reply *reply;
	CUresult r;

	if (size < sizeof(header) || size > FRAME_MAX)
		return bad_reply(id);
	memcpy(&header, frame, sizeof(header));
	if (frame_header_check(&header) < 0 || header.type != FRAME_REPLY ||
	    header.size > size - sizeof(header))
		return bad_reply(id);
	reply = mps__reply__unpack(&bump.allocator, header.size,
				   frame + sizeof(header));
	if (!reply)
		return bad_reply(id);
	print_text(&reply->text);
	*out_text_left = reply->text_left;
	r = (CUresult)reply->result;
	/* Results come with success, and with what is not an error. */
	if (reply->outs.len && wire_unpack_reply(&api_sigs[id],
						 reply->outs.data,
						 reply->outs.len, argv) < 0)
		r = bad_reply(id);
	mps__reply__free_unpacked(reply, &bump.allocator);
	return r;
}
