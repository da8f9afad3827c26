/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver calls that took long. Who waits in the driver waits for a lock that
 * another thread's call holds, most times, and that one for the device: so
 * with each such call is noted who else was in the driver when it ended, the
 * first to have begun first.
 *
 * The generated table of the driver's functions begins and ends each call
 * here. That is three stores and a glance at a clock that ticks every few
 * milliseconds; at the end another clock is read only if somebody has looked
 * meanwhile.
 */
#include "server/worker/slow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/worker/crash.h"

/* Lanes, helper, gate, reaper. */
#define THREADS (WKR_LANES_MAX + 3u)
/* Calls that are kept, and shown. */
#define KEPT 16u
/* What ends as soon after another waited for the same. */
#define SAME_NS UINT64_C(20000000)
/* Lines of the log in such a time. */
#define LINES 10u
#define LINES_NS UINT64_C(10000000000)

struct thread {
	const struct wkr_at *at;
	_Atomic uint64_t since_ns; /* of its call; 0: it is in none */
	_Atomic uint32_t fn;
	_Atomic bool gate;
	_Atomic bool seen;   /* somebody has looked while it was in a call */
	uint64_t told_ns;    /* under the lock: since_ns of a call that a line
			      * of the log has named */
} __attribute__((aligned(64)));

struct call {
	const char *function, *what;
	uint64_t client, since_ns, end_ns;
	int pid;
	bool gate;
	char beside[256];
};

static struct thread threads[THREADS];
static _Atomic unsigned nthreads;
static __thread struct thread *here;

static struct {
	pthread_mutex_t lock; /* guards the rest */
	struct call calls[KEPT];
	uint64_t count;
	uint64_t lines_ns; /* when the first of `lines` was written */
	uint32_t lines, unsaid;
} slow = {.lock = PTHREAD_MUTEX_INITIALIZER};

void
wkr_slow_thread(void)
{
	unsigned n = atomic_fetch_add(&nthreads, 1);

	if (n >= THREADS)
		return;
	threads[n].at = &wkr_at;
	here = &threads[n];
}

void
wkr_slow_gate(bool inside)
{
	if (here)
		atomic_store_explicit(&here->gate, inside, memory_order_relaxed);
}

static unsigned
count_threads(void)
{
	unsigned n = atomic_load(&nthreads);

	return n < THREADS ? n : THREADS;
}

void
wkr_slow_look(void)
{
	for (unsigned i = 0; i < count_threads(); i++)
		if (atomic_load_explicit(&threads[i].since_ns,
					 memory_order_relaxed))
			atomic_store_explicit(&threads[i].seen, true,
					      memory_order_relaxed);
}

static uint64_t
coarse_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void
wkr_driver_begin(enum api_id id)
{
	if (!here)
		return;
	atomic_store_explicit(&here->fn, id, memory_order_relaxed);
	/* Release: with the function, for another thread's line. */
	atomic_store_explicit(&here->since_ns, coarse_ns(),
			      memory_order_release);
}

/* What a thread is in, if it has been for long. */
static bool
read_call(const struct thread *t, uint64_t now, struct call *out)
{
	const char *what = atomic_load_explicit(&t->at->what,
						memory_order_relaxed);

	*out = (struct call){
		.since_ns = atomic_load_explicit(&t->since_ns,
						 memory_order_acquire),
		.end_ns = now,
		.what = what ? what : "",
		.client = atomic_load_explicit(&t->at->id,
					       memory_order_relaxed),
		.pid = atomic_load_explicit(&t->at->pid, memory_order_relaxed),
		.gate = atomic_load_explicit(&t->gate, memory_order_relaxed),
	};
	out->function = wkr_driver_names[atomic_load_explicit(
		&t->fn, memory_order_relaxed)].name;
	return out->since_ns && now >= out->since_ns + WKR_SLOW_NS / 2;
}

/* "cuLaunchKernel of client 3 for 1800 ms" */
static int
describe(const struct call *c, char *out, size_t size)
{
	char whose[32] = "nobody";

	if (c->client)
		snprintf(whose, sizeof(whose), "client %llu",
			 (unsigned long long)c->client);
	return snprintf(out, size, "%s of %s for %llu ms%s", c->function,
			whose,
			(unsigned long long)(c->end_ns - c->since_ns) /
				1000000u,
			c->gate ? " inside the load gate" : "");
}

static int
by_age(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	return (x->since_ns > y->since_ns) - (x->since_ns < y->since_ns);
}

