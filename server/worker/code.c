/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads of images, and who shares them.
 *
 * A load that can be shared is found by the content of its image and its
 * options. It stays when its last user has gone, so that the next client
 * starts without one; the oldest such are unloaded when there are many, and
 * all of an image when the broker takes that back.
 */
#include <stdlib.h>
#include <string.h>

#include "server/worker/jit.h"
#include "server/worker/module.h"

/* Images whose loads stay for nobody: bytes of them. On the device they take
 * about as much, and PyTorch's kernels of one network some 30 MB. */
#define KEPT_MAX (UINT64_C(256) << 20)

/* Guards the list and what in a load is marked so. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wkr_code *shared; /* the one used last is first */

static bool
same_options(const struct wkr_jit *a, const struct wkr_jit *b)
{
	return a->count == b->count &&
	       !memcmp(a->names, b->names, a->count * sizeof(*a->names)) &&
	       !memcmp(a->values, b->values, a->count * sizeof(*a->values));
}

static void
unlink_locked(struct wkr_code *code)
{
	struct wkr_code **link = &shared;

	while (*link && *link != code)
		link = &(*link)->next;
	if (*link)
		*link = code->next;
}

static void
push_locked(struct wkr_code *code)
{
	code->next = shared;
	shared = code;
}

struct wkr_code *
wkr_code_ref(const struct wkr_image *image, const struct wkr_jit *jit)
{
	struct wkr_code *code;

	pthread_mutex_lock(&lock);
	for (code = shared; code; code = code->next)
		if (!code->orphan && code->size == image->size &&
		    !memcmp(code->hash, image->hash, WKR_HASH_SIZE) &&
		    same_options(code->jit, jit))
			break;
	if (code) {
		code->refs++;
		unlink_locked(code);
		push_locked(code);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static void
code_free(struct wkr_code *code)
{
	struct wkr_kernel *k;

	if (code->library)
		wkr_ok(wkr.drv.cuLibraryUnload(code->library));
	else if (code->native)
		wkr_ok(wkr.drv.cuModuleUnload(code->native));
	while ((k = code->kernels)) {
		code->kernels = k->next;
		free(k->info);
		free(k);
	}
	free(code->jit);
	free(code);
}

struct wkr_code *
wkr_code_create(const struct wkr_image *image, const struct wkr_jit *jit,
		CUmodule native, CUlibrary library, bool is_shared)
{
	struct wkr_code *code = calloc(1, sizeof(*code));

	if (!code) {
		if (library)
			wkr_ok(wkr.drv.cuLibraryUnload(library));
		else
			wkr_ok(wkr.drv.cuModuleUnload(native));
		return NULL;
	}
	code->native = native;
	code->library = library;
	code->refs = 1;
	code->jit = malloc(sizeof(*code->jit));
	if (!code->jit) {
		code_free(code);
		return NULL;
	}
	*code->jit = *jit;
	code->size = image->size;
	memcpy(code->hash, image->hash, WKR_HASH_SIZE);
	code->shared = is_shared;
	if (is_shared) {
		pthread_mutex_lock(&lock);
		push_locked(code);
		pthread_mutex_unlock(&lock);
	}
	return code;
}

/* Of what is kept for nobody, all that goes beyond the limit; a list. */
static struct wkr_code *
take_surplus_locked(void)
{
	struct wkr_code **link = &shared, *code, *out = NULL;
	uint64_t kept = 0;

	while ((code = *link)) {
		bool stays = code->refs || (!code->orphan &&
					    kept + code->size <= KEPT_MAX);

		if (stays) {
			kept += code->refs ? 0 : code->size;
			link = &code->next;
			continue;
		}
		*link = code->next;
		code->next = out;
		out = code;
	}
	return out;
}

static void
free_list(struct wkr_code *code)
{
	while (code) {
		struct wkr_code *next = code->next;

		code_free(code);
		code = next;
	}
}

/* Would this one, kept for nobody, be too much, or itself of no use? */
static bool
would_unload_locked(const struct wkr_code *code)
{
	uint64_t kept = code->size;

	if (!code->shared || code->orphan)
		return true;
	for (const struct wkr_code *c = shared; c; c = c->next)
		kept += c->refs ? 0 : c->size;
	return kept > KEPT_MAX;
}

bool
wkr_code_let_go(struct wkr_code *code)
{
	bool gone;

	pthread_mutex_lock(&lock);
	gone = code->refs > 1 || !would_unload_locked(code);
	code->refs -= gone;
	pthread_mutex_unlock(&lock);
	return gone;
}

void
wkr_code_unref(struct wkr_code *code)
{
	struct wkr_code *surplus = NULL;

	pthread_mutex_lock(&lock);
	if (--code->refs == 0) {
		if (code->shared)
			surplus = take_surplus_locked();
		else
			(surplus = code)->next = NULL;
	}
	pthread_mutex_unlock(&lock);
	free_list(surplus);
}

static enum wkr_job_result
sweep_job(struct wkr_job *job)
{
	struct wkr_code *surplus;

	if (!wkr_gate_enter())
		return WKR_JOB_AGAIN;
	pthread_mutex_lock(&lock);
	surplus = take_surplus_locked();
	pthread_mutex_unlock(&lock);
	free_list(surplus);
	free(job);
	return WKR_JOB_DONE;
}

void
wkr_code_orphan(const void *hash)
{
	struct wkr_job *job;
	bool idle = false;

	pthread_mutex_lock(&lock);
	for (struct wkr_code *c = shared; c; c = c->next) {
		if (memcmp(c->hash, hash, WKR_HASH_SIZE) != 0)
			continue;
		c->orphan = true;
		idle |= !c->refs;
	}
	pthread_mutex_unlock(&lock);
	job = idle ? calloc(1, sizeof(*job)) : NULL;
	if (!job)
		return; /* the next unload sweeps it */
	job->run = sweep_job;
	wkr_queue_add(&wkr.reaper, job);
}
