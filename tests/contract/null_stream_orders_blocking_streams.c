/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The legacy NULL stream waits for the work of blocking streams and they
 * wait for it. A NON_BLOCKING stream and the NULL stream do not wait for
 * each other.
 */
#include "tests/contract/drv.h"

#include <stdio.h>

enum {
	KERNEL_MS = 200,
};

static double
behind(CUstream busy, CUstream asked)
{
	double begin = test_ms();

	drv_spin(busy, KERNEL_MS);
	drv_empty(asked);
	OK(drv.cuStreamSynchronize(asked));
	begin = test_ms() - begin;
	OK(drv.cuCtxSynchronize());
	return begin;
}

int
main(void)
{
	CUstream blocking, free_stream;
	unsigned flags = 9;
	double ms;

	drv_start();
	OK(drv.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(drv.cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamGetFlags(blocking, &flags));
	CHECK(flags == CU_STREAM_DEFAULT);
	OK(drv.cuStreamGetFlags(free_stream, &flags));
	CHECK(flags == CU_STREAM_NON_BLOCKING);
	drv_spin(NULL, 0);
	drv_empty(NULL);
	OK(drv.cuCtxSynchronize());

	ms = behind(blocking, NULL);
	printf("NULL behind blocking: %.1f ms\n", ms);
	CHECK(ms > KERNEL_MS * 0.7);
	ms = behind(NULL, blocking);
	printf("blocking behind NULL: %.1f ms\n", ms);
	CHECK(ms > KERNEL_MS * 0.7);
	ms = behind(CU_STREAM_LEGACY, blocking);
	CHECK(ms > KERNEL_MS * 0.7);
	ms = behind(free_stream, NULL);
	printf("NULL behind non-blocking: %.1f ms\n", ms);
	CHECK(ms < KERNEL_MS * 0.4);
	ms = behind(NULL, free_stream);
	printf("non-blocking behind NULL: %.1f ms\n", ms);
	CHECK(ms < KERNEL_MS * 0.4);
	test_pass();
}
