/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With CUDA_DEVICE_MAX_CONNECTIONS=32, streams that each hold a running
 * kernel and one more launch queued behind it block a neighbour's launch
 * from 32 such streams on; fewer do not. With nothing queued behind the
 * running kernels nobody is blocked, however many there are. With an event
 * record queued in each nobody is on an H200 (64 streams: 0.04 ms); that is
 * printed, as a client of the broker may see its own streams wait there.
 */
#include "tests/contract/drv.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	KERNEL_MS = 200,
	STREAMS = 64,
};

enum queued { NOTHING, LAUNCH, RECORD };

static const char *const text[] = {
	[NOTHING] = "nothing queued",
	[LAUNCH] = "one launch queued in each",
	[RECORD] = "one event record queued in each",
};

static CUstream stream[STREAMS], neighbour;
static CUevent event[STREAMS];

/* How long the neighbour's launch takes beside count busy streams. */
static double
latency_ms(int count, enum queued queued)
{
	double begin, took;
	int i;

	for (i = 0; i < count; i++) {
		drv_spin(stream[i], KERNEL_MS);
		if (queued == LAUNCH)
			drv_empty(stream[i]);
		if (queued == RECORD)
			OK(drv.cuEventRecord(event[i], stream[i]));
	}
	test_sleep_ms(3);
	begin = test_ms();
	drv_empty(neighbour);
	OK(drv.cuStreamSynchronize(neighbour));
	took = test_ms() - begin;
	OK(drv.cuCtxSynchronize());
	printf("%d streams, %s: neighbour %.2f ms\n", count, text[queued],
	       took);
	return took;
}

int
main(void)
{
	int i;

	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	drv_start();
	for (i = 0; i < STREAMS; i++)
		OK(drv.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	for (i = 0; i < STREAMS; i++)
		OK(drv.cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
	OK(drv.cuStreamCreate(&neighbour, CU_STREAM_NON_BLOCKING));
	for (i = 0; i < STREAMS; i++) {
		drv_spin(stream[i], 0);
		drv_empty(stream[i]);
	}
	drv_empty(neighbour);
	OK(drv.cuCtxSynchronize());
	CHECK(latency_ms(0, LAUNCH) < KERNEL_MS / 4);
	CHECK(latency_ms(24, LAUNCH) < KERNEL_MS / 4);
	latency_ms(31, LAUNCH);
	latency_ms(32, LAUNCH);
	CHECK(latency_ms(STREAMS, LAUNCH) > KERNEL_MS / 2);
	CHECK(latency_ms(24, NOTHING) < KERNEL_MS / 4);
	CHECK(latency_ms(STREAMS, NOTHING) < KERNEL_MS / 4);
	latency_ms(31, RECORD);
	latency_ms(STREAMS, RECORD);
	test_pass();
}
