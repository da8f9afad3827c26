/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/contract/held.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic uint32_t *words;
static CUdeviceptr words_device;
static CUfunction hold;
static unsigned next;
static _Atomic bool let_go;

static void
launch(CUstream stream, unsigned word)
{
	uint64_t at = words_device + 4 * word;
	uint64_t limit_ns = HELD_LIMIT_MS * UINT64_C(1000000);
	void *args[] = { &at, &limit_ns };

	OK(drv_launch1(hold, stream, args));
}

static void
prepare(CUstream stream)
{
	void *host;

	hold = drv_kernel(KERNEL_HOLD);
	OK(drv.cuMemHostAlloc(&host, HELD_WORDS * 4,
			      CU_MEMHOSTALLOC_DEVICEMAP));
	OK(drv.cuMemHostGetDevicePointer(&words_device, host, 0));
	words = host;
	atomic_store(&words[0], 1);
	launch(stream, 0);
	OK(drv.cuStreamSynchronize(stream));
	atomic_store(&words[0], 0);
}

void
held_start(CUstream stream)
{
	if (!words)
		prepare(stream);
	/* Of the last turn, whose kernels have ended. */
	if (atomic_exchange(&let_go, false))
		next = 0;
	if (next == HELD_WORDS)
		test_fail("more than %d kernels held", HELD_WORDS);
	atomic_store(&words[next], 0);
	launch(stream, next++);
}

void
held_end(void)
{
	for (unsigned i = 0; i < next; i++)
		atomic_store(&words[i], 1);
	atomic_store(&let_go, true);
}

static void *
releaser(void *arg)
{
	(void)arg;
	test_sleep_ms(HELD_WHILE_MS);
	held_end();
	return NULL;
}

bool
held_waits(const char *what, held_call call, void *arg, bool expected)
{
	double begin = test_ms(), took;
	pthread_t thread;
	CUresult rc;
	bool waited;

	if (expected && pthread_create(&thread, NULL, releaser, NULL))
		test_fail("no thread");
	rc = call(arg);
	took = test_ms() - begin;
	waited = expected ? atomic_load(&let_go) : took > HELD_PATIENCE_MS;
	if (expected)
		pthread_join(thread, NULL);
	printf("%s: %.2f ms, %s the kernel\n", what, took,
	       waited ? "behind" : "beside");
	if (rc)
		test_note("%s gave %d", what, (int)rc);
	return waited;
}

CUresult
held_launch(void *stream)
{
	drv_empty(*(CUstream *)stream);
	return drv.cuStreamSynchronize(*(CUstream *)stream);
}
