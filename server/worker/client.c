/* SPDX-License-Identifier: Apache-2.0 */
/* A client from the broker's hand to the reaper's. */
#include "server/worker/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/shmem.h"
#include "server/worker/batch.h"
#include "server/worker/call.h"
#include "server/worker/crash.h"
#include "server/worker/graph.h"
#include "server/worker/lane.h"
#include "server/worker/memory.h"
#include "server/worker/module.h"
#include "server/worker/overlap.h"
#include "server/worker/restore.h"
#include "server/worker/texture.h"
#include "server/worker/word.h"

void *
wkr_get(struct wkr_client *client, enum handle_kind kind, uint64_t handle)
{
	return handle_get(client->table, kind, handle);
}

int
wkr_put_if_free(struct wkr_client *client, enum handle_kind kind,
		uint64_t handle, void *object)
{
	int r;

	if (handle_index(handle) > WKR_HANDLE_INDEX_MAX)
		return -EINVAL;
	pthread_mutex_lock(&client->lock);
	r = handle_put(client->table, kind, handle, object);
	pthread_mutex_unlock(&client->lock);
	return r;
}

int
wkr_put(struct wkr_client *client, enum handle_kind kind, uint64_t handle,
	void *object)
{
	int r = wkr_put_if_free(client, kind, handle, object);
	const struct handle_slot *slot;

	if (r != -EEXIST)
		return r;
	/* The client minted it where it has an object: one of us is wrong. */
	slot = handle_slot(client->table, handle_index(handle));
	log_line(LOG_WARN, "client %llu (pid %d): handle %#llx is taken by "
		 "%#llx", (unsigned long long)client->id, client->pid,
		 (unsigned long long)handle,
		 (unsigned long long)atomic_load(&slot->handle));
	return r;
}

struct wkr_client *
wkr_client_find(uint64_t id)
{
	struct wkr_client *c;

	pthread_mutex_lock(&wkr.clients_lock);
	for (c = wkr.clients; c; c = c->next)
		if (c->id == id && !c->leaving)
			break;
	pthread_mutex_unlock(&wkr.clients_lock);
	return c;
}

void
wkr_client_pin(struct wkr_client *client)
{
	atomic_fetch_add(&client->jobs, 1);
}

void
wkr_client_unpin(struct wkr_client *client)
{
	struct wkr_lane *lane = client->lane;

	/* At zero it may be buried; at the bound its lane has left its ring
	 * alone. */
	if (atomic_fetch_sub(&client->jobs, 1) == WKR_JOBS_MAX)
		wkr_lane_wake(lane);
}

static void
client_free(struct wkr_client *client)
{
	if (client->staging)
		munmap(client->staging, CHANNEL_STAGING_SIZE);
	channel_unmap(&client->channel);
	sock_reader_fini(&client->reader);
	if (client->data >= 0)
		close(client->data);
	handle_table_destroy(client->table);
	wkr_journal_close(&client->journal);
	wkr_restore_free(client);
	free(client->ranges.items);
	free(client->text);
	free(client->held);
	free(client->out);
	pthread_mutex_destroy(&client->lock);
	pthread_mutex_destroy(&client->out_lock);
	free(client);
}

