/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load gate. Loading code, first use of code and some frees drain what
 * is in flight while the context is locked (measured), so everybody waits as
 * long as the longest running operation. They are done when the device is
 * empty: while one waits, a client whose operation has been running for more
 * than a few milliseconds begins nothing new; once there is none of that
 * sort, for as few milliseconds nobody begins anything, which is the most
 * that the others wait for what comes to its end then. How long an operation
 * will run nobody can know: if one of them takes longer, the others go on, and
 * its client is among those that are held back from then on.
 *
 * Who is inside may have a compiler at work, and what drains comes at its end.
 * So a client whose last operation was a long one stays held back until he
 * leaves, while all others go on.
 *
 * A program that compiles as it goes loads again and again, with time between
 * in which the next long operation begins: each load would wait for one.
 * So, when a load has waited for long ones that would not have been there had
 * they been held back since the last for as long as it has now waited, they are
 * held back for that time after it, and what loads meanwhile finds the device
 * empty: the two take turns.
 */
#include <time.h>

#include "server/worker/lane.h"
#include "server/worker/module.h"
#include "server/worker/slow.h"

/* What a drain may cost everybody. */
#define OLD_NS UINT64_C(5000000)
/* What has been running for longer may be a kernel that waits for one behind
 * it: its client is not held back. */
#define HELD_MAX_NS UINT64_C(5000000000)
/* What others may wait for when a drain meets it in spite of all. */
#define LONG_NS (10 * OLD_NS)
/* How soon it is looked at again whether the device is empty. */
#define LOOK_NS 50000L
/* After an attempt that failed, and after one that made somebody wait. */
#define OPEN_NS (4 * OLD_NS)
#define BREATH_NS UINT64_C(1000000)
/* A hold goes on for a while after a load, since whoever loads a hundred images
 * sends the next one soon; but many loads in a row are one of this length. */
#define GRACE_NS UINT64_C(3000000)
#define WINDOW_NS UINT64_C(200000000)

_Atomic uint64_t wkr_gate_until_ns;

