/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that says what another one said, with changes.
 * Used by tests/hostile only.
 */
#ifndef TESTS_HOSTILE_ACTOR_H
#define TESTS_HOSTILE_ACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/channel.h"
#include "proto/ring.h"
#include "proto/sock.h"
#include "tests/hostile/mutate.h"
#include "tests/hostile/pool.h"
#include "tests/hostile/session.h"

enum { ACTOR_NAMES = 64, ACTOR_CODES = 8 };

/* What is uploaded in a pool image's place. */
struct actor_code {
	uint8_t hash[SHA256_SIZE];
	uint8_t *bytes;
	size_t size;
};

/* What a recorded address or id is called this time. */
struct actor_name {
	uint64_t old, new_, size;
};

struct actor_names {
	struct actor_name names[ACTOR_NAMES];
	unsigned count;
};

struct actor_counts {
	uint64_t sessions, whole;       /* whole: still served at their end */
	uint64_t frames, changed;       /* frames sent, of them changed */
	uint64_t descriptors;           /* sent where none belong */
	uint64_t lies;                  /* in the shared memory */
	uint64_t images;                /* junk in a code image's place */
	uint64_t hangs;                 /* sound questions without an answer */
};

struct actor {
	const struct session *session;
	const struct pool *pool;
	struct dice dice;
	struct actor_counts *counts;
	const char *socket;

	/* The plan: one frame of `every` is changed; 0: none. */
	unsigned every;
	bool ring, junk, renumber;

	int control, data, fds[2];      /* fds: channel, staging */
	bool confused;                  /* the broker may wait for more bytes */
	struct channel channel;
	struct ring ordered, unordered;
	struct actor_names addresses, ids;
	struct actor_code codes[ACTOR_CODES];   /* by index of the pool */
	uint64_t seq;                   /* of the ordered ring, if we count */
};

/* Connect, say it all, leave. */
void actor_play(struct actor *actor);
/* The session's hello cut off at every byte. Number of connections, or -1
 * when the broker does not end one. */
int actor_cut_hello(const char *socket, const struct session *session);

#endif
