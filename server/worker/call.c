/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a frame to its handler. The frame is the worker's own copy; lengths,
 * ids and enums are checked here and in proto/marshal.c, once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/worker/backlog.h"
#include "server/worker/call.h"
#include "server/worker/lane.h"

/* A call that another thread runs, with its frame's bytes and arena. */
struct call_job {
	struct wkr_job job;
	struct wkr_call call;
	_Alignas(16) uint8_t memory[];
};

static void *
arena_alloc(void *data, size_t size)
{
	return wire_arena_alloc(data, size);
}

static void
arena_free(void *data, void *p)
{
	(void)data;
	(void)p;
}

static enum wkr_job_result
run_job(struct wkr_job *job)
{
	struct call_job *j = (struct call_job *)job;
	struct wkr_client *client = j->call.client;
	CUresult r;

	r = wkr_handlers[j->call.fn].run(&j->call, j->call.fn, j->call.args);
	if (r == WKR_AGAIN)
		return WKR_JOB_AGAIN;
	if (r != WKR_DEFERRED)
		wkr_reply_call(&j->call, r);
	free(j);
	wkr_client_unpin(client);
	return WKR_JOB_DONE;
}

/* Who runs what does not run here; unordered calls that a lane could have run
 * are the helper's. */
static struct wkr_queue *const queues[] = {
	[WKR_ON_LANE] = &wkr.helper,
	[WKR_ON_REAPER] = &wkr.reaper,
	[WKR_ON_GATE] = &wkr.gate,
};

static int
send_to_queue(struct wkr_client *client, const Mps__Call *m)
{
	const struct wkr_handler *handler = &wkr_handlers[m->fn];
	size_t room = 4 * m->args.len + 64 * 1024;
	struct call_job *j;
	int r;

	if (atomic_load(&client->jobs) >= WKR_JOBS_MAX)
		return WKR_CALL_E_AGAIN;
	j = malloc(sizeof(*j) + room + m->args.len);
	if (!j)
		return -ENOMEM;
	memset(j, 0, sizeof(*j));
	if (m->args.len)
		memcpy(j->memory + room, m->args.data, m->args.len);
	j->job.run = run_job;
	j->call.client = client;
	j->call.seq = m->seq;
	j->call.fn = m->fn;
	j->call.slot = m->slot;
	j->call.since_ns = wkr_now_ns();
	j->call.arena = (struct wire_arena){.base = j->memory, .size = room};
	r = wire_unpack_call(&api_sigs[m->fn], j->memory + room, m->args.len,
			     j->call.args, &j->call.arena);
	if (r < 0) {
		free(j);
		return r;
	}
	wkr_client_pin(client);
	wkr_queue_add(queues[handler->thread], &j->job);
	return 0;
}

/* The write-ahead cursor: what the driver may have seen. */
static void
publish_issued(struct wkr_client *client, uint64_t seq)
{
	if (client->draining)
		return;
	atomic_store_explicit(&client->channel.page->issued, seq,
			      memory_order_release);
}

/* The lane is done with a frame of the ordered ring. */
static void
pass_seq(struct wkr_client *client, uint64_t seq)
{
	if (!client->draining)
		client->seq = seq;
}

/* It waits aside, and the next frame has its turn. */
static int
set_aside(struct wkr_client *client, const uint8_t *frame, uint32_t size,
	  uint64_t seq, bool other, bool answered)
{
	if (client->draining)
		return WKR_CALL_E_BEHIND;
	if (!wkr_backlog_add(client, frame, size, seq, other, answered)) {
		client->parked = "a host function";
		return WKR_CALL_E_AGAIN;
	}
	publish_issued(client, seq);
	pass_seq(client, seq);
	return 0;
}

