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
	SESSION_MOVING,         /* worker lost; waits for the next one */
	SESSION_RESTORING,      /* the next one is given what it had */
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
	int journal;                    /* the workers' own */
	bool no_ring;
	uint32_t death;                 /* DEAD: the CUresult it was told */
	uint64_t taken;                 /* bytes that the driver has for it */
	unsigned int parts;             /* RESTORING: questions unanswered */
	char failed[160];               /* … why it cannot be done; or "" */
	/* part.c: whose worker has it until the next one goes on with it. */
	struct brk_device *from;
	uint64_t from_generation;
	bool resuming;                  /* the next one is asked to */
	struct brk_request *left;       /* to tell that one then */
	struct brk_request stay;
	struct brk_request hand, gone;
};

/* The end of a worker. */
struct brk_loss {
	uint64_t generation;
	uint32_t status;        /* for all; 0: judge by what each has lost */
	uint32_t fault;         /* CUresult of a device fault, or 0 */
	uint64_t culprit;       /* client, 0: not known */
	const char *text;       /* what the driver said of it, or NULL */
};

/* Attach, once the device's worker is ready. */
void brk_session_attach(struct brk_client *client, struct brk_device *device);
int brk_session_ready(struct brk_client *client, uint64_t device,
		      uint32_t status);
/* The client's session of that device, dead or not; or NULL. */
struct brk_session *brk_session_find(struct brk_client *client, int device);
/* The worker that serves the client there; NULL when there is none. */
struct brk_worker *brk_session_worker(struct brk_client *client, int device);
/* The worker need not serve it any more. */
void brk_session_forget(struct brk_session *session, struct brk_worker *worker);
/* The same, by a question of the caller's, whose client is set. */
void brk_session_ask_gone(struct brk_worker *worker,
			  struct brk_request *request);
/* The client has ended: tell the workers. */
void brk_session_leave(struct brk_client *client);
void brk_session_free(struct brk_session *session);
/* A worker is lost: what the client had there waits for the next one, or
 * everybody who waits for it is woken and told. */
void brk_session_lose(struct brk_client *client, const struct brk_loss *loss);
/* What the driver has for it, as its worker says: it counts, and is there
 * already. */
void brk_session_taken(struct brk_worker *worker,
		       const Mps__WorkerTaken *message);
/* What a client is told that has no worker there. */
uint32_t brk_session_error(struct brk_client *client, int device);
/* Tell the client that it is served no more, whatever its worker still has of
 * it. What it was told, which may be what the worker has said before. */
uint32_t brk_session_tell(struct brk_session *session, uint32_t status,
			  const char *why);
/* The same when no worker has anything of it. */
void brk_session_die(struct brk_session *session, uint32_t status,
		     const char *why);
/* Has it begun something that has not ended? So the worker says. */
bool brk_session_is_busy(const struct brk_session *session);
/* Another worker serves it: whoever waits for a reply looks again. */
void brk_session_wake(struct brk_session *session);
/* Have the device's worker serve it; resume: another one has. */
void brk_session_hand(struct brk_session *session, bool resume,
		      void (*answered)(struct brk_request *request,
				       struct brk_result *result));

#endif
