/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: a client process, or somebody who only asks.
 * Used by the parts of the broker that act for a client.
 *
 * A client asks one question at a time: while an answer needs a worker, its
 * further frames stay unread. When its connection ends, the object lives on
 * until every worker has let go of what was the client's; only then are
 * addresses, descriptors and charges given back.
 */
#ifndef BROKER_CLIENT_H
#define BROKER_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "server/broker/addr.h"
#include "server/broker/broker.h"
#include "server/broker/conn.h"
#include "server/broker/device.h"
#include "server/broker/image.h"
#include "server/broker/session.h"
#include "server/broker/vault.h"

enum brk_client_state {
	CLIENT_NEW,             /* no Hello yet */
	CLIENT_REFUSED,         /* will hear why, then is closed */
	CLIENT_ASKING,          /* ask_only: owns nothing */
	CLIENT_LIVE,
	CLIENT_ENDED,           /* connection gone, workers still clean up */
};

struct brk_client {
	struct brk_conn conn;
	struct brk_broker *broker;
	LIST_ENTRY(brk_client) link;
	enum brk_client_state state;
	uint64_t id;
	pid_t pid;
	uid_t uid;
	char exe[BRK_EXE_SIZE], job[BRK_JOB_SIZE];
	char solo[128];                 /* why it shares no worker; "" */
	const char *refusal;            /* CLIENT_REFUSED */
	struct brk_timer patience;      /* until Hello; then until closed */

	uint64_t ended_ns;              /* CLIENT_ENDED: since when */
	uint64_t question;              /* id to answer */
	struct brk_wait wait;           /* for a worker to be ready */
	unsigned int outstanding;       /* requests at workers */

	struct brk_tenant *tenant;
	struct brk_holding holding;
	LIST_HEAD(, brk_session) sessions;
	struct brk_device *gone_devices; /* its own, by gone_next */
	struct brk_vault vault;
	struct brk_images images;
	int device;                     /* of the question that waits */
	bool no_ring;                   /* of the Attach that waits */
	bool quits;                     /* waits for the broker's end */

	/* part.h: Solo is unanswered; it waits for a block to be gone. */
	bool parting, part_waits;
	unsigned int lingers;           /* … workers that have yet to forget */
	int part_device;
	char part_why[128];

	/* move.h: the question that is being answered. */
	uint8_t *asked;                 /* packed */
	size_t asked_size;
	bool redoes;                    /* an answer now would be premature */
	bool redo;                      /* it is to be asked again */
	bool redone;                    /* it has been: that will do */
};

/* Takes fd over. */
void brk_client_accept(struct brk_broker *broker, int fd);
/* End the connection now; not from inside one of its own handlers. */
void brk_client_end(struct brk_client *client);

/* Every question is answered once, by one of these two. Nothing is sent to
 * a client that has ended. Descriptors stay the caller's. */
void brk_client_answer(struct brk_client *client, Mps__Control *answer,
		       const int *fds, int nfds);
void brk_client_done(struct brk_client *client, uint32_t status,
		     const char *message);
/* The answer comes later: read no further question until then. */
void brk_client_later(struct brk_client *client);

/* The client is no longer between two workers. */
void brk_client_go_on(struct brk_client *client);

/* Text for logs and terminals, from whoever said it. */
void brk_client_text(char *out, size_t size, const char *text);

/* A request at a worker begins, ends. The second may free the client. */
void brk_client_hold(struct brk_client *client);
void brk_client_let_go(struct brk_client *client);

#endif
