/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the groups of micro's benchmarks share.
 * For micro.c and its groups only.
 */
#ifndef TESTS_BENCH_MICRO_H
#define TESTS_BENCH_MICRO_H

#include <cuda.h>
#include <stddef.h>

struct micro {
	CUmodule module;
	CUfunction empty, with4, with20;
	CUstream stream;
	CUevent event;
	CUdevice device;
	size_t largest_copy;
};

extern struct micro micro;

/* Benchmarks of micro_call.c, micro_copy.c and micro_load.c. */
void micro_launch(void);
void micro_local(void);
void micro_wait(void);
void micro_event(void);
void micro_alloc(void);
void micro_copy(void);
void micro_load(void);

#endif