static CUresult
map_staging(struct wkr_client *client, int fd, uint64_t size,
	    const char **out_why)
{
	CUresult r;

	if (size != CHANNEL_STAGING_SIZE || shmem_size(fd) != (long)size) {
		*out_why = "the staging memory has another size";
		return CUDA_ERROR_INVALID_VALUE;
	}
	client->staging = shmem_map(fd, size);
	if (!client->staging) {
		*out_why = "the staging memory cannot be mapped";
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = wkr_ok(wkr.drv.cuMemHostRegister_v2(client->staging, size,
						CU_MEMHOSTREGISTER_PORTABLE |
						CU_MEMHOSTREGISTER_DEVICEMAP));
	if (r == CUDA_SUCCESS && wkr_words_tell() &&
	    wkr.drv.cuMemHostGetDevicePointer_v2(
		    &client->lines, client->staging, 0) == CUDA_SUCCESS)
		client->lines += CHANNEL_STAGING;
	if (r != CUDA_SUCCESS) {
		*out_why = "the driver does not register the staging memory";
		munmap(client->staging, size);
		client->staging = NULL;
	}
	return r;
}

static CUresult
fill_client(struct wkr_client *client, const Mps__WorkerClient *m,
	    int fds[WKR_CLIENT_FDS], const char **out_why)
{
	if (wkr_journal_open(&client->journal, steal_fd(&fds[3]),
			     m->resume) < 0) {
		*out_why = "its journal cannot be read";
		return CUDA_ERROR_LAUNCH_FAILED;
	}
	if (handle_table_create(&client->table) < 0 ||
	    channel_map(&client->channel, fds[1]) < 0) {
		*out_why = "the channel memory cannot be mapped";
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* What the last worker said of a wait in it. */
	atomic_store(&client->channel.page->gate, 0);
	ring_init(&client->ordered, &client->channel.page->ordered,
		  client->channel.ordered, RING_ORDERED);
	ring_init(&client->unordered, &client->channel.page->unordered,
		  client->channel.unordered, RING_UNORDERED);
	return map_staging(client, fds[2], m->staging_size, out_why);
}

static void
list_client(struct wkr_client *client)
{
	pthread_mutex_lock(&wkr.clients_lock);
	client->next = wkr.clients;
	wkr.clients = client;
	pthread_mutex_unlock(&wkr.clients_lock);
}

void
wkr_client_serve(struct wkr_client *client, struct wkr_note *note)
{
	struct wkr_lane *lane = wkr_lane_choose();

	client->lane = lane;
	atomic_fetch_add(&lane->nclients, 1);
	*note = (struct wkr_note){.kind = WKR_NOTE_ADD, .client = client};
	wkr_lane_note(lane, note);
}

CUresult
wkr_client_create(const Mps__WorkerClient *m, int fds[WKR_CLIENT_FDS],
		  const char **out_why)
{
	struct wkr_client *client = calloc(1, sizeof(*client));
	struct wkr_note *note = malloc(sizeof(*note));
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	*out_why = "the worker is out of memory";
	if (client && note) {
		client->id = m->client;
		client->behind_pass = 1;
		atomic_store(&client->waiting, "");
		client->pid = m->pid;
		client->uid = m->uid;
		client->device_limit = m->device_limit ? m->device_limit :
							 UINT64_MAX;
		client->no_ring = m->no_ring;
		client->data = steal_fd(&fds[0]);
		client->journal.fd = -1;
		pthread_mutex_init(&client->lock, NULL);
		pthread_mutex_init(&client->out_lock, NULL);
		sock_reader_init(&client->reader, client->data);
		r = fill_client(client, m, fds, out_why);
	}
	for (int i = 0; i < WKR_CLIENT_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
	if (r == CUDA_SUCCESS && m->resume)
		r = wkr_restore_begin(client, note, out_why);
	if (r == CUDA_SUCCESS) {
		list_client(client);
		if (!m->resume)
			wkr_client_serve(client, note);
		return r;
	}
	free(note);
	if (client)
		client_free(client);
	return r;
}

void
wkr_client_gone(struct wkr_client *client, uint64_t control_id)
{
	struct wkr_note *note = malloc(sizeof(*note));

	if (!note) {
		wkr_control_done(control_id, CUDA_ERROR_OUT_OF_MEMORY,
				 "the worker is out of memory", -1);
		return;
	}
	if (!client->lane)
		wkr_restore_cancel(client);
	client->leaving = true;
	*note = (struct wkr_note){
		.kind = WKR_NOTE_GONE,
		.client = client,
		.control_id = control_id,
	};
	wkr_lane_note(client->lane, note);
}

/* The end, in two steps: what waits for nobody at once; what would wait for
 * or stall neighbours at a quiet moment. */
struct burial {
	struct wkr_job job;
	struct wkr_client *client;
	bool half;
};

/* Streams, modules and functions are in lists of their own. */
static bool
is_listed(enum handle_kind kind)
{
	return kind == HANDLE_STREAM || kind == HANDLE_MODULE ||
	       kind == HANDLE_FUNCTION;
}

static void
free_objects(struct wkr_client *client, bool events)
{
	uint32_t cursor = 0;
	uint64_t handle;
	void *object;

	while ((object = handle_next(client->table, &cursor, &handle))) {
		enum handle_kind kind = handle_kind(handle);

		if (kind == HANDLE_EVENT && events)
			wkr_event_free(object);
		else if (kind != HANDLE_EVENT && !events && !is_listed(kind))
			wkr_object_end(kind, object);
	}
}

/* Before modules, on which they hold references. Those that drain are left to
 * whoever is at the gate. */
static void
free_graphs(struct wkr_client *client, bool at_gate)
{
	uint32_t cursor = 0;
	uint64_t handle;
	void *object;

	while ((object = handle_next(client->table, &cursor, &handle))) {
		if (handle_kind(handle) != HANDLE_EXEC ||
		    (!at_gate && wkr_graph_drains(object)))
			continue;
		handle_remove(client->table, HANDLE_EXEC, handle);
		wkr_graph_free(object);
	}
}

static void
free_ranges(struct wkr_client *client, enum wkr_range_kind kind)
{
	for (uint32_t i = client->ranges.count; i-- > 0;) {
		struct wkr_range *range = client->ranges.items[i];

		if (range->kind != kind)
			continue;
		wkr_ranges_remove(&client->ranges, range);
		wkr_range_free(client, range);
	}
}

static void
unlink_client(struct wkr_client *client)
{
	struct wkr_client **link = &wkr.clients;

	pthread_mutex_lock(&wkr.clients_lock);
	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	pthread_mutex_unlock(&wkr.clients_lock);
}

static enum wkr_job_result
bury(struct wkr_job *job)
{
	struct burial *b = (struct burial *)job;
	struct wkr_client *client = b->client;
	uint64_t id = client->gone_id;

	wkr_at_work(client, "the end");
	if (!b->half) {
		wkr_print_release(client);
		wkr_streams_destroy(client);
		free_graphs(client, false);
		wkr_kits_free(client);
		free_objects(client, true);
		free_ranges(client, WKR_CHUNK);
		free_ranges(client, WKR_MAPPING);
		wkr_textures_drop(client);
		b->half = true;
	}
	/* A graph's module may be on its way out in a job of its own. */
	if (atomic_load(&client->jobs) || !wkr_gate_enter())
		return WKR_JOB_AGAIN;
	free_graphs(client, true);
	free_objects(client, false);
	wkr_unplaced_drop(client);
	wkr_modules_drop(client);
	free_ranges(client, WKR_HOST);
	wkr_ok(wkr.drv.cuMemHostUnregister(client->staging));
	unlink_client(client);
	if (wkr.measuring)
		wkr_overlap_forget(client->id);
	client_free(client);
	free(b);
	wkr_control_done(id, CUDA_SUCCESS, "", -1);
	return WKR_JOB_DONE;
}

void
wkr_client_bury(struct wkr_client *client)
{
	struct burial *b = calloc(1, sizeof(*b));

	if (!b) {
		log_line(LOG_ERROR, "out of memory: client %llu stays",
			 (unsigned long long)client->id);
		return;
	}
	b->job.run = bury;
	b->client = client;
	wkr_queue_add(&wkr.reaper, &b->job);
}
