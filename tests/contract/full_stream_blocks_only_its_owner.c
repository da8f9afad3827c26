/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream behind a long kernel accepts 1,022 launches; the next one blocks
 * in the driver until there is room. Other threads' launches on other
 * streams go on meanwhile.
 */
#include "tests/contract/drv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
	KERNEL_MS = 1500,
	BLOCKED_MS = 300,
	AT_LEAST = 1000,
	AT_MOST = 1030,
};

static _Atomic int accepted = -1; /* launches before the one that blocked */
static _Atomic int done;
static CUstream full, other;

static void *
fill(void *arg)
{
	int i;

	(void)arg;
	OK(drv.cuCtxSetCurrent(drv.ctx));
	for (i = 0; i < 2 * AT_MOST; i++) {
		double begin = test_ms();

		drv_empty(full);
		if (test_ms() - begin > BLOCKED_MS) {
			atomic_store(&accepted, i);
			break;
		}
	}
	atomic_store(&done, 1);
	return NULL;
}

int
main(void)
{
	double longest = 0;
	pthread_t thread;
	int others = 0;

	drv_start();
	OK(drv.cuStreamCreate(&full, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	drv_spin(full, 1);
	drv_empty(full);
	OK(drv.cuStreamSynchronize(full));
	drv_spin(full, KERNEL_MS);
	CHECK(!pthread_create(&thread, NULL, fill, NULL));
	while (!atomic_load(&done)) {
		double begin = test_ms(), took;

		drv_empty(other);
		OK(drv.cuStreamSynchronize(other));
		took = test_ms() - begin;
		if (took > longest)
			longest = took;
		others++;
		test_sleep_ms(1);
	}
	pthread_join(thread, NULL);
	printf("%d launches accepted; meanwhile %d launches of another "
	       "thread, the longest %.1f ms\n", atomic_load(&accepted),
	       others, longest);
	CHECK(atomic_load(&accepted) >= AT_LEAST);
	CHECK(atomic_load(&accepted) <= AT_MOST);
	CHECK(longest < BLOCKED_MS);
	test_pass();
}
