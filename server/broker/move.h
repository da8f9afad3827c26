/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a worker that has ended to the next one: the clients that lost nothing.
 * Used by session.c, device.c and client.c.
 *
 * Nothing of a client is given to the next worker before the last one's
 * process is gone. Until then, and until the next one serves it, none
 * of its questions is answered.
 */
#ifndef BROKER_MOVE_H
#define BROKER_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/broker/loop.h"

struct brk_client;
struct brk_device;
struct brk_session;

/* Read no further question; redo: that which is being answered comes again
 * when the client has a worker. */
void brk_move_wait(struct brk_client *client, bool redo);
/* Is anything of the client between two workers? */
bool brk_move_is_on(const struct brk_client *client);
/* Somebody waits for the device's next worker. */
bool brk_move_is_awaited(const struct brk_device *device);
/* Give the session's worker what the client has, and have it go on. */
void brk_move_restore(struct brk_session *session);
/* The next worker is ready. */
void brk_move_start(struct brk_device *device);
/* There will be none. */
void brk_move_fail(struct brk_device *device, uint32_t status,
		   const char *message);

/*
 * A client of the device has ended. If the worker still has it after a while
 * (MPSSHIM_HANDOVER_S), so that its kernel may never end and others' code is
 * not loaded, the worker is replaced as soon as nobody else loses by it.
 */
void brk_move_watch(struct brk_device *device);
/* The device's timer. */
void brk_move_look(struct brk_timer *timer);

#endif
