/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody who is no client may ask: control programs.
 * Used by client.c.
 */
#ifndef BROKER_ASKER_H
#define BROKER_ASKER_H

#include "server/broker/client.h"

/* 0, or -EPROTO for what is no question of theirs. */
int brk_asker_question(struct brk_client *client, const Mps__Control *message);

#endif
