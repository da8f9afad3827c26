/* SPDX-License-Identifier: Apache-2.0 */
/* State spaces, variables, atomics and faults of the PTX executor. */
#undef NDEBUG
#include "tests/ptx/ptx_kernel.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(vector_registers_have_parts)
{
	uint32_t *o = run(KERNEL(
		".reg .v4 .b32 %v, %w<2>; .reg .v2 .b32 %u;\n"
		"mov.v4.b32 %v, {1, 2, 3, %t}; mov.v4.b32 %w1, %v;\n"
		"add.u32 %w1.x, %v.y, %w1.a; mov.v2.b32 %u, {%w1.y, %w1.x};\n"
		"mov.v4.b32 %v, {%v.w, %v.z, %v.y, %v.x};\n"
		"shl.b32 %r1, %t, 4; cvt.u64.u32 %d1, %r1;\n"
		"add.u64 %d1, %d1, %o; st.global.v4.b32 [%d1], %v;\n"
		"st.global.v2.b32 [%d1+512], %u;\n"), 1, 32);

	for (unsigned t = 0; t < 32; t++) {
		ck_assert_uint_eq(o[4 * t], t);
		ck_assert_uint_eq(o[4 * t + 1], 3);
		ck_assert_uint_eq(o[4 * t + 2], 2);
		ck_assert_uint_eq(o[4 * t + 3], 1);
		ck_assert_uint_eq(o[128 + 4 * t], 2);
		ck_assert_uint_eq(o[128 + 4 * t + 1], 2 + t);
	}
	harness_close(&h);
}
END_TEST

START_TEST(shared_memory_is_the_blocks_own)
{
	uint32_t *o = run(KERNEL(
		".shared .align 4 .b32 s[64]; .reg .b32 %a;\n"
		"shl.b32 %r1, %t, 2; mov.u32 %a, s; add.u32 %r1, %r1, %a;\n"
		"add.u32 %r2, %t, %c; st.shared.u32 [%r1], %r2;\n"
		"bar.sync 0;\n"
		"sub.u32 %r3, 63, %t; shl.b32 %r3, %r3, 2;\n"
		"add.u32 %r3, %r3, %a; ld.shared.u32 %r4, [%r3];\n"
		"st.global.u32 [%e], %r4;\n"), 3, 64);

	for (unsigned k = 0; k < 192; k++)
		ck_assert_uint_eq(o[k], 63 - k % 64 + k / 64);
	harness_close(&h);
}
END_TEST

START_TEST(dynamic_shared_memory_starts_after_the_static)
{
	static const char ptx[] = HEAD
		".extern .shared .align 16 .b8 dyn[];\n"
		".visible .entry k(.param .u64 out)\n{\n" REGS
		".shared .b32 s[3]; mov.u32 %r1, s; mov.u32 %r2, dyn;\n"
		"st.shared.u32 [s], 5; st.shared.u32 [dyn+60], 6;\n"
		"ld.shared.u32 %r3, [s]; ld.shared.u32 %r4, [%r2+60];\n"
		"mov.u32 %r5, %dynamic_smem_size;\n"
		"st.global.v4.u32 [%o], {%r1, %r2, %r3, %r4};\n"
		"st.global.u32 [%o+16], %r5; ret; }\n";
	uint32_t *o;
	uint64_t arg;

	harness_open(&h, ptx);
	ck_assert_msg(!h.parse_result, "%s", h.log);
	h.dyn_shared = 64;
	o = harness_alloc(&h, 64);
	arg = (uint64_t)(uintptr_t)o;
	ck_assert_int_eq(harness_run(&h, "k", &arg, 8), 0);
	ck_assert_uint_eq(o[1] - o[0], 16);
	ck_assert_uint_eq(o[2], 5);
	ck_assert_uint_eq(o[3], 6);
	ck_assert_uint_eq(o[4], 64);
	h.dyn_shared = 32;
	ck_assert_int_eq(harness_run(&h, "k", &arg, 8), PTX_FAULT_ADDRESS);
	harness_close(&h);
}
END_TEST

