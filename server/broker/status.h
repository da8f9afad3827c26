/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to Status: the broker's own figures and the workers'.
 * Used by client.c.
 */
#ifndef BROKER_STATUS_H
#define BROKER_STATUS_H

struct brk_client;

int brk_status_ask(struct brk_client *client);

#endif
