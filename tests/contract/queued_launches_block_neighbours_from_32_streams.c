/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With CUDA_DEVICE_MAX_CONNECTIONS=32, streams that each hold a running
 * kernel and one more launch queued behind it block a neighbour's launch
 * from 32 such streams on; fewer do not. With nothing queued behind the
 * running kernels nobody is blocked, however many there are. With an event
 * record queued in each nobody is on an H200 (64 streams: 0.04 ms); that is
 * printed, as a client of the broker may see its own streams wait there.
 */
#include "tests/contract/held.h"

#include <stdio.h>
#include <stdlib.h>

enum {
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

/* Does the neighbour's launch wait beside count busy streams? */
static bool
waits(int count, enum queued queued, bool expected)
{
	char what[80];
	bool waited;
	int i;

	for (i = 0; i < count; i++) {
		held_start(stream[i]);
		if (queued == LAUNCH)
			drv_empty(stream[i]);
		if (queued == RECORD)
			OK(drv.cuEventRecord(event[i], stream[i]));
	}
	test_sleep_ms(3);
	snprintf(what, sizeof(what), "%d streams, %s: neighbour", count,
		 text[queued]);
	waited = held_waits(what, held_launch, &neighbour, expected);
	held_end();
	OK(drv.cuCtxSynchronize());
	return waited;
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
		held_start(stream[i]);
		held_end();
		drv_empty(stream[i]);
	}
	drv_empty(neighbour);
	OK(drv.cuCtxSynchronize());
	CHECK(!waits(0, LAUNCH, false));
	CHECK(!waits(24, LAUNCH, false));
	/* Either way; they end after a while. */
	waits(31, LAUNCH, true);
	waits(32, LAUNCH, true);
	CHECK(waits(STREAMS, LAUNCH, true));
	CHECK(!waits(24, NOTHING, false));
	CHECK(!waits(STREAMS, NOTHING, false));
	waits(31, RECORD, true);
	waits(STREAMS, RECORD, true);
	test_pass();
}
