/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of ours.
 */
#include "shim/thread.h"

#include <pthread.h>
#include <signal.h>

int
shim_thread_start(void *(*body)(void *), void *arg, size_t stack_size)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int r = 0;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (stack_size)
		r = pthread_attr_setstacksize(&attr, stack_size);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!r)
		r = pthread_create(&thread, &attr, body, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return r;
}
