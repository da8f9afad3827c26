/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of pageable memory, in pieces. Moving the bytes between the
 * program's memory and staging memory is most of the work, so large copies
 * have helpers for it (crew.h), and several pieces are under way: some with
 * the crew, some with the GPU.
 *
 * Staging memory is the channel's, for all threads. Who holds pieces never
 * waits for more: it goes on with what it has. Otherwise callers that hold a
 * piece each could wait for one another for ever.
 */
#include "shim/staged.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "api_ids.h"
#include "shim_calls.h"
#include "shim/chan.h"
#include "shim/crew.h"
#include "shim/ctx.h"
#include "shim/relax.h"
#include "shim/stage.h"

/* Pieces under way: as many as there are. */
#define DEPTH (CHANNEL_STAGING / STAGE_PIECE)
/* With the crew at most, so that the GPU has some too. */
#define CREW_DEPTH (DEPTH / 2)
/* A sleeping crew needs 50 us to come, in which a caller moves half of it; of
 * what is smaller than the second, one helper does the rest. */
#define CREW_FROM (1024u * 1024u)
#define CREW_ALL_FROM (4u * 1024u * 1024u)
/* Not much of it would be in a cache when the program looks at it. */
#define PAST_CACHES_FROM (16u * 1024u * 1024u)
/* Pieces between two questions how far the GPU is. */
#define MARK_EVERY 2u
#define MARKS 2u

/* ---- staging memory ---- */

static int
try_take(const struct shim_staged *c, uint32_t size, uint32_t *out_offset)
{
	struct shim_chan *chan = c->ctx->chan;

	return shim_stage_take(shim_chan_stage(chan), size, c->stream,
			       shim_chan_retired(chan), out_offset);
}

/*
 * When all is in use, wait for this stream's own work first: another stream's
 * kernel may run for ever, or wait for this very copy.
 */
