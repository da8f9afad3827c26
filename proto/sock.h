/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix stream sockets that carry frames and descriptors.
 * Used by shim, broker, worker and tools.
 *
 * Blocking calls here take a deadline and never raise a signal
 * (MSG_NOSIGNAL). Descriptors received are CLOEXEC; surplus ones are closed.
 */
#ifndef PROTO_SOCK_H
#define PROTO_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/frame.h"
#include "proto/wire.pb-c.h"

/* Descriptors in one message. Linux allows 253 (SCM_MAX_FD). */
#define SOCK_MAX_FDS 8

/*
 * For programs that a user starts by hand: a relative $CUDA_MPS_PIPE_DIRECTORY
 * is meant from here, and absolute from now on, for those that they start as
 * well. 0 or -errno.
 */
int sock_settle(void);
/*
 * The socket directory: $CUDA_MPS_PIPE_DIRECTORY, else
 * $XDG_RUNTIME_DIR/mpsshim if there is such a directory, else
 * /tmp/mpsshim-UID. Writes the directory and the socket's path. 0, -EINVAL
 * when the variable is relative (each program would mean another directory),
 * or -ENAMETOOLONG when the socket's path would not fit sockaddr_un (107
 * bytes).
 */
int sock_paths(char *dir, size_t dir_size, char *path, size_t path_size);

/* Connect to a path. Returns a CLOEXEC descriptor or a negative errno. */
int sock_connect(const char *path);
/* Bind and listen, mode 0600. Replaces a stale socket (nobody accepts);
 * -EADDRINUSE when somebody does. */
int sock_listen(const char *path);
/* Make `dir`, 0700; or check that it is ours and that nobody else may write
 * in it: 0, -EPERM, -ENOTDIR, -errno. */
int sock_directory(const char *dir);

/* Send one control message with up to SOCK_MAX_FDS descriptors (which stay
 * the caller's). Blocks up to timeout_ms. 0 or -errno (-ETIMEDOUT, -EPIPE). */
int sock_send_control(int fd, const Mps__Control *message, const int *fds,
		      int nfds, int timeout_ms);
/* Receive one control message, blocking up to timeout_ms (-1: no limit).
 * *out_nfds: in capacity, out count. Free the message with
 * mps__control__free_unpacked(message, NULL). -EPIPE at end-of-file. */
int sock_recv_control(int fd, Mps__Control **out_message, int *fds,
		      int *out_nfds, int timeout_ms);

/*
 * A receive buffer for non-blocking readers (broker, worker): feed it when
 * the socket is readable, then take frames until SOCK_E_MORE.
 * Descriptors are queued in order of arrival.
 */
enum {
	SOCK_E_MORE = 1,   /* no whole frame yet */
};
struct sock_reader {
	int fd;            /* not owned */
	uint8_t *buf;
	size_t size, cap;
	size_t taken;      /* bytes of the frame handed out last */
	int fds[32];
	int nfds;
};
void sock_reader_init(struct sock_reader *reader, int fd);
void sock_reader_fini(struct sock_reader *reader);
/* Read what is there. 0; -EPIPE at end-of-file; -errno. */
int sock_reader_fill(struct sock_reader *reader);
/* The next frame: header and payload inside the reader's buffer, valid
 * until the next call. 0, SOCK_E_MORE, -EBADMSG. */
int sock_reader_next(struct sock_reader *reader, struct frame_header *out_header,
		     const uint8_t **out_payload);
/* The oldest queued descriptor, now the caller's; -1 when none. */
int sock_reader_take_fd(struct sock_reader *reader);

/* Write all bytes with a deadline; used for data frames. */
int sock_write(int fd, const void *data, size_t size, int timeout_ms);

/* Peer of a connected socket. */
int sock_peer(int fd, pid_t *out_pid, uid_t *out_uid, gid_t *out_gid);

#endif
