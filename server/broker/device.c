/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/device.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "proto/log.h"
#include "server/broker/client.h"
#include "server/broker/move.h"

/* Before the second and the third start in a row. */
static const uint64_t backoff_ms[DEVICE_DEATHS] = { 0, 250, 1000 };

static void start_now(struct brk_timer *timer);

/* Where a new one goes in the list. */
static struct brk_device *
find_place(struct brk_broker *broker, int ordinal)
{
	struct brk_device *device;

	TAILQ_FOREACH(device, &broker->places, link)
		if (device->solo || device->ordinal > ordinal)
			break;
	return device;
}

static struct brk_device *
device_new(struct brk_broker *broker, int ordinal, struct brk_client *solo)
{
	struct brk_device *device = calloc(1, sizeof(*device)), *behind;

	if (!device)
		return NULL;
	device->broker = broker;
	device->ordinal = ordinal;
	device->solo = solo;
	device->start.fire = start_now;
	device->handover.fire = brk_move_look;
	LIST_INIT(&device->waits);
	behind = solo ? NULL : find_place(broker, ordinal);
	if (behind)
		TAILQ_INSERT_BEFORE(behind, device, link);
	else
		TAILQ_INSERT_TAIL(&broker->places, device, link);
	return device;
}

struct brk_device *
brk_device_get(struct brk_broker *broker, int ordinal)
{
	int count = brk_device_count(broker);

	if (ordinal < 0 || ordinal >= (count ? count : 1))
		return NULL;
	if (!broker->devices[ordinal])
		broker->devices[ordinal] = device_new(broker, ordinal, NULL);
	return broker->devices[ordinal];
}

struct brk_device *
brk_device_solo(struct brk_client *client, int ordinal)
{
	struct brk_device *device;

	if (!brk_device_get(client->broker, ordinal))
		return NULL;
	TAILQ_FOREACH(device, &client->broker->places, link)
		if (device->solo == client && device->ordinal == ordinal)
			return device;
	device = device_new(client->broker, ordinal, client);
	/* Until its worker's process is gone: what that has mapped is in use. */
	if (device)
		brk_client_hold(client);
	return device;
}

bool
brk_device_solo_is_full(const struct brk_client *client, int ordinal,
			char out_why[BRK_SOLO_WHY])
{
	uint64_t limit = client->broker->solo_max, n = 0;
	const struct brk_device *device;

	TAILQ_FOREACH(device, &client->broker->places, link) {
		/* The client stays with others, or its worker is gone. */
		if (!device->solo || (!device->worker &&
				      !device->start.due_ns &&
				      LIST_EMPTY(&device->waits)))
			continue;
		if (device->solo == client && device->ordinal == ordinal)
			return false;
		n++;
	}
	snprintf(out_why, BRK_SOLO_WHY, "%llu programs have workers of their "
		 "own, which is all that may (MPSSHIM_SOLO_MAX)",
		 (unsigned long long)n);
	return n >= limit;
}

void
brk_device_free(struct brk_device *device)
{
	struct brk_client *client = device->solo;

	brk_timer_stop(&device->start);
	brk_timer_stop(&device->handover);
	mps__worker_ready__free_unpacked(device->snapshot, NULL);
	device->snapshot = NULL;
	TAILQ_REMOVE(&device->broker->places, device, link);
	if (!client) {
		device->broker->devices[device->ordinal] = NULL;
		free(device);
		return;
	}
	device->gone_next = client->gone_devices;
	client->gone_devices = device;
	brk_client_let_go(client);
}

/* Nobody else has anything there, and its kernels may never end. */
void
brk_device_leave(struct brk_client *client)
{
	struct brk_device *device = TAILQ_FIRST(&client->broker->places), *next;

	for (; device; device = next) {
		next = TAILQ_NEXT(device, link);
		if (device->solo != client)
			continue;
		if (!device->worker) {
			brk_device_free(device);
			continue;
		}
		device->worker->replaced = true;
		kill(device->worker->pid, SIGKILL);
	}
}

int
brk_device_count(const struct brk_broker *broker)
{
	const struct brk_device *first = broker->devices[0];
	size_t n;

	if (!first || !first->snapshot)
		return 0;
	n = first->snapshot->n_devices;
	return n < BRK_DEVICES ? (int)n : BRK_DEVICES;
}

/* Tell those who wait now; who comes meanwhile waits for the next. */
static void
tell(struct brk_device *device, uint32_t status, const char *message)
{
	LIST_HEAD(, brk_wait) now = LIST_HEAD_INITIALIZER(now);
	struct brk_wait *wait;

	while ((wait = LIST_FIRST(&device->waits))) {
		LIST_REMOVE(wait, link);
		LIST_INSERT_HEAD(&now, wait, link);
	}
	while ((wait = LIST_FIRST(&now))) {
		brk_device_unwait(wait);
		wait->ready(wait, device, status, message);
	}
}

