/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDevSmResourceSplitByCount makes as many equal groups as asked for, each
 * of at least minCount multiprocessors, at least the least partition, in
 * steps of the alignment; what is over is the remainder. A descriptor takes
 * parts of one split only. A green context knows its own multiprocessors and
 * lets its streams die with it.
 */
#include "tests/contract/drv.h"

#include <stdio.h>

static CUdevResource sms;

static void
groups_print(unsigned flags, unsigned least)
{
	unsigned groups = 0;
	CUresult rc = drv.cuDevSmResourceSplitByCount(NULL, &groups, &sms,
						      NULL, flags, least);

	printf("flags %u, minCount %u: %d, %u groups\n", flags, least, rc,
	       groups);
}

static unsigned
size_of(unsigned least)
{
	const CUdevSmResource *all = &sms.sm;
	unsigned size = least < all->minSmPartitionSize ?
			all->minSmPartitionSize : least;

	return (size + all->smCoscheduledAlignment - 1) /
	       all->smCoscheduledAlignment * all->smCoscheduledAlignment;
}

/* Of one group, as far as the device has so many. */
static void
split_check(unsigned least)
{
	unsigned groups = 1, size = size_of(least);
	CUdevResource part, rest;

	if (size > sms.sm.smCount)
		return;
	OK(drv.cuDevSmResourceSplitByCount(&part, &groups, &sms, &rest, 0,
					   least));
	printf("minCount %u: %u multiprocessors, %u over\n", least,
	       part.sm.smCount, rest.sm.smCount);
	CHECK(groups == 1);
	CHECK(part.sm.smCount == size);
	CHECK(rest.sm.smCount == sms.sm.smCount - size);
}

static void
descriptors_check(CUdevResource *part)
{
	CUdevResource other, mixed[2], got;
	CUdevResourceDesc desc;
	unsigned groups = 1;
	CUgreenCtx green;
	CUstream stream;

	OK(drv.cuDevSmResourceSplitByCount(&other, &groups, &sms, NULL, 0,
					   0));
	mixed[0] = *part;
	mixed[1] = other;
	/* Of two splits, and the same multiprocessors. */
	OK(drv.cuDevResourceGenerateDesc(&desc, mixed, 2));
	OK(drv.cuDevResourceGenerateDesc(&desc, part, 1));
	OK(drv.cuGreenCtxCreate(&green, desc, drv.dev,
				CU_GREEN_CTX_DEFAULT_STREAM));
	OK(drv.cuGreenCtxGetDevResource(green, &got,
					CU_DEV_RESOURCE_TYPE_SM));
	CHECK(got.sm.smCount == part->sm.smCount);
	OK(drv.cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING,
				      0));
	drv_empty(stream);
	OK(drv.cuStreamSynchronize(stream));
	OK(drv.cuGreenCtxDestroy(green));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED,
	       drv.cuStreamSynchronize(stream));
}

int
main(void)
{
	static const unsigned least[] = { 0, 1, 8, 9, 16, 66, 128, 130 };
	CUdevResource part, again;
	unsigned groups = 1, i;

	drv_start();
	drv_empty(NULL);
	OK(drv.cuDeviceGetDevResource(drv.dev, &sms,
				      CU_DEV_RESOURCE_TYPE_SM));
	printf("%u multiprocessors, at least %u, in steps of %u\n",
	       sms.sm.smCount, sms.sm.minSmPartitionSize,
	       sms.sm.smCoscheduledAlignment);
	for (i = 0; i < sizeof(least) / sizeof(least[0]); i++) {
		groups_print(0, least[i]);
		groups_print(CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING,
			     least[i]);
		split_check(least[i]);
	}
	EXPECT(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
	       drv.cuDevSmResourceSplitByCount(&part, &groups, &sms, NULL, 0,
					       sms.sm.smCount + 1));
	groups = 1;
	OK(drv.cuDevSmResourceSplitByCount(&part, &groups, &sms, NULL, 0, 0));
	groups = 1;
	printf("a part split again: %d\n",
	       drv.cuDevSmResourceSplitByCount(&again, &groups, &part, NULL,
					       0, 0));
	descriptors_check(&part);
	test_pass();
}
