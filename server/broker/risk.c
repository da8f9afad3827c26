/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash loops. An image that a worker has ended over is suspected until
 * such a call has gone well; a second end is the last, from then on workers
 * refuse it. There are few records: the oldest suspicion makes room, then the
 * oldest refusal.
 */
#include "server/broker/risk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"
#include "proto/shmem.h"
#include "server/broker/client.h"

static const char *const texts[RISK_CALLS] = {
	[RISK_LOAD] = "loading code",
	[RISK_FUNCTION] = "taking a kernel out of code",
	[RISK_GLOBAL] = "looking for a variable of code",
	[RISK_NAMES] = "listing the kernels of code",
	[RISK_LINK] = "linking code",
	[RISK_GRAPH] = "instantiating a graph",
};

const char *
brk_risk_text(enum risk_call call)
{
	return texts[call];
}

/* ---- pages --------------------------------------------------------------*/

static void
publish_to(struct risk_page *page, const struct brk_risks *risks,
	   unsigned int place)
{
	const struct brk_risk *risk = &risks->records[place];
	struct risk_record *record = &page->records[place];

	atomic_store(&record->verdict, RISK_UNKNOWN);
	record->call = risk->call;
	record->detail = risk->detail;
	memcpy(record->key, risk->key, RISK_KEY);
	atomic_store(&record->outcome, RISK_OPEN);
	/* Release: whoever finds the record finds all of it. */
	atomic_store_explicit(&record->verdict, risk->verdict,
			      memory_order_release);
}

static void
publish(struct brk_broker *broker, unsigned int place)
{
	struct brk_device *device;

	TAILQ_FOREACH(device, &broker->places, link)
		if (device->worker && device->worker->risks)
			publish_to(device->worker->risks, &broker->risks,
				   place);
}

int
brk_risk_open(struct brk_worker *worker, int *out_fd)
{
	_cleanup_close_ int fd = shmem_create("mpsshim-risk",
					      sizeof(*worker->risks));

	if (fd < 0)
		return err_trace(fd);
	worker->risks = shmem_map(fd, sizeof(*worker->risks));
	if (!worker->risks)
		return err_origin(-errno);
	brk_risk_settle(worker->broker);
	for (unsigned int i = 0; i < RISK_RECORDS; i++)
		publish_to(worker->risks, &worker->broker->risks, i);
	*out_fd = steal_fd(&fd);
	return 0;
}

void
brk_risk_close(struct brk_worker *worker)
{
	if (worker->risks)
		munmap(worker->risks, sizeof(*worker->risks));
	worker->risks = NULL;
}

/* ---- records ------------------------------------------------------------*/

static void
settle_one(struct brk_broker *broker, unsigned int place, uint32_t outcome)
{
	struct brk_risk *risk = &broker->risks.records[place];

	if (risk->verdict != RISK_SUSPECT ||
	    (outcome != RISK_PASSED && outcome != RISK_FAILED))
		return;
	risk->verdict = outcome == RISK_PASSED ? RISK_UNKNOWN : RISK_REFUSED;
	publish(broker, place);
	if (outcome == RISK_FAILED)
		log_line(LOG_ERROR, "%s (%02x%02x%02x%02x) for client %llu "
			 "(pid %d, %s): it has ended a compiler, too, and is "
			 "refused from now on", texts[risk->call],
			 risk->key[0], risk->key[1], risk->key[2],
			 risk->key[3], (unsigned long long)risk->client,
			 (int)risk->pid, risk->exe);
}

void
brk_risk_settle(struct brk_broker *broker)
{
	struct brk_device *device;

	TAILQ_FOREACH(device, &broker->places, link) {
		if (!device->worker || !device->worker->risks)
			continue;
		for (unsigned int n = 0; n < RISK_RECORDS; n++)
			settle_one(broker, n, atomic_load(
				&device->worker->risks->records[n].outcome));
	}
}

static struct brk_risk *
find(struct brk_risks *risks, const uint8_t key[RISK_KEY])
{
	for (unsigned int i = 0; i < RISK_RECORDS; i++)
		if (risks->records[i].verdict &&
		    !memcmp(risks->records[i].key, key, RISK_KEY))
			return &risks->records[i];
	return NULL;
}

static struct brk_risk *
make_room(struct brk_risks *risks)
{
	struct brk_risk *best = &risks->records[0];

	/* Free ones first, then by verdict, then by age. */
	for (unsigned int i = 1; i < RISK_RECORDS; i++) {
		struct brk_risk *risk = &risks->records[i];

		if (risk->verdict < best->verdict ||
		    (risk->verdict == best->verdict &&
		     risk->at_ns < best->at_ns))
			best = risk;
	}
	*best = (struct brk_risk){ 0 };
	return best;
}

static const struct brk_client *
find_client(const struct brk_broker *broker, uint64_t id)
{
	const struct brk_client *client;

	LIST_FOREACH(client, &broker->clients, link)
		if (client->id == id && client->tenant)
			return client;
	return NULL;
}

/* A worker has ended in the midst of it: true if that was the last one. */
static bool
blame(struct brk_worker *worker, enum risk_call call,
      const struct risk_now *now)
{
	struct brk_broker *broker = worker->broker;
	const struct brk_client *client = find_client(broker, now->client);
	struct brk_risk *risk = find(&broker->risks, now->key);
	bool again = risk;

	if (!risk)
		risk = make_room(&broker->risks);
	memcpy(risk->key, now->key, RISK_KEY);
	risk->call = call;
	risk->detail = now->detail;
	risk->verdict = again ? RISK_REFUSED : RISK_SUSPECT;
	risk->at_ns = brk_now_ns();
	risk->client = now->client;
	risk->pid = client ? client->pid : 0;
	snprintf(risk->exe, sizeof(risk->exe), "%s", client ? client->exe : "");
	publish(broker, (unsigned int)(risk - broker->risks.records));
	log_line(LOG_ERROR, "worker %d of device %d ended while %s "
		 "(%02x%02x%02x%02x) for client %llu (pid %d, %s): %s",
		 (int)worker->pid, worker->device->ordinal, texts[call],
		 risk->key[0], risk->key[1], risk->key[2], risk->key[3],
		 (unsigned long long)risk->client, (int)risk->pid, risk->exe,
		 again ? "the second one, it is refused from now on" :
			 "once more, and it is refused");
	return again;
}

bool
brk_risk_judge(struct brk_worker *worker)
{
	unsigned int blamed = 0, decided = 0;

	if (!worker->risks)
		return false;
	brk_risk_settle(worker->broker);
	for (unsigned int i = 0; i < RISK_THREADS; i++) {
		struct risk_now *now = &worker->risks->now[i];
		/* Acquire: what goes with it. */
		uint32_t call = atomic_load_explicit(&now->call,
						     memory_order_acquire);
		struct risk_now copy;

		if (call == RISK_NONE || call >= RISK_CALLS)
			continue;
		/* Nobody else has the page any more, but believe nothing. */
		memcpy(&copy, now, sizeof(copy));
		blamed++;
		decided += blame(worker, (enum risk_call)call, &copy);
	}
	return blamed && decided == blamed;
}
