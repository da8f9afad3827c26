/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and memsets on a stream of one's own neither wait for a
 * neighbour's kernel nor stall others' launches, from pageable memory too.
 */
#include "tests/contract/neighbour.h"

enum {
	SIZE = 1 << 16,
};

static CUdeviceptr device;
static char host[SIZE];

static CUresult
copies(void *arg)
{
	CUstream s = neighbour_own_stream;
	CUresult rc;

	(void)arg;
	rc = drv.cuMemcpyHtoDAsync(device, host, SIZE, s);
	if (!rc)
		rc = drv.cuMemsetD8Async(device, 7, SIZE / 2, s);
	if (!rc)
		rc = drv.cuMemcpyDtoDAsync(device + SIZE / 2, device,
					   SIZE / 2, s);
	if (!rc)
		rc = drv.cuMemcpyDtoHAsync(host, device, SIZE, s);
	return rc ? rc : drv.cuStreamSynchronize(s);
}

int
main(void)
{
	neighbour_start();
	OK(drv.cuMemAlloc(&device, SIZE));
	OK(copies(NULL));
	neighbour_expect("copies and a memset", copies, NULL, false, false);
	CHECK(host[SIZE - 1] == 7);
	test_pass();
}
