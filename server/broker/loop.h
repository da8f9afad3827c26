/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's event loop: descriptors and timers, one thread.
 * Used by every part of the broker.
 *
 * One event is taken from the kernel at a time, so that an object may be
 * freed by any dispatch: no event of it can be waiting in a batch.
 */
#ifndef BROKER_LOOP_H
#define BROKER_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define brk_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

struct brk_source {
	int fd;                 /* not owned; -1 while not in the loop */
	uint32_t events;        /* EPOLL* asked for */
	void (*dispatch)(struct brk_source *source, uint32_t events);
};

struct brk_timer {
	uint64_t due_ns;        /* 0: off */
	void (*fire)(struct brk_timer *timer);
	LIST_ENTRY(brk_timer) link;
};

struct brk_loop {
	int epoll;
	bool done;
	LIST_HEAD(, brk_timer) timers;
};

int brk_loop_init(struct brk_loop *loop);
void brk_loop_fini(struct brk_loop *loop);
/* Until loop->done. 0 or -errno. */
int brk_loop_run(struct brk_loop *loop);

int brk_loop_add(struct brk_loop *loop, struct brk_source *source, int fd,
		 uint32_t events);
void brk_loop_change(struct brk_loop *loop, struct brk_source *source,
		     uint32_t events);
void brk_loop_remove(struct brk_loop *loop, struct brk_source *source);

/* Fire once after delay_ms; 0: before the loop sleeps again. */
void brk_timer_set(struct brk_loop *loop, struct brk_timer *timer,
		   uint64_t delay_ms);
void brk_timer_stop(struct brk_timer *timer);

uint64_t brk_now_ns(void);

#endif
