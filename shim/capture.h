/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: what is submitted to a capturing stream becomes nodes of a
 * graph, here in the client; the worker's streams never capture.
 * Used by everything in shim/ that submits work, waits or asks.
 *
 * Codes and what invalidates a capture were recorded from an H200
 * (tests/contract/capture_errors_have_their_codes.c and others).
 */
#ifndef SHIM_CAPTURE_H
#define SHIM_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/event.h"
#include "shim/graph.h"
#include "shim/stream.h"

struct shim_launch;

/* Open captures of the process. */
extern _Atomic uint32_t shim_captures;

static inline bool
shim_capture_any(void)
{
	return __builtin_expect(atomic_load_explicit(
			&shim_captures, memory_order_relaxed) != 0, 0);
}

static inline bool
shim_stream_is_capturing(const struct shim_stream *stream)
{
	return __builtin_expect(atomic_load_explicit(
			&((struct shim_stream *)stream)->capture,
			memory_order_relaxed) != 0, 0);
}

/* For calls that are unsafe while a capture that binds this thread is open:
 * those captures are invalidated and the call fails. */
CUresult shim_capture_unsafe_slow(void);
static inline CUresult
shim_capture_unsafe(void)
{
	return shim_capture_any() ? shim_capture_unsafe_slow() : CUDA_SUCCESS;
}

/* Before anything that involves a stream: a legacy default stream would
 * depend on the capturing streams of its context, whose captures that
 * spoils. */
CUresult shim_capture_legacy_slow(const struct shim_stream *stream,
				  bool spoils);
static inline CUresult
shim_capture_legacy(const struct shim_stream *stream)
{
	return shim_capture_any() && stream->kind == STREAM_LEGACY ?
	       shim_capture_legacy_slow(stream, true) : CUDA_SUCCESS;
}

/* Before it is asked whether a stream captures: refused likewise, and the
 * captures go on. */
static inline CUresult
shim_capture_legacy_asked(const struct shim_stream *stream)
{
	return shim_capture_any() && stream->kind == STREAM_LEGACY ?
	       shim_capture_legacy_slow(stream, false) : CUDA_SUCCESS;
}

/* Waiting for the stream, or asking about it: refused while it captures. */
CUresult shim_capture_wait_stream(const struct shim_stream *stream);
/* The same for a context, and for an event: `captured` is the answer for one
 * that stands in a graph. */
CUresult shim_capture_wait_context(struct shim_context *ctx);
CUresult shim_capture_ask_event(struct shim_event *event, CUresult captured);

/* Instead of sending it: a node. */
CUresult shim_capture_launch(struct shim_stream *stream,
			     const struct shim_launch *launch,
			     const uint8_t *params);
/* Takes work over, on failure too. */
CUresult shim_capture_work(struct shim_stream *stream, struct shim_work *work);
CUresult shim_capture_copy(struct shim_stream *stream, uint64_t dst,
			   uint64_t src, uint64_t size);

/* Of a capturing stream. */
CUresult shim_capture_record(struct shim_stream *stream,
			     struct shim_event *event);
/* A call on the stream failed in a way that ends its capture, if any. */
void shim_capture_spoil_slow(const struct shim_stream *stream);
static inline void
shim_capture_spoil(const struct shim_stream *stream)
{
	if (shim_stream_is_capturing(stream))
		shim_capture_spoil_slow(stream);
}
/* Of an event that was recorded in a capture. */
CUresult shim_capture_join(struct shim_stream *stream,
			   struct shim_event *event);
/* A capturing stream cannot wait for what is outside. */
CUresult shim_capture_isolated(struct shim_stream *stream);

/* The stream is being destroyed. */
void shim_capture_stream_gone(struct shim_stream *stream);
void shim_capture_event_gone(struct shim_event *event);

#endif
