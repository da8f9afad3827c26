/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host function holds up: the frames of its stream, and of whatever
 * depends on that, wait aside while the client's other streams go on.
 * Used by server/worker only, by lane threads only.
 */
#ifndef SERVER_WORKER_BACKLOG_H
#define SERVER_WORKER_BACKLOG_H

#include "server/worker/call.h"

/* Does anything of this client wait, so that frames must be looked at? */
static inline bool
wkr_is_behind(const struct wkr_client *client)
{
	return client->hosts || client->backlog;
}

/* Must this one wait? Then what it touches is marked, so that what depends on
 * it waits too. */
bool wkr_call_is_behind(struct wkr_call *call);
bool wkr_launch_is_behind(struct wkr_client *client,
			  const struct data_launch *m);
/* One that waits for another reason. */
void wkr_call_mark(struct wkr_call *call);
void wkr_launch_mark(struct wkr_client *client, const struct data_launch *m);
/* An operation of a stream, and not its end. */
bool wkr_call_has_stream(uint32_t fn);
/* What is asked about it answers "not ready". */
bool wkr_stream_is_behind(const struct wkr_stream *stream);
bool wkr_event_is_behind(const struct wkr_client *client,
			 const struct wkr_event *event);

/* Keep the frame. False: too many; the ring waits. */
bool wkr_backlog_add(struct wkr_client *client, const uint8_t *frame,
		     uint32_t size, uint64_t seq, bool other,
		     bool answered);
/* Do what can be done now; true when anything was. */
bool wkr_backlog_run(struct wkr_client *client);
/* The oldest frame's number; 0: none. */
uint64_t wkr_backlog_oldest(const struct wkr_client *client);
void wkr_backlog_drop(struct wkr_client *client);

/* hostfunc.c */
bool wkr_hosts_poll(struct wkr_client *client);
bool wkr_hosts_waiting(const struct wkr_client *client);
void wkr_hosts_drop(struct wkr_client *client);

#endif
