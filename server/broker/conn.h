/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One framed, non-blocking connection: a client's or a worker's.
 * Used by client.c and worker.c, which embed it.
 *
 * Sending never fails for the caller: what cannot be sent (peer gone, or a
 * peer too slow to read so that more than `limit` bytes wait) ends the
 * connection, and the owner hears of it once, by on_end, from the loop.
 */
#ifndef BROKER_CONN_H
#define BROKER_CONN_H

#include <sys/queue.h>

#include "proto/sock.h"
#include "server/broker/loop.h"

struct brk_out;

struct brk_conn {
	struct brk_source source;
	struct brk_loop *loop;
	int fd;                 /* owned */
	struct sock_reader reader;
	TAILQ_HEAD(, brk_out) out;
	size_t queued, limit;   /* bytes */
	bool paused;            /* frames wait until brk_conn_resume() */
	bool finishing;         /* ends when the last byte is out */
	int failed;             /* why it ends, -errno */
	/* A frame's message; negative: end the connection for that reason. */
	int (*on_frame)(struct brk_conn *conn, const Mps__Control *message);
	/* The end. The owner calls brk_conn_fini(). */
	void (*on_end)(struct brk_conn *conn, int reason);
};

/* Takes fd over. 0 or -errno; on failure fd is closed. */
int brk_conn_init(struct brk_conn *conn, struct brk_loop *loop, int fd,
		  size_t limit);
void brk_conn_fini(struct brk_conn *conn);
/* Descriptors stay the caller's. */
void brk_conn_send(struct brk_conn *conn, const Mps__Control *message,
		   const int *fds, int nfds);
void brk_conn_pause(struct brk_conn *conn);
/* Frames already here are handled from the loop, never from inside. */
void brk_conn_resume(struct brk_conn *conn);
/* End when everything queued is out. */
void brk_conn_finish(struct brk_conn *conn);
/* End for a reason, soon, by on_end. */
void brk_conn_fail(struct brk_conn *conn, int reason);

#endif
