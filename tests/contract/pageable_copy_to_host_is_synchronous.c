/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemcpyDtoHAsync into pageable memory returns when the data are there,
 * also behind a kernel that runs; into pinned memory it returns at once.
 */
#include "tests/contract/held.h"

enum {
	SIZE = 64 << 10,
};

static unsigned char pageable[SIZE];

static CUdeviceptr device;
static CUstream stream;

static CUresult
copy(void *to)
{
	return drv.cuMemcpyDtoHAsync(to, device, SIZE, stream);
}

int
main(void)
{
	unsigned char *pinned;
	void *host;

	drv_start();
	OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuMemAlloc(&device, SIZE));
	OK(drv.cuMemHostAlloc(&host, SIZE, 0));
	pinned = host;
	pinned[SIZE - 1] = 0;
	OK(drv.cuMemsetD8(device, 9, SIZE));
	OK(drv.cuCtxSynchronize());
	held_start(stream);
	CHECK(held_waits("pageable", copy, pageable, true));
	CHECK(pageable[SIZE - 1] == 9);
	OK(drv.cuStreamSynchronize(stream));
	held_start(stream);
	CHECK(!held_waits("pinned", copy, pinned, false));
	CHECK(pinned[SIZE - 1] == 0);
	held_end();
	OK(drv.cuStreamSynchronize(stream));
	CHECK(pinned[SIZE - 1] == 9);
	test_pass();
}
