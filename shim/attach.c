/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the channel of a device.
 */
#include "shim/chan_own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/shmem.h"
#include "shim/process.h"

enum { FD_DATA, FD_CHANNEL, FD_STAGING };

/* Serialises attaching: a device has one channel. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void
close_fds(int *fds)
{
	for (int i = 0; i < SHIM_CHAN_FDS; i++)
		err_closep(&fds[i]);
}

/* A forked child must not be able to speak in our name. */
static int
map_memory(struct shim_chan *chan, const int *fds)
{
	int r = channel_map(&chan->channel, fds[FD_CHANNEL]);

	if (r < 0)
		return err_trace(r);
	if (shmem_size(fds[FD_STAGING]) != (long)CHANNEL_STAGING_SIZE)
		return err_origin(-EBADMSG);
	chan->staging = shmem_map(fds[FD_STAGING], CHANNEL_STAGING_SIZE);
	if (!chan->staging)
		return err_origin(-errno);
	if (madvise(chan->channel.map, chan->channel.map_size,
		    MADV_DONTFORK) < 0 ||
	    madvise(chan->staging, CHANNEL_STAGING_SIZE, MADV_DONTFORK) < 0)
		return err_origin(-errno);
	r = shmem_populate(chan->channel.page, sizeof(*chan->channel.page));
	if (!r)
		r = shmem_populate(chan->channel.ordered, RING_ORDERED);
	if (!r)
		r = shmem_populate(chan->channel.unordered, RING_UNORDERED);
	if (!r)
		r = shmem_populate(chan->channel.slots,
				   CHANNEL_SLOTS * CHANNEL_SLOT_SIZE);
	return r ? r : shmem_populate(chan->staging, CHANNEL_STAGING_SIZE);
}

static void
init_lanes(struct shim_chan *chan)
{
	struct channel *c = &chan->channel;

	ring_init(&chan->lanes[LANE_ORDERED].ring, &c->page->ordered,
		  c->ordered, RING_ORDERED);
	ring_init(&chan->lanes[LANE_UNORDERED].ring, &c->page->unordered,
		  c->unordered, RING_UNORDERED);
	c->page->wire = WIRE_NUMBER;
	atomic_init(&chan->free_slots, UINT64_MAX);
	_Static_assert(CHANNEL_SLOTS == 64, "one bit a slot");
	shim_stage_init(&chan->stage);
}

void
shim_chan_close(struct shim_chan *chan)
{
	if (!chan)
		return;
	sock_reader_fini(&chan->reader);
	channel_unmap(&chan->channel);
	if (chan->staging)
		munmap(chan->staging, CHANNEL_STAGING_SIZE);
	err_closep(&chan->data.fd);
	free(chan);
}

static CUresult
ready(int real, CUresult status)
{
	Mps__Control message = MPS__CONTROL__INIT;
	Mps__Ready body = MPS__READY__INIT;

	body.what = MPS__READY__WHAT__ATTACH;
	body.object = (uint64_t)real;
	body.status = (uint32_t)status;
	message.body_case = MPS__CONTROL__BODY_READY;
	message.ready = &body;
	return shim_ask_done(&message);
}

static CUresult
say_unusable(int real, CUresult code, const char *why)
{
	log_line(LOG_ERROR, "device %d cannot be used (error %d): %s; `mpsctl "
		 "status` and the broker's log say more", real,
		 (int)code, why);
	return code;
}

/* The broker's yes and its descriptors, as many as this process could
 * take. */
