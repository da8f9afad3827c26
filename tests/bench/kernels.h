/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that are launched to see what a launch costs.
 * For the programs of tests/bench only. Only `add` touches memory.
 */
#ifndef TESTS_BENCH_KERNELS_H
#define TESTS_BENCH_KERNELS_H

/* A pointer and a number: what most kernels take, over and over. */
#define BENCH_PAIR(n) ".param .u64 p" #n ", .param .u32 q" #n

/*
 * `spin` runs for a number of nanoseconds by the device's own clock; `add`
 * adds to the word at an address, once however large the grid is.
 */
static const char bench_ptx[] =
	".version 7.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry empty() { ret; }\n"
	".visible .entry with4(" BENCH_PAIR(0) ", " BENCH_PAIR(1) ")\n"
	"{ ret; }\n"
	".visible .entry with20(" BENCH_PAIR(0) ", " BENCH_PAIR(1) ",\n"
	BENCH_PAIR(2) ", " BENCH_PAIR(3) ", " BENCH_PAIR(4) ",\n"
	BENCH_PAIR(5) ", " BENCH_PAIR(6) ", " BENCH_PAIR(7) ",\n"
	BENCH_PAIR(8) ", " BENCH_PAIR(9) ")\n"
	"{ ret; }\n"
	".visible .entry spin(.param .u64 ns)\n"
	"{\n"
	"	.reg .pred p;\n"
	"	.reg .u64 end, now;\n"
	"	ld.param.u64 end, [ns];\n"
	"	mov.u64 now, %globaltimer;\n"
	"	add.u64 end, end, now;\n"
	"AGAIN:\n"
	"	mov.u64 now, %globaltimer;\n"
	"	setp.lt.u64 p, now, end;\n"
	"	@p bra AGAIN;\n"
	"	ret;\n"
	"}\n"
	".visible .entry add(.param .u64 at, .param .u32 n)\n"
	"{\n"
	"	.reg .pred p;\n"
	"	.reg .u32 i, b, v;\n"
	"	.reg .u64 a;\n"
	"	mov.u32 i, %tid.x;\n"
	"	mov.u32 b, %ctaid.x;\n"
	"	or.b32 i, i, b;\n"
	"	setp.ne.u32 p, i, 0;\n"
	"	@p bra DONE;\n"
	"	ld.param.u64 a, [at];\n"
	"	cvta.to.global.u64 a, a;\n"
	"	ld.global.u32 v, [a];\n"
	"	ld.param.u32 i, [n];\n"
	"	add.u32 v, v, i;\n"
	"	st.global.u32 [a], v;\n"
	"DONE:\n"
	"	ret;\n"
	"}\n";

enum { BENCH_PARAMS_MAX = 20 };

/* Values for BENCH_PAIR's parameters, in their order. */
struct bench_params {
	unsigned long long pointers[BENCH_PARAMS_MAX / 2];
	unsigned int numbers[BENCH_PARAMS_MAX / 2];
	void *argv[BENCH_PARAMS_MAX];
};

static inline void
bench_params_init(struct bench_params *params)
{
	for (int i = 0; i < BENCH_PARAMS_MAX / 2; i++) {
		params->pointers[i] = 0x1000u * (unsigned)i;
		params->numbers[i] = (unsigned)i;
		params->argv[2 * i] = &params->pointers[i];
		params->argv[2 * i + 1] = &params->numbers[i];
	}
}

#endif
