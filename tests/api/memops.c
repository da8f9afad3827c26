/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream memory operations: values written in the order of a stream, waits
 * for values that the host, another stream or a fill brings, batches, and
 * what is refused. With the word "hold", waits until it is killed.
 */
#include <string.h>
#include <unistd.h>

#include "tests/api/words.h"

static void
writes(void)
{
	printf("     writes\n");
	clear();
	OK(cuStreamWriteValue32(a, word(1), 77, 0));
	OK(cuStreamWriteValue64(a, word(2), UINT64_C(0x1234567890), 0));
	OK(cuStreamWriteValue64(a, pinned_address + 8, UINT64_MAX - 1, 0));
	OK(cuStreamSynchronize(a));
	fact_is(0, (long)peek(word(0), 4), "nothing before it");
	fact_is(77, (long)peek(word(1), 4), "32 bits");
	fact_is(0x1234567890, (long)peek(word(2), 8), "64 bits");
	fact("to the host's memory", *(volatile uint64_t *)(pinned + 2) ==
	     UINT64_MAX - 1);
}

/* The stream waits until somebody makes the value good. */
static void
held(const char *text, CUdeviceptr address, uint32_t good, unsigned flags,
     uint32_t want)
{
	clear();
	OK(cuStreamWaitValue32(a, address, want, flags));
	OK(cuStreamWriteValue32(a, word(8), 1, 0));
	fact_is(CUDA_ERROR_NOT_READY, cuStreamQuery(a), text);
	fact_is(0, (long)peek(word(8), 4), "  what comes after waits");
	if (address == pinned_address)
		*pinned = good;
	else
		OK(cuMemsetD32Async(address, good, 1, b));
	OK(cuStreamSynchronize(a));
	fact_is(1, (long)peek(word(8), 4), "  and then not");
}

static void
waits(void)
{
	printf("     waits\n");
	held("for the host, until at least", pinned_address, 7,
	     CU_STREAM_WAIT_VALUE_GEQ, 5);
	held("until equal", pinned_address, 5, CU_STREAM_WAIT_VALUE_EQ, 5);
	held("until a bit is set", pinned_address, 6, CU_STREAM_WAIT_VALUE_AND,
	     4);
	held("for the device's memory", word(0), 9, CU_STREAM_WAIT_VALUE_EQ,
	     9);
	clear();
	OK(cuStreamWaitValue32(a, pinned_address, 0,
			       CU_STREAM_WAIT_VALUE_NOR));
	OK(cuStreamSynchronize(a));
	fact("until a bit is in neither", true);
}

/* Streams in turn, each by what the other writes. */
static void
turns(void)
{
	printf("     in turn\n");
	clear();
	for (uint32_t i = 1; i <= 20; i++) {
		OK(cuStreamWaitValue64(a, word(2), i - 1,
				       CU_STREAM_WAIT_VALUE_GEQ));
		OK(cuStreamWriteValue32(a, word(0), i, 0));
		OK(cuStreamWaitValue32(b, word(0), i,
				       CU_STREAM_WAIT_VALUE_GEQ));
		OK(cuStreamWriteValue64(b, word(2), i, 0));
	}
	OK(cuStreamSynchronize(a));
	OK(cuStreamSynchronize(b));
	fact_is(20, (long)peek(word(2), 8), "both come to an end");
	/* Once only: the same value, used up in between. */
	clear();
	OK(cuStreamWriteValue32(a, word(0), 1, 0));
	OK(cuStreamWaitValue32(a, word(0), 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWriteValue32(a, word(0), 0, 0));
	OK(cuStreamWriteValue32(a, word(9), 1, 0));
	OK(cuStreamWaitValue32(a, word(0), 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWriteValue32(a, word(8), 1, 0));
	while (peek(word(9), 4) == 0)
		usleep(1000);
	fact_is(0, (long)peek(word(8), 4), "a value is looked at in its turn");
	OK(cuStreamWriteValue32(b, word(0), 1, 0));
	OK(cuStreamSynchronize(a));
	fact_is(1, (long)peek(word(8), 4), "then it is good");
}

static void
batch(void)
{
	CUstreamBatchMemOpParams p[4];

	printf("     a batch\n");
	clear();
	memset(p, 0, sizeof(p));
	p[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	p[0].writeValue.address = word(0);
	p[0].writeValue.value = 3;
	p[1].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
	p[2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	p[2].waitValue.address = word(0);
	p[2].waitValue.value = 3;
	p[2].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	p[3].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	p[3].writeValue.address = word(2);
	p[3].writeValue.value64 = 4;
	OK(cuStreamBatchMemOp(a, 4, p, 0));
	OK(cuStreamSynchronize(a));
	fact_is(4, (long)peek(word(2), 8), "all of it");
	told("none", cuStreamBatchMemOp(a, 0, p, 0));
	told("too many", cuStreamBatchMemOp(a, 257, p, 0));
	told("flags", cuStreamBatchMemOp(a, 1, p, 1));
	p[0].operation = (CUstreamBatchMemOpType)99;
	told("an operation that there is not", cuStreamBatchMemOp(a, 1, p, 0));
}

static void
refused(void)
{
	int value = 0;
	CUdevice device;

	printf("     refused\n");
	OK(cuCtxGetDevice(&device));
	OK(cuDeviceGetAttribute(&value,
		CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device));
	fact_is(1, value, "64 bits are said to be there");
	OK(cuDeviceGetAttribute(&value,
		CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, device));
	fact_is(1, value, "and waits for a clear bit");
	told("between two words", cuStreamWriteValue32(a, word(0) + 2, 1, 0));
	told("64 bits at a word", cuStreamWriteValue64(a, word(1), 1, 0));
	told("nowhere", cuStreamWriteValue32(a, 0, 1, 0));
	told("a wait there", cuStreamWaitValue32(a, 0, 1, 0));
	told("flags of a write", cuStreamWriteValue32(a, word(0), 1, 16));
	told("a write without a barrier",
	     cuStreamWriteValue32(a, word(0), 1,
				  CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	told("64 bits of it",
	     cuStreamWriteValue64(a, word(0), 1,
				  CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	told("flags of a wait", cuStreamWaitValue32(a, word(0), 1, 16));
	OK(cuStreamSynchronize(a));
}

int
main(int argc, char **argv)
{
	(void)argv;
	words_begin();
	setvbuf(stdout, NULL, _IOLBF, 0);
	clear();
	if (argc > 1) {
		OK(cuStreamWaitValue32(a, word(0), 1,
				       CU_STREAM_WAIT_VALUE_EQ));
		OK(cuStreamWaitValue32(b, pinned_address, 1,
				       CU_STREAM_WAIT_VALUE_EQ));
		printf("held\n");
		fflush(stdout);
		pause();
	}
	writes();
	waits();
	turns();
	batch();
	refused();
	OK(cuCtxSynchronize());
	return facts_end();
}