/* Who else has been in the driver for long at the end of this call, or has
 * just come out. */
static void
find_beside_locked(struct call *c)
{
	struct call others[THREADS + KEPT];
	uint64_t kept = slow.count < KEPT ? slow.count : KEPT;
	size_t n = 0, size = 0;

	for (unsigned i = 0; i < count_threads(); i++) {
		if (&threads[i] == here ||
		    !read_call(&threads[i], c->end_ns, &others[n]))
			continue;
		threads[i].told_ns = others[n++].since_ns;
	}
	for (uint64_t i = 0; i < kept; i++)
		if (c->end_ns - slow.calls[i].end_ns < SAME_NS)
			others[n++] = slow.calls[i];
	qsort(others, n, sizeof(*others), by_age);
	for (size_t i = 0; i < n && size + 1 < sizeof(c->beside); i++) {
		if (i)
			size += (size_t)snprintf(c->beside + size,
						 sizeof(c->beside) - size,
						 ", ");
		if (size + 1 < sizeof(c->beside))
			size += (size_t)describe(&others[i], c->beside + size,
						 sizeof(c->beside) - size);
	}
}

/* At most so many lines in a time; what is left out, the next one says. */
static bool
may_say_locked(uint64_t now)
{
	if (now - slow.lines_ns > LINES_NS) {
		slow.lines_ns = now;
		slow.lines = 0;
	}
	if (slow.lines == LINES) {
		slow.unsaid++;
		return false;
	}
	slow.lines++;
	return true;
}

static void
say_locked(const struct call *c)
{
	char text[160], more[48] = "";

	if (!may_say_locked(c->end_ns))
		return;
	if (slow.unsaid)
		snprintf(more, sizeof(more), " (and %u such calls before)",
			 slow.unsaid);
	slow.unsaid = 0;
	describe(c, text, sizeof(text));
	log_line(LOG_INFO, "a slow call of the driver: %s, for %s%s%s%s", text,
		 *c->what ? c->what : "nothing", *c->beside ? "; then also " : "",
		 c->beside, more);
}

static void
note(uint64_t since_ns, uint64_t now)
{
	struct call c;

	read_call(here, now, &c);
	c.since_ns = since_ns;
	pthread_mutex_lock(&slow.lock);
	find_beside_locked(&c);
	slow.calls[slow.count++ % KEPT] = c;
	if (here->told_ns != since_ns)
		say_locked(&c);
	pthread_mutex_unlock(&slow.lock);
}

void
wkr_driver_end(void)
{
	uint64_t since, now;

	if (!here)
		return;
	since = atomic_load_explicit(&here->since_ns, memory_order_relaxed);
	atomic_store_explicit(&here->since_ns, 0, memory_order_relaxed);
	if (!atomic_load_explicit(&here->seen, memory_order_relaxed))
		return;
	atomic_store_explicit(&here->seen, false, memory_order_relaxed);
	now = wkr_now_ns();
	if (now >= since + WKR_SLOW_NS)
		note(since, now);
}

/* ---- for status */

struct wkr_slow_list {
	struct call calls[KEPT];
	Mps__SlowCall stats[KEPT];
	Mps__SlowCall *list[KEPT];
};

static void
fill(Mps__SlowCall *s, struct call *c, uint64_t now)
{
	mps__slow_call__init(s);
	s->function = (char *)c->function;
	s->client = c->client;
	s->pid = c->pid;
	s->what = (char *)c->what;
	s->ms = (c->end_ns - c->since_ns) / 1000000u;
	s->gate = c->gate;
	s->ago_ms = (now - c->end_ns) / 1000000u;
	s->beside = c->beside;
}

struct wkr_slow_list *
wkr_slow_list(Mps__WorkerStat *out)
{
	struct wkr_slow_list *l = calloc(1, sizeof(*l));
	uint64_t now = wkr_now_ns();
	size_t n = 0;

	if (!l)
		return NULL;
	pthread_mutex_lock(&slow.lock);
	for (; n < KEPT && n < slow.count; n++)
		l->calls[n] = slow.calls[(slow.count - 1 - n) % KEPT];
	out->slow_calls = slow.count;
	pthread_mutex_unlock(&slow.lock);
	for (size_t i = 0; i < n; i++) {
		fill(&l->stats[i], &l->calls[i], now);
		l->list[i] = &l->stats[i];
	}
	out->slow = l->list;
	out->n_slow = n;
	return l;
}

void
wkr_slow_drop(struct wkr_slow_list *list)
{
	free(list);
}