static CUresult
take(const struct shim_staged *c, uint32_t size, uint32_t *out_offset)
{
	struct shim_chan *chan = c->ctx->chan;
	struct shim_relax relax = {0};
	bool synced = false;
	CUresult r = CUDA_SUCCESS;

	while (try_take(c, size, out_offset) == STAGE_E_FULL) {
		if (synced) {
			r = shim_relax(chan, &relax);
		} else {
			uint64_t seq = shim_chan_seq(chan);

			r = call_mpsStreamSync(chan, c->stream);
			shim_stage_finish(shim_chan_stage(chan), c->stream,
					  seq);
			synced = true;
		}
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

CUresult
shim_staged_take(struct shim_context *ctx, uint64_t stream, uint32_t size,
		 uint32_t *out_offset)
{
	struct shim_staged c = { .ctx = ctx, .stream = stream };

	return take(&c, size, out_offset);
}

static uint32_t
piece_size(const struct shim_staged *c, uint64_t at)
{
	return c->size - at < STAGE_PIECE ? (uint32_t)(c->size - at)
					  : STAGE_PIECE;
}

static void
drop(const struct shim_staged *c, uint32_t offset)
{
	shim_stage_drop(shim_chan_stage(c->ctx->chan), offset);
}

static void *
staging(const struct shim_staged *c, uint64_t offset)
{
	return shim_chan_staging(c->ctx->chan) + offset;
}

/* ---- in ---- */

static CUresult
post_in(const struct shim_staged *c, uint64_t at, uint32_t size,
	uint32_t offset)
{
	struct shim_chan *chan = c->ctx->chan;
	CUresult r = call_mpsCopyIn(chan, c->device + at, size, offset,
				    c->stream);

	if (r != CUDA_SUCCESS)
		drop(c, offset);
	else
		/* At least the number of that frame. */
		shim_stage_mark(shim_chan_stage(chan), offset,
				shim_chan_seq(chan));
	return r;
}

/* A question whether the stream has done what was posted before. Its
 * arguments live as long as the call. */
struct mark {
	struct shim_wait wait;
	uint64_t stream, seq;
	void *argv[1];
};

struct in_piece {
	struct shim_crew_job job;
	uint64_t at;
	uint32_t size, offset;
};

/* Piece i is pieces[i % DEPTH], mark i is marks[i % MARKS]. */
struct in {
	const struct shim_staged *c;
	unsigned int begun, posted, depth, helpers;
	unsigned int asked, answered;
	uint64_t at;                /* bytes begun */
	struct in_piece pieces[DEPTH];
	struct mark marks[MARKS];
};

/* What the oldest mark says is free. */
static CUresult
answer_mark(struct in *in)
{
	struct shim_chan *chan = in->c->ctx->chan;
	struct mark *m = &in->marks[in->answered++ % MARKS];
	CUresult r = shim_chan_end(chan, API_mpsStreamSync, m->argv, &m->wait);

	shim_stage_finish(shim_chan_stage(chan), m->stream, m->seq);
	return r;
}

/* Not when what has been posted need not be done for the copy to be taken:
 * the caller would wait for the GPU in vain. */
static CUresult
ask_mark(struct in *in)
{
	struct shim_chan *chan = in->c->ctx->chan;
	struct mark *m = &in->marks[in->asked % MARKS];
	CUresult r = CUDA_SUCCESS;

	if (in->posted % MARK_EVERY ||
	    in->c->size - in->at < (uint64_t)DEPTH * STAGE_PIECE)
		return r;
	if (in->asked - in->answered == MARKS)
		r = answer_mark(in);
	if (r != CUDA_SUCCESS)
		return r;
	m->stream = in->c->stream;
	m->argv[0] = &m->stream;
	m->seq = shim_chan_seq(chan);
	r = shim_chan_begin(chan, API_mpsStreamSync, m->argv, &m->wait);
	if (r == CUDA_SUCCESS)
		in->asked++;
	return r;
}

/* Hand the next piece to the crew. *out_full: there is no staging memory. */
static CUresult
begin_in(struct in *in, bool *out_full)
{
	const struct shim_staged *c = in->c;
	struct in_piece *p = &in->pieces[in->begun % DEPTH];

	p->at = in->at;
	p->size = piece_size(c, in->at);
	*out_full = try_take(c, p->size, &p->offset) == STAGE_E_FULL;
	if (*out_full && in->begun == in->posted) {
		CUresult r;

		if (in->answered < in->asked)
			return answer_mark(in);
		r = take(c, p->size, &p->offset);
		if (r != CUDA_SUCCESS)
			return r;
		*out_full = false;
	}
	if (*out_full)
		return CUDA_SUCCESS;
	p->job = (struct shim_crew_job){
		.to = staging(c, p->offset),
		.from = (const void *)(uintptr_t)(c->host + p->at),
		.size = p->size,
		/* The GPU reads it, and nobody else. */
		.past_caches = true,
	};
	shim_crew_add(&p->job, in->helpers);
	in->begun++;
	in->at += p->size;
	return CUDA_SUCCESS;
}

/* The oldest piece, once it is filled. */
static CUresult
finish_in(struct in *in)
{
	struct in_piece *p = &in->pieces[in->posted++ % DEPTH];
	CUresult r;

	shim_crew_finish(&p->job);
	r = post_in(in->c, p->at, p->size, p->offset);
	return r == CUDA_SUCCESS ? ask_mark(in) : r;
}

static CUresult
pipe_in(const struct shim_staged *c, unsigned int helpers)
{
	struct in in = {
		.c = c, .depth = helpers ? CREW_DEPTH : 1, .helpers = helpers,
	};
	CUresult r = CUDA_SUCCESS, last;
	bool full = false;

	while (r == CUDA_SUCCESS && (in.at < c->size || in.posted < in.begun)) {
		if (in.at < c->size && in.begun - in.posted < in.depth &&
		    !full) {
			r = begin_in(&in, &full);
			full &= in.begun > in.posted;
		} else {
			r = finish_in(&in);
			full = false;
		}
	}
	while (in.posted < in.begun) {
		struct in_piece *p = &in.pieces[in.posted++ % DEPTH];

		shim_crew_finish(&p->job);
		drop(c, p->offset);
	}
	while (in.answered < in.asked) {
		last = answer_mark(&in);
		if (r == CUDA_SUCCESS)
			r = last;
	}
	return r;
}

/* ---- out ---- */

/* The call's arguments live as long as the call. */
struct out_piece {
	struct shim_wait wait;
	uint64_t src, size, staging, stream;
	void *argv[4];
	uint64_t at;                /* where in the copy */
	struct shim_crew_job job;
	bool moves;                 /* the crew has it */
};

/* Piece i is pieces[i % DEPTH]. */
struct out {
	const struct shim_staged *c;
	unsigned int begun, arrived, moved;
	unsigned int depth, crew_depth, helpers;
	uint64_t at;                /* bytes begun */
	struct out_piece pieces[DEPTH];
};

static CUresult
begin_out(struct out *out, bool *out_full)
{
	const struct shim_staged *c = out->c;
	struct out_piece *p = &out->pieces[out->begun % DEPTH];
	CUresult r = CUDA_SUCCESS;
	uint32_t offset;

	p->at = out->at;
	p->size = piece_size(c, out->at);
	p->src = c->device + out->at;
	p->stream = c->stream;
	p->argv[0] = &p->src;
	p->argv[1] = &p->size;
	p->argv[2] = &p->staging;
	p->argv[3] = &p->stream;
	if (out->begun == out->moved) {
		r = take(c, (uint32_t)p->size, &offset);
	} else {
		*out_full = try_take(c, (uint32_t)p->size, &offset) ==
			    STAGE_E_FULL;
	}
	if (r != CUDA_SUCCESS || *out_full)
		return r;
	p->staging = offset;
	r = shim_chan_begin(c->ctx->chan, API_mpsCopyOut, p->argv, &p->wait);
	if (r != CUDA_SUCCESS) {
		drop(c, offset);
		return r;
	}
	out->begun++;
	out->at += p->size;
	return r;
}

/* The oldest piece that is with the GPU. */
static CUresult
arrive_out(struct out *out)
{
	const struct shim_staged *c = out->c;
	struct out_piece *p = &out->pieces[out->arrived++ % DEPTH];
	CUresult r = shim_chan_end(c->ctx->chan, API_mpsCopyOut, p->argv,
				   &p->wait);

	p->moves = r == CUDA_SUCCESS;
	if (!p->moves)
		return r;
	p->job = (struct shim_crew_job){
		.to = (void *)(uintptr_t)(c->host + p->at),
		.from = staging(c, p->staging),
		.size = p->size,
		.past_caches = c->size >= PAST_CACHES_FROM,
	};
	shim_crew_add(&p->job, out->helpers);
	return r;
}

/* The oldest piece that has arrived. */
static void
finish_out(struct out *out)
{
	struct out_piece *p = &out->pieces[out->moved++ % DEPTH];

	if (p->moves)
		shim_crew_finish(&p->job);
	/* The staging of a lost worker is never reused. */
	if (shim_chan_sticky(out->c->ctx->chan) == CUDA_SUCCESS)
		drop(out->c, (uint32_t)p->staging);
}

static CUresult
pipe_out(const struct shim_staged *c, unsigned int helpers)
{
	struct out out = {
		.c = c, .depth = helpers ? DEPTH : 2,
		.crew_depth = helpers ? CREW_DEPTH : 1, .helpers = helpers,
	};
	CUresult first = CUDA_SUCCESS, r;
	bool full = false;

	for (;;) {
		bool more = first == CUDA_SUCCESS && out.at < c->size;

		r = CUDA_SUCCESS;
		if (more && !full && out.begun - out.moved < out.depth) {
			r = begin_out(&out, &full);
		} else if (out.arrived < out.begun &&
			   out.arrived - out.moved < out.crew_depth) {
			r = arrive_out(&out);
		} else if (out.moved < out.begun) {
			finish_out(&out);
			full = false;
		} else {
			return first;
		}
		if (first == CUDA_SUCCESS)
			first = r;
	}
}

/* ---- both ---- */

/* A cancelled thread would leave its jobs to the crew. */
static CUresult
with_crew(const struct shim_staged *c,
	  CUresult (*pipe)(const struct shim_staged *, unsigned int))
{
	unsigned int helpers = c->size >= CREW_FROM ? shim_crew_size() : 0;
	int state;
	CUresult r;

	if (helpers > 1 && c->size < CREW_ALL_FROM)
		helpers = 1;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (helpers)
		shim_crew_open(helpers);
	r = pipe(c, helpers);
	if (helpers)
		shim_crew_close();
	pthread_setcancelstate(state, NULL);
	return r;
}

CUresult
shim_staged_in(const struct shim_staged *c)
{
	uint32_t offset;
	CUresult r;

	if (c->size > STAGE_PIECE)
		return with_crew(c, pipe_in);
	r = take(c, (uint32_t)c->size, &offset);
	if (r != CUDA_SUCCESS)
		return r;
	memcpy(staging(c, offset), (const void *)(uintptr_t)c->host, c->size);
	return post_in(c, 0, (uint32_t)c->size, offset);
}

CUresult
shim_staged_out(const struct shim_staged *c)
{
	uint32_t offset;
	CUresult r;

	if (c->size > STAGE_PIECE)
		return with_crew(c, pipe_out);
	r = take(c, (uint32_t)c->size, &offset);
	if (r != CUDA_SUCCESS)
		return r;
	r = call_mpsCopyOut(c->ctx->chan, c->device, c->size, offset,
			    c->stream);
	if (r == CUDA_SUCCESS)
		memcpy((void *)(uintptr_t)c->host, staging(c, offset), c->size);
	/* The staging of a lost worker is never reused. */
	if (shim_chan_sticky(c->ctx->chan) == CUDA_SUCCESS)
		drop(c, offset);
	return r;
}
