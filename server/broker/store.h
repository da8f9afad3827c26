/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: code images by content, one user's at a time.
 * Used by image.c, which fills it, by status.c, and by main.c for its limit.
 *
 * An image is looked up by the SHA-256 that the broker computed over its own,
 * write-sealed copy, and only among images of the same uid: a hash must not
 * open, or confirm, another user's code.
 */
#ifndef BROKER_STORE_H
#define BROKER_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "proto/sha256.h"

struct brk_worker;

struct brk_image {
	TAILQ_ENTRY(brk_image) link;
	uid_t uid;
	uint8_t hash[SHA256_SIZE];
	uint64_t size;
	int fd;                         /* owned, sealed */
	unsigned int refs;              /* clients that keep it here */
	/* Generations of the workers that have it. */
	uint64_t *known;
	unsigned int nknown, cap;
};

struct brk_store {
	TAILQ_HEAD(brk_image_list, brk_image) images;   /* oldest use first */
	uint64_t count, bytes;
	uint64_t max_count, max_bytes;
	/* The last image of that content goes; or NULL. */
	void (*dropped)(struct brk_store *store,
			const struct brk_image *image);
};

enum {
	STORE_E_FULL = 1,
};

void brk_store_init(struct brk_store *store);
void brk_store_fini(struct brk_store *store);
/* By content; makes it the newest. */
struct brk_image *brk_store_find(struct brk_store *store, uid_t uid,
				 const uint8_t hash[SHA256_SIZE]);
/* Make room by dropping what no client keeps. 0 or STORE_E_FULL. */
int brk_store_room(struct brk_store *store, uint64_t size);
/* Takes fd over, also on failure. 0, STORE_E_FULL, -errno. */
int brk_store_add(struct brk_store *store, uid_t uid,
		  const uint8_t hash[SHA256_SIZE], uint64_t size, int fd,
		  struct brk_image **out_image);

bool brk_image_known(const struct brk_image *image,
		     const struct brk_worker *worker);
int brk_image_learned(struct brk_image *image,
		      const struct brk_worker *worker);
/* The worker is gone. */
void brk_store_forget(struct brk_store *store,
		      const struct brk_worker *worker);

#endif
