/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/va.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/unit/suite.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
/* Free under every tool that the tests run with. */
#define BASE UINT64_C(0x7e8000000000)

/* Stands in for the broker: proposes bases in turn. */
struct broker {
	uint64_t bases[20];
	unsigned nbases, proposed, taken, declined;
	uint64_t asked[20], minimum;
	int fail_answer;
};

static struct broker broker;
static struct shim_va va;

static int
propose(void *owner, uint64_t size, uint64_t *out_id, uint64_t *out_base,
	uint64_t *out_size)
{
	struct broker *b = owner;

	if (b->proposed == b->nbases)
		return VA_E_NONE;
	b->asked[b->proposed] = size;
	*out_base = b->bases[b->proposed];
	*out_id = ++b->proposed;
	*out_size = size < b->minimum ? b->minimum : size;
	return 0;
}

static int
answer(void *owner, uint64_t id, int status)
{
	struct broker *b = owner;

	ck_assert_uint_eq(id, b->proposed);
	if (b->fail_answer)
		return b->fail_answer;
	if (status)
		b->declined++;
	else
		b->taken++;
	return 0;
}

static const struct shim_va_ops ops = { propose, answer };

static void
setup(void)
{
	broker = (struct broker){0};
	for (unsigned i = 0; i < 20; i++)
		broker.bases[i] = BASE + i * 4 * GIB;
	broker.nbases = 20;
	shim_va_init(&va, &ops, &broker, 2 * MIB);
}

static uint64_t
take(uint64_t size)
{
	uint64_t address = 0, piece = 0;

	ck_assert_int_eq(shim_va_take(&va, size, &address, &piece), 0);
	ck_assert_uint_ne(piece, 0);
	ck_assert_uint_eq(address % (2 * MIB), 0);
	return address;
}

/* Is nothing mapped there, so that the host could land on it? */
static bool
is_unmapped(uint64_t address)
{
	void *want = (void *)(uintptr_t)address;
	void *got = mmap(want, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
			 0x100000 /* MAP_FIXED_NOREPLACE */, -1, 0);

	if (got == MAP_FAILED)
		return false;
	munmap(got, 4096);
	return got == want;
}

START_TEST(va_reserves_a_piece_and_cuts_ranges_from_it)
{
	uint64_t a = take(2 * MIB), b = take(8 * MIB);

	ck_assert_uint_eq(broker.taken, 1);
	ck_assert_uint_eq(broker.asked[0], GIB);
	ck_assert_uint_ge(a, BASE);
	ck_assert(b >= a + 2 * MIB || b + 8 * MIB <= a);
	ck_assert(!is_unmapped(a));
	ck_assert(!is_unmapped(BASE + GIB - 4096));
	ck_assert(is_unmapped(BASE + GIB));
}
END_TEST

START_TEST(va_asks_for_more_when_more_is_needed)
{
	take(3 * GIB - 2 * MIB);
	ck_assert_uint_eq(broker.asked[0], 3 * GIB);
	take(1 * GIB);
	ck_assert_uint_eq(broker.taken, 2);
}
END_TEST

START_TEST(va_declines_what_the_host_uses_and_takes_the_next)
{
	void *host = mmap((void *)(uintptr_t)(BASE + 512 * MIB), 4096,
			  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
			  MAP_FIXED, -1, 0);

	ck_assert_ptr_ne(host, MAP_FAILED);
	*(volatile char *)host = 42;
	ck_assert_uint_ge(take(2 * MIB), BASE + 4 * GIB);
	ck_assert_uint_eq(broker.declined, 1);
	ck_assert_uint_eq(broker.taken, 1);
	ck_assert_int_eq(*(volatile char *)host, 42);
}
END_TEST

