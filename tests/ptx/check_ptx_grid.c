/* SPDX-License-Identifier: Apache-2.0 */
/* Warps, barriers, blocks and grids of the PTX executor, on many threads. */
#undef NDEBUG
#include "tests/ptx/ptx_kernel.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK \
	"L: atom.global.cas.b32 %r1, [%o], 0, 1;\n" \
	"setp.ne.u32 %p1, %r1, 0; @%p1 bra L;\n" \
	"ld.volatile.global.u32 %r2, [%o+4]; add.u32 %r2, %r2, 1;\n" \
	"st.volatile.global.u32 [%o+4], %r2; membar.gl;\n" \
	"atom.global.exch.b32 %r3, [%o], 0;\n"

START_TEST(a_lock_between_lanes_of_one_warp_is_passed_on)
{
	uint32_t *o = run(KERNEL(LOCK), 1, 128);

	ck_assert_uint_eq(o[1], 128);
	harness_close(&h);
}
END_TEST

START_TEST(a_lock_between_blocks_holds_on_many_threads)
{
	uint32_t *o = run_threads(KERNEL(LOCK), 12, 33, 4, false);

	ck_assert_uint_eq(o[1], 12 * 33);
	harness_close(&h);
}
END_TEST

START_TEST(blocks_that_wait_for_later_ones_get_there)
{
	/* Each block waits until all have come, on one thread. */
	uint32_t *o = run_threads(KERNEL(
		"setp.ne.u32 %p1, %t, 0; @%p1 bra E;\n"
		"red.release.gpu.global.add.u32 [%o], 1;\n"
		"W: ld.acquire.gpu.global.u32 %r1, [%o];\n"
		"setp.lt.u32 %p1, %r1, 24; @%p1 bra W;\n"
		"E: bar.sync 0; st.global.u32 [%e+64], %r0;\n"), 24, 64, 1,
		false);

	ck_assert_uint_eq(o[0], 24);
	ck_assert_uint_eq(o[16 + 24 * 64 - 1], 24 * 64 - 1);
	harness_close(&h);
}
END_TEST

/* What cooperative_groups' grid.sync() amounts to. */
#define GRID_SYNC(n) \
	"bar.sync 0; setp.ne.u32 %p1, %t, 0; @%p1 bra E" n ";\n" \
	"fence.acq_rel.gpu; mov.u32 %r1, 1;\n" \
	"setp.eq.u32 %p2, %c, 0;\n" \
	"mov.u32 %r2, %nctaid.x; sub.u32 %r2, 0x80000001, %r2;\n" \
	"@%p2 mov.u32 %r1, %r2;\n" \
	"mov.u32 %r3, %envreg1; mov.u32 %r4, %envreg2;\n" \
	"mov.b64 %d1, {%r4, %r3};\n" \
	"atom.add.u32 %r5, [%d1], %r1;\n" \
	"W" n ": ld.acquire.gpu.u32 %r6, [%d1]; xor.b32 %r6, %r6, %r5;\n" \
	"setp.ge.s32 %p1, %r6, 0; @%p1 bra W" n ";\n" \
	"E" n ": bar.sync 0;\n"

START_TEST(cooperative_grids_meet_at_a_barrier_in_memory)
{
	uint32_t *o = run_threads(KERNEL(
		"st.global.u32 [%e], %r0;\n" GRID_SYNC("1")
		"mov.u32 %r7, %nctaid.x; mul.lo.u32 %r7, %r7, %n;\n"
		"sub.u32 %r7, %r7, 1; mad.lo.u32 %r0, %c, %n, %t;\n"
		"sub.u32 %r8, %r7, %r0; mul.wide.u32 %d2, %r8, 4;\n"
		"add.u64 %d2, %d2, %o; ld.global.u32 %r9, [%d2];\n"
		GRID_SYNC("2") "st.global.u32 [%e+32768], %r9;\n"),
		100, 64, 3, true);

	for (unsigned k = 0; k < 6400; k++)
		ck_assert_uint_eq(o[8192 + k], 6399 - k);
	harness_close(&h);
}
END_TEST

START_TEST(barriers_count_threads_and_reduce)
{
	uint32_t *o = run(KERNEL(
		"setp.lt.u32 %p1, %t, 40;\n"
		"bar.red.popc.u32 %r1, 0, %p1;\n"
		"bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 1, %p1;\n"
		"selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 1, 0, %p3;\n"
		"st.global.u32 [%e], %r1;\n"
		"st.global.v2.u32 [%o+4096], {%r2, %r3};\n"), 1, 70);

	for (unsigned k = 0; k < 70; k++)
		ck_assert_uint_eq(o[k], 40);
	ck_assert_uint_eq(o[1024], 0);
	ck_assert_uint_eq(o[1025], 1);
	harness_close(&h);
}
END_TEST

