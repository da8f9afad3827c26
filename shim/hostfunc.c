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
#include <time.h>

#include "shim/capture_own.h"
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
	void (*run)(void *arg);      /* or, NULL, a wait: */
	bool (*is_over)(void *arg);
	void *arg;
	struct shim_chan *chan;
	struct host_call *next;
};

/* Guards what follows. Held for list work and the making of threads only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_call *calls;        /* posted, not yet run */
static struct host_call *waits;        /* whose turn it is */
static pthread_cond_t waits_come = PTHREAD_COND_INITIALIZER;
static uint64_t last_ticket;
static bool started[SHIM_MAX_DEVICES], waiting;

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

/* ---- waits ---- */

static void
add_wait(struct host_call *call)
{
	pthread_mutex_lock(&lock);
	call->next = waits;
	waits = call;
	pthread_cond_signal(&waits_come);
	pthread_mutex_unlock(&lock);
}

static bool
is_wait(uint64_t ticket)
{
	const struct host_call *call;

	pthread_mutex_lock(&lock);
	for (call = waits; call != NULL; call = call->next) {
		if (call->ticket == ticket)
			break;
	}
	pthread_mutex_unlock(&lock);
	return call != NULL;
}

/* Only this thread takes waits away; others put new ones in front. */
static bool
end_waits(struct host_call *first)
{
	bool any = false;

	for (struct host_call *call = first, *next; call; call = next) {
		struct host_call **link = &waits;

		next = call->next;
		if (!call->is_over(call->arg))
			continue;
		pthread_mutex_lock(&lock);
		while (*link != call)
			link = &(*link)->next;
		*link = next;
		pthread_mutex_unlock(&lock);
		call_mpsHostDone(call->chan, call->ticket);
		free(call->arg);
		free(call);
		any = true;
	}
	return any;
}

/* Short while it may be over soon; a thousandth of a second is what a long
 * wait may cost at its end. */
static void
nap(unsigned int rounds)
{
	unsigned int us = rounds < 100 ? 5 : rounds < 1000 ? 50 : 1000;

	nanosleep(&(struct timespec){ .tv_nsec = us * 1000L }, NULL);
}

static void *
wait_thread(void *arg)
{
	unsigned int rounds = 0;

	(void)arg;
	pthread_setname_np(pthread_self(), "cuda-wait");
	/* Copies of its own are no part of what the program captures. */
	shim_capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	for (;;) {
		struct host_call *first;

		pthread_mutex_lock(&lock);
		while (waits == NULL) {
			rounds = 0;
			pthread_cond_wait(&waits_come, &lock);
		}
		first = waits;
		pthread_mutex_unlock(&lock);
		if (end_waits(first))
			rounds = 0;
		else
			nap(rounds++);
	}
	return NULL;
}

static void *
callback_thread(void *arg)
{
	struct shim_chan *chan = arg;
	uint64_t done = 0, next = 0;

	pthread_setname_np(pthread_self(), "cuda-callback");
	while (call_mpsHostNext(chan, done, &next) == CUDA_SUCCESS) {
		struct host_call *call = take(next);

		done = next;
		if (call != NULL && call->run == NULL) {
			add_wait(call);
			done = 0;
		} else if (call != NULL) {
			call->run(call->arg);
			free(call);
		} else if (is_wait(next)) {
			done = 0;    /* told again by the next worker */
		}
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

static CUresult
need_waiter_locked(void)
{
	if (!waiting && shim_thread_start(wait_thread, NULL, 0) == 0)
		waiting = true;
	return waiting ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- posting ---- */

static CUresult
post(struct shim_stream *stream, void (*run)(void *arg),
     bool (*is_over)(void *arg), void *arg)
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
	call->is_over = is_over;
	call->arg = arg;
	call->chan = chan;
	pthread_mutex_lock(&lock);
	r = need_thread_locked(chan);
	if (r == CUDA_SUCCESS && run == NULL)
		r = need_waiter_locked();
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
	if (r == CUDA_SUCCESS)
		return r;
	call = take(ticket);
	/* The worker had it before it was lost: it is under way. */
	if (call == NULL)
		return CUDA_SUCCESS;
	free(call);
	return r;
}

CUresult
shim_host_post(struct shim_stream *stream, void (*run)(void *arg), void *arg)
{
	return post(stream, run, NULL, arg);
}

CUresult
shim_host_wait(struct shim_stream *stream, bool (*is_over)(void *arg),
	       void *arg)
{
	return post(stream, NULL, is_over, arg);
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
