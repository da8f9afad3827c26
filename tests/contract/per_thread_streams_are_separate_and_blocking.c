/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CU_STREAM_PER_THREAD is a stream of its own in each thread, does not wait
 * for another thread's, and is ordered with the legacy NULL stream like a
 * blocking stream. A _ptsz call with stream 0 means the same stream.
 */
#include "tests/contract/held.h"

#include <pthread.h>

typedef CUresult (*synchronize_call)(CUstream);

static synchronize_call synchronize_ptsz;

static void *
other_thread(void *arg)
{
	CUstream own = CU_STREAM_PER_THREAD;

	(void)arg;
	OK(drv.cuCtxSetCurrent(drv.ctx));
	CHECK(!held_waits("another thread's", held_launch, &own, false));
	return NULL;
}

static CUresult
by_ptsz(void *arg)
{
	(void)arg;
	return synchronize_ptsz(NULL);
}

int
main(void)
{
	CUstream null = NULL;
	pthread_t thread;

	drv_start();
	synchronize_ptsz =
		(synchronize_call)drv_symbol("cuStreamSynchronize_ptsz");
	drv_empty(NULL);
	OK(drv.cuCtxSynchronize());

	held_start(CU_STREAM_PER_THREAD);
	CHECK(!pthread_create(&thread, NULL, other_thread, NULL));
	pthread_join(thread, NULL);
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(CU_STREAM_PER_THREAD));
	CHECK(held_waits("_ptsz of NULL", by_ptsz, NULL, true));
	EXPECT(CUDA_SUCCESS, drv.cuStreamQuery(CU_STREAM_PER_THREAD));

	held_start(CU_STREAM_PER_THREAD);
	CHECK(held_waits("NULL", held_launch, &null, true));
	test_pass();
}
