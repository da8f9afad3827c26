/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom the load gate holds back, and for how long: the rules alone, with lanes
 * whose clocks are the test's.
 */
#include <check.h>

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

SUITE("worker_hold", client_of_a_long_operation_is_held_when_it_has_ended,
      client_of_a_long_operation_is_held_until_the_gate_is_left,
      client_of_a_short_operation_goes_on_after_as_long,
      client_without_one_goes_on_after_what_a_drain_may_cost,
      client_whose_hold_is_over_is_not_held_again)
