/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status: every worker is asked for its figures; what it says is laid over
 * what the broker itself knows. A worker may only speak of its own clients, and
 * one that does not answer in a second is left out.
 */
#include "server/broker/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"
#include "server/broker/client.h"
#include "server/broker/move.h"

#define PATIENCE_MS 1000

struct brk_status;

struct part {
	struct brk_request request;
	struct brk_status *job;
	uint64_t generation;
	Mps__WorkerStatsReply *reply;   /* a copy; NULL: none */
};

/* One question; lives until the last worker has answered. */
struct brk_status {
	struct brk_client *client;      /* held */
	struct brk_timer patience;
	unsigned int waiting;           /* parts without an answer */
	bool told;                      /* the client has its answer */
	unsigned int nparts;
	struct part parts[];
};

static uint64_t
count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t count = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 3;       /* ".", ".." and the directory itself */
}

static uint64_t
count_mappings(void)
{
	_cleanup_close_ int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	uint64_t count = 0;
	char text[4096];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++)
			count += text[i] == '\n';
	return count;
}

static Mps__WorkerStatsReply *
reply_of(struct brk_status *job, uint64_t generation)
{
	for (unsigned int i = 0; i < job->nparts; i++)
		if (job->parts[i].generation == generation)
			return job->parts[i].reply;
	return NULL;
}

static void
fill_worker(struct brk_status *job, const struct brk_device *device,
	    Mps__WorkerStat *out)
{
	const struct brk_worker *worker = device->worker;
	Mps__WorkerStatsReply *reply = reply_of(job, worker->generation);
	const Mps__WorkerReady *snapshot = device->snapshot;

	mps__worker_stat__init(out);
	if (reply && reply->worker)
		*out = *reply->worker;
	out->device = device->ordinal;
	out->pid = worker->pid;
	out->generation = worker->generation;
	out->ready = worker->state == WORKER_READY;
	out->lost = device->lost_clients;
	out->moved = device->moved_clients;
	out->last_fault = (char *)device->last_fault;
	out->last_fault_s = device->last_fault_ns ?
		(brk_now_ns() - device->last_fault_ns) / 1000000000u : 0;
	out->driver = device->broker->driver.path;
	out->solo = device->solo ? device->solo->id : 0;
	for (size_t i = 0; snapshot && i < snapshot->n_devices; i++)
		if (snapshot->devices[i]->ordinal == device->ordinal)
			out->device_name = snapshot->devices[i]->name;
}

static void
add_worker_figures(const Mps__ClientStat *from, Mps__ClientStat *to)
{
	to->modules += from->modules;
	to->functions += from->functions;
	to->streams += from->streams;
	to->events += from->events;
	to->ring_frames += from->ring_frames;
	to->socket_frames += from->socket_frames;
	to->issued += from->issued;
	to->retired += from->retired;
	to->late_errors += from->late_errors;
	to->launches += from->launches;
	to->graph_launches += from->graph_launches;
	to->kernel_ns += from->kernel_ns;
	to->busy_ns += from->busy_ns;
	if (*from->waiting)
		to->waiting = from->waiting;
}

static void
fill_client(struct brk_status *job, struct brk_client *client,
	    Mps__ClientStat *out)
{
	struct brk_session *session;

	mps__client_stat__init(out);
	out->client = client->id;
	out->pid = client->pid;
	out->uid = client->uid;
	out->exe = client->exe;
	out->job = client->job;
	out->solo = client->solo;
	out->device = -1;
	out->device_bytes = client->vault.device_bytes;
	out->host_bytes = client->vault.host_bytes;
	out->chunks = client->vault.nchunks;
	LIST_FOREACH(session, &client->sessions, link) {
		Mps__WorkerStatsReply *reply = reply_of(job,
							session->generation);

		out->device = session->device->ordinal;
		out->driver_bytes += session->taken;
		if (session->device->worker)
			out->worker_pid = session->device->worker->pid;
		for (size_t i = 0; reply && i < reply->n_clients; i++)
			if (reply->clients[i]->client == client->id)
				add_worker_figures(reply->clients[i], out);
	}
	if (brk_move_is_on(client))
		out->waiting = (char *)"for the next worker";
	/* Its worker may know for whom. */
	if (client->state == CLIENT_ENDED &&
	    strncmp(out->waiting, "ended", 5) != 0)
		out->waiting = (char *)"ended; its last work has to retire";
}

