/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a fault nothing in the process recovers: not a second context that
 * existed before, not the primary context after a reset, not a new context.
 * A new process works.
 */
#include "tests/contract/drv.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void
expect_dead(const char *what, CUresult rc)
{
	printf("%s: %d\n", what, rc);
	if (rc == CUDA_SUCCESS)
		test_note("%s works after a fault", what);
}

static CUresult
use(void)
{
	CUdeviceptr p;
	CUresult rc = drv.cuMemAlloc(&p, 4096);

	if (!rc)
		rc = drv.cuMemsetD8(p, 1, 4096);
	return rc ? rc : drv.cuCtxSynchronize();
}

static void
faulty_process(void)
{
	uint64_t wild = 0x10;
	uint32_t value = 1;
	void *args[] = { &wild, &value };
	CUcontext second, third;
	CUresult rc;

	drv_start();
	OK(drv.cuCtxCreate(&second, NULL, 0, drv.dev));
	OK(use());
	OK(drv.cuCtxSetCurrent(drv.ctx));
	OK(drv_launch1(drv_kernel(KERNEL_STORE), NULL, args));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, drv.cuCtxSynchronize());
	rc = drv.cuCtxSetCurrent(second);
	expect_dead("the second context", rc ? rc : use());
	drv.cuCtxSetCurrent(drv.ctx);
	printf("cuDevicePrimaryCtxReset: %d\n",
	       drv.cuDevicePrimaryCtxReset(drv.dev));
	rc = drv.cuDevicePrimaryCtxRetain(&drv.ctx, drv.dev);
	if (!rc)
		rc = drv.cuCtxSetCurrent(drv.ctx);
	expect_dead("the primary context after a reset", rc ? rc : use());
	rc = drv.cuCtxCreate(&third, NULL, 0, drv.dev);
	expect_dead("a new context", rc ? rc : use());
	test_pass();
}

static void
fresh_process(void)
{
	drv_start();
	OK(use());
	test_pass();
}

static int
run(void (*process)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		process();
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : TEST_FAIL;
}

int
main(void)
{
	int status = run(faulty_process);

	if (status == TEST_PASS)
		status = run(fresh_process);
	return status;
}
