/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuStreamCreate, cuStreamDestroy and all event calls neither wait for a
 * neighbour's kernel nor stall others' launches.
 */
#include "tests/contract/neighbour.h"

static CUstream stream;
static CUevent event;

static CUresult
stream_life(void *arg)
{
	CUresult rc;

	(void)arg;
	rc = drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	return rc ? rc : drv.cuStreamDestroy(stream);
}

static CUresult
event_life(void *arg)
{
	CUresult rc;

	(void)arg;
	rc = drv.cuEventCreate(&event, CU_EVENT_DEFAULT);
	if (!rc)
		rc = drv.cuEventRecord(event, neighbour_own_stream);
	if (!rc)
		rc = drv.cuEventSynchronize(event);
	return rc ? rc : drv.cuEventDestroy(event);
}

int
main(void)
{
	neighbour_start();
	neighbour_expect("cuStreamCreate, cuStreamDestroy", stream_life, NULL,
			 false, false);
	neighbour_expect("event calls", event_life, NULL, false, false);
	test_pass();
}
