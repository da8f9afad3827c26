/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection to the broker: its socket and its greeting.
 * Used by process.c, under shim_process.lock; questions go through shim_ask.
 */
#ifndef SHIM_CONTROL_H
#define SHIM_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire.pb-c.h"

/* Who a descriptor of ours is, to notice that the host has closed it and
 * that the number now means another file. */
struct shim_fd {
	int fd;                /* -1: none */
	uint64_t dev, ino;
};

/* Take fd (closed on failure), move it out of the way of hosts that close
 * or count low descriptors, remember what it is. 0 or -errno. */
int shim_fd_init(struct shim_fd *out, int fd);
bool shim_fd_is_ours(const struct shim_fd *fd);
/* Still ours, and the other side has not hung up. Never blocks. */
bool shim_fd_alive(const struct shim_fd *fd);
/* Wait until there is something to read: 0, -ETIMEDOUT, -EPIPE. No
 * cancellation point. */
int shim_fd_wait(const struct shim_fd *fd, int timeout_ms);

/* Take a connected socket. */
int shim_control_open(int fd);
void shim_control_close(void);
/* Say hello: the reply, the caller's to free, or NULL. */
Mps__HelloReply *shim_control_hello(bool ask_only);
/* The driver version, asked on a connection of its own; 0: not known. */
int shim_control_version(int fd);

#endif
