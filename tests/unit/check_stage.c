/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/stage.h"

#include <check.h>
#include <stdbool.h>

#include "tests/unit/suite.h"

enum { STREAM_A = 100, STREAM_B = 200 };

static struct shim_stage stage;

static void
setup(void)
{
	shim_stage_init(&stage);
}

static uint32_t
take(uint32_t size, uint64_t stream, uint64_t retired)
{
	uint32_t offset = UINT32_MAX;

	ck_assert_int_eq(shim_stage_take(&stage, size, stream, retired,
					 &offset), 0);
	ck_assert_uint_eq(offset % STAGE_UNIT, 0);
	ck_assert_uint_le(offset + size, CHANNEL_STAGING);
	return offset;
}

static bool
is_full(uint32_t size, uint64_t retired)
{
	uint32_t offset;

	return shim_stage_take(&stage, size, STREAM_A, retired, &offset) ==
	       STAGE_E_FULL;
}

/* All of it, piece i busy until frame i + 1. */
static void
fill(uint64_t stream)
{
	for (uint32_t i = 0; i < CHANNEL_STAGING / STAGE_PIECE; i++)
		shim_stage_mark(&stage, take(STAGE_PIECE, stream, 0), i + 1);
}

START_TEST(stage_pieces_do_not_overlap)
{
	uint32_t a = take(1, STREAM_A, 0), b = take(STAGE_UNIT + 1, STREAM_A, 0);
	uint32_t c = take(1, STREAM_A, 0);

	ck_assert_uint_ge(b, a + STAGE_UNIT);
	ck_assert_uint_ge(c, b + 2 * STAGE_UNIT);
	shim_stage_drop(&stage, b);
	/* Its two units serve again, in the order of addresses. */
	ck_assert_uint_eq(take(1, STREAM_A, 0), b);
	ck_assert_uint_eq(take(1, STREAM_A, 0), b + STAGE_UNIT);
}
END_TEST

START_TEST(stage_is_full_after_all_of_it_is_taken)
{
	fill(STREAM_A);
	ck_assert(is_full(1, 0));
}
END_TEST

START_TEST(stage_piece_returns_when_its_frame_has_retired)
{
	fill(STREAM_A);
	ck_assert(is_full(STAGE_PIECE, 0));
	ck_assert_uint_eq(take(STAGE_PIECE, STREAM_A, 1), 0);
	ck_assert(is_full(STAGE_PIECE, 1));
	ck_assert_uint_eq(take(STAGE_PIECE, STREAM_A, 2), STAGE_PIECE);
}
END_TEST

START_TEST(stage_piece_not_yet_posted_never_returns_by_itself)
{
	uint32_t offset = take(STAGE_PIECE, STREAM_A, 0);

	for (uint32_t i = 1; i < CHANNEL_STAGING / STAGE_PIECE; i++)
		shim_stage_mark(&stage, take(STAGE_PIECE, STREAM_A, 0), i);
	/* All others are reused, that one is not. */
	for (uint32_t i = 1; i < CHANNEL_STAGING / STAGE_PIECE; i++)
		ck_assert_uint_ne(take(STAGE_PIECE, STREAM_A, UINT64_MAX),
				  offset);
	ck_assert(is_full(1, UINT64_MAX));
	shim_stage_drop(&stage, offset);
	ck_assert_uint_eq(take(STAGE_PIECE, STREAM_A, 0), offset);
}
END_TEST

START_TEST(stage_pieces_of_a_finished_stream_return_alone)
{
	uint32_t a = take(STAGE_PIECE, STREAM_A, 0);

	shim_stage_mark(&stage, a, 1);
	for (uint32_t i = 1; i < CHANNEL_STAGING / STAGE_PIECE; i++)
		shim_stage_mark(&stage, take(STAGE_PIECE, STREAM_B, 0), i + 1);
	ck_assert(is_full(1, 0));
	/* Frame 1 has not retired for all, but STREAM_A is done with it. */
	shim_stage_finish(&stage, STREAM_A, 1);
	ck_assert_uint_eq(take(STAGE_PIECE, STREAM_A, 0), a);
	ck_assert(is_full(1, 0));
}
END_TEST

START_TEST(stage_finish_spares_what_was_posted_later)
{
	fill(STREAM_A);
	shim_stage_finish(&stage, STREAM_A, 1);
	ck_assert_uint_eq(take(STAGE_PIECE, STREAM_A, 0), 0);
	ck_assert(is_full(1, 0));
}
END_TEST

START_TEST(stage_serves_a_thousand_small_copies_at_once)
{
	for (uint32_t i = 0; i < STAGE_UNITS; i++)
		shim_stage_mark(&stage, take(4, STREAM_A, 0), i + 1);
	ck_assert(is_full(4, 0));
	ck_assert(is_full(2 * STAGE_UNIT, 1));
	ck_assert_uint_eq(take(2 * STAGE_UNIT, STREAM_A, 2), 0);
}
END_TEST

SUITE_FIXTURE("stage", setup, NULL,
	stage_pieces_do_not_overlap,
	stage_is_full_after_all_of_it_is_taken,
	stage_piece_returns_when_its_frame_has_retired,
	stage_piece_not_yet_posted_never_returns_by_itself,
	stage_pieces_of_a_finished_stream_return_alone,
	stage_finish_spares_what_was_posted_later,
	stage_serves_a_thousand_small_copies_at_once)