START_TEST(generic_addresses_reach_every_space)
{
	uint32_t *o = run(KERNEL(
		".shared .b32 s; .local .b32 l[4]; .reg .b64 %x<4>;\n"
		"mov.u64 %x1, s; cvta.shared.u64 %x1, %x1;\n"
		"mov.u64 %x2, l; cvta.local.u64 %x2, %x2;\n"
		"st.u32 [%x1], 11; st.u32 [%x2+8], %t; st.u32 [%o+12], 13;\n"
		"ld.shared.u32 %r1, [s]; ld.local.u32 %r2, [l+8];\n"
		"isspacep.shared %p1, %x1; selp.u32 %r3, 1, 0, %p1;\n"
		"isspacep.local %p1, %x2; selp.u32 %r4, 2, 0, %p1;\n"
		"isspacep.global %p1, %o; selp.u32 %r5, 4, 0, %p1;\n"
		"isspacep.global %p1, %x1; selp.u32 %r6, 8, 0, %p1;\n"
		"add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5;\n"
		"add.u32 %r3, %r3, %r6;\n"
		"st.global.u32 [%o], %r1; st.global.u32 [%o+4], %r2;\n"
		"st.global.u32 [%o+8], %r3;\n"
		"cvta.to.shared.u64 %x3, %x1; ld.shared.u32 %r7, [%x3];\n"
		"st.global.u32 [%o+16], %r7;\n"), 1, 1);

	ck_assert_uint_eq(o[0], 11);
	ck_assert_uint_eq(o[1], 0);
	ck_assert_uint_eq(o[2], 7);
	ck_assert_uint_eq(o[3], 13);
	ck_assert_uint_eq(o[4], 11);
	harness_close(&h);
}
END_TEST

START_TEST(local_memory_is_the_threads_own)
{
	uint32_t *o = run(KERNEL(
		".local .align 8 .b8 l[64]; .reg .b64 %x;\n"
		"mov.u64 %x, l; mul.lo.u32 %r1, %t, 3;\n"
		"st.local.u32 [%x+4], %r1; bar.sync 0;\n"
		"ld.local.u32 %r2, [%x+4]; st.global.u32 [%e], %r2;\n"),
		1, 96);

	for (unsigned k = 0; k < 96; k++)
		ck_assert_uint_eq(o[k], 3 * k);
	harness_close(&h);
}
END_TEST

START_TEST(alloca_takes_from_the_stack)
{
	uint32_t *o = run(KERNEL(
		".reg .b64 %x, %y, %z; stacksave.u64 %z;\n"
		"alloca.u64 %x, 64; alloca.u64 %y, 64, 32;\n"
		"st.local.u32 [%x], %t; st.local.u32 [%y], 99;\n"
		"ld.local.u32 %r1, [%x]; stackrestore.u64 %z;\n"
		"st.global.u32 [%e], %r1;\n"), 1, 32);

	for (unsigned k = 0; k < 32; k++)
		ck_assert_uint_eq(o[k], k);
	harness_close(&h);
}
END_TEST

START_TEST(loads_extend_to_the_register)
{
	uint32_t *o = run(KERNEL(
		"st.global.u32 [%o], 0x80ff7f81;\n"
		"ld.global.s8 %r1, [%o]; ld.global.u8 %r2, [%o];\n"
		"ld.global.s16 %r3, [%o+2]; ld.global.s8 %d1, [%o+3];\n"
		"st.global.v4.u32 [%o+16], {%r1, %r2, %r3, 0};\n"
		"st.global.u64 [%o+32], %d1;\n"
		"ld.global.v2.u32 {%r4, %r5}, [%o+16];\n"
		"add.u32 %r4, %r4, %r5; st.global.u32 [%o+40], %r4;\n"), 1,
		1);

	ck_assert_uint_eq(o[4], 0xffffff81);
	ck_assert_uint_eq(o[5], 0x81);
	ck_assert_uint_eq(o[6], 0xffff80ff);
	ck_assert_uint_eq(o[8], 0xffffff80);
	ck_assert_uint_eq(o[9], 0xffffffff);
	ck_assert_uint_eq(o[10], 2);
	harness_close(&h);
}
END_TEST

