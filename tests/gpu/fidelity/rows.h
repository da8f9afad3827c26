/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that say what an entry point answers to a call it must refuse.
 * For the groups of tests/gpu/fidelity only.
 *
 * A group is a process of its own: it makes what its rows need, then asks them
 * one after the other. When the driver dies in a row, or its context is lost in
 * one, the group is started again behind that row, so a row may lean on what
 * the group made but never on what an earlier row did.
 */
#ifndef TESTS_GPU_FIDELITY_ROWS_H
#define TESTS_GPU_FIDELITY_ROWS_H

/* Every version of a function goes by its exported name here. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Groups that poison their context run while no other group does. */
#define FIDELITY_GROUPS(X)			\
	X(before_init, false)			\
	X(zeros_before_init, false)		\
	X(no_context, false)			\
	X(zeros_no_context, false)		\
	X(zeros_1, false)			\
	X(zeros_2, false)			\
	X(zeros_3, false)			\
	X(zeros_4, false)			\
	X(device, false)			\
	X(context, false)			\
	X(dead_context, false)			\
	X(memory, false)			\
	X(host_memory, false)			\
	X(vmm, false)				\
	X(pools, false)				\
	X(pointers, false)			\
	X(copies, false)			\
	X(arrays, false)			\
	X(textures, false)			\
	X(code, false)				\
	X(kernels, false)			\
	X(launches, false)			\
	X(streams, false)			\
	X(captures, false)			\
	X(graphs, false)			\
	X(graph_execs, false)			\
	X(zeroed_handles_1, false)		\
	X(zeroed_handles_2, false)		\
	X(foreign_handles_1, false)		\
	X(foreign_handles_2, false)		\
	X(dead_handles_1, false)		\
	X(dead_handles_2, false)		\
	X(after_illegal_address, true)		\
	X(after_trap, true)			\
	X(after_misaligned, true)

#define FIDELITY_DECLARE(name, alone) void group_##name(void);
FIDELITY_GROUPS(FIDELITY_DECLARE)
#undef FIDELITY_DECLARE

/* What a call may write, and how it is printed when it has. */
enum out {
	OUT_PTR,   /* null or nonnull */
	OUT_I32,   /* its value */
	OUT_I64,
	OUT_F32,
	OUT_SOME,  /* that it was written: the value is the machine's */
	OUT_BYTES, /* how many leading bytes were written */
};

/* Slots 0 to 3 of a row; each is printed when the row has named it. */
void *row_out(int slot, enum out kind);
#define PTR(slot) row_out(slot, OUT_PTR)
#define I32(slot) row_out(slot, OUT_I32)
#define I64(slot) row_out(slot, OUT_I64)
#define F32(slot) row_out(slot, OUT_F32)
#define SOME(slot) row_out(slot, OUT_SOME)
#define BYTES(slot) row_out(slot, OUT_BYTES)

/* The driver's function of that name; the group ends where it has none. */
void *row_find(const char *function);
/* The same, but NULL then. */
void *row_look(const char *function);
/* NULL as well when the row is behind us already. */
void *row_begin(const char *function, const char *what);
void row_end(CUresult r);
/* Ends the group unless r is CUDA_SUCCESS. */
void row_need(const char *call, int line, CUresult r);
/* The text of a row that a loop makes; valid until the next call. */
const char *row_text(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* One row: function, case, arguments. */
#define ROW(f, what, ...)						\
	do {								\
		__typeof__(&f) row_f_ = row_begin(#f, what);		\
									\
		if (row_f_ != NULL)					\
			row_end(row_f_(__VA_ARGS__));			\
	} while (0)
/* A call that a group cannot do without; no row of its own. */
#define OK(f, ...)							\
	row_need(#f, __LINE__,						\
		 ((__typeof__(&f))row_find(#f))(__VA_ARGS__))
/* The same, whatever it answers, and where there is no such function. */
#define TRY(f, ...)							\
	do {								\
		__typeof__(&f) try_f_ = row_look(#f);			\
									\
		if (try_f_ != NULL)					\
			try_f_(__VA_ARGS__);				\
	} while (0)

/* What is asked after each row to see whether it left anything behind. */
void row_after_version(void); /* cuDriverGetVersion */
void row_after_current(void); /* cuCtxGetDevice */
void row_after_sync(void);    /* cuCtxSynchronize, set by row_context() */

/* The group goes on when a row, or the group itself, has lost the context;
 * others are started again behind such a row. */
void row_stay(void);

/* cuInit and the primary context of device 0, current. */
CUcontext row_context(void);
CUmodule row_module(void);
CUfunction row_kernel(const char *name);

/*
 * Kernels of row_module(): none(), two(u64, u32), bound(u32) for at most 256
 * threads, store(u64 address, u32 value), trap(). Globals: counter (u32),
 * table (16 bytes of constant memory).
 */
extern const char row_ptx[];

/* Nothing that a driver made: zeros, and a number. */
extern unsigned char row_zeros[65536];
#define ODD ((void *)(uintptr_t)0x1234)

#endif
