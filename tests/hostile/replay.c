/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded sessions once more, changed, against a running broker.
 *
 *     replay SOCKET SEED FRAMES SESSION...
 *
 * Plays sessions until FRAMES frames are sent; SEED decides everything about
 * them. Prints what it did. Exit status 1: a sound question was left without
 * an answer, or a session that was not changed did not get to its end.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/hostile/actor.h"

/* Frames between two changes: from none to all. Rare ones get deep. */
static const unsigned rates[] = {0, 150, 150, 50, 50, 15, 8, 4, 1};

static uint64_t seed;
static struct actor_counts counts;
static uint64_t unchanged, unchanged_whole;

static void
play(const char *socket, const struct session *session,
     const struct pool *pool, uint64_t number)
{
	struct actor actor = {
		.session = session, .pool = pool, .socket = socket,
		.dice = {seed * 1000003 + number}, .counts = &counts,
	};
	uint64_t whole = counts.whole;

	actor.every = rates[dice_below(&actor.dice, sizeof(rates) /
						    sizeof(rates[0]))];
	actor.ring = dice_below(&actor.dice, 2);
	actor.renumber = actor.every && dice_below(&actor.dice, 2);
	actor.junk = actor.every && !dice_below(&actor.dice, 6);
	actor_play(&actor);
	if (!actor.every) {
		unchanged++;
		unchanged_whole += counts.whole - whole;
	}
	if (counts.hangs || (!actor.every && counts.whole == whole))
		printf("seed %" PRIu64 ", session %" PRIu64 " (%s, %s): %s\n",
		       seed, number, session->name,
		       actor.ring ? "ring" : "socket",
		       counts.hangs ? "no answer" : "did not get to its end");
}

/*
 * The worker buries the dead one by one, and until then they keep their
 * addresses. With a sanitizer's few addresses and slow burials they would
 * have them all.
 */
static void
let_bury(const char *socket)
{
#ifdef MPSSHIM_SANITIZED
	Mps__Control question = MPS__CONTROL__INIT, *answer;
	Mps__Status status = MPS__STATUS__INIT;
	Mps__Hello hello = MPS__HELLO__INIT;
	int fd = sock_connect(socket);
	size_t clients = 0;

	question.body_case = MPS__CONTROL__BODY_HELLO;
	question.hello = &hello;
	hello.wire = WIRE_NUMBER;
	hello.ask_only = true;
	do {
		if (sock_send_control(fd, &question, NULL, 0, 10000) < 0 ||
		    sock_recv_control(fd, &answer, NULL, NULL, 60000) < 0)
			errx(1, "no status");
		if (answer->body_case == MPS__CONTROL__BODY_STATUS_REPLY)
			clients = answer->status_reply->n_clients;
		mps__control__free_unpacked(answer, NULL);
		if (question.body_case == MPS__CONTROL__BODY_STATUS &&
		    clients > 24)
			usleep(20000);
		if (question.body_case == MPS__CONTROL__BODY_STATUS &&
		    clients <= 24)
			break;
		question.body_case = MPS__CONTROL__BODY_STATUS;
		question.status = &status;
	} while (true);
	close(fd);
#else
	(void)socket;
#endif
}

int
main(int argc, char **argv)
{
	struct session *sessions;
	struct pool pool = {0};
	uint64_t frames, number = 0;
	size_t n = argc > 4 ? (size_t)argc - 4 : 0;
	int cut;

	if (!n)
		errx(2, "usage: replay SOCKET SEED FRAMES SESSION...");
	signal(SIGPIPE, SIG_IGN);
	seed = strtoull(argv[2], NULL, 0);
	frames = strtoull(argv[3], NULL, 0);
	sessions = calloc(n, sizeof(*sessions));
	for (size_t i = 0; i < n; i++) {
		session_read(&sessions[i], argv[4 + i]);
		for (size_t k = 0; k < sessions[i].count; k++)
			if (sessions[i].entries[k].kind == ENTRY_IMAGE)
				pool_add(&pool, sessions[i].entries[k].bytes,
					 sessions[i].entries[k].size);
	}
	if (pool.count > ACTOR_CODES)
		errx(1, "more than %d images", ACTOR_CODES);
	cut = actor_cut_hello(argv[1], &sessions[0]);
	while (counts.frames < frames && !counts.hangs) {
		play(argv[1], &sessions[number % n], &pool, number);
		if (++number % 8 == 0)
			let_bury(argv[1]);
	}
	printf("hello cut at each of %d bytes; seed %" PRIu64 ": %" PRIu64
	       " sessions, %" PRIu64 " frames, %" PRIu64 " of them changed, %"
	       PRIu64 " descriptors, %" PRIu64 " lies in memory, %" PRIu64
	       " junk images; %" PRIu64 " sessions served to their end, %"
	       PRIu64 " of %" PRIu64 " unchanged ones; %" PRIu64 " hangs\n",
	       cut, seed, counts.sessions, counts.frames, counts.changed,
	       counts.descriptors, counts.lies, counts.images, counts.whole,
	       unchanged_whole, unchanged, counts.hangs);
	for (size_t i = 0; i < n; i++)
		session_free(&sessions[i]);
	free(sessions);
	pool_free(&pool);
	return cut < 0 || counts.hangs || unchanged_whole != unchanged;
}
