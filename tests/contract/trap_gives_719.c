/* SPDX-License-Identifier: Apache-2.0 */
/* trap in a kernel gives 719, sticky. */
#include "tests/contract/drv.h"

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry wrong(.param .u64 at)\n{\n"
	"	trap;\n	ret;\n}\n";

int
main(void)
{
	CUfunction wrong;
	CUdeviceptr p, q;
	void *args[] = { &p };

	drv_start();
	OK(drv.cuMemAlloc(&p, 4096));
	OK(drv.cuModuleGetFunction(&wrong, drv_load(image), "wrong"));
	OK(drv_launch1(wrong, NULL, args));
	EXPECT(CUDA_ERROR_LAUNCH_FAILED, drv.cuCtxSynchronize());
	EXPECT(CUDA_ERROR_LAUNCH_FAILED, drv.cuMemAlloc(&q, 4096));
	test_pass();
}