/* With the key's text. */
struct risk_room {
	Mps__RiskStat stat;
	char key[2 * RISK_KEY + 1];
};

static void
fill_risk(const struct brk_risk *risk, struct risk_room *out)
{
	mps__risk_stat__init(&out->stat);
	for (unsigned int i = 0; i < RISK_KEY; i++)
		snprintf(out->key + 2 * i, 3, "%02x", risk->key[i]);
	out->stat.key = out->key;
	out->stat.call = (char *)brk_risk_text(risk->call);
	out->stat.refused = risk->verdict == RISK_REFUSED;
	out->stat.client = risk->client;
	out->stat.pid = risk->pid;
	out->stat.exe = (char *)risk->exe;
	out->stat.since_s = (brk_now_ns() - risk->at_ns) / 1000000000u;
}

static size_t
fill_risks(struct brk_broker *broker, struct risk_room rooms[RISK_RECORDS],
	   Mps__RiskStat *out[RISK_RECORDS])
{
	size_t n = 0;

	brk_risk_settle(broker);
	for (unsigned int i = 0; i < RISK_RECORDS; i++) {
		if (!broker->risks.records[i].verdict)
			continue;
		fill_risk(&broker->risks.records[i], &rooms[n]);
		out[n] = &rooms[n].stat;
		n++;
	}
	return n;
}

static void
fill_broker(struct brk_broker *broker, Mps__StatusReply *out)
{
	out->broker_pid = getpid();
	out->broker_descriptors = count_descriptors();
	out->broker_mappings = count_mappings();
	out->socket = broker->path;
	out->uptime_s = (brk_now_ns() - broker->started_ns) / 1000000000u;
	out->total_clients = broker->total_clients;
	out->vault_chunks = brk_vault_count(broker);
	out->store_images = broker->store.count;
	out->store_bytes = broker->store.bytes;
	out->bad_frames = broker->bad_frames;
	out->draining = broker->draining;
	out->device_limit = broker->quotas.limits[QUOTA_DEVICE];
	if (out->device_limit == UINT64_MAX)
		out->device_limit = 0;
	out->workers_started = broker->workers_started;
}

/* Send as many clients as one frame holds. */
static void
send_reply(struct brk_client *client, Mps__StatusReply *reply)
{
	Mps__Control answer = MPS__CONTROL__INIT;
	size_t all = reply->n_clients, workers = reply->n_workers, size;
	char line[96];

	answer.body_case = MPS__CONTROL__BODY_STATUS_REPLY;
	answer.status_reply = reply;
	while ((size = mps__control__get_packed_size(&answer)) >
	       FRAME_MAX - 1024 && reply->n_clients + reply->n_workers) {
		reply->n_clients -= (reply->n_clients + 7) / 8;
		reply->n_workers -= reply->n_workers / 8;
		snprintf(line, sizeof(line), "%zu of %zu clients and %zu of "
			 "%zu workers are shown", reply->n_clients, all,
			 reply->n_workers, workers);
		reply->message = line;
	}
	brk_client_answer(client, &answer, NULL, 0);
}

static size_t
count_workers(const struct brk_broker *broker)
{
	const struct brk_device *device;
	size_t n = 0;

	TAILQ_FOREACH(device, &broker->places, link)
		n += device->worker != NULL;
	return n;
}

