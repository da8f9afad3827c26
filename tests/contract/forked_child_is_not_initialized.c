/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a child forked after cuInit the driver is not usable: calls give 3,
 * cuInit too. The parent goes on.
 */
#include "tests/contract/drv.h"

#include <sys/wait.h>
#include <unistd.h>

int
main(void)
{
	CUdeviceptr p;
	int status = 0;
	pid_t pid;

	drv_start();
	OK(drv.cuMemAlloc(&p, 4096));
	pid = fork();
	if (pid == 0) {
		EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuMemAlloc(&p, 4096));
		EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuCtxSynchronize());
		EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuInit(0));
		test_pass();
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == TEST_PASS);
	OK(drv.cuMemFree(p));
	test_pass();
}
