/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client leaves the worker that it shares for one of its own, and that lives
 * on: the same as a move (move.h), but that it can go back.
 * Used by client.c for Solo; move.c and session.c report here.
 *
 * The old worker ends what it has begun for the client and leaves it alone.
 * The new one makes everything again; only when it is about to go on with the
 * client does the old one forget it. Whatever fails before that, the client
 * stays where it was and hears why.
 */
#ifndef BROKER_PART_H
#define BROKER_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire.pb-c.h"

struct brk_client;
struct brk_session;

int brk_part_ask(struct brk_client *client, const Mps__Solo *message);
/* A block of the client's is gone, which it may have waited for. */
void brk_part_block_gone(struct brk_client *client);
/* The next worker has everything and is asked to go on. */
void brk_part_resume(struct brk_session *session);
/* It has not all of it, or does not go on: true if the client stays where it
 * was. */
bool brk_part_failed(struct brk_session *session, const char *why);
/* It goes on; or the session has died, or waits for another worker. */
void brk_part_over(struct brk_session *session);
/* A worker is lost. True: the session is not, or it is told later. */
bool brk_part_lose(struct brk_session *session, uint64_t generation);

#endif