START_TEST(producers_arrive_and_consumers_wait)
{
	uint32_t *o = run(KERNEL(
		".shared .b32 s; setp.lt.u32 %p1, %t, 32; @%p1 bra C;\n"
		"st.shared.u32 [s], 42; bar.arrive 3, 64; bra E;\n"
		"C: bar.sync 3, 64; ld.shared.u32 %r1, [s];\n"
		"st.global.u32 [%e], %r1;\nE:\n"), 1, 64);

	ck_assert_uint_eq(o[0], 42);
	ck_assert_uint_eq(o[31], 42);
	harness_close(&h);
}
END_TEST

START_TEST(barrier_objects_count_arrivals_and_bytes)
{
	uint32_t *o = run(KERNEL(
		".shared .align 8 .b64 m[2]; .shared .b32 s; .reg .b64 %s;\n"
		"setp.eq.u32 %p1, %t, 0; @!%p1 bra I;\n"
		"mbarrier.init.shared.b64 [m], 96;\n"
		"mbarrier.init.shared::cta.b64 [m+8], 1;\n"
		"I: bar.sync 0; setp.eq.u32 %p2, %t, 95;\n"
		"@%p2 st.shared.u32 [s], 77;\n"
		"mbarrier.arrive.shared.b64 %s, [m];\n"
		"W: mbarrier.test_wait.shared.b64 %p3, [m], %s;\n"
		"@!%p3 bra W; ld.shared.u32 %r1, [s];\n"
		"@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [m+8], 16;"
		"\n@%p2 mbarrier.complete_tx.relaxed.cluster.shared::cta.b64"
		" [m+8], 16;\n"
		"V: mbarrier.try_wait.parity.shared::cta.b64 %p3, [m+8], 0;\n"
		"@!%p3 bra V; mbarrier.pending_count.b64 %r2, %s;\n"
		"setp.le.u32 %p4, %r2, 96; selp.u32 %r2, %r1, 0, %p4;\n"
		"st.global.u32 [%e], %r2;\n"), 1, 96);

	for (unsigned k = 0; k < 96; k++)
		ck_assert_uint_eq(o[k], 77);
	harness_close(&h);
}
END_TEST

START_TEST(exited_threads_do_not_hold_a_barrier)
{
	uint32_t *o = run(KERNEL(
		"setp.gt.u32 %p1, %t, 10; @%p1 exit; bar.sync 0;\n"
		"st.global.u32 [%e], 1;\n"), 1, 96);

	ck_assert_uint_eq(o[10], 1);
	ck_assert_uint_eq(o[11], 0);
	harness_close(&h);
}
END_TEST

START_TEST(shuffles_move_values_between_lanes)
{
	uint32_t *o = run(KERNEL(
		"shfl.sync.up.b32 %r1|%p1, %t, 1, 0, -1;\n"
		"shfl.sync.down.b32 %r2, %t, 4, 31, -1;\n"
		"shfl.sync.bfly.b32 %r3, %t, 3, 31, -1;\n"
		"shfl.sync.idx.b32 %r4, %t, 5, 0x181f, -1;\n"
		"selp.u32 %r5, 1000, 0, %p1; add.u32 %r1, %r1, %r5;\n"
		"mul.wide.u32 %d1, %t, 16; add.u64 %d1, %d1, %o;\n"
		"st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4};\n"), 1, 32);

	for (unsigned k = 0; k < 32; k++) {
		ck_assert_uint_eq(o[4 * k], k ? k - 1 + 1000 : 0);
		ck_assert_uint_eq(o[4 * k + 1], k < 28 ? k + 4 : k);
		ck_assert_uint_eq(o[4 * k + 2], k ^ 3);
		ck_assert_uint_eq(o[4 * k + 3], (k & 24) + 5);
	}
	harness_close(&h);
}
END_TEST

