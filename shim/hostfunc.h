/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the program that run at their turn in a stream.
 * Used by entry points and by graphs with host steps.
 */
#ifndef SHIM_HOSTFUNC_H
#define SHIM_HOSTFUNC_H

#include <stdbool.h>

#include "api_cuda.h"

struct shim_stream;

/*
 * Run run(arg) in the callback thread of the stream's device when the work
 * before it has retired; what comes after it in the stream waits. On success
 * it runs exactly once, unless the worker is lost first. The thread holds no
 * lock meanwhile.
 */
CUresult shim_host_post(struct shim_stream *stream, void (*run)(void *arg),
			void *arg);
/*
 * Hold the stream behind the work before it until is_over(arg) says so, which
 * a thread of ours asks again and again. arg is freed then, if the worker is
 * not lost first.
 */
CUresult shim_host_wait(struct shim_stream *stream, bool (*is_over)(void *arg),
			void *arg);
/* Run it as soon as possible, in a thread of ours. Without memory: here. */
void shim_host_soon(void (*run)(void *arg), void *arg);

#endif
