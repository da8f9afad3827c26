/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who executed when: proof that grids of different clients overlapped.
 * Time counts while pool threads are inside ptx_grid_work(), so one thread
 * that takes turns never counts as overlap.
 */
#include "server/soft/soft_sched.h"

#include <stdlib.h>

#define THREADS_MAX 256

struct tag_time {
	uint64_t tag, ns;
};

/* Guards everything below; held for a few instructions. */
static pthread_mutex_t account_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t running[THREADS_MAX];     /* tags, 0: none */
static unsigned running_top;              /* highest thread seen, plus 1 */
static uint64_t last_change_ns, overlap_ns;
static struct tag_time *times;
static size_t time_count, time_room;

static struct tag_time *
time_of_locked(uint64_t tag)
{
	struct tag_time *grown;

	for (size_t i = 0; i < time_count; i++)
		if (times[i].tag == tag)
			return &times[i];
	if (time_count == time_room) {
		size_t room = time_room ? time_room * 2 : 16;

		grown = realloc(times, room * sizeof(*times));
		if (!grown)
			return NULL;
		times = grown;
		time_room = room;
	}
	times[time_count] = (struct tag_time){ tag, 0 };
	return &times[time_count++];
}

static bool
first_of_tag_locked(unsigned thread)
{
	for (unsigned i = 0; i < thread; i++)
		if (running[i] == running[thread])
			return false;
	return true;
}

/* Book the time since the last change to whoever was running. */
static void
advance_locked(void)
{
	uint64_t now = soft_now_ns(), delta = now - last_change_ns;
	unsigned distinct = 0;

	for (unsigned i = 0; i < running_top; i++) {
		struct tag_time *time;

		if (!running[i] || !first_of_tag_locked(i))
			continue;
		distinct++;
		time = time_of_locked(running[i]);
		if (time)
			time->ns += delta;
	}
	if (distinct >= 2)
		overlap_ns += delta;
	last_change_ns = now;
}

static void
change(unsigned thread, uint64_t tag)
{
	pthread_mutex_lock(&account_lock);
	advance_locked();
	if (thread >= running_top)
		running_top = thread + 1;
	running[thread] = tag;
	pthread_mutex_unlock(&account_lock);
}

void
soft_account_enter(unsigned thread, uint64_t tag)
{
	if (tag)
		change(thread, tag);
}

void
soft_account_leave(unsigned thread)
{
	if (running[thread])
		change(thread, 0);
}

uint64_t
soft_account_overlap_ns(void)
{
	uint64_t ns;

	pthread_mutex_lock(&account_lock);
	advance_locked();
	ns = overlap_ns;
	pthread_mutex_unlock(&account_lock);
	return ns;
}

uint64_t
soft_account_kernel_ns(uint64_t tag)
{
	uint64_t ns = 0;

	pthread_mutex_lock(&account_lock);
	advance_locked();
	for (size_t i = 0; i < time_count; i++)
		if (times[i].tag == tag)
			ns = times[i].ns;
	pthread_mutex_unlock(&account_lock);
	return ns;
}