START_TEST(votes_matches_and_reductions_see_the_mask)
{
	uint32_t *o = run(KERNEL(
		"and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 0;\n"
		"vote.sync.ballot.b32 %r2, %p1, -1;\n"
		"vote.sync.any.pred %p2, %p1, -1;\n"
		"vote.sync.all.pred %p3, !%p1, -1;\n"
		"match.any.sync.b32 %r3, %r1, -1;\n"
		"match.all.sync.b64 %r4|%p4, %o, -1;\n"
		"redux.sync.add.s32 %r5, %t, -1;\n"
		"redux.sync.min.s32 %r6, %t, -1; neg.s32 %r7, %t;\n"
		"redux.sync.max.u32 %r7, %r7, -1;\n"
		"elect.sync %r8|%p5, -1; selp.u32 %r9, 1, 0, %p2;\n"
		"selp.u32 %r10, 2, 0, %p3; selp.u32 %r11, 4, 0, %p4;\n"
		"selp.u32 %r12, 8, 0, %p5; add.u32 %r9, %r9, %r10;\n"
		"add.u32 %r9, %r9, %r11; add.u32 %r9, %r9, %r12;\n"
		"mul.wide.u32 %d1, %t, 32; add.u64 %d1, %d1, %o;\n"
		"st.global.v4.u32 [%d1], {%r2, %r3, %r4, %r5};\n"
		"st.global.v4.u32 [%d1+16], {%r6, %r7, %r8, %r9};\n"), 1, 32);

	for (unsigned k = 0; k < 32; k++) {
		ck_assert_uint_eq(o[8 * k], 0x11111111);
		ck_assert_uint_eq(o[8 * k + 1], 0x11111111u << (k & 3));
		ck_assert_uint_eq(o[8 * k + 2], ~0u);
		ck_assert_uint_eq(o[8 * k + 3], 496);
		ck_assert_uint_eq(o[8 * k + 4], 0);
		ck_assert_uint_eq(o[8 * k + 5], ~0u);
		ck_assert_uint_eq(o[8 * k + 6], 0);
		ck_assert_uint_eq(o[8 * k + 7], 5 + (k ? 0 : 8));
	}
	harness_close(&h);
}
END_TEST

START_TEST(sync_operations_wait_for_lanes_at_other_copies)
{
	/* Both sides of the branch have a shuffle; all lanes meet. */
	uint32_t *o = run(KERNEL(
		"setp.lt.u32 %p1, %t, 16; @%p1 bra A;\n"
		"mul.lo.u32 %r1, %t, 2;\n"
		"shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; bra E;\n"
		"A: mul.lo.u32 %r1, %t, 3;\n"
		"shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;\n"
		"E: bar.warp.sync -1; st.global.u32 [%e], %r2;\n"), 1, 32);

	for (unsigned k = 0; k < 32; k++)
		ck_assert_uint_eq(o[k], k < 16 ? 2 * (k + 16)
					       : 3 * (k - 16));
	harness_close(&h);
}
END_TEST

START_TEST(clusters_share_memory_and_barrier)
{
	static const char ptx[] = KERNEL(
		".shared .b32 s[32]; .reg .b32 %a, %k, %b;\n"
		"mov.u32 %a, s; shl.b32 %r1, %t, 2; add.u32 %a, %a, %r1;\n"
		"mov.u32 %k, %cluster_ctarank; mad.lo.u32 %r2, %k, 100, %t;\n"
		"st.shared.u32 [%a], %r2;\n"
		"barrier.cluster.arrive.release.aligned;\n"
		"barrier.cluster.wait.acquire.aligned;\n"
		"xor.b32 %k, %k, 1; mapa.shared::cluster.u32 %b, %a, %k;\n"
		"ld.shared::cluster.u32 %r3, [%b];\n"
		"st.global.u32 [%e], %r3; barrier.cluster.arrive;\n"
		"barrier.cluster.wait;\n");
	uint32_t *o;
	uint64_t arg;

	harness_open(&h, ptx);
	ck_assert_msg(!h.parse_result, "%s", h.log);
	h.grid[0] = 4;
	h.cluster[0] = 2;
	h.block[0] = 32;
	o = harness_alloc(&h, 4096);
	arg = (uint64_t)(uintptr_t)o;
	ck_assert_msg(!harness_run(&h, "k", &arg, 8), "%s", h.detail);
	for (unsigned k = 0; k < 128; k++)
		ck_assert_uint_eq(o[k], (k / 32 % 2 ? 0 : 100) + k % 32);
	harness_close(&h);
}
END_TEST

START_TEST(a_fault_of_one_block_ends_the_grid)
{
	static const char ptx[] = KERNEL(
		"setp.eq.u32 %p1, %c, 7; @%p1 trap;\n"
		"L: ld.volatile.global.u32 %r1, [%o];\n"
		"setp.eq.u32 %p1, %r1, 0; @%p1 bra L;\n");
	uint64_t arg;

	harness_open(&h, ptx);
	h.grid[0] = 20;
	h.threads = 3;
	arg = (uint64_t)(uintptr_t)harness_alloc(&h, 64);
	ck_assert_int_eq(harness_run(&h, "k", &arg, 8), PTX_FAULT_TRAP);
	ck_assert(strstr(h.detail, "block [7,0,0]"));
	harness_close(&h);
}
END_TEST