START_TEST(variables_start_with_their_values_and_addresses)
{
	uint32_t *o = run(HEAD
		".func f() { ret; }\n"
		".global .align 4 .u32 g[4] = {1, 2, 3};\n"
		".global .align 4 .u32 m[2][3] = {{1}, {4, 5, 6}};\n"
		".const .align 4 .f32 c[2] = {0f3F800000, 2.0};\n"
		".global .u64 p = generic(g)+8;\n"
		".global .u64 q[2] = {f, g+4};\n"
		".global .b8 bytes[8] = {0xff(g), 0xff00(g), 0xff0000(g),"
		" 0xff000000(g), 0xff00000000(g), 0xff0000000000(g), 0, 0};\n"
		".global .s16 neg = -2;\n"
		".visible .entry k(.param .u64 out)\n{\n" REGS
		"ld.global.u64 %d1, [p]; ld.u32 %r1, [%d1];\n"
		"ld.global.u64 %d2, [q+8]; ld.global.u32 %r2, [%d2];\n"
		"ld.const.u32 %r3, [c+4]; ld.global.u64 %d3, [bytes];\n"
		"ld.global.u32 %r4, [%d3+4]; ld.global.s16 %r5, [neg];\n"
		"ld.global.u32 %r6, [m+16]; ld.global.u32 %r7, [m+4];\n"
		"st.global.v4.u32 [%o], {%r1, %r2, %r3, %r4};\n"
		"st.global.v2.u32 [%o+16], {%r5, %r6};\n"
		"st.global.u32 [%o+24], %r7; ret; }\n", 1, 1);
	const struct ptx_symbol *s;

	ck_assert_uint_eq(o[0], 3);
	ck_assert_uint_eq(o[1], 2);
	ck_assert_uint_eq(o[2], 0x40000000);
	ck_assert_uint_eq(o[3], 2);
	ck_assert_uint_eq(o[4], (uint32_t)-2);
	ck_assert_uint_eq(o[5], 5);
	ck_assert_uint_eq(o[6], 0);
	s = harness_symbol(&h, "c");
	ck_assert(s && s->space == PTX_SPACE_CONST && s->size == 8);
	harness_close(&h);
}
END_TEST

START_TEST(constants_are_addressed_with_32_bits_too)
{
	uint32_t *o = run(HEAD
		".const .align 4 .u32 a[4] = {1, 2, 3, 4};\n"
		".const .align 4 .u32 b[4] = {5, 6, 7, 8};\n"
		".visible .entry k(.param .u64 out)\n{\n" REGS
		"mov.u32 %r1, b; add.u32 %r1, %r1, 8;\n"
		"ld.const.u32 %r2, [%r1]; ld.const.u32 %r3, [a+4];\n"
		"mov.u64 %d1, a; ld.const.u32 %r4, [%d1+12];\n"
		"cvta.const.u64 %d2, %d1; ld.u32 %r5, [%d2];\n"
		"st.global.v4.u32 [%o], {%r2, %r3, %r4, %r5}; ret; }\n", 1,
		1);

	ck_assert_uint_eq(o[0], 7);
	ck_assert_uint_eq(o[1], 2);
	ck_assert_uint_eq(o[2], 4);
	ck_assert_uint_eq(o[3], 1);
	harness_close(&h);
}
END_TEST

START_TEST(faults_are_told_apart)
{
	ck_assert_int_eq(fault_of(KERNEL("st.global.u32 [%o+4096000000], 1;"
					 )), PTX_FAULT_ADDRESS);
	ck_assert_int_eq(fault_of(KERNEL("ld.global.u32 %r1, [0];")),
			 PTX_FAULT_ADDRESS);
	ck_assert_int_eq(fault_of(KERNEL("ld.global.u32 %r1, [%o+2];")),
			 PTX_FAULT_MISALIGNED);
	ck_assert_int_eq(fault_of(KERNEL("ld.global.v4.u32 "
					 "{%r1, %r2, %r3, %r4}, [%o+8];")),
			 PTX_FAULT_MISALIGNED);
	ck_assert_int_eq(fault_of(KERNEL("st.shared.u32 [%t], 1;")),
			 PTX_FAULT_ADDRESS);
	ck_assert_int_eq(fault_of(KERNEL("ld.local.u32 %r1, [%d1];")),
			 PTX_FAULT_ADDRESS);
	ck_assert_int_eq(fault_of(KERNEL("trap;")), PTX_FAULT_TRAP);
	ck_assert_int_eq(fault_of(KERNEL("brkpt;")), PTX_FAULT_TRAP);
	ck_assert_int_eq(fault_of(KERNEL("bar.sync 16;")),
			 PTX_FAULT_ILLEGAL_INSTR);
	ck_assert(strstr(h.detail, "line "));
	ck_assert(strstr(h.detail, "block [0,0,0], thread [0,0,0]"));
}
END_TEST

