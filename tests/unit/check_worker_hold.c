/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom the load gate holds back, and for how long: the rules alone, with lanes
 * whose clocks are the test's.
 */
#include <check.h>
#include <unistd.h>

#include "server/worker/lane.h"
#include "server/worker/module.h"
#include "tests/unit/suite.h"

#define MS UINT64_C(1000000)

static struct wkr_lane lane;
static struct wkr_client client = {.lane = &lane};

/* One operation of the client's has just ended. */
static void
ended(uint64_t age)
{
	lane.now_ns = wkr_now_ns();
	wkr_gate_ended(&client, age);
}

/* Would it be held back, so long after that? Far more than passes meanwhile,
 * where that must not be. */
static bool
held_after(uint64_t ns)
{
	uint64_t now = lane.now_ns;
	bool held;

	lane.now_ns += ns;
	held = wkr_gate_is_shut(&client);
	lane.now_ns = now;
	return held;
}

static void
enter(void)
{
	ck_assert(wkr_gate_enter());
}

static void
leave(void)
{
	wkr_gate_leave(false, false);
}

/* Nobody has to be turned away for it: a load that comes between two long
 * kernels is not to be met by the second. */
START_TEST(client_of_a_long_operation_is_held_when_it_has_ended)
{
	ended(2000 * MS);
	ck_assert(!held_after(0));
	enter();
	ck_assert(held_after(1900 * MS));
	leave();
	ck_assert(!held_after(1000 * MS));
}
END_TEST

/* A compiler may be at work in there for longer than the kernel was. */
START_TEST(client_of_a_long_operation_is_held_until_the_gate_is_left)
{
	ended(300 * MS);
	enter();
	ck_assert(held_after(4000 * MS));
	/* It may be one that others wait for: not for ever. */
	ck_assert(!held_after(60000 * MS));
	leave();
	ck_assert(!held_after(10000 * MS));
}
END_TEST

START_TEST(client_of_a_short_operation_goes_on_after_as_long)
{
	ended(20 * MS);
	enter();
	ck_assert(held_after(19 * MS));
	ck_assert(!held_after(10000 * MS));
	leave();
}
END_TEST

START_TEST(client_without_one_goes_on_after_what_a_drain_may_cost)
{
	ended(4 * MS);
	enter();
	ck_assert(held_after(0));
	ck_assert(!held_after(10000 * MS));
	leave();
}
END_TEST

/* Long ago, when somebody goes in. */
START_TEST(client_whose_hold_is_over_is_not_held_again)
{
	ended(300 * MS);
	atomic_store(&client.held_until_ns, wkr_now_ns() - 1);
	enter();
	ck_assert(!held_after(10000 * MS));
	leave();
}
END_TEST

/* ---- loads that come again and again */

/* How long a load waited, and when the gate was left, at least and at most; the
 * latest moment at which it was turned away. */
struct visit {
	uint64_t away_max, waited_min, waited_max, left_min, left_max;
};

/* A load that an operation of the client's makes wait; once it is done nothing
 * is left of what that alone holds the client back for. */
static struct visit
load_beside(uint64_t age, uint64_t wait)
{
	struct visit v = {.waited_min = wait};
	uint64_t began = wkr_now_ns();

	wkr.clients = &client;
	atomic_store(&client.oldest_ns, began - age);
	ck_assert(!wkr_gate_enter());
	ck_assert(wkr_gate_leave(false, true));
	v.away_max = wkr_now_ns();
	usleep((useconds_t)(wait / 1000));
	atomic_store(&client.oldest_ns, 0);
	ended(age);
	while (!wkr_gate_enter())
		usleep(100);
	v.waited_max = wkr_now_ns() - began;
	atomic_store(&client.held_until_ns, wkr_now_ns() + 1);
	v.left_min = wkr_now_ns();
	wkr_gate_leave(true, false);
	v.left_max = wkr_now_ns();
	return v;
}

/* Such a load that comes no later after another than it has to wait. */
static struct visit
load_again(uint64_t age, uint64_t wait)
{
	struct visit before, v = load_beside(age, wait);

	do {
		before = v;
		v = load_beside(age, wait);
	} while (v.away_max - before.left_min > v.waited_min);
	return v;
}

static bool
held_at(uint64_t ns)
{
	lane.now_ns = ns;
	return held_after(0);
}

/* Had the client been held back after the first for as long as the second has
 * waited, that would have had nothing to wait for. */
START_TEST(loads_take_turns_with_long_operations)
{
	struct visit v = load_beside(4000 * MS, 60 * MS);

	ck_assert(!held_at(v.left_max + 10 * MS));
	v = load_again(4000 * MS, 60 * MS);
	ck_assert(held_at(v.left_min + 50 * MS));
	ck_assert(!held_at(v.left_max + v.waited_max));
}
END_TEST

START_TEST(load_within_a_turn_does_not_make_it_longer)
{
	struct visit v;
	uint64_t end;

	/* Where this thread had to wait too long it proves nothing. */
	do {
		v = load_again(4000 * MS, 100 * MS);
		end = v.left_max + v.waited_max;
		usleep(40000);
		while (!wkr_gate_enter())
			usleep(100);
		leave();
	} while (wkr_now_ns() + 10 * MS > v.left_min + v.waited_min ||
		 v.waited_max > 130 * MS);
	ck_assert(held_at(v.left_min + 90 * MS));
	ck_assert(!held_at(end));
}
END_TEST

/* Who loads once in a while is not worth an empty device. */
START_TEST(loads_that_come_seldom_take_no_turn)
{
	struct visit v;

	load_beside(4000 * MS, 30 * MS);
	do {
		usleep(100000);
		v = load_beside(4000 * MS, 30 * MS);
	} while (v.waited_max >= 100 * MS);
	ck_assert(!held_at(v.left_max + 10 * MS));
}
END_TEST

/* The load may have waited for somebody else's. */
START_TEST(nobody_is_held_for_longer_than_his_operation_took)
{
	struct visit v = load_again(60 * MS, 200 * MS);

	ck_assert(!held_at(v.left_max + 60 * MS));
}
END_TEST

SUITE("worker_hold", client_of_a_long_operation_is_held_when_it_has_ended,
      client_of_a_long_operation_is_held_until_the_gate_is_left,
      client_of_a_short_operation_goes_on_after_as_long,
      client_without_one_goes_on_after_what_a_drain_may_cost,
      client_whose_hold_is_over_is_not_held_again,
      loads_take_turns_with_long_operations,
      load_within_a_turn_does_not_make_it_longer,
      loads_that_come_seldom_take_no_turn,
      nobody_is_held_for_longer_than_his_operation_took)