void
brk_device_remember(struct brk_device *device, uint32_t status,
		    const char *message)
{
	device->last_status = status;
	if (message != device->last_message)
		snprintf(device->last_message, sizeof(device->last_message),
			 "%s", message);
}

void
brk_device_failed(struct brk_device *device, uint32_t status,
		  const char *message)
{
	brk_device_remember(device, status, message);
	tell(device, status, device->last_message);
}

/* Nor is there hope for who was with the last one. */
static void
give_up(struct brk_device *device)
{
	uint32_t status = device->last_status ? device->last_status :
						BRK_SYSTEM_NOT_READY;

	tell(device, status, device->last_message);
	brk_move_fail(device, status, device->last_message);
}

static void
start_now(struct brk_timer *timer)
{
	struct brk_device *device = brk_of(timer, struct brk_device, start);
	char line[sizeof(device->last_message)];
	int r;

	if (device->worker)
		return;
	r = brk_worker_start(device, &device->worker);
	if (!r)
		return;
	snprintf(line, sizeof(line), "cannot start %.180s: %s",
		 device->broker->worker_program, err_text(r));
	log_line(LOG_ERROR, "%s", line);
	brk_device_remember(device, BRK_SYSTEM_NOT_READY, line);
	give_up(device);
}

/* Start a worker when it is time to. */
static void
start_soon(struct brk_device *device)
{
	uint64_t now = brk_now_ns(), wait_ms = 0, since;
	int recent = 0;

	if (device->worker || device->start.due_ns)
		return;
	while (recent < DEVICE_DEATHS && device->deaths[recent] &&
	       now - device->deaths[recent] < DEVICE_DEATHS_NS)
		recent++;
	if (recent) {
		since = (now - device->deaths[0]) / 1000000u;
		wait_ms = backoff_ms[recent < DEVICE_DEATHS ? recent :
				     DEVICE_DEATHS - 1];
		wait_ms = wait_ms > since ? wait_ms - since : 0;
	}
	brk_timer_set(&device->broker->loop, &device->start, wait_ms);
}

static bool
is_lost(const struct brk_device *device)
{
	return brk_now_ns() < device->lost_until_ns;
}

void
brk_device_wait(struct brk_device *device, struct brk_wait *wait)
{
	if (device->worker && device->worker->state == WORKER_READY) {
		wait->ready(wait, device, BRK_SUCCESS, "");
		return;
	}
	if (is_lost(device)) {
		wait->ready(wait, device, device->last_status ?
			    device->last_status : BRK_SYSTEM_NOT_READY,
			    device->last_message);
		return;
	}
	LIST_INSERT_HEAD(&device->waits, wait, link);
	wait->waiting = true;
	start_soon(device);
}

void
brk_device_unwait(struct brk_wait *wait)
{
	if (wait->waiting)
		LIST_REMOVE(wait, link);
	wait->waiting = false;
}

void
brk_device_warm(struct brk_broker *broker)
{
	struct brk_device *device;

	for (int i = 0; broker->warm && !broker->draining && i < BRK_DEVICES;
	     i++) {
		device = brk_device_get(broker, i);
		if (!device)
			break;
		if (!is_lost(device))
			start_soon(device);
	}
}

void
brk_device_ready(struct brk_device *device)
{
	device->last_status = BRK_SUCCESS;
	tell(device, BRK_SUCCESS, "");
	brk_move_start(device);
	/* The first says how many there are. */
	brk_device_warm(device->broker);
}

void
brk_device_lost(struct brk_device *device, const struct brk_loss *loss)
{
	struct brk_client *client;

	LIST_FOREACH(client, &device->broker->clients, link)
		brk_session_lose(client, loss);
}

void
brk_device_want(struct brk_device *device)
{
	if (device->worker)
		return;         /* starting, or ending and then replaced */
	if (is_lost(device))
		give_up(device);
	else
		start_soon(device);
}

void
brk_device_ended(struct brk_device *device, bool counts)
{
	uint64_t now = brk_now_ns(), oldest;

	if (device->solo && device->solo->state == CLIENT_ENDED) {
		brk_device_free(device);
		return;
	}
	if (counts) {
		memmove(device->deaths + 1, device->deaths,
			(DEVICE_DEATHS - 1) * sizeof(device->deaths[0]));
		device->deaths[0] = now;
		oldest = device->deaths[DEVICE_DEATHS - 1];
		if (oldest && now - oldest < DEVICE_DEATHS_NS) {
			device->lost_until_ns = now + DEVICE_DEATHS_NS;
			memset(device->deaths, 0, sizeof(device->deaths));
			log_line(LOG_ERROR, "device %d is lost: %d workers "
				 "ended within a minute; next try in a minute",
				 device->ordinal, DEVICE_DEATHS);
		}
	}
	if (is_lost(device))
		give_up(device);
	else if (!LIST_EMPTY(&device->waits) || brk_move_is_awaited(device))
		start_soon(device);
	else
		brk_device_warm(device->broker);
}