START_TEST(atomics_return_what_was_there)
{
	uint32_t *o = run(KERNEL(
		"atom.global.add.u32 %r1, [%o], 2;\n"
		"red.global.max.s32 [%o+4], %t; red.global.min.s32 [%o+8],"
		" -3; red.global.or.b32 [%o+12], %t;\n"
		"atom.inc.u32 %r2, [%o+16], 9; atom.dec.u32 %r3, [%o+20], 5;\n"
		"red.global.add.f32 [%o+24], 0f3F000000;\n"
		"red.global.add.f64 [%o+32], 0d3FF0000000000000;\n"
		"atom.global.exch.b32 %r4, [%o+40], 7;\n"
		"atom.global.cas.b32 %r5, [%o+44], 0, 8;\n"
		"red.global.add.noftz.f16x2 [%o+48], 0x3c003c00;\n"
		"atom.global.add.u64 %d1, [%o+56], 1;\n"
		"red.global.xor.b64 [%o+64], 6; \n"
		"{ .reg .b16 %h; atom.global.cas.b16 %h, [%o+72], 0, 3; }\n"
		"red.global.add.noftz.bf16x2 [%o+76], 0x3f803f80;\n"
		"bar.sync 0; shl.b32 %r7, %t, 2; cvt.u64.u32 %d2, %r7;\n"
		"add.u64 %d2, %d2, %o; st.global.u32 [%d2+128], %r1;\n"), 1,
		64);
	uint32_t sum = 0;
	double d;

	for (unsigned k = 0; k < 64; k++)
		sum += o[32 + k];
	ck_assert_uint_eq(sum, 2 * (63 * 64 / 2));
	ck_assert_uint_eq(o[0], 128);
	ck_assert_uint_eq(o[1], 63);
	ck_assert_uint_eq(o[2], (uint32_t)-3);
	ck_assert_uint_eq(o[3], 63);
	ck_assert_uint_eq(o[4], 64 % 10);
	ck_assert_uint_eq(o[5], 2);
	ck_assert_uint_eq(o[6], 0x42000000);
	memcpy(&d, o + 8, 8);
	ck_assert(d == 64);
	ck_assert_uint_eq(o[10], 7);
	ck_assert_uint_eq(o[11], 8);
	ck_assert_uint_eq(o[12], 0x54005400);
	ck_assert_uint_eq(o[14], 64);
	ck_assert_uint_eq(o[16], 0);
	ck_assert_uint_eq(o[18], 3);
	ck_assert_uint_eq(o[19], 0x42804280);
	harness_close(&h);
}
END_TEST

START_TEST(atomics_of_128_bits_swap_whole)
{
	uint32_t *o = run(KERNEL(
		".reg .b128 %q<4>; mov.b128 %q1, {5, 6};\n"
		"mov.b128 %q2, {0, 0};\n"
		"atom.global.cas.b128 %q3, [%o], %q2, %q1;\n"
		"mov.b128 {%d1, %d2}, %q3; st.global.u64 [%o+16], %d2;\n"
		"atom.global.exch.b128 %q3, [%o], %q2;\n"
		"mov.b128 {%d1, %d2}, %q3; st.global.u64 [%o+24], %d2;\n"),
		1, 1);

	ck_assert_uint_eq(o[4], 0);
	ck_assert_uint_eq(o[6], 6);
	ck_assert_uint_eq(o[0], 0);
	harness_close(&h);
}
END_TEST