START_TEST(va_declines_nonsense)
{
	broker.bases[0] = 0;
	broker.bases[1] = BASE + 4096;
	broker.bases[2] = UINT64_MAX - 2 * MIB + 1;
	ck_assert_uint_ge(take(2 * MIB), BASE);
	ck_assert_uint_eq(broker.declined, 3);
}
END_TEST

START_TEST(va_gives_up_when_nothing_fits)
{
	uint64_t address, piece;

	for (unsigned i = 0; i < 20; i++)
		broker.bases[i] = 0;
	ck_assert_int_eq(shim_va_take(&va, 2 * MIB, &address, &piece),
			 VA_E_NONE);
	ck_assert_uint_eq(broker.declined, VA_TRIES);
	broker.proposed = broker.nbases;
	ck_assert_int_eq(shim_va_take(&va, 2 * MIB, &address, &piece),
			 VA_E_NONE);
}
END_TEST

START_TEST(va_keeps_nothing_when_the_broker_is_lost)
{
	uint64_t address, piece;

	broker.fail_answer = -EIO;
	ck_assert_int_eq(shim_va_take(&va, 2 * MIB, &address, &piece), -EIO);
	ck_assert(is_unmapped(BASE));
}
END_TEST

/* Sanitizers need all the address space there is. */
#ifndef MPSSHIM_SANITIZED
START_TEST(va_asks_for_less_under_a_limited_address_space)
{
	struct rlimit limit = { 512 * MIB, 512 * MIB };

	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	take(2 * MIB);
	ck_assert_uint_gt(broker.declined, 0);
	ck_assert_uint_lt(broker.asked[broker.proposed - 1], 512 * MIB);
}
END_TEST
#endif

START_TEST(va_rests_a_range_before_it_is_used_again)
{
	uint64_t a = take(2 * MIB), b;

	shim_va_give(&va, a, 2 * MIB);
	b = take(2 * MIB);
	ck_assert_uint_ne(b, a);
	shim_va_give(&va, b, 2 * MIB);
	/* All of the piece comes before a second one is asked for. */
	for (uint64_t i = 0; i < GIB / (2 * MIB); i++)
		take(2 * MIB);
	ck_assert_uint_eq(broker.taken, 1);
	take(2 * MIB);
	ck_assert_uint_eq(broker.taken, 2);
}
END_TEST

START_TEST(va_joins_ranges_that_come_back_in_any_order)
{
	uint64_t at[4];

	for (int i = 0; i < 4; i++)
		at[i] = take(256 * MIB);
	shim_va_give(&va, at[2], 256 * MIB);
	shim_va_give(&va, at[0], 256 * MIB);
	shim_va_give(&va, at[3], 256 * MIB);
	shim_va_give(&va, at[1], 256 * MIB);
	take(GIB);
	ck_assert_uint_eq(broker.taken, 1);
}
END_TEST

START_TEST(va_never_cuts_a_range_across_two_pieces)
{
	uint64_t a, b;

	broker.bases[1] = BASE + GIB;
	a = take(GIB);
	b = take(GIB);
	ck_assert_uint_eq(b, a + GIB);
	shim_va_give(&va, b, GIB);
	shim_va_give(&va, a, GIB);
	/* 2 GiB in a row are free, in pieces of one each. */
	take(GIB + 2 * MIB);
	ck_assert_uint_eq(broker.taken, 3);
}
END_TEST

SUITE_FIXTURE("va", setup, NULL,
	va_reserves_a_piece_and_cuts_ranges_from_it,
	va_asks_for_more_when_more_is_needed,
	va_declines_what_the_host_uses_and_takes_the_next,
	va_declines_nonsense,
	va_gives_up_when_nothing_fits,
	va_keeps_nothing_when_the_broker_is_lost,
#ifndef MPSSHIM_SANITIZED
	va_asks_for_less_under_a_limited_address_space,
#endif
	va_rests_a_range_before_it_is_used_again,
	va_joins_ranges_that_come_back_in_any_order,
	va_never_cuts_a_range_across_two_pieces)
