/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs beside the one that is looked at have in common.
 * Included by beside.c and loader.c.
 */
#ifndef TESTS_GPU_STALL_H
#define TESTS_GPU_STALL_H

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Success, or the program ends. */
#define OK(call) ok(#call, call)
static inline void
ok(const char *call, CUresult r)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s gives %d\n", call, (int)r);
	exit(1);
}

/* CLOCK_MONOTONIC. */
static inline uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
