/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The legacy NULL stream waits for the work of blocking streams and they
 * wait for it. A NON_BLOCKING stream and the NULL stream do not wait for
 * each other.
 */
#include "tests/contract/held.h"

static bool
waits(const char *what, CUstream busy, CUstream asked, bool expected)
{
	bool waited;

	held_start(busy);
	waited = held_waits(what, held_launch, &asked, expected);
	held_end();
	OK(drv.cuCtxSynchronize());
	return waited;
}

int
main(void)
{
	CUstream blocking, free_stream;
	unsigned flags = 9;

	drv_start();
	OK(drv.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(drv.cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamGetFlags(blocking, &flags));
	CHECK(flags == CU_STREAM_DEFAULT);
	OK(drv.cuStreamGetFlags(free_stream, &flags));
	CHECK(flags == CU_STREAM_NON_BLOCKING);
	drv_empty(NULL);
	OK(drv.cuCtxSynchronize());

	CHECK(waits("NULL behind blocking", blocking, NULL, true));
	CHECK(waits("blocking behind NULL", NULL, blocking, true));
	CHECK(waits("blocking behind legacy", CU_STREAM_LEGACY, blocking,
		    true));
	CHECK(!waits("NULL, non-blocking", free_stream, NULL, false));
	CHECK(!waits("non-blocking, NULL", NULL, free_stream, false));
	test_pass();
}
