/* SPDX-License-Identifier: Apache-2.0 */
/* Figures for status and tests, asked by the broker. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/worker/client.h"
#include "server/worker/gated.h"
#include "server/worker/module.h"
#include "server/worker/overlap.h"
#include "server/worker/slow.h"

static uint64_t
count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	/* ".", ".." and the folder's own. */
	return n > 3 ? n - 3 : 0;
}

static uint64_t
count_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t n = 0;
	int c;

	if (!maps)
		return 0;
	while ((c = getc(maps)) != EOF)
		n += c == '\n';
	fclose(maps);
	return n;
}

static uint64_t
kernel_ns(uint64_t client)
{
	uint64_t ns = 0;

	if (wkr.soft && wkr.soft->kernel_ns(client, &ns) != CUDA_SUCCESS)
		ns = 0;
	return ns;
}

static uint32_t
count_chunks_locked(const struct wkr_client *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->ranges.count; i++)
		n += c->ranges.items[i]->kind == WKR_CHUNK;
	return n;
}

static uint32_t
count_modules_locked(const struct wkr_client *c)
{
	uint32_t n = 0;

	for (const struct wkr_module *m = c->modules; m; m = m->next)
		n++;
	return n;
}

static uint64_t
fill_client(Mps__ClientStat *s, struct wkr_client *c, char *text)
{
	uint64_t handles = 0;

	mps__client_stat__init(s);
	s->client = c->id;
	s->pid = c->pid;
	s->uid = c->uid;
	s->device = wkr.ordinal;
	s->device_bytes = atomic_load(&c->device_bytes);
	s->host_bytes = atomic_load(&c->host_bytes);
	s->ring_frames = atomic_load(&c->ring_frames);
	s->socket_frames = atomic_load(&c->socket_frames);
	s->issued = atomic_load(&c->channel.page->issued);
	s->retired = atomic_load(&c->retired);
	s->late_errors = atomic_load(&c->late_errors);
	s->launches = atomic_load(&c->launches);
	s->graph_launches = atomic_load(&c->graph_launches);
	s->kernel_ns = kernel_ns(c->id);
	if (wkr.measuring)
		s->busy_ns = wkr_overlap_busy_ns(c->id);
	s->waiting = (char *)atomic_load(&c->waiting);
	if (wkr_gated_why_locked(c, text))
		s->waiting = text;
	pthread_mutex_lock(&c->lock);
	s->chunks = count_chunks_locked(c);
	s->modules = count_modules_locked(c);
	s->functions = c->nfunctions;
	s->streams = handle_count(c->table, HANDLE_STREAM);
	s->events = handle_count(c->table, HANDLE_EVENT);
	for (int kind = HANDLE_NONE + 1; kind < HANDLE_KIND_COUNT; kind++)
		handles += handle_count(c->table, (enum handle_kind)kind);
	pthread_mutex_unlock(&c->lock);
	return handles;
}

static void
fill_worker(Mps__WorkerStat *s)
{
	struct wkr_overlap events = {0};
	uint64_t overlap = 0;

	mps__worker_stat__init(s);
	s->device = wkr.ordinal;
	s->pid = getpid();
	s->contexts = 1;
	s->overlap_known =
		wkr.soft && wkr.soft->overlap_ns(&overlap) == CUDA_SUCCESS;
	s->overlap_ns = overlap;
	s->events_known = wkr.measuring;
	if (wkr.measuring)
		wkr_overlap_get(&events);
	s->events_overlap_ns = events.both_ns;
	s->events_busy_ns = events.any_ns;
	s->events_timed = events.timed;
	s->events_missed = events.missed;
	s->images = wkr_image_count();
	s->image_loads = atomic_load(&wkr.image_loads);
	s->lanes = wkr.nlanes;
	s->descriptors = count_descriptors();
	s->mappings = count_mappings();
	s->driver = (char *)wkr.driver_path;
}

/* Messages for all clients at once, or NULL; texts: what they refer to. */
static Mps__ClientStat *
fill_clients(size_t *out_count, uint64_t *out_handles,
	     char (**out_texts)[WKR_GATED_TEXT])
{
	Mps__ClientStat *stats;
	size_t n = 0;

	*out_handles = 0;
	pthread_mutex_lock(&wkr.clients_lock);
	for (struct wkr_client *c = wkr.clients; c; c = c->next)
		n++;
	stats = calloc(n ? n : 1, sizeof(*stats));
	*out_texts = calloc(n ? n : 1, sizeof(**out_texts));
	n = 0;
	for (struct wkr_client *c = wkr.clients; stats && *out_texts && c;
	     c = c->next, n++)
		*out_handles += fill_client(&stats[n], c, (*out_texts)[n]);
	pthread_mutex_unlock(&wkr.clients_lock);
	*out_count = n;
	return stats;
}

void
wkr_stats_send(uint64_t id)
{
	Mps__WorkerStatsReply m = MPS__WORKER_STATS_REPLY__INIT;
	Mps__Control control = MPS__CONTROL__INIT;
	_cleanup_free_ Mps__ClientStat **list = NULL;
	_cleanup_free_ Mps__ClientStat *stats = NULL;
	_cleanup_free_ char(*texts)[WKR_GATED_TEXT] = NULL;
	struct wkr_slow_list *slow;
	Mps__WorkerStat worker;
	char name[256] = "";
	uint64_t handles;
	size_t count;

	fill_worker(&worker);
	slow = wkr_slow_list(&worker);
	stats = fill_clients(&count, &handles, &texts);
	list = calloc(count ? count : 1, sizeof(*list));
	if (!stats || !list)
		count = 0;
	for (size_t i = 0; i < count; i++)
		list[i] = &stats[i];
	wkr.drv.cuDeviceGetName(name, sizeof(name), wkr.device);
	worker.device_name = name;
	worker.handles = handles;
	m.worker = &worker;
	m.clients = list;
	m.n_clients = count;
	control.id = id;
	control.body_case = MPS__CONTROL__BODY_WORKER_STATS_REPLY;
	control.worker_stats_reply = &m;
	wkr_control_send(&control, NULL, 0);
	wkr_slow_drop(slow);
}