START_TEST(a_cancelled_grid_ends)
{
	struct ptx_launch l = {
		.env = &h.env,
		.grid = { 2, 1, 1 },
		.block = { 32, 1, 1 },
		.cluster = { 1, 1, 1 },
	};
	struct ptx_grid *grid;
	enum ptx_work r;

	harness_open(&h, HEAD ".entry k() { L: bra L; }");
	l.kernel = ptx_module_kernel(h.module, 0);
	ck_assert_int_eq(ptx_grid_create(&grid, &l), 0);
	for (int k = 0; k < 4; k++)
		ck_assert_int_eq(ptx_grid_work(grid, 1000000),
				 PTX_WORK_MORE);
	ptx_grid_cancel(grid);
	r = ptx_grid_work(grid, 1000000);
	ck_assert_int_eq(r, PTX_WORK_DONE);
	ck_assert_int_eq(ptx_grid_work(grid, 1000), PTX_WORK_BUSY);
	ck_assert_int_eq(ptx_grid_fault(grid, NULL), PTX_FAULT_NONE);
	ck_assert_ptr_null(ptx_grid_free(grid));
	harness_close(&h);
}
END_TEST

START_TEST(impossible_launches_are_refused)
{
	struct ptx_launch l = {
		.env = &h.env,
		.grid = { 3, 1, 1 },
		.block = { 32, 1, 1 },
		.cluster = { 1, 1, 1 },
	};
	struct ptx_grid *grid;

	harness_open(&h, HEAD ".entry k() { ret; }");
	l.kernel = ptx_module_kernel(h.module, 0);
	l.block[0] = 1025;
	ck_assert_int_lt(ptx_grid_create(&grid, &l), 0);
	l.block[0] = 32;
	l.cluster[0] = 2;
	ck_assert_int_lt(ptx_grid_create(&grid, &l), 0);
	l.cluster[0] = 1;
	l.dyn_shared = 300000;
	ck_assert_int_lt(ptx_grid_create(&grid, &l), 0);
	l.dyn_shared = 0;
	l.grid[1] = 0;
	ck_assert_int_lt(ptx_grid_create(&grid, &l), 0);
	harness_close(&h);
}
END_TEST

START_TEST(a_million_elements_are_added_in_seconds)
{
	static const char ptx[] = HEAD
		".visible .entry k(.param .u64 a, .param .u32 n)\n{\n"
		".reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
		"ld.param.u64 %d1, [a]; ld.param.u32 %r1, [n];\n"
		"mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"
		"mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
		"setp.ge.s32 %p, %r5, %r1; @%p bra E;\n"
		"mul.wide.s32 %d2, %r5, 4; add.s64 %d3, %d1, %d2;\n"
		"ld.global.f32 %r6, [%d3]; add.f32 %r7, %r6, 0f3F800000;\n"
		"st.global.f32 [%d3], %r7;\nE: ret;\n}\n";
	struct {
		uint64_t a;
		uint32_t n;
	} args = { 0, 1000000 };
	unsigned bad = 0;
	float *a;

	harness_open(&h, ptx);
	ck_assert_msg(!h.parse_result, "%s", h.log);
	a = harness_alloc(&h, 4000000);
	args.a = (uint64_t)(uintptr_t)a;
	h.grid[0] = (args.n + 255) / 256;
	h.block[0] = 256;
	h.threads = 2;
	ck_assert_int_eq(harness_run(&h, "k", &args, sizeof(args)), 0);
	for (unsigned k = 0; k < args.n; k++)
		bad += a[k] != 1;
	ck_assert_uint_eq(bad, 0);
	ck_assert(a[args.n] == 0);
	harness_close(&h);
}
END_TEST

static void
add_threads(Suite *s)
{
	TCase *t = tcase_create("threads");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_lock_between_lanes_of_one_warp_is_passed_on);
	tcase_add_test(t, a_lock_between_blocks_holds_on_many_threads);
	tcase_add_test(t, blocks_that_wait_for_later_ones_get_there);
	tcase_add_test(t, cooperative_grids_meet_at_a_barrier_in_memory);
	tcase_add_test(t, barriers_count_threads_and_reduce);
	tcase_add_test(t, producers_arrive_and_consumers_wait);
	tcase_add_test(t, exited_threads_do_not_hold_a_barrier);
	tcase_add_test(t, barrier_objects_count_arrivals_and_bytes);
	tcase_add_test(t, shuffles_move_values_between_lanes);
	tcase_add_test(t, votes_matches_and_reductions_see_the_mask);
	tcase_add_test(t, sync_operations_wait_for_lanes_at_other_copies);
	tcase_add_test(t, clusters_share_memory_and_barrier);
	tcase_add_test(t, a_fault_of_one_block_ends_the_grid);
	tcase_add_test(t, a_cancelled_grid_ends);
	tcase_add_test(t, impossible_launches_are_refused);
	tcase_add_test(t, a_million_elements_are_added_in_seconds);
	suite_add_tcase(s, t);
}

int
main(void)
{
	Suite *s = suite_create("ptx_grid");
	SRunner *r;
	int failed;

	add_threads(s);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
