/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream behind a long kernel accepts 1,022 launches; the next one blocks
 * in the driver until there is room. Other threads' launches on other
 * streams go on meanwhile.
 */
#include "tests/contract/held.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
	FLOW = 20,
	AT_LEAST = 1000,
	AT_MOST = 1030,
};

static _Atomic int accepted;
static CUstream full, other;

static void *
fill(void *arg)
{
	(void)arg;
	OK(drv.cuCtxSetCurrent(drv.ctx));
	while (atomic_load(&accepted) < 2 * AT_MOST) {
		drv_empty(full);
		atomic_fetch_add(&accepted, 1);
	}
	return NULL;
}

/* What it has got through once it gets no further. */
static int
come_to_block(void)
{
	double moved = test_ms();
	int seen = 0;

	while (!seen || test_ms() - moved < HELD_WHILE_MS) {
		test_sleep_ms(5);
		if (atomic_load(&accepted) == seen)
			continue;
		seen = atomic_load(&accepted);
		moved = test_ms();
	}
	return seen;
}

int
main(void)
{
	pthread_t thread;
	int blocked_at;

	drv_start();
	OK(drv.cuStreamCreate(&full, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	drv_empty(other);
	held_start(full);
	drv_empty(full);
	held_end();
	OK(drv.cuStreamSynchronize(full));
	held_start(full);
	CHECK(!pthread_create(&thread, NULL, fill, NULL));
	blocked_at = come_to_block();
	/* For as long as it takes. */
	for (int i = 0; i < FLOW; i++)
		OK(held_launch(&other));
	printf("%d launches accepted, then %d of another thread\n",
	       blocked_at, FLOW);
	CHECK(blocked_at >= AT_LEAST);
	CHECK(blocked_at <= AT_MOST);
	CHECK(atomic_load(&accepted) == blocked_at);
	held_end();
	pthread_join(thread, NULL);
	OK(drv.cuStreamSynchronize(full));
	test_pass();
}
