/* SPDX-License-Identifier: Apache-2.0 */
#include "server/broker/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "proto/err.h"

uint64_t
brk_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int
brk_loop_init(struct brk_loop *loop)
{
	*loop = (struct brk_loop){ .epoll = epoll_create1(EPOLL_CLOEXEC) };
	LIST_INIT(&loop->timers);
	return loop->epoll < 0 ? err_origin(-errno) : 0;
}

void
brk_loop_fini(struct brk_loop *loop)
{
	if (loop->epoll >= 0)
		close(loop->epoll);
	loop->epoll = -1;
}

int
brk_loop_add(struct brk_loop *loop, struct brk_source *source, int fd,
	     uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	source->fd = -1;
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return err_origin(-errno);
	source->fd = fd;
	source->events = events;
	return 0;
}

void
brk_loop_change(struct brk_loop *loop, struct brk_source *source,
		uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (source->fd < 0 || source->events == events)
		return;
	source->events = events;
	/* Fails only for a descriptor that is not in the set. */
	if (epoll_ctl(loop->epoll, EPOLL_CTL_MOD, source->fd, &event) < 0)
		err_origin(-errno);
}

void
brk_loop_remove(struct brk_loop *loop, struct brk_source *source)
{
	if (source->fd >= 0)
		epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
	source->fd = -1;
}

void
brk_timer_set(struct brk_loop *loop, struct brk_timer *timer,
	      uint64_t delay_ms)
{
	if (!timer->due_ns)
		LIST_INSERT_HEAD(&loop->timers, timer, link);
	/* One more, so that a timer which arms itself again while timers
	 * are fired waits for the next turn. */
	timer->due_ns = brk_now_ns() + delay_ms * 1000000u + 1;
}

void
brk_timer_stop(struct brk_timer *timer)
{
	if (timer->due_ns)
		LIST_REMOVE(timer, link);
	timer->due_ns = 0;
}

/* Milliseconds until the next timer, rounded up; -1: none. */
static int
next_timeout(struct brk_loop *loop)
{
	uint64_t now = brk_now_ns(), first = UINT64_MAX, ms;
	struct brk_timer *timer;

	LIST_FOREACH(timer, &loop->timers, link)
		if (timer->due_ns < first)
			first = timer->due_ns;
	if (first == UINT64_MAX)
		return -1;
	if (first <= now + 1)
		return 0;
	ms = (first - now + 999999u) / 1000000u;
	return ms > 60000 ? 60000 : (int)ms;
}

static void
fire_due(struct brk_loop *loop)
{
	uint64_t now = brk_now_ns();
	struct brk_timer *timer;

	/* From the start after each one: firing may stop any other. */
	do {
		LIST_FOREACH(timer, &loop->timers, link)
			if (timer->due_ns <= now)
				break;
		if (timer) {
			brk_timer_stop(timer);
			timer->fire(timer);
		}
	} while (timer);
}

int
brk_loop_run(struct brk_loop *loop)
{
	while (!loop->done) {
		struct brk_source *source;
		struct epoll_event event;
		int n;

		n = epoll_wait(loop->epoll, &event, 1, next_timeout(loop));
		if (n < 0 && errno != EINTR)
			return err_origin(-errno);
		if (n > 0) {
			source = event.data.ptr;
			source->dispatch(source, event.events);
		}
		fire_due(loop);
	}
	return 0;
}
