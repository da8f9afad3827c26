/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of ours in a program that does not know of them.
 * Used by crew.c and hostfunc.c.
 */
#ifndef SHIM_THREAD_H
#define SHIM_THREAD_H

#include <stddef.h>

/* One that nobody joins and that gets no signals. stack_size 0: as large as
 * the program's own. 0 or a positive errno of pthread_create(). */
int shim_thread_start(void *(*body)(void *), void *arg, size_t stack_size);

#endif
