/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CU_STREAM_PER_THREAD is a stream of its own in each thread, does not wait
 * for another thread's, and is ordered with the legacy NULL stream like a
 * blocking stream. A _ptsz call with stream 0 means the same stream.
 */
#include "tests/contract/drv.h"

#include <pthread.h>
#include <stdio.h>

enum {
	KERNEL_MS = 300,
};

typedef CUresult (*synchronize_call)(CUstream);

static double other_ms;

static void *
other_thread(void *arg)
{
	double begin;

	(void)arg;
	OK(drv.cuCtxSetCurrent(drv.ctx));
	begin = test_ms();
	drv_empty(CU_STREAM_PER_THREAD);
	OK(drv.cuStreamSynchronize(CU_STREAM_PER_THREAD));
	other_ms = test_ms() - begin;
	return NULL;
}

int
main(void)
{
	synchronize_call synchronize_ptsz;
	pthread_t thread;
	double begin;

	drv_start();
	synchronize_ptsz =
		(synchronize_call)drv_symbol("cuStreamSynchronize_ptsz");
	drv_spin(CU_STREAM_PER_THREAD, 0);
	drv_empty(NULL);
	OK(drv.cuCtxSynchronize());

	begin = test_ms();
	drv_spin(CU_STREAM_PER_THREAD, KERNEL_MS);
	CHECK(!pthread_create(&thread, NULL, other_thread, NULL));
	pthread_join(thread, NULL);
	printf("another thread's: %.1f ms\n", other_ms);
	CHECK(other_ms < KERNEL_MS * 0.4);
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(CU_STREAM_PER_THREAD));
	OK(synchronize_ptsz(NULL));
	CHECK(test_ms() - begin > KERNEL_MS * 0.7);
	EXPECT(CUDA_SUCCESS, drv.cuStreamQuery(CU_STREAM_PER_THREAD));

	begin = test_ms();
	drv_spin(CU_STREAM_PER_THREAD, KERNEL_MS);
	drv_empty(NULL);
	OK(drv.cuStreamSynchronize(NULL));
	printf("NULL behind it: %.1f ms\n", test_ms() - begin);
	CHECK(test_ms() - begin > KERNEL_MS * 0.7);
	test_pass();
}
