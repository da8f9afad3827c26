/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps: what they are is the driver's secret, so a program prints their
 * bytes, which are to be the same under mpsrun as without.
 */
#include <string.h>

#include "tests/api/facts.h"

/* The software device has none of these. */
#pragma weak cuTensorMapEncodeTiled
#pragma weak cuTensorMapEncodeIm2col
#pragma weak cuTensorMapReplaceAddress

static void
show(const char *text, const CUtensorMap *map)
{
	printf("     %s:", text);
	for (unsigned int i = 0; i < 16; i++)
		printf(" %llx", (unsigned long long)map->opaque[i]);
	putchar('\n');
}

static CUresult
tiled(CUtensorMap *map, uint64_t address, cuuint32_t rank, cuuint32_t box0)
{
	cuuint64_t dims[5] = { 256, 128, 16, 4, 2 };
	cuuint64_t strides[4] = { 512, 65536, 1 << 20, 1 << 22 };
	cuuint32_t box[5] = { box0, 16, 2, 1, 1 }, steps[5] = { 1, 1, 1, 1, 1 };

	return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
				      rank, (void *)(uintptr_t)address, dims,
				      strides, box, steps,
				      CU_TENSOR_MAP_INTERLEAVE_NONE,
				      CU_TENSOR_MAP_SWIZZLE_128B,
				      CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
				      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void
im2col(CUtensorMap *map)
{
	cuuint64_t dims[4] = { 64, 32, 32, 8 };
	cuuint64_t strides[3] = { 128, 4096, 131072 };
	int lower[2] = { -1, -1 }, upper[2] = { -1, -1 };
	cuuint32_t steps[4] = { 1, 1, 1, 1 };

	OK(cuTensorMapEncodeIm2col(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
				   (void *)(uintptr_t)0x7f0000000000, dims,
				   strides, lower, upper, 64, 128, steps,
				   CU_TENSOR_MAP_INTERLEAVE_NONE,
				   CU_TENSOR_MAP_SWIZZLE_128B,
				   CU_TENSOR_MAP_L2_PROMOTION_NONE,
				   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

int
main(void)
{
	CUtensorMap map, again, other;
	CUcontext ctx;
	CUresult r;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	memset(&map, 0, sizeof(map));
	r = cuTensorMapEncodeTiled ? tiled(&map, 0x7f0000000000, 2, 64) :
				     CUDA_ERROR_NOT_SUPPORTED;
	if (r == CUDA_ERROR_NOT_SUPPORTED) {
		puts("---  this driver has no tensor maps");
		return facts_end();
	}
	OK(r);
	show("of two dimensions", &map);
	OK(tiled(&again, 0x7f0000000000, 2, 64));
	fact("the same arguments give the same map",
	     !memcmp(&map, &again, sizeof(map)));
	OK(tiled(&other, 0x7f0000100000, 2, 64));
	fact("another address another one",
	     memcmp(&map, &other, sizeof(map)) != 0);
	OK(cuTensorMapReplaceAddress(&again,
				     (void *)(uintptr_t)0x7f0000100000));
	fact("whose address can be put in", !memcmp(&again, &other,
						    sizeof(other)));
	OK(tiled(&other, 0x7f0000000000, 5, 64));
	show("of five dimensions", &other);
	im2col(&other);
	show("im2col", &other);
	answers("six dimensions are too many",
		tiled(&other, 0x7f0000000000, 6, 64), CUDA_ERROR_INVALID_VALUE);
	answers("so are boxes of 257",
		tiled(&other, 0x7f0000000000, 2, 257),
		CUDA_ERROR_INVALID_VALUE);
	answers("addresses are aligned", tiled(&other, 0x7f0000000004, 2, 64),
		CUDA_ERROR_INVALID_VALUE);
	return facts_end();
}
