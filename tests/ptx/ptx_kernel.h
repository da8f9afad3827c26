/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of one pointer, and how to run them.
 * Used by check_ptx*.c; each has a device of its own.
 */
#ifndef TESTS_PTX_KERNEL_H
#define TESTS_PTX_KERNEL_H

#include "tests/ptx/ptx_harness.h"

#include <check.h>

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
/* A kernel with one pointer: %o is it, %t the thread, %e its element. */
#define KERNEL(body) HEAD \
	".visible .entry k(.param .u64 out)\n{\n" REGS body "ret;\n}\n"
#define REGS ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<16>;\n" \
	".reg .b32 %t, %n, %c; .reg .b64 %o, %e;\n" \
	"ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;\n" \
	"mov.u32 %n, %ntid.x; mov.u32 %c, %ctaid.x;\n" \
	"mad.lo.u32 %r0, %c, %n, %t; mul.wide.u32 %e, %r0, 4;\n" \
	"add.u64 %e, %e, %o;\n"

static struct harness h;

static inline uint32_t *
run(const char *ptx, unsigned grid, unsigned block)
{
	uint32_t *out;
	uint64_t arg;

	harness_open(&h, ptx);
	ck_assert_msg(!h.parse_result, "%s", h.log);
	h.grid[0] = grid;
	h.block[0] = block;
	out = harness_alloc(&h, 65536);
	arg = (uint64_t)(uintptr_t)out;
	ck_assert_msg(!harness_run(&h, "k", &arg, sizeof(arg)), "%s",
		      h.detail);
	return out;
}

static inline enum ptx_fault
fault_of(const char *ptx)
{
	uint32_t *out;
	uint64_t arg;

	harness_open(&h, ptx);
	ck_assert_msg(!h.parse_result, "%s", h.log);
	h.block[0] = 32;
	out = harness_alloc(&h, 4096);
	arg = (uint64_t)(uintptr_t)out;
	harness_run(&h, "k", &arg, sizeof(arg));
	harness_close(&h);
	return h.fault;
}

static inline uint32_t *
run_threads(const char *ptx, unsigned grid, unsigned block, unsigned threads,
	    bool cooperative)
{
	uint32_t *o;
	uint64_t arg;

	harness_open(&h, ptx);
	ck_assert_msg(!h.parse_result, "%s", h.log);
	h.grid[0] = grid;
	h.block[0] = block;
	h.threads = threads;
	h.cooperative = cooperative;
	o = harness_alloc(&h, 1 << 20);
	arg = (uint64_t)(uintptr_t)o;
	ck_assert_msg(!harness_run(&h, "k", &arg, 8), "%s", h.detail);
	return o;
}

#endif
