/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/err.h"
#include "server/broker/worker.h"

/* Each is two mappings in every worker, and vm.max_map_count is 65530. */
#define COUNT_MAX 8192u

void
brk_store_init(struct brk_store *store)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	struct rlimit files = { .rlim_cur = 1024 };

	getrlimit(RLIMIT_NOFILE, &files);
	*store = (struct brk_store){ .max_count = files.rlim_cur / 4 };
	if (store->max_count > COUNT_MAX)
		store->max_count = COUNT_MAX;
	/* PyTorch's libraries hold some 2 GB of images. */
	store->max_bytes = UINT64_C(8) << 30;
	if (pages > 0 && page > 0 &&
	    store->max_bytes > (uint64_t)pages * (uint64_t)page / 4)
		store->max_bytes = (uint64_t)pages * (uint64_t)page / 4;
	TAILQ_INIT(&store->images);
}

/* Workers know images by content, whosever they are. */
static bool
has_twin(const struct brk_store *store, const struct brk_image *image)
{
	const struct brk_image *other;

	TAILQ_FOREACH(other, &store->images, link)
		if (other != image && other->uid != image->uid &&
		    !memcmp(other->hash, image->hash, SHA256_SIZE))
			return true;
	return false;
}

static void
drop(struct brk_store *store, struct brk_image *image)
{
	if (store->dropped && !has_twin(store, image))
		store->dropped(store, image);
	TAILQ_REMOVE(&store->images, image, link);
	store->count--;
	store->bytes -= image->size;
	close(image->fd);
	free(image->known);
	free(image);
}

void
brk_store_fini(struct brk_store *store)
{
	struct brk_image *image;

	/* The workers end, too. */
	store->dropped = NULL;
	while ((image = TAILQ_FIRST(&store->images)))
		drop(store, image);
}

struct brk_image *
brk_store_find(struct brk_store *store, uid_t uid,
	       const uint8_t hash[SHA256_SIZE])
{
	struct brk_image *image;

	TAILQ_FOREACH(image, &store->images, link) {
		if (image->uid == uid &&
		    !memcmp(image->hash, hash, SHA256_SIZE)) {
			TAILQ_REMOVE(&store->images, image, link);
			TAILQ_INSERT_TAIL(&store->images, image, link);
			return image;
		}
	}
	return NULL;
}

int
brk_store_room(struct brk_store *store, uint64_t size)
{
	struct brk_image *image, *next;

	if (size > store->max_bytes)
		return STORE_E_FULL;
	for (image = TAILQ_FIRST(&store->images); image; image = next) {
		if (store->bytes <= store->max_bytes - size &&
		    store->count < store->max_count)
			break;
		next = TAILQ_NEXT(image, link);
		if (!image->refs)
			drop(store, image);
	}
	return store->bytes <= store->max_bytes - size &&
	       store->count < store->max_count ? 0 : STORE_E_FULL;
}

int
brk_store_add(struct brk_store *store, uid_t uid,
	      const uint8_t hash[SHA256_SIZE], uint64_t size, int fd,
	      struct brk_image **out_image)
{
	_cleanup_close_ int held = fd;
	struct brk_image *image;
	int r;

	r = brk_store_room(store, size);
	if (r)
		return r;
	image = calloc(1, sizeof(*image));
	if (!image)
		return err_origin(-ENOMEM);
	image->uid = uid;
	memcpy(image->hash, hash, SHA256_SIZE);
	image->size = size;
	image->fd = steal_fd(&held);
	TAILQ_INSERT_TAIL(&store->images, image, link);
	store->count++;
	store->bytes += size;
	*out_image = image;
	return 0;
}

bool
brk_image_known(const struct brk_image *image, const struct brk_worker *worker)
{
	for (unsigned int i = 0; i < image->nknown; i++)
		if (image->known[i] == worker->generation)
			return true;
	return false;
}

int
brk_image_learned(struct brk_image *image, const struct brk_worker *worker)
{
	unsigned int cap = image->cap ? 2 * image->cap : 2;
	uint64_t *known;

	if (brk_image_known(image, worker))
		return 0;
	if (image->nknown == image->cap) {
		known = reallocarray(image->known, cap, sizeof(*known));
		if (!known)
			return err_origin(-ENOMEM);
		image->known = known;
		image->cap = cap;
	}
	image->known[image->nknown++] = worker->generation;
	return 0;
}

void
brk_store_forget(struct brk_store *store, const struct brk_worker *worker)
{
	struct brk_image *image;

	TAILQ_FOREACH(image, &store->images, link)
		for (unsigned int i = 0; i < image->nknown; i++)
			if (image->known[i] == worker->generation)
				image->known[i--] =
					image->known[--image->nknown];
}
