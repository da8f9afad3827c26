/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading code. The client names an image by hash. If the store lacks it,
 * the client fills shared memory that the broker made; the broker then seals
 * that memory against writing, computes the hash itself, in slices so that
 * nobody else waits, and only then believes it.
 */
#include "server/broker/image.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/shmem.h"
#include "server/broker/client.h"
#include "server/broker/move.h"

/* Half a millisecond with the processor's SHA extensions, 2 without. */
#define SLICE (512u * 1024u)
/* The largest image known is a cuBLASLt of some 600 MB. */
#define IMAGE_MAX (UINT64_C(2) << 30)

void
brk_images_init(struct brk_images *images)
{
	images->fd = -1;
}

static unsigned int
find_used(const struct brk_images *images, const struct brk_image *image)
{
	unsigned int at = 0;

	while (at < images->nused && images->used[at] != image)
		at++;
	return at;
}

static void
forget_used(struct brk_images *images, unsigned int at)
{
	struct brk_image *image = images->used[at];

	assert(image->refs);
	image->refs--;
	images->used_bytes -= image->size;
	images->nused--;
	memmove(images->used + at, images->used + at + 1,
		(images->nused - at) * sizeof(*images->used));
}

/* A client keeps so much of the store, so that none keeps it all. */
static bool
keeps_too_much(const struct brk_images *images, const struct brk_store *store)
{
	return images->nused > store->max_count / 16 ||
	       images->used_bytes > store->max_bytes / 4;
}

/*
 * The client keeps what it asked for last: from the answer until its modules
 * are loaded, and what a library will be loaded from later. What it asked for
 * long ago the store may drop when it is full.
 */
static int
use(struct brk_images *images, const struct brk_store *store,
    struct brk_image *image)
{
	unsigned int at = find_used(images, image), cap;
	struct brk_image **used;

	if (at < images->nused)
		forget_used(images, at);
	if (images->nused == images->cap) {
		cap = images->cap ? 2 * images->cap : 16;
		used = reallocarray(images->used, cap, sizeof(*used));
		if (!used)
			return err_origin(-ENOMEM);
		images->used = used;
		images->cap = cap;
	}
	images->used[images->nused++] = image;
	images->used_bytes += image->size;
	image->refs++;
	while (images->nused > 1 && keeps_too_much(images, store))
		forget_used(images, 0);
	return 0;
}

static void
reply(struct brk_client *client, uint32_t status, bool have, int fd)
{
	Mps__ImageReply body = MPS__IMAGE_REPLY__INIT;
	Mps__Control answer = MPS__CONTROL__INIT;

	body.status = status;
	body.have = have;
	answer.body_case = MPS__CONTROL__BODY_IMAGE_REPLY;
	answer.image_reply = &body;
	brk_client_answer(client, &answer, &fd, fd >= 0);
}

/* The end of Image with `have`, or of Ready(IMAGE). */
static void
finish(struct brk_client *client, uint32_t status, const char *message)
{
	if (client->images.upload)
		brk_client_done(client, status, message);
	else
		reply(client, status, !status, -1);
}

static void
drop_upload(struct brk_client *client)
{
	struct brk_images *images = &client->images;

	if (images->size) {
		brk_discharge(client->tenant, QUOTA_HOST, images->size);
		brk_discharge(client->tenant, QUOTA_DESCRIPTORS, 1);
	}
	brk_timer_stop(&images->step);
	if (images->fd >= 0)
		close(images->fd);
	images->fd = -1;
	images->size = 0;
}

static void
given(struct brk_request *request, struct brk_result *result)
{
	struct brk_client *client = request->client;
	struct brk_images *images = &client->images;
	struct brk_worker *worker;

	images->again = result->lost;
	worker = brk_session_worker(client, images->device);
	if (!result->status && worker &&
	    brk_image_learned(images->image, worker) < 0)
		result->status = BRK_OUT_OF_MEMORY;
	finish(client, result->status, result->message);
}

void
brk_image_give(struct brk_worker *worker, struct brk_request *request,
	       const struct brk_image *image)
{
	Mps__WorkerImage body = MPS__WORKER_IMAGE__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	body.hash.data = (uint8_t *)image->hash;
	body.hash.len = SHA256_SIZE;
	body.size = image->size;
	message.body_case = MPS__CONTROL__BODY_WORKER_IMAGE;
	message.worker_image = &body;
	brk_worker_ask(worker, request, &message, &image->fd, 1);
}

/* Make sure that the worker has the image, then answer. */
static void
give(struct brk_client *client, struct brk_image *image)
{
	struct brk_images *images = &client->images;
	struct brk_worker *worker = brk_session_worker(client, images->device);

	images->image = image;
	images->again = false;
	if (use(images, &client->broker->store, image) < 0) {
		finish(client, BRK_OUT_OF_MEMORY, "out of memory");
		return;
	}
	if (!worker && brk_move_is_on(client)) {
		images->again = true;
		brk_move_wait(client, true);
		return;
	}
	if (!worker) {
		finish(client, brk_session_error(client, images->device),
		       "the worker is lost");
		return;
	}
	if (brk_image_known(image, worker)) {
		finish(client, BRK_SUCCESS, "");
		return;
	}
	images->request = (struct brk_request){
		.client = client, .answered = given,
	};
	brk_client_later(client);
	brk_image_give(worker, &images->request, image);
}

