/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a client over.
 *
 * Streams and events are made by the frames that made them; modules and
 * functions lie dormant until a kernel is wanted (dormant.c); graphs are built
 * at once, since nobody else could build them when they are launched. Then
 * the ring: frames that the other worker has begun are in it only if they may
 * be done twice, and those that had retired are not done again.
 *
 * Nothing here is waited for on the lane: what needs code or another thread
 * is tried again in the next turn.
 */
#include "server/worker/restore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/worker/graph.h"
#include "server/worker/journal_own.h"
#include "server/worker/lane.h"
#include "server/worker/module.h"

/* Records in one turn. */
#define STEP_RECORDS 64

struct wkr_restore {
	struct wkr_note *note;	/* for the lane, until it has the client */
	struct wkr_entry *next; /* to be made */
	uint64_t control_id;
	_Atomic(const char *) failed; /* why; or NULL */
	uint8_t *frame;	      /* FRAME_MAX bytes */
};

/* ---- helper thread ---- */

CUresult
wkr_restore_begin(struct wkr_client *client, struct wkr_note *note,
		  const char **out_why)
{
	struct channel_page *page = client->channel.page;
	struct wkr_restore *restore = calloc(1, sizeof(*restore));

	*out_why = "the worker is out of memory";
	if (!restore)
		return CUDA_ERROR_OUT_OF_MEMORY;
	client->restore = restore;
	restore->frame = malloc(FRAME_MAX);
	if (!restore->frame)
		return CUDA_ERROR_OUT_OF_MEMORY;
	restore->note = note;
	/* A client that has changed these deceives itself. */
	client->issued = client->again_until = atomic_load(&page->issued);
	client->again_retired = atomic_load(&page->retired);
	atomic_store(&client->retired, client->again_retired);
	client->done = client->again_done = atomic_load(&page->done);
	client->kept = atomic_load(&page->kept);
	return CUDA_SUCCESS;
}

static const char *
why_module_is_lost(struct wkr_journal *journal, const struct wkr_entry *entry)
{
	struct wkr_module_record head;
	const char *why = NULL;
	struct wkr_image *image;
	const uint8_t *bytes;
	struct wkr_entry *e;
	size_t size;

	bytes = wkr_journal_bytes(journal, entry, &size);
	if (size < sizeof(head))
		return "its journal makes no sense";
	memcpy(&head, bytes, sizeof(head));
	image = wkr_image_ref(head.hash, sizeof(head.hash));
	if (!image)
		return "its code is no longer in the broker's store";
	TAILQ_FOREACH(e, wkr_journal_bucket(journal, entry->handle, 0), bucket)
		if (e->handle == entry->handle &&
		    e->kind == WKR_LINE_USED)
			why = wkr_module_state(image, head.kind);
	wkr_image_unref(image);
	return why;
}

static const char *
why_lost_locked(struct wkr_journal *journal)
{
	const char *why = NULL;
	struct wkr_entry *e;
	size_t size;

	if (wkr_journal_is_full(journal))
		return "it has more objects than can be made again";
	TAILQ_FOREACH(e, &journal->entries, link) {
		if (e->kind == WKR_LINE_FRAGILE) {
			why = (const char *)wkr_journal_bytes(journal, e,
							      &size);
			if (!size || why[size - 1])
				why = "its journal makes no sense";
		} else if (e->kind == WKR_LINE_MODULE) {
			why = why_module_is_lost(journal, e);
		}
		if (why)
			break;
	}
	return why;
}

const char *
wkr_restore_why_lost(struct wkr_client *client)
{
	const char *why;

	pthread_mutex_lock(&client->journal.lock);
	why = why_lost_locked(&client->journal);
	pthread_mutex_unlock(&client->journal.lock);
	return why;
}

void
wkr_restore_go(struct wkr_client *client, uint64_t control_id)
{
	struct wkr_restore *restore = client->restore;
	const char *why;

	if (!restore || client->lane) {
		wkr_control_done(control_id, CUDA_ERROR_INVALID_VALUE,
				 "nobody who waits for it", -1);
		return;
	}
	restore->control_id = control_id;
	why = wkr_restore_why_lost(client);
	if (why)
		wkr_restore_fail(client, why);
	restore->next = TAILQ_FIRST(&client->journal.entries);
	wkr_client_serve(client, steal_ptr(&restore->note));
}

void
wkr_restore_cancel(struct wkr_client *client)
{
	struct wkr_restore *restore = client->restore;

	if (!restore)
		return;
	wkr_restore_fail(client, "it has ended");
	wkr_client_serve(client, steal_ptr(&restore->note));
}

void
wkr_restore_free(struct wkr_client *client)
{
	struct wkr_restore *restore = client->restore;

	if (!restore)
		return;
	free(restore->frame);
	free(restore);
	client->restore = NULL;
}

/* ---- lane ---- */

void
wkr_restore_fail(struct wkr_client *client, const char *why)
{
	const char *none = NULL;

	atomic_compare_exchange_strong(&client->restore->failed, &none, why);
}

static struct wkr_module *
find_module(struct wkr_client *client, uint64_t handle)
{
	return wkr_get(client, HANDLE_MODULE, handle);
}

