/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointer queries against what driver 580.159.04 answered on an H200 for a
 * block of 100 bytes, a pinned block of 10,000, and memory that is not CUDA's.
 */
#include <check.h>
#include <string.h>

#include "shim/ctx.h"
#include "shim/heap.h"
#include "shim/range.h"
#include "shim_impl.h"
#include "tests/unit/suite.h"

#define DEV UINT64_C(0x7f23b1e00000)
#define PIN UINT64_C(0x7f23b6c00000)
#define MAL UINT64_C(0x55caba837d50)
#define UNTOUCHED UINT64_C(0xabababababababab)
/* The low half written, the high half not. */
#define HALF(x) (UINT64_C(0xabababab00000000) | (uint32_t)(x))

static struct shim_context context = { .handle = 0xc0ffee, .device = 0 };
static struct shim_chunk dev_chunk = { DEV, 0x200000, 50, 0, 0, NULL, NULL,
				       NULL };
static struct shim_chunk pin_chunk = { PIN, 0x40000, 53, 0, 0, NULL, NULL,
				       NULL };
static struct shim_block dev_block = { .chunk = &dev_chunk };
static struct shim_block pin_block = { .chunk = &pin_chunk };

static void
setup(void)
{
	struct shim_range dev = {
		.start = DEV, .size = 100, .kind = RANGE_DEVICE,
		.ctx = &context, .block = &dev_block,
	};
	struct shim_range pin = {
		.start = PIN, .size = 10000, .kind = RANGE_PINNED,
		.ctx = &context, .block = &pin_block,
		.flags = CU_MEMHOSTALLOC_PORTABLE,
	};

	ck_assert_int_eq(shim_range_add(&dev), 0);
	ck_assert_int_eq(shim_range_add(&pin), 0);
	shim_current = &context;
}

static CUresult
one(int attribute, CUdeviceptr ptr, uint64_t *out_value)
{
	*out_value = UNTOUCHED;
	return shim_cuPointerGetAttribute(out_value,
					  (CUpointer_attribute)attribute, ptr);
}

struct row {
	int attribute;
	uint64_t value;
};

/* The singular call, and the plural one for the same attribute. */
static void
expect(CUdeviceptr ptr, const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		CUpointer_attribute attribute =
			(CUpointer_attribute)rows[i].attribute;
		uint64_t value;
		void *data = &value;
		CUresult r = one(rows[i].attribute, ptr, &value);

		/* HOST_POINTER of device memory: an error that writes. */
		ck_assert_int_eq(r, rows[i].attribute == 4 && ptr < PIN ?
				 CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
		ck_assert_msg(value == rows[i].value, "attribute %d: %llx",
			      rows[i].attribute, (unsigned long long)value);
		value = UNTOUCHED;
		ck_assert_int_eq(shim_cuPointerGetAttributes(1, &attribute,
							     &data, ptr), 0);
		ck_assert_uint_eq(value, rows[i].value);
	}
}

START_TEST(pointer_into_device_memory_answers_as_natively)
{
	static const struct row rows[] = {
		{ 1, 0xc0ffee }, { 2, HALF(2) }, { 3, DEV + 50 }, { 4, 0 },
		{ 6, HALF(0) }, { 8, HALF(0) }, { 9, HALF(0) },
		{ 10, HALF(1) }, { 11, DEV }, { 12, 100 }, { 13, HALF(1) },
		{ 14, 0 }, { 16, HALF(3) }, { 17, 0 }, { 18, 0x200000 },
		{ 19, DEV }, { 20, 50 },
	};

	expect(DEV + 50, rows, sizeof(rows) / sizeof(rows[0]));
}
END_TEST

START_TEST(pointer_into_pinned_memory_answers_as_natively)
{
	static const struct row rows[] = {
		{ 1, 0xc0ffee }, { 2, HALF(1) }, { 3, PIN + 5 },
		{ 4, PIN + 5 }, { 6, HALF(0) }, { 8, HALF(0) },
		{ 9, HALF(0) }, { 10, HALF(0) }, { 11, PIN }, { 12, 10000 },
		{ 13, HALF(1) }, { 14, 0 }, { 15, HALF(0) }, { 16, HALF(3) },
		{ 17, 0 }, { 18, 0x40000 }, { 19, PIN }, { 20, 53 },
		{ 21, HALF(0) },
	};

	expect(PIN + 5, rows, sizeof(rows) / sizeof(rows[0]));
}
END_TEST

