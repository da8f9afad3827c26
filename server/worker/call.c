/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a frame to its handler. The frame is the worker's own copy; lengths,
 * ids and enums are checked here and in proto/marshal.c, once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/worker/backlog.h"
#include "server/worker/batch.h"
#include "server/worker/call.h"
#include "server/worker/crash.h"
#include "server/worker/gated.h"
#include "server/worker/lane.h"
#include "server/worker/restore.h"

/* A call that another thread runs, with its frame's bytes and arena. */
struct call_job {
	struct wkr_job job;
	struct wkr_call call;
	bool ordered;
	uint8_t *frame; /* in memory: as it came */
	uint32_t frame_size;
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
	bool at_gate = wkr_handlers[j->call.fn].thread == WKR_ON_GATE;
	CUresult r;

	wkr_at_call(client, api_names[j->call.fn]);
	r = wkr_handlers[j->call.fn].run(&j->call, j->call.fn, j->call.args);
	if (r == WKR_AGAIN && at_gate)
		wkr_gated_wait(&j->call);
	if (r == WKR_AGAIN)
		return WKR_JOB_AGAIN;
	if (at_gate)
		wkr_gated_end(client);
	/* Written down before anybody can count on it. */
	if (r == CUDA_SUCCESS)
		wkr_journal_call(&j->call, j->frame, j->frame_size);
	else if (client->restore && r != WKR_DEFERRED)
		wkr_restore_fail(client, "a graph cannot be made again");
	if (r != WKR_DEFERRED)
		wkr_reply_call(&j->call, r);
	if (j->ordered)
		atomic_fetch_sub(&client->ordered_jobs, 1);
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
send_to_queue(struct wkr_client *client, const struct data_call *m,
	      const uint8_t *frame, uint32_t size, bool ordered)
{
	const struct wkr_handler *handler = &wkr_handlers[m->fn];
	size_t room = 4 * m->args.size + 64 * 1024;
	size_t args = (m->args.size + 7) & ~(size_t)7;
	struct call_job *j;
	int r;

	if (atomic_load(&client->jobs) >= WKR_JOBS_MAX)
		return WKR_CALL_E_AGAIN;
	j = malloc(sizeof(*j) + room + args + size);
	if (!j)
		return -ENOMEM;
	memset(j, 0, sizeof(*j));
	j->ordered = ordered;
	j->frame = j->memory + room + args;
	j->frame_size = size;
	memcpy(j->frame, frame, size);
	if (m->args.size)
		memcpy(j->memory + room, m->args.data, m->args.size);
	j->job.run = run_job;
	j->call.client = client;
	j->call.seq = m->seq;
	j->call.fn = m->fn;
	j->call.slot = client->restore ? CHANNEL_NO_SLOT : m->slot;
	j->call.since_ns = wkr_now_ns();
	j->call.arena = (struct wire_arena){.base = j->memory, .size = room};
	r = wire_unpack_call(&api_sigs[m->fn], j->memory + room, m->args.size,
			     j->call.args, &j->call.arena);
	if (r < 0) {
		free(j);
		return r;
	}
	wkr_client_pin(client);
	if (handler->thread == WKR_ON_GATE)
		atomic_fetch_add(&client->gated, 1);
	if (ordered)
		atomic_fetch_add(&client->ordered_jobs, 1);
	wkr_queue_add(queues[handler->thread], &j->job);
	return 0;
}

/* The lane is done with a frame of the ordered ring. */
static void
pass_seq(struct wkr_client *client, uint64_t seq)
{
	if (!client->draining && !client->restore)
		client->seq = seq;
	wkr_keep_end(client);
}

/*
 * Calls that come to the same if they are made twice, or are made in vain.
 * What puts work on a stream says so itself, when it does.
 */
static bool
is_repeatable(uint32_t fn)
{
	switch (fn) {
	case API_mpsFence:
	case API_mpsStreamCreate:
	case API_mpsContextSync:
	case API_mpsEventCreate:
	case API_mpsEventQuery:
	case API_mpsEventSync:
	case API_mpsEventElapsed:
	case API_mpsLimitSet:
		return true;
	default:
		return wkr_call_has_stream(fn);
	}
}

/* Numbers of frames rise; a new worker has yet to see the first. */
static bool
is_in_order(const struct wkr_client *client, uint64_t seq)
{
	return client->draining || client->restore || seq > client->seq;
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
	wkr_keep_begin(&(struct wkr_call){.client = client, .seq = seq}, false);
	pass_seq(client, seq);
	return 0;
}

/* A post of the lane's. Its arguments are not set: they are larger than all
 * else of a launch, which has none. */
static void
call_begin(struct wkr_call *call, struct wkr_client *client, uint64_t seq)
{
	call->client = client;
	call->seq = seq;
	call->fn = 0;
	call->slot = CHANNEL_NO_SLOT;
	call->lying = false;
	call->on_lane = true;
	call->since_ns = 0;
	call->begun = call->again = false;
}

/* Again in another worker, a post may be in vain: then it was done, or what it
 * was for is gone. In a restore nothing may. */
static void
finish(struct wkr_call *call, CUresult result)
{
	struct wkr_client *client = call->client;

	if (client->restore && result != CUDA_SUCCESS)
		wkr_restore_fail(client, "an object cannot be made again");
	else if (!client->restore && (call->slot != CHANNEL_NO_SLOT ||
				      call->seq > client->again_until))
		wkr_reply_call(call, result);
}

static int
run_here(struct wkr_client *client, const struct data_call *m,
	 const struct wire_arena *arena, const uint8_t *frame, uint32_t size)
{
	struct wkr_call call;
	CUresult result;
	int r;

	call_begin(&call, client, m->seq);
	call.fn = m->fn;
	if (!client->restore && (!client->draining || !client->answered))
		call.slot = m->slot;
	call.arena = *arena;
	r = wire_unpack_call(&api_sigs[m->fn], m->args.data, m->args.size,
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
	if (!wkr_call_has_stream(m->fn))
		wkr_keep_begin(&call, is_repeatable(m->fn));
	wkr_at_call(client, api_names[m->fn]);
	result = wkr_handlers[m->fn].run(&call, m->fn, call.args);
	if (result == WKR_AGAIN) {
		/* One that comes from the ring keeps all behind it there. */
		if (client->draining)
			wkr_call_mark(&call);
		return WKR_CALL_E_AGAIN;
	}
	if (!call.begun)
		wkr_keep_begin(&call, true);
	if (result == CUDA_SUCCESS)
		wkr_journal_call(&call, frame, size);
	pass_seq(client, m->seq);
	if (result != WKR_DEFERRED)
		finish(&call, result);
	return 0;
}

/* The worker does not serve this: say so, as an old driver would. */
static int
refuse(struct wkr_client *client, const struct data_call *m, bool ordered)
{
	if (ordered) {
		wkr_keep_begin(&(struct wkr_call){.client = client,
						  .seq = m->seq},
			       true);
		pass_seq(client, m->seq);
	}
	if (m->slot == CHANNEL_NO_SLOT)
		wkr_late(client, CUDA_ERROR_NOT_SUPPORTED, "an unknown call");
	wkr_reply(client, m->seq, m->slot, CUDA_ERROR_NOT_SUPPORTED, NULL, 0,
		  false);
	return 0;
}

static int
do_call(struct wkr_client *client, const struct data_call *m, bool ordered,
	const struct wire_arena *arena, const uint8_t *frame, uint32_t size)
{
	const struct wkr_handler *handler;
	bool elsewhere;
	int r;

	if (m->slot != CHANNEL_NO_SLOT && m->slot >= CHANNEL_SLOTS)
		return -EBADMSG;
	if (ordered && !is_in_order(client, m->seq))
		return -EBADMSG;
	if (ordered && wkr_restore_skips(client, m->seq, m->slot)) {
		client->seq = m->seq;
		wkr_keep_end(client);
		return 0;
	}
	if (m->fn >= API_COUNT || !wkr_handlers[m->fn].run)
		return refuse(client, m, ordered);
	handler = &wkr_handlers[m->fn];
	elsewhere = api_sigs[m->fn].class_ == WIRE_SYNC_UNORDERED ||
		    handler->thread != WKR_ON_LANE;
	if (!elsewhere)
		return ordered ? run_here(client, m, arena, frame, size)
			       : -EBADMSG;
	/* In a restore, what went by the unordered ring comes as well. */
	ordered &= !client->restore;
	r = send_to_queue(client, m, frame, size, ordered);
	if (r == 0 && ordered) {
		wkr_keep_begin(&(struct wkr_call){.client = client,
						  .seq = m->seq},
			       false);
		pass_seq(client, m->seq);
	}
	return r;
}

static int
do_launch(struct wkr_client *client, const struct data_launch *m,
	  const uint8_t *frame, uint32_t size)
{
	struct wkr_call call;
	CUresult result;

	if (!is_in_order(client, m->seq) || client->restore)
		return -EBADMSG;
	if (wkr_restore_skips(client, m->seq, CHANNEL_NO_SLOT)) {
		client->seq = m->seq;
		wkr_keep_end(client);
		return 0;
	}
	if (wkr_is_behind(client) && wkr_launch_is_behind(client, m))
		return set_aside(client, frame, size, m->seq, false, true);
	call_begin(&call, client, m->seq);
	wkr_at_call(client, "a launch");
	result = wkr_launch(&call, m);
	if (call.lying)
		return -EBADMSG;
	if (result == WKR_AGAIN) {
		if (client->draining)
			wkr_launch_mark(client, m);
		return WKR_CALL_E_AGAIN;
	}
	if (!call.begun)
		wkr_keep_begin(&call, true);
	pass_seq(client, m->seq);
	if (result != CUDA_SUCCESS)
		wkr_late(client, result, "a launch");
	return 0;
}

/* Messages that are not packed as our shim does it, into the arena: protobuf-c
 * copies their bytes there. False: no such message. */
static bool
unpack_call(struct wire_arena *arena, const uint8_t *body, uint32_t size,
	    struct data_call *out)
{
	ProtobufCAllocator alloc = {arena_alloc, arena_free, arena};
	Mps__Call *m = mps__call__unpack(&alloc, size, body);

	if (m)
		*out = (struct data_call){
			.seq = m->seq,
			.fn = m->fn,
			.slot = m->slot,
			.args = {m->args.data, m->args.len},
		};
	return m;
}

static bool
unpack_launch(struct wire_arena *arena, const uint8_t *body, uint32_t size,
	      struct data_launch *out)
{
	ProtobufCAllocator alloc = {arena_alloc, arena_free, arena};
	Mps__Launch *m = mps__launch__unpack(&alloc, size, body);

	if (m)
		*out = (struct data_launch){
			.seq = m->seq,
			.head = {m->head.data, m->head.len},
			.params = {m->params.data, m->params.len},
			.attrs = {m->attrs.data, m->attrs.len},
		};
	return m;
}

int
wkr_frame(struct wkr_client *client, const uint8_t *frame, uint32_t size,
	  bool ordered)
{
	struct wire_arena arena = {
		.base = client->lane->arena,
		.size = WKR_ARENA_SIZE,
	};
	const uint8_t *body = frame + sizeof(struct frame_header);
	struct frame_header header;
	struct data_launch launch;
	struct data_call call;
	uint32_t body_size;

	memcpy(&header, frame, sizeof(header));
	body_size = size - (uint32_t)sizeof(header);
	if (header.type == FRAME_LAUNCH && ordered) {
		if (!data_read_launch(body, body_size, &launch) &&
		    !unpack_launch(&arena, body, body_size, &launch))
			return -EBADMSG;
		return do_launch(client, &launch, frame, size);
	}
	if (header.type == FRAME_CALL) {
		wkr_batch_issue(client);
		if (!data_read_call(body, body_size, &call) &&
		    !unpack_call(&arena, body, body_size, &call))
			return -EBADMSG;
		return do_call(client, &call, ordered, &arena, frame, size);
	}
	return -EBADMSG;
}