static uint32_t
open_upload(struct brk_client *client, const Mps__Image *message)
{
	struct brk_images *images = &client->images;
	struct brk_quotas *quotas = &client->broker->quotas;

	if (!message->size || message->size > IMAGE_MAX)
		return BRK_INVALID_VALUE;
	if (brk_store_room(&client->broker->store, message->size))
		return BRK_OUT_OF_MEMORY;
	if (brk_charge(quotas, client->tenant, QUOTA_HOST, message->size))
		return BRK_OUT_OF_MEMORY;
	if (brk_charge(quotas, client->tenant, QUOTA_DESCRIPTORS, 1)) {
		brk_discharge(client->tenant, QUOTA_HOST, message->size);
		return BRK_OUT_OF_MEMORY;
	}
	images->size = message->size;
	images->fd = shmem_create("mpsshim-image", message->size);
	if (images->fd >= 0)
		return BRK_SUCCESS;
	drop_upload(client);
	return BRK_OUT_OF_MEMORY;
}

int
brk_images_ask(struct brk_client *client, const Mps__Image *message)
{
	struct brk_images *images = &client->images;
	struct brk_image *image;
	uint32_t status;

	if (message->hash.len != SHA256_SIZE)
		return err_origin(-EBADMSG);
	/* The client thought better of the last one. */
	drop_upload(client);
	images->device = message->device;
	memcpy(images->hash, message->hash.data, SHA256_SIZE);
	if (!brk_session_worker(client, message->device)) {
		reply(client, brk_session_error(client, message->device),
		      false, -1);
		return 0;
	}
	image = brk_store_find(&client->broker->store, client->uid,
			       images->hash);
	images->upload = false;
	if (image && image->size == message->size) {
		give(client, image);
		return 0;
	}
	status = open_upload(client, message);
	reply(client, status, false, images->fd);
	return 0;
}

/* Every byte is hashed: is it what the client said? */
static void
judge(struct brk_client *client)
{
	struct brk_images *images = &client->images;
	struct brk_broker *broker = client->broker;
	uint8_t hash[SHA256_SIZE];
	struct brk_image *image;
	int r = 0, fd;

	sha256_final(&images->sha, hash);
	if (memcmp(hash, images->hash, SHA256_SIZE)) {
		drop_upload(client);
		finish(client, BRK_INVALID_IMAGE,
		       "the image's content differs from its hash");
		return;
	}
	/* Another client may have sent the same meanwhile. */
	image = brk_store_find(&broker->store, client->uid, hash);
	if (!image) {
		fd = steal_fd(&images->fd);
		r = brk_store_add(&broker->store, client->uid, hash,
				  images->size, fd, &image);
	}
	drop_upload(client);
	if (r)
		finish(client, BRK_OUT_OF_MEMORY, "the image store is full");
	else
		give(client, image);
}

static void
step(struct brk_timer *timer)
{
	struct brk_client *client = brk_of(timer, struct brk_client,
					   images.step);
	struct brk_images *images = &client->images;
	/* One loop, one thread: one buffer will do. */
	static uint8_t slice[SLICE];
	uint64_t left = images->size - images->hashed;
	ssize_t n;

	n = pread(images->fd, slice, left < SLICE ? left : SLICE,
		  (off_t)images->hashed);
	if (n <= 0) {
		drop_upload(client);
		finish(client, BRK_OUT_OF_MEMORY, "cannot read the image");
		return;
	}
	sha256_update(&images->sha, slice, (size_t)n);
	images->hashed += (uint64_t)n;
	if (images->hashed == images->size)
		judge(client);
	else
		brk_timer_set(&client->broker->loop, timer, 0);
}

int
brk_images_ready(struct brk_client *client, uint32_t status)
{
	struct brk_images *images = &client->images;
	int r;

	/* All but the worker's part of it is done. */
	if (images->fd < 0 && images->again && client->redone) {
		images->upload = true;
		give(client, images->image);
		return 0;
	}
	if (images->fd < 0)
		return err_origin(-EPROTO);
	images->upload = true;
	if (status) {
		drop_upload(client);
		finish(client, BRK_SUCCESS, "");
		return 0;
	}
	r = shmem_seal_write(images->fd);
	if (r < 0) {
		drop_upload(client);
		finish(client, BRK_INVALID_IMAGE,
		       "the image is still mapped for writing");
		return 0;
	}
	images->hashed = 0;
	sha256_init(&images->sha);
	images->step.fire = step;
	brk_client_later(client);
	brk_timer_set(&client->broker->loop, &images->step, 0);
	return 0;
}

void
brk_images_release(struct brk_client *client)
{
	struct brk_images *images = &client->images;

	drop_upload(client);
	while (images->nused)
		forget_used(images, images->nused - 1);
	free(images->used);
	images->used = NULL;
	images->cap = 0;
}

/* ---- what the store drops -----------------------------------------------*/

static void
taken(struct brk_request *request, struct brk_result *result)
{
	(void)result;
	free(request);
}

/* No question about the image is on its way: its client would keep it. */
static void
take_from(struct brk_worker *worker, const struct brk_image *image)
{
	struct brk_request *request = calloc(1, sizeof(*request));
	Mps__WorkerImageFree body = MPS__WORKER_IMAGE_FREE__INIT;
	Mps__Control message = MPS__CONTROL__INIT;

	if (!request) {
		log_line(LOG_ERROR, "out of memory: worker %d keeps an image",
			 (int)worker->pid);
		return;
	}
	request->answered = taken;
	body.hash.data = (uint8_t *)image->hash;
	body.hash.len = SHA256_SIZE;
	message.body_case = MPS__CONTROL__BODY_WORKER_IMAGE_FREE;
	message.worker_image_free = &body;
	brk_worker_ask(worker, request, &message, NULL, 0);
}

void
brk_images_dropped(struct brk_store *store, const struct brk_image *image)
{
	struct brk_broker *broker = brk_of(store, struct brk_broker, store);
	const struct brk_device *device;

	TAILQ_FOREACH(device, &broker->places, link)
		if (device->worker && device->worker->state == WORKER_READY)
			take_from(device->worker, image);
}
