/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuStreamWriteValue64 is ordered behind what its stream did before: a
 * reader that sees the word sees all data of a kernel's stores, of a copy
 * engine's DtoH, and of another stream joined by an event. Many rounds; each
 * looks at the whole block right after the word.
 */
#include "tests/contract/drv.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

enum {
	WORDS = 16384,        /* 64 KiB a round */
	ROUNDS = 3000,
	LIMIT_MS = 8000,      /* of all rounds */
};

static CUstream stream, joined;
static CUevent event;
static CUdeviceptr device, mapped_device, word_device;
static volatile uint32_t *mapped;
static _Atomic uint64_t *word;
static CUfunction fill;

static void
launch_fill(CUstream s, CUdeviceptr at, uint32_t value)
{
	uint32_t count = WORDS;
	void *args[] = { &at, &value, &count };

	OK(drv.cuLaunchKernel(fill, 4, 1, 1, 256, 1, 1, 0, s, args, NULL));
}

static void
issue(int kind, uint32_t value)
{
	if (kind == 0) {
		launch_fill(stream, mapped_device, value);
	} else if (kind == 1) {
		OK(drv.cuMemsetD32Async(device, value, WORDS, stream));
		OK(drv.cuMemcpyDtoHAsync((void *)mapped, device, WORDS * 4,
					 stream));
	} else {
		launch_fill(joined, mapped_device, value);
		OK(drv.cuEventRecord(event, joined));
		OK(drv.cuStreamWaitEvent(stream, event, 0));
	}
}

/* The number of words that are not there when the completion word is. */
static int
round_run(int kind, uint32_t value)
{
	double begin = test_ms();
	int missing = 0, i;

	issue(kind, value);
	OK(drv.cuStreamWriteValue64(stream, word_device, value,
				    CU_STREAM_WRITE_VALUE_DEFAULT));
	while (atomic_load_explicit(word, memory_order_acquire) < value) {
		if (test_ms() - begin > 5000)
			test_fail("round %u: no word", value);
	}
	for (i = 0; i < WORDS; i++)
		missing += mapped[i] != value;
	return missing;
}

int
main(void)
{
	static const char *const name[] = {
		"kernel stores", "copy to host", "another stream",
	};
	double begin;
	uint32_t value;
	void *host;
	int attribute = 0;

	drv_start();
	OK(drv.cuDeviceGetAttribute(&attribute,
		CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, drv.dev));
	CHECK(attribute == 1);
	fill = drv_kernel(KERNEL_FILL);
	OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(drv.cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
	OK(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(drv.cuMemAlloc(&device, WORDS * 4));
	host = mmap(NULL, WORDS * 4 + 4096, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(host != MAP_FAILED);
	OK(drv.cuMemHostRegister(host, WORDS * 4 + 4096,
				 CU_MEMHOSTREGISTER_DEVICEMAP));
	OK(drv.cuMemHostGetDevicePointer(&mapped_device, host, 0));
	mapped = host;
	word = (_Atomic uint64_t *)(void *)((char *)host + WORDS * 4);
	word_device = mapped_device + WORDS * 4;
	begin = test_ms();
	for (value = 1; value <= ROUNDS; value++) {
		int missing = round_run((int)value % 3, value);

		if (missing)
			test_fail("round %u (%s): %d of %d words were not "
				  "there when the completion word was",
				  value, name[value % 3], missing, WORDS);
		if (test_ms() - begin > LIMIT_MS)
			break;
	}
	printf("%u rounds in %.0f ms\n", value - (value > ROUNDS),
	       test_ms() - begin);
	test_pass();
}
