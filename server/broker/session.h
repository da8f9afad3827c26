/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client attached to the worker of one device.
 * Used by client.c (Attach), worker.c (the worker's end) and status.c.
 *
 * The broker keeps its own descriptors of what the two share, so that a new
 * worker can be given the same socket, rings and staging memory.
 */
#ifndef BROKER_SESSION_H
#define BROKER_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/wire.pb-c.h"
#include "server/broker/worker.h"

struct brk_client;
struct brk_device;

enum brk_session_state {
	SESSION_OFFERED,        /* descriptors sent, client has yet to map */
	SESSION_HANDED,         /* worker has yet to answer */
	SESSION_LIVE,
	SESSION_DEAD,           /* worker lost; the client was told */
};

struct brk_session {
	LIST_ENTRY(brk_session) link;
	struct brk_client *client;
	struct brk_device *device;
	uint64_t generation;            /* of the worker */
	enum brk_session_state state;
	int data;                       /* worker's end of the data socket */
	int channel, staging;           /* shared memory */
	bool no_ring;
	struct brk_request hand, gone;
};

/* Attach, once the device's worker is ready. */
void brk_session_attach(struct brk_client *client, struct brk_device *device);
int brk_session_ready(struct brk_client *client, uint64_t device,
		      uint32_t status);
/* The client's session of that device, dead or not; or NULL. */
struct brk_session *brk_session_find(struct brk_client *client, int device);
/* The worker that serves the client there; NULL when there is none. */
struct brk_worker *brk_session_worker(struct brk_client *client, int device);
/* The client has ended: tell the workers. */
void brk_session_leave(struct brk_client *client);
void brk_session_free(struct brk_session *session);
/* The worker of that generation is lost: wake everybody who waits for it.
 * status 0: judge by the client's cursors what it lost. */
void brk_session_lose(struct brk_client *client, uint64_t generation,
		      uint32_t status);

#endif