static CUresult
ask_attach(int real, bool no_ring, int fds[SHIM_CHAN_FDS], int *nfds)
{
	Mps__Control message = MPS__CONTROL__INIT, *answer;
	Mps__Attach body = MPS__ATTACH__INIT;
	const char *why;
	CUresult r;

	body.device = real;
	body.no_ring = no_ring;
	message.body_case = MPS__CONTROL__BODY_ATTACH;
	message.attach = &body;
	*nfds = SHIM_CHAN_FDS;
	r = shim_ask(&message, MPS__CONTROL__BODY_ATTACH_REPLY, &answer, fds,
		     nfds);
	if (r != CUDA_SUCCESS)
		return r;
	if (answer->body_case == MPS__CONTROL__BODY_DONE) {
		r = (CUresult)answer->done->status;
		r = r ? r : CUDA_ERROR_MPS_RPC_FAILURE;
		why = answer->done->message;
	} else {
		r = (CUresult)answer->attach_reply->status;
		why = answer->attach_reply->message;
	}
	if (r != CUDA_SUCCESS)
		say_unusable(real, r, *why ? why : "the broker refuses it");
	mps__control__free_unpacked(answer, NULL);
	return r;
}

int
shim_chan_open(int device, bool no_ring, int fds[SHIM_CHAN_FDS],
	       struct shim_chan **out_chan)
{
	struct shim_chan *chan = calloc(1, sizeof(*chan));
	int r;

	if (!chan)
		return err_origin(-ENOMEM);
	chan->device = device;
	chan->no_ring = no_ring;
	chan->data.fd = -1;
	pthread_mutex_init(&chan->lock, NULL);
	pthread_mutex_init(&chan->reply_lock, NULL);
	r = map_memory(chan, fds);
	if (!r)
		r = shim_fd_init(&chan->data, steal_fd(&fds[FD_DATA]));
	if (r < 0) {
		shim_chan_close(chan);
		return err_trace(r);
	}
	init_lanes(chan);
	sock_reader_init(&chan->reader, chan->data.fd);
	*out_chan = chan;
	return 0;
}

/* Make a channel of the broker's descriptors, which it is told about. */
static CUresult
take_channel(int device, bool no_ring, int fds[SHIM_CHAN_FDS], int nfds,
	     struct shim_chan **out_chan)
{
	int real = shim_process.devices[device].real, r = 0;
	CUresult code = CUDA_SUCCESS, told;

	if (nfds != SHIM_CHAN_FDS)
		code = say_unusable(real, CUDA_ERROR_OPERATING_SYSTEM,
				    "no file descriptor is free here "
				    "(RLIMIT_NOFILE)");
	else
		r = shim_chan_open(device, no_ring, fds, out_chan);
	if (r < 0)
		code = say_unusable(real, CUDA_ERROR_OUT_OF_MEMORY,
				    strerror(-r));
	told = ready(real, code);
	return code ? code : told;
}

static CUresult
attach(int device, struct shim_chan **out_chan)
{
	bool no_ring = shim_process.perf & SHIM_NO_RING;
	int fds[SHIM_CHAN_FDS] = { -1, -1, -1 }, nfds;
	struct shim_chan *chan = NULL;
	CUresult code = ask_attach(shim_process.devices[device].real, no_ring,
				   fds, &nfds);

	if (code == CUDA_SUCCESS)
		code = take_channel(device, no_ring, fds, nfds, &chan);
	close_fds(fds);
	if (code == CUDA_SUCCESS)
		*out_chan = chan;
	else
		shim_chan_close(chan);
	return code;
}

CUresult
shim_chan_get(int device, struct shim_chan **out_chan)
{
	struct shim_chan *chan;
	CUresult r = CUDA_SUCCESS;
	int state;

	if (device < 0 || device >= shim_process.ndevices)
		return CUDA_ERROR_INVALID_DEVICE;
	/* Acquire: pairs with the release below. */
	chan = atomic_load_explicit(&shim_process.devices[device].chan,
				    memory_order_acquire);
	if (!chan) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		pthread_mutex_lock(&lock);
		chan = atomic_load_explicit(&shim_process.devices[device].chan,
					    memory_order_relaxed);
		if (!chan)
			r = attach(device, &chan);
		if (r == CUDA_SUCCESS)
			atomic_store_explicit(
				&shim_process.devices[device].chan, chan,
				memory_order_release);
		pthread_mutex_unlock(&lock);
		pthread_setcancelstate(state, NULL);
	}
	if (r == CUDA_SUCCESS)
		*out_chan = chan;
	return r;
}