static struct {
	pthread_mutex_t lock; /* held by whoever is inside; guards the rest */
	uint64_t open_until_ns, window_ns, left_ns;
	uint64_t wanted_ns; /* since when one waits for what is old; 0: none */
	uint64_t turn_ns;   /* of loads, to begin when this one is left */
	_Atomic uint64_t turn_from_ns, turn_until_ns;
	_Atomic uint64_t shut_until_ns; /* for everybody */
	_Atomic uint64_t entered_ns;	/* 0: nobody is inside */
	_Atomic uint64_t shuts;
	_Atomic bool refused;
	_Atomic unsigned waiting; /* jobs */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool inside, turned_away;

static void
hold(struct wkr_client *client, uint64_t now, uint64_t age)
{
	atomic_store(&client->held_for_ns, age);
	atomic_store(&client->held_until_ns,
		     age < HELD_MAX_NS ? now + age : 0);
}

void
wkr_gate_ended(struct wkr_client *client, uint64_t age)
{
	if (age > OLD_NS)
		hold(client, client->lane->now_ns, age);
}

/* The turn of loads, who may have waited for another's operation: each is held
 * back for as long as its own has taken. */
static bool
is_out_of_turn(struct wkr_client *client, uint64_t now, uint64_t until)
{
	uint64_t from = atomic_load(&gate.turn_from_ns);
	uint64_t held_for = atomic_load(&client->held_for_ns);

	return from < until && now < atomic_load(&gate.turn_until_ns) &&
	       now < from + held_for && held_for > LONG_NS;
}

/* Its last operation was a long one, and that is not long ago, or was not when
 * somebody went in. */
static bool
is_held(struct wkr_client *client, uint64_t now)
{
	uint64_t until = atomic_load(&client->held_until_ns);
	uint64_t entered = atomic_load(&gate.entered_ns);

	if (now < until || is_out_of_turn(client, now, until))
		return true;
	return entered && entered < until && now < entered + HELD_MAX_NS &&
	       atomic_load(&client->held_for_ns) > LONG_NS;
}

bool
wkr_gate_holds(struct wkr_client *client)
{
	uint64_t now = client->lane->now_ns;

	if (now >= atomic_load(&gate.shut_until_ns) &&
	    (now >= atomic_load(&wkr_gate_until_ns) || !is_held(client, now)))
		return false;
	atomic_store(&gate.refused, true);
	return true;
}

uint64_t
wkr_gate_shuts(void)
{
	return atomic_load(&gate.shuts);
}

/* Is anything running for long? Then its client is held back, once it has
 * ended for as long again: others that run for long may have begun after it,
 * but who made the load wait for 10 ms is not to wait for somebody's hour. */
static bool
find_old(uint64_t now)
{
	bool any = false;

	pthread_mutex_lock(&wkr.clients_lock);
	for (struct wkr_client *c = wkr.clients; c; c = c->next) {
		uint64_t oldest = atomic_load(&c->oldest_ns);
		uint64_t age = oldest && oldest < now ? now - oldest : 0;

		any |= age > OLD_NS;
		if (age > OLD_NS)
			hold(c, now, age);
	}
	pthread_mutex_unlock(&wkr.clients_lock);
	return any;
}

/* Every lane has had a turn since it was shut, and nothing is running. */
static bool
is_empty(uint64_t shut)
{
	bool empty = true;

	for (unsigned i = 0; i < wkr.nlanes; i++) {
		wkr_lane_wake(wkr.lanes[i]);
		empty &= atomic_load(&wkr.lanes[i]->shut_seen) >= shut;
	}
	if (!empty)
		return false;
	pthread_mutex_lock(&wkr.clients_lock);
	for (struct wkr_client *c = wkr.clients; c && empty; c = c->next)
		empty = !atomic_load(&c->oldest_ns);
	pthread_mutex_unlock(&wkr.clients_lock);
	return empty;
}

static bool
comes_empty(uint64_t now)
{
	struct timespec nap = {.tv_nsec = LOOK_NS};
	uint64_t until = now + OLD_NS, shut;
	bool empty;

	atomic_store(&gate.refused, false);
	atomic_store(&wkr_gate_until_ns, UINT64_MAX);
	/* Before its number: a lane that has seen that one has seen this. */
	atomic_store(&gate.shut_until_ns, UINT64_MAX);
	shut = atomic_fetch_add(&gate.shuts, 1) + 1;
	while (!(empty = is_empty(shut)) && wkr_now_ns() < until)
		nanosleep(&nap, NULL);
	return empty;
}

/* Who goes in may have waited for what is old. */
static void
take_turn(uint64_t now)
{
	uint64_t since = gate.wanted_ns, waited = now - since;

	gate.wanted_ns = 0;
	if (!since || since - gate.left_ns > waited)
		return;
	gate.turn_ns = waited;
	atomic_store(&gate.turn_from_ns, now);
}

static bool
enter_locked(void)
{
	uint64_t now = wkr_now_ns();

	if (find_old(now)) {
		if (!gate.wanted_ns)
			gate.wanted_ns = now;
		atomic_store(&wkr_gate_until_ns, UINT64_MAX);
		return false;
	}
	if (now < gate.open_until_ns)
		return false;
	if (!comes_empty(now)) {
		atomic_store(&gate.shut_until_ns, 0);
		gate.open_until_ns = wkr_now_ns() + OPEN_NS;
		return false;
	}
	now = wkr_now_ns();
	take_turn(now);
	atomic_store(&gate.entered_ns, now);
	/* A compiler may be at work in there. Who runs for long waits for it,
	 * the others need not. */
	atomic_store(&gate.shut_until_ns, now + OLD_NS);
	if (now > gate.left_ns + GRACE_NS)
		gate.window_ns = now;
	return true;
}

bool
wkr_gate_enter(void)
{
	if (inside)
		return true;
	turned_away = true;
	if (pthread_mutex_trylock(&gate.lock) != 0)
		return false;
	inside = enter_locked();
	turned_away = !inside;
	wkr_slow_gate(inside);
	if (!inside)
		pthread_mutex_unlock(&gate.lock);
	return inside;
}

/* Until when who runs for long is held back, now that nobody is inside. */
static uint64_t
held_until(uint64_t now, bool more)
{
	uint64_t turn = atomic_load(&gate.turn_until_ns);
	uint64_t until = more ? now + GRACE_NS : 0;

	if (turn > now && turn > until)
		return turn;
	return until;
}

static void
leave(void)
{
	uint64_t now = wkr_now_ns();
	bool more = now - gate.window_ns < WINDOW_NS;

	gate.left_ns = now;
	if (gate.turn_ns)
		atomic_store(&gate.turn_until_ns, now + gate.turn_ns);
	gate.turn_ns = 0;
	atomic_store(&gate.entered_ns, 0);
	atomic_store(&gate.shut_until_ns, 0);
	atomic_store(&wkr_gate_until_ns, held_until(now, more));
	if (!more || atomic_load(&gate.refused))
		gate.open_until_ns = now + BREATH_NS;
	inside = false;
	wkr_slow_gate(false);
	pthread_mutex_unlock(&gate.lock);
}

/* Nobody wants to get in any more. Who is inside sees to it when he leaves. */
static void
call_off(void)
{
	if (pthread_mutex_trylock(&gate.lock) != 0)
		return;
	gate.wanted_ns = 0;
	atomic_store(&wkr_gate_until_ns, held_until(wkr_now_ns(), false));
	pthread_mutex_unlock(&gate.lock);
}

bool
wkr_gate_leave(bool waited, bool again)
{
	bool away = turned_away, waits = again && away;

	turned_away = false;
	if (waits && !waited)
		atomic_fetch_add(&gate.waiting, 1);
	if (waited && !waits)
		atomic_fetch_sub(&gate.waiting, 1);
	if (inside)
		leave();
	else if ((waited || away) && !waits && !atomic_load(&gate.waiting))
		call_off();
	return waits;
}