START_TEST(pointer_past_the_end_of_a_block_is_unknown)
{
	uint64_t value;

	ck_assert_int_eq(one(2, DEV + 99, &value), CUDA_SUCCESS);
	ck_assert_int_eq(one(2, DEV + 100, &value), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(value, UNTOUCHED);
	ck_assert_int_eq(one(2, PIN + 10000, &value),
			 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(pointer_that_is_unknown_fails_alone_and_succeeds_in_a_list)
{
	static const struct row rows[] = {
		{ 1, 0 }, { 2, HALF(0) }, { 3, 0 }, { 4, MAL }, { 6, HALF(0) },
		{ 7, 0 }, { 8, HALF(0) }, { 9, HALF(-2) }, { 10, HALF(0) },
		{ 11, UNTOUCHED }, { 12, UNTOUCHED }, { 13, HALF(0) },
		{ 14, 0 }, { 15, HALF(0) }, { 16, HALF(0) }, { 17, 0 },
		{ 18, 0 }, { 19, 0 }, { 20, 0 }, { 21, HALF(0) },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CUpointer_attribute attribute =
			(CUpointer_attribute)rows[i].attribute;
		uint64_t value;
		void *data = &value;

		ck_assert_int_eq(one(rows[i].attribute, MAL, &value),
				 CUDA_ERROR_INVALID_VALUE);
		ck_assert_uint_eq(value, UNTOUCHED);
		ck_assert_int_eq(shim_cuPointerGetAttributes(1, &attribute,
							     &data, MAL), 0);
		ck_assert_msg(value == rows[i].value, "attribute %d: %llx",
			      rows[i].attribute, (unsigned long long)value);
	}
}
END_TEST

START_TEST(pointer_attribute_that_does_not_exist_is_refused)
{
	static const int none[] = { 0, 5, 22, 23, -1 };
	uint64_t value;

	for (int i = 0; i < 5; i++) {
		CUpointer_attribute list[2] = {
			CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
			(CUpointer_attribute)none[i],
		};
		void *data[2] = { &value, &value };

		ck_assert_int_eq(one(none[i], DEV, &value),
				 CUDA_ERROR_INVALID_VALUE);
		ck_assert_int_eq(shim_cuPointerGetAttributes(2, list, data,
							     DEV),
				 CUDA_ERROR_INVALID_VALUE);
		ck_assert_uint_eq(value, UNTOUCHED);
	}
	ck_assert_int_eq(shim_cuPointerGetAttribute(NULL, 2, DEV),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuPointerGetAttributes(0, NULL, NULL, DEV),
			 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(address_range_is_the_block_and_not_the_chunk)
{
	CUdeviceptr base = 1;
	size_t size = 1;

	ck_assert_int_eq(shim_cuMemGetAddressRange_v2(&base, &size, DEV + 99),
			 CUDA_SUCCESS);
	ck_assert_uint_eq(base, DEV);
	ck_assert_uint_eq(size, 100);
	ck_assert_int_eq(shim_cuMemGetAddressRange_v2(NULL, NULL, PIN + 5),
			 CUDA_SUCCESS);
	ck_assert_int_eq(shim_cuMemGetAddressRange_v2(&base, &size, DEV + 100),
			 CUDA_ERROR_NOT_FOUND);
	ck_assert_uint_eq(base, 0);
	ck_assert_uint_eq(size, 0);
}
END_TEST

START_TEST(host_queries_answer_for_pinned_memory_only)
{
	unsigned int flags = 77;
	CUdeviceptr ptr = 77;

	ck_assert_int_eq(shim_cuMemHostGetFlags(&flags, (void *)(PIN + 5)),
			 CUDA_SUCCESS);
	ck_assert_uint_eq(flags, CU_MEMHOSTALLOC_DEVICEMAP);
	ck_assert_int_eq(shim_cuMemHostGetFlags(&flags, (void *)MAL),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemHostGetFlags(NULL, (void *)PIN),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemHostGetDevicePointer_v2(
				 &ptr, (void *)(PIN + 5), 0), CUDA_SUCCESS);
	ck_assert_uint_eq(ptr, PIN + 5);
	ck_assert_int_eq(shim_cuMemHostGetDevicePointer_v2(
				 &ptr, (void *)PIN, 1),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemHostGetDevicePointer_v2(
				 &ptr, (void *)DEV, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(ptr, 0);
}
END_TEST

START_TEST(memory_calls_with_bad_arguments_answer_as_natively)
{
	CUdeviceptr ptr = 77;
	size_t pitch;
	void *p = &ptr;

	ck_assert_int_eq(shim_cuMemAlloc_v2(NULL, 10),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemAlloc_v2(&ptr, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(ptr, 0);
	ck_assert_int_eq(shim_cuMemFree_v2(0), CUDA_SUCCESS);
	ck_assert_int_eq(shim_cuMemFree_v2(DEV + 16),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemFree_v2(PIN), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemFree_v2(MAL), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemFreeHost(NULL), CUDA_SUCCESS);
	ck_assert_int_eq(shim_cuMemFreeHost((void *)MAL),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemFreeHost((void *)(PIN + 5)),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemHostAlloc(NULL, 10, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemHostAlloc(&p, 10, 8),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemHostAlloc(&p, 0, 0), CUDA_SUCCESS);
	ck_assert_ptr_null(p);
	ck_assert_int_eq(shim_cuMemAllocPitch_v2(&ptr, &pitch, 100, 3, 1),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemAllocPitch_v2(&ptr, &pitch, 0, 3, 4),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemAllocPitch_v2(&ptr, &pitch, 100, 0, 4),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemAllocPitch_v2(&ptr, &pitch, SIZE_MAX, 4, 4),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(shim_cuMemAllocPitch_v2(&ptr, NULL, 4, 4, 4),
			 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

SUITE_FIXTURE("pointer", setup, NULL,
	pointer_into_device_memory_answers_as_natively,
	pointer_into_pinned_memory_answers_as_natively,
	pointer_past_the_end_of_a_block_is_unknown,
	pointer_that_is_unknown_fails_alone_and_succeeds_in_a_list,
	pointer_attribute_that_does_not_exist_is_refused,
	address_range_is_the_block_and_not_the_chunk,
	host_queries_answer_for_pinned_memory_only,
	memory_calls_with_bad_arguments_answer_as_natively)
