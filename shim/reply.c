/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in: one reply.
 */
#include "shim/chan_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_sigs.h"
#include "proto/data.h"
#include "proto/log.h"
#include "proto/wire.pb-c.h"
#include "shim/process.h"

/* What kernels printed comes out where and when natively it does: on this
 * process's stdout, before the call that waited for them returns. */
static void
print_text(const struct data_bytes *text)
{
	int state;

	if (!text->size)
		return;
	/* stdio has cancellation points; a reply must not be left half
	 * taken. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	fwrite(text->data, 1, text->size, stdout);
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

static CUresult
take(enum api_id id, void *const argv[], const struct data_reply *reply,
     uint32_t *out_text_left)
{
	print_text(&reply->text);
	*out_text_left = reply->text_left;
	/* Results come with success, and with what is not an error. */
	if (reply->outs.size && wire_unpack_reply(&api_sigs[id],
						  reply->outs.data,
						  reply->outs.size, argv) < 0)
		return bad_reply(id);
	return (CUresult)reply->result;
}

/* A reply that is not packed as ours are is for protobuf-c to read. */
static CUresult
take_foreign(enum api_id id, void *const argv[], const uint8_t *body,
	     size_t size, uint32_t *out_text_left)
{
	Mps__Reply *m = mps__reply__unpack(NULL, size, body);
	struct data_reply reply;
	CUresult r;

	if (!m)
		return bad_reply(id);
	reply = (struct data_reply){
		.result = m->result, .text_left = m->text_left,
		.outs = { m->outs.data, m->outs.len },
		.text = { m->text.data, m->text.len },
	};
	r = take(id, argv, &reply, out_text_left);
	mps__reply__free_unpacked(m, NULL);
	return r;
}

CUresult
shim_reply_take(enum api_id id, void *const argv[], const uint8_t *frame,
		size_t size, uint32_t *out_text_left)
{
	const uint8_t *body = frame + sizeof(struct frame_header);
	struct frame_header header;
	struct data_reply reply;

	if (size < sizeof(header) || size > FRAME_MAX)
		return bad_reply(id);
	memcpy(&header, frame, sizeof(header));
	if (frame_header_check(&header) < 0 || header.type != FRAME_REPLY ||
	    header.size > size - sizeof(header))
		return bad_reply(id);
	return data_read_reply(body, header.size, &reply) ?
	       take(id, argv, &reply, out_text_left) :
	       take_foreign(id, argv, body, header.size, out_text_left);
}