static int
run_here(struct wkr_client *client, const Mps__Call *m,
	 const struct wire_arena *arena, const uint8_t *frame, uint32_t size)
{
	struct wkr_call call = {
		.client = client,
		.seq = m->seq,
		.fn = m->fn,
		.slot = client->draining && client->answered ? CHANNEL_NO_SLOT
							      : m->slot,
		.arena = *arena,
		.on_lane = true,
	};
	CUresult result;
	int r;

	r = wire_unpack_call(&api_sigs[m->fn], m->args.data, m->args.len,
			     call.args, &call.arena);
	if (r < 0)
		return r;
	if (wkr_is_behind(client) && wkr_call_is_behind(&call)) {
		/* A post may travel as a call (MPSSHIM_PERF=no_post): its
		 * caller waits for it to be taken, no longer. */
		bool post = api_sigs[m->fn].class_ == WIRE_POST;

		r = set_aside(client, frame, size, m->seq,
			      !wkr_call_has_stream(m->fn), post);
		if (r == 0 && post && m->fn == API_mpsEventRecord)
			wkr_event_announce(client, call.args[0].value);
		if (r == 0 && post)
			wkr_reply(client, m->seq, m->slot, CUDA_SUCCESS, NULL,
				  0, false);
		return r;
	}
	publish_issued(client, m->seq);
	result = wkr_handlers[m->fn].run(&call, m->fn, call.args);
	if (result == WKR_AGAIN) {
		wkr_call_mark(&call);
		return WKR_CALL_E_AGAIN;
	}
	pass_seq(client, m->seq);
	if (result != WKR_DEFERRED)
		wkr_reply_call(&call, result);
	return 0;
}

/* The worker does not serve this: say so, as an old driver would. */
static int
refuse(struct wkr_client *client, const Mps__Call *m, bool ordered)
{
	if (ordered)
		client->seq = m->seq;
	if (m->slot == CHANNEL_NO_SLOT)
		wkr_late(client, CUDA_ERROR_NOT_SUPPORTED, "an unknown call");
	wkr_reply(client, m->seq, m->slot, CUDA_ERROR_NOT_SUPPORTED, NULL, 0,
		  false);
	return 0;
}

static int
do_call(struct wkr_client *client, const Mps__Call *m, bool ordered,
	const struct wire_arena *arena, const uint8_t *frame, uint32_t size)
{
	const struct wkr_handler *handler;
	bool elsewhere;
	int r;

	if (m->slot != CHANNEL_NO_SLOT && m->slot >= CHANNEL_SLOTS)
		return -EBADMSG;
	if (ordered && !client->draining && m->seq <= client->seq)
		return -EBADMSG;
	if (m->fn >= API_COUNT || !wkr_handlers[m->fn].run)
		return refuse(client, m, ordered);
	handler = &wkr_handlers[m->fn];
	elsewhere = api_sigs[m->fn].class_ == WIRE_SYNC_UNORDERED ||
		    handler->thread != WKR_ON_LANE;
	if (!elsewhere)
		return ordered ? run_here(client, m, arena, frame, size)
			       : -EBADMSG;
	r = send_to_queue(client, m);
	if (r == 0 && ordered) {
		publish_issued(client, m->seq);
		client->seq = m->seq;
	}
	return r;
}

static int
do_launch(struct wkr_client *client, const Mps__Launch *m,
	  const uint8_t *frame, uint32_t size)
{
	struct wkr_call call = {
		.client = client,
		.seq = m->seq,
		.slot = CHANNEL_NO_SLOT,
		.on_lane = true,
	};
	CUresult result;

	if (!client->draining && m->seq <= client->seq)
		return -EBADMSG;
	if (wkr_is_behind(client) && wkr_launch_is_behind(client, m))
		return set_aside(client, frame, size, m->seq, false, true);
	publish_issued(client, m->seq);
	result = wkr_launch(&call, m);
	if (call.lying)
		return -EBADMSG;
	if (result == WKR_AGAIN) {
		wkr_launch_mark(client, m);
		return WKR_CALL_E_AGAIN;
	}
	pass_seq(client, m->seq);
	if (result != CUDA_SUCCESS)
		wkr_late(client, result, "a launch");
	return 0;
}

int
wkr_frame(struct wkr_client *client, const uint8_t *frame, uint32_t size,
	  bool ordered)
{
	struct wire_arena arena = {
		.base = client->lane->arena,
		.size = WKR_ARENA_SIZE,
	};
	ProtobufCAllocator alloc = {
		.alloc = arena_alloc,
		.free = arena_free,
		.allocator_data = &arena,
	};
	const uint8_t *body = frame + sizeof(struct frame_header);
	struct frame_header header;
	uint32_t body_size;

	memcpy(&header, frame, sizeof(header));
	body_size = size - (uint32_t)sizeof(header);
	if (header.type == FRAME_LAUNCH && ordered) {
		Mps__Launch *m = mps__launch__unpack(&alloc, body_size, body);

		return m ? do_launch(client, m, frame, size) : -EBADMSG;
	}
	if (header.type == FRAME_CALL) {
		Mps__Call *m = mps__call__unpack(&alloc, body_size, body);

		return m ? do_call(client, m, ordered, &arena, frame, size) : -EBADMSG;
	}
	return -EBADMSG;
}
