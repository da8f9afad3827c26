/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device: its worker, who waits for one, and what became of the last.
 * Used by client.c and session.c; worker.c reports here.
 *
 * A solo client (solo.h) has one of its own for each device that it uses,
 * with a worker of its own, which ends with the client.
 */
#ifndef BROKER_DEVICE_H
#define BROKER_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/wire.pb-c.h"
#include "server/broker/worker.h"

struct brk_broker;
struct brk_client;

/* Three ends without cause within a minute, and the device is left alone
 * for as long. */
#define DEVICE_DEATHS 3
#define DEVICE_DEATHS_NS (UINT64_C(60) * 1000000000u)

#define BRK_SOLO_WHY 96

struct brk_wait {
	LIST_ENTRY(brk_wait) link;
	bool waiting;
	/* status 0: the worker is ready. */
	void (*ready)(struct brk_wait *wait, struct brk_device *device,
		      uint32_t status, const char *message);
};

struct brk_device {
	TAILQ_ENTRY(brk_device) link;
	struct brk_broker *broker;
	int ordinal;
	struct brk_client *solo;        /* whose alone it is, held; or NULL */
	struct brk_device *gone_next;   /* in solo's list of those let go */
	struct brk_worker *worker;      /* NULL: none */
	LIST_HEAD(, brk_wait) waits;
	struct brk_timer start;         /* back-off */
	uint64_t deaths[DEVICE_DEATHS]; /* ns, newest first */
	uint64_t lost_until_ns;
	uint32_t last_status;           /* why there is no worker */
	char last_message[256];
	Mps__WorkerReady *snapshot;     /* the last one's; or NULL */
	struct brk_timer handover;      /* move.c */
	struct brk_request pause;
	bool pausing;                   /* the question is unanswered */
	uint64_t lost_clients;          /* that lost work to a fault */
	uint64_t moved_clients;         /* that went on in another worker */
	char last_fault[256];           /* what, and whose; "": none yet */
	uint64_t last_fault_ns;
};

/* The device, made on first use. NULL when out of memory or ordinal is out
 * of range. */
struct brk_device *brk_device_get(struct brk_broker *broker, int ordinal);
/* The client's own, likewise, made on first use. */
struct brk_device *brk_device_solo(struct brk_client *client, int ordinal);
/* Are there as many such workers as there may be, and none of this client's?
 * out_why is the client's answer. */
bool brk_device_solo_is_full(const struct brk_client *client, int ordinal,
			     char out_why[BRK_SOLO_WHY]);
/* The client has ended: so do the workers that are its alone. */
void brk_device_leave(struct brk_client *client);
/* Let go of it. A client's own is freed with the client: its sessions name it
 * until then. */
void brk_device_free(struct brk_device *device);
/* Devices of the machine as the first worker saw them; 0: not known yet. */
int brk_device_count(const struct brk_broker *broker);

/* Call wait->ready when there is a worker, starting one if need be; or at
 * once. */
void brk_device_wait(struct brk_device *device, struct brk_wait *wait);
void brk_device_unwait(struct brk_wait *wait);

/* Where the broker is to be warm: a worker on each device that has none and
 * is not lost. */
void brk_device_warm(struct brk_broker *broker);

/* From worker.c. */
void brk_device_ready(struct brk_device *device);
/* What to tell when the device is lost; 0: system not ready. */
void brk_device_remember(struct brk_device *device, uint32_t status,
			 const char *message);
/* No use waiting for this worker: it failed to start. */
void brk_device_failed(struct brk_device *device, uint32_t status,
		       const char *message);
/* The worker no longer works (its process may still exist); see
 * brk_session_lose(). */
struct brk_loss;
void brk_device_lost(struct brk_device *device, const struct brk_loss *loss);
/* A client's session waits for the next worker. */
void brk_device_want(struct brk_device *device);
/* The worker's process is gone. */
void brk_device_ended(struct brk_device *device, bool counts);

#endif