START_TEST(vectors_are_added_element_by_element)
{
	uint32_t *o = run(KERNEL(
		"mov.b32 %r1, 0f3F800000; mov.b32 %r2, 0f40000000;\n"
		"red.global.v2.f32.add [%o], {%r1, %r2};\n"
		"atom.global.v4.f32.add {%r3, %r4, %r5, %r6}, [%o+16],"
		" {%r1, %r1, %r2, %r2};\n"), 1, 32);

	ck_assert_uint_eq(o[0], 0x42000000);
	ck_assert_uint_eq(o[1], 0x42800000);
	ck_assert_uint_eq(o[7], 0x42800000);
	harness_close(&h);
}
END_TEST

START_TEST(textures_and_surfaces_ask_the_driver_side)
{
	uint32_t *o = run(KERNEL(
		".reg .b64 %x; mov.u64 %x, 3; mov.u32 %r6, 9;\n"
		"tex.2d.v4.u32.s32 {%r1, %r2, %r3, %r4}, [%x, {%t, %r6}];\n"
		"st.global.v4.u32 [%o], {%r1, %r2, %r3, %r4};\n"
		"tex.level.1d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%x, {%r6}],"
		" 0f40000000;\n"
		"st.global.v4.u32 [%o+16], {%r1, %r2, %r3, %r4};\n"
		"sust.b.2d.v2.b32.trap [%x, {8, 0}], {%r6, 77};\n"
		"suld.b.1d.b32.trap {%r5}, [%x, {12}];\n"
		"st.global.u32 [%o+32], %r5;\n"), 1, 1);

	ck_assert_uint_eq(o[1], 9);
	ck_assert_uint_eq(o[3], 30);
	ck_assert_uint_eq(o[4], 9);
	ck_assert_uint_eq(o[7], 35);
	ck_assert_uint_eq(o[8], 77);
	harness_close(&h);
	ck_assert_int_eq(fault_of(KERNEL(
		".reg .b64 %x; mov.u64 %x, 0;\n"
		"suld.b.1d.b32.trap {%r5}, [%x, {12}];\n")),
		PTX_FAULT_ADDRESS);
}
END_TEST

START_TEST(asynchronous_copies_land_in_shared_memory)
{
	uint32_t *o = run(KERNEL(
		".shared .align 16 .b8 s[32]; .reg .b32 %a; mov.u32 %a, s;\n"
		"st.global.v4.u32 [%o], {1, 2, 3, 4};\n"
		"cp.async.cg.shared.global [%a], [%o], 16;\n"
		"cp.async.ca.shared.global [%a+16], [%o], 16, 8;\n"
		"cp.async.commit_group; cp.async.wait_group 0;\n"
		"ld.shared.u32 %r1, [%a+12]; ld.shared.u32 %r2, [%a+20];\n"
		"ld.shared.u32 %r3, [%a+24];\n"
		"st.global.v4.u32 [%o+16], {%r1, %r2, %r3, 5};\n"), 1, 1);

	ck_assert_uint_eq(o[4], 4);
	ck_assert_uint_eq(o[5], 2);
	ck_assert_uint_eq(o[6], 0);
	harness_close(&h);
}
END_TEST

static void
add_memory(Suite *s)
{
	TCase *t = tcase_create("memory");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, vector_registers_have_parts);
	tcase_add_test(t, shared_memory_is_the_blocks_own);
	tcase_add_test(t, dynamic_shared_memory_starts_after_the_static);
	tcase_add_test(t, generic_addresses_reach_every_space);
	tcase_add_test(t, local_memory_is_the_threads_own);
	tcase_add_test(t, alloca_takes_from_the_stack);
	tcase_add_test(t, loads_extend_to_the_register);
	tcase_add_test(t, variables_start_with_their_values_and_addresses);
	tcase_add_test(t, constants_are_addressed_with_32_bits_too);
	tcase_add_test(t, faults_are_told_apart);
	tcase_add_test(t, atomics_return_what_was_there);
	tcase_add_test(t, atomics_of_128_bits_swap_whole);
	tcase_add_test(t, vectors_are_added_element_by_element);
	tcase_add_test(t, textures_and_surfaces_ask_the_driver_side);
	tcase_add_test(t, asynchronous_copies_land_in_shared_memory);
	suite_add_tcase(s, t);
}

int
main(void)
{
	Suite *s = suite_create("ptx_memory");
	SRunner *r;
	int failed;

	add_memory(s);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
