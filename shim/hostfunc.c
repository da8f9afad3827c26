/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions. The worker holds the stream, tells the callback thread of
 * its turn, and goes on when that asks for the next one. The thread is made
 * at the first host function of a device and stays.
 */
#include "shim/hostfunc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "shim/capture.h"
#include "shim/chan.h"
#include "shim/ctx.h"
#include "shim/process.h"
#include "shim/room.h"
#include "shim/stream.h"
#include "shim/thread.h"
#include "shim_calls.h"
#include "shim_impl.h"

struct host_call {
	uint64_t ticket;
	void (*run)(void *arg);
	void *arg;
	struct host_call *next;
};

/* Guards what follows. Held for list work and the making of threads only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_call *calls;        /* posted, not yet run */
static uint64_t last_ticket;
static bool started[SHIM_MAX_DEVICES];

/* ---- threads ---- */

static struct host_call *
take(uint64_t ticket)
{
	struct host_call **link = &calls, *call;

	pthread_mutex_lock(&lock);
	while ((call = *link) != NULL && call->ticket != ticket)
		link = &call->next;
	if (call != NULL)
		*link = call->next;
	pthread_mutex_unlock(&lock);
	return call;
}

static void *
callback_thread(void *arg)
{
	struct shim_chan *chan = arg;
	uint64_t done = 0, next = 0;

	pthread_setname_np(pthread_self(), "cuda-callback");
	while (call_mpsHostNext(chan, done, &next) == CUDA_SUCCESS) {
		struct host_call *call = take(next);

		if (call != NULL)
			call->run(call->arg);
		free(call);
		done = next;
	}
	return NULL;
}

static CUresult
need_thread_locked(struct shim_chan *chan)
{
	int device = shim_chan_device(chan);

	if (!started[device] &&
	    shim_thread_start(callback_thread, chan, 0) == 0)
		started[device] = true;
	return started[device] ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- posting ---- */

CUresult
shim_host_post(struct shim_stream *stream, void (*run)(void *arg), void *arg)
{
	struct shim_chan *chan = stream->object.ctx->chan;
	uint64_t ticket = 0;
	struct host_call *call;
	CUresult r = shim_room_take(stream, SHIM_ROOM_OTHER);

	if (r != CUDA_SUCCESS)
		return r;
	call = malloc(sizeof(*call));
	if (call == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	call->run = run;
	call->arg = arg;
	pthread_mutex_lock(&lock);
	r = need_thread_locked(chan);
	if (r == CUDA_SUCCESS) {
		ticket = call->ticket = ++last_ticket;
		call->next = calls;
		calls = call;
	}
	pthread_mutex_unlock(&lock);
	if (r != CUDA_SUCCESS) {
		free(call);
		return r;
	}
	r = call_mpsHostFunc(chan, stream->object.handle, ticket);
	if (r != CUDA_SUCCESS)
		free(take(ticket));
	return r;
}

struct soon {
	void (*run)(void *arg);
	void *arg;
};

static void *
soon_thread(void *arg)
{
	struct soon *soon = arg;

	soon->run(soon->arg);
	free(soon);
	return NULL;
}

void
shim_host_soon(void (*run)(void *arg), void *arg)
{
	struct soon *soon = malloc(sizeof(*soon));

	if (soon != NULL) {
		*soon = (struct soon){ run, arg };
		if (shim_thread_start(soon_thread, soon, 0) == 0)
			return;
	}
	free(soon);
	run(arg);
}

/* ---- entry points ---- */

CUresult
shim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	CUDA_HOST_NODE_PARAMS p = { .fn = fn, .userData = userData };
	struct shim_stream *stream;
	struct shim_work work;
	CUresult r = shim_stream_find(hStream, shim_current, &stream);

	if (r == CUDA_SUCCESS)
		r = shim_capture_legacy(stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (fn == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shim_stream_is_capturing(stream))
		return shim_host_post(stream, fn, userData);
	r = shim_work_host(&p, &work);
	return r != CUDA_SUCCESS ? r : shim_capture_work(stream, &work);
}

struct callback {
	CUstreamCallback fn;
	CUstream stream;            /* as the program calls it */
	struct shim_chan *chan;
	void *data;
};

static void
run_callback(void *arg)
{
	struct callback *c = arg;

	c->fn(c->stream, shim_chan_sticky(c->chan), c->data);
	free(c);
}

CUresult
shim_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback,
			 void *userData, unsigned int flags)
{
	struct shim_stream *stream;
	struct callback *c;
	CUresult r = shim_stream_find(hStream, shim_current, &stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (callback == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = shim_capture_wait_stream(stream);
	if (r != CUDA_SUCCESS)
		return r;
	c = malloc(sizeof(*c));
	if (c == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct callback){
		callback, hStream, stream->object.ctx->chan, userData,
	};
	r = shim_host_post(stream, run_callback, c);
	if (r != CUDA_SUCCESS)
		free(c);
	return r;
}