static void
tell(struct brk_status *job)
{
	struct brk_broker *broker = job->client->broker;
	_cleanup_free_ Mps__ClientStat **clients = NULL;
	_cleanup_free_ Mps__WorkerStat **workers = NULL;
	_cleanup_free_ Mps__WorkerStat *figures = NULL;
	struct risk_room rooms[RISK_RECORDS];
	Mps__RiskStat *risks[RISK_RECORDS];
	Mps__StatusReply reply = MPS__STATUS_REPLY__INIT;
	_cleanup_free_ Mps__ClientStat *stats = NULL;
	const struct brk_device *device;
	struct brk_client *client;
	size_t n = 0;

	job->told = true;
	brk_timer_stop(&job->patience);
	LIST_FOREACH(client, &broker->clients, link)
		n++;
	stats = calloc(n, sizeof(*stats));
	clients = calloc(n, sizeof(*clients));
	n = count_workers(broker);
	figures = calloc(n, sizeof(*figures));
	workers = calloc(n, sizeof(*workers));
	TAILQ_FOREACH(device, &broker->places, link) {
		if (!device->worker || !figures || !workers)
			continue;
		workers[reply.n_workers] = &figures[reply.n_workers];
		fill_worker(job, device, &figures[reply.n_workers++]);
	}
	LIST_FOREACH(client, &broker->clients, link) {
		if (!client->tenant || !stats || !clients)
			continue;
		clients[reply.n_clients] = &stats[reply.n_clients];
		fill_client(job, client, &stats[reply.n_clients++]);
	}
	reply.workers = workers;
	reply.clients = clients;
	reply.risks = risks;
	reply.n_risks = fill_risks(broker, rooms, risks);
	fill_broker(broker, &reply);
	send_reply(job->client, &reply);
}

static void
maybe_free(struct brk_status *job)
{
	if (job->waiting || !job->told)
		return;
	for (unsigned int i = 0; i < job->nparts; i++)
		mps__worker_stats_reply__free_unpacked(job->parts[i].reply,
						       NULL);
	free(job);
}

static void
give_up(struct brk_timer *timer)
{
	/* Parts without an answer keep the job until they have one. */
	tell(brk_of(timer, struct brk_status, patience));
}

static Mps__WorkerStatsReply *
copy_reply(const Mps__WorkerStatsReply *reply)
{
	size_t size = mps__worker_stats_reply__get_packed_size(reply);
	_cleanup_free_ uint8_t *bytes = malloc(size ? size : 1);

	if (!bytes)
		return NULL;
	mps__worker_stats_reply__pack(reply, bytes);
	return mps__worker_stats_reply__unpack(NULL, size, bytes);
}

static void
part_answered(struct brk_request *request, struct brk_result *result)
{
	struct part *part = brk_of(request, struct part, request);
	struct brk_status *job = part->job;
	struct brk_broker *broker = job->client->broker;
	const struct brk_device *device;

	TAILQ_FOREACH(device, &broker->places, link)
		if (device->worker &&
		    device->worker->generation == part->generation)
			device->worker->stats_asked_ns = 0;
	if (result->stats && !job->told)
		part->reply = copy_reply(result->stats);
	if (!--job->waiting && !job->told)
		tell(job);
	maybe_free(job);
}

/* Ask unless it already owes an answer for long. */
static void
ask(struct brk_status *job, struct brk_worker *worker)
{
	struct part *part = &job->parts[job->nparts];
	Mps__WorkerStats body = MPS__WORKER_STATS__INIT;
	Mps__Control message = MPS__CONTROL__INIT;
	uint64_t now = brk_now_ns();

	if (worker->state != WORKER_READY)
		return;
	if (worker->stats_asked_ns &&
	    now - worker->stats_asked_ns > PATIENCE_MS * UINT64_C(1000000))
		return;
	if (!worker->stats_asked_ns)
		worker->stats_asked_ns = now;
	*part = (struct part){
		.job = job, .generation = worker->generation,
		.request = { .client = job->client, .wants_stats = true,
			     .answered = part_answered },
	};
	job->nparts++;
	job->waiting++;
	message.body_case = MPS__CONTROL__BODY_WORKER_STATS;
	message.worker_stats = &body;
	brk_worker_ask(worker, &part->request, &message, NULL, 0);
}

int
brk_status_ask(struct brk_client *client)
{
	struct brk_broker *broker = client->broker;
	struct brk_device *device;
	struct brk_status *job;

	job = calloc(1, sizeof(*job) +
		     count_workers(broker) * sizeof(job->parts[0]));
	if (!job)
		return err_origin(-ENOMEM);
	job->client = client;
	job->patience.fire = give_up;
	brk_client_later(client);
	TAILQ_FOREACH(device, &broker->places, link)
		if (device->worker)
			ask(job, device->worker);
	if (job->waiting) {
		brk_timer_set(&broker->loop, &job->patience, PATIENCE_MS);
		return 0;
	}
	tell(job);
	maybe_free(job);
	return 0;
}
