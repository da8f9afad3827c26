/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaching the user's broker, and starting it if none runs.
 * Used by mpsrun and by the preload library: needs libc only, sets no signal
 * handler, prints nothing.
 */
#ifndef SHIM_START_H
#define SHIM_START_H

#include <stddef.h>
#include <sys/types.h>

/* What to do when no broker runs: MPSSHIM_NO_BROKER. */
enum shim_no_broker {
	SHIM_NO_BROKER_START,   /* start one (default) */
	SHIM_NO_BROKER_NATIVE,  /* leave the program to the real driver */
	SHIM_NO_BROKER_ERROR,
};
enum shim_no_broker shim_no_broker(void);

/*
 * Connect to the broker of the socket directory (sock_paths), started first
 * if MPSSHIM_NO_BROKER allows. A CLOEXEC descriptor, or a negative errno with
 * one line for the user in why: -ENOENT or -ECONNREFUSED when none runs and
 * none was to be started, -ECHILD when it was and has ended. 32 processes may
 * do so at the same moment. A broker that was about to end may still close the
 * connection before it answers Hello: connect once more then.
 */
int shim_broker_connect(char *why, size_t why_size);

/* The directory of the file that holds this code: the preload library's, or
 * the program's. 0 or -errno. */
int shim_own_directory(char *out, size_t size);

#endif
