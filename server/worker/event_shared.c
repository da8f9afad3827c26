/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interprocess events: the same one under handles of several clients, which
 * other lanes may serve. All of it happens under the event's lock, and a lane
 * never waits there for anything but another's driver call.
 *
 * A client hears that its record is there when the worker has the frame. One
 * that a host function holds up is not in the driver yet: it is announced, and
 * whoever waits for the event waits for it to be issued first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "proto/ipc.h"
#include "server/worker/call.h"

struct wkr_shared {
	pthread_mutex_t lock; /* guards what follows */
	struct wkr_record *record;
	uint32_t refs;
	uint32_t announced; /* records that are not issued */
	bool recorded;
	/* Under exports_lock. */
	struct wkr_shared *next;
	bool exported;
	uint8_t key[IPC_KEY];
};

/* Guards the list, and keeps what is in it alive. */
static pthread_mutex_t exports_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wkr_shared *exports;

CUresult
wkr_shared_new(struct wkr_event *event, struct wkr_record *record)
{
	struct wkr_shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&shared->lock, NULL);
	shared->record = record;
	shared->refs = 1;
	event->shared = shared;
	event->owner = true;
	return CUDA_SUCCESS;
}

/* Its exporter has ended it: it is not found any more. */
static void
unlist(struct wkr_shared *shared)
{
	struct wkr_shared **link = &exports;

	pthread_mutex_lock(&exports_lock);
	while (*link && *link != shared)
		link = &(*link)->next;
	if (*link)
		*link = shared->next;
	shared->exported = false;
	pthread_mutex_unlock(&exports_lock);
}

void
wkr_shared_drop(struct wkr_event *event)
{
	struct wkr_shared *shared = event->shared;
	bool last;

	if (event->owner)
		unlist(shared);
	pthread_mutex_lock(&shared->lock);
	shared->announced -= event->announced;
	last = !--shared->refs;
	pthread_mutex_unlock(&shared->lock);
	if (!last)
		return;
	wkr_record_unref(shared->record);
	pthread_mutex_destroy(&shared->lock);
	free(shared);
}

void
wkr_event_announce(struct wkr_client *client, uint64_t event)
{
	struct wkr_event *e = wkr_get(client, HANDLE_EVENT, event);

	if (!e || !e->shared)
		return;
	pthread_mutex_lock(&e->shared->lock);
	e->shared->announced++;
	e->announced++;
	pthread_mutex_unlock(&e->shared->lock);
}

CUresult
wkr_shared_record(struct wkr_event *event, CUstream stream)
{
	struct wkr_shared *shared = event->shared;
	CUresult r;

	pthread_mutex_lock(&shared->lock);
	r = wkr_record_fresh(&shared->record, event->flags);
	if (r == CUDA_SUCCESS)
		r = wkr_ok(wkr.drv.cuEventRecord(shared->record->event,
						 stream));
	if (r == CUDA_SUCCESS)
		shared->recorded = true;
	pthread_mutex_unlock(&shared->lock);
	return r;
}

void
wkr_event_issued(struct wkr_client *client, struct wkr_event *event)
{
	struct wkr_shared *shared = event->shared;

	if (!shared || !client->draining || !event->announced)
		return;
	pthread_mutex_lock(&shared->lock);
	event->announced--;
	shared->announced--;
	pthread_mutex_unlock(&shared->lock);
}

struct wkr_record *
wkr_shared_take(struct wkr_event *event, CUresult *out_code)
{
	struct wkr_shared *shared = event->shared;
	struct wkr_record *record = NULL;

	pthread_mutex_lock(&shared->lock);
	*out_code = shared->announced ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
	if (!shared->announced && shared->recorded) {
		record = shared->record;
		record->refs++;
	}
	pthread_mutex_unlock(&shared->lock);
	return record;
}

/* A key ends with where the event lives: the broker, and its worker. */
struct place {
	pid_t broker, worker;
};

static struct place
place_here(void)
{
	return (struct place){.broker = getppid(), .worker = getpid()};
}

static void
put_place(uint8_t *key)
{
	struct place here = place_here();

	memcpy(key + IPC_KEY - sizeof(here), &here, sizeof(here));
}

static bool
is_of_another_worker(const uint8_t *key)
{
	struct place place, here = place_here();

	memcpy(&place, key + IPC_KEY - sizeof(place), sizeof(place));
	return place.broker == here.broker && place.worker != here.worker;
}

CUresult
wkr_mpsEventExport(struct wkr_call *call, uint64_t event, void *key,
		   size_t *key_size, uint32_t key_cap)
{
	struct wkr_event *e = wkr_get(call->client, HANDLE_EVENT, event);
	struct wkr_shared *shared;
	CUresult r = CUDA_SUCCESS;

	(void)key_cap;
	if (!e || !e->shared || !e->owner)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!key || *key_size != IPC_KEY)
		return CUDA_ERROR_INVALID_VALUE;
	shared = e->shared;
	pthread_mutex_lock(&exports_lock);
	if (!shared->exported) {
		if (getrandom(shared->key, IPC_KEY, 0) == IPC_KEY) {
			put_place(shared->key);
			shared->exported = true;
			shared->next = exports;
			exports = shared;
		} else {
			r = CUDA_ERROR_OPERATING_SYSTEM;
		}
	}
	memcpy(key, shared->key, IPC_KEY);
	pthread_mutex_unlock(&exports_lock);
	return r;
}

/* The same time whatever is wrong with the key. */
static bool
is_key(const struct wkr_shared *shared, const uint8_t *key)
{
	uint8_t wrong = 0;

	for (int i = 0; i < IPC_KEY; i++)
		wrong |= shared->key[i] ^ key[i];
	return !wrong;
}

/* With a reference, which the caller owns. */
static struct wkr_shared *
find(const uint8_t *key)
{
	struct wkr_shared *shared;

	pthread_mutex_lock(&exports_lock);
	for (shared = exports; shared; shared = shared->next)
		if (is_key(shared, key))
			break;
	if (shared) {
		pthread_mutex_lock(&shared->lock);
		shared->refs++;
		pthread_mutex_unlock(&shared->lock);
	}
	pthread_mutex_unlock(&exports_lock);
	return shared;
}

CUresult
wkr_mpsEventImport(struct wkr_call *call, uint64_t event, const void *key,
		   size_t key_size)
{
	struct wkr_event *e;

	if (!key || key_size != IPC_KEY)
		return CUDA_ERROR_INVALID_HANDLE;
	if (is_of_another_worker(key)) {
		log_line(LOG_WARN, "client %llu (pid %d): an event of a client "
			 "that another worker serves cannot be opened",
			 (unsigned long long)call->client->id,
			 call->client->pid);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->flags = CU_EVENT_DISABLE_TIMING;
	e->shared = find(key);
	if (e->shared &&
	    wkr_put(call->client, HANDLE_EVENT, event, e) == 0)
		return CUDA_SUCCESS;
	if (e->shared)
		wkr_shared_drop(e);
	free(e);
	return CUDA_ERROR_INVALID_HANDLE;
}
