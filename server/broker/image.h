/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client loads code: upload, check, hand to the worker.
 * Used by client.c, which passes messages here.
 */
#ifndef BROKER_IMAGE_H
#define BROKER_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/sha256.h"
#include "proto/wire.pb-c.h"
#include "server/broker/loop.h"
#include "server/broker/worker.h"

struct brk_client;
struct brk_image;
struct brk_store;

/* A client's images and the one it is sending. */
struct brk_images {
	/* One reference each, the oldest use first. */
	struct brk_image **used;
	unsigned int nused, cap;
	uint64_t used_bytes;

	int fd;                         /* -1: nothing is being sent */
	uint8_t hash[SHA256_SIZE];
	uint64_t size, hashed;          /* bytes */
	int device;
	struct sha256 sha;
	struct brk_timer step;          /* hashes a slice in each turn */
	struct brk_request request;
	struct brk_image *image;        /* that the worker is being given */
	bool upload;                    /* answer Done, not ImageReply */
	bool again;                     /* a worker ended over giving it */
};

void brk_images_init(struct brk_images *images);
int brk_images_ask(struct brk_client *client, const Mps__Image *message);
int brk_images_ready(struct brk_client *client, uint32_t status);
/* Have the worker map it. */
void brk_image_give(struct brk_worker *worker, struct brk_request *request,
		    const struct brk_image *image);
void brk_images_release(struct brk_client *client);
/* The broker's store no longer has it: nor need the workers. */
void brk_images_dropped(struct brk_store *store,
			const struct brk_image *image);

#endif