static int
again_module(struct wkr_client *client, const struct wkr_entry *entry,
	     const uint8_t *bytes, size_t size)
{
	struct wkr_module_record head;

	if (size < sizeof(head))
		return -EBADMSG;
	memcpy(&head, bytes, sizeof(head));
	return wkr_dormant_module(client, entry->handle, head.hash, head.size,
				  head.kind, bytes + sizeof(head),
				  size - sizeof(head));
}

static int
again_function(struct wkr_client *client, const struct wkr_entry *entry,
	       const uint8_t *bytes, size_t size)
{
	struct wkr_function_record head;
	struct wkr_module *module;

	if (size <= sizeof(head) || bytes[size - 1])
		return -EBADMSG;
	memcpy(&head, bytes, sizeof(head));
	module = find_module(client, head.module);
	if (!module)
		return -ENOENT;
	return wkr_dormant_function(module, entry->handle,
				    (const char *)bytes + sizeof(head));
}

/* A graph whose parts an update has taken. */
static int
again_end(struct wkr_client *client, const uint8_t *bytes, size_t size)
{
	struct wkr_graph *graph;
	uint64_t handle;

	if (size != sizeof(handle))
		return -EBADMSG;
	memcpy(&handle, bytes, sizeof(handle));
	pthread_mutex_lock(&client->lock);
	graph = handle_remove(client->table, HANDLE_EXEC, handle);
	pthread_mutex_unlock(&client->lock);
	if (!graph)
		return -ENOENT;
	wkr_graph_drop(graph);
	return 0;
}

static int
again_frame(struct wkr_client *client, const uint8_t *bytes, size_t size)
{
	struct wkr_restore *restore = client->restore;
	struct frame_header header;

	if (size < sizeof(header) || size > FRAME_MAX)
		return -EBADMSG;
	memcpy(restore->frame, bytes, size);
	memcpy(&header, restore->frame, sizeof(header));
	if (frame_header_check(&header) < 0 ||
	    header.size + sizeof(header) != size)
		return -EBADMSG;
	return wkr_frame(client, restore->frame, (uint32_t)size, true);
}

static int
again(struct wkr_client *client, const struct wkr_entry *entry)
{
	struct wkr_module *module;
	const uint8_t *bytes;
	size_t size;

	bytes = wkr_journal_bytes(&client->journal, entry, &size);
	switch (entry->kind) {
	case WKR_LINE_FRAME:
		return again_frame(client, bytes, size);
	case WKR_LINE_MODULE:
		return again_module(client, entry, bytes, size);
	case WKR_LINE_FUNCTION:
		return again_function(client, entry, bytes, size);
	case WKR_LINE_USED:
		module = find_module(client, entry->handle);
		if (module)
			module->launched = true;
		return 0;
	case WKR_LINE_END:
		return again_end(client, bytes, size);
	default:
		return -EBADMSG;
	}
}

static void
finish(struct wkr_client *client, const char *failed)
{
	uint64_t id = client->restore->control_id;

	wkr_restore_free(client);
	if (failed) {
		/* Its end is the broker's to tell. */
		if (id)
			wkr_control_done(id, CUDA_ERROR_LAUNCH_FAILED, failed,
					 -1);
		wkr_client_close(client);
		return;
	}
	ring_take_over(&client->ordered, false);
	ring_take_over(&client->unordered, true);
	/* Release: whoever reads it knows which calls will be answered. */
	atomic_store_explicit(&client->channel.page->unordered_from,
			      client->unordered.own, memory_order_release);
	wkr_control_done(id, CUDA_SUCCESS, "", -1);
}

bool
wkr_restore_step(struct wkr_client *client)
{
	struct wkr_restore *restore = client->restore;
	const char *failed;

	for (int i = 0; i < STEP_RECORDS; i++) {
		int r;

		/* A graph's end, its changes: not before another thread has
		 * instantiated it. */
		if (atomic_load(&client->jobs))
			return false;
		failed = atomic_load(&restore->failed);
		if (failed || !restore->next) {
			finish(client, failed);
			return true;
		}
		r = again(client, restore->next);
		if (r == WKR_CALL_E_AGAIN)
			return false;
		if (r < 0) {
			log_line(LOG_WARN, "client %llu (pid %d): record %u of "
				 "its journal (call %u): %s",
				 (unsigned long long)client->id, client->pid,
				 restore->next->kind, restore->next->fn,
				 err_text(r));
			wkr_restore_fail(client, "an object cannot be made "
					 "again");
		}
		restore->next = TAILQ_NEXT(restore->next, link);
	}
	return true;
}

bool
wkr_restore_skips(const struct wkr_client *client, uint64_t seq, uint32_t slot)
{
	struct reply_slot *s;
	uint32_t state;

	if (client->restore || client->draining || seq > client->again_until)
		return false;
	if (seq <= client->again_done)
		return true;
	if (slot == CHANNEL_NO_SLOT)
		return seq <= client->again_retired;
	s = &client->channel.slots[slot];
	/* Acquire: the state that goes with the call. */
	if (atomic_load_explicit(&s->call, memory_order_acquire) !=
	    CHANNEL_CALL(seq, 0))
		return true;
	state = atomic_load_explicit(&s->state, memory_order_acquire);
	return state != SLOT_PENDING && state != SLOT_WAITING;
}
